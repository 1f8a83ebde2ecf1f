"""The compiled products and the compiled search for candidates agree with their plain twins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.kernels.plain import nearest as plain

compiled = pytest.importorskip("deltaic.kernels._nearest", reason="the kernel is not compiled")

_NUMBERS = np.array([0, -0.0, 1, -1, 0.5, 3e38, -3e38, np.inf, -np.inf, np.nan, 1e-45], np.float32)


def answer(kernel, scores, scale, shift, limits, room):
    places, queries, found = np.full(room, -1), np.full(room, -1), np.full(room, 7, np.float32)
    count = kernel.candidates(scores, scale, shift, limits, places, queries, found)
    return count, places.tolist(), queries.tolist(), found.tobytes()


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 200),
    st.integers(1, 9),
    st.sampled_from(["scale", "shift", "neither"]),
    st.integers(0, 300),
)
@settings(deadline=None, max_examples=200)
def test_both_find_the_same_scores_in_the_same_order(seed, rows, queries, how, room):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((rows, queries)).astype(np.float32)
    odd = rng.random(scores.shape) < 0.1
    scores[odd] = rng.choice(_NUMBERS, int(odd.sum()))
    limits = rng.choice(np.concatenate([_NUMBERS, [0.7, 1.5]]).astype(np.float32), queries)
    numbers, none = rng.choice(_NUMBERS[:5], rows).astype(np.float32), np.zeros(0, np.float32)
    scale, shift = numbers if how == "scale" else none, numbers if how == "shift" else none
    assert answer(compiled, scores, scale, shift, limits, room) == answer(plain, scores, scale, shift, limits, room)


def test_what_has_no_room_is_counted_and_not_written():
    scores = np.ones((5, 2), np.float32)
    none = np.zeros(0, np.float32)
    places, queries, found = np.full(4, -1), np.full(4, -1), np.zeros(4, np.float32)
    for kernel in (compiled, plain):
        count = kernel.candidates(scores, none, none, np.zeros(2, np.float32), places[:3], queries[:3], found[:3])
        assert count == 10 and places.tolist() == [0, 0, 1, -1] and queries.tolist() == [0, 1, 0, -1]


@given(st.integers(0, 2**32 - 1), st.integers(0, 70), st.integers(1, 150))
@settings(deadline=None, max_examples=100)
def test_products_are_right_within_what_float32_can_be_off(seed, rows, dimensions):
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((rows, dimensions)).astype(np.float32)
    query = rng.standard_normal(dimensions).astype(np.float32)
    bound = dimensions * 2.0**-24 * np.linalg.norm(matrix, axis=1) * np.linalg.norm(query) * 1.01
    for kernel in (compiled, plain):
        found = np.full(rows + 1, 7, np.float32)
        kernel.products(matrix, query, found[:rows])
        true = matrix.astype(np.float64) @ query.astype(np.float64)
        assert (np.abs(found[:rows] - true) <= bound).all() and found[rows] == 7


def test_a_product_with_a_nan_touches_its_own_row_only():
    matrix = np.ones((3, 40), np.float32)
    matrix[1, 33] = np.nan
    for kernel in (compiled, plain):
        found = np.zeros(3, np.float32)
        kernel.products(matrix, np.ones(40, np.float32), found)
        assert found[0] == found[2] == 40 and np.isnan(found[1])
