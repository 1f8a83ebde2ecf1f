"""Hollow's hashes over whole columns (hollow-blob.md, "hashes").

Results are int32 arrays; the functions ending in `_one` take and give one Python value, signed 32 bit. Texts and
bytes are ranges of a byte array. The families of field hashes differ on purpose: `key_hash_*` places the elements
of keyed sets and maps, `index_hash_*` is for primary key and hash indexes. Where a column has nulls, `nulls` holds
1 for null, and the value beside it does not count.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from deltaic.kernels._text cimport next_unit, text_length

from deltaic.errors import InputError
from deltaic.kernels._text import encode_text

LARGEST_TABLE_COUNT = 751_619_276
"""The most elements a hash table can be sized for: 70% of 2^30."""


def hash_int(const int32_t[::1] values not None):
    """The hashInt of each value."""
    cdef Py_ssize_t i, n = values.shape[0]
    hashes = np.empty(n, np.int32)
    cdef int32_t[::1] out = hashes
    with nogil:
        for i in range(n):
            out[i] = hash_int32(values[i])
    return hashes


def hash_int_one(value) -> int:
    """The hashInt of the low 32 bits of one number."""
    return hash_int32(<int32_t><uint32_t>(value & 0xFFFFFFFF))


def hash_long(const int64_t[::1] values not None):
    """The hashLong of each value."""
    cdef Py_ssize_t i, n = values.shape[0]
    hashes = np.empty(n, np.int32)
    cdef int32_t[::1] out = hashes
    with nogil:
        for i in range(n):
            out[i] = hash_int64(values[i])
    return hashes


def hash_long_one(value) -> int:
    """The hashLong of the low 64 bits of one number."""
    return hash_int64(<int64_t><uint64_t>(value & 0xFFFFFFFFFFFFFFFF))


def bytes_hash(
    const uint8_t[::1] data not None,
    const int64_t[::1] starts not None,
    const int64_t[::1] ends not None,
    const uint8_t[::1] nulls=None,
):
    """The bytesHash of each range, -1 for null. Over character data this is stringHash."""
    cdef Py_ssize_t i, n = starts.shape[0]
    cdef const uint8_t* p = NULL
    cdef bint nullable = nulls is not None
    hashes = np.empty(n, np.int32)
    cdef int32_t[::1] out = hashes
    if data.shape[0]:
        p = &data[0]
    with nogil:
        for i in range(n):
            out[i] = -1 if nullable and nulls[i] else murmur3_32(p + starts[i], ends[i] - starts[i])
    return hashes


def bytes_hash_one(const uint8_t[::1] data not None) -> int:
    """The bytesHash of one bytes-like value."""
    return murmur3_32(&data[0] if data.shape[0] else NULL, data.shape[0])


def string_hash_one(str text) -> int:
    """The stringHash of one str, -1 for None."""
    return -1 if text is None else bytes_hash_one(encode_text(text))


def java_hash(const uint8_t[::1] data not None, const int64_t[::1] starts not None, const int64_t[::1] ends not None):
    """Java's String.hashCode of each text of character data."""
    cdef Py_ssize_t i, n = starts.shape[0]
    cdef const uint8_t* p = NULL
    hashes = np.empty(n, np.int32)
    cdef int32_t[::1] out = hashes
    if data.shape[0]:
        p = &data[0]
    with nogil:
        for i in range(n):
            out[i] = java_hash_units(p + starts[i], ends[i] - starts[i])
    return hashes


def java_hash_one(str text not None) -> int:
    """Java's String.hashCode of one str."""
    cdef const uint8_t[::1] units = encode_text(text)
    return java_hash_units(&units[0], units.shape[0]) if units.shape[0] else 0


def hash_table_size(int64_t count) -> int:
    """The number of buckets of a set or map of `count` elements."""
    if not 0 <= count <= LARGEST_TABLE_COUNT:
        raise InputError(f"no hash table for {count} elements; the most is {LARGEST_TABLE_COUNT}")
    return table_size(count)


def hash_table_sizes(const int64_t[::1] counts not None):
    """The number of buckets for each count, as int64; counts must lie in 0..LARGEST_TABLE_COUNT."""
    cdef Py_ssize_t i, n = counts.shape[0]
    sizes = np.empty(n, np.int64)
    cdef int64_t[::1] out = sizes
    with nogil:
        for i in range(n):
            out[i] = table_size(counts[i])
    return sizes


def key_hash_int(const int64_t[::1] values not None, const uint8_t[::1] nulls=None):
    """Field hashes of INT and REFERENCE columns in a hash key: the value, 0 for null."""
    return int_hashes(values, nulls, 0)


def key_hash_long(const int64_t[::1] values not None, const uint8_t[::1] nulls=None):
    """Field hashes of a LONG column in a hash key: both words xored, 0 for null."""
    return long_hashes(values, nulls, 0)


def key_hash_boolean(const uint8_t[::1] values not None, const uint8_t[::1] nulls=None):
    """Field hashes of a BOOLEAN column in a hash key: 1231, 1237, 0 for null."""
    return boolean_hashes(values, nulls, 1231, 1237, 0)


