"""Patches in any order become groups.

A patch joins the last group of its shape unless a later group touched the same place of the same record: then it opens
a new one. Fields of a record do not disturb each other, so a batch has few groups however its patches are mixed.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

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
        keys = tuple(
            PatchColumn.of([patch.key_parts[part] for patch in patches]) for part in range(len(first.key_parts))
        )
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
    last_at: dict[tuple[str, Any, str], int] = {}
    last_of_record: dict[tuple[str, Any], int] = {}
    sources: dict[str, int] = {}
    for patch in patches:
        path, selectors, head = _place(patch)
        parts = patch.key_parts
        if not parts and not patch.operation.of_record:
            raise InputError(f"a patch of a field of {patch.type_name} needs the key of its record", "BadPatch")
        key = (patch.type_name, _hashable(parts))
        if head == _RECORD:
            floor = last_of_record.get(key, 0)
        else:
            floor = max(last_at.get((*key, head), 0), last_at.get((*key, _RECORD), 0))
        shape = _shape(patch, path, selectors, parts)
        number = last_of_shape.get(shape, -1)
        if number < floor:
            number = last_of_shape[shape] = len(groups)
            groups.append(_Gathered(patch, path))
        groups[number].patches.append(patch)
        groups[number].selectors.append(selectors)
        if patch.source is not None:
            sources.setdefault(patch.source, len(sources) + 1)
        last_at[(*key, head)] = number
        last_of_record[key] = max(last_of_record.get(key, 0), number)
    return tuple(each.group(sources) for each in groups), tuple(sources)


def _place(patch: Patch) -> tuple[str | Reference, tuple[Selector, ...], str]:
    """The field, its selectors, and what of the record it is: fields with different heads do not disturb each other."""
    if patch.operation.of_record:
        return "", (), _RECORD
    if isinstance(patch.path, Reference):
        kept = tuple(one for one in patch.path.parameters if isinstance(one, Parent | Unknown))
        # What a number stands for is not known here: references keep their order among themselves.
        return replace(patch.path, parameters=kept), patch.path.selectors, _RECORD
    path, selectors = split_place(patch.path)
    end = min((place for mark in ".[{" if (place := path.find(mark)) > 0), default=len(path))
    return path, selectors, path[:end]


def _shape(patch: Patch, path: str | Reference, selectors: tuple[Selector, ...], parts: tuple[Any, ...]) -> Any:
    value = kind_of(patch.value)
    return (
        patch.operation,
        patch.type_name,
        path,
        tuple(selector.code for selector in selectors),
        tuple(kind_of(part) for part in parts),
        delta_form(patch.value) if patch.operation is Operation.VECTOR else value,
        None if patch.previous is MISSING else kind_of(patch.previous),
        patch.timestamp is None,
        patch.source is None,
    )


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
