"""Blocks of field references as columns. Twin: `plain/references.py`, which says what each function does.

`scan_references` and `decode_numbers` check as they go: where one reference ends only its own bytes tell. The others
trust what they are given.
"""

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, qsort, realloc
from libc.string cimport memcpy

cdef enum:
    MOST_KEY_BYTES = 65535
    FEW = 16


cdef struct Scratch:
    uint64_t *values
    int64_t room


cdef int by_value(const void *one, const void *other) noexcept nogil:
    cdef uint64_t a = (<const uint64_t *> one)[0]
    cdef uint64_t b = (<const uint64_t *> other)[0]
    return (a > b) - (a < b)


# The offset behind the number, or -1 if it is cut off or spelled too long.
cdef inline int64_t read_number(const uint8_t *data, int64_t at, int64_t end, uint32_t *value) noexcept nogil:
    cdef uint32_t number
    if at >= end:
        return -1
    number = data[at]
    if number < 0x80:
        value[0] = number
        return at + 1
    if number < 0xC0:
        if at + 2 > end:
            return -1
        number = ((number & 0x3F) << 8) | data[at + 1]
        value[0] = number
        return at + 2 if number >= 128 else -1
    if at + 3 > end:
        return -1
    number = ((number & 0x3F) << 16) | (<uint32_t> data[at + 1] << 8) | data[at + 2]
    value[0] = number
    return at + 3 if number >= 16384 else -1


# A number of a reference that was scanned.
cdef inline int64_t take_number(const uint8_t *data, int64_t at, uint32_t *value) noexcept nogil:
    cdef uint32_t number = data[at]
    if number < 0x80:
        value[0] = number
        return at + 1
    if number < 0xC0:
        value[0] = ((number & 0x3F) << 8) | data[at + 1]
        return at + 2
    value[0] = ((number & 0x3F) << 16) | (<uint32_t> data[at + 1] << 8) | data[at + 2]
    return at + 3


cdef inline int64_t put_number(uint8_t *out, int64_t at, uint32_t value) noexcept nogil:
    if value < 128:
        out[at] = <uint8_t> value
        return at + 1
    if value < 16384:
        out[at] = <uint8_t> (0x80 | (value >> 8))
        out[at + 1] = <uint8_t> value
        return at + 2
    out[at] = <uint8_t> (0xC0 | (value >> 16))
    out[at + 1] = <uint8_t> (value >> 8)
    out[at + 2] = <uint8_t> value
    return at + 3


cdef bint is_utf8(const uint8_t *data, int64_t at, int64_t end) noexcept nogil:
    cdef uint8_t byte, second
    cdef int more
    while at < end:
        byte = data[at]
        at += 1
        if byte < 0x80:
            continue
        if byte < 0xC2 or byte > 0xF4:
            return False
        more = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
        if at + more > end:
            return False
        second = data[at]
        if second & 0xC0 != 0x80:
            return False
        # No overlong spelling, no surrogate, nothing above U+10FFFF.
        if (byte == 0xE0 and second < 0xA0) or (byte == 0xED and second > 0x9F):
            return False
        if (byte == 0xF0 and second < 0x90) or (byte == 0xF4 and second > 0x8F):
            return False
        if more > 1 and data[at + 1] & 0xC0 != 0x80:
            return False
        if more > 2 and data[at + 2] & 0xC0 != 0x80:
            return False
        at += more
    return True


# Numbers are shifted so that sorting by value sorts by start; for indices the lower half is the element again.
cdef bint apart(Scratch *scratch, int64_t count) noexcept nogil:
    cdef int64_t i, k
    cdef uint64_t one, other
    if count <= FEW:
        for i in range(1, count):
            one = scratch.values[i]
            for k in range(i):
                other = scratch.values[k]
                if (one >> 32) < <uint32_t> other and (other >> 32) < <uint32_t> one:
                    return False
        return True
    qsort(scratch.values, <size_t> count, sizeof(uint64_t), by_value)
    for i in range(1, count):
        if (scratch.values[i] >> 32) < <uint32_t> scratch.values[i - 1]:
            return False
    return True


# 1 if the value is what its type says, 0 if not, -1 if memory ran out.
cdef int sound_list(const uint8_t *data, int64_t at, int64_t end, bint ranges, Scratch *scratch) noexcept nogil:
    cdef uint32_t count, low, high
    cdef int64_t i
    cdef uint64_t *grown
    at = read_number(data, at, end, &count)
    # A number takes a byte at least: a count that cannot be is refused before memory is taken for it.
    if at < 0 or count == 0 or <int64_t> count * (2 if ranges else 1) > end - at:
        return 0
    if count > scratch.room:
        grown = <uint64_t *> realloc(scratch.values, count * sizeof(uint64_t))
        if grown == NULL:
            return -1
        scratch.values = grown
        scratch.room = count
    for i in range(count):
        at = read_number(data, at, end, &low)
        if at < 0:
            return 0
        high = low + 1
        if ranges:
            at = read_number(data, at, end, &high)
            if at < 0 or low >= high:
                return 0
        scratch.values[i] = (<uint64_t> low << 32) | high
    return at == end and apart(scratch, count)


cdef int sound(const uint8_t *data, int code, int64_t at, int64_t end, Scratch *scratch) noexcept nogil:
    cdef uint32_t low, high
    if code <= 2:
        return read_number(data, at, end, &low) == end
    if code == 3:
        at = read_number(data, at, end, &low)
        return at >= 0 and read_number(data, at, end, &high) == end and low < high
    if code <= 5:
        return sound_list(data, at, end, code == 5, scratch)
    if code == 6:
        return end - at <= MOST_KEY_BYTES and is_utf8(data, at, end)
    return 1


