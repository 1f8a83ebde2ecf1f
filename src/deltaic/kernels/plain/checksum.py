"""Hollow's checksum, folded shard by shard: the plain twin of the compiled kernel.

The hash of every number is taken column by column; only the last fold goes one by one, as its definition demands.
"""

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels.plain.hashing import bytes_hash, hash_int, hash_int_one, hash_long

_NULL_FIELD = 2**31 - 1
_BLOCK = 4096


def object_shard(
    checksum: int,
    shard_number: int,
    shard_count: int,
    records: NDArray[np.uint8],
    bits_per_record: int,
    field_offsets: NDArray[np.int64],
    field_widths: NDArray[np.int64],
    field_kinds: NDArray[np.uint8],
    variable: list[NDArray[np.uint8] | None],
    populated: NDArray[np.uint64],
    max_ordinal: int,
) -> int:
    """Fold an OBJECT shard; the fields come in name order, kind 1 is STRING or BYTES, 0 any other."""
    chosen, ordinals = _records_of(shard_number, shard_count, populated, max_ordinal)
    columns = [hash_int(ordinals.astype(np.int32))]
    for field, (offset, width) in enumerate(zip(field_offsets.tolist(), field_widths.tolist(), strict=True)):
        at = chosen * bits_per_record + offset
        values = _bits(records, at, width)
        data = variable[field]
        if field_kinds[field] and data is not None:
            mask = np.uint64((1 << width - 1) - 1 if width else 0)
            before = _bits(records, np.maximum(at - bits_per_record, 0), width) & mask
            starts = np.where(chosen > 0, before, np.uint64(0)).astype(np.int64)
            starts, ends = _clamped(starts, (values & mask).astype(np.int64), len(data))
            hashes = bytes_hash(data, starts, ends, ((values > mask) | (width == 0)).astype(np.uint8))
            columns.append(hash_int(hashes))
        else:
            null = hash_int(np.array([_NULL_FIELD], np.int32))[0]
            columns.append(np.where(values == np.uint64((1 << width) - 1), null, hash_long(values.view(np.int64))))
    return _fold(checksum, np.column_stack(columns).reshape(-1))


def list_shard(
    checksum: int,
    shard_number: int,
    shard_count: int,
    pointers: NDArray[np.uint8],
    bits_per_pointer: int,
    elements: NDArray[np.uint8],
    bits_per_element: int,
    total_elements: int,
    populated: NDArray[np.uint64],
    max_ordinal: int,
) -> int:
    """Fold a LIST shard."""
    chosen, ordinals = _records_of(shard_number, shard_count, populated, max_ordinal)
    starts, ends = _ranges(pointers, chosen, bits_per_pointer, bits_per_pointer, total_elements)
    for block in _blocks(ordinals):
        owners, _, index = _flat(starts[block], ends[block])
        values = _bits(elements, index * bits_per_element, bits_per_element)
        checksum = _apply(checksum, ordinals[block], owners, values)
    return checksum


def set_shard(
    checksum: int,
    shard_number: int,
    shard_count: int,
    pointers: NDArray[np.uint8],
    bits_per_pointer: int,
    bits_per_size: int,
    buckets: NDArray[np.uint8],
    bits_per_element: int,
    total_buckets: int,
    populated: NDArray[np.uint64],
    max_ordinal: int,
) -> int:
    """Fold a SET shard."""
    chosen, ordinals = _records_of(shard_number, shard_count, populated, max_ordinal)
    pointer_bits = bits_per_pointer + bits_per_size
    starts, ends = _ranges(pointers, chosen, pointer_bits, bits_per_pointer, total_buckets)
    for block in _blocks(ordinals):
        owners, places, index = _flat(starts[block], ends[block])
        values = _bits(buckets, index * bits_per_element, bits_per_element)
        full = values != np.uint64((1 << bits_per_element) - 1)
        checksum = _apply(checksum, ordinals[block], owners[full], places[full], values[full])
    return checksum


