"""A group: many patches that do the same thing to the same field, as columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.wire.patches.columns import ColumnKind, PatchColumn
from deltaic.wire.patches.patch import MISSING, Operation, Patch
from deltaic.wire.patches.places import join_place
from deltaic.wire.references import Index, Indices, MapKey, ParameterType, Range, Ranges, Reference, Selector

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SelectorColumn:
    """The selectors that bind to one placeholder, one for every patch of a group, all of one type.

    `numbers` are the elements, or starts and ends; with `offsets` row i has those from `offsets[i]` to
    `offsets[i + 1]`. Keys of entries are `keys`.
    """

    code: int
    numbers: tuple[Numbers, ...] = ()
    offsets: Numbers | None = None
    keys: PatchColumn | None = None

    @classmethod
    def of(cls, selectors: Sequence[Selector]) -> "SelectorColumn":
        """The column of selectors of one type."""
        code = selectors[0].code
        match selectors[0]:
            case Index():
                return cls(code, (_numbers(one.element for one in selectors if isinstance(one, Index)),))
            case Range():
                pairs = [(one.start, one.end) for one in selectors if isinstance(one, Range)]
                return cls(code, (_numbers(start for start, _ in pairs), _numbers(end for _, end in pairs)))
            case Indices():
                members = [one.elements for one in selectors if isinstance(one, Indices)]
                return cls(code, (_numbers(each for row in members for each in row),), _offsets(members))
            case Ranges():
                rows = [one.ranges for one in selectors if isinstance(one, Ranges)]
                starts, ends = (_numbers(pair[side] for row in rows for pair in row) for side in (0, 1))
                return cls(code, (starts, ends), _offsets(rows))
            case MapKey():
                keys = [one.key for one in selectors if isinstance(one, MapKey)]
                return cls(code, keys=PatchColumn.of(keys, ColumnKind.TEXT))

    def to_list(self) -> list[Selector]:
        """The selectors, row by row."""
        if self.keys is not None:
            return [MapKey(key) for key in self.keys.to_list()]
        plain = [numbers.tolist() for numbers in self.numbers]
        if self.offsets is None:
            if self.code == ParameterType.INDEX:
                return [Index(element) for element in plain[0]]
            return [Range(start, end) for start, end in zip(*plain, strict=True)]
        bounds = self.offsets.tolist()
        if self.code == ParameterType.INDICES:
            return [Indices(tuple(plain[0][a:b])) for a, b in pairwise(bounds)]
        pairs = list(zip(*plain, strict=True))
        return [Ranges(tuple(pairs[a:b])) for a, b in pairwise(bounds)]

    def picked(self, rows: Numbers) -> "SelectorColumn":
        """The selectors of some rows."""
        if self.keys is not None:
            return replace(self, keys=self.keys.picked(rows))
        if self.offsets is None:
            return replace(self, numbers=tuple(numbers[rows] for numbers in self.numbers))
        every = self.to_list()
        return SelectorColumn.of([every[row] for row in rows.tolist()])


@dataclass(frozen=True, slots=True, eq=False)
class PatchGroup:
    """Patches of one operation on one field of one type. They apply in the order of their rows."""

    operation: Operation
    type_name: str
    count: int
    keys: tuple[PatchColumn, ...]
    """One column for each path of the primary key; none for records without a key."""
    path: str | Reference = ""
    """The field as the registry has it, below its type: `cast[].name`; or a reference without selectors."""
    selectors: tuple[SelectorColumn, ...] = ()
    values: PatchColumn | None = None
    previous: PatchColumn | None = None
    timestamps: NDArray[np.uint64] | None = None
    sources: Numbers | None = None
    """The source of every patch: its number in the batch's list of sources, from 1; 0 is none."""

    def __len__(self) -> int:
        return self.count

    def places(self) -> list[str | Reference]:
        """The path of every patch with its elements and entries bound."""
        if not self.selectors:
            return [self.path] * self.count
        rows = zip(*(selector.to_list() for selector in self.selectors), strict=True)
        if isinstance(self.path, Reference):
            base = self.path
            return [replace(base, parameters=(*base.parameters, *row)) for row in rows]
        path = self.path
        return [join_place(path, row) for row in rows]

    def key_values(self) -> list[Any]:
        """The keys as Python values: a tuple where the key has several paths, None where there is none."""
        if not self.keys:
            return [None] * self.count
        if len(self.keys) == 1:
            return self.keys[0].to_list()
        return list(zip(*(column.to_list() for column in self.keys), strict=True))

    def patches(self, sources: tuple[str, ...] = ()) -> Iterator[Patch]:
        """The patches, one by one."""
        nothing: list[Any] = [None] * self.count
        values = nothing if self.values is None else self.values.to_list()
        previous = [MISSING] * self.count if self.previous is None else self.previous.to_list()
        stamps = nothing if self.timestamps is None else self.timestamps.tolist()
        numbers = [0] * self.count if self.sources is None else self.sources.tolist()
        for key, place, value, expected, stamp, number in zip(
            self.key_values(), self.places(), values, previous, stamps, numbers, strict=True
        ):
            source = sources[number - 1] if number else None
            yield Patch(self.type_name, key, place, value, expected, stamp, source, self.operation)

    def picked(self, rows: Numbers) -> "PatchGroup":
        """Some of the patches; the rows must rise."""
        return replace(
            self,
            count=len(rows),
            keys=tuple(column.picked(rows) for column in self.keys),
            selectors=tuple(selector.picked(rows) for selector in self.selectors),
            values=None if self.values is None else self.values.picked(rows),
            previous=None if self.previous is None else self.previous.picked(rows),
            timestamps=None if self.timestamps is None else self.timestamps[rows],
            sources=None if self.sources is None else self.sources[rows],
        )


def _numbers(values: Any) -> Numbers:
    return np.fromiter(values, np.int64)


def _offsets(rows: Sequence[Sequence[Any]]) -> Numbers:
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return offsets
