"""Opening, planning and committing tables of many files, beside deltalake and pyiceberg on the same file lists.

    python benchmarks/log.py [--files 1000,10000,70000,200000] [--rounds 5] [--commits-only]

Cold is a new process: imports, opening, planning, from the first line of a script on. Warm is the second time in one
process, on a table opened anew. `plan all` lists every path, `plan some` those of one day in thirty with a range of
ids. Figures are medians of wall time in milliseconds, the systems in turns so that a busy machine slows all alike;
CPU time of the process stands in brackets. A system that is not installed is left out, with a word.

A last table has deltaic's commits by the number of files, on the disk and in memory: wall time, syncs, processor, store
calls and bytes; commits that compact stand apart (`_log_commits.py`).
"""

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _log_commits

ROWS_PER_FILE = 1000
DAYS = 30
COMMITS = 24


def file_list(count: int) -> Iterator[dict[str, Any]]:
    """The same files for every system: one partition column, three columns with statistics."""
    for number in range(count):
        low = number * ROWS_PER_FILE
        yield {
            "name": f"part-{uuid.UUID(int=(number + 1) << 64)}",
            "day": f"2024-01-{number % DAYS + 1:02}",
            "size": 1_000_000 + number,
            "low": {"id": low, "score": 0.25, "name": f"name-{low:09}"},
            "high": {"id": low + ROWS_PER_FILE - 1, "score": 99.75, "name": f"name-{low + ROWS_PER_FILE - 1:09}"},
        }


class Deltaic:
    """This library."""

    name = "deltaic"
    needs = "deltaic"

    @staticmethod
    def make(folder: Path, count: int) -> None:
        from deltaic.table import Table

        columns = {"id": "long", "score": "double", "name": "string", "day": "string"}
        table = Table.create(folder / "table", columns=columns, partition_by=("day",))
        table.append([Deltaic.entry(one) for one in file_list(count)])
        table.checkpoint()

    @staticmethod
    def entry(one: dict[str, Any]) -> Any:
        from deltaic.table import AddFile

        return AddFile(
            f"day={one['day']}/{one['name']}.split",
            {"day": one["day"]},
            one["size"],
            4_000_000_000_000,
            min_values={key: str(value) for key, value in one["low"].items()},
            max_values={key: str(value) for key, value in one["high"].items()},
            num_records=ROWS_PER_FILE,
        )

    @staticmethod
    def plan(folder: Path, count: int, some: bool) -> int:
        from deltaic.table import Table, parse_predicate

        table = Table.open(folder / "table")
        where = f"day = '2024-01-03' and id < {count // 2 * ROWS_PER_FILE}" if some else None
        return len(table.plan(None if where is None else parse_predicate(where)).paths())

    @staticmethod
    def commits(folder: Path, count: int) -> Iterator[tuple[float, str]]:
        from deltaic.table import Table

        table = Table.open(folder / "table")
        # A writer that goes on committing: its first commit reads what is there.
        table.append([Deltaic.entry(_new_file(count, -1))])
        for number in range(COMMITS):
            add = Deltaic.entry(_new_file(count, number))
            started = time.perf_counter()
            done = table.append([add])
            yield time.perf_counter() - started, str(done.state_kind)

    @staticmethod
    def costs(folder: Path, count: int) -> dict[str, Any]:
        from msgspec.structs import replace

        pattern = Deltaic.entry(_new_file(count, 0))
        return _log_commits.measure(folder, lambda path, values: replace(pattern, path=path, partition_values=values))


