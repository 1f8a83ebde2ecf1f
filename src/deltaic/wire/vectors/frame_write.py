"""Writing batch frames from columns: the narrowest type that fits, buffers packed one by one, checksums."""

import zlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import vectors
from deltaic.wire.vectors.codecs import CODEC_NUMBERS, PLANES, Packing, pack
from deltaic.wire.vectors.layout import (
    ENTRY,
    ENTRY_BYTES,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    WIDTHS,
    Array,
    Column,
    Type,
    padded,
)
from deltaic.wire.vectors.options import EncodeOptions

_TYPES = {
    np.dtype(np.uint8): Type.U8,
    np.dtype(np.uint16): Type.U16,
    np.dtype(np.uint32): Type.U32,
    np.dtype(np.uint64): Type.U64,
    np.dtype(np.int8): Type.I8,
    np.dtype(np.int32): Type.I32,
    np.dtype(np.int64): Type.I64,
    np.dtype(np.float32): Type.F32,
}
_SAMPLED_FROM_BYTES = 2 << 20
_SAMPLE_BYTES = 256 << 10
_NARROWED = (Column.GAPS, Column.RUN_GAPS, Column.RUN_LENGTHS)


def write_frame(
    dims: int,
    flags: int,
    row_count: int,
    columns: Mapping[tuple[int, int], Array],
    value_type: Type,
    options: EncodeOptions,
) -> bytes:
    """A frame from its columns by (section, column)."""
    entries: list[bytes] = []
    buffers: list[bytes | memoryview] = []
    position = HEADER_BYTES + ENTRY_BYTES * len(columns)
    for section, column in sorted(columns):
        type_, array = _stored_as(Column(column), columns[section, column], value_type)
        raw = array.view(np.uint8).reshape(-1)
        codec, stored = _packed(raw, WIDTHS[type_], options)
        entries.append(ENTRY.pack(section, column, type_, codec, zlib.crc32(stored), position, len(stored), len(raw)))
        buffers += [stored, bytes(padded(len(stored)) - len(stored))]
        position += padded(len(stored))
    directory = b"".join(entries)
    header = HEADER.pack(MAGIC, 1, flags, dims, row_count, position, len(entries))
    checksum = zlib.crc32(directory, zlib.crc32(header)).to_bytes(4, "little")
    return b"".join([header, checksum, directory, *buffers])


def narrowest(numbers: Array) -> Array:
    """The same numbers in as few bits as the largest needs: 8, 16 or 32."""
    most = int(numbers.max(initial=0))
    return numbers.astype(np.uint8 if most < 1 << 8 else np.uint16 if most < 1 << 16 else np.uint32)


def _stored_as(column: Column, array: Array, value_type: Type) -> tuple[Type, Array]:
    if column is Column.VALUES:
        return value_type, array
    if column is Column.PREV:
        return Type.F32, array
    if column in _NARROWED:
        array = narrowest(array)
    elif column in (Column.OFFSETS, Column.RUN_OFFSETS):
        array = array.astype(np.uint32 if int(array[-1]) < 1 << 32 else np.uint64)
    array = np.ascontiguousarray(array)
    return _TYPES[array.dtype], array


def _packed(raw: NDArray[np.uint8], width: int, options: EncodeOptions) -> tuple[int, bytes | memoryview]:
    """The codec byte and the stored bytes: the smallest of plain, packed, and packed by planes."""
    best: tuple[int, bytes | memoryview] = (0, raw.data)
    if options.compression is Packing.NONE or len(raw) < options.compress_min:
        return best
    number = CODEC_NUMBERS[options.compression]
    filters = [0] if width == 1 else [0, PLANES]
    if len(filters) > 1 and len(raw) > _SAMPLED_FROM_BYTES:
        filters = [_better_filter(raw, width, options)]
    for bit in filters:
        made = pack(vectors.to_planes(raw, width) if bit else raw, options.compression, options.level)
        if len(made) < len(best[1]):
            best = number | bit, made
    return best


def _better_filter(raw: NDArray[np.uint8], width: int, options: EncodeOptions) -> int:
    """Which filter a piece from the middle of a large buffer does better with: the whole is packed only once."""
    middle = len(raw) // 2 // width * width
    piece = raw[middle : middle + _SAMPLE_BYTES]
    plain = pack(piece, options.compression, options.level)
    turned = pack(vectors.to_planes(piece, width), options.compression, options.level)
    return PLANES if len(turned) < len(plain) else 0
