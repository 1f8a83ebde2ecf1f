"""Nested records as Arrow: structs, lists and maps, with references followed.

A reference becomes what it refers to: a struct, a list (of a LIST or a SET), a map, or a scalar if the type is boxed.
`depth` counts the references that are followed, a boxed type costing nothing; a reference past it, or to a type that
the state does not hold, is the ordinal as int32. Children are gathered by ordinal for a whole batch of rows at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deltaic.binary.arrow import ArrowColumn, ArrowField, ArrowTable, struct_column
from deltaic.errors import InputError, NotFoundError
from deltaic.kernels import content
from deltaic.schema.logical import LogicalType
from deltaic.schema.mapping import Logical
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, SetSchema
from deltaic.state.columns import (
    FORMATS,
    InvalidText,
    Mask,
    Ordinals,
    Rows,
    list_column,
    map_column,
    read_collections,
    read_column,
)
from deltaic.state.logical_arrow import fitting, logical_column, logical_field
from deltaic.state.records import StateRecords, is_boxed
from deltaic.state.unfolding import BATCH_ELEMENTS, Budget, TooManyElementsError, count_elements, row_elements
from deltaic.state.vector_arrow import vector_column, vector_field
from deltaic.state.vector_column import StoredVectors

BATCH_ROWS = 65_536
"""Rows of a batch, unless asked otherwise."""

CIRCLE_DEPTH = 3
"""How deep `__arrow_c_stream__`, which takes no arguments, follows types that refer to themselves."""


def refers_to_itself(records: StateRecords, type_name: str) -> bool:
    """True if the references of a type lead in a circle."""
    done: set[str] = set()

    def circle(name: str, above: frozenset[str]) -> bool:
        if name in above:
            return True
        if name in done or name not in records.types:
            return False
        below = above | {name}
        found = any(circle(referenced, below) for referenced in records.types[name].schema.references())
        done.add(name)
        return found

    return circle(type_name, frozenset())


def to_arrow(
    records: StateRecords,
    type_name: str,
    rows: Rows,
    *,
    depth: int | None = None,
    fields: Sequence[str] | None = None,
    ordinal_column: str | None = None,
    batch_rows: int = BATCH_ROWS,
    on_invalid_text: InvalidText = "error",
    notes: Logical | None = None,
) -> ArrowTable:
    """The records of a type as rows, a column for each field; one column for a LIST, SET or MAP.

    Args:
        records: the state's records.
        type_name: the type of the rows.
        rows: which records.
        depth: how many references to follow; None follows all, and is an error for a type that refers to itself.
        fields: the fields and vectors of an OBJECT to give, in this order; None gives all.
        ordinal_column: the name of a first column with the ordinals of the rows; None leaves it out.
        batch_rows: rows of a batch.
        on_invalid_text: what to do with lone surrogates, which Arrow cannot hold: `error` or `replace`.
        notes: what fields stand for, by type and field, where the schema does not say it.
    """
    if depth is None:
        if refers_to_itself(records, type_name):
            raise InputError(f"type {type_name} refers to itself: say how deep to follow, as in depth=2")
        depth = len(records.types) + 1
    if depth < 0 or batch_rows < 1:
        raise InputError("depth is not negative, and a batch has at least one row")
    if on_invalid_text not in ("error", "replace"):
        raise InputError(f"on_invalid_text is 'error' or 'replace', not {on_invalid_text!r}")
    nest = _Nest(records, on_invalid_text, notes or {}, Budget(BATCH_ELEMENTS))
    members = nest.members(type_name, fields)
    children = tuple(nest.member_field(type_name, member, depth) for member in members)
    if ordinal_column is not None:
        children = (ArrowField(ordinal_column, "i", False), *children)
    kind = ArrowField("", "+s", False, children)

    def batch(part: Ordinals, budget: Budget) -> ArrowColumn:
        within = replace(nest, budget=budget)
        columns = [within.member_column(type_name, member, part, depth) for member in members]
        if ordinal_column is not None:
            numbers = ArrowField(ordinal_column, "i", False)
            columns.insert(0, ArrowColumn(numbers, len(part), data=part.astype(np.int32)))
        made = struct_column("", tuple(columns), len(part))
        return replace(made, field=_agreed(made.field, kind, type_name))

    def cut(part: Ordinals) -> Iterator[ArrowColumn]:
        try:
            made = batch(part, Budget(BATCH_ELEMENTS if len(part) > 1 else row_elements(records)))
        except TooManyElementsError as error:
            if len(part) == 1:
                raise InputError(
                    f"type {type_name}, record {part[0]} {error}: follow fewer references", "TooLarge"
                ) from None
            yield from cut(part[: len(part) // 2])
            yield from cut(part[len(part) // 2 :])
        else:
            yield made

    def batches() -> Iterator[ArrowColumn]:
        ordinals = rows.all()
        for start in range(0, rows.count, batch_rows):
            yield from cut(ordinals[start : start + batch_rows])

    return ArrowTable(kind, rows.count, batches)


def _agreed(found: ArrowField, promised: ArrowField, type_name: str) -> ArrowField:
    if found.format != promised.format:
        raise InputError(
            f"{promised.name or type_name!r}: a batch holds more than 32-bit offsets reach: ask for fewer batch_rows"
        )
    for one, other in zip(found.children, promised.children, strict=True):
        _agreed(one, other, type_name)
    return promised


@dataclass(frozen=True, slots=True, eq=False)
class _Vector:
    """A vector column that becomes a column of rows."""

    name: str
    column: StoredVectors


_Member = Field | _Vector | None


@dataclass(frozen=True, slots=True)
class _Nest:
    """Types and columns of nested records of one state."""

    records: StateRecords
    on_invalid_text: InvalidText
    notes: Logical
    budget: Budget

    def vectors(self, type_name: str) -> "tuple[_Vector, ...]":
        """The vector columns of a type."""
        return tuple(_Vector(name, column) for name, column in self.records.vectors.get(type_name, {}).items())

    def note(self, type_name: str, place: str) -> LogicalType | None:
        """What a field, `element`, `key` or `value` stands for, if its schema does not say all of it."""
        noted = self.notes.get(type_name)
        return None if noted is None else noted.get(place)

    def scalar_note(self, type_name: str, field: Field) -> LogicalType | None:
        """The same for a field that is no reference; a note that does not fit its type is passed over."""
        note = self.note(type_name, field.name)
        return note if note is not None and not note.is_nested and note.field_type is field.type else None

    def link_note(self, type_name: str, note: LogicalType | None) -> LogicalType | None:
        """The note of a reference to a type, if it fits it; for a boxed type else what is noted of its value."""
        schema = self.records.types[type_name].schema
        boxed = is_boxed(schema)
        found = fitting(note, schema, boxed)
        if found is None and boxed:
            assert isinstance(schema, ObjectSchema)
            return self.scalar_note(type_name, schema.fields[0])
        return found

    def members(self, type_name: str, wanted: Sequence[str] | None) -> "tuple[_Member, ...]":
        """The fields and vectors that become columns; None stands for the members of a collection."""
        schema = self.records.types[type_name].schema
        if not isinstance(schema, ObjectSchema):
            if wanted is not None:
                raise InputError(f"type {type_name} is a {schema.kind} and has no fields to choose from")
            return (None,)
        # A vector of the name of a field is what the field stands for, in a form that every reader knows.
        own: dict[str, _Member] = {field.name: field for field in schema.fields}
        own |= {vector.name: vector for vector in self.vectors(type_name)}
        if wanted is None:
            return tuple(own.values())
        for name in wanted:
            if name not in own:
                raise NotFoundError(f"type {type_name} has no field {name!r}")
        return tuple(own[name] for name in wanted)

    def member_field(self, type_name: str, member: "_Member", depth: int) -> ArrowField:
        """The type of one column of a record type."""
        if isinstance(member, _Vector):
            return vector_field(member.name, member.column.dimensions)
        if member is None:
            return self._collection_field(_member_name(self.records, type_name), type_name, depth)
        if member.referenced is None:
            note = self.scalar_note(type_name, member)
            return logical_field(ArrowField(member.name, FORMATS[member.type]), note)
        return self._link_field(member.name, member.referenced, depth, self.note(type_name, member.name))

    def _link_field(self, name: str, type_name: str, depth: int, note: LogicalType | None) -> ArrowField:
        data = self.records.types.get(type_name)
        if data is None:
            return ArrowField(name, "i")
        schema = data.schema
        if is_boxed(schema):
            assert isinstance(schema, ObjectSchema)
            return logical_field(ArrowField(name, FORMATS[schema.fields[0].type]), self.link_note(type_name, note))
        if depth == 0:
            return ArrowField(name, "i")
        if isinstance(schema, ObjectSchema):
            members = self.members(type_name, None)
            children = tuple(self.member_field(type_name, member, depth - 1) for member in members)
            return logical_field(ArrowField(name, "+s", True, children), self.link_note(type_name, note))
        return logical_field(self._collection_field(name, type_name, depth - 1), self.link_note(type_name, note))

    def _collection_field(self, name: str, type_name: str, depth: int) -> ArrowField:
        schema = self.records.types[type_name].schema
        if isinstance(schema, MapSchema):
            key = replace(self._link_field("key", schema.key, depth, self.note(type_name, "key")), nullable=False)
            value = self._link_field("value", schema.value, depth, self.note(type_name, "value"))
            return ArrowField(name, "+m", True, (ArrowField("entries", "+s", False, (key, value)),))
        assert isinstance(schema, ListSchema | SetSchema)
        item = self._link_field("item", schema.element, depth, self.note(type_name, "element"))
        return ArrowField(name, "+l", True, (item,))

    def member_column(self, type_name: str, member: "_Member", ordinals: Ordinals, depth: int) -> ArrowColumn:
        """One column of records of a type; an ordinal below 0 is null."""
        if isinstance(member, _Vector):
            return vector_column(member.name, member.column, ordinals)
        if member is None:
            return self._collections(_member_name(self.records, type_name), type_name, ordinals, None, depth)
        arrow = self._physical(type_name, member, ordinals)
        if member.referenced is None:
            return logical_column(arrow, self.scalar_note(type_name, member), f"{type_name}.{member.name}")
        assert member.type is FieldType.REFERENCE and arrow.data is not None
        note = self.note(type_name, member.name)
        return self._link(member.name, member.referenced, arrow.data.astype(np.int64), depth, note)

    def _physical(self, type_name: str, member: Field, ordinals: Ordinals) -> ArrowColumn:
        schema = self.records.types[type_name].schema
        assert isinstance(schema, ObjectSchema)
        rows = Rows(len(ordinals), ordinals=ordinals)
        column = read_column(self.records, type_name, schema.position(member.name), rows)
        return column.arrow_column(on_invalid_text=self.on_invalid_text)

    def _link(self, name: str, type_name: str, ordinals: Ordinals, depth: int, note: LogicalType | None) -> ArrowColumn:
        """What references lead to; an ordinal below 0 is null."""
        data = self.records.types.get(type_name)
        present: Mask | None = ordinals >= 0
        if present is not None and present.all():
            present = None
        schema = None if data is None else data.schema
        if data is not None and len(ordinals) and int(ordinals.max()) > data.max_ordinal:
            raise content.out_of_range(self.records.reader, self.records.number(type_name), int(ordinals.max()))
        if schema is not None and is_boxed(schema):
            assert isinstance(schema, ObjectSchema)
            column = self._physical(type_name, schema.fields[0], ordinals)
            named = replace(column, field=replace(column.field, name=name))
            return logical_column(named, self.link_note(type_name, note), f"{type_name}.{name}")
        if schema is None or depth == 0:
            return ArrowColumn(ArrowField(name, "i"), len(ordinals), present, ordinals.astype(np.int32))
        if isinstance(schema, ObjectSchema):
            members = self.members(type_name, None)
            children = tuple(self.member_column(type_name, member, ordinals, depth - 1) for member in members)
            found = struct_column(name, children, len(ordinals), present)
        else:
            found = self._collections(name, type_name, ordinals, present, depth - 1)
        return logical_column(found, self.link_note(type_name, note), f"{type_name}.{name}")

    def _collections(
        self, name: str, type_name: str, ordinals: Ordinals, present: Mask | None, depth: int
    ) -> ArrowColumn:
        self.budget.take(count_elements(self.records.types[type_name], ordinals))
        found = read_collections(self.records, type_name, Rows(len(ordinals), ordinals=ordinals))
        schema = self.records.types[type_name].schema
        if isinstance(schema, MapSchema):
            assert found.values is not None
            key_note, value_note = self.note(type_name, "key"), self.note(type_name, "value")
            keys = self._link("key", schema.key, found.elements.astype(np.int64), depth, key_note)
            if keys.valid is not None:
                row = int(np.searchsorted(found.offsets, int(np.flatnonzero(~keys.valid)[0]), side="right")) - 1
                raise InputError(
                    f"type {type_name}, record {ordinals[row]} has a null key, which Arrow maps cannot hold"
                )
            values = self._link("value", schema.value, found.values.astype(np.int64), depth, value_note)
            return map_column(name, found.offsets, keys, values, present)
        assert isinstance(schema, ListSchema | SetSchema)
        note = self.note(type_name, "element")
        items = self._link("item", schema.element, found.elements.astype(np.int64), depth, note)
        return list_column(name, found.offsets, items, present)


def _member_name(records: StateRecords, type_name: str) -> str:
    return "entries" if isinstance(records.types[type_name].schema, MapSchema) else "elements"