def map_shard(
    checksum: int,
    shard_number: int,
    shard_count: int,
    pointers: NDArray[np.uint8],
    bits_per_pointer: int,
    bits_per_size: int,
    buckets: NDArray[np.uint8],
    bits_per_key: int,
    bits_per_value: int,
    total_buckets: int,
    populated: NDArray[np.uint64],
    max_ordinal: int,
) -> int:
    """Fold a MAP shard."""
    chosen, ordinals = _records_of(shard_number, shard_count, populated, max_ordinal)
    pointer_bits = bits_per_pointer + bits_per_size
    starts, ends = _ranges(pointers, chosen, pointer_bits, bits_per_pointer, total_buckets)
    for block in _blocks(ordinals):
        owners, places, index = _flat(starts[block], ends[block])
        at = index * (bits_per_key + bits_per_value)
        keys = _bits(buckets, at, bits_per_key)
        values = _bits(buckets, at + bits_per_key, bits_per_value)
        full = keys != np.uint64((1 << bits_per_key) - 1)
        checksum = _apply(checksum, ordinals[block], owners[full], places[full], keys[full], values[full])
    return checksum


def _records_of(
    shard_number: int, shard_count: int, populated: NDArray[np.uint64], max_ordinal: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The populated records of a shard: their places in it and their ordinals."""
    # A type of no bits may claim any number of records; no more can be populated than there are bits.
    within = -(-(len(populated) * 64 - shard_number) // shard_count)
    places = np.arange(max(0, min(max_ordinal + 1, within)), dtype=np.int64)
    ordinals = places * shard_count + shard_number
    is_set = populated[ordinals >> 6] >> (ordinals & 63).astype(np.uint64) & np.uint64(1) == 1
    return places[is_set], ordinals[is_set]


def _bits(data: NDArray[np.uint8], at: NDArray[np.int64], width: int) -> NDArray[np.uint64]:
    """The `width` bits at each bit position, put together byte by byte."""
    values = np.zeros(len(at), np.uint64)
    if width == 0 or len(at) == 0:
        return values
    shift = (at & 7).astype(np.uint64)
    for place in range(9):
        byte = data[(at >> 3) + place].astype(np.uint64)
        if place == 0:
            values |= byte >> shift
        else:
            # A shift by 64 is undefined; the ninth byte counts only if the first is not read from its lowest bit.
            moved = np.uint64(8 * place) - shift
            values |= np.where(moved < 64, byte << np.minimum(moved, np.uint64(63)), np.uint64(0))
    return values & np.uint64((1 << width) - 1)


def _ranges(
    pointers: NDArray[np.uint8], chosen: NDArray[np.int64], pointer_bits: int, end_bits: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and end of each record's elements: the end stored before it, and its own."""
    ends = _bits(pointers, chosen * pointer_bits, end_bits).view(np.int64)
    before = _bits(pointers, np.maximum(chosen - 1, 0) * pointer_bits, end_bits).view(np.int64)
    return _clamped(np.where(chosen > 0, before, 0), ends, size)


def _clamped(
    starts: NDArray[np.int64], ends: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ends = np.where((ends < 0) | (ends > size), size, ends)
    return np.where((starts < 0) | (starts > ends), ends, starts), ends


def _blocks(ordinals: NDArray[np.int64]) -> list[slice]:
    return [slice(begin, begin + _BLOCK) for begin in range(0, len(ordinals), _BLOCK)]


def _flat(
    starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each element of each record: the record's row, the place inside the record, the place in the shard."""
    lengths = ends - starts
    owners = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return owners, places, np.repeat(starts, lengths) + places


def _apply(
    checksum: int,
    ordinals: NDArray[np.int64],
    owners: NDArray[np.int64],
    *entries: NDArray[np.int64] | NDArray[np.uint64],
) -> int:
    """Fold each record's ordinal, then its entries, number by number."""
    sizes = 1 + len(entries) * np.bincount(owners, minlength=len(ordinals))
    heads = np.cumsum(sizes) - sizes
    numbers = np.zeros(int(sizes.sum()), np.uint32)
    inside = np.ones(len(numbers), np.bool_)
    inside[heads] = False
    numbers[heads] = ordinals.astype(np.uint32)
    numbers[inside] = np.column_stack([part.astype(np.uint32) for part in entries]).reshape(-1)
    return _fold(checksum, hash_int(numbers.view(np.int32)))


def _fold(checksum: int, hashes: NDArray[np.int32]) -> int:
    for value in hashes.tolist():
        checksum = hash_int_one(checksum ^ value)
    return checksum
