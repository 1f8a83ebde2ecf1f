"""Version files: the bytes of one commit.

The first bytes tell the encoding: `01 01` and a gzip stream, a bare gzip stream (`1f 8b`), or plain JSON lines. We
write the first: it is the only compressed form that every generation reads. The comment of the gzip header holds the
random token of the commit: no reader looks at it, and after an answer that got lost the bytes tell whose commit it is.
"""

import struct
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from deltaic.errors import DecodeError
from deltaic.storage import Codec, decompress
from deltaic.table.actions import Action, AddFile, Metadata, Protocol, RemoveFile, SkipFile, read_actions

MAX_VERSION_BYTES: Final = 512 << 20
"""What a version file may unpack to."""

NAME_DIGITS: Final = 20
MAX_VERSION: Final = 2**63 - 2

_CONTAINER_GZIP = b"\x01\x01"
_GZIP = b"\x1f\x8b"


def version_name(version: int) -> str:
    """The name of a version's file."""
    return f"{version:0{NAME_DIGITS}}.json"


def version_number(name: str) -> int | None:
    """The version whose file has this name, or None if it is no version file."""
    digits, dot, end = name.partition(".")
    if dot and end == "json" and len(digits) == NAME_DIGITS and digits.isascii() and digits.isdigit():
        number = int(digits)
        return number if number <= MAX_VERSION else None
    return None


def unpack_text(data: bytes, name: str) -> bytes:
    """The JSON lines of a version file or a JSON checkpoint."""
    if data[:2] == _GZIP:
        return decompress(data, Codec.GZIP, MAX_VERSION_BYTES, name=name)
    if data[:1] == b"\x01":
        if data[1:2] != b"\x01":
            raise DecodeError("UnknownCodec", f"compressed by the unknown codec {data[1:2].hex() or 'none'}", name)
        return decompress(data[2:], Codec.GZIP, MAX_VERSION_BYTES, name=name)
    if data[:1] in (b"{", b" ", b"\t", b"\r", b"\n", b""):
        if len(data) > MAX_VERSION_BYTES:
            raise DecodeError("TooLarge", f"{len(data):,} bytes, the limit is {MAX_VERSION_BYTES:,}", name)
        return data
    raise DecodeError(
        "UnknownEncoding", f"starts with {data[:2].hex()}, which no encoding of a version file does", name
    )


def pack_text(text: bytes, *, compressed: bool, token: str = "") -> bytes:
    """The bytes of a version file or JSON checkpoint; a token goes where no reader looks."""
    if not compressed:
        return text
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = packer.compress(text) + packer.flush()
    comment = token.encode("ascii") + b"\0" if token else b""
    header = _GZIP + bytes((8, 0x10 if comment else 0)) + b"\0\0\0\0\x00\xff" + comment
    return _CONTAINER_GZIP + header + body + struct.pack("<II", zlib.crc32(text), len(text) & 0xFFFF_FFFF)


@dataclass(frozen=True)
class VersionFile:
    """The actions of one version, in order."""

    version: int
    actions: tuple[Action, ...]
    size_bytes: int = 0
    etag: str = ""
    """Of the file in its store, where it is known."""

    @classmethod
    def read(cls, version: int, data: bytes, name: str, etag: str = "") -> "VersionFile":
        """Decode the bytes of a version file."""
        return cls(version, tuple(read_actions(unpack_text(data, name), name)), len(data), etag)

    @cached_property
    def adds(self) -> tuple[AddFile, ...]:
        """Its add actions."""
        return tuple(action for action in self.actions if isinstance(action, AddFile))

    @cached_property
    def removes(self) -> tuple[RemoveFile, ...]:
        """Its remove actions."""
        return tuple(action for action in self.actions if isinstance(action, RemoveFile))

    @cached_property
    def skips(self) -> tuple[SkipFile, ...]:
        """Its skip actions."""
        return tuple(action for action in self.actions if isinstance(action, SkipFile))

    @cached_property
    def metadata(self) -> Metadata | None:
        """Its last metaData action."""
        return next((action for action in reversed(self.actions) if isinstance(action, Metadata)), None)

    @cached_property
    def protocol(self) -> Protocol | None:
        """Its last protocol action."""
        return next((action for action in reversed(self.actions) if isinstance(action, Protocol)), None)
