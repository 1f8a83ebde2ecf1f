"""Patches in any order become groups.

A patch joins the last group of its shape unless a later group touched the same place of the same record: then it opens
a new one. Fields of a record do not disturb each other, so a batch has few groups however its patches are mixed.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from deltaic.errors import InputError
from deltaic.wire.patches.columns import PatchColumn, delta_form, kind_of
from deltaic.wire.patches.group import PatchGroup, SelectorColumn
from deltaic.wire.patches.patch import MISSING, Operation, Patch
from deltaic.wire.patches.places import split_place
from deltaic.wire.references import Parent, Reference, Selector, Unknown

_RECORD = ""


class _Gathered:
    """The patches of one group while it grows."""

    def __init__(self, first: Patch, path: str | Reference) -> None:
        self.first, self.path = first, path
        self.patches: list[Patch] = []
        self.selectors: list[tuple[Selector, ...]] = []

    def group(self, sources: dict[str, int]) -> PatchGroup:
        first, patches = self.first, self.patches
        if len(first.key_parts) == 1:
            keys: tuple[PatchColumn, ...] = (PatchColumn.of([patch.key_parts[0] for patch in patches]),)
        else:
            parts = [patch.key_parts for patch in patches]
            keys = tuple(PatchColumn.of([part[place] for part in parts]) for place in range(len(first.key_parts)))
        stamped = first.timestamp is not None
        has_value = first.operation in (Operation.SET, Operation.PUT, Operation.VECTOR) or not keys
        return PatchGroup(
            first.operation,
            first.type_name,
            len(patches),
            keys,
            self.path,
            tuple(SelectorColumn.of([row[place] for row in self.selectors]) for place in range(len(self.selectors[0]))),
            PatchColumn.of([patch.value for patch in patches]) if has_value else None,
            None if first.previous is MISSING else PatchColumn.of([patch.previous for patch in patches]),
            np.array([patch.timestamp for patch in patches], np.uint64) if stamped else None,
            _source_numbers(patches, sources),
        )


def gather_groups(patches: Iterable[Patch]) -> tuple[tuple[PatchGroup, ...], tuple[str, ...]]:
    """The groups of some patches, in an order that has the same effect, and the names of their sources."""
    groups: list[_Gathered] = []
    last_of_shape: dict[Any, int] = {}
    last_at: dict[Any, int] = {}
    last_of_record: dict[Any, int] = {}
    sources: dict[str, int] = {}
    spots: dict[Any, _Spot] = {}
    for patch in patches:
        operation, type_name, given_key, value = patch.operation, patch.type_name, patch.key, patch.value
        spot = spots.get((operation, type_name, patch.path))
        if spot is None:
            spot = spots[operation, type_name, patch.path] = _Spot.of(patch)
        if given_key is None and not operation.of_record:
            raise InputError(f"a patch of a field of {type_name} needs the key of its record", "BadPatch")
        plain = type(given_key) in _PLAIN_KEYS
        # A truth value equals a number, and 1.0 equals 1: they are no common key.
        key = (type_name, type(given_key), given_key) if plain else (type_name, _hashable(patch.key_parts))
        at_record = last_of_record.get(key, 0)
        if spot.head == _RECORD:
            floor = at_record
        else:
            floor = max(last_at.get((key, spot.head), 0), last_at.get((key, _RECORD), 0))
        shape = (
            spot.shape,
            kind_of(given_key) if plain else tuple(map(kind_of, patch.key_parts)),
            delta_form(value) if operation is Operation.VECTOR else kind_of(value),
            None if patch.previous is MISSING else kind_of(patch.previous),
            patch.timestamp is None,
            patch.source is None,
        )
        number = last_of_shape.get(shape, -1)
        if number < floor:
            number = last_of_shape[shape] = len(groups)
            groups.append(_Gathered(patch, spot.path))
        gathered = groups[number]
        gathered.patches.append(patch)
        gathered.selectors.append(spot.selectors)
        if patch.source is not None:
            sources.setdefault(patch.source, len(sources) + 1)
        last_at[key, spot.head] = number
        if number > at_record:
            last_of_record[key] = number
    return tuple(each.group(sources) for each in groups), tuple(sources)


class _Spot(NamedTuple):
    """What patches of one operation and one path have in common."""

    path: str | Reference
    selectors: tuple[Selector, ...]
    head: str
    """What of the record it is: fields with different heads do not disturb each other."""
    shape: Any

    @classmethod
    def of(cls, patch: Patch) -> "_Spot":
        path, selectors, head = _place(patch)
        codes = tuple(selector.code for selector in selectors)
        return cls(path, selectors, head, (int(patch.operation), patch.type_name, path, codes))


_PLAIN_KEYS = frozenset((int, str, bytes, bool))


def _place(patch: Patch) -> tuple[str | Reference, tuple[Selector, ...], str]:
    if patch.operation.of_record:
        return "", (), _RECORD
    if isinstance(patch.path, Reference):
        kept = tuple(one for one in patch.path.parameters if isinstance(one, Parent | Unknown))
        # What a number stands for is not known here: references keep their order among themselves.
        return replace(patch.path, parameters=kept), patch.path.selectors, _RECORD
    path, selectors = split_place(patch.path)
    end = min((place for mark in ".[{" if (place := path.find(mark)) > 0), default=len(path))
    return path, selectors, path[:end]


def _hashable(parts: tuple[Any, ...]) -> Any:
    try:
        hash(parts)
    except TypeError:
        return repr(parts)
    return parts


def _source_numbers(patches: list[Patch], sources: dict[str, int]) -> Any:
    if patches[0].source is None:
        return None
    return np.array([sources[patch.source] for patch in patches if patch.source is not None], np.int64)
