"""How a change reaches its readers: from announcement to visible, reads meanwhile, attach, memory of 1 and 4 processes.

`python benchmarks/refresh.py` follows ten versions of a million movies, shared and not, beside Java Hollow's own load
and delta (each Java process has a copy of its own) and beside re-loads of the same change into LMDB and Redis, where
they can be had. Times are wall: several processes take part. Everything runs on this machine, with the store in a local
folder; what Python itself takes is not in the figures of memory.
"""

import argparse
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks._follower import memory_of  # noqa: E402 - needs the path above
from benchmarks._stores import measure_stores  # noqa: E402
from benchmarks.harness import Aim, Figures, Rounds, Row, Stopwatch, merge, report  # noqa: E402
from benchmarks.movies import FULL_SIZE  # noqa: E402
from benchmarks.read import chain_of  # noqa: E402
from tools.java import java_or_none  # noqa: E402

PAUSE_SECONDS = 0.3
SAMPLE_SECONDS = 0.03
ROWS = [
    Row("first load, shared", "load"),
    Row("first load, private", "load"),
    Row("attach", None, Aim(at_most=50e6)),
    Row("announced to visible, shared, 1 process", "apply delta"),
    Row("announced to visible, shared, 4 processes", "apply delta"),
    Row("announced to visible, private, 1 process", "apply delta"),
    Row("announced to visible, private, 4 processes", "apply delta"),
    Row("refresh itself, shared, 1 process", "apply delta"),
    Row("refresh itself, private, 1 process", "apply delta"),
    Row("read one title, median, between refreshes"),
    Row("read one title, median, during refreshes"),
    Row("read one title, 99 %, between refreshes"),
    Row("read one title, 99 %, during refreshes"),
    Row("read one title, slowest, during refreshes"),
    Row("LMDB: the same change"),
    Row("Redis: the same change"),
    Row("steady memory, shared, 1 process", "heap after deltas"),
    Row("steady memory, shared, 4 processes", "heap after deltas, 4 processes"),
    Row("steady memory, private, 1 process", "heap after deltas"),
    Row("steady memory, private, 4 processes", "heap after deltas, 4 processes"),
    Row("peak memory, shared, 1 process"),
    Row("peak memory, shared, 4 processes"),
    Row("peak memory, private, 1 process"),
    Row("peak memory, private, 4 processes"),
]


class Publisher:
    """Announces one recorded version after the other in a folder of its own."""

    def __init__(self, chain: Path, folder: Path) -> None:
        from deltaic.storage.announcement import Announcements
        from deltaic.storage.lease import acquire_lease
        from deltaic.storage.local import LocalStore

        self._chain, self.folder = chain, folder
        self._announcements = Announcements(LocalStore(folder))
        self._epoch = acquire_lease(self._announcements).epoch

    def publish(self, version: int) -> int:
        """Put the blob that leads to a version and announce it; gives when the announcement began."""
        from deltaic.storage.announced import Artifact
        from deltaic.storage.checksum import checksum

        before = version - 1 if version else None
        name = f"delta-{before}-{version}" if version else "snapshot-0"
        shutil.copyfile(self._chain / name, self.folder / name)
        data = (self.folder / name).read_bytes()
        kind = "delta" if version else "snapshot"
        to_version = version if version else None
        artifact = Artifact(kind, name, len(data), checksum(data), before, to_version)
        started = time.monotonic_ns()
        self._announcements.announce(version, [artifact], epoch=self._epoch)
        return started


