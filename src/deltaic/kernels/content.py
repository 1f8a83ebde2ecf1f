"""What a record is, beyond its bits: equality, hash, repr, plain values and keyed look-up.

Both kernels `access` (compiled and plain) offer the same few reads of single values, named in `Reads`; everything here
is built on those, so that records of both behave alike. A record is (reads, type number, ordinal).
"""

import struct
from collections.abc import Sequence
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
        "OrdinalRange", f"a reference to {spec.name} {ordinal}, whose last record is {spec.max_ordinal}", f"type {spec.name}"
    )


# --- plain values -----------------------------------------------------------------------------------------------------


class _Budget:
    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values = MAX_VALUES


def to_python(reads: Reads, number: int, ordinal: int, max_depth: int) -> object:
    """A record as dicts, lists and scalars, references followed."""
    return _plain(reads, number, ordinal, max_depth, _Budget())


def _plain(reads: Reads, number: int, ordinal: int, depth: int, budget: _Budget) -> object:
    spec = reads.types[number]
    if spec.boxed:
        return reads.field(number, ordinal, 0)
    budget.values -= 1
    if depth <= 0 or budget.values <= 0:
        bound = "references nest deeper than max_depth allows" if depth <= 0 else f"more than {MAX_VALUES:,} records"
        raise InputError(f"type {spec.name}, record {ordinal}: {bound}", "TooDeep")
    if spec.kind == OBJECT:
        result: dict[str, object] = {}
        for position, name in enumerate(spec.field_names):
            if spec.field_codes[position] == REFERENCE:
                target = reads.pointer(number, ordinal, position)
                result[name] = None if target < 0 else _plain_link(reads, spec, position, target, depth, budget)
            else:
                result[name] = reads.field(number, ordinal, position)
        return result
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


# --- equality and hash ------------------------------------------------------------------------------------------------

_Place = tuple[Reads, int, int]


def equal(one: _Place, other: _Place) -> bool:
    """True if two records have the same type and content, whatever their ordinals; all NaNs are equal."""
    return _equal(one, other, set(), 0)


def _equal(one: _Place, other: _Place, assumed: set[tuple[int, int, int, int]], depth: int) -> bool:
    reads, number, ordinal = one
    others, other_number, other_ordinal = other
    if reads is others and number == other_number and ordinal == other_ordinal:
        return True
    spec, other_spec = reads.types[number], others.types[other_number]
    if spec.kind != other_spec.kind or spec.name != other_spec.name or spec.field_names != other_spec.field_names:
        return False
    if spec.field_codes != other_spec.field_codes:
        return False
    pair = (number, ordinal, other_number, other_ordinal)
    if pair in assumed:
        # A circle of references: equal unless something on it differs.
        return True
    if depth > 4 * MAX_DEPTH:
        raise InputError(f"type {spec.name}, record {ordinal}: references nest too deep to compare", "TooDeep")
    assumed.add(pair)
    if spec.kind == OBJECT:
        return all(_equal_field(one, other, position, assumed, depth) for position in range(len(spec.field_codes)))
    if reads.size(number, ordinal) != others.size(other_number, other_ordinal):
        return False
    if spec.kind == LIST:
        elements, other_elements = reads.elements(number, ordinal), others.elements(other_number, other_ordinal)
        pairs = zip(elements, other_elements, strict=True)
        return all(_equal_link(one, other, 0, mine, theirs, assumed, depth) for mine, theirs in pairs)
    return _equal_bags(one, other, assumed, depth)


def _equal_field(
    one: _Place, other: _Place, position: int, assumed: set[tuple[int, int, int, int]], depth: int
) -> bool:
    reads, number, ordinal = one
    others, other_number, other_ordinal = other
    if reads.types[number].field_codes[position] != REFERENCE:
        return reads.scalar(number, ordinal, position) == others.scalar(other_number, other_ordinal, position)
    target = reads.pointer(number, ordinal, position)
    other_target = others.pointer(other_number, other_ordinal, position)
    if target < 0 or other_target < 0:
        return target == other_target
    return _equal_link(one, other, position, target, other_target, assumed, depth)


def _equal_link(
    one: _Place,
    other: _Place,
    position: int,
    target: int,
    other_target: int,
    assumed: set[tuple[int, int, int, int]],
    depth: int,
) -> bool:
    link = one[0].types[one[1]].links[position]
    other_link = other[0].types[other[1]].links[position]
    if link < 0 or other_link < 0:
        return link == other_link and target == other_target
    place, other_place = _checked(one[0], link, target), _checked(other[0], other_link, other_target)
    return _equal(place, other_place, assumed, depth + 1)


