"""Records on top of a state: copies of some of its records, changed by column, written when all changes are known.

A row of an overlay is a copy of a record of the state below (or of no record: then all is null), and belongs to one
root record alone. So it may be changed in place, whoever shared the record that it was copied from. A reference to a
row of another overlay is a negative number, one to a record of the state its ordinal.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import ingest
from deltaic.schema.types import FieldType, MapSchema, ObjectSchema, Schema
from deltaic.state.ingest_rows import Fixed, Variable
from deltaic.state.read import ReadState
from deltaic.state.records import records_of
from deltaic.state.write import WriteState
from deltaic.state.write_statistics import field_kinds

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
Encoded = Fixed | Variable

BASE, NULL = -1, -(1 << 62)
"""As a reference of a row: what the record below has; null. Others below -1 are rows of an overlay: -2 - row."""

_DTYPES: dict[FieldType, Any] = {
    FieldType.INT: np.int32,
    FieldType.LONG: np.int64,
    FieldType.BOOLEAN: np.bool_,
    FieldType.FLOAT: np.float32,
    FieldType.DOUBLE: np.float64,
}


class Growing:
    """An array of int64 that grows."""

    __slots__ = ("_data", "_fill", "count")

    def __init__(self, fill: int = 0) -> None:
        self._fill, self.count = fill, 0
        self._data = np.full(1024, fill, np.int64)

    @property
    def values(self) -> Rows:
        """The numbers; writing to them changes them."""
        return self._data[: self.count]

    def grow(self, count: int) -> None:
        """Have so many numbers; new ones are the fill."""
        if count > len(self._data):
            larger = np.full(max(count, 2 * len(self._data)), self._fill, np.int64)
            larger[: self.count] = self._data[: self.count]
            self._data = larger
        self.count = max(self.count, count)

    def extend(self, values: NDArray[Any]) -> None:
        """Put numbers behind the last."""
        start = self.count
        self.grow(start + len(values))
        self._data[start : self.count] = values


@dataclass(slots=True)
class _Scalars:
    """What was set of a scalar field: chunks of values, and which of them each row has; -1 is the record's own."""

    source: Growing = field(default_factory=lambda: Growing(BASE))
    chunks: list[Encoded] = field(default_factory=list)
    count: int = 0


