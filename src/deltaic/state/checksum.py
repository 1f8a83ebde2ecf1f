"""The checksum of a state (hollow-blob.md, "checksum").

It depends on shard counts and on the places of elements in sets and maps, and is meant to compare two states of one
chain: a reader with a filter, or without the optional parts, gets another number.
"""

from collections.abc import Mapping

import numpy as np

from deltaic.kernels import checksum as kernel
from deltaic.kernels import hashing
from deltaic.schema.types import ObjectSchema
from deltaic.state.type_data import TypeData
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard, Shard


def state_checksum(types: Mapping[str, TypeData]) -> int:
    """Hollow's checksum of the populated records of all types, signed 32 bit."""
    total = 0
    for name in sorted(types, key=_java_order):
        total = hashing.hash_int_one(total ^ hashing.hash_int_one(type_checksum(types[name])))
    return total


def type_checksum(data: TypeData) -> int:
    """The part of one type: its own checksum, signed 32 bit, before it is mixed into the state's."""
    checksum = 0
    for number, shard in enumerate(data.shards):
        checksum = _fold_shard(checksum, number, data, shard)
    return checksum


def _fold_shard(checksum: int, number: int, data: TypeData, shard: Shard) -> int:
    count = len(data.shards)
    words = data.populated.words
    match shard:
        case ObjectShard():
            assert isinstance(data.schema, ObjectSchema)
            return _fold_objects(checksum, number, count, data.schema, shard, words)
        case ListShard():
            return kernel.list_shard(
                checksum,
                number,
                count,
                shard.pointers,
                shard.bits_per_pointer,
                shard.elements,
                shard.bits_per_element,
                shard.total_elements,
                words,
                shard.max_ordinal,
            )
        case SetShard():
            return kernel.set_shard(
                checksum,
                number,
                count,
                shard.pointers,
                shard.bits_per_pointer,
                shard.bits_per_size,
                shard.buckets,
                shard.bits_per_element,
                shard.total_buckets,
                words,
                shard.max_ordinal,
            )
        case MapShard():
            return kernel.map_shard(
                checksum,
                number,
                count,
                shard.pointers,
                shard.bits_per_pointer,
                shard.bits_per_size,
                shard.buckets,
                shard.bits_per_key,
                shard.bits_per_value,
                shard.total_buckets,
                words,
                shard.max_ordinal,
            )


def _fold_objects(
    checksum: int,
    number: int,
    count: int,
    schema: ObjectSchema,
    shard: ObjectShard,
    words: np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> int:
    order = sorted(range(len(schema.fields)), key=lambda position: _java_order(schema.fields[position].name))
    return kernel.object_shard(
        checksum,
        number,
        count,
        shard.records,
        shard.bits_per_record,
        np.array([shard.offsets[position] for position in order], np.int64),
        np.array([shard.widths[position] for position in order], np.int64),
        np.array([schema.fields[position].type.is_variable for position in order], np.uint8),
        [shard.variable[position] for position in order],
        words,
        shard.max_ordinal,
    )


def _java_order(name: str) -> bytes:
    # Java compares UTF-16 units, which puts characters beyond the basic plane before U+E000.
    return name.encode("utf-16-be", "surrogatepass")
