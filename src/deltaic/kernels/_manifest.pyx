# cython: language_level=3
"""The records of a manifest as columns. Twin: `plain/manifest.py`, which also describes the program.

This kernel does check as it goes: the bytes are of a file, and where one record ends only its own lengths tell.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

cdef extern from "Python.h":
    # Without an exception for overflow it gives infinity, as float() does.
    double PyOS_string_to_double(const char *text, char **end, void *overflow) except? -1.0

import numpy as np

TEXT, LONG, BOOLEAN, MAP, TEXTS = range(5)
NULL_FIRST, NULL_SECOND = 8, 16
PREFIX, LESS, EQUAL, GREATER, UNSURE, MISSING = -2, -1, 0, 1, 2, 3

cdef enum:
    FAULT_NONE = 0
    FAULT_VARINT = 1
    FAULT_TRUNCATED = 2
    FAULT_UNION = 3
    FAULT_LENGTH = 4
    FAULT_BOOLEAN = 5
    FAULT_MEMORY = 6

_FAULTS = ("", "BadVarint", "Truncated", "BadUnion", "BadLength", "BadBoolean", "Memory")


cdef struct Cursor:
    const uint8_t *data
    int64_t size
    int64_t position
    int fault


cdef struct Grown:
    int64_t *values
    int64_t size
    int64_t room


cdef inline int64_t read_long(Cursor *cursor) noexcept nogil:
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef int64_t position = cursor.position
    cdef uint8_t byte
    while shift < 70 and position < cursor.size:
        byte = cursor.data[position]
        position += 1
        if shift == 63 and byte > 1:
            break
        value |= (<uint64_t> (byte & 0x7F)) << shift
        if byte < 0x80:
            cursor.position = position
            return <int64_t> ((value >> 1) ^ (0 - (value & 1)))
        shift += 7
    cursor.fault = FAULT_VARINT
    return 0


cdef inline int64_t read_text(Cursor *cursor, int64_t *start) noexcept nogil:
    cdef int64_t length = read_long(cursor)
    if cursor.fault:
        return -1
    if length < 0 or length > cursor.size - cursor.position:
        cursor.fault = FAULT_TRUNCATED
        return -1
    start[0] = cursor.position
    cursor.position += length
    return length


cdef inline int64_t read_block(Cursor *cursor, int64_t least_bytes) noexcept nogil:
    cdef int64_t count = read_long(cursor)
    if cursor.fault:
        return 0
    if count < 0:
        read_long(cursor)
        if cursor.fault:
            return 0
        # The smallest number has no positive twin; nothing of that size fits in any case.
        count = INT64_MAX if count == INT64_MIN else -count
    if count > (cursor.size - cursor.position) // least_bytes:
        cursor.fault = FAULT_LENGTH
        return 0
    return count


cdef inline int push(Grown *grown, int64_t value) noexcept nogil:
    cdef int64_t room
    cdef int64_t *values
    if grown.size == grown.room:
        room = grown.room * 2 if grown.room else 1024
        values = <int64_t *> realloc(grown.values, room * sizeof(int64_t))
        if values == NULL:
            return 0
        grown.values = values
        grown.room = room
    grown.values[grown.size] = value
    grown.size += 1
    return 1


cdef struct Field:
    # Where a field's numbers go: allocated for all records at once, because their number is known.
    int64_t *values
    int64_t *lengths
    uint8_t *valid
    uint8_t *flags


cdef class _Items:
    """The items of a column of maps or lists while they grow."""

    cdef Grown starts, lengths, ids, key_starts, key_lengths
    cdef int64_t previous_start
    cdef list keys
    cdef dict key_ids
    cdef bytes data

    def __cinit__(self, bytes data):
        self.data = data
        self.keys = []
        self.key_ids = {}

    def __dealloc__(self):
        free(self.starts.values)
        free(self.lengths.values)
        free(self.ids.values)
        free(self.key_starts.values)
        free(self.key_lengths.values)

    cdef int64_t key_id(self, int64_t start, int64_t length, int64_t guess) except -2:
        """The number of a map's key. Maps of one file mostly have the same keys in the same order: the guess."""
        cdef const uint8_t *data = self.data
        cdef int64_t known = self.key_starts.size
        if 0 <= guess < known and self.key_lengths.values[guess] == length and memcmp(
            data + self.key_starts.values[guess], data + start, length
        ) == 0:
            return guess
        key = self.data[start:start + length]
        found = self.key_ids.get(key)
        if found is not None:
            return found
        if not push(&self.key_starts, start) or not push(&self.key_lengths, length):
            raise MemoryError
        self.key_ids[key] = known
        self.keys.append(key)
        return known

    cdef int read(self, Cursor *cursor, bint named) except -1:
        """The items of one map or list."""
        cdef int64_t first = self.starts.size, before = self.previous_start, items, item, start = 0, length, guess
        self.previous_start = first
        while True:
            items = read_block(cursor, 2 if named else 1)
            if cursor.fault or items == 0:
                return 0
            for item in range(items):
                if named:
                    length = read_text(cursor, &start)
                    if cursor.fault:
                        return 0
                    guess = before + self.starts.size - first
                    guess = self.ids.values[guess] if guess < self.ids.size else -1
                    if not push(&self.ids, self.key_id(start, length, guess)):
                        raise MemoryError
                length = read_text(cursor, &start)
                if cursor.fault:
                    return 0
                if not push(&self.starts, start) or not push(&self.lengths, length):
                    raise MemoryError


