"""The records of a manifest as columns: the slow and obvious twin of `_manifest.pyx`.

`decode_entries` reads Avro records of one flat shape. A program says the shape, one byte for each field:

    0 text   1 long or int   2 boolean   3 map of texts   4 list of texts
    +8 nullable, null is the first branch   +16 nullable, null is the second branch

Texts stay where they are: a column of texts is where each starts and how many bytes it has, -1 for null. Bytes that are
not such records raise ValueError(code, position).
"""

import numpy as np
from numpy.typing import NDArray

TEXT, LONG, BOOLEAN, MAP, TEXTS = range(5)
NULL_FIRST, NULL_SECOND = 8, 16

# What compare_texts says of a text beside the needle.
PREFIX, LESS, EQUAL, GREATER, UNSURE, MISSING = -2, -1, 0, 1, 2, 3

_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
_MASK = (1 << 64) - 1


def decode_entries(data: bytes, count: int, program: bytes) -> tuple[NDArray[np.int64], list[tuple[object, ...]]]:
    """Where each record starts (and the last ends), and a tuple of arrays for each field."""
    if not 0 <= count <= len(data) or count * len(program) > len(data):
        raise ValueError("BadLength", 0)
    reader = _Reader(data)
    starts = [0]
    columns = [_COLUMNS[kind & 7]() for kind in program]
    for _ in range(count):
        for kind, column in zip(program, columns, strict=True):
            null = False
            if kind & (NULL_FIRST | NULL_SECOND):
                branch = reader.long()
                if branch not in (0, 1):
                    raise ValueError("BadUnion", reader.position)
                null = (branch == 0) == bool(kind & NULL_FIRST)
            column.add(reader, null)
        starts.append(reader.position)
    if reader.position != len(data):
        raise ValueError("TrailingBytes", reader.position)
    return np.array(starts, np.int64), [column.arrays() for column in columns]


