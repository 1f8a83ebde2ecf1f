"""Appended sections in plain Python and NumPy: the reference for `_append` (formats page "schema append").

Pairs of an ordinal and a value stand one after the other; kinds of fields are numbered as on the wire: REFERENCE 0,
INT 1, LONG 2, BOOLEAN 3, FLOAT 4, DOUBLE 5, STRING 6, BYTES 7. Parsers do not raise: a negative place says what is
wrong. -1: the bytes end early; -2: no number; -3: ordinals do not rise, or are none; -4: no value of the kind.
"""

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels.plain import bits
from deltaic.kernels.plain.record_bytes import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    LONG,
    LONG_NAN,
    NAN,
    NULL,
    NULL_DOUBLE,
    NULL_FLOAT,
    STRING,
    read,
    varint,
)
from deltaic.kernels.plain.text import decode_text

Bytes = NDArray[np.uint8]
Ordinals = NDArray[np.int64]

_TRUNCATED, _BAD_NUMBER, _BAD_ORDER, _BAD_VALUE = -1, -2, -3, -4
_MAX_ORDINAL = 0x7FFF_FFFF
_SIZES = {BOOLEAN: 1, FLOAT: 4, DOUBLE: 8}


def collect_fields(
    arena: Bytes, starts: Ordinals, ordinals: NDArray[np.int32], kinds: Bytes, fields: Ordinals
) -> list[tuple[int, Bytes]]:
    """For each of some fields, rising: the pairs of these records whose value is not null, and how many they are."""
    raw = memoryview(arena.tobytes())
    wanted = fields.tolist()
    pairs: list[list[bytes]] = [[] for _ in wanted]
    for ordinal in ordinals.tolist():
        place = int(starts[ordinal])
        for position in range(wanted[-1] + 1 if wanted else 0):
            after = _after(raw, place, int(kinds[position]))
            if position in wanted and (value := _value(raw, place, after, int(kinds[position]))) is not None:
                pairs[wanted.index(position)].append(varint(ordinal) + value)
            place = after
    return [(len(found), np.frombuffer(b"".join(found), np.uint8).copy()) for found in pairs]


def _after(raw: memoryview, place: int, kind: int) -> int:
    if kind in (FLOAT, DOUBLE):
        return place + _SIZES[kind]
    if raw[place] == NULL or kind == BOOLEAN:
        return place + 1
    value, place = read(raw, place)
    return place + value if kind >= STRING else place


def _value(raw: memoryview, place: int, after: int, kind: int) -> bytes | None:
    value = bytes(raw[place:after])
    if kind in (FLOAT, DOUBLE):
        null = NULL_FLOAT if kind == FLOAT else NULL_DOUBLE
        return None if int.from_bytes(value, "big") == null else value
    if value[0] == NULL:
        return None
    if kind != STRING:
        return value
    size, begin = read(raw, place)
    text = decode_text(np.frombuffer(raw[begin : begin + size], np.uint8), 0, size).encode("utf-8", "surrogatepass")
    return varint(len(text)) + text


def _number(raw: memoryview, at: int, most: int) -> tuple[int, int]:
    """A number and the place after it; an error instead of the place."""
    value = 0
    for length in range(most):
        if at >= len(raw):
            return 0, _TRUNCATED
        if length == 0 and raw[at] == NULL:
            return 0, _BAD_NUMBER
        value = (value << 7 | raw[at] & 0x7F) & 0xFFFF_FFFF_FFFF_FFFF
        at += 1
        if raw[at - 1] < 0x80:
            return value, at
    return 0, _BAD_NUMBER


def _ordinal(raw: memoryview, at: int, before: int) -> tuple[int, int]:
    value, at = _number(raw, at, 5)
    return (value, _BAD_ORDER) if at >= 0 and (value <= before or value > _MAX_ORDINAL) else (value, at)


