"""Damaged frames of patches give a batch or one of the errors of the format, in time and within memory.

Seeds are fixed: a failure names its seed, and `python -m tests.fuzz.patch_driver SEED SEED+1` runs it again.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bounds of memory are those of Linux")

ROOT = Path(__file__).resolve().parent.parent.parent
SEEDS = 20_000


def test_twenty_thousand_damaged_frames_end_as_the_page_says() -> None:
    words = [sys.executable, "-m", "tests.fuzz.patch_driver", "0", str(SEEDS)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["failures"] == []
    endings = answer["endings"]
    assert sum(endings.values()) == SEEDS
    # The damage reaches every layer: the envelope, the body, columns, values, references, vectors.
    wanted = ("read", "ChecksumMismatch", "Truncated", "InvalidVarint", "MalformedGroup", "InvalidUtf8", "TrailingData")
    for code in (*wanted, "UnknownField", "LimitExceeded", "MalformedValue", "InvalidPath"):
        assert endings.get(code, 0) > 0, code
