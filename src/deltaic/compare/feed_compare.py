"""Two versions of the same records, compared field by field, in columns.

Equal ordinals that no delta touched are equal values, so only references that differ are followed. A list of the same
length is told by its elements, a map and a set whose elements have a key by their entries, everything else as a whole.
Whole values are compared by content before they are told: other ordinals may hold the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.content import ContentDigests
from deltaic.compare.feed_entries import Entries, others, text_keys
from deltaic.compare.feed_groups import Gathering
from deltaic.compare.feed_values import FieldValues, Indices, MapKeys, Ordinals, Places, Selectors, Values, values_of
from deltaic.compare.keys import KeyColumn
from deltaic.compare.logical_values import logical_values
from deltaic.compare.pairs import pair_equal
from deltaic.compare.unchanged import equal_rows
from deltaic.schema.logical import LogicalType
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, SetSchema
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.columns import Column, FixedColumn
from deltaic.state.ingest_plan import wrapped_type
from deltaic.state.read import ReadState
from deltaic.state.records import is_boxed
from deltaic.wire.patches.patch import Operation
from deltaic.wire.patches.places import field_text

Mask = NDArray[np.bool_]

MAX_INDEX = 4_194_303
"""The last element that a field reference can name (field-registry.md, 3)."""

MAX_PLACEHOLDERS = 32
"""Placeholders of one path."""

_FEW = 4


@dataclass(frozen=True, slots=True)
class Sameness:
    """Which ordinals hold the same record in both states.

    Args:
        touched: by type, ordinals that hold another record or other values; types that are not in it have none.
        whole: True if nothing is known of ordinals but of those in `same`.
        same: by type, ordinals that are the same; only if `whole`.
    """

    touched: Mapping[str, OrdinalSet]
    whole: bool = False
    same: Mapping[str, OrdinalSet] | None = None

    def flags(self, name: str, ordinals: Ordinals) -> Mask:
        """For each ordinal whether its record is the same."""
        if self.whole:
            found = (self.same or {}).get(name, EMPTY)
            return _member(found, ordinals)
        touched = self.touched.get(name, EMPTY)
        if not touched:
            return np.ones(len(ordinals), np.bool_)
        return ~_member(touched, ordinals)


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """Places of one path in many records: the number of the pair, and what stands for the placeholders."""

    path: str
    pairs: Places
    selectors: tuple[Selectors, ...] = ()

    def take(self, rows: Places) -> "Spot":
        """Some of the places."""
        return Spot(self.path, self.pairs[rows], tuple(column.take(rows) for column in self.selectors))

    def at(self, path: str, *more: Selectors) -> "Spot":
        """Places below."""
        return replace(self, path=path, selectors=(*self.selectors, *more))

    def field(self, name: str) -> "Spot":
        """The places of a field."""
        escaped = field_text(name)
        return self.at(f"{self.path}.{escaped}" if self.path else escaped)


class Comparison:
    """Compares records of two states and gathers what differs.

    Args:
        before: the one state.
        after: the other.
        same: which ordinals need no look.
        found: where differences go.
        note: told of what cannot be said by changes.
    """

    def __init__(
        self,
        before: ReadState,
        after: ReadState,
        same: Sameness,
        digests: tuple[ContentDigests, ContentDigests],
        found: Gathering,
        note: Callable[[str], None],
    ) -> None:
        self._before, self._after, self._same = before, after, same
        self._digests, self._found, self._note = digests, found, note

    def records(self, name: str, old: Ordinals, new: Ordinals, spot: Spot, above: tuple[str, ...] = ()) -> None:
        """Compare OBJECT records, pair by pair."""
        one, other = self._before.types[name].schema, self._after.types[name].schema
        assert isinstance(one, ObjectSchema) and isinstance(other, ObjectSchema)
        if not len(old):
            return
        above = (*above, name)
        for field in other.fields:
            position = one.position(field.name)
            was = None if position < 0 else one.fields[position]
            self._field(name, was, field, old, new, spot.field(field.name), above)

    def _field(
        self, name: str, was: Field | None, now: Field, old: Ordinals, new: Ordinals, spot: Spot, above: tuple[str, ...]
    ) -> None:
        note = logical_values(self._after).note(name, now.name)
        if was is not None and was.referenced == now.referenced and (was.type is now.type or _grew(was, now)):
            if now.referenced is None:
                self._scalars(name, now, old, new, spot)
            else:
                pointers = _pointers(self._before, name, now.name, old), _pointers(self._after, name, now.name, new)
                self._references(now.referenced, *pointers, spot, above, note)
            return
        # The field is new, or is another one by the same name.
        if now.referenced is None:
            values: Column = self._after[name].column(now.name, new)
            there = np.ones(len(new), np.bool_) if values.valid is None else values.valid
            told = there if was is None else np.ones(len(new), np.bool_)
            rows = np.flatnonzero(told)
            scalar = logical_values(self._after).scalar(name, now)
            after = FieldValues(self._after, name, now.name, new[rows], scalar)
            self._add(Operation.SET, spot.take(rows), after, None)
            return
        targets = _pointers(self._after, name, now.name, new)
        rows = np.flatnonzero(targets >= 0) if was is None else np.arange(len(targets))
        if self._known(now.referenced):
            self._add(Operation.SET, spot.take(rows), values_of(self._after, now.referenced, targets[rows], note), None)

    def _scalars(self, name: str, field: Field, old: Ordinals, new: Ordinals, spot: Spot) -> None:
        one, other = self._before[name].column(field.name, old), self._after[name].column(field.name, new)
        rows = np.flatnonzero(~equal_rows(one, other))
        notes = [logical_values(state).scalar(name, field) for state in (self._before, self._after)]
        after = FieldValues(self._after, name, field.name, new[rows], notes[1])
        before = FieldValues(self._before, name, field.name, old[rows], notes[0])
        self._add(Operation.SET, spot.take(rows), after, before)

    def _references(
        self,
        name: str,
        old: Ordinals,
        new: Ordinals,
        spot: Spot,
        above: tuple[str, ...],
        note: LogicalType | None,
    ) -> None:
        """Compare what references lead to; -1 is null."""
        if not self._known(name):
            return
        differs = old != new
        level = np.flatnonzero(~differs & (old >= 0))
        if len(level):
            differs[level] = ~self._same.flags(name, old[level])
        rows = np.flatnonzero(differs)
        if not len(rows):
            return
        if name not in self._before:
            # Nothing of the type was there to refer to.
            self._add(Operation.SET, spot.take(rows), values_of(self._after, name, new[rows], note), None)
            return
        spot, old, new = spot.take(rows), old[rows], new[rows]
        both = (old >= 0) & (new >= 0)
        self._told(name, old, new, spot, np.flatnonzero(~both), note)
        if not both.all():
            rows = np.flatnonzero(both)
            spot, old, new = spot.take(rows), old[rows], new[rows]
        if len(old):
            self._linked(name, old, new, spot, above, note)

    def _linked(
        self, name: str, old: Ordinals, new: Ordinals, spot: Spot, above: tuple[str, ...], note: LogicalType | None
    ) -> None:
        one, other = self._before.types[name].schema, self._after.types[name].schema
        deep = name in above or len(spot.selectors) >= MAX_PLACEHOLDERS
        if is_boxed(one) and is_boxed(other):
            assert isinstance(one, ObjectSchema) and isinstance(other, ObjectSchema)
            self._boxed(name, old, new, spot, note)
        elif deep or one.kind is not other.kind or wrapped_type(other) is not None or is_boxed(one) != is_boxed(other):
            self._whole(name, old, new, spot, note)
        elif isinstance(other, ObjectSchema):
            self.records(name, old, new, spot, above)
        elif isinstance(other, ListSchema):
            self._lists(other, old, new, spot, above)
        elif isinstance(other, SetSchema):
            self._sets(other, old, new, spot, above)
        else:
            self._maps(other, old, new, spot, above)

    def _boxed(self, name: str, old: Ordinals, new: Ordinals, spot: Spot, note: LogicalType | None) -> None:
        one, other = self._before[name].column("value", old), self._after[name].column("value", new)
        alike = one.type is other.type or (isinstance(one, FixedColumn) and isinstance(other, FixedColumn))
        rows = np.flatnonzero(~equal_rows(one, other)) if alike else np.arange(len(old))
        self._told(name, old, new, spot, rows, note)

    def _whole(self, name: str, old: Ordinals, new: Ordinals, spot: Spot, note: LogicalType | None = None) -> None:
        if not len(old):
            return
        differs = (self._digests[0].of(name, old) != self._digests[1].of(name, new)).any(axis=0)
        self._told(name, old, new, spot, np.flatnonzero(differs), note)

    def _told(
        self, name: str, old: Ordinals, new: Ordinals, spot: Spot, rows: Places, note: LogicalType | None = None
    ) -> None:
        """Tell the values at some places as a whole."""
        if len(rows):
            after = values_of(self._after, name, new[rows], note)
            before = values_of(self._before, name, old[rows], note)
            self._add(Operation.SET, spot.take(rows), after, before)

    def _lists(self, schema: ListSchema, old: Ordinals, new: Ordinals, spot: Spot, above: tuple[str, ...]) -> None:
        one, other = self._before[schema.name].members(old), self._after[schema.name].members(new)
        sizes = np.diff(one.offsets), np.diff(other.offsets)
        alike = (sizes[0] == sizes[1]) & (sizes[0] <= MAX_INDEX + 1)
        # Of another length is another list, whatever it holds.
        self._told(schema.name, old, new, spot, np.flatnonzero(~alike))
        rows = np.flatnonzero(alike)
        lengths = sizes[0][rows]
        left, right = (_gathered(side.offsets, side.elements, rows) for side in (one, other))
        if self._known(schema.element):
            differs = left != right
            level = np.flatnonzero(~differs)
            differs[level] = ~self._same.flags(schema.element, left[level])
        else:
            differs = np.zeros(len(left), np.bool_)
        owners = np.repeat(np.arange(len(rows)), lengths)
        many = _many(np.bincount(owners[differs], minlength=len(rows)), lengths)
        self._whole_rows(schema.name, old, new, spot, rows[many])
        asked = np.flatnonzero(differs & ~many[owners])
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = Indices((np.arange(len(owners)) - starts)[asked])
        below = spot.take(rows[owners[asked]]).at(f"{spot.path}[]", places)
        note = logical_values(self._after).note(schema.name, "element")
        self._references(schema.element, left[asked], right[asked], below, (*above, schema.name), note)

    def _sets(self, schema: SetSchema, old: Ordinals, new: Ordinals, spot: Spot, above: tuple[str, ...]) -> None:
        name, element = schema.name, schema.element
        if not self._known(element) or element not in self._before:
            return
        one, other = self._before[name].members(old), self._after[name].members(new)
        sides = []
        for state, members in ((self._before, one), (self._after, other)):
            targets = members.elements.astype(np.int64)
            keys = self._set_keys(state, name, targets)
            if keys is None:
                self._whole(name, old, new, spot)
                return
            sides.append(Entries(members.offsets, keys, targets))
        self._entries(name, element, (sides[0], sides[1]), old, new, spot, above, "element")

    def _set_keys(self, state: ReadState, name: str, targets: Ordinals) -> KeyColumn | None:
        """What tells elements of a set apart, if a reference can hold it; None if nothing does."""
        schema = state.types[name].schema
        assert isinstance(schema, SetSchema)
        if is_boxed(state.types[schema.element].schema):
            note = logical_values(state).note(name, "element")
            return text_keys(state, schema.element, targets, "value", note)
        paths = schema.hash_key or ()
        return text_keys(state, schema.element, targets, paths[0], None) if len(paths) == 1 else None

    def _maps(self, schema: MapSchema, old: Ordinals, new: Ordinals, spot: Spot, above: tuple[str, ...]) -> None:
        name = schema.name
        if not self._known(schema.value) or not self._known(schema.key):
            return
        sides = []
        for state, ordinals in ((self._before, old), (self._after, new)):
            members = state[name].members(ordinals)
            boxed = schema.key in state and is_boxed(state.types[schema.key].schema)
            note = logical_values(state).note(name, "key")
            pointers = members.elements.astype(np.int64)
            keys = text_keys(state, schema.key, pointers, "value", note) if boxed else None
            if keys is None or members.values is None:
                self._whole(name, old, new, spot)
                return
            sides.append(Entries(members.offsets, keys, members.values.astype(np.int64)))
        self._entries(name, schema.value, (sides[0], sides[1]), old, new, spot, above, "value")

    def _entries(
        self,
        name: str,
        target: str,
        sides: tuple[Entries, Entries],
        old: Ordinals,
        new: Ordinals,
        spot: Spot,
        above: tuple[str, ...],
        place: str,
    ) -> None:
        """Compare maps, or sets whose elements have a key, entry by entry."""
        one, other = sides
        first, second = pair_equal(one.digests, other.digests)
        gone, come = others(len(one.targets), first), others(len(other.targets), second)
        differs = one.targets[first] != other.targets[second]
        level = np.flatnonzero(~differs)
        differs[level] = ~self._same.flags(target, one.targets[first[level]])
        first, second = first[differs], second[differs]
        changed = np.bincount(other.owners[second], minlength=len(old))
        changed += np.bincount(one.owners[gone], minlength=len(old))
        changed += np.bincount(other.owners[come], minlength=len(old))
        unclear = one.unclear | other.unclear | _many(changed, 2 * np.diff(other.offsets))
        self._whole_rows(name, old, new, spot, np.flatnonzero(unclear))
        path, note = f"{spot.path}{{}}", logical_values(self._after).note(name, place)

        def at(side: Entries, entries: Places) -> tuple[Spot, Places]:
            kept = entries[~unclear[side.owners[entries]]]
            return spot.take(side.owners[kept]).at(path, MapKeys(side.texts(kept))), kept

        below, kept = at(one, gone)
        self._add(Operation.DELETE, below, None, values_of(self._before, target, one.targets[kept], note))
        below, kept = at(other, come)
        self._add(Operation.SET, below, values_of(self._after, target, other.targets[kept], note), None)
        clear = ~unclear[other.owners[second]]
        below, kept = at(other, second[clear])
        pairs = one.targets[first[clear]], other.targets[kept]
        self._references(target, *pairs, below, (*above, name), note)

    def _whole_rows(self, name: str, old: Ordinals, new: Ordinals, spot: Spot, rows: Places) -> None:
        if len(rows):
            self._whole(name, old[rows], new[rows], spot.take(rows))

    def _known(self, name: str) -> bool:
        if name in self._after:
            return True
        self._note(f"type {name} is not loaded: what refers to it is not compared")
        return False

    def _add(self, operation: Operation, spot: Spot, after: Values | None, before: Values | None) -> None:
        self._found.add(operation, spot.path, spot.pairs, spot.selectors, after, before)


def _many(changed: Places, sizes: Places) -> Mask:
    """Collections of which so much differs that they are smaller as a whole."""
    found: Mask = (changed > _FEW) & (2 * changed > sizes)
    return found


def _grew(was: Field, now: Field) -> bool:
    """True for numbers that got wider: equal ones have not changed."""
    whole = (FieldType.INT, FieldType.LONG)
    return was.type in whole and now.type in whole


def _pointers(state: ReadState, name: str, field_name: str, ordinals: Ordinals) -> Ordinals:
    column = state[name].column(field_name, ordinals)
    assert isinstance(column, FixedColumn)
    found: Ordinals = column.values.astype(np.int64)
    if column.valid is not None:
        found[~column.valid] = -1
    return found


def _gathered(offsets: NDArray[np.int64], elements: NDArray[np.int32], rows: Places) -> Ordinals:
    """The elements of some of the lists."""
    lengths = np.diff(offsets)[rows]
    if len(rows) == len(offsets) - 1:
        return elements.astype(np.int64)
    bounds = np.cumsum(lengths) - lengths
    inside = np.arange(int(lengths.sum())) - np.repeat(bounds, lengths)
    found: Ordinals = elements[np.repeat(offsets[:-1][rows], lengths) + inside].astype(np.int64)
    return found


def _member(found: OrdinalSet, ordinals: Ordinals) -> Mask:
    if not len(ordinals):
        return np.zeros(0, np.bool_)
    words, places = found.words, ordinals >> 6
    inside = places < len(words)
    flags = np.zeros(len(ordinals), np.bool_)
    bits = words[places[inside]] >> (ordinals[inside] & 63).astype(np.uint64)
    flags[inside] = (bits & np.uint64(1)).astype(np.bool_)
    return flags
