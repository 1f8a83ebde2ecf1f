"""Shard bodies, written from serialized records (hollow-blob.md, sections 6 to 9).

Bodies go out in pieces of at most `CHUNK` records, so that memory does not grow with the type. The byte data of STRING
and BYTES fields stand behind the records; up to `HELD_BYTES` of them are kept aside while records are packed, more are
fetched in a second pass, in pieces of about `PIECE_BYTES`. A chunk is a multiple of 64 records, so that its packed bits
end on a word.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import records
from deltaic.wire.write_layout import ListLayout, MapLayout, ObjectLayout, SetLayout
from deltaic.wire.write_stream import Output

CHUNK = 1 << 16
"""Records that are packed at once."""

HELD_BYTES = 64 << 20
"""Byte data of a type that are kept aside instead of being fetched in a second pass, which takes longer."""

PIECE_BYTES = 4 << 20
"""Byte data that are fetched at once; a single value may be larger."""


class Slots(Protocol):
    """The records of a shard in order: ordinals, -1 for holes, given in chunks."""

    def __len__(self) -> int: ...

    def chunks(self) -> Iterator[NDArray[np.int32]]:
        """The slots, `CHUNK` at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class PopulatedSlots:
    """All slots of a shard of a snapshot: ordinals first, first + stride, ...; the populated ones have records."""

    populated: NDArray[np.uint64]
    first: int
    stride: int
    count: int

    def __len__(self) -> int:
        return self.count

    def chunks(self) -> Iterator[NDArray[np.int32]]:
        """The slots, `CHUNK` at a time."""
        for start in range(0, self.count, CHUNK):
            first = self.first + start * self.stride
            yield records.populated_slots(self.populated, first, self.stride, min(CHUNK, self.count - start))


@dataclass(frozen=True, slots=True, eq=False)
class GivenSlots:
    """The added records of a shard of a delta."""

    ordinals: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.ordinals)

    def chunks(self) -> Iterator[NDArray[np.int32]]:
        """The slots, `CHUNK` at a time."""
        return (self.ordinals[start : start + CHUNK] for start in range(0, len(self.ordinals), CHUNK))


@dataclass(frozen=True, slots=True, eq=False)
class RecordSource:
    """The serialized records of a type: the record of ordinal o starts at `arena[starts[o]]`.

    `kinds` numbers the field types of an OBJECT; `key_hashes` holds, by element or key ordinal, the hash of a SET's or
    MAP's hash key, and is empty where there is none.
    """

    arena: NDArray[np.uint8]
    starts: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    key_hashes: NDArray[np.int32]


def write_object_body(output: Output, source: RecordSource, slots: Slots, layout: ObjectLayout) -> None:
    """Write widths, fixed-length records and byte data of an OBJECT shard."""
    for width in layout.widths:
        output.varint(width)
    output.varlong(_words(len(slots) * layout.bits_per_record))
    widths = np.array(layout.widths, np.int32)
    used = np.zeros(len(widths), np.int64)
    held = sum(layout.variable_bytes) <= HELD_BYTES
    variable = [np.empty(total if held else 0, np.uint8) for total in layout.variable_bytes]
    for chunk in slots.chunks():
        packed = np.empty(8 * _words(len(chunk) * layout.bits_per_record), np.uint8)
        records.pack_objects(source.arena, source.starts, chunk, source.kinds, widths, packed, variable, used)
        output.array(packed)
    for field, length in enumerate(used.tolist()):
        output.varlong(length)
        if held:
            output.array(variable[field][:length])
        elif length:
            _write_byte_data(output, source, slots, field)


def _write_byte_data(output: Output, source: RecordSource, slots: Slots, field: int) -> None:
    for chunk in slots.chunks():
        starts, ends = records.field_ranges(source.arena, source.starts, chunk, source.kinds, field)
        pieces = np.cumsum(ends - starts) // PIECE_BYTES
        cuts = [0, *(np.flatnonzero(np.diff(pieces)) + 1).tolist(), len(chunk)]
        for first, last in pairwise(cuts):
            output.array(records.gather_ranges(source.arena, starts[first:last], ends[first:last])[1])


