import numpy as np
from numpy.typing import NDArray

TEXT: int
LONG: int
BOOLEAN: int
MAP: int
TEXTS: int
NULL_FIRST: int
NULL_SECOND: int
PREFIX: int
LESS: int
EQUAL: int
GREATER: int
UNSURE: int
MISSING: int

def decode_entries(data: bytes, count: int, program: bytes) -> tuple[NDArray[np.int64], list[tuple[object, ...]]]: ...
def hash_texts(data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]: ...
def number_texts(
    data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def compare_texts(
    data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64], needle: bytes
) -> NDArray[np.int8]: ...
def parse_longs(
    data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]: ...
def parse_doubles(
    data: bytes, starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]: ...
