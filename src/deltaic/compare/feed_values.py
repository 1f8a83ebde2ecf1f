"""Values of a change feed: fields and records at ordinals of a state, read when they are asked for.

A value column knows where its values stand and not what they are: to cut it, to join it with another, to leave it
unread costs nothing. A negative ordinal is null.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.arrow import ArrowColumn, ArrowField, struct_column
from deltaic.compare.keys import KeyColumn, key_columns
from deltaic.compare.logical_values import logical_list, logical_values, stands_for_another
from deltaic.schema.logical import LogicalType
from deltaic.schema.mapping import TYPES_TAG, read_types_tag
from deltaic.schema.types import ObjectSchema
from deltaic.state.arrow import CIRCLE_DEPTH, refers_to_itself, to_arrow
from deltaic.state.columns import Column, Rows, read_column
from deltaic.state.ingest_plan import wrapped_type
from deltaic.state.logical_arrow import logical_column
from deltaic.state.read import ReadState
from deltaic.state.records import Reference, is_boxed, records_of

Ordinals = NDArray[np.int64]
Places = NDArray[np.int64]

_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True, eq=False)
class FieldValues:
    """A field that is no reference, of many records."""

    state: ReadState
    type_name: str
    field_name: str
    ordinals: Ordinals
    note: LogicalType | None = None
    """What the field stands for, where its type does not say it."""

    def __len__(self) -> int:
        return len(self.ordinals)

    def take(self, places: Places) -> "FieldValues":
        """The values at these places."""
        return replace(self, ordinals=self.ordinals[places])

    def column(self) -> Column:
        """The values as the state has them."""
        schema = self.state.types[self.type_name].schema
        assert isinstance(schema, ObjectSchema)
        rows = Rows(len(self.ordinals), ordinals=np.ascontiguousarray(self.ordinals, np.int64))
        return read_column(records_of(self.state), self.type_name, schema.position(self.field_name), rows)

    def to_pylist(self) -> list[Any]:
        """The values as Python has what they stand for, None for null."""
        column = self.column()
        if self.note is not None and stands_for_another(self.note):
            return logical_list(column, self.note, f"{self.type_name}.{self.field_name}")
        return column.to_pylist()

    def arrow_column(self, name: str) -> ArrowColumn:
        """The values in Arrow's layout."""
        made = self.column().arrow_column()
        named = replace(made, field=replace(made.field, name=name))
        return logical_column(named, self.note, f"{self.type_name}.{self.field_name}")


@dataclass(frozen=True, slots=True, eq=False)
class RecordValues:
    """Whole records of one type, with all that they refer to."""

    state: ReadState
    type_name: str
    ordinals: Ordinals

    def __len__(self) -> int:
        return len(self.ordinals)

    def take(self, places: Places) -> "RecordValues":
        """The values at these places."""
        return replace(self, ordinals=self.ordinals[places])

    def to_pylist(self) -> list[Any]:
        """The records as dicts, lists and scalars, None for null."""
        view, stands_for, name = self.state[self.type_name], logical_values(self.state).of, self.type_name
        found = [
            None if ordinal < 0 else stands_for(name, view[ordinal].to_python(max_depth=_MAX_DEPTH))
            for ordinal in self.ordinals.tolist()
        ]
        if any(link not in self.state for data in self.state.types.values() for link in data.schema.references()):
            found = [_without_links(value) for value in found]
        if wrapped_type(self.state.types[name].schema) is None:
            return found
        # A type {value} in between only keeps what is null inside a collection.
        return [None if value is None else value["value"] for value in found]

    def arrow_column(self, name: str) -> ArrowColumn:
        """The records in Arrow's layout: structs, lists or maps."""
        records = records_of(self.state)
        circle = refers_to_itself(records, self.type_name)
        rows = Rows(len(self.ordinals), ordinals=np.ascontiguousarray(self.ordinals, np.int64))
        notes = read_types_tag(self.state.header_tags.get(TYPES_TAG, ""))
        table = to_arrow(
            records,
            self.type_name,
            rows,
            depth=CIRCLE_DEPTH if circle else None,
            batch_rows=max(1, len(rows.all())),
            notes=notes,
        )
        parts = list(table.batches())
        whole = parts[0] if len(parts) == 1 else _joined(parts, table.field)
        schema = self.state.types[self.type_name].schema
        there = self.ordinals >= 0
        valid = None if there.all() else there
        if isinstance(schema, ObjectSchema) and wrapped_type(schema) is None:
            return struct_column(name, whole.children, len(self.ordinals), valid)
        only = whole.children[0]
        if valid is not None:
            only = replace(only, valid=valid if only.valid is None else only.valid & valid)
        return replace(only, field=replace(only.field, name=name, nullable=True))


@dataclass(frozen=True, slots=True, eq=False)
class VectorValues:
    """Vectors as rows of a matrix; a row that is not there is null."""

    matrix: NDArray[np.float32]
    present: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.matrix)

    def take(self, places: Places) -> "VectorValues":
        """The vectors at these places."""
        return VectorValues(self.matrix[places], self.present[places])

    def to_pylist(self) -> list[Any]:
        """The vectors as arrays, None for null."""
        return [row if there else None for row, there in zip(self.matrix, self.present.tolist(), strict=True)]

    def arrow_column(self, name: str) -> ArrowColumn:
        """The vectors in Arrow's layout: lists of a fixed size."""
        width = self.matrix.shape[1]
        item = ArrowField("item", "f", True)
        numbers = ArrowColumn(item, self.matrix.size, data=np.ascontiguousarray(self.matrix).reshape(-1))
        valid = None if self.present.all() else self.present
        return ArrowColumn(ArrowField(name, f"+w:{width}", True, (item,)), len(self), valid, children=(numbers,))


