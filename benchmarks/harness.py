"""Figures beside Java's: rounds, medians, ratios, aims, and the table that shows them.

A figure is measured in rounds; both sides run on one core, one after the other in turns, so that a busy machine slows
both. What counts is the median of CPU time. Where Java cannot be had, the figures recorded in the catalogue's
description stand in and are marked.
"""

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_ROW = "{:<44} {:>12} {:>12} {:>9}  {:<22} {}"


@dataclass(slots=True)
class Rounds:
    """CPU and wall time of one figure, per round, in nanoseconds per operation; or bytes, once per round."""

    unit: str = "ns"
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of CPU time (of the value, for bytes)."""
        return statistics.median(self.cpu)


Figures = dict[str, Rounds]


@dataclass(frozen=True, slots=True)
class Aim:
    """What a figure should reach: at least so many times Java's speed, at most so much, or at most Java's own value."""

    faster: float | None = None
    at_most: float | None = None
    at_most_java: bool = False

    def __str__(self) -> str:
        if self.faster is not None:
            return f"≥ {self.faster:g}× Java"
        if self.at_most is not None:
            return f"≤ {shown(self.at_most, 'ns')}"
        return "≤ Java"

    def met(self, ours: float, java: float | None) -> bool | None:
        """True or False; None where Java's figure is needed and missing."""
        if self.at_most is not None:
            return ours <= self.at_most
        if java is None:
            return None
        return ours <= java if self.faster is None else ours * self.faster <= java


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: our figure, Java's name for the same, the aim, Java's recorded value."""

    what: str
    java: str | None = None
    aim: Aim | None = None
    recorded: float | None = None


class Stopwatch:
    """Measures in this process and keeps the rounds by figure."""

    def __init__(self) -> None:
        self.figures: Figures = {}

    def measure(self, what: str, operations: int, work: Callable[[], object]) -> object:
        """Run the work once and book its time per operation; returns what the work returned."""
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        result = work()
        wall_nanoseconds = time.perf_counter_ns() - wall
        cpu_nanoseconds = time.process_time_ns() - cpu
        self.book(what, cpu_nanoseconds / operations, wall_nanoseconds / operations)
        return result

    def book(self, what: str, cpu: float, wall: float) -> None:
        """Add a round that was measured elsewhere."""
        rounds = self.figures.setdefault(what, Rounds())
        rounds.cpu.append(cpu)
        rounds.wall.append(wall)

    def bytes(self, what: str, value: int) -> None:
        """Add a number of bytes."""
        rounds = self.figures.setdefault(what, Rounds(unit="bytes"))
        rounds.cpu.append(value)
        rounds.wall.append(value)

    def print(self) -> None:
        """One JSON line per figure, as the Java program prints them."""
        for what, rounds in self.figures.items():
            print(json.dumps({"what": what, "unit": rounds.unit, "cpu": rounds.cpu, "wall": rounds.wall}))


def merge(into: Figures, lines: Iterable[dict[str, Any]]) -> None:
    """Add the rounds of printed lines."""
    for line in lines:
        rounds = into.setdefault(line["what"], Rounds(unit=line["unit"]))
        rounds.cpu += line.get("cpu") or [line["value"]]
        rounds.wall += line.get("wall") or [line["value"]]


def in_new_process(script: Path, *arguments: str, core: int | None) -> list[dict[str, Any]]:
    """Run a script of ours in a process of its own, on one core; returns its JSON lines."""

    def pin() -> None:
        if core is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {core})

    done = subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, check=False, preexec_fn=pin
    )
    if done.returncode != 0:
        raise RuntimeError(f"{script.name} {' '.join(arguments)} failed:\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def resident_bytes() -> int:
    """Memory of this process in RAM."""
    with open("/proc/self/statm") as statistics_file:
        return int(statistics_file.read().split()[1]) * resource.getpagesize()


def peak_bytes(work: Callable[[], object]) -> tuple[int, object]:
    """By how much the memory of this process grew at most while the work ran; and what the work returned."""
    before = resident_bytes()
    try:
        # Starts the kernel's high-water mark afresh.
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return 0, work()
    result = work()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return max(0, int(line.split()[1]) * 1024 - before), result
    return 0, result


def shown(value: float, unit: str) -> str:
    """A value with the unit that suits it."""
    if unit == "bytes":
        return f"{value / 1e6:,.1f} MB"
    if value >= 1e6:
        return f"{value / 1e6:,.1f} ms"
    return f"{value / 1e3:,.1f} µs" if value >= 1e4 else f"{value:,.1f} ns"


def report(rows: Iterable[Row], ours: Figures, java: Figures, title: str) -> dict[str, Any]:
    """Print the table; returns it as data. Figures of ours without a row come last."""
    rows = list(rows)
    rows += [Row(what) for what in ours if what not in {row.what for row in rows}]
    print(f"{title}\n")
    print(_ROW.format("what (median CPU)", "deltaic", "Java", "ratio", "aim", ""))
    listed: list[dict[str, Any]] = []
    for row in rows:
        mine = ours.get(row.what)
        if mine is None:
            continue
        listed.append(_line(row, mine, java.get(row.java) if row.java else None))
    missed = [line["what"] for line in listed if line["met"] is False]
    print(f"\n{sum(line['met'] is True for line in listed)} aims met, {len(missed)} missed" + _named(missed))
    if any(line["recorded"] for line in listed):
        print("* recorded once elsewhere, not measured in this run")
    return {"title": title, "machine": machine(), "figures": listed}


def _line(row: Row, mine: Rounds, theirs: Rounds | None) -> dict[str, Any]:
    value = mine.median
    beside = theirs.median if theirs is not None else row.recorded
    recorded = theirs is None and row.recorded is not None
    met = row.aim.met(value, beside) if row.aim is not None else None
    ratio = beside / value if beside is not None and value > 0 else None
    print(
        _ROW.format(
            row.what,
            shown(value, mine.unit),
            ("-" if beside is None else shown(beside, mine.unit)) + ("*" if recorded else ""),
            "-" if ratio is None else f"{ratio:.2f}×",
            "" if row.aim is None else str(row.aim),
            "" if met is None else ("met" if met else "MISSED"),
        )
    )
    return {
        "what": row.what,
        "unit": mine.unit,
        "deltaic": value,
        "deltaic_wall": statistics.median(mine.wall),
        "deltaic_rounds": mine.cpu,
        "java": beside,
        "java_rounds": theirs.cpu if theirs is not None else None,
        "recorded": recorded,
        "ratio": ratio,
        "aim": None if row.aim is None else str(row.aim),
        "met": met,
    }


def _named(names: list[str]) -> str:
    return f": {', '.join(names)}" if names else ""


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "python": platform.python_version(),
        "processor": next(
            (
                line.partition(":")[2].strip()
                for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")
            ),
            platform.machine(),
        ),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }
