"""Where blobs are written to: any object with `write`, small pieces joined, large ones passed on as they are.

Pieces are handed over once and never changed afterwards, so a stream may keep them.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.modified_utf8 import encode_utf

_PIECE_BYTES = 1 << 18
_ZEROS = memoryview(bytes(1 << 16))


class Stream(Protocol):
    """What blobs can be written to: files, sockets, buffers, uploads."""

    def write(self, data: memoryview, /) -> object:
        """Take the bytes; a number given back says how many of them were taken."""


class Output:
    """Writes the numbers, names and arrays of a blob to a stream (hollow-blob.md, section 1)."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._pending = bytearray()
        self.written = 0
        """Bytes written so far, those not yet passed on included."""

    def raw(self, data: bytes | bytearray) -> None:
        """Write bytes as they are."""
        self.written += len(data)
        self._pending += data
        if len(self._pending) >= _PIECE_BYTES:
            self.flush()

    def array(self, data: NDArray[np.uint8]) -> None:
        """Write an array that nobody changes any more."""
        if data.nbytes < _PIECE_BYTES:
            self.raw(data.tobytes())
            return
        self.flush()
        self.written += data.nbytes
        self._pass_on(data.data)

    def zeros(self, count: int) -> None:
        """Write that many zero bytes."""
        if count < _PIECE_BYTES:
            self.raw(bytes(count))
            return
        self.flush()
        self.written += count
        for start in range(0, count, len(_ZEROS)):
            self._pass_on(_ZEROS[: count - start])

    def int16(self, value: int) -> None:
        """Write an unsigned 16-bit number."""
        self.raw(value.to_bytes(2, "big"))

    def int32(self, value: int) -> None:
        """Write an unsigned 32-bit number."""
        self.raw(value.to_bytes(4, "big"))

    def int64(self, value: int) -> None:
        """Write an unsigned 64-bit number."""
        self.raw(value.to_bytes(8, "big"))

    def varint(self, value: int) -> None:
        """Write a VInt; -1 as its unsigned 32-bit value."""
        self.raw(varint(value & 0xFFFF_FFFF))

    def varlong(self, value: int) -> None:
        """Write a VLong."""
        self.raw(varint(value & 0xFFFF_FFFF_FFFF_FFFF))

    def utf(self, text: str) -> None:
        """Write a name: 2-byte length and modified UTF-8."""
        self.raw(encode_utf(text))

    def flush(self) -> None:
        """Pass on what is pending."""
        if self._pending:
            pending, self._pending = self._pending, bytearray()
            self._pass_on(memoryview(pending).toreadonly())

    def _pass_on(self, data: memoryview) -> None:
        while len(data):
            taken = self._stream.write(data)
            # Only raw, unbuffered streams take less than they are given.
            data = data[taken:] if isinstance(taken, int) and 0 <= taken < len(data) else data[:0]


def varint(value: int) -> bytes:
    """The base-128 groups of a number, most significant group first."""
    if value < 0x80:
        return bytes((value,))
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(0x80 | value & 0x7F)
    return bytes(reversed(groups))
