"""Look-up in sets and maps: by hash key, or by the element or key itself."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deltaic.errors import InputError
from deltaic.kernels.content import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NULL_DOUBLE,
    NULL_FLOAT,
    REFERENCE,
    STRING,
    KeyPath,
    Reads,
    Reference,
    checked,
    members_of,
)
from deltaic.kernels.sameness import equal

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
        normal = _normal_key(value, path.code, spec.name)
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
        checked(reads, number, ordinal)
        ordinal = reads.pointer(number, ordinal, position)
        number = reads.types[number].links[position]
        if ordinal < 0 or number < 0:
            return _NO_VALUE
    checked(reads, number, ordinal)
    if path.code == REFERENCE:
        target = reads.pointer(number, ordinal, path.positions[-1])
        return None if target < 0 else target
    return reads.scalar(number, ordinal, path.positions[-1])


def _normal_key(value: object, code: int, type_name: str) -> object:
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
            normal = _normal_key(wanted, code, spec.name)
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
    other = place()
    return _first_member(reads, number, ordinal, lambda member: equal((reads, link, member), other))


def _first_member(reads: Reads, number: int, ordinal: int, matches: Callable[[int], bool]) -> tuple[int, int] | None:
    for members in members_of((reads, number, ordinal)):
        if reads.types[number].links[0] >= 0:
            checked(reads, reads.types[number].links[0], members[0])
        if matches(members[0]):
            return members[0], members[1] if len(members) > 1 else -1
    return None
