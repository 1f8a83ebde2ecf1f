"""What a refresh changed: records added, removed and modified, by type and by key.

Nothing is computed before it is asked for. An ordinal counts as touched if any delta of the way removed or added it;
the touched records of the state before are gone, those of the state after are new. So does one whose vector changed,
though the record stays at its ordinal. For a type with a primary key, a
gone record and a new one with the same key are one *modified* record. After a second snapshot every record counts as
touched, because ordinals of two snapshots tell nothing about each other; by key the result is still exact for keys
that came or went.

A `Changes` holds both states: whoever keeps it keeps their memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.keys import declared_key, key_columns, key_digests, key_values
from deltaic.compare.pairs import pair_equal
from deltaic.compare.vectors import changed_vectors
from deltaic.errors import NotFoundError
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.view import TypeView

Ordinals = NDArray[np.int64]
Step = Mapping[str, tuple[OrdinalSet, OrdinalSet]]
"""What one delta touched: by type, the ordinals populated before and after it."""


@dataclass(frozen=True, slots=True)
class Modified:
    """Records whose key stayed and whose content may have changed: row i before became row i after.

    In rising order of `after`. Where several records share one key, the first ones are paired, and so on.
    """

    before: Ordinals
    """Ordinals in the state before."""
    after: Ordinals
    """Ordinals in the state after."""

    def __len__(self) -> int:
        return len(self.after)


class TypeChanges:
    """The changes of one type."""

    def __init__(self, name: str, before: ReadState | None, after: ReadState, touched: OrdinalSet | None) -> None:
        self.name = name
        self._before, self._after, self._touched = before, after, touched

    @cached_property
    def removed_ordinals(self) -> OrdinalSet:
        """Every record of the state before that is gone, modified ones included."""
        return self._touched_of(self._before)

    @cached_property
    def added_ordinals(self) -> OrdinalSet:
        """Every record of the state after that is new, modified ones included."""
        return self._touched_of(self._after)

    @property
    def added(self) -> Ordinals:
        """Ordinals, in the state after, of records whose key is new; without a key, of all that are new."""
        return self._matched[0]

    @property
    def removed(self) -> Ordinals:
        """Ordinals, in the state before, of records whose key is gone; without a key, of all that are gone."""
        return self._matched[1]

    @property
    def modified(self) -> Modified:
        """Records whose key is in both; none for a type without a primary key."""
        return self._matched[2]

    @cached_property
    def has_key(self) -> bool:
        """True if records can be told apart by a primary key in both states."""
        states = [state for state in (self._before, self._after) if state is not None and self.name in state]
        return bool(states) and all(declared_key(state, self.name) is not None for state in states)

    def added_keys(self) -> list[tuple[Any, ...]]:
        """The keys of the added records, as Python values in the order of `added`."""
        return self._keys(self._after, self.added)

    def removed_keys(self) -> list[tuple[Any, ...]]:
        """The keys of the removed records, as Python values in the order of `removed`."""
        return self._keys(self._before, self.removed)

    def modified_keys(self) -> list[tuple[Any, ...]]:
        """The keys of the modified records, as Python values in the order of `modified`."""
        return self._keys(self._after, self.modified.after)

    @property
    def before(self) -> TypeView:
        """The type in the state before, in which `removed` and `modified.before` can be read."""
        if self._before is None:
            raise NotFoundError(f"there was no state before this one that could hold {self.name}")
        return self._before[self.name]

    @property
    def after(self) -> TypeView:
        """The type in the state after, in which `added` and `modified.after` can be read."""
        return self._after[self.name]

    def __bool__(self) -> bool:
        return bool(self.added_ordinals) or bool(self.removed_ordinals)

    def __repr__(self) -> str:
        return f"TypeChanges({self.name}, +{len(self.added_ordinals)}, -{len(self.removed_ordinals)} records)"

    def _touched_of(self, state: ReadState | None) -> OrdinalSet:
        if state is None or self.name not in state:
            return EMPTY
        populated = state.types[self.name].populated
        return populated if self._touched is None else populated.intersection(self._touched)

    @cached_property
    def _matched(self) -> tuple[Ordinals, Ordinals, Modified]:
        added, removed = self.added_ordinals.ordinals(), self.removed_ordinals.ordinals()
        none = np.zeros(0, np.int64)
        if not len(added) or not len(removed) or not self.has_key or self._before is None:
            return added, removed, Modified(none, none)
        gone = key_digests(key_columns(self._before, self.name, removed))
        old, new = pair_equal(gone, key_digests(key_columns(self._after, self.name, added)))
        # Digests come in no order that means anything.
        order = np.argsort(new)
        old, new = old[order], new[order]
        modified = Modified(removed[old], added[new])
        return np.delete(added, new), np.delete(removed, old), modified

    def _keys(self, state: ReadState | None, ordinals: Ordinals) -> list[tuple[Any, ...]]:
        if not self.has_key:
            raise NotFoundError(f"type {self.name} has no primary key that could be followed")
        if state is None or not len(ordinals):
            return []
        return key_values(state, self.name, ordinals)


class Changes(Mapping[str, TypeChanges]):
    """The changes of a refresh, by the name of a type; types that did not change are not in it.

    Args:
        before: the state before, None at the first load.
        after: the state after.
        steps: what each delta touched, in order; None if the state was replaced by a snapshot.
    """

    def __init__(self, before: ReadState | None, after: ReadState, steps: Sequence[Step] | None) -> None:
        self.before, self.after = before, after
        self._steps = steps
        self._types: dict[str, TypeChanges] = {}
        self._moved: dict[str, OrdinalSet] = {}

    @property
    def whole(self) -> bool:
        """True if the state was loaded from a snapshot: every record counts as touched."""
        return self._steps is None

    @cached_property
    def remodelled(self) -> bool:
        """True if a type has other fields than before, or values were appended to records that stayed."""
        if self.before is None:
            return False
        return self.before.schemas != self.after.schemas or any(data.appended for data in self.after.types.values())

    def __getitem__(self, name: str) -> TypeChanges:
        if name not in self._names:
            raise KeyError(name)
        found = self._types.get(name)
        if found is None:
            found = self._types[name] = TypeChanges(name, self.before, self.after, self._touched(name))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Changes({', '.join(repr(self[name]) for name in self)})"

    @cached_property
    def _names(self) -> tuple[str, ...]:
        if self._steps is None:
            names = dict.fromkeys((*self.after.types, *(self.before.types if self.before is not None else ())))
        else:
            touched = {name for step in self._steps for name in step}
            names = dict.fromkeys(name for name in self.after.types if name in touched or self.vectors(name))
        return tuple(names)

    def _touched(self, name: str) -> OrdinalSet | None:
        if self._steps is None:
            return None
        touched = EMPTY
        for step in self._steps:
            if name in step:
                old, new = step[name]
                touched = touched.union(old.difference(new)).union(new.difference(old))
        return touched.union(self.vectors(name))

    def vectors(self, name: str) -> OrdinalSet:
        """The ordinals of a type that have another vector than before. Its chunks are compared, once."""
        if self.before is None or name not in self.before:
            return EMPTY
        found = self._moved.get(name)
        if found is None:
            found = self._moved[name] = changed_vectors(self.before, self.after, name)
        return found


NO_STEPS: tuple[Step, ...] = ()
"""The way of a refresh that went nowhere."""
