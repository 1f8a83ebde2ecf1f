from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Columns = dict[tuple[int, int], NDArray[Any]]
Patterns = tuple[NDArray[np.int64], Words, Words, Words]

def changed_runs(old: Words, new: Words, epsilon: float) -> tuple[Words, Words]: ...
def encode_rows(
    old: NDArray[np.uint32],
    new: NDArray[np.uint32],
    row_ids: NDArray[np.int64],
    epsilon: float,
    thresholds: tuple[float, float, float, int] | None,
    mode: int,
    most_error: float,
    prev: bool,
    relative: bool,
    patterns: Patterns | None,
) -> list[Columns]: ...
def choose(
    dense_size: int,
    runs_size: int,
    sparse_size: int,
    thresholds: tuple[float, float, float, int] | None,
    count: int,
    dims: int,
    lengths: Words,
) -> int: ...
def uleb_length(value: int) -> int: ...
def block_size(count: int, mode: int) -> int: ...
def quantize(words: Words, mode: int) -> tuple[NDArray[Any], np.float32, int] | None: ...
def dequantize_rows(
    data: NDArray[Any], counts: NDArray[np.int64], scale: NDArray[np.float32], zero_point: NDArray[np.int32], mode: int
) -> tuple[Words, int]: ...
def read_gaps(data: NDArray[np.uint8], start: int, count: int, dims: int) -> tuple[Words, int, int]: ...
def read_runs(data: NDArray[np.uint8], start: int, count: int, dims: int) -> tuple[Words, Words, int, int]: ...
def check_gaps(offsets: NDArray[np.int64], gaps: NDArray[Any], dims: int) -> tuple[int, int]: ...
def check_runs(
    offsets: NDArray[np.int64], gaps: NDArray[Any], lengths: NDArray[Any], dims: int
) -> tuple[NDArray[np.int64], int, int]: ...
def indices_of_gaps(offsets: NDArray[np.int64], gaps: NDArray[Any]) -> Words: ...
def indices_of_runs(offsets: NDArray[np.int64], gaps: NDArray[Any], lengths: NDArray[Any]) -> Words: ...
def apply_sparse(
    matrix: NDArray[np.uint32],
    targets: NDArray[np.int64],
    offsets: NDArray[np.int64],
    gaps: NDArray[Any],
    words: Words,
    relative: bool,
) -> None: ...
def apply_runs(
    matrix: NDArray[np.uint32],
    targets: NDArray[np.int64],
    offsets: NDArray[np.int64],
    gaps: NDArray[Any],
    lengths: NDArray[Any],
    words: Words,
    relative: bool,
) -> None: ...
def apply_dense(matrix: NDArray[np.uint32], targets: NDArray[np.int64], words: Words, relative: bool) -> None: ...
def differs_sparse(
    matrix: NDArray[np.uint32],
    targets: NDArray[np.int64],
    offsets: NDArray[np.int64],
    gaps: NDArray[Any],
    prev: Words,
) -> int: ...
def differs_runs(
    matrix: NDArray[np.uint32],
    targets: NDArray[np.int64],
    offsets: NDArray[np.int64],
    gaps: NDArray[Any],
    lengths: NDArray[Any],
    prev: Words,
) -> int: ...
def to_planes(data: NDArray[np.uint8], width: int) -> NDArray[np.uint8]: ...
def from_planes(data: NDArray[np.uint8], width: int) -> NDArray[np.uint8]: ...
