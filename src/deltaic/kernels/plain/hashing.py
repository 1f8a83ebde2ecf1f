"""Hollow's hashes over whole columns: the plain twin of the compiled kernel.

Arithmetic is modulo 2^32 or 2^64 on unsigned arrays, and the result is read as signed.
"""

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.kernels.plain.text import encode_text, utf16_units

LARGEST_TABLE_COUNT = 751_619_276
"""The most elements a hash table can be sized for: 70% of 2^30."""

_SEED = 0xEAB524B9
_LOW_WORD = 0xFFFF_FFFF


def hash_int(values: NDArray[np.int32]) -> NDArray[np.int32]:
    """The hashInt of each value."""
    k = values.astype(np.int32).view(np.uint32)
    k = ~k + (k << 15)
    k ^= k >> 12
    k += k << 2
    k ^= k >> 4
    k *= np.uint32(2057)
    k ^= k >> 16
    return k.view(np.int32)


def hash_int_one(value: int) -> int:
    """The hashInt of the low 32 bits of one number."""
    k = value & _LOW_WORD
    k = ~k + (k << 15) & _LOW_WORD
    k ^= k >> 12
    k = k + (k << 2) & _LOW_WORD
    k ^= k >> 4
    k = k * 2057 & _LOW_WORD
    return _signed(k ^ k >> 16)


def hash_long(values: NDArray[np.int64]) -> NDArray[np.int32]:
    """The hashLong of each value."""
    k = values.astype(np.int64).view(np.uint64)
    k = ~k + (k << 18)
    k ^= k >> 31
    k *= np.uint64(21)
    k ^= k >> 11
    k += k << 6
    k ^= k >> 22
    return k.astype(np.uint32).view(np.int32)


def hash_long_one(value: int) -> int:
    """The hashLong of the low 64 bits of one number."""
    return int(hash_long(np.array([value & 2**64 - 1], np.uint64).view(np.int64))[0])


