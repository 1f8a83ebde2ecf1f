"""Candidates among scores. See the plain twin for what each function does."""

cimport cython
from libc.stdint cimport int64_t


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