def key_hash_float(const uint32_t[::1] bits not None):
    """Field hashes of a FLOAT column in a hash key: the raw bits."""
    return np.array(bits, np.uint32).view(np.int32)


def key_hash_double(const uint64_t[::1] bits not None):
    """Field hashes of a DOUBLE column in a hash key: both words of the raw bits xored."""
    return double_hashes(bits, False)


def index_hash_int(const int64_t[::1] values not None, const uint8_t[::1] nulls=None):
    """Field hashes of INT and REFERENCE columns in an index: the value, -2^31 for null."""
    return int_hashes(values, nulls, <int32_t>0x80000000)


def index_hash_long(const int64_t[::1] values not None, const uint8_t[::1] nulls=None):
    """Field hashes of a LONG column in an index: both words xored, those of -2^63 for null."""
    return long_hashes(values, nulls, <int32_t>0x80000000)


def index_hash_boolean(const uint8_t[::1] values not None, const uint8_t[::1] nulls=None):
    """Field hashes of a BOOLEAN column in an index: 1, 0, -1 for null."""
    return boolean_hashes(values, nulls, 1, 0, -1)


def index_hash_float(const uint32_t[::1] bits not None):
    """Field hashes of a FLOAT column in an index: the bits, every NaN and null as 7fc00000."""
    cdef Py_ssize_t i, n = bits.shape[0]
    hashes = np.empty(n, np.int32)
    cdef int32_t[::1] out = hashes
    with nogil:
        for i in range(n):
            out[i] = <int32_t>canonical_float(bits[i])
    return hashes


def index_hash_double(const uint64_t[::1] bits not None):
    """Field hashes of a DOUBLE column in an index: both words xored, every NaN and null as 7ff8000000000000."""
    return double_hashes(bits, True)


def combine_hash_key(list field_hashes not None):
    """The hash-key hash of each record from the `key_hash_*` columns of its key fields, in key order."""
    cdef Py_ssize_t i, n = len(field_hashes[0])
    cdef const int32_t[::1] column
    hashes = np.zeros(n, np.int32)
    cdef int32_t[::1] out = hashes
    for column in field_hashes:
        with nogil:
            for i in range(n):
                out[i] = <int32_t>(<uint32_t>out[i] * 31) ^ hash_int32(column[i])
    return hashes


def combine_hash_index(list field_hashes not None):
    """The hash-index hash of each record from the `index_hash_*` columns of its match fields."""
    return combine_primary_key(field_hashes, [False] * len(field_hashes))


def combine_primary_key(list field_hashes not None, list variable not None):
    """The primary-key hash of each record; `variable` says which columns are STRING or BYTES, which are not mixed."""
    cdef Py_ssize_t i, n = len(field_hashes[0])
    cdef const int32_t[::1] column
    cdef bint mixed
    hashes = np.zeros(n, np.int32)
    cdef int32_t[::1] out = hashes
    for field, is_variable in zip(field_hashes, variable, strict=True):
        column = field
        mixed = not is_variable
        with nogil:
            for i in range(n):
                out[i] ^= hash_int32(column[i]) if mixed else column[i]
    return hashes


cdef int32_t java_hash_units(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    cdef uint32_t h = 0, unit = 0
    cdef Py_ssize_t i = 0
    n = text_length(p, n)
    while i < n:
        if p[i] < 0x80:
            h = h * 31 + p[i]
            i += 1
        else:
            i = next_unit(p, i, n, &unit)
            h = h * 31 + (unit & 0xFFFF)
    return <int32_t>h


cdef int_hashes(const int64_t[::1] values, const uint8_t[::1] nulls, int32_t null_hash):
    cdef Py_ssize_t i, n = values.shape[0]
    cdef bint nullable = nulls is not None
    hashes = np.empty(n, np.int32)
    cdef int32_t[::1] out = hashes
    with nogil:
        for i in range(n):
            out[i] = null_hash if nullable and nulls[i] else <int32_t>values[i]
    return hashes


cdef long_hashes(const int64_t[::1] values, const uint8_t[::1] nulls, int32_t null_hash):
    cdef Py_ssize_t i, n = values.shape[0]
    cdef bint nullable = nulls is not None
    hashes = np.empty(n, np.int32)
    cdef int32_t[::1] out = hashes
    with nogil:
        for i in range(n):
            out[i] = null_hash if nullable and nulls[i] else fold_int64(<uint64_t>values[i])
    return hashes


cdef boolean_hashes(const uint8_t[::1] values, const uint8_t[::1] nulls, int32_t yes, int32_t no, int32_t null_hash):
    cdef Py_ssize_t i, n = values.shape[0]
    cdef bint nullable = nulls is not None
    hashes = np.empty(n, np.int32)
    cdef int32_t[::1] out = hashes
    with nogil:
        for i in range(n):
            out[i] = null_hash if nullable and nulls[i] else yes if values[i] else no
    return hashes


cdef double_hashes(const uint64_t[::1] bits, bint canonical):
    cdef Py_ssize_t i, n = bits.shape[0]
    hashes = np.empty(n, np.int32)
    cdef int32_t[::1] out = hashes
    with nogil:
        for i in range(n):
            out[i] = fold_int64(canonical_double(bits[i]) if canonical else bits[i])
    return hashes