cdef object taken(Grown *grown, object dtype):
    cdef int64_t[::1] view
    made = np.empty(grown.size, np.int64)
    if grown.size:
        view = made
        memcpy(&view[0], grown.values, grown.size * sizeof(int64_t))
    return made if dtype is np.int64 else made.astype(dtype)


cdef int64_t *longs_of(object array):
    cdef int64_t[::1] view = array
    return &view[0] if view.shape[0] else NULL


cdef uint8_t *bytes_of(object array):
    cdef uint8_t[::1] view = array
    return &view[0] if view.shape[0] else NULL


cdef list allocated(int64_t count, bytes program, Field *fields):
    """The arrays of every field whose size is known before, and where they lie."""
    cdef int field
    arrays = []
    for field in range(len(program)):
        kind = program[field] & 7
        if kind == 0:
            made = (np.empty(count, np.int64), np.empty(count, np.int64))
            fields[field].values, fields[field].lengths = longs_of(made[0]), longs_of(made[1])
        elif kind == 1:
            made = (np.empty(count, np.int64), np.empty(count, np.uint8))
            fields[field].values, fields[field].valid = longs_of(made[0]), bytes_of(made[1])
        elif kind == 2:
            made = (np.empty(count, np.uint8), np.empty(count, np.uint8))
            fields[field].flags, fields[field].valid = bytes_of(made[0]), bytes_of(made[1])
        else:
            made = (np.zeros(count + 1, np.int64), np.empty(count, np.uint8))
            fields[field].values, fields[field].valid = longs_of(made[0]), bytes_of(made[1])
        arrays.append(made)
    return arrays


cdef tuple arrays_of(tuple made, _Items items, int kind):
    if kind < 3:
        return made
    starts, lengths = taken(&items.starts, np.int64), taken(&items.lengths, np.int64)
    if kind == 4:
        return made[0], starts, lengths, made[1]
    return made[0], taken(&items.ids, np.int32), starts, lengths, made[1], items.keys


def decode_entries(bytes data, int64_t count, bytes program):
    """Where each record starts (and the last ends), and a tuple of arrays for each field."""
    cdef Cursor cursor
    cdef int64_t row, length, start, value
    cdef int field, fields = len(program), kind
    cdef bint null
    cdef const uint8_t *shape = program
    cdef Field *places
    cdef list items = [_Items(data) if kind & 7 > 2 else None for kind in program]
    cursor.data = data
    cursor.size = len(data)
    cursor.position = 0
    cursor.fault = FAULT_NONE
    # A field takes at least a byte, so that a stated count cannot ask for more memory than the bytes allow.
    if count < 0 or count > cursor.size or count * fields > cursor.size:
        raise ValueError("BadLength", 0)
    row_starts = np.zeros(count + 1, np.int64)
    cdef int64_t[::1] starts = row_starts
    places = <Field *> calloc(fields + 1, sizeof(Field))
    if places == NULL:
        raise MemoryError
    try:
        arrays = allocated(count, program, places)
        for row in range(count):
            for field in range(fields):
                kind = shape[field]
                null = False
                if kind & 24:
                    value = read_long(&cursor)
                    if cursor.fault:
                        break
                    if value != 0 and value != 1:
                        cursor.fault = FAULT_UNION
                        break
                    null = (value == 0) == ((kind & 8) != 0)
                kind = kind & 7
                if kind == 0:
                    start = 0
                    length = -1 if null else read_text(&cursor, &start)
                    places[field].values[row] = start
                    places[field].lengths[row] = length
                elif kind == 1:
                    places[field].values[row] = 0 if null else read_long(&cursor)
                    places[field].valid[row] = not null
                elif kind == 2:
                    value = 0
                    if not null:
                        if cursor.position >= cursor.size:
                            cursor.fault = FAULT_TRUNCATED
                            break
                        value = cursor.data[cursor.position]
                        if value > 1:
                            cursor.fault = FAULT_BOOLEAN
                            break
                        cursor.position += 1
                    places[field].flags[row] = <uint8_t> value
                    places[field].valid[row] = not null
                else:
                    if not null:
                        (<_Items> items[field]).read(&cursor, kind == 3)
                    places[field].values[row + 1] = (<_Items> items[field]).starts.size
                    places[field].valid[row] = not null
                if cursor.fault:
                    break
            if cursor.fault:
                raise ValueError(_FAULTS[cursor.fault], cursor.position)
            starts[row + 1] = cursor.position
    finally:
        free(places)
    if cursor.position != cursor.size:
        raise ValueError("TrailingBytes", cursor.position)
    return row_starts, [arrays_of(arrays[field], items[field], shape[field] & 7) for field in range(fields)]


