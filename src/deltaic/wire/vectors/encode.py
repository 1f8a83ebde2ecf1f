"""Making messages: which dimensions changed, which format is the smallest (vector-delta.md, "choosing a format").

The same vectors and options give the same bytes everywhere, compression aside.
"""

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import vectors
from deltaic.wire.vectors.blocks import Block, Part, make_block, plain_block
from deltaic.wire.vectors.bounds import DEFAULT_VECTOR_LIMITS
from deltaic.wire.vectors.codecs import CODEC_NUMBERS, PLANES, Packing, pack, planes
from deltaic.wire.vectors.delta import Vector, VectorDelta, patterns_of
from deltaic.wire.vectors.dictionary import Dictionary
from deltaic.wire.vectors.faults import misuse
from deltaic.wire.vectors.heads import members, runs_of, write_heads
from deltaic.wire.vectors.message import MAGIC, PATCH, zigzag
from deltaic.wire.vectors.options import DEFAULT_OPTIONS, EncodeOptions, Flag, Format, Mode, NonFinite
from deltaic.wire.vectors.payload import uleb, ulebs

Words = NDArray[np.uint32]
_HEADER = struct.Struct("<2sBBBI")


def encode_message(
    old: Vector, new: Vector, options: EncodeOptions = DEFAULT_OPTIONS, *, dictionary: Dictionary | None = None
) -> bytes:
    """The message that leads from one vector to the other.

    Args:
        old: the vector that the reader has, float32. With a lossy option that is not what the writer had: see
            `VectorWriter`.
        new: the vector that it should have.
        options: what counts as a change, what may be lost, how the format is chosen.
        dictionary: a published version that the reader has too.

    Raises:
        InputError: `DimensionMismatch`, `InvalidDims`, `LimitExceeded`, or `NonFinite` where that is asked for.
    """
    before, after = patterns_of(old, "the old vector"), patterns_of(new, "the new vector")
    check_vectors(before, after, new, options)
    dims = len(before)
    starts, lengths = vectors.changed_runs(before, after, options.epsilon)
    if not len(starts):
        return encode_delta(VectorDelta.identity(dims))
    indices = members(starts, lengths)
    few, whole = after[indices], after
    if options.relative:
        few, whole = zigzag(few - before[indices]), zigzag(whole - before)
    few_block = make_block(few, options.value_mode, options.max_quant_error)
    whole_block = make_block(whole, options.value_mode, options.max_quant_error)
    heads = write_heads(dims, starts, lengths)
    prev_bytes = 4 if options.has_prev else 0
    sparse_size = len(heads.sparse) + few_block.size_bytes + prev_bytes * len(indices)
    runs_size = len(heads.runs) + few_block.size_bytes + prev_bytes * len(indices)
    dense_size = len(heads.dense) + whole_block.size_bytes + prev_bytes * dims
    form = Format(vectors.choose(dense_size, runs_size, sparse_size, options.thresholds, len(indices), dims, lengths))
    head = (heads.sparse, heads.dense, heads.runs)[form]
    block = whole_block if form is Format.DENSE else few_block
    prev = before if form is Format.DENSE else before[indices]
    parts = _parts(head, block, prev if options.has_prev else None)
    if dictionary is not None and not options.relative and not options.value_mode:
        from_dictionary = _dictionary_parts(dictionary, dims, indices, few, before if options.has_prev else None)
        if from_dictionary is not None and _size(from_dictionary) < _size(parts):
            form, block, parts = Format.DICTIONARY, few_block, from_dictionary
    return assemble(options.relative, form, _flags(block, options.has_prev), parts, options)


def encode_delta(delta: VectorDelta, options: EncodeOptions = DEFAULT_OPTIONS) -> bytes:
    """The canonical message of a delta: dense if it has all dimensions, else the smaller of runs and sparse.

    Of the options only compression counts: a delta is written without loss, with the previous values that it has.
    """
    if delta.is_identity:
        return assemble(False, Format.SPARSE, 0, [(uleb(0) + uleb(delta.dims), 1)], options)
    heads = write_heads(delta.dims, *runs_of(delta.indices))
    if len(delta.indices) == delta.dims:
        form, head = Format.DENSE, heads.dense
    elif len(heads.runs) <= len(heads.sparse):
        form, head = Format.RUNS, heads.runs
    else:
        form, head = Format.SPARSE, heads.sparse
    block = plain_block(zigzag(delta.words) if delta.relative else delta.words)
    prev = None if delta.relative else delta.prev
    parts = _parts(head, block, prev)
    return assemble(delta.relative, form, _flags(block, prev is not None), parts, options)


