"""Hollow's hashes for other kernels: inline, so that a module which cimports this needs no other module at run time."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    MURMUR_SEED = 0xEAB524B9


cdef inline int32_t hash_int32(int32_t value) noexcept nogil:
    cdef uint32_t k = <uint32_t>value
    k = ~k + (k << 15)
    k ^= k >> 12
    k += k << 2
    k ^= k >> 4
    k *= <uint32_t>2057
    k ^= k >> 16
    return <int32_t>k


cdef inline int32_t hash_int64(int64_t value) noexcept nogil:
    cdef uint64_t k = <uint64_t>value
    k = ~k + (k << 18)
    k ^= k >> 31
    k *= <uint64_t>21
    k ^= k >> 11
    k += k << 6
    k ^= k >> 22
    return <int32_t>k


cdef inline uint32_t murmur3_block(uint32_t block) noexcept nogil:
    block *= <uint32_t>0xCC9E2D51
    block = (block << 15) | (block >> 17)
    return block * <uint32_t>0x1B873593


cdef inline int32_t murmur3_32(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """MurmurHash3 x86 32 with Hollow's seed. `p` may be NULL if n is 0."""
    cdef uint32_t h = <uint32_t>MURMUR_SEED
    cdef uint32_t block
    cdef Py_ssize_t i = 0
    while i + 4 <= n:
        memcpy(&block, p + i, 4)
        h ^= murmur3_block(block)
        h = (h << 13) | (h >> 19)
        h = h * 5 + <uint32_t>0xE6546B64
        i += 4
    if i < n:
        block = p[i]
        if i + 1 < n:
            block |= <uint32_t>p[i + 1] << 8
        if i + 2 < n:
            block |= <uint32_t>p[i + 2] << 16
        h ^= murmur3_block(block)
    h ^= <uint32_t>n
    h ^= h >> 16
    h *= <uint32_t>0x85EBCA6B
    h ^= h >> 13
    h *= <uint32_t>0xC2B2AE35
    h ^= h >> 16
    return <int32_t>h


cdef inline int32_t fold_int64(uint64_t value) noexcept nogil:
    """High word xor low word: the hash of LONG and DOUBLE fields."""
    return <int32_t>(value ^ (value >> 32))


cdef inline uint32_t canonical_float(uint32_t bits) noexcept nogil:
    """Any NaN, also the null pattern, as Java's one NaN."""
    return 0x7FC00000 if (bits & 0x7FFFFFFF) > 0x7F800000 else bits


cdef inline uint64_t canonical_double(uint64_t bits) noexcept nogil:
    """Any NaN, also the null pattern, as Java's one NaN."""
    return 0x7FF8000000000000ULL if (bits & 0x7FFFFFFFFFFFFFFFULL) > 0x7FF0000000000000ULL else bits


cdef inline int64_t table_size(int64_t n) noexcept nogil:
    """Buckets of a set or map of n elements, 0 <= n <= 751,619,276."""
    cdef int64_t wanted = n * 10 // 7
    cdef int64_t size = 4
    if n < 2:
        return n + 1
    while size < wanted:
        size <<= 1
    return size
