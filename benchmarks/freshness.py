"""Freshness: a row enters a stream; how long until a follower in another process answers with it.

    python benchmarks/freshness.py [--rows 20] [--table-rows 100000]

A pipeline runs continuously on local Spark: source table → stream → table → published delta → follower. Rows enter one
by one, each when the one before has arrived. Times are of one clock, by step:

    into the table   from the commit to the source until the commit to the table: Spark's trigger, a task, the sink
    published        until the version is announced: changes, delta, checks
    answered         until the follower has applied the delta and finds the row by its key
"""

import argparse
import json
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

STEPS = ("into the table", "published", "answered", "in all")


def follow(url: str) -> None:
    """The second process: tells when it can answer with a row, for every version that it reaches."""
    from deltaic.consumer import Consumer, RefreshListener

    class Teller(RefreshListener):
        def after(self, refresh: Any, changes: Any) -> None:
            keys = [] if refresh.by_snapshot else [key[0] for key in changes["Film"].added_keys()]
            print(json.dumps({"version": refresh.to_version, "keys": keys, "at": time.time()}), flush=True)

    with Consumer(url, listeners=[Teller()], poll_seconds=0.02):
        sys.stdin.read()


def measure(folder: Path, table_rows: int, rows: int) -> dict[str, list[float]]:
    import pyarrow as pa

    from deltaic.dataset import Dataset
    from deltaic.spark import session
    from deltaic.spark.pipeline_file import make_pipeline
    from deltaic.spark.pipeline_run import PipelineRun
    from deltaic.table.rows import Table

    source = Table.create(folder / "source", pa.schema([("id", pa.int64()), ("title", pa.string())]))
    source.append(pa.table({"id": range(table_rows), "title": [f"film {number}" for number in range(table_rows)]}))
    pipeline = make_pipeline(
        {
            "name": "films",
            "source": [{"name": "raw", "format": "deltaic", "path": "source", "stream": True}],
            "table": {"dataset": "store", "type": "Film", "key": ["id"], "mode": "append"},
            "publish": {"engine": "embedded", "snapshot_every": 1_000},
        },
        str(folder),
    )
    spark = session("local[2]")
    stop, running = threading.Event(), PipelineRun(pipeline, spark)
    failed: list[BaseException] = []

    def go() -> None:
        try:
            for _ in running.run_continuously(stop.is_set):
                pass
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    while not failed and not (folder / "store" / "chain").exists():
        time.sleep(0.1)
    follower = subprocess.Popen(
        [sys.executable, __file__, "--follow", str(folder / "store" / "chain")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    told: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=lambda: [told.put(json.loads(line)) for line in follower.stdout or ()], daemon=True).start()
    found: dict[str, list[float]] = {step: [] for step in STEPS}
    try:
        told.get(timeout=120)
        dataset = Dataset.open(folder / "store")
        for number in range(rows + 3):
            key = table_rows + number
            entered = time.time()
            source.append([{"id": key, "title": f"film {key}"}])
            while key not in (answer := told.get(timeout=120))["keys"]:
                pass
            committed = next(iter(dataset.table.history(limit=1))).committed_ms / 1000
            record = dataset.announcements.read().record
            entry = None if record is None else record.find(answer["version"])
            announced = answer["at"] if entry is None else entry.announced_ms / 1000
            if number >= 3:  # the first ones warm Java up
                times = (committed - entered, announced - committed, answer["at"] - announced, answer["at"] - entered)
                for step, seconds in zip(STEPS, times, strict=True):
                    found[step].append(seconds)
    finally:
        stop.set()
        assert follower.stdin is not None
        follower.stdin.close()
        thread.join(60)
        follower.wait(10)
        spark.stop()
    if failed:
        raise failed[0]
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20, help="rows that enter, one by one")
    parser.add_argument("--table-rows", type=int, default=100_000, help="rows that are there before")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--follow", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.follow:
        return follow(options.follow)
    with tempfile.TemporaryDirectory(prefix="deltaic-freshness-") as folder:
        found = measure(Path(folder), options.table_rows, options.rows)
    print(f"{options.rows} rows, one by one, into a table of {options.table_rows:,}; seconds\n")
    print(f"{'step':<18}{'median':>9}{'p95':>9}")
    for step, values in found.items():
        ordered = sorted(values)
        print(f"{step:<18}{statistics.median(ordered):>9.3f}{ordered[int(0.95 * (len(ordered) - 1) + 0.5)]:>9.3f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
