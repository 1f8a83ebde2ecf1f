"""Damaged references and blocks give a value or one of the error codes of the format, in time and within memory.

Seeds are fixed: a failure names its seed and the command that runs it again.
"""

import sys
from functools import partial

import pytest

from tests.fuzz.driving import endings_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the note of progress is that of Linux")

fuzz = partial(endings_of, "reference_driver")


def test_mutated_references_are_read_alike_by_two_readers_or_refused_by_a_code():
    endings = fuzz("mutations", 0, 20_000)
    assert endings.total() == 20_000
    # Damage that never gets past the first check would test nothing: every code of bytes and of meaning comes.
    assert endings["resolved"] > 1_000 and len(endings) >= 12, endings


def test_no_allocation_of_a_damaged_reference_goes_past_the_bound():
    assert fuzz("followed", 1_000_000, 1_001_000).total() == 1_000


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_many_more_mutated_references_are_read_or_refused():
    assert fuzz("mutations", 10_000_000, 10_400_000).total() == 400_000


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_plain_kernels_of_references_never_index_outside_their_arrays(monkeypatch):
    monkeypatch.setenv("DELTAIC_PLAIN", "1")
    assert fuzz("mutations", 20_000_000, 20_020_000).total() == 20_000
