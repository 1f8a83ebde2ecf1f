"""Character data of STRING fields, UTF-8 and str (hollow-blob.md, "strings").

Character data is one varint per UTF-16 unit, cut to 16 bits as Java's cast does. A varint that the text's end cuts
off reads as U+FFFD. A text that is the single byte 0x80 is empty: Java's explicit null. UTF-8 carries unpaired
surrogates as three bytes (WTF-8). No function reads outside the ranges it is given.
"""

import numpy as np

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    Py_UCS4 PyUnicode_READ(int kind, void* data, Py_ssize_t index) noexcept nogil
    bint PyUnicode_IS_ASCII(object text)

cdef enum:
    LONE = 1
    MALFORMED = 2
    # Whole words are stored before it is known how many of their bytes count.
    SPARE = 8


def is_ascii(const uint8_t[::1] data not None) -> bool:
    """True if no byte has its top bit set."""
    cdef Py_ssize_t n = data.shape[0]
    cdef bint result = True
    if n:
        with nogil:
            result = all_ascii(&data[0], n)
    return result


def units_to_utf8(
    const uint8_t[::1] data not None, const int64_t[::1] starts not None, const int64_t[::1] ends not None
):
    """Many texts to UTF-8: offsets, bytes, and how many texts have a lone surrogate or a varint that is cut off.

    ASCII texts that follow each other without a gap are given as a read-only view of `data`.
    """
    cdef Py_ssize_t n = starts.shape[0]
    cdef Py_ssize_t i
    cdef int64_t room = SPARE, at = 0
    cdef Py_ssize_t length
    cdef int flags
    cdef int64_t lone = 0, malformed = 0
    cdef bint adjacent
    cdef const uint8_t* p = NULL
    cdef uint8_t* out
    offsets = np.empty(n + 1, np.int64)
    cdef int64_t[::1] ends_out = offsets
    cdef uint8_t[::1] bytes_out
    if data.shape[0]:
        p = &data[0]
    with nogil:
        adjacent = are_adjacent(starts, ends)
        if adjacent and n:
            adjacent = all_ascii(p + starts[0], ends[n - 1] - starts[0])
    if adjacent and n:
        np.subtract(starts, starts[0], out=offsets[:n])
        offsets[n] = ends[n - 1] - starts[0]
        utf8 = np.asarray(data)[starts[0]:ends[n - 1]]
        utf8.flags.writeable = False
        return offsets, utf8, 0, 0
    with nogil:
        # A two-byte unit can take three bytes of UTF-8; a lone byte that is cut off takes three.
        for i in range(n):
            length = ends[i] - starts[i]
            room += length + (length >> 1) + 2
    utf8 = np.empty(room, np.uint8)
    bytes_out = utf8
    out = &bytes_out[0]
    with nogil:
        ends_out[0] = 0
        for i in range(n):
            flags = 0
            at += write_utf8(p + starts[i], ends[i] - starts[i], out + at, &flags)
            lone += flags & LONE
            malformed += flags >> 1
            ends_out[i + 1] = at
    bytes_out = None
    utf8.resize(at, refcheck=False)
    return offsets, utf8, lone, malformed


def utf8_to_units(const int64_t[::1] offsets not None, const uint8_t[::1] utf8 not None):
    """Many texts to character data: offsets, bytes, and how many texts are not UTF-8 (nor WTF-8).

    A byte that cannot be decoded becomes U+FFFD. All-ASCII texts are given as a read-only view of `utf8`.
    """
    cdef Py_ssize_t n = offsets.shape[0] - 1
    cdef Py_ssize_t i
    cdef int64_t at = 0, malformed = 0
    cdef int flags = 0
    cdef bint ascii
    cdef const uint8_t* p = NULL
    cdef uint8_t* out = NULL
    if utf8.shape[0]:
        p = &utf8[0]
    with nogil:
        ascii = all_ascii(p + offsets[0], offsets[n] - offsets[0])
    if ascii:
        data = np.asarray(utf8)[offsets[0]:offsets[n]]
        data.flags.writeable = False
        return np.subtract(offsets, offsets[0]), data, 0
    out_offsets = np.empty(n + 1, np.int64)
    cdef int64_t[::1] ends_out = out_offsets
    cdef uint8_t[::1] bytes_out
    with nogil:
        ends_out[0] = 0
        for i in range(n):
            flags = 0
            at += write_units(p + offsets[i], offsets[i + 1] - offsets[i], NULL, &flags)
            malformed += flags >> 1
            ends_out[i + 1] = at
    data = np.empty(at, np.uint8)
    bytes_out = data
    if at:
        out = &bytes_out[0]
    with nogil:
        for i in range(n):
            write_units(p + offsets[i], offsets[i + 1] - offsets[i], out + ends_out[i], &flags)
    return out_offsets, data, malformed


