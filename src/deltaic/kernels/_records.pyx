"""Serialized records, made, measured and packed. See the plain twin for what each function does.

Records of an arena are well formed: they come from the functions here or were checked by `first_bad_...`.
"""

cimport cython
import numpy as np
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

from deltaic.kernels._hashing cimport fold_int64, hash_int32, murmur3_32, table_size

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(_MSC_VER)
    #include <intrin.h>
    #define deltaic_bswap64(x) _byteswap_uint64(x)
    #define deltaic_bswap32(x) _byteswap_ulong(x)
    static inline int deltaic_bit_length(uint64_t x) { unsigned long i; return _BitScanReverse64(&i, x) ? (int)i + 1 : 0; }
    #define deltaic_near(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
    #else
    #define deltaic_bswap64(x) __builtin_bswap64(x)
    #define deltaic_bswap32(x) __builtin_bswap32(x)
    static inline int deltaic_bit_length(uint64_t x) { return x ? 64 - __builtin_clzll(x) : 0; }
    #define deltaic_near(p) __builtin_prefetch(p)
    #endif

    static inline const uint8_t *deltaic_read(const uint8_t *p, uint64_t *value) {
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

    static inline uint8_t *deltaic_write(uint8_t *p, uint64_t v) {
        int bits, shift;
        if (v < 0x80) { *p++ = (uint8_t)v; return p; }
        if (v < 0x4000) { p[0] = (uint8_t)(0x80 | v >> 7); p[1] = (uint8_t)(v & 0x7f); return p + 2; }
        if (v < 0x200000) {
            p[0] = (uint8_t)(0x80 | v >> 14);
            p[1] = (uint8_t)(0x80 | (v >> 7 & 0x7f));
            p[2] = (uint8_t)(v & 0x7f);
            return p + 3;
        }
        bits = deltaic_bit_length(v);
        for (shift = (bits - 1) / 7 * 7; shift > 0; shift -= 7)
            *p++ = (uint8_t)(0x80 | (v >> shift & 0x7f));
        *p++ = (uint8_t)(v & 0x7f);
        return p;
    }

    typedef struct { uint64_t acc; int used; uint8_t *at; } deltaic_bits;

    static inline void deltaic_put(deltaic_bits *b, uint64_t value, int width) {
        uint64_t word;
        b->acc |= value << b->used;
        b->used += width;
        if (b->used >= 64) {
            word = deltaic_bswap64(b->acc);
            memcpy(b->at, &word, 8);
            b->at += 8;
            b->used -= 64;
            b->acc = b->used ? value >> (width - b->used) : 0;
        }
    }

    static inline void deltaic_finish(deltaic_bits *b) {
        uint64_t word;
        if (b->used) {
            word = deltaic_bswap64(b->acc);
            memcpy(b->at, &word, 8);
        }
    }
    """
    ctypedef struct deltaic_bits:
        uint64_t acc
        int used
        uint8_t* at
    uint64_t deltaic_bswap64(uint64_t) noexcept nogil
    uint32_t deltaic_bswap32(uint32_t) noexcept nogil
    int deltaic_bit_length(uint64_t) noexcept nogil
    void deltaic_near(const void*) noexcept nogil
    const uint8_t* deltaic_read(const uint8_t*, uint64_t*) noexcept nogil
    uint8_t* deltaic_write(uint8_t*, uint64_t) noexcept nogil
    void deltaic_put(deltaic_bits*, uint64_t, int) noexcept nogil
    void deltaic_finish(deltaic_bits*) noexcept nogil

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
    NO_BUCKETS = 0
    MIXED = 1
    AHEAD = 8
    SMALL = 24

cdef uint8_t nothing = 0
cdef uint64_t null_float = 0x7FC00001
cdef uint64_t nan_float = 0x7FC00000
cdef uint64_t null_double = 0x7FF8000000000001ULL
cdef uint64_t nan_double = 0x7FF8000000000000ULL

ctypedef struct InColumn:
    int kind
    const uint64_t* values
    const uint8_t* valid
    const int64_t* offsets
    const uint8_t* data

ctypedef struct Pair:
    uint64_t key
    uint32_t code


cdef inline const uint8_t* skip_field(const uint8_t* p, int kind) noexcept nogil:
    cdef uint64_t value
    if kind == FLOAT:
        return p + 4
    if kind == DOUBLE:
        return p + 8
    if p[0] == NULL_BYTE or kind == BOOLEAN:
        return p + 1
    p = deltaic_read(p, &value)
    return p + value if kind >= STRING else p


cdef inline uint64_t load_float(const uint8_t* p) noexcept nogil:
    cdef uint32_t raw
    memcpy(&raw, p, 4)
    return deltaic_bswap32(raw)


cdef inline uint64_t load_double(const uint8_t* p) noexcept nogil:
    cdef uint64_t raw
    memcpy(&raw, p, 8)
    return deltaic_bswap64(raw)


cdef inline uint8_t* store_float(uint8_t* p, uint64_t value) noexcept nogil:
    cdef uint32_t raw = deltaic_bswap32(<uint32_t>value)
    memcpy(p, &raw, 4)
    return p + 4


cdef inline uint8_t* store_double(uint8_t* p, uint64_t value) noexcept nogil:
    cdef uint64_t raw = deltaic_bswap64(value)
    memcpy(p, &raw, 8)
    return p + 8


cdef inline uint8_t* store_null(uint8_t* p, int kind) noexcept nogil:
    if kind == FLOAT:
        return store_float(p, null_float)
    if kind == DOUBLE:
        return store_double(p, null_double)
    p[0] = NULL_BYTE
    return p + 1


cdef inline uint8_t* store_fixed(uint8_t* p, int kind, uint64_t raw) noexcept nogil:
    cdef int32_t small
    cdef int64_t large
    if kind == INT:
        small = <int32_t>raw
        if small == <int32_t>0x80000000:
            p[0] = NULL_BYTE
            return p + 1
        return deltaic_write(p, <uint32_t>((<uint32_t>small << 1) ^ <uint32_t>(small >> 31)))
    if kind == REFERENCE:
        return deltaic_write(p, <uint32_t>raw)
    if kind == LONG:
        large = <int64_t>raw
        if raw == <uint64_t>1 << 63:
            p[0] = NULL_BYTE
            return p + 1
        return deltaic_write(p, (raw << 1) ^ <uint64_t>(large >> 63))
    if kind == FLOAT:
        raw = <uint32_t>raw
        return store_float(p, nan_float if (raw & 0x7FFFFFFF) > 0x7F800000 else raw)
    if kind == DOUBLE:
        return store_double(p, nan_double if (raw & 0x7FFFFFFFFFFFFFFFULL) > 0x7FF0000000000000ULL else raw)
    p[0] = raw != 0
    return p + 1


def serialize_objects(const uint8_t[::1] kinds, columns, int64_t count):
    cdef int field, fields = <int>kinds.shape[0]
    cdef int64_t row, room = 0, length
    cdef const uint64_t[::1] values
    cdef const uint8_t[::1] valid, data
    cdef const int64_t[::1] offsets
    cdef InColumn* column
    ends_array = np.empty(count, np.int64)
    cdef int64_t[::1] ends = ends_array
    cdef InColumn* prepared = <InColumn*>malloc((fields + 1) * sizeof(InColumn))
    if prepared == NULL:
        raise MemoryError
    try:
        for field in range(fields):
            values, valid, offsets, data = columns[field]
            column = prepared + field
            column.kind = kinds[field]
            column.values = &values[0] if values.shape[0] else NULL
            column.valid = &valid[0] if valid.shape[0] else NULL
            column.offsets = &offsets[0] if offsets.shape[0] else NULL
            column.data = &data[0] if data.shape[0] else NULL
            if column.kind >= STRING:
                room += 5 * count + (offsets[count] - offsets[0] if count else 0)
            else:
                room += count * (10 if column.kind == LONG else 8 if column.kind == DOUBLE else 5)
        out_array = np.empty(room + 1, np.uint8)
        length = _serialize_objects(prepared, fields, count, out_array, ends)
    finally:
        free(prepared)
    return out_array[:length], ends_array


cdef int64_t _serialize_objects(
    InColumn* columns, int fields, int64_t count, uint8_t[::1] out, int64_t[::1] ends
) noexcept:
    cdef uint8_t* begin = &out[0]
    cdef uint8_t* p = begin
    cdef InColumn* column
    cdef int64_t row, start, size
    cdef int field
    with nogil:
        for row in range(count):
            for field in range(fields):
                column = columns + field
                if column.valid != NULL and not column.valid[row]:
                    p = store_null(p, column.kind)
                elif column.kind >= STRING:
                    start = column.offsets[row]
                    size = column.offsets[row + 1] - start
                    p = deltaic_write(p, size)
                    memcpy(p, column.data + start, size)
                    p += size
                else:
                    p = store_fixed(p, column.kind, column.values[row])
            ends[row] = p - begin
    return p - begin


def serialize_lists(const int64_t[::1] offsets, const int32_t[::1] elements):
    cdef int64_t count = offsets.shape[0] - 1, row, i
    cdef int64_t total = offsets[count] - offsets[0]
    out_array, ends_array = np.empty(5 * (total + count) + 1, np.uint8), np.empty(count, np.int64)
    cdef uint8_t[::1] out = out_array
    cdef int64_t[::1] ends = ends_array
    cdef uint8_t* begin = &out[0]
    cdef uint8_t* p = begin
    with nogil:
        for row in range(count):
            p = deltaic_write(p, offsets[row + 1] - offsets[row])
            for i in range(offsets[row], offsets[row + 1]):
                p = deltaic_write(p, <uint32_t>elements[i])
            ends[row] = p - begin
    return out_array[: p - begin], ends_array


cdef inline bint _before(Pair* a, Pair* b, bint by_code) noexcept nogil:
    if a.key != b.key:
        return a.key < b.key
    return by_code and a.code < b.code


cdef void _sort_pairs(Pair* pairs, Pair* scratch, int64_t n, bint by_code) noexcept nogil:
    """Stable; by key, and by code where asked for."""
    cdef int64_t i, j, width, left, middle, right, k
    cdef Pair moved
    cdef Pair* source
    cdef Pair* target
    cdef Pair* swapped
    cdef bint sorted_already = True
    for i in range(1, n):
        if _before(pairs + i, pairs + i - 1, by_code):
            sorted_already = False
            break
    if sorted_already:
        return
    left = 0
    while left < n:
        right = min(left + SMALL, n)
        for i in range(left + 1, right):
            moved = pairs[i]
            j = i
            while j > left and _before(&moved, pairs + j - 1, by_code):
                pairs[j] = pairs[j - 1]
                j -= 1
            pairs[j] = moved
        left = right
    source, target = pairs, scratch
    width = SMALL
    while width < n:
        left = 0
        while left < n:
            middle = min(left + width, n)
            right = min(left + 2 * width, n)
            i, j, k = left, middle, left
            while i < middle and j < right:
                if _before(source + j, source + i, by_code):
                    target[k] = source[j]
                    j += 1
                else:
                    target[k] = source[i]
                    i += 1
                k += 1
            if i < middle:
                memcpy(target + k, source + i, (middle - i) * sizeof(Pair))
            elif j < right:
                memcpy(target + k, source + j, (right - j) * sizeof(Pair))
            left = right
        swapped = source
        source = target
        target = swapped
        width *= 2
    if source != pairs:
        memcpy(pairs, source, n * sizeof(Pair))


cdef int64_t _largest_range(const int64_t[::1] offsets) noexcept nogil:
    cdef int64_t i, most = 0
    for i in range(offsets.shape[0] - 1):
        most = max(most, offsets[i + 1] - offsets[i])
    return most


def serialize_sets(
    const int64_t[::1] offsets, const int32_t[::1] elements, const int32_t[::1] hashes, int buckets
):
    return _serialize_tables(offsets, elements, elements, hashes, buckets, 1)


def serialize_maps(
    const int64_t[::1] offsets,
    const int32_t[::1] keys,
    const int32_t[::1] values,
    const int32_t[::1] hashes,
    int buckets,
):
    return _serialize_tables(offsets, keys, values, hashes, buckets, 2)


cdef _serialize_tables(
    const int64_t[::1] offsets,
    const int32_t[::1] keys,
    const int32_t[::1] values,
    const int32_t[::1] hashes,
    int buckets,
    int per_entry,
):
    cdef int64_t count = offsets.shape[0] - 1, row, i, start, size
    cdef int64_t total = offsets[count] - offsets[0]
    cdef int64_t most = _largest_range(offsets)
    cdef bint hashed = hashes.shape[0] > 0
    cdef bint is_set = per_entry == 1
    cdef int32_t code
    cdef uint32_t mask, previous, key
    out_array, ends_array = np.empty(15 * total + 5 * count + 1, np.uint8), np.empty(count, np.int64)
    cdef uint8_t[::1] out = out_array
    cdef int64_t[::1] ends = ends_array
    cdef uint8_t* begin = &out[0]
    cdef uint8_t* p = begin
    cdef Pair* pairs = <Pair*>malloc((2 * most + 2) * sizeof(Pair))
    if pairs == NULL:
        raise MemoryError
    with nogil:
        for row in range(count):
            start = offsets[row]
            size = offsets[row + 1] - start
            for i in range(size):
                pairs[i].key = <uint64_t><uint32_t>keys[start + i] << 32
                if not is_set:
                    pairs[i].key |= <uint32_t>values[start + i]
                pairs[i].code = <uint32_t>(hashes[start + i] if hashed else keys[start + i])
            _sort_pairs(pairs, pairs + most + 1, size, is_set)
            p = deltaic_write(p, size)
            mask = <uint32_t>(table_size(size) - 1)
            previous = 0
            for i in range(size):
                key = <uint32_t>(pairs[i].key >> 32)
                p = deltaic_write(p, key - previous)
                previous = key
                if not is_set:
                    p = deltaic_write(p, <uint32_t>pairs[i].key)
                if buckets != NO_BUCKETS:
                    code = <int32_t>pairs[i].code
                    p = deltaic_write(p, <uint32_t>(hash_int32(code) if buckets == MIXED else code) & mask)
            ends[row] = p - begin
    free(pairs)
    return out_array[: p - begin], ends_array


def project_objects(
    const uint8_t[::1] data, const int64_t[::1] ends, const uint8_t[::1] kinds, const int64_t[::1] fields
):
    cdef int64_t count = ends.shape[0], row, size
    cdef int kept = <int>fields.shape[0], width = <int>kinds.shape[0], i
    out_array, ends_array = np.empty(data.shape[0] + 1, np.uint8), np.empty(count, np.int64)
    if count == 0:
        return out_array[:0], ends_array
    cdef uint8_t[::1] out = out_array
    cdef int64_t[::1] made = ends_array
    cdef const uint8_t* p = &data[0] if data.shape[0] else NULL
    cdef uint8_t* begin = &out[0]
    cdef uint8_t* q = begin
    cdef const uint8_t** bounds = <const uint8_t**>malloc((width + 1) * sizeof(uint8_t*))
    if bounds == NULL:
        raise MemoryError
    with nogil:
        for row in range(count):
            bounds[0] = p
            for i in range(width):
                p = skip_field(p, kinds[i])
                bounds[i + 1] = p
            for i in range(kept):
                size = bounds[fields[i] + 1] - bounds[fields[i]]
                memcpy(q, bounds[fields[i]], size)
                q += size
            made[row] = q - begin
    free(bounds)
    return out_array[: q - begin], ends_array


def strip_buckets(const uint8_t[::1] data, const int64_t[::1] ends, int per_entry):
    cdef int64_t count = ends.shape[0], row
    cdef uint64_t size, value, i
    cdef int j
    out_array, ends_array = np.empty(data.shape[0] + 1, np.uint8), np.empty(count, np.int64)
    if count == 0:
        return out_array[:0], ends_array
    cdef uint8_t[::1] out = out_array
    cdef int64_t[::1] made = ends_array
    cdef const uint8_t* p = &data[0]
    cdef uint8_t* begin = &out[0]
    cdef uint8_t* q = begin
    with nogil:
        for row in range(count):
            p = deltaic_read(p, &size)
            q = deltaic_write(q, size)
            for i in range(size):
                for j in range(per_entry):
                    p = deltaic_read(p, &value)
                    q = deltaic_write(q, value)
                p = deltaic_read(p, &value)
            made[row] = q - begin
    return out_array[: q - begin], ends_array


cdef inline const uint8_t* checked_read(
    const uint8_t* p, const uint8_t* end, int longest, uint64_t* value
) noexcept nogil:
    """Read a varint of at most `longest` bytes (5 or 10); NULL if there is none."""
    cdef uint64_t v = 0
    cdef uint8_t byte
    cdef int i
    if p >= end or p[0] == NULL_BYTE:
        return NULL
    for i in range(longest):
        if p >= end or (longest == 10 and v >> 57):
            return NULL
        byte = p[0]
        p += 1
        v = (v << 7) | (byte & 0x7F)
        if byte < 0x80:
            if longest == 5 and v >> 32:
                return NULL
            value[0] = v
            return p
    return NULL


cdef const uint8_t* checked_field(const uint8_t* p, const uint8_t* end, int kind) noexcept nogil:
    cdef uint64_t value = 0, raw
    cdef const uint8_t* stop
    if kind == FLOAT:
        if end - p < 4:
            return NULL
        raw = load_float(p)
        if (raw & 0x7FFFFFFF) > 0x7F800000 and raw != nan_float and raw != null_float:
            return NULL
        return p + 4
    if kind == DOUBLE:
        if end - p < 8:
            return NULL
        raw = load_double(p)
        if (
            (raw & 0x7FFFFFFFFFFFFFFFULL) > 0x7FF0000000000000ULL
            and raw != nan_double
            and raw != null_double
        ):
            return NULL
        return p + 8
    if p >= end:
        return NULL
    if p[0] == NULL_BYTE:
        return p + 1
    if kind == BOOLEAN:
        return p + 1 if p[0] <= 1 else NULL
    p = checked_read(p, end, 10 if kind == LONG else 5, &value)
    if p == NULL:
        return NULL
    if kind == LONG:
        return NULL if value == <uint64_t>0xFFFFFFFFFFFFFFFFULL else p
    if kind == INT:
        return NULL if value == <uint64_t>0xFFFFFFFFULL else p
    if kind == REFERENCE:
        return NULL if value > 0x7FFFFFFF else p
    if value > <uint64_t>(end - p):
        return NULL
    stop = p + value
    if kind == STRING and not (value == 1 and p[0] == NULL_BYTE):
        while p < stop:
            p = checked_read(p, stop, 5, &value)
            if p == NULL or value > 0xFFFF:
                return NULL
    return stop


def first_bad_object(const uint8_t[::1] data, const int64_t[::1] ends, const uint8_t[::1] kinds):
    cdef int64_t row, bad = -1
    cdef int i
    # Not NULL, which stands for a refused record.
    cdef const uint8_t* base = &data[0] if data.shape[0] else &nothing
    cdef const uint8_t* p = base
    cdef const uint8_t* end
    with nogil:
        for row in range(ends.shape[0]):
            end = base + ends[row]
            for i in range(kinds.shape[0]):
                p = checked_field(p, end, kinds[i])
                if p == NULL:
                    break
            if p != end:
                bad = row
                break
    return bad


def first_bad_collection(const uint8_t[::1] data, const int64_t[::1] ends, int per_entry, int buckets):
    cdef int64_t row, bad = -1
    # Not NULL, which stands for a refused record.
    cdef const uint8_t* base = &data[0] if data.shape[0] else &nothing
    cdef const uint8_t* p = base
    with nogil:
        for row in range(ends.shape[0]):
            p = _checked_collection(p, base + ends[row], per_entry, buckets)
            if p != base + ends[row]:
                bad = row
                break
    return bad


cdef const uint8_t* _checked_collection(
    const uint8_t* p, const uint8_t* end, int per_entry, int buckets
) noexcept nogil:
    cdef uint64_t size = 0, value = 0, key = 0, table = 0, i
    cdef int j
    cdef const uint8_t* start = p
    p = checked_read(p, end, 5, &size)
    if p == NULL or size > <uint64_t>(end - start):
        return NULL
    if buckets:
        table = <uint64_t>table_size(<int64_t>size)
    for i in range(size):
        for j in range(per_entry):
            p = checked_read(p, end, 5, &value)
            if p == NULL:
                return NULL
            if buckets and j == 0:
                key += value
            if value > 0x7FFFFFFF or key > 0x7FFFFFFF:
                return NULL
        if buckets:
            p = checked_read(p, end, 5, &value)
            if p == NULL or value >= table:
                return NULL
    return p


ctypedef struct Sortable:
    uint64_t prefix
    int64_t row


cdef inline bint _record_before(
    const Sortable* a, const Sortable* b, const uint8_t* data, const int64_t* ends
) noexcept nogil:
    cdef int64_t a_start, b_start, a_size, b_size
    cdef int order
    if a.prefix != b.prefix:
        return a.prefix < b.prefix
    a_start = ends[a.row - 1] if a.row else 0
    b_start = ends[b.row - 1] if b.row else 0
    a_size = ends[a.row] - a_start
    b_size = ends[b.row] - b_start
    order = memcmp(data + a_start, data + b_start, min(a_size, b_size))
    return order < 0 if order else a_size < b_size


def sort_records(const uint8_t[::1] data, const int64_t[::1] ends, const int64_t[::1] rows):
    cdef int64_t n = rows.shape[0], i, j, k, left, middle, right, width, start, size
    out_array = np.empty(n, np.int64)
    if n == 0:
        return out_array
    cdef int64_t[::1] out = out_array
    cdef Sortable* source = <Sortable*>malloc(2 * n * sizeof(Sortable))
    if source == NULL:
        raise MemoryError
    cdef Sortable* memory = source
    cdef Sortable* target = source + n
    cdef Sortable* swapped
    cdef const uint8_t* base = &data[0] if data.shape[0] else NULL
    cdef const int64_t* end_of = &ends[0]
    cdef uint8_t prefix[8]
    with nogil:
        for i in range(n):
            start = ends[rows[i] - 1] if rows[i] else 0
            size = min(ends[rows[i]] - start, <int64_t>8)
            source[i].prefix = 0
            memcpy(&source[i].prefix, base + start, size)
            source[i].prefix = deltaic_bswap64(source[i].prefix)
            source[i].row = rows[i]
        width = 1
        while width < n:
            left = 0
            while left < n:
                middle = min(left + width, n)
                right = min(left + 2 * width, n)
                i, j, k = left, middle, left
                if middle < right and not _record_before(source + middle, source + middle - 1, base, end_of):
                    # Already in order: half of the work when the input is nearly sorted.
                    memcpy(target + left, source + left, (right - left) * sizeof(Sortable))
                    left = right
                    continue
                while i < middle and j < right:
                    if _record_before(source + j, source + i, base, end_of):
                        target[k] = source[j]
                        j += 1
                    else:
                        target[k] = source[i]
                        i += 1
                    k += 1
                if i < middle:
                    memcpy(target + k, source + i, (middle - i) * sizeof(Sortable))
                elif j < right:
                    memcpy(target + k, source + j, (right - j) * sizeof(Sortable))
                left = right
            swapped = source
            source = target
            target = swapped
            width *= 2
        for i in range(n):
            out[i] = source[i].row
    free(memory)
    return out_array


def object_statistics(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] ordinals,
    const uint8_t[::1] kinds,
    int64_t sign,
    int64_t[:, ::1] widths,
    int64_t[::1] totals,
):
    cdef int64_t i, n = ordinals.shape[0]
    cdef int field, fields = <int>kinds.shape[0], kind
    cdef uint64_t value
    cdef const uint8_t* p
    cdef const uint8_t* base = &arena[0]
    if n == 0 or fields == 0:
        return
    with nogil:
        for i in range(n):
            if i + AHEAD < n:
                deltaic_near(base + starts[ordinals[i + AHEAD]])
            p = base + starts[ordinals[i]]
            for field in range(fields):
                kind = kinds[field]
                if kind == FLOAT:
                    widths[field, 32] += sign
                    p += 4
                elif kind == DOUBLE:
                    widths[field, 64] += sign
                    p += 8
                elif kind == BOOLEAN:
                    widths[field, 2] += sign
                    p += 1
                elif p[0] == NULL_BYTE:
                    if kind < STRING:
                        widths[field, 1] += sign
                    p += 1
                else:
                    p = deltaic_read(p, &value)
                    if kind < STRING:
                        widths[field, deltaic_bit_length(value + 1)] += sign
                    else:
                        totals[field] += sign * <int64_t>value
                        p += value


def list_statistics(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] ordinals,
    int64_t sign,
    int64_t[::1] element_widths,
    int64_t[::1] totals,
):
    cdef int64_t i, n = ordinals.shape[0], mask = totals.shape[0] - 1
    cdef uint64_t size, value, most, j
    cdef const uint8_t* p
    cdef const uint8_t* base = &arena[0]
    with nogil:
        for i in range(n):
            if i + AHEAD < n:
                deltaic_near(base + starts[ordinals[i + AHEAD]])
            p = deltaic_read(base + starts[ordinals[i]], &size)
            most = 0
            for j in range(size):
                p = deltaic_read(p, &value)
                most = max(most, value)
            element_widths[deltaic_bit_length(most)] += sign
            totals[ordinals[i] & mask] += sign * <int64_t>size


def set_statistics(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] ordinals,
    int64_t sign,
    int64_t[::1] element_widths,
    int64_t[::1] size_widths,
    int64_t[::1] totals,
):
    cdef int64_t i, n = ordinals.shape[0], mask = totals.shape[0] - 1
    cdef uint64_t size, value, element, j
    cdef const uint8_t* p
    cdef const uint8_t* base = &arena[0]
    with nogil:
        for i in range(n):
            p = deltaic_read(base + starts[ordinals[i]], &size)
            element = 0
            for j in range(size):
                p = deltaic_read(p, &value)
                element += value
                p = deltaic_read(p, &value)
            element_widths[deltaic_bit_length(element + 1)] += sign
            size_widths[deltaic_bit_length(size)] += sign
            totals[ordinals[i] & mask] += sign * table_size(<int64_t>size)


def map_statistics(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] ordinals,
    int64_t sign,
    int64_t[::1] key_widths,
    int64_t[::1] value_widths,
    int64_t[::1] size_widths,
    int64_t[::1] totals,
):
    cdef int64_t i, n = ordinals.shape[0], mask = totals.shape[0] - 1
    cdef uint64_t size, value, key, most, j
    cdef const uint8_t* p
    cdef const uint8_t* base = &arena[0]
    with nogil:
        for i in range(n):
            p = deltaic_read(base + starts[ordinals[i]], &size)
            key = most = 0
            for j in range(size):
                p = deltaic_read(p, &value)
                key += value
                p = deltaic_read(p, &value)
                most = max(most, value)
                p = deltaic_read(p, &value)
            key_widths[deltaic_bit_length(key + 1)] += sign
            value_widths[deltaic_bit_length(most)] += sign
            size_widths[deltaic_bit_length(size)] += sign
            totals[ordinals[i] & mask] += sign * table_size(<int64_t>size)


def pack_objects(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] slots,
    const uint8_t[::1] kinds,
    const int32_t[::1] widths,
    uint8_t[::1] words,
    variable,
    int64_t[::1] used,
):
    cdef int64_t i, n = slots.shape[0]
    cdef int field, fields = <int>kinds.shape[0], kind, width
    cdef uint64_t value
    cdef const uint8_t* p
    cdef const uint8_t* base = &arena[0]
    cdef uint8_t[::1] view
    cdef deltaic_bits bits
    if n == 0 or fields == 0 or words.shape[0] == 0:
        return
    bits.acc = 0
    bits.used = 0
    bits.at = &words[0]
    cdef uint8_t** targets = <uint8_t**>malloc(fields * sizeof(uint8_t*))
    if targets == NULL:
        raise MemoryError
    for field in range(fields):
        targets[field] = NULL
        if len(variable[field]):
            view = variable[field]
            targets[field] = &view[0]
    with nogil:
        for i in range(n):
            if i + AHEAD < n and slots[i + AHEAD] >= 0:
                deltaic_near(base + starts[slots[i + AHEAD]])
            if slots[i] < 0:
                for field in range(fields):
                    value = <uint64_t>used[field] if kinds[field] >= STRING else 0
                    deltaic_put(&bits, value, widths[field])
                continue
            p = base + starts[slots[i]]
            for field in range(fields):
                kind = kinds[field]
                width = widths[field]
                if kind == FLOAT:
                    deltaic_put(&bits, load_float(p), 32)
                    p += 4
                elif kind == DOUBLE:
                    deltaic_put(&bits, load_double(p), 64)
                    p += 8
                elif p[0] == NULL_BYTE:
                    p += 1
                    if kind < STRING:
                        value = <uint64_t>0xFFFFFFFFFFFFFFFFULL >> (64 - width)
                    else:
                        value = <uint64_t>used[field] | (<uint64_t>1 << (width - 1))
                    deltaic_put(&bits, value, width)
                else:
                    p = deltaic_read(p, &value)
                    if kind >= STRING:
                        if targets[field] != NULL:
                            memcpy(targets[field] + used[field], p, value)
                        p += value
                        used[field] += value
                        value = <uint64_t>used[field]
                    deltaic_put(&bits, value, width)
        deltaic_finish(&bits)
    free(targets)


def pack_list_pointers(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] slots,
    int width,
    int64_t end,
    uint8_t[::1] words,
):
    cdef int64_t i, n = slots.shape[0]
    cdef uint64_t size
    cdef const uint8_t* base = &arena[0]
    cdef deltaic_bits bits
    if n == 0:
        return end
    bits.acc = 0
    bits.used = 0
    bits.at = &words[0]
    with nogil:
        for i in range(n):
            if i + AHEAD < n and slots[i + AHEAD] >= 0:
                deltaic_near(base + starts[slots[i + AHEAD]])
            if slots[i] >= 0:
                deltaic_read(base + starts[slots[i]], &size)
                end += size
            deltaic_put(&bits, <uint64_t>end, width)
        deltaic_finish(&bits)
    return end


def pack_list_elements(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] slots,
    int width,
    uint64_t[::1] carry,
    uint8_t[::1] words,
):
    cdef int64_t i, n = slots.shape[0]
    cdef uint64_t size, value, j
    cdef const uint8_t* p
    cdef const uint8_t* base = &arena[0]
    cdef uint8_t* begin = &words[0]
    cdef deltaic_bits bits
    bits.acc = carry[0]
    bits.used = <int>carry[1]
    bits.at = begin
    with nogil:
        for i in range(n):
            if i + AHEAD < n and slots[i + AHEAD] >= 0:
                deltaic_near(base + starts[slots[i + AHEAD]])
            if slots[i] < 0:
                continue
            p = deltaic_read(base + starts[slots[i]], &size)
            for j in range(size):
                p = deltaic_read(p, &value)
                deltaic_put(&bits, value, width)
    carry[0] = bits.acc
    carry[1] = bits.used
    return bits.at - begin


def pack_table_pointers(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] slots,
    int width,
    int size_width,
    int64_t end,
    uint8_t[::1] words,
):
    cdef int64_t i, n = slots.shape[0]
    cdef uint64_t size
    cdef const uint8_t* base = &arena[0]
    cdef deltaic_bits bits
    if n == 0 or words.shape[0] == 0:
        return end
    bits.acc = 0
    bits.used = 0
    bits.at = &words[0]
    with nogil:
        for i in range(n):
            size = 0
            if slots[i] >= 0:
                deltaic_read(base + starts[slots[i]], &size)
                end += table_size(<int64_t>size)
            deltaic_put(&bits, <uint64_t>end, width)
            deltaic_put(&bits, size, size_width)
        deltaic_finish(&bits)
    return end


def pack_set_buckets(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] slots,
    int width,
    const int32_t[::1] hashes,
    uint64_t[::1] carry,
    uint8_t[::1] words,
):
    return _pack_buckets(arena, starts, slots, width, 0, 1, hashes, carry, words)


def pack_map_buckets(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] slots,
    int key_width,
    int value_width,
    const int32_t[::1] hashes,
    uint64_t[::1] carry,
    uint8_t[::1] words,
):
    return _pack_buckets(arena, starts, slots, key_width, value_width, 2, hashes, carry, words)


cdef _pack_buckets(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] slots,
    int key_width,
    int value_width,
    int per_entry,
    const int32_t[::1] hashes,
    uint64_t[::1] carry,
    uint8_t[::1] words,
):
    cdef int64_t i, n = slots.shape[0], room = 0, table
    cdef uint64_t size, gap, key, value, bucket, j, mask
    cdef uint64_t empty_key = (<uint64_t>1 << key_width) - 1
    cdef uint64_t free_bucket = <uint64_t>0xFFFFFFFFFFFFFFFFULL
    cdef bint keyed = hashes.shape[0] > 0
    cdef const uint8_t* p
    cdef const uint8_t* base = &arena[0]
    cdef uint8_t* begin = &words[0]
    cdef uint64_t* buckets = NULL
    cdef uint64_t* grown
    cdef bint failed = False
    cdef deltaic_bits bits
    bits.acc = carry[0]
    bits.used = <int>carry[1]
    bits.at = begin
    with nogil:
        for i in range(n):
            if slots[i] < 0:
                continue
            p = deltaic_read(base + starts[slots[i]], &size)
            table = table_size(<int64_t>size)
            if table > room:
                grown = <uint64_t*>realloc(buckets, table * sizeof(uint64_t))
                if grown == NULL:
                    failed = True
                    break
                buckets = grown
                room = table
            for j in range(<uint64_t>table):
                buckets[j] = free_bucket
            mask = <uint64_t>table - 1
            key = 0
            for j in range(size):
                p = deltaic_read(p, &gap)
                key += gap
                value = 0
                if per_entry == 2:
                    p = deltaic_read(p, &value)
                p = deltaic_read(p, &bucket)
                if keyed:
                    bucket = <uint64_t>hashes[<int64_t>key] & mask
                while buckets[bucket] != free_bucket:
                    bucket = (bucket + 1) & mask
                buckets[bucket] = key | (value << 32)
            for j in range(<uint64_t>table):
                if buckets[j] == free_bucket:
                    deltaic_put(&bits, empty_key, key_width)
                    deltaic_put(&bits, 0, value_width)
                else:
                    deltaic_put(&bits, <uint32_t>buckets[j], key_width)
                    deltaic_put(&bits, buckets[j] >> 32, value_width)
    free(buckets)
    if failed:
        raise MemoryError
    carry[0] = bits.acc
    carry[1] = bits.used
    return bits.at - begin


def encode_varints(const int64_t[::1] values):
    cdef int64_t i, n = values.shape[0]
    out_array = np.empty(10 * n + 1, np.uint8)
    cdef uint8_t[::1] out = out_array
    cdef uint8_t* begin = &out[0]
    cdef uint8_t* p = begin
    with nogil:
        for i in range(n):
            p = deltaic_write(p, <uint64_t>values[i])
    return out_array[: p - begin]


def members(
    const uint8_t[::1] arena, const int64_t[::1] starts, const int32_t[::1] ordinals, int per_entry
):
    cdef int64_t i, n = ordinals.shape[0], total = 0, at = 0
    cdef uint64_t size, value, key, j
    cdef const uint8_t* p
    cdef const uint8_t* base = &arena[0]
    with nogil:
        for i in range(n):
            deltaic_read(base + starts[ordinals[i]], &size)
            total += size
    out_array = np.empty(total, np.int32)
    cdef int32_t[::1] out = out_array
    with nogil:
        for i in range(n):
            p = deltaic_read(base + starts[ordinals[i]], &size)
            key = 0
            for j in range(size):
                p = deltaic_read(p, &value)
                key += value
                if per_entry == 2:
                    p = deltaic_read(p, &value)
                p = deltaic_read(p, &value)
                out[at] = <int32_t>key
                at += 1
    return out_array


cdef inline const uint8_t* field_start(const uint8_t* p, const uint8_t[::1] kinds, int field) noexcept nogil:
    cdef int i
    for i in range(field):
        p = skip_field(p, kinds[i])
    return p


def follow(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] ordinals,
    const uint8_t[::1] kinds,
    int field,
):
    cdef int64_t i, n = ordinals.shape[0]
    cdef uint64_t value
    cdef const uint8_t* p
    cdef const uint8_t* base = &arena[0]
    out_array = np.empty(n, np.int32)
    cdef int32_t[::1] out = out_array
    with nogil:
        for i in range(n):
            p = field_start(base + starts[ordinals[i]], kinds, field)
            if p[0] == NULL_BYTE:
                out[i] = -1
            else:
                deltaic_read(p, &value)
                out[i] = <int32_t>value
    return out_array


def field_ranges(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] slots,
    const uint8_t[::1] kinds,
    int field,
):
    cdef int64_t i, n = slots.shape[0]
    cdef uint64_t value
    cdef const uint8_t* p
    cdef const uint8_t* base = &arena[0]
    begins_array = np.zeros(n, np.int64)
    ends_array = np.zeros(n, np.int64)
    cdef int64_t[::1] begins = begins_array
    cdef int64_t[::1] ends = ends_array
    with nogil:
        for i in range(n):
            if i + AHEAD < n and slots[i + AHEAD] >= 0:
                deltaic_near(base + starts[slots[i + AHEAD]])
            if slots[i] < 0:
                continue
            p = field_start(base + starts[slots[i]], kinds, field)
            if p[0] != NULL_BYTE:
                p = deltaic_read(p, &value)
                begins[i] = p - base
                ends[i] = begins[i] + <int64_t>value
    return begins_array, ends_array


cdef inline int32_t java_hash(const uint8_t* p, uint64_t size) noexcept nogil:
    cdef uint32_t h = 0
    cdef uint64_t unit
    cdef const uint8_t* end = p + size
    if size == 1 and p[0] == NULL_BYTE:
        return 0
    while p < end:
        p = deltaic_read(p, &unit)
        h = h * 31 + <uint32_t>unit
    return <int32_t>h


def key_field_hashes(
    const uint8_t[::1] arena,
    const int64_t[::1] starts,
    const int32_t[::1] ordinals,
    const uint8_t[::1] kinds,
    int field,
):
    cdef int64_t i, n = ordinals.shape[0], bad = -1
    cdef int kind = kinds[field]
    cdef uint64_t value = 0
    cdef int32_t h
    cdef const uint8_t* p
    cdef const uint8_t* base = &arena[0]
    out_array = np.empty(n, np.int32)
    cdef int32_t[::1] out = out_array
    with nogil:
        for i in range(n):
            p = field_start(base + starts[ordinals[i]], kinds, field)
            h = 0
            if kind == FLOAT:
                h = <int32_t>load_float(p)
            elif kind == DOUBLE:
                h = fold_int64(load_double(p))
            elif p[0] == NULL_BYTE:
                if kind >= STRING and bad < 0:
                    bad = i
            elif kind == BOOLEAN:
                h = 1231 if p[0] == 1 else 1237
            else:
                p = deltaic_read(p, &value)
                if kind == STRING:
                    h = java_hash(p, value)
                elif kind == BYTES:
                    h = murmur3_32(p, <Py_ssize_t>value)
                elif kind == LONG:
                    h = fold_int64((value >> 1) ^ (~(value & 1) + 1))
                elif kind == INT:
                    h = <int32_t>((<uint32_t>value >> 1) ^ (~(<uint32_t>value & 1) + 1))
                else:
                    h = <int32_t>value
            out[i] = h
    return out_array, bad


def gather_ranges(const uint8_t[::1] data, const int64_t[::1] starts, const int64_t[::1] ends):
    cdef int64_t i, n = starts.shape[0], at = 0
    offsets_array = np.empty(n + 1, np.int64)
    cdef int64_t[::1] offsets = offsets_array
    with nogil:
        offsets[0] = 0
        for i in range(n):
            at += ends[i] - starts[i]
            offsets[i + 1] = at
    out_array = np.empty(at, np.uint8)
    if at == 0:
        return offsets_array, out_array
    cdef uint8_t[::1] out = out_array
    with nogil:
        for i in range(n):
            memcpy(&out[0] + offsets[i], &data[0] + starts[i], ends[i] - starts[i])
    return offsets_array, out_array


def scatter_ranges(
    const uint8_t[::1] data, const int64_t[::1] offsets, uint8_t[::1] target, const int64_t[::1] places
):
    cdef int64_t i
    if data.shape[0] == 0 or target.shape[0] == 0:
        return
    with nogil:
        for i in range(places.shape[0]):
            memcpy(&target[0] + places[i], &data[0] + offsets[i], offsets[i + 1] - offsets[i])


def populated_slots(const uint64_t[::1] words, int64_t first, int64_t stride, int64_t count):
    cdef int64_t i, ordinal = first, limit = words.shape[0] << 6
    out_array = np.empty(count, np.int32)
    cdef int32_t[::1] out = out_array
    with nogil:
        for i in range(count):
            out[i] = <int32_t>ordinal if ordinal < limit and words[ordinal >> 6] >> (ordinal & 63) & 1 else -1
            ordinal += stride
    return out_array
