"""Hash indexes: the records that have given values, or whose lists, sets and maps hold them.

Paths go through references by field name, through lists and sets by `element`, through maps by `key` and `value`. A
look-up gives the ordinals of the root records, or of the records that a select path leads to, rising and each once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from deltaic.index.following import Arrays, Definition, Following, rising
from deltaic.index.keyed_values import query_columns
from deltaic.index.traversal import Column, hashes_of, taken
from deltaic.kernels import keys
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState

Ordinals = NDArray[np.int64]
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class GroupEntries:
    """The records of one layer of a hash index, grouped by their values."""

    table: NDArray[np.uint64]
    columns: tuple[Column, ...]
    """The values of each group."""
    codes: tuple[int, ...]
    offsets: Ordinals
    """Group g has members `offsets[g]` up to `offsets[g + 1]`."""
    members: NDArray[np.int32]
    """What is found: ordinals."""
    owners: NDArray[np.int32] | None
    """The root of each member; None if the members are the roots."""

    @cached_property
    def finder(self) -> "keys.GroupFinder":
        """Finds a group by its values."""
        return keys.GroupFinder(self.table, self.columns, self.codes, self.offsets, self.members)


class HashIndex(Following[GroupEntries]):
    """Records by value: `HashIndex.build(state, "Movie", ["cast.element.actorId"])`."""

    KIND = "hash"

    @classmethod
    def build(cls, state: ReadState, type_name: str, match: Sequence[str] | str, select: str = "") -> Self:
        """Read the values of all records of a type.

        Args:
            state: the state to index.
            type_name: the type of the root records.
            match: the paths to the values that are looked up together.
            select: the path to the records that a look-up gives; empty for the root records.
        """
        paths = (match,) if isinstance(match, str) else tuple(match)
        return cls._build(state, Definition(cls.KIND, type_name, paths, select))

    def _make(self, state: ReadState, roots: OrdinalSet | None) -> GroupEntries:
        rows = self._traversal.rows(state, roots)
        hashes = hashes_of(rows.columns, rows.codes, mix_texts=True)
        table, groups, firsts = keys.group_rows(hashes, rows.columns, rows.codes)
        offsets, members, owners = keys.group_members(groups, len(firsts), rows.roots, rows.selected)
        columns = tuple(taken(column, firsts) for column in rows.columns)
        return GroupEntries(table, columns, rows.codes, offsets, members, owners)

    def _open(self) -> None:
        # Of records that are selected, one may belong to several roots, and so occur twice in a group.
        plain = len(self.layers) == 1 and not self.layers[0].stale and not self.definition.select
        self._plain = self.layers[0].entries.finder if plain else None

    def _entry_arrays(self, entries: GroupEntries) -> dict[str, NDArray[Any]]:
        found: dict[str, NDArray[Any]] = {
            "table": entries.table,
            "offsets": entries.offsets,
            "members": entries.members,
        }
        if entries.owners is not None:
            found["owners"] = entries.owners
        for number, (numbers, data) in enumerate(entries.columns):
            found[f"values{number}"] = numbers
            if data is not None:
                found[f"bytes{number}"] = data
        return found

    def _from_entry_arrays(self, arrays: Arrays) -> GroupEntries:
        codes = self._traversal.codes
        columns = tuple((arrays[f"values{number}"], arrays.get(f"bytes{number}")) for number in range(len(codes)))
        return GroupEntries(arrays["table"], columns, codes, arrays["offsets"], arrays["members"], arrays.get("owners"))

    def find(self, *values: object) -> Ordinals:
        """The ordinals of the records with these values, rising; none where there is no such record."""
        if self._plain is not None:
            return self._plain.members(values)
        parts = []
        for layer in self.layers:
            group = layer.entries.finder.find(values)
            if group >= 0:
                entries = layer.entries
                parts.append(
                    keys.collect(
                        np.array([group], np.int64),
                        entries.offsets,
                        entries.members,
                        entries.owners,
                        layer.stale_words,
                    )[1]
                )
        return rising(np.concatenate(parts)) if parts else _NONE

    def find_many(self, *columns: Any) -> tuple[Ordinals, Ordinals]:
        """The records for each row of values: offsets and ordinals, row i having `offsets[i]` up to `offsets[i + 1]`.

        Args:
            columns: for each path of the index an array, Arrow or a list of values.
        """
        given, valid, count = query_columns(self._traversal.codes, columns)
        found = []
        for layer in self.layers:
            entries = layer.entries
            groups = entries.finder.find_columns(given, valid, count)
            found.append(keys.collect(groups, entries.offsets, entries.members, entries.owners, layer.stale_words))
        if self._plain is not None:
            return found[0]
        rows = np.concatenate([np.repeat(np.arange(count), np.diff(offsets)) for offsets, _ in found])
        ordinals = np.concatenate([part for _, part in found])
        order = np.lexsort((ordinals, rows))
        rows, ordinals = rows[order], ordinals[order]
        if len(rows):
            once = np.ones(len(rows), np.bool_)
            once[1:] = (rows[1:] != rows[:-1]) | (ordinals[1:] != ordinals[:-1])
            rows, ordinals = rows[once], ordinals[once]
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
        return offsets, ordinals

    def records(self, *values: object) -> list[Any]:
        """The records with these values, in rising order of their ordinals."""
        view = self.state[self.selects]
        return [view[ordinal] for ordinal in self.find(*values).tolist()]

    def count(self, *values: object) -> int:
        """How many records have these values."""
        return len(self.find(*values))
