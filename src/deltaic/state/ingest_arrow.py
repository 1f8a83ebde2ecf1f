"""Records from Arrow: a plan by the Arrow schema, then the rows of a chunk, column by column.

Columns meet fields by name, at every level. A field without a column is null; a column without a field is refused, or
ignored if asked. A null struct, list or text is a null reference; inside collections, where Hollow has no nulls, a
null scalar is a boxed record without a value, a null of `NullableX` is a wrapper without a value, and any other null
is refused.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deltaic.errors import InputError
from deltaic.schema.logical import LogicalType
from deltaic.schema.mapping import logical_of
from deltaic.schema.types import FieldType, MapSchema, ObjectSchema
from deltaic.state.ingest_columns import Column, Mask, Part, Ranges, part_length, select
from deltaic.state.ingest_plan import Place, Planner, Slot, boxed_scalar, inner_types, wrapped_type
from deltaic.state.ingest_rows import Fixed, Link, Rows, Variable
from deltaic.state.ingest_values import convertible, encode_numbers, encode_ranges
from deltaic.state.ingest_vectors import as_bytes, vectors_from_arrow

_LISTS = ("+l", "+L", "+vl", "+vL")
_MAX_DEPTH = 128


@dataclass(slots=True)
class ArrowPlan:
    """Places and the columns that feed them."""

    planner: Planner
    ignore_unknown: bool = False
    children: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Place number → per field and vector of the place, which child of the struct feeds it; -1: none."""

    def root(self, root_type: str, schema: Any) -> Place:
        """The places of rows of a type, from the Arrow schema of the rows."""
        place = self.planner.place(root_type, "")
        if not isinstance(place.schema, ObjectSchema):
            raise InputError(
                f"type {root_type} is a {place.schema.kind}: rows are records of an OBJECT type", "WrongType"
            )
        self._struct(place, schema, 0)
        return place

    def _struct(self, place: Place, schema: Any, depth: int) -> None:
        assert isinstance(place.schema, ObjectSchema)
        if depth > _MAX_DEPTH:
            raise InputError(f"column {place.path!r}: nested more than {_MAX_DEPTH} deep", "TooDeep")
        positions: dict[str, int] = {}
        for position, child in enumerate(schema.children):
            if positions.setdefault(child.name, position) != position:
                raise InputError(f"{_column(place, child.name)} is there twice", "Duplicate")
        known = {found.name for found in place.schema.fields}
        beside = {column.field_name for column in place.vectors}
        unknown = [name for name in positions if name not in known and name not in beside]
        if unknown and not self.ignore_unknown:
            names = ", ".join(repr(f"{place.path}.{name}" if place.path else name) for name in unknown)
            raise InputError(
                f"type {place.type_name} has no field for column {names}; fields: {', '.join(sorted(known)) or 'none'}",
                "UnknownField",
            )
        slots = []
        for found in place.schema.fields:
            position = positions.get(found.name, -1)
            path = f"{place.path}.{found.name}" if place.path else found.name
            note = self.planner.note(place.type_name, found.name)
            if position < 0:
                if note is not None and not note.nullable:
                    raise InputError(
                        f"column {path!r} is missing, and type {place.type_name} has no nulls there", "Null"
                    )
                slots.append(Slot(found))
            elif found.type is FieldType.REFERENCE:
                child = schema.child(position)
                slots.append(Slot(found, place=self._place(found.referenced or "", path, child, note, depth + 1)))
            else:
                logical = self.planner.scalar(place.schema, found)
                vector = self.planner.vector_bytes(place.type_name, found.name)
                if vector is not None and not schema.child(position).format.startswith("+"):
                    vector = None
                if vector is None:
                    self._check_scalar(schema.child(position), logical, path)
                slots.append(Slot(found, logical, vector=vector))
        place.slots = tuple(slots)
        fed = (*(found.name for found in place.schema.fields), *(column.field_name for column in place.vectors))
        self.children[place.number] = tuple(positions.get(name, -1) for name in fed)

    def _place(self, type_name: str, path: str, schema: Any, note: LogicalType | None, depth: int) -> Place:
        place = self.planner.place(type_name, path)
        values = schema.dictionary or schema
        if values.format == "+r":
            values = values.child(1)
        scalar = boxed_scalar(place.schema)
        inside = wrapped_type(place.schema)
        if inside is not None:
            assert isinstance(place.schema, ObjectSchema)
            only = place.schema.fields[0]
            place.wraps = True
            place.slots = (Slot(only, place=self._place(inside, path, schema, note, depth + 1)),)
        elif scalar is not None and values.format != "+s":
            assert isinstance(place.schema, ObjectSchema)
            place.boxed = self.planner.scalar(place.schema, scalar, note)
            self._check_scalar(schema, place.boxed, path)
            place.slots = (Slot(scalar, place.boxed),)
        elif isinstance(place.schema, ObjectSchema):
            if values.format not in ("+s", "n"):
                raise _unfit(place, values.format)
            if values.format == "+s":
                self._struct(place, values, depth)
            else:
                place.slots = tuple(Slot(found) for found in place.schema.fields)
                self.children[place.number] = (-1,) * (len(place.slots) + len(place.vectors))
        else:
            self._collection(place, values, depth)
        return place

    def _collection(self, place: Place, schema: Any, depth: int) -> None:
        inner = inner_types(place.schema)
        if schema.format == "n":
            return
        is_list = schema.format in _LISTS or schema.format.startswith("+w:")
        if not is_list and schema.format != "+m":
            raise _unfit(place, schema.format)
        columns = [schema.child(0)]
        if isinstance(place.schema, MapSchema):
            entries = schema.child(0)
            # A list of structs of two is a map too: not every library has maps.
            if entries.format != "+s" or entries.n_children != 2:
                raise _unfit(place, schema.format)
            columns = list(entries.children)
        elif not is_list:
            raise _unfit(place, schema.format)
        place.inner = tuple(
            self._place(type_name, place.path + suffix, column, self.planner.note(place.type_name, name), depth + 1)
            for (name, type_name, suffix), column in zip(inner, columns, strict=True)
        )

    def _check_scalar(self, schema: Any, logical: LogicalType, path: str) -> None:
        values = schema.child(1) if schema.format == "+r" else schema
        if (values.dictionary or values).format.startswith("+"):
            raise InputError(f"column {path!r} is nested, its field is {logical.name}", "TypeConflict")
        source = logical_of(values)
        if not convertible(source, logical):
            raise InputError(f"column {path!r} is {source.name}, its field is {logical.name}", "TypeConflict")


