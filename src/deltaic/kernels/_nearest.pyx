"""Products of rows with a query, and candidates among scores. See the plain twin for what each function does."""

cimport cython
from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>

    /* One binary for every processor of a kind: the loader takes the widest that is there. */
    #if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
    #define DELTAIC_WIDEST __attribute__((target_clones("avx512f", "arch=haswell", "default")))
    #else
    #define DELTAIC_WIDEST
    #endif

    DELTAIC_WIDEST
    static void deltaic_products(const float *rows, int64_t count, int64_t size, const float *query, float *out) {
        for (int64_t row = 0; row < count; row++) {
            /* Sums side by side, so that several values are taken at once without changing the order by options. */
            float sums[32] = {0};
            const float *values = rows + row * size;
            float total = 0;
            int64_t place = 0;
            for (; place + 32 <= size; place += 32)
                for (int lane = 0; lane < 32; lane++)
                    sums[lane] += values[place + lane] * query[place + lane];
            for (; place < size; place++)
                total += values[place] * query[place];
            for (int half = 16; half; half >>= 1)
                for (int lane = 0; lane < half; lane++)
                    sums[lane] += sums[lane + half];
            out[row] = total + sums[0];
        }
    }
    """
    void deltaic_products(const float*, int64_t, int64_t, const float*, float*) nogil


def products(const float[:, ::1] rows, const float[::1] query, float[::1] out):
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        return
    with nogil:
        deltaic_products(&rows[0, 0], rows.shape[0], rows.shape[1], &query[0], &out[0])


def candidates(
    const float[:, ::1] scores,
    const float[::1] scale,
    const float[::1] shift,
    const float[::1] limits,
    int64_t[::1] places,
    int64_t[::1] queries,
    float[::1] found,
):
    cdef int64_t rows = scores.shape[0], width = scores.shape[1], room = places.shape[0]
    cdef int64_t row, query, start, end, count = 0
    cdef bint scaled = scale.shape[0] > 0, shifted = shift.shape[0] > 0
    cdef float factor, less, value, limit
    cdef int hit
    cdef const float* base
    cdef const float* line
    cdef const float* bounds
    if rows == 0 or width == 0:
        return 0
    base = &scores[0, 0]
    bounds = &limits[0]
    with nogil:
        if width == 1:
            limit = bounds[0]
            start = 0
            while start < rows:
                end = min(start + 64, rows)
                hit = 0
                # Without a branch, so that the compiler compares several at once.
                if scaled:
                    for row in range(start, end):
                        hit |= base[row] * scale[row] >= limit
                elif shifted:
                    for row in range(start, end):
                        hit |= base[row] - shift[row] >= limit
                else:
                    for row in range(start, end):
                        hit |= base[row] >= limit
                if hit:
                    for row in range(start, end):
                        value = base[row]
                        if scaled:
                            value = value * scale[row]
                        if shifted:
                            value = value - shift[row]
                        if value >= limit:
                            if count < room:
                                places[count] = row
                                queries[count] = 0
                                found[count] = value
                            count += 1
                start = end
        else:
            for row in range(rows):
                line = base + row * width
                factor = scale[row] if scaled else 1
                less = shift[row] if shifted else 0
                hit = 0
                for query in range(width):
                    hit |= line[query] * factor - less >= bounds[query]
                if hit:
                    for query in range(width):
                        value = line[query] * factor - less
                        if value >= bounds[query]:
                            if count < room:
                                places[count] = row
                                queries[count] = query
                                found[count] = value
                            count += 1
    return count
