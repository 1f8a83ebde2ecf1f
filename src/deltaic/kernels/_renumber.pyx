"""Serialized records under other ordinals. See the plain twin for what each function does."""

import numpy as np
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <stdint.h>

    static inline const uint8_t *deltaic_number(const uint8_t *p, uint64_t *value) {
        uint64_t v = *p++, byte;
        if (v < 0x80) { *value = v; return p; }
        v &= 0x7f;
        do {
            byte = *p++;
            v = (v << 7) | (byte & 0x7f);
        } while (byte >= 0x80);
        *value = v;
        return p;
    }

    static inline int deltaic_number_size(uint64_t v) {
        int size = 1;
        while (v >>= 7) size++;
        return size;
    }

    static inline uint8_t *deltaic_put_number(uint8_t *p, uint64_t v) {
        int size = deltaic_number_size(v), i;
        for (i = size - 1; i >= 0; i--) {
            p[i] = (uint8_t)((i == size - 1 ? 0 : 0x80) | (v & 0x7f));
            v >>= 7;
        }
        return p + size;
    }
    """
    const uint8_t* deltaic_number(const uint8_t*, uint64_t*) noexcept nogil
    int deltaic_number_size(uint64_t) noexcept nogil
    uint8_t* deltaic_put_number(uint8_t*, uint64_t) noexcept nogil

cdef enum:
    REFERENCE = 0
    BOOLEAN = 3
    FLOAT = 4
    DOUBLE = 5
    STRING = 6
    NULL_BYTE = 0x80
    LIST = 0
    SET = 1
    MAP = 2


cdef inline const uint8_t* skip_field(const uint8_t* p, int kind) noexcept nogil:
    cdef uint64_t value
    if kind == FLOAT:
        return p + 4
    if kind == DOUBLE:
        return p + 8
    if p[0] == NULL_BYTE or kind == BOOLEAN:
        return p + 1
    p = deltaic_number(p, &value)
    return p + value if kind >= STRING else p


def renumber_objects(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] rows,
    const uint8_t[::1] kinds,
    list maps,
):
    cdef int64_t n = rows.shape[0], i, size = 0
    cdef int fields = <int>kinds.shape[0], field
    cdef uint64_t value
    cdef const int32_t[::1] view
    ends_array = np.empty(n, np.int64)
    if n == 0 or fields == 0:
        ends_array[:] = 0
        return np.zeros(0, np.uint8), ends_array
    cdef int64_t[::1] ends = ends_array
    cdef const int32_t** map_at = <const int32_t**>malloc(fields * sizeof(void*))
    if map_at == NULL:
        raise MemoryError
    for field in range(fields):
        map_at[field] = NULL
        if maps[field] is not None and len(maps[field]):
            view = maps[field]
            map_at[field] = &view[0]
    cdef const uint8_t* base = &arena[0]
    cdef const uint8_t* p
    cdef const uint8_t* kept
    cdef uint8_t* q
    cdef uint8_t[::1] out
    try:
        with nogil:
            for i in range(n):
                p = base + starts[rows[i]]
                kept = p
                for field in range(fields):
                    if map_at[field] != NULL and p[0] != NULL_BYTE:
                        size += p - kept
                        p = deltaic_number(p, &value)
                        kept = p
                        size += deltaic_number_size(<uint64_t>map_at[field][value])
                    else:
                        p = skip_field(p, kinds[field])
                size += p - kept
                ends[i] = size
        out_array = np.empty(size, np.uint8)
        if size:
            out = out_array
            q = &out[0]
            with nogil:
                for i in range(n):
                    p = base + starts[rows[i]]
                    kept = p
                    for field in range(fields):
                        if map_at[field] != NULL and p[0] != NULL_BYTE:
                            memcpy(q, kept, p - kept)
                            q += p - kept
                            p = deltaic_number(p, &value)
                            kept = p
                            q = deltaic_put_number(q, <uint64_t>map_at[field][value])
                        else:
                            p = skip_field(p, kinds[field])
                    memcpy(q, kept, p - kept)
                    q += p - kept
    finally:
        free(map_at)
    return out_array, ends_array


def entries(const uint8_t[::1] arena, const int64_t[::1] starts, const int32_t[::1] rows, int form):
    cdef int64_t n = rows.shape[0], i, j, at = 0, total = 0
    cdef uint64_t size, value, key
    offsets_array = np.zeros(n + 1, np.int64)
    cdef int64_t[::1] offsets = offsets_array
    cdef const uint8_t* base = &arena[0] if arena.shape[0] else NULL
    cdef const uint8_t* p
    with nogil:
        for i in range(n):
            deltaic_number(base + starts[rows[i]], &size)
            total += size
            offsets[i + 1] = total
    keys_array = np.empty(total, np.int32)
    values_array = np.empty(total if form == MAP else 0, np.int32)
    if total == 0:
        return offsets_array, keys_array, values_array
    cdef int32_t[::1] keys = keys_array
    cdef int32_t[::1] values = values_array
    with nogil:
        for i in range(n):
            p = deltaic_number(base + starts[rows[i]], &size)
            key = 0
            for j in range(<int64_t>size):
                p = deltaic_number(p, &value)
                key = value if form == LIST else key + value
                keys[at] = <int32_t>key
                if form == MAP:
                    p = deltaic_number(p, &value)
                    values[at] = <int32_t>value
                if form != LIST:
                    p = deltaic_number(p, &value)
                at += 1
    return offsets_array, keys_array, values_array
