import numpy as np
from numpy.typing import NDArray

def swap_words(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> None: ...
def decode(data: NDArray[np.uint8], start_bit: int, stride_bits: int, width: int, count: int) -> NDArray[np.uint64]: ...
def gather(
    data: NDArray[np.uint8], stride_bits: int, offset_bits: int, width: int, ordinals: NDArray[np.int64]
) -> NDArray[np.uint64]: ...
def store(
    data: NDArray[np.uint8], start_bit: int, stride_bits: int, width: int, values: NDArray[np.uint64]
) -> None: ...
def pack(values: NDArray[np.uint64], width: int, data: NDArray[np.uint8], start_bit: int) -> None: ...
def scatter(
    data: NDArray[np.uint8],
    stride_bits: int,
    offset_bits: int,
    width: int,
    ordinals: NDArray[np.int64],
    values: NDArray[np.uint64],
) -> None: ...
def first_fall(
    data: NDArray[np.uint8], start_bit: int, stride_bits: int, width: int, count: int
) -> tuple[int, int]: ...
def largest(
    data: NDArray[np.uint8], start_bit: int, stride_bits: int, width: int, count: int, ones_are_null: bool
) -> int: ...
def varints(data: NDArray[np.uint8]) -> NDArray[np.int64] | None: ...
def check_buckets(
    pointers: NDArray[np.uint8],
    bits_per_pointer: int,
    bits_per_size: int,
    buckets: NDArray[np.uint8],
    bits_per_bucket: int,
    bits_per_key: int,
    count: int,
    capacity: int,
) -> tuple[int, int, int, int]: ...
