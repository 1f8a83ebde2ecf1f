"""The changes of a step as a batch of patches: columns stay columns."""

from dataclasses import replace
from typing import Any

import numpy as np

from deltaic.compare.feed_groups import ChangeGroup, StepChanges
from deltaic.compare.feed_values import FieldValues, Indices, Selectors, Values, VectorValues
from deltaic.compare.keys import KeyColumn
from deltaic.compare.logical_values import stands_for_another
from deltaic.state.columns import BytesColumn, Column, FixedColumn
from deltaic.wire.patches.batch import PatchBatch
from deltaic.wire.patches.columns import ColumnKind, PatchColumn
from deltaic.wire.patches.group import PatchGroup, SelectorColumn
from deltaic.wire.patches.patch import Operation
from deltaic.wire.references import ParameterType
from deltaic.wire.vectors import VectorDelta


def batch_of(changes: StepChanges) -> PatchBatch:
    """The batch that says what a step changed."""
    return PatchBatch(tuple(_group(group) for group in changes.groups))


def _group(group: ChangeGroup) -> PatchGroup:
    keys = () if group.keys is None else tuple(_key(column) for column in group.keys.columns())
    values, previous = None, None
    if group.operation is Operation.VECTOR:
        values = PatchColumn.of_deltas(_deltas(group))
    elif group.after is not None:
        values = column_of(group.after)
    if group.with_before and group.operation is not Operation.VECTOR:
        previous = PatchColumn.of(group.previous()) if group.before is None else column_of(group.before)
    return PatchGroup(
        group.operation,
        group.type_name,
        group.count,
        keys,
        group.path,
        tuple(_selectors(column) for column in group.selectors),
        values,
        previous,
    )


def column_of(values: Values) -> PatchColumn:
    """Values as a column of patches."""
    if isinstance(values, FieldValues):
        if values.note is not None and stands_for_another(values.note):
            return PatchColumn.of(values.to_pylist())
        return _plain(values.column())
    if isinstance(values, VectorValues):
        rows = [None if row is None else row.tolist() for row in values.to_pylist()]
        return PatchColumn(ColumnKind.ANY, len(rows), items=tuple(rows))
    return PatchColumn(ColumnKind.ANY, len(values), items=tuple(values.to_pylist()))


def _plain(column: Column) -> PatchColumn:
    valid = column.valid
    if valid is not None and not valid.any():
        return PatchColumn(ColumnKind.NULL, len(column))
    if isinstance(column, FixedColumn):
        return PatchColumn.of_array(column.values, valid)
    assert isinstance(column, BytesColumn)
    kind = ColumnKind.BYTES if column.type.name == "BYTES" else ColumnKind.TEXT
    if valid is not None and valid.all():
        valid = None
    return PatchColumn(kind, len(column), valid, offsets=column.offsets, data=column.data)


def _key(key: KeyColumn) -> PatchColumn:
    if key.column is not None and len(key.rows) == key.count:
        return _plain(key.column)
    return PatchColumn.of(key.to_pylist())


def _selectors(column: Selectors) -> SelectorColumn:
    if isinstance(column, Indices):
        return SelectorColumn(int(ParameterType.INDEX), (column.numbers,))
    return SelectorColumn(int(ParameterType.MAP_KEY), keys=PatchColumn.of(column.to_pylist(), ColumnKind.TEXT))


def _deltas(group: ChangeGroup) -> list[VectorDelta]:
    """What changed in each vector, with the numbers before if they were asked for."""
    after, before = group.after, group.before
    assert isinstance(after, VectorValues) and isinstance(before, VectorValues)
    new: Any = np.ascontiguousarray(after.matrix).view(np.uint32)
    old: Any = np.ascontiguousarray(before.matrix).view(np.uint32)
    found = []
    for one, other in zip(old, new, strict=True):
        indices = np.flatnonzero(one != other).astype(np.uint32)
        delta = VectorDelta(len(other), indices, other[indices])
        found.append(replace(delta, prev=one[indices]) if group.with_before else delta)
    return found
