"""Type sections of snapshots and deltas, written (hollow-blob.md, "type sections", "populated ordinals", "deltas")."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.kernels import records
from deltaic.schema.binary import write_schema
from deltaic.schema.types import Schema
from deltaic.wire.write_header import Envelope
from deltaic.wire.write_layout import Layout, ListLayout, MapLayout, ObjectLayout, SetLayout, shard_max_ordinals
from deltaic.wire.write_shards import (
    GivenSlots,
    PopulatedSlots,
    RecordSource,
    Slots,
    write_list_body,
    write_map_body,
    write_object_body,
    write_set_body,
)
from deltaic.wire.write_stream import Output, varint

_MAX_COUNT = 2**31 - 1
_MAX_ELEMENT_BITS = 58


@dataclass(frozen=True, slots=True, eq=False)
class SectionContent:
    """What the section of one type is written from."""

    schema: Schema
    source: RecordSource
    layout: Layout
    shards: int
    max_ordinal: int


def write_snapshot_section(
    output: Output,
    content: SectionContent,
    populated: NDArray[np.uint64],
    populated_words: int,
    envelope: Envelope,
) -> None:
    """Write a type with all its populated records; the populated bits are filled up to `populated_words`."""
    write_section_head(output, content, envelope)
    for number, last in enumerate(shard_max_ordinals(content.max_ordinal, content.shards)):
        output.varint(last)
        slots = PopulatedSlots(populated, number, content.shards, last + 1)
        write_shard_body(output, content, number, slots, padded=True)
    write_populated(output, populated, populated_words)


def write_delta_section(
    output: Output,
    content: SectionContent,
    removed: NDArray[np.int64],
    added: NDArray[np.int64],
    envelope: Envelope,
) -> None:
    """Write what changed in a type: removed and added ordinals, rising, and the added records."""
    write_section_head(output, content, envelope)
    mask, shift = content.shards - 1, content.shards.bit_length() - 1
    for number, last in enumerate(shard_max_ordinals(content.max_ordinal, content.shards)):
        output.varint(last)
        here = added if not mask else added[added & mask == number]
        gone = removed if not mask else removed[removed & mask == number]
        # One shard's ordinals are their own: a million of them need no copy.
        write_ordinal_lists(output, gone >> shift if shift else gone, here >> shift if shift else here)
        write_shard_body(output, content, number, GivenSlots(here.astype(np.int32)), padded=False)


def write_populated(output: Output, populated: NDArray[np.uint64], populated_words: int) -> None:
    """Write the populated bits that end a section of a snapshot, filled up to `populated_words`."""
    output.int32(populated_words)
    output.array(populated.byteswap().view(np.uint8))
    output.zeros(8 * (populated_words - len(populated)))


def write_ordinal_lists(output: Output, removed: NDArray[np.int64], added: NDArray[np.int64]) -> None:
    """Write the two lists of a shard of a delta: ordinals inside the shard, rising."""
    for ordinals in (removed, added):
        encoded = records.encode_varints(np.diff(ordinals, prepend=np.int64(0)))
        output.varlong(len(encoded))
        output.array(encoded)


def write_section_head(output: Output, content: SectionContent, envelope: Envelope) -> None:
    """Write what stands before the shards of a section."""
    output.raw(write_schema(content.schema))
    shards = content.shards
    if envelope.shard_counts:
        extra = varint(len(envelope.section_extra)) + envelope.section_extra
        output.varint(len(extra) + len(varint(shards)))
        output.raw(extra)
        output.varint(shards)
    elif shards == 1:
        output.varint(0)
    else:
        name = content.schema.name
        raise InputError(f"type {name} has {shards} shards: an envelope without shard counts needs one", "Shards")
    if shards > 1:
        output.varint(content.max_ordinal)


def write_shard_body(output: Output, content: SectionContent, number: int, slots: Slots, *, padded: bool) -> None:
    """Write the body of one shard, without its max ordinal and the lists of a delta; `padded` is for snapshots."""
    source = content.source
    match content.layout:
        case ObjectLayout() as layout:
            write_object_body(output, source, slots, layout)
        case ListLayout() as layout:
            _check_elements(content, layout.totals[number], layout.bits_per_element)
            write_list_body(output, source, slots, layout, layout.totals[number], padded=padded)
        case SetLayout() as layout:
            _check_elements(content, layout.totals[number], layout.bits_per_element, tables=True)
            write_set_body(output, source, slots, layout, layout.totals[number], padded=padded)
        case MapLayout() as layout:
            width = layout.bits_per_key + layout.bits_per_value
            _check_elements(content, layout.totals[number], width, tables=True)
            write_map_body(output, source, slots, layout, layout.totals[number], padded=padded)


def _check_elements(content: SectionContent, total: int, width: int, *, tables: bool = False) -> None:
    """Refuse what Java's readers cannot hold (hollow-blob.md, "limits")."""
    name = content.schema.name
    if width > _MAX_ELEMENT_BITS:
        raise InputError(
            f"type {name}: buckets of {width} bits, {_MAX_ELEMENT_BITS} is what readers read at once", "TooLarge"
        )
    # Word counts are VInts that Java reads as signed ints; it counts buckets in an int too.
    if (total * width + 63) >> 6 > _MAX_COUNT or (tables and total > _MAX_COUNT):
        raise InputError(
            f"a shard of type {name} holds {total:,} elements of {width} bits, past what a blob can count: "
            "use more shards",
            "TooLarge",
        )
