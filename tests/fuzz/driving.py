"""A fuzzing process and what became of it: a driver is run beside the tests, so that its death is a failure of one."""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def endings_of(driver: str, plan: str, start: int, stop: int) -> Counter[str]:
    """How often each ending came; fails with the seed where another came, or the process died."""
    module = f"tests.fuzz.{driver}"
    with tempfile.NamedTemporaryFile() as note:
        words = [sys.executable, "-m", module, plan, str(start), str(stop), note.name]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        reached = Path(note.name).read_text().strip()
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        pytest.fail(f"the process ended with {done.returncode} at {plan} {reached}:\n{done.stderr[-2000:]}")
    answer = json.loads(lines[-1])
    for number, error, tail in answer["failures"]:
        pytest.fail(f"{error}\nagain: python -m {module} {plan} {number} {number + 1}\n{tail}")
    return Counter(answer["endings"])