def bytes_hash(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    nulls: NDArray[np.uint8] | None = None,
) -> NDArray[np.int32]:
    """The bytesHash of each range, -1 for null. Over character data this is stringHash."""
    lengths = ends - starts
    hashes = np.full(len(starts), _SEED, np.uint32)
    # One step for all ranges at once: those that still have a whole block.
    active = np.flatnonzero(lengths >= 4)
    step = 0
    while len(active):
        at = starts[active] + step
        block = sum((data[at + place].astype(np.uint32) << (8 * place) for place in range(4)), np.uint32(0))
        mixed = hashes[active] ^ _murmur_block(np.asarray(block, np.uint32))
        hashes[active] = _rotate(mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        step += 4
        active = active[lengths[active] >= step + 4]
    tail = np.zeros(len(starts), np.uint32)
    for place in range(3):
        has = np.flatnonzero(lengths % 4 > place)
        tail[has] |= data[starts[has] + lengths[has] // 4 * 4 + place].astype(np.uint32) << (8 * place)
    hashes ^= _murmur_block(tail)
    hashes ^= lengths.astype(np.uint32)
    hashes ^= hashes >> 16
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> 13
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> 16
    return _or_null(hashes.view(np.int32), nulls, -1)


def bytes_hash_one(data: bytes | NDArray[np.uint8]) -> int:
    """The bytesHash of one bytes-like value."""
    array = np.frombuffer(data, np.uint8)
    return int(bytes_hash(array, np.zeros(1, np.int64), np.array([len(array)], np.int64))[0])


def string_hash_one(text: str | None) -> int:
    """The stringHash of one str, -1 for None."""
    return -1 if text is None else bytes_hash_one(encode_text(text))


def java_hash(data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int32]:
    """Java's String.hashCode of each text of character data."""
    raw = data.tobytes()
    hashes = [_java_hash(raw[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    return np.array(hashes, np.int32)


def java_hash_one(text: str) -> int:
    """Java's String.hashCode of one str."""
    return _java_hash(encode_text(text))


def hash_table_size(count: int) -> int:
    """The number of buckets of a set or map of `count` elements."""
    if not 0 <= count <= LARGEST_TABLE_COUNT:
        raise InputError(f"no hash table for {count} elements; the most is {LARGEST_TABLE_COUNT}")
    if count < 2:
        return count + 1
    return max(4, 1 << (count * 10 // 7 - 1).bit_length())


def hash_table_sizes(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of buckets for each count, as int64; counts must lie in 0..LARGEST_TABLE_COUNT."""
    powers = np.int64(4) << np.arange(30, dtype=np.int64)
    sizes: NDArray[np.int64] = powers[np.searchsorted(powers, counts * 10 // 7)]
    return np.where(counts < 2, counts + 1, sizes)


def key_hash_int(values: NDArray[np.int64], nulls: NDArray[np.uint8] | None = None) -> NDArray[np.int32]:
    """Field hashes of INT and REFERENCE columns in a hash key: the value, 0 for null."""
    return _or_null(values.astype(np.int32), nulls, 0)


def key_hash_long(values: NDArray[np.int64], nulls: NDArray[np.uint8] | None = None) -> NDArray[np.int32]:
    """Field hashes of a LONG column in a hash key: both words xored, 0 for null."""
    return _or_null(_fold(values.view(np.uint64)), nulls, 0)


def key_hash_boolean(values: NDArray[np.uint8], nulls: NDArray[np.uint8] | None = None) -> NDArray[np.int32]:
    """Field hashes of a BOOLEAN column in a hash key: 1231, 1237, 0 for null."""
    return _or_null(np.where(values != 0, np.int32(1231), np.int32(1237)), nulls, 0)


def key_hash_float(bits: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Field hashes of a FLOAT column in a hash key: the raw bits."""
    return bits.copy().view(np.int32)


def key_hash_double(bits: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Field hashes of a DOUBLE column in a hash key: both words of the raw bits xored."""
    return _fold(bits)


def index_hash_int(values: NDArray[np.int64], nulls: NDArray[np.uint8] | None = None) -> NDArray[np.int32]:
    """Field hashes of INT and REFERENCE columns in an index: the value, -2^31 for null."""
    return _or_null(values.astype(np.int32), nulls, -(2**31))


def index_hash_long(values: NDArray[np.int64], nulls: NDArray[np.uint8] | None = None) -> NDArray[np.int32]:
    """Field hashes of a LONG column in an index: both words xored, those of -2^63 for null."""
    return _or_null(_fold(values.view(np.uint64)), nulls, -(2**31))


def index_hash_boolean(values: NDArray[np.uint8], nulls: NDArray[np.uint8] | None = None) -> NDArray[np.int32]:
    """Field hashes of a BOOLEAN column in an index: 1, 0, -1 for null."""
    return _or_null((values != 0).astype(np.int32), nulls, -1)


def index_hash_float(bits: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Field hashes of a FLOAT column in an index: the bits, every NaN and null as 7fc00000."""
    return np.where(bits & 0x7FFF_FFFF > 0x7F80_0000, np.uint32(0x7FC0_0000), bits).view(np.int32)


def index_hash_double(bits: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Field hashes of a DOUBLE column in an index: both words xored, every NaN and null as 7ff8000000000000."""
    not_a_number = bits & np.uint64(2**63 - 1) > np.uint64(0x7FF0_0000_0000_0000)
    return _fold(np.where(not_a_number, np.uint64(0x7FF8_0000_0000_0000), bits))


def combine_hash_key(field_hashes: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """The hash-key hash of each record from the `key_hash_*` columns of its key fields, in key order."""
    hashes = np.zeros(len(field_hashes[0]), np.int32)
    for column in field_hashes:
        hashes = hashes * np.int32(31) ^ hash_int(column)
    return hashes


def combine_hash_index(field_hashes: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """The hash-index hash of each record from the `index_hash_*` columns of its match fields."""
    return combine_primary_key(field_hashes, [False] * len(field_hashes))


def combine_primary_key(field_hashes: list[NDArray[np.int32]], variable: list[bool]) -> NDArray[np.int32]:
    """The primary-key hash of each record; `variable` says which columns are STRING or BYTES, which are not mixed."""
    hashes = np.zeros(len(field_hashes[0]), np.int32)
    for column, is_variable in zip(field_hashes, variable, strict=True):
        hashes ^= column if is_variable else hash_int(column)
    return hashes


def _murmur_block(block: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return _rotate(block * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _rotate(values: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return values << np.uint32(bits) | values >> np.uint32(32 - bits)


def _java_hash(units: bytes) -> int:
    value = 0
    for unit in utf16_units(units):
        value = value * 31 + unit & _LOW_WORD
    return _signed(value)


def _fold(words: NDArray[np.uint64]) -> NDArray[np.int32]:
    return (words ^ words >> 32).astype(np.uint32).view(np.int32)


def _or_null(hashes: NDArray[np.int32], nulls: NDArray[np.uint8] | None, null_hash: int) -> NDArray[np.int32]:
    return hashes if nulls is None else np.where(nulls != 0, np.int32(null_hash), hashes)


def _signed(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word