def _equal_bags(one: _Place, other: _Place, assumed: set[tuple[int, int, int, int]], depth: int) -> bool:
    """Sets and maps: the same elements, each as often, in whatever buckets."""
    waiting: dict[int, list[tuple[int, ...]]] = {}
    for parts in _members(other):
        waiting.setdefault(_members_hash(other, parts), []).append(parts)
    for parts in _members(one):
        candidates = waiting.get(_members_hash(one, parts), [])
        for candidate in candidates:
            # A failed comparison must not leave its assumptions behind, or a later one could lean on them.
            trial = set(assumed)
            pairs = enumerate(zip(parts, candidate, strict=True))
            if all(_equal_link(one, other, place, mine, theirs, trial, depth) for place, (mine, theirs) in pairs):
                candidates.remove(candidate)
                break
        else:
            return False
    return True


def _members(place: _Place) -> list[tuple[int, ...]]:
    reads, number, ordinal = place
    if reads.types[number].kind == MAP:
        return list(reads.entries(number, ordinal))
    return [(element,) for element in reads.elements(number, ordinal)]


def _members_hash(place: _Place, parts: tuple[int, ...]) -> int:
    reads, number, _ = place
    return hash(tuple(_link_hash(reads, number, position, part, 0) for position, part in enumerate(parts)))


def content_hash(reads: Reads, number: int, ordinal: int) -> int:
    """A hash that equal records share: scalars of the record, and of what it refers to one step away."""
    return _hash(reads, number, ordinal, 1)


def _hash(reads: Reads, number: int, ordinal: int, steps: int) -> int:
    spec = reads.types[number]
    if spec.kind == OBJECT:
        parts: list[object] = [spec.name]
        for position, code in enumerate(spec.field_codes):
            if code != REFERENCE:
                parts.append(reads.scalar(number, ordinal, position))
            else:
                target = reads.pointer(number, ordinal, position)
                parts.append(None if target < 0 else _link_hash(reads, number, position, target, steps - 1))
        return hash(tuple(parts))
    size = reads.size(number, ordinal)
    if steps <= 0:
        return hash((spec.name, size))
    hashes = [
        tuple(_link_hash(reads, number, position, part, steps - 1) for position, part in enumerate(parts_of))
        for parts_of in _members((reads, number, ordinal))
    ]
    if spec.kind == LIST:
        return hash((spec.name, size, tuple(hashes)))
    return hash((spec.name, size, sum(hash(parts_hash) for parts_hash in hashes)))


def _link_hash(reads: Reads, number: int, position: int, target: int, steps: int) -> int:
    link = reads.types[number].links[position]
    if link < 0:
        return hash(target)
    _checked(reads, link, target)
    spec = reads.types[link]
    if spec.boxed:
        return hash((spec.name, reads.scalar(link, target, 0)))
    return _hash(reads, link, target, steps) if steps >= 0 else hash(spec.name)


def _checked(reads: Reads, number: int, ordinal: int) -> _Place:
    if ordinal > reads.types[number].max_ordinal:
        raise out_of_range(reads, number, ordinal)
    return reads, number, ordinal


