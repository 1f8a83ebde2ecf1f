"""Ordinals that are not known yet: a code stands for an ordinal until all ranges of a type are counted.

A code from 0 is the ordinal of a record that the version before had. A code below 0 is a new record: -1 the first new
one of its range, -2 the second, in the order of their bytes. With the number of new records in the ranges before, each
is the so-many-th new record of the type, and takes the so-many-th free ordinal: gaps below the highest ordinal of the
version before, largest first, then the numbers after it (hollow-blob.md, sections 12 and 16).
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.spark.build_scratch import Part, Scratch
from deltaic.state.bitset import OrdinalSet

Ordinals = NDArray[np.int32]
Codes = NDArray[np.int32]


class FreeOrdinals(msgspec.Struct, frozen=True, array_like=True):
    """Which ordinals the new records of a type take."""

    gaps: int
    """Free ordinals below `next`."""
    next: int
    """The first number after the highest ordinal of the version before."""
    taken: Part | None
    """The populated bits of the version before."""

    def last(self, new: int) -> int:
        """The highest ordinal in use once so many new records have theirs; -1 if there is none."""
        return self.next - 1 + max(new - self.gaps, 0)


NOTHING_TAKEN = FreeOrdinals(0, 0, None)
"""The free ordinals of a type that had no records."""


class CodeReader:
    """Turns codes of a type into ordinals; reads the bits of the version before only if a gap is asked for."""

    def __init__(self, scratch: Scratch, free: FreeOrdinals) -> None:
        self._scratch, self._free = scratch, free
        self._gaps: Ordinals | None = None

    def ordinals(self, codes: Codes, offset: int) -> Ordinals:
        """The ordinals of codes of a range that has so many new records before it."""
        new = codes < 0
        if not new.any():
            return codes
        numbers = offset - 1 - codes[new].astype(np.int64)
        found = np.empty(len(codes), np.int32)
        found[~new] = codes[~new]
        taken = self._free.next + numbers - self._free.gaps
        early = numbers < self._free.gaps
        if early.any():
            taken[early] = self._gap_list()[numbers[early]]
        found[new] = taken
        return found

    def _gap_list(self) -> Ordinals:
        if self._gaps is None:
            assert self._free.taken is not None
            populated = OrdinalSet.from_words(self._scratch.read(self._free.taken))
            flags = populated.flags(self._free.next)
            self._gaps = np.flatnonzero(~flags)[::-1].astype(np.int32)
        return self._gaps
