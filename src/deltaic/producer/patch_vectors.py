"""Vectors of patched records: the rows that deltas change, as one matrix."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.kernels import vectors
from deltaic.producer.patch_overlay import Growing, Rows
from deltaic.producer.populate import Population
from deltaic.schema.classes import VectorColumn
from deltaic.state.vector_column import StoredVectors
from deltaic.wire.patches import PatchGroup
from deltaic.wire.vectors import Section

Matrix = NDArray[np.float32]
Refused = Callable[[int, int, float, float], None]
"""Told a row of a group, a dimension, what is there, and what was expected."""


class VectorEdits:
    """Copies of the vectors of one column, by the row of their record in its overlay."""

    def __init__(self, column: VectorColumn, stored: StoredVectors) -> None:
        self._column, self._stored = column, stored
        self._slots = Growing(-1)
        self._matrix: Matrix = np.zeros((0, column.dimensions), np.float32)
        self._owners: Rows = np.zeros(0, np.int64)

    def copied(self, at: Rows, base: Rows) -> NDArray[np.bool_]:
        """Copy the vectors of records that were not copied yet; tells which records have one."""
        self._slots.grow(int(at.max(initial=-1)) + 1)
        slots = self._slots.values
        need, first = np.unique(at[slots[at] < 0], return_index=True)
        ordinals = base[slots[at] < 0][first]
        present = self._stored.present.flags(int(ordinals.max(initial=-1)) + 1)[ordinals]
        need, ordinals = need[present], ordinals[present]
        if len(need):
            slots[need] = len(self._matrix) + np.arange(len(need))
            self._matrix = np.concatenate([self._matrix, self._stored.rows(ordinals)])
            self._owners = np.concatenate([self._owners, need])
        found: NDArray[np.bool_] = slots[at] >= 0
        return found

    def repeated(self, group: PatchGroup, at: Rows) -> NDArray[np.bool_]:
        """True for records with several deltas whose order is not kept by frames, or matters for previous values."""
        order = np.sort(at)
        twice = np.isin(at, order[1:][order[1:] == order[:-1]])
        assert group.values is not None
        frames = group.values.read_frames()
        if sum(len(frame.sections) for frame in frames) <= 1 and not any(frame.has_prev for frame in frames):
            twice[:] = False
        return twice

    def move(self, group: PatchGroup, rows: Rows, at: Rows, refused: Refused) -> Rows:
        """Apply the deltas of some rows of a group; gives the rows whose previous values were what they should be.

        `refused` is told of the others: row, dimension, what is there, what was expected.
        """
        assert group.values is not None
        frames = group.values.read_frames()
        dims = self._column.dimensions
        for frame in frames:
            if frame.dims != dims:
                name = f"{self._column.type_name}.{self._column.field_name}"
                raise InputError(
                    f"{name}: a delta of {frame.dims} dimensions for a vector of {dims}", "DimensionMismatch"
                )
        # Rows that are not meant change a row behind the others, which nobody reads.
        matrix = np.concatenate([self._matrix, np.zeros((1, dims), np.float32)])
        words = matrix.view(np.uint32)
        slots = np.full(group.count, len(self._matrix), np.int64)
        slots[rows] = self._slots.values[at]
        for frame in frames:
            for section in frame.sections:
                if section.prev is not None:
                    self._hold_against(section, words, slots, refused)
        for frame in frames:
            for section in frame.sections:
                _apply(section, words, slots[section.row_ids], frame.relative)
        self._matrix = matrix[:-1]
        return rows[slots[rows] < len(self._matrix)]

    def _hold_against(self, section: Section, words: NDArray[np.uint32], slots: Rows, refused: Refused) -> None:
        assert section.prev is not None
        owners = np.repeat(section.row_ids, np.diff(section.offsets))
        indices = section.indices(self._column.dimensions).astype(np.int64)
        found = words[slots[owners], indices]
        for place in np.flatnonzero((found != section.prev) & (slots[owners] < len(self._matrix))).tolist():
            row = int(owners[place])
            if slots[row] == len(self._matrix):
                continue
            there, expected = (float(np.float32(each.view(np.float32))) for each in (found[place], section.prev[place]))
            slots[row] = len(self._matrix)
            refused(row, int(indices[place]), there, expected)

    def hand_over(self, cycle: Population, alive: NDArray[np.bool_], ordinals: NDArray[np.int32]) -> None:
        """Give the vectors of records that were written to the cycle."""
        kept = alive[self._owners]
        cycle.vectors.take(self._column, ordinals[self._owners[kept]], self._matrix[kept], None)


def _apply(section: Section, words: NDArray[np.uint32], targets: Rows, relative: bool) -> None:
    """Put the words of a section into a matrix; of a row that is there twice in the order of the section."""
    if section.gaps is not None:
        vectors.apply_sparse(words, targets, section.offsets, section.gaps, section.words, relative)
    elif section.run_offsets is not None and section.run_gaps is not None and section.run_lengths is not None:
        vectors.apply_runs(
            words, targets, section.run_offsets, section.run_gaps, section.run_lengths, section.words, relative
        )
    elif section.known_indices is not None:
        words[np.repeat(targets, np.diff(section.offsets)), section.known_indices] = section.words
    else:
        vectors.apply_dense(words, targets, section.words, relative)