def decode_text(data not None, Py_ssize_t start, Py_ssize_t end) -> str:
    """One text as a str."""
    # A plain buffer: setting up a typed memoryview takes longer than decoding a title.
    cdef Py_buffer buffer
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        return decode_units(<const uint8_t*>buffer.buf + start, end - start)
    finally:
        PyBuffer_Release(&buffer)


def texts_to_list(
    const uint8_t[::1] data not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] ends not None,
    const uint8_t[::1] nulls=None,
) -> list:
    """Many texts as a list of str, with None where `nulls` is not 0."""
    cdef Py_ssize_t n = starts.shape[0]
    cdef Py_ssize_t i
    cdef const uint8_t* p = NULL
    cdef bint nullable = nulls is not None
    if data.shape[0]:
        p = &data[0]
    texts = PyList_New(n)
    for i in range(n):
        if nullable and nulls[i]:
            text = None
        else:
            text = decode_units(p + starts[i], ends[i] - starts[i])
        Py_INCREF(text)
        PyList_SET_ITEM(texts, i, text)
    return texts


def encode_text(str text not None) -> bytes:
    """The character data of one str; unpaired surrogates stay as they are."""
    cdef Py_ssize_t n = PyUnicode_GET_LENGTH(text)
    cdef int kind = PyUnicode_KIND(text)
    cdef void* characters = PyUnicode_DATA(text)
    cdef Py_ssize_t i, size = 0, at = 0
    cdef uint32_t point
    cdef uint8_t* out
    if PyUnicode_IS_ASCII(text):
        return PyBytes_FromStringAndSize(<char*>characters, n)
    for i in range(n):
        point = PyUnicode_READ(kind, characters, i)
        size += 6 if point > 0xFFFF else unit_size(point)
    encoded = PyBytes_FromStringAndSize(NULL, size)
    out = <uint8_t*>PyBytes_AS_STRING(encoded)
    for i in range(n):
        point = PyUnicode_READ(kind, characters, i)
        at += put_point_as_units(out + at, point)
    return encoded


