"""Compaction: records at the high end of a type move into its holes, and all that refer to them follow.

A type that lost many records keeps their slots. A compaction cycle gives the last records the ordinals of the holes, so
that the next version's blobs, and the memory of readers, shrink. It is a version like others: its delta carries every
moved record and every record on the way up to the roots.
"""

from dataclasses import dataclass

import numpy as np

from deltaic.errors import InputError
from deltaic.producer.diff import model_changed
from deltaic.producer.moving import Ordinals, add_moved, refers_to_moved
from deltaic.producer.populate import Population
from deltaic.schema.schemas import SchemaSet
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.restore import RestoredType


@dataclass(frozen=True, slots=True)
class CompactionLimits:
    """When a type is worth compacting: both must be reached."""

    hole_percent: float = 20.0
    """Holes among all ordinals up to the largest."""
    hole_bytes: int = 64 << 10
    """What the holes cost, about."""


def compactable(state: ReadState, limits: CompactionLimits) -> tuple[str, ...]:
    """The types to compact in one cycle: worth it, and none of them refers to another one, directly or not."""
    chosen: list[str] = []
    in_circles = _in_circles(state.schemas)
    for schema in state.schemas.dependency_order():
        data = state.types[schema.name]
        slots = data.max_ordinal + 1
        if slots == 0 or data.holes == 0 or len(_movers(state, schema.name)) == 0:
            continue
        worth = (
            100.0 * data.holes / slots >= limits.hole_percent
            and data.holes * state[schema.name].nbytes // slots >= limits.hole_bytes
        )
        users = {other.name for other in state.schemas if schema.name in state.schemas.closure([other.name]).names}
        reached = set(state.schemas.closure([schema.name]).names) - {schema.name}
        if worth and not users & in_circles and not reached & set(chosen):
            chosen.append(schema.name)
    return tuple(chosen)


def populate_compacted(cycle: Population, limits: CompactionLimits) -> None:
    """Build a version with the content of the one before, and fewer holes."""
    state, target = cycle.previous, cycle.write_state
    if state is None:
        raise InputError("there is no version to compact")
    if model_changed(cycle.model, state):
        raise InputError("the model changed: publish a version with it before compacting")
    target.keep_all_from_previous()
    chosen = compactable(state, limits)
    moves: dict[str, Ordinals] = {}
    for schema in state.schemas.dependency_order():
        name = schema.name
        data = state.types[name]
        if name in chosen:
            movers = _movers(state, name)
            holes = _holes(state, name)
            target.remove(name, movers)
            restored = RestoredType(schema, data, exact=True)
            target.place(name, *restored.serialized(OrdinalSet.from_ordinals(movers)), holes)
            moves[name] = _moves(data.max_ordinal, movers, holes)
            continue
        if not any(child in moves for child in schema.references()):
            continue
        affected = refers_to_moved(state, name, moves)
        if len(affected):
            target.remove(name, affected)
            moves[name] = _moves(data.max_ordinal, affected, add_moved(target, state, name, affected, moves))


def _movers(state: ReadState, name: str) -> Ordinals:
    """The records past the place where the type would end without holes, rising."""
    populated = state.types[name].populated.ordinals()
    return populated[populated >= len(populated)]


def _holes(state: ReadState, name: str) -> Ordinals:
    """The holes before that place: as many as there are movers."""
    populated = state.types[name].populated
    return np.flatnonzero(~populated.flags(len(populated))).astype(np.int64)


def _moves(max_ordinal: int, old: Ordinals, new: Ordinals) -> Ordinals:
    moves = np.arange(max_ordinal + 1, dtype=np.int64)
    moves[old] = new
    return moves


def _in_circles(schemas: SchemaSet) -> set[str]:
    """Types that refer to themselves, directly or not: their records cannot be rewritten bottom up."""
    return {
        schema.name
        for schema in schemas
        if any(schema.name in schemas.closure([child]).names for child in schema.references() if child in schemas)
    }
