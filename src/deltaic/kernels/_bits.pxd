from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy


cdef inline uint64_t low_bits(int width) noexcept nogil:
    return <uint64_t>0xFFFFFFFFFFFFFFFF if width >= 64 else ((<uint64_t>1 << width) - 1)


cdef inline uint64_t read_bits(const uint8_t* data, int64_t bit, int width, uint64_t mask) noexcept nogil:
    """Up to 64 bits at any bit; needs 9 readable bytes from the first one on."""
    cdef uint64_t word
    cdef const uint8_t* place = data + (bit >> 3)
    cdef int shift = <int>(bit & 7)
    memcpy(&word, place, 8)
    word >>= shift
    if width > 57 and shift:
        word |= <uint64_t>place[8] << (64 - shift)
    return word & mask


cdef inline void write_bits(uint8_t* data, int64_t bit, int width, uint64_t mask, uint64_t value) noexcept nogil:
    """Overwrite up to 64 bits; needs 9 writable bytes from the first one on."""
    cdef uint64_t word
    cdef uint8_t* place = data + (bit >> 3)
    cdef int shift = <int>(bit & 7)
    memcpy(&word, place, 8)
    word = (word & ~(mask << shift)) | (value << shift)
    memcpy(place, &word, 8)
    if width > 57 and shift and width + shift > 64:
        place[8] = <uint8_t>((place[8] & ~(mask >> (64 - shift))) | (value >> (64 - shift)))
