"""The tables of indexes in plain Python and NumPy: the reference for `_keys`, and the fall-back without a compiler.

A slot of a table has 64 bits: the hash in the upper half, the number of an entry plus one in the lower one, 0 if it is
empty. Probing is linear and ends at an empty slot, or after one round.
"""

import struct
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError, MissingKeyError
from deltaic.kernels.content import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    LIST,
    LONG,
    OBJECT,
    REFERENCE,
    STRING,
    KeyPath,
)
from deltaic.kernels.plain import hashing
from deltaic.kernels.plain.text import encode_text

Column = tuple[NDArray[np.int64], NDArray[np.uint8] | None]
Table = tuple[NDArray[np.uint64], NDArray[np.uint64] | None, bool]
"""Slots, the bits of entries that do not count any more, and whether equal hashes are equal keys."""

Value = int | bytes
"""A value as it is compared: a number, the bits of a float, the bytes of a text."""

_NAMES = ("REFERENCE", "INT", "LONG", "BOOLEAN", "FLOAT", "DOUBLE", "STRING", "BYTES")
_LOW = 0xFFFF_FFFF
_MOST_PARTS = 16
_WHOLE = (INT, LONG, BOOLEAN, REFERENCE)


def fill_table(
    hashes: NDArray[np.int32], entries: NDArray[np.int64] | None, valid: NDArray[np.bool_] | None, size: int
) -> NDArray[np.uint64]:
    """A table of `size` slots, a power of two, with an entry for each row that is valid."""
    if size & (size - 1) or size <= len(hashes):
        raise InputError(f"{len(hashes)} entries do not fit a table of {size} slots")
    slots = [0] * size
    for row, hashed in enumerate(hashes.view(np.uint32).tolist()):
        if valid is not None and not valid[row]:
            continue
        place = hashed & (size - 1)
        while slots[place]:
            place = (place + 1) & (size - 1)
        slots[place] = hashed << 32 | (row if entries is None else int(entries[row])) + 1
    return np.array(slots, np.uint64)


def _check_table(table: NDArray[np.uint64]) -> None:
    if len(table) == 0 or len(table) & (len(table) - 1):
        raise InputError(f"a table has {len(table)} slots, not a power of two")


def _entries(table: NDArray[np.uint64], hashed: int) -> list[int]:
    """The entries with a hash, in the order of probing."""
    found: list[int] = []
    place = hashed & (len(table) - 1)
    for _ in range(len(table)):
        slot = int(table[place])
        if slot == 0:
            break
        if slot >> 32 == hashed & _LOW:
            found.append((slot & _LOW) - 1)
        place = (place + 1) & (len(table) - 1)
    return found


def _is_text(code: int) -> bool:
    return code in (STRING, BYTES)


def _value_hash(code: int, value: Value, mix_texts: bool) -> int:
    if isinstance(value, bytes):
        hashed = hashing.bytes_hash_one(value)
        return hashing.hash_int_one(hashed) if mix_texts else hashed
    if code in (LONG, DOUBLE):
        value = (value ^ value >> 32) & _LOW
    return hashing.hash_int_one(value)


def _hash(codes: tuple[int, ...], values: tuple[Value, ...], mix_texts: bool) -> int:
    hashed = 0
    for code, value in zip(codes, values, strict=True):
        hashed ^= _value_hash(code, value, mix_texts)
    return hashed & _LOW


def _canonical(code: int, bits: int) -> int:
    if code == FLOAT:
        return 0x7FC0_0000 if bits & 0x7FFF_FFFF > 0x7F80_0000 else bits
    return 0x7FF8_0000_0000_0000 if bits & 2**63 - 1 > 0x7FF0_0000_0000_0000 else bits


