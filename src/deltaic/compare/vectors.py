"""Vector columns of two states compared, and digests of vectors.

Vectors are compared by their bits: two zeros of different sign differ, and so do two NaN of different payload. Versions
of a chain share the chunks in which nothing changed; those are not looked at.
"""

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.digest import Digest, Seeds, mixed
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.vector_arrow import present_rows
from deltaic.state.vector_column import CHUNK_ROWS, Matrix, StoredVectors, is_shared_zero, present_in

Ordinals = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)
_DIGEST_ROWS = 4096


def columns_of(state: ReadState, type_name: str) -> dict[str, StoredVectors]:
    """The vector columns of a type by name."""
    return {name: column for (owner, name), column in state.vectors.items() if owner == type_name}


def changed_vectors(before: ReadState, after: ReadState, type_name: str) -> OrdinalSet:
    """The ordinals that have another vector in one state than in the other, in any of the columns.

    A column that one of the states lacks is one in which nothing has a vector.
    """
    old, new = columns_of(before, type_name), columns_of(after, type_name)
    changed = EMPTY
    for name in dict.fromkeys((*old, *new)):
        changed = changed.union(changed_rows(old.get(name), new.get(name)))
    return changed


def changed_rows(before: StoredVectors | None, after: StoredVectors | None) -> OrdinalSet:
    """The ordinals whose vectors differ between two columns; None stands for one without vectors."""
    if before is after:
        return EMPTY
    one, other = (EMPTY if column is None else column.present for column in (before, after))
    if before is None or after is None or before.dimensions != after.dimensions:
        return one.union(other)
    changed = one.difference(other).union(other.difference(one))
    both = one.intersection(other)
    found = []
    for number, (old, new) in enumerate(zip(before.chunks, after.chunks, strict=False)):
        if same_memory(old, new):
            continue
        counted = present_in(both, number)
        if counted.any():
            found.append(np.flatnonzero(_differ(old, new) & counted) + number * CHUNK_ROWS)
    if found:
        changed = changed.union(OrdinalSet.from_ordinals(np.concatenate(found)))
    return changed


def same_memory(one: Matrix, other: Matrix) -> bool:
    """True if two chunks are the same bytes of memory; others may still be equal."""
    return one is other or (
        one.strides == other.strides
        and one.shape == other.shape
        and one.__array_interface__["data"][0] == other.__array_interface__["data"][0]
    )


def shares_vectors(before: ReadState, after: ReadState) -> bool:
    """True if the vectors of two states are the same memory, so that nothing can differ; False if it may."""
    if before.vectors.keys() != after.vectors.keys():
        return False
    for key, one in before.vectors.items():
        other = after.vectors[key]
        if one is other:
            continue
        if one.dimensions != other.dimensions or one.present != other.present or len(one.chunks) != len(other.chunks):
            return False
        if not all(map(same_memory, one.chunks, other.chunks)):
            return False
    return True


def equal_vectors(one: ReadState, other: ReadState) -> bool:
    """True if two states have the same vector columns, bit for bit, at the same ordinals."""
    return one.vectors.keys() == other.vectors.keys() and all(
        column is other.vectors[key] or column.same_as(other.vectors[key]) for key, column in one.vectors.items()
    )


def vector_digest(column: StoredVectors, ordinals: Ordinals, seeds: Seeds) -> Digest:
    """The digests of the vectors of ordinals; 0 where there is none."""
    seed = seeds.of("vector")
    places = np.arange(1, column.dimensions + 1, dtype=np.uint64)
    keys = mixed(places * _GOLDEN + seed) | np.uint64(1)
    found = np.zeros((2, len(ordinals)), np.uint64)
    for start in range(0, len(ordinals), _DIGEST_ROWS):
        part = slice(start, start + _DIGEST_ROWS)
        patterns = column.rows(np.maximum(ordinals[part], 0)).view(np.uint32).astype(np.uint64)
        for lane in range(2):
            found[lane, part] = patterns @ keys[lane]
    found = mixed(found + seed + np.uint64(column.dimensions))
    found[:, ~present_rows(column, ordinals)] = 0
    return found


def _differ(one: Matrix, other: Matrix) -> NDArray[np.bool_]:
    if is_shared_zero(one) or is_shared_zero(other):
        one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    found: NDArray[np.bool_] = (one.view(np.uint32) != other.view(np.uint32)).any(axis=1)
    return found
