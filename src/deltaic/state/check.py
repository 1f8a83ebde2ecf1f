"""Load checks, by column: what kernels rely on and a blob without a checksum cannot promise.

End offsets never fall and stay inside their data; every ordinal is within its referenced type; hash tables have as many
filled buckets as they say and at least one empty one. References into types that a reader does not have stay
unresolved. hollow-blob.md, "decisions", point 4.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from deltaic.errors import DecodeError
from deltaic.kernels import bits
from deltaic.schema.types import FieldType, ListSchema, MapSchema, ObjectSchema, SetSchema
from deltaic.state.bitset import OrdinalSet
from deltaic.wire.section import TypeSection
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard, Shard


@dataclass(frozen=True, slots=True)
class Reach:
    """The largest ordinal that a section refers to in some type, for `check_references`."""

    source: str
    referenced: str
    ordinal: int
    of_populated: Callable[[], int] | None = None
    """The same for populated records alone: holes are zero bits, which look like a reference to ordinal 0."""


def check_section(section: TypeSection, at: str) -> list[Reach]:
    """Check what one section holds in itself; what it refers to comes back for a check against the whole state."""
    reaches: list[Reach] = []
    for number, shard in enumerate(section.shards):
        where = f"{at}: type {section.schema.name}, shard {number}"
        reaches += _check_shard(section, number, shard.body, where)
    if section.populated is not None and len(section.populated):
        count = len(section.populated)
        last = count * 64 - 1
        if last > section.max_ordinal:
            _check_populated(section, at)
    return reaches


def check_references(reaches: Iterable[Reach], max_ordinals: Mapping[str, int], at: str) -> None:
    """Refuse references past the last ordinal of their type. Types that are not there are passed over."""
    for reach in reaches:
        limit = max_ordinals.get(reach.referenced)
        if limit is None or reach.ordinal <= limit:
            continue
        ordinal = reach.ordinal if reach.of_populated is None else reach.of_populated()
        if ordinal > limit:
            raise DecodeError(
                "BadReference",
                f"{reach.source} refers to ordinal {ordinal:,} of {reach.referenced}, whose last is {limit:,}",
                at,
            )


def _check_populated(section: TypeSection, at: str) -> None:
    assert section.populated is not None
    used = section.populated.nonzero()[0]
    if not len(used):
        return
    word = int(used[-1])
    largest = word * 64 + int(section.populated[word]).bit_length() - 1
    if largest > section.max_ordinal:
        raise DecodeError(
            "BadOrdinal",
            f"type {section.schema.name} ends at ordinal {section.max_ordinal}, but {largest} is populated",
            at,
        )


def _check_shard(section: TypeSection, number: int, shard: Shard, where: str) -> list[Reach]:
    schema = section.schema
    match schema, shard:
        case ObjectSchema(), ObjectShard():
            return _check_object(section, schema, number, shard, where)
        case ListSchema(), ListShard():
            count = shard.max_ordinal + 1
            width = shard.bits_per_pointer
            _check_rising(bits.first_fall(shard.pointers, 0, width, width, count), shard.total_elements, where)
            width = shard.bits_per_element
            largest = bits.largest(shard.elements, 0, width, width, shard.total_elements, False)
            return [Reach(schema.name, schema.element, largest)]
        case SetSchema(), SetShard():
            key, _ = _check_buckets(shard, shard.bits_per_element, shard.bits_per_element, where)
            return [Reach(schema.name, schema.element, key)]
        case MapSchema(), MapShard():
            key, value = _check_buckets(shard, shard.bits_per_key + shard.bits_per_value, shard.bits_per_key, where)
            return [Reach(schema.name, schema.key, key), Reach(schema.name, schema.value, value)]
        case _:
            raise AssertionError("a section's body is of its schema's kind")


def _check_object(
    section: TypeSection, schema: ObjectSchema, number: int, shard: ObjectShard, where: str
) -> list[Reach]:
    count = shard.max_ordinal + 1
    reaches = []
    for field, offset, width, data in zip(schema.fields, shard.offsets, shard.widths, shard.variable, strict=True):
        if data is not None:
            fall = bits.first_fall(shard.records, offset, shard.bits_per_record, width - 1, count) if width else (-1, 0)
            _check_rising(fall, len(data), f"{where}, field {field.name}")
        elif field.type is FieldType.REFERENCE:
            largest = bits.largest(shard.records, offset, shard.bits_per_record, width, count, True)
            of_populated = None
            if section.populated is not None:
                of_populated = partial(_largest_of_populated, section, number, shard, offset, width)
            reaches.append(Reach(f"{schema.name}.{field.name}", field.referenced or "", largest, of_populated))
    return reaches


def _largest_of_populated(section: TypeSection, number: int, shard: ObjectShard, offset: int, width: int) -> int:
    assert section.populated is not None
    ordinals = OrdinalSet(section.populated).ordinals()
    count = len(section.shards)
    rows = ordinals[ordinals & (count - 1) == number] >> (count.bit_length() - 1)
    values = bits.gather(shard.records, shard.bits_per_record, offset, width, rows)
    # Adding one (modulo the width) turns null into 0.
    found = (values + np.uint64(1)) & np.uint64((1 << width) - 1)
    return int(found.max(initial=0)) - 1


def _check_rising(fall: tuple[int, int], capacity: int, where: str) -> None:
    record, last = fall
    if record >= 0:
        raise DecodeError("OffsetOrder", f"the end of record {record} is before its start", where)
    if last > capacity:
        raise DecodeError("Truncated", f"records end at {last:,}, their data at {capacity:,}", where)


def _check_buckets(shard: SetShard | MapShard, bits_per_bucket: int, bits_per_key: int, where: str) -> tuple[int, int]:
    bad, key, value, _ = bits.check_buckets(
        shard.pointers,
        shard.bits_per_pointer,
        shard.bits_per_size,
        shard.buckets,
        bits_per_bucket,
        bits_per_key,
        shard.max_ordinal + 1,
        shard.total_buckets,
    )
    if bad >= 0:
        raise DecodeError("BadBuckets", f"the hash table of record {bad} does not fit its size", where)
    return key, value
