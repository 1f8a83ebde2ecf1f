"""Many numbers as bytes: unsigned LEB128 (vector-delta.md, "numbers"), written and read as arrays.

Sets of ordinals are runs: how many, then for each the gap to the end of the run before and its length.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.state.bitset import OrdinalSet
from deltaic.wire.vectors.faults import fault

Numbers = NDArray[np.int64]

_MOST_BYTES = 5
_MOST = 1 << 32


def write_numbers(numbers: Numbers) -> bytes:
    """The numbers, from 0 to 2^32 - 1, one after the other in their shortest form."""
    values = np.asarray(numbers, np.uint64)
    if not len(values):
        return b""
    lengths = np.ones(len(values), np.int64)
    for more in range(1, _MOST_BYTES):
        lengths += values >= np.uint64(1 << 7 * more)
    ends = np.cumsum(lengths)
    made = np.zeros(int(ends[-1]), np.uint8)
    starts = ends - lengths
    for place in range(_MOST_BYTES):
        here = np.flatnonzero(lengths > place)
        if not len(here):
            break
        groups = (values[here] >> np.uint64(7 * place) & np.uint64(0x7F)).astype(np.uint8)
        groups[lengths[here] > place + 1] |= 0x80
        made[starts[here] + place] = groups
    return made.tobytes()


def write_number(number: int) -> bytes:
    """One number."""
    return write_numbers(np.array([number], np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """A set of ordinals as runs: nothing is spread out before its bounds are known."""

    firsts: Numbers
    lengths: Numbers

    @classmethod
    def of(cls, ordinals: OrdinalSet) -> "Runs":
        """The runs of a set."""
        rising = ordinals.ordinals()
        if not len(rising):
            return NO_RUNS
        breaks = np.flatnonzero(np.diff(rising) != 1) + 1
        firsts = rising[np.concatenate([[0], breaks])]
        return cls(firsts, np.diff(np.concatenate([[0], breaks, [len(rising)]])))

    def __len__(self) -> int:
        """How many ordinals there are."""
        return int(self.lengths.sum())

    def ordinals(self) -> Numbers:
        """The ordinals one by one; `last` must have been looked at before."""
        before = np.cumsum(self.lengths) - self.lengths
        spread: Numbers = np.arange(len(self)) + np.repeat(self.firsts - before, self.lengths)
        return spread

    @property
    def last(self) -> int:
        """The largest ordinal, or -1."""
        return int(self.firsts[-1] + self.lengths[-1]) - 1 if len(self.firsts) else -1

    def to_bytes(self) -> bytes:
        """How many runs, then gap and length of each."""
        gaps = self.firsts.copy()
        gaps[1:] -= (self.firsts + self.lengths)[:-1]
        return write_number(len(gaps)) + write_numbers(np.stack([gaps, self.lengths], axis=1).reshape(-1))


NO_RUNS = Runs(np.zeros(0, np.int64), np.zeros(0, np.int64))


class NumberReader:
    """Reads numbers from bytes, each in its shortest form and below 2^32."""

    def __init__(self, data: memoryview, at: str) -> None:
        self._data, self._at = data, at
        self.position = 0

    @property
    def remaining(self) -> int:
        """Bytes that were not read yet."""
        return len(self._data) - self.position

    def take(self, count: int) -> memoryview:
        """The next bytes."""
        if count > self.remaining:
            raise fault("Truncated", f"{self.remaining} bytes where {count} belong", self._at)
        self.position += count
        return self._data[self.position - count : self.position]

    def number(self) -> int:
        """The next number."""
        return int(self.numbers(1)[0])

    def numbers(self, count: int) -> Numbers:
        """The next numbers."""
        if count > self.remaining:
            raise fault("Truncated", f"{count:,} numbers in {self.remaining:,} bytes", self._at)
        if not count:
            return np.zeros(0, np.int64)
        window = np.frombuffer(self._data[self.position : self.position + count * _MOST_BYTES], np.uint8)
        ends = np.flatnonzero(window < 0x80)[:count] + 1
        if len(ends) < count:
            long = len(window) == count * _MOST_BYTES
            raise fault("InvalidVarint" if long else "Truncated", "a number does not end", self._at)
        starts = np.concatenate([[0], ends[:-1]])
        lengths = ends - starts
        window = window[: ends[-1]]
        if int(lengths.max()) > _MOST_BYTES or bool(((lengths > 1) & (window[ends - 1] == 0)).any()):
            raise fault("InvalidVarint", "a number is not in its shortest form", self._at)
        places = np.arange(len(window)) - np.repeat(starts, lengths)
        found: Numbers = np.add.reduceat((window & 0x7F).astype(np.int64) << 7 * places, starts)
        if int(found.max()) >= _MOST:
            raise fault("InvalidVarint", "a number takes more than 32 bits", self._at)
        self.position += len(window)
        return found

    def runs(self) -> Runs:
        """A set of ordinals."""
        pairs = self.numbers(2 * self.number()).reshape(-1, 2)
        gaps, lengths = pairs[:, 0], pairs[:, 1]
        if bool((lengths == 0).any()) or bool((gaps[1:] == 0).any()):
            raise fault("IndexOrder", "a run is empty, or touches the one before", self._at)
        # At most 2^33 for each run: the sum stays far from 2^63.
        return Runs(np.cumsum(gaps + lengths) - lengths, lengths)

    def end(self) -> None:
        """Refuse bytes that are left."""
        if self.remaining:
            raise fault("TrailingData", f"{self.remaining} bytes too many", self._at)
