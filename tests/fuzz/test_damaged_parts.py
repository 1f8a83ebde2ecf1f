"""Damaged vector parts give columns or one of the error codes of the format, and leave the columns before as they were.

Seeds are fixed: a failure names its seed and the command that runs it again.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def fuzz(plan: str, start: int, stop: int) -> Counter[str]:
    """How often each ending came; fails with the seed where another came, or the process died."""
    with tempfile.NamedTemporaryFile() as note:
        words = [sys.executable, "-m", "tests.fuzz.part_driver", plan, str(start), str(stop), note.name]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        reached = Path(note.name).read_text().strip()
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        pytest.fail(f"the process ended with {done.returncode} at {plan} {reached}:\n{done.stderr[-2000:]}")
    answer = json.loads(lines[-1])
    for number, error, tail in answer["failures"]:
        pytest.fail(f"{error}\nagain: python -m tests.fuzz.part_driver {plan} {number} {number + 1}\n{tail}")
    return Counter(answer["endings"])


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
