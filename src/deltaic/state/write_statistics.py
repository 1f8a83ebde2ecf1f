"""What the widths of a type's fields follow from, counted record by record as records come and go.

Every width of a blob is a bit length, so it is enough to count how many records need each number of bits: adding and
taking away records is then as cheap as the change, and nothing is scanned twice. Statistics cover the records of this
version and of the one before (hollow-blob.md, sections 6 to 9).
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import ordinals as ordinal_kernels
from deltaic.kernels import records
from deltaic.schema.types import FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.wire.write_layout import Layout, ListLayout, MapLayout, ObjectLayout, SetLayout

_BIT_LENGTHS = 66
_KIND_NUMBERS = {
    FieldType.REFERENCE: 0,
    FieldType.INT: 1,
    FieldType.LONG: 2,
    FieldType.BOOLEAN: 3,
    FieldType.FLOAT: 4,
    FieldType.DOUBLE: 5,
    FieldType.STRING: 6,
    FieldType.BYTES: 7,
}

Counts = NDArray[np.int64]


def field_kinds(schema: Schema) -> NDArray[np.uint8]:
    """The field types of an OBJECT as the kernels number them; empty for other kinds."""
    fields = schema.fields if isinstance(schema, ObjectSchema) else ()
    return np.array([_KIND_NUMBERS[field.type] for field in fields], np.uint8)


class TypeStatistics(ABC):
    """Counts over the records of one type: records by the bits they need, and totals by shard."""

    def __init__(self) -> None:
        self._counted: OrdinalSet = EMPTY
        self._totals: Counts = np.zeros(1, np.int64)
        self._counts = self._no_counts()

    def update(self, source: "ordinal_kernels.OrdinalMap", ordinals: OrdinalSet) -> None:
        """Count exactly these ordinals."""
        self._count(source, self._counted.difference(ordinals), -1)
        self._count(source, ordinals.difference(self._counted), 1)
        self._counted = ordinals

    def forget(self, source: "ordinal_kernels.OrdinalMap", ordinals: OrdinalSet) -> None:
        """Count these ordinals no more, if they were: their records are about to leave the map."""
        self._count(source, self._counted.intersection(ordinals), -1)
        self._counted = self._counted.difference(ordinals)

    def clear(self) -> None:
        """Count nothing."""
        self._counted = EMPTY
        self._totals = np.zeros(1, np.int64)
        self._counts = self._no_counts()

    @property
    def counts(self) -> "list[Counts]":
        """What was counted, without the totals by shard: statistics of parts of a type add up."""
        return self._counts

    @property
    def total(self) -> int:
        """Elements or buckets of all shards; 0 for an OBJECT type."""
        return int(self._totals.sum())

    def absorb(self, counts: "list[Counts]") -> None:
        """Add what was counted of another part of the type."""
        for mine, theirs in zip(self._counts, counts, strict=True):
            mine += theirs

    def layout_of(self, totals: Counts) -> Layout:
        """Widths and totals, where the totals of all shards were counted elsewhere."""
        return self._layout(totals)

    def layout(self, source: "ordinal_kernels.OrdinalMap", shards: int) -> Layout:
        """Widths and totals for this number of shards, which totals are kept for from now on."""
        self._totals = self._totals_for(source, shards)
        return self._layout(self._totals)

    def unsharded_layout(self) -> Layout:
        """Widths and totals as if there were one shard."""
        return self._layout(self._totals.sum(keepdims=True))

    def _totals_for(self, source: "ordinal_kernels.OrdinalMap", shards: int) -> Counts:
        if shards <= len(self._totals):
            # Shard numbers are the low bits of ordinals: fewer shards join those that agree in the bits that remain.
            joined: Counts = self._totals.reshape(-1, shards).sum(axis=0)
            return joined
        totals = np.zeros(shards, np.int64)
        self._scan(source, self._counted.ordinals().astype(np.int32), 1, self._no_counts(), totals)
        return totals

    def _count(self, source: "ordinal_kernels.OrdinalMap", ordinals: OrdinalSet, sign: int) -> None:
        if ordinals:
            self._scan(source, ordinals.ordinals().astype(np.int32), sign, self._counts, self._totals)

    @abstractmethod
    def _no_counts(self) -> list[Counts]: ...

    @abstractmethod
    def _scan(
        self,
        source: "ordinal_kernels.OrdinalMap",
        ordinals: NDArray[np.int32],
        sign: int,
        counts: list[Counts],
        totals: Counts,
    ) -> None: ...

    @abstractmethod
    def _layout(self, totals: Counts) -> Layout: ...


class ObjectStatistics(TypeStatistics):
    """Widths of fixed fields, bytes of variable ones; both are the same for any number of shards."""

    def __init__(self, schema: ObjectSchema) -> None:
        self._kinds = field_kinds(schema)
        self._variable = [field.type.is_variable for field in schema.fields]
        super().__init__()

    def _no_counts(self) -> list[Counts]:
        return [np.zeros((len(self._kinds), _BIT_LENGTHS), np.int64), np.zeros(len(self._kinds), np.int64)]

    def _totals_for(self, source: "ordinal_kernels.OrdinalMap", shards: int) -> Counts:
        return self._totals

    def _scan(
        self,
        source: "ordinal_kernels.OrdinalMap",
        ordinals: NDArray[np.int32],
        sign: int,
        counts: list[Counts],
        totals: Counts,
    ) -> None:
        records.object_statistics(source.arena, source.starts, ordinals, self._kinds, sign, counts[0], counts[1])

    def _layout(self, totals: Counts) -> ObjectLayout:
        widths, sizes = self._counts
        variable_bytes = tuple(sizes.tolist())
        return ObjectLayout(
            tuple(
                1 + (total + 1).bit_length() if variable else _largest(counts)
                for variable, total, counts in zip(self._variable, variable_bytes, widths, strict=True)
            ),
            variable_bytes,
        )


class ListStatistics(TypeStatistics):
    """Widths of elements, elements per shard."""

    def _no_counts(self) -> list[Counts]:
        return [np.zeros(_BIT_LENGTHS, np.int64)]

    def _scan(
        self,
        source: "ordinal_kernels.OrdinalMap",
        ordinals: NDArray[np.int32],
        sign: int,
        counts: list[Counts],
        totals: Counts,
    ) -> None:
        records.list_statistics(source.arena, source.starts, ordinals, sign, counts[0], totals)

    def _layout(self, totals: Counts) -> ListLayout:
        pointer = max(int(totals.max()).bit_length(), 1)
        return ListLayout(pointer, max(_largest(self._counts[0]), 1), tuple(totals.tolist()))


class SetStatistics(TypeStatistics):
    """Widths of elements and sizes, buckets per shard."""

    def _no_counts(self) -> list[Counts]:
        return [np.zeros(_BIT_LENGTHS, np.int64) for _ in range(2)]

    def _scan(
        self,
        source: "ordinal_kernels.OrdinalMap",
        ordinals: NDArray[np.int32],
        sign: int,
        counts: list[Counts],
        totals: Counts,
    ) -> None:
        records.set_statistics(source.arena, source.starts, ordinals, sign, counts[0], counts[1], totals)

    def _layout(self, totals: Counts) -> SetLayout:
        elements, sizes = map(_largest, self._counts)
        return SetLayout(int(totals.max()).bit_length(), sizes, max(elements, 1), tuple(totals.tolist()))


class MapStatistics(TypeStatistics):
    """Widths of keys, values and sizes, buckets per shard."""

    def _no_counts(self) -> list[Counts]:
        return [np.zeros(_BIT_LENGTHS, np.int64) for _ in range(3)]

    def _scan(
        self,
        source: "ordinal_kernels.OrdinalMap",
        ordinals: NDArray[np.int32],
        sign: int,
        counts: list[Counts],
        totals: Counts,
    ) -> None:
        keys, values, sizes = counts
        records.map_statistics(source.arena, source.starts, ordinals, sign, keys, values, sizes, totals)

    def _layout(self, totals: Counts) -> MapLayout:
        keys, values, sizes = map(_largest, self._counts)
        pointer = int(totals.max()).bit_length()
        return MapLayout(pointer, sizes, max(keys, 1), max(values, 1), tuple(totals.tolist()))


def statistics_for(schema: Schema) -> TypeStatistics:
    """Empty statistics for records of this type."""
    match schema:
        case ObjectSchema():
            return ObjectStatistics(schema)
        case ListSchema():
            return ListStatistics()
        case SetSchema():
            return SetStatistics()
        case MapSchema():
            return MapStatistics()


def _largest(counts: Counts) -> int:
    used = np.flatnonzero(counts)
    return int(used[-1]) if len(used) else 0
