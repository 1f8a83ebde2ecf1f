"""One patch: a record's key, a field of it, and what becomes of it.

Patch("Movie", 7, "title", "Solaris")                      set a field
Patch("Movie", 7, 'ratings{"imdb"}.score', 8.0)            below a map entry
Patch("Movie", 7, "cast[3]", operation=Operation.DELETE)   take an element out
Patch("Movie", 8, value={"id": 8, "title": "Mirror"}, operation=Operation.PUT)
Patch("Movie", 9, operation=Operation.REMOVE)
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from deltaic.errors import InputError
from deltaic.wire.references import Reference


class Operation(IntEnum):
    """What a patch does. The number is the one on the wire."""

    SET = 1
    """Give a field, an element, a range or a map entry a value; None is null."""
    DELETE = 2
    """Take a value away: a field becomes null, an element or an entry leaves its collection."""
    PUT = 3
    """Add a record, or replace the one with the same key."""
    REMOVE = 4
    """Remove a record."""
    VECTOR = 5
    """Change dimensions of a vector, by a `VectorDelta`."""

    @property
    def of_record(self) -> bool:
        """True if a whole record is meant, no field of it."""
        return self in (Operation.PUT, Operation.REMOVE)


class Unsaid:
    """The type of MISSING and ABSENT."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        # Each of them is one object, in every process that it travels to.
        return self._name


MISSING = Unsaid("MISSING")
"""As a previous value: nothing is expected."""

ABSENT = Unsaid("ABSENT")
"""As a previous value: there must be no such record, element or entry."""

COUNTER_BITS = 16
"""A hybrid timestamp is milliseconds since 1970 in 48 bits, then a counter in these."""


def hybrid_timestamp(milliseconds: int, counter: int = 0) -> int:
    """The hybrid timestamp of a moment: later ones are larger numbers."""
    if not 0 <= milliseconds < 1 << 48 or not 0 <= counter < 1 << COUNTER_BITS:
        raise InputError(f"{milliseconds} ms and {counter} make no hybrid timestamp: 48 and 16 bits", "BadTimestamp")
    return milliseconds << COUNTER_BITS | counter


def timestamp_parts(timestamp: int) -> tuple[int, int]:
    """The milliseconds and the counter of a hybrid timestamp."""
    return timestamp >> COUNTER_BITS, timestamp & (1 << COUNTER_BITS) - 1


@dataclass(frozen=True, slots=True)
class Patch:
    """The smallest change that a dataset understands."""

    type_name: str
    key: Any
    """The value of the primary key, a tuple if it has several paths; None for a record without a key."""
    path: str | Reference = ""
    """Where in the record, with elements and entries bound: `cast[2].name`; or a reference. Empty: the record."""
    value: Any = None
    """The new value, the record of a PUT, the `VectorDelta` of a VECTOR, the whole of a REMOVE without a key."""
    previous: Any = MISSING
    """What must be there before: a value, None for null, ABSENT, or MISSING if nothing is expected."""
    timestamp: int | None = None
    """When it was made, as a hybrid timestamp; with one, the last writer of a field wins."""
    source: str | None = None
    """Who made it; of two patches of one moment that of the larger source wins."""
    operation: Operation = Operation.SET

    def __post_init__(self) -> None:
        if self.operation.of_record and self.path != "":
            raise InputError(f"{self.operation.name} is about a record: it takes no path {self.path!r}", "BadPatch")
        if self.timestamp is not None and not 0 <= self.timestamp < 1 << 64:
            raise InputError(f"{self.timestamp} is no hybrid timestamp", "BadTimestamp")

    @property
    def key_parts(self) -> tuple[Any, ...]:
        """The values of the key, one for each path; none for a record without a key."""
        if self.key is None:
            return ()
        return tuple(self.key) if isinstance(self.key, tuple | list) else (self.key,)
