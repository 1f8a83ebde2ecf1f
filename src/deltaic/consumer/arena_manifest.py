"""The manifest of a shared state: its types, and where each of their arrays lies.

It says nothing that is not in the state; a process that has it and the files has the state without reading a record.
A file is 64 hexadecimal digits, the BLAKE2b of what follows them, and JSON. Numbers are checked against each other and
against the files before an array is made of them: kernels do not check. What the arrays hold was checked by the process
that wrote them, since the host was started; a manifest of an earlier start is refused, as its files may not have
reached the disk.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import assert_never

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.binary.buffers import SLACK
from deltaic.binary.cursor import Cursor
from deltaic.consumer.vector_parts import note_missing
from deltaic.errors import DecodeError
from deltaic.limits import DEFAULT_LIMITS, MAX_ORDINAL
from deltaic.schema.binary import read_schema, write_schema
from deltaic.schema.types import Kind, ObjectSchema, Schema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.filter import Filter
from deltaic.state.ghost_vectors import GhostedVectors, ghosts_of
from deltaic.state.read import ReadState
from deltaic.state.type_data import TypeData
from deltaic.state.vector_column import CHUNK_ROWS, Matrix, StoredVectors, is_shared_zero
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard, Shard
from deltaic.wire.vectors.bounds import DEFAULT_VECTOR_LIMITS

Bytes = NDArray[np.uint8]

FORMAT = 4
"""States of another format are in another folder."""

_DIGEST_BYTES = 32
_FILE_NAME = re.compile(r"a-[0-9a-f]{12}-[0-9]{1,9}", re.ASCII)
_MAX_WIDTH = 64
_MAX_POINTER_WIDTH = 57
_NOTHING: Bytes = np.zeros(SLACK, np.uint8)


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Bytes of a file; of no file if there are none."""

    file: str
    offset: int
    length: int


class ShardPlace(msgspec.Struct, frozen=True):
    """One shard: its numbers in the order of its fields, and its arrays."""

    max_ordinal: int
    widths: tuple[int, ...]
    total: int
    """Elements or buckets of a collection."""
    arrays: tuple[Place | None, ...]


class TypePlace(msgspec.Struct, frozen=True):
    """One type."""

    schema: bytes
    max_ordinal: int
    shards: tuple[ShardPlace, ...]
    populated: Place
    previous: Place
    pending: Place
    appended: Place


class VectorPlace(msgspec.Struct, frozen=True):
    """One vector column."""

    type_name: str
    field_name: str
    dimensions: int
    chunks: tuple[Place | None, ...]
    """None for a chunk without vectors."""
    present: Place
    ghosts: Place


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One state."""

    format: int = FORMAT
    boot: str
    """Which start of the host it was written after."""
    serial: int
    """Grows with every state of the folder."""
    version: int
    fingerprint: str
    """What the version is of, where the number alone does not say."""
    tag: int
    origin_tag: int
    header_tags: dict[str, str]
    types: tuple[TypePlace, ...]
    vectors: tuple[VectorPlace, ...] = ()
    missing_vectors: tuple[tuple[str, str], ...] = ()
    """Columns that the chain has and the state lacks."""

    def files(self) -> set[str]:
        """Names of the files that the state needs."""
        found: set[str] = set()
        for one in self.types:
            places = [one.populated, one.previous, one.pending, one.appended]
            places += [place for shard in one.shards for place in shard.arrays if place is not None]
            found |= {place.file for place in places}
        for column in self.vectors:
            places = [column.present, column.ghosts]
            places += [place for place in column.chunks if place is not None]
            found |= {place.file for place in places}
        return found - {""}


@cache
def boot_identity() -> str:
    """Which start of the host this is."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def sealed(body: bytes) -> bytes:
    """A manifest with its digest in front."""
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest().encode() + body


def unsealed(data: bytes, name: str) -> bytes:
    """What a digest stands in front of, in a file called `name`."""
    digest, body = data[: 2 * _DIGEST_BYTES], data[2 * _DIGEST_BYTES :]
    if hashlib.blake2b(body, digest_size=_DIGEST_BYTES).hexdigest().encode() != digest:
        raise DecodeError("BadManifest", "the manifest of a shared state is damaged", name)
    return body


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of a manifest's file."""
    return sealed(msgspec.json.encode(manifest))


def decode_manifest(data: bytes, name: str) -> Manifest:
    """Read a manifest's file, called `name`."""
    body = unsealed(data, name)
    try:
        manifest = msgspec.json.decode(body, type=Manifest)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DecodeError("BadManifest", f"the manifest of a shared state is malformed: {error}", name) from error
    if manifest.format != FORMAT:
        raise DecodeError("UnknownFormat", f"a shared state of format {manifest.format}", name)
    if manifest.boot != boot_identity():
        raise DecodeError("BadManifest", "the shared state is from before the host was started", name)
    for file in manifest.files():
        if not _FILE_NAME.fullmatch(file):
            raise DecodeError("BadManifest", f"{file!r} is no name of a file of shared states", name)
    return manifest


