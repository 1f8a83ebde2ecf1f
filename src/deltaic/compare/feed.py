"""The changes of a step: from two states and the ordinals that the delta touched, what became of each record.

    touched = touched_by(before, after)
    for group in step_changes(before, after, touched).groups: ...

Only touched records are looked at. A record that refers to a changed one is touched itself, because a reference is by
value. Records of a type with a primary key are paired by it; what both sides have is compared field by field, what one
side has came or went. Of a type without a key, records come and go as a whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.content import ContentDigests
from deltaic.compare.feed_compare import Comparison, Sameness, Spot
from deltaic.compare.feed_groups import ChangeGroup, Gathering, StepChanges
from deltaic.compare.feed_values import Keys, Ordinals, RecordValues, values_of
from deltaic.compare.feed_vectors import compare_vectors, stayed_with_other_vectors
from deltaic.compare.keys import declared_key, key_columns, key_digests
from deltaic.compare.links import root_types
from deltaic.compare.pairs import numbered, pair_equal
from deltaic.compare.traverse import add_parents
from deltaic.compare.unchanged import unchanged
from deltaic.errors import NotFoundError
from deltaic.schema.types import ObjectSchema
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.read import ReadState
from deltaic.wire.patches.patch import Operation

Step = Mapping[str, tuple[OrdinalSet, OrdinalSet]]
"""What one delta touched: by type, the ordinals populated before and after it."""

Touched = Mapping[str, OrdinalSet]


def touched_by(steps: Iterable[Step]) -> dict[str, OrdinalSet]:
    """The ordinals of each type that a delta on the way removed, added, or gave other values."""
    found: dict[str, OrdinalSet] = {}
    for step in steps:
        for name, (old, new) in step.items():
            touched = old.difference(new).union(new.difference(old))
            found[name] = found.get(name, EMPTY).union(touched)
    return found


def feed_types(before: ReadState, after: ReadState, types: Sequence[str] | None = None) -> tuple[str, ...]:
    """The types whose records a feed tells of: by default those with a primary key, and those nobody refers to."""
    known = dict.fromkeys((*before.types, *after.types))
    if types is not None:
        for name in types:
            if name not in known:
                raise NotFoundError(f"there is no type {name!r}; types: {', '.join(known) or 'none'}")
        return tuple(dict.fromkeys(types))
    sides = [set(root_types(data.schema for data in state.types.values())) for state in (before, after)]
    # What only one of the models refers to comes and goes with what refers to it.
    return tuple(
        name
        for name in known
        if all(name in roots for state, roots in zip((before, after), sides, strict=True) if name in state)
    )


def step_changes(
    before: ReadState,
    after: ReadState,
    touched: Touched | None,
    *,
    types: Sequence[str] | None = None,
    with_before: bool = False,
) -> StepChanges:
    """What changed from one state to another.

    Args:
        before: the one state.
        after: the other.
        touched: what the deltas in between touched; None if that is not known, as after a second snapshot: everything
            is compared then.
        types: tell of these only; by default of those with a primary key, and of those that nobody refers to.
        with_before: give the values before, too.
    """
    wanted = feed_types(before, after, types)
    same = _sameness(before, after, touched)
    walk = _Walk(before, after, same, (ContentDigests(before), ContentDigests(after)), with_before)
    for text in _gone(before, after):
        walk.note(text)
    for name in wanted:
        walk.type(name)
    return StepChanges(tuple(walk.groups), tuple(walk.notes))


def _gone(before: ReadState, after: ReadState) -> Iterator[str]:
    """What the model lost."""
    for name, data in before.types.items():
        if name not in after.types:
            yield f"type {name} is gone"
            continue
        one, other = data.schema, after.types[name].schema
        if one is not other and isinstance(one, ObjectSchema) and isinstance(other, ObjectSchema):
            yield from (f"field {name}.{each.name} is gone" for each in one.fields if other.position(each.name) < 0)


def _sameness(before: ReadState, after: ReadState, touched: Touched | None) -> Sameness:
    if touched is None:
        return Sameness({}, True, unchanged(before, after))
    stayed = {}
    for name, data in after.types.items():
        if name not in before:
            continue
        both = before.types[name].populated.intersection(data.populated)
        # Only values that were appended, or an ordinal that was used again, are touched and there on both sides.
        again = both.intersection(touched.get(name, EMPTY)).union(_with_new_fields(before, after, name, both))
        if again:
            stayed[name] = again
    if not stayed:
        return Sameness(touched)
    grown = dict(touched)
    for name, ordinals in add_parents(after, stayed).items():
        grown[name] = grown.get(name, EMPTY).union(ordinals)
    return Sameness(grown)


def _with_new_fields(before: ReadState, after: ReadState, name: str, both: OrdinalSet) -> OrdinalSet:
    """Of records that stayed, those that hold a value in a field that the model before did not have."""
    one, other = before.types[name].schema, after.types[name].schema
    if one is other or one == other or not isinstance(one, ObjectSchema) or not isinstance(other, ObjectSchema):
        return EMPTY
    found, ordinals = EMPTY, both.ordinals()
    for each in other.fields:
        if each in one.fields or not len(ordinals):
            continue
        valid = after[name].column(each.name, ordinals).valid
        holders = both if valid is None else OrdinalSet.from_ordinals(ordinals[valid])
        found = found.union(holders)
    return found


@dataclass(slots=True)
class _Pairs:
    """Records of one type: those that came, those that went, those that are on both sides."""

    added: Ordinals
    removed: Ordinals
    old: Ordinals
    new: Ordinals


class _Walk:
    def __init__(
        self,
        before: ReadState,
        after: ReadState,
        same: Sameness,
        digests: tuple[ContentDigests, ContentDigests],
        with_before: bool,
    ) -> None:
        self._before, self._after, self._same = before, after, same
        self._digests, self._with_before = digests, with_before
        self.groups: list[ChangeGroup] = []
        self.notes: dict[str, None] = {}

    def note(self, text: str) -> None:
        self.notes[text] = None

    def type(self, name: str) -> None:
        """Everything that became of the records of one type."""
        removed, added = self._changed(self._before, name), self._changed(self._after, name)
        moved = stayed_with_other_vectors(self._before, self._after, name)
        if not len(removed) and not len(added) and not len(moved):
            return
        key = self._key(name)
        if key is None:
            self._without_key(name, removed, added)
            return
        pairs = self._paired(name, key, removed, added)
        self._records(name, Operation.REMOVE, Keys(self._before, name, key, pairs.removed))
        self._records(name, Operation.PUT, Keys(self._after, name, key, pairs.added))
        if len(moved):
            # Records that stayed what they are, with other vectors.
            moved = np.setdiff1d(moved, np.concatenate((removed, added)))
            pairs.old, pairs.new = np.concatenate((pairs.old, moved)), np.concatenate((pairs.new, moved))
        found = Gathering(name, Keys(self._after, name, key, pairs.new), self._with_before)
        comparison = Comparison(self._before, self._after, self._same, self._digests, found, self.note)
        numbers = np.arange(len(pairs.old))
        comparison.records(name, pairs.old, pairs.new, Spot("", numbers))
        compare_vectors(self._before, self._after, name, pairs.old, pairs.new, found)
        self.groups += found.groups()

    def _changed(self, state: ReadState, name: str) -> Ordinals:
        data = state.types.get(name)
        if data is None:
            return np.zeros(0, np.int64)
        if self._same.whole:
            return data.populated.difference((self._same.same or {}).get(name, EMPTY)).ordinals()
        return data.populated.intersection(self._same.touched.get(name, EMPTY)).ordinals()

    def _key(self, name: str) -> tuple[str, ...] | None:
        """The key that tells records apart in both states."""
        found = [declared_key(state, name) for state in (self._before, self._after) if name in state]
        if any(key != found[-1] for key in found):
            self.note(f"type {name} has another primary key: its records are told as a whole")
            return None
        return found[-1]

    def _paired(self, name: str, key: tuple[str, ...], removed: Ordinals, added: Ordinals) -> _Pairs:
        left, right = (
            key_digests(key_columns(state, name, ordinals, key)) if name in state else np.zeros((2, 0), np.uint64)
            for state, ordinals in ((self._before, removed), (self._after, added))
        )
        numbers = numbered(np.concatenate((left, right, self._others(name, key)), axis=1))
        old, new = numbers[: len(removed)], numbers[len(removed) : len(removed) + len(added)]
        counted = int(numbers.max(initial=-1)) + 1
        twice = np.zeros(counted, np.bool_)
        for side in (old, new):
            twice |= np.bincount(side, minlength=counted) > 1
        twice[numbers[len(removed) + len(added) :]] = True
        self._several(name, removed[twice[old]], added[twice[new]])
        removed, old = removed[~twice[old]], old[~twice[old]]
        added, new = added[~twice[new]], new[~twice[new]]
        places = np.full(counted, -1, np.int64)
        places[old] = np.arange(len(old))
        matches = places[new]
        both = matches >= 0
        left_over = np.ones(len(removed), np.bool_)
        left_over[matches[both]] = False
        return _Pairs(added[~both], removed[left_over], removed[matches[both]], added[both])

    def _others(self, name: str, key: tuple[str, ...]) -> NDArray[np.uint64]:
        """The keys of records that stayed, for a type that others refer to: there one key may have several records."""
        schemas = [data.schema for data in self._after.types.values()]
        nobody = np.zeros((2, 0), np.uint64)
        if name not in self._before or not any(
            name in schema.references() for schema in schemas if schema.name != name
        ):
            return nobody
        stayed = self._after.types[name].populated.intersection(self._before.types[name].populated)
        ordinals = stayed.ordinals()
        ordinals = ordinals[self._same.flags(name, ordinals)]
        return key_digests(key_columns(self._after, name, ordinals, key)) if len(ordinals) else nobody

    def _several(self, name: str, removed: Ordinals, added: Ordinals) -> None:
        """Records whose key is not theirs alone: told as a whole, or with what refers to them."""
        if not len(removed) and not len(added):
            return
        schemas = [data.schema for data in self._after.types.values()]
        if any(name in schema.references() for schema in schemas if schema.name != name):
            self.note(f"type {name}: some keys have several records; they are told with the records that refer to them")
            return
        self.note(f"type {name}: some keys have several records; they are told as a whole")
        self._without_key(name, removed, added)

    def _without_key(self, name: str, removed: Ordinals, added: Ordinals) -> None:
        if len(removed) and len(added):
            # An ordinal that was used again may hold what another one held.
            old, new = pair_equal(self._digests[0].of(name, removed), self._digests[1].of(name, added))
            removed, added = np.delete(removed, old), np.delete(added, new)
        for operation, state, ordinals in (
            (Operation.REMOVE, self._before, removed),
            (Operation.PUT, self._after, added),
        ):
            if len(ordinals):
                whole = values_of(state, name, ordinals)
                self.groups.append(
                    ChangeGroup(name, operation, "", None, (), whole, None, len(ordinals), self._with_before)
                )

    def _records(self, name: str, operation: Operation, keys: Keys) -> None:
        if not len(keys):
            return
        whole = RecordValues(keys.state, name, keys.ordinals)
        after = whole if operation is Operation.PUT else None
        before = whole if operation is Operation.REMOVE and self._with_before else None
        self.groups.append(ChangeGroup(name, operation, "", keys, (), after, before, len(keys), self._with_before))
