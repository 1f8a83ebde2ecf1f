"""Reading and writing a payload: LEB128 numbers, gaps, blocks of words (vector-delta.md, "numbers").

A number has one valid form, the shortest. Every length is checked against what is left before memory is taken.
"""

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import vectors
from deltaic.wire.vectors.bounds import VectorLimits
from deltaic.wire.vectors.faults import fault

Words = NDArray[np.uint32]

_GAP_FAULTS = {
    1: ("IndexOrder", "indices do not rise"),
    2: ("IndexOutOfRange", "an index is not below the number of dimensions"),
    3: ("Truncated", "a number is cut off"),
    4: ("InvalidVarint", "a number is too long, too large or not in its shortest form"),
}


def uleb(value: int) -> bytes:
    """A number as unsigned LEB128."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def ulebs(values: NDArray[np.uint32]) -> bytes:
    """Numbers as unsigned LEB128, one after another."""
    if not len(values) or int(values.max()) < 0x80:
        return values.astype(np.uint8).tobytes()
    return b"".join(uleb(value) for value in values.tolist())


class PayloadReader:
    """A position in payload bytes that are distrusted."""

    __slots__ = ("data", "name", "planes", "position", "shift", "view")

    def __init__(self, data: bytes | memoryview, name: str, *, shift: int = 0, planes: bool = False) -> None:
        self.view = memoryview(data).cast("B")
        self.data: NDArray[np.uint8] = np.frombuffer(self.view, np.uint8)
        self.name, self.shift, self.planes = name, shift, planes
        self.position = 0

    @property
    def remaining(self) -> int:
        """Bytes that are left."""
        return len(self.view) - self.position

    def where(self) -> str:
        """File and byte, for errors."""
        return f"{self.name}: byte {self.position + self.shift}"

    def fail(self, code: str, reason: str) -> NoReturn:
        """Raise the error of this place."""
        raise fault(code, reason, self.where())

    def byte(self) -> int:
        """Read one byte."""
        return self.take(1)[0]

    def take(self, count: int) -> memoryview:
        """Read some bytes."""
        if count > self.remaining:
            self.fail("Truncated", f"{count} bytes wanted, {self.remaining} left")
        start = self.position
        self.position += count
        return self.view[start : self.position]

    def uleb32(self) -> int:
        """Read a number below 2^32."""
        return self._uleb(5, 32)

    def uleb64(self) -> int:
        """Read a number below 2^64."""
        return self._uleb(10, 64)

    def words(self, count: int) -> Words:
        """Read a block of 32-bit words."""
        return self._block(count, 4).view(np.uint32)

    def halves(self, count: int) -> NDArray[np.uint16]:
        """Read a block of 16-bit words."""
        return self._block(count, 2).view(np.uint16)

    def gaps(self, count: int, dims: int) -> Words:
        """Read rising indices."""
        indices, self.position, wrong = vectors.read_gaps(self.data, self.position, count, dims)
        if wrong:
            self.fail(*_GAP_FAULTS[wrong])
        return indices

    def runs(self, count: int, dims: int) -> tuple[Words, Words]:
        """Read starts and lengths of runs."""
        starts, lengths, self.position, wrong = vectors.read_runs(self.data, self.position, count, dims)
        if wrong:
            self.fail(*_GAP_FAULTS[wrong])
        return starts, lengths

    def dims(self, limits: VectorLimits) -> int:
        """Read a number of dimensions."""
        dims = self.uleb32()
        self.check_dims(dims, limits)
        return dims

    def check_dims(self, dims: int, limits: VectorLimits) -> None:
        """Refuse a number of dimensions that cannot be."""
        if not dims:
            self.fail("InvalidDims", "a vector without dimensions")
        if dims > limits.max_dims:
            self.fail("LimitExceeded", f"{dims:,} dimensions, the limit is {limits.max_dims:,}")

    def end(self) -> None:
        """Refuse bytes that are left over."""
        if self.remaining:
            self.fail("TrailingData", f"{self.remaining} bytes are left over")

    def _block(self, count: int, width: int) -> NDArray[np.uint8]:
        start = self.position
        self.take(count * width)
        data = self.data[start : self.position]
        return vectors.from_planes(data, width) if self.planes else data.copy()

    def _uleb(self, most_bytes: int, bits: int) -> int:
        value = 0
        for length in range(most_bytes):
            if self.position + length >= len(self.view):
                self.fail("Truncated", "a number is cut off")
            byte = self.view[self.position + length]
            value |= (byte & 0x7F) << 7 * length
            if byte < 0x80:
                if value >> bits or (length and not byte):
                    break
                self.position += length + 1
                return value
        self.fail(*_GAP_FAULTS[4])