def arrays_of(state: ReadState) -> Iterator[Bytes]:
    """Every array of a state; some may come more than once."""
    for data in state.types.values():
        for bits in (data.populated, data.previous, data.pending, data.appended):
            yield bits.words.view(np.uint8)
        for shard in data.shards:
            for array in _arrays(shard):
                if array is not None:
                    yield array
    for column in state.vectors.values():
        yield column.present.words.view(np.uint8)
        yield ghosts_of(column).words.view(np.uint8)
        for _, chunk in column.blocks():
            yield _flat(chunk)


def _flat(chunk: Matrix) -> Bytes:
    flat: Bytes = chunk.reshape(-1).view(np.uint8)
    return flat


def describe_vectors(state: ReadState, place: Callable[[Bytes], Place]) -> tuple[VectorPlace, ...]:
    """The vector columns of a state; `place` says where an array lies."""
    return tuple(
        VectorPlace(
            *names,
            column.dimensions,
            tuple(None if is_shared_zero(chunk) else place(_flat(chunk)) for chunk in column.chunks),
            place(column.present.words.view(np.uint8)),
            place(ghosts_of(column).words.view(np.uint8)),
        )
        for names, column in state.vectors.items()
    )


def describe_types(state: ReadState, place: Callable[[Bytes], Place]) -> tuple[TypePlace, ...]:
    """The types of a state; `place` says where an array lies."""
    types = []
    for data in state.types.values():
        bit_sets = [
            place(bits.words.view(np.uint8)) for bits in (data.populated, data.previous, data.pending, data.appended)
        ]
        shards = tuple(_describe_shard(shard, place) for shard in data.shards)
        types.append(TypePlace(write_schema(data.schema), data.max_ordinal, shards, *bit_sets))
    return tuple(types)


def rebuild(manifest: Manifest, mapped: Callable[[str], Bytes], filter: Filter | None, name: str) -> ReadState:
    """The state of a manifest called `name`; `mapped` gives the bytes of a file."""
    files = _Files(mapped, name)
    types: dict[str, TypeData] = {}
    for one in manifest.types:
        schema = read_schema(Cursor(one.schema, name))
        if schema.name in types:
            raise files.refused(f"type {schema.name} stands there twice")
        types[schema.name] = _rebuild_type(one, schema, files)
    state = ReadState(
        types,
        tag=manifest.tag,
        origin_tag=manifest.origin_tag,
        header_tags=manifest.header_tags,
        filter=filter,
        vectors={(one.type_name, one.field_name): _rebuild_vectors(one, types, files) for one in manifest.vectors},
    )
    return note_missing(state, manifest.missing_vectors)


class _Files:
    """The files of one state, and checked arrays out of them."""

    def __init__(self, mapped: Callable[[str], Bytes], name: str) -> None:
        self._mapped, self._name = mapped, name
        self._open: dict[str, Bytes] = {}

    def refused(self, reason: str) -> DecodeError:
        """The error for a manifest that cannot be."""
        return DecodeError("BadManifest", f"a shared state that cannot be: {reason}", self._name)

    def array(self, place: Place, used_bits: int = 0) -> Bytes:
        """The bytes of a place that must hold so many bits, with slack behind them."""
        needed = (used_bits + 7) >> 3
        empty = not place.length
        if place.offset < 0 or place.length < max(needed, 0) or empty != (not place.file) or (empty and place.offset):
            raise self.refused(f"{place.length:,} bytes where {needed:,} are needed")
        if empty:
            return _NOTHING[:0]
        found = self._open.get(place.file)
        if found is None:
            found = self._open[place.file] = self._mapped(place.file)
        behind = max(place.length, needed + SLACK)
        if place.offset + behind > len(found):
            raise DecodeError("Truncated", f"file {place.file} ends before its arrays", self._name)
        return found[place.offset : place.offset + place.length]

    def ordinals(self, place: Place) -> OrdinalSet:
        """A set of ordinals."""
        if place.length % 8 or place.offset % 8:
            raise self.refused("a set of ordinals is not made of words")
        return OrdinalSet(self.array(place).view(np.uint64))


def _rebuild_vectors(one: VectorPlace, types: dict[str, TypeData], files: _Files) -> StoredVectors:
    where = f"vector column {one.type_name}.{one.field_name}"
    if not 0 < one.dimensions <= DEFAULT_VECTOR_LIMITS.max_dims or one.type_name not in types:
        raise files.refused(f"{where} of {one.dimensions} dimensions")
    present = files.ordinals(one.present)
    ghosts = files.ordinals(one.ghosts)
    last = max(present.max(), ghosts.max())
    if last >= len(one.chunks) * CHUNK_ROWS:
        raise files.refused(f"{where} ends before ordinal {last}")
    chunk_bytes = CHUNK_ROWS * one.dimensions * 4
    chunks = []
    for place in one.chunks:
        if place is None:
            chunks.append(_no_rows(one.dimensions))
        elif place.length != chunk_bytes or place.offset % 4:
            raise files.refused(f"{where} has a chunk of {place.length:,} bytes")
        else:
            chunks.append(files.array(place).view(np.float32).reshape(CHUNK_ROWS, one.dimensions))
    if ghosts:
        return GhostedVectors(one.dimensions, tuple(chunks), present, ghosts)
    return StoredVectors(one.dimensions, tuple(chunks), present)


