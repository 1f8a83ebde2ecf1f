"""Damaged splits give their rows or a DecodeError: in time, within memory, and the engine's panics do not get out.

Seeds are fixed: a failure names its seed and its plan; `python -m tests.fuzz.splits <plan> <seed> <seed + 1>` runs it.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bounds of memory are those of Linux")

ROOT = Path(__file__).resolve().parent.parent.parent


def _fuzz(plan: str, start: int, stop: int) -> Counter[str]:
    # Arrow's own allocators reserve address space in advance, which the bound would count.
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    with tempfile.NamedTemporaryFile() as note:
        words = [sys.executable, "-m", "tests.fuzz.splits", plan, str(start), str(stop), note.name]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=environment)
        reached = Path(note.name).read_text().strip()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"seed {reached}: {lines[:3]} {done.stderr[-2000:]}"
    endings = Counter(lines[-1]["endings"])
    assert endings.total() == stop - start
    return endings


def test_mutated_splits_are_read_as_written_or_refused():
    endings = _fuzz("mutations", 0, 1500)
    assert endings["read"] > 30 and len(endings) > 6


def test_damage_under_right_checksums_is_read_or_refused():
    endings = _fuzz("repaired", 0, 1500)
    assert endings["read"] > 30 and len(endings) > 8


def test_the_cache_and_the_engine_refuse_what_is_damaged():
    endings = _fuzz("cached", 100_000, 100_150)
    assert endings["read"] > 5 and len(endings) > 4


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("plan", ["mutations", "repaired"])
@pytest.mark.parametrize("first", range(1_000_000, 1_100_000, 25_000))
def test_many_more_damaged_splits(plan, first):
    _fuzz(plan, first, first + 25_000)
