"""Starts fuzzing processes and collects what went wrong, crashes of the process included."""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MOST_CRASHES = 5


@dataclass
class Findings:
    """What a range of numbers led to."""

    failures: dict[int, str] = field(default_factory=dict)
    """What went wrong, by the number that led to it; -1 if the process did not get that far."""
    endings: Counter[str] = field(default_factory=Counter)
    """How often each ending came that may come."""
    named: dict[int, str] = field(default_factory=dict)
    """The endings of single numbers, where a plan tells them."""

    @property
    def tried(self) -> int:
        """Blobs that ended as they may."""
        return self.endings.total()

    def __str__(self) -> str:
        return "\n\n".join(self.failures.values())


def fuzz(plan: str, start: int, stop: int, step: int = 1) -> Findings:
    """Run one plan in a process of its own; a process that dies is started again behind the number that killed it."""
    found = Findings()
    crashes = 0
    while start < stop and crashes < MOST_CRASHES:
        with tempfile.NamedTemporaryFile() as note:
            words = [sys.executable, "-m", "tests.fuzz.driver", plan, str(start), str(stop), str(step), note.name]
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
            reached = Path(note.name).read_text().strip()
        for line in done.stdout.splitlines():
            answer = json.loads(line)
            if "number" in answer:
                number = answer["number"]
                found.failures[number] = _described(plan, number, answer["error"], answer["tail"])
            elif "done" in answer:
                found.named[answer["done"]] = answer["ending"]
            else:
                found.endings.update(answer["endings"])
        if done.returncode in (0, 1) and '"endings"' in done.stdout:
            break
        if not reached:
            found.failures[-1] = f"the process ended with {done.returncode} before its first blob:\n{done.stderr}"
            break
        crashes += 1
        killed = int(reached)
        found.failures[killed] = _described(plan, killed, f"the process ended with {done.returncode}", done.stderr)
        start = killed + step
    return found


def _described(plan: str, number: int, error: str, tail: str) -> str:
    again = f"python -m tests.fuzz.driver {plan} {number} {number + 1}"
    return f"{error}\nagain: {again}\n{tail[-2000:]}"
