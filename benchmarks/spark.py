"""Building on Spark: the movie catalogue, built by the tasks of a local session, beside the embedded producer.

    python benchmarks/spark.py                            1,000,000 movies, on 1 and on 2 cores
    python benchmarks/spark.py --size 10000000 --large    the driver's memory at ten million
    python benchmarks/spark.py --tables                   only tables: read and write beside Parquet and Delta Lake

CPU time is that of the whole process tree (driver, Java, workers) and of a warm session; rows are Parquet files that
the tasks read. Every figure is a whole cycle: build, stage, check, publish, announce.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.harness import Aim, Figures, Row, Stopwatch, in_new_process, merge, report  # noqa: E402
from benchmarks.movies import FULL_SIZE, SCHEMAS, Catalogue  # noqa: E402

JAVA_POPULATE = 7500.0
"""Nanoseconds per movie of Java's object mapper, without writing or checking (recorded)."""

FILES = 8
DRIVER_BYTES = 1 << 30

ROWS = [
    Row("embedded: first version, per movie", None, None, JAVA_POPULATE),
    Row("spark, 1 core: first version, per movie", None, Aim(at_most=JAVA_POPULATE), JAVA_POPULATE),
    Row("spark, 2 cores: first version, per movie", None, Aim(at_most=JAVA_POPULATE), JAVA_POPULATE),
    Row("embedded: second version, all rows", None, None, 6550e6),
    Row("spark, 1 core: second version, all rows", None, None, 6550e6),
    Row("spark, 2 cores: second version, all rows", None, None, 6550e6),
    Row("embedded: second version, changes", None, None, 1430e6),
    Row("spark, 1 core: second version, changes", None, None, 1430e6),
    Row("spark, 2 cores: second version, changes", None, None, 1430e6),
]


