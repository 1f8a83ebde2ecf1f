"""Vectors in a change feed: which records have another vector, and how it differs."""

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.feed_groups import Gathering
from deltaic.compare.feed_values import Ordinals, VectorValues
from deltaic.state.read import ReadState
from deltaic.state.vector_column import CHUNK_ROWS, StoredVectors, present_in
from deltaic.wire.patches.patch import Operation
from deltaic.wire.patches.places import field_text

Mask = NDArray[np.bool_]


def columns_of(state: ReadState, type_name: str) -> dict[str, StoredVectors]:
    """The vector columns of a type by field."""
    return {name: column for (owner, name), column in state.vectors.items() if owner == type_name}


def changed_vectors(before: ReadState, after: ReadState, type_name: str) -> Ordinals:
    """The ordinals populated in both states whose vector differs; chunks that the states share are not looked at."""
    found = [np.zeros(0, np.int64)]
    old, new = columns_of(before, type_name), columns_of(after, type_name)
    if type_name not in before or type_name not in after:
        return found[0]
    for name, column in new.items():
        was = old.get(name)
        if was is not column:
            found.append(_changed(was, column))
    ordinals = np.unique(np.concatenate(found))
    if len(ordinals):
        both = before.types[type_name].populated.intersection(after.types[type_name].populated)
        ordinals = ordinals[both.flags(int(ordinals[-1]) + 1)[ordinals]]
    return ordinals


def compare_vectors(
    before: ReadState, after: ReadState, type_name: str, old: Ordinals, new: Ordinals, found: Gathering
) -> None:
    """Compare the vectors of pairs of records, and gather what differs."""
    earlier = columns_of(before, type_name)
    for name, column in columns_of(after, type_name).items():
        was = earlier.get(name)
        if was is None or was.dimensions != column.dimensions:
            was = StoredVectors.empty(column.dimensions)
        had, has = _present(was, old), _present(column, new)
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


def _present(column: StoredVectors, ordinals: Ordinals) -> Mask:
    if not len(ordinals):
        return np.zeros(0, np.bool_)
    found: Mask = column.present.flags(int(ordinals.max()) + 1)[ordinals]
    return found


def _changed(was: StoredVectors | None, now: StoredVectors) -> Ordinals:
    if was is None or was.dimensions != now.dimensions:
        return now.present.ordinals()
    found = [np.zeros(0, np.int64)]
    gone = was.present.difference(now.present).union(now.present.difference(was.present))
    found.append(gone.ordinals())
    for number, chunk in enumerate(now.chunks):
        if number >= len(was.chunks) or was.chunks[number] is chunk:
            continue
        one, other = np.ascontiguousarray(was.chunks[number]), np.ascontiguousarray(chunk)
        differs = (one.view(np.uint32) != other.view(np.uint32)).any(axis=1) & present_in(now.present, number)
        found.append(np.flatnonzero(differs) + number * CHUNK_ROWS)
    return np.concatenate(found)
