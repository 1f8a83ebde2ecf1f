"""Keys as columns: which removed and added records have the same primary key.

A key's paths are followed column by column through references, all rows at once. Each column becomes numbers, equal
for equal values; several columns of a key become one. Nothing here runs Python per record.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import SchemaError
from deltaic.schema.paths import ResolvedPath, resolve_path
from deltaic.schema.types import ObjectSchema, Schema
from deltaic.state.columns import BytesColumn, Column, FixedColumn
from deltaic.state.read import ReadState

Ordinals = NDArray[np.int64]
_Bits = {4: np.uint32, 8: np.uint64}


def key_paths(state: ReadState, type_name: str) -> tuple[ResolvedPath, ...] | None:
    """The primary key of a type, followed through the state's schemas; None if it has none that can be followed."""
    schema: Schema = state.types[type_name].schema
    if not isinstance(schema, ObjectSchema) or not schema.primary_key:
        return None
    try:
        return tuple(resolve_path(state.schemas, type_name, path) for path in schema.primary_key)
    except SchemaError:
        # A filter left out a field or a type of the key.
        return None


def key_columns(state: ReadState, type_name: str, ordinals: Ordinals) -> list["KeyColumn"]:
    """The key of each record, one column for each path."""
    paths = key_paths(state, type_name)
    assert paths is not None
    return [_followed(state, path, ordinals) for path in paths]


class KeyColumn:
    """One path of a key for many records. Null where the value is, or a reference on the way to it."""

    def __init__(self, column: Column, valid: NDArray[np.bool_]) -> None:
        self.column, self.valid = column, valid

    def to_pylist(self) -> list[Any]:
        """The values as Python objects, None for null."""
        values = self.column.to_pylist()
        for row in np.flatnonzero(~self.valid).tolist():
            values[row] = None
        return values


def match_keys(removed: Sequence[KeyColumn], added: Sequence[KeyColumn]) -> tuple[Ordinals, Ordinals]:
    """Rows with equal keys: row `first[i]` of `removed` has the key of row `second[i]` of `added`.

    Of rows that share one key, which is no key then, the first counts.
    """
    left_count = len(removed[0].valid)
    codes = np.zeros(left_count + len(added[0].valid), np.int64)
    for left, right in zip(removed, added, strict=True):
        part = _codes(left, right)
        # Two numbers become one, small enough again after each column.
        codes = np.unique(codes * (int(part.max(initial=0)) + 1) + part, return_inverse=True)[1].astype(np.int64)
    left_codes, left_rows = np.unique(codes[:left_count], return_index=True)
    right_codes, right_rows = np.unique(codes[left_count:], return_index=True)
    _, left_places, right_places = np.intersect1d(left_codes, right_codes, assume_unique=True, return_indices=True)
    return left_rows[left_places], right_rows[right_places]


def _followed(state: ReadState, path: ResolvedPath, ordinals: Ordinals) -> KeyColumn:
    rows = ordinals
    valid = np.ones(len(ordinals), np.bool_)
    for number, step in enumerate(path.steps):
        column = state[step.type_name].column(step.name, rows)
        if column.valid is not None:
            valid &= column.valid
        if number == len(path.steps) - 1:
            return KeyColumn(column, valid)
        assert isinstance(column, FixedColumn)
        # Any record stands in where there is none to follow to: the row is null already.
        rows = np.where(valid, column.values, 0).astype(np.int64)
        if not valid.any():
            rows, valid = rows[:0], valid
            return KeyColumn(column, valid)
    raise SchemaError(f"type {path.type_name} has an empty path in its primary key")


def _codes(left: KeyColumn, right: KeyColumn) -> Ordinals:
    """Numbers for the values of both columns, from 1, equal for equal values; 0 for null."""
    valid = np.concatenate([left.valid, right.valid])
    codes = np.zeros(len(valid), np.int64)
    if not left.valid.any() or not right.valid.any():
        # No row of one side can be equal to one of the other; those of one side only need to differ from the other's.
        codes[: len(left.valid)][left.valid] = 1
        codes[len(left.valid) :][right.valid] = 2
        return codes
    if isinstance(left.column, BytesColumn) and isinstance(right.column, BytesColumn):
        codes[:] = _byte_codes(left.column, right.column)
    else:
        assert isinstance(left.column, FixedColumn) and isinstance(right.column, FixedColumn)
        values = np.concatenate([_plain(left.column.values), _plain(right.column.values)])
        codes[:] = np.unique(values, return_inverse=True)[1] + 1
    codes[~valid] = 0
    return codes


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    # Bits instead of numbers: a NaN is a key as good as any other.
    return np.ascontiguousarray(values).view(_Bits[values.dtype.itemsize]) if values.dtype.kind == "f" else values


def _byte_codes(left: BytesColumn, right: BytesColumn) -> Ordinals:
    lengths = np.concatenate([np.diff(left.offsets), np.diff(right.offsets)])
    data = np.concatenate([left.data, right.data])
    starts = np.concatenate([left.offsets[:-1], right.offsets[:-1] + len(left.data)])
    codes = np.zeros(len(lengths), np.int64)
    used = 0
    order = np.argsort(lengths, kind="stable")
    bounds = np.flatnonzero(np.diff(lengths[order], prepend=-1))
    # One round for each length that occurs: texts of one length are compared as fixed blocks of bytes.
    for first, last in zip(bounds, [*bounds[1:], len(order)], strict=True):
        rows = order[first:last]
        length = int(lengths[rows[0]])
        if length == 0:
            codes[rows] = used + 1
            used += 1
            continue
        blocks = data[starts[rows][:, None] + np.arange(length)]
        distinct, inverse = np.unique(np.ascontiguousarray(blocks).view(f"V{length}").ravel(), return_inverse=True)
        codes[rows] = used + 1 + inverse
        used += len(distinct)
    return codes
