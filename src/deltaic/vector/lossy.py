"""Lossy columns: what is sent of vectors of which some precision may go, and what readers have afterwards.

The comparison is always with what readers have (vector-delta.md, "drift and refresh"), so that errors never add up.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from deltaic.state.vector_column import Ordinals
from deltaic.wire.vectors import EncodeOptions, apply_batch

Matrix = NDArray[np.float32]


def exact_frames(matrix: Matrix, ordinals: Ordinals, options: EncodeOptions) -> Iterator[bytes]:
    """Frames of whole vectors: quantized where that gives every bit back, as float32 elsewhere."""
    from deltaic.vector.part_write import dense_frames, lossless_of

    packed = b"".join(dense_frames(matrix, ordinals, replace(options, max_quant_error=None)))
    back = apply_batch(packed, np.zeros_like(matrix), row_ids=ordinals)
    same = (back.view(np.uint32) == matrix.view(np.uint32)).all(axis=1)
    if same.all():
        yield packed
        return
    if same.any():
        yield from dense_frames(matrix[same], ordinals[same], options)
    yield from dense_frames(matrix[~same], ordinals[~same], lossless_of(options))
