"""The history of a key: what its record was, version after version, and which versions touched it.

    for entry in history(states, "Movie", 7):      # states: (version, state) pairs, oldest first
        entry.version, entry.change, entry.value

Between two neighbours of a chain only the ordinals that the delta added or removed are looked at. States are let go as
soon as they are passed; what a history keeps are plain values.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.changes import MISSING, Difference, differences
from deltaic.compare.content import ContentDigests
from deltaic.compare.diff import Counts, diff, record_value
from deltaic.compare.json_text import as_json
from deltaic.compare.keys import find_by_key, key_columns
from deltaic.compare.unchanged import neighbours
from deltaic.compare.vectors import shares_vectors
from deltaic.errors import InputError
from deltaic.state.read import ReadState

Ordinals = NDArray[np.int64]
States = Iterable[tuple[int, ReadState]]
"""Versions and their states, in the order in which they are walked."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A version that touched a key, or the first one that was looked at."""

    version: int
    change: Literal["first", "added", "modified", "removed"]
    """`first` if the key was there already in the oldest version."""
    value: Any
    """The record from this version on; MISSING if it was removed."""
    differences: tuple[Difference, ...] = ()
    """What differs from the value before, for `modified`."""

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON has it; a value that is missing is left out."""
        found: dict[str, Any] = {"version": self.version, "change": self.change}
        if self.value is not MISSING:
            found["value"] = as_json(self.value)
        if self.differences:
            found["differences"] = [one.to_dict() for one in self.differences]
        return found


@dataclass(frozen=True, slots=True)
class History:
    """What became of one key."""

    type_name: str
    key: tuple[Any, ...]
    versions: tuple[int, ...]
    """Every version that was looked at."""
    entries: tuple[HistoryEntry, ...]
    """The versions that touched it, oldest first."""

    @property
    def touched(self) -> tuple[int, ...]:
        """The versions that added, changed or removed it."""
        return tuple(entry.version for entry in self.entries if entry.change != "first")

    def at(self, version: int) -> Any:
        """The record at a version that was looked at; MISSING if there was none."""
        if version not in self.versions:
            raise InputError(f"version {version} was not looked at; versions: {', '.join(map(str, self.versions))}")
        value: Any = MISSING
        for seen in self.versions:
            value = next((entry.value for entry in self.entries if entry.version == seen), value)
            if seen == version:
                break
        return value

    def __iter__(self) -> Iterator[HistoryEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def to_dict(self) -> dict[str, Any]:
        """The history as plain values."""
        return {
            "type": self.type_name,
            "key": as_json(list(self.key)),
            "versions": list(self.versions),
            "touched": list(self.touched),
            "entries": [entry.to_dict() for entry in self.entries],
        }


def history(states: States, type_name: str, key: Any, paths: Sequence[str] | None = None) -> History:
    """Follow one key through versions.

    Args:
        states: versions and states, oldest first.
        type_name: the type of the record. Versions whose model lacks it have no such record.
        key: a value, or a tuple where the key has several paths.
        paths: what the key is made of; None takes the declared primary key. Where several records have one key, the
            one with the smallest ordinal counts.
    """
    walk = _Walk(type_name, key, paths)
    for version, state in states:
        walk.step(version, state)
    if not walk.versions:
        raise InputError("there is no version to look at")
    return History(type_name, walk.key, tuple(walk.versions), tuple(walk.entries))


class _Walk:
    def __init__(self, type_name: str, key: Any, paths: Sequence[str] | None) -> None:
        self.type_name, self.paths = type_name, paths
        self.key = tuple(key) if isinstance(key, tuple | list) else (key,)
        self.versions: list[int] = []
        self.entries: list[HistoryEntry] = []
        self._state: ReadState | None = None
        self._ordinal: int | None = None
        self._value: Any = MISSING

    def step(self, version: int, state: ReadState) -> None:
        """Go on to the next version."""
        before, old, had = self._state, self._ordinal, self._value
        ordinal = self._find(before, state)
        if before is None:
            if ordinal is not None:
                self._record("first", version, state, ordinal)
        elif ordinal is None:
            if old is not None:
                self.entries.append(HistoryEntry(version, "removed", MISSING))
                self._value = MISSING
        elif old is None:
            self._record("added", version, state, ordinal)
        elif not self._same(before, state, old, ordinal):
            value = record_value(state, self.type_name, ordinal)
            changed = tuple(differences(before, state, self.type_name, had, value))
            self._value = value
            self.entries.append(HistoryEntry(version, "modified", value, changed))
        self._state, self._ordinal = state, ordinal
        self.versions.append(version)

    def _record(self, change: Literal["first", "added"], version: int, state: ReadState, ordinal: int) -> None:
        self._value = record_value(state, self.type_name, ordinal)
        self.entries.append(HistoryEntry(version, change, self._value))

    def _find(self, before: ReadState | None, state: ReadState) -> int | None:
        data = state.types.get(self.type_name)
        if data is None:
            return None
        among: Ordinals | None = None
        kept: Ordinals = np.zeros(0, np.int64)
        if before is not None and self.type_name in before and neighbours(before, state):
            among = data.populated.difference(before.types[self.type_name].populated).ordinals()
            if self._ordinal is not None and self._ordinal in data.populated:
                kept = np.array([self._ordinal])
            elif self._ordinal is not None:
                # Another record of the same key may have been there all along.
                among = None
        found = np.concatenate((find_by_key(state, self.type_name, self.key, self.paths, among=among), kept))
        return int(found.min()) if len(found) else None

    def _same(self, before: ReadState, after: ReadState, old: int, new: int) -> bool:
        if old == new and neighbours(before, after) and shares_vectors(before, after):
            return True
        one = ContentDigests(before).of(self.type_name, np.array([old]))
        other = ContentDigests(after).of(self.type_name, np.array([new]))
        return bool((one == other).all())


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """What one version changed."""

    version: int
    counts: dict[str, Counts]
    """By type; types that did not change are not in it."""
    keys: dict[str, dict[str, list[tuple[Any, ...]]]]
    """By type and kind of change (`added`, `removed`, `modified`) the keys, at most as many as were asked for."""

    def to_dict(self) -> dict[str, Any]:
        """The changes as plain values."""
        return {
            "version": self.version,
            "types": {
                name: {
                    "added": counts.added,
                    "removed": counts.removed,
                    "modified": counts.modified,
                    "unchanged": counts.unchanged,
                    "keys": {
                        kind: [as_json(list(key)) for key in keys] for kind, keys in self.keys.get(name, {}).items()
                    },
                }
                for name, counts in self.counts.items()
            },
        }


def version_changes(
    states: States, *, types: Sequence[str] | None = None, keys_limit: int = 0
) -> Iterator[VersionChanges]:
    """What each version changed against the one before it; the first is only compared with.

    Args:
        states: versions and states, oldest first.
        types: look at these only.
        keys_limit: how many keys of each kind of change to give, for types that have a key.
    """
    before: ReadState | None = None
    for version, state in states:
        if before is not None:
            wanted = None if types is None else [name for name in types if name in before or name in state]
            found = diff(before, state, types=wanted)
            counts = {one.name: one.counts for one in found.changed()}
            keys: dict[str, dict[str, list[tuple[Any, ...]]]] = {}
            for one in found.changed() if keys_limit else ():
                if one.key is not None:
                    sides = (("added", state, one.added), ("removed", before, one.removed))
                    keys[one.name] = {
                        kind: _keys(side, one.name, ordinals[:keys_limit], one.key)
                        for kind, side, ordinals in (*sides, ("modified", state, one.modified_after))
                        if len(ordinals)
                    }
            yield VersionChanges(version, counts, keys)
        before = state


def _keys(state: ReadState, name: str, ordinals: Ordinals, paths: Sequence[str]) -> list[tuple[Any, ...]]:
    columns = key_columns(state, name, ordinals, paths)
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
