"""What the two `access` kernels share: how types are described to them, plain values and repr of records.

Both kernels `access` (compiled and plain) offer the same few reads of single values, named in `Reads`; everything here
is built on those, and so are `sameness` and `lookup`, so that records of both behave alike. A record is a `Place`: the
reads, the number of its type, its ordinal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from deltaic.errors import DecodeError, InputError

OBJECT, LIST, SET, MAP = range(4)
"""Numbers of the kinds."""

REFERENCE, INT, LONG, BOOLEAN, FLOAT, DOUBLE, STRING, BYTES = range(8)
"""Numbers of the field types (hollow-blob.md, 3)."""

NULL_FLOAT = 0x7FC00001
NULL_DOUBLE = 0x7FF8000000000001

MAX_DEPTH = 64
"""How deep `to_python` and equality follow references, unless told otherwise."""

MAX_PLAIN_DEPTH = 200
"""The largest `max_depth`: the values are made by recursion."""

MAX_VALUES = 10_000_000
"""How many records one `to_python` may visit: shared children are repeated, so a small state can be a huge tree."""

_REPR_FIELDS = 8
_REPR_TEXT = 40


class Reference(NamedTuple):
    """A reference to a record of a type that the state does not hold."""

    type_name: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class KeyPath:
    """One path of a hash key: field positions from the element or key type on, and the field type it ends on."""

    positions: tuple[int, ...]
    code: int


@dataclass(frozen=True, slots=True, eq=False)
class TypeSpec:
    """All that an `access` kernel needs to read one type."""

    name: str
    kind: int
    max_ordinal: int
    shards: tuple[Any, ...]
    links: tuple[int, ...]
    """For each field (OBJECT), for the element, or for key and value: the number of the type referred to, or -1."""
    link_names: tuple[str | None, ...]
    field_names: tuple[str, ...] = ()
    field_codes: tuple[int, ...] = ()
    boxed: bool = False
    """True if records stand for the value of their one field."""
    key_paths: tuple[KeyPath, ...] | None = None
    populated: Any = field(default_factory=lambda: np.zeros(0, np.uint64))
    """Bits of the ordinals that `record` gives."""
    pending: Any = field(default_factory=lambda: np.zeros(0, np.uint64))
    """Bits of the ghosts, which `record` gives too."""
    vectors: Mapping[str, Any] = field(default_factory=dict)
    """The vector columns of an OBJECT type by name: each gives by ordinal a read-only array, or None."""
    vector_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "vector_names", tuple(self.vectors))


class Numbers(list[float]):
    """The numbers of a vector among plain values: a list, told from others by those who show values to people."""

    __slots__ = ()


def vector(spec: TypeSpec, name: str, ordinal: int) -> Any:
    """The row of a record in a vector column of its type, read-only; None if it has none."""
    return spec.vectors[name][ordinal]


def plain_vectors(spec: TypeSpec, ordinal: int) -> dict[str, object]:
    """The vectors of a record as lists of numbers."""
    found: dict[str, object] = {}
    for name, column in spec.vectors.items():
        row = column[ordinal]
        found[name] = None if row is None else Numbers(row.tolist())
    return found


class Reads(Protocol):
    """The reads of single values that a kernel offers. Ordinals are checked against the type's largest."""

    @property
    def types(self) -> tuple[TypeSpec, ...]:
        """The types by number."""

    def scalar(self, number: int, ordinal: int, position: int) -> object:
        """A field as a value to compare: floats as their bits, None for null. Not for references."""

    def field(self, number: int, ordinal: int, position: int) -> object:
        """A field as Python sees it."""

    def pointer(self, number: int, ordinal: int, position: int) -> int:
        """The ordinal in a REFERENCE field, or -1."""

    def size(self, number: int, ordinal: int) -> int:
        """How many elements or entries a collection has."""

    def elements(self, number: int, ordinal: int) -> list[int]:
        """The element ordinals of a LIST in order, of a SET in bucket order."""

    def entries(self, number: int, ordinal: int) -> list[tuple[int, int]]:
        """The (key, value) ordinals of a MAP in bucket order."""

    def buckets(self, number: int, ordinal: int) -> int:
        """How many buckets a SET or MAP record has."""

    def bucket(self, number: int, ordinal: int, place: int) -> tuple[int, int]:
        """The (key, value) ordinals in one bucket; key -1 if it is empty, value -1 in a SET."""

    def value(self, number: int, ordinal: int) -> object:
        """The record, or its value if the type is boxed."""


def is_boxed(field_names: Sequence[str], field_codes: Sequence[int]) -> bool:
    """True for an OBJECT of one field named `value` that is no reference: Hollow's String, Integer and so on."""
    return tuple(field_names) == ("value",) and field_codes[0] != REFERENCE


def out_of_range(reads: Reads, number: int, ordinal: int) -> DecodeError:
    """The error for a reference past the last record of its type."""
    spec = reads.types[number]
    return DecodeError(
        "OrdinalRange",
        f"a reference to {spec.name} {ordinal}, whose last record is {spec.max_ordinal}",
        f"type {spec.name}",
    )


