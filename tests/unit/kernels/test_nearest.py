"""The compiled search for candidates and its plain twin agree."""

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
