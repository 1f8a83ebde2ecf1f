"""Bit-packed columns in plain NumPy: the reference for `_bits`, and the fall-back where no compiler was.

`data` is one little-endian bit stream with at least 9 readable bytes from the first byte of every element on. Field
`k` of a column starts at bit `start_bit + k * stride_bits`.
"""

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 16


def swap_words(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    """Copy big-endian 64-bit words of `source` to the front of `target` in native order."""
    count = len(source) // 8
    target[: 8 * count].view("<u8")[:] = source[: 8 * count].view(">u8")


def decode(data: NDArray[np.uint8], start_bit: int, stride_bits: int, width: int, count: int) -> NDArray[np.uint64]:
    """`count` elements of a column."""
    return gather(data, stride_bits, start_bit, width, np.arange(count, dtype=np.int64))


def gather(
    data: NDArray[np.uint8], stride_bits: int, offset_bits: int, width: int, ordinals: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """The elements of a column at `ordinals`."""
    values = np.zeros(len(ordinals), np.uint64)
    if width == 0 or not len(ordinals):
        return values
    words = np.lib.stride_tricks.as_strided(data.view(np.uint8), (max(len(data) - 7, 0), 8), (1, 1))
    for begin in range(0, len(ordinals), _BLOCK):
        bit = ordinals[begin : begin + _BLOCK] * stride_bits + offset_bits
        place, shift = bit >> 3, (bit & 7).astype(np.uint64)
        value = np.ascontiguousarray(words[place]).view("<u8").ravel() >> shift
        if width > 57:
            high = data[place + 8].astype(np.uint64)
            # Shifting a 64-bit word by 64 is undefined, so the top byte moves in two steps.
            value |= (high << (np.uint64(63) - shift)) << np.uint64(1)
        values[begin : begin + _BLOCK] = value & _mask(width)
    return values


def store(data: NDArray[np.uint8], start_bit: int, stride_bits: int, width: int, values: NDArray[np.uint64]) -> None:
    """Overwrite a column, one value after the other."""
    scatter(data, stride_bits, start_bit, width, np.arange(len(values), dtype=np.int64), values)


def pack(values: NDArray[np.uint64], width: int, data: NDArray[np.uint8], start_bit: int) -> None:
    """Overwrite `len(values)` adjacent elements from bit `start_bit` on."""
    store(data, start_bit, width, width, values)


def scatter(
    data: NDArray[np.uint8],
    stride_bits: int,
    offset_bits: int,
    width: int,
    ordinals: NDArray[np.int64],
    values: NDArray[np.uint64],
) -> None:
    """Overwrite the elements of a column at `ordinals`, which differ from each other."""
    if not width:
        return
    steps = np.arange(width, dtype=np.int64)
    for begin in range(0, len(ordinals), _BLOCK):
        places = (ordinals[begin : begin + _BLOCK] * stride_bits + offset_bits)[:, None] + steps
        ones = (values[begin : begin + _BLOCK, None] >> steps.astype(np.uint64)) & np.uint64(1)
        bit = (np.uint8(1) << (places & 7).astype(np.uint8)).ravel()
        byte = (places >> 3).ravel()
        np.bitwise_and.at(data, byte, ~bit)
        np.bitwise_or.at(data, byte, np.where(ones.ravel() != 0, bit, np.uint8(0)))


def first_fall(data: NDArray[np.uint8], start_bit: int, stride_bits: int, width: int, count: int) -> tuple[int, int]:
    """The index of the first element smaller than the one before it, or -1; and the largest element before that."""
    if width == 0 or count == 0:
        return -1, 0
    values = decode(data, start_bit, stride_bits, width, count)
    falls = np.flatnonzero(values[1:] < values[:-1])
    if len(falls):
        return int(falls[0]) + 1, int(values[falls[0]])
    return -1, int(values[-1])


def largest(
    data: NDArray[np.uint8], start_bit: int, stride_bits: int, width: int, count: int, ones_are_null: bool
) -> int:
    """The largest element, without those of all ones if these are null; -1 if there is none or the width is 0."""
    if width == 0 or count == 0:
        return -1
    values = decode(data, start_bit, stride_bits, width, count)
    if ones_are_null:
        return int(((values + np.uint64(1)) & _mask(width)).max()) - 1
    return int(values.max())


def varints(data: NDArray[np.uint8]) -> NDArray[np.int64] | None:
    """All VInts of `data`; None if they are malformed."""
    values: list[int] = []
    value = length = 0
    for byte in data.tolist():
        if length == 0 and byte == 0x80:
            return None
        value = value << 7 | byte & 0x7F
        length += 1
        if byte < 0x80:
            values.append(value & 0xFFFF_FFFF)
            value = length = 0
        elif length >= 5:
            return None
    return None if length else np.array(values, np.int64)


def check_buckets(
    pointers: NDArray[np.uint8],
    bits_per_pointer: int,
    bits_per_size: int,
    buckets: NDArray[np.uint8],
    bits_per_bucket: int,
    bits_per_key: int,
    count: int,
    capacity: int,
) -> tuple[int, int, int, int]:
    """Check the hash tables of a SET or MAP shard.

    Ends never fall and stay within `capacity`; every table has a power of two of buckets (or none and no element),
    at least one of them empty, and as many filled ones as its size says.

    Returns:
        The first bad record or -1; the largest key and value ordinal found, -1 for none; the last end.
    """
    stride = bits_per_pointer + bits_per_size
    if count == 0 or stride == 0:
        return -1, -1, -1, 0
    ends = decode(pointers, 0, stride, bits_per_pointer, count).astype(np.int64)
    sizes = decode(pointers, bits_per_pointer, stride, bits_per_size, count).astype(np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    rooms = ends - starts
    fits = (rooms >= 0) & (ends <= capacity) & (rooms & (rooms - 1) == 0)
    fits &= (sizes < rooms) | ((sizes == 0) & (rooms == 0))
    bad = _first(~fits)
    total = int(ends[-1] if bad < 0 else starts[bad])
    keys = decode(buckets, 0, bits_per_bucket, bits_per_key, total)
    values = decode(buckets, bits_per_key, bits_per_bucket, bits_per_bucket - bits_per_key, total)
    filled = keys != _mask(bits_per_key)
    counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(filled)])
    good = count if bad < 0 else bad
    wrong = _first(counts[ends[:good]] - counts[starts[:good]] != sizes[:good])
    if wrong >= 0:
        bad, stop = wrong, int(ends[wrong])
        keys, values, filled = keys[:stop], values[:stop], filled[:stop]
        total = int(starts[wrong])
    if not filled.any():
        return bad, -1, -1, total
    return bad, int(keys[filled].max()), int(values[filled].max()), total


def set_bits(words: NDArray[np.uint64], ordinals: NDArray[np.int64]) -> None:
    """Set the bits of these ordinals, which are below 64 times the number of words."""
    np.bitwise_or.at(words, ordinals >> 6, np.uint64(1) << (ordinals & 63).astype(np.uint64))


def list_bits(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The ordinals whose bits are set, rising."""
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).astype(np.int64)


def _first(mask: NDArray[np.bool_]) -> int:
    places = np.flatnonzero(mask)
    return int(places[0]) if len(places) else -1


def _mask(width: int) -> np.uint64:
    return np.uint64((1 << width) - 1)
