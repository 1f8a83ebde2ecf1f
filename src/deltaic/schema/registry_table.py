"""What a reader of the registry sees: descriptors, tables, views (docs/formats/field-registry.md, 4, 5, 10).

A `View` never changes, but its newest table grows at its end; a reader loads the view once and uses only it. Nothing
here takes a lock. Only `deltaic.schema.registry_state` makes and extends tables.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import msgspec

from deltaic.errors import InputError, RegistryError
from deltaic.schema.registry_paths import Step, parse_path

MAX_INDEX = 4_194_303
"""The highest index of a field: what a number of three bytes holds."""

MAX_VERSION = 2**32 - 1
"""The highest version of a registry."""

NO_DESCRIPTOR = 2**32 - 1
"""Stands in a stored table for an index without a field."""

FIRST_OWN_TYPE = 128
"""Value types from here to 255 belong to the application."""


class ValueType(IntEnum):
    """What a field holds; 12 to 127 are reserved, 128 to 255 are the application's."""

    ANY = 0
    BOOL = 1
    INT64 = 2
    FLOAT64 = 3
    STRING = 4
    BYTES = 5
    TIMESTAMP_MS = 6
    LIST = 7
    MAP = 8
    FLOAT32 = 9
    INT32 = 10
    VECTOR_F32 = 11


_TYPES = frozenset((*(int(known) for known in ValueType), *range(FIRST_OWN_TYPE, 256)))


def check_type(value_type: int) -> int:
    """The number of a value type, if it may be registered; else InputError."""
    if value_type not in _TYPES:
        raise InputError(f"value type {value_type}: 0 to 11 are known, 128 to 255 are free to use", "ReservedType")
    return int(value_type)


def type_text(value_type: int) -> str:
    """A value type as people read it."""
    if 0 <= value_type <= ValueType.VECTOR_F32:
        return ValueType(value_type).name.lower()
    return f"{'own' if value_type >= FIRST_OWN_TYPE else 'reserved'} type {value_type}"


# Millions of them may be in memory: nothing in one can lead back to it, so the collector need not look at them.
class Descriptor(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A field: its path and the type of its values. The time is for people and never compared."""

    path: str
    type: int
    created_ms: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descriptor) and self.path == other.path and self.type == other.type

    def __hash__(self) -> int:
        return hash((self.path, self.type))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The path taken apart."""
        return parse_path(self.path)


class Table:
    """One version: index → field. It only grows at its end, and an index never changes its meaning."""

    __slots__ = ("_descriptors", "_lookup", "_numbers", "frozen", "version")

    def __init__(
        self, version: int, descriptors: list[Descriptor], numbers: Sequence[int], *, frozen: bool = True
    ) -> None:
        self.version, self.frozen = version, frozen
        # All versions share the descriptors and hold their numbers: a frozen one costs 4 bytes a field.
        self._descriptors = descriptors
        self._numbers: Any = array("I", numbers) if frozen else list(numbers)
        # The lookup of a table that grows is there before any reader is; a frozen one's is made when it is wanted.
        self._lookup: dict[str, int] | None = None if frozen else self._paths()

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Descriptor | None]:
        """The fields by index, as many as there are now."""
        return (self.get(index) for index in range(len(self._numbers)))

    def get(self, index: int) -> Descriptor | None:
        """The field of an index, or None."""
        if not 0 <= index < len(self._numbers):
            return None
        number = self._numbers[index]
        return None if number == NO_DESCRIPTOR else self._descriptors[number]

    def descriptor(self, index: int) -> Descriptor:
        """The field of an index; RegistryError `UnknownField` if there is none."""
        found = self.get(index)
        if found is None:
            raise RegistryError("UnknownField", f"there is no field {index}", None, self.version, index)
        return found

    def lookup(self, path: str) -> int | None:
        """The index of a path, or None."""
        known = self._lookup
        if known is None:
            known = self._lookup = self._paths()
        return known.get(path)

    def number(self, index: int) -> int:
        """Which descriptor an index has; `NO_DESCRIPTOR` if none."""
        found: int = self._numbers[index]
        return found

    def numbers(self) -> Sequence[int]:
        """Which descriptor each index has, as many as there are now."""
        found: Sequence[int] = self._numbers[:]
        return found

    def extend(self, fields: Iterable[Descriptor]) -> None:
        """Give the next indices to new fields; under the writer's lock only."""
        descriptors, numbers, lookup = self._descriptors, self._numbers, self._lookup
        assert lookup is not None and not self.frozen
        for field in fields:
            # A descriptor is there before an index leads to it, and an index before a path does.
            descriptors.append(field)
            numbers.append(len(descriptors) - 1)
            lookup[field.path] = len(numbers) - 1

    def freeze(self) -> "Table":
        """The same table in its small form, which does not grow."""
        return Table(self.version, self._descriptors, self._numbers)

    def _paths(self) -> dict[str, int]:
        descriptors = self._descriptors
        return {
            descriptors[number].path: index for index, number in enumerate(self._numbers) if number != NO_DESCRIPTOR
        }


class View:
    """The registry at a moment: the versions that are kept and their tables. Reading takes no lock."""

    __slots__ = ("_newest", "current", "oldest", "tables")

    def __init__(self, oldest: int, current: int, tables: Mapping[int, Table]) -> None:
        self.oldest, self.current = oldest, current
        self.tables: Mapping[int, Table] = MappingProxyType(dict(tables))
        self._newest = self.tables[current]

    def table(self, version: int | None = None) -> Table:
        """The table of a version, the current one by default.

        Raises:
            RegistryError: `UnknownVersion` if it is newer than this view (refresh and try again), `VersionEvicted` if
                it is older than what is kept.
        """
        if version is None or version == self.current:
            return self._newest
        found = self.tables.get(version)
        if found is not None:
            return found
        if 0 <= version < self.oldest:
            raise RegistryError("VersionEvicted", f"the oldest that is kept is {self.oldest}", None, version)
        raise RegistryError("UnknownVersion", f"the newest that is known here is {self.current}", None, version)

    def descriptor(self, index: int, version: int | None = None) -> Descriptor:
        """The field of an index in a version; RegistryError `UnknownField` and those of `table`."""
        return self.table(version).descriptor(index)

    def lookup(self, path: str, version: int | None = None) -> int | None:
        """The index of a path in a version, or None."""
        return self.table(version).lookup(path)

    def translate(self, index: int, version: int, to_version: int) -> int:
        """The index that a field of one version has in another; `UnknownField` if it is not there with its type."""
        field = self.table(version).descriptor(index)
        target = self.table(to_version)
        found = target.lookup(field.path)
        if found is None or target.descriptor(found) != field:
            raise RegistryError(
                "UnknownField", f"version {to_version} has no {field.path} of type {type_text(field.type)}", None,
                version, index,
            )  # fmt: skip
        return found
