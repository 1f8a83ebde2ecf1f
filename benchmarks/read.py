"""How fast states are read: load, refresh, columns, records, on the movie catalogue, beside Java Hollow.

`python benchmarks/read.py` measures a million movies from the recorded blobs (about five minutes); `--size 20000` a
small catalogue that Java writes first. `load` is a later load of one process, as Java's after its warm-up; `load (new
process)` is the first one, whose memory is touched for the first time. `--passes` turns alternate with Java.
"""

import argparse
import gc
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.harness import (  # noqa: E402 - needs the path above
    Aim,
    Figures,
    Row,
    Stopwatch,
    in_new_process,
    merge,
    peak_bytes,
    report,
    resident_bytes,
)
from benchmarks.movies import CACHE, CHECKSUMS, FULL_SIZE, recorded_blobs  # noqa: E402
from tools.java import Program, java_or_none  # noqa: E402

LOADS = 5
HOT = 1_000
READS = 200_000
ROWS = [
    Row("load", "load", Aim(faster=5), 181e6),
    Row("load (new process)", "load", Aim(faster=5), 181e6),
    Row("apply delta", "apply delta", Aim(faster=5), 86e6),
    Row("apply reverse delta", "apply reverse delta", Aim(faster=5), 87e6),
    Row("int column scan, per record", "int column scan", Aim(faster=5), 10.2),
    Row("float column scan, per record", "float column scan", Aim(faster=5), 8.1),
    Row("String type decode, per record", "String type decode", None, 70.0),
    Row("movie.year, hot", "int hot", Aim(at_most=100)),
    Row("movie.year, cold", "int random", Aim(at_most=100), 28.0),
    Row("movie.title, hot", "string through reference, hot", Aim(at_most=150)),
    Row("movie.title, cold", "string through reference, cold", Aim(at_most=350), 419.0),
    Row("movie.cast[0].id, cold", "list size and first element", None, 145.0),
    Row("record creation"),
    Row("checksum", "checksum", None, 151e6),
    Row("buffers held after load", "heap after load", None, 47.7e6),
    Row("buffers held after deltas", "heap after deltas", Aim(at_most_java=True)),
    Row("resident memory after deltas", "heap after deltas"),
    Row("peak memory of a refresh"),
]


def measure_load(folder: Path) -> None:
    """One load, in a process that has done nothing else yet."""
    from deltaic.state.read import ReadState

    watch = Stopwatch()
    watch.measure("load (new process)", 1, lambda: ReadState.load(folder / "snapshot-0"))
    watch.print()


def measure_memory(folder: Path, last: int) -> None:
    """Memory after load and after all deltas, and the peak of one refresh on the way."""
    from deltaic.binary.buffers import RECYCLER
    from deltaic.state.read import ReadState

    watch = Stopwatch()
    before = resident_bytes()
    state = ReadState.load(folder / "snapshot-0")
    watch.bytes("buffers held after load", state.nbytes + RECYCLER.kept_bytes)
    peak = 0
    for version in range(last):
        blob = folder / f"delta-{version}-{version + 1}"
        grown, state = peak_bytes(lambda blob=blob, state=state: state.apply(blob))  # type: ignore[misc, assignment]
        peak = max(peak, grown)
    watch.bytes("peak memory of a refresh", peak)
    gc.collect()
    watch.bytes("buffers held after deltas", state.nbytes + RECYCLER.kept_bytes)
    watch.bytes("resident memory after deltas", resident_bytes() - before)
    watch.print()


def measure_reads(folder: Path, last: int, rounds: int) -> None:
    """Everything that is measured on a loaded state."""
    from deltaic.state.read import ReadState

    state = ReadState.load(folder / "snapshot-0")
    _warm_up(folder, state)
    watch = Stopwatch()
    for number in range(rounds):
        for _ in range(LOADS):
            watch.measure("load", 1, lambda: ReadState.load(folder / "snapshot-0"))
        _columns(watch, state)
        _records(watch, state, number)
        watch.measure("checksum", 1, state.checksum)
        state = _refreshes(watch, folder, last, state)
    watch.print()
    expected = CHECKSUMS.get(0) if len(state["Movie"].populated) == FULL_SIZE else None
    if expected is not None and state.checksum() != expected:
        raise SystemExit("the chain did not lead back to where it began")


def _warm_up(folder: Path, state: Any) -> None:
    state["Movie"].column("year")
    state.apply(folder / "delta-0-1")


