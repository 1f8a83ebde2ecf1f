"""Value blocks: patterns, zigzag words, or values with fewer bits (vector-delta.md, "value blocks").

A block that a mode cannot hold is written as f32: data is never damaged to satisfy an option.
"""

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import vectors
from deltaic.wire.vectors.options import Mode
from deltaic.wire.vectors.payload import PayloadReader

Words = NDArray[np.uint32]
Part = tuple[bytes, int]
"""Bytes of a payload and the width of the words in them, 1 for bytes that the filter leaves alone."""

_PARAMETERS = struct.Struct("<fi")
_AUTO = (Mode.INT4, Mode.INT8, Mode.F16)


@dataclass(frozen=True, slots=True)
class Block:
    """Values as they are stored."""

    mode: Mode
    parts: tuple[Part, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the block."""
        return sum(len(data) for data, _ in self.parts)

    def __bytes__(self) -> bytes:
        return b"".join(data for data, _ in self.parts)


def plain_block(words: Words) -> Block:
    """Words as they are."""
    return Block(Mode.F32, ((words.tobytes(), 4),))


def quantized_block(words: Words, mode: Mode) -> Block | None:
    """The values in a mode; None if it cannot hold them."""
    made = vectors.quantize(words, mode)
    if made is None:
        return None
    data, scale, zero_point = made
    if mode is Mode.F16:
        return Block(mode, ((data.tobytes(), 2),))
    return Block(mode, ((_PARAMETERS.pack(scale, zero_point), 1), (data.tobytes(), 1)))


def make_block(words: Words, value_mode: int, most_error: float | None) -> Block:
    """The values in the mode that is asked for, or that `auto` finds, or as f32."""
    if value_mode < len(Mode):
        return (quantized_block(words, Mode(value_mode)) if value_mode else None) or plain_block(words)
    for mode in _AUTO:
        if vectors.block_size(len(words), mode) >= 4 * len(words):
            continue
        block = quantized_block(words, mode)
        if block is not None and worst_error(words, block) <= (most_error or 0.0):
            return block
    return plain_block(words)


def worst_error(words: Words, block: Block) -> float:
    """The largest distance of a value from what its block gives back."""
    if block.mode is Mode.F32:
        return 0.0
    back = read_block(PayloadReader(bytes(block), "block"), len(words), block.mode)
    before, after = words.view(np.float32), back.view(np.float32)
    finite = np.isfinite(before)
    distance = np.abs(before[finite].astype(np.float64) - after[finite].astype(np.float64))
    return float(distance.max(initial=0.0))


def read_block(reader: PayloadReader, count: int, mode: Mode) -> Words:
    """Read the values of a block as patterns; exact, so that every reader gets the same."""
    if mode is Mode.F32:
        return reader.words(count)
    counts = np.array([count], np.int64)
    none = np.zeros(1, np.float32), np.zeros(1, np.int32)
    if mode is Mode.F16:
        return vectors.dequantize_rows(reader.halves(count), counts, *none, mode)[0]
    start = reader.position
    parameters = np.frombuffer(reader.take(8), np.uint32)
    size = count if mode is Mode.INT8 else (count + 1) // 2
    data = np.frombuffer(reader.take(size), np.uint8)
    scale, zero_point = parameters[:1].view(np.float32), parameters[1:].view(np.int32)
    words, wrong = vectors.dequantize_rows(data, counts, scale.copy(), zero_point.copy(), mode)
    if wrong >= 0:
        reader.position = start
        reader.fail("InvalidQuantization", "scale, zero point or values of a quantized block cannot be")
    return words
