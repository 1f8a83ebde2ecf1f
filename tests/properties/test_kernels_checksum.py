"""The compiled checksum kernel and its plain twin agree on any packed bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.kernels.plain import checksum as plain

compiled = pytest.importorskip("deltaic.kernels._checksum", reason="compiled kernels are not built")

SLACK = 16
checksums = st.integers(-(2**31), 2**31 - 1)


@st.composite
def shards(draw: st.DrawFn) -> tuple[int, int, int, np.ndarray]:
    """Shard number and count, the largest shard ordinal, and populated words that may be too many or too few."""
    count = 1 << draw(st.integers(0, 3))
    words = np.array(draw(st.lists(st.integers(0, 2**64 - 1), max_size=4)), np.uint64)
    return draw(st.integers(0, count - 1)), count, draw(st.integers(-1, 40)), words


def random_bits(seed: int, count: int) -> np.ndarray:
    """As many packed random bits, with their slack."""
    used = np.random.default_rng(seed).integers(0, 256, (count + 7) // 8, dtype=np.uint8)
    return np.concatenate([used, np.zeros(SLACK, np.uint8)])


@given(
    checksums,
    shards(),
    st.lists(st.tuples(st.integers(0, 64), st.booleans()), max_size=6),
    st.binary(max_size=64),
    st.integers(0, 2**32),
)
def test_object_shards_fold_alike(checksum, shard, fields, data, seed):
    number, count, max_ordinal, words = shard
    widths = np.array([width for width, _ in fields], np.int64)
    kinds = np.array([variable for _, variable in fields], np.uint8)
    offsets = np.cumsum(widths) - widths
    bits = int(widths.sum())
    variable = [np.frombuffer(data, np.uint8) if kind else None for kind in kinds]
    records = random_bits(seed, bits * (max_ordinal + 1))
    arguments = (checksum, number, count, records, bits, offsets, widths, kinds, variable, words, max_ordinal)
    assert compiled.object_shard(*arguments) == plain.object_shard(*arguments)


@given(checksums, shards(), st.integers(0, 58), st.integers(0, 58), st.integers(0, 60), st.integers(0, 2**32))
def test_list_shards_fold_alike(checksum, shard, pointer_bits, element_bits, total, seed):
    number, count, max_ordinal, words = shard
    pointers = random_bits(seed, pointer_bits * (max_ordinal + 1))
    elements = random_bits(seed + 1, element_bits * total)
    arguments = (
        checksum, number, count, pointers, pointer_bits, elements, element_bits, total, words, max_ordinal,
    )  # fmt: skip
    assert compiled.list_shard(*arguments) == plain.list_shard(*arguments)


@given(
    checksums,
    shards(),
    st.tuples(st.integers(0, 31), st.integers(0, 31), st.integers(0, 31), st.integers(0, 31)),
    st.integers(0, 60),
    st.integers(0, 2**32),
)
def test_set_and_map_shards_fold_alike(checksum, shard, widths, total, seed):
    number, count, max_ordinal, words = shard
    pointer_bits, size_bits, key_bits, value_bits = widths
    pointers = random_bits(seed, (pointer_bits + size_bits) * (max_ordinal + 1))
    buckets = random_bits(seed + 1, (key_bits + value_bits) * total)
    head = (checksum, number, count, pointers, pointer_bits, size_bits, buckets, key_bits)
    tail = (total, words, max_ordinal)
    assert compiled.set_shard(*head, *tail) == plain.set_shard(*head, *tail)
    assert compiled.map_shard(*head, value_bits, *tail) == plain.map_shard(*head, value_bits, *tail)


@given(checksums, st.integers(1, 8), st.integers(0, 2**32))
def test_folding_two_shards_is_folding_one_after_the_other(checksum, width, seed):
    """The running value carries everything: nothing is kept between shards."""
    records = random_bits(seed, width * 10)
    words = np.array([2**20 - 1], np.uint64)
    numbers = (np.zeros(1, np.int64), np.array([width], np.int64), np.zeros(1, np.uint8), [None], words, 9)
    first = compiled.object_shard(checksum, 0, 2, records, width, *numbers)
    second = compiled.object_shard(first, 1, 2, records, width, *numbers)
    expected = plain.object_shard(
        plain.object_shard(checksum, 0, 2, records, width, *numbers), 1, 2, records, width, *numbers
    )
    assert second == expected
