"""CRC-32C of buffers: by the processor's own instruction where there is one, else by tables.

The instruction takes three cycles but starts each cycle, so three stretches of the buffer run side by side and are
joined by a shift "over n zero bytes" read from tables. Polynomial 0x1EDC6F41, reflected, as in iSCSI and Parquet's kin.
"""

from libc.stdint cimport uint32_t, uint64_t

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    #define DELTAIC_POLY 0x82f63b78u
    #define DELTAIC_LONG 8192
    #define DELTAIC_SHORT 256
    #define DELTAIC_POWERS 72

    #if defined(__GNUC__) && defined(__x86_64__)
    #include <nmmintrin.h>
    #define DELTAIC_CRC_TARGET __attribute__((target("sse4.2")))
    #define DELTAIC_CRC64(crc, word) _mm_crc32_u64(crc, word)
    #define DELTAIC_CRC8(crc, byte) _mm_crc32_u8((uint32_t)(crc), byte)
    #define DELTAIC_CRC_HERE (__builtin_cpu_init(), __builtin_cpu_supports("sse4.2"))
    #elif defined(__ARM_FEATURE_CRC32)
    #include <arm_acle.h>
    #define DELTAIC_CRC_TARGET
    #define DELTAIC_CRC64(crc, word) __crc32cd((uint32_t)(crc), word)
    #define DELTAIC_CRC8(crc, byte) __crc32cb((uint32_t)(crc), byte)
    #define DELTAIC_CRC_HERE 1
    #endif

    static uint32_t deltaic_table[8][256];
    static uint32_t deltaic_over_long[4][256];
    static uint32_t deltaic_over_short[4][256];
    static uint32_t deltaic_power[DELTAIC_POWERS];  /* x to the power of 2 to the k */
    static int deltaic_crc_fast = 0;

    static uint32_t deltaic_times(uint32_t a, uint32_t b) {
        uint32_t mask = 1u << 31, product = 0;
        for (;;) {
            if (a & mask) {
                product ^= b;
                if ((a & (mask - 1)) == 0) return product;
            }
            mask >>= 1;
            if (mask == 0) return product;
            b = b & 1 ? (b >> 1) ^ DELTAIC_POLY : b >> 1;
        }
    }

    static uint32_t deltaic_over_zeros(uint64_t bytes) {
        uint32_t product = 1u << 31;
        int k = 3;
        for (; bytes; bytes >>= 1, k++)
            if (bytes & 1) product = deltaic_times(deltaic_power[k], product);
        return product;
    }

    static void deltaic_crc_prepare(void) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = i;
            for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >> 1) ^ DELTAIC_POLY : crc >> 1;
            deltaic_table[0][i] = crc;
        }
        for (uint32_t i = 0; i < 256; i++)
            for (int k = 1; k < 8; k++) {
                uint32_t crc = deltaic_table[k - 1][i];
                deltaic_table[k][i] = deltaic_table[0][crc & 255] ^ (crc >> 8);
            }
        deltaic_power[0] = 1u << 30;
        for (int k = 1; k < DELTAIC_POWERS; k++)
            deltaic_power[k] = deltaic_times(deltaic_power[k - 1], deltaic_power[k - 1]);
        uint32_t over_long = deltaic_over_zeros(DELTAIC_LONG), over_short = deltaic_over_zeros(DELTAIC_SHORT);
        for (int j = 0; j < 4; j++)
            for (uint32_t i = 0; i < 256; i++) {
                deltaic_over_long[j][i] = deltaic_times(over_long, i << (8 * j));
                deltaic_over_short[j][i] = deltaic_times(over_short, i << (8 * j));
            }
    #ifdef DELTAIC_CRC_TARGET
        deltaic_crc_fast = DELTAIC_CRC_HERE ? 1 : 0;
    #endif
    }

    static uint64_t deltaic_word(const unsigned char *at) {
        uint64_t word;
        memcpy(&word, at, 8);
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
    #endif
        return word;
    }

    static uint32_t deltaic_crc_by_tables(uint32_t crc, const unsigned char *at, size_t n) {
        crc = ~crc;
        for (; n >= 8; n -= 8, at += 8) {
            uint64_t word = deltaic_word(at) ^ crc;
            crc = deltaic_table[7][word & 255] ^ deltaic_table[6][(word >> 8) & 255]
                ^ deltaic_table[5][(word >> 16) & 255] ^ deltaic_table[4][(word >> 24) & 255]
                ^ deltaic_table[3][(word >> 32) & 255] ^ deltaic_table[2][(word >> 40) & 255]
                ^ deltaic_table[1][(word >> 48) & 255] ^ deltaic_table[0][word >> 56];
        }
        for (; n; n--) crc = deltaic_table[0][(crc ^ *at++) & 255] ^ (crc >> 8);
        return ~crc;
    }

    #ifdef DELTAIC_CRC_TARGET
    static inline uint32_t deltaic_shift(uint32_t table[4][256], uint32_t crc) {
        return table[0][crc & 255] ^ table[1][(crc >> 8) & 255] ^ table[2][(crc >> 16) & 255] ^ table[3][crc >> 24];
    }

    #define DELTAIC_STRETCHES(SIZE, TABLE)                                                   \\
        while (n >= 3 * SIZE) {                                                              \\
            uint64_t second = 0, third = 0;                                                  \\
            for (size_t i = 0; i < SIZE; i += 8) {                                           \\
                first = DELTAIC_CRC64(first, deltaic_word(at + i));                          \\
                second = DELTAIC_CRC64(second, deltaic_word(at + SIZE + i));                 \\
                third = DELTAIC_CRC64(third, deltaic_word(at + 2 * SIZE + i));               \\
            }                                                                                \\
            first = deltaic_shift(TABLE, (uint32_t)first) ^ second;                          \\
            first = deltaic_shift(TABLE, (uint32_t)first) ^ third;                           \\
            at += 3 * SIZE;                                                                  \\
            n -= 3 * SIZE;                                                                   \\
        }

    DELTAIC_CRC_TARGET static uint32_t deltaic_crc_by_instruction(uint32_t crc, const unsigned char *at, size_t n) {
        uint64_t first = ~crc;
        DELTAIC_STRETCHES(DELTAIC_LONG, deltaic_over_long)
        DELTAIC_STRETCHES(DELTAIC_SHORT, deltaic_over_short)
        for (; n >= 8; n -= 8, at += 8) first = DELTAIC_CRC64(first, deltaic_word(at));
        for (; n; n--) first = DELTAIC_CRC8(first, *at++);
        return ~(uint32_t)first;
    }
    #endif

    static uint32_t deltaic_crc(uint32_t crc, const unsigned char *at, size_t n) {
    #ifdef DELTAIC_CRC_TARGET
        if (deltaic_crc_fast) return deltaic_crc_by_instruction(crc, at, n);
    #endif
        return deltaic_crc_by_tables(crc, at, n);
    }
    """
    void deltaic_crc_prepare() nogil
    uint32_t deltaic_crc(uint32_t crc, const unsigned char *at, size_t n) nogil
    uint32_t deltaic_crc_by_tables(uint32_t crc, const unsigned char *at, size_t n) nogil
    uint32_t deltaic_times(uint32_t a, uint32_t b) nogil
    uint32_t deltaic_over_zeros(uint64_t length) nogil
    int deltaic_crc_fast

deltaic_crc_prepare()


def accelerated():
    """True if the processor's instruction is used."""
    return bool(deltaic_crc_fast)


def crc32c(const unsigned char[::1] data, uint32_t value=0):
    """The checksum of the bytes, continued from the checksum `value` of what came before them."""
    cdef size_t length = data.shape[0]
    cdef const unsigned char *start
    if length:
        start = &data[0]
        with nogil:
            value = deltaic_crc(value, start, length)
    return value


def crc32c_by_tables(const unsigned char[::1] data, uint32_t value=0):
    """The same without the processor's instruction, as machines without it compute it."""
    cdef size_t length = data.shape[0]
    cdef const unsigned char *start
    if length:
        start = &data[0]
        with nogil:
            value = deltaic_crc_by_tables(value, start, length)
    return value


def combine(uint32_t first, uint32_t second, uint64_t second_length):
    """The checksum of two stretches from theirs and the length of the second."""
    return deltaic_times(deltaic_over_zeros(second_length), first) ^ second
