"""Lengths of stored vectors, per chunk, kept for as long as the chunk lives.

Versions of a column share the chunks in which nothing changed, so what was measured of a chunk is found again in the
next version: a refresh costs the lengths of changed chunks only. Nothing is kept alive by this.
"""

import weakref
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.vector.metric import Matrix

_SMALLEST, _LARGEST = 1e-30, 1e30
"""Squared lengths between which float32 products neither overflow nor drown."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What a scan needs to know of a block of rows beside its products."""

    inverse: NDArray[np.float32]
    """1 / length of each row; 0 for a row of zeros, 1 for those that are odd or broken."""
    half_squares: NDArray[np.float32]
    """Half the squared length of each row."""
    largest: float
    """The largest length among the rows that are not odd."""
    odd: NDArray[np.int64]
    """Rows so long or so short that float32 products say nothing: they are always asked exactly."""
    broken: NDArray[np.int64]
    """Rows with a NaN or an infinity: never found."""

    def first(self, count: int) -> "Measures":
        """The measures of the first rows."""
        if count == len(self.inverse):
            return self
        odd, broken = self.odd[self.odd < count], self.broken[self.broken < count]
        return Measures(self.inverse[:count], self.half_squares[:count], self.largest, odd, broken)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.inverse.nbytes + self.half_squares.nbytes + self.odd.nbytes + self.broken.nbytes


def measure(rows: Matrix) -> Measures:
    """Measure a block of rows."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        squares: NDArray[np.float32] = np.einsum("ij,ij->i", rows, rows)
        unsure = np.flatnonzero(~((squares >= _SMALLEST) & (squares <= _LARGEST)))
        odd = broken = np.zeros(0, np.int64)
        if len(unsure):
            wide = rows[unsure].astype(np.float64)
            true = (wide * wide).sum(axis=1)
            finite = np.isfinite(true)
            broken, odd = unsure[~finite], unsure[finite & (true > 0)]
            squares[unsure] = 0
        inverse = np.divide(1, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)
        # Their scores are set by hand, and must stay what they are.
        inverse[odd] = inverse[broken] = 1
    largest = float(np.sqrt(squares.max(initial=0)))
    return Measures(inverse, squares * np.float32(0.5), largest, odd, broken)


class MeasureCache:
    """Measures by chunk, for as long as each chunk lives. Safe to use from many threads."""

    def __init__(self) -> None:
        # By identity: arrays have no hash, and content would have to be read to be compared.
        self._kept: dict[int, tuple[weakref.ref[Matrix], Measures]] = {}
        self.measured = 0
        """How many chunks were measured so far."""

    def of(self, chunk: Matrix) -> Measures:
        """The measures of a chunk that never changes."""
        identity = id(chunk)
        kept = self._kept.get(identity)
        if kept is not None and kept[0]() is chunk:
            return kept[1]
        made = measure(chunk)
        self.measured += 1

        def forget(gone: "weakref.ref[Matrix]") -> None:
            # Another chunk may have got the same identity meanwhile.
            held = self._kept.get(identity)
            if held is not None and held[0] is gone:
                del self._kept[identity]

        self._kept[identity] = (weakref.ref(chunk, forget), made)
        return made

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of all measures that are kept."""
        return sum(measures.nbytes for _, measures in list(self._kept.values()))


MEASURES = MeasureCache()
"""The measures of this process."""
