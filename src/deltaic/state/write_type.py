"""The write side of one type: its records, their ordinals, how they will be laid out and sharded."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import MapSchema, Schema, SetSchema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.ordinals import TypeOrdinals
from deltaic.state.restore import RestoredType
from deltaic.state.type_data import TypeData
from deltaic.state.write_columns import Batch
from deltaic.state.write_hash_keys import NO_HASHES, hash_key_of, key_hashes
from deltaic.state.write_statistics import field_kinds, statistics_for
from deltaic.wire.write_layout import Layout
from deltaic.wire.write_sections import SectionContent
from deltaic.wire.write_shards import RecordSource

log = logging.getLogger("deltaic.state")

_MANY_ORDINALS = 1 << 28
_PIECE_ROWS = 1 << 15
_SEGMENT_ORDINALS = 1 << 14
_SEGMENT_WORDS = 1 << 8


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a write state numbers and lays out records from this cycle on; see `WriteState`."""

    focus_holes: bool = False
    target_shard_bytes: int | None = None
    allow_resharding: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PreparedType:
    """A type as it will be written in this cycle."""

    populated: OrdinalSet
    previous: OrdinalSet
    max_ordinal: int
    shards: int
    layout: Layout
    previous_shards: int
    previous_layout: Layout
    """What the reverse delta uses: that of the shard count before resharding."""
    populated_words: int

    @property
    def changed(self) -> bool:
        """True if the type belongs into a delta."""
        return self.shards != self.previous_shards or self.populated != self.previous


