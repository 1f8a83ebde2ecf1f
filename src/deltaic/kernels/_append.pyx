"""Appended sections: values collected, parsed, and put into records. See the plain twin for what each function does."""

import numpy as np
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

from deltaic.kernels._text cimport ascii_prefix, next_code_point, text_length

cdef enum:
    REFERENCE = 0
    INT = 1
    LONG = 2
    BOOLEAN = 3
    FLOAT = 4
    DOUBLE = 5
    STRING = 6
    BYTES = 7
    NULL_BYTE = 0x80
    TRUNCATED = -1
    BAD_NUMBER = -2
    BAD_ORDER = -3
    BAD_VALUE = -4

cdef uint64_t null_float = 0x7FC00001
cdef uint64_t nan_float = 0x7FC00000
cdef uint64_t null_double = 0x7FF8000000000001ULL
cdef uint64_t nan_double = 0x7FF8000000000000ULL

ctypedef struct Buffer:
    uint8_t* data
    int64_t used
    int64_t room
    int64_t count


cdef inline int reserve(Buffer* buffer, int64_t more) noexcept nogil:
    cdef int64_t room
    cdef uint8_t* grown
    if buffer.used + more <= buffer.room:
        return 0
    room = 2 * buffer.room + more + 4096
    grown = <uint8_t*>realloc(buffer.data, room)
    if grown == NULL:
        return -1
    buffer.data = grown
    buffer.room = room
    return 0


cdef inline const uint8_t* read_trusted(const uint8_t* p, uint64_t* value) noexcept nogil:
    cdef uint64_t found = 0
    cdef uint8_t byte
    while True:
        byte = p[0]
        p += 1
        found = (found << 7) | (byte & 0x7F)
        if byte < 0x80:
            value[0] = found
            return p


cdef inline uint8_t* put_number(uint8_t* p, uint64_t value) noexcept nogil:
    cdef int shift = 63
    if value < 0x80:
        p[0] = <uint8_t>value
        return p + 1
    while value >> shift == 0:
        shift -= 7
    while shift > 0:
        p[0] = <uint8_t>(0x80 | ((value >> shift) & 0x7F))
        p += 1
        shift -= 7
    p[0] = <uint8_t>(value & 0x7F)
    return p + 1


cdef inline const uint8_t* skip_field(const uint8_t* p, int kind) noexcept nogil:
    cdef uint64_t value
    if kind == FLOAT:
        return p + 4
    if kind == DOUBLE:
        return p + 8
    if p[0] == NULL_BYTE or kind == BOOLEAN:
        return p + 1
    p = read_trusted(p, &value)
    return p + value if kind >= STRING else p


