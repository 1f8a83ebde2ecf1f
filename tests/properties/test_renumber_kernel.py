"""The compiled kernel that gives records other ordinals does what its plain twin does, and what it is for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.kernels.plain import records
from deltaic.kernels.plain import renumber as plain
from tests.properties.test_write_kernels import objects

compiled = pytest.importorskip("deltaic.kernels._renumber", reason="the kernels are not compiled here")

REFERENCE = 0
NO_CODES = np.zeros(0, np.int32)


def arena_of(data, ends):
    """Records as a map holds them: behind four bytes, with some slack."""
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) + 4 if len(ends) else np.zeros(0, np.int64)
    return np.concatenate((np.zeros(4, np.uint8), data, np.zeros(16, np.uint8))), starts


@given(objects(), st.data())
def test_references_of_objects_are_led_elsewhere(case, data):
    kinds, columns, count = case
    # References stay small, so that a map can hold them.
    columns = [
        (values % 50 if kind == REFERENCE else values, *rest)
        for kind, (values, *rest) in zip(kinds.tolist(), columns, strict=True)
    ]
    serialized, ends = records.serialize_objects(kinds, columns, count)
    arena, starts = arena_of(serialized, ends)
    rows = np.array(data.draw(st.lists(st.integers(0, count - 1), max_size=8) if count else st.just([])), np.int32)
    led = np.array(data.draw(st.lists(st.integers(0, 2**31 - 1), min_size=50, max_size=50)), np.int32)
    maps = [led if kind == REFERENCE and data.draw(st.booleans()) else None for kind in kinds.tolist()]
    found, expected = (kernel.renumber_objects(arena, starts, rows, kinds, maps) for kernel in (compiled, plain))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    led_columns = [
        (led[values.astype(np.int64)].astype(np.uint64) if mapped is not None else values, *rest)
        for mapped, (values, *rest) in zip(maps, columns, strict=True)
    ]
    whole, whole_ends = records.serialize_objects(kinds, led_columns, count)
    bounds = [0, *whole_ends.tolist()]
    assert found[0].tobytes() == b"".join(whole[bounds[row] : bounds[row + 1]].tobytes() for row in rows.tolist())


@given(st.lists(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=9), max_size=6))
def test_entries_of_collections_come_out_as_they_went_in(given_lists):
    offsets = np.cumsum([0, *map(len, given_lists)], dtype=np.int64)
    keys = np.array([key for entries in given_lists for key, _ in entries], np.int32)
    values = np.array([value for entries in given_lists for _, value in entries], np.int32)
    rows = np.arange(len(given_lists), dtype=np.int32)
    for form, made in enumerate(
        (
            records.serialize_lists(offsets, keys),
            records.serialize_sets(offsets, keys, NO_CODES, 1),
            records.serialize_maps(offsets, keys, values, NO_CODES, 1),
        )
    ):
        arena, starts = arena_of(*made)
        found, expected = (kernel.entries(arena, starts, rows, form) for kernel in (compiled, plain))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        if form == 0:
            np.testing.assert_array_equal(found[1], keys)
        if form == 2:
            pairs = list(zip(found[1].tolist(), found[2].tolist(), strict=True))
            assert [sorted(entries) for entries in given_lists] == [
                pairs[first:last] for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
            ]