class ObjectOverlay:
    """Copies of records of an OBJECT type."""

    def __init__(self, state: ReadState, schema: ObjectSchema) -> None:
        self.schema = schema
        self.base, self.owner = Growing(), Growing()
        self._records = records_of(state)
        self._number = self._records.number(schema.name)
        self._references: dict[str, Growing] = {}
        self._scalars: dict[str, _Scalars] = {}
        self._mark = Growing()
        self.ordinals: NDArray[np.int32] = np.zeros(0, np.int32)
        """Of the rows that were written, by row."""

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.base.count

    def add(self, base: Rows, owner: Rows) -> Rows:
        """New rows: copies of records, -1 for none; gives their numbers."""
        first = self.base.count
        self.base.extend(base)
        self.owner.extend(owner)
        return np.arange(first, self.base.count, dtype=np.int64)

    def firsts(self, rows: Rows) -> Mask:
        """True for one of each number that is there several times."""
        self._mark.grow(self.base.count)
        return _one_of_each(rows, self._mark.values)

    def references(self, name: str) -> Rows:
        """What the rows refer to by a field, to be changed in place; BASE is what the record below refers to."""
        held = self._references.get(name)
        if held is None:
            held = self._references[name] = Growing(BASE)
        held.grow(self.base.count)
        return held.values

    def base_references(self, name: str, rows: Rows) -> Rows:
        """What the records below refer to; -1 for null."""
        values, valid = self._fixed(self.schema.position(name), self.base.values[rows])
        return values.astype(np.int64) if valid is None else np.where(valid, values, -1).astype(np.int64)

    def set(self, name: str, rows: Rows, values: Encoded) -> None:
        """Give rows values; of a row that is there twice the last value counts."""
        held = self._scalars.setdefault(name, _Scalars())
        held.source.grow(self.base.count)
        count = len(values.values) if isinstance(values, Fixed) else len(values.starts)
        held.source.values[rows] = held.count + np.arange(count, dtype=np.int64)
        held.chunks.append(values)
        held.count += count

    def current(self, name: str, rows: Rows) -> Encoded:
        """The values of a scalar field as they are now."""
        return self._column(self.schema.position(name), rows)

    def spread(self, reached: "dict[str, Mask]") -> None:
        """Mark what the rows that are reached refer to: a row that was replaced later is referred to by nobody."""
        here = reached[self.schema.name]
        for each in self.schema.fields:
            if each.referenced is not None and each.name in self._references:
                own = self.references(each.name)[here]
                _mark(reached, each.referenced, own[own != NULL])

    def write(
        self, state: WriteState, reached: "dict[str, Mask]", overlays: "dict[str, Overlay]"
    ) -> dict[str, list[Rows]]:
        """Add the rows that are reached; gives by type the records of the state below that they refer to."""
        rows = np.flatnonzero(reached[self.schema.name]).astype(np.int64)
        columns: list[Any] = []
        kept: dict[str, list[Rows]] = {}
        for position, each in enumerate(self.schema.fields):
            if each.referenced is None:
                made = self._column(position, rows)
                if isinstance(made, Fixed):
                    columns.append((made.values, made.valid, None, None, None))
                else:
                    columns.append((None, made.valid, made.starts, made.ends, made.data))
                continue
            found = self.base_references(each.name, rows)
            own = np.full(len(rows), BASE, np.int64)
            if each.name in self._references:
                own = self.references(each.name)[rows]
            above = (own <= -2) & (own != NULL)
            own_base = found[(own == BASE) & (found >= 0)]
            kept.setdefault(each.referenced, []).append(own_base)
            found[own == NULL] = -1
            if above.any():
                found[above] = overlays[each.referenced].ordinals[-2 - own[above]]
            valid = found >= 0
            columns.append((np.maximum(found, 0).astype(np.int32), None if valid.all() else valid, None, None, None))
        self.ordinals = np.full(self.base.count, -1, np.int32)
        if len(rows):
            data, ends = ingest.serialize_rows(field_kinds(self.schema), [(len(rows), columns)])
            self.ordinals[rows] = state.writer(self.schema.name).add_many(data, ends)
        return kept

    def _column(self, position: int, rows: Rows) -> Encoded:
        each = self.schema.fields[position]
        held = self._scalars.get(each.name)
        changed = np.zeros(len(rows), np.bool_)
        source = changed.astype(np.int64)
        if held is not None:
            held.source.grow(self.base.count)
            source = held.source.values[rows]
            changed = source >= 0
        base = self.base.values[rows]
        if each.type.is_variable:
            return self._variable(position, base, changed, source, held)
        values, valid = self._fixed(position, base)
        if held is None or not changed.any():
            return Fixed(values, valid)
        chunks = [chunk for chunk in held.chunks if isinstance(chunk, Fixed)]
        values = values.copy()
        values[changed] = np.concatenate([chunk.values for chunk in chunks])[source[changed]]
        there = np.ones(len(rows), np.bool_) if valid is None else valid.copy()
        masks = [np.ones(len(chunk.values), np.bool_) if chunk.valid is None else chunk.valid for chunk in chunks]
        there[changed] = np.concatenate(masks)[source[changed]]
        return Fixed(values, None if there.all() else there)

    def _fixed(self, position: int, base: Rows) -> tuple[NDArray[Any], Mask | None]:
        there = base >= 0
        if there.all() and len(base):
            return self._records.reader.read_fixed(self._number, position, np.ascontiguousarray(base), None, len(base))
        dtype = _DTYPES.get(self.schema.fields[position].type, np.int32)
        values, valid = np.zeros(len(base), dtype), np.zeros(len(base), np.bool_)
        if there.any():
            chosen = np.ascontiguousarray(base[there])
            found, known = self._records.reader.read_fixed(self._number, position, chosen, None, len(chosen))
            values[there] = found
            valid[there] = True if known is None else known
        return values, valid

    def _variable(self, position: int, base: Rows, changed: Mask, source: Rows, held: _Scalars | None) -> Variable:
        starts, ends = np.zeros(len(base), np.int64), np.zeros(len(base), np.int64)
        valid = np.zeros(len(base), np.bool_)
        data: list[NDArray[np.uint8]] = []
        wanted = (base >= 0) & ~changed
        if wanted.any():
            chosen = np.ascontiguousarray(base[wanted])
            offsets, found, known = self._records.reader.read_variable(
                self._number, position, chosen, None, len(chosen)
            )
            starts[wanted], ends[wanted] = offsets[:-1], offsets[1:]
            valid[wanted] = True if known is None else known
            data.append(found)
        if held is not None and changed.any():
            chunks = [chunk for chunk in held.chunks if isinstance(chunk, Variable)]
            shifts = np.cumsum([sum(map(len, data)), *(len(chunk.data) for chunk in chunks)])
            sides = (
                np.concatenate([np.asarray(side, np.int64) + shift for side, shift in zip(each, shifts, strict=False)])
                for each in ([chunk.starts for chunk in chunks], [chunk.ends for chunk in chunks])
            )
            starts[changed], ends[changed] = (side[source[changed]] for side in sides)
            masks = [np.ones(len(chunk.starts), np.bool_) if chunk.valid is None else chunk.valid for chunk in chunks]
            valid[changed] = np.concatenate(masks)[source[changed]]
            data += [chunk.data for chunk in chunks]
        whole = np.concatenate(data) if data else np.zeros(0, np.uint8)
        return Variable(starts, ends, whole, None if valid.all() else valid)


