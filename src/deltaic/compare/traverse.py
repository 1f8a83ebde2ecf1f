"""Sets of records and what hangs on them: children, parents, what nobody else needs, orphans.

    matches = {"Movie": OrdinalSet.from_ordinals(chosen)}
    whole = add_children(state, matches)                  # with all that they refer to, directly or not
    alone = without_referenced_outside(state, whole)      # without what other records refer to as well

Nothing changes: each call gives a new mapping. References are followed by column, a type at a time.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.links import edges_of, root_types, type_groups
from deltaic.errors import NotFoundError
from deltaic.schema.types import ObjectSchema
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.read import ReadState

Matches = Mapping[str, OrdinalSet]
"""Records by type."""

_Flags = dict[str, NDArray[np.bool_]]


def populated(state: ReadState) -> dict[str, OrdinalSet]:
    """Every record of a state."""
    return {name: data.populated for name, data in state.types.items()}


def add_children(state: ReadState, matches: Matches) -> dict[str, OrdinalSet]:
    """The records and all that they refer to, directly or not."""
    found = _checked(state, matches)
    waiting = dict(found)
    groups = type_groups(data.schema for data in state.types.values())
    for group in reversed(groups):
        # A type that refers to itself comes round again until nothing new is found; any other is done in one pass.
        while any(waiting.get(name) for name in group):
            for name in group:
                fresh = waiting.pop(name, EMPTY)
                if not fresh:
                    continue
                for edges in edges_of(state, name, fresh.ordinals()):
                    reached = OrdinalSet.from_ordinals(edges.targets.astype(np.int64))
                    new = reached.difference(found.get(edges.target_type, EMPTY))
                    if new:
                        found[edges.target_type] = found.get(edges.target_type, EMPTY).union(new)
                        waiting[edges.target_type] = waiting.get(edges.target_type, EMPTY).union(new)
    return _ordered(state, found)


def parents(state: ReadState, matches: Matches) -> dict[str, OrdinalSet]:
    """The populated records that refer to one of the records, directly."""
    flags = _flags(state, _checked(state, matches))
    found: dict[str, OrdinalSet] = {}
    for name, data in state.types.items():
        if any(target in flags for target in data.schema.references()):
            ordinals = data.populated.ordinals()
            hit = _referring(state, name, ordinals, flags)
            if hit.any():
                found[name] = OrdinalSet.from_ordinals(ordinals[hit])
    return found


def add_parents(state: ReadState, matches: Matches) -> dict[str, OrdinalSet]:
    """The records and all populated records from which references lead to them, over however many steps."""
    found = _checked(state, matches)
    for group in type_groups(data.schema for data in state.types.values()):
        left = {
            name: state.types[name].populated.difference(found.get(name, EMPTY)).ordinals()
            for name in group
            if any(target in found or target in group for target in state.types[name].schema.references())
        }
        grown = True
        while grown:
            grown = False
            flags = _flags(state, found)
            for name, ordinals in left.items():
                hit = _referring(state, name, ordinals, flags)
                if hit.any():
                    found[name] = found.get(name, EMPTY).union(OrdinalSet.from_ordinals(ordinals[hit]))
                    left[name] = ordinals[~hit]
                    grown = len(group) > 1 or name in state.types[name].schema.references()
    return _ordered(state, found)


def without_referenced_outside(state: ReadState, matches: Matches) -> dict[str, OrdinalSet]:
    """Those of the records that no populated record outside refers to; what they keep alive goes with them.

    The rest can be removed from a state without leaving a reference to nowhere.
    """
    found = _checked(state, matches)
    outside = {name: data.populated.difference(found.get(name, EMPTY)) for name, data in state.types.items()}
    kept = add_children(state, {name: records for name, records in outside.items() if records})
    remaining = {name: records.difference(kept.get(name, EMPTY)) for name, records in found.items()}
    return {name: records for name, records in remaining.items() if records}


def with_what_only_they_need(state: ReadState, removed: Matches) -> dict[str, OrdinalSet]:
    """The records with all that is of no use once they are gone: what only they lead to.

    References to the records themselves hold nothing back; records of types with a primary key stand for themselves.
    """
    gone = _checked(state, removed)
    below = add_children(state, gone)
    needed: dict[str, OrdinalSet] = {}
    for name, data in state.types.items():
        alone = isinstance(data.schema, ObjectSchema) and data.schema.primary_key
        needed[name] = data.populated.difference((gone if alone else below).get(name, EMPTY))
    waiting = {name: records for name, records in needed.items() if records}
    while waiting:
        name, fresh = waiting.popitem()
        for edges in edges_of(state, name, fresh.ordinals()):
            reached = OrdinalSet.from_ordinals(edges.targets.astype(np.int64))
            new = reached.difference(gone.get(edges.target_type, EMPTY)).difference(needed[edges.target_type])
            if new:
                needed[edges.target_type] = needed[edges.target_type].union(new)
                waiting[edges.target_type] = waiting.get(edges.target_type, EMPTY).union(new)
    found = {name: records.difference(needed[name]) for name, records in below.items()}
    return {name: records for name, records in found.items() if records}


def orphans(state: ReadState, roots: Iterable[str] | None = None) -> dict[str, OrdinalSet]:
    """The populated records that no record of a root type leads to.

    Args:
        state: the state.
        roots: types whose records count by themselves; by default those with a primary key, and those that no other
            type refers to.
    """
    names = root_types(data.schema for data in state.types.values()) if roots is None else tuple(roots)
    needed = add_children(state, {name: _records(state, name) for name in names})
    found = {name: data.populated.difference(needed.get(name, EMPTY)) for name, data in state.types.items()}
    return {name: records for name, records in found.items() if records}


def reference_counts(state: ReadState, type_name: str) -> NDArray[np.int64]:
    """For each ordinal of a type, how many references of populated records lead to it."""
    data = state.types[type_name]
    counts = np.zeros(data.max_ordinal + 1, np.int64)
    for name, other in state.types.items():
        if type_name in other.schema.references():
            for edges in edges_of(state, name, other.populated.ordinals()):
                if edges.target_type == type_name:
                    counts += np.bincount(edges.targets, minlength=len(counts))
    return counts


def _checked(state: ReadState, matches: Matches) -> dict[str, OrdinalSet]:
    for name, records in matches.items():
        data = state.types.get(name)
        if data is None:
            raise NotFoundError(f"there is no type {name!r} in this state; types: {', '.join(state.types) or 'none'}")
        if records.max() > data.max_ordinal:
            raise NotFoundError(f"type {name} has no record {records.max()}")
    return {name: records for name, records in matches.items() if records}


def _records(state: ReadState, name: str) -> OrdinalSet:
    if name not in state:
        raise NotFoundError(f"there is no type {name!r} in this state; types: {', '.join(state.types) or 'none'}")
    return state.types[name].populated


def _ordered(state: ReadState, found: Matches) -> dict[str, OrdinalSet]:
    return {name: found[name] for name in state.types if name in found}


def _flags(state: ReadState, matches: Matches) -> _Flags:
    return {name: records.flags(state.types[name].max_ordinal + 1) for name, records in matches.items()}


def _referring(state: ReadState, name: str, ordinals: NDArray[np.int64], flags: _Flags) -> NDArray[np.bool_]:
    """Which of these records refer to a flagged one."""
    hit = np.zeros(len(ordinals), np.bool_)
    for edges in edges_of(state, name, ordinals):
        if edges.target_type in flags:
            hit[edges.owners[flags[edges.target_type][edges.targets]]] = True
    return hit
