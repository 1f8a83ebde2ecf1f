"""Records from Python objects and from dicts: a list of values per field, then the same columns as from Arrow.

Objects are read by attribute, dicts by key. Boxed types and enums are given as their plain value (`"Solaris"`,
`Genre.DRAMA`), lists as any iterable, maps as mappings or as pairs. None is null, as a missing key is.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import Any

import numpy as np

from deltaic.errors import InputError
from deltaic.schema.logical import LogicalType
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import Field, FieldType, MapSchema, ObjectSchema
from deltaic.state.ingest_plan import Place, Planner, Slot, boxed_scalar, inner_types, wrapped_type
from deltaic.state.ingest_python import encode_python
from deltaic.state.ingest_rows import Link, Rows
from deltaic.state.ingest_vectors import as_bytes, vectors_from_python

_MAX_DEPTH = 200
_MISSING = object()


def refers_to_itself(schemas: SchemaSet, root_type: str) -> bool:
    """True if records of a type may lead back to records of a type on the way."""
    done: set[str] = set()

    def leads_back(name: str, above: frozenset[str]) -> bool:
        if name in above:
            return True
        schema = schemas.get(name)
        if schema is None or name in done:
            return False
        found = any(leads_back(referenced, above | {name}) for referenced in schema.references())
        done.add(name)
        return found

    return leads_back(root_type, frozenset())


@dataclass(slots=True)
class ObjectRows:
    """Makes the places of a type and the rows of chunks, from objects, or from dicts if `as_json`."""

    planner: Planner
    classes: Mapping[str, type] = field(default_factory=dict)
    as_json: bool = False
    ignore_unknown: bool = False

    def root_place(self, root_type: str, *, whole: bool) -> Place:
        """The place of rows of a type; with all places below it, or with those that chunks turn out to need."""
        place = self._place(root_type, "", None)
        if not isinstance(place.schema, ObjectSchema):
            raise InputError(
                f"type {root_type} is a {place.schema.kind}: rows are records of an OBJECT type", "WrongType"
            )
        if whole:
            self._grow(place)
        return place

    def root(self, place: Place, items: list[Any], first_row: int) -> Rows:
        """The rows of some objects, the first being row `first_row` of the input."""
        rows = Rows(place, len(items), first_row=first_row)
        for index, item in enumerate(items):
            if item is None:
                raise InputError(f"row {first_row + index} is null", "Null")
        self._fill(rows, items, 0)
        return rows

    def _place(self, type_name: str, path: str, note: LogicalType | None) -> Place:
        place = self.planner.place(type_name, path)
        schema = place.schema
        if not isinstance(schema, ObjectSchema):
            return place
        scalar = boxed_scalar(schema)
        if scalar is not None and path:
            place.boxed = self.planner.scalar(schema, scalar, note)
            place.slots = (Slot(scalar, place.boxed),)
            return place
        place.wraps = wrapped_type(schema) is not None and bool(path)
        place.slots = tuple(self._slot(schema, each) for each in schema.fields)
        return place

    def _slot(self, schema: ObjectSchema, each: Field) -> Slot:
        if each.type is FieldType.REFERENCE:
            return Slot(each)
        return Slot(each, self.planner.scalar(schema, each), vector=self.planner.vector_bytes(schema.name, each.name))

    def _grow(self, place: Place) -> None:
        for slot in place.slots:
            if slot.field.type is FieldType.REFERENCE:
                self._grow(self._slot_place(place, slot))
        for inner in self._inner_places(place):
            self._grow(inner)

    def _slot_place(self, place: Place, slot: Slot) -> Place:
        if slot.place is None:
            path = place.path if place.wraps else _below(place, slot.field.name)
            note = self.planner.note(place.type_name, slot.field.name)
            slot.place = self._place(slot.field.referenced or "", path, note)
        return slot.place

    def _inner_places(self, place: Place) -> tuple[Place, ...]:
        if not place.inner:
            place.inner = tuple(
                self._place(type_name, place.path + suffix, self.planner.note(place.type_name, name))
                for name, type_name, suffix in inner_types(place.schema)
            )
        return place.inner

    def _fill(self, rows: Rows, items: list[Any], depth: int) -> None:
        """Fill rows from values none of which is None, but those of boxed types and wrappers inside collections."""
        place = rows.place
        if depth > _MAX_DEPTH:
            raise InputError(f"column {place.path[:80]!r}…: nested more than {_MAX_DEPTH} deep", "TooDeep")
        if place.boxed is not None:
            values = self._unboxed(place, items)
            rows.columns.append(encode_python(values, place.boxed, rows, place.path, as_json=self.as_json))
            rows.links.append(None)
        elif place.wraps:
            rows.columns.append(None)
            rows.links.append(self._link(rows, place.slots[0], items, depth))
        elif isinstance(place.schema, ObjectSchema):
            self._fields(rows, items, depth)
        else:
            self._collections(rows, items, depth)

    def _fields(self, rows: Rows, items: list[Any], depth: int) -> None:
        place = rows.place
        self._check_items(rows, items)
        for slot in place.slots:
            values = self._values(rows, items, slot.field.name)
            if slot.field.type is FieldType.REFERENCE:
                rows.columns.append(None)
                rows.links.append(self._link(rows, slot, values, depth))
            elif slot.vector is not None and not any(isinstance(value, bytes) for value in values):
                path = _below(place, slot.field.name)
                rows.columns.append(as_bytes(vectors_from_python(slot.vector, values, rows, path)))
                rows.links.append(None)
            else:
                assert slot.logical is not None
                path = _below(place, slot.field.name)
                rows.columns.append(encode_python(values, slot.logical, rows, path, as_json=self.as_json))
                rows.links.append(None)

        for vector in place.vectors:
            values = self._values(rows, items, vector.field_name)
            rows.vectors.append(vectors_from_python(vector, values, rows, _below(place, vector.field_name)))

    def _check_items(self, rows: Rows, items: list[Any]) -> None:
        place = rows.place
        if self.as_json:
            known = {*(slot.field.name for slot in place.slots), *(vector.field_name for vector in place.vectors)}
            for index, item in enumerate(items):
                if not isinstance(item, Mapping):
                    why = f"{type(item).__name__} where a mapping of {place.type_name} is expected"
                    raise rows.refused(index, place.path, why, "WrongType")
                if not self.ignore_unknown and not item.keys() <= known:
                    strange = ", ".join(repr(key) for key in item if key not in known)
                    why = f"type {place.type_name} has no field {strange}; fields: {', '.join(sorted(known))}"
                    raise rows.refused(index, place.path, why, "UnknownField")
            return
        wanted = self.classes.get(place.type_name)
        if wanted is not None:
            for index, item in enumerate(items):
                if not isinstance(item, wanted):
                    why = f"a {type(item).__name__} where a {wanted.__name__} is expected"
                    raise rows.refused(index, place.path, why, "WrongType")

    def _values(self, rows: Rows, items: list[Any], name: str) -> list[Any]:
        if self.as_json:
            return [item.get(name) for item in items]
        try:
            return [getattr(item, name) for item in items]
        except AttributeError:
            for index, item in enumerate(items):
                if getattr(item, name, _MISSING) is _MISSING:
                    why = f"{type(item).__name__} has no attribute {name!r}, a field of type {rows.place.type_name}"
                    raise rows.refused(index, _below(rows.place, name), why, "UnknownField") from None
            raise

    def _link(self, rows: Rows, slot: Slot, values: list[Any], depth: int) -> Link | None:
        valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
        if not valid.any() and slot.place is None:
            return None
        place = self._slot_place(rows.place, slot)
        if valid.all():
            below = Rows(place, len(values), rows)
            self._fill(below, values, depth + 1)
            return Link(None, below)
        below = Rows(place, int(valid.sum()), rows, parent_valid=valid)
        self._fill(below, [value for value in values if value is not None], depth + 1)
        return Link(valid, below)

    def _collections(self, rows: Rows, items: list[Any], depth: int) -> None:
        place = rows.place
        is_map = isinstance(place.schema, MapSchema)
        listed: list[list[Any]] = []
        for index, item in enumerate(items):
            if isinstance(item, str | bytes) or not isinstance(item, Iterable) or is_map < isinstance(item, Mapping):
                what = "mapping" if is_map else "list"
                raise rows.refused(
                    index, place.path, f"a {type(item).__name__} where a {what} is expected", "WrongType"
                )
            listed.append(list(item.items() if isinstance(item, Mapping) else item))
        rows.offsets = np.zeros(len(items) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, listed), np.int64, len(listed)), out=rows.offsets[1:])
        elements = list(chain.from_iterable(listed))
        columns = self._entries(rows, elements) if is_map else [elements]
        for inner, values in zip(self._inner_places(place), columns, strict=True):
            below = Rows(inner, len(values), rows, parent_offsets=rows.offsets)
            if inner.boxed is None and not inner.wraps:
                for index, value in enumerate(values):
                    if value is None:
                        why = f"a {inner.type_name} inside a collection is null"
                        raise below.refused(index, inner.path, why, "NullElement")
            if not values and not inner.slots and not inner.inner:
                # A type that refers to itself ends where a collection is empty.
                rows.links.append(Link(None, below))
                continue
            self._fill(below, values, depth + 1)
            rows.links.append(Link(None, below))

    def _entries(self, rows: Rows, elements: list[Any]) -> list[list[Any]]:
        keys, values = [], []
        for index, entry in enumerate(elements):
            if isinstance(entry, Mapping) and entry.keys() == {"key", "value"}:
                entry = (entry["key"], entry["value"])
            if not isinstance(entry, tuple | list) or len(entry) != 2:
                at = int(np.searchsorted(rows.offsets, index, "right")) - 1
                raise rows.refused(at, rows.place.path, f"{entry!r} is no pair of key and value", "WrongType")
            keys.append(entry[0])
            values.append(entry[1])
        return [self._json_keys(rows.place, keys), values]

    def _json_keys(self, place: Place, keys: list[Any]) -> list[Any]:
        # JSON has only texts as keys of objects.
        key_place = self._inner_places(place)[0]
        if (
            self.as_json
            and key_place.boxed is not None
            and key_place.boxed.field_type in (FieldType.INT, FieldType.LONG)
        ):
            return [int(key) if isinstance(key, str) and key.lstrip("-").isdecimal() else key for key in keys]
        return keys

    def _unboxed(self, place: Place, items: list[Any]) -> list[Any]:
        only = place.slots[0].field.name
        if self.as_json:
            if not any(isinstance(item, Mapping) for item in items):
                return items
            return [item.get(only) if isinstance(item, Mapping) else item for item in items]
        wanted = self.classes.get(place.type_name)
        if wanted is None:
            return items
        if issubclass(wanted, Enum):
            return [item.name if isinstance(item, wanted) else item for item in items]
        return [getattr(item, only) if isinstance(item, wanted) else item for item in items]


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Items in lists of a size."""
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _below(place: Place, name: str) -> str:
    return f"{place.path}.{name}" if place.path else name