class Deltalake:
    """delta-rs."""

    name = "deltalake"
    needs = "deltalake"

    @staticmethod
    def make(folder: Path, count: int) -> None:
        from deltalake import DeltaTable

        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _DELTA_COLUMNS]
        schema = json.dumps({"type": "struct", "fields": fields})
        metadata = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": ["day"],
            "configuration": {},
            "createdTime": 1,
        }
        log = folder / "table" / "_delta_log"
        log.mkdir(parents=True)
        lines = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
        lines += [{"add": Deltalake.entry(one)} for one in file_list(count)]
        (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)))
        DeltaTable(str(folder / "table")).create_checkpoint()

    @staticmethod
    def entry(one: dict[str, Any]) -> dict[str, Any]:
        stats = {"numRecords": ROWS_PER_FILE, "minValues": one["low"], "maxValues": one["high"], "nullCount": {"id": 0}}
        return {
            "path": f"day={one['day']}/{one['name']}.parquet",
            "partitionValues": {"day": one["day"]},
            "size": one["size"],
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps(stats),
        }

    @staticmethod
    def plan(folder: Path, count: int, some: bool) -> int:
        from deltalake import DeltaTable

        table = DeltaTable(str(folder / "table"))
        # Its Python interface prunes by partition only.
        return len(table.file_uris([("day", "=", "2024-01-03")] if some else None))

    @staticmethod
    def commits(folder: Path, count: int) -> Iterator[tuple[float, str]]:
        from deltalake import DeltaTable
        from deltalake.transaction import AddAction

        table = DeltaTable(str(folder / "table"))
        schema = table.schema()
        for number in range(COMMITS):
            one = Deltalake.entry(_new_file(count, number))
            add = AddAction(one["path"], one["size"], one["partitionValues"], 1, True, one["stats"])
            started = time.perf_counter()
            table.create_write_transaction([add], "append", schema, ["day"])
            yield time.perf_counter() - started, ""


_DELTA_COLUMNS = (("id", "long"), ("score", "double"), ("name", "string"), ("day", "string"))


class Pyiceberg:
    """pyiceberg with an SQLite catalog."""

    name = "pyiceberg"
    needs = "pyiceberg"

    @staticmethod
    def catalog(folder: Path) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        return SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")

    @staticmethod
    def make(folder: Path, count: int) -> None:
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.schema import Schema
        from pyiceberg.transforms import IdentityTransform
        from pyiceberg.types import DoubleType, LongType, NestedField, StringType

        schema = Schema(
            NestedField(1, "id", LongType(), required=False),
            NestedField(2, "score", DoubleType(), required=False),
            NestedField(3, "name", StringType(), required=False),
            NestedField(4, "day", StringType(), required=False),
        )
        spec = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "day"))
        catalog = Pyiceberg.catalog(folder)
        catalog.create_namespace("bench")
        table = catalog.create_table("bench.table", schema, partition_spec=spec)
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for one in file_list(count):
                append.append_data_file(Pyiceberg.entry(folder, one))

    @staticmethod
    def entry(folder: Path, one: dict[str, Any]) -> Any:
        from pyiceberg.conversions import to_bytes
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record
        from pyiceberg.types import DoubleType, LongType, StringType

        kinds = ((1, "id", LongType()), (2, "score", DoubleType()), (3, "name", StringType()))
        made = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"file://{folder}/data/day={one['day']}/{one['name']}.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(one["day"]),
            record_count=ROWS_PER_FILE,
            file_size_in_bytes=one["size"],
            column_sizes={},
            value_counts={number: ROWS_PER_FILE for number, _, _ in kinds},
            null_value_counts={},
            nan_value_counts={},
            lower_bounds={number: to_bytes(kind, one["low"][name]) for number, name, kind in kinds},
            upper_bounds={number: to_bytes(kind, one["high"][name]) for number, name, kind in kinds},
            key_metadata=None,
            split_offsets=[],
            equality_ids=None,
            sort_order_id=None,
        )
        made.spec_id = 0
        return made

    @staticmethod
    def plan(folder: Path, count: int, some: bool) -> int:
        table = Pyiceberg.catalog(folder).load_table("bench.table")
        where = f"day == '2024-01-03' and id < {count // 2 * ROWS_PER_FILE}"
        return len([task.file.file_path for task in (table.scan(where) if some else table.scan()).plan_files()])

    @staticmethod
    def commits(folder: Path, count: int) -> Iterator[tuple[float, str]]:
        table = Pyiceberg.catalog(folder).load_table("bench.table")
        for number in range(COMMITS):
            made = Pyiceberg.entry(folder, _new_file(count, number))
            started = time.perf_counter()
            with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
                append.append_data_file(made)
            yield time.perf_counter() - started, ""


SYSTEMS: tuple[Any, ...] = (Deltaic, Deltalake, Pyiceberg)


def _new_file(count: int, number: int) -> dict[str, Any]:
    one = next(file_list(1))
    return {**one, "name": f"part-{uuid.UUID(int=(count + number + 7) << 64)}-{number}"}