# The offset behind the reference, -1 if it is damaged, -2 if memory ran out.
cdef int64_t scan_one(const uint8_t *data, int64_t at, int64_t size, Scratch *scratch, int *found) noexcept nogil:
    cdef uint32_t number
    cdef int count, i, code, good
    cdef bint selected = False, misplaced = False
    at = read_number(data, at, size, &number)
    if at < 0 or at >= size:
        return -1
    count = data[at]
    at += 1
    found[0] = count
    for i in range(count):
        if at >= size:
            return -1
        code = data[at]
        if code == 0:
            return -1
        at = read_number(data, at + 1, size, &number)
        if at < 0 or number > size - at:
            return -1
        good = sound(data, code, at, at + number, scratch)
        if good <= 0:
            return -1 if good == 0 else -2
        at += number
        if code == 1:
            misplaced = misplaced or selected
        elif code <= 6:
            selected = True
    return -1 if misplaced else at


def scan_references(const uint8_t[::1] data, int64_t start, int64_t count):
    cdef int64_t size = data.shape[0], at = start, done = 0, parameters = 0, after = 0
    cdef int found = 0
    cdef Scratch scratch
    cdef const uint8_t *bytes_ = &data[0] if size else NULL
    scratch.values = NULL
    scratch.room = 0
    with nogil:
        while done < count:
            # The usual case: a number of one byte and no parameter.
            if at + 2 <= size and bytes_[at] < 0x80 and bytes_[at + 1] == 0:
                at += 2
                done += 1
                continue
            after = scan_one(bytes_, at, size, &scratch, &found)
            if after < 0:
                break
            at = after
            parameters += found
            done += 1
        free(scratch.values)
    if after == -2:
        raise MemoryError
    return done, at, parameters


def fill_references(const uint8_t[::1] data, int64_t start, uint32_t[::1] indexes, int64_t[::1] offsets,
                    uint8_t[::1] types, int64_t[::1] starts, int64_t[::1] ends, int64_t[::1] bounds):
    cdef int64_t count = indexes.shape[0], at = start, row, next_parameter = 0
    cdef uint32_t number
    cdef int i, parameters
    cdef const uint8_t *bytes_ = &data[0] if data.shape[0] else NULL
    with nogil:
        for row in range(count):
            bounds[row] = at
            offsets[row] = next_parameter
            at = take_number(bytes_, at, &indexes[row])
            parameters = bytes_[at]
            at += 1
            for i in range(parameters):
                types[next_parameter] = bytes_[at]
                at = take_number(bytes_, at + 1, &number)
                starts[next_parameter] = at
                at += number
                ends[next_parameter] = at
                next_parameter += 1
        bounds[count] = at
        offsets[count] = next_parameter


def write_references(const uint32_t[::1] indexes, const int64_t[::1] offsets, const uint8_t[::1] types,
                     const int64_t[::1] starts, const int64_t[::1] ends, const uint8_t[::1] data, uint8_t[::1] out):
    cdef int64_t count = indexes.shape[0], at = 0, row, parameter, length
    cdef const uint8_t *source = &data[0] if data.shape[0] else NULL
    cdef uint8_t *target = &out[0] if out.shape[0] else NULL
    with nogil:
        for row in range(count):
            at = put_number(target, at, indexes[row])
            target[at] = <uint8_t> (offsets[row + 1] - offsets[row])
            at += 1
            for parameter in range(offsets[row], offsets[row + 1]):
                target[at] = types[parameter]
                length = ends[parameter] - starts[parameter]
                at = put_number(target, at + 1, <uint32_t> length)
                if length:
                    memcpy(target + at, source + starts[parameter], <size_t> length)
                    at += length


def parameter_numbers(const uint8_t[::1] data, const uint8_t[::1] types, const int64_t[::1] starts):
    cdef int64_t count = types.shape[0], i, at
    cdef uint32_t number
    first = np.full(count, -1, np.int64)
    second = np.full(count, -1, np.int64)
    cdef int64_t[::1] low = first, high = second
    cdef const uint8_t *bytes_ = &data[0] if data.shape[0] else NULL
    with nogil:
        for i in range(count):
            if 1 <= types[i] <= 3:
                at = take_number(bytes_, starts[i], &number)
                low[i] = number
                if types[i] == 3:
                    take_number(bytes_, at, &number)
                    high[i] = number
    return first, second


def encode_numbers(const uint32_t[::1] values):
    cdef int64_t count = values.shape[0], at = 0, i
    offsets = np.empty(count + 1, np.int64)
    cdef int64_t[::1] where = offsets
    cdef uint8_t[::1] room
    with nogil:
        for i in range(count):
            where[i] = at
            at += 1 if values[i] < 128 else 2 if values[i] < 16384 else 3
        where[count] = at
    data = np.empty(at, np.uint8)
    room = data
    cdef uint8_t *target = &room[0] if at else NULL
    with nogil:
        for i in range(count):
            put_number(target, where[i], values[i])
    return offsets, data


def decode_numbers(const uint8_t[::1] data, int64_t start, uint32_t[::1] values):
    cdef int64_t count = values.shape[0], size = data.shape[0], at = start, done = 0, after
    cdef const uint8_t *bytes_ = &data[0] if size else NULL
    with nogil:
        while done < count:
            after = read_number(bytes_, at, size, &values[done])
            if after < 0:
                break
            at = after
            done += 1
    return done, at
