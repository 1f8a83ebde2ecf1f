"""Records that get another ordinal, and records that refer to them: what compaction and chain patching share."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.schema.types import ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state.columns import BytesColumn, FixedColumn
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.state.write_columns import (
    AnyColumn,
    Column,
    Serialized,
    VariableColumn,
    list_batch,
    map_batch,
    object_batch,
    set_batch,
)

Ordinals = NDArray[np.int64]
Moves = Mapping[str, Ordinals]
"""By type: the new ordinal of every ordinal, the same one where nothing moved."""


def refers_to_moved(state: ReadState, type_name: str, moves: Moves) -> Ordinals:
    """The populated records of a type that refer to a record that moved."""
    view = state[type_name]
    owners = view.populated.ordinals()
    if isinstance(view.schema, ObjectSchema):
        affected = np.zeros(len(owners), np.bool_)
        for field in view.schema.fields:
            if field.referenced in moves:
                column = view.column(field.name, owners)
                assert isinstance(column, FixedColumn)
                moved = _moved(moves[field.referenced or ""], column.values)
                affected |= moved if column.valid is None else moved & column.valid
        return owners[affected]
    targets = view.schema.references()
    if not any(target in moves for target in targets):
        return owners[:0]
    members = view.members(owners)
    owner_of = np.repeat(np.arange(len(owners)), np.diff(members.offsets))
    hit = np.zeros(len(members.elements), np.bool_)
    if targets[0] in moves:
        hit |= _moved(moves[targets[0]], members.elements)
    if members.values is not None and targets[-1] in moves:
        hit |= _moved(moves[targets[-1]], members.values)
    return owners[np.unique(owner_of[hit])]


def add_moved(target: WriteState, state: ReadState, type_name: str, ordinals: Ordinals, moves: Moves) -> Ordinals:
    """Add records of a state again, with the new ordinals of what they refer to; gives their own new ordinals."""
    schema = state[type_name].schema
    match schema:
        case ObjectSchema():
            added = target.add_objects(type_name, object_columns(state, type_name, ordinals, moves), len(ordinals))
        case ListSchema():
            offsets, elements, _ = _members(state, type_name, ordinals, moves)
            added = target.add_lists(type_name, offsets, elements)
        case SetSchema():
            offsets, elements, _ = _members(state, type_name, ordinals, moves)
            added = target.add_sets(type_name, offsets, elements)
        case MapSchema():
            offsets, keys, values = _members(state, type_name, ordinals, moves)
            assert values is not None
            added = target.add_maps(type_name, offsets, keys, values)
    return added.astype(np.int64)


def serialize_moved(schema: Schema, state: ReadState, type_name: str, ordinals: Ordinals, moves: Moves) -> Serialized:
    """Records of a state as a writer of `schema` keeps them, with the new ordinals of what they refer to."""
    match schema:
        case ObjectSchema():
            columns = object_columns(state, type_name, ordinals, moves)
            known = {name: column for name, column in columns.items() if schema.position(name) >= 0}
            return object_batch(schema, known, len(ordinals), {}).whole()
        case ListSchema():
            offsets, elements, _ = _members(state, type_name, ordinals, moves)
            return list_batch(type_name, offsets, elements, None).whole()
        case SetSchema():
            offsets, elements, _ = _members(state, type_name, ordinals, moves)
            return set_batch(type_name, offsets, elements, None, None).whole()
        case MapSchema():
            offsets, keys, values = _members(state, type_name, ordinals, moves)
            assert values is not None
            return map_batch(type_name, offsets, keys, values, None, None, None).whole()


def object_columns(state: ReadState, type_name: str, ordinals: Ordinals, moves: Moves) -> dict[str, AnyColumn]:
    """The fields of records as columns to write, references already led to where the records moved."""
    view = state[type_name]
    assert isinstance(view.schema, ObjectSchema)
    columns: dict[str, AnyColumn] = {}
    for field in view.schema.fields:
        column = view.column(field.name, ordinals)
        if isinstance(column, BytesColumn):
            columns[field.name] = VariableColumn(column.offsets, column.data, column.valid)
            continue
        assert isinstance(column, FixedColumn)
        values: NDArray[Any] = column.values
        if field.referenced is not None:
            values = _led(moves.get(field.referenced), values, column.valid)
        elif values.dtype.kind == "f":
            values = values.view(np.uint32 if values.dtype.itemsize == 4 else np.uint64)
        columns[field.name] = Column(values, column.valid)
    return columns


def _members(
    state: ReadState, type_name: str, ordinals: Ordinals, moves: Moves
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32] | None]:
    members = state[type_name].members(ordinals)
    targets = state[type_name].schema.references()
    elements = _led(moves.get(targets[0]), members.elements, None).astype(np.int32)
    values = None if members.values is None else _led(moves.get(targets[-1]), members.values, None).astype(np.int32)
    return members.offsets, elements, values


def _moved(moves: Ordinals, ordinals: NDArray[Any]) -> NDArray[np.bool_]:
    inside = (ordinals >= 0) & (ordinals < len(moves))
    moved = np.zeros(len(ordinals), np.bool_)
    moved[inside] = moves[ordinals[inside]] != ordinals[inside]
    return moved


def _led(moves: Ordinals | None, ordinals: NDArray[Any], valid: NDArray[np.bool_] | None) -> NDArray[Any]:
    if moves is None:
        return ordinals
    inside = (ordinals >= 0) & (ordinals < len(moves))
    if valid is not None:
        inside &= valid
    led = ordinals.astype(np.int64)
    led[inside] = moves[ordinals[inside]]
    return led
