"""Records of a type dealt out to another number of shards (hollow-blob.md, "resharding")."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from deltaic.binary import buffers
from deltaic.kernels import apply as kernel
from deltaic.kernels import bits
from deltaic.state.packed import Null, Packed, PackedField, convert, packed, side_buffer, unpacked, widened
from deltaic.state.type_data import TypeData
from deltaic.wire.shards import Shard

Ordinals = NDArray[np.int64]


def regrouped(data: TypeData, count: int) -> tuple[Shard, ...]:
    """The shards of a type when it has `count` of them. Both counts are powers of two."""
    sources = [packed(shard, data.schema) for shard in data.shards]
    largest = max(
        (((source.slots - 1) << data.shard_shift) | number for number, source in enumerate(sources) if source.slots),
        default=-1,
    )
    slots = [len(range(number, largest + 1, count)) for number in range(count)]
    return tuple(unpacked(_gathered(sources, number, count, slots[number]), data.shards[0]) for number in range(count))


def _gathered(sources: list[Packed], number: int, count: int, slots: int) -> Packed:
    """Shard `number` of `count`, its records taken from the old shards."""
    ordinals = np.arange(slots, dtype=np.int64) * count + number
    origin = ordinals & (len(sources) - 1)
    place = ordinals >> (len(sources).bit_length() - 1)
    # Where each old shard's records go; a record past an old shard's last slot is a hole.
    rows = [np.flatnonzero((origin == index) & (place < source.slots)) for index, source in enumerate(sources)]
    fields: list[PackedField] = []
    columns = []
    offset = 0
    for position, like in enumerate(sources[0].fields):
        theirs = [source.fields[position] for source in sources]
        if like.side is None:
            width = max(field.width for field in theirs)
            values = np.zeros(slots, np.uint64)
            for source, field, target in zip(sources, theirs, rows, strict=True):
                found = bits.gather(source.records, source.stride, field.offset, field.width, place[target])
                values[target] = convert(found, field, width)
            fields.append(PackedField(like.name, offset, width, like.null))
        else:
            field_out, values = _gathered_side(sources, theirs, rows, place, slots, offset)
            fields.append(field_out)
            width = field_out.width
        columns.append(values)
        offset += width
    records = buffers.zeros((slots * offset + 7) >> 3)
    for field, values in zip(fields, columns, strict=True):
        bits.store(records, field.offset, offset, field.width, values)
    return Packed(slots, records, offset, tuple(fields))


def _gathered_side(
    sources: list[Packed],
    theirs: list[PackedField],
    rows: list[Ordinals],
    place: Ordinals,
    slots: int,
    offset: int,
) -> tuple[PackedField, NDArray[np.uint64]]:
    sides = [field.side for field in theirs if field.side is not None]
    parts = tuple(max(widths) for widths in zip(*(side.parts for side in sides), strict=True))
    lengths = np.zeros(slots, np.int64)
    nulls = np.zeros(slots, np.uint64)
    starts = []
    for source, field, target in zip(sources, theirs, rows, strict=True):
        begin = source.ends(field, place[target] - 1)
        starts.append(begin)
        lengths[target] = source.ends(field, place[target]) - begin
        if field.null is Null.TOP_BIT:
            nulls[target] = bits.gather(source.records, source.stride, field.offset + field.width - 1, 1, place[target])
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if slots else 0
    first = theirs[0]
    width = max(max(field.width for field in theirs), total.bit_length() + (first.null is Null.TOP_BIT))
    wide = [
        widened(side, parts, source.total(field)) for source, field, side in zip(sources, theirs, sides, strict=True)
    ]
    data = side_buffer(wide[0], total)
    for side, begin, target in zip(wide, starts, rows, strict=True):
        kernel.copy_runs(data, side.data, side.unit_bits, (ends - lengths)[target], begin, lengths[target])
    values = ends.astype(np.uint64)
    if first.null is Null.TOP_BIT:
        values |= nulls << np.uint64(width - 1)
    return PackedField(first.name, offset, width, first.null, replace(wide[0], data=data)), values
