"""A follower of `refresh.py`: one consumer in a process of its own, told what to do line by line."""

import gc
import json
import random
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

from deltaic.consumer import Consumer, RefreshListener


def memory_of(process: int | str = "self") -> int:
    """The proportional memory of a process: what it shares counts for each by its part."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)


class Visible(RefreshListener):
    """Tells when a version can be read."""

    def __init__(self) -> None:
        self.refreshing = False

    def before(self, from_version: int | None, to_version: int) -> None:
        self.refreshing = True

    def after(self, refresh: Any, changes: Any) -> None:
        at = time.monotonic_ns()
        self.refreshing = False
        if refresh.from_version is not None:
            tell(visible=refresh.to_version, at=at, seconds=dict(refresh.seconds))


class Reader(threading.Thread):
    """Reads titles of random movies, all the time, and notes how long each takes."""

    def __init__(self, consumer: Consumer, visible: Visible) -> None:
        super().__init__(daemon=True)
        self._consumer, self._visible = consumer, visible
        self._stopped = threading.Event()
        self.times: dict[bool, list[int]] = {False: [], True: []}

    def run(self) -> None:
        choose = random.Random(1)
        count = len(self._consumer["Movie"].view.populated)
        while not self._stopped.is_set():
            ordinal = choose.randrange(count)
            if ordinal not in self._consumer["Movie"].view.populated:
                continue
            before = self._visible.refreshing
            started = time.perf_counter_ns()
            # Ghosts of the version before can be read too: a refresh in between does no harm.
            self._consumer["Movie"].view[ordinal].title  # noqa: B018 - the reading is what is timed
            self.times[before or self._visible.refreshing].append(time.perf_counter_ns() - started)
            # A service has other things to do as well, and the other core belongs to the refresh.
            time.sleep(0.0005)

    def stop(self) -> dict[str, dict[str, float]]:
        self._stopped.set()
        self.join()
        return {("refreshing" if key else "idle"): _quantiles(times) for key, times in self.times.items() if times}


def _quantiles(times: list[int]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "median": statistics.median(ordered),
        "p99": ordered[int(0.99 * (len(ordered) - 1))],
        "max": ordered[-1],
        "count": len(ordered),
    }


def main() -> None:
    """Follow a folder until the input ends."""
    url, share, reads = sys.argv[1], sys.argv[2] == "shared", sys.argv[3] == "reads"
    visible = Visible()
    consumer = Consumer(url, share=share, cache_dir=False, listeners=[visible])
    gc.collect()
    tell(python=memory_of())
    reader = None
    for line in sys.stdin:
        if line.strip() == "load":
            started = time.perf_counter_ns()
            # The report is not kept: it holds the states that it compares.
            steps = len(consumer.refresh().steps)
            tell(loaded=time.perf_counter_ns() - started, steps=steps)
            consumer.start()
            if reads:
                reader = Reader(consumer, visible)
                reader.start()
        elif line.strip() == "memory":
            gc.collect()
            tell(memory=memory_of(), shared=consumer.status().shared)
        elif line.strip() == "checksum":
            tell(checksum=consumer.state.checksum())
    if reader is not None:
        tell(reads=reader.stop())
    consumer.stop()


if __name__ == "__main__":
    main()
