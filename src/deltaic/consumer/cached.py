"""Cached types: small types held as ready Python objects.

Countries, currencies, categories: types of some thousand records that nearly every request looks at. Their records
are made into Python values once, and from version to version only what changed is made again. The values of a version
are swapped together with its state.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from deltaic.compare.keys import declared_key, key_values
from deltaic.consumer.changes import Changes
from deltaic.errors import NotFoundError
from deltaic.state.read import ReadState


class CachedType(Mapping[int, Any]):
    """The records of one type at one version as Python values by ordinal, shared by all readers: not to be changed."""

    def __init__(self, name: str, values: Mapping[int, Any], keys: Mapping[tuple[Any, ...], int] | None) -> None:
        self.name = name
        self._values = values
        self._keys = keys

    @classmethod
    def of(
        cls, state: ReadState, name: str, before: "CachedType | None" = None, changes: Changes | None = None
    ) -> "CachedType":
        """The values of a type in a state; what did not change since `before` is taken from there."""
        if name not in state:
            return cls(name, MappingProxyType({}), None)
        view = state[name]
        if before is None or changes is None or changes.whole or changes.remodelled or _leads_to_vectors(name, changes):
            values = {ordinal: view[ordinal].to_python() for ordinal in view.populated}
            return cls(name, values, _keys(state, name, values))
        if name not in changes:
            return before
        touched = changes[name]
        values = dict(before._values)
        for ordinal in touched.removed_ordinals:
            del values[ordinal]
        for ordinal in touched.added_ordinals:
            values[ordinal] = view[ordinal].to_python()
        return cls(name, values, _keys(state, name, values))

    def __getitem__(self, ordinal: int) -> Any:
        return self._values[ordinal]

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def find(self, *key: Any) -> Any:
        """The value of the record with a primary key; None if there is none."""
        if self._keys is None:
            raise NotFoundError(f"type {self.name} has no primary key to look records up by")
        ordinal = self._keys.get(key)
        return None if ordinal is None else self._values[ordinal]

    def __repr__(self) -> str:
        return f"CachedType({self.name}, {len(self):,} records)"


def _leads_to_vectors(name: str, changes: Changes) -> bool:
    """True if a vector changed of what records refer to: they stay, and read differently."""
    if not changes.after.vectors and (changes.before is None or not changes.before.vectors):
        return False
    below = changes.after.schemas.closure([name]).names
    return any(changes.vectors(other) for other in below if other != name)


def _keys(state: ReadState, name: str, values: Mapping[int, Any]) -> dict[tuple[Any, ...], int] | None:
    if declared_key(state, name) is None:
        return None
    ordinals = state.types[name].populated.ordinals()
    return dict(zip(key_values(state, name, ordinals), ordinals.tolist(), strict=True))
