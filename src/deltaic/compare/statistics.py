"""What fields hold: how many nulls and different values, the smallest and the largest, the most frequent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.digest import FIXED, column_digest, number_bits
from deltaic.compare.json_text import as_json
from deltaic.compare.vectors import columns_of, vector_digest
from deltaic.errors import NotFoundError
from deltaic.kernels.content import Numbers
from deltaic.schema.types import FieldType, Kind, ObjectSchema
from deltaic.state.columns import BytesColumn, Column, FixedColumn
from deltaic.state.read import ReadState
from deltaic.state.records import is_boxed
from deltaic.state.vector_arrow import present_rows
from deltaic.state.vector_column import CHUNK_ROWS, StoredVectors

TOP = 10
"""How many of the most frequent values are given, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class FieldStatistics:
    """One field over all populated records; of a collection its sizes, under the name `size`."""

    name: str
    type: str
    """The field's type, or the type it refers to."""
    count: int
    nulls: int
    distinct: int
    """Different values; for a reference, different records."""
    min: Any
    max: Any
    """Smallest and largest value: of numbers and truth values, of the lengths of texts, of the sizes of collections, of
    the norms of vectors. None without values."""
    mean: float | None
    """Of numbers, of lengths in bytes of texts (as UTF-8), of sizes, of norms."""
    top: tuple[tuple[Any, int], ...]
    """The most frequent values and how often each occurs, most frequent first; of vectors those that occur twice."""
    size_bytes: int
    """Memory that the field takes in the type itself, without what it refers to."""

    def to_dict(self) -> dict[str, Any]:
        """The statistics as plain values."""
        return {
            "name": self.name,
            "type": self.type,
            "count": self.count,
            "nulls": self.nulls,
            "distinct": self.distinct,
            "bytes": self.size_bytes,
            "min": self.min,
            "max": self.max,
            "mean": self.mean,
            "top": [[as_json(value), count] for value, count in self.top],
        }


def type_statistics(
    state: ReadState, type_name: str, *, fields: Sequence[str] | None = None, top: int = TOP
) -> tuple[FieldStatistics, ...]:
    """The statistics of each field of a type, or of the sizes of a collection type.

    Args:
        state: the state.
        type_name: the type.
        fields: these only.
        top: how many of the most frequent values to give.
    """
    view = state[type_name]
    schema = view.schema
    if not isinstance(schema, ObjectSchema):
        return (_sizes(state, type_name, schema.kind, top),)
    vectors = columns_of(state, type_name)
    known = dict.fromkeys((*(field.name for field in schema.fields), *vectors))
    chosen = list(known) if fields is None else list(fields)
    for name in chosen:
        if name not in known:
            raise NotFoundError(f"type {type_name} has no field {name!r}")
    return tuple(
        _vectors(state, type_name, name, vectors[name], top)
        if name in vectors
        else _field(state, type_name, schema, name, top)
        for name in chosen
    )


def _vectors(state: ReadState, type_name: str, name: str, column: StoredVectors, top: int) -> FieldStatistics:
    ordinals = state[type_name].populated.ordinals()
    there = ordinals[present_rows(column, ordinals)]
    values, first, often = np.unique(vector_digest(column, there, FIXED)[0], return_index=True, return_counts=True)
    chosen = np.argsort(-often, kind="stable")[:top]
    chosen = chosen[often[chosen] > 1]
    shown = [Numbers(row) for row in column.rows(there[first[chosen]]).tolist()]
    norms = _norms(column, there)
    norms = norms[~np.isnan(norms)]
    low, high, mean = (float(norms.min()), float(norms.max()), float(norms.mean())) if len(norms) else (None,) * 3
    frequent = tuple(zip(shown, often[chosen].tolist(), strict=True))
    kind = f"vector[{column.dimensions}]"
    nulls = len(ordinals) - len(there)
    return FieldStatistics(name, kind, len(ordinals), nulls, len(values), low, high, mean, frequent, column.nbytes)


