"""Compiled bit kernels give what the plain ones give."""

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.kernels.plain import apply as plain_apply
from deltaic.kernels.plain import bits as plain

bits = pytest.importorskip("deltaic.kernels._bits", reason="no compiled kernels here")
compiled_apply = importlib.import_module("deltaic.kernels._apply")


def packed(draw, bit_count: int) -> np.ndarray:
    size = (bit_count + 7) // 8
    data = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    return np.concatenate([data, np.zeros(24, np.uint8)])


@st.composite
def tables(draw):
    stride = draw(st.integers(1, 140))
    width = draw(st.integers(0, min(64, stride)))
    offset = draw(st.integers(0, stride - width))
    count = draw(st.integers(0, 40))
    return packed(draw, stride * count), stride, offset, width, count


@given(tables())
def test_decode_and_gather_agree(table):
    data, stride, offset, width, count = table
    expected = plain.decode(data, offset, stride, width, count)
    assert np.array_equal(bits.decode(data, offset, stride, width, count), expected)
    ordinals = np.arange(count, dtype=np.int64)[::-1].copy()
    assert np.array_equal(bits.gather(data, stride, offset, width, ordinals), expected[::-1])


@given(tables())
def test_decoding_equals_reading_the_bits_one_by_one(table):
    data, stride, offset, width, count = table
    stream = np.unpackbits(data, bitorder="little")
    for record, value in enumerate(plain.decode(data, offset, stride, width, count).tolist()):
        start = record * stride + offset
        assert value == sum(int(bit) << place for place, bit in enumerate(stream[start : start + width]))


@given(tables(), st.data())
def test_store_and_scatter_agree_and_touch_nothing_else(table, data):
    target, stride, offset, width, count = table
    values = np.array(data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=count, max_size=count)), np.uint64)
    ours, reference = target.copy(), target.copy()
    bits.store(ours, offset, stride, width, values)
    plain.store(reference, offset, stride, width, values)
    assert np.array_equal(ours, reference)
    mask = np.uint64((1 << width) - 1)
    assert np.array_equal(plain.decode(ours, offset, stride, width, count), values & mask if width else values * 0)
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, count - 1)))) if count else [], np.int64)
    bits.scatter(ours, stride, offset, width, chosen, values[: len(chosen)])
    plain.scatter(reference, stride, offset, width, chosen, values[: len(chosen)])
    assert np.array_equal(ours, reference)


@given(st.integers(1, 64), st.integers(0, 20), st.lists(st.integers(0, 2**64 - 1), max_size=40), st.data())
def test_pack_agrees(width, start, numbers, data):
    values = np.array(numbers, np.uint64)
    target = packed(data.draw, start + width * len(values))
    ours, reference = target.copy(), target.copy()
    bits.pack(values, width, ours, start)
    plain.pack(values, width, reference, start)
    assert np.array_equal(ours, reference)


@given(tables(), st.booleans())
def test_checks_agree(table, ones_are_null):
    data, stride, offset, width, count = table
    assert bits.first_fall(data, offset, stride, width, count) == plain.first_fall(data, offset, stride, width, count)
    ours = bits.largest(data, offset, stride, width, count, ones_are_null)
    assert ours == plain.largest(data, offset, stride, width, count, ones_are_null)


@given(st.binary(max_size=40))
def test_varints_agree(data):
    array = np.frombuffer(data, np.uint8)
    ours, reference = bits.varints(array), plain.varints(array)
    assert (ours is None) == (reference is None)
    if ours is not None:
        assert ours.tolist() == reference.tolist()


@given(st.lists(st.binary(min_size=8, max_size=8), max_size=9))
def test_words_are_swapped(words):
    source = np.frombuffer(b"".join(words), np.uint8)
    ours, reference = np.zeros(len(source) + 16, np.uint8), np.zeros(len(source) + 16, np.uint8)
    bits.swap_words(source, ours)
    plain.swap_words(source, reference)
    assert np.array_equal(ours, reference)
    assert ours[: len(source)].tobytes() == b"".join(word[::-1] for word in words)


@given(st.data())
def test_bucket_checks_agree(data):
    pointer, size, key, value = (data.draw(st.integers(low, 9)) for low in (0, 0, 1, 0))
    count = data.draw(st.integers(0, 8))
    capacity = data.draw(st.integers(0, 40))
    pointers = packed(data.draw, (pointer + size) * count)
    buckets = packed(data.draw, (key + value) * capacity)
    arguments = (pointers, pointer, size, buckets, key + value, key, count, capacity)
    assert bits.check_buckets(*arguments) == plain.check_buckets(*arguments)


