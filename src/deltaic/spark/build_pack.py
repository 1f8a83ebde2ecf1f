"""Pack: the shards of a type, written by the kernels of the embedded producer, as pieces of blobs.

A task has the records of a group of shards: those whose ordinals agree in their low bits. Inside the group it counts
ordinals without these bits, so that its memory follows the group and not the type.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.schema.types import Schema
from deltaic.spark.build_hash_keys import KeySource, group_hashes
from deltaic.spark.build_numbers import CodeReader, FreeOrdinals, Ordinals
from deltaic.spark.build_runs import Records, joined
from deltaic.spark.build_scratch import Part, Scratch
from deltaic.state.bitset import OrdinalSet
from deltaic.state.write_statistics import field_kinds
from deltaic.wire.write_layout import Layout, shard_max_ordinals
from deltaic.wire.write_sections import SectionContent, write_ordinal_lists, write_populated, write_shard_body
from deltaic.wire.write_shards import GivenSlots, PopulatedSlots, RecordSource
from deltaic.wire.write_stream import Output

_FIRST_START = 4
_SLACK = 16
_SEGMENT_ORDINALS = 1 << 14
_SEGMENT_WORDS = 1 << 8


class RangeRecords(msgspec.Struct, frozen=True, array_like=True):
    """Records of a range of a type, or of one group of it: those of this version first, then those that leave."""

    live: int
    data: Part
    ends: Part
    codes: Part
    offset: int
    """New records in the ranges before."""
    new_from: int = -1
    """If not below 0, codes are ordinals already, and new are the live records from here."""

    def read(self, scratch: Scratch, reader: CodeReader) -> "NumberedRecords":
        """Read all of it."""
        found = Records(scratch.read(self.data), scratch.read(self.ends))
        ordinals, new = self.read_ordinals(scratch, reader)
        return NumberedRecords(found, ordinals, new, self.live)

    def read_ordinals(self, scratch: Scratch, reader: CodeReader) -> tuple[Ordinals, NDArray[np.bool_]]:
        """The ordinals, and which records are new."""
        codes = scratch.read(self.codes)
        if self.new_from < 0:
            return reader.ordinals(codes, self.offset), codes < 0
        rows = np.arange(len(codes))
        return codes, (rows >= self.new_from) & (rows < self.live)


@dataclass(frozen=True, slots=True, eq=False)
class NumberedRecords:
    """Records with their ordinals, in memory."""

    found: Records
    ordinals: Ordinals
    new: NDArray[np.bool_]
    live: int


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """What a task packed."""

    key: str
    snapshot: list[tuple[int, int, int]]
    """Shard, start and length in the file."""
    delta: list[tuple[int, int, int]]
    reverse: list[tuple[int, int, int]]
    tail: tuple[int, int]
    """The populated bits that end the section of the snapshot; only the first group has them."""
    populated: Part | None


@dataclass(frozen=True)
class TypeLayout:
    """How a type is written in this version."""

    schema: Schema
    free: FreeOrdinals
    max_ordinal: int
    shards: int
    layout: Layout
    previous_shards: int
    previous_layout: Layout
    groups: int
    """Into how many tasks its shards are split: a power of two that divides both numbers of shards."""

    @property
    def populated_words(self) -> int:
        """Words of the populated bits, which Java grows by segments (hollow-blob.md, section 10)."""
        return _SEGMENT_WORDS * (1 + max(self.max_ordinal, 0) // _SEGMENT_ORDINALS)


@dataclass(frozen=True)
class Pack:
    """Pack one group of the shards of a type."""

    Result: ClassVar[type] = Packed

    of: TypeLayout
    group: int
    ranges: tuple[RangeRecords, ...]
    all_ranges: tuple[RangeRecords, ...]
    """Those of all groups, for the populated bits, which the first group writes."""
    key_sources: tuple[KeySource, ...]
    snapshot: bool
    deltas: bool
    scratch: Scratch

    @property
    def weight(self) -> int:
        """Bytes to read."""
        return sum(part.data.count + 12 * part.codes.count for part in self.ranges)

    def run(self) -> Packed:
        """Do it."""
        collected = _Collected()
        output = Output(collected)
        group = _Group(self)
        snapshot = list(group.snapshot(output)) if self.snapshot else []
        delta = list(group.delta(output, reverse=False)) if self.deltas else []
        reverse = list(group.delta(output, reverse=True)) if self.deltas else []
        start, bits = output.written, None
        if self.group == 0:
            populated = self._populated(group)
            (bits,) = self.scratch.write(populated.words)
            if self.snapshot:
                write_populated(output, populated.words, self.of.populated_words)
        tail = (start, output.written - start)
        output.flush()
        return Packed(self.scratch.write_bytes(collected.pieces), snapshot, delta, reverse, tail, bits)

    def _populated(self, group: "_Group") -> OrdinalSet:
        if self.of.groups == 1:
            return group.live
        reader = CodeReader(self.scratch, self.of.free)
        found = [each.read_ordinals(self.scratch, reader)[0][: each.live] for each in self.all_ranges]
        return OrdinalSet.from_ordinals(np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64))


class _Group:
    """The records of a group, by their ordinals inside it."""

    def __init__(self, pack: Pack) -> None:
        self._of, self._number = pack.of, pack.group
        self._shift = pack.of.groups.bit_length() - 1
        reader = CodeReader(pack.scratch, pack.of.free)
        parts = [each.read(pack.scratch, reader) for each in pack.ranges]
        whole = joined([part.found for part in parts])
        ordinals = np.concatenate([np.zeros(0, np.int32), *(part.ordinals for part in parts)]) >> self._shift
        live = np.concatenate([np.zeros(0, np.bool_), *(np.arange(len(part.new)) < part.live for part in parts)])
        new = np.concatenate([np.zeros(0, np.bool_), *(part.new for part in parts)])
        self.live = OrdinalSet.from_ordinals(ordinals[live].astype(np.int64))
        self._new = np.sort(ordinals[new]).astype(np.int64)
        self._leaving = np.sort(ordinals[~live]).astype(np.int64)
        starts = np.zeros(int(ordinals.max(initial=-1)) + 1, np.int64)
        starts[ordinals] = whole.starts + _FIRST_START
        arena = np.zeros(len(whole.data) + _FIRST_START + _SLACK, np.uint8)
        arena[_FIRST_START : _FIRST_START + len(whole.data)] = whole.data
        kinds = field_kinds(pack.of.schema)
        hashes = group_hashes(pack.of.schema, pack.key_sources, arena, starts, ordinals, pack.scratch)
        self._source = RecordSource(arena, starts, kinds, hashes)

    def snapshot(self, output: Output) -> Iterable[tuple[int, int, int]]:
        """Write the bodies of all shards of the group."""
        of = self._of
        content = SectionContent(of.schema, self._source, of.layout, of.shards, of.max_ordinal)
        inside = of.shards // of.groups
        lasts = shard_max_ordinals(of.max_ordinal, of.shards)
        for number in range(inside):
            shard, start = self._number + number * of.groups, output.written
            output.varint(lasts[shard])
            slots = PopulatedSlots(self.live.words, number, inside, lasts[shard] + 1)
            write_shard_body(output, content, shard, slots, padded=True)
            yield shard, start, output.written - start

    def delta(self, output: Output, *, reverse: bool) -> Iterable[tuple[int, int, int]]:
        """Write lists and bodies of all shards of the group, forwards or back."""
        of = self._of
        added, removed = (self._leaving, self._new) if reverse else (self._new, self._leaving)
        shards, layout = (of.previous_shards, of.previous_layout) if reverse else (of.shards, of.layout)
        content = SectionContent(of.schema, self._source, layout, shards, of.max_ordinal)
        inside = shards // of.groups
        mask, shift = inside - 1, inside.bit_length() - 1
        lasts = shard_max_ordinals(of.max_ordinal, shards)
        for number in range(inside):
            shard, start = self._number + number * of.groups, output.written
            output.varint(lasts[shard])
            here, gone = added[added & mask == number], removed[removed & mask == number]
            write_ordinal_lists(output, gone >> shift, here >> shift)
            write_shard_body(output, content, shard, GivenSlots(here.astype(np.int32)), padded=False)
            yield shard, start, output.written - start


class _Collected:
    """A stream that keeps what it is given."""

    def __init__(self) -> None:
        self.pieces: list[memoryview] = []

    def write(self, data: memoryview, /) -> int:
        """Keep a piece."""
        self.pieces.append(data)
        return len(data)
