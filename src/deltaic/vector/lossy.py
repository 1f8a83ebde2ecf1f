"""Lossy columns: what is sent of vectors of which some precision may go, and what readers have afterwards.

The comparison is always with what readers have (vector-delta.md, "drift and refresh"), so that errors never add up:
after any number of versions a dimension is off by at most the bound of its vector's last change.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.state.vector_column import Ordinals
from deltaic.vector.frames import dense_frames, lossless_of
from deltaic.vector.storage import VectorStorage
from deltaic.wire.vectors import EncodeOptions, Quantization, apply_batch, encode_batch

Matrix = NDArray[np.float32]
Mask = NDArray[np.bool_]

_STEPS = {Quantization.INT8: 255.0, Quantization.INT4: 15.0}
_HALF_PRECISION = 2.0**-11
_SMALLEST_HALF = 2.0**-25
_ROUNDING = 2.0**-22


@dataclass(frozen=True, slots=True, eq=False)
class LossyRows:
    """What is sent of some rows, and what readers make of it."""

    frames: bytes
    result: Matrix
    quantized: Mask
    """The rows that lost something, or may have."""


def error_bounds(given: Matrix, storage: VectorStorage) -> NDArray[np.float64]:
    """The most that a dimension of each vector may be off: `max_error`, or half a step over the vector's range."""
    if storage.max_error is not None:
        return np.full(len(given), storage.max_error)
    with np.errstate(invalid="ignore", over="ignore"):
        wide = given.astype(np.float64)
        largest = np.abs(wide).max(axis=1)
        if storage.quantization is Quantization.F16:
            bounds: NDArray[np.float64] = largest * _HALF_PRECISION + _SMALLEST_HALF
            return bounds
        steps = _STEPS[Quantization(storage.quantization)]
        spread = wide.max(axis=1) - wide.min(axis=1)
        bounds = spread / steps / 2 + largest * _ROUNDING
        return bounds


def nearest_sent(have: Matrix, given: Matrix, bounds: NDArray[np.float64]) -> Matrix:
    """The given vectors, with what readers have in every dimension where that is near enough."""
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(given.astype(np.float64) - have) <= bounds[:, None]
    target = np.where(near, have.view(np.uint32), given.view(np.uint32))
    return target.view(np.float32)


def lossy_changes(have: Matrix, given: Matrix, ordinals: Ordinals, storage: VectorStorage, whole: Mask) -> LossyRows:
    """The frames that lead readers from what they have to within the bound of what is given.

    Args:
        have: what readers have.
        given: what they should have.
        ordinals: of the rows, rising.
        storage: what may be lost.
        whole: the rows that come without loss this time.
    """
    bounds = error_bounds(given, storage)
    target = nearest_sent(have, given, bounds)
    target[whole] = given[whole]
    frames, result = _tried(have, target, ordinals, storage.options, ~whole)
    exact = whole | _too_far(result, given, bounds)
    frames, result = _tried(have, target, ordinals, storage.options, ~exact)
    packed = [frames]
    if exact.any():
        changed = (have[exact].view(np.uint32) != given[exact].view(np.uint32)).any(axis=1)
        if changed.any():
            packed.append(
                encode_batch(have[exact], given[exact], ordinals[exact], options=lossless_of(storage.options))
            )
        result[exact] = given[exact]
    moved = (result.view(np.uint32) != have.view(np.uint32)).any(axis=1)
    return LossyRows(b"".join(packed), result, ~exact & moved)


def lossy_new(given: Matrix, ordinals: Ordinals, storage: VectorStorage) -> LossyRows:
    """The frames of new vectors, all of them dense rows."""
    bounds = error_bounds(given, storage)
    frames = b"".join(dense_frames(given, ordinals, storage.options))
    result = apply_batch(frames, np.zeros_like(given), row_ids=ordinals)
    exact = _too_far(result, given, bounds)
    if exact.any():
        pieces = [*dense_frames(given[exact], ordinals[exact], lossless_of(storage.options))]
        if not exact.all():
            pieces += dense_frames(given[~exact], ordinals[~exact], storage.options)
        frames = b"".join(pieces)
        result[exact] = given[exact]
    return LossyRows(frames, result, ~exact)


def exact_frames(matrix: Matrix, ordinals: Ordinals, options: EncodeOptions) -> Iterator[bytes]:
    """Frames of whole vectors: quantized where that gives every bit back, as float32 elsewhere."""
    packed = b"".join(dense_frames(matrix, ordinals, options))
    back = apply_batch(packed, np.zeros_like(matrix), row_ids=ordinals)
    same = (back.view(np.uint32) == matrix.view(np.uint32)).all(axis=1)
    if same.all():
        yield packed
        return
    if same.any():
        yield from dense_frames(matrix[same], ordinals[same], options)
    yield from dense_frames(matrix[~same], ordinals[~same], lossless_of(options))


def _tried(
    have: Matrix, target: Matrix, ordinals: Ordinals, options: EncodeOptions, chosen: Mask
) -> tuple[bytes, Matrix]:
    """The frames of the chosen rows, and all rows after them."""
    result = have.copy()
    if not chosen.any():
        return b"", result
    frames = encode_batch(have[chosen], target[chosen], ordinals[chosen], options=options)
    result[chosen] = apply_batch(frames, have[chosen], row_ids=ordinals[chosen])
    return frames, result


def _too_far(result: Matrix, given: Matrix, bounds: NDArray[np.float64]) -> Mask:
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(result.astype(np.float64) - given) <= bounds[:, None]
    near |= result.view(np.uint32) == given.view(np.uint32)
    far: Mask = np.logical_not(near.all(axis=1))
    return far
