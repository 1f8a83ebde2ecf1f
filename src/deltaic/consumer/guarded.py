"""Look-ups in a state that can be dropped: each use is told to its guard, and no table keeps its memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.consumer.longevity import GuardedState
from deltaic.index.catalog import Lookup
from deltaic.index.index_set import IndexSet
from deltaic.index.tables import KeylessTable, TypeTable


class GuardedLookup(Lookup):
    """The indexes and tables of a state that can be dropped."""

    def __init__(self, state: GuardedState) -> None:
        self._state = state
        self.tables: dict[str, TypeTable | KeylessTable] = {}

    @property
    def state(self) -> GuardedState:
        """The state that everything here belongs to."""
        return self._state

    @property
    def _indexes(self) -> IndexSet:
        return self._state.indexes()

    def _table(self, type_name: str, keyed: bool) -> TypeTable | KeylessTable:
        return GuardedTable(self._state, type_name) if keyed else GuardedKeylessTable(self._state, type_name)


class GuardedKeylessTable(KeylessTable):
    """The records of a type without a key, of a state that can be dropped."""

    def __init__(self, state: GuardedState, type_name: str) -> None:
        self._state, self.view = state, state[type_name]

    @property
    def _indexes(self) -> IndexSet:
        return self._state.indexes()


class GuardedTable(TypeTable):
    """The records of a type by primary key, of a state that can be dropped.

    The index is asked for anew each time: a finder of its own would keep the memory of the state.
    """

    def __init__(self, state: GuardedState, type_name: str) -> None:
        self._state, self.view = state, state[type_name]

    @property
    def _indexes(self) -> IndexSet:
        return self._state.indexes()

    def __getitem__(self, key: object) -> Any:
        return self.index[key]

    def get(self, key: object, default: Any = None) -> Any:
        """The record with a key, or `default`."""
        return self.index.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.index

    def ordinal(self, key: object) -> int:
        """The ordinal of the record with a key, or -1."""
        return self.index.ordinal(key)

    def ordinals(self, key: object) -> list[int]:
        """The ordinals of all records with a key, rising."""
        return self.index.ordinals(key)

    def find_columns(self, columns: Any, valid: NDArray[np.bool_] | None, count: int) -> NDArray[np.int64]:
        """The ordinals for keys given as columns, -1 where there is none."""
        return self.index.find_columns(columns, valid, count)

    def first_of(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each record the ordinal that a look-up by its key gives."""
        return self.index.first_of(ordinals)
