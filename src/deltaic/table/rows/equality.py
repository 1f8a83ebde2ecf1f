"""Equal rows, by columns: every row gets a number, and two rows have one number if all their values are the same.

The same is bit by bit: null is null, a NaN is itself, and -0.0 is not 0.0, so that a row which a rewrite copied is
always found again. Nested values count too: the numbers of a list's elements, as bytes, are a text again.
"""

import secrets
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaic.table.split.vectors import null_element

Codes: TypeAlias = NDArray[np.int64]

_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_HASHED_BYTES = 32
"""Texts of one width from here on are told apart by hashes first; only those with one hash are compared."""
_BLOCK_ROWS = 4096
_BITS = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def row_codes(rows: Any, names: Sequence[str] | None = None) -> Codes:
    """A number for each row of an Arrow table; equal rows have equal numbers, counted from 0."""
    chosen = rows.column_names if names is None else names
    found = np.zeros(rows.num_rows, np.int64)
    for name in chosen:
        found = _joined(found, value_codes(rows.column(name)))
    return found


def value_codes(values: Any) -> Codes:
    """A number for each value of an Arrow array."""
    if isinstance(values, pa.ChunkedArray):
        wide = _LARGE.get(values.type)
        # Together, the chunks of a column of texts may be more than 32-bit offsets reach.
        values = (values if wide is None else values.cast(wide)).combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    kind = values.type
    kinds = pa.types
    if kinds.is_dictionary(kind):
        return value_codes(values.dictionary_decode())
    if kinds.is_struct(kind):
        found = _validity(values)
        for place in range(kind.num_fields):
            # Flattened children are null wherever the struct is.
            found = _joined(found, value_codes(values.flatten()[place]))
        return found
    if kinds.is_fixed_size_list(kind):
        return _fixed_list_codes(values)
    if kinds.is_map(kind) or kinds.is_list(kind) or kinds.is_large_list(kind):
        return _list_codes(values)
    if kinds.is_floating(kind):
        values = values.view(_BITS[kind.bit_width])
    elif kind in (pa.string_view(), pa.binary_view()):
        values = values.cast(pa.large_binary())
    elif kinds.is_decimal(kind) or kinds.is_fixed_size_binary(kind):
        width = kind.byte_width
        values = values.view(pa.binary(width)).cast(pa.large_binary())
    elif kinds.is_null(kind):
        return np.zeros(len(values), np.int64)
    return _dictionary_codes(values)


def _dictionary_codes(values: Any) -> Codes:
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def _validity(values: Any) -> Codes:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.int64)


def _list_codes(values: Any) -> Codes:
    """Lists of equal elements: the elements' numbers, as bytes, are one text for each list."""
    if pa.types.is_map(values.type):
        entries = pa.StructArray.from_arrays(
            [values.keys, values.items],
            fields=[pa.field("key", values.keys.type), pa.field("value", values.items.type)],
        )
        # `keys` and `items` leave the array's offset out of account, as `offsets` does.
        offsets = np.asarray(values.offsets.to_numpy(), np.int64)
        inner = value_codes(entries)
    else:
        offsets = np.asarray(values.offsets.to_numpy(), np.int64)
        inner = value_codes(values.values)
    return _sequence_codes(inner, offsets[:-1], offsets[1:], values)


def _fixed_list_codes(values: Any) -> Codes:
    size = values.type.list_size
    element = values.type.value_type
    if _is_whole_bytes(element) and len(values) and null_element(values) is None:
        # Bytes of a fixed width, so a whole list is one text: vectors are compared at the speed of memory.
        width = size * element.bit_width // 8
        elements = values.values
        start = (elements.offset + values.offset * size) * element.bit_width // 8
        data = elements.buffers()[1].slice(start, len(values) * width)
        valid = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), bool)
        # What a null list points at does not count.
        return _joined(np.where(valid, _bytes_codes(data, len(values), width), 0), valid.astype(np.int64))
    inner = value_codes(values.values)
    starts = (np.arange(len(values), dtype=np.int64) + values.offset) * size
    return _sequence_codes(inner, starts, starts + size, values)


