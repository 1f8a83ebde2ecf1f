"""The demonstration: `python -m deltaic.cli.demo`, or `make demo`.

A pipeline from end to end on local Spark: a generated catalogue of movies lies in Parquet files, Spark brings it into a
table, the table is published as a snapshot, and a second process follows. A day later the files are others: only what
changed goes over as a delta. Then the pipeline computes one column more, and the follower, still running, has it. At
last embeddings are trained again, and only the dimensions that changed are shipped. Every step says what it took, and
the demonstration fails unless the follower holds exactly what the table does. Where there is no Spark or no Java, it
says so and brings the same rows into the table from Arrow.
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
from deltaic.cli.demo_engine import ArrowEngine, Engine, SparkEngine
from deltaic.cli.demo_follower import FollowerProcess
from deltaic.cli.demo_vectors import show_vectors
from deltaic.consumer.consumer import Consumer
from deltaic.dataset.dataset import Dataset
from deltaic.errors import (
    CommitConflictError,
    DeltaicError,
    InputError,
    MissingExtraError,
    NotFoundError,
    ValidationError,
)

DEFAULT_MOVIES = 20_000
"""How many movies there are on the first day."""

FOLLOW_SECONDS = 30.0
"""How long the follower may take to be where it should."""

_Answer = TypeVar("_Answer")
_TYPE = Movie.__name__
_NEW_COLUMN = "decade"
_SHOWN = 5


def demonstrate(url: str, movies: int, *, with_spark: bool) -> None:
    """Publish and follow three versions in a folder; prints what happens.

    Raises:
        CommitConflictError: the folder holds a dataset already.
        ValidationError: the follower does not hold what was published.
    """
    started = time.perf_counter()
    _check_free(url)
    with tempfile.TemporaryDirectory(prefix="deltaic-demo-files-") as folder:
        engine = _start(url, Path(folder), with_spark=with_spark)
        try:
            _three_versions(url, movies, engine)
        finally:
            engine.stop()
        show_vectors(str(Path(folder) / "embeddings"), movies, _say)
    _say(f"done in {time.perf_counter() - started:.1f} s")


def _three_versions(url: str, movies: int, engine: Engine) -> None:
    first = Catalogue.first(movies)
    second = first.next_day()
    snapshot = _published(engine.load(first, "the first day"))
    with Consumer(Dataset.open(url).chain) as own, FollowerProcess(Dataset.open(url).chain.url, _TYPE) as follower:
        _say(f"a second process, {follower.process_id}, follows")
        told = _followed(follower, own, snapshot)

        _say("a day later:")
        delta = _published(engine.load(second, "the day after"))
        _say(f"    the delta is {delta['bytes']['delta'] / delta['bytes']['snapshot']:.1%} of the snapshot")
        told = _followed(follower, own, delta)
        _tell_changes(told.get("changes", {}))
        _check_changes(told, first, second)

        _say(f"the pipeline computes one column more, {_NEW_COLUMN}:")
        wider = _published(engine.load(second, "one column more", with_decade=True))
        told = _followed(follower, own, wider)
        _check("took a snapshot where a delta leads", told["by_snapshot"], False)
        _check(f"does not know the column {_NEW_COLUMN}", _NEW_COLUMN in told["fields"], True)
        _say(f"follower: a movie now is {told['first']}")
        _say(f"both processes hold the same records: checksum {told['checksum'] & 0xFFFF_FFFF:08x}")


def _check_free(url: str) -> None:
    try:
        Dataset.open(url)
    except NotFoundError:
        return
    raise CommitConflictError(f"{url} holds a dataset already: name another folder")


def _start(url: str, folder: Path, *, with_spark: bool) -> Engine:
    if not with_spark:
        _say("without Spark, as asked: the rows come from Arrow")
        return ArrowEngine(url, _say)
    try:
        with _quiet_start():
            spark, seconds = _timed(_start_spark)
    except (MissingExtraError, InputError) as error:
        _say(f"without Spark: {error}")
        _say("the same rows come from Arrow instead")
        return ArrowEngine(url, _say)
    _say(f"Spark {spark.version} started in {seconds:.1f} s")
    return SparkEngine(url, spark, folder, _say)


def _start_spark() -> Any:
    from deltaic.spark import session

    return session(app_name="deltaic demo", quick_start=True)


def _published(facts: dict[str, Any]) -> dict[str, Any]:
    steps = ", ".join(f"{step} {seconds:.2f}" for step, seconds in facts["seconds_by_step"].items())
    _say(f"published version {facts['version']} from table version {facts['table_version']} ({steps})")
    of = facts["types"][_TYPE]
    _say(f"    {of['records']:,} movies: {of['added']:,} added, {of['removed']:,} removed, {of['modified']:,} modified")
    _say("    bytes: " + ", ".join(f"{kind.replace('_', ' ')} {size:,}" for kind, size in facts["bytes"].items()))
    return facts


def _followed(follower: FollowerProcess, own: Consumer, facts: dict[str, Any]) -> dict[str, Any]:
    """What the follower told of a version, once it holds the same as this process."""
    told = follower.wait_for(facts["version"], FOLLOW_SECONDS)
    _tell_refresh(told)
    own.refresh(to=facts["version"])
    _check("holds other records than were published", told["checksum"], own.state.checksum())
    return told


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
        keys = sorted(changes.get(kind, []))
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
    parser = argparse.ArgumentParser(prog="deltaic.cli.demo", description="A pipeline from files to a follower.")
    parser.add_argument("--movies", type=int, default=DEFAULT_MOVIES, help="how many (default: %(default)s)")
    parser.add_argument("--url", help="where to make the dataset, and leave it (default: a folder that is removed)")
    parser.add_argument("--without-spark", action="store_true", help="bring the rows into the table from Arrow")
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
