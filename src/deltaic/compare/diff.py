"""The difference between two states: by key, by content, by field.

    found = diff(before, after)
    found["Movie"].counts                        # Counts(added=3, removed=1, modified=7, unchanged=989)
    found["Movie"].fields["rating"].changed      # 5
    for change in found["Movie"].records(limit=10):
        change.key, change.before, change.after, change.differences()

Records are compared by what they read as, references followed, whatever their ordinals. A type with a key is compared
key by key; of several records with one key, equal ones are paired first. A type without a key is compared as a bag: a
record that changed is one removed and one added.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.arrow import ArrowTable
from deltaic.compare.changes import MISSING, Difference, differences
from deltaic.compare.changes_arrow import changes_to_arrow
from deltaic.compare.content import ContentDigests
from deltaic.compare.json_text import as_json
from deltaic.compare.keys import declared_key, key_columns, key_digests, key_values
from deltaic.compare.logical_values import logical_values
from deltaic.compare.pairs import pair_equal
from deltaic.compare.unchanged import unchanged
from deltaic.compare.vectors import columns_of
from deltaic.errors import NotFoundError, SchemaError
from deltaic.schema.types import ObjectSchema
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.columns import InvalidText
from deltaic.state.read import ReadState

Ordinals = NDArray[np.int64]
ChangeKind = Literal["added", "removed", "modified"]
KINDS: tuple[ChangeKind, ...] = ("added", "removed", "modified")
"""What can become of a record."""

_NONE: Ordinals = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many records of a type came, went, changed and stayed."""

    added: int
    removed: int
    modified: int
    unchanged: int


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """How often one field differs in modified records."""

    name: str
    changed: int
    """Records in which it differs, in whatever way."""
    set: int
    """Of these, where it was null or missing before and holds a value after."""
    cleared: int
    """Of these, where it held a value before and is null or missing after."""
    only_in: Literal["before", "after"] | None
    """The side whose model alone has the field; on the other it is missing in every record."""


@dataclass(frozen=True, slots=True)
class RecordChange:
    """One record that came, went or changed. MISSING stands for the side on which it is not."""

    type_name: str
    kind: ChangeKind
    key: tuple[Any, ...] | None
    before_ordinal: int | None
    after_ordinal: int | None
    before: Any
    after: Any
    _states: tuple[ReadState, ReadState]

    def differences(self) -> list[Difference]:
        """The places that differ in a modified record; the record itself if it came or went."""
        return list(differences(*self._states, self.type_name, self.before, self.after))

    def to_dict(self) -> dict[str, Any]:
        """The change as JSON has it; what is missing is left out."""
        found: dict[str, Any] = {"type": self.type_name, "change": self.kind}
        if self.key is not None:
            found["key"] = as_json(list(self.key))
        if self.before is not MISSING:
            found["before"] = as_json(self.before)
        if self.after is not MISSING:
            found["after"] = as_json(self.after)
        if self.kind == "modified":
            found["differences"] = [one.to_dict() for one in self.differences()]
        return found