cdef inline uint64_t big_endian(const uint8_t* p, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value = (value << 8) | p[i]
    return value


cdef inline Py_ssize_t point_bytes(uint32_t point) noexcept nogil:
    return 1 if point < 0x80 else 2 if point < 0x800 else 3 if point < 0x10000 else 4


cdef int put_text(Buffer* buffer, const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """Append a text as its length and UTF-8; room for its character data and half as much again is there."""
    cdef Py_ssize_t prefix, i, size
    cdef uint32_t point = 0
    cdef uint8_t* out
    n = text_length(p, n)
    prefix = ascii_prefix(p, n)
    size = prefix
    i = prefix
    while i < n:
        i = next_code_point(p, i, n, &point)
        size += point_bytes(point)
    out = put_number(buffer.data + buffer.used, <uint64_t>size)
    memcpy(out, p, prefix)
    out += prefix
    i = prefix
    while i < n:
        i = next_code_point(p, i, n, &point)
        if point < 0x80:
            out[0] = <uint8_t>point
            out += 1
        elif point < 0x800:
            out[0] = <uint8_t>(0xC0 | (point >> 6))
            out[1] = <uint8_t>(0x80 | (point & 0x3F))
            out += 2
        elif point < 0x10000:
            out[0] = <uint8_t>(0xE0 | (point >> 12))
            out[1] = <uint8_t>(0x80 | ((point >> 6) & 0x3F))
            out[2] = <uint8_t>(0x80 | (point & 0x3F))
            out += 3
        else:
            out[0] = <uint8_t>(0xF0 | (point >> 18))
            out[1] = <uint8_t>(0x80 | ((point >> 12) & 0x3F))
            out[2] = <uint8_t>(0x80 | ((point >> 6) & 0x3F))
            out[3] = <uint8_t>(0x80 | (point & 0x3F))
            out += 4
    buffer.used = out - buffer.data
    return 0


cdef int put_value(Buffer* buffer, int64_t ordinal, const uint8_t* p, const uint8_t* after, int kind) noexcept nogil:
    """Append one pair, unless the value is null."""
    cdef uint64_t size
    cdef uint8_t* out
    if kind == FLOAT:
        if big_endian(p, 4) == null_float:
            return 0
    elif kind == DOUBLE:
        if big_endian(p, 8) == null_double:
            return 0
    elif p[0] == NULL_BYTE:
        return 0
    if reserve(buffer, 24 + (after - p) + ((after - p) >> 1)) < 0:
        return -1
    out = put_number(buffer.data + buffer.used, <uint64_t>ordinal)
    buffer.count += 1
    if kind == STRING:
        buffer.used = out - buffer.data
        p = read_trusted(p, &size)
        return put_text(buffer, p, <Py_ssize_t>size)
    memcpy(out, p, after - p)
    buffer.used = out - buffer.data + (after - p)
    return 0


def collect_fields(
    const uint8_t[::1] arena not None,
    const int64_t[::1] starts not None,
    const int32_t[::1] ordinals not None,
    const uint8_t[::1] kinds not None,
    const int64_t[::1] fields not None,
):
    cdef int64_t i, n = ordinals.shape[0]
    cdef int wanted = <int>fields.shape[0], next_wanted, position, last, failed = 0
    cdef const uint8_t* base
    cdef const uint8_t* p
    cdef const uint8_t* after
    cdef Buffer* buffers
    cdef uint8_t[::1] view
    if n == 0 or wanted == 0:
        return [(0, np.zeros(0, np.uint8)) for _ in range(wanted)]
    base = &arena[0]
    last = <int>fields[wanted - 1]
    buffers = <Buffer*>calloc(wanted, sizeof(Buffer))
    if buffers == NULL:
        raise MemoryError
    try:
        with nogil:
            for i in range(n):
                p = base + starts[ordinals[i]]
                next_wanted = 0
                for position in range(last + 1):
                    after = skip_field(p, kinds[position])
                    if fields[next_wanted] == position:
                        if put_value(&buffers[next_wanted], ordinals[i], p, after, kinds[position]) < 0:
                            failed = 1
                            break
                        next_wanted += 1
                    p = after
                if failed:
                    break
        if failed:
            raise MemoryError
        found = []
        for position in range(wanted):
            data = np.empty(buffers[position].used, np.uint8)
            if buffers[position].used:
                view = data
                memcpy(&view[0], buffers[position].data, buffers[position].used)
            found.append((buffers[position].count, data))
        return found
    finally:
        for position in range(wanted):
            free(buffers[position].data)
        free(buffers)


cdef inline int64_t read_number(const uint8_t* p, int64_t at, int64_t end, int most, uint64_t* value) noexcept nogil:
    """Read a number at `at`; gives the place after it, or an error."""
    cdef uint64_t found = 0
    cdef int length
    # Most numbers take one, two or three bytes.
    if end - at >= 3:
        if p[at] < 0x80:
            value[0] = p[at]
            return at + 1
        if p[at] != NULL_BYTE:
            found = ((<uint64_t>p[at] & 0x7F) << 7) | (p[at + 1] & 0x7F)
            if p[at + 1] < 0x80:
                value[0] = found
                return at + 2
            if p[at + 2] < 0x80:
                value[0] = (found << 7) | p[at + 2]
                return at + 3
            found = 0
    for length in range(most):
        if at >= end:
            return TRUNCATED
        if length == 0 and p[at] == NULL_BYTE:
            return BAD_NUMBER
        found = (found << 7) | (p[at] & 0x7F)
        at += 1
        if p[at - 1] < 0x80:
            value[0] = found
            return at
    return BAD_NUMBER


def read_fixed(const uint8_t[::1] data not None, int64_t start, int64_t count, int kind):
    cdef int64_t i, at = start, end = data.shape[0], before = -1
    cdef uint64_t value = 0, magnitude
    cdef const uint8_t* p
    cdef int size
    ordinals_array = np.empty(count, np.int64)
    values_array = np.empty(count, np.uint64)
    cdef int64_t[::1] ordinals = ordinals_array
    cdef uint64_t[::1] values = values_array
    if count == 0:
        return ordinals_array, values_array, start
    p = &data[0]
    with nogil:
        for i in range(count):
            at = read_number(p, at, end, 5, &value)
            if at < 0:
                break
            if <int64_t>value <= before or value > 0x7FFFFFFF:
                at = BAD_ORDER
                break
            before = <int64_t>value
            ordinals[i] = before
            if kind <= LONG:
                at = read_number(p, at, end, 10 if kind == LONG else 5, &value)
                if at < 0:
                    break
                values[i] = value if kind == LONG else <uint64_t><uint32_t>value
            else:
                size = 1 if kind == BOOLEAN else 4 if kind == FLOAT else 8
                if end - at < size:
                    at = TRUNCATED
                    break
                value = big_endian(p + at, size)
                at += size
                if kind == BOOLEAN and value > 1:
                    at = BAD_VALUE
                    break
                if kind == FLOAT and (value & 0x7FFFFFFF) > 0x7F800000:
                    value = nan_float
                elif kind == DOUBLE and (value & 0x7FFFFFFFFFFFFFFFULL) > 0x7FF0000000000000ULL:
                    value = nan_double
                values[i] = value
    return ordinals_array, values_array, at


def read_variable(const uint8_t[::1] data not None, int64_t start, int64_t count):
    cdef int64_t i, at = start, end = data.shape[0], before = -1
    cdef uint64_t value = 0
    cdef const uint8_t* p
    ordinals_array = np.empty(count, np.int64)
    starts_array = np.empty(count, np.int64)
    ends_array = np.empty(count, np.int64)
    cdef int64_t[::1] ordinals = ordinals_array
    cdef int64_t[::1] starts = starts_array
    cdef int64_t[::1] ends = ends_array
    if count == 0:
        return ordinals_array, starts_array, ends_array, start
    p = &data[0]
    with nogil:
        for i in range(count):
            at = read_number(p, at, end, 5, &value)
            if at < 0:
                break
            if <int64_t>value <= before or value > 0x7FFFFFFF:
                at = BAD_ORDER
                break
            before = <int64_t>value
            ordinals[i] = before
            at = read_number(p, at, end, 5, &value)
            if at < 0:
                break
            if value > <uint64_t>(end - at):
                at = TRUNCATED
                break
            starts[i] = at
            at += <int64_t>value
            ends[i] = at
    return ordinals_array, starts_array, ends_array, at


def first_outside(const uint64_t[::1] words not None, const int64_t[::1] ordinals not None):
    cdef int64_t i, found = -1, n = ordinals.shape[0], bits = 64 * words.shape[0]
    with nogil:
        for i in range(n):
            if ordinals[i] >= bits or not (words[ordinals[i] >> 6] >> (ordinals[i] & 63)) & 1:
                found = i
                break
    return found


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    typedef struct {
        const int64_t *ordinals;
        const uint64_t *values;
        int64_t count, at;
        int width, ends;
        uint64_t null, last;
    } deltaic_new_field;

    #define DELTAIC_PUT(value, width) do { \\
        uint64_t v_ = (value); int w_ = (width); \\
        word |= v_ << used; \\
        used += w_; \\
        if (used >= 64) { \\
            memcpy(out, &word, 8); \\
            out += 8; \\
            used -= 64; \\
            word = used ? v_ >> (w_ - used) : 0; \\
        } \\
    } while (0)

    /* In C, so that the word being filled stays in a register: bytes that are written could be anything else's. */
    static void deltaic_append_fields(const uint8_t *source, int64_t stride, int64_t count, uint8_t *out,
                                      deltaic_new_field *fields, int number) {
        uint64_t word = 0, piece;
        int64_t i, bit = 0, left;
        int used = 0, k, step, shift;
        for (i = 0; i < count; i++) {
            for (left = stride; left > 0; left -= step) {
                step = left > 57 ? 57 : (int)left;
                memcpy(&piece, source + (bit >> 3), 8);
                shift = (int)(bit & 7);
                piece = (piece >> shift) & (((uint64_t)1 << step) - 1);
                bit += step;
                DELTAIC_PUT(piece, step);
            }
            for (k = 0; k < number; k++) {
                deltaic_new_field *field = fields + k;
                uint64_t value = field->null;
                if (field->at < field->count && field->ordinals[field->at] == i) {
                    value = field->values[field->at++];
                    field->last = value;
                } else if (field->ends) {
                    value |= field->last;
                }
                DELTAIC_PUT(value, field->width);
            }
        }
        if (used) memcpy(out, &word, (used + 7) >> 3);
    }
    """
    ctypedef struct deltaic_new_field:
        const int64_t* ordinals
        const uint64_t* values
        int64_t count
        int64_t at
        int width
        int ends
        uint64_t null
        uint64_t last
    void deltaic_append_fields(
        const uint8_t*, int64_t, int64_t, uint8_t*, deltaic_new_field*, int
    ) noexcept nogil


def append_fields(
    const uint8_t[::1] source not None,
    int64_t stride,
    int64_t count,
    uint8_t[::1] target not None,
    list ordinals not None,
    list values not None,
    const int64_t[::1] widths not None,
    const uint64_t[::1] nulls not None,
    const uint8_t[::1] ends not None,
):
    cdef int k, number = <int>widths.shape[0]
    cdef const int64_t[::1] rows
    cdef const uint64_t[::1] column
    cdef deltaic_new_field* fields
    if count == 0:
        return
    fields = <deltaic_new_field*>calloc(number + 1, sizeof(deltaic_new_field))
    if fields == NULL:
        raise MemoryError
    try:
        for k in range(number):
            rows, column = ordinals[k], values[k]
            fields[k].count = rows.shape[0]
            if rows.shape[0]:
                fields[k].ordinals = &rows[0]
                fields[k].values = &column[0]
            fields[k].width = <int>widths[k]
            fields[k].null = nulls[k]
            fields[k].ends = ends[k]
        with nogil:
            deltaic_append_fields(&source[0], stride, count, &target[0], fields, number)
    finally:
        free(fields)


def differing(
    const uint8_t[::1] data not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] ends not None,
    const uint8_t[::1] other not None,
    const int64_t[::1] offsets not None,
):
    cdef int64_t i, size, n = starts.shape[0]
    found = np.zeros(n, np.bool_)
    cdef uint8_t[::1] flags = found.view(np.uint8)
    with nogil:
        for i in range(n):
            size = ends[i] - starts[i]
            if size != offsets[i + 1] - offsets[i]:
                flags[i] = 1
            elif size and memcmp(&data[starts[i]], &other[offsets[i]], size) != 0:
                flags[i] = 1
    return found
