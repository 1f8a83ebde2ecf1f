"""A message: the delta of one vector in bytes, checksummed (vector-delta.md, "message").

Nine bytes of header, the payload, a CRC-32. Checks come in a fixed order, so that one fault has one name: magic,
version, length, end, checksum, format, flags, compression, then the payload from its first byte to its last.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.cursor import ReadableBuffer
from deltaic.errors import DecodeError
from deltaic.wire.vectors.blocks import read_block
from deltaic.wire.vectors.bounds import DEFAULT_VECTOR_LIMITS, VectorLimits
from deltaic.wire.vectors.codecs import PLANES, check_codec, unpack
from deltaic.wire.vectors.delta import VectorDelta
from deltaic.wire.vectors.dictionary import Dictionaries, DictionaryReference, Pattern, look_up
from deltaic.wire.vectors.faults import fault
from deltaic.wire.vectors.heads import members
from deltaic.wire.vectors.options import Flag, Format, Mode
from deltaic.wire.vectors.payload import PayloadReader

Words = NDArray[np.uint32]

MAGIC = b"\xde\x7a"
HEADER_BYTES = 9
OVERHEAD_BYTES = HEADER_BYTES + 4
SCALE, OFFSET, PATCH = 1, 2, 4
"""What a dictionary payload may hold beside its pattern."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that was read: its delta, and how it was written."""

    delta: VectorDelta
    version: int
    format: Format
    flags: int
    size_bytes: int
    reference: DictionaryReference | None = None

    @property
    def mode(self) -> Mode:
        """How the values were stored."""
        return Mode(self.flags >> 4)


def read_message(
    data: ReadableBuffer,
    *,
    dictionaries: Dictionaries = None,
    limits: VectorLimits = DEFAULT_VECTOR_LIMITS,
    name: str = "message",
) -> Message:
    """Read bytes that are one message.

    Raises:
        DecodeError: the bytes are no message, or need a dictionary that is not there; `code` says what is wrong.
    """
    view = memoryview(data).cast("B")
    end = _check_envelope(view, 0, limits, name)
    if end < len(view):
        raise fault("TrailingData", f"{len(view) - end} bytes behind the message", f"{name}: byte {end}")
    return _read_body(view, name, 0, dictionaries, limits)


def read_stream(
    data: ReadableBuffer,
    *,
    dictionaries: Dictionaries = None,
    limits: VectorLimits = DEFAULT_VECTOR_LIMITS,
    name: str = "stream",
) -> Iterator[tuple[int, Message]]:
    """Every message of a stream with the byte at which it starts, up to the first that cannot be read.

    Raises:
        DecodeError: at the first bad message; `at` names the byte where it starts. `Truncated` there means that more
            bytes may still come.
    """
    view = memoryview(data).cast("B")
    start = 0
    while start < len(view):
        try:
            end = _check_envelope(view[start:], start, limits, name)
            message = _read_body(view[start : start + end], name, start, dictionaries, limits)
        except DecodeError as error:
            place = f"{error.at}, in the message that starts at byte {start}"
            raise fault(error.code, error.reason, place) from error
        yield start, message
        start += end


def _check_envelope(view: memoryview, start: int, limits: VectorLimits, name: str) -> int:
    """Check all that needs no look into the payload; returns where the message ends."""

    def at(byte: int) -> str:
        return f"{name}: byte {start + byte}"

    for place, byte in enumerate(MAGIC):
        if len(view) > place and view[place] != byte:
            raise fault("BadMagic", "a vector delta starts with DE 7A", at(place))
    if len(view) > 2 and view[2] not in (1, 2):
        raise fault("UnsupportedVersion", f"message version {view[2]}, this reader knows 1 and 2", at(2))
    if len(view) < HEADER_BYTES:
        raise fault("Truncated", f"{len(view)} bytes of a header of {HEADER_BYTES}", at(len(view)))
    length = int.from_bytes(view[5:9], "little")
    if length > limits.max_message_bytes:
        raise fault("LimitExceeded", f"{length:,} bytes, the limit is {limits.max_message_bytes:,}", at(5))
    end = OVERHEAD_BYTES + length
    if len(view) < end:
        raise fault("Truncated", f"{len(view)} bytes of a message of {end}", at(len(view)))
    if zlib.crc32(view[: end - 4]) != int.from_bytes(view[end - 4 : end], "little"):
        raise fault("ChecksumMismatch", "the CRC-32 is that of other bytes", at(end - 4))
    return end


def _read_body(view: memoryview, name: str, start: int, dictionaries: Dictionaries, limits: VectorLimits) -> Message:
    version, number, flags = view[2], view[3], view[4]
    if number > Format.DICTIONARY:
        raise fault("UnsupportedFormat", f"format {number}, this reader knows 0 to 3", f"{name}: byte {start + 3}")
    form = Format(number)
    check_flags(flags, f"{name}: byte {start + 4}", version=version, form=form)
    stored = view[HEADER_BYTES : len(view) - 4]
    reader = PayloadReader(stored, name, shift=start + HEADER_BYTES)
    if flags & Flag.COMPRESSED:
        reader = _decompressed(reader, limits)
    relative, has_prev, mode = bool(flags & Flag.RELATIVE), bool(flags & Flag.HAS_PREV), Mode(flags >> 4)
    if form is Format.DICTIONARY:
        delta, reference = _read_dictionary(reader, has_prev, dictionaries, limits)
        return Message(delta, version, form, flags, len(view), reference)
    dims, indices = _read_indices(reader, form, limits)
    words = read_block(reader, len(indices), mode)
    prev = reader.words(len(indices)) if has_prev else None
    reader.end()
    if relative:
        words = unzigzag(words)
    return Message(VectorDelta(dims, indices, words, relative, prev), version, form, flags, len(view))