class TypeDiff:
    """The difference of one type."""

    def __init__(
        self,
        name: str,
        digests: tuple[ContentDigests, ContentDigests],
        key: tuple[str, ...] | None,
        parts: tuple[Ordinals, Ordinals, Ordinals, Ordinals],
        unchanged_count: int,
    ) -> None:
        self.name = name
        self.key = key
        """The paths that records were matched by; None if they were compared as a bag."""
        self.added, self.removed, self.modified_before, self.modified_after = parts
        self._digests = digests
        self.counts = Counts(len(self.added), len(self.removed), len(self.modified_after), unchanged_count)

    @property
    def before(self) -> ReadState:
        """The state before, in which `removed` and `modified_before` are ordinals."""
        return self._digests[0].state

    @property
    def after(self) -> ReadState:
        """The state after, in which `added` and `modified_after` are ordinals."""
        return self._digests[1].state

    @property
    def only_in(self) -> Literal["before", "after"] | None:
        """The side that alone has the type."""
        if self.name in self.before:
            return None if self.name in self.after else "before"
        return "after"

    def __bool__(self) -> bool:
        return bool(len(self.added) or len(self.removed) or len(self.modified_after))

    def __repr__(self) -> str:
        counts = self.counts
        return f"TypeDiff({self.name}, +{counts.added}, -{counts.removed}, ~{counts.modified}, ={counts.unchanged})"

    @cached_property
    def fields(self) -> Mapping[str, FieldDiff]:
        """For each field and vector of an OBJECT type in how many modified records it differs."""
        sides = [state.types[self.name].schema for state in (self.before, self.after) if self.name in state]
        if not all(isinstance(schema, ObjectSchema) for schema in sides):
            return {}
        names = [_field_names(state, self.name) for state in (self.before, self.after) if self.name in state]
        found = {}
        for name in dict.fromkeys(name for side in names for name in side):
            changed, was, now = self._field_changes(name)
            there = [name in side for side in names]
            only: Literal["before", "after"] | None = self.only_in
            if len(there) == 2 and not all(there):
                only = "before" if there[0] else "after"
            found[name] = FieldDiff(
                name, int(changed.sum()), int((changed & ~was).sum()), int((changed & ~now).sum()), only
            )
        return found

    def changed_in(self, field_name: str) -> NDArray[np.bool_]:
        """For each modified record whether a field differs in it."""
        if field_name not in self.fields:
            raise NotFoundError(f"type {self.name} has no field {field_name!r}")
        return self._field_changes(field_name)[0]

    def _field_changes(self, name: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Per modified record: whether the field differs, whether it held a value before, whether it does after."""
        sides = []
        for digests, ordinals in zip(self._digests, (self.modified_before, self.modified_after), strict=True):
            if self.name in digests.state and name in _field_names(digests.state, self.name):
                sides.append(digests.of_field(self.name, name, ordinals))
            else:
                sides.append(np.zeros((2, len(ordinals)), np.uint64))
        changed: NDArray[np.bool_] = (sides[0] != sides[1]).any(axis=0)
        return changed, (sides[0] != 0).any(axis=0), (sides[1] != 0).any(axis=0)

    def records(
        self, *kinds: ChangeKind, limit: int | None = None, max_depth: int = 64, field: str | None = None
    ) -> Iterator[RecordChange]:
        """The records that came, went or changed, with their values.

        Args:
            kinds: only these; all by default.
            limit: at most so many.
            max_depth: how deep references are followed.
            field: of modified records only those in which this field differs.
        """
        left = -1 if limit is None else limit
        for kind in kinds or KINDS:
            rows = self._rows(kind, field)
            rows = rows if left < 0 else rows[:left]
            left -= len(rows) if left >= 0 else 0
            # Keys are read by column, a page at a time, so that a caller who stops early pays for little.
            for start in range(0, len(rows), 1000):
                yield from self._page(kind, rows[start : start + 1000], max_depth)

    def _rows(self, kind: ChangeKind, field: str | None) -> Ordinals:
        if kind == "modified" and field is not None:
            return np.flatnonzero(self.changed_in(field))
        count = {"added": self.added, "removed": self.removed, "modified": self.modified_after}[kind]
        return np.arange(len(count))

    def _page(self, kind: ChangeKind, rows: Ordinals, max_depth: int) -> Iterator[RecordChange]:
        old = self.removed if kind == "removed" else self.modified_before if kind == "modified" else None
        new = self.added if kind == "added" else self.modified_after if kind == "modified" else None
        state, ordinals = (self.after, new) if new is not None else (self.before, old)
        assert ordinals is not None
        keys: list[Any] = [None] * len(rows)
        if self.key is not None:
            keys = list(key_values(state, self.name, ordinals[rows], self.key))
        for row, key in zip(rows.tolist(), keys, strict=True):
            before = None if old is None else int(old[row])
            after = None if new is None else int(new[row])
            yield RecordChange(
                self.name,
                kind,
                key,
                before,
                after,
                record_value(self.before, self.name, before, max_depth),
                record_value(self.after, self.name, after, max_depth),
                (self.before, self.after),
            )

    def to_arrow(self, *, depth: int | None = None, on_invalid_text: InvalidText = "error") -> ArrowTable:
        """The records that came, went or changed as Arrow rows: `change`, `before` and `after`, the latter structs.

        Args:
            depth: how many references to follow; None follows all, of types that refer to themselves a few.
            on_invalid_text: `error`, or `replace` lone surrogates, which Arrow cannot hold.
        """
        counts = self.counts
        kinds = [("added", counts.added), ("removed", counts.removed), ("modified", counts.modified)]
        old = np.concatenate((np.full(counts.added, -1, np.int64), self.removed, self.modified_before))
        new = np.concatenate((self.added, np.full(counts.removed, -1, np.int64), self.modified_after))
        sides = (self.before, old), (self.after, new)
        return changes_to_arrow(self.name, kinds, sides, depth=depth, on_invalid_text=on_invalid_text)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_dict(self, *, limit: int = 0) -> dict[str, Any]:
        """The difference as plain values, with at most `limit` of the records."""
        counts = self.counts
        found: dict[str, Any] = {
            "key": None if self.key is None else list(self.key),
            "only_in": self.only_in,
            "added": counts.added,
            "removed": counts.removed,
            "modified": counts.modified,
            "unchanged": counts.unchanged,
            "fields": {
                field.name: {
                    "changed": field.changed,
                    "set": field.set,
                    "cleared": field.cleared,
                    "only_in": field.only_in,
                }
                for field in self.fields.values()
            },
        }
        if limit:
            found["records"] = [change.to_dict() for change in self.records(limit=limit)]
        return found


class StateDiff(Mapping[str, TypeDiff]):
    """The difference of two states, by the name of a type. Every type of either side is in it; it is true if any
    differs.
    """

    def __init__(self, before: ReadState, after: ReadState, types: Mapping[str, TypeDiff]) -> None:
        self.before, self.after = before, after
        self._types = dict(types)

    def __getitem__(self, name: str) -> TypeDiff:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def __bool__(self) -> bool:
        return any(self._types.values())

    def __repr__(self) -> str:
        return f"StateDiff({', '.join(repr(one) for one in self._types.values() if one) or 'no difference'})"

    def changed(self) -> tuple[TypeDiff, ...]:
        """The types that differ."""
        return tuple(one for one in self._types.values() if one)

    def to_dict(self, *, limit: int = 0) -> dict[str, Any]:
        """The difference as plain values, with at most `limit` records of each type."""
        return {"equal": not self, "types": {name: one.to_dict(limit=limit) for name, one in self._types.items()}}


def diff(
    before: ReadState,
    after: ReadState,
    *,
    types: Sequence[str] | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
) -> StateDiff:
    """Compare two states: of one chain, of two chains, of two models.

    Args:
        before: the one side.
        after: the other.
        types: compare these only; all by default.
        keys: paths to match records by, for types without a primary key or in place of it. An empty one compares the
            type as a bag.
    """
    known = dict.fromkeys((*before.types, *after.types))
    for name in (*(types or ()), *(keys or ())):
        if name not in known:
            raise NotFoundError(f"neither state has a type {name!r}; types: {', '.join(known) or 'none'}")
    same = unchanged(before, after)
    digests = ContentDigests(before), ContentDigests(after)
    found = {}
    for name in known if types is None else dict.fromkeys(types):
        key = _key(before, after, name, (keys or {}).get(name))
        found[name] = _diff_type(name, digests, same.get(name, EMPTY), key)
    return StateDiff(before, after, found)


def _key(before: ReadState, after: ReadState, name: str, given: Sequence[str] | None) -> tuple[str, ...] | None:
    if given is not None:
        return tuple(given) or None
    states = [state for state in (before, after) if name in state]
    declared = [declared_key(state, name) for state in states]
    if declared[0] is None:
        return None
    if len(declared) == 2 and declared[0] != declared[1]:
        # The key of the newer model counts, where the older one can follow it.
        try:
            key_columns(before, name, _NONE, declared[1])
        except (SchemaError, NotFoundError):
            return None
        return declared[1]
    return declared[0]


def _diff_type(
    name: str, digests: tuple[ContentDigests, ContentDigests], same: OrdinalSet, key: tuple[str, ...] | None
) -> TypeDiff:
    rest = []
    for side in digests:
        data = side.state.types.get(name)
        rest.append(_NONE if data is None else data.populated.difference(same).ordinals())
    count = len(same)
    removed, added = rest
    if len(removed) and len(added):
        old, new = pair_equal(digests[0].of(name, removed), digests[1].of(name, added))
        count += len(new)
        removed, added = np.delete(removed, old), np.delete(added, new)
    before, after = _NONE, _NONE
    if key is not None and len(removed) and len(added):
        left = key_digests(key_columns(digests[0].state, name, removed, key))
        right = key_digests(key_columns(digests[1].state, name, added, key))
        old, new = pair_equal(left, right)
        order = np.argsort(added[new])
        old, new = old[order], new[order]
        before, after = removed[old], added[new]
        removed, added = np.delete(removed, old), np.delete(added, new)
    return TypeDiff(name, digests, key, (added, removed, before, after), count)


def _field_names(state: ReadState, type_name: str) -> list[str]:
    """The names of the fields and vectors of an OBJECT type."""
    schema = state.types[type_name].schema
    own = [field.name for field in schema.fields] if isinstance(schema, ObjectSchema) else []
    return list(dict.fromkeys((*own, *columns_of(state, type_name))))


def record_value(state: ReadState, name: str, ordinal: int | None, max_depth: int = 64) -> Any:
    """A record as dicts, lists and scalars, these as what they stand for; MISSING for no record."""
    if ordinal is None:
        return MISSING
    record = state[name][ordinal]
    value = record.to_python(max_depth=max_depth) if hasattr(record, "to_python") else record
    return logical_values(state).of(name, value)