class FollowerProcess:
    """A follower in a process of its own."""

    def __init__(self, folder: Path, share: str, *, reads: bool) -> None:
        command = [sys.executable, "-m", "benchmarks._follower", folder.as_uri(), share, "reads" if reads else "none"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self._lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.python_bytes: int = self.hear("python")["python"]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put({"ended": True})

    def hear(self, what: str) -> dict[str, Any]:
        """The next line that says this."""
        while True:
            line = self._lines.get(timeout=120)
            if what in line:
                return line
            if "ended" in line:
                raise SystemExit("a follower ended early")

    def ask(self, command: str, what: str) -> dict[str, Any]:
        """Give a command and hear its answer."""
        assert self._process.stdin is not None
        print(command, file=self._process.stdin, flush=True)
        return self.hear(what)

    def memory(self) -> int:
        """What it holds beyond Python itself."""
        return max(0, memory_of(self._process.pid) - self.python_bytes)

    def end(self, *, reads: bool) -> dict[str, Any]:
        """Let it end; gives what its reader noted."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        noted: dict[str, Any] = self.hear("reads")["reads"] if reads else {}
        self._process.wait(60)
        return noted


class PeakWatch(threading.Thread):
    """Adds up the memory of all followers, again and again, and keeps the largest sum."""

    def __init__(self, followers: list[FollowerProcess]) -> None:
        super().__init__(daemon=True)
        self._followers = followers
        self._stopped = threading.Event()
        self.peak_bytes = 0

    def run(self) -> None:
        """Sample until stopped."""
        while not self._stopped.wait(SAMPLE_SECONDS):
            self.peak_bytes = max(self.peak_bytes, sum(one.memory() for one in self._followers))

    def stop(self) -> int:
        """End, and give the largest sum."""
        self._stopped.set()
        self.join()
        return self.peak_bytes


def measure_following(watch: Stopwatch, chain: Path, last: int, share: str, count: int) -> None:
    """Load, follow all versions, and note when each became visible in the last of the processes."""
    name = f"{share}, {count} process{'es' if count > 1 else ''}"
    with tempfile.TemporaryDirectory() as place:
        publisher = Publisher(chain, Path(place))
        publisher.publish(0)
        reads = count == 1 and share == "shared"
        followers = [FollowerProcess(Path(place), share, reads=reads and number == 0) for number in range(count)]
        for number, follower in enumerate(followers):
            nanoseconds = follower.ask("load", "loaded")["loaded"]
            attached = number > 0 and share == "shared"
            if number == 0 or attached:
                watch.book("attach" if attached else f"first load, {share}", nanoseconds, nanoseconds)
        peak = PeakWatch(followers)
        # Sampling takes time of its own: it is done where no times are.
        for version in range(1, last + 1):
            time.sleep(PAUSE_SECONDS)
            if version == last:
                peak.start()
            started = publisher.publish(version)
            heard = [follower.hear("visible") for follower in followers]
            if version < last:
                latest = max(line["at"] for line in heard) - started
                watch.book(f"announced to visible, {name}", latest, latest)
                if count == 1:
                    itself = 1e9 * sum(heard[0]["seconds"].values())
                    watch.book(f"refresh itself, {name}", itself, itself)
        time.sleep(PAUSE_SECONDS)
        watch.bytes(f"peak memory, {name}", peak.stop())
        shared = [follower.ask("memory", "memory")["shared"] for follower in followers]
        if shared != [share == "shared"] * count:
            raise SystemExit(f"{name}: not what was asked for")
        watch.bytes(f"steady memory, {name}", sum(follower.memory() for follower in followers))
        checksums = {follower.ask("checksum", "checksum")["checksum"] for follower in followers}
        if len(checksums) != 1:
            raise SystemExit("followers of one version read different records")
        for number, follower in enumerate(followers):
            _book_reads(watch, follower.end(reads=reads and number == 0))


def _book_reads(watch: Stopwatch, noted: dict[str, Any]) -> None:
    for when, label in (("idle", "between"), ("refreshing", "during")):
        for quantile, shown in (("median", "median"), ("p99", "99 %"), ("max", "slowest")):
            if when in noted:
                value = noted[when][quantile]
                watch.book(f"read one title, {shown}, {label} refreshes", value, value)


def java_figures(program: Any, folder: Path, rounds: int) -> Figures:
    """Java's own load, delta and heap; four processes have four heaps."""
    java: Figures = {}
    merge(java, program.run("bench-read", str(folder), str(rounds)))
    heap = java.get("heap after deltas")
    if heap is not None:
        four = [4 * value for value in heap.cpu]
        java["heap after deltas, 4 processes"] = Rounds(heap.unit, four, four)
    return java


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=FULL_SIZE, help="number of movies")
    parser.add_argument("--passes", type=int, default=2, help="how often everything is followed")
    parser.add_argument("--no-java", action="store_true", help="without Java")
    parser.add_argument("--no-stores", action="store_true", help="without LMDB and Redis")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    program = None if options.no_java else java_or_none()
    chain, last = chain_of(options.size, program)
    watch = Stopwatch()
    for _ in range(options.passes):
        for share in ("shared", "private"):
            for count in (1, 4):
                measure_following(watch, chain, last, share, count)
    missing = [] if options.no_stores else measure_stores(options.size, last, watch)
    java = {} if program is None else java_figures(program, chain, 3)
    title = f"Following {options.size:,} movies, wall times, medians of {options.passes} passes of {last} versions"
    table = report(ROWS, watch.figures, java, title)
    for reason in [*missing, *(["Java: not to be had"] if program is None and not options.no_java else [])]:
        print(f"skipped {reason}")
    if options.json:
        options.json.write_text(json.dumps(table | {"skipped": missing}, indent=1))


if __name__ == "__main__":
    main()