def _load(code: int, value: object) -> Value | None:
    """A Python value as it is compared; None if no record can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return None
    if code == BOOLEAN and isinstance(value, bool):
        return int(value)
    if isinstance(value, bool):
        raise _wrong_type(value, code)
    if code in (INT, LONG, REFERENCE) and isinstance(value, int):
        smallest = -(1 << (63 if code == LONG else 31))
        if not smallest < value < -smallest or (code == REFERENCE and value < 0):
            return None
        return value & 2**64 - 1
    if code in (FLOAT, DOUBLE) and isinstance(value, int | float):
        try:
            packed = struct.pack("<f" if code == FLOAT else "<d", value)
        except OverflowError:
            return None
        return _canonical(code, int.from_bytes(packed, "little"))
    if code == STRING and isinstance(value, str):
        return encode_text(value)
    if code == BYTES and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise _wrong_type(value, code)


def _wrong_type(value: object, code: int) -> InputError:
    return InputError(f"{type(value).__name__} given for a key field of type {_NAMES[code]}", "KeyType")


def _check_columns(columns: tuple[Column, ...], codes: tuple[int, ...], rows: int) -> None:
    for (numbers, data), code in zip(columns, codes, strict=True):
        if (data is not None) != _is_text(code):
            raise InputError("a column of texts has offsets and bytes, one of numbers has no bytes")
        if data is None and len(numbers) < rows:
            raise InputError(f"{rows} rows of a column of {len(numbers)}")
        if data is not None and (len(numbers) < rows + 1 or numbers[0] < 0 or numbers[rows] > len(data)):
            raise InputError("the offsets of a column do not fit its bytes")


def _row(columns: tuple[Column, ...], row: int) -> tuple[Value, ...]:
    values: list[Value] = []
    for numbers, data in columns:
        if data is None:
            values.append(int(numbers[row]) & 2**64 - 1)
        else:
            values.append(data[numbers[row] : numbers[row + 1]].tobytes())
    return tuple(values)


def number_table(
    state: Any, number: int, position: int, words: NDArray[np.uint64], size: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64], bool]:
    """The table of a key that is one whole number of the record itself, its nulls, and whether it is exact."""
    if not 0 <= number < len(state.types) or state.types[number].kind != OBJECT:
        raise InputError("keys are those of an OBJECT type")
    spec = state.types[number]
    if not 0 <= position < len(spec.field_codes) or spec.field_codes[position] not in _WHOLE:
        raise InputError("the key is one whole number")
    if len(words) * 64 >= spec.max_ordinal + 1 + 64:
        raise InputError("there are bits behind the last record")
    ordinals = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).astype(np.int64)
    if size & (size - 1) or size <= len(ordinals):
        raise InputError(f"the records do not fit a table of {size} slots")
    code = spec.field_codes[position]
    path = KeyPath((position,), code)
    values = [_value_at(state, number, ordinal, path) for ordinal in ordinals.tolist()]
    hashes = [0 if value is None else _value_hash(code, value, False) for value in values]
    valid = np.array([value is not None for value in values], np.bool_)
    exact = code != LONG or all(value is None or int(value) >> 32 == 0 for value in values)
    return fill_table(np.array(hashes, np.int32), ordinals, valid, size), ordinals[~valid], exact


class KeyFinder:
    """Records of one type by key."""

    def __init__(
        self,
        state: Any,
        number: int,
        paths: tuple[KeyPath, ...],
        tables: tuple[Table, ...],
    ) -> None:
        if not 0 <= number < len(state.types) or state.types[number].kind != OBJECT:
            raise InputError("keys are those of an OBJECT type")
        if not 0 < len(paths) <= _MOST_PARTS:
            raise InputError(f"a key has 1 to {_MOST_PARTS} parts, not {len(paths)}")
        for path in paths:
            _check_path(state, number, path)
        for slots, _, exact in tables:
            _check_table(slots)
            if exact and (len(paths) != 1 or paths[0].code not in _WHOLE):
                raise InputError("a table is exact for one whole number only")
        self._made_parts = (state, number, paths, tables)

    def _prepare(self) -> None:
        """Call `KeyFinder.__init__`: the first look-up asks for it where that has not been done yet."""
        raise TypeError("this index was not built")

    @property
    def _key_parts(self) -> Any:
        if not hasattr(self, "_made_parts"):
            self._prepare()
        return self._made_parts

    def _finder(self) -> Any:
        """What another finder of the same keys is made of."""
        return self._key_parts

    def _search(self, values: tuple[Value, ...]) -> int:
        return min(self._matches(values, first=True), default=-1)

    def _matches(self, values: tuple[Value, ...], *, first: bool) -> list[int]:
        """The ordinals with a key; the first of each table, or all."""
        state, number, paths, tables = self._key_parts
        hashed = _hash(tuple(path.code for path in paths), values, False)
        found: list[int] = []
        for slots, stale, _ in tables:
            for ordinal in _entries(slots, hashed):
                if not 0 <= ordinal <= state.types[number].max_ordinal or (stale is not None and _has(stale, ordinal)):
                    continue
                if self._values_at(ordinal) == values:
                    found.append(ordinal)
                    if first:
                        break
        return found

    def _values_at(self, ordinal: int) -> tuple[Value, ...] | None:
        state, number, paths, _ = self._key_parts
        values = [_value_at(state, number, ordinal, path) for path in paths]
        return None if None in values else tuple(value for value in values if value is not None)

    def ordinal(self, key: object) -> int:
        """The ordinal of the record with a key, or -1."""
        values = self._load(key)
        return -1 if values is None else self._search(values)

    def ordinals(self, key: object) -> list[int]:
        """The ordinals of all records with a key, rising: more than one where the key is no key."""
        values = self._load(key)
        return [] if values is None else sorted(self._matches(values, first=False))

    def _load(self, key: object) -> tuple[Value, ...] | None:
        paths = self._key_parts[2]
        parts: Any = key
        if len(paths) == 1:
            parts = key if isinstance(key, tuple) and len(key) == 1 else (key,)
        elif not isinstance(key, tuple | list) or len(key) != len(paths):
            raise InputError(f"a key is a tuple of {len(paths)} values, not {key!r}", "KeyType")
        values: list[Value] = []
        for path, part in zip(paths, parts, strict=True):
            value = _load(path.code, part)
            if value is None:
                return None
            values.append(value)
        return tuple(values)

    def __getitem__(self, key: object) -> Any:
        ordinal = self.ordinal(key)
        state, number = self._key_parts[:2]
        if ordinal < 0:
            raise MissingKeyError(state.types[number].name, key)
        return state.record(number, ordinal)

    def get(self, key: object, default: Any = None) -> Any:
        """The record with a key, or `default`."""
        ordinal = self.ordinal(key)
        return default if ordinal < 0 else self._key_parts[0].record(self._key_parts[1], ordinal)

    def __contains__(self, key: object) -> bool:
        return self.ordinal(key) >= 0

    def find_columns(
        self, columns: tuple[Column, ...], valid: NDArray[np.bool_] | None, count: int
    ) -> NDArray[np.int64]:
        """For each row the ordinal of the record with that key, or -1: where none has it, or the row is not valid."""
        paths = self._key_parts[2]
        if len(columns) != len(paths):
            raise InputError(f"a key has {len(paths)} parts, {len(columns)} columns given")
        _check_columns(columns, tuple(path.code for path in paths), count)
        found = [
            -1 if valid is not None and not valid[row] else self._search(_row(columns, row)) for row in range(count)
        ]
        return np.array(found, np.int64)

    def first_of(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each record the smallest ordinal with its key; -1 where the key has a null."""
        limit = self._key_parts[0].types[self._key_parts[1]].max_ordinal
        found: list[int] = []
        for ordinal in ordinals.tolist():
            values = self._values_at(ordinal) if 0 <= ordinal <= limit else None
            found.append(-1 if values is None else self._search(values))
        return np.array(found, np.int64)


