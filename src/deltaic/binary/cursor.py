"""A cursor over bytes: every header and count of a blob is read through it.

It checks each length against what is left before it takes anything, and its errors say which file and which byte.
Numbers follow hollow-blob.md, "primitives": fixed-width integers are big-endian; varints are base-128 groups, most
significant group first, and a first byte of 0x80 never starts a number. Columns go through `kernels`.
"""

from mmap import mmap
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from deltaic.binary import modified_utf8
from deltaic.errors import DecodeError

ReadableBuffer = bytes | bytearray | memoryview | mmap
"""What a cursor reads from."""

_MAX_VARINT_BYTES = 5
_MAX_VARLONG_BYTES = 10


class Cursor:
    """A position in bytes that are distrusted."""

    __slots__ = ("data", "name", "position", "view")

    def __init__(self, data: ReadableBuffer, name: str = "<bytes>") -> None:
        self.view = memoryview(data).cast("B")
        self.data: NDArray[np.uint8] = np.frombuffer(self.view, np.uint8)
        self.name = name
        self.position = 0

    @property
    def remaining(self) -> int:
        """Bytes that are left."""
        return len(self.view) - self.position

    def where(self) -> str:
        """File and byte, for errors."""
        return f"{self.name}: byte {self.position}"

    def fail(self, code: str, reason: str) -> NoReturn:
        """Raise a DecodeError for this place."""
        raise DecodeError(code, reason, self.where())

    def need(self, count: int) -> None:
        """Refuse if fewer than `count` bytes are left."""
        if count < 0 or count > self.remaining:
            self.fail("Truncated", f"{count} bytes wanted, {self.remaining} left")

    def byte(self) -> int:
        """Read one byte."""
        if self.position >= len(self.view):
            self.fail("Truncated", "the data end where a byte must stand")
        value = self.view[self.position]
        self.position += 1
        return value

    def int16(self) -> int:
        """Read an unsigned 16-bit number."""
        return self._fixed(2)

    def int32(self) -> int:
        """Read an unsigned 32-bit number."""
        return self._fixed(4)

    def int64(self) -> int:
        """Read an unsigned 64-bit number."""
        return self._fixed(8)

    def varint(self) -> int:
        """Read a VInt as an unsigned 32-bit number."""
        return self._variable(_MAX_VARINT_BYTES) & 0xFFFF_FFFF

    def varlong(self) -> int:
        """Read a VLong as an unsigned 64-bit number."""
        return self._variable(_MAX_VARLONG_BYTES) & 0xFFFF_FFFF_FFFF_FFFF

    def max_ordinal(self) -> int:
        """Read a VInt that is -1 or an ordinal."""
        start = self.position
        value = self.varint()
        if value == 0xFFFF_FFFF:
            return -1
        if value > 0x7FFF_FFFF:
            self.position = start
            self.fail("BadOrdinal", f"{value:,} is no ordinal")
        return value

    def utf(self) -> str:
        """Read a name: 2-byte length and modified UTF-8."""
        length = self.int16()
        at = self.where()
        return modified_utf8.decode(bytes(self.take(length)), at)

    def take(self, count: int) -> memoryview:
        """The next `count` bytes, without copying."""
        self.need(count)
        start = self.position
        self.position = start + count
        return self.view[start : self.position]

    def array(self, count: int) -> NDArray[np.uint8]:
        """The next `count` bytes as an array, without copying."""
        self.need(count)
        start = self.position
        self.position = start + count
        return self.data[start : self.position]

    def skip(self, count: int) -> None:
        """Pass over `count` bytes."""
        self.need(count)
        self.position += count

    def _fixed(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def _variable(self, max_bytes: int) -> int:
        view, position, end = self.view, self.position, len(self.view)
        value = 0
        for length in range(max_bytes):
            if position + length >= end:
                self.fail("Truncated", "the data end inside a number")
            byte = view[position + length]
            if length == 0 and byte == 0x80:
                self.fail("Null", "null where a number must stand")
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                self.position = position + length + 1
                return value
        self.fail("InvalidVarint", f"a number runs past {max_bytes} bytes")
