"""The demonstration: `python -m deltaic.cli.demo`, or `make demo`.

Publishes two versions of a catalogue of movies from a Spark DataFrame, follows them from a second process, and says at
each step what it took. It fails unless the follower holds exactly what was published. Where there is no Spark or no
Java, it says so and publishes the same rows from Arrow.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from deltaic.cli.demo_catalogue import Catalogue, Movie
from deltaic.cli.demo_follower import FollowerProcess
from deltaic.dataset.dataset import Dataset
from deltaic.errors import DeltaicError, InputError, MissingExtraError, ValidationError
from deltaic.producer.report import Cycle

DEFAULT_MOVIES = 20_000
"""How many movies there are on the first day."""

FOLLOW_SECONDS = 30.0
"""How long the follower may take to be where it should."""

_Answer = TypeVar("_Answer")
_TYPE = Movie.__name__
_SHOWN = 5


class Engine:
    """What the rows are published from: Spark DataFrames, or Arrow where Spark cannot be had."""

    def __init__(self, spark: Any | None) -> None:
        self._spark = spark

    @classmethod
    def start(cls, *, with_spark: bool) -> "Engine":
        """Start Spark, if it is wanted and can be had."""
        if not with_spark:
            _say("without Spark, as asked: the rows come from Arrow")
            return cls(None)
        try:
            with _quiet_start():
                spark, seconds = _timed(_start_spark)
        except (MissingExtraError, InputError) as error:
            _say(f"without Spark: {error}")
            _say("the same rows come from Arrow instead")
            return cls(None)
        _say(f"Spark {spark.version} started in {seconds:.1f} s")
        return cls(spark)

    def rows(self, catalogue: Catalogue) -> Any:
        """The catalogue as something to publish."""
        table, seconds = _timed(catalogue.to_arrow)
        if self._spark is None:
            _say(f"{len(catalogue):,} movies as an Arrow table, made in {seconds:.1f} s")
            return table
        frame, seconds = _timed(lambda: self._spark.createDataFrame(table))  # type: ignore[union-attr]
        _say(f"{len(catalogue):,} movies as a Spark DataFrame, made in {seconds:.1f} s")
        return frame

    def stop(self) -> None:
        """End Spark."""
        if self._spark is not None:
            self._spark.stop()


def demonstrate(url: str, movies: int, *, with_spark: bool) -> None:
    """Publish and follow two versions in a folder; prints what happens.

    Raises:
        ValidationError: the follower does not hold what was published.
    """
    started = time.perf_counter()
    engine = Engine.start(with_spark=with_spark)
    try:
        first, dataset = Catalogue.first(movies), Dataset.create(url, Movie)
        with dataset.producer() as producer:
            rows = engine.rows(first)
            snapshot = _published(producer.publish(rows, note="the first day"))
            checksum = producer.state.checksum() if producer.state is not None else None
            with FollowerProcess(dataset.chain.url, _TYPE) as follower:
                _say(f"a second process, {follower.process_id}, follows")
                told = follower.wait_for(snapshot.version, FOLLOW_SECONDS)
                _tell_refresh(told)
                _check("holds other records than were published", told["checksum"], checksum)

                second = first.next_day()
                rows = engine.rows(second)
                delta = _published(producer.publish(rows, note="the day after"))
                checksum = producer.state.checksum() if producer.state is not None else None
                share = _size(delta, "delta") / _size(delta, "snapshot")
                _say(f"    the delta is {share:.1%} of the snapshot")
                told = follower.wait_for(delta.version, FOLLOW_SECONDS)
                _tell_refresh(told)
                _tell_changes(told.get("changes", {}))
                _check_changes(told, first, second)
                _check("holds other records than were published", told["checksum"], checksum)
                _say(f"both processes hold the same records: checksum {told['checksum'] & 0xFFFF_FFFF:08x}")
    finally:
        engine.stop()
    _say(f"done in {time.perf_counter() - started:.1f} s")


def _start_spark() -> Any:
    from deltaic.spark import session

    return session(app_name="deltaic demo", quick_start=True)


def _published(cycle: Cycle) -> Cycle:
    steps = ", ".join(f"{step} {seconds:.2f}" for step, seconds in cycle.seconds.items())
    _say(f"published version {cycle.version} in {cycle.total_seconds:.2f} s ({steps})")
    of = cycle.types[_TYPE]
    _say(f"    {of.records:,} movies: {of.added:,} added, {of.removed:,} removed, {of.modified:,} modified")
    blobs = ", ".join(f"{file.kind.replace('_', ' ')} {file.size:,}" for file in cycle.artifacts)
    _say(f"    bytes: {blobs}")
    return cycle


def _size(cycle: Cycle, kind: str) -> int:
    return sum(artifact.size for artifact in cycle.artifacts if artifact.kind == kind)


def _tell_refresh(told: dict[str, Any]) -> None:
    way = "a snapshot" if told["by_snapshot"] else "a delta"
    process = f", the process {told['process_bytes'] / 2**20:.0f} MB" if told["process_bytes"] else ""
    _say(
        f"follower: version {told['version']} by {way} of {told['bytes']:,} bytes in {told['seconds'] * 1e3:.0f} ms, "
        f"{told['seconds_since_announcement']:.2f} s after it was announced"
    )
    _say(
        f"    {told['rows']:,} movies, {told['records']:,} records of all types in "
        f"{told['state_bytes'] / 2**20:.2f} MB of memory{process}"
    )


def _tell_changes(changes: dict[str, Any]) -> None:
    for kind in ("modified", "removed", "added"):
        keys = changes.get(kind, [])
        some = ", ".join(str(each) for each in keys[:_SHOWN])
        _say(f"follower: {len(keys):,} {kind}: {some}{', …' if len(keys) > _SHOWN else ''}")
    if "before" in changes:
        _say(f"    before  {changes['before']}")
        _say(f"    after   {changes['after']}")


def _check_changes(told: dict[str, Any], before: Catalogue, after: Catalogue) -> None:
    _check("took a snapshot where a delta leads", told["by_snapshot"], False)
    found = {kind: set(keys) for kind, keys in told.get("changes", {}).items() if kind not in ("before", "after")}
    old, new = before.changes, after.changes
    _check("saw other movies added", found.get("added"), new.keys() - old.keys())
    _check("saw other movies removed", found.get("removed"), old.keys() - new.keys())
    changed = {number for number in old.keys() & new.keys() if old[number] != new[number]}
    _check("saw other movies modified", found.get("modified"), changed)


def _check(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise ValidationError(f"the follower {what}")


def _say(line: str) -> None:
    print(line, flush=True)


def _timed(run: Callable[[], _Answer]) -> tuple[_Answer, float]:
    start = time.perf_counter()
    answer = run()
    return answer, time.perf_counter() - start


@contextmanager
def _quiet_start() -> Iterator[None]:
    """Keep what Java prints while it starts out of the way; it is shown if the start fails."""
    with tempfile.TemporaryFile() as kept:
        sys.stderr.flush()
        real = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            sys.stderr.flush()
            kept.seek(0)
            os.write(real, kept.read())
            raise
        finally:
            os.dup2(real, 2)
            os.close(real)


def _stopped(signal_number: int, _frame: object) -> None:
    # By way of an exception, so that every `with` ends: the follower, the folder, Spark.
    raise SystemExit(128 + signal_number)


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration; 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(prog="deltaic.cli.demo", description="Publish two versions and follow them.")
    parser.add_argument("--movies", type=int, default=DEFAULT_MOVIES, help="how many (default: %(default)s)")
    parser.add_argument("--url", help="where to make the dataset, and leave it (default: a folder that is removed)")
    parser.add_argument("--without-spark", action="store_true", help="publish from Arrow")
    asked = parser.parse_args(arguments)
    if asked.movies < 200:
        parser.error("fewer than 200 movies show nothing")
    try:
        if asked.url is not None:
            demonstrate(asked.url, asked.movies, with_spark=not asked.without_spark)
        else:
            with tempfile.TemporaryDirectory(prefix="deltaic-demo-") as folder:
                demonstrate(str(Path(folder) / "movies"), asked.movies, with_spark=not asked.without_spark)
    except (DeltaicError, OSError) as error:
        print(f"deltaic: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stopped)
    sys.exit(main())
