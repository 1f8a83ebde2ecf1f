"""Vectors in a change feed: which records have another vector, and how it differs."""

import numpy as np

from deltaic.compare.feed_groups import Gathering
from deltaic.compare.feed_values import Ordinals, VectorValues
from deltaic.compare.vectors import changed_rows, columns_of
from deltaic.state.bitset import EMPTY
from deltaic.state.read import ReadState
from deltaic.state.vector_arrow import present_rows
from deltaic.state.vector_column import StoredVectors
from deltaic.wire.patches.patch import Operation
from deltaic.wire.patches.places import field_text


def stayed_with_other_vectors(before: ReadState, after: ReadState, type_name: str) -> Ordinals:
    """The ordinals populated in both states that have another vector in a column of the later one."""
    if type_name not in before or type_name not in after:
        return np.zeros(0, np.int64)
    old, changed = columns_of(before, type_name), EMPTY
    for name, column in columns_of(after, type_name).items():
        changed = changed.union(changed_rows(old.get(name), column))
    stayed = before.types[type_name].populated.intersection(after.types[type_name].populated)
    return changed.intersection(stayed).ordinals()


def compare_vectors(
    before: ReadState, after: ReadState, type_name: str, old: Ordinals, new: Ordinals, found: Gathering
) -> None:
    """Compare the vectors of pairs of records, and gather what differs."""
    earlier = columns_of(before, type_name)
    for name, column in columns_of(after, type_name).items():
        was = earlier.get(name)
        if was is None or was.dimensions != column.dimensions:
            was = StoredVectors.empty(column.dimensions)
        had, has = present_rows(was, old), present_rows(column, new)
        one, other = was.rows(old), column.rows(new)
        differs = (one.view(np.uint32) != other.view(np.uint32)).any(axis=1)
        path = field_text(name)
        both = np.flatnonzero(had & has & differs)
        for operation, rows in (
            (Operation.VECTOR, both),
            (Operation.SET, np.flatnonzero(has & ~had)),
            (Operation.DELETE, np.flatnonzero(had & ~has)),
        ):
            values = VectorValues(other[rows], has[rows])
            previous = VectorValues(one[rows], had[rows])
            after_values = None if operation is Operation.DELETE else values
            # A vector delta is said against what was there, asked for or not.
            found.add(operation, path, rows, (), after_values, previous, always=operation is Operation.VECTOR)