def read_fixed(data: Bytes, start: int, count: int, kind: int) -> tuple[Ordinals, NDArray[np.uint64], int]:
    """Parse `count` pairs of a kind of fixed length: ordinals, values as records hold them, the place after them.

    Every NaN becomes the canonical one, so that none is taken for null.
    """
    raw, at, before = memoryview(data.tobytes()), start, -1
    ordinals, values = np.zeros(count, np.int64), np.zeros(count, np.uint64)
    for row in range(count):
        before, at = _ordinal(raw, at, before)
        if at < 0:
            break
        ordinals[row] = before
        if kind in _SIZES:
            size = _SIZES[kind]
            if len(raw) - at < size:
                at = _TRUNCATED
                break
            value = int.from_bytes(raw[at : at + size], "big")
            at += size
            if kind == BOOLEAN and value > 1:
                at = _BAD_VALUE
                break
            if kind == FLOAT and value & 0x7FFF_FFFF > 0x7F80_0000:
                value = NAN
            if kind == DOUBLE and value & 0x7FFF_FFFF_FFFF_FFFF > 0x7FF0_0000_0000_0000:
                value = LONG_NAN
        else:
            value, at = _number(raw, at, 10 if kind == LONG else 5)
            if at < 0:
                break
            value &= 0xFFFF_FFFF_FFFF_FFFF if kind == LONG else 0xFFFF_FFFF
        values[row] = value
    return ordinals, values, at


def read_variable(data: Bytes, start: int, count: int) -> tuple[Ordinals, Ordinals, Ordinals, int]:
    """Parse `count` pairs of texts or bytes: ordinals, where each value starts and ends, the place after them."""
    raw, at, before = memoryview(data.tobytes()), start, -1
    ordinals, starts, ends = (np.zeros(count, np.int64) for _ in range(3))
    for row in range(count):
        before, at = _ordinal(raw, at, before)
        if at < 0:
            break
        ordinals[row] = before
        size, at = _number(raw, at, 5)
        if at < 0:
            break
        if size > len(raw) - at:
            at = _TRUNCATED
            break
        starts[row], ends[row] = at, at + size
        at += size
    return ordinals, starts, ends, at


def first_outside(words: NDArray[np.uint64], ordinals: Ordinals) -> int:
    """The first row whose ordinal is not in a set, or -1."""
    inside = ordinals < 64 * len(words)
    there = np.zeros(len(ordinals), np.bool_)
    known = ordinals[inside]
    there[inside] = words[known >> 6] >> (known & 63).astype(np.uint64) & np.uint64(1) != 0
    outside = np.flatnonzero(~there)
    return int(outside[0]) if len(outside) else -1


def append_fields(
    source: Bytes,
    stride: int,
    count: int,
    target: Bytes,
    ordinals: list[Ordinals],
    values: list[NDArray[np.uint64]],
    widths: Ordinals,
    nulls: NDArray[np.uint64],
    ends: NDArray[np.uint8],
) -> None:
    """Copy records of `stride` bits and put new fields behind each: values at their ordinals, null elsewhere.

    Where `ends` is set, a field holds ends, null is one bit, and null records end where the one before does. The slack
    behind the records is left as it is.
    """
    wide = stride + int(widths.sum())
    for begin in range(0, stride, 57):
        width = min(57, stride - begin)
        bits.store(target, begin, wide, width, bits.decode(source, begin, stride, width, count))
    offset = stride
    for rows, given, width, null, is_end in zip(ordinals, values, widths.tolist(), nulls, ends, strict=True):
        column = np.full(count, null, np.uint64)
        if is_end:
            lengths = np.zeros(count, np.uint64)
            lengths[rows] = np.diff(given, prepend=np.uint64(0))
            column |= np.cumsum(lengths, dtype=np.uint64)
        column[rows] = given
        bits.store(target, offset, wide, width, column)
        offset += width


def differing(data: Bytes, starts: Ordinals, ends: Ordinals, other: Bytes, offsets: Ordinals) -> NDArray[np.bool_]:
    """Which ranges of bytes are not those that stand at the same row of a ragged array."""
    raw, theirs = data.tobytes(), other.tobytes()
    bounds = zip(starts.tolist(), ends.tolist(), offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    return np.array([raw[a:b] != theirs[c:d] for a, b, c, d in bounds], np.bool_)
