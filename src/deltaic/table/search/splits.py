"""The splits that are searched, with their columns under the names and types of the table's schema of today."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaic.errors import SchemaError
from deltaic.table.query.bound import BoundLeaf
from deltaic.table.query.columns import SearchColumn, Target
from deltaic.table.search.arrays import arrow_array
from deltaic.table.search.joined import alive_rows
from deltaic.table.search.rows import Mask, leaf_mask, values_of
from deltaic.table.split.cache import CachedSplit
from deltaic.table.split.mapping import DocMapping


@dataclass(frozen=True, slots=True)
class SearchedSplit:
    """A split and the values of its partition."""

    cached: CachedSplit
    partition: Mapping[str, object]


class SplitColumns:
    """One split as a query sees it. Columns that it lacks are null, older types are widened."""

    def __init__(self, split: SearchedSplit) -> None:
        self.split, self.cached = split, split.cached
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._longest: dict[Target, int] = {}
        self._nan: dict[str, bool] = {}
        self._batches: dict[tuple[str, ...], pa.RecordBatch | None] = {}
        self._lock = threading.Lock()

    @property
    def num_rows(self) -> int:
        """Rows that there are, deleted ones too: row numbers are below this."""
        return int(self.cached.rows.num_rows)

    @cached_property
    def alive(self) -> NDArray[np.bool_] | None:
        """The rows that no delete file hides; None if all."""
        return alive_rows(self.cached)

    def column(self, column: SearchColumn) -> pa.ChunkedArray:
        """All values of a column, mapped where the type is the same."""
        found = self._columns.get(column.name)
        if found is None:
            found = self._made(column)
            with self._lock:
                self._columns[column.name] = found
        return found

    def _made(self, column: SearchColumn) -> pa.ChunkedArray:
        if column.partition:
            return pa.chunked_array([pa.repeat(self.partition_value(column), self.num_rows)], column.type)
        place = self.cached.rows.schema.get_field_index(column.physical)
        if place < 0:
            return pa.chunked_array([pa.nulls(self.num_rows, column.type)], column.type)
        return cast_column(self.cached.rows.column(place), column)

    def partition_value(self, column: SearchColumn) -> pa.Scalar:
        """The value of a partition column."""
        value = self.split.partition.get(column.name)
        try:
            return value if isinstance(value, pa.Scalar) else pa.scalar(value, column.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, TypeError) as error:
            raise SchemaError(f"partition value {value!r} of column {column.name!r} is no {column.type}") from error

    def mask(self, leaf: BoundLeaf, target: Target) -> Mask:
        """The rows that match a clause."""
        if target.column.partition:
            return np.full(self.num_rows, self.partition_matches(leaf, target), np.bool_)
        return leaf_mask(leaf, target, self.column(target.column))

    def partition_matches(self, leaf: BoundLeaf, target: Target) -> bool:
        """Whether the partition of this split matches a clause on a partition column."""
        value = self.partition_value(target.column)
        return bool(leaf_mask(leaf, target, pa.array([value.as_py()], value.type))[0])

    def longest(self, target: Target) -> int:
        """The most bytes that a value of a string column has."""
        found = self._longest.get(target)
        if found is None:
            values, _ = values_of(self.column(target.column), target)
            found = pc.max(pc.binary_length(values)).as_py() or 0 if len(values) else 0
            self._longest[target] = found
        return found

    def has_nan(self, target: Target) -> bool:
        """Whether a column of floats has what is no number."""
        found = self._nan.get(target.name)
        if found is None:
            found = self._nan[target.name] = bool(pc.any(pc.is_nan(self.column(target.column))).as_py())
        return found

    def taken(self, columns: Sequence[SearchColumn], rows: NDArray[np.int64]) -> pa.Table:
        """Some rows, in this order."""
        plain = self._as_they_are(columns)
        if plain is not None:
            return pa.Table.from_batches([plain.take(arrow_array(rows))])
        arrays = []
        for column in columns:
            if column.partition:
                arrays.append(pa.repeat(self.partition_value(column), len(rows)))
                continue
            place = self.cached.rows.schema.get_field_index(column.physical)
            if place < 0:
                arrays.append(pa.nulls(len(rows), column.type))
                continue
            arrays.append(cast_column(self._picked(place, rows), column))
        return pa.Table.from_arrays(arrays, schema=pa.schema([pa.field(one.name, one.type) for one in columns]))

    def _as_they_are(self, columns: Sequence[SearchColumn]) -> pa.RecordBatch | None:
        """The columns as one batch, if the split has them all in one piece and in the types of today."""
        key = tuple(one.name for one in columns)
        if key not in self._batches:
            rows, arrays = self.cached.rows, list[pa.Array]()
            for column in columns:
                place = -1 if column.partition else rows.schema.get_field_index(column.physical)
                if place < 0 or rows.schema.field(place).type != column.type or rows.column(place).num_chunks != 1:
                    break
                arrays.append(rows.column(place).chunk(0))
            whole = len(arrays) == len(columns) and arrays
            schema = pa.schema([pa.field(one.name, one.type) for one in columns])
            self._batches[key] = pa.RecordBatch.from_arrays(arrays, schema=schema) if whole else None
        return self._batches[key]

    def _picked(self, place: int, rows: NDArray[np.int64]) -> pa.ChunkedArray:
        column = self.cached.rows.column(place)
        if column.num_chunks <= 1:
            return column.take(arrow_array(rows))
        # Arrow would put all chunks together first, however few rows are wanted.
        ends = self._chunk_ends
        chunk_of = np.searchsorted(ends, rows, side="right")
        pieces, order = list[pa.Array](), list[NDArray[np.int64]]()
        for chunk in np.unique(chunk_of):
            mine = np.flatnonzero(chunk_of == chunk)
            first = ends[chunk - 1] if chunk else 0
            pieces.append(column.chunk(int(chunk)).take(arrow_array(rows[mine] - first)))
            order.append(mine)
        if len(pieces) == 1:
            return pa.chunked_array(pieces)
        back = np.empty(len(rows), np.int64)
        back[np.concatenate(order)] = np.arange(len(rows))
        return pa.chunked_array([pa.concat_arrays(pieces).take(arrow_array(back))])

    @cached_property
    def _chunk_ends(self) -> NDArray[np.int64]:
        return np.cumsum([len(chunk) for chunk in self.cached.rows.column(0).chunks])


def cast_column(values: pa.ChunkedArray, column: SearchColumn) -> pa.ChunkedArray:
    """A column in the type that it has today."""
    if values.type == column.type:
        return values
    try:
        return values.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = f"column {column.name!r} is {values.type} in a split and cannot be read as {column.type}"
        raise SchemaError(reason) from error


def physical_rows(split: SplitColumns, columns: Mapping[str, SearchColumn], mapping: DocMapping) -> pa.Table:
    """The rows of a split under physical names and with the types of today, for indexing them anew."""
    names, arrays = list[str](), list[Any]()
    by_physical = {one.physical: one for one in columns.values() if not one.partition}
    for index in mapping.columns:
        column = by_physical.get(index.name)
        if column is None:
            place = split.cached.rows.schema.get_field_index(index.name)
            if place < 0:
                continue
            values = split.cached.rows.column(place)
        else:
            values = split.column(column)
        names.append(index.name)
        arrays.append(values)
    if not names:
        # A table without columns has no length; one column that no field needs keeps it.
        return pa.table({"": pa.nulls(split.num_rows)})
    return pa.Table.from_arrays(arrays, names)
