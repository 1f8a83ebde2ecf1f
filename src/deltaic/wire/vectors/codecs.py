"""Compression of payloads and of a frame's buffers: a codec and a filter in one byte (vector-delta.md, "compression").

The filter "byte planes" puts all first bytes of the words first, then all second ones, and so on: exponents of floats
are alike, their last bits are not. Unpacking makes at most one byte more than it was promised.
"""

from enum import StrEnum
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import DecodeError, MissingExtraError
from deltaic.kernels import vectors
from deltaic.storage.decompress import Codec, compress, decompress
from deltaic.wire.vectors.faults import fault

PLANES = 0x10
"""The filter's bit in the codec byte."""

_MOST_LZ4_RATIO = 255
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Packing(StrEnum):
    """What a writer may compress with."""

    NONE = "none"
    ZSTD = "zstd"
    ZLIB = "zlib"
    LZ4 = "lz4"


CODEC_NUMBERS = {Packing.NONE: 0, Packing.ZSTD: 1, Packing.ZLIB: 2, Packing.LZ4: 3}
CODECS = {number: packing for packing, number in CODEC_NUMBERS.items() if number}


def check_codec(number: int, at: str) -> None:
    """Refuse a codec byte that stands for nothing."""
    if number & 0x0F not in CODECS or number & 0xF0 not in (0, PLANES):
        raise fault("UnsupportedCodec", f"codec byte 0x{number:02x} is not known", at)


def pack(raw: bytes | NDArray[np.uint8], packing: Packing, level: int) -> bytes:
    """Compress bytes."""
    if packing is Packing.LZ4:
        return bytes(_cramjam().lz4.compress_block(raw, store_size=False))
    return compress(raw if isinstance(raw, bytes) else raw.data, Codec(packing.value), level=level)


def unpack(stored: memoryview, number: int, raw_length: int, at: str) -> bytes:
    """Decompress bytes that must give exactly `raw_length`; the filter is left to the caller."""
    packing = CODECS[number & 0x0F]
    if packing is Packing.LZ4:
        return _unpack_lz4(stored, raw_length, at)
    if packing is Packing.ZSTD and not is_one_frame(stored):
        raise fault("DecompressionFailed", "not one zstd frame", at)
    try:
        return decompress(stored, Codec(packing.value), raw_length, expected_bytes=raw_length, name=at)
    except DecodeError as error:
        raise fault("DecompressionFailed", error.reason, at) from error


def is_one_frame(stored: memoryview) -> bool:
    """True if the bytes are the length of one zstd frame (RFC 8878, "frames"), whatever its blocks hold."""
    if bytes(stored[:4]) != _ZSTD_MAGIC or len(stored) < 6:
        return False
    descriptor = stored[4]
    single = descriptor >> 5 & 1
    size_bytes = (single, 2, 4, 8)[descriptor >> 6]
    position = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + size_bytes
    last = 0
    while not last:
        if position + 3 > len(stored):
            return False
        header = int.from_bytes(stored[position : position + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        # A block of kind 1 is one byte repeated.
        position += 3 + (1 if kind == 1 else size)
    return position + (4 if descriptor & 4 else 0) == len(stored)


def planes(data: bytes, width: int) -> bytes:
    """The filter on words of a width."""
    return data if width == 1 else vectors.to_planes(np.frombuffer(data, np.uint8), width).tobytes()


def _unpack_lz4(stored: memoryview, raw_length: int, at: str) -> bytes:
    if raw_length > len(stored) * _MOST_LZ4_RATIO + 64:
        raise fault("DecompressionFailed", f"{len(stored)} bytes of LZ4 cannot be {raw_length}", at)
    cramjam = _cramjam()
    room = bytearray(raw_length + 1)
    try:
        made = int(cramjam.lz4.decompress_block_into(bytes(stored), room, output_len=raw_length + 1))
    except (cramjam.DecompressionError, ValueError, OverflowError) as error:
        raise fault("DecompressionFailed", f"LZ4 data is corrupt: {error}", at) from error
    if made != raw_length:
        raise fault("DecompressionFailed", f"LZ4 data is {made} bytes where {raw_length} are stated", at)
    return bytes(memoryview(room)[:made])


def _cramjam() -> ModuleType:
    try:
        import cramjam
    except ImportError:
        raise MissingExtraError("LZ4 compression", "table") from None
    return cramjam