Place = tuple[Reads, int, int]
"""A record: the reads, the number of its type, its ordinal."""


def checked(reads: Reads, number: int, ordinal: int) -> Place:
    """The record that a reference leads to, if its type goes that far."""
    if ordinal > reads.types[number].max_ordinal:
        raise out_of_range(reads, number, ordinal)
    return reads, number, ordinal


def members_of(place: Place) -> list[tuple[int, ...]]:
    """The members of a collection: (element,) or (key, value) ordinals."""
    reads, number, ordinal = place
    if reads.types[number].kind == MAP:
        return list(reads.entries(number, ordinal))
    return [(element,) for element in reads.elements(number, ordinal)]


def too_deep(type_name: str, ordinal: int, depth: int) -> InputError:
    """The error for a tree of references that has no end, or none in sight."""
    bound = "references nest deeper than max_depth allows" if depth <= 0 else f"more than {MAX_VALUES:,} records"
    return InputError(f"type {type_name}, record {ordinal}: {bound}", "TooDeep")


class _Budget:
    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values = MAX_VALUES


def to_python(reads: Reads, number: int, ordinal: int, max_depth: int) -> object:
    """A record as dicts, lists and scalars, references followed."""
    if max_depth > MAX_PLAIN_DEPTH:
        raise InputError(f"max_depth is at most {MAX_PLAIN_DEPTH}")
    return _plain(reads, number, ordinal, max_depth, _Budget())


def _plain(reads: Reads, number: int, ordinal: int, depth: int, budget: _Budget) -> object:
    spec = reads.types[number]
    if spec.boxed:
        return reads.field(number, ordinal, 0)
    budget.values -= 1
    if depth <= 0 or budget.values <= 0:
        raise too_deep(spec.name, ordinal, depth)
    if spec.kind == OBJECT:
        result: dict[str, object] = {}
        for position, name in enumerate(spec.field_names):
            if spec.field_codes[position] == REFERENCE:
                target = reads.pointer(number, ordinal, position)
                result[name] = None if target < 0 else _plain_link(reads, spec, position, target, depth, budget)
            else:
                result[name] = reads.field(number, ordinal, position)
        return {**result, **plain_vectors(spec, ordinal)} if spec.vectors else result
    if spec.kind == MAP:
        pairs = [
            (_plain_link(reads, spec, 0, key, depth, budget), _plain_link(reads, spec, 1, value, depth, budget))
            for key, value in reads.entries(number, ordinal)
        ]
        link = spec.links[0]
        if link >= 0 and reads.types[link].boxed and len({key for key, _ in pairs}) == len(pairs):
            return dict(pairs)
        return pairs
    return [_plain_link(reads, spec, 0, element, depth, budget) for element in reads.elements(number, ordinal)]


def _plain_link(reads: Reads, spec: TypeSpec, position: int, target: int, depth: int, budget: _Budget) -> object:
    link = spec.links[position]
    if link < 0:
        return Reference(str(spec.link_names[position]), target)
    if target > reads.types[link].max_ordinal:
        raise out_of_range(reads, link, target)
    return _plain(reads, link, target, depth - 1, budget)


def describe(reads: Reads, number: int, ordinal: int) -> str:
    """A short line for people: `Movie(ordinal=3, id=7, title='Solaris', cast=ListOfActor(ordinal=9), …)`."""
    spec = reads.types[number]
    parts = [f"ordinal={ordinal}"]
    if spec.kind == OBJECT:
        for position, name in enumerate(spec.field_names[:_REPR_FIELDS]):
            if spec.field_codes[position] == REFERENCE:
                target = reads.pointer(number, ordinal, position)
                parts.append(f"{name}={'None' if target < 0 else _describe_link(reads, spec, position, target)}")
            else:
                parts.append(f"{name}={_shortened(reads.field(number, ordinal, position))}")
        if len(spec.field_names) > _REPR_FIELDS:
            parts.append("…")
        for name, column in spec.vectors.items():
            row = column[ordinal]
            parts.append(f"{name}={'None' if row is None else f'<{len(row)} numbers>'}")
        return f"{spec.name}({', '.join(parts)})"
    size = reads.size(number, ordinal)
    shown = [
        ": ".join(_describe_link(reads, spec, position, part) for position, part in enumerate(members))
        for members in members_of((reads, number, ordinal))[:_REPR_FIELDS]
    ]
    if size > _REPR_FIELDS:
        shown.append(f"… {size} in all")
    opening, closing = "[]" if spec.kind == LIST else "{}"
    return f"{spec.name}(ordinal={ordinal}, {opening}{', '.join(shown)}{closing})"


def _describe_link(reads: Reads, spec: TypeSpec, position: int, target: int) -> str:
    link = spec.links[position]
    if link >= 0 and target <= reads.types[link].max_ordinal and reads.types[link].boxed:
        return _shortened(reads.field(link, target, 0))
    return f"{spec.link_names[position]}(ordinal={target})"


def _shortened(value: object) -> str:
    if isinstance(value, str | bytes) and len(value) > _REPR_TEXT:
        return repr(value[:_REPR_TEXT]) + "…"
    return repr(value)
