"""All indexes of a state: made when first asked for, carried on to the next state.

A `Lookup` belongs to one state and never changes but for indexes that are added. A refresh makes the next one with
`refreshed` while readers go on with this one, and swaps one reference: they see the old state with the old indexes, or
the new state with the new ones.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from deltaic.index.following import Definition, Following
from deltaic.index.hashed import HashIndex
from deltaic.index.plan import Index
from deltaic.index.prefix import PrefixIndex
from deltaic.index.primary import PrimaryKeyIndex, UniqueKeyIndex, declared_key
from deltaic.index.ranges import RangeIndex
from deltaic.index.tables import KeylessTable, TypeTable
from deltaic.index.touched import Step
from deltaic.index.typed_table import TypedTable
from deltaic.state.read import ReadState
from deltaic.state.typed import typed

T = TypeVar("T")

Made = TypeVar("Made", bound=Following[Any])


class Lookup:
    """The indexes of one state. Safe to use from many threads."""

    def __init__(self, state: ReadState, indexes: Iterable[Index] = ()) -> None:
        self.state = state
        """The state that all the indexes belong to."""
        self._indexes: dict[Definition, Index] = {index.definition: index for index in indexes}
        self._tables: dict[str, TypeTable | KeylessTable] = {}
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

    def __getitem__(self, type_name: str) -> TypeTable | KeylessTable:
        """The records of a type: by key, if it has one."""
        table = self._tables.get(type_name)
        if table is None:
            self.state[type_name]
            with self._making:
                table = self._tables.get(type_name)
                if table is None:
                    keyed = declared_key(self.state, type_name) is not None
                    table = TypeTable(self, type_name) if keyed else KeylessTable(self, type_name)
                    self._tables[type_name] = table
        return table

    def typed(self, cls: type[T]) -> TypedTable[T]:
        """The records of the type that a class stands for, as objects of that class."""
        reader = typed(cls)
        return TypedTable(self[reader.type_name], reader)

    def __contains__(self, type_name: object) -> bool:
        return type_name in self.state

    def refreshed(self, state: ReadState, steps: Sequence[Step] | None = None) -> "Lookup":
        """The same indexes for a later state; this one stays as it is.

        Args:
            state: the state after one delta, or after those that `steps` tell of; after anything else the indexes are
                built anew. Indexes of types and fields that the state does not have are left out.
            steps: what each delta on the way touched: by type, the ordinals populated before and after it.
        """
        if state is self.state:
            return self
        carried: list[Index] = []
        for index in self.indexes():
            if _fits(index, state):
                carried.append(index.update(state, steps))
        return Lookup(state, carried)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the indexes take beside the state."""
        return sum(index.nbytes for index in self.indexes())

    def __repr__(self) -> str:
        return f"Lookup({len(self._indexes)} indexes, {self.nbytes:,} bytes, state {self.state.tag:016x})"

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


def _fits(index: Index, state: ReadState) -> bool:
    from deltaic.errors import InputError, NotFoundError, SchemaError

    try:
        index._traverse(state, index.definition)
    except (SchemaError, NotFoundError, InputError):
        return False
    return True
