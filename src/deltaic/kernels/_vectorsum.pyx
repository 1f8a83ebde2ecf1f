"""The checksum of vectors: for each row a sum of pattern times key, mixed with its ordinal, all added up modulo 2^64."""

from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef inline uint64_t mixed(uint64_t number) noexcept nogil:
    number = (number ^ (number >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    number = (number ^ (number >> 27)) * <uint64_t>0x94D049BB133111EB
    return number ^ (number >> 31)


def sum_rows(const uint32_t[:, ::1] rows, const int64_t[::1] places, uint64_t first, const uint64_t[::1] keys):
    """The sum over the rows at `places`; row r has the ordinal `first` + r."""
    cdef uint64_t total = 0, one, two, three, four
    cdef int64_t place, row, index, dims = rows.shape[1], whole = dims & ~<int64_t>3
    with nogil:
        for place in range(places.shape[0]):
            row = places[place]
            one = two = three = four = 0
            # Four sums side by side: a multiplication takes longer than it takes to start the next one.
            for index in range(0, whole, 4):
                one += rows[row, index] * keys[index]
                two += rows[row, index + 1] * keys[index + 1]
                three += rows[row, index + 2] * keys[index + 2]
                four += rows[row, index + 3] * keys[index + 3]
            for index in range(whole, dims):
                one += rows[row, index] * keys[index]
            total += mixed(one + two + three + four + (first + <uint64_t>row + 1) * <uint64_t>0x9E3779B97F4A7C15)
    return total
