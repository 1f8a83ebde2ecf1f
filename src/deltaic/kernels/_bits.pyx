"""Bit-packed columns: decode, gather, store, check. See the plain twin for what each function does."""

cimport cython
import numpy as np
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from deltaic.kernels._bits cimport low_bits, read_bits, write_bits

cdef extern from *:
    """
    #define deltaic_swap64(x) __builtin_bswap64(x)
    #define deltaic_lowest_bit(x) __builtin_ctzll(x)
    #define deltaic_bit_count(x) __builtin_popcountll(x)
    """
    uint64_t deltaic_swap64(uint64_t) nogil
    int deltaic_lowest_bit(uint64_t) nogil
    int deltaic_bit_count(uint64_t) nogil


def swap_words(const uint8_t[::1] source, uint8_t[::1] target):
    cdef int64_t i, n = source.shape[0] >> 3
    cdef uint64_t word
    cdef const uint8_t* src
    cdef uint8_t* dst
    if n == 0:
        return
    src = &source[0]
    dst = &target[0]
    with nogil:
        for i in range(n):
            memcpy(&word, src + 8 * i, 8)
            word = deltaic_swap64(word)
            memcpy(dst + 8 * i, &word, 8)


def decode(const uint8_t[::1] data, int64_t start_bit, int64_t stride_bits, int width, int64_t count):
    out = np.empty(count, np.uint64)
    cdef uint64_t[::1] values = out
    cdef int64_t i, bit = start_bit
    cdef uint64_t word, mask = low_bits(width)
    cdef const uint8_t* base
    if count == 0:
        return out
    if width == 0:
        out[:] = 0
        return out
    base = &data[0]
    with nogil:
        if width <= 57:
            for i in range(count):
                memcpy(&word, base + (bit >> 3), 8)
                values[i] = (word >> (bit & 7)) & mask
                bit += stride_bits
        else:
            for i in range(count):
                values[i] = read_bits(base, bit, width, mask)
                bit += stride_bits
    return out


def gather(const uint8_t[::1] data, int64_t stride_bits, int64_t offset_bits, int width, const int64_t[::1] ordinals):
    cdef int64_t i, count = ordinals.shape[0]
    out = np.empty(count, np.uint64)
    cdef uint64_t[::1] values = out
    cdef uint64_t mask = low_bits(width)
    cdef const uint8_t* base
    if count == 0:
        return out
    if width == 0:
        out[:] = 0
        return out
    base = &data[0]
    with nogil:
        for i in range(count):
            values[i] = read_bits(base, ordinals[i] * stride_bits + offset_bits, width, mask)
    return out


def store(uint8_t[::1] data, int64_t start_bit, int64_t stride_bits, int width, const uint64_t[::1] values):
    cdef int64_t i, bit = start_bit, count = values.shape[0]
    cdef uint64_t mask = low_bits(width)
    cdef uint8_t* base
    if count == 0 or width == 0:
        return
    base = &data[0]
    with nogil:
        for i in range(count):
            write_bits(base, bit, width, mask, values[i] & mask)
            bit += stride_bits


def pack(const uint64_t[::1] values, int width, uint8_t[::1] data, int64_t start_bit):
    cdef int64_t i, count = values.shape[0]
    cdef uint64_t accumulator, value, mask = low_bits(width)
    cdef int filled
    cdef uint8_t* place
    if count == 0 or width == 0:
        return
    place = &data[0] + (start_bit >> 3)
    filled = <int>(start_bit & 7)
    accumulator = place[0] & ((1 << filled) - 1)
    with nogil:
        for i in range(count):
            value = values[i] & mask
            accumulator |= value << filled
            filled += width
            if filled >= 64:
                memcpy(place, &accumulator, 8)
                place += 8
                filled -= 64
                # A shift by the full width of the word is undefined in C, so an exact fit leaves nothing over.
                accumulator = 0 if filled == 0 else value >> (width - filled)
        while filled > 0:
            place[0] = <uint8_t>(accumulator & 0xFF) if filled >= 8 else <uint8_t>((place[0] & ~((1 << filled) - 1)) | (accumulator & ((1 << filled) - 1)))
            accumulator >>= 8
            place += 1
            filled -= 8


def scatter(uint8_t[::1] data, int64_t stride_bits, int64_t offset_bits, int width, const int64_t[::1] ordinals, const uint64_t[::1] values):
    cdef int64_t i, count = ordinals.shape[0]
    cdef uint64_t mask = low_bits(width)
    cdef uint8_t* base
    if count == 0 or width == 0:
        return
    base = &data[0]
    with nogil:
        for i in range(count):
            write_bits(base, ordinals[i] * stride_bits + offset_bits, width, mask, values[i] & mask)


