"""Changes of a schema: add, widen, rename, drop, reorder columns. Old splits stay as they are and readable.

A column is only ever widened, so that every value it had is a value of the new type; `widenings` is the whole list.
Partition columns keep their name and type, which the paths and add actions of all files repeat.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from deltaic.errors import InputError, SchemaError
from deltaic.table.predicate import columns_in, parse_predicate
from deltaic.table.rows.schema import TableColumn, TableSchema, check_default, check_name
from deltaic.table.rows.types import describe_type, to_spark
from deltaic.table.split.vectors import check_vector_field


def with_added(
    schema: TableSchema, field: Any, *, default: Any = None, after: str | None = None, index: Any = None
) -> TableSchema:
    """The schema with a new column, at the end or after another."""
    check_name(field.name)
    if field.name in schema.by_name:
        raise SchemaError(f"there is a column {field.name!r} already")
    describe_type(field.type, field.name)
    check_vector_field(field)
    kept = check_default(default, field)
    if not field.nullable and kept is None:
        raise SchemaError(f"{field.name} is never null, so rows that are there need a default")
    physical = schema.free_physical(field.name)
    made = TableColumn(field, physical, kept)
    columns = list(schema.columns)
    place = len(columns) if after is None else columns.index(schema.column(after)) + 1
    columns.insert(place, made)
    options = dict(schema.index) if index is None else {**schema.index, physical: index}
    return schema.with_columns(columns, index=options)


def with_renamed(schema: TableSchema, old: str, new: str) -> TableSchema:
    """The schema with another name for a column; splits go on calling it what they did."""
    column = schema.column(old)
    _no_partition(schema, old, "renamed")
    check_name(new)
    if new in schema.by_name:
        raise SchemaError(f"there is a column {new!r} already")
    columns = [replace(one, field=one.field.with_name(new)) if one is column else one for one in schema.columns]
    return schema.with_columns(columns, key=tuple(new if name == old else name for name in schema.key))


def with_dropped(schema: TableSchema, name: str) -> TableSchema:
    """The schema without a column; no later column gets its physical name."""
    column = schema.column(name)
    _no_partition(schema, name, "dropped")
    if name in schema.key:
        raise SchemaError(f"{name} is part of the key and cannot be dropped")
    if len(schema.stored) == 1:
        raise SchemaError(f"{name} is the last column of the table")
    for constraint, text in schema.constraints.items():
        if column.physical in columns_in(parse_predicate(text)):
            raise SchemaError(f"{name} is in the constraint {constraint}: drop that first")
    index = {physical: options for physical, options in schema.index.items() if physical != column.physical}
    left = [one for one in schema.columns if one is not column]
    return schema.with_columns(left, retired=(*schema.retired, column.physical), index=index)


def with_widened(schema: TableSchema, name: str, kind: Any) -> TableSchema:
    """The schema with a wider type for a column."""
    column = schema.column(name)
    _no_partition(schema, name, "widened")
    describe_type(kind, name)
    if kind == column.type:
        return schema
    check_vector_field(column.field.with_type(kind))
    if not is_wider(column.type, kind):
        raise SchemaError(f"{name} is a {column.type}: a {kind} does not hold all of its values")
    old, new = to_spark(column.type, name), to_spark(kind, name)
    was = (*column.widened, *(() if old == new or not isinstance(old, str) else (old,)))
    default = column.default
    if default is not None:
        default = check_default(pa.scalar(default, column.type).cast(kind).as_py(), column.field.with_type(kind))
    made = TableColumn(column.field.with_type(kind), column.physical, default, tuple(dict.fromkeys(was)))
    return schema.with_columns([made if one is column else one for one in schema.columns])


def with_order(schema: TableSchema, names: Sequence[str]) -> TableSchema:
    """The schema with its columns in another order; those that are not named follow in theirs."""
    chosen = [schema.column(name) for name in names]
    if len(set(names)) != len(names):
        raise InputError("a column is named twice")
    return schema.with_columns([*chosen, *(column for column in schema.columns if column not in chosen)])


def with_nullable(schema: TableSchema, name: str, nullable: bool) -> TableSchema:
    """The schema with a column that may be null, or may not."""
    column = schema.column(name)
    made = replace(column, field=column.field.with_nullable(nullable))
    return schema.with_columns([made if one is column else one for one in schema.columns])


def _no_partition(schema: TableSchema, name: str, done: str) -> None:
    if name in schema.partition_by:
        raise SchemaError(f"{name} is a partition column and cannot be {done}: every file says its name and value")


_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_FLOATS = (pa.float16(), pa.float32(), pa.float64())
_EXACT_BITS = {pa.float16(): 11, pa.float32(): 24, pa.float64(): 53}
_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())
_UNITS = ("s", "ms", "us", "ns")


def is_wider(old: Any, new: Any) -> bool:
    """Whether a type holds every value of another, exactly."""
    kinds = pa.types
    if kinds.is_dictionary(old):
        return new == old.value_type or is_wider(old.value_type, new)
    if kinds.is_dictionary(new):
        return old == new.value_type or is_wider(old, new.value_type)
    if old in _SIGNED or old in _UNSIGNED:
        return _holds_integers(old, new)
    if old in _FLOATS and new in _FLOATS:
        return _FLOATS.index(old) < _FLOATS.index(new)
    if kinds.is_decimal(old) and kinds.is_decimal(new):
        return bool(new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale)
    for family in (_TEXTS, _BYTES):
        if old in family and new in family:
            return True
    if kinds.is_fixed_size_binary(old) and new in _BYTES:
        return True
    if kinds.is_date32(old):
        return bool(kinds.is_timestamp(new) and new.tz is None and new.unit in ("s", "ms", "us"))
    if kinds.is_list(old) and kinds.is_large_list(new):
        return bool(old.value_type == new.value_type or is_wider(old.value_type, new.value_type))
    if (kinds.is_list(old) and kinds.is_list(new)) or (
        kinds.is_fixed_size_list(old) and kinds.is_fixed_size_list(new) and old.list_size == new.list_size
    ):
        return bool(old.value_type == new.value_type or is_wider(old.value_type, new.value_type)) and (
            new.value_field.nullable or not old.value_field.nullable
        )
    if kinds.is_struct(old) and kinds.is_struct(new):
        return _holds_struct(old, new)
    return False


def _holds_integers(old: Any, new: Any) -> bool:
    signed = old in _SIGNED
    bits = old.bit_width - signed
    if new in _SIGNED:
        return bool(new.bit_width - 1 >= bits and new != old and new.bit_width > old.bit_width)
    if new in _UNSIGNED:
        return not signed and new.bit_width > old.bit_width
    if new in _EXACT_BITS:
        return bool(bits <= _EXACT_BITS[new])
    if pa.types.is_decimal(new):
        return bool(10 ** (new.precision - new.scale) > 2**bits)
    return False


def _holds_struct(old: Any, new: Any) -> bool:
    """All old fields, the same or wider; new ones may be null."""
    before = {old.field(place).name: old.field(place) for place in range(old.num_fields)}
    after = {new.field(place).name: new.field(place) for place in range(new.num_fields)}
    for name, field in before.items():
        found = after.get(name)
        if found is None or not (found.type == field.type or is_wider(field.type, found.type)):
            return False
        if field.nullable and not found.nullable:
            return False
    return all(field.nullable for name, field in after.items() if name not in before)