def _no_rows(dimensions: int) -> Matrix:
    """A chunk without vectors, which takes no memory of its own."""
    return np.broadcast_to(np.zeros(dimensions, np.float32), (CHUNK_ROWS, dimensions))


def _rebuild_type(one: TypePlace, schema: Schema, files: _Files) -> TypeData:
    count = len(one.shards)
    if not 0 < count <= DEFAULT_LIMITS.max_shards or count & (count - 1):
        raise files.refused(f"type {schema.name} has {count} shards")
    if not -1 <= one.max_ordinal <= MAX_ORDINAL:
        raise files.refused(f"type {schema.name} ends at ordinal {one.max_ordinal}")
    populated, previous, pending, appended = (
        files.ordinals(place) for place in (one.populated, one.previous, one.pending, one.appended)
    )
    if populated.max() > one.max_ordinal:
        raise files.refused(f"type {schema.name} ends at {one.max_ordinal}, but {populated.max()} is populated")
    shards = tuple(_rebuild_shard(shard, schema, files) for shard in one.shards)
    return TypeData(schema, shards, one.max_ordinal, populated, previous, pending, appended)


def _arrays(shard: Shard) -> tuple[Bytes | None, ...]:
    match shard:
        case ObjectShard():
            return (shard.records, *shard.variable)
        case ListShard():
            return (shard.pointers, shard.elements)
        case SetShard() | MapShard():
            return (shard.pointers, shard.buckets)
        case _:
            assert_never(shard)


def _describe_shard(shard: Shard, place: Callable[[Bytes], Place]) -> ShardPlace:
    match shard:
        case ObjectShard():
            widths, total = shard.widths, 0
        case ListShard():
            widths, total = (shard.bits_per_pointer, shard.bits_per_element), shard.total_elements
        case SetShard():
            widths = (shard.bits_per_pointer, shard.bits_per_size, shard.bits_per_element)
            total = shard.total_buckets
        case MapShard():
            widths = (shard.bits_per_pointer, shard.bits_per_size, shard.bits_per_key, shard.bits_per_value)
            total = shard.total_buckets
        case _:
            assert_never(shard)
    arrays = tuple(None if array is None else place(array) for array in _arrays(shard))
    return ShardPlace(shard.max_ordinal, widths, total, arrays)


def _rebuild_shard(shard: ShardPlace, schema: Schema, files: _Files) -> Shard:
    widths, total, last = shard.widths, shard.total, shard.max_ordinal
    if not -1 <= last <= MAX_ORDINAL or total < 0 or any(not 0 <= width <= _MAX_WIDTH for width in widths):
        raise files.refused(f"a shard of {schema.name} with {last + 1} records of {widths} bits")
    if isinstance(schema, ObjectSchema):
        return _rebuild_objects(shard, schema, files)
    expected = {Kind.LIST: 2, Kind.SET: 3, Kind.MAP: 4}[schema.kind]
    if len(widths) != expected or len(shard.arrays) != 2 or widths[0] > _MAX_POINTER_WIDTH:
        raise files.refused(f"a shard of {schema.name} is not that of a {schema.kind}")
    record, element = (1, widths[1:]) if schema.kind is Kind.LIST else (2, widths[2:])
    pointers = files.array(_given(shard.arrays[0], files), (last + 1) * sum(widths[:record]))
    elements = files.array(_given(shard.arrays[1], files), total * sum(element))
    match schema.kind:
        case Kind.LIST:
            return ListShard(last, pointers, widths[0], elements, widths[1], total)
        case Kind.SET:
            return SetShard(last, pointers, widths[0], widths[1], elements, widths[2], total)
        case _:
            return MapShard(last, pointers, widths[0], widths[1], elements, widths[2], widths[3], total)


def _rebuild_objects(shard: ShardPlace, schema: ObjectSchema, files: _Files) -> ObjectShard:
    widths = shard.widths
    if len(widths) != len(schema.fields) or len(shard.arrays) != len(schema.fields) + 1 or shard.total:
        raise files.refused(f"a shard of {schema.name} has {len(widths)} fields")
    stride = sum(widths)
    records = files.array(_given(shard.arrays[0], files), (shard.max_ordinal + 1) * stride)
    variable: list[Bytes | None] = []
    for field, place in zip(schema.fields, shard.arrays[1:], strict=True):
        if field.type.is_variable != (place is not None):
            raise files.refused(f"field {schema.name}.{field.name} has data where it must not, or none")
        variable.append(None if place is None else files.array(place, 8 * place.length))
    offsets = tuple(accumulate(widths, initial=0))[:-1]
    return ObjectShard(shard.max_ordinal, records, widths, offsets, stride, tuple(variable))


def _given(place: Place | None, files: _Files) -> Place:
    if place is None:
        raise files.refused("an array is missing")
    return place
