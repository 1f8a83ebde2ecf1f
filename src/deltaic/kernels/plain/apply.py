"""Applying a delta to packed records, in plain NumPy: the reference for `_apply` and the fall-back.

Arrays are little-endian bit streams with slack behind, as in `plain.bits`. Source and target never overlap.
"""

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels.plain import bits

_STEP = 57


def patch_records(
    target: NDArray[np.uint8], stride_bits: int, ordinals: NDArray[np.int64], source: NDArray[np.uint8]
) -> None:
    """Overwrite the records at `ordinals` with the records of `source`, in order."""
    for offset in range(0, stride_bits, _STEP):
        width = min(_STEP, stride_bits - offset)
        values = bits.decode(source, offset, stride_bits, width, len(ordinals))
        bits.scatter(target, stride_bits, offset, width, ordinals, values)


def clear_records(target: NDArray[np.uint8], stride_bits: int, ordinals: NDArray[np.int64]) -> None:
    """Overwrite the records at `ordinals` with zero bits."""
    for offset in range(0, stride_bits, _STEP):
        width = min(_STEP, stride_bits - offset)
        bits.scatter(target, stride_bits, offset, width, ordinals, np.zeros(len(ordinals), np.uint64))


def copy_runs(
    target: NDArray[np.uint8],
    source: NDArray[np.uint8],
    unit_bits: int,
    target_starts: NDArray[np.int64],
    source_starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None:
    """Copy runs of elements of `unit_bits` bits; starts and lengths are in elements."""
    if not len(lengths) or not len(target) or not len(source):
        return
    runs = zip(target_starts.tolist(), source_starts.tolist(), lengths.tolist(), strict=True)
    if unit_bits == 8:
        for to, start, length in runs:
            target[to : to + length] = source[start : start + length]
        return
    for to, start, length in runs:
        left, source_bit, target_bit = length * unit_bits, start * unit_bits, to * unit_bits
        whole = left // _STEP
        if whole:
            bits.store(target, target_bit, _STEP, _STEP, bits.decode(source, source_bit, _STEP, _STEP, whole))
        tail = left - whole * _STEP
        if tail:
            value = bits.decode(source, source_bit + whole * _STEP, tail, tail, 1)
            bits.store(target, target_bit + whole * _STEP, tail, tail, value)


def shift_fields(
    source: NDArray[np.uint8],
    target: NDArray[np.uint8],
    stride_bits: int,
    count: int,
    offsets: NDArray[np.int64],
    widths: NDArray[np.int64],
    events: NDArray[np.int64],
    shifts: NDArray[np.int64],
) -> None:
    """Copy `count` records, adding to some of their fields a number that changes at the records in `events`.

    Field k of the records before events[0] grows by shifts[k, 0], from events[0] on by shifts[k, 1], and so on. Sums
    stay within their fields. The target is zero before.
    """
    size = (count * stride_bits + 7) >> 3
    target[:size] = source[:size]
    run = np.searchsorted(events, np.arange(count), side="right")
    for offset, width, shift in zip(offsets.tolist(), widths.tolist(), shifts, strict=True):
        values = bits.decode(source, offset, stride_bits, width, count) + shift[run].astype(np.uint64)
        bits.store(target, offset, stride_bits, width, values)
    extra = size * 8 - count * stride_bits
    if extra:
        target[size - 1] &= 0xFF >> extra
