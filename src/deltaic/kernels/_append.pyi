import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ordinals = NDArray[np.int64]

def collect_fields(
    arena: Bytes, starts: Ordinals, ordinals: NDArray[np.int32], kinds: Bytes, fields: Ordinals
) -> list[tuple[int, Bytes]]: ...
def read_fixed(data: Bytes, start: int, count: int, kind: int) -> tuple[Ordinals, NDArray[np.uint64], int]: ...
def read_variable(data: Bytes, start: int, count: int) -> tuple[Ordinals, Ordinals, Ordinals, int]: ...
def first_outside(words: NDArray[np.uint64], ordinals: Ordinals) -> int: ...
def append_fields(
    source: Bytes,
    stride: int,
    count: int,
    target: Bytes,
    ordinals: list[Ordinals],
    values: list[NDArray[np.uint64]],
    widths: Ordinals,
    nulls: NDArray[np.uint64],
    ends: NDArray[np.uint8],
) -> None: ...
def differing(data: Bytes, starts: Ordinals, ends: Ordinals, other: Bytes, offsets: Ordinals) -> NDArray[np.bool_]: ...
