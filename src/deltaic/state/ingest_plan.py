"""Which column feeds which type: a tree of places in a row from which records come.

A row of `Movie {title: String, cast: ListOfActor}` has the places `Movie`, `title` (String), `cast` (ListOfActor),
`cast[]` (Actor), `cast[].name` (String). Records come from a place by column; a type may have several places.
The tree follows the schemas, and ends where the input has no column: such fields are null.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from deltaic.errors import InputError
from deltaic.schema.classes import VectorColumn
from deltaic.schema.logical import LogicalType, natural
from deltaic.schema.mapping import Logical
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema

ENUM_FIELD = "_name"


@dataclass(eq=False, slots=True)
class Place:
    """One place in a row from which records of one type come."""

    schema: Schema
    path: str
    """Where in the row, as people write it: `cast[].name`."""
    number: int
    boxed: LogicalType | None = None
    """Set if a record holds one scalar and the input gives just that scalar; what the scalar is."""
    wraps: bool = False
    """True if a record only says whether what it refers to is there (`NullableX`), and the input has no such level."""
    slots: "tuple[Slot, ...]" = ()
    """The fields of an OBJECT, in schema order."""
    inner: "tuple[Place, ...]" = ()
    """Of a LIST or SET the place of its elements; of a MAP those of keys and values."""
    vectors: tuple[VectorColumn, ...] = ()
    """The vectors that go beside the records, and are collected."""

    @property
    def type_name(self) -> str:
        """The type whose records come from here."""
        return self.schema.name

    def below(self) -> "Iterator[Place]":
        """The places directly below, in the order in which a record's parts are added."""
        for slot in self.slots:
            if slot.place is not None:
                yield slot.place
        yield from self.inner

    def walk(self) -> "Iterator[Place]":
        """This place and all below it."""
        yield self
        for place in self.below():
            yield from place.walk()


@dataclass(eq=False, slots=True)
class Slot:
    """One field of an OBJECT place: a scalar (`logical`), a reference (`place`), or nothing where no column is."""

    field: Field
    logical: LogicalType | None = None
    place: Place | None = None
    vector: VectorColumn | None = None
    """Set if the field keeps a vector as bytes."""


@dataclass(eq=False, slots=True)
class Plan:
    """All places of a row, and the order in which types are numbered."""

    root: Place
    types: tuple[tuple[str, tuple[Place, ...]], ...]
    """Each type with its places, a type after all the types that its records refer to."""

    @classmethod
    def of(cls, root: Place) -> "Plan | None":
        """The plan of a tree of places; None if a type refers to itself, and so cannot wait for what is below it."""
        places: dict[str, list[Place]] = {}
        needs: dict[str, set[str]] = {}
        for place in root.walk():
            places.setdefault(place.type_name, []).append(place)
            needs.setdefault(place.type_name, set()).update(below.type_name for below in place.below())
        done: dict[str, None] = {}
        while len(done) < len(places):
            ready = [name for name in places if name not in done and needs[name] <= done.keys()]
            if not ready:
                return None
            done.update(dict.fromkeys(ready))
        return cls(root, tuple((name, tuple(places[name])) for name in done))


@dataclass(slots=True)
class Planner:
    """Makes the places of a tree; numbers them."""

    schemas: SchemaSet
    logical: Logical
    vectors: Mapping[str, Mapping[str, VectorColumn]] = field(default_factory=dict)
    """Type → field → its vector column."""
    collecting: bool = False
    """True if vectors beside the records are wanted; else a column of them is one without a field."""
    _count: int = field(default=0, init=False)

    def place(self, type_name: str, path: str) -> Place:
        """A place without anything below it yet."""
        schema = self.schemas.get(type_name)
        if schema is None:
            raise InputError(f"column {path!r}: type {type_name} is not in the model", "UnknownType")
        self._count += 1
        place = Place(schema, path, self._count - 1)
        if self.collecting and type_name in self.vectors and isinstance(schema, ObjectSchema):
            columns = self.vectors[type_name].values()
            place.vectors = tuple(column for column in columns if schema.position(column.field_name) < 0)
        return place

    def vector_bytes(self, type_name: str, field_name: str) -> VectorColumn | None:
        """The vector column that a field of a schema keeps as bytes; None if it keeps something else."""
        return self.vectors.get(type_name, {}).get(field_name)

    def scalar(self, schema: ObjectSchema, scalar: Field, outer: LogicalType | None = None) -> LogicalType:
        """What a scalar field holds; `outer` is what the field or collection that refers to it says about it."""
        own = self.logical.get(schema.name, {}).get(scalar.name) or natural(scalar.type)
        if outer is not None and not outer.format.startswith("+") and outer.field_type is own.field_type:
            return outer
        return own

    def note(self, type_name: str, name: str) -> LogicalType | None:
        """What is noted of a field, or of the elements, keys or values of a collection."""
        return self.logical.get(type_name, {}).get(name)


def boxed_scalar(schema: Schema) -> Field | None:
    """The one scalar of a type that stands for a scalar (`String {value}`, an enum's `{_name}`); else None."""
    if isinstance(schema, ObjectSchema) and len(schema.fields) == 1:
        only = schema.fields[0]
        if only.type is not FieldType.REFERENCE and only.name in ("value", ENUM_FIELD):
            return only
    return None


def wrapped_type(schema: Schema) -> str | None:
    """What a type `NullableX {X value}` wraps; None for any other type."""
    if isinstance(schema, ObjectSchema) and len(schema.fields) == 1:
        only = schema.fields[0]
        if only.name == "value" and schema.name == f"Nullable{only.referenced}":
            return only.referenced
    return None


def inner_types(schema: Schema) -> tuple[tuple[str, str, str], ...]:
    """The types inside a collection: the name by which notes call them, the type, and what a path adds."""
    match schema:
        case ListSchema() | SetSchema():
            return (("element", schema.element, "[]"),)
        case MapSchema():
            return (("key", schema.key, "{key}"), ("value", schema.value, "{value}"))
        case _:
            return ()
