"""Markers: what Python's own types cannot say about a field or a class.

    @key("id")
    @dataclass
    class Movie:
        id: int
        year: Int32
        title: str
        slug: Annotated[str, Inline]
        crew: Annotated[set[Person], HashKey("id")]
        embedding: Annotated[list[float], Vector(384)]

Fields are marked through `typing.Annotated`, classes by decorators or by the attributes that these set
(`__deltaic_key__`, `__deltaic_shards__`, `__deltaic_name__`). As in Java, the marks of a class are not inherited.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, TypeVar

from deltaic.errors import SchemaError
from deltaic.schema.logical import LogicalType

_Class = TypeVar("_Class", bound=type)


class Marker(Enum):
    """The markers without an argument."""

    INLINE = "inline"
    BOXED = "boxed"
    TRANSIENT = "transient"
    WIDE = "wide"


Inline = Marker.INLINE
"""The value lies in the record itself, as with Java's @HollowInline. Numbers and bytes do anyway."""

Boxed = Marker.BOXED
"""A reference to a type {value} shared by equal values, as Java's Integer and Long fields are."""

Transient = Marker.TRANSIENT
"""The field is no part of the model."""

Wide = Marker.WIDE
"""The smallest number is a value like others: INT is stored as LONG, LONG as 8 bytes."""


@dataclass(frozen=True, slots=True)
class Logical:
    """What the values are, as an Arrow format string. The aliases below are easier to read."""

    format: str

    def __post_init__(self) -> None:
        LogicalType.of(self.format)


@dataclass(frozen=True, slots=True)
class TypeName:
    """Another name for the type that a field refers to, as Java's @HollowTypeName."""

    name: str


@dataclass(frozen=True, slots=True)
class RenamedFrom:
    """What the field was called before: readers keep its values under the new name (docs/schema-append.md)."""

    name: str


@dataclass(frozen=True, slots=True)
class Shards:
    """A fixed number of shards for the type that a field refers to, as Java's @HollowShardLargeType."""

    count: int

    def __post_init__(self) -> None:
        _check_shards(self.count)


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector of that many float32 dimensions. It travels beside the record and is no part of its identity."""

    dimensions: int

    def __post_init__(self) -> None:
        if self.dimensions < 1:
            raise SchemaError(f"a vector has at least one dimension, not {self.dimensions}")


@dataclass(frozen=True, slots=True, init=False)
class HashKey:
    """The paths by which a set finds its elements or a map its keys. None given: no hash key at all."""

    paths: tuple[str, ...]

    def __init__(self, *paths: str) -> None:
        object.__setattr__(self, "paths", paths)


def timestamp(unit: str, zone: str | None = "UTC") -> Logical:
    """Marks a `datetime` that lies in the record as a LONG counting s, ms, us or ns since 1970; no zone: local time."""
    return Logical(f"ts{_unit(unit)}:{zone or ''}")


def duration(unit: str) -> Logical:
    """Marks a `timedelta` counted in s, ms, us or ns."""
    return Logical(f"tD{_unit(unit)}")


def digits(precision: int, scale: int) -> Logical:
    """Marks a `decimal.Decimal` of so many digits, `scale` of them behind the point."""
    return Logical(f"d:{precision},{scale}")


Int8 = Annotated[int, Logical("c")]
Int16 = Annotated[int, Logical("s")]
Int32 = Annotated[int, Logical("i")]
UInt8 = Annotated[int, Logical("C")]
UInt16 = Annotated[int, Logical("S")]
UInt32 = Annotated[int, Logical("I")]
UInt64 = Annotated[int, Logical("L")]
Float16 = Annotated[float, Logical("e")]
Float32 = Annotated[float, Logical("f")]


def key(*paths: str) -> Callable[[_Class], _Class]:
    """Class decorator: the primary key, as paths of fields."""
    if not paths:
        raise SchemaError("a primary key has at least one path")
    return _setting("__deltaic_key__", paths)


def shards(count: int) -> Callable[[_Class], _Class]:
    """Class decorator: a fixed number of shards, a power of two."""
    _check_shards(count)
    return _setting("__deltaic_shards__", count)


def type_name(name: str) -> Callable[[_Class], _Class]:
    """Class decorator: the name of the type, if not that of the class."""
    return _setting("__deltaic_name__", name)


def _setting(attribute: str, value: object) -> Callable[[_Class], _Class]:
    def decorate(cls: _Class) -> _Class:
        setattr(cls, attribute, value)
        return cls

    return decorate


def _check_shards(count: int) -> None:
    if count < 1 or count & (count - 1):
        raise SchemaError(f"a shard count is a power of two, not {count}")


def _unit(unit: str) -> str:
    units = {"s": "s", "ms": "m", "us": "u", "ns": "n"}
    if unit not in units:
        raise SchemaError(f"the unit is one of s, ms, us, ns, not {unit!r}")
    return units[unit]
