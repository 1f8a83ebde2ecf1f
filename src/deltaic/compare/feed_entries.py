"""Entries of maps, and elements of sets that have a key: told apart by a text that a field reference can hold."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.digest import DRAWN, Digest, mixed
from deltaic.compare.feed_values import Ordinals, Places
from deltaic.compare.keys import KeyColumn, key_columns
from deltaic.compare.logical_values import stands_for_another
from deltaic.compare.pairs import numbered
from deltaic.errors import NotFoundError, SchemaError
from deltaic.schema.logical import LogicalType
from deltaic.schema.types import FieldType, ObjectSchema
from deltaic.state.columns import TextColumn
from deltaic.state.read import ReadState

Mask = NDArray[np.bool_]

MAX_KEY_BYTES = 65_535
"""The longest map key that a field reference can hold (field-registry.md, 3)."""

_TEXT_KEYS = (FieldType.STRING, FieldType.INT, FieldType.LONG, FieldType.BOOLEAN)


@dataclass(frozen=True)
class Entries:
    """The entries of many maps: map i has entries `offsets[i]` up to `offsets[i + 1]`."""

    offsets: NDArray[np.int64]
    keys: KeyColumn
    targets: Ordinals
    """What the entries lead to: values of a map, elements of a set."""

    @cached_property
    def owners(self) -> Places:
        """For each entry the number of its map."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    @cached_property
    def digests(self) -> Digest:
        """For each entry a digest of its map's number and its key."""
        return mixed(self._key_digests + mixed(self.owners.astype(np.uint64) + DRAWN.of("entry of")))

    @cached_property
    def _key_digests(self) -> Digest:
        return self.keys.digest(DRAWN)

    @cached_property
    def unclear(self) -> Mask:
        """Maps in which a key is null, stands twice, or is no text that a reference can hold."""
        bad: Mask = (self._key_digests == 0).all(axis=0)
        column = self.keys.column
        if isinstance(column, TextColumn):
            wide = np.diff(column.offsets) > MAX_KEY_BYTES
            bad[self.keys.rows[wide]] = True
            if column.lone_surrogates:
                bad[:] = True
        if len(self.owners):
            numbers = numbered(self.digests)
            bad |= np.bincount(numbers)[numbers] > 1
        found = np.zeros(len(self.offsets) - 1, np.bool_)
        found[self.owners[bad]] = True
        return found

    def texts(self, entries: Places) -> NDArray[np.object_]:
        """The texts of the keys of some entries, none of which is null."""
        found = np.empty(len(entries), object)
        if not len(entries):
            return found
        values = self._values
        found[:] = [key_text(values[entry]) for entry in entries.tolist()]
        return found

    @cached_property
    def _values(self) -> list[object]:
        return self.keys.to_pylist()


def text_keys(
    state: ReadState, type_name: str, ordinals: Ordinals, path: str, note: LogicalType | None
) -> KeyColumn | None:
    """The keys of entries, if references can name entries by them; None if not.

    Args:
        state: the state.
        type_name: the type that holds the key: a boxed one, or the element type of a set.
        ordinals: of its records.
        path: to the key.
        note: what is noted of the key.
    """
    if not isinstance(state.types[type_name].schema, ObjectSchema):
        return None
    if note is not None and stands_for_another(note):
        return None
    try:
        (found,) = key_columns(state, type_name, ordinals, (path,))
    except (SchemaError, NotFoundError):
        return None
    return found if found.path.field_type in _TEXT_KEYS else None


def key_text(value: object) -> str:
    """The text by which a reference names an entry: a text itself, a number by its digits."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def others(count: int, taken: Places) -> Places:
    """The numbers below a count that are not taken."""
    left = np.ones(count, np.bool_)
    left[taken] = False
    return np.flatnonzero(left)