# --- repr -------------------------------------------------------------------------------------------------------------


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
        return f"{spec.name}({', '.join(parts)})"
    size = reads.size(number, ordinal)
    shown = [
        ": ".join(_describe_link(reads, spec, position, part) for position, part in enumerate(members))
        for members in _members((reads, number, ordinal))[:_REPR_FIELDS]
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


# --- keyed look-up ----------------------------------------------------------------------------------------------------

_NO_VALUE = object()
"""What stands at the end of a path that meets a null reference: equal to no key."""


def find(reads: Reads, number: int, ordinal: int, key: Sequence[object]) -> tuple[int, int] | None:
    """The (key, value) ordinals of the first entry with a hash key, probing from its bucket to an empty one.

    The value is -1 in a SET. hollow-blob.md, 2.3 and 19.
    """
    from deltaic.kernels import hashing

    spec = reads.types[number]
    if spec.key_paths is None:
        raise InputError(f"type {spec.name} has no hash key to look records up by")
    if len(key) != len(spec.key_paths):
        raise InputError(f"type {spec.name} has a hash key of {len(spec.key_paths)} fields, {len(key)} values given")
    wanted: list[object] = []
    code = 0
    for path, value in zip(spec.key_paths, key, strict=True):
        normal = normal_key(value, path.code, spec.name)
        if normal is _NO_VALUE:
            return None
        wanted.append(normal)
        code = (code * 31 ^ hashing.hash_int_one(_signed(_field_hash(normal, path.code)))) & 0xFFFF_FFFF
    count = reads.buckets(number, ordinal)
    place = code & (count - 1)
    for _ in range(count):
        found, value_ordinal = reads.bucket(number, ordinal, place)
        if found < 0:
            return None
        pairs = zip(spec.key_paths, wanted, strict=True)
        if all(_value_at(reads, spec.links[0], found, path) == normal for path, normal in pairs):
            return found, value_ordinal
        place = (place + 1) & (count - 1)
    return None


def _value_at(reads: Reads, number: int, ordinal: int, path: KeyPath) -> object:
    for position in path.positions[:-1]:
        _checked(reads, number, ordinal)
        ordinal = reads.pointer(number, ordinal, position)
        number = reads.types[number].links[position]
        if ordinal < 0 or number < 0:
            return _NO_VALUE
    _checked(reads, number, ordinal)
    if path.code == REFERENCE:
        target = reads.pointer(number, ordinal, path.positions[-1])
        return None if target < 0 else target
    return reads.scalar(number, ordinal, path.positions[-1])


def normal_key(value: object, code: int, type_name: str) -> object:
    """A key value in the form of `Reads.scalar`; `_NO_VALUE` if no record can hold it."""
    if value is None:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if code in (INT, LONG, REFERENCE) and isinstance(value, int) and not isinstance(value, bool):
        bits = 63 if code == LONG else 31
        return value if -(1 << bits) < value < 1 << bits else _NO_VALUE
    if code == BOOLEAN and isinstance(value, bool):
        return value
    if code in (FLOAT, DOUBLE) and isinstance(value, int | float) and not isinstance(value, bool):
        if value != value:
            return 0x7FC00000 if code == FLOAT else 0x7FF8000000000000
        try:
            packed = struct.pack("<f" if code == FLOAT else "<d", value)
        except OverflowError:
            return _NO_VALUE
        return int.from_bytes(packed, "little")
    if code == STRING and isinstance(value, str):
        return value
    if code == BYTES and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    names = ("REFERENCE", "INT", "LONG", "BOOLEAN", "FLOAT", "DOUBLE", "STRING", "BYTES")
    raise InputError(f"type {type_name}: {type(value).__name__} given for a key field of type {names[code]}", "KeyType")


def _field_hash(normal: Any, code: int) -> int:
    """The hash of one key field (hollow-blob.md, 2.2, first column)."""
    from deltaic.kernels import hashing

    if normal is None:
        return {FLOAT: NULL_FLOAT, DOUBLE: NULL_DOUBLE >> 32 ^ NULL_DOUBLE & 0xFFFF_FFFF, REFERENCE: -1}.get(code, 0)
    if code in (LONG, DOUBLE):
        word = int(normal) & 0xFFFF_FFFF_FFFF_FFFF
        return (word >> 32) ^ (word & 0xFFFF_FFFF)
    if code == BOOLEAN:
        return 1231 if normal else 1237
    if code == STRING:
        return hashing.java_hash_one(normal)
    if code == BYTES:
        return hashing.bytes_hash_one(normal)
    return int(normal)


def _signed(value: int) -> int:
    value &= 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


# --- membership -------------------------------------------------------------------------------------------------------


def find_member(reads: Reads, number: int, ordinal: int, wanted: object) -> tuple[int, int] | None:
    """The (element or key, value) ordinals of the first member that is `wanted`: a record, or a value if boxed."""
    spec = reads.types[number]
    link = spec.links[0]
    if link < 0:
        wanted = wanted.ordinal if isinstance(wanted, Reference) and wanted.type_name == spec.link_names[0] else None
        return _first_member(reads, number, ordinal, lambda member: member == wanted)
    target = reads.types[link]
    if target.boxed:
        code = target.field_codes[0]
        try:
            normal = normal_key(wanted, code, spec.name)
        except InputError:
            return None
        if normal is _NO_VALUE:
            return None
        if spec.key_paths == (KeyPath((0,), code),) and normal is not None:
            return find(reads, number, ordinal, (wanted,))
        return _first_member(reads, number, ordinal, lambda member: reads.scalar(link, member, 0) == normal)
    place = getattr(wanted, "_place", None)
    if place is None:
        return None
    others, other_number, other_ordinal = place()
    if others is reads:
        if other_number != link:
            return None
        return _first_member(reads, number, ordinal, lambda member: member == other_ordinal)
    return _first_member(
        reads, number, ordinal, lambda member: equal((reads, link, member), (others, other_number, other_ordinal))
    )


def _first_member(reads: Reads, number: int, ordinal: int, matches: Any) -> tuple[int, int] | None:
    for members in _members((reads, number, ordinal)):
        if reads.types[number].links[0] >= 0:
            _checked(reads, reads.types[number].links[0], members[0])
        if matches(members[0]):
            return members[0], members[1] if len(members) > 1 else -1
    return None
