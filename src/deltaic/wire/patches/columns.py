"""Columns of a patch group: keys, values, previous values, as arrays with nulls."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.wire.vectors import FRAME_OPTIONS, Frame, VectorDelta, read_frames
from deltaic.wire.vectors.frame_write import write_frame
from deltaic.wire.vectors.layout import Column as VectorBuffer
from deltaic.wire.vectors.layout import Type
from deltaic.wire.vectors.options import Flag, Format

Mask = NDArray[np.bool_]


class ColumnKind(IntEnum):
    """What the values of a column are. The number is the one on the wire."""

    NULL = 0
    BOOL = 1
    INT = 2
    FLOAT64 = 3
    TEXT = 4
    BYTES = 5
    FLOAT32 = 6
    ANY = 7
    VECTOR = 8


DTYPES: dict[ColumnKind, Any] = {
    ColumnKind.BOOL: np.bool_,
    ColumnKind.INT: np.int64,
    ColumnKind.FLOAT64: np.float64,
    ColumnKind.FLOAT32: np.float32,
}
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_KINDS = {
    type(None): ColumnKind.NULL,
    bool: ColumnKind.BOOL,
    int: ColumnKind.INT,
    float: ColumnKind.FLOAT64,
    str: ColumnKind.TEXT,
    bytes: ColumnKind.BYTES,
    np.float32: ColumnKind.FLOAT32,
    np.float64: ColumnKind.FLOAT64,
    np.bool_: ColumnKind.BOOL,
    np.int64: ColumnKind.INT,
    np.int32: ColumnKind.INT,
    VectorDelta: ColumnKind.VECTOR,
}


@dataclass(frozen=True, slots=True, eq=False)
class PatchColumn:
    """One value for every patch of a group.

    `values` holds numbers or truth values, one for each row, with zero where a row is null; texts and bytes are
    `data[offsets[i]:offsets[i + 1]]` (UTF-8; a lone surrogate as its three bytes); other values are in `items`;
    deltas of vectors are in `frames`, whose row ids are the rows of the group.
    """

    kind: ColumnKind
    count: int
    valid: Mask | None = None
    """False where a value is null; None if no value is, or all are and the kind is NULL."""
    values: NDArray[Any] | None = None
    offsets: NDArray[np.int64] | None = None
    data: NDArray[np.uint8] | None = None
    items: tuple[Any, ...] | None = None
    frames: bytes | None = None

    def __len__(self) -> int:
        return self.count

    @classmethod
    def of(cls, values: Sequence[Any], kind: ColumnKind | None = None) -> "PatchColumn":
        """The column of Python values, of the narrowest kind that keeps them."""
        if kind is None:
            kind = common_kind(values)
        if kind is ColumnKind.NULL:
            return cls(kind, len(values))
        if kind is ColumnKind.VECTOR:
            return cls.of_deltas(values)
        if kind is ColumnKind.ANY:
            return cls(kind, len(values), items=tuple(values))
        present = [value for value in values if value is not None]
        valid = None
        if len(present) < len(values):
            valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
        if kind in (ColumnKind.TEXT, ColumnKind.BYTES):
            pieces = [
                b"" if value is None else value.encode("utf-8", "surrogatepass") if kind is ColumnKind.TEXT else value
                for value in values
            ]
            return cls.of_pieces(kind, pieces, valid)
        whole = np.zeros(len(values), DTYPES[kind])
        try:
            whole[slice(None) if valid is None else valid] = present
        except OverflowError:
            return cls(ColumnKind.ANY, len(values), items=tuple(values))
        return cls(kind, len(values), valid, whole)

    @classmethod
    def of_pieces(cls, kind: ColumnKind, pieces: Sequence[bytes], valid: Mask | None = None) -> "PatchColumn":
        """A column of texts or bytes."""
        offsets = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, pieces), np.int64, len(pieces)), out=offsets[1:])
        return cls(kind, len(pieces), valid, offsets=offsets, data=np.frombuffer(b"".join(pieces), np.uint8))

    @classmethod
    def of_array(cls, values: NDArray[Any], valid: Mask | None = None) -> "PatchColumn":
        """The column of an array of truth values, integers or floats."""
        match values.dtype.kind, values.dtype.itemsize:
            case "b", _:
                kind = ColumnKind.BOOL
            case "i", _:
                kind = ColumnKind.INT
            case "u", size if size < 8:
                kind = ColumnKind.INT
            case "f", 4:
                kind = ColumnKind.FLOAT32
            case "f", 8:
                kind = ColumnKind.FLOAT64
            case _:
                raise InputError(f"an array of {values.dtype} is no column of patches", "WrongType")
        plain = np.ascontiguousarray(values, DTYPES[kind])
        if valid is not None and valid.all():
            valid = None
        if valid is not None:
            plain = np.where(valid, plain, np.zeros(1, plain.dtype))
        return cls(kind, len(plain), valid, plain)

    @classmethod
    def of_deltas(cls, deltas: Sequence[VectorDelta]) -> "PatchColumn":
        """The column of deltas of vectors that all have the same dimensions and form."""
        return cls(ColumnKind.VECTOR, len(deltas), frames=_frame_of(deltas))

    def to_list(self) -> list[Any]:
        """The values as Python objects, None for null."""
        if self.kind is ColumnKind.NULL:
            return [None] * self.count
        if self.kind is ColumnKind.ANY:
            assert self.items is not None
            return list(self.items)
        if self.kind is ColumnKind.VECTOR:
            return self._deltas()
        found: list[Any]
        if self.kind in (ColumnKind.TEXT, ColumnKind.BYTES):
            assert self.offsets is not None and self.data is not None
            whole, ends = self.data.tobytes(), self.offsets.tolist()
            if self.kind is ColumnKind.BYTES:
                found = [whole[start:end] for start, end in pairwise(ends)]
            elif whole.isascii():
                letters = whole.decode("ascii")
                found = [letters[start:end] for start, end in pairwise(ends)]
            else:
                found = [whole[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(ends)]
        else:
            assert self.values is not None
            found = list(self.values) if self.kind is ColumnKind.FLOAT32 else self.values.tolist()
        if self.valid is not None:
            for row in np.flatnonzero(~self.valid).tolist():
                found[row] = None
        return found

    def picked(self, rows: NDArray[np.int64]) -> "PatchColumn":
        """The values of some rows, in the order given; for deltas of vectors the rows must rise."""
        valid = None if self.valid is None else self.valid[rows]
        if valid is not None and valid.all():
            valid = None
        if self.values is not None:
            return PatchColumn(self.kind, len(rows), valid, self.values[rows])
        if self.items is not None:
            return PatchColumn(self.kind, len(rows), valid, items=tuple(self.items[row] for row in rows.tolist()))
        if self.offsets is not None and self.data is not None:
            lengths = np.diff(self.offsets)[rows]
            offsets = np.zeros(len(rows) + 1, np.int64)
            np.cumsum(lengths, out=offsets[1:])
            places = np.arange(int(offsets[-1])) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
            return PatchColumn(self.kind, len(rows), valid, offsets=offsets, data=self.data[places])
        if self.frames is not None:
            deltas = self._deltas()
            return PatchColumn.of_deltas([deltas[row] for row in rows.tolist()])
        return PatchColumn(self.kind, len(rows))

    def read_frames(self) -> list[Frame]:
        """The frames of a column of deltas of vectors."""
        assert self.frames is not None
        return list(read_frames(self.frames, name="patches"))

    def _deltas(self) -> list[Any]:
        found: list[Any] = [None] * self.count
        for frame in self.read_frames():
            for row, _, delta in frame.rows():
                found[row] = delta if found[row] is None else found[row].then(delta)
            dims = frame.dims
        return [VectorDelta.identity(dims) if delta is None else delta for delta in found]


def common_kind(values: Iterable[Any]) -> ColumnKind:
    """The narrowest kind that keeps all values."""
    kinds = {_KINDS.get(each, ColumnKind.ANY) for each in set(map(type, values))} - {ColumnKind.NULL}
    if not kinds:
        return ColumnKind.NULL
    # An integer past 64 bits is found when the column is made.
    return kinds.pop() if len(kinds) == 1 else ColumnKind.ANY


def kind_of(value: Any) -> ColumnKind:
    """The kind of column that one value asks for."""
    kind = _KINDS.get(type(value), ColumnKind.ANY)
    if kind is ColumnKind.INT and not _LEAST <= value <= _MOST:
        return ColumnKind.ANY
    return kind


def delta_form(value: Any) -> tuple[int, bool, bool]:
    """What the deltas of one column have in common."""
    if not isinstance(value, VectorDelta):
        raise InputError(f"a VECTOR patch takes a VectorDelta, not a {type(value).__name__}", "WrongType")
    return value.dims, value.relative, value.prev is not None


def _frame_of(deltas: Sequence[VectorDelta]) -> bytes:
    """One frame of deltas: a row is a row of the group."""
    forms = {delta_form(delta) for delta in deltas}
    if len(forms) != 1:
        raise InputError("the deltas of a column differ in dimensions or form", "DimensionMismatch")
    dims, relative, has_prev = forms.pop()
    rows = [row for row, delta in enumerate(deltas) if not delta.is_identity]
    changed = [deltas[row] for row in rows]
    flags = Flag.RELATIVE if relative else Flag.HAS_PREV if has_prev else 0
    columns: dict[tuple[int, int], NDArray[Any]] = {}
    if changed:
        offsets = np.zeros(len(changed) + 1, np.int64)
        np.cumsum([len(delta.indices) for delta in changed], out=offsets[1:])
        indices = np.concatenate([delta.indices for delta in changed]).astype(np.int64)
        gaps = np.diff(indices, prepend=np.int64(0))
        gaps[offsets[:-1]] = indices[offsets[:-1]]
        words = np.concatenate([delta.words for delta in changed]).astype(np.uint32)
        if relative:
            words = words << np.uint32(1) ^ (words.view(np.int32) >> 31).view(np.uint32)
        sparse = int(Format.SPARSE)
        columns = {
            (sparse, VectorBuffer.ROW_IDS): np.array(rows, np.int64),
            (sparse, VectorBuffer.OFFSETS): offsets,
            (sparse, VectorBuffer.GAPS): gaps.astype(np.uint32),
            (sparse, VectorBuffer.VALUES): words if relative else words.view(np.float32),
        }
        if has_prev:
            prev = [delta.prev for delta in changed if delta.prev is not None]
            columns[sparse, VectorBuffer.PREV] = np.concatenate(prev).astype(np.uint32).view(np.float32)
    value_type = Type.U32 if relative else Type.F32
    return write_frame(dims, int(flags), len(rows), columns, value_type, FRAME_OPTIONS)
