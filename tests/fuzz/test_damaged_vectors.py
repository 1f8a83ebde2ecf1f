"""Damaged vector deltas give a value or one of the error codes of the format, in time and within memory.

Seeds are fixed: a failure names its seed and the command that runs it again.
"""

import sys
from functools import partial

import pytest

from tests.fuzz.driving import endings_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bounds of memory are those of Linux")

fuzz = partial(endings_of, "vector_driver")


def test_mutated_vector_deltas_are_read_or_refused_by_a_code():
    endings = fuzz("mutations", 0, 20_000)
    assert endings.total() == 20_000
    # Damage that never gets past the first check would test nothing.
    assert endings["read"] > 1_000 and len(endings) > 15


def test_vector_deltas_that_are_cut_off_are_refused():
    endings = fuzz("prefixes", 0, 10**9)
    assert endings.total() > 30_000
    # A dictionary has its checksum at the end, wherever that is; no bytes at all are a stream of nothing.
    assert set(endings) <= {"Truncated", "ChecksumMismatch", "read"} and endings["read"] < 200


def test_no_allocation_of_a_damaged_vector_delta_goes_past_the_bound():
    assert fuzz("followed", 1_000_000, 1_001_000).total() == 1_000


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("first", range(10_000_000, 10_400_000, 100_000))
def test_many_more_mutated_vector_deltas_are_read_or_refused(first):
    assert fuzz("mutations", first, first + 100_000).total() == 100_000


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_plain_kernels_of_vectors_never_index_outside_their_arrays(monkeypatch):
    monkeypatch.setenv("DELTAIC_PLAIN", "1")
    assert fuzz("mutations", 20_000_000, 20_020_000).total() == 20_000
