from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = tuple[
    NDArray[Any] | None, NDArray[np.bool_] | None, NDArray[Any] | None, NDArray[Any] | None, NDArray[np.uint8] | None
]

def serialize_rows(
    kinds: NDArray[np.uint8], sources: Sequence[tuple[int, Sequence[Column]]]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]: ...
def gather_ranges(
    data: NDArray[np.uint8], starts: NDArray[Any], ends: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]: ...
def interleave(offsets: Sequence[NDArray[np.int64]], records: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]: ...
