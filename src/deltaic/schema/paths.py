"""Field paths: dotted names that lead from a record through references to a value (hollow-blob.md, 2.4 and 19).

A path of a key goes through OBJECTs only. A path that ends on a reference is expanded: while the referenced type has
one field, or a primary key of one path, the path goes on there. A trailing `!` says that the path ends where it ends.
Paths of hash and prefix indexes also go through collections: `element` of a LIST or SET, `key` and `value` of a MAP.
"""

from dataclasses import dataclass
from typing import Protocol

from deltaic.errors import SchemaError
from deltaic.schema.types import Field, FieldType, Kind, MapSchema, ObjectSchema, Schema


class Schemas(Protocol):
    """What a path is followed through: a `SchemaSet`, or a mapping from name to schema."""

    def get(self, name: str, /) -> Schema | None:
        """The schema of a type, or None."""


@dataclass(frozen=True, slots=True)
class Step:
    """One segment of a path: from a type by a field (or `element`, `key`, `value`), to another type or to a value."""

    type_name: str
    kind: Kind
    name: str
    position: int
    """The field's index; for collections 0 is the element or key, 1 the value."""
    leads_to: str | None
    """The type that the step arrives at; None if it arrives at a value."""


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A path followed through the schemas, expanded where asked for. No steps: the record itself."""

    type_name: str
    steps: tuple[Step, ...]
    field: Field | None
    """The field that the path ends on; None if it ends on an element, a key, a value or the record itself."""

    @property
    def field_type(self) -> FieldType:
        """What the path ends on; REFERENCE if that is a record."""
        return self.field.type if self.field is not None else FieldType.REFERENCE

    @property
    def leads_to(self) -> str | None:
        """The type of the records that the path ends on; None if it ends on a value."""
        return self.steps[-1].leads_to if self.steps else self.type_name

    @property
    def positions(self) -> tuple[int, ...]:
        """The field position of each step."""
        return tuple(step.position for step in self.steps)

    def __str__(self) -> str:
        return ".".join(step.name for step in self.steps)


def resolve_path(
    schemas: Schemas, type_name: str, path: str, *, expand: bool = True, through_collections: bool = False
) -> ResolvedPath:
    """Follow a path from a type.

    Args:
        schemas: the types to follow it through.
        type_name: the type it starts at.
        path: dotted field names; `!` at the end switches expansion off; empty is the record itself.
        expand: go on from a reference at the end to the one value behind it.
        through_collections: accept `element`, `key` and `value` segments.

    Raises:
        SchemaError: a segment cannot be followed, or the end cannot be expanded. The message names the segment.
    """
    written = path
    if path.endswith("!"):
        path, expand = path[:-1], False
    steps: list[Step] = []
    field: Field | None = None
    current: str | None = type_name
    for number, segment in enumerate(path.split(".") if path else (), 1):
        where = f"segment {number} ({segment!r}) of path {written!r} from type {type_name}"
        if current is None:
            raise SchemaError(f"{where}: {steps[-1].type_name}.{steps[-1].name} is a value and has no fields")
        step, field = _follow(_schema(schemas, current, where), segment, through_collections, where)
        steps.append(step)
        current = step.leads_to
    if expand and path:
        expanded = _expanded(schemas, current, f"path {written!r} from type {type_name}")
        if expanded:
            steps.extend(step for step, _ in expanded)
            field = expanded[-1][1]
    return ResolvedPath(type_name, tuple(steps), field)


def _follow(schema: Schema, segment: str, through_collections: bool, where: str) -> tuple[Step, Field | None]:
    if isinstance(schema, ObjectSchema):
        position = schema.position(segment)
        if position < 0:
            names = ", ".join(field.name for field in schema.fields) or "none"
            raise SchemaError(f"{where}: type {schema.name} has no field {segment!r}; fields: {names}")
        field = schema.fields[position]
        return Step(schema.name, schema.kind, segment, position, field.referenced), field
    if not through_collections:
        raise SchemaError(f"{where}: type {schema.name} is a {schema.kind}; a key goes through OBJECTs only")
    if isinstance(schema, MapSchema):
        targets = {"key": schema.key, "value": schema.value}
    else:
        targets = {"element": schema.element}
    if segment not in targets:
        expected = " or ".join(repr(name) for name in targets)
        raise SchemaError(f"{where}: expected {expected} in {schema.kind} type {schema.name}")
    return Step(schema.name, schema.kind, segment, list(targets).index(segment), targets[segment]), None


def _expanded(schemas: Schemas, start: str | None, where: str) -> list[tuple[Step, Field]]:
    """The steps from a type to the one value that stands for it."""
    steps: list[tuple[Step, Field]] = []
    seen: set[str] = set()
    current = start
    pending: list[str] = []
    ends = False
    while current is not None and (pending or not ends):
        schema = _schema(schemas, current, where)
        if not isinstance(schema, ObjectSchema):
            raise SchemaError(f"{where} ends on {schema.kind} type {current}, which has no single value")
        if not pending:
            if current in seen:
                raise SchemaError(f"{where} goes round in circles at type {current}")
            seen.add(current)
            path = _value_path(schema, where)
            # A key path with its own `!` ends the expansion on a reference.
            ends = path.endswith("!")
            pending = path.removesuffix("!").split(".")
        segment = pending.pop(0)
        step, field = _follow(schema, segment, False, f"{where}, expanded at type {current}")
        assert field is not None
        steps.append((step, field))
        current = step.leads_to
        if current is None and pending:
            raise SchemaError(f"{where}, expanded at type {schema.name}: {segment!r} is a value and has no fields")
    return steps


def _value_path(schema: ObjectSchema, where: str) -> str:
    if len(schema.fields) == 1:
        return schema.fields[0].name
    if schema.primary_key is not None and len(schema.primary_key) == 1:
        return schema.primary_key[0]
    raise SchemaError(
        f"{where} ends on type {schema.name}, which has neither one field nor a primary key of one path; "
        "name the field, or end the path with '!'"
    )


def _schema(schemas: Schemas, name: str, where: str) -> Schema:
    schema = schemas.get(name)
    if schema is None:
        raise SchemaError(f"{where}: type {name!r} is not declared")
    return schema
