"""The manifest of a shared state: its types, and where each of their arrays lies.

It says nothing that is not in the state; a process that has it and the files has the state without reading a record.
"""

from collections.abc import Callable
from typing import assert_never

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.binary.cursor import Cursor
from deltaic.errors import DecodeError
from deltaic.schema.binary import read_schema, write_schema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.state.type_data import TypeData
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard, Shard

Bytes = NDArray[np.uint8]
FORMAT = 1


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Bytes of a file."""

    file: str
    offset: int
    length: int


class ShardPlace(msgspec.Struct, frozen=True):
    """One shard: its numbers in the order of its fields, and its arrays."""

    kind: str
    max_ordinal: int
    widths: tuple[int, ...]
    arrays: tuple[Place | None, ...]


class TypePlace(msgspec.Struct, frozen=True):
    """One type."""

    schema: bytes
    max_ordinal: int
    shards: tuple[ShardPlace, ...]
    populated: Place
    previous: Place
    pending: Place


class Manifest(msgspec.Struct, frozen=True):
    """One state."""

    format: int
    version: int
    tag: int
    origin_tag: int
    header_tags: dict[str, str]
    types: tuple[TypePlace, ...]

    def files(self) -> set[str]:
        """Names of the files that the state needs."""
        found: set[str] = set()
        for one in self.types:
            places = [one.populated, one.previous, one.pending]
            places += [place for shard in one.shards for place in shard.arrays if place is not None]
            found |= {place.file for place in places}
        return found


def describe(state: ReadState, version: int, place: Callable[[Bytes], Place]) -> Manifest:
    """The manifest of a state; `place` says where an array lies."""
    types = []
    for data in state.types.values():
        populated, previous, pending = (
            place(bits.words.view(np.uint8)) for bits in (data.populated, data.previous, data.pending)
        )
        shards = tuple(_describe_shard(shard, place) for shard in data.shards)
        types.append(TypePlace(write_schema(data.schema), data.max_ordinal, shards, populated, previous, pending))
    return Manifest(FORMAT, version, state.tag, state.origin_tag, dict(state.header_tags), tuple(types))


def rebuild(manifest: Manifest, mapped: Callable[[str], Bytes], filter: Filter | None) -> ReadState:
    """The state of a manifest; `mapped` gives the bytes of a file."""
    if manifest.format != FORMAT:
        raise DecodeError("UnknownFormat", f"a shared state of format {manifest.format}", f"version {manifest.version}")
    files: dict[str, Bytes] = {}

    def array(place: Place) -> Bytes:
        found = files.get(place.file)
        if found is None:
            found = files[place.file] = mapped(place.file)
        if place.offset < 0 or place.length < 0 or place.offset + place.length > len(found):
            raise DecodeError("Truncated", f"file {place.file} ends before its arrays", f"version {manifest.version}")
        return found[place.offset : place.offset + place.length]

    types: dict[str, TypeData] = {}
    for one in manifest.types:
        schema = read_schema(Cursor(one.schema, f"version {manifest.version}"))
        types[schema.name] = TypeData(
            schema,
            tuple(_rebuild_shard(shard, array) for shard in one.shards),
            one.max_ordinal,
            *(OrdinalSet(array(place).view(np.uint64)) for place in (one.populated, one.previous, one.pending)),
        )
    return ReadState(
        types,
        tag=manifest.tag,
        origin_tag=manifest.origin_tag,
        header_tags=manifest.header_tags,
        filter=filter,
    )


def _describe_shard(shard: Shard, place: Callable[[Bytes], Place]) -> ShardPlace:
    match shard:
        case ObjectShard():
            arrays: tuple[Place | None, ...] = (
                place(shard.records),
                *(None if data is None else place(data) for data in shard.variable),
            )
            return ShardPlace("object", shard.max_ordinal, shard.widths, arrays)
        case ListShard():
            widths: tuple[int, ...] = (shard.bits_per_pointer, shard.bits_per_element, shard.total_elements)
            return ShardPlace("list", shard.max_ordinal, widths, (place(shard.pointers), place(shard.elements)))
        case SetShard():
            widths = (shard.bits_per_pointer, shard.bits_per_size, shard.bits_per_element, shard.total_buckets)
            return ShardPlace("set", shard.max_ordinal, widths, (place(shard.pointers), place(shard.buckets)))
        case MapShard():
            widths = (
                shard.bits_per_pointer,
                shard.bits_per_size,
                shard.bits_per_key,
                shard.bits_per_value,
                shard.total_buckets,
            )
            return ShardPlace("map", shard.max_ordinal, widths, (place(shard.pointers), place(shard.buckets)))
        case _:
            assert_never(shard)


def _rebuild_shard(shard: ShardPlace, array: Callable[[Place], Bytes]) -> Shard:
    arrays = [None if place is None else array(place) for place in shard.arrays]
    first, widths = arrays[0], shard.widths
    assert first is not None
    if shard.kind == "object":
        offsets = tuple(sum(widths[:position]) for position in range(len(widths)))
        return ObjectShard(shard.max_ordinal, first, widths, offsets, sum(widths), tuple(arrays[1:]))
    second = arrays[1]
    assert second is not None
    match shard.kind:
        case "list":
            return ListShard(shard.max_ordinal, first, widths[0], second, widths[1], widths[2])
        case "set":
            return SetShard(shard.max_ordinal, first, widths[0], widths[1], second, widths[2], widths[3])
        case "map":
            return MapShard(shard.max_ordinal, first, widths[0], widths[1], second, *widths[2:5])
        case _:
            raise DecodeError("UnknownFormat", f"a shard of kind {shard.kind!r}", "a shared state")
