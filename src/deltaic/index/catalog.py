"""All that can be looked up in a state: its indexes and its tables, carried on to the next state.

A `Lookup` belongs to one state and never changes but for indexes that are added. A refresh makes the next one with
`refreshed` while readers go on with this one, and swaps one reference: they see the old state with the old indexes, or
the new state with the new ones.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from deltaic.index.hashed import HashIndex
from deltaic.index.index_set import IndexSet
from deltaic.index.plan import Index
from deltaic.index.prefix import PrefixIndex
from deltaic.index.primary import PrimaryKeyIndex, UniqueKeyIndex
from deltaic.index.ranges import RangeIndex
from deltaic.index.tables import KeylessTable, TypeTable
from deltaic.index.touched import Step
from deltaic.state.read import ReadState

if TYPE_CHECKING:
    from deltaic.index.typed_table import TypedTable

T = TypeVar("T")


class Lookup:
    """The indexes and tables of one state. Safe to use from many threads.

    Args:
        state: the state that everything here belongs to.
        indexes: those that are there already, alone or as a set that others use too.
    """

    def __init__(self, state: ReadState, indexes: Iterable[Index] | IndexSet = ()) -> None:
        # Tables hold the indexes and not this object: no circle keeps a state until the collector comes by.
        self._own = indexes if isinstance(indexes, IndexSet) else IndexSet(state, indexes)
        self.tables: dict[str, TypeTable | KeylessTable] = {}
        """The tables that were asked for so far, by type; those of others come with `lookup[name]`."""

    @property
    def _indexes(self) -> IndexSet:
        return self._own

    @property
    def state(self) -> ReadState:
        """The state that everything here belongs to."""
        return self._indexes.state

    def key(self, type_name: str, paths: Sequence[str] | str | None = None) -> PrimaryKeyIndex:
        """The index by key; by the type's primary key if no paths are given."""
        return self._indexes.key(type_name, paths)

    def unique(self, type_name: str, paths: Sequence[str] | str) -> UniqueKeyIndex:
        """The index by fields that are unique together."""
        return self._indexes.unique(type_name, paths)

    def hash(self, type_name: str, match: Sequence[str] | str, select: str = "") -> HashIndex:
        """The index by values, through references and collections."""
        return self._indexes.hash(type_name, match, select)

    def prefix(self, type_name: str, path: str, *, tokens: bool = False, fold_case: bool = True) -> PrefixIndex:
        """The index by the start of a text, or of its words."""
        return self._indexes.prefix(type_name, path, tokens=tokens, fold_case=fold_case)

    def range(self, type_name: str, path: str) -> RangeIndex:
        """The index by a number or a text in order."""
        return self._indexes.range(type_name, path)

    def indexes(self) -> tuple[Index, ...]:
        """The indexes that were made so far."""
        return self._indexes.indexes()

    def __getitem__(self, type_name: str) -> TypeTable | KeylessTable:
        """The records of a type: by key, if it has one."""
        table = self.tables.get(type_name)
        if table is None:
            keyed = self._indexes.primary_key(type_name) is not None
            with self._indexes.making:
                table = self.tables.get(type_name)
                if table is None:
                    table = self.tables[type_name] = self._table(type_name, keyed)
        return table

    def _table(self, type_name: str, keyed: bool) -> TypeTable | KeylessTable:
        return TypeTable(self._indexes, type_name) if keyed else KeylessTable(self._indexes, type_name)

    def typed(self, cls: type[T]) -> "TypedTable[T]":
        """The records of the type that a class stands for, as objects of that class."""
        from deltaic.index.typed_table import TypedTable
        from deltaic.state.typed import typed

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
        return self if state is self.state else Lookup(state, self._indexes.refreshed(state, steps))

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the indexes take beside the state."""
        return self._indexes.nbytes

    def __repr__(self) -> str:
        return f"Lookup({len(self.indexes())} indexes, {self.nbytes:,} bytes, state {self.state.tag:016x})"
