"""The four kinds of type, and their fields.

A schema is a frozen value. References between types are names: a schema knows nothing of its neighbours, a
`SchemaSet` (`deltaic.schema.schemas`) does.
"""

from dataclasses import dataclass
from enum import StrEnum


class FieldType(StrEnum):
    """What a field of an OBJECT holds. The value is the name in binary schemas."""

    INT = "INT"
    LONG = "LONG"
    BOOLEAN = "BOOLEAN"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BYTES = "BYTES"
    REFERENCE = "REFERENCE"

    @property
    def is_variable(self) -> bool:
        """True if values live in the field's byte data, with end offsets in the record."""
        return self in (FieldType.STRING, FieldType.BYTES)


class Kind(StrEnum):
    """The kind of a type."""

    OBJECT = "OBJECT"
    LIST = "LIST"
    SET = "SET"
    MAP = "MAP"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an OBJECT; `referenced` names a type if and only if the field is a REFERENCE."""

    name: str
    type: FieldType
    referenced: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectSchema:
    """An OBJECT type. `primary_key` holds the paths as written; None if none is declared."""

    name: str
    fields: tuple[Field, ...]
    primary_key: tuple[str, ...] | None = None

    @property
    def kind(self) -> Kind:
        """Kind.OBJECT."""
        return Kind.OBJECT

    def position(self, field_name: str) -> int:
        """The index of a field, or -1."""
        for position, field in enumerate(self.fields):
            if field.name == field_name:
                return position
        return -1

    def references(self) -> tuple[str, ...]:
        """Names of the types that records of this one refer to, in field order."""
        return tuple(field.referenced for field in self.fields if field.referenced is not None)


@dataclass(frozen=True, slots=True)
class ListSchema:
    """A LIST type."""

    name: str
    element: str

    @property
    def kind(self) -> Kind:
        """Kind.LIST."""
        return Kind.LIST

    def references(self) -> tuple[str, ...]:
        """The element type."""
        return (self.element,)


@dataclass(frozen=True, slots=True)
class SetSchema:
    """A SET type. `hash_key` holds paths relative to the element type; None if none is declared."""

    name: str
    element: str
    hash_key: tuple[str, ...] | None = None

    @property
    def kind(self) -> Kind:
        """Kind.SET."""
        return Kind.SET

    def references(self) -> tuple[str, ...]:
        """The element type."""
        return (self.element,)


@dataclass(frozen=True, slots=True)
class MapSchema:
    """A MAP type. `hash_key` holds paths relative to the key type; None if none is declared."""

    name: str
    key: str
    value: str
    hash_key: tuple[str, ...] | None = None

    @property
    def kind(self) -> Kind:
        """Kind.MAP."""
        return Kind.MAP

    def references(self) -> tuple[str, ...]:
        """The key type and the value type."""
        return (self.key, self.value)


Schema = ObjectSchema | ListSchema | SetSchema | MapSchema