class CollectionOverlay:
    """Copies of lists or maps: the members of each row stand side by side, and may be changed one by one."""

    def __init__(self, state: ReadState, schema: Schema) -> None:
        self.schema = schema
        self.owner = Growing()
        self._view = state[schema.name]
        self.starts, self.lengths = Growing(), Growing()
        self.targets, self.keys = Growing(), Growing()
        self._mark = Growing()
        self.ordinals: NDArray[np.int32] = np.zeros(0, np.int32)

    def add(self, base: Rows, owner: Rows) -> Rows:
        """New rows: copies of collections; gives their numbers."""
        first, shift = self.starts.count, self.targets.count
        members = self._view.members(base)
        self.starts.extend(members.offsets[:-1] + shift)
        self.lengths.extend(np.diff(members.offsets))
        if members.values is None:
            self.targets.extend(members.elements)
        else:
            self.keys.extend(members.elements)
            self.targets.extend(members.values)
        self.owner.extend(owner)
        return np.arange(first, self.starts.count, dtype=np.int64)

    def firsts(self, places: Rows) -> Mask:
        """True for one of each place that is there several times."""
        self._mark.grow(self.targets.count)
        return _one_of_each(places, self._mark.values)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.starts.count

    def spread(self, reached: "dict[str, Mask]") -> None:
        """Mark what the rows that are reached refer to."""
        rows = np.flatnonzero(reached[self.schema.name]).astype(np.int64)
        _mark(reached, self.schema.references()[-1], self.targets.values[self._places(rows)[1]])

    def _places(self, rows: Rows) -> tuple[Rows, Rows]:
        """Where the members of some rows stand: offsets, and places."""
        lengths = self.lengths.values[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        every = np.arange(int(offsets[-1]), dtype=np.int64)
        return offsets, every + np.repeat(self.starts.values[rows] - offsets[:-1], lengths)

    def write(
        self, state: WriteState, reached: "dict[str, Mask]", overlays: "dict[str, Overlay]"
    ) -> dict[str, list[Rows]]:
        """Add the rows that are reached; gives by type the records of the state below that they refer to."""
        rows = np.flatnonzero(reached[self.schema.name]).astype(np.int64)
        offsets, places = self._places(rows)
        found = self.targets.values[places]
        target = self.schema.references()[-1]
        kept = {target: [found[found >= 0]]}
        above = found <= -2
        if above.any():
            found[above] = overlays[target].ordinals[-2 - found[above]]
        self.ordinals = np.full(self.starts.count, -1, np.int32)
        if not len(rows):
            return kept
        name = self.schema.name
        if isinstance(self.schema, MapSchema):
            keys = self.keys.values[places]
            key_type = self.schema.key
            kept.setdefault(key_type, []).append(keys)
            self.ordinals[rows] = state.add_maps(name, offsets, keys, found)
        else:
            self.ordinals[rows] = state.add_lists(name, offsets, found)
        return kept


Overlay = ObjectOverlay | CollectionOverlay
"""Copies of records of one type."""


def _mark(reached: dict[str, Mask], target: str, found: Rows) -> None:
    rows = -2 - found[found <= -2]
    if len(rows):
        reached[target][rows] = True


def _one_of_each(numbers: Rows, mark: Rows) -> Mask:
    """True for one place of each number; `mark` has room for all of them, and any content."""
    places = np.arange(len(numbers), dtype=np.int64)
    mark[numbers] = places
    found: Mask = mark[numbers] == places
    return found
