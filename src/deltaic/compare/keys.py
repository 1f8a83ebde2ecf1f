"""Keys of records: their paths, their values as columns, and the records that have a given key.

A path is followed through references for all rows at once. A key is compared by its digest; a null on the way makes
that part of the key null, and null equals null.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.digest import DRAWN, Digest, Seeds, column_digest, mixed, tagged
from deltaic.errors import InputError, NotFoundError, SchemaError
from deltaic.schema.paths import ResolvedPath, resolve_path
from deltaic.schema.types import FieldType, ObjectSchema
from deltaic.state.columns import BytesColumn, Column, FixedColumn, Rows, TextColumn
from deltaic.state.read import ReadState

Ordinals = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class KeyColumn:
    """One path of a key for many records: row `rows[i]` has value i of `column`, every other row is null."""

    path: ResolvedPath
    count: int
    rows: Ordinals
    column: Column | None
    """None if no row leads to a value."""

    def to_pylist(self) -> list[Any]:
        """The values as Python objects, None for null."""
        values: list[Any] = [None] * self.count
        if self.column is not None:
            for row, value in zip(self.rows.tolist(), self.column.to_pylist(), strict=True):
                values[row] = value
        return values

    def digest(self, seeds: Seeds) -> Digest:
        """The digests of the values, 0 where they are null."""
        found = np.zeros((2, self.count), np.uint64)
        if self.column is not None:
            found[:, self.rows] = column_digest(self.column, seeds)
        return found


def declared_key(state: ReadState, type_name: str) -> tuple[str, ...] | None:
    """The primary key of a type, if it has one that can be followed in this state."""
    data = state.types.get(type_name)
    if data is None or not isinstance(data.schema, ObjectSchema) or not data.schema.primary_key:
        return None
    try:
        resolve_key(state, type_name, data.schema.primary_key)
    except SchemaError:
        # A filter left out a field or a type of the key.
        return None
    return data.schema.primary_key


def resolve_key(state: ReadState, type_name: str, paths: Sequence[str]) -> tuple[ResolvedPath, ...]:
    """The paths of a key, followed through the state's schemas."""
    if type_name not in state:
        raise NotFoundError(f"there is no type {type_name!r} in this state; types: {', '.join(state.types) or 'none'}")
    if not paths or not all(paths):
        raise InputError(f"type {type_name}: a key has at least one path, and no empty one")
    return tuple(resolve_path(state.schemas, type_name, path) for path in paths)


def key_columns(
    state: ReadState, type_name: str, ordinals: Ordinals, paths: Sequence[str] | None = None
) -> list[KeyColumn]:
    """The key of each record, one column for each path; None takes the declared key."""
    chosen = declared_key(state, type_name) if paths is None else tuple(paths)
    if chosen is None:
        raise InputError(f"type {type_name} has no primary key: name the paths to use as key", "NoKey")
    return [_followed(state, path, ordinals) for path in resolve_key(state, type_name, chosen)]


def key_values(
    state: ReadState, type_name: str, ordinals: Ordinals, paths: Sequence[str] | None = None
) -> list[tuple[Any, ...]]:
    """The key of each record as a tuple of Python values."""
    columns = key_columns(state, type_name, ordinals, paths)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def key_digests(columns: Sequence[KeyColumn], seeds: Seeds = DRAWN) -> Digest:
    """One digest for each key, whatever the state it is of."""
    total = np.zeros((2, columns[0].count), np.uint64)
    for place, column in enumerate(columns):
        total += tagged(column.digest(seeds), seeds.of(f"key {place}"))
    return mixed(total + seeds.of("key"))


def find_by_key(
    state: ReadState,
    type_name: str,
    key: Any,
    paths: Sequence[str] | None = None,
    *,
    among: Ordinals | None = None,
) -> Ordinals:
    """The records that have a key: none, one, or several where the key is not unique.

    Args:
        state: where to look.
        type_name: the type of the records.
        key: a value, or a tuple where the key has several paths. Texts of numbers are taken as numbers.
        paths: what the key is made of; None takes the declared primary key.
        among: look at these records only; None looks at all populated ones.
    """
    ordinals = state[type_name].populated.ordinals() if among is None else among
    columns = key_columns(state, type_name, ordinals, paths)
    values = key if isinstance(key, tuple | list) else (key,)
    if len(values) != len(columns):
        shown = ", ".join(str(column.path) for column in columns)
        raise InputError(f"{key!r} is no key of type {type_name}, whose key is ({shown})", "BadKey")
    hit = np.ones(len(ordinals), np.bool_)
    for column, value in zip(columns, values, strict=True):
        wanted = key_value_digest(column.path, value, DRAWN)
        hit &= (column.digest(DRAWN) == wanted).all(axis=0)
    return ordinals[hit]


def key_value_digest(path: ResolvedPath, value: Any, seeds: Seeds) -> Digest:
    """The digest of one value of a key, as `KeyColumn.digest` gives it for records."""
    if value is None:
        return np.zeros((2, 1), np.uint64)
    made = value_column(path.field_type, value, f"{path.type_name}.{path}")
    return column_digest(made, seeds)


def value_column(field_type: FieldType, value: Any, where: str) -> Column:
    """A column of one value, as a field of this type would hold it. Texts are taken as what the field holds.

    Raises:
        InputError: the value cannot be one of the field.
    """
    rows = Rows(1)
    try:
        match field_type:
            case FieldType.STRING:
                if not isinstance(value, str):
                    raise TypeError
                data = np.frombuffer(value.encode("utf-8", "surrogatepass"), np.uint8)
                return TextColumn("", "", field_type, rows, None, np.array([0, len(data)]), data, 0)
            case FieldType.BYTES:
                raw = bytes.fromhex(value) if isinstance(value, str) else bytes(memoryview(value))
                data = np.frombuffer(raw, np.uint8)
                return BytesColumn("", "", field_type, rows, None, np.array([0, len(data)]), data)
            case FieldType.BOOLEAN:
                truth = {"true": True, "false": False}.get(str(value).lower())
                if truth is None:
                    raise ValueError
                values: NDArray[Any] = np.array([truth])
            case FieldType.FLOAT | FieldType.DOUBLE:
                values = np.array([float(value)], np.float32 if field_type is FieldType.FLOAT else np.float64)
            case _:
                if isinstance(value, float) and not value.is_integer():
                    raise ValueError
                values = np.array([int(value)], np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{value!r} is no {field_type} to look for in {where}", "BadKey") from error
    return FixedColumn("", "", field_type, rows, None, values)


def _followed(state: ReadState, path: ResolvedPath, ordinals: Ordinals) -> KeyColumn:
    rows = np.arange(len(ordinals))
    current = ordinals
    for number, step in enumerate(path.steps):
        if not len(rows):
            break
        column = state[step.type_name].column(step.name, current)
        if number == len(path.steps) - 1:
            return KeyColumn(path, len(ordinals), rows, column)
        assert isinstance(column, FixedColumn)
        there = np.arange(len(rows)) if column.valid is None else np.flatnonzero(column.valid)
        rows, current = rows[there], column.values[there].astype(np.int64)
    return KeyColumn(path, len(ordinals), rows[:0], None)