def _check_path(state: Any, number: int, path: KeyPath) -> None:
    if not path.positions:
        raise InputError("a key has no empty path")
    for step, position in enumerate(path.positions):
        spec = state.types[number] if number >= 0 else None
        if spec is None or spec.kind != OBJECT or not 0 <= position < len(spec.field_codes):
            raise InputError("a path of the key leads nowhere")
        last = step == len(path.positions) - 1
        if spec.field_codes[position] != (path.code if last else REFERENCE):
            raise InputError("a path of the key ends on a field of another type")
        number = spec.links[position]


def _value_at(state: Any, number: int, ordinal: int, path: KeyPath) -> Value | None:
    for position in path.positions[:-1]:
        ordinal = state.pointer(number, ordinal, position)
        number = state.types[number].links[position]
        if ordinal < 0 or number < 0 or ordinal > state.types[number].max_ordinal:
            return None
    if path.code == REFERENCE:
        target = state.pointer(number, ordinal, path.positions[-1])
        return None if target < 0 else int(target)
    value = state.scalar(number, ordinal, path.positions[-1])
    if value is None:
        return None
    if path.code in (FLOAT, DOUBLE):
        return _canonical(path.code, value)
    return _load(path.code, value)


def _has(words: NDArray[np.uint64], ordinal: int) -> bool:
    return ordinal >> 6 < len(words) and bool(int(words[ordinal >> 6]) >> (ordinal & 63) & 1)


