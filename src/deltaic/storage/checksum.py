"""The checksum of a blob: CRC-32C, written `crc32c:` and eight hexadecimal digits.

It finds every error burst up to 32 bits and all but one in four billion of the others. It is no proof against a forger:
who may write to a store may also write its announcement.
"""

import os
import re

from deltaic.errors import ChecksumError, DecodeError
from deltaic.kernels import crc
from deltaic.storage.store import Data
from deltaic.storage.transfer import file_chunks

ALGORITHM = "crc32c"
"""The one algorithm of the announcement's format 1."""

_PATTERN = re.compile(r"crc32c:[0-9a-f]{8}")


class Checksum:
    """A checksum in the making, for bytes that arrive in pieces."""

    __slots__ = ("size_bytes", "value")

    def __init__(self, value: int = 0, size_bytes: int = 0) -> None:
        self.value, self.size_bytes = value, size_bytes

    def update(self, data: Data) -> None:
        """Take the next piece."""
        view = memoryview(data).cast("B")
        self.value = crc.crc32c(view, self.value)
        self.size_bytes += len(view)

    def joined(self, following: "Checksum") -> "Checksum":
        """The checksum of two stretches that were computed apart."""
        value = crc.combine(self.value, following.value, following.size_bytes)
        return Checksum(value, self.size_bytes + following.size_bytes)

    def text(self) -> str:
        """The written form: `crc32c:0123abcd`."""
        return f"{ALGORITHM}:{self.value:08x}"


def checksum(data: Data) -> str:
    """The written checksum of bytes."""
    total = Checksum()
    total.update(data)
    return total.text()


def checksum_file(path: str | os.PathLike[str]) -> tuple[str, int]:
    """The written checksum and the size of a local file."""
    total = Checksum()
    for piece in file_chunks(path):
        total.update(piece)
    return total.text(), total.size_bytes


def check_text(text: str, at: str) -> str:
    """Give a written checksum back if this version knows its form."""
    if not _PATTERN.fullmatch(text):
        raise DecodeError("UnknownChecksum", f"the checksum {text[:40]!r} is none that this version knows", at)
    return text


def verify(data: Data, expected: str, at: str) -> None:
    """Raise ChecksumError if the bytes are not those that were announced."""
    _compare(checksum(data), check_text(expected, at), at)


def verify_file(path: str | os.PathLike[str], expected: str, size_bytes: int, at: str) -> None:
    """Raise ChecksumError if the file is not the one that was announced."""
    check_text(expected, at)
    found, found_bytes = checksum_file(path)
    if found_bytes != size_bytes:
        raise ChecksumError("WrongSize", f"{found_bytes:,} bytes where {size_bytes:,} were announced", at)
    _compare(found, expected, at)


def _compare(found: str, expected: str, at: str) -> None:
    if found != expected:
        raise ChecksumError("WrongChecksum", f"checksum {found} where {expected} was announced", at)
