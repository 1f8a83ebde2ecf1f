"""What a table that has grown does to the model of its dataset.

The table holds the rows of one root type. Its Arrow schema is the one that a state of the model gives back, so that a
row that went the whole road has the type that it started with.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from deltaic.errors import SchemaError
from deltaic.schema.model import Model, VectorColumn
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import Schema
from deltaic.table.rows.models import key_columns, root_type, table_columns
from deltaic.table.split.vectors import is_vector

__all__ = ["Growth", "grown", "key_columns", "root_type", "table_columns"]


@dataclass(frozen=True, slots=True)
class Growth:
    """What a table has that the model has not, and the other way round."""

    model: Model
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


def grown(model: Model, root: str, table_schema: Any) -> Growth:
    """The model that fits a table whose columns have changed: new columns become fields, dropped ones go.

    Raises:
        SchemaError: a column has another type than its field, or a new type would take the name of another one.
    """
    ours = {field.name: field for field in table_columns(model, root)}
    added = []
    for field in table_schema:
        known = ours.get(field.name)
        if known is None:
            added.append(field)
        elif not _same_values(known.type, field.type):
            raise SchemaError(
                f"column {field.name!r} is {field.type} in the table and {known.type} in the model: deltas cannot "
                "carry that; evolve(…, allow_breaking=True) gives the dataset another model"
            )
        elif is_vector(known) != is_vector(field):
            raise SchemaError(
                f"column {field.name!r} is {'a vector' if is_vector(field) else 'a list'} in the table and "
                f"{'a vector' if is_vector(known) else 'a list'} in the model: give it another name"
            )
    removed = tuple(name for name in ours if name not in table_schema.names)
    if not added and not removed:
        return Growth(model, (), ())
    if lost := [name for name in key_columns(model, root) if name in removed]:
        raise SchemaError(f"column {lost[0]!r} is part of the key of {root}: a table cannot lose it")
    if any(is_vector(field) for field in added) and model.schemas.object_schema(root).primary_key is None:
        raise SchemaError(f"type {root} has no primary key, by which vectors of a new column could be told apart")
    vectors = tuple(VectorColumn(root, field.name, field.type.list_size) for field in added if is_vector(field))
    plain = [field for field in added if not is_vector(field)]
    new = Model.from_arrow(pa.schema(plain), root) if plain else None
    merged = _merged(model, root, new, removed)
    kept = tuple(one for one in model.vectors if one.type_name != root or one.field_name not in removed)
    return Growth(replace(merged, vectors=(*kept, *vectors)), tuple(field.name for field in added), removed)


def _merged(model: Model, root: str, new: Model | None, removed: Iterable[str]) -> Model:
    schemas: dict[str, Schema] = {schema.name: schema for schema in model.schemas}
    logical = {name: dict(fields) for name, fields in model.logical.items()}
    record = model.schemas.object_schema(root)
    fields = [field for field in record.fields if field.name not in set(removed)]
    if new is not None:
        for schema in new.schemas:
            if schema.name == root:
                continue
            if schemas.setdefault(schema.name, schema) != schema:
                raise SchemaError(
                    f"a new column needs a type {schema.name}, and the model has another one of that name: give the "
                    "column the metadata `deltaic.type`"
                )
        for name, notes in new.logical.items():
            logical.setdefault(name, {}).update(notes)
        fields += new.schemas.object_schema(root).fields
    for name in removed:
        logical.get(root, {}).pop(name, None)
    schemas[root] = replace(record, fields=tuple(fields))
    kept = _reachable(schemas, model.roots)
    return replace(
        model,
        schemas=SchemaSet(schema for name, schema in schemas.items() if name in kept).validated(),
        logical=MappingProxyType({name: MappingProxyType(notes) for name, notes in logical.items() if name in kept}),
        shards=MappingProxyType({name: count for name, count in model.shards.items() if name in kept}),
    )


def _reachable(schemas: dict[str, Schema], roots: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(schemas[name].references())
    return found


def _same_values(one: Any, other: Any) -> bool:
    """True if two Arrow types hold the same values: how lists call their elements and who may be null is no matter."""
    types = pa.types
    if types.is_dictionary(one):
        one = one.value_type
    if types.is_dictionary(other):
        other = other.value_type
    for alike in (
        (types.is_string, types.is_large_string, types.is_string_view),
        (types.is_binary, types.is_large_binary, types.is_binary_view),
    ):
        if any(test(one) for test in alike) and any(test(other) for test in alike):
            return True
    lists = (types.is_list, types.is_large_list, types.is_list_view, types.is_large_list_view)
    if any(test(one) for test in lists) and any(test(other) for test in lists):
        return _same_values(one.value_type, other.value_type)
    if types.is_fixed_size_list(one) and types.is_fixed_size_list(other):
        return bool(one.list_size == other.list_size) and _same_values(one.value_type, other.value_type)
    if types.is_map(one) and types.is_map(other):
        return _same_values(one.key_type, other.key_type) and _same_values(one.item_type, other.item_type)
    if types.is_struct(one) and types.is_struct(other):
        return [field.name for field in one] == [field.name for field in other] and all(
            _same_values(left.type, right.type) for left, right in zip(one, other, strict=True)
        )
    return bool(one == other)
