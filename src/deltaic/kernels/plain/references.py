"""Blocks of field references as columns: the slow and obvious twin of `_references.pyx`.

A reference of a block is an index, a count of parameters and so many parameters; a parameter is a type, a length and
a value (field-registry.md, 1 to 3). As columns: `indexes`; `offsets`, where the parameters of each reference begin;
`types`, `starts` and `ends`, one for each parameter, the value being `data[start:end]`; `bounds`, where each
reference begins in the data, and the last ends.
"""

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.uint32]
Offsets = NDArray[np.int64]

_MOST_KEY_BYTES = 65_535
_PARENT, _RANGE, _INDICES, _RANGES, _MAP_KEY = 1, 3, 4, 5, 6


class _Damaged(Exception):
    """Bytes that are no reference."""


def scan_references(data: Bytes, start: int, count: int) -> tuple[int, int, int]:
    """Check references one after the other: how many are sound, where those end, how many parameters they have."""
    text = data.tobytes()
    position, parameters = start, 0
    for done in range(count):
        try:
            position, found = _scan_one(text, position)
        except _Damaged:
            return done, position, parameters
        parameters += found
    return count, position, parameters


def fill_references(
    data: Bytes,
    start: int,
    indexes: Numbers,
    offsets: Offsets,
    types: Bytes,
    starts: Offsets,
    ends: Offsets,
    bounds: Offsets,
) -> None:
    """Fill the columns of references that were scanned."""
    text = data.tobytes()
    position, parameter = start, 0
    for row in range(len(indexes)):
        bounds[row], offsets[row] = position, parameter
        indexes[row], position = _number(text, position, len(text))
        count = text[position]
        position += 1
        for _ in range(count):
            types[parameter] = text[position]
            length, position = _number(text, position + 1, len(text))
            starts[parameter], ends[parameter] = position, position + length
            position += length
            parameter += 1
    bounds[len(indexes)], offsets[len(indexes)] = position, parameter


def write_references(
    indexes: Numbers, offsets: Offsets, types: Bytes, starts: Offsets, ends: Offsets, data: Bytes, out: Bytes
) -> None:
    """Write references from columns into an array of exactly their size."""
    made = bytearray()
    for row, index in enumerate(indexes.tolist()):
        made += _spelled(index)
        made.append(int(offsets[row + 1] - offsets[row]))
        for parameter in range(offsets[row], offsets[row + 1]):
            value = data[starts[parameter] : ends[parameter]].tobytes()
            made.append(int(types[parameter]))
            made += _spelled(len(value)) + value
    out[:] = np.frombuffer(made, np.uint8)


def parameter_numbers(data: Bytes, types: Bytes, starts: Offsets) -> tuple[Offsets, Offsets]:
    """The number of each parent and index, the two numbers of each range; -1 where a parameter has none."""
    text = data.tobytes()
    first, second = np.full(len(types), -1, np.int64), np.full(len(types), -1, np.int64)
    for place, (code, start) in enumerate(zip(types.tolist(), starts.tolist(), strict=True)):
        if _PARENT <= code <= _RANGE:
            first[place], position = _number(text, start, len(text))
            if code == _RANGE:
                second[place], _ = _number(text, position, len(text))
    return first, second


def encode_numbers(values: Numbers) -> tuple[Offsets, Bytes]:
    """Numbers one after the other, and where each begins (and the last ends)."""
    sizes = 1 + (values >= 128).astype(np.int64) + (values >= 16_384)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    lasts = offsets[1:] - 1
    data[lasts] = values & 0xFF
    for size, prefix in ((2, 0x80), (3, 0xC0)):
        of_size = sizes == size
        data[offsets[:-1][of_size]] = prefix | values[of_size] >> (8 * (size - 1))
    data[lasts[sizes == 3] - 1] = values[sizes == 3] >> 8 & 0xFF
    return offsets, data


def decode_numbers(data: Bytes, start: int, values: Numbers) -> tuple[int, int]:
    """Read numbers into an array: how many are sound, and where those end."""
    text, position = data.tobytes(), start
    for done in range(len(values)):
        try:
            values[done], position = _number(text, position, len(text))
        except _Damaged:
            return done, position
    return len(values), position


def _spelled(value: int) -> bytes:
    if value < 128:
        return value.to_bytes(1, "big")
    return (0x8000 | value).to_bytes(2, "big") if value < 16_384 else (0xC00000 | value).to_bytes(3, "big")


def _number(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at >= end:
        raise _Damaged
    size = 1 if data[at] < 0x80 else 2 if data[at] < 0xC0 else 3
    if at + size > end:
        raise _Damaged
    value = int.from_bytes(data[at : at + size], "big") & (0x7F, 0x3FFF, 0x3FFFFF)[size - 1]
    if value < (0, 128, 16_384)[size - 1]:
        raise _Damaged
    return value, at + size


def _scan_one(data: bytes, at: int) -> tuple[int, int]:
    _, at = _number(data, at, len(data))
    if at >= len(data):
        raise _Damaged
    count = data[at]
    at += 1
    codes = []
    for _ in range(count):
        if at >= len(data) or data[at] == 0:
            raise _Damaged
        codes.append(data[at])
        length, at = _number(data, at + 1, len(data))
        if length > len(data) - at:
            raise _Damaged
        _check_value(codes[-1], data, at, at + length)
        at += length
    known = [code for code in codes if code <= _MAP_KEY]
    if _PARENT in known[known.count(_PARENT) :]:
        raise _Damaged
    return at, count


def _check_value(code: int, data: bytes, at: int, end: int) -> None:
    if code > _MAP_KEY:
        return
    if code == _MAP_KEY:
        _check_key(data[at:end])
        return
    numbers = []
    while at < end:
        number, at = _number(data, at, end)
        numbers.append(number)
    if code in (_INDICES, _RANGES):
        each = 2 if code == _RANGES else 1
        if not numbers or numbers[0] == 0 or numbers[0] * each != len(numbers) - 1:
            raise _Damaged
        numbers = numbers[1:]
    elif len(numbers) != (2 if code == _RANGE else 1):
        raise _Damaged
    if code == _INDICES:
        if len(set(numbers)) != len(numbers):
            raise _Damaged
    elif code in (_RANGE, _RANGES):
        _check_ranges(sorted(zip(numbers[::2], numbers[1::2], strict=True)))


def _check_ranges(ordered: list[tuple[int, int]]) -> None:
    last = 0
    for start, end in ordered:
        if start >= end or start < last:
            raise _Damaged
        last = end


def _check_key(value: bytes) -> None:
    if len(value) > _MOST_KEY_BYTES:
        raise _Damaged
    try:
        value.decode()
    except UnicodeDecodeError:
        raise _Damaged from None