def hash_texts(data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """FNV-1a of each text."""
    found = np.empty(len(starts), np.uint64)
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        value = _FNV_OFFSET
        for byte in data[start : start + max(length, 0)]:
            value = (value ^ byte) * _FNV_PRIME & _MASK
        found[row] = value
    return found


def number_texts(
    data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each text the number of its kind, in the order they first come, and the row of each kind's first one."""
    numbers: dict[bytes | None, int] = {}
    codes = np.empty(len(starts), np.int64)
    firsts: list[int] = []
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        text = None if length < 0 else data[start : start + length]
        if text not in numbers:
            numbers[text] = len(firsts)
            firsts.append(row)
        codes[row] = numbers[text]
    return codes, np.array(firsts, np.int64)


def compare_texts(
    data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64], needle: bytes
) -> NDArray[np.int8]:
    """How each text sorts beside the needle, by code points and by UTF-16 units at once; UNSURE where they differ."""
    found = np.empty(len(starts), np.int8)
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        found[row] = MISSING if length < 0 else _compare(data[start : start + length], needle)
    return found


def parse_longs(
    data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Each text as a decimal 64-bit integer, and whether it is one."""
    values, fine = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.uint8)
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        text = data[start : start + max(length, 0)]
        digits = text[1:] if text[:1] in (b"-", b"+") else text
        if 0 < len(digits) <= 19 and digits.isdigit():
            value = -int(digits) if text[:1] == b"-" else int(digits)
            if -(1 << 63) <= value < 1 << 63:
                values[row], fine[row] = value, 1
    return values, fine


def parse_doubles(
    data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Each text as a number, and whether it is one; NaN is none."""
    values, fine = np.zeros(len(starts), np.float64), np.zeros(len(starts), np.uint8)
    for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        text = data[start : start + max(length, 0)]
        if not 0 < length <= 63 or b"_" in text or any(byte <= 32 or byte > 126 for byte in text):
            continue
        try:
            value = float(text)
        except ValueError:
            continue
        if value == value:
            values[row], fine[row] = value, 1
    return values, fine


def _compare(text: bytes, needle: bytes) -> int:
    for ours, other in zip(text, needle, strict=False):
        if ours != other:
            if (ours >= 0xF0) != (other >= 0xF0) and min(ours, other) >= 0xEE:
                return UNSURE
            return LESS if ours < other else GREATER
    if len(text) == len(needle):
        return EQUAL
    return PREFIX if len(text) < len(needle) else GREATER


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def long(self) -> int:
        value = shift = 0
        for position in range(self.position, min(self.position + 10, len(self.data))):
            byte = self.data[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 64:
                    break
                self.position = position + 1
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise ValueError("BadVarint", self.position)

    def text(self) -> tuple[int, int]:
        length = self.long()
        if length < 0 or length > len(self.data) - self.position:
            raise ValueError("Truncated", self.position)
        start, self.position = self.position, self.position + length
        return start, length

    def block(self, least_bytes: int) -> int:
        count = self.long()
        if count < 0:
            count = -count
            self.long()
        if count > (len(self.data) - self.position) // least_bytes:
            raise ValueError("BadLength", self.position)
        return count


class _Texts:
    def __init__(self) -> None:
        self.starts: list[int] = []
        self.lengths: list[int] = []

    def add(self, reader: _Reader, null: bool) -> None:
        start, length = (0, -1) if null else reader.text()
        self.starts.append(start)
        self.lengths.append(length)

    def arrays(self) -> tuple[object, ...]:
        return np.array(self.starts, np.int64), np.array(self.lengths, np.int64)


class _Longs:
    def __init__(self) -> None:
        self.values: list[int] = []
        self.valid: list[int] = []

    def add(self, reader: _Reader, null: bool) -> None:
        self.values.append(0 if null else reader.long())
        self.valid.append(not null)

    def arrays(self) -> tuple[object, ...]:
        return np.array(self.values, np.int64), np.array(self.valid, np.uint8)


class _Booleans(_Longs):
    def add(self, reader: _Reader, null: bool) -> None:
        value = 0
        if not null:
            if reader.position >= len(reader.data):
                raise ValueError("Truncated", reader.position)
            value = reader.data[reader.position]
            if value > 1:
                raise ValueError("BadBoolean", reader.position)
            reader.position += 1
        self.values.append(value)
        self.valid.append(not null)

    def arrays(self) -> tuple[object, ...]:
        return np.array(self.values, np.uint8), np.array(self.valid, np.uint8)


class _Lists(_Texts):
    def __init__(self) -> None:
        super().__init__()
        self.offsets = [0]
        self.valid: list[int] = []

    def add(self, reader: _Reader, null: bool) -> None:
        if not null:
            while count := reader.block(1):
                for _ in range(count):
                    super().add(reader, False)
        self.offsets.append(len(self.starts))
        self.valid.append(not null)

    def arrays(self) -> tuple[object, ...]:
        return np.array(self.offsets, np.int64), *super().arrays(), np.array(self.valid, np.uint8)


class _Maps(_Texts):
    def __init__(self) -> None:
        super().__init__()
        self.offsets: list[int] = [0]
        self.valid: list[int] = []
        self.ids: list[int] = []
        self.keys: dict[bytes, int] = {}

    def add(self, reader: _Reader, null: bool) -> None:
        if not null:
            while count := reader.block(2):
                for _ in range(count):
                    start, length = reader.text()
                    key = reader.data[start : start + length]
                    self.ids.append(self.keys.setdefault(key, len(self.keys)))
                    super().add(reader, False)
        self.offsets.append(len(self.starts))
        self.valid.append(not null)

    def arrays(self) -> tuple[object, ...]:
        starts, lengths = super().arrays()
        offsets, ids, valid = (
            np.array(self.offsets, np.int64),
            np.array(self.ids, np.int32),
            np.array(self.valid, np.uint8),
        )
        return offsets, ids, starts, lengths, valid, list(self.keys)


_COLUMNS = (_Texts, _Longs, _Booleans, _Maps, _Lists)