cdef bint all_ascii(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    # Blocks: long enough that the compiler's vector loop pays, short enough that an early byte ends the scan early.
    cdef Py_ssize_t i = 0, k
    cdef uint8_t seen
    while i + 1024 <= n:
        seen = 0
        for k in range(1024):
            seen |= p[i + k]
        if seen & 0x80:
            return False
        i += 1024
    return ascii_prefix(p + i, n - i) == n - i


cdef bint are_adjacent(const int64_t[::1] starts, const int64_t[::1] ends) noexcept nogil:
    """True if every text starts where the one before it ends."""
    cdef Py_ssize_t i
    cdef int64_t gaps = 0
    for i in range(starts.shape[0] - 1):
        gaps |= starts[i + 1] ^ ends[i]
    return gaps == 0


cdef Py_ssize_t write_utf8(const uint8_t* p, Py_ssize_t n, uint8_t* out, int* flags) noexcept nogil:
    cdef Py_ssize_t i = 0, at = 0, run
    cdef uint64_t word, high
    cdef uint32_t point = 0
    n = text_length(p, n)
    while i < n:
        if i + 8 <= n:
            word = load64(p + i)
            memcpy(out + at, &word, 8)
            high = word & 0x8080808080808080ULL
            if high == 0:
                i += 8
                at += 8
                continue
            run = __builtin_ctzll(high) >> 3
            i += run
            at += run
        elif p[i] < 0x80:
            out[at] = p[i]
            i += 1
            at += 1
            continue
        i = next_code_point(p, i, n, &point)
        if point < 0x80:
            out[at] = point
            at += 1
        elif point < 0x800:
            out[at] = 0xC0 | (point >> 6)
            out[at + 1] = 0x80 | (point & 0x3F)
            at += 2
        elif point < 0x10000:
            if (point & 0xF800) == 0xD800:
                flags[0] |= LONE
            out[at] = 0xE0 | (point >> 12)
            out[at + 1] = 0x80 | ((point >> 6) & 0x3F)
            out[at + 2] = 0x80 | (point & 0x3F)
            at += 3
        else:
            out[at] = 0xF0 | (point >> 18)
            out[at + 1] = 0x80 | ((point >> 12) & 0x3F)
            out[at + 2] = 0x80 | ((point >> 6) & 0x3F)
            out[at + 3] = 0x80 | (point & 0x3F)
            at += 4
    if n and p[n - 1] >= 0x80:
        flags[0] |= MALFORMED
    return at


cdef Py_ssize_t write_units(const uint8_t* p, Py_ssize_t n, uint8_t* out, int* flags) noexcept nogil:
    """Write the character data of one UTF-8 text, or only measure it if `out` is NULL."""
    cdef Py_ssize_t i = 0, at = 0, run
    cdef uint32_t point = 0
    while i < n:
        if p[i] < 0x80:
            run = ascii_prefix(p + i, n - i)
            if out != NULL:
                memcpy(out + at, p + i, run)
            i += run
            at += run
            continue
        run = utf8_point(p + i, n - i, &point)
        if run == 0:
            flags[0] |= MALFORMED
            point = 0xFFFD
            run = 1
        i += run
        if out != NULL:
            at += put_point_as_units(out + at, point)
        else:
            at += 6 if point > 0xFFFF else unit_size(point)
    return at


cdef inline Py_ssize_t utf8_point(const uint8_t* p, Py_ssize_t n, uint32_t* point) noexcept nogil:
    """Read one character of more than one byte; gives its length, or 0 if the bytes are not one."""
    cdef uint8_t first = p[0]
    if n < 2 or (p[1] & 0xC0) != 0x80:
        return 0
    if 0xC2 <= first < 0xE0:
        point[0] = ((<uint32_t>first & 0x1F) << 6) | (p[1] & 0x3F)
        return 2
    if n < 3 or (p[2] & 0xC0) != 0x80:
        return 0
    if 0xE0 <= first < 0xF0:
        point[0] = ((<uint32_t>first & 0x0F) << 12) | ((<uint32_t>p[1] & 0x3F) << 6) | (p[2] & 0x3F)
        return 3 if point[0] >= 0x800 else 0
    if n < 4 or (p[3] & 0xC0) != 0x80:
        return 0
    if 0xF0 <= first < 0xF5:
        point[0] = (
            ((<uint32_t>first & 0x07) << 18)
            | ((<uint32_t>p[1] & 0x3F) << 12)
            | ((<uint32_t>p[2] & 0x3F) << 6)
            | (p[3] & 0x3F)
        )
        return 4 if 0x10000 <= point[0] <= 0x10FFFF else 0
    return 0


cdef inline Py_ssize_t unit_size(uint32_t unit) noexcept nogil:
    return 1 if unit < 0x80 else 2 if unit < 0x4000 else 3


cdef inline Py_ssize_t put_unit(uint8_t* out, uint32_t unit) noexcept nogil:
    if unit < 0x80:
        out[0] = unit
        return 1
    if unit < 0x4000:
        out[0] = 0x80 | (unit >> 7)
        out[1] = unit & 0x7F
        return 2
    out[0] = 0x80 | (unit >> 14)
    out[1] = 0x80 | ((unit >> 7) & 0x7F)
    out[2] = unit & 0x7F
    return 3


cdef inline Py_ssize_t put_point_as_units(uint8_t* out, uint32_t point) noexcept nogil:
    if point < 0x10000:
        return put_unit(out, point)
    put_unit(out, 0xD800 + ((point - 0x10000) >> 10))
    put_unit(out + 3, 0xDC00 + (point & 0x3FF))
    return 6
