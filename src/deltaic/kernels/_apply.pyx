"""Applying a delta to packed records. See the plain twin for what each function does."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from deltaic.kernels._bits cimport low_bits, read_bits, write_bits


cdef inline void move_bits(uint8_t* target, int64_t target_bit, const uint8_t* source, int64_t source_bit, int64_t count) noexcept nogil:
    """Copy `count` bits between arrays that do not overlap."""
    cdef int head, tail
    cdef int64_t words
    cdef uint64_t low, value
    cdef int shift
    cdef const uint8_t* src
    cdef uint8_t* dst
    if count <= 0:
        return
    if count <= 57:
        write_bits(target, target_bit, <int>count, low_bits(<int>count), read_bits(source, source_bit, <int>count, low_bits(<int>count)))
        return
    # Bring the target to a byte border, then move whole words.
    head = <int>((8 - (target_bit & 7)) & 7)
    if head:
        write_bits(target, target_bit, head, low_bits(head), read_bits(source, source_bit, head, low_bits(head)))
        target_bit += head
        source_bit += head
        count -= head
    dst = target + (target_bit >> 3)
    src = source + (source_bit >> 3)
    shift = <int>(source_bit & 7)
    if shift == 0:
        memcpy(dst, src, count >> 3)
        words = count >> 3
        dst += words
        src += words
    else:
        words = count >> 6
        while words > 0:
            memcpy(&low, src, 8)
            value = (low >> shift) | (<uint64_t>src[8] << (64 - shift))
            memcpy(dst, &value, 8)
            dst += 8
            src += 8
            words -= 1
        words = (count >> 6) << 3
    tail = <int>(count - (words << 3))
    if tail:
        write_bits(dst, 0, tail, low_bits(tail), read_bits(src, shift, tail, low_bits(tail)))


def patch_records(uint8_t[::1] target, int64_t stride_bits, const int64_t[::1] ordinals, const uint8_t[::1] source):
    cdef int64_t i, n = ordinals.shape[0]
    if n == 0 or stride_bits == 0:
        return
    with nogil:
        for i in range(n):
            move_bits(&target[0], ordinals[i] * stride_bits, &source[0], i * stride_bits, stride_bits)


def clear_records(uint8_t[::1] target, int64_t stride_bits, const int64_t[::1] ordinals):
    cdef int64_t i, bit, left, n = ordinals.shape[0]
    cdef int step
    if n == 0 or stride_bits == 0:
        return
    with nogil:
        for i in range(n):
            bit = ordinals[i] * stride_bits
            left = stride_bits
            while left > 0:
                step = 57 if left > 57 else <int>left
                write_bits(&target[0], bit, step, low_bits(step), 0)
                bit += step
                left -= step


def copy_runs(
    uint8_t[::1] target,
    const uint8_t[::1] source,
    int64_t unit_bits,
    const int64_t[::1] target_starts,
    const int64_t[::1] source_starts,
    const int64_t[::1] lengths,
):
    cdef int64_t i, n = lengths.shape[0]
    if n == 0 or target.shape[0] == 0 or source.shape[0] == 0:
        return
    with nogil:
        if unit_bits == 8:
            for i in range(n):
                if lengths[i]:
                    memcpy(&target[0] + target_starts[i], &source[0] + source_starts[i], lengths[i])
        else:
            for i in range(n):
                move_bits(&target[0], target_starts[i] * unit_bits, &source[0], source_starts[i] * unit_bits, lengths[i] * unit_bits)


def shift_fields(
    const uint8_t[::1] source,
    uint8_t[::1] target,
    int64_t stride_bits,
    int64_t count,
    const int64_t[::1] offsets,
    const int64_t[::1] widths,
    const int64_t[::1] events,
    const int64_t[:, ::1] shifts,
):
    cdef int64_t i, k, run, begin, end, fields = offsets.shape[0], runs = events.shape[0] + 1
    cdef uint64_t record, change, mask, accumulator = 0, value
    cdef uint64_t pair_change, pair_mask = 0
    cdef int filled = 0, stride, pair_stride = 0
    cdef int64_t bit = 0
    cdef uint8_t* place
    cdef const uint8_t* base
    if count == 0 or stride_bits == 0:
        return
    base = &source[0]
    place = &target[0]
    with nogil:
        if stride_bits <= 57:
            # The whole record fits one load. A field grows or shrinks by adding to the record: the sum stays inside
            # the field, so no carry leaves it.
            stride = <int>stride_bits
            mask = low_bits(stride)
            if stride <= 28:
                pair_stride = 2 * stride
                pair_mask = low_bits(pair_stride)
            begin = 0
            for run in range(runs):
                end = events[run] if run < runs - 1 else count
                if end > count:
                    end = count
                change = 0
                for k in range(fields):
                    change += <uint64_t>shifts[k, run] << offsets[k]
                if pair_stride:
                    # Two records fit one load: half the loads, half the stores.
                    pair_change = change + (change << stride)
                    while end - begin >= 2:
                        memcpy(&record, base + (bit >> 3), 8)
                        record = ((record >> (bit & 7)) + pair_change) & pair_mask
                        bit += pair_stride
                        accumulator |= record << filled
                        filled += pair_stride
                        if filled >= 64:
                            memcpy(place, &accumulator, 8)
                            place += 8
                            filled -= 64
                            accumulator = 0 if filled == 0 else record >> (pair_stride - filled)
                        begin += 2
                for i in range(begin, end):
                    memcpy(&record, base + (bit >> 3), 8)
                    record = ((record >> (bit & 7)) + change) & mask
                    bit += stride
                    accumulator |= record << filled
                    filled += stride
                    if filled >= 64:
                        memcpy(place, &accumulator, 8)
                        place += 8
                        filled -= 64
                        accumulator = 0 if filled == 0 else record >> (stride - filled)
                if end > begin:
                    begin = end
            while filled > 0:
                place[0] = <uint8_t>(accumulator & 0xFF)
                accumulator >>= 8
                place += 1
                filled -= 8
        else:
            bit = count * stride_bits
            memcpy(place, base, (bit + 7) >> 3)
            if bit & 7:
                place[bit >> 3] &= <uint8_t>((1 << (bit & 7)) - 1)
            for k in range(fields):
                mask = low_bits(<int>widths[k])
                begin = 0
                for run in range(runs):
                    end = events[run] if run < runs - 1 else count
                    if end > count:
                        end = count
                    if shifts[k, run]:
                        for i in range(begin, end):
                            bit = i * stride_bits + offsets[k]
                            value = read_bits(place, bit, <int>widths[k], mask) + <uint64_t>shifts[k, run]
                            write_bits(place, bit, <int>widths[k], mask, value & mask)
                    if end > begin:
                        begin = end
