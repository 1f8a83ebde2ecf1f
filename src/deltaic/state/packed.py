"""Packed records of any kind, seen alike: fixed-width records, some of whose fields end a run in a side array.

The four kinds of type differ only in which fields a record has: an OBJECT has its schema's fields, of which STRING
and BYTES are ends into byte data; a LIST has one end into its elements; a SET and a MAP have an end into buckets and
a size. Deltas, resharding and field filters work on this view, once for all kinds.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from deltaic.binary import buffers
from deltaic.kernels import bits
from deltaic.schema.types import ObjectSchema, Schema
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard, Shard

Bytes = NDArray[np.uint8]
Values = NDArray[np.uint64]

FLOAT_NULLS = (0x7FC0_0001, 0xFFFF_FFFF)
"""Bits of a FLOAT that say null: what writers write, and what a reader puts where a delta lacks the field."""

DOUBLE_NULLS = (0x7FF8_0000_0000_0001, 0xFFFF_FFFF_FFFF_FFFF)
"""Bits of a DOUBLE that say null. A real NaN is canonical and is neither."""


class Null(Enum):
    """How a field of a record says null."""

    NEVER = "never"
    ONES = "all bits set"
    TOP_BIT = "the top bit of an end"


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """An array of runs: bytes of texts, elements of lists, buckets. An element has `parts`, widths from low to high
    bits.
    """

    data: Bytes
    parts: tuple[int, ...]
    nulls: tuple[Null, ...]
    exact: bool = False
    """True for bytes of texts, whose array is as long as they are; others have slack behind."""

    @property
    def unit_bits(self) -> int:
        """Bits of one element."""
        return sum(self.parts)


@dataclass(frozen=True, slots=True, eq=False)
class PackedField:
    """One field of packed records. With a `side` it is an end: the index behind the record's last element there."""

    name: str
    offset: int
    width: int
    null: Null
    side: Side | None = None

    @property
    def value_bits(self) -> int:
        """Bits of the value, without the null bit of an end."""
        return self.width - 1 if self.null is Null.TOP_BIT else self.width


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """`slots` records of `stride` bits."""

    slots: int
    records: Bytes
    stride: int
    fields: tuple[PackedField, ...]

    def column(self, field: PackedField, count: int | None = None) -> Values:
        """The raw bits of a field in the first `count` records."""
        return bits.decode(self.records, field.offset, self.stride, field.width, self.slots if count is None else count)

    def ends(self, field: PackedField, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ends of these records; record -1 ends at 0, and records past the last end where that one does."""
        if not self.slots:
            return np.zeros(len(ordinals), np.int64)
        inside = np.clip(ordinals, 0, self.slots - 1)
        found = bits.gather(self.records, self.stride, field.offset, field.value_bits, inside).view(np.int64)
        found[ordinals < 0] = 0
        return found

    def total(self, field: PackedField) -> int:
        """The end of the last record."""
        return int(self.ends(field, np.array([self.slots - 1]))[0])


def packed(shard: Shard, schema: Schema) -> Packed:
    """See a shard as packed records."""
    slots = shard.max_ordinal + 1
    match shard:
        case ObjectShard():
            assert isinstance(schema, ObjectSchema)
            fields = []
            for field, offset, width, data in zip(
                schema.fields, shard.offsets, shard.widths, shard.variable, strict=True
            ):
                if data is None:
                    fields.append(PackedField(field.name, offset, width, Null.ONES))
                else:
                    side = Side(data, (8,), (Null.NEVER,), exact=True)
                    fields.append(PackedField(field.name, offset, width, Null.TOP_BIT, side))
            return Packed(slots, shard.records, shard.bits_per_record, tuple(fields))
        case ListShard():
            side = Side(shard.elements, (shard.bits_per_element,), (Null.NEVER,))
            end = PackedField("end", 0, shard.bits_per_pointer, Null.NEVER, side)
            return Packed(slots, shard.pointers, shard.bits_per_pointer, (end,))
        case SetShard():
            side = Side(shard.buckets, (shard.bits_per_element,), (Null.ONES,))
        case MapShard():
            side = Side(shard.buckets, (shard.bits_per_key, shard.bits_per_value), (Null.ONES, Null.NEVER))
    end = PackedField("end", 0, shard.bits_per_pointer, Null.NEVER, side)
    size = PackedField("size", shard.bits_per_pointer, shard.bits_per_size, Null.NEVER)
    return Packed(slots, shard.pointers, shard.bits_per_pointer + shard.bits_per_size, (end, size))


def unpacked(records: Packed, like: Shard) -> Shard:
    """The shard of the same kind as `like` that holds these records."""
    last = records.slots - 1
    if isinstance(like, ObjectShard):
        return ObjectShard(
            last,
            records.records,
            tuple(field.width for field in records.fields),
            tuple(field.offset for field in records.fields),
            records.stride,
            tuple(field.side.data if field.side is not None else None for field in records.fields),
        )
    end = records.fields[0]
    assert end.side is not None
    total = records.total(end)
    match like:
        case ListShard():
            return ListShard(last, records.records, end.width, end.side.data, end.side.parts[0], total)
        case SetShard():
            size = records.fields[1]
            return SetShard(last, records.records, end.width, size.width, end.side.data, end.side.parts[0], total)
        case MapShard():
            size = records.fields[1]
            key, value = end.side.parts
            return MapShard(last, records.records, end.width, size.width, end.side.data, key, value, total)


def side_buffer(side: Side, total: int) -> Bytes:
    """Memory for `total` elements of a side."""
    if side.exact:
        return buffers.empty(total)[:total]
    used = (total * side.unit_bits + 7) >> 3
    data = buffers.empty(used)
    # Runs fill every bit but those behind the last one.
    data[max(used - 1, 0) :] = 0
    return data


def convert(values: Values, field: PackedField, width: int) -> Values:
    """Bits of a fixed field as they stand in the same field with another width."""
    if field.width == width or field.null is not Null.ONES:
        return values
    return np.where(values == np.uint64((1 << field.width) - 1), np.uint64((1 << width) - 1), values)


def widened(side: Side, parts: tuple[int, ...], total: int) -> Side:
    """The first `total` elements of a side with other widths."""
    if side.parts == parts:
        return side
    wide = Side(buffers.zeros((total * sum(parts) + 7) >> 3), parts, side.nulls)
    source = target = 0
    for null, old_width, new_width in zip(side.nulls, side.parts, parts, strict=True):
        values = bits.decode(side.data, source, side.unit_bits, old_width, total)
        if null is Null.ONES and old_width != new_width:
            values = np.where(values == np.uint64((1 << old_width) - 1), np.uint64((1 << new_width) - 1), values)
        bits.store(wide.data, target, wide.unit_bits, new_width, values)
        source, target = source + old_width, target + new_width
    return wide
