"""Columns from bytes that are distrusted (docs/formats/patches.md, "columns").

Sizes are held against what is left of the bytes, and rows against the limit of cells, before memory is taken.
"""

from typing import Any, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.binary.buffers import SLACK
from deltaic.errors import DecodeError, LimitError
from deltaic.kernels import bits
from deltaic.wire.patches.bounds import PatchLimits
from deltaic.wire.patches.columns import DTYPES, ColumnKind, PatchColumn
from deltaic.wire.patches.layout import (
    ABSENT_EXTENSION,
    CONSTANT,
    PACKED_NUMBERS,
    PACKED_STEPS,
    TEXT_EXTENSION,
    VECTOR_EXTENSION,
)
from deltaic.wire.patches.patch import ABSENT
from deltaic.wire.vectors import read_frames

_MOST_NUMBER_BYTES = 10
_MASK = 0xFFFF_FFFF_FFFF_FFFF


class BodyReader:
    """A position in the body of a frame."""

    def __init__(self, data: bytes | memoryview, name: str, limits: PatchLimits) -> None:
        self.view = memoryview(data)
        self.name, self.limits = name, limits
        self.position = 0
        self._cells = limits.max_cells

    @property
    def remaining(self) -> int:
        """Bytes that are left."""
        return len(self.view) - self.position

    def where(self) -> str:
        """File and byte, for errors."""
        return f"{self.name}: byte {self.position} of the body"

    def fail(self, code: str, reason: str) -> NoReturn:
        """Raise a DecodeError for this place."""
        raise DecodeError(code, reason, self.where())

    def byte(self) -> int:
        """Read one byte."""
        return self.take(1)[0]

    def take(self, count: int) -> memoryview:
        """The next bytes, without copying."""
        if count > self.remaining:
            self.fail("Truncated", f"{count:,} bytes wanted, {self.remaining:,} left")
        self.position += count
        return self.view[self.position - count : self.position]

    def number(self) -> int:
        """Read an unsigned number of 64 bits, in its one spelling."""
        value = 0
        for length in range(_MOST_NUMBER_BYTES):
            byte = self.byte()
            value |= (byte & 0x7F) << 7 * length
            if byte < 0x80:
                if value > _MASK or (length and not byte):
                    self.fail("InvalidVarint", "a number is longer than it must be, or than 64 bits")
                return value
        self.fail("InvalidVarint", f"a number runs past {_MOST_NUMBER_BYTES} bytes")

    def signed(self) -> int:
        """Read a signed number of 64 bits."""
        value = self.number()
        return value >> 1 ^ -(value & 1)

    def bounded(self, most: int, what: str) -> int:
        """Read a number that is limited."""
        value = self.number()
        if value > most:
            raise LimitError("LimitExceeded", f"{value:,} {what}, the limit is {most:,}", self.where())
        return value

    def text(self) -> str:
        """Read a text."""
        length = self.number()
        at = self.where()
        try:
            return bytes(self.take(length)).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise DecodeError("InvalidUtf8", f"no UTF-8: {error.reason}", at) from error

    def spend(self, cells: int) -> None:
        """Refuse if this many more values are over the limit of the frame."""
        self._cells -= cells
        if self._cells < 0:
            raise LimitError(
                "LimitExceeded", f"the frame holds over {self.limits.max_cells:,} values in its columns", self.where()
            )

    def column(self, count: int) -> PatchColumn:
        """Read a column of so many rows."""
        self.spend(count)
        given = self.byte()
        if given > ColumnKind.VECTOR:
            self.fail("UnknownKind", f"a column of kind {given}, this reader knows 0 to 8")
        kind = ColumnKind(given)
        if kind is ColumnKind.NULL:
            return PatchColumn(kind, count)
        valid = self._validity(count)
        present = count if valid is None else int(np.count_nonzero(valid))
        match kind:
            case ColumnKind.VECTOR:
                return self._vectors(count, valid)
            case ColumnKind.ANY:
                return self._any(count, valid)
            case ColumnKind.TEXT | ColumnKind.BYTES:
                return self._pieces(kind, count, present, valid)
            case ColumnKind.INT:
                found: NDArray[Any] = self.integers(present)
            case ColumnKind.BOOL:
                packed = np.frombuffer(self.take((present + 7) // 8), np.uint8)
                found = np.unpackbits(packed, count=present, bitorder="little").view(np.bool_)
            case _:
                dtype = np.dtype(DTYPES[kind])
                planes = np.frombuffer(self.take(present * dtype.itemsize), np.uint8)
                turned = np.ascontiguousarray(planes.reshape(dtype.itemsize, -1).T)
                found = turned.reshape(-1).view(dtype.newbyteorder("<")).astype(dtype, copy=False)
        if valid is not None:
            whole = np.zeros(count, DTYPES[kind])
            whole[valid] = found
            found = whole
        return PatchColumn(kind, count, valid, found)

    def integers(self, count: int) -> NDArray[np.int64]:
        """Read so many 64-bit integers."""
        mode = self.byte()
        if mode > PACKED_STEPS:
            self.fail("UnknownForm", f"integers in form {mode}, this reader knows 0 to 2")
        first = self.signed()
        if mode == CONSTANT:
            return np.full(count, first, np.int64)
        if not count:
            self.fail("MalformedColumn", "packed integers where there are none")
        if mode == PACKED_NUMBERS:
            return self._unpacked(count) + np.int64(first)
        step = self.signed()
        steps = self._unpacked(count - 1)
        found = np.empty(count, np.int64)
        found[0] = first
        with np.errstate(over="ignore"):
            np.cumsum(steps + np.int64(step), out=found[1:])
            found[1:] += np.int64(first)
        return found

    def _unpacked(self, count: int) -> NDArray[np.int64]:
        width = self.byte()
        if width > 64:
            self.fail("MalformedColumn", f"integers of {width} bits")
        size = (count * width + 7) // 8
        # Kernels read whole words behind the last element.
        data = np.zeros((size + SLACK + 7) & ~7, np.uint8)
        data[:size] = np.frombuffer(self.take(size), np.uint8)
        return bits.decode(data, 0, width, width, count).view(np.int64)

    def _validity(self, count: int) -> NDArray[np.bool_] | None:
        form = self.byte()
        if form > 1:
            self.fail("UnknownForm", f"nulls in form {form}, this reader knows 0 and 1")
        if not form:
            return None
        packed = np.frombuffer(self.take((count + 7) // 8), np.uint8)
        return np.unpackbits(packed, count=count, bitorder="little").view(np.bool_)

    def _pieces(self, kind: ColumnKind, count: int, present: int, valid: NDArray[np.bool_] | None) -> PatchColumn:
        lengths = self.integers(present)
        # No single length may pass what is left, so that the sum cannot wrap.
        if present and (int(lengths.min()) < 0 or int(lengths.max()) > self.remaining):
            self.fail("Truncated", "a value is longer than the bytes that are left")
        total = int(lengths.sum(dtype=np.int64))
        at = self.where()
        data = np.frombuffer(bytes(self.take(total)), np.uint8)
        if valid is not None:
            whole = np.zeros(count, np.int64)
            whole[valid] = lengths
            lengths = whole
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if kind is ColumnKind.TEXT:
            _check_texts(data, offsets, at)
        return PatchColumn(kind, count, valid, offsets=offsets, data=data)

    def _any(self, count: int, valid: NDArray[np.bool_] | None) -> PatchColumn:
        if valid is not None:
            self.fail("MalformedColumn", "values of any kind hold their nulls themselves")
        length = self.number()
        at = self.where()
        data = self.take(length)
        try:
            items = msgspec.msgpack.decode(data, ext_hook=_extension)
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError, OverflowError) as error:
            raise DecodeError("MalformedValue", f"no MessagePack: {error}", at) from error
        if not isinstance(items, list) or len(items) != count:
            raise DecodeError("MalformedColumn", f"not an array of {count:,} values", at)
        return PatchColumn(ColumnKind.ANY, count, items=tuple(items))

    def _vectors(self, count: int, valid: NDArray[np.bool_] | None) -> PatchColumn:
        if valid is not None:
            self.fail("MalformedColumn", "a delta of a vector cannot be null")
        length = self.number()
        at = self.where()
        data = bytes(self.take(length))
        dims = set()
        for frame in read_frames(data, name=at):
            if len(frame) and int(frame.row_ids[-1]) >= count:
                raise DecodeError("IndexOutOfRange", f"a delta of row {frame.row_ids[-1]} of {count:,}", at)
            dims.add((frame.dims, frame.relative, frame.has_prev))
        if len(dims) != 1:
            raise DecodeError("MalformedColumn", "no frame, or frames of different dimensions or forms", at)
        return PatchColumn(ColumnKind.VECTOR, count, frames=data)


def _check_texts(data: NDArray[np.uint8], offsets: NDArray[np.int64], at: str) -> None:
    """Every text must be whole: characters may not run from one into the next."""
    if not len(data) or int(data.max()) < 0x80:
        return
    try:
        data.tobytes().decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise DecodeError("InvalidUtf8", f"no UTF-8: {error.reason}", at) from error
    starts = offsets[:-1][np.diff(offsets) > 0]
    if bool(((data[starts] & 0xC0) == 0x80).any()):
        raise DecodeError("InvalidUtf8", "a text starts inside a character", at)


def _extension(code: int, data: memoryview) -> Any:
    if code == ABSENT_EXTENSION and not len(data):
        return ABSENT
    if code == VECTOR_EXTENSION and not len(data) % 4:
        return np.frombuffer(bytes(data), "<f4").astype(np.float32)
    if code == TEXT_EXTENSION:
        return bytes(data).decode("utf-8", "surrogatepass")
    raise ValueError(f"extension {code} of {len(data)} bytes is not known")