def write_list_body(
    output: Output, source: RecordSource, slots: Slots, layout: ListLayout, total: int, *, padded: bool
) -> None:
    """Write widths, pointers and elements of a LIST shard; `padded` (snapshots) fills the elements up to `total`."""
    width = layout.bits_per_element
    output.varint(layout.bits_per_pointer)
    output.varint(width)
    output.varlong(total)
    output.varint(_words(len(slots) * layout.bits_per_pointer))
    ends = [0]
    for chunk in slots.chunks():
        packed = np.empty(8 * _words(len(chunk) * layout.bits_per_pointer), np.uint8)
        end = records.pack_list_pointers(source.arena, source.starts, chunk, layout.bits_per_pointer, ends[-1], packed)
        ends.append(end)
        output.array(packed)
    side = _Side(output, width, ends, total if padded else ends[-1])
    for chunk, packed in zip(slots.chunks(), side.buffers(), strict=True):
        side.put(packed, records.pack_list_elements(source.arena, source.starts, chunk, width, side.carry, packed))
    side.finish()


def write_set_body(
    output: Output, source: RecordSource, slots: Slots, layout: SetLayout, total: int, *, padded: bool
) -> None:
    """Write widths, pointers with sizes and buckets of a SET shard; `padded` (snapshots) fills up to `total`."""
    width = layout.bits_per_element
    output.varint(layout.bits_per_pointer)
    output.varint(layout.bits_per_size)
    output.varint(width)
    output.varlong(total)
    ends = _write_table_pointers(output, source, slots, layout)
    side = _Side(output, width, ends, total if padded else ends[-1])
    for chunk, packed in zip(slots.chunks(), side.buffers(), strict=True):
        used = records.pack_set_buckets(
            source.arena, source.starts, chunk, width, source.key_hashes, side.carry, packed
        )
        side.put(packed, used)
    side.finish()


def write_map_body(
    output: Output, source: RecordSource, slots: Slots, layout: MapLayout, total: int, *, padded: bool
) -> None:
    """Write widths, pointers with sizes and buckets of a MAP shard; `padded` (snapshots) fills up to `total`."""
    key_width, value_width = layout.bits_per_key, layout.bits_per_value
    output.varint(layout.bits_per_pointer)
    output.varint(layout.bits_per_size)
    output.varint(key_width)
    output.varint(value_width)
    output.varlong(total)
    ends = _write_table_pointers(output, source, slots, layout)
    side = _Side(output, key_width + value_width, ends, total if padded else ends[-1])
    for chunk, packed in zip(slots.chunks(), side.buffers(), strict=True):
        used = records.pack_map_buckets(
            source.arena, source.starts, chunk, key_width, value_width, source.key_hashes, side.carry, packed
        )
        side.put(packed, used)
    side.finish()


def _write_table_pointers(
    output: Output, source: RecordSource, slots: Slots, layout: SetLayout | MapLayout
) -> list[int]:
    width = layout.bits_per_pointer + layout.bits_per_size
    output.varint(_words(len(slots) * width))
    ends = [0]
    for chunk in slots.chunks():
        packed = np.empty(8 * _words(len(chunk) * width), np.uint8)
        end = records.pack_table_pointers(
            source.arena, source.starts, chunk, layout.bits_per_pointer, layout.bits_per_size, ends[-1], packed
        )
        ends.append(end)
        output.array(packed)
    return ends


class _Side:
    """Elements or buckets of a shard: one bit array in pieces that do not end on words."""

    def __init__(self, output: Output, width: int, ends: list[int], total: int) -> None:
        self.carry = np.zeros(2, np.uint64)
        self._output, self._width, self._ends = output, width, ends
        self._bytes_left = 8 * _words(total * width)
        output.varint(_words(total * width))

    def buffers(self) -> Iterator[NDArray[np.uint8]]:
        """One buffer per chunk, with room for its elements and a carried word."""
        for number in range(1, len(self._ends)):
            count = self._ends[number] - self._ends[number - 1]
            yield np.empty(8 * (_words(count * self._width) + 1), np.uint8)

    def put(self, packed: NDArray[np.uint8], used: int) -> None:
        self._output.array(packed[:used])
        self._bytes_left -= used

    def finish(self) -> None:
        if self.carry[1]:
            self._output.int64(int(self.carry[0]))
            self._bytes_left -= 8
        self._output.zeros(self._bytes_left)


def _words(bits: int) -> int:
    return (bits + 63) >> 6
