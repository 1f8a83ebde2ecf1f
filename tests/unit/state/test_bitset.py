"""Sets of ordinals behave as sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.state.bitset import EMPTY, OrdinalSet

ordinals = st.sets(st.integers(0, 300))


def made(numbers: set[int]) -> OrdinalSet:
    return OrdinalSet.from_ordinals(np.array(sorted(numbers), np.int64))


@given(ordinals, ordinals)
def test_operations_equal_those_of_python_sets(left, right):
    ours, other = made(left), made(right)
    assert set(ours.union(other)) == left | right
    assert set(ours.difference(other)) == left - right
    assert set(ours.intersection(other)) == left & right
    assert len(ours) == len(left)
    assert bool(ours) == bool(left)
    assert ours.max() == max(left, default=-1)
    assert (ours == other) == (left == right)
    assert ours.ordinals().tolist() == sorted(left)
    assert all(number in ours for number in left)
    assert -1 not in ours and 301 not in ours and "x" not in ours
    assert np.flatnonzero(ours.flags(100)).tolist() == [number for number in sorted(left) if number < 100]


@given(st.integers(0, 200))
def test_all_below_counts(count):
    assert list(OrdinalSet.all_below(count)) == list(range(count))


def test_words_behind_the_last_ordinal_do_not_matter():
    words = np.zeros(256, np.uint64)
    words[1] = 5
    assert OrdinalSet.from_words(words) == made({64, 66})
    assert OrdinalSet.from_words(words[:0]) == EMPTY


def test_the_bits_of_a_set_cannot_be_written():
    numbers = OrdinalSet.from_ordinals(np.array([1, 70]))
    for found in (
        numbers,
        OrdinalSet.all_below(9),
        numbers.union(OrdinalSet.all_below(3)),
        numbers.difference(numbers),
    ):
        with pytest.raises(ValueError, match="read-only"):
            found.words[:] = 0
    words = np.ones(2, np.uint64)
    assert len(OrdinalSet.from_words(words)) == 2 and words.flags.writeable
