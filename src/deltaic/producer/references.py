"""How often each record is referred to: what tells an orphan from a record that others still need."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from deltaic.schema.types import ObjectSchema, Schema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.columns import FixedColumn
from deltaic.state.read import ReadState

Counts = dict[str, NDArray[np.int32]]
Ordinals = NDArray[np.int64]


def references(state: ReadState, type_name: str, ordinals: Ordinals) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """What records of a type refer to: per field or kind of member the type and the ordinals, as they stand."""
    view = state[type_name]
    schema: Schema = view.schema
    if isinstance(schema, ObjectSchema):
        for field in schema.fields:
            if field.referenced is not None and field.referenced in state:
                column = view.column(field.name, ordinals)
                assert isinstance(column, FixedColumn)
                yield field.referenced, column.values if column.valid is None else column.values[column.valid]
        return
    members = view.members(ordinals)
    targets = schema.references()
    if targets[0] in state:
        yield targets[0], members.elements
    if members.values is not None and targets[-1] in state:
        yield targets[-1], members.values


class ReferenceCounts:
    """For every record of a state, how many references lead to it; kept up to date from version to version."""

    def __init__(self) -> None:
        self._state: ReadState | None = None
        self._counts: Counts = {}

    def advance(self, state: ReadState) -> None:
        """Go on to another state; records that both have are not read again."""
        if state is self._state:
            return
        before = self._state
        # Past a version in between an ordinal may have gone and come back with another record; and a record that stays
        # may get or lose a reference when the model does.
        if before is None or state.origin_tag != before.tag or before.schemas != state.schemas:
            before, self._counts = None, {}
        for name, data in state.types.items():
            old = before.types[name].populated if before is not None else OrdinalSet(np.zeros(0, np.uint64))
            if before is not None and (gone := old.difference(data.populated)):
                self._change(before, name, gone.ordinals(), -1)
        for name, data in state.types.items():
            old = before.types[name].populated if before is not None else OrdinalSet(np.zeros(0, np.uint64))
            if came := data.populated.difference(old):
                self._change(state, name, came.ordinals(), 1)
        self._state = state

    @property
    def in_use(self) -> bool:
        """True once a state was counted."""
        return self._state is not None

    def copy(self) -> Counts:
        """The counts by type and ordinal, to be changed freely; ordinals past the last one count 0."""
        return {name: counts.copy() for name, counts in self._counts.items()}

    def _change(self, state: ReadState, name: str, ordinals: Ordinals, sign: int) -> None:
        for target, found in references(state, name, ordinals):
            change_counts(self._counts, target, found, sign)


def change_counts(counts: Counts, type_name: str, found: NDArray[np.int32], sign: int) -> None:
    """Count references to records of a type in or out."""
    if not len(found):
        return
    held = counts.get(type_name)
    last = int(found.max())
    if held is None or last >= len(held):
        grown = np.zeros(last + 1 + (last >> 3), np.int32)
        if held is not None:
            grown[: len(held)] = held
        held = counts[type_name] = grown
    if len(found) * 8 > len(held):
        held += sign * np.bincount(found, minlength=len(held)).astype(np.int32)
    else:
        np.add.at(held, found, np.int32(sign))
