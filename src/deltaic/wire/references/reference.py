"""A field reference and its parameters (field-registry.md, 2 and 3).

A reference names a field by its number in a version of the registry; parameters say which parents it hangs below and
which elements and entries are meant, one for each placeholder of the path, from left to right. These are values
alone: what the bytes and the encoder refuse is in `encode` and `decode`, what they mean in `resolve`.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final

LAST_VERSION: Final = 0xFFFF_FFFF
"""The last version that the wire can hold."""

MOST_PARAMETERS: Final = 255
"""How many parameters a reference can have."""

MOST_KEY_BYTES: Final = 65_535
"""How many bytes the UTF-8 of a map key can have."""


class ParameterType(IntEnum):
    """The types of parameters that are known."""

    PARENT = 1
    INDEX = 2
    RANGE = 3
    INDICES = 4
    RANGES = 5
    MAP_KEY = 6


FIRST_IGNORABLE: Final = 0x80
"""Unknown types from here on are ignored when a reference is resolved; those below are critical."""


@dataclass(frozen=True, slots=True)
class Parent:
    """A field of the same version that the reference hangs below."""

    code: ClassVar[int] = ParameterType.PARENT
    field: int


@dataclass(frozen=True, slots=True)
class Index:
    """One element of an array."""

    code: ClassVar[int] = ParameterType.INDEX
    element: int


@dataclass(frozen=True, slots=True)
class Range:
    """Elements of an array from `start` to before `end`."""

    code: ClassVar[int] = ParameterType.RANGE
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Indices:
    """Some elements of an array, in the order given, none twice."""

    code: ClassVar[int] = ParameterType.INDICES
    elements: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Half-open ranges of an array, in the order given, none overlapping another."""

    code: ClassVar[int] = ParameterType.RANGES
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class MapKey:
    """One entry of a map, by the text of its key."""

    code: ClassVar[int] = ParameterType.MAP_KEY
    key: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A parameter of a type that this reader does not know, kept as bytes."""

    code: int
    value: bytes

    @property
    def critical(self) -> bool:
        """True if a reference with it cannot be resolved by who does not know the type."""
        return self.code < FIRST_IGNORABLE


Selector = Index | Range | Indices | Ranges | MapKey
"""What binds to a placeholder."""

Parameter = Parent | Selector | Unknown
"""What a reference can carry."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A field in a version of the registry, with run-time parameters."""

    version: int
    index: int
    parameters: tuple[Parameter, ...] = ()

    @property
    def parents(self) -> tuple[int, ...]:
        """The fields that the reference hangs below, outermost first."""
        return tuple(one.field for one in self.parameters if isinstance(one, Parent))

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """What binds to placeholders, from left to right."""
        return tuple(one for one in self.parameters if not isinstance(one, Parent | Unknown))
