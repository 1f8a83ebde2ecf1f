"""The tree of a query, as it was written: nothing is known of columns or types yet.

A leaf names its field, or None for the default columns, and the character at which it stands, which does not take part
in comparisons. `parse_query` makes trees, `show_query` writes one as text that gives the same tree again; a caller may
also build one.
"""

from dataclasses import dataclass
from dataclasses import field as declared
from enum import Enum
from typing import TypeAlias, Union


class Occur(Enum):
    """How a clause counts among its neighbours."""

    MUST = "+"
    SHOULD = ""
    MUST_NOT = "-"


class Gap(Enum):
    """A hole in a pattern."""

    ANY = "*"
    ONE = "?"


@dataclass(frozen=True, slots=True)
class Word:
    """A word, a number, a date: what it is, its column says."""

    field: str | None
    text: str
    at: int = declared(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words in this order, with at most `slop` other words in between; on columns without words, the whole value."""

    field: str | None
    text: str
    slop: int = 0
    at: int = declared(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Words or values that start like this."""

    field: str | None
    text: str
    at: int = declared(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Wildcard:
    """Words or values that look like this: literal pieces and gaps."""

    field: str | None
    pieces: tuple[str | Gap, ...]
    at: int = declared(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Fuzzy:
    """Words or values at most so many edits away: inserted, dropped, replaced, or two neighbours swapped."""

    field: str | None
    text: str
    distance: int
    at: int = declared(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Range:
    """Values between two bounds; None is an open end."""

    field: str | None
    low: str | None
    high: str | None
    include_low: bool = True
    include_high: bool = True
    at: int = declared(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some values."""

    field: str | None
    values: tuple[str, ...]
    at: int = declared(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Exists:
    """A column that is not null."""

    field: str
    at: int = declared(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Everything:
    """Every row."""

    at: int = declared(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Boost:
    """A part whose score counts so many times."""

    part: "Query"
    factor: float
    at: int = declared(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a list, and how it counts."""

    occur: Occur
    part: "Query"


@dataclass(frozen=True, slots=True)
class Boolean:
    """Clauses side by side.

    A row matches if every MUST matches, no MUST_NOT does and, where there is no MUST but some SHOULD, one of those.
    """

    clauses: tuple[Clause, ...]
    at: int = declared(default=0, compare=False)


Leaf: TypeAlias = Word | Phrase | Prefix | Wildcard | Fuzzy | Range | OneOf | Exists | Everything
Query: TypeAlias = Union[Leaf, Boost, Boolean]  # noqa: UP007 - the name stands in quotes above


def all_of(*parts: Query) -> Query:
    """Rows that match every part."""
    return parts[0] if len(parts) == 1 else Boolean(tuple(Clause(Occur.MUST, part) for part in parts))


def any_of(*parts: Query) -> Query:
    """Rows that match some part."""
    return parts[0] if len(parts) == 1 else Boolean(tuple(Clause(Occur.SHOULD, part) for part in parts))


def none_of(*parts: Query) -> Query:
    """Rows that match no part."""
    return Boolean(tuple(Clause(Occur.MUST_NOT, part) for part in parts))