@st.composite
def tables_of_sizes(draw):
    """Hash tables that are nearly right: powers of two, some filled, now and then a wrong size."""
    rooms = draw(st.lists(st.sampled_from([0, 1, 2, 4, 8]), max_size=6))
    key = draw(st.integers(2, 6))
    filled = [draw(st.integers(0, max(room - 1, 0))) for room in rooms]
    sizes = [size + draw(st.sampled_from([0, 0, 0, 0, 1])) for size in filled]
    buckets = []
    for room, size in zip(rooms, filled, strict=True):
        row = [draw(st.integers(0, (1 << key) - 2)) for _ in range(size)] + [(1 << key) - 1] * (room - size)
        buckets += draw(st.permutations(row))
    return rooms, sizes, key, buckets


@given(tables_of_sizes())
def test_bucket_checks_agree_on_tables_that_are_nearly_right(tables):
    rooms, sizes, key, row = tables
    pointers = np.zeros(64, np.uint8)
    plain.store(pointers, 0, 12, 8, np.cumsum(np.array(rooms, np.uint64)).astype(np.uint64))
    plain.store(pointers, 8, 12, 4, np.array(sizes, np.uint64))
    buckets = np.zeros(64, np.uint8)
    plain.store(buckets, 0, key, key, np.array(row, np.uint64))
    arguments = (pointers, 8, 4, buckets, key, key, len(rooms), len(row))
    found = plain.check_buckets(*arguments)
    assert bits.check_buckets(*arguments) == found
    right = all(row[a:b].count((1 << key) - 1) == (b - a) - size for (a, b), size in _runs(rooms, sizes))
    assert (found[0] == -1) == right


def _runs(rooms, sizes):
    start = 0
    for room, size in zip(rooms, sizes, strict=True):
        yield (start, start + room), size
        start += room


@given(st.data())
def test_patches_and_holes_agree(data):
    stride, count = data.draw(st.integers(1, 200)), data.draw(st.integers(1, 12))
    target = packed(data.draw, stride * count)
    ordinals = np.array(sorted(data.draw(st.sets(st.integers(0, count - 1)))), np.int64)
    source = packed(data.draw, stride * len(ordinals))
    ours, reference = target.copy(), target.copy()
    compiled_apply.patch_records(ours, stride, ordinals, source)
    plain_apply.patch_records(reference, stride, ordinals, source)
    assert np.array_equal(ours, reference)
    compiled_apply.clear_records(ours, stride, ordinals)
    plain_apply.clear_records(reference, stride, ordinals)
    assert np.array_equal(ours, reference)


@given(st.data())
def test_runs_are_copied_alike(data):
    unit = data.draw(st.integers(1, 70))
    lengths = data.draw(st.lists(st.integers(0, 9), max_size=6))
    total = sum(lengths)
    source, target = packed(data.draw, unit * total), packed(data.draw, unit * total)
    order = data.draw(st.permutations(range(len(lengths))))
    sizes = np.array(lengths, np.int64)
    source_starts = np.cumsum(sizes) - sizes
    target_starts = np.zeros(len(lengths), np.int64)
    place = 0
    for run in order:
        target_starts[run] = place
        place += lengths[run]
    ours, reference = target.copy(), target.copy()
    compiled_apply.copy_runs(ours, source, unit, target_starts, source_starts, sizes)
    plain_apply.copy_runs(reference, source, unit, target_starts, source_starts, sizes)
    assert np.array_equal(ours, reference)


@given(st.data())
def test_fields_are_shifted_alike(data):
    width = data.draw(st.integers(4, 20))
    offset = data.draw(st.integers(0, 60))
    stride = offset + width + data.draw(st.integers(0, 20))
    count = data.draw(st.integers(0, 20))
    source = packed(data.draw, stride * count)
    plain.store(source, offset, stride, width, np.arange(count, dtype=np.uint64) % np.uint64(8))
    events = np.array(sorted(data.draw(st.sets(st.integers(0, 25), max_size=5))), np.int64)
    shifts = np.array([data.draw(st.lists(st.integers(0, 7), min_size=len(events) + 1, max_size=len(events) + 1))])
    size = len(source)
    ours, reference = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    arguments = (stride, count, np.array([offset]), np.array([width]), events, shifts.astype(np.int64))
    compiled_apply.shift_fields(source, ours, *arguments)
    plain_apply.shift_fields(source, reference, *arguments)
    used = (stride * count + 7) // 8
    assert np.array_equal(ours[:used], reference[:used])
