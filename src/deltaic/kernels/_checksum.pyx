"""Hollow's checksum, folded shard by shard (hollow-blob.md, "checksum").

Each function takes the running value of a type and one packed shard, and gives the new running value. `populated`
has bit o % 64 of word o // 64 set for every populated ordinal o; record i of shard s of N has ordinal i * N + s.
End indexes that fall, or point past the data, are clamped: a damaged shard gives a number, not a crash.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from deltaic.kernels._bits cimport low_bits, read_bits
from deltaic.kernels._hashing cimport hash_int32, hash_int64, murmur3_32

cdef enum:
    NULL_FIELD = 0x7FFFFFFF

ctypedef const uint8_t* Data


def object_shard(
    int32_t checksum,
    int64_t shard_number,
    int64_t shard_count,
    const uint8_t[::1] records not None,
    int64_t bits_per_record,
    const int64_t[::1] field_offsets not None,
    const int64_t[::1] field_widths not None,
    const uint8_t[::1] field_kinds not None,
    list variable not None,
    const uint64_t[::1] populated not None,
    int64_t max_ordinal,
) -> int:
    """Fold an OBJECT shard; the fields come in name order, kind 1 is STRING or BYTES, 0 any other."""
    cdef Py_ssize_t fields = field_offsets.shape[0]
    cdef Py_ssize_t field
    cdef int64_t record, ordinal, at, start, end
    cdef int64_t slots = slots_to_visit(populated, max_ordinal, shard_number, shard_count)
    cdef uint64_t value, mask
    cdef int width
    cdef int32_t c = checksum
    cdef const uint8_t* p = &records[0] if records.shape[0] else NULL
    cdef const uint8_t[::1] view
    cdef Data* data = <Data*>malloc((fields + 1) * sizeof(Data))
    cdef int64_t* sizes = <int64_t*>malloc((fields + 1) * sizeof(int64_t))
    try:
        if data == NULL or sizes == NULL:
            raise MemoryError
        for field in range(fields):
            data[field] = NULL
            sizes[field] = 0
            if field_kinds[field]:
                view = variable[field]
                sizes[field] = view.shape[0]
                if view.shape[0]:
                    data[field] = &view[0]
        with nogil:
            for record in range(slots):
                ordinal = record * shard_count + shard_number
                if not is_populated(populated, ordinal):
                    continue
                c = apply_int(c, <int32_t>ordinal)
                for field in range(fields):
                    width = <int>field_widths[field]
                    at = record * bits_per_record + field_offsets[field]
                    value = field_bits(p, at, width)
                    mask = low_bits(width)
                    if field_kinds[field] == 0:
                        if value == mask:
                            c = apply_int(c, NULL_FIELD)
                        else:
                            c = hash_int32(c ^ hash_int64(<int64_t>value))
                        continue
                    mask >>= 1
                    if width == 0 or value > mask:
                        c = apply_int(c, -1)
                        continue
                    start = <int64_t>(field_bits(p, at - bits_per_record, width) & mask) if record else 0
                    end = <int64_t>value
                    clamp(&start, &end, sizes[field])
                    c = apply_int(c, murmur3_32(data[field] + start, end - start))
    finally:
        free(data)
        free(sizes)
    return c


def list_shard(
    int32_t checksum,
    int64_t shard_number,
    int64_t shard_count,
    const uint8_t[::1] pointers not None,
    int bits_per_pointer,
    const uint8_t[::1] elements not None,
    int bits_per_element,
    int64_t total_elements,
    const uint64_t[::1] populated not None,
    int64_t max_ordinal,
) -> int:
    """Fold a LIST shard."""
    cdef int64_t record, ordinal, start, end, next_start = 0, i
    cdef int64_t slots = slots_to_visit(populated, max_ordinal, shard_number, shard_count)
    cdef int32_t c = checksum
    cdef const uint8_t* ends = &pointers[0] if pointers.shape[0] else NULL
    cdef const uint8_t* p = &elements[0] if elements.shape[0] else NULL
    with nogil:
        for record in range(slots):
            start = next_start
            end = <int64_t>field_bits(ends, record * bits_per_pointer, bits_per_pointer)
            next_start = end
            ordinal = record * shard_count + shard_number
            if not is_populated(populated, ordinal):
                continue
            clamp(&start, &end, total_elements)
            c = apply_int(c, <int32_t>ordinal)
            for i in range(start, end):
                c = apply_int(c, <int32_t>field_bits(p, i * bits_per_element, bits_per_element))
    return c


def set_shard(
    int32_t checksum,
    int64_t shard_number,
    int64_t shard_count,
    const uint8_t[::1] pointers not None,
    int bits_per_pointer,
    int bits_per_size,
    const uint8_t[::1] buckets not None,
    int bits_per_element,
    int64_t total_buckets,
    const uint64_t[::1] populated not None,
    int64_t max_ordinal,
) -> int:
    """Fold a SET shard."""
    return fold_buckets(
        checksum, shard_number, shard_count, pointers, bits_per_pointer, bits_per_size,
        buckets, bits_per_element, -1, total_buckets, populated, max_ordinal,
    )


def map_shard(
    int32_t checksum,
    int64_t shard_number,
    int64_t shard_count,
    const uint8_t[::1] pointers not None,
    int bits_per_pointer,
    int bits_per_size,
    const uint8_t[::1] buckets not None,
    int bits_per_key,
    int bits_per_value,
    int64_t total_buckets,
    const uint64_t[::1] populated not None,
    int64_t max_ordinal,
) -> int:
    """Fold a MAP shard."""
    return fold_buckets(
        checksum, shard_number, shard_count, pointers, bits_per_pointer, bits_per_size,
        buckets, bits_per_key, bits_per_value, total_buckets, populated, max_ordinal,
    )


cdef int32_t fold_buckets(
    int32_t c,
    int64_t shard_number,
    int64_t shard_count,
    const uint8_t[::1] pointers,
    int bits_per_pointer,
    int bits_per_size,
    const uint8_t[::1] buckets,
    int bits_per_key,
    int bits_per_value,
    int64_t total_buckets,
    const uint64_t[::1] populated,
    int64_t max_ordinal,
) noexcept:
    """Sets and maps; `bits_per_value` is negative for a set."""
    cdef int64_t record, ordinal, start, end, next_start = 0, i
    cdef int64_t slots = slots_to_visit(populated, max_ordinal, shard_number, shard_count)
    cdef int64_t pointer_bits = bits_per_pointer + bits_per_size
    cdef int64_t bucket_bits = bits_per_key + (bits_per_value if bits_per_value > 0 else 0)
    cdef uint64_t key, empty = low_bits(bits_per_key)
    cdef const uint8_t* ends = &pointers[0] if pointers.shape[0] else NULL
    cdef const uint8_t* p = &buckets[0] if buckets.shape[0] else NULL
    with nogil:
        for record in range(slots):
            start = next_start
            end = <int64_t>field_bits(ends, record * pointer_bits, bits_per_pointer)
            next_start = end
            ordinal = record * shard_count + shard_number
            if not is_populated(populated, ordinal):
                continue
            clamp(&start, &end, total_buckets)
            c = apply_int(c, <int32_t>ordinal)
            for i in range(start, end):
                key = field_bits(p, i * bucket_bits, bits_per_key)
                if key == empty:
                    continue
                c = apply_int(c, <int32_t>(i - start))
                c = apply_int(c, <int32_t>key)
                if bits_per_value >= 0:
                    c = apply_int(c, <int32_t>field_bits(p, i * bucket_bits + bits_per_key, bits_per_value))
    return c


cdef inline int64_t slots_to_visit(
    const uint64_t[::1] populated, int64_t max_ordinal, int64_t shard_number, int64_t shard_count
) noexcept nogil:
    """How many records can be populated: a type of no bits may claim any number of them."""
    cdef int64_t within = (populated.shape[0] * 64 - shard_number + shard_count - 1) // shard_count
    return min(max_ordinal + 1, within) if populated.shape[0] else 0


cdef inline int32_t apply_int(int32_t checksum, int32_t value) noexcept nogil:
    return hash_int32(checksum ^ hash_int32(value))


cdef inline uint64_t field_bits(const uint8_t* p, int64_t at, int width) noexcept nogil:
    # A field of no bits may belong to an array of no bytes.
    return read_bits(p, at, width, low_bits(width)) if width else 0


cdef inline bint is_populated(const uint64_t[::1] words, int64_t ordinal) noexcept nogil:
    return (words[ordinal >> 6] >> (ordinal & 63)) & 1


cdef inline void clamp(int64_t* start, int64_t* end, int64_t size) noexcept nogil:
    if end[0] < 0 or end[0] > size:
        end[0] = size
    if start[0] < 0 or start[0] > end[0]:
        start[0] = end[0]