def group_rows(
    hashes: NDArray[np.int32], columns: tuple[Column, ...], codes: tuple[int, ...]
) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int64]]:
    """Rows with equal values: a table of groups, the group of each row, and the first row of each group."""
    _check_columns(columns, codes, len(hashes))
    numbers: dict[tuple[Value, ...], int] = {}
    firsts: list[int] = []
    groups = np.empty(len(hashes), np.int32)
    for row in range(len(hashes)):
        values = _row(columns, row)
        group = numbers.setdefault(values, len(numbers))
        if group == len(firsts):
            firsts.append(row)
        groups[row] = group
    size = 1024
    while len(firsts) * 10 > size * 7:
        size *= 2
    first_rows = np.array(firsts, np.int64)
    return fill_table(hashes[first_rows], None, None, size), groups, first_rows


def group_members(
    groups: NDArray[np.int32],
    group_count: int,
    roots: NDArray[np.int32],
    selected: NDArray[np.int32] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32] | None]:
    """The rows of each group: offsets, what they select, and their roots (None where the roots are selected)."""
    chosen = roots if selected is None else selected
    order = np.argsort(groups, kind="stable")
    keep = np.ones(len(order), np.bool_)
    if len(order):
        same = (groups[order][1:] == groups[order][:-1]) & (roots[order][1:] == roots[order][:-1])
        keep[1:] = ~(same & (chosen[order][1:] == chosen[order][:-1]))
    order = order[keep]
    offsets = np.zeros(group_count + 1, np.int64)
    np.cumsum(np.bincount(groups[order], minlength=group_count), out=offsets[1:])
    return offsets, chosen[order], None if selected is None else roots[order]


class GroupFinder:
    """Groups of records by the values that they share."""

    def __init__(
        self,
        table: NDArray[np.uint64],
        columns: tuple[Column, ...],
        codes: tuple[int, ...],
        offsets: NDArray[np.int64],
        members: NDArray[np.int32],
    ) -> None:
        _check_table(table)
        count = len(offsets) - 1
        if count < 0 or offsets[0] < 0 or offsets[count] > len(members):
            raise InputError("the offsets of groups do not fit their members")
        if not 0 < len(columns) <= _MOST_PARTS or len(columns) != len(codes):
            raise InputError(f"an index has 1 to {_MOST_PARTS} paths, not {len(columns)}")
        _check_columns(columns, codes, count)
        self._table, self._columns, self._codes, self._count = table, columns, codes, count
        self._offsets, self._members = offsets, members

    def _search(self, values: tuple[Value, ...]) -> int:
        for group in _entries(self._table, _hash(self._codes, values, True)):
            if 0 <= group < self._count and _row(self._columns, group) == values:
                return group
        return -1

    def members(self, values: tuple[object, ...]) -> NDArray[np.int64]:
        """The members of the group with these values, in order; none if there is no such group."""
        group = self.find(values)
        if group < 0:
            return np.zeros(0, np.int64)
        return self._members[self._offsets[group] : self._offsets[group + 1]].astype(np.int64)

    def find(self, values: tuple[object, ...]) -> int:
        """The group with these values, or -1."""
        if len(values) != len(self._codes):
            raise InputError(f"this index matches {len(self._codes)} values, {len(values)} given", "KeyType")
        loaded: list[Value] = []
        for code, part in zip(self._codes, values, strict=True):
            value = _load(code, part)
            if value is None:
                return -1
            loaded.append(value)
        return self._search(tuple(loaded))

    def find_columns(
        self, columns: tuple[Column, ...], valid: NDArray[np.bool_] | None, count: int
    ) -> NDArray[np.int64]:
        """For each row of values the group that has them, or -1."""
        if len(columns) != len(self._codes):
            raise InputError(f"this index matches {len(self._codes)} values, {len(columns)} columns given")
        _check_columns(columns, self._codes, count)
        found = [
            -1 if valid is not None and not valid[row] else self._search(_row(columns, row)) for row in range(count)
        ]
        return np.array(found, np.int64)


