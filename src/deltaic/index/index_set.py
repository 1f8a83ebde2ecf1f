"""The indexes of one state, each made when first asked for, and carried on to the next state.

An index may live somewhere else than in the memory of this process: an `IndexHome` is asked first, and given what it
does not have.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar, cast

from deltaic.compare.keys import declared_key
from deltaic.errors import InputError, NotFoundError, SchemaError
from deltaic.index.following import Counts, Definition, Following
from deltaic.index.hashed import HashIndex
from deltaic.index.plan import Index
from deltaic.index.prefix import PrefixIndex
from deltaic.index.primary import PrimaryKeyIndex, UniqueKeyIndex
from deltaic.index.ranges import RangeIndex
from deltaic.index.touched import Step
from deltaic.state.read import ReadState

Made = TypeVar("Made", bound=Following[Any])


class IndexHome(Protocol):
    """Where the indexes of a state are kept for several processes."""

    def obtain(self, state: ReadState, definition: Definition, counts: Counts, make: Callable[[], Index]) -> Index:
        """The index of a state: one that is there, or what `make` gives, kept for the others.

        `counts` are those of the index that it goes on from; one that is there is attached once more.
        """
        ...


class IndexSet:
    """The indexes of one state. Safe to use from many threads.

    Args:
        state: the state that all the indexes belong to.
        indexes: those that are there already.
        home: where indexes come from and go to; None is the memory of this process alone.
    """

    def __init__(self, state: ReadState, indexes: Iterable[Index] = (), home: IndexHome | None = None) -> None:
        self.state = state
        """The state that all the indexes belong to."""
        self._indexes: dict[Definition, Index] = {index.definition: index for index in indexes}
        self._home = home
        self._primary_keys: dict[str, tuple[str, ...] | None] = {}
        self.making = threading.RLock()
        """Held by the one thread that makes an index, or anything that is made once for the state."""
        _sets.add(self)

    def primary_key(self, type_name: str) -> tuple[str, ...] | None:
        """The paths of a type's primary key; None if it has none that can be followed in this state."""
        if type_name not in self._primary_keys:
            self._primary_keys[type_name] = declared_key(self.state, self.state[type_name].name)
        return self._primary_keys[type_name]

    def key(self, type_name: str, paths: Sequence[str] | str | None = None) -> PrimaryKeyIndex:
        """The index by key; by the type's primary key if no paths are given."""
        match = self.primary_key(type_name) if paths is None else _paths(paths)
        wanted = Definition(PrimaryKeyIndex.KIND, type_name, match or ())
        return self._index(wanted, lambda: PrimaryKeyIndex.build(self.state, type_name, match))

    def unique(self, type_name: str, paths: Sequence[str] | str) -> UniqueKeyIndex:
        """The index by fields that are unique together."""
        match = _paths(paths)
        wanted = Definition(UniqueKeyIndex.KIND, type_name, match)
        return self._index(wanted, lambda: UniqueKeyIndex.build(self.state, type_name, match))

    def hash(self, type_name: str, match: Sequence[str] | str, select: str = "") -> HashIndex:
        """The index by values, through references and collections."""
        wanted = Definition(HashIndex.KIND, type_name, _paths(match), select)
        return self._index(wanted, lambda: HashIndex.build(self.state, type_name, match, select))

    def prefix(self, type_name: str, path: str, *, tokens: bool = False, fold_case: bool = True) -> PrefixIndex:
        """The index by the start of a text, or of its words."""
        options = (("fold_case", fold_case), ("tokens", tokens))
        wanted = Definition(PrefixIndex.KIND, type_name, (path,), "", options)
        return self._index(
            wanted, lambda: PrefixIndex.build(self.state, type_name, path, tokens=tokens, fold_case=fold_case)
        )

    def range(self, type_name: str, path: str) -> RangeIndex:
        """The index by a number or a text in order."""
        wanted = Definition(RangeIndex.KIND, type_name, (path,))
        return self._index(wanted, lambda: RangeIndex.build(self.state, type_name, path))

    def indexes(self) -> tuple[Index, ...]:
        """The indexes that were made so far."""
        return tuple(self._indexes.values())

    def refreshed(
        self, state: ReadState, steps: Sequence[Step] | None = None, home: IndexHome | None = None
    ) -> "IndexSet":
        """The same indexes for a later state; these stay as they are. See `Lookup.refreshed`."""
        return IndexSet(
            state, [_next(index, state, steps, home) for index in self.indexes() if _fits(index, state)], home
        )

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the indexes take beside the state."""
        return sum(index.nbytes for index in self.indexes())

    def _index(self, wanted: Definition, build: Callable[[], Made]) -> Made:
        found = self._indexes.get(wanted)
        if found is None:
            with self.making:
                found = self._indexes.get(wanted)
                if found is None:
                    make = cast(Callable[[], Index], build)
                    found = make() if self._home is None else self._home.obtain(self.state, wanted, Counts(), make)
                    # A new mapping, so that nobody who goes through the old one meets a change.
                    self._indexes = {**self._indexes, found.definition: found}
        return cast(Made, found)


def _next(index: Index, state: ReadState, steps: Sequence[Step] | None, home: IndexHome | None) -> Index:
    if home is None:
        return index.update(state, steps)
    return home.obtain(state, index.definition, index.counts, lambda: index.update(state, steps))


def _fits(index: Index, state: ReadState) -> bool:
    try:
        index._traverse(state, index.definition)
    except (SchemaError, NotFoundError, InputError):
        return False
    return True


def _paths(paths: Sequence[str] | str) -> tuple[str, ...]:
    return (paths,) if isinstance(paths, str) else tuple(paths)


_sets: "weakref.WeakSet[IndexSet]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    # A thread of the parent may have been making an index: it does not go on here.
    for one in list(_sets):
        one.making = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
