"""Rows by number and by mask, for every type: Arrow itself cannot pick among views of texts, so those take a detour."""

from typing import Any

import numpy as np
import pyarrow as pa

from deltaic.table.rows.conform import retyped


def taken(rows: Any, places: Any) -> Any:
    """The rows of some numbers, in their order."""
    numbers = pa.array(places) if isinstance(places, np.ndarray) else places
    return _through(rows, lambda table: table.take(numbers))


def filtered(rows: Any, mask: Any) -> Any:
    """The rows for which a mask is true."""
    return _through(rows, lambda table: table.filter(mask))


def taken_values(values: Any, places: Any) -> Any:
    """The values of some numbers, of a chunked array."""
    numbers = pa.array(places) if isinstance(places, np.ndarray) else places
    if not has_views(values.type):
        return values.take(numbers)
    return retyped(retyped(values, without_views(values.type)).take(numbers), values.type)


def _through(rows: Any, chosen: Any) -> Any:
    if not any(has_views(field.type) for field in rows.schema):
        return chosen(rows)
    plain = pa.table([retyped(column, without_views(column.type)) for column in rows.columns], names=rows.column_names)
    found = chosen(plain)
    back = [retyped(column, field.type) for column, field in zip(found.columns, rows.schema, strict=True)]
    return pa.table(back, schema=rows.schema)


def has_views(kind: Any) -> bool:
    """Whether a type is a view of texts or bytes, or nests one."""
    if kind in (pa.string_view(), pa.binary_view()):
        return True
    return any(has_views(kind.field(place).type) for place in range(kind.num_fields))


def without_views(kind: Any) -> Any:
    """The type with plain texts and bytes in the place of views."""
    kinds = pa.types
    if not has_views(kind):
        return kind
    if kind == pa.string_view():
        return pa.large_string()
    if kind == pa.binary_view():
        return pa.large_binary()
    if kinds.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return pa.struct([field.with_type(without_views(field.type)) for field in fields])
    if kinds.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(without_views(key.type)), item.with_type(without_views(item.type)))
    inner = kind.value_field.with_type(without_views(kind.value_type))
    if kinds.is_fixed_size_list(kind):
        return pa.list_(inner, kind.list_size)
    return pa.large_list(inner) if kinds.is_large_list(kind) else pa.list_(inner)
