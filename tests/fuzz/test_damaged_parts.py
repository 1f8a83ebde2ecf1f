"""Damaged vector parts give columns or one of the error codes of the format, and leave the columns before as they were.

Seeds are fixed: a failure names its seed and the command that runs it again.
"""

from functools import partial

import pytest

from tests.fuzz.driving import endings_of

fuzz = partial(endings_of, "part_driver")


def test_mutated_parts_are_applied_or_refused_by_a_code():
    endings = fuzz("mutations", 0, 4_000)
    assert endings.total() == 4_000
    # Damage that never gets past the first check would test nothing.
    assert endings["read"] > 200 and len(endings) > 18, endings
    assert {"BaseMismatch", "MalformedPart", "IndexOutOfRange"} <= endings.keys(), endings


def test_parts_that_are_cut_off_are_refused():
    endings = fuzz("prefixes", 0, 9_000)
    assert endings.total() == 9_000
    assert set(endings) <= {"Truncated", "MalformedFrame"}, endings


def test_no_allocation_of_a_damaged_part_goes_past_the_bound():
    assert fuzz("followed", 1_000_000, 1_000_400).total() == 400


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("first", range(10_000_000, 10_100_000, 25_000))
def test_many_more_mutated_parts_are_applied_or_refused(first):
    assert fuzz("mutations", first, first + 25_000).total() == 25_000
