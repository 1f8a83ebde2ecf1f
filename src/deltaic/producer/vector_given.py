"""The vectors that a cycle is given, held against those of the version before, row by row as they come.

Only rows that differ are kept, in chunks that are copied for them: a cycle that changes little takes little memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deltaic.schema.model import VectorColumn
from deltaic.state.ingest_rows import Mask, Ordinals
from deltaic.state.vector_column import StoredVectors, VectorEdit
from deltaic.vector.lossy import error_bounds, nearest_sent
from deltaic.vector.part import ColumnKey
from deltaic.vector.storage import VectorStorage

Matrix = NDArray[np.float32]

_BLOCK_ROWS = 4096


@dataclass(slots=True, eq=False)
class GivenColumn:
    """What was given of one column so far."""

    storage: VectorStorage
    before: StoredVectors
    started: bool
    """False if the version before had no such column."""
    edit: VectorEdit
    given: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """By ordinal: whether it was given, be it null."""
    present: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """By ordinal: whether a vector was given."""
    differs: bool = False
    """True if a record of the version before has another vector now, or one where it had none."""
    conflicts: list[int] = field(default_factory=list)
    """Ordinals that were given with different vectors."""

    def take(self, ordinals: NDArray[np.int64], matrix: Matrix, valid: Mask) -> None:
        """Take some rows; an ordinal may come again, with the same vector."""
        ordinals, matrix, valid = self._without_repetition(ordinals, matrix, valid)
        self._make_room(int(ordinals.max(initial=-1)) + 1)
        again = self.given[ordinals]
        if again.any():
            same = self.present[ordinals[again]] == valid[again]
            held = self.edit.rows(ordinals[again])
            same &= ~valid[again] | ~self._other(held, matrix[again])
            self.conflicts += ordinals[again][~same].tolist()
            ordinals, matrix, valid = ordinals[~again], matrix[~again], valid[~again]
        self.given[ordinals] = True
        self.present[ordinals] = valid
        there = _inside(self.before, ordinals)
        self.differs |= bool((there != valid).any())
        ordinals, matrix, there = ordinals[valid], matrix[valid], there[valid]
        other = self._other(self.before.rows(ordinals), matrix)
        self.differs |= bool((other & there).any())
        other |= ~there
        self.edit.put(ordinals[other], matrix[other])

    def _other(self, have: Matrix, given: Matrix) -> Mask:
        """Which vectors are others than those that readers have, as far as the column tells them apart."""
        wanted = given
        if self.storage.lossy:
            wanted = nearest_sent(have, given, error_bounds(given, self.storage))
        other: Mask = (have.view(np.uint32) != wanted.view(np.uint32)).any(axis=1)
        return other

    def _without_repetition(
        self, ordinals: NDArray[np.int64], matrix: Matrix, valid: Mask
    ) -> tuple[NDArray[np.int64], Matrix, Mask]:
        found, first, place = np.unique(ordinals, return_index=True, return_inverse=True)
        if len(found) == len(ordinals):
            return ordinals, matrix, valid
        again = first[place]
        same = (matrix.view(np.uint32) == matrix[again].view(np.uint32)).all(axis=1) | ~valid
        same &= valid == valid[again]
        self.conflicts += ordinals[~same].tolist()
        return found, matrix[first], valid[first]

    def _make_room(self, size: int) -> None:
        if size > len(self.given):
            room = max(size, len(self.given) * 5 // 4) - len(self.given)
            self.given = np.concatenate([self.given, np.zeros(room, np.bool_)])
            self.present = np.concatenate([self.present, np.zeros(room, np.bool_)])


class GivenVectors:
    """Collects the vectors of a cycle; its `take` is what ingest hands them to."""

    def __init__(
        self,
        columns: tuple[VectorColumn, ...],
        storages: Mapping[ColumnKey, VectorStorage],
        before: Mapping[ColumnKey, StoredVectors],
    ) -> None:
        self.columns: dict[ColumnKey, GivenColumn] = {}
        for column in columns:
            key = column.type_name, column.field_name
            if key not in storages or storages[key].form == "bytes":
                continue
            held = before.get(key)
            started = held is not None and held.dimensions == column.dimensions
            base = held if held is not None and started else StoredVectors.empty(column.dimensions)
            self.columns[key] = GivenColumn(storages[key], base, started, VectorEdit(base))

    def take(self, column: VectorColumn, ordinals: Ordinals, matrix: Matrix, valid: Mask | None) -> None:
        """Take the vectors of numbered records."""
        given = self.columns.get((column.type_name, column.field_name))
        if given is None:
            return
        counted = np.ones(len(ordinals), np.bool_) if valid is None else valid
        for start in range(0, len(ordinals), _BLOCK_ROWS):
            here = slice(start, start + _BLOCK_ROWS)
            given.take(ordinals[here].astype(np.int64), np.ascontiguousarray(matrix[here]), counted[here])

    @property
    def differ(self) -> bool:
        """True if there is something to publish, even if no record is another one."""
        return any(given.differs or given.conflicts or not given.started for given in self.columns.values())


def _inside(column: StoredVectors, ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
    words = column.present.words
    inside = ordinals >> 6 < len(words)
    found = np.zeros(len(ordinals), np.bool_)
    chosen = ordinals[inside]
    bits = words[chosen >> 6] >> (chosen & 63).astype(np.uint64) & np.uint64(1)
    found[inside] = bits.astype(np.bool_)
    return found
