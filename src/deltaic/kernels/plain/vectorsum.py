"""The plain twin of `_vectorsum`."""

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_BLOCK_ROWS = 256


def mixed(numbers: Words) -> Words:
    """splitmix64's last step: every bit of the outcome depends on every bit given."""
    numbers = (numbers ^ numbers >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ numbers >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return numbers ^ numbers >> np.uint64(31)


def sum_rows(rows: NDArray[np.uint32], places: NDArray[np.int64], first: int, keys: Words) -> int:
    """The sum over the rows at `places`; row r has the ordinal `first` + r."""
    total = 0
    # Some rows at a time: as 64-bit words they take twice the memory.
    for start in range(0, len(places), _BLOCK_ROWS):
        here = places[start : start + _BLOCK_ROWS]
        sums = rows[here].astype(np.uint64) @ keys
        ordinals = here.astype(np.uint64) + np.uint64(first + 1)
        total += int(mixed(sums + ordinals * _STEP).sum(dtype=np.uint64))
    return total & 0xFFFF_FFFF_FFFF_FFFF