Values = FieldValues | RecordValues | VectorValues
"""One column of values."""


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The primary keys of records."""

    state: ReadState
    type_name: str
    paths: tuple[str, ...]
    ordinals: Ordinals

    def __len__(self) -> int:
        return len(self.ordinals)

    def take(self, places: Places) -> "Keys":
        """The keys at these places."""
        return replace(self, ordinals=self.ordinals[places])

    def columns(self) -> list[KeyColumn]:
        """A column for each path of the key."""
        return key_columns(self.state, self.type_name, self.ordinals, self.paths)

    def to_pylist(self) -> list[tuple[Any, ...]]:
        """The keys as tuples."""
        return list(zip(*(column.to_pylist() for column in self.columns()), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Indices:
    """For each place which element of a list is meant."""

    numbers: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, places: Places) -> "Indices":
        """The numbers at these places."""
        return Indices(self.numbers[places])

    def to_pylist(self) -> list[int]:
        """The numbers."""
        found: list[int] = self.numbers.tolist()
        return found

    def arrow_column(self, name: str) -> ArrowColumn:
        """The numbers in Arrow's layout."""
        return ArrowColumn(ArrowField(name, "l", False), len(self), data=self.numbers)


@dataclass(frozen=True, slots=True, eq=False)
class MapKeys:
    """For each place which entry of a map, or which element of a set is meant, by the text of its key."""

    texts: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, places: Places) -> "MapKeys":
        """The texts at these places."""
        return MapKeys(self.texts[places])

    def to_pylist(self) -> list[str]:
        """The texts."""
        found: list[str] = self.texts.tolist()
        return found

    def arrow_column(self, name: str) -> ArrowColumn:
        """The texts in Arrow's layout."""
        pieces = [text.encode() for text in self.to_pylist()]
        offsets = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
        data = np.frombuffer(b"".join(pieces), np.uint8)
        return ArrowColumn(ArrowField(name, "u", False), len(self), data=data, offsets=offsets)


Selectors = Indices | MapKeys
"""What a placeholder of a path stands for, place by place."""


def _without_links(value: Any) -> Any:
    """A value without references to types that are not loaded, which say nothing to anybody else."""
    if isinstance(value, dict):
        return {key: _without_links(each) for key, each in value.items() if not isinstance(each, Reference)}
    if isinstance(value, list):
        return [_without_links(each) for each in value if not isinstance(each, Reference)]
    return value


def values_of(state: ReadState, type_name: str, ordinals: Ordinals, note: LogicalType | None = None) -> Values:
    """What references to a type lead to: the value of a boxed type, or records.

    Args:
        state: the state.
        type_name: the type referred to.
        ordinals: of its records; negative ones are null.
        note: what is noted of the reference.
    """
    if is_boxed(state.types[type_name].schema):
        return FieldValues(state, type_name, "value", ordinals, logical_values(state).boxed(type_name, note))
    return RecordValues(state, type_name, ordinals)


def joined_values(parts: Sequence[Values]) -> Values | None:
    """Several columns as one; None if they are of different kinds."""
    first = parts[0]
    if len(parts) == 1:
        return first
    ordinals = []
    for part in parts:
        if isinstance(first, VectorValues) or isinstance(part, VectorValues) or _source(part) != _source(first):
            return None
        ordinals.append(part.ordinals)
    return None if isinstance(first, VectorValues) else replace(first, ordinals=np.concatenate(ordinals))


def _source(values: FieldValues | RecordValues) -> tuple[object, ...]:
    field_name = values.field_name if isinstance(values, FieldValues) else None
    return id(values.state), values.type_name, field_name


def joined_selectors(parts: Sequence[Selectors]) -> Selectors:
    """Several columns of selectors of one kind as one."""
    if isinstance(parts[0], Indices):
        return Indices(np.concatenate([part.numbers for part in parts if isinstance(part, Indices)]))
    return MapKeys(np.concatenate([part.texts for part in parts if isinstance(part, MapKeys)]))


def _joined(parts: list[ArrowColumn], kind: ArrowField) -> ArrowColumn:
    """Batches of one type as one."""
    if not parts:
        return _empty(kind)
    columns = []
    for place, child in enumerate(kind.children):
        columns.append(_stacked([part.children[place] for part in parts], child))
    return struct_column("", tuple(columns), sum(part.length for part in parts))


def _stacked(parts: list[ArrowColumn], kind: ArrowField) -> ArrowColumn:
    length = sum(part.length for part in parts)
    valid = None
    if any(part.valid is not None for part in parts):
        masks = [np.ones(part.length, np.bool_) if part.valid is None else part.valid for part in parts]
        valid = np.concatenate(masks)
    data = None if parts[0].data is None else np.concatenate([part.data for part in parts if part.data is not None])
    offsets = None
    if parts[0].offsets is not None:
        bounds, ends = [np.zeros(1, np.int64)], 0
        for part in parts:
            assert part.offsets is not None
            bounds.append(part.offsets[1:] - part.offsets[0] + ends)
            ends = int(bounds[-1][-1]) if len(bounds[-1]) else ends
        offsets = np.concatenate(bounds)
    children = tuple(
        _stacked([part.children[place] for part in parts], child) for place, child in enumerate(kind.children)
    )
    return ArrowColumn(kind, length, valid, data, offsets, children)


def _empty(kind: ArrowField) -> ArrowColumn:
    children = tuple(_empty(child) for child in kind.children)
    if kind.format == "+s":
        return ArrowColumn(kind, 0, children=children)
    offsets = np.zeros(1, np.int64) if kind.format[0] in "uzUZ" or kind.format in ("+l", "+L", "+m") else None
    data = None if children else np.zeros(0, np.uint8)
    return ArrowColumn(kind, 0, None, data, offsets, children)
