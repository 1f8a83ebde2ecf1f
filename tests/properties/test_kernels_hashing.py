"""The compiled hashing kernel and its plain twin agree on every column."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from deltaic.kernels.plain import hashing as plain

compiled = pytest.importorskip("deltaic.kernels._hashing", reason="compiled kernels are not built")

int32s = arrays.arrays(np.int32, st.integers(0, 50))
int64s = arrays.arrays(np.int64, st.integers(0, 50))
byte_columns = st.lists(st.binary(max_size=40), max_size=20)


def column(values: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(values)]
    return np.frombuffer(b"".join(values), np.uint8), starts, ends


def agree(name: str, *arguments: object) -> np.ndarray:
    result = getattr(compiled, name)(*arguments)
    twin = getattr(plain, name)(*arguments)
    assert result.dtype == twin.dtype
    np.testing.assert_array_equal(result, twin)
    return result


@given(int32s)
def test_int_hashes(values):
    hashes = agree("hash_int", values)
    assert hashes.tolist() == [compiled.hash_int_one(value) for value in values.tolist()]
    assert hashes.tolist() == [plain.hash_int_one(value) for value in values.tolist()]


@given(int64s)
def test_long_hashes(values):
    hashes = agree("hash_long", values)
    assert hashes.tolist() == [compiled.hash_long_one(value) for value in values.tolist()]


@given(byte_columns, st.randoms(use_true_random=False))
def test_hashes_of_bytes_and_texts(values, random):
    data, starts, ends = column(values)
    nulls = np.array([random.randrange(2) for _ in values], np.uint8)
    hashes = agree("bytes_hash", data, starts, ends)
    assert hashes.tolist() == [compiled.bytes_hash_one(value) for value in values]
    agree("bytes_hash", data, starts, ends, nulls)
    agree("java_hash", data, starts, ends)


@given(st.text(st.characters(exclude_categories=[])))
def test_hashes_of_one_text(text):
    assert compiled.string_hash_one(text) == plain.string_hash_one(text)
    assert compiled.java_hash_one(text) == plain.java_hash_one(text)


@given(arrays.arrays(np.int64, st.integers(0, 50), elements=st.integers(0, compiled.LARGEST_TABLE_COUNT)))
def test_table_sizes_have_room_and_are_powers_of_two(counts):
    sizes = agree("hash_table_sizes", counts)
    for count, size in zip(counts.tolist(), sizes.tolist(), strict=True):
        assert size == compiled.hash_table_size(count) == plain.hash_table_size(count)
        assert size & (size - 1) == 0
        assert size > count


@pytest.mark.parametrize("family", ["key", "index"])
@given(values=int64s, random=st.randoms(use_true_random=False))
def test_field_hashes(family, values, random):
    nulls = np.array([random.randrange(2) for _ in values], np.uint8)
    for name in ("int", "long"):
        agree(f"{family}_hash_{name}", values)
        agree(f"{family}_hash_{name}", values, nulls)
    agree(f"{family}_hash_boolean", (values & 1).astype(np.uint8), nulls)
    agree(f"{family}_hash_float", values.astype(np.uint32))
    agree(f"{family}_hash_double", values.view(np.uint64))


@given(arrays.arrays(np.float32, st.integers(0, 50)), arrays.arrays(np.float64, st.integers(0, 50)))
def test_field_hashes_of_floats(floats, doubles):
    for family in ("key", "index"):
        agree(f"{family}_hash_float", floats.view(np.uint32))
        agree(f"{family}_hash_double", doubles.view(np.uint64))


@given(arrays.arrays(np.int32, st.tuples(st.integers(1, 4), st.integers(0, 20))), st.randoms(use_true_random=False))
def test_combined_hashes(table, random):
    columns = [np.ascontiguousarray(row) for row in table]
    agree("combine_hash_key", columns)
    agree("combine_hash_index", columns)
    agree("combine_primary_key", columns, [random.random() < 0.5 for _ in columns])
