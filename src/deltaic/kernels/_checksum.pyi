import numpy as np
from numpy.typing import NDArray

def object_shard(
    checksum: int,
    shard_number: int,
    shard_count: int,
    records: NDArray[np.uint8],
    bits_per_record: int,
    field_offsets: NDArray[np.int64],
    field_widths: NDArray[np.int64],
    field_kinds: NDArray[np.uint8],
    variable: list[NDArray[np.uint8] | None],
    populated: NDArray[np.uint64],
    max_ordinal: int,
) -> int: ...
def list_shard(
    checksum: int,
    shard_number: int,
    shard_count: int,
    pointers: NDArray[np.uint8],
    bits_per_pointer: int,
    elements: NDArray[np.uint8],
    bits_per_element: int,
    total_elements: int,
    populated: NDArray[np.uint64],
    max_ordinal: int,
) -> int: ...
def set_shard(
    checksum: int,
    shard_number: int,
    shard_count: int,
    pointers: NDArray[np.uint8],
    bits_per_pointer: int,
    bits_per_size: int,
    buckets: NDArray[np.uint8],
    bits_per_element: int,
    total_buckets: int,
    populated: NDArray[np.uint64],
    max_ordinal: int,
) -> int: ...
def map_shard(
    checksum: int,
    shard_number: int,
    shard_count: int,
    pointers: NDArray[np.uint8],
    bits_per_pointer: int,
    bits_per_size: int,
    buckets: NDArray[np.uint8],
    bits_per_key: int,
    bits_per_value: int,
    total_buckets: int,
    populated: NDArray[np.uint64],
    max_ordinal: int,
) -> int: ...