def refresh_message(new: Vector, options: EncodeOptions = DEFAULT_OPTIONS) -> bytes:
    """A full refresh: dense, absolute, without loss."""
    words = patterns_of(new, "the new vector")
    check_vectors(words, words, new, options)
    return encode_delta(VectorDelta(len(words), np.arange(len(words), dtype=np.uint32), words), options)


def check_vectors(before: Words, after: Words, new: Vector, options: EncodeOptions) -> None:
    """Refuse vectors that no message can be made of."""
    if len(before) != len(after):
        raise misuse("DimensionMismatch", f"a vector of {len(before)} dimensions became one of {len(after)}")
    if not len(before):
        raise misuse("InvalidDims", "a vector without dimensions")
    if len(before) > DEFAULT_VECTOR_LIMITS.max_dims:
        limit = DEFAULT_VECTOR_LIMITS.max_dims
        raise misuse("LimitExceeded", f"a vector of {len(before):,} dimensions, the limit is {limit:,}")
    if options.non_finite is NonFinite.REJECT:
        wrong = np.flatnonzero(~np.isfinite(new))
        if len(wrong):
            raise misuse("NonFinite", f"dimension {wrong[0]} of the new vector is {new[wrong[0]]}")


def assemble(relative: bool, form: Format, flags: int, parts: Sequence[Part], options: EncodeOptions) -> bytes:
    """A message from the parts of its payload, compressed if that is asked for and helps."""
    stored = b"".join(data for data, _ in parts)
    if options.compression is not Packing.NONE and len(stored) >= options.compress_min:
        packed = _packed(stored, parts, options)
        if len(packed) < len(stored):
            stored, flags = packed, flags | Flag.COMPRESSED
    version, flags = (2, flags | Flag.RELATIVE) if relative else (1, flags)
    body = _HEADER.pack(MAGIC, version, form, flags, len(stored)) + stored
    return body + zlib.crc32(body).to_bytes(4, "little")


def _packed(raw: bytes, parts: Sequence[Part], options: EncodeOptions) -> bytes:
    number, length = CODEC_NUMBERS[options.compression], uleb(len(raw))
    plain = bytes([number]) + length + pack(raw, options.compression, options.level)
    if all(width == 1 for _, width in parts):
        return plain
    turned = b"".join(planes(data, width) for data, width in parts)
    filtered = bytes([number | PLANES]) + length + pack(turned, options.compression, options.level)
    return min(plain, filtered, key=len)


def _parts(head: bytes, block: Block, prev: Words | None) -> list[Part]:
    parts: list[Part] = [(head, 1), *block.parts]
    return parts if prev is None else [*parts, (prev.tobytes(), 4)]


def _flags(block: Block, has_prev: bool) -> int:
    quantized = 0 if block.mode is Mode.F32 else Flag.QUANTIZED | block.mode << 4
    return int(quantized | (Flag.HAS_PREV if has_prev else 0))


def _size(parts: Sequence[Part]) -> int:
    return sum(len(data) for data, _ in parts)


def _dictionary_parts(
    dictionary: Dictionary, dims: int, indices: Words, words: Words, before: Words | None
) -> list[Part] | None:
    if dictionary.dims != dims:
        raise misuse("DimensionMismatch", f"vectors of {dims} dimensions, a dictionary of {dictionary.dims}")
    match = dictionary.closest(indices, words)
    if match is None:
        return None
    pattern_id, other = match
    numbers = uleb(dictionary.dict_id) + uleb(dictionary.version) + uleb(pattern_id) + uleb(dims)
    parts: list[Part] = [(numbers + bytes([PATCH if len(other) else 0]), 1)]
    if len(other):
        gaps = np.diff(indices[other], prepend=np.uint32(0))
        parts += [(uleb(len(other)) + ulebs(gaps), 1), (words[other].tobytes(), 4)]
    if before is not None:
        parts += [(uleb(len(indices)), 1), (before[indices].tobytes(), 4)]
    return parts
