"""Records from columns of any width, and orders: what ingest needs beyond the record kernels.

A column of `serialize_rows` is (values, valid, starts, ends, data): numbers in their own width for fixed kinds, else ranges of
bytes; `valid` None means all. Field kinds are numbered as in `deltaic.kernels.plain.records`.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

cdef enum:
    REFERENCE = 0
    INT = 1
    LONG = 2
    BOOLEAN = 3
    FLOAT = 4
    DOUBLE = 5
    STRING = 6
    BYTES = 7

cdef struct Field:
    int kind
    int width
    const uint8_t* values
    const uint8_t* valid
    int wide
    const void* starts
    const void* ends
    const uint8_t* data

_MOST = (5, 5, 10, 1, 4, 8, 5, 5)


cdef inline uint8_t* put_varint(uint8_t* out, uint64_t value) noexcept nogil:
    cdef int shift
    if value < 0x80:
        out[0] = <uint8_t>value
        return out + 1
    if value < 0x4000:
        out[0] = <uint8_t>(0x80 | (value >> 7))
        out[1] = <uint8_t>(value & 0x7F)
        return out + 2
    if value < 0x200000:
        out[0] = <uint8_t>(0x80 | (value >> 14))
        out[1] = <uint8_t>(0x80 | ((value >> 7) & 0x7F))
        out[2] = <uint8_t>(value & 0x7F)
        return out + 3
    shift = 21
    while shift < 63 and value >> (shift + 7):
        shift += 7
    while shift:
        out[0] = <uint8_t>(0x80 | ((value >> shift) & 0x7F))
        out += 1
        shift -= 7
    out[0] = <uint8_t>(value & 0x7F)
    return out + 1


cdef inline uint8_t* put_null(uint8_t* out, int kind) noexcept nogil:
    if kind == FLOAT:
        out[0] = 0x7F
        out[1] = 0xC0
        out[2] = 0
        out[3] = 1
        return out + 4
    if kind == DOUBLE:
        out[0] = 0x7F
        out[1] = 0xF8
        out[2] = out[3] = out[4] = out[5] = out[6] = 0
        out[7] = 1
        return out + 8
    out[0] = 0x80
    return out + 1


cdef extern from *:
    uint32_t __builtin_bswap32(uint32_t value) noexcept nogil
    uint64_t __builtin_bswap64(uint64_t value) noexcept nogil


cdef inline uint8_t* put_field(uint8_t* out, const Field* field, Py_ssize_t row) noexcept nogil:
    cdef int32_t small
    cdef int64_t large, start, end
    cdef uint32_t word
    cdef uint64_t wide
    if field.valid != NULL and not field.valid[row]:
        return put_null(out, field.kind)
    if field.kind == REFERENCE:
        return put_varint(out, <uint32_t>(<const int32_t*>field.values)[row])
    if field.kind == INT:
        small = (<const int32_t*>field.values)[row]
        word = (<uint32_t>small << 1) ^ <uint32_t>(small >> 31)
        # The smallest number is null.
        return put_null(out, INT) if word == 0xFFFFFFFFU else put_varint(out, word)
    if field.kind == LONG:
        large = (<const int64_t*>field.values)[row]
        wide = (<uint64_t>large << 1) ^ <uint64_t>(large >> 63)
        return put_null(out, LONG) if wide == 0xFFFFFFFFFFFFFFFFULL else put_varint(out, wide)
    if field.kind == BOOLEAN:
        out[0] = 1 if field.values[row] else 0
        return out + 1
    if field.kind == FLOAT:
        memcpy(&word, field.values + 4 * row, 4)
        word = __builtin_bswap32(0x7FC00000 if (word & 0x7FFFFFFF) > 0x7F800000 else word)
        memcpy(out, &word, 4)
        return out + 4
    if field.kind == DOUBLE:
        memcpy(&wide, field.values + 8 * row, 8)
        if (wide & 0x7FFFFFFFFFFFFFFFULL) > 0x7FF0000000000000ULL:
            wide = 0x7FF8000000000000ULL
        wide = __builtin_bswap64(wide)
        memcpy(out, &wide, 8)
        return out + 8
    if field.values == NULL and field.data == NULL:
        return put_null(out, field.kind)
    if field.wide:
        start = (<const int64_t*>field.starts)[row]
        end = (<const int64_t*>field.ends)[row]
    else:
        start = (<const int32_t*>field.starts)[row]
        end = (<const int32_t*>field.ends)[row]
    out = put_varint(out, <uint64_t>(end - start))
    memcpy(out, field.data + start, end - start)
    return out + (end - start)


cdef const uint8_t* address(array) except? NULL:
    cdef const uint8_t[::1] view
    if array is None or array.size == 0:
        return NULL
    view = array.view(np.uint8)
    return &view[0]


def serialize_rows(const uint8_t[::1] kinds not None, sources not None):
    """The serialized records of an OBJECT type, source by source; a source is its number of rows and its columns."""
    cdef Py_ssize_t n = kinds.shape[0], count, total = 0, row, done = 0
    cdef int64_t most = 0
    cdef int i
    cdef bint always
    cdef Field* fields
    cdef uint8_t* out
    cdef uint8_t* begin
    for size, columns in sources:
        total += size
        for i, (values, valid, starts, stops, data) in enumerate(columns):
            most += size * _MOST[kinds[i]]
            if data is not None:
                most += int(stops.sum(dtype=np.int64)) - int(starts.sum(dtype=np.int64))
    made = np.empty(most + 8, np.uint8)
    ends = np.empty(total, np.int64)
    cdef uint8_t[::1] made_view = made
    cdef int64_t[::1] ends_view = ends
    nothing = np.zeros(1, np.uint8)
    fields = <Field*>calloc(n + 1, sizeof(Field))
    if fields == NULL:
        raise MemoryError
    begin = out = &made_view[0]
    try:
        for size, columns in sources:
            count = size
            held = []
            for i, (values, valid, starts, stops, data) in enumerate(columns):
                fields[i].kind = kinds[i]
                if values is None and data is None:
                    valid = np.zeros(count, np.bool_)
                if values is not None:
                    values = np.ascontiguousarray(values)
                if valid is not None:
                    valid = np.ascontiguousarray(valid)
                if data is not None:
                    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
                    if data.size == 0:
                        data = nothing
                    fields[i].wide = starts.dtype.itemsize == 8
                held += [values, valid, starts, stops, data]
                fields[i].values = address(values)
                fields[i].valid = address(valid)
                fields[i].starts = address(starts)
                fields[i].ends = address(stops)
                fields[i].data = address(data)
            with nogil:
                if n == 1 and (fields[0].kind == STRING or fields[0].kind == BYTES) and fields[0].valid == NULL:
                    for row in range(count):
                        out = put_field(out, fields, row)
                        ends_view[done + row] = out - begin
                else:
                    for row in range(count):
                        for i in range(n):
                            out = put_field(out, &fields[i], row)
                        ends_view[done + row] = out - begin
            done += count
    finally:
        free(fields)
    return made[: out - begin], ends


def gather_ranges(const uint8_t[::1] data not None, starts not None, ends not None):
    """Ranges of bytes laid back to back: their offsets and their data."""
    cdef Py_ssize_t i, n = len(starts)
    cdef const int64_t[::1] begins = np.ascontiguousarray(starts, np.int64)
    cdef const int64_t[::1] stops = np.ascontiguousarray(ends, np.int64)
    offsets = np.zeros(n + 1, np.int64)
    cdef int64_t[::1] bounds = offsets
    for i in range(n):
        bounds[i + 1] = bounds[i] + stops[i] - begins[i]
    made = np.empty(bounds[n], np.uint8)
    cdef uint8_t[::1] out = made
    with nogil:
        for i in range(n):
            if stops[i] > begins[i]:
                memcpy(&out[bounds[i]], &data[begins[i]], stops[i] - begins[i])
    return offsets, made


def interleave(offsets not None, records not None):
    """For each parent in turn, its records of the first branch, of the second, and so on.

    `offsets` gives per branch where the records of each parent stand in that branch's `records`.
    """
    cdef Py_ssize_t branches = len(offsets), parents = len(offsets[0]) - 1, parent
    cdef int64_t place = 0, at
    cdef int branch
    cdef const int64_t** bounds = <const int64_t**>calloc(2 * branches, sizeof(int64_t*))
    cdef const int64_t** rows = bounds + branches
    if bounds == NULL:
        raise MemoryError
    made = np.empty(sum(len(each) for each in records), np.int64)
    cdef int64_t[::1] out = made
    try:
        for branch in range(branches):
            bounds[branch] = <const int64_t*>address(offsets[branch])
            rows[branch] = <const int64_t*>address(records[branch])
        with nogil:
            for parent in range(parents):
                for branch in range(branches):
                    for at in range(bounds[branch][parent], bounds[branch][parent + 1]):
                        out[place] = rows[branch][at]
                        place += 1
    finally:
        free(bounds)
    return made