def number_texts(bytes data, const int64_t[::1] starts, const int64_t[::1] lengths):
    """For each text the number of its kind, in the order they first come, and the row of each kind's first one."""
    cdef int64_t row, count = starts.shape[0], start, length, before_start = 0, before_length = -2, before = -1
    cdef const uint8_t *text = data
    codes = np.empty(count, np.int64)
    cdef int64_t[::1] out = codes
    cdef dict numbers = {}
    cdef list firsts = []
    for row in range(count):
        start = starts[row]
        length = lengths[row]
        # Files of one partition mostly stand side by side.
        if length == before_length and (length <= 0 or memcmp(text + start, text + before_start, length) == 0):
            out[row] = before
            continue
        key = None if length < 0 else data[start:start + length]
        found = numbers.get(key)
        if found is None:
            found = len(firsts)
            numbers[key] = found
            firsts.append(row)
        before_start, before_length, before = start, length, found
        out[row] = before
    return codes, np.array(firsts, np.int64)


def hash_texts(bytes data, const int64_t[::1] starts, const int64_t[::1] lengths):
    """FNV-1a of each text."""
    cdef int64_t row, place, count = starts.shape[0]
    cdef const uint8_t *text = data
    cdef uint64_t value
    found = np.empty(count, np.uint64)
    cdef uint64_t[::1] out = found
    with nogil:
        for row in range(count):
            value = 0xCBF29CE484222325ULL
            for place in range(starts[row], starts[row] + lengths[row]):
                value = (value ^ text[place]) * 0x100000001B3ULL
            out[row] = value
    return found


def compare_texts(bytes data, const int64_t[::1] starts, const int64_t[::1] lengths, bytes needle):
    """How each text sorts beside the needle, by code points and by UTF-16 units at once; UNSURE where they differ."""
    cdef int64_t row, place, shared, count = starts.shape[0], size = len(needle)
    cdef const uint8_t *text = data
    cdef const uint8_t *other = needle
    cdef const uint8_t *ours
    cdef uint8_t a, b
    found = np.empty(count, np.int8)
    cdef int8_t[::1] out = found
    with nogil:
        for row in range(count):
            if lengths[row] < 0:
                out[row] = 3
                continue
            ours = text + starts[row]
            shared = lengths[row] if lengths[row] < size else size
            place = 0
            while place < shared and ours[place] == other[place]:
                place += 1
            if place < shared:
                a = ours[place]
                b = other[place]
                if (a >= 0xF0) != (b >= 0xF0) and a >= 0xEE and b >= 0xEE:
                    out[row] = 2
                else:
                    out[row] = -1 if a < b else 1
            elif lengths[row] == size:
                out[row] = 0
            else:
                out[row] = -2 if lengths[row] < size else 1
    return found


def parse_longs(bytes data, const int64_t[::1] starts, const int64_t[::1] lengths):
    """Each text as a decimal 64-bit integer, and whether it is one."""
    cdef int64_t row, place, end, count = starts.shape[0]
    cdef const uint8_t *text = data
    cdef uint64_t value
    cdef bint negative, good
    values, fine = np.zeros(count, np.int64), np.zeros(count, np.uint8)
    cdef int64_t[::1] out = values
    cdef uint8_t[::1] ok = fine
    with nogil:
        for row in range(count):
            place = starts[row]
            end = place + lengths[row]
            if end <= place:
                continue
            negative = text[place] == 45
            if negative or text[place] == 43:
                place += 1
            # Nineteen digits fit 64 bits without a sign, so the value cannot wrap before it is compared.
            if place == end or end - place > 19:
                continue
            value = 0
            good = True
            while place < end:
                if text[place] < 48 or text[place] > 57:
                    good = False
                    break
                value = value * 10 + (text[place] - 48)
                place += 1
            if not good or value > 0x8000000000000000ULL - (not negative):
                continue
            out[row] = <int64_t> (0 - value if negative else value)
            ok[row] = 1
    return values, fine


def parse_doubles(bytes data, const int64_t[::1] starts, const int64_t[::1] lengths):
    """Each text as a number, and whether it is one; NaN is none."""
    cdef int64_t row, place, length, count = starts.shape[0]
    cdef const char *text = data
    cdef char room[64]
    cdef char *end = NULL
    cdef double value
    cdef bint plain
    values, fine = np.zeros(count, np.float64), np.zeros(count, np.uint8)
    cdef double[::1] out = values
    cdef uint8_t[::1] ok = fine
    for row in range(count):
        length = lengths[row]
        if length < 1 or length > 63:
            continue
        memcpy(room, text + starts[row], length)
        room[length] = 0
        plain = True
        for place in range(length):
            if room[place] <= 32 or room[place] > 126:
                plain = False
        if not plain:
            continue
        try:
            value = PyOS_string_to_double(room, &end, NULL)
        except ValueError:
            continue
        if end == room + length and value == value:
            out[row] = value
            ok[row] = 1
    return values, fine