def _norms(column: StoredVectors, ordinals: NDArray[np.int64]) -> NDArray[np.float64]:
    found = np.zeros(len(ordinals), np.float64)
    with np.errstate(all="ignore"):
        for start in range(0, len(ordinals), CHUNK_ROWS):
            rows = column.rows(ordinals[start : start + CHUNK_ROWS])
            found[start : start + CHUNK_ROWS] = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
    return found


def _field(state: ReadState, type_name: str, schema: ObjectSchema, name: str, top: int) -> FieldStatistics:
    field = schema.fields[schema.position(name)]
    column = state[type_name].column(name)
    count, nulls = len(column), column.null_count
    rows = np.arange(count) if column.valid is None else np.flatnonzero(column.valid)
    codes = _codes(column)[rows]
    values, first, often = np.unique(codes, return_index=True, return_counts=True)
    chosen = np.argsort(-often, kind="stable")[:top]
    places = rows[first[chosen]]
    shown = _values(state, type_name, name, column, places, field.referenced)
    low, high, mean = _range(column, rows)
    return FieldStatistics(
        name,
        field.referenced or field.type.value,
        count,
        nulls,
        len(values),
        low,
        high,
        mean,
        tuple(zip(shown, often[chosen].tolist(), strict=True)),
        state[type_name].bytes_per_field()[name],
    )


def _codes(column: Column) -> NDArray[np.uint64]:
    """A number for each value, equal for equal ones; of texts one lane of the digest, which is enough to count by."""
    if isinstance(column, BytesColumn):
        lane: NDArray[np.uint64] = column_digest(column, FIXED)[0]
        return lane
    assert isinstance(column, FixedColumn)
    return number_bits(column.values)


def _values(
    state: ReadState,
    type_name: str,
    name: str,
    column: Column,
    places: NDArray[np.int64],
    referenced: str | None,
) -> list[Any]:
    ordinals = column.ordinals[places]
    if referenced is None:
        found = state[type_name].column(name, ordinals)
        return [_python(value) for value in found.values] if isinstance(found, FixedColumn) else found.to_pylist()
    assert isinstance(column, FixedColumn)
    targets = column.values[places].astype(np.int64)
    schema = state.types[referenced].schema if referenced in state else None
    if schema is None or not is_boxed(schema):
        numbers: list[Any] = targets.tolist()
        return numbers
    assert isinstance(schema, ObjectSchema)
    return state[referenced].column(schema.fields[0].name, targets).to_pylist()


def _range(column: Column, rows: NDArray[np.int64]) -> tuple[Any, Any, float | None]:
    if not len(rows):
        return None, None, None
    if isinstance(column, BytesColumn):
        values: NDArray[Any] = np.diff(column.offsets)[rows]
    elif column.type is FieldType.REFERENCE:
        return None, None, None
    else:
        assert isinstance(column, FixedColumn)
        values = column.values[rows]
        if values.dtype.kind == "f":
            values = values[~np.isnan(values)]
            if not len(values):
                return None, None, None
    with np.errstate(all="ignore"):
        return _python(values.min()), _python(values.max()), float(values.mean(dtype=np.float64))


def _python(value: Any) -> Any:
    """A number of NumPy as Python has it; of 32-bit floats the shortest that rounds to it."""
    return float(str(value)) if isinstance(value, np.float32) else value.item()


def _sizes(state: ReadState, type_name: str, kind: Kind, top: int) -> FieldStatistics:
    sizes = np.diff(state[type_name].members().offsets)
    values, often = np.unique(sizes, return_counts=True)
    chosen = np.argsort(-often, kind="stable")[:top]
    found = tuple(zip(values[chosen].tolist(), often[chosen].tolist(), strict=True))
    low, high, mean = (
        (sizes.min().item(), sizes.max().item(), float(sizes.mean())) if len(sizes) else (None, None, None)
    )
    return FieldStatistics(
        "size", kind.value, len(sizes), 0, len(values), low, high, mean, found, state[type_name].nbytes
    )