def in_child(system: Any, folder: Path, count: int, task: str) -> dict[str, Any]:
    """Run one task in a new process and give what it prints."""
    command = [sys.executable, __file__, "--child", task, system.name, str(folder), str(count)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise RuntimeError(answer.stderr[-2000:])
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def child(task: str, name: str, folder: Path, count: int) -> None:
    """What the child does; imports of the system count as cold."""
    system = next(one for one in SYSTEMS if one.name == name)
    if task == "costs":
        print(json.dumps(system.costs(folder, count)))
        return
    if task == "commit":
        times = list(system.commits(folder, count))
        print(json.dumps({"times": times}))
        return
    some = task == "some"
    clock: Callable[[], float] = time.perf_counter
    used = _cpu()
    started = clock()
    files = system.plan(folder, count, some)
    cold, cold_cpu = clock() - started, _cpu() - used
    warm = []
    for _ in range(3):
        started = clock()
        system.plan(folder, count, some)
        warm.append(clock() - started)
    print(json.dumps({"cold": cold, "cpu": cold_cpu, "warm": statistics.median(warm), "files": files}))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="1000,10000,70000,200000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commits-only", action="store_true", help="leave the other systems and planning out")
    parser.add_argument("--child", nargs=4, metavar=("TASK", "SYSTEM", "FOLDER", "FILES"))
    given = parser.parse_args()
    if given.child:
        task, name, folder, count = given.child
        child(task, name, Path(folder), int(count))
        return 0
    systems = []
    for system in SYSTEMS:
        if importlib.util.find_spec(system.needs) is None:
            print(f"{system.name} is not installed: left out (pip install {system.needs})")
        else:
            systems.append(system)
    counts = [int(count) for count in given.files.split(",")]
    for count in counts if not given.commits_only else ():
        with tempfile.TemporaryDirectory() as parent:
            compare(Path(parent), systems, count, given.rounds)
    costs = {}
    for place, parent in (("disk", None), ("memory", "/dev/shm")):
        if parent is not None and not os.access(parent, os.W_OK):
            print(f"{parent} is not there: commits are measured on the disk alone")
            continue
        for count in counts:
            with tempfile.TemporaryDirectory(dir=parent) as folder:
                Deltaic.make(Path(folder), count)
                costs[count, place] = in_child(Deltaic, Path(folder), count, "costs")
    _log_commits.show(counts, costs)
    return 0


def compare(parent: Path, systems: list[Any], count: int, rounds: int) -> None:
    """Measure one number of files and print its table."""
    print(f"\n{count:,} files" + " " * 24 + "".join(f"{system.name:>22}" for system in systems))
    folders = {}
    for system in systems:
        folders[system.name] = parent / system.name
        folders[system.name].mkdir()
        system.make(folders[system.name], count)
    for task, title in (("all", "plan all"), ("some", "plan some")):
        found: dict[str, list[dict[str, Any]]] = {system.name: [] for system in systems}
        for _ in range(rounds):
            for system in systems:
                found[system.name].append(in_child(system, folders[system.name], count, task))
        for kind in ("cold", "warm"):
            cells = []
            for system in systems:
                taken = statistics.median(one[kind] for one in found[system.name]) * 1000
                cpu = statistics.median(one["cpu"] for one in found[system.name]) * 1000
                cells.append(f"{taken:10.1f} [{cpu:8.1f}]" if kind == "cold" else f"{taken:10.1f}           ")
            print(f"  {kind} open + {title:<20}" + "".join(f"{cell:>22}" for cell in cells))
        counts = {system.name: found[system.name][0]["files"] for system in systems}
        print(f"    files left: {counts}")
    cells, apart = [], ""
    for system in systems:
        times = in_child(system, folders[system.name], count, "commit")["times"]
        plain = [seconds for seconds, kind in times if kind in ("", "incremental")]
        cells.append(f"{statistics.median(plain) * 1000:10.1f}           ")
        joined = [seconds * 1000 for seconds, kind in times if kind in ("partial", "full")]
        if joined:
            apart = f"    commits of deltaic that compact: {', '.join(f'{one:.1f}' for one in joined)} ms"
    print(f"  commit one file (median of {COMMITS})  " + "".join(f"{cell:>22}" for cell in cells))
    if apart:
        print(apart)


if __name__ == "__main__":
    sys.exit(main())
