"""A batch frame that was read: the deltas of many rows as arrays, section by section."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import vectors
from deltaic.wire.vectors.delta import VectorDelta
from deltaic.wire.vectors.layout import Array, Entry
from deltaic.wire.vectors.message import unzigzag
from deltaic.wire.vectors.options import Flag, Format, Mode

Words = NDArray[np.uint32]
Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """The rows of one format. All arrays are checked: kernels may trust them.

    `offsets` tell where the words of a row start; `words` are patterns, or in a relative frame zigzag differences.
    `gaps` belong to the sparse section; `run_offsets`, `run_gaps` and `run_lengths` to runs. The rows of a dictionary
    section are spelled out: their `indices` are known, and they have no gaps.
    """

    format: Format
    row_ids: NDArray[np.int64]
    offsets: Offsets
    words: Words
    prev: Words | None = None
    gaps: Array | None = None
    run_offsets: Offsets | None = None
    run_gaps: Array | None = None
    run_lengths: Array | None = None
    pattern_ids: Words | None = None
    known_indices: Words | None = None

    def __len__(self) -> int:
        return len(self.row_ids)

    def indices(self, dims: int) -> Words:
        """The dimension of every word, row after row."""
        if self.known_indices is not None:
            return self.known_indices
        if self.gaps is not None:
            return vectors.indices_of_gaps(self.offsets, self.gaps)
        if self.run_offsets is not None and self.run_gaps is not None and self.run_lengths is not None:
            return vectors.indices_of_runs(self.run_offsets, self.run_gaps, self.run_lengths)
        return np.tile(np.arange(dims, dtype=np.uint32), len(self.row_ids))


@dataclass(frozen=True)
class Frame:
    """The deltas of many rows of one vector column."""

    dims: int
    flags: int
    size_bytes: int
    sections: tuple[Section, ...]
    directory: tuple[Entry, ...]
    name: str = "frame"

    def __len__(self) -> int:
        return sum(len(section) for section in self.sections)

    @property
    def relative(self) -> bool:
        """True if words are differences."""
        return bool(self.flags & Flag.RELATIVE)

    @property
    def has_prev(self) -> bool:
        """True if previous values are there."""
        return bool(self.flags & Flag.HAS_PREV)

    @property
    def mode(self) -> Mode:
        """How the values were stored."""
        return Mode(self.flags >> 4)

    @cached_property
    def row_ids(self) -> NDArray[np.int64]:
        """The rows that change, rising."""
        return np.sort(np.concatenate([np.zeros(0, np.int64), *(section.row_ids for section in self.sections)]))

    def rows(self) -> Iterator[tuple[int, Format, VectorDelta]]:
        """Every row with its delta, section by section: for looking at a frame, not for applying it."""
        for section in self.sections:
            indices = section.indices(self.dims)
            words = unzigzag(section.words) if self.relative else section.words
            for place, row_id in enumerate(section.row_ids.tolist()):
                here = slice(int(section.offsets[place]), int(section.offsets[place + 1]))
                prev = None if section.prev is None else section.prev[here]
                yield row_id, section.format, VectorDelta(self.dims, indices[here], words[here], self.relative, prev)
