"""Type and field filters: read only what is wanted of a dataset.

A pattern is a type, `Actor`; a field, `Movie.id`; or a field with everything below it, `Movie.title.**` (`Movie.**`
is a type with everything below it). `Filter.only` keeps what its patterns name, `Filter.without` drops it. A field of
a type that is kept may refer to a type that is not: it then reads as a bare reference. A vector column is named like a
field of its type, `Movie.embedding`, and never comes without the type.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from deltaic.errors import InputError
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import ObjectSchema, Schema


@dataclass(frozen=True, slots=True)
class Filter:
    """Which types and fields a reader wants."""

    patterns: tuple[str, ...]
    keeps: bool
    """True if the patterns name what stays, False if they name what goes."""

    @classmethod
    def only(cls, *patterns: str) -> "Filter":
        """Keep what the patterns name and nothing else."""
        return cls(_checked(patterns), True)

    @classmethod
    def without(cls, *patterns: str) -> "Filter":
        """Drop what the patterns name and keep the rest."""
        return cls(_checked(patterns), False)

    def apply(self, schemas: Iterable[Schema]) -> tuple[Schema, ...]:
        """The schemas that remain, with the fields that remain, in the same order."""
        all_schemas = SchemaSet(schemas)
        whole: set[str] = set()
        fields: dict[str, set[str]] = {}
        for pattern in self.patterns:
            _select(pattern, all_schemas, whole, fields)
        remaining = []
        for schema in all_schemas:
            kept = self._keep(schema, schema.name in whole, fields.get(schema.name, set()))
            if kept is not None:
                remaining.append(kept)
        return tuple(remaining)

    def keeps_vectors(self, type_name: str, field_name: str, schemas: Iterable[Schema]) -> bool:
        """True if a vector column of a type stays.

        Args:
            type_name: the type.
            field_name: the vector column.
            schemas: the types that the filter left.
        """
        known = SchemaSet(schemas)
        if type_name not in known:
            return False
        whole: set[str] = set()
        for pattern in self.patterns:
            name, *rest = pattern.split(".")
            if name == type_name and rest[:1] == [field_name]:
                return self.keeps
            if name in known and (not rest or rest[-1] == "**"):
                _select(pattern, known, whole, {})
        return (type_name in whole) == self.keeps

    def _keep(self, schema: Schema, named: bool, fields: set[str]) -> Schema | None:
        if not isinstance(schema, ObjectSchema):
            return schema if named == self.keeps else None
        if self.keeps:
            if named:
                return schema
            return _with_fields(schema, fields) if fields else None
        if named:
            return None
        return _with_fields(schema, {field.name for field in schema.fields} - fields)


def _with_fields(schema: ObjectSchema, names: set[str]) -> ObjectSchema:
    return replace(schema, fields=tuple(field for field in schema.fields if field.name in names))


def _checked(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        parts = pattern.split(".")
        if not all(parts) or "**" in parts[:-1] or len(parts) > 3 or (len(parts) == 3 and parts[2] != "**"):
            raise InputError(f"filter pattern {pattern!r}: write Type, Type.field, Type.** or Type.field.**")
    return patterns


def _select(pattern: str, schemas: SchemaSet, whole: set[str], fields: dict[str, set[str]]) -> None:
    name, *rest = pattern.split(".")
    schema = schemas.get(name)
    if schema is None:
        # A model without the type is a model in which the pattern names nothing: chains change over time.
        return
    if not rest:
        whole.add(name)
    elif rest == ["**"]:
        _select_below(name, schemas, whole)
    elif isinstance(schema, ObjectSchema):
        position = schema.position(rest[0])
        if position < 0:
            return
        fields.setdefault(name, set()).add(rest[0])
        referenced = schema.fields[position].referenced
        if rest[1:] == ["**"] and referenced is not None:
            _select_below(referenced, schemas, whole)
    else:
        raise InputError(f"filter pattern {pattern!r}: {name} is a {schema.kind} and has no fields")


def _select_below(name: str, schemas: SchemaSet, whole: set[str]) -> None:
    todo = [name]
    while todo:
        current = todo.pop()
        schema = schemas.get(current)
        if schema is not None and current not in whole:
            whole.add(current)
            todo += schema.references()
