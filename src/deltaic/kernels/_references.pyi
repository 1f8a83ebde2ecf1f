import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.uint32]
Offsets = NDArray[np.int64]

def scan_references(data: Bytes, start: int, count: int) -> tuple[int, int, int]: ...
def fill_references(
    data: Bytes,
    start: int,
    indexes: Numbers,
    offsets: Offsets,
    types: Bytes,
    starts: Offsets,
    ends: Offsets,
    bounds: Offsets,
) -> None: ...
def write_references(
    indexes: Numbers, offsets: Offsets, types: Bytes, starts: Offsets, ends: Offsets, data: Bytes, out: Bytes
) -> None: ...
def parameter_numbers(data: Bytes, types: Bytes, starts: Offsets) -> tuple[Offsets, Offsets]: ...
def encode_numbers(values: Numbers) -> tuple[Offsets, Bytes]: ...
def decode_numbers(data: Bytes, start: int, values: Numbers) -> tuple[int, int]: ...
