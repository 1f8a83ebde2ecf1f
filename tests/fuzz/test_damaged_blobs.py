"""Damaged blobs give a value or a DecodeError: in time, within memory, and without a crash when the value is used.

Seeds are fixed: a failure names its seed and the command that runs it again.
"""

import os
import sys

import pytest

from tests.fuzz.runner import fuzz

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bounds of memory are those of Linux")

QUARTER = 5_000
LAST_PREFIX = 10_000_000
"""More than there are: the driver stops at the last one."""


@pytest.mark.parametrize("first", range(0, 4 * QUARTER, QUARTER))
def test_mutated_blobs_are_read_or_refused(first):
    found = fuzz("mutations", first, first + QUARTER)
    assert not found.failures, str(found)
    assert found.tried == QUARTER
    # Damage that never gets past the first check would test nothing.
    assert found.endings["read"] + found.endings["read and followed"] > QUARTER // 50
    assert len(found.endings) > 10


def test_no_allocation_goes_past_the_bound():
    found = fuzz("followed", 1_000_000, 1_000_400)
    assert not found.failures, str(found)
    assert found.tried == 400


def test_a_blob_that_is_cut_off_is_refused():
    """Every 23rd prefix; the long test takes every one."""
    found = fuzz("prefixes", 0, LAST_PREFIX, 23)
    assert not found.failures, str(found)
    assert found.tried > 10_000


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_every_prefix_is_refused():
    found = fuzz("prefixes", 0, LAST_PREFIX)
    assert not found.failures, str(found)
    assert found.tried > 400_000


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("first", range(10_000_000, 10_400_000, 50_000))
def test_many_more_mutated_blobs_are_read_or_refused(first):
    found = fuzz("mutations", first, first + 50_000)
    assert not found.failures, str(found)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_no_allocation_goes_past_the_bound_in_many_more_blobs():
    found = fuzz("followed", 2_000_000, 2_010_000)
    assert not found.failures, str(found)


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_plain_kernels_never_index_outside_their_arrays(monkeypatch):
    """Where a compiled kernel would read past an array unseen, its plain twin raises IndexError."""
    monkeypatch.setitem(os.environ, "DELTAIC_PLAIN", "1")
    found = fuzz("mutations", 3_000_000, 3_020_000)
    assert not found.failures, str(found)