class TypeWriter:
    """All that a write state knows of one type."""

    def __init__(
        self, schema: Schema, schemas: SchemaSet, pinned_shards: int | None, *, canonical: bool, partitioned: bool
    ) -> None:
        if pinned_shards is not None and (pinned_shards < 1 or pinned_shards & (pinned_shards - 1)):
            raise InputError(f"type {schema.name}: {pinned_shards} shards; the number must be a power of two", "Shards")
        self.schema = schema
        self.kinds = field_kinds(schema)
        self.ordinals = TypeOrdinals(schema.name, partitioned=partitioned, canonical=canonical)
        self.prepared: PreparedType | None = None
        self.shards = pinned_shards
        """The number of shards; None until the first write decides it."""
        self._shards_at_start = pinned_shards
        self._statistics = statistics_for(schema)
        self._hash_key = hash_key_of(schema, schemas) if isinstance(schema, SetSchema | MapSchema) else None
        self._restored: RestoredType | None = None
        self._put_back = False
        self._high_water = -1
        self._added = False

    def add(self, record: bytes) -> int:
        """The ordinal of one serialized record."""
        if self._restored is None and not self.ordinals.canonical:
            return self.ordinals.add(record)
        return int(self.add_many(np.frombuffer(record, np.uint8), np.array([len(record)], np.int64))[0])

    def add_many(
        self, data: NDArray[np.uint8], ends: NDArray[np.int64], order: NDArray[np.int64] | None = None
    ) -> NDArray[np.int32]:
        """The ordinals of many serialized records, which must be well formed.

        `order` names the rows to add and in which order; all of them, first to last, if None.
        """
        if self.ordinals.canonical:
            if self._added:
                raise InputError(
                    f"type {self.schema.name}: in canonical order all its records of a cycle are added by one call",
                    "CanonicalOrder",
                )
            self._added = True
        preferred = None if self._restored is None else self._restored.preferred(data, ends)
        return self.ordinals.assign(data, ends, order=order, preferred=preferred)

    def add_batch(self, batch: Batch) -> NDArray[np.int32]:
        """The ordinals of the records of a batch."""
        if self.ordinals.canonical or batch.rows <= _PIECE_ROWS:
            return self.add_many(*batch.whole())
        ordinals = np.empty(batch.rows, np.int32)
        for start in range(0, batch.rows, _PIECE_ROWS):
            stop = min(start + _PIECE_ROWS, batch.rows)
            ordinals[start:stop] = self.add_many(*batch.piece(start, stop))
        return ordinals

    def restorable(self, data: TypeData, *, exact: bool | None) -> RestoredType:
        """The records of a read state, if the type can go on from them; `exact` None: only in canonical order."""
        if self.shards is not None and self.shards != len(data.shards):
            raise InputError(
                f"type {self.schema.name} is fixed to {self.shards} shards, the restored state has {len(data.shards)}",
                "Shards",
            )
        return RestoredType(self.schema, data, exact=self.ordinals.canonical if exact is None else exact)

    def restore(self, restored: RestoredType) -> None:
        """Go on from these records."""
        self.shards = self._shards_at_start = restored.shards
        self._begin_restored(restored)

    def prepare(self, options: WriteOptions) -> tuple[int, int] | None:
        """Fix how the type will be written; gives the shard counts before and after if they differ."""
        if self._restored is not None and not self._put_back:
            unclaimed = OrdinalSet(self.ordinals.map.unclaimed)
            data, ends = self._restored.serialized(unclaimed)
            self.ordinals.map.put(data, ends, unclaimed.ordinals().astype(np.int32))
            self._put_back = True
        populated, previous = self.ordinals.populated, self.ordinals.previous
        source, max_ordinal = self.ordinals.map, self.ordinals.max_ordinal
        self._statistics.update(source, populated.union(previous))
        before = self.shards
        shards = self._wanted_shards(max_ordinal, options)
        before = before or shards
        # Fewer shards after more: totals for the larger count give those of the smaller one without another scan.
        layouts = {count: self._statistics.layout(source, count) for count in sorted({before, shards}, reverse=True)}
        self.shards = shards
        if max_ordinal >= _MANY_ORDINALS * self.ordinals.partitions:
            log.warning("type %s: ordinal %d, half of what one map can number", self.schema.name, max_ordinal)
        self._high_water = max_ordinal if self.ordinals.canonical else max(self._high_water, max_ordinal)
        self.prepared = PreparedType(
            populated,
            previous,
            max_ordinal,
            shards,
            layouts[shards],
            before,
            layouts[before],
            _SEGMENT_WORDS * (1 + max(self._high_water, 0) // _SEGMENT_ORDINALS),
        )
        return (before, shards) if before != shards else None

    def next_cycle(self, options: WriteOptions) -> None:
        """Start the next cycle."""
        self.ordinals.next_cycle(self.shards or 1, focus_holes=options.focus_holes, dropped=self._forget)
        self._restored = None
        self._shards_at_start = self.shards
        self.prepared = None
        self._added = False

    def reset(self, options: WriteOptions) -> None:
        """Go back to the start of this cycle."""
        self.shards = self._shards_at_start
        self.prepared = None
        self._added = False
        if self._restored is not None:
            self._begin_restored(self._restored)
            return
        self.ordinals.reset(self.shards or 1, focus_holes=options.focus_holes, dropped=self._forget)

    def section(self, types: Mapping[str, "TypeWriter"], ordinals: OrdinalSet, *, reverse: bool) -> SectionContent:
        """What the type's section is written from; `ordinals` are the records that will be in it."""
        prepared = self.prepared
        assert prepared is not None
        hashes = NO_HASHES
        if self._hash_key is not None:
            hashes = key_hashes(self._hash_key, ordinals.ordinals().astype(np.int32), types)
        source = RecordSource(self.ordinals.map.arena, self.ordinals.map.starts, self.kinds, hashes)
        if reverse:
            return SectionContent(
                self.schema, source, prepared.previous_layout, prepared.previous_shards, prepared.max_ordinal
            )
        return SectionContent(self.schema, source, prepared.layout, prepared.shards, prepared.max_ordinal)

    def _begin_restored(self, restored: RestoredType) -> None:
        self._restored, self._put_back = restored, False
        self._statistics.clear()
        self.ordinals.restore(restored.populated)

    def _forget(self, leaving: OrdinalSet) -> None:
        self._statistics.forget(self.ordinals.map, leaving)

    def _wanted_shards(self, max_ordinal: int, options: WriteOptions) -> int:
        return next_shard_count(
            self.shards, lambda: self._statistics.unsharded_layout().projected_bytes(max_ordinal), options
        )


def next_shard_count(current: int | None, projected_bytes: Callable[[], int], options: WriteOptions) -> int:
    """The number of shards of a type in this cycle: decided once, or one step towards what its size asks for."""
    if current is not None and not options.allow_resharding:
        return current
    wanted = 1
    if options.target_shard_bytes is not None:
        projected = projected_bytes()
        while options.target_shard_bytes * wanted < projected:
            wanted *= 2
    if current is None or wanted == current:
        return wanted
    return current * 2 if wanted > current else current // 2
