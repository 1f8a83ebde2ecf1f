"""Vectors of ghosts: records that the last delta removed stay readable for one version, and so do their vectors.

Their rows stay in the chunks until the ordinal is used again. Which of those rows mean something only the column before
can tell: a record without a vector may stand where an earlier one had one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.vector_column import StoredVectors


@dataclass(frozen=True, eq=False)
class GhostedVectors(StoredVectors):
    """A vector column that also gives the vectors of ghosts. They count in nothing else."""

    ghosts: OrdinalSet = EMPTY
    """The ordinals of ghosts that had a vector."""

    def __getitem__(self, ordinal: int) -> NDArray[np.float32] | None:
        """The vector of an ordinal or of a ghost, not copied and read-only; None if it has none."""
        return self.ghost(ordinal) if ordinal in self.ghosts else super().__getitem__(ordinal)


def ghosts_of(column: StoredVectors) -> OrdinalSet:
    """The ordinals of ghosts that a column gives vectors of."""
    return column.ghosts if isinstance(column, GhostedVectors) else EMPTY


def with_ghosts(before: StoredVectors | None, after: StoredVectors, pending: OrdinalSet) -> StoredVectors:
    """A column after a delta, with the vectors of what it removed.

    Args:
        before: the column before the delta; None if there was none.
        after: the column after it.
        pending: the ordinals of the ghosts of the type after it.
    """
    if before is None or before.dimensions != after.dimensions or not pending:
        return after
    gone = before.present.union(ghosts_of(before)).intersection(pending).difference(after.present)
    if not gone:
        return after
    ordinals = gone.ordinals()
    # A column that started anew holds nothing of the one before.
    stayed = (before.rows(ordinals).view(np.uint32) == after.rows(ordinals).view(np.uint32)).all(axis=1)
    found = OrdinalSet.from_ordinals(ordinals[stayed])
    if not found:
        return after
    return GhostedVectors(after.dimensions, after.chunks, after.present, found, _sums=dict(after._sums))