def _bytes_codes(data: Any, count: int, width: int) -> Codes:
    """Numbers of texts of one width."""
    if width % 4 == 0 and width >= _HASHED_BYTES:
        rows = np.frombuffer(data, np.uint32).reshape(count, width // 4)
        _, first, codes = np.unique(_row_hashes(rows), return_index=True, return_inverse=True)
        if _all_equal(rows, first[codes]):
            return codes.astype(np.int64)
    offsets = np.arange(count + 1, dtype=np.int64) * width
    texts = pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), data])
    return _dictionary_codes(texts)


def _row_hashes(rows: NDArray[np.uint32]) -> NDArray[np.uint64]:
    keys = np.frombuffer(secrets.token_bytes(8 * rows.shape[1]), np.uint64) | np.uint64(1)
    found = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), _BLOCK_ROWS):
        found[start : start + _BLOCK_ROWS] = rows[start : start + _BLOCK_ROWS].astype(np.uint64) @ keys
    return found


def _all_equal(rows: NDArray[np.uint32], others: Codes) -> bool:
    """Whether each row is the same as another one of them."""
    places = np.flatnonzero(others != np.arange(len(rows)))
    for start in range(0, len(places), _BLOCK_ROWS):
        here = places[start : start + _BLOCK_ROWS]
        if not np.array_equal(rows[here], rows[others[here]]):
            return False
    return True


def _is_whole_bytes(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _sequence_codes(inner: Codes, starts: Codes, ends: Codes, values: Any) -> Codes:
    if len(values) == 0:
        return np.zeros(0, np.int64)
    valid = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), bool)
    lengths = np.where(valid, ends - starts, 0)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    # What a null list points at does not count.
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(int(offsets[-1]), dtype=np.int64)
    chosen = np.ascontiguousarray(inner[places])
    texts = pa.Array.from_buffers(
        pa.large_binary(), len(values), [None, pa.py_buffer(offsets * 8), pa.py_buffer(chosen)]
    )
    return _joined(_dictionary_codes(texts), valid.astype(np.int64))


def _joined(left: Codes, right: Codes) -> Codes:
    """One number for two."""
    if len(left) == 0:
        return left
    width = int(right.max()) + 1
    if width == 1:
        return left
    found: Codes = np.unique(left * width + right, return_inverse=True)[1].astype(np.int64)
    return found


def ranks(codes: Codes) -> Codes:
    """For each place how often its number stood before: 0 for the first of its kind."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.ones(len(codes), bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    first = np.maximum.accumulate(np.where(starts, np.arange(len(codes)), 0)) if len(codes) else np.zeros(0, np.int64)
    found = np.empty(len(codes), np.int64)
    found[order] = np.arange(len(codes)) - first
    return found


def matched(left: Codes, right: Codes) -> tuple[Codes, Codes]:
    """Pairs of places with equal numbers, each place in one pair at most: the n-th of a kind with the n-th."""
    most = max(int(left.max(initial=-1)), int(right.max(initial=-1))) + 1
    left_keys, right_keys = ranks(left) * most + left, ranks(right) * most + right
    _, left_places, right_places = np.intersect1d(left_keys, right_keys, assume_unique=True, return_indices=True)
    order = np.argsort(left_places, kind="stable")
    return left_places[order].astype(np.int64), right_places[order].astype(np.int64)


def codes_of_both(left: Any, right: Any, names: Sequence[str] | None = None) -> tuple[Codes, Codes]:
    """The numbers of the rows of two tables of one schema, comparable between them."""
    chosen = left.column_names if names is None else list(names)
    both = pa.concat_tables([left.select(chosen), right.select(chosen)])
    codes = row_codes(both)
    return codes[: left.num_rows], codes[left.num_rows :]
