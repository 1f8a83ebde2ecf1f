"""Record views of a state: how its types are described to the kernel `access`, once for all views of the state.

A record holds the packed arrays that it reads, not the state: a state that nobody else holds goes at once, its memory
with the last record. Nothing here makes a circle of references, so no memory waits for the cycle collector.
"""

from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from deltaic.errors import NotFoundError, SchemaError
from deltaic.kernels import access, content
from deltaic.kernels.content import KeyPath, Reference, TypeSpec
from deltaic.schema.paths import resolve_path
from deltaic.schema.schemas import ORDINAL_HASH_KEY
from deltaic.schema.types import FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state.type_data import TypeData
from deltaic.state.vector_column import StoredVectors

if TYPE_CHECKING:
    from deltaic.state.read import ReadState

Record = access.Record
ObjectRecord = access.ObjectRecord
ListRecord = access.ListRecord
SetRecord = access.SetRecord
MapRecord = access.MapRecord

CODES = {
    FieldType.REFERENCE: content.REFERENCE,
    FieldType.INT: content.INT,
    FieldType.LONG: content.LONG,
    FieldType.BOOLEAN: content.BOOLEAN,
    FieldType.FLOAT: content.FLOAT,
    FieldType.DOUBLE: content.DOUBLE,
    FieldType.STRING: content.STRING,
    FieldType.BYTES: content.BYTES,
}
"""The kernel's numbers of the field types."""


class StateRecords:
    """The types of one state, described to the kernel on first use."""

    def __init__(
        self,
        types: Mapping[str, TypeData],
        kernel: ModuleType | None = None,
        vectors: Mapping[tuple[str, str], StoredVectors] | None = None,
    ) -> None:
        self.types = types
        self.vectors = vectors_by_type(vectors or {})
        """The vector columns by type and field."""
        self._kernel: Any = access if kernel is None else kernel
        self._numbers = {name: number for number, name in enumerate(types)}
        self._reader: Any = None

    @property
    def reader(self) -> "access.StateAccess":
        """The kernel's reader of all types."""
        if self._reader is None:
            schemas = {name: data.schema for name, data in self.types.items()}
            specs = tuple(
                type_spec(data, self._numbers, schemas, self.vectors.get(name)) for name, data in self.types.items()
            )
            self._reader = self._kernel.StateAccess(specs)
        reader: access.StateAccess = self._reader
        return reader

    def number(self, name: str) -> int:
        """The kernel's number of a type."""
        if name not in self._numbers:
            raise NotFoundError(f"there is no type {name!r} in this state")
        return self._numbers[name]

    def of(self, name: str) -> "access.TypeAccess":
        """The records of a type by ordinal."""
        reader: access.TypeAccess = _records_of_type(self._kernel)(self, self.number(name))
        return reader


@cache
def _records_of_type(kernel: Any) -> Any:
    class TypeRecords(kernel.TypeAccess):  # type: ignore[misc, unused-ignore]
        """The records of one type, with either kernel."""

        def __init__(self, records: StateRecords, number: int) -> None:
            self._place = records.reader, number

        def _open(self) -> Any:
            return self._place

    return TypeRecords


_shared: "WeakKeyDictionary[ReadState, StateRecords]" = WeakKeyDictionary()


def records_of(state: "ReadState") -> StateRecords:
    """The records of a state, one reader for all who ask."""
    found = _shared.get(state)
    if found is None:
        found = _shared.setdefault(state, StateRecords(state.types, vectors=state.vectors))
    return found


def vectors_by_type(vectors: Mapping[tuple[str, str], StoredVectors]) -> dict[str, dict[str, StoredVectors]]:
    """Vector columns by type, and by field in the order in which they are given."""
    found: dict[str, dict[str, StoredVectors]] = {}
    for (type_name, field_name), column in vectors.items():
        found.setdefault(type_name, {})[field_name] = column
    return found


def is_boxed(schema: Schema) -> bool:
    """True for an OBJECT of one field named `value` that is no reference: it stands for that value."""
    return (
        isinstance(schema, ObjectSchema)
        and len(schema.fields) == 1
        and schema.fields[0].name == "value"
        and schema.fields[0].type is not FieldType.REFERENCE
    )


def type_spec(
    data: TypeData,
    numbers: Mapping[str, int],
    schemas: Mapping[str, Schema],
    vectors: Mapping[str, StoredVectors] | None = None,
) -> TypeSpec:
    """One type as the kernel sees it; `numbers` are those of the types of the state."""
    schema = data.schema
    names: tuple[str | None, ...]
    match schema:
        case ObjectSchema(fields=fields):
            kind, names = content.OBJECT, tuple(field.referenced for field in fields)
        case ListSchema(element=element):
            kind, names = content.LIST, (element,)
        case SetSchema(element=element):
            kind, names = content.SET, (element,)
        case MapSchema(key=key, value=value):
            kind, names = content.MAP, (key, value)
    fields = schema.fields if isinstance(schema, ObjectSchema) else ()
    return TypeSpec(
        name=schema.name,
        kind=kind,
        max_ordinal=data.max_ordinal,
        shards=data.shards,
        links=tuple(-1 if name is None else numbers.get(name, -1) for name in names),
        link_names=names,
        field_names=tuple(field.name for field in fields),
        field_codes=tuple(CODES[field.type] for field in fields),
        boxed=is_boxed(schema),
        key_paths=_key_paths(schema, schemas),
        populated=data.populated.words,
        pending=data.pending.words,
        vectors=vectors or {},
    )


def _key_paths(schema: Schema, schemas: Mapping[str, Schema]) -> tuple[KeyPath, ...] | None:
    """The hash key of a SET or MAP; None if it has none, or none that can be followed in this state."""
    if not isinstance(schema, SetSchema | MapSchema) or not schema.hash_key or schema.hash_key == ORDINAL_HASH_KEY:
        return None
    start = schema.element if isinstance(schema, SetSchema) else schema.key
    try:
        resolved = [resolve_path(schemas, start, path) for path in schema.hash_key]
    except SchemaError:
        # A filter left out a type or a field of the key: Java falls back to no key as well (hollow-blob.md, 8).
        return None
    return tuple(KeyPath(path.positions, CODES[path.field_type]) for path in resolved)


__all__ = [
    "CODES",
    "ListRecord",
    "MapRecord",
    "ObjectRecord",
    "Record",
    "Reference",
    "SetRecord",
    "StateRecords",
    "is_boxed",
    "records_of",
    "type_spec",
    "vectors_by_type",
]
