"""The indexes of one state, each made when first asked for."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from deltaic.index.following import Definition, Following
from deltaic.index.hashed import HashIndex
from deltaic.index.plan import Index
from deltaic.index.prefix import PrefixIndex
from deltaic.index.primary import PrimaryKeyIndex, UniqueKeyIndex, declared_key
from deltaic.index.ranges import RangeIndex
from deltaic.state.read import ReadState

Made = TypeVar("Made", bound=Following[Any])


class IndexSet:
    """The indexes of one state. Safe to use from many threads."""

    def __init__(self, state: ReadState, indexes: Iterable[Index] = ()) -> None:
        self.state = state
        """The state that all the indexes belong to."""
        self._indexes: dict[Definition, Index] = {index.definition: index for index in indexes}
        self._making = threading.RLock()

    def key(self, type_name: str, paths: Sequence[str] | str | None = None) -> PrimaryKeyIndex:
        """The index by key; by the type's primary key if no paths are given."""
        match = declared_key(self.state, type_name) if paths is None else _paths(paths)
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

    def _index(self, wanted: Definition, build: Callable[[], Made]) -> Made:
        found = self._indexes.get(wanted)
        if found is None:
            with self._making:
                found = self._indexes.get(wanted)
                if found is None:
                    made = build()
                    # A new mapping, so that nobody who goes through the old one meets a change.
                    self._indexes = {**self._indexes, made.definition: cast(Index, made)}
                    return made
        return cast(Made, found)


def _paths(paths: Sequence[str] | str) -> tuple[str, ...]:
    return (paths,) if isinstance(paths, str) else tuple(paths)
