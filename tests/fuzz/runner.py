"""Starts fuzzing processes and collects what went wrong, crashes of the process included."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MOST_CRASHES = 5


@dataclass
class Findings:
    """What a range of numbers led to."""

    failures: list[str] = field(default_factory=list)
    endings: dict[str, int] = field(default_factory=dict)

    @property
    def tried(self) -> int:
        """Blobs that ended as they may."""
        return sum(self.endings.values())


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
                found.failures.append(_described(plan, answer["number"], answer["error"], answer["tail"]))
            else:
                for ending, count in answer.get("endings", {}).items():
                    found.endings[ending] = found.endings.get(ending, 0) + count
        if done.returncode in (0, 1) and '"endings"' in done.stdout:
            break
        if not reached:
            found.failures.append(f"the process ended with {done.returncode} before its first blob:\n{done.stderr}")
            break
        crashes += 1
        found.failures.append(_described(plan, int(reached), f"the process ended with {done.returncode}", done.stderr))
        start = int(reached) + step
    return found


def _described(plan: str, number: int, error: str, tail: str) -> str:
    again = f"python -m tests.fuzz.driver {plan} {number} {number + 1}"
    return f"{error}\nagain: {again}\n{tail[-2000:]}"
