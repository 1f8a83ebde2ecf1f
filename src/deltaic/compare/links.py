"""The references between types: which field leads where, in what order types can be worked through.

Everything that follows references by column starts here: closures, content digests, copies.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.schema.types import MapSchema, ObjectSchema, Schema
from deltaic.state.columns import FixedColumn
from deltaic.state.read import ReadState

Ordinals = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """References of many records through one link: record `owners[i]` refers to `targets[i]`."""

    name: str
    """The field, or `element`, `key`, `value`."""
    target_type: str
    targets: NDArray[np.int32]
    """Ordinals of the target type."""
    _valid: NDArray[np.bool_] | None = None
    _offsets: Ordinals | None = None

    @property
    def owners(self) -> Ordinals:
        """For each target the row that refers to it, that is a place in the ordinals that were asked for; rising."""
        if self._offsets is not None:
            return np.repeat(np.arange(len(self._offsets) - 1), np.diff(self._offsets))
        return np.arange(len(self.targets)) if self._valid is None else np.flatnonzero(self._valid)


def edges_of(state: ReadState, type_name: str, ordinals: Ordinals) -> Iterator[Edges]:
    """What records of a type refer to, one link at a time, without nulls and without types that are not there."""
    view = state[type_name]
    schema: Schema = view.schema
    if isinstance(schema, ObjectSchema):
        for field in schema.fields:
            if field.referenced is not None and field.referenced in state:
                column = view.column(field.name, ordinals)
                assert isinstance(column, FixedColumn)
                targets = column.values if column.valid is None else column.values[column.valid]
                yield Edges(field.name, field.referenced, targets, column.valid)
        return
    members = view.members(ordinals)
    if isinstance(schema, MapSchema):
        assert members.values is not None
        if schema.key in state:
            yield Edges("key", schema.key, members.elements, None, members.offsets)
        if schema.value in state:
            yield Edges("value", schema.value, members.values, None, members.offsets)
    elif schema.element in state:
        yield Edges("element", schema.element, members.elements, None, members.offsets)


def references(state: ReadState, type_name: str, ordinals: Ordinals) -> Iterator[tuple[str, NDArray[np.int32]]]:
    """What records of a type refer to: per link the type and the ordinals, repeated as they stand."""
    for edges in edges_of(state, type_name, ordinals):
        yield edges.target_type, edges.targets


def type_groups(schemas: Iterable[Schema]) -> list[tuple[str, ...]]:
    """The types in groups, a group after those that it refers to. Types that refer to each other in a circle are one
    group; every other type is a group of its own.
    """
    needs: Mapping[str, tuple[str, ...]] = {schema.name: schema.references() for schema in schemas}
    groups: list[tuple[str, ...]] = []
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_names: list[str] = []
    # Tarjan's strongly connected components, without recursion: models can be deep.
    for start in needs:
        if start in numbers:
            continue
        waiting = [(start, iter(needs[start]))]
        numbers[start] = lowest[start] = len(numbers)
        open_names.append(start)
        while waiting:
            name, rest = waiting[-1]
            for need in rest:
                if need not in needs:
                    continue
                if need not in numbers:
                    numbers[need] = lowest[need] = len(numbers)
                    open_names.append(need)
                    waiting.append((need, iter(needs[need])))
                    break
                if need in open_names:
                    lowest[name] = min(lowest[name], numbers[need])
            else:
                waiting.pop()
                if waiting:
                    above = waiting[-1][0]
                    lowest[above] = min(lowest[above], lowest[name])
                if lowest[name] == numbers[name]:
                    place = open_names.index(name)
                    groups.append(tuple(open_names[place:]))
                    del open_names[place:]
    return groups


def refers_to_itself(group: tuple[str, ...], schemas: Mapping[str, Schema]) -> bool:
    """True if records of a group can refer to records of the same group."""
    return len(group) > 1 or group[0] in schemas[group[0]].references()


def root_types(schemas: Iterable[Schema]) -> tuple[str, ...]:
    """Where people begin to read: types with a primary key, and types that no other type refers to."""
    known = list(schemas)
    referenced = {name for schema in known for name in schema.references() if name != schema.name}
    return tuple(
        schema.name
        for schema in known
        if schema.name not in referenced or (isinstance(schema, ObjectSchema) and schema.primary_key)
    )