def _columns(watch: Stopwatch, state: Any) -> None:
    movies, texts = state["Movie"], state["String"]
    count = len(movies.populated)
    # A small column is read several times, so that a round is long enough for the clock.
    repeats = max(1, FULL_SIZE // count)

    def scan(view: Any, name: str) -> None:
        for _ in range(repeats):
            view.column(name)

    watch.measure("int column scan, per record", count * repeats, lambda: scan(movies, "year"))
    watch.measure("float column scan, per record", count * repeats, lambda: scan(movies, "rating"))
    watch.measure("String type decode, per record", len(texts.populated) * repeats, lambda: scan(texts, "value"))


def _refreshes(watch: Stopwatch, folder: Path, last: int, state: Any) -> Any:
    def walk(blobs: list[Path]) -> Any:
        reached = state
        for blob in blobs:
            reached = reached.apply(blob)
        return reached

    forward = [folder / f"delta-{version}-{version + 1}" for version in range(last)]
    state = watch.measure("apply delta", last, lambda: walk(forward))
    back = [folder / f"reversedelta-{version}-{version - 1}" for version in range(last, 0, -1)]
    return watch.measure("apply reverse delta", last, lambda: walk(back))


def _records(watch: Stopwatch, state: Any, seed: int) -> None:
    movies = state["Movie"]
    count = len(movies.populated)
    choose = random.Random(seed)
    cold = [choose.randrange(count) for _ in range(READS)]
    hot = [choose.randrange(min(HOT, count)) for _ in range(READS)]
    created = watch.measure("record creation", READS, lambda: [movies[ordinal] for ordinal in cold])
    assert isinstance(created, list)
    again = [movies[ordinal] for ordinal in hot]
    for heat, records in (("hot", again), ("cold", created)):
        _time_attribute(watch, f"movie.year, {heat}", records, _years)
        _time_attribute(watch, f"movie.title, {heat}", records, _titles)
    _time_attribute(watch, "movie.cast[0].id, cold", created, _first_actors)


def _time_attribute(watch: Stopwatch, what: str, records: list[Any], read: Any) -> None:
    """Time of the attribute alone: the bare loop is measured beside it and taken off."""
    times = []
    for loop in (_nothing, read):
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        loop(records)
        times.append((time.process_time_ns() - cpu, time.perf_counter_ns() - wall))
    (bare_cpu, bare_wall), (cpu, wall) = times
    watch.book(what, (cpu - bare_cpu) / len(records), (wall - bare_wall) / len(records))


def _nothing(records: list[Any]) -> None:
    for _movie in records:
        pass


def _years(records: list[Any]) -> None:
    for movie in records:
        movie.year  # noqa: B018 - the reading is what is timed


def _titles(records: list[Any]) -> None:
    for movie in records:
        movie.title  # noqa: B018


def _first_actors(records: list[Any]) -> None:
    for movie in records:
        movie.cast[0].id  # noqa: B018


def chain_of(size: int, program: Program | None) -> tuple[Path, int]:
    """The folder of a catalogue's chain, and its last version."""
    if size == FULL_SIZE and (recorded := recorded_blobs()) is not None:
        return recorded, 10
    folder = CACHE / f"movies-{size}"
    if not (folder / "delta-9-10").is_file():
        if program is None:
            raise SystemExit("no recorded blobs (DELTAIC_BENCHMARKS) and no Java to write them")
        program.run("movies", str(size), "10", str(folder), heap="4g")
    return folder, 10


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=FULL_SIZE, help="number of movies")
    parser.add_argument("--passes", type=int, default=3, help="turns of deltaic and Java")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per turn")
    parser.add_argument("--core", type=int, default=0, help="the core that everything runs on")
    parser.add_argument("--no-java", action="store_true", help="deltaic alone, beside the recorded figures")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--child", choices=["load", "memory", "reads"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--last", type=int, default=10, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child == "load":
        return measure_load(options.folder)
    if options.child == "memory":
        return measure_memory(options.folder, options.last)
    if options.child == "reads":
        return measure_reads(options.folder, options.last, options.rounds)
    program = None if options.no_java else java_or_none()
    folder, last = chain_of(options.size, program)
    ours: Figures = {}
    java: Figures = {}
    place = ["--folder", str(folder), "--last", str(last), "--rounds", str(options.rounds)]
    for _ in range(options.passes):
        for _ in range(LOADS):
            merge(ours, in_new_process(Path(__file__), "--child", "load", *place, core=options.core))
        merge(ours, in_new_process(Path(__file__), "--child", "memory", *place, core=options.core))
        merge(ours, in_new_process(Path(__file__), "--child", "reads", *place, core=options.core))
        if program is not None:
            merge(java, program.run("bench-read", str(folder), str(options.rounds), core=options.core))
    rows = ROWS if options.size == FULL_SIZE else [Row(row.what, row.java, row.aim) for row in ROWS]
    table = report(rows, ours, java, f"Reading {options.size:,} movies, one core, medians of {options.passes} turns")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
