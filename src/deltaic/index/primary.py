"""Indexes by key: the record that has one.

`index[key]` is a record, `index.ordinal(key)` its ordinal or -1, `index.find(keys)` the ordinals of a whole batch. The
table holds nothing but hashes and ordinals; keys are compared with the records themselves. Of records that share a key
the one with the smallest ordinal is found, which is what Hollow finds in an index that was just built; `duplicates`
names the others. A record with a null in its key is in no index; `nulls` names those.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.keys import declared_key, key_values
from deltaic.errors import InputError, ValidationError
from deltaic.index.following import Arrays, Definition, Following
from deltaic.index.keyed_values import query_columns
from deltaic.index.traversal import Traversal, hashes_of
from deltaic.kernels import hashing, keys
from deltaic.kernels.content import BOOLEAN, INT, LONG, REFERENCE
from deltaic.schema.types import ObjectSchema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.records import records_of

Ordinals = NDArray[np.int64]
_WHOLE_NUMBERS = (INT, LONG, BOOLEAN, REFERENCE)


@dataclass(frozen=True, slots=True, eq=False)
class KeyEntries:
    """The records of one layer of an index by key."""

    table: NDArray[np.uint64]
    """Hashes and ordinals; `deltaic.kernels` `keys` says how."""
    nulls: Ordinals
    """Records that have a null in their key and are not in the table, rising."""
    exact: NDArray[np.bool_]
    """One value, True if equal hashes are equal keys, as with numbers of 32 bits, whose hash tells them apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Duplicates:
    """Records whose key an earlier record has too: record `ordinals[i]` has the key of record `firsts[i]`."""

    firsts: Ordinals
    ordinals: Ordinals

    def __len__(self) -> int:
        return len(self.ordinals)