@dataclass(slots=True)
class ArrowRows:
    """Makes the rows of chunks."""

    children: dict[int, tuple[int, ...]]

    def root(self, place: Place, batch: Column, part: slice, first_row: int) -> Rows:
        """The rows of a part of a record batch, the first being row `first_row` of the input."""
        valid = batch.valid(part)
        if valid is not None:
            raise InputError(f"row {first_row + int(np.argmin(valid))} is null", "Null")
        rows = Rows(place, part_length(part), source=batch, first_row=first_row)
        self._fill(rows, batch, part)
        return rows

    def _fill(self, rows: Rows, column: Column, part: Part) -> None:
        """Fill rows of an OBJECT from a struct, or of a collection; the part is without nulls."""
        place = rows.place
        column, part = column.resolve(part)
        if column.format == "+s" and isinstance(place.schema, ObjectSchema):
            inside = column.struct_part(part)
            columns = [None if at < 0 else column.children[at] for at in self.children[place.number]]
            for slot, fed in zip(place.slots, columns, strict=False):
                self._slot(rows, slot, fed, inside)
            for vector, fed in zip(place.vectors, columns[len(place.slots) :], strict=True):
                path = f"{place.path}.{vector.field_name}" if place.path else vector.field_name
                rows.vectors.append(vectors_from_arrow(vector, fed, inside, rows, path))
            return
        if isinstance(place.schema, ObjectSchema) or column.format == "n":
            # A column of nulls only: there is no record here.
            rows.columns, rows.links = [None] * len(place.slots), [None] * len(place.slots)
            return
        rows.offsets, inside = column.list_part(part)
        children = [column.children[0]]
        if isinstance(place.schema, MapSchema):
            entries = children[0]
            self._check_present(rows, entries, inside)
            entries, inside = entries.resolve(inside)
            inside, children = entries.struct_part(inside), list(entries.children)
        for inner, child in zip(place.inner, children, strict=True):
            below = Rows(inner, part_length(inside), rows, parent_offsets=rows.offsets)
            self._element(below, child, inside)
            rows.links.append(Link(None, below))

    def _check_present(self, rows: Rows, entries: Column, part: Part) -> None:
        valid = entries.valid(part)
        if valid is not None:
            index = int(np.searchsorted(rows.offsets, int(np.argmin(valid)), "right")) - 1
            raise rows.refused(index, rows.place.path, "an entry of a map is null", "NullElement")

    def _slot(self, rows: Rows, slot: Slot, column: Column | None, part: Part) -> None:
        if column is None:
            rows.columns.append(None)
            rows.links.append(None)
        elif slot.place is None:
            assert slot.logical is not None
            path = f"{rows.place.path}.{slot.field.name}" if rows.place.path else slot.field.name
            if slot.vector is not None:
                rows.columns.append(as_bytes(vectors_from_arrow(slot.vector, column, part, rows, path)))
            else:
                rows.columns.append(_scalars(column, part, column.valid(part), slot.logical, rows, path))
            rows.links.append(None)
        else:
            rows.columns.append(None)
            rows.links.append(self._field_link(rows, slot.place, column, part))

    def _field_link(self, rows: Rows, place: Place, column: Column, part: Part) -> Link:
        valid = column.valid(part)
        inside = part if valid is None else select(part, valid)
        below = Rows(place, part_length(inside), rows, parent_valid=valid)
        if place.boxed is not None:
            if valid is not None and not place.boxed.nullable:
                raise rows.refused(int(np.argmin(valid)), place.path, "null in a column without nulls", "Null")
            below.columns.append(_scalars(column, inside, None, place.boxed, below, place.path))
            below.links.append(None)
        elif place.wraps:
            self._wrap(below, column, inside)
        else:
            self._fill(below, column, inside)
        return Link(valid, below)

    def _element(self, rows: Rows, column: Column, part: Part) -> None:
        """Fill the rows of the elements, keys or values of a collection: every one is a record."""
        place = rows.place
        if place.boxed is not None:
            rows.columns.append(_scalars(column, part, column.valid(part), place.boxed, rows, place.path))
            rows.links.append(None)
        elif place.wraps:
            self._wrap(rows, column, part)
        else:
            valid = column.valid(part)
            if valid is not None:
                why = f"a {place.type_name} inside a collection is null; a model with null elements keeps it"
                raise rows.refused(int(np.argmin(valid)), place.path, why, "NullElement")
            self._fill(rows, column, part)

    def _wrap(self, rows: Rows, column: Column, part: Part) -> None:
        inside = rows.place.slots[0].place
        assert inside is not None
        rows.columns.append(None)
        rows.links.append(self._field_link(rows, inside, column, part))


