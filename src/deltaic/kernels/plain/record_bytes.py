"""One serialized record (hollow-blob.md, section 11), read and written byte by byte, for the plain record kernels."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import hashing

Bytes = NDArray[np.uint8]
Ends = NDArray[np.int64]
Ordinals = NDArray[np.int32]
Record = bytes | memoryview

REFERENCE, INT, LONG, BOOLEAN, FLOAT, DOUBLE, STRING, BYTES = range(8)
NO_BUCKETS, MIXED, UNMIXED = range(3)
"""What stands beside each element of a serialized set or map: nothing, the bucket of its mixed or plain hash."""

NULL = 0x80
NULL_FLOAT, NAN = 0x7FC00001, 0x7FC00000
NULL_DOUBLE, LONG_NAN = 0x7FF8000000000001, 0x7FF8000000000000
MASK32, MASK64 = 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF


class Bits:
    """Collects bits, least significant first."""

    def __init__(self, carry: NDArray[np.uint64] | None = None) -> None:
        self._value = 0 if carry is None else int(carry[0])
        self._count = 0 if carry is None else int(carry[1])
        self._words = bytearray()

    def add(self, value: int, width: int) -> None:
        """Append a value."""
        self._value |= value << self._count
        self._count += width
        # Numbers of thousands of bits would make each addition slow.
        if self._count > 4096:
            self._move(self._count // 64)

    def finish(self, words: Bytes) -> None:
        """Write all bits, the last word filled up with zeros."""
        self._move((self._count + 63) // 64)
        self._write(words)

    def flush(self, words: Bytes, carry: NDArray[np.uint64]) -> int:
        """Write the whole words and carry the rest."""
        self._move(self._count // 64)
        carry[0], carry[1] = self._value, self._count
        return self._write(words)

    def _move(self, count: int) -> None:
        self._words += (self._value & (1 << 64 * count) - 1).to_bytes(8 * count, "little")
        self._value >>= 64 * count
        self._count -= 64 * count

    def _write(self, words: Bytes) -> int:
        swapped = np.frombuffer(self._words, np.uint64).byteswap().view(np.uint8)
        words[: len(swapped)] = swapped
        return len(swapped)


def varint(value: int) -> bytes:
    """The base-128 groups of a number."""
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(0x80 | value & 0x7F)
    return bytes(reversed(groups))


def read(record: Record, position: int) -> tuple[int, int]:
    """Read a number; gives it and the position after it."""
    value = 0
    while True:
        byte = record[position]
        position += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, position


def skip(record: Record, position: int, kind: int) -> int:
    """The position after a field."""
    if kind in (FLOAT, DOUBLE):
        return position + (4 if kind == FLOAT else 8)
    if record[position] == NULL or kind == BOOLEAN:
        return position + 1
    value, position = read(record, position)
    return position + value if kind in (STRING, BYTES) else position


def null(kind: int) -> bytes:
    """The bytes of a null."""
    if kind == FLOAT:
        return NULL_FLOAT.to_bytes(4, "big")
    return NULL_DOUBLE.to_bytes(8, "big") if kind == DOUBLE else bytes((NULL,))


def fixed(kind: int, raw: int) -> bytes:
    """The bytes of a value of a fixed kind, from its raw bits."""
    if kind == FLOAT:
        raw &= MASK32
        return (NAN if raw & 0x7FFF_FFFF > 0x7F80_0000 else raw).to_bytes(4, "big")
    if kind == DOUBLE:
        nan = raw & 0x7FFF_FFFF_FFFF_FFFF > 0x7FF0_0000_0000_0000
        return (LONG_NAN if nan else raw).to_bytes(8, "big")
    if kind == BOOLEAN:
        return b"\1" if raw else b"\0"
    if kind == REFERENCE:
        return varint(raw & MASK32)
    bits = 32 if kind == INT else 64
    number = raw & (1 << bits) - 1
    if number == 1 << bits - 1:
        return null(kind)
    signed = number - (1 << bits) if number >> bits - 1 else number
    return varint((signed << 1 ^ signed >> bits - 1) & (1 << bits) - 1)


def bucket(code: int, mask: int, buckets: int) -> bytes:
    """The bytes of a start bucket."""
    if buckets == NO_BUCKETS:
        return b""
    signed = code - (1 << 32) if code >> 31 else code
    return varint((hashing.hash_int_one(signed) if buckets == MIXED else code) & mask)


def width_of(record: Record, position: int, kind: int) -> int:
    """The bits that a fixed field needs."""
    if kind in (BOOLEAN, FLOAT, DOUBLE):
        return {BOOLEAN: 2, FLOAT: 32, DOUBLE: 64}[kind]
    return 1 if record[position] == NULL else (read(record, position)[0] + 1).bit_length()


def stored(piece: Record, kind: int, width: int) -> int:
    """What a fixed field is stored as."""
    if kind in (FLOAT, DOUBLE):
        return int.from_bytes(piece, "big")
    if piece[0] == NULL:
        return (1 << width) - 1
    return read(piece, 0)[0]


def list_of(record: Record) -> list[int]:
    """The elements of a list."""
    size, position = read(record, 0)
    found = []
    for _ in range(size):
        element, position = read(record, position)
        found.append(element)
    return found


def set_of(record: Record) -> list[tuple[int, int]]:
    """Elements and start buckets of a set."""
    size, position = read(record, 0)
    element, found = 0, []
    for _ in range(size):
        gap, position = read(record, position)
        bucket, position = read(record, position)
        element += gap
        found.append((element, bucket))
    return found


def map_of(record: Record) -> list[tuple[int, int, int]]:
    """Keys, values and start buckets of a map."""
    size, position = read(record, 0)
    key, found = 0, []
    for _ in range(size):
        gap, position = read(record, position)
        value, position = read(record, position)
        bucket, position = read(record, position)
        key += gap
        found.append((key, value, bucket))
    return found


def placed(entries: list[tuple[int, int, int]], hashes: Ordinals) -> list[int | None]:
    """The hash table of (member, what is stored, start bucket): linear probing."""
    size = hashing.hash_table_size(len(entries))
    table: list[int | None] = [None] * size
    for member, stored, bucket in entries:
        place = int(hashes[member]) & size - 1 if len(hashes) else bucket
        while table[place] is not None:
            place = place + 1 & size - 1
        table[place] = stored
    return table


def field_start(record: Record, kinds: Bytes, field: int) -> int:
    """Where a field starts."""
    position = 0
    for kind in kinds[:field].tolist():
        position = skip(record, position, kind)
    return position


def java_hash(units: Record) -> int:
    """Java's hash of a text's UTF-16 units."""
    value = position = 0
    while position < len(units):
        if len(units) - position == 1 and units[position] == NULL:
            return value * 31 & MASK32
        unit, position = read(units, position)
        value = value * 31 + unit & MASK32
    return value


def fold(raw: int) -> int:
    """High word xor low word."""
    return (raw ^ raw >> 32) & MASK32


def checked_varint(record: Record, position: int, longest: int) -> tuple[int, int]:
    """Read a number, or raise ValueError."""
    value, after = read(record, position)
    if record[position] == NULL or after - position > longest or value >> (32 if longest == 5 else 64):
        raise ValueError
    return value, after


def checked_field(record: Record, position: int, kind: int) -> int:
    """The position after a field, or ValueError or IndexError."""
    if kind in (FLOAT, DOUBLE):
        after = skip(record, position, kind)
        raw = int.from_bytes(record[position:after], "big")
        exponent, nan, null = (
            (0x7F80_0000, NAN, NULL_FLOAT) if kind == FLOAT else (0x7FF0_0000_0000_0000, LONG_NAN, NULL_DOUBLE)
        )
        sign = 1 << (31 if kind == FLOAT else 63)
        if after > len(record) or (raw & sign - 1 > exponent and raw not in (nan, null)):
            raise ValueError
        return after
    if record[position] == NULL:
        return position + 1
    if kind == BOOLEAN:
        if record[position] > 1:
            raise ValueError
        return position + 1
    value, after = checked_varint(record, position, 10 if kind == LONG else 5)
    if kind in (STRING, BYTES):
        after += value
        if after > len(record):
            raise ValueError
        if kind == STRING:
            check_units(record[after - value : after])
    elif value > {REFERENCE: 0x7FFF_FFFF, INT: MASK32 - 1, LONG: MASK64 - 1}[kind]:
        raise ValueError
    return after


def check_units(units: Record) -> None:
    """Raise ValueError if this is no character data."""
    position = 0
    if units == bytes((NULL,)):
        return
    while position < len(units):
        value, after = checked_varint(units, position, 5)
        if value > 0xFFFF:
            raise ValueError
        position = after


def at(arena: Bytes, starts: Ends, ordinal: int) -> memoryview:
    """An ordinal's record and whatever follows it."""
    # Serialized records end by themselves: how far this one goes is found while it is read.
    return arena.data[int(starts[ordinal]) :]


def each(arena: Bytes, starts: Ends, ordinals: Ordinals) -> Iterator[memoryview]:
    """The records of these ordinals."""
    return (at(arena, starts, ordinal) for ordinal in ordinals.tolist())


def split(data: Bytes, ends: Ends) -> list[bytes]:
    """Records as byte strings."""
    whole = data.tobytes()
    starts = [0, *ends.tolist()]
    return [whole[start:end] for start, end in pairwise(starts)]


def ranges(offsets: Ends) -> Iterator[tuple[int, int]]:
    """Start and end of every range."""
    bounds = offsets.tolist()
    return pairwise(bounds)


def joined(records: Iterable[bytes]) -> tuple[Bytes, Ends]:
    """Records back to back, and their ends."""
    made = list(records)
    ends = np.cumsum([len(record) for record in made], dtype=np.int64) if made else np.zeros(0, np.int64)
    return array(b"".join(made)), ends


def array(data: bytes | bytearray) -> Bytes:
    """Bytes as an array."""
    return np.frombuffer(bytes(data), np.uint8)
