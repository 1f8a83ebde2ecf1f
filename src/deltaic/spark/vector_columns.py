"""Columns of vectors and of vector deltas, as Arrow arrays: what the functions for DataFrames compute in their tasks.

A vector is a list of float32, a delta the message of `deltaic.wire.vectors` between two of them. Null is null: of a
vector that is not there any more there is no delta, and one that was not there before is sent whole.
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaic.errors import DecodeError, InputError
from deltaic.wire.vectors import EncodeOptions, VectorDelta, encode_message, read_message, refresh_message

Vector: TypeAlias = NDArray[np.float32]

VECTORS: Any = pa.list_(pa.field("element", pa.float32(), nullable=False))
"""The type of a column of vectors that a function gives back."""


def delta_column(old: Any, new: Any, options: EncodeOptions) -> Any:
    """For every row the message that leads from the old vector to the new one."""
    found: list[bytes | None] = []
    for row, (before, after) in enumerate(zip(vectors_of(old, "old"), vectors_of(new, "new"), strict=True)):
        if after is None:
            found.append(None)
            continue
        try:
            message = refresh_message(after, options) if before is None else encode_message(before, after, options)
        except InputError as error:
            raise InputError(f"row {row}: {error.reason}", error.code) from error
        found.append(message)
    return pa.array(found, pa.binary())


def applied_column(old: Any, deltas: Any) -> Any:
    """For every row the vector that a message makes of the old one."""
    return _column(_applied(old, deltas))


def _applied(old: Any, deltas: Any) -> Iterator[Vector | None]:
    for row, (before, message) in enumerate(zip(vectors_of(old, "old"), deltas, strict=True)):
        if not message.is_valid:
            yield None
            continue
        delta = _delta(message, row)
        if before is None:
            if delta.relative or len(delta.indices) != delta.dims:
                raise InputError(f"row {row}: the delta changes some dimensions of a vector that is null", "NoBase")
            before = np.zeros(delta.dims, np.float32)
        try:
            yield delta.apply(before)
        except InputError as error:
            raise InputError(f"row {row}: {error.reason}", error.code) from error


def quantized_column(vectors: Any, options: EncodeOptions) -> Any:
    """For every row the vector in fewer bytes: the message that leads to it from zeros."""
    found: list[bytes | None] = []
    for row, vector in enumerate(vectors_of(vectors, "vector")):
        if vector is None:
            found.append(None)
            continue
        try:
            found.append(encode_message(np.zeros(len(vector), np.float32), vector, options))
        except InputError as error:
            raise InputError(f"row {row}: {error.reason}", error.code) from error
    return pa.array(found, pa.binary())


def dequantized_column(messages: Any) -> Any:
    """For every row the vector that `quantized_column` kept."""
    return _column(_dequantized(messages))


def _dequantized(messages: Any) -> Iterator[Vector | None]:
    for row, message in enumerate(messages):
        if not message.is_valid:
            yield None
            continue
        delta = _delta(message, row)
        if delta.relative:
            raise InputError(f"row {row}: a relative delta is no vector", "NoBase")
        yield delta.apply(np.zeros(delta.dims, np.float32))


def vectors_of(column: Any, what: str) -> Iterator[Vector | None]:
    """The vectors of an array of lists, not copied.

    Raises:
        InputError: its elements are no float32, or some of them are null.
    """
    kinds = pa.types
    if isinstance(column, pa.ChunkedArray):
        for chunk in column.chunks:
            yield from vectors_of(chunk, what)
        return
    kind = column.type
    if kinds.is_null(kind):
        yield from (None for _ in range(len(column)))
        return
    if not (kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)) or (
        kind.value_type != pa.float32()
    ):
        raise InputError(f"{what}: a vector is an array<float>, not {kind}; cast it", "TypeConflict")
    if kinds.is_fixed_size_list(kind):
        starts = (np.arange(len(column) + 1, dtype=np.int64) + column.offset) * kind.list_size
    else:
        starts = np.asarray(column.offsets.to_numpy(), np.int64)
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)
    elements = column.values
    if elements.null_count:
        _refuse_null_elements(elements, starts, valid, what)
        elements = elements.fill_null(0.0)  # those that are left lie in null rows
    values = elements.to_numpy(zero_copy_only=False)
    for row in range(len(column)):
        yield values[starts[row] : starts[row + 1]] if valid[row] else None


def _refuse_null_elements(elements: Any, starts: NDArray[np.int64], valid: NDArray[np.bool_], what: str) -> None:
    nulls = np.zeros(len(elements) + 1, np.int64)
    np.cumsum(np.asarray(elements.is_null().to_numpy(zero_copy_only=False), np.int64), out=nulls[1:])
    rows = np.flatnonzero((nulls[starts[1:]] > nulls[starts[:-1]]) & valid)
    if len(rows):
        raise InputError(f"{what}, row {rows[0]}: an element of the vector is null", "BadValue")


def _delta(message: Any, row: int) -> VectorDelta:
    try:
        return read_message(message.as_py(), name=f"the delta of row {row}").delta
    except DecodeError as error:
        raise DecodeError(error.code, f"row {row}: {error.reason}", error.at) from error


def _column(vectors: Iterable[Vector | None]) -> Any:
    found = list(vectors)
    lengths = np.array([0 if each is None else len(each) for each in found], np.int64)
    offsets = np.zeros(len(found) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if int(offsets[-1]) > 2**31 - 1:
        raise InputError("a batch of vectors has more than 2,147,483,647 elements: take fewer rows")
    there = [each for each in found if each is not None]
    values = np.concatenate(there) if there else np.zeros(0, np.float32)
    mask = pa.array([each is None for each in found], pa.bool_())
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(values, pa.float32()), type=VECTORS, mask=mask
    )