class PrimaryKeyIndex(keys.KeyFinder, Following[KeyEntries]):
    """The records of a type by key: `PrimaryKeyIndex.build(state, "Movie", ("id",))`."""

    KIND = "key"

    @classmethod
    def build(cls, state: ReadState, type_name: str, paths: Sequence[str] | str | None = None) -> Self:
        """Read the keys of all records of a type.

        Args:
            state: the state to index.
            type_name: an OBJECT type.
            paths: the fields of the key, dotted where they lie behind references; None takes the type's primary key.
        """
        if paths is None:
            paths = declared_key(state, state[type_name].name)
            if paths is None:
                raise InputError(
                    f"type {type_name} has no primary key to follow: say which fields are the key", "NoKey"
                )
        match = (paths,) if isinstance(paths, str) else tuple(paths)
        return cls._build(state, Definition(cls.KIND, type_name, match))

    @classmethod
    def _traverse(cls, state: ReadState, definition: Definition) -> Traversal:
        if not isinstance(state[definition.type_name].schema, ObjectSchema):
            raise InputError(f"type {definition.type_name} is no OBJECT: only those have keys")
        return Traversal(state, definition.type_name, definition.match, through_collections=False)

    def _make(self, state: ReadState, roots: OrdinalSet | None) -> KeyEntries:
        path = self._traversal.key_paths[0]
        if len(self.definition.match) == 1 and len(path.positions) == 1 and path.code in _WHOLE_NUMBERS:
            return self._make_from_numbers(state, roots, path.positions[0])
        rows = self._traversal.rows(state, roots)
        hashes = hashes_of(rows.columns, rows.codes, mix_texts=False)
        every = state.types[self.definition.type_name].populated if roots is None else roots
        found = rows.roots.astype(np.int64)
        nulls = np.zeros(0, np.int64)
        if len(found) != len(every):
            nulls = every.difference(OrdinalSet.from_ordinals(found)).ordinals()
        table = keys.fill_table(hashes, found, None, hashing.hash_table_size(len(found)))
        return KeyEntries(table, nulls, np.array([False]))

    def _make_from_numbers(self, state: ReadState, roots: OrdinalSet | None, position: int) -> KeyEntries:
        records = records_of(state)
        number = records.number(self.definition.type_name)
        every = state.types[self.definition.type_name].populated if roots is None else roots
        size = hashing.hash_table_size(len(every))
        table, nulls, exact = keys.number_table(records.reader, number, position, every.words, size)
        return KeyEntries(table, nulls, np.array([exact]))

    def _open(self) -> None:
        records = records_of(self.state)
        number = records.number(self.definition.type_name)
        tables = tuple((one.entries.table, one.stale_words, bool(one.entries.exact[0])) for one in self.layers)
        keys.KeyFinder.__init__(self, records.reader, number, self._traversal.key_paths, tables)

    def _entry_arrays(self, entries: KeyEntries) -> dict[str, NDArray[Any]]:
        return {"table": entries.table, "nulls": entries.nulls, "exact": entries.exact}

    def _from_entry_arrays(self, arrays: Arrays) -> KeyEntries:
        return KeyEntries(arrays["table"], arrays["nulls"], arrays["exact"])

    def __len__(self) -> int:
        """How many records the index holds, duplicates included."""
        return len(self.state.types[self.definition.type_name].populated) - len(self.nulls())

    def find(self, keys: Any) -> Ordinals:
        """The ordinals of the records with these keys, -1 where there is none.

        Args:
            keys: an array, Arrow or a list. For a key of several fields a tuple of those, or a list of tuples.
        """
        columns, valid, count = query_columns(self._traversal.codes, self._given(keys))
        return self.find_columns(columns, valid, count)

    def records(self, keys: Any) -> list[Any]:
        """The records with these keys, None where there is none; `keys` as for `find`."""
        view = self.state[self.definition.type_name]
        return [None if ordinal < 0 else view[ordinal] for ordinal in self.find(keys).tolist()]

    def nulls(self) -> Ordinals:
        """The records that have a null in their key, which no look-up finds."""
        parts = []
        for layer in self.layers:
            nulls = layer.entries.nulls
            if layer.stale and len(nulls):
                nulls = OrdinalSet.from_ordinals(nulls).difference(layer.stale).ordinals()
            parts.append(nulls)
        return np.sort(np.concatenate(parts))

    def duplicates(self) -> Duplicates:
        """The records that no look-up finds, because an earlier one has the same key. Reads all keys."""
        ordinals = self.state.types[self.definition.type_name].populated.ordinals()
        firsts = self.first_of(ordinals)
        hidden = (firsts >= 0) & (firsts != ordinals)
        return Duplicates(firsts[hidden], ordinals[hidden])

    def key_of(self, ordinal: int) -> Any:
        """The key of one record: a value, or a tuple where the key has several fields."""
        return self.keys_of(np.array([ordinal], np.int64))[0]

    def keys_of(self, ordinals: Ordinals) -> list[Any]:
        """The keys of records as Python values; None for a null."""
        found = key_values(self.state, self.definition.type_name, ordinals, self.definition.match)
        return [key[0] for key in found] if len(self.definition.match) == 1 else found

    def check_unique(self) -> None:
        """Refuse a state in which two records have one key.

        Raises:
            ValidationError: it names some of the keys.
        """
        found = self.duplicates()
        if len(found):
            shown = ", ".join(repr(key) for key in self.keys_of(found.ordinals[:5]))
            raise ValidationError(
                f"{len(found)} records of {self.definition.type_name} have a key ({', '.join(self.definition.match)}) "
                f"that another one has too: {shown}{', …' if len(found) > 5 else ''}"
            )

    def _given(self, keys: Any) -> Sequence[Any]:
        parts = len(self._traversal.codes)
        if parts == 1:
            return (keys,)
        if isinstance(keys, tuple):
            return keys
        rows = list(keys)
        if any(not isinstance(row, tuple | list) or len(row) != parts for row in rows):
            raise InputError(f"a key has {parts} fields: give a tuple of {parts} arrays, or tuples", "KeyType")
        return tuple(list(column) for column in zip(*rows, strict=True)) if rows else tuple([] for _ in range(parts))


class UniqueKeyIndex(PrimaryKeyIndex):
    """The records of a type by fields that are unique, whether the type declares them as its key or not."""

    KIND = "unique"

    @classmethod
    def build(cls, state: ReadState, type_name: str, paths: Sequence[str] | str | None = None) -> Self:
        """Read the values of all records of a type.

        Args:
            state: the state to index.
            type_name: an OBJECT type.
            paths: the fields that are unique together.
        """
        if not paths:
            raise InputError(f"a unique index of {type_name} needs the fields that are unique", "NoKey")
        return super().build(state, type_name, paths)