def _scalars(
    column: Column, part: Part, valid: Mask | None, target: LogicalType, rows: Rows, path: str
) -> Fixed | Variable:
    count = part_length(part)
    encoded = column.dictionary is not None or column.format == "+r"
    if encoded and valid is not None:
        part = select(part, valid)
    values, inside = column.resolve(part)
    source = values.logical()
    if source.storage is None:
        ranges = values.ranges(inside)
        if encoded and valid is not None:
            starts, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
            starts[valid], ends[valid] = ranges.starts, ranges.ends
            ranges = Ranges(starts, ends, ranges.data)
        return encode_ranges(ranges, valid, target, rows, path)
    if source.format == "n":
        return encode_numbers(np.zeros(count, np.bool_), valid, source, target, rows, path)
    numbers = values.values(inside)
    if encoded and valid is not None:
        spread = np.zeros((count, *numbers.shape[1:]), numbers.dtype)
        spread[valid] = numbers
        numbers = spread
    return encode_numbers(numbers, valid, source, target, rows, path)


def _unfit(place: Place, format: str) -> InputError:
    schema = place.schema
    return InputError(
        f"column {place.path!r} is Arrow {format!r}: type {schema.name} is a {schema.kind}", "TypeConflict"
    )


def _column(place: Place, name: str) -> str:
    return f"column {place.path}.{name!r}" if place.path else f"column {name!r}"
