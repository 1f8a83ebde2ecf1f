import numpy as np
from numpy.typing import NDArray

def patch_records(
    target: NDArray[np.uint8], stride_bits: int, ordinals: NDArray[np.int64], source: NDArray[np.uint8]
) -> None: ...
def clear_records(target: NDArray[np.uint8], stride_bits: int, ordinals: NDArray[np.int64]) -> None: ...
def copy_runs(
    target: NDArray[np.uint8],
    source: NDArray[np.uint8],
    unit_bits: int,
    target_starts: NDArray[np.int64],
    source_starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> None: ...
def shift_fields(
    source: NDArray[np.uint8],
    target: NDArray[np.uint8],
    stride_bits: int,
    count: int,
    offsets: NDArray[np.int64],
    widths: NDArray[np.int64],
    events: NDArray[np.int64],
    shifts: NDArray[np.int64],
) -> None: ...
