"""The frames of vector parts: how many rows each has, whole vectors as dense rows, packing without loss."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from deltaic.state.vector_column import Ordinals
from deltaic.wire.vectors import FRAME_OPTIONS, EncodeOptions, encode_frames

Matrix = NDArray[np.float32]

FRAME_VALUE_BYTES = 1 << 20
"""What the rows of one frame take before compression, about: a reader needs little beside the column itself."""


def frame_rows(dimensions: int) -> int:
    """How many rows a frame has at most."""
    return max(1, FRAME_VALUE_BYTES // (4 * dimensions))


def dense_frames(matrix: Matrix, ordinals: Ordinals, options: EncodeOptions) -> Iterator[bytes]:
    """Frames with whole vectors, absolute; quantized if that is asked for."""
    # Against the opposite of every bit all dimensions differ: the smallest form is dense.
    opposite = (~matrix.view(np.uint32)).view(np.float32)
    yield from encode_frames(opposite, matrix, ordinals, options=replace(options, relative=False, epsilon=0.0))


def lossless_of(options: EncodeOptions) -> EncodeOptions:
    """The same packing without any loss."""
    return replace(FRAME_OPTIONS, compression=options.compression, level=options.level)
