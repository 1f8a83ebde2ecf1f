from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ends = NDArray[np.int64]
Ordinals = NDArray[np.int32]
Column = tuple[NDArray[np.uint64], Bytes, Ends, Bytes]

def serialize_objects(kinds: Bytes, columns: Sequence[Column], count: int) -> tuple[Bytes, Ends]: ...
def serialize_lists(offsets: Ends, elements: Ordinals) -> tuple[Bytes, Ends]: ...
def serialize_sets(offsets: Ends, elements: Ordinals, hashes: Ordinals, buckets: int) -> tuple[Bytes, Ends]: ...
def serialize_maps(
    offsets: Ends, keys: Ordinals, values: Ordinals, hashes: Ordinals, buckets: int
) -> tuple[Bytes, Ends]: ...
def project_objects(data: Bytes, ends: Ends, kinds: Bytes, fields: NDArray[np.int64]) -> tuple[Bytes, Ends]: ...
def strip_buckets(data: Bytes, ends: Ends, per_entry: int) -> tuple[Bytes, Ends]: ...
def first_bad_object(data: Bytes, ends: Ends, kinds: Bytes) -> int: ...
def first_bad_collection(data: Bytes, ends: Ends, per_entry: int, buckets: int) -> int: ...
def sort_records(data: Bytes, ends: Ends, rows: NDArray[np.int64]) -> NDArray[np.int64]: ...
def object_statistics(
    arena: Bytes,
    starts: Ends,
    ordinals: Ordinals,
    kinds: Bytes,
    sign: int,
    widths: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None: ...
def list_statistics(
    arena: Bytes,
    starts: Ends,
    ordinals: Ordinals,
    sign: int,
    element_widths: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None: ...
def set_statistics(
    arena: Bytes,
    starts: Ends,
    ordinals: Ordinals,
    sign: int,
    element_widths: NDArray[np.int64],
    size_widths: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None: ...
def map_statistics(
    arena: Bytes,
    starts: Ends,
    ordinals: Ordinals,
    sign: int,
    key_widths: NDArray[np.int64],
    value_widths: NDArray[np.int64],
    size_widths: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None: ...
def pack_objects(
    arena: Bytes,
    starts: Ends,
    slots: Ordinals,
    kinds: Bytes,
    widths: NDArray[np.int32],
    words: Bytes,
    variable: Sequence[Bytes],
    used: NDArray[np.int64],
) -> None: ...
def pack_list_pointers(arena: Bytes, starts: Ends, slots: Ordinals, width: int, end: int, words: Bytes) -> int: ...
def pack_list_elements(
    arena: Bytes, starts: Ends, slots: Ordinals, width: int, carry: NDArray[np.uint64], words: Bytes
) -> int: ...
def pack_table_pointers(
    arena: Bytes, starts: Ends, slots: Ordinals, width: int, size_width: int, end: int, words: Bytes
) -> int: ...
def pack_set_buckets(
    arena: Bytes,
    starts: Ends,
    slots: Ordinals,
    width: int,
    hashes: Ordinals,
    carry: NDArray[np.uint64],
    words: Bytes,
) -> int: ...
def pack_map_buckets(
    arena: Bytes,
    starts: Ends,
    slots: Ordinals,
    key_width: int,
    value_width: int,
    hashes: Ordinals,
    carry: NDArray[np.uint64],
    words: Bytes,
) -> int: ...
def encode_varints(values: NDArray[np.int64]) -> Bytes: ...
def members(arena: Bytes, starts: Ends, ordinals: Ordinals, per_entry: int) -> Ordinals: ...
def follow(arena: Bytes, starts: Ends, ordinals: Ordinals, kinds: Bytes, field: int) -> Ordinals: ...
def field_ranges(arena: Bytes, starts: Ends, slots: Ordinals, kinds: Bytes, field: int) -> tuple[Ends, Ends]: ...
def key_field_hashes(
    arena: Bytes, starts: Ends, ordinals: Ordinals, kinds: Bytes, field: int
) -> tuple[Ordinals, int]: ...
def gather_ranges(data: Bytes, starts: Ends, ends: Ends) -> tuple[Ends, Bytes]: ...
def scatter_ranges(data: Bytes, offsets: Ends, target: Bytes, places: Ends) -> None: ...
def populated_slots(words: NDArray[np.uint64], first: int, stride: int, count: int) -> Ordinals: ...
