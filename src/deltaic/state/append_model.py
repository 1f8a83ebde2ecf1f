"""What an appended section does to a reader's model, decided before any record is touched.

In full mode removed types and fields go, renamed fields keep their values under the new name, new fields stand behind
the others, new types are taken over, a changed primary key follows. In values mode the model stays. Either way the plan
says which values can be put where; a filter leaves out of the new model what it leaves out of a snapshot.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from deltaic.errors import DecodeError, SchemaError
from deltaic.limits import MAX_FIELDS
from deltaic.schema.types import Field, ObjectSchema, Schema
from deltaic.state.filter import Filter
from deltaic.wire.append import AddedType, AppendedSection, AppendMode, FieldValues


@dataclass(frozen=True, slots=True, eq=False)
class TypePlan:
    """What becomes of one OBJECT type."""

    schema: ObjectSchema
    sources: tuple[int, ...]
    """For each field, where it stands in the type as it is; -1 if it is new."""
    values: Mapping[str, FieldValues]
    """By field name."""

    @property
    def new_fields(self) -> int:
        """How many fields the type gains."""
        return self.sources.count(-1)


@dataclass(frozen=True, slots=True, eq=False)
class AppendPlan:
    """What becomes of the types of a state."""

    types: Mapping[str, TypePlan] = field(default_factory=dict)
    added: Mapping[str, AddedType] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    skipped_fields: int = 0
    """Fields with values that the reader does not have, or has with another type."""


def plan_append(
    schemas: Mapping[str, Schema], section: AppendedSection, mode: AppendMode, filter: Filter | None, at: str
) -> AppendPlan:
    """Match a section with the reader's model.

    Args:
        schemas: the reader's types.
        section: what was read.
        mode: values, or definitions and values.
        filter: what the reader leaves out.
        at: names the blob, for errors.

    Raises:
        SchemaError: in full mode, a field has one type in the section and another one in the reader.
    """
    if mode is not AppendMode.FULL:
        return _with_values(schemas, {}, {}, frozenset(), section, mode, at)
    model = _Model(schemas, at)
    model.apply(section)
    if filter is not None:
        model.leave_out(filter)
    changed = {name: sources for name, sources in model.sources.items() if name in model.schemas}
    return _with_values(model.schemas, changed, model.added, frozenset(model.removed), section, mode, at)


class _Model:
    """The reader's model on its way to the producer's."""

    def __init__(self, schemas: Mapping[str, Schema], at: str) -> None:
        self.before = schemas
        self.schemas: dict[str, Schema] = dict(schemas)
        self.sources: dict[str, list[int]] = {}
        """Of types that change: for each field its place before, or -1."""
        self.added: dict[str, AddedType] = {}
        self.removed: set[str] = set()
        self._strange: dict[str, Schema] = {}
        """New fields of types that the reader does not have: a filter may name what is below them."""
        self._at = at

    def apply(self, section: AppendedSection) -> None:
        extension = section.extension
        for name in extension.removed_types:
            if self.schemas.pop(name, None) is not None:
                self.removed.add(name)
        for name, field_name in extension.removed_fields:
            self._remove(name, field_name)
        for name, old, new in extension.renamed_fields:
            self._rename(name, old, new)
        for definition in section.definitions:
            schema = self._object(definition.name)
            if schema is None:
                self._strange[definition.name] = ObjectSchema(definition.name, definition.fields)
                continue
            for one in definition.fields:
                self._add(definition.name, one)
        for added in extension.added_types:
            self._add_type(added)
        for name, key in extension.keys:
            schema = self._object(name)
            if schema is not None and schema.primary_key != key:
                self._fields(name)
                self.schemas[name] = replace(schema, primary_key=key)

    def leave_out(self, filter: Filter) -> None:
        """Leave out what a reader of a snapshot would not have, either."""
        wanted = {schema.name: schema for schema in filter.apply((*self.schemas.values(), *self._strange.values()))}
        for name in [*self.added, *self.sources]:
            schema = wanted.get(name)
            if schema is None:
                self.added.pop(name, None)
                self.sources.pop(name, None)
                self.schemas.pop(name, None)
                if name in self.before:
                    self.removed.add(name)
            elif name in self.added:
                self.added[name] = replace(self.added[name], schema=schema)
                self.schemas[name] = schema
            else:
                mine = self.schemas[name]
                assert isinstance(schema, ObjectSchema) and isinstance(mine, ObjectSchema)
                places = [mine.position(one.name) for one in schema.fields]
                self.sources[name] = [self.sources[name][place] for place in places]
                self.schemas[name] = schema

    def _object(self, name: str) -> ObjectSchema | None:
        schema = self.schemas.get(name)
        if schema is not None and not isinstance(schema, ObjectSchema):
            raise SchemaError(f"{self._at}: type {name} gains fields, but is of kind {schema.kind} here")
        return schema

    def _fields(self, name: str) -> list[int]:
        schema = self.schemas[name]
        assert isinstance(schema, ObjectSchema)
        return self.sources.setdefault(name, list(range(len(schema.fields))))

    def _remove(self, name: str, field_name: str) -> None:
        schema = self._object(name)
        position = -1 if schema is None else schema.position(field_name)
        if schema is not None and position >= 0:
            del self._fields(name)[position]
            fields = schema.fields[:position] + schema.fields[position + 1 :]
            self.schemas[name] = replace(schema, fields=fields)

    def _rename(self, name: str, old: str, new: str) -> None:
        schema = self._object(name)
        position = -1 if schema is None else schema.position(old)
        if schema is None or position < 0:
            return
        if schema.position(new) >= 0:
            # Who has been here before, and walked back by reverse deltas, has the new name already.
            self._remove(name, old)
            return
        self._fields(name)
        renamed = replace(schema.fields[position], name=new)
        self.schemas[name] = replace(
            schema, fields=(*schema.fields[:position], renamed, *schema.fields[position + 1 :])
        )

    def _add(self, name: str, one: Field) -> None:
        schema = self._object(name)
        assert schema is not None
        position = schema.position(one.name)
        if position >= 0:
            if schema.fields[position] != one:
                raise _mismatch(self._at, name, schema.fields[position], one)
            return
        if len(schema.fields) >= MAX_FIELDS:
            raise DecodeError("BadCount", f"type {name} would have more than {MAX_FIELDS} fields", self._at)
        self._fields(name).append(-1)
        self.schemas[name] = replace(schema, fields=(*schema.fields, one))

    def _add_type(self, added: AddedType) -> None:
        name = added.schema.name
        known = self.schemas.get(name)
        if known is None:
            self.added[name] = added
            self.schemas[name] = added.schema
            self.removed.discard(name)
        elif known.kind is not added.schema.kind:
            raise SchemaError(f"{self._at}: type {name} is {known.kind} here and {added.schema.kind} in the section")


def _with_values(
    schemas: Mapping[str, Schema],
    sources: Mapping[str, Iterable[int]],
    added: Mapping[str, AddedType],
    removed: frozenset[str],
    section: AppendedSection,
    mode: AppendMode,
    at: str,
) -> AppendPlan:
    """Match values with fields. Values of new types are in their type sections alone."""
    values: dict[str, dict[str, FieldValues]] = {}
    skipped = 0
    for one in section.values:
        schema = schemas.get(one.name)
        for given in one.fields:
            position = schema.position(given.field.name) if isinstance(schema, ObjectSchema) else -1
            if position < 0 or one.name in added:
                skipped += 1
                continue
            assert isinstance(schema, ObjectSchema)
            mine = schema.fields[position]
            if mine != given.field:
                if mode is AppendMode.FULL:
                    raise _mismatch(at, one.name, mine, given.field)
                skipped += 1
                continue
            values.setdefault(one.name, {})[mine.name] = given
    plans = {}
    for name in dict.fromkeys((*sources, *values)):
        schema = schemas[name]
        assert isinstance(schema, ObjectSchema)
        places = tuple(sources[name]) if name in sources else tuple(range(len(schema.fields)))
        plans[name] = TypePlan(schema, places, values.get(name, {}))
    return AppendPlan(plans, added, removed, skipped)


def _mismatch(at: str, type_name: str, ours: Field, theirs: Field) -> SchemaError:
    return SchemaError(
        f"{at}: field {type_name}.{ours.name} is {_shown(ours)} here and {_shown(theirs)} in the appended section; "
        "a snapshot has the producer's model"
    )


def _shown(one: Field) -> str:
    return f"a reference to {one.referenced}" if one.referenced is not None else str(one.type)