def first_fall(const uint8_t[::1] data, int64_t start_bit, int64_t stride_bits, int width, int64_t count):
    cdef int64_t i, bit = start_bit, fall = -1
    cdef uint64_t value, previous = 0, mask = low_bits(width)
    cdef const uint8_t* base
    if count == 0 or width == 0:
        return -1, 0
    base = &data[0]
    with nogil:
        for i in range(count):
            value = read_bits(base, bit, width, mask)
            if value < previous:
                fall = i
                break
            previous = value
            bit += stride_bits
    return fall, previous


def largest(const uint8_t[::1] data, int64_t start_bit, int64_t stride_bits, int width, int64_t count, bint ones_are_null):
    cdef int64_t i, bit = start_bit
    cdef uint64_t value, best = 0, mask = low_bits(width)
    cdef bint found = False
    cdef const uint8_t* base
    if count == 0 or width == 0:
        return -1
    base = &data[0]
    with nogil:
        if ones_are_null:
            # Adding one (modulo the width) turns null into 0, so one comparison does for both.
            for i in range(count):
                value = (read_bits(base, bit, width, mask) + 1) & mask
                if value > best:
                    best = value
                bit += stride_bits
        else:
            for i in range(count):
                value = read_bits(base, bit, width, mask)
                if value > best:
                    best = value
                bit += stride_bits
            found = True
    if ones_are_null:
        return <object>best - 1
    return best


def varints(const uint8_t[::1] data):
    cdef int64_t i = 0, n = data.shape[0], count = 0
    cdef uint64_t value
    cdef int length
    cdef bint bad = False
    out = np.empty(n, np.int64)
    cdef int64_t[::1] values = out
    if n == 0:
        return out
    with nogil:
        while i < n:
            value = 0
            length = 0
            if data[i] == 0x80:
                bad = True
                break
            while True:
                value = (value << 7) | (data[i] & 0x7F)
                length += 1
                i += 1
                if data[i - 1] < 0x80:
                    break
                if i >= n or length >= 5:
                    bad = True
                    break
            if bad:
                break
            values[count] = <int64_t>(value & <uint64_t>0xFFFFFFFF)
            count += 1
    if bad:
        return None
    return out[:count]


def check_buckets(
    const uint8_t[::1] pointers,
    int bits_per_pointer,
    int bits_per_size,
    const uint8_t[::1] buckets,
    int bits_per_bucket,
    int bits_per_key,
    int64_t count,
    int64_t capacity,
):
    cdef int64_t i, bucket, start = 0, end, size, filled, room, bad = -1
    cdef int stride = bits_per_pointer + bits_per_size
    cdef uint64_t key, value, best_key = 0, best_value = 0
    cdef uint64_t pointer_mask = low_bits(bits_per_pointer), size_mask = low_bits(bits_per_size)
    cdef uint64_t key_mask = low_bits(bits_per_key), value_mask = low_bits(bits_per_bucket - bits_per_key)
    cdef int bits_per_value = bits_per_bucket - bits_per_key
    cdef bint any_key = False
    cdef const uint8_t* base
    cdef const uint8_t* table
    if count == 0 or stride == 0:
        return -1, -1, -1, 0
    base = &pointers[0]
    table = &buckets[0]
    with nogil:
        for i in range(count):
            end = <int64_t>read_bits(base, i * stride, bits_per_pointer, pointer_mask)
            size = <int64_t>read_bits(base, i * stride + bits_per_pointer, bits_per_size, size_mask)
            if end < start or end > capacity:
                bad = i
                break
            room = end - start
            if room & (room - 1) or (size >= room and (size or room)) and not (size == 0 and room == 0):
                bad = i
                break
            filled = 0
            for bucket in range(start, end):
                key = read_bits(table, bucket * bits_per_bucket, bits_per_key, key_mask)
                if key != key_mask:
                    filled += 1
                    if key > best_key:
                        best_key = key
                    any_key = True
                    if bits_per_value:
                        value = read_bits(table, bucket * bits_per_bucket + bits_per_key, bits_per_value, value_mask)
                        if value > best_value:
                            best_value = value
            if filled != size:
                bad = i
                break
            start = end
    if any_key:
        return bad, best_key, best_value, start
    return bad, -1, -1, start


def set_bits(uint64_t[::1] words, const int64_t[::1] ordinals):
    cdef int64_t i
    with nogil:
        for i in range(ordinals.shape[0]):
            words[ordinals[i] >> 6] |= <uint64_t>1 << (ordinals[i] & 63)


def list_bits(const uint64_t[::1] words):
    cdef int64_t i, n = words.shape[0], count = 0, place = 0
    cdef uint64_t word
    with nogil:
        for i in range(n):
            count += deltaic_bit_count(words[i])
    out = np.empty(count, np.int64)
    cdef int64_t[::1] ordinals = out
    with nogil:
        for i in range(n):
            word = words[i]
            while word:
                ordinals[place] = i * 64 + deltaic_lowest_bit(word)
                place += 1
                word &= word - 1
    return out