def collect(
    groups: NDArray[np.int64],
    offsets: NDArray[np.int64],
    members: NDArray[np.int32],
    owners: NDArray[np.int32] | None,
    stale: NDArray[np.uint64] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The members of each asked-for group, one behind the other: offsets and members. A group of -1 has none."""
    there = groups >= 0
    starts = np.where(there, offsets[groups * there], 0)
    sizes = np.where(there, offsets[groups * there + there], 0) - starts
    ends = np.zeros(len(groups) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    places = np.arange(ends[-1], dtype=np.int64) + np.repeat(starts - ends[:-1], sizes)
    found = members[places].astype(np.int64)
    if stale is not None and len(stale):
        owner = found if owners is None else owners[places].astype(np.int64)
        inside = owner >> 6 < len(stale)
        word = stale[np.where(inside, owner >> 6, 0)]
        live = ~(inside & (word >> (owner & 63).astype(np.uint64) & np.uint64(1)).astype(np.bool_))
        kept = np.zeros(len(found) + 1, np.int64)
        np.cumsum(live, out=kept[1:])
        return kept[ends], found[live]
    return ends, found


def points_into(
    state: Any, number: int, position: int, parents: NDArray[np.uint64], touched: NDArray[np.uint64]
) -> bool:
    """True if one of the records `parents` refers to one of `touched`, both given as the bits of sets."""
    if not 0 <= number < len(state.types):
        raise InputError(f"there is no type number {number}")
    spec = state.types[number]
    if not 0 <= position < (len(spec.field_codes) if spec.kind == OBJECT else 2):
        raise InputError(f"type {spec.name} has no reference {position}")
    ordinals = np.flatnonzero(np.unpackbits(parents.view(np.uint8), bitorder="little"))
    for ordinal in ordinals[ordinals <= spec.max_ordinal].tolist():
        if spec.kind == OBJECT:
            targets = [state.pointer(number, ordinal, position)]
        elif spec.kind == LIST or position == 0:
            is_map = len(spec.links) == 2
            targets = [
                entry[0] if is_map else entry
                for entry in (state.entries(number, ordinal) if is_map else state.elements(number, ordinal))
            ]
        else:
            targets = [entry[1] for entry in state.entries(number, ordinal)]
        if any(target >= 0 and _has(touched, target) for target in targets):
            return True
    return False


def encode_texts(texts: list[Any]) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.bool_] | None]:
    """The character data of many str: offsets, bytes, and a mask of those that are not None, or None."""
    for value in texts:
        if value is not None and not isinstance(value, str):
            raise _wrong_type(value, STRING)
    encoded = [b"" if value is None else encode_text(value) for value in texts]
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(data) for data in encoded], out=offsets[1:])
    valid = np.array([value is not None for value in texts], np.bool_)
    return offsets, np.frombuffer(b"".join(encoded), np.uint8), None if valid.all() else valid


def lower_ascii(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The bytes with A to Z in lower case."""
    return np.where((data >= 65) & (data <= 90), data + np.uint8(32), data)


def sort_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The rows of texts in the order of their bytes; equal texts in the order of their rows."""
    pieces = _pieces(offsets, data)
    return np.array(sorted(range(len(pieces)), key=pieces.__getitem__), np.int64)


def text_place(offsets: NDArray[np.int64], data: NDArray[np.uint8], wanted: bytes, behind: int) -> int:
    """Where a text goes among sorted ones: before those equal to it (0), behind them (1), behind all it starts (2)."""
    low, high = 0, len(offsets) - 1
    while low < high:
        middle = (low + high) >> 1
        piece = data[offsets[middle] : offsets[middle + 1]].tobytes()
        if behind == 2:
            piece = piece[: len(wanted)]
        if piece < wanted or (behind and piece == wanted):
            low = middle + 1
        else:
            high = middle
    return low


def split_texts(
    offsets: NDArray[np.int64], data: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The words of texts in UTF-8, as `str.split` has them: the row of each, where it starts and where it ends."""
    words: list[tuple[int, int, int]] = []
    for row, piece in enumerate(_pieces(offsets, data)):
        at = int(offsets[row])
        text = piece.decode("utf-8", "surrogatepass")
        for word in text.split():
            skipped = text.index(word)
            at += len(text[:skipped].encode("utf-8", "surrogatepass"))
            size = len(word.encode("utf-8", "surrogatepass"))
            words.append((row, at, at + size))
            at += size
            text = text[skipped + len(word) :]
    rows, starts, ends = np.array(words, np.int64).reshape(-1, 3).T
    return rows.copy(), starts.copy(), ends.copy()


def _pieces(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> list[bytes]:
    whole = data.tobytes()
    return [whole[start:end] for start, end in pairwise(offsets.tolist())]