def check_flags(flags: int, at: str, *, version: int, form: Format | None = None) -> None:
    """Refuse flags that contradict each other or the version."""
    mode, quantized = flags >> 4, bool(flags & Flag.QUANTIZED)
    relative, has_prev = bool(flags & Flag.RELATIVE), bool(flags & Flag.HAS_PREV)
    wrong = (
        quantized != (mode != 0)
        or mode > Mode.INT4
        or relative != (version == 2)
        or (relative and (has_prev or quantized))
        or (form is Format.DICTIONARY and (relative or quantized))
    )
    if wrong:
        raise fault("InvalidFlags", f"flags 0x{flags:02x} of version {version} cannot be", at)


def zigzag(differences: Words) -> Words:
    """Differences as numbers that are small if the difference is, whatever its sign."""
    return (differences << np.uint32(1)) ^ (differences.view(np.int32) >> 31).view(np.uint32)


def unzigzag(words: Words) -> Words:
    """The differences again."""
    return (words >> np.uint32(1)) ^ (np.uint32(0) - (words & np.uint32(1)))


def _decompressed(reader: PayloadReader, limits: VectorLimits) -> PayloadReader:
    codec = reader.byte()
    check_codec(codec, f"{reader.name}: byte {reader.position + reader.shift - 1}")
    raw_length = reader.uleb32()
    if raw_length > limits.max_message_bytes:
        reader.fail("LimitExceeded", f"unpacks to {raw_length:,} bytes, the limit is {limits.max_message_bytes:,}")
    raw = unpack(reader.take(reader.remaining), codec, raw_length, reader.where())
    return PayloadReader(raw, f"{reader.name}, unpacked payload", planes=bool(codec & PLANES))


def _read_indices(reader: PayloadReader, form: Format, limits: VectorLimits) -> tuple[int, Words]:
    if form is Format.DENSE:
        dims = reader.dims(limits)
        # Before memory is taken for the indices: no mode has less than half a byte for a value.
        if dims > 2 * reader.remaining:
            reader.fail("Truncated", f"{dims} values wanted, {reader.remaining} bytes left")
        return dims, np.arange(dims, dtype=np.uint32)
    count = reader.uleb32()
    dims = reader.dims(limits)
    if count > dims:
        reader.fail("IndexOutOfRange", f"{count} changes or runs in {dims} dimensions")
    if form is Format.SPARSE:
        return dims, reader.gaps(count, dims)
    starts, lengths = reader.runs(count, dims)
    total = int(lengths.sum(dtype=np.int64))
    if total > 2 * reader.remaining:
        reader.fail("Truncated", f"{total} values wanted, {reader.remaining} bytes left")
    return dims, members(starts, lengths)


def _read_dictionary(
    reader: PayloadReader, has_prev: bool, dictionaries: Dictionaries, limits: VectorLimits
) -> tuple[VectorDelta, DictionaryReference]:
    reference = DictionaryReference(reader.uleb64(), reader.uleb32(), reader.uleb32())
    dims = reader.dims(limits)
    present = reader.byte()
    if present & ~(SCALE | OFFSET | PATCH):
        reader.position -= 1
        reader.fail("InvalidFlags", f"parts 0x{present:02x} of a dictionary payload are not known")
    scale = _read_finite(reader) if present & SCALE else None
    offset = _read_finite(reader) if present & OFFSET else None
    patch_indices = patch_words = np.zeros(0, np.uint32)
    if present & PATCH:
        count = reader.uleb32()
        if count > dims:
            reader.fail("IndexOutOfRange", f"{count} patched dimensions of {dims}")
        patch_indices = reader.gaps(count, dims)
        patch_words = reader.words(count)
    prev = reader.words(reader.uleb32()) if has_prev else None
    reader.end()
    pattern = look_up(dictionaries, reference, dims, reader.where())
    base = VectorDelta(dims, pattern.indices, _moved(pattern, scale, offset))
    delta = base.then(VectorDelta(dims, patch_indices, patch_words))
    if prev is not None and len(prev) != len(delta.indices):
        reader.fail("MalformedPayload", f"{len(prev)} previous values for {len(delta.indices)} dimensions")
    return VectorDelta(dims, delta.indices, delta.words, prev=prev), reference


def _read_finite(reader: PayloadReader) -> float:
    at = reader.position
    value: float = struct.unpack("<f", reader.take(4))[0]
    if not math.isfinite(value):
        reader.position = at
        reader.fail("InvalidQuantization", "scale or offset of a pattern is not finite")
    return value


def _moved(pattern: Pattern, scale: float | None, offset: float | None) -> Words:
    if scale is None and offset is None:
        return pattern.words
    # Two operations in f64 and one rounding: a fused multiply-add would give other bits.
    with np.errstate(all="ignore"):
        product = pattern.words.view(np.float32).astype(np.float64) * (1.0 if scale is None else scale)
        moved = product + (0.0 if offset is None else offset)
        return moved.astype(np.float32).view(np.uint32)
