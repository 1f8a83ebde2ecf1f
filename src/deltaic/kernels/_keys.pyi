from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels._access import StateAccess
from deltaic.kernels.content import KeyPath

_Column = tuple[NDArray[np.int64], NDArray[np.uint8] | None]
_Table = tuple[NDArray[np.uint64], NDArray[np.uint64] | None, bool]
_Finder = tuple[StateAccess, int, tuple[KeyPath, ...], tuple[_Table, ...]]

def fill_table(
    hashes: NDArray[np.int32], entries: NDArray[np.int64] | None, valid: NDArray[np.bool_] | None, size: int
) -> NDArray[np.uint64]: ...

def number_table(
    state: StateAccess, number: int, position: int, words: NDArray[np.uint64], size: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64], bool]: ...

class KeyFinder:
    def __init__(
        self,
        state: StateAccess,
        number: int,
        paths: tuple[KeyPath, ...],
        tables: tuple[_Table, ...],
    ) -> None: ...
    def _finder(self) -> _Finder: ...
    def _prepare(self) -> None: ...
    def ordinal(self, key: object) -> int: ...
    def ordinals(self, key: object) -> list[int]: ...
    def __getitem__(self, key: object) -> Any: ...
    def get(self, key: object, default: Any = None) -> Any: ...
    def __contains__(self, key: object) -> bool: ...
    def find_columns(
        self, columns: tuple[_Column, ...], valid: NDArray[np.bool_] | None, count: int
    ) -> NDArray[np.int64]: ...
    def first_of(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]: ...

def group_rows(
    hashes: NDArray[np.int32], columns: tuple[_Column, ...], codes: tuple[int, ...]
) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int64]]: ...
def group_members(
    groups: NDArray[np.int32],
    group_count: int,
    roots: NDArray[np.int32],
    selected: NDArray[np.int32] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32] | None]: ...

class GroupFinder:
    def __init__(
        self,
        table: NDArray[np.uint64],
        columns: tuple[_Column, ...],
        codes: tuple[int, ...],
        offsets: NDArray[np.int64],
        members: NDArray[np.int32],
    ) -> None: ...
    def find(self, values: tuple[object, ...]) -> int: ...
    def members(self, values: tuple[object, ...]) -> NDArray[np.int64]: ...
    def find_columns(
        self, columns: tuple[_Column, ...], valid: NDArray[np.bool_] | None, count: int
    ) -> NDArray[np.int64]: ...

def collect(
    groups: NDArray[np.int64],
    offsets: NDArray[np.int64],
    members: NDArray[np.int32],
    owners: NDArray[np.int32] | None,
    stale: NDArray[np.uint64] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def points_into(
    state: StateAccess, number: int, position: int, parents: NDArray[np.uint64], touched: NDArray[np.uint64]
) -> bool: ...
def encode_texts(
    texts: list[Any],
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.bool_] | None]: ...
def lower_ascii(data: NDArray[np.uint8]) -> NDArray[np.uint8]: ...
def sort_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> NDArray[np.int64]: ...
def text_place(offsets: NDArray[np.int64], data: NDArray[np.uint8], wanted: bytes, behind: int) -> int: ...
def split_texts(
    offsets: NDArray[np.int64], data: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
