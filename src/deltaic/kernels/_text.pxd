"""Character data for other kernels: inline, so that a module which cimports this needs no other module at run time."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    void* PyUnicode_DATA(object text)
    int PyUnicode_KIND(object text)

cdef extern from *:
    int __builtin_ctzll(unsigned long long value) noexcept nogil

cdef enum:
    # A varint that the text's end cuts off. The low 16 bits are U+FFFD; the bit above tells it from a stored U+FFFD.
    CUT_UNIT = 0x1FFFD


cdef inline uint64_t load64(const uint8_t* p) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, p, 8)
    return word


cdef inline Py_ssize_t text_length(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """The bytes of a text that are character data: none if it is the single byte 0x80, Java's explicit null."""
    return 0 if n == 1 and p[0] == 0x80 else n


cdef inline Py_ssize_t ascii_prefix(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    """How many bytes at the start are below 0x80."""
    cdef Py_ssize_t i = 0
    cdef uint64_t high
    while i + 8 <= n:
        high = load64(p + i) & 0x8080808080808080ULL
        if high:
            return i + (__builtin_ctzll(high) >> 3)
        i += 8
    while i < n and p[i] < 0x80:
        i += 1
    return i


cdef inline Py_ssize_t next_unit(const uint8_t* p, Py_ssize_t i, Py_ssize_t n, uint32_t* unit) noexcept nogil:
    """Read the UTF-16 unit at i < n; gives the position after it."""
    cdef uint32_t value = 0
    cdef uint8_t byte
    while i < n:
        byte = p[i]
        i += 1
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            unit[0] = value & 0xFFFF
            return i
    unit[0] = CUT_UNIT
    return i


cdef inline Py_ssize_t next_code_point(const uint8_t* p, Py_ssize_t i, Py_ssize_t n, uint32_t* point) noexcept nogil:
    """Read one unit, or a surrogate pair, at i < n; gives the position after it. A lone surrogate stays as it is."""
    cdef uint32_t low = 0
    cdef Py_ssize_t after
    i = next_unit(p, i, n, point)
    if point[0] == CUT_UNIT:
        point[0] = 0xFFFD
    elif (point[0] & 0xFC00) == 0xD800 and i < n:
        after = next_unit(p, i, n, &low)
        if low != CUT_UNIT and (low & 0xFC00) == 0xDC00:
            point[0] = 0x10000 + ((point[0] & 0x3FF) << 10) + (low & 0x3FF)
            return after
    return i


cdef inline object decode_units(const uint8_t* p, Py_ssize_t n):
    """The str of one text of n bytes of character data."""
    cdef Py_ssize_t prefix = ascii_prefix(p, n)
    cdef Py_ssize_t i, count
    cdef uint32_t point = 0
    cdef uint32_t largest = 0
    cdef uint8_t* ones
    cdef uint16_t* twos
    cdef uint32_t* fours
    if prefix == n or n == text_length(p, n) + 1:
        text = PyUnicode_New(prefix, 127)
        if prefix:
            memcpy(PyUnicode_DATA(text), p, prefix)
        return text
    i = prefix
    count = prefix
    while i < n:
        i = next_code_point(p, i, n, &point)
        if point > largest:
            largest = point
        count += 1
    # CPython wants the narrowest form that fits, so the largest character must be known exactly.
    text = PyUnicode_New(count, largest if largest > 127 else 127)
    i = prefix
    if PyUnicode_KIND(text) == 1:
        ones = <uint8_t*>PyUnicode_DATA(text)
        memcpy(ones, p, prefix)
        for count in range(prefix, count):
            i = next_code_point(p, i, n, &point)
            ones[count] = <uint8_t>point
    elif PyUnicode_KIND(text) == 2:
        twos = <uint16_t*>PyUnicode_DATA(text)
        for count in range(prefix):
            twos[count] = p[count]
        count = prefix
        while i < n:
            i = next_code_point(p, i, n, &point)
            twos[count] = <uint16_t>point
            count += 1
    else:
        fours = <uint32_t*>PyUnicode_DATA(text)
        for count in range(prefix):
            fours[count] = p[count]
        count = prefix
        while i < n:
            i = next_code_point(p, i, n, &point)
            fours[count] = point
            count += 1
    return text
