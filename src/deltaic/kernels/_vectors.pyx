"""Vector deltas of whole matrices. See the plain twin for what each function does.

One pass over the rows: a mask of what changed, the runs of it, the sizes of all formats, then the row's columns.
"""

import numpy as np

from libc.math cimport INFINITY, fabs, isfinite, rint
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__SSE2__)
    #include <emmintrin.h>
    #endif

    /* Bit i of the mask is set where the words differ; words behind the last one count as equal. */
    static void deltaic_changed(const uint32_t *a, const uint32_t *b, int64_t n, uint64_t *mask) {
        int64_t i = 0;
        memset(mask, 0, (size_t)((n + 63) / 64) * 8);
    #if defined(__SSE2__)
        for (; i + 16 <= n; i += 16) {
            __m128i e0 = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(a + i)),
                                         _mm_loadu_si128((const __m128i *)(b + i)));
            __m128i e1 = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(a + i + 4)),
                                         _mm_loadu_si128((const __m128i *)(b + i + 4)));
            __m128i e2 = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(a + i + 8)),
                                         _mm_loadu_si128((const __m128i *)(b + i + 8)));
            __m128i e3 = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(a + i + 12)),
                                         _mm_loadu_si128((const __m128i *)(b + i + 12)));
            uint64_t equal = (uint32_t)_mm_movemask_epi8(
                _mm_packs_epi16(_mm_packs_epi32(e0, e1), _mm_packs_epi32(e2, e3)));
            mask[i >> 6] |= (~equal & 0xffffu) << (i & 63);
        }
    #endif
        for (; i < n; i++) mask[i >> 6] |= (uint64_t)(a[i] != b[i]) << (i & 63);
    }

    static inline int deltaic_low_zeros(uint64_t x) {
    #if defined(__GNUC__)
        return __builtin_ctzll(x);
    #else
        int n = 0;
        while (!(x & 1)) { x >>= 1; n++; }
        return n;
    #endif
    }

    static void deltaic_planes4(const uint8_t *from, uint8_t *to, int64_t n) {
        uint8_t *p0 = to, *p1 = to + n, *p2 = to + 2 * n, *p3 = to + 3 * n;
        int64_t i = 0;
    #if defined(__SSE2__)
        const __m128i low = _mm_set1_epi16(0x00ff);
        for (; i + 16 <= n; i += 16) {
            __m128i a = _mm_loadu_si128((const __m128i *)(from + 4 * i));
            __m128i b = _mm_loadu_si128((const __m128i *)(from + 4 * i + 16));
            __m128i c = _mm_loadu_si128((const __m128i *)(from + 4 * i + 32));
            __m128i d = _mm_loadu_si128((const __m128i *)(from + 4 * i + 48));
            __m128i even0 = _mm_packus_epi16(_mm_and_si128(a, low), _mm_and_si128(b, low));
            __m128i even1 = _mm_packus_epi16(_mm_and_si128(c, low), _mm_and_si128(d, low));
            __m128i odd0 = _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8));
            __m128i odd1 = _mm_packus_epi16(_mm_srli_epi16(c, 8), _mm_srli_epi16(d, 8));
            _mm_storeu_si128((__m128i *)(p0 + i),
                _mm_packus_epi16(_mm_and_si128(even0, low), _mm_and_si128(even1, low)));
            _mm_storeu_si128((__m128i *)(p2 + i),
                _mm_packus_epi16(_mm_srli_epi16(even0, 8), _mm_srli_epi16(even1, 8)));
            _mm_storeu_si128((__m128i *)(p1 + i),
                _mm_packus_epi16(_mm_and_si128(odd0, low), _mm_and_si128(odd1, low)));
            _mm_storeu_si128((__m128i *)(p3 + i),
                _mm_packus_epi16(_mm_srli_epi16(odd0, 8), _mm_srli_epi16(odd1, 8)));
        }
    #endif
        for (; i < n; i++) {
            p0[i] = from[4 * i]; p1[i] = from[4 * i + 1]; p2[i] = from[4 * i + 2]; p3[i] = from[4 * i + 3];
        }
    }

    static void deltaic_words4(const uint8_t *from, uint8_t *to, int64_t n) {
        const uint8_t *p0 = from, *p1 = from + n, *p2 = from + 2 * n, *p3 = from + 3 * n;
        int64_t i = 0;
    #if defined(__SSE2__)
        for (; i + 16 <= n; i += 16) {
            __m128i a = _mm_loadu_si128((const __m128i *)(p0 + i)), b = _mm_loadu_si128((const __m128i *)(p1 + i));
            __m128i c = _mm_loadu_si128((const __m128i *)(p2 + i)), d = _mm_loadu_si128((const __m128i *)(p3 + i));
            __m128i ab0 = _mm_unpacklo_epi8(a, b), ab1 = _mm_unpackhi_epi8(a, b);
            __m128i cd0 = _mm_unpacklo_epi8(c, d), cd1 = _mm_unpackhi_epi8(c, d);
            _mm_storeu_si128((__m128i *)(to + 4 * i), _mm_unpacklo_epi16(ab0, cd0));
            _mm_storeu_si128((__m128i *)(to + 4 * i + 16), _mm_unpackhi_epi16(ab0, cd0));
            _mm_storeu_si128((__m128i *)(to + 4 * i + 32), _mm_unpacklo_epi16(ab1, cd1));
            _mm_storeu_si128((__m128i *)(to + 4 * i + 48), _mm_unpackhi_epi16(ab1, cd1));
        }
    #endif
        for (; i < n; i++) {
            to[4 * i] = p0[i]; to[4 * i + 1] = p1[i]; to[4 * i + 2] = p2[i]; to[4 * i + 3] = p3[i];
        }
    }
    """
    void deltaic_changed(const uint32_t* a, const uint32_t* b, int64_t n, uint64_t* mask) noexcept nogil
    int deltaic_low_zeros(uint64_t x) noexcept nogil
    void deltaic_planes4(const uint8_t* source, uint8_t* to, int64_t n) noexcept nogil
    void deltaic_words4(const uint8_t* source, uint8_t* to, int64_t n) noexcept nogil

ctypedef fused small_t:
    uint8_t
    uint16_t
    uint32_t

cdef enum:
    NONE = 0
    F16 = 1
    INT8 = 2
    INT4 = 3
    AUTO = 4
    SPARSE = 0
    DENSE = 1
    RUNS = 2
    DICTIONARY = 3
    ROW_IDS = 1
    OFFSETS = 2
    GAPS = 3
    VALUES = 4
    PREV = 5
    SCALE = 6
    ZERO_POINT = 7
    RUN_OFFSETS = 8
    RUN_GAPS = 9
    RUN_LENGTHS = 10
    PATTERNS = 13
    COLUMNS = 14
    GOOD = 0
    NOT_RISING = 1
    OUT_OF_RANGE = 2
    CUT = 3
    BAD_NUMBER = 4

cdef int64_t most_zero_point = 1 << 24
cdef double least_scale = 2.0 ** -126

ctypedef struct Buffer:
    uint8_t* data
    int64_t used
    int64_t room

ctypedef struct Made:
    # A value block: its mode, parameters and size; scale and zero point of int8 and int4.
    int mode
    float scale
    int32_t zero_point
    int64_t size


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


cdef inline int put_int64(Buffer* buffer, int64_t value) noexcept nogil:
    if reserve(buffer, 8):
        return -1
    memcpy(buffer.data + buffer.used, &value, 8)
    buffer.used += 8
    return 0


cdef inline int put_word(Buffer* buffer, uint32_t value) noexcept nogil:
    if reserve(buffer, 4):
        return -1
    memcpy(buffer.data + buffer.used, &value, 4)
    buffer.used += 4
    return 0


cdef inline int64_t uleb(uint64_t value) noexcept nogil:
    cdef int64_t length = 1
    while value > 127:
        value >>= 7
        length += 1
    return length


def uleb_length(uint64_t value):
    """Bytes of an unsigned LEB128 number."""
    return uleb(value)


cdef inline int64_t size_of_block(int64_t count, int mode) noexcept nogil:
    if mode == NONE:
        return 4 * count
    if mode == F16:
        return 2 * count
    return 8 + (count if mode == INT8 else (count + 1) // 2)


def block_size(int64_t count, int mode):
    """Bytes of a value block."""
    return size_of_block(count, mode)


cdef inline float as_float(uint32_t word) noexcept nogil:
    cdef float value
    memcpy(&value, &word, 4)
    return value


cdef inline uint32_t as_word(float value) noexcept nogil:
    cdef uint32_t word
    memcpy(&word, &value, 4)
    return word


cdef inline uint32_t zigzag(uint32_t d) noexcept nogil:
    return (d << 1) ^ (<uint32_t>0 - (d >> 31))


cdef inline uint32_t unzigzag(uint32_t w) noexcept nogil:
    return (w >> 1) ^ (<uint32_t>0 - (w & 1))


cdef inline uint16_t to_half(uint32_t word) noexcept nogil:
    """To nearest, ties to even; NaN becomes sign | 7E00."""
    cdef uint32_t sign = (word >> 16) & 0x8000
    cdef uint32_t rest = word & 0x7FFFFFFF
    cdef uint32_t mantissa, shift, half, lost, middle
    if rest > 0x7F800000:
        return <uint16_t>(sign | 0x7E00)
    if rest >= 0x477FF000:
        return <uint16_t>(sign | 0x7C00)
    if rest >= 0x38800000:
        half = (rest - 0x38000000) >> 13
        lost = rest & 0x1FFF
        if lost > 0x1000 or (lost == 0x1000 and half & 1):
            half += 1
        return <uint16_t>(sign | half)
    if rest < 0x33000000:
        return <uint16_t>sign
    # Below the smallest normal half: the hidden bit moves into the fraction.
    shift = 126 - (rest >> 23)
    mantissa = (rest & 0x7FFFFF) | 0x800000
    half = mantissa >> shift
    lost = mantissa & ((<uint32_t>1 << shift) - 1)
    middle = <uint32_t>1 << (shift - 1)
    if lost > middle or (lost == middle and half & 1):
        half += 1
    return <uint16_t>(sign | half)


cdef inline uint32_t from_half(uint16_t half) noexcept nogil:
    """Widened; every NaN becomes sign | 7FC00000."""
    cdef uint32_t sign = (<uint32_t>half & 0x8000) << 16
    cdef uint32_t exponent = (half >> 10) & 31
    cdef uint32_t fraction = half & 0x3FF
    if exponent == 31:
        return sign | (<uint32_t>0x7FC00000 if fraction else <uint32_t>0x7F800000)
    if exponent:
        return sign | ((exponent + 112) << 23) | (fraction << 13)
    # A subnormal half is a whole number of 2^-24, which is exact in f32.
    return sign | as_word(<float>fraction * <float>5.9604644775390625e-08)


cdef inline uint32_t from_number(int64_t number, int64_t zero_point, float scale) noexcept nogil:
    return as_word(<float>((<double>number - <double>zero_point) * <double>scale))


cdef inline double clamped(double value, double lowest, double highest) noexcept nogil:
    return lowest if value < lowest else highest if value > highest else value


cdef int fits(const uint32_t* words, int64_t count, int mode, Made* made) noexcept nogil:
    """Whether a mode can hold the values, and with which parameters."""
    cdef int64_t i
    cdef double lowest, highest, least, most, x, zero
    cdef float scale
    cdef uint32_t rest
    made.mode = mode
    made.scale = 0
    made.zero_point = 0
    made.size = size_of_block(count, mode)
    if mode == NONE:
        return 1
    if mode == F16:
        for i in range(count):
            rest = words[i] & 0x7FFFFFFF
            if 0x477FF000 <= rest < 0x7F800000:
                return 0
        return 1
    lowest, highest = (-128, 127) if mode == INT8 else (-8, 7)
    least, most = INFINITY, -INFINITY
    for i in range(count):
        x = as_float(words[i])
        if not isfinite(x):
            return 0
        least = x if x < least else least
        most = x if x > most else most
    if count == 0 or least == most:
        made.scale = <float>fabs(least) if count and least != 0 else <float>1
        return 1
    scale = <float>((most - least) / (highest - lowest))
    if not isfinite(scale) or scale < least_scale:
        return 0
    zero = rint(lowest - least / <double>scale)
    if fabs(zero) > most_zero_point:
        return 0
    made.scale = scale
    made.zero_point = <int32_t>zero
    for i in range(count):
        x = clamped(rint(<double>as_float(words[i]) / <double>scale) + zero, lowest, highest)
        if not isfinite(as_float(from_number(<int64_t>x, made.zero_point, scale))):
            return 0
    return 1


cdef inline int64_t number_of(uint32_t word, const Made* made, int constant) noexcept nogil:
    cdef double x = as_float(word)
    if constant:
        return (x > 0) - (x < 0)
    if made.mode == INT8:
        return <int64_t>clamped(rint(x / <double>made.scale) + made.zero_point, -128, 127)
    return <int64_t>clamped(rint(x / <double>made.scale) + made.zero_point, -8, 7)


cdef inline int is_constant(const uint32_t* words, int64_t count) noexcept nogil:
    cdef int64_t i
    for i in range(1, count):
        if as_float(words[i]) != as_float(words[0]):
            return 0
    return 1


cdef void write_block(const uint32_t* words, int64_t count, const Made* made, uint8_t* to) noexcept nogil:
    cdef int64_t i
    cdef int constant
    cdef uint16_t half
    if made.mode == NONE:
        memcpy(to, words, 4 * count)
    elif made.mode == F16:
        for i in range(count):
            half = to_half(words[i])
            memcpy(to + 2 * i, &half, 2)
    else:
        constant = is_constant(words, count)
        if made.mode == INT8:
            for i in range(count):
                to[i] = <uint8_t><int8_t>number_of(words[i], made, constant)
        else:
            memset(to, 0, (count + 1) // 2)
            for i in range(count):
                to[i >> 1] |= <uint8_t>((number_of(words[i], made, constant) & 15) << (4 * (i & 1)))


cdef double worst(const uint32_t* words, int64_t count, const Made* made) noexcept nogil:
    """The largest distance of a value from what its block gives back."""
    cdef int64_t i
    cdef int constant = made.mode != F16 and is_constant(words, count)
    cdef double x, back, distance, largest = 0
    for i in range(count):
        x = as_float(words[i])
        if not isfinite(x):
            continue
        if made.mode == F16:
            back = as_float(from_half(to_half(words[i])))
        else:
            back = as_float(from_number(number_of(words[i], made, constant), made.zero_point, made.scale))
        distance = fabs(x - back)
        largest = distance if distance > largest else largest
    return largest


cdef void plan(const uint32_t* words, int64_t count, int mode, double most_error, Made* made) noexcept nogil:
    """The block that will be made: in the mode, or in the first that will do, or as it is."""
    cdef int tried
    if mode == AUTO:
        for tried in range(INT4, NONE, -1):
            if size_of_block(count, tried) < 4 * count and fits(words, count, tried, made):
                if worst(words, count, made) <= most_error:
                    return
    elif mode != NONE and fits(words, count, mode, made):
        return
    fits(words, count, NONE, made)


cdef int64_t find_runs(
    const uint32_t* old, const uint32_t* new, int64_t dims, double epsilon, uint64_t* mask, uint32_t* starts,
    uint32_t* lengths
) noexcept nogil:
    cdef int64_t words = (dims + 63) // 64
    cdef int64_t word, runs = 0, bit
    cdef int64_t end = -1
    cdef uint64_t left, close
    cdef int first, length
    deltaic_changed(old, new, dims, mask)
    if epsilon > 0:
        for word in range(words):
            left = mask[word]
            while left:
                first = deltaic_low_zeros(left)
                close = <uint64_t>1 << first
                left ^= close
                bit = 64 * word + first
                if fabs(<double>as_float(new[bit]) - <double>as_float(old[bit])) <= epsilon:
                    mask[word] ^= close
    for word in range(words):
        left = mask[word]
        while left:
            first = deltaic_low_zeros(left)
            # Ones from here on: those of the rest that are missing end the run.
            close = ~(left >> first)
            length = deltaic_low_zeros(close) if close else 64
            bit = 64 * word + first
            if bit == end:
                lengths[runs - 1] += length
            else:
                starts[runs] = <uint32_t>bit
                lengths[runs] = length
                runs += 1
            end = bit + length
            if first + length >= 64:
                break
            left &= ~<uint64_t>0 << (first + length)
    return runs


def changed_runs(const uint32_t[::1] old, const uint32_t[::1] new, double epsilon):
    """Where each run of changed dimensions starts, and how long it is."""
    cdef int64_t dims = old.shape[0], runs = 0
    starts = np.empty((dims + 1) // 2, np.uint32)
    lengths = np.empty((dims + 1) // 2, np.uint32)
    mask = np.empty((dims + 63) // 64, np.uint64)
    cdef uint32_t[::1] starts_view = starts
    cdef uint32_t[::1] lengths_view = lengths
    cdef uint64_t[::1] mask_view = mask
    if dims:
        runs = find_runs(&old[0], &new[0], dims, epsilon, &mask_view[0], &starts_view[0], &lengths_view[0])
    return starts[:runs], lengths[:runs]


cdef int choose_section(
    int64_t dense_size, int64_t runs_size, int64_t sparse_size, int rules, double* thresholds, int64_t min_run_length,
    int64_t count, int64_t dims, const uint32_t* lengths, int64_t runs
) noexcept nogil:
    cdef int64_t i, within = 0
    if rules:
        if <double>count / <double>dims > thresholds[1]:
            return DENSE
        for i in range(runs):
            if lengths[i] >= min_run_length:
                within += lengths[i]
        if <double>within / <double>count > thresholds[2]:
            return RUNS
        if <double>count / <double>dims <= thresholds[0]:
            return SPARSE
    if dense_size <= runs_size and dense_size <= sparse_size:
        return DENSE
    return RUNS if runs_size <= sparse_size else SPARSE


def choose(
    int64_t dense_size, int64_t runs_size, int64_t sparse_size, thresholds, int64_t count, int64_t dims,
    const uint32_t[::1] lengths
):
    """The section of a row: by the rules where thresholds are given and decide, else the smallest."""
    cdef double numbers[3]
    cdef int64_t shortest = 0
    cdef int64_t runs = lengths.shape[0]
    if thresholds is not None:
        numbers[0], numbers[1], numbers[2] = thresholds[0], thresholds[1], thresholds[2]
        shortest = thresholds[3]
    return choose_section(
        dense_size, runs_size, sparse_size, thresholds is not None, numbers, shortest, count, dims,
        &lengths[0] if runs else NULL, runs
    )


ctypedef struct Patterns:
    # Patterns by their hash: places[slot] is one more than the pattern's place, 0 where there is none.
    const int64_t* offsets
    const uint32_t* indices
    const uint32_t* words
    const uint32_t* ids
    uint32_t* places
    uint64_t slots


cdef inline uint64_t mixed(uint64_t hash, uint32_t index, uint32_t word) noexcept nogil:
    hash = (hash ^ (<uint64_t>index << 32 | word)) * <uint64_t>0x9E3779B97F4A7C15
    return hash ^ (hash >> 29)


cdef uint64_t hash_of(const uint32_t* indices, const uint32_t* words, int64_t count) noexcept nogil:
    cdef uint64_t hash = <uint64_t>count
    cdef int64_t i
    for i in range(count):
        hash = mixed(hash, indices[i], words[i])
    return hash


cdef int64_t find_pattern(
    const Patterns* known, const uint32_t* indices, const uint32_t* words, int64_t count, uint64_t* slot
) noexcept nogil:
    cdef uint64_t at = hash_of(indices, words, count) & (known.slots - 1)
    cdef int64_t place, start
    while known.places[at]:
        place = known.places[at] - 1
        start = known.offsets[place]
        if known.offsets[place + 1] - start == count:
            if memcmp(known.indices + start, indices, 4 * count) == 0 and memcmp(known.words + start, words, 4 * count) == 0:
                return place
        at = (at + 1) & (known.slots - 1)
    slot[0] = at
    return -1


cdef int make_table(Patterns* known, int64_t count) noexcept nogil:
    cdef int64_t place, start
    cdef uint64_t slot = 0
    known.slots = 16
    while known.slots < <uint64_t>(2 * count):
        known.slots *= 2
    known.places = <uint32_t*>calloc(known.slots, 4)
    if known.places == NULL:
        return -1
    for place in range(count):
        start = known.offsets[place]
        if find_pattern(known, known.indices + start, known.words + start, known.offsets[place + 1] - start, &slot) < 0:
            known.places[slot] = <uint32_t>(place + 1)
    return 0


ctypedef struct Work:
    # What one row needs, and all that is written.
    int64_t dims
    double epsilon
    int rules
    double thresholds[3]
    int64_t min_run_length
    int mode
    double most_error
    int prev
    int relative
    uint64_t* mask
    uint32_t* starts
    uint32_t* lengths
    uint32_t* indices
    uint32_t* few
    uint32_t* whole
    Patterns known
    Buffer buffers[4][4][COLUMNS]


cdef int put_whole_row(Work* work, const uint32_t* old, const uint32_t* new, int64_t row_id) noexcept nogil:
    cdef Buffer* columns = work.buffers[NONE][DENSE]
    cdef int64_t i, size = 4 * work.dims
    cdef uint32_t* to
    if put_int64(&columns[ROW_IDS], row_id) or reserve(&columns[VALUES], size):
        return -1
    to = <uint32_t*>(columns[VALUES].data + columns[VALUES].used)
    if work.relative:
        for i in range(work.dims):
            to[i] = zigzag(new[i] - old[i])
    else:
        memcpy(to, new, size)
    columns[VALUES].used += size
    if work.prev:
        if reserve(&columns[PREV], size):
            return -1
        memcpy(columns[PREV].data + columns[PREV].used, old, size)
        columns[PREV].used += size
    return 0


cdef int encode_row(Work* work, const uint32_t* old, const uint32_t* new, int64_t row_id) noexcept nogil:
    cdef int64_t dims = work.dims
    cdef int64_t runs = find_runs(old, new, dims, work.epsilon, work.mask, work.starts, work.lengths)
    cdef int64_t run, i, count = 0, index, end, steps = 0, heads = 0, gap, size, place
    cdef int section
    cdef uint64_t slot = 0
    cdef Made few, whole
    cdef Made* made
    cdef const uint32_t* words
    cdef Buffer* columns
    cdef uint32_t* gaps
    if runs == 0:
        return 0
    if work.lengths[0] == dims and not work.rules and work.mode == NONE and work.known.places == NULL:
        # All dimensions, so that no head can be smaller than none.
        return put_whole_row(work, old, new, row_id)
    end = 0
    for run in range(runs):
        gap = work.starts[run] - end
        heads += uleb(gap) + uleb(work.lengths[run])
        steps += uleb(gap + (run > 0)) + work.lengths[run] - 1
        end = work.starts[run] + work.lengths[run]
        for index in range(work.starts[run], end):
            work.indices[count] = <uint32_t>index
            count += 1
    if work.relative:
        for i in range(count):
            index = work.indices[i]
            work.few[i] = zigzag(new[index] - old[index])
    else:
        for i in range(count):
            work.few[i] = new[work.indices[i]]
    if work.known.places != NULL:
        place = find_pattern(&work.known, work.indices, work.few, count, &slot)
        if place >= 0:
            columns = work.buffers[NONE][DICTIONARY]
            return put_int64(&columns[ROW_IDS], row_id) or put_word(&columns[PATTERNS], work.known.ids[place])
    plan(work.few, count, work.mode, work.most_error, &few)
    if work.mode == NONE:
        # Differences of all dimensions are made only if they are written.
        fits(new, dims, NONE, &whole)
    else:
        plan(new, dims, work.mode, work.most_error, &whole)
    size = few.size + (4 * count if work.prev else 0)
    section = choose_section(
        uleb(dims) + whole.size + (4 * dims if work.prev else 0),
        uleb(runs) + uleb(dims) + heads + size,
        uleb(count) + uleb(dims) + steps + size,
        work.rules, work.thresholds, work.min_run_length, count, dims, work.lengths, runs
    )
    words = work.few
    made = &few
    if section == DENSE:
        made, words, count = &whole, new, dims
        if work.relative:
            for i in range(dims):
                work.whole[i] = zigzag(new[i] - old[i])
            words = work.whole
    columns = work.buffers[made.mode][section]
    if put_int64(&columns[ROW_IDS], row_id):
        return -1
    size = made.size - (8 if made.mode == INT8 or made.mode == INT4 else 0)
    if reserve(&columns[VALUES], size):
        return -1
    write_block(words, count, made, columns[VALUES].data + columns[VALUES].used)
    columns[VALUES].used += size
    if work.prev:
        if reserve(&columns[PREV], 4 * count):
            return -1
        if section == DENSE:
            memcpy(columns[PREV].data + columns[PREV].used, old, 4 * dims)
        else:
            for i in range(count):
                (<uint32_t*>(columns[PREV].data + columns[PREV].used))[i] = old[work.indices[i]]
        columns[PREV].used += 4 * count
    if made.mode == INT8 or made.mode == INT4:
        if put_word(&columns[SCALE], as_word(made.scale)) or put_word(&columns[ZERO_POINT], <uint32_t>made.zero_point):
            return -1
    if section == SPARSE:
        if put_int64(&columns[OFFSETS], count) or reserve(&columns[GAPS], 4 * count):
            return -1
        gaps = <uint32_t*>(columns[GAPS].data + columns[GAPS].used)
        gaps[0] = work.indices[0]
        for i in range(1, count):
            gaps[i] = work.indices[i] - work.indices[i - 1]
        columns[GAPS].used += 4 * count
    elif section == RUNS:
        if put_int64(&columns[RUN_OFFSETS], runs):
            return -1
        if reserve(&columns[RUN_GAPS], 4 * runs) or reserve(&columns[RUN_LENGTHS], 4 * runs):
            return -1
        gaps = <uint32_t*>(columns[RUN_GAPS].data + columns[RUN_GAPS].used)
        end = 0
        for run in range(runs):
            gaps[run] = work.starts[run] - <uint32_t>end
            end = work.starts[run] + work.lengths[run]
        memcpy(columns[RUN_LENGTHS].data + columns[RUN_LENGTHS].used, work.lengths, 4 * runs)
        columns[RUN_GAPS].used += 4 * runs
        columns[RUN_LENGTHS].used += 4 * runs
    return 0


cdef object taken(Buffer* buffer, object kind):
    """The content of a buffer as an array of its own."""
    array = np.empty(buffer.used, np.uint8)
    cdef uint8_t[::1] view = array
    if buffer.used:
        memcpy(&view[0], buffer.data, buffer.used)
    return array.view(kind)


cdef dict taken_columns(Buffer* columns, int section, int mode):
    kinds = {
        ROW_IDS: np.int64, OFFSETS: np.int64, GAPS: np.uint32, PREV: np.uint32, SCALE: np.float32,
        ZERO_POINT: np.int32, RUN_OFFSETS: np.int64, RUN_GAPS: np.uint32, RUN_LENGTHS: np.uint32,
        PATTERNS: np.uint32, VALUES: (np.uint32, np.uint16, np.int8, np.uint8)[mode],
    }
    found = {}
    for column, kind in kinds.items():
        if not columns[<int>column].used:
            continue
        array = taken(&columns[<int>column], kind)
        if column == OFFSETS or column == RUN_OFFSETS:
            array = np.concatenate([np.zeros(1, np.int64), np.cumsum(array)])
        found[section, column] = array
    return found


def encode_rows(
    const uint32_t[:, ::1] old,
    const uint32_t[:, ::1] new,
    const int64_t[::1] row_ids,
    double epsilon,
    thresholds,
    int mode,
    double most_error,
    bint prev,
    bint relative,
    patterns,
):
    """The columns of the rows that changed, for each mode of values; gaps and run heads are 32 bits wide."""
    cdef int64_t rows = old.shape[0], dims = old.shape[1], row
    cdef int failed = 0
    cdef int made, section, column
    cdef const int64_t[::1] offsets
    cdef const uint32_t[::1] indices
    cdef const uint32_t[::1] words
    cdef const uint32_t[::1] ids
    # Every run but the last has an unchanged dimension behind it.
    cdef Work* work = <Work*>calloc(1, sizeof(Work))
    cdef uint32_t* scratch = <uint32_t*>malloc(4 * (5 * dims + 8))
    cdef uint64_t* mask = <uint64_t*>malloc(8 * (dims // 64 + 1))
    if work == NULL or scratch == NULL or mask == NULL:
        free(work)
        free(scratch)
        free(mask)
        raise MemoryError
    try:
        work.dims, work.epsilon, work.mode, work.most_error = dims, epsilon, mode, most_error
        work.prev, work.relative = prev, relative
        if thresholds is not None:
            work.rules = 1
            work.thresholds[0], work.thresholds[1], work.thresholds[2] = thresholds[0], thresholds[1], thresholds[2]
            work.min_run_length = thresholds[3]
        work.mask, work.starts = mask, scratch
        work.lengths, work.indices = scratch + (dims + 2) // 2, scratch + 2 * ((dims + 2) // 2)
        work.few, work.whole = work.indices + dims, work.indices + 2 * dims
        if patterns is not None and len(patterns[3]) and len(patterns[1]):
            offsets, indices, words, ids = patterns
            work.known.offsets, work.known.indices = &offsets[0], &indices[0]
            work.known.words, work.known.ids = &words[0], &ids[0]
            if make_table(&work.known, ids.shape[0]):
                raise MemoryError
        if rows and dims:
            with nogil:
                for row in range(rows):
                    failed = encode_row(work, &old[row, 0], &new[row, 0], row_ids[row])
                    if failed:
                        break
        if failed:
            raise MemoryError
        answer = []
        for made in range(4):
            columns = {}
            for section in range(4):
                columns.update(taken_columns(work.buffers[made][section], section, made))
            answer.append(columns)
        return answer
    finally:
        for made in range(4):
            for section in range(4):
                for column in range(COLUMNS):
                    free(work.buffers[made][section][column].data)
        free(work.known.places)
        free(work)
        free(scratch)
        free(mask)


def quantize(const uint32_t[::1] words, int mode):
    """Values as f16, int8 or nibbles with scale and zero point; None if the mode cannot hold them."""
    cdef int64_t count = words.shape[0]
    cdef Made made
    cdef const uint32_t* first = &words[0] if count else NULL
    if not fits(first, count, mode, &made):
        return None
    size = made.size - (0 if mode == F16 else 8)
    data = np.empty(size, np.uint8)
    cdef uint8_t[::1] view = data
    if count:
        write_block(first, count, &made, &view[0])
    kind = np.uint16 if mode == F16 else np.int8 if mode == INT8 else np.uint8
    return data.view(kind), np.float32(made.scale), made.zero_point


def dequantize_rows(
    data, const int64_t[::1] counts, const float[::1] scale, const int32_t[::1] zero_point, int mode
):
    """The patterns that value blocks stand for, and the first row that cannot be (-1 if all can)."""
    cdef int64_t rows = counts.shape[0], row, i, made = 0, taken_bytes = 0, total = 0, wrong = -1, number
    cdef const uint8_t[::1] view = data.view(np.uint8)
    cdef uint32_t word
    cdef uint16_t half
    cdef uint8_t byte
    for row in range(rows):
        total += counts[row]
    words = np.empty(total, np.uint32)
    cdef uint32_t[::1] target = words
    with nogil:
        if mode == F16:
            for i in range(total):
                half = <uint16_t>(view[2 * i] | <uint16_t>view[2 * i + 1] << 8)
                target[i] = from_half(half)
        else:
            for row in range(rows):
                if not isfinite(scale[row]) or scale[row] <= 0 or zero_point[row] > most_zero_point \
                        or zero_point[row] < -most_zero_point:
                    wrong = row
                    break
                for i in range(counts[row]):
                    if mode == INT8:
                        number = <int8_t>view[taken_bytes + i]
                    else:
                        byte = view[taken_bytes + (i >> 1)]
                        number = (byte >> (4 * (i & 1))) & 15
                        number = (number ^ 8) - 8
                    word = from_number(number, zero_point[row], scale[row])
                    if (word & 0x7F800000) == 0x7F800000:
                        wrong = row
                        break
                    target[made + i] = word
                if mode == INT4 and counts[row] & 1 and wrong < 0:
                    if view[taken_bytes + (counts[row] >> 1)] >> 4:
                        wrong = row
                if wrong >= 0:
                    break
                made += counts[row]
                taken_bytes += counts[row] if mode == INT8 else (counts[row] + 1) // 2
    return words, wrong


cdef inline int read_uleb32(const uint8_t[::1] data, int64_t* position, uint32_t* value) noexcept nogil:
    cdef uint64_t found = 0
    cdef int length
    cdef uint8_t byte
    for length in range(5):
        if position[0] + length >= data.shape[0]:
            return CUT
        byte = data[position[0] + length]
        found |= <uint64_t>(byte & 0x7F) << (7 * length)
        if byte < 0x80:
            if found >> 32 or (length > 0 and byte == 0):
                return BAD_NUMBER
            position[0] += length + 1
            value[0] = <uint32_t>found
            return GOOD
    return BAD_NUMBER


def read_gaps(const uint8_t[::1] data, int64_t start, int64_t count, int64_t dims):
    """Indices from LEB128 gaps: the indices, the byte behind them or that of the fault, and the fault (0: none)."""
    indices = np.empty(min(count, data.shape[0] - start), np.uint32)
    cdef uint32_t[::1] target = indices
    cdef int64_t place, position = start, before, index = 0
    cdef uint32_t gap = 0
    cdef int wrong = GOOD
    with nogil:
        for place in range(count):
            before = position
            wrong = read_uleb32(data, &position, &gap)
            if wrong:
                break
            index += gap
            if place and not gap:
                wrong = NOT_RISING
            elif index >= dims:
                wrong = OUT_OF_RANGE
            if wrong:
                position = before
                break
            target[place] = <uint32_t>index
    return indices, position, wrong


def read_runs(const uint8_t[::1] data, int64_t start, int64_t count, int64_t dims):
    """Starts and lengths of runs from LEB128 heads, then as `read_gaps`."""
    room = min(count, (data.shape[0] - start) // 2 + 1)
    starts = np.empty(room, np.uint32)
    lengths = np.empty(room, np.uint32)
    cdef uint32_t[::1] starts_view = starts
    cdef uint32_t[::1] lengths_view = lengths
    cdef int64_t place, position = start, before, end = 0
    cdef uint32_t gap = 0, length = 0
    cdef int wrong = GOOD
    with nogil:
        for place in range(count):
            before = position
            wrong = read_uleb32(data, &position, &gap)
            if not wrong and place and not gap:
                wrong = NOT_RISING
                position = before
            if wrong:
                break
            before = position
            wrong = read_uleb32(data, &position, &length)
            if not wrong:
                if not length:
                    wrong = NOT_RISING
                elif end + gap + length > dims:
                    wrong = OUT_OF_RANGE
                if wrong:
                    position = before
            if wrong:
                break
            starts_view[place] = <uint32_t>(end + gap)
            lengths_view[place] = length
            end += <int64_t>gap + length
    return starts, lengths, position, wrong


def check_gaps(const int64_t[::1] offsets, const small_t[::1] gaps, int64_t dims):
    """The first row whose gaps cannot be, and why (-1 and 0 if all can)."""
    cdef int64_t row, place, index, start, end, rows = offsets.shape[0] - 1
    cdef int zeros
    with nogil:
        for row in range(rows):
            start, end = offsets[row], offsets[row + 1]
            if start == end:
                continue
            index = gaps[start]
            zeros = 0
            for place in range(start + 1, end):
                index += gaps[place]
                zeros |= gaps[place] == 0
            if zeros or index >= dims:
                break
        else:
            row = -1
    if row < 0:
        return -1, GOOD
    # Again in the order of the entries, for the fault that comes first.
    index = 0
    for place in range(offsets[row], offsets[row + 1]):
        if gaps[place] == 0 and place > offsets[row]:
            return row, NOT_RISING
        index += gaps[place]
        if index >= dims:
            break
    return row, OUT_OF_RANGE


def check_runs(
    const int64_t[::1] offsets, const small_t[::1] gaps, lengths, int64_t dims
):
    """How many values each row has, the first row whose runs cannot be, and why."""
    counts = np.zeros(offsets.shape[0] - 1, np.int64)
    cdef int64_t[::1] target = counts
    # One width for both: runs are far fewer than values.
    cdef const uint32_t[::1] wide = lengths.astype(np.uint32, copy=False)
    cdef int64_t row, place, end, rows = offsets.shape[0] - 1
    cdef int wrong = GOOD
    with nogil:
        for row in range(rows):
            end = 0
            for place in range(offsets[row], offsets[row + 1]):
                if (gaps[place] == 0 and place > offsets[row]) or wide[place] == 0:
                    wrong = NOT_RISING
                    break
                end += <int64_t>gaps[place] + wide[place]
                if end > dims:
                    wrong = OUT_OF_RANGE
                    break
                target[row] += wide[place]
            if wrong:
                break
    return counts, (row if wrong else -1), wrong


def indices_of_gaps(const int64_t[::1] offsets, const small_t[::1] gaps):
    """The index of every entry within its row."""
    indices = np.empty(gaps.shape[0], np.uint32)
    cdef uint32_t[::1] target = indices
    cdef int64_t row, place
    cdef uint32_t index
    with nogil:
        for row in range(offsets.shape[0] - 1):
            index = 0
            for place in range(offsets[row], offsets[row + 1]):
                index += gaps[place]
                target[place] = index
    return indices


def indices_of_runs(const int64_t[::1] offsets, const small_t[::1] gaps, lengths):
    """The index of every value of runs within its row."""
    cdef const uint32_t[::1] wide = lengths.astype(np.uint32, copy=False)
    indices = np.empty(int(lengths.sum(dtype=np.int64)), np.uint32)
    cdef uint32_t[::1] target = indices
    cdef int64_t row, place, made = 0
    cdef uint32_t index, step
    with nogil:
        for row in range(offsets.shape[0] - 1):
            index = 0
            for place in range(offsets[row], offsets[row + 1]):
                index += gaps[place]
                for step in range(wide[place]):
                    target[made] = index
                    index += 1
                    made += 1
    return indices


def apply_sparse(
    uint32_t[:, ::1] matrix, const int64_t[::1] targets, const int64_t[::1] offsets, const small_t[::1] gaps,
    const uint32_t[::1] words, bint relative
):
    """Put the entries of sparse rows into the rows of a matrix."""
    cdef int64_t row, place, at, index
    with nogil:
        for row in range(targets.shape[0]):
            at = targets[row]
            index = 0
            if relative:
                for place in range(offsets[row], offsets[row + 1]):
                    index += gaps[place]
                    matrix[at, index] += unzigzag(words[place])
            else:
                for place in range(offsets[row], offsets[row + 1]):
                    index += gaps[place]
                    matrix[at, index] = words[place]


def apply_runs(
    uint32_t[:, ::1] matrix, const int64_t[::1] targets, const int64_t[::1] offsets, const small_t[::1] gaps, lengths,
    const uint32_t[::1] words, bint relative
):
    """Put the values of runs into the rows of a matrix."""
    cdef const uint32_t[::1] wide = lengths.astype(np.uint32, copy=False)
    cdef int64_t row, place, at, index, step, taken_words = 0
    with nogil:
        for row in range(targets.shape[0]):
            at = targets[row]
            index = 0
            for place in range(offsets[row], offsets[row + 1]):
                index += gaps[place]
                if relative:
                    for step in range(wide[place]):
                        matrix[at, index + step] += unzigzag(words[taken_words + step])
                else:
                    for step in range(wide[place]):
                        matrix[at, index + step] = words[taken_words + step]
                index += wide[place]
                taken_words += wide[place]


def apply_dense(uint32_t[:, ::1] matrix, const int64_t[::1] targets, const uint32_t[::1] words, bint relative):
    """Put whole rows into a matrix."""
    cdef int64_t row, index, at, dims = matrix.shape[1]
    with nogil:
        for row in range(targets.shape[0]):
            at = targets[row]
            if relative:
                for index in range(dims):
                    matrix[at, index] += unzigzag(words[row * dims + index])
            else:
                for index in range(dims):
                    matrix[at, index] = words[row * dims + index]


def differs_sparse(
    const uint32_t[:, ::1] matrix, const int64_t[::1] targets, const int64_t[::1] offsets, const small_t[::1] gaps,
    const uint32_t[::1] prev
):
    """The first sparse row whose previous values are not those of the matrix; -1 if there is none."""
    cdef int64_t row, place, at, index
    cdef uint32_t wrong
    with nogil:
        for row in range(targets.shape[0]):
            at = targets[row]
            index = 0
            wrong = 0
            for place in range(offsets[row], offsets[row + 1]):
                index += gaps[place]
                wrong |= matrix[at, index] ^ prev[place]
            if wrong:
                break
        else:
            row = -1
    return row


def differs_runs(
    const uint32_t[:, ::1] matrix, const int64_t[::1] targets, const int64_t[::1] offsets, const small_t[::1] gaps,
    lengths, const uint32_t[::1] prev
):
    """The same for rows of runs."""
    cdef const uint32_t[::1] wide = lengths.astype(np.uint32, copy=False)
    cdef int64_t row, place, at, index, step, taken_words = 0
    cdef uint32_t wrong
    with nogil:
        for row in range(targets.shape[0]):
            at = targets[row]
            index = 0
            wrong = 0
            for place in range(offsets[row], offsets[row + 1]):
                index += gaps[place]
                for step in range(wide[place]):
                    wrong |= matrix[at, index + step] ^ prev[taken_words + step]
                index += wide[place]
                taken_words += wide[place]
            if wrong:
                break
        else:
            row = -1
    return row


def to_planes(const uint8_t[::1] data, int64_t width):
    """All first bytes of the words, then all second bytes, and so on."""
    cdef int64_t count = data.shape[0] // width, plane, place
    planes = np.empty(data.shape[0], np.uint8)
    cdef uint8_t[::1] target = planes
    if count:
        with nogil:
            if width == 4:
                deltaic_planes4(&data[0], &target[0], count)
            else:
                for plane in range(width):
                    for place in range(count):
                        target[plane * count + place] = data[place * width + plane]
    return planes


def from_planes(const uint8_t[::1] data, int64_t width):
    """The words again."""
    cdef int64_t count = data.shape[0] // width, plane, place
    words = np.empty(data.shape[0], np.uint8)
    cdef uint8_t[::1] target = words
    if count:
        with nogil:
            if width == 4:
                deltaic_words4(&data[0], &target[0], count)
            else:
                for plane in range(width):
                    for place in range(count):
                        target[place * width + plane] = data[plane * count + place]
    return words
