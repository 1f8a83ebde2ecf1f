"""What nobody refers to any more because the model dropped a reference, of a field or with a whole type."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from deltaic.producer.references import references
from deltaic.schema.model import Model
from deltaic.schema.types import ObjectSchema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.columns import FixedColumn
from deltaic.state.read import ReadState

Records = dict[str, OrdinalSet]
Lost = Mapping[str, frozenset[str] | None]
"""Type → fields that referred to something and are not in the model; None for a type that it lacks."""

_NOTHING = OrdinalSet(np.zeros(0, np.uint64))


def lost_references(model: Model, previous: ReadState) -> Lost:
    """What referred to something in the version before, and is not in the model."""
    lost: dict[str, frozenset[str] | None] = {}
    for schema in previous.schemas:
        own = model.schemas.get(schema.name)
        if own is None and schema.references():
            lost[schema.name] = None
        if not isinstance(schema, ObjectSchema) or not isinstance(own, ObjectSchema):
            continue
        renamed = set(model.renamed.get(schema.name, {}).values())
        gone = {field.name for field in schema.fields if field.referenced and own.position(field.name) < 0} - renamed
        if gone:
            lost[schema.name] = frozenset(gone)
    return lost


def released_by_model(
    model: Model, previous: ReadState, lost: Lost, removed: Mapping[str, OrdinalSet], needed: Mapping[str, OrdinalSet]
) -> Records:
    """The records that go: `removed` ones, and those that only lost references led to.

    A record that was there for itself stays: none that lost references never led to is looked at.
    """
    freed = _closure(previous, _targets(previous, lost), {})
    candidates = {name: freed.get(name, _NOTHING).union(removed.get(name, _NOTHING)) for name in {*freed, *removed}}
    roots = _roots(model, previous)
    kept: Records = {}
    for name, data in previous.types.items():
        if name not in model.schemas:
            continue
        gone = removed if name in roots else candidates
        there = data.populated.difference(gone.get(name, _NOTHING))
        kept[name] = there.union(needed.get(name, _NOTHING).intersection(data.populated))
    reached = _closure(previous, kept, lost)
    return {name: each.difference(reached.get(name, _NOTHING)) for name, each in candidates.items()}


def _targets(state: ReadState, lost: Lost) -> Records:
    """What the lost references led to."""
    found: Records = {}
    for name, fields in lost.items():
        ordinals = state.types[name].populated.ordinals()
        pairs = references(state, name, ordinals) if fields is None else _fields(state, name, ordinals, fields)
        for target, each in pairs:
            found[target] = found.get(target, _NOTHING).union(_set(each))
    return found


def _closure(state: ReadState, start: Records, lost: Lost) -> Records:
    """Some records and all they lead to, but by lost references."""
    reached: Records = {}
    waiting = dict(start)
    while waiting:
        name, found = waiting.popitem()
        fresh = found.difference(reached.get(name, _NOTHING))
        if not fresh:
            continue
        reached[name] = reached.get(name, _NOTHING).union(fresh)
        without, schema = lost.get(name), state.types[name].schema
        pairs = references(state, name, fresh.ordinals())
        if without and isinstance(schema, ObjectSchema):
            names = frozenset(field.name for field in schema.fields if field.name not in without)
            pairs = _fields(state, name, fresh.ordinals(), names)
        for target, ordinals in pairs:
            waiting[target] = waiting.get(target, _NOTHING).union(_set(ordinals))
    return reached


def _roots(model: Model, previous: ReadState) -> set[str]:
    """The types whose records were added as such.

    Where no classes say it, a type without a key that others referred to is none, though nothing refers to it now.
    """
    if model.classes:
        return set(model.roots)
    referred = {name for schema in previous.schemas for name in schema.references() if name != schema.name}
    return {name for name in model.roots if name not in referred or _has_key(model, name)}


def _has_key(model: Model, name: str) -> bool:
    schema = model.schemas[name]
    return isinstance(schema, ObjectSchema) and bool(schema.primary_key)


def _fields(
    state: ReadState, name: str, ordinals: NDArray[np.int64], fields: frozenset[str]
) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """What records refer to by some fields."""
    schema = state.types[name].schema
    assert isinstance(schema, ObjectSchema)
    for field in schema.fields:
        if field.name in fields and field.referenced is not None and field.referenced in state:
            column = state[name].column(field.name, ordinals)
            assert isinstance(column, FixedColumn)
            yield field.referenced, column.values if column.valid is None else column.values[column.valid]


def _set(ordinals: NDArray[np.int32]) -> OrdinalSet:
    return OrdinalSet.from_ordinals(np.unique(ordinals).astype(np.int64))