def write_rows(folder: Path, size: int) -> None:
    """Both versions as files, and what changed between them; in pieces, so that ten million fit."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = Catalogue.first(size)
    second, step = first.advance()
    for name, catalogue in (("first", first), ("second", second)):
        (folder / name).mkdir(parents=True)
        for part, ids in enumerate(np.array_split(catalogue.ids, FILES)):
            pq.write_table(catalogue.only(ids).as_arrow(), folder / name / f"{part}.parquet", compression="zstd")
    changed = second.only(np.sort(np.concatenate([step.changed, step.added]))).as_arrow()
    (folder / "changed").mkdir()
    (folder / "removed").mkdir()
    pq.write_table(changed, folder / "changed" / "0.parquet")
    pq.write_table(pa.table({"id": step.removed}), folder / "removed" / "0.parquet")


def paths(folder: Path, name: str) -> list[str]:
    """The files of some rows."""
    return sorted(str(path) for path in (folder / name).iterdir())


def model() -> Any:
    """The model of the catalogue."""
    from deltaic.schema.model import Model
    from deltaic.schema.text import parse_schemas

    return Model.from_schemas(parse_schemas(SCHEMAS))


@contextmanager
def chain() -> Iterator[Any]:
    """A producer with a folder of its own."""
    from deltaic.producer import Producer

    with tempfile.TemporaryDirectory() as folder:
        producer = Producer(folder, model(), order="canonical", random=random.Random(1), clock=lambda: 1.0)
        with producer:
            yield producer


def embedded(folder: Path, size: int, rounds: int) -> None:
    """The embedded producer, in this process."""
    import pyarrow.parquet as pq

    watch = Stopwatch()

    def read(name: str) -> Any:
        return pq.read_table([*paths(folder, name)] if len(paths(folder, name)) == 1 else folder / name)

    for number in range(rounds + 1):
        counted = watch if number else Stopwatch()
        with chain() as producer:
            counted.measure(
                "embedded: first version, per movie", size, lambda: producer.publish(read("first"), type_name="Movie")
            )
            counted.measure(
                "embedded: second version, all rows", 1, lambda: producer.publish(read("second"), type_name="Movie")
            )
        with chain() as producer:
            producer.publish(read("first"), type_name="Movie")

            def change(producer: Any = producer) -> None:
                with producer.incremental() as changes:
                    changes.add_or_modify(read("changed"), "Movie")
                    changes.delete_many("Movie", read("removed")["id"].to_numpy())

            counted.measure("embedded: second version, changes", 1, change)
    watch.print()


def on_spark(folder: Path, size: int, rounds: int, cores: int) -> None:
    """The same on a local session."""
    from deltaic.spark import session
    from deltaic.spark.build import publish, publish_changes

    spark = session(f"local[{cores}]", driver_memory="512m")
    watch = Stopwatch()
    place = f"spark, {cores} core{'s' if cores > 1 else ''}"
    received: list[int] = []

    def job(_what: str, _tasks: int, size_bytes: int) -> None:
        received.append(size_bytes)

    first, second = {"Movie": paths(folder, "first")}, {"Movie": paths(folder, "second")}
    changed, removed = {"Movie": paths(folder, "changed")}, {"Movie": paths(folder, "removed")}
    for number in range(rounds + 1):
        # The first round warms Java up.
        counted = watch if number else Stopwatch()
        with chain() as producer:
            received.clear()
            tree_measure(
                counted,
                f"{place}: first version, per movie",
                size,
                lambda: publish(spark, producer, first, progress=job),
            )
            tree_measure(counted, f"{place}: second version, all rows", 1, lambda: publish(spark, producer, second))
        with chain() as producer:
            publish(spark, producer, first)
            tree_measure(
                counted,
                f"{place}: second version, changes",
                1,
                lambda: publish_changes(spark, producer, changed, removed),
            )
    watch.bytes(f"{place}: bytes that reach the driver", sum(received))
    watch.print()
    spark.stop()


def large(folder: Path, cores: int) -> None:
    """One first version; the memory of the driver, Python and Java."""
    from deltaic.spark import session
    from deltaic.spark.build import publish

    spark = session(f"local[{cores}]", driver_memory="512m")
    watch = Stopwatch()
    with chain() as producer:
        tree_measure(
            watch,
            "large: first version",
            1,
            lambda: publish(spark, producer, {"Movie": paths(folder, "first")}, tasks=cores * 2),
        )
    java = spark.sparkContext._gateway.proc.pid
    watch.bytes("large: driver, Python", high_water("self"))
    watch.bytes("large: driver, Java", high_water(str(_java_of(java))))
    watch.print()
    spark.stop()


def tree_measure(watch: Stopwatch, what: str, operations: int, work: Callable[[], object]) -> None:
    """Book CPU time of this process and all below it, and wall time."""
    cpu, wall = tree_cpu_seconds(), time.perf_counter()
    work()
    wall_seconds, cpu_seconds = time.perf_counter() - wall, tree_cpu_seconds() - cpu
    watch.book(what, cpu_seconds * 1e9 / operations, wall_seconds * 1e9 / operations)


def tree_cpu_seconds() -> float:
    """CPU seconds of this process, of those below it, and of those that ended below it."""
    import os

    parents: dict[int, list[int]] = {}
    spent: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
            spent[int(entry.name)] = sum(map(int, fields[11:15]))
    waiting, ticks = [os.getpid()], 0
    while waiting:
        process = waiting.pop()
        ticks += spent.get(process, 0)
        waiting += parents.get(process, [])
    return ticks / os.sysconf("SC_CLK_TCK")


def high_water(process: str) -> int:
    """The most memory that a process had in RAM."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _java_of(process: int) -> int:
    """The Java that a launcher script became, or started."""
    waiting = [process]
    while waiting:
        found = waiting.pop(0)
        if Path(f"/proc/{found}/comm").read_text().strip() == "java":
            return found
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and f"PPid:\t{found}\n" in (entry / "status").read_text():
                waiting.append(int(entry.name))
    raise RuntimeError("Spark's Java is not among the processes below this one")


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=FULL_SIZE, help="number of movies")
    parser.add_argument("--rounds", type=int, default=2, help="rounds after the one that warms up")
    parser.add_argument("--large", action="store_true", help="only one first version, and the driver's memory")
    parser.add_argument("--tables", action="store_true", help="only read and write of tables")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        kind, folder, *rest = options.child
        match kind:
            case "rows":
                return write_rows(Path(folder), options.size)
            case "embedded":
                return embedded(Path(folder), options.size, options.rounds)
            case "large":
                return large(Path(folder), int(rest[0]))
            case _:
                return on_spark(Path(folder), options.size, options.rounds, int(rest[0]))
    if options.tables or not options.large:
        more = ["--json", str(options.json)] if options.json and options.tables else []
        subprocess.run([sys.executable, str(ROOT / "benchmarks" / "_spark_tables.py"), *more], check=True)
        if options.tables:
            return None
    ours: Figures = {}
    folder = Path(tempfile.mkdtemp(prefix="deltaic-movies-"))
    place = ["--size", str(options.size), "--rounds", str(options.rounds), "--child"]
    try:
        subprocess.run([sys.executable, __file__, *place, "rows", str(folder)], check=True)
        if options.large:
            merge(ours, in_new_process(Path(__file__), *place, "large", str(folder), "2", core=None))
            table = report([], ours, {}, f"Building {options.size:,} movies on Spark, 2 cores")
            both = sum(ours[f"large: driver, {name}"].median for name in ("Python", "Java"))
            print(f"driver: {both / 1e6:,.0f} MB at most, {'met' if both < DRIVER_BYTES else 'MISSED'} (under 1 GB)")
        else:
            merge(ours, in_new_process(Path(__file__), *place, "embedded", str(folder), core=0))
            for cores in (1, 2):
                merge(ours, in_new_process(Path(__file__), *place, "spark", str(folder), str(cores), core=None))
            table = report(
                ROWS, ours, {}, f"Building {options.size:,} movies on Spark, medians of {options.rounds} rounds"
            )
            _compare(ours)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


def _compare(ours: Figures) -> None:
    """What the two paths have in common: the share of the embedded speed, and the gain of the second core."""
    one, two = (ours[f"spark, {cores}: first version, per movie"] for cores in ("1 core", "2 cores"))
    share = ours["embedded: first version, per movie"].median / one.median
    gain = min(one.wall) / min(two.wall)
    print(f"\nper core {share:.0%} of the embedded speed: {'met' if share >= 0.2 else 'MISSED'} (≥ 20%)")
    print(f"two cores {gain:.2f} times as fast as one by the clock: {'met' if gain >= 1.6 else 'MISSED'} (≥ 1.6)")


if __name__ == "__main__":
    main()
