"""Writers of several processes at one table: every acknowledged commit once, none lost, versions dense."""

import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from deltaic.errors import CommitConflictError, CommitUnknownError, NotFoundError
from deltaic.storage import open_store
from deltaic.table import AddFile, Settings, Table
from deltaic.table.manifest import ManifestCache
from deltaic.testing.stores import s3_server

SETTINGS = Settings(retry_base_delay_ms=5, retry_max_delay_ms=80, retry_max_attempts=10_000)
KILLS = 6
S3 = {"region": "us-east-1", "access_key_id": "test-key-id", "secret_access_key": "test-secret-key", "allow_http": True}


@pytest.fixture
def folder():
    """A folder in memory where there is one: races are about order, and syncs of a busy disk take minutes."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=parent) as name:
        yield Path(name)


def store_of(where):
    return open_store(where) if not isinstance(where, tuple) else open_store(where[0], options=dict(where[1]))


def append_many(where, writer, count, answers):
    """Append files one by one and write down what was acknowledged."""
    settings = (
        replace(SETTINGS, retry_base_delay_ms=50, retry_max_delay_ms=1000) if isinstance(where, tuple) else SETTINGS
    )
    table = Table.open(store_of(where), settings=settings, random=random.Random(writer))
    with open(answers, "a", buffering=1) as out:
        for number in range(count):
            path = f"part-{writer}-{number}.split"
            try:
                done = table.append(
                    [AddFile(path, {}, 1, int(time.time() * 1000))], note=path if number % 7 == 0 else None
                )
            except CommitConflictError:
                out.write(f"conflict {path}\n")
                continue
            except CommitUnknownError:
                out.write(f"unknown {path}\n")
                continue
            out.write(f"{done.version} {path}\n")


def mixed(where, writer, count, answers):
    """Appends, merges of what is there, keys of one's own and of all, in a random order."""
    table = Table.open(store_of(where), settings=SETTINGS, random=random.Random(writer))
    choice = random.Random(1000 + writer)
    with open(answers, "a", buffering=1) as out:
        for number in range(count):
            path = f"part-{writer}-{number}.split"
            kind = choice.choice(["append", "append", "merge", "key", "shared key"])
            try:
                if kind == "append":
                    done = table.append([AddFile(path, {}, 1, 1 << 42)])
                elif kind == "merge":
                    live = sorted(table.snapshot().paths())
                    if len(live) < 2:
                        continue
                    done = table.merge(choice.sample(live, 2), [AddFile(path, {}, 2, 1 << 42)])
                elif kind == "key":
                    done = table.configure({f"key-{writer}": str(number)})
                else:
                    done = table.configure({"key": f"{writer}-{number}"})
            except CommitConflictError:
                continue
            out.write(f"{done.version} {kind} {path} {number}\n")


def race(task, where, folder, writers, count, *, kills=0):
    context = multiprocessing.get_context("spawn")
    answers = [folder / f"answers-{writer}" for writer in range(writers)]
    started = [context.Process(target=task, args=(where, writer, count, answers[writer])) for writer in range(writers)]
    for process in started:
        process.start()
    chance = random.Random(writers)
    for kill in range(kills):
        # Spread over the whole run, each in the midst of commits: a writer that is still starting proves nothing.
        wanted = (kill + 1) * writers * count // (2 * (kills + 1))
        while acknowledged_by(answers) < wanted and any(process.is_alive() for process in started):
            time.sleep(chance.uniform(0.001, 0.02))
        alive = [
            process for process, file in zip(started, answers, strict=True) if process.is_alive() and file.exists()
        ]
        os.kill(chance.choice(alive).pid, signal.SIGKILL)
    for process in started:
        process.join(3000)
    ends = Counter(process.exitcode for process in started)
    assert ends == Counter({0: writers - kills, -signal.SIGKILL: kills}) - Counter()
    return [line.split() for file in answers if file.exists() for line in file.read_text().splitlines()]


def acknowledged_by(answers):
    return sum(file.read_bytes().count(b"\n") for file in answers if file.exists())


def check_appends(where, acknowledged, *, killed=False):
    table = Table.open(store_of(where), cache=ManifestCache())
    live = table.snapshot().paths()
    assert len(live) == len(set(live))
    versions = [int(version) for version, _ in acknowledged if version.isdigit()]
    assert len(acknowledged) == len(versions), "appends never conflict"
    assert len(set(versions)) == len(versions)
    listing = table.log.listing()
    assert sorted(listing.versions) == list(range(table.version + 1))
    where_added = Counter()
    for version in range(1, table.version + 1):
        for add in table.log.read_version(version).adds:
            where_added[add.path, version] += 1
    assert all(where_added[path, int(version)] == 1 for version, path in acknowledged)
    assert max(Counter(path for path, _ in where_added).values(), default=1) == 1, "a commit was made twice"
    if killed:
        assert {path for _, path in acknowledged} <= set(live)
        # A killed writer may have landed the one commit whose answer it could not write down, and no other.
        assert len(live) - len(acknowledged) <= KILLS
    else:
        assert sorted(path for _, path in acknowledged) == sorted(live)
    assert table.verify(files=False).findings == ()


def test_eight_processes_append_fifty_times_each_to_a_folder(folder):
    Table.create(folder / "table", columns={"id": "long"})
    acknowledged = race(append_many, str(folder / "table"), folder, 8, 50)
    assert len(acknowledged) == 400
    check_appends(str(folder / "table"), acknowledged)


def test_eight_processes_append_to_s3(folder):
    with s3_server() as server:
        server.store("race-of-tables")
        where = ("s3://race-of-tables/table", {**S3, "endpoint": server.endpoint})
        Table.create(store_of(where), columns={"id": "long"})
        acknowledged = race(append_many, where, folder, 8, 50)
        assert len(acknowledged) == 400
        check_appends(where, acknowledged)


def test_racing_merges_and_metadata_leave_one_story(folder):
    Table.create(folder / "table", columns={"id": "long"})
    acknowledged = race(mixed, str(folder / "table"), folder, 4, 25)
    table = Table.open(folder / "table", cache=ManifestCache())
    # Replayed by a plain model: a merge whose sources another merge took would show here.
    live, sizes = set(), {}
    for version in range(1, table.version + 1):
        version_file = table.log.read_version(version)
        for remove in version_file.removes:
            live.remove(remove.path)
        for add in version_file.adds:
            assert add.path not in live
            live.add(add.path)
            sizes[add.path] = add.size_bytes
    assert live == set(table.snapshot().paths())
    assert len({version for version, *_ in acknowledged}) == len(acknowledged) == table.version
    for writer in range(4):
        mine = [line for line in acknowledged if line[1] == "key" and line[2].startswith(f"part-{writer}-")]
        if mine:
            assert table.snapshot().metadata.configuration[f"key-{writer}"] == mine[-1][3]
    assert table.verify(files=False).findings == ()


def keep_clean(where, seed, stop):
    """Truncate, purge, checkpoint and read, again and again, until told to stop."""
    table = Table.open(store_of(where), settings=SETTINGS)
    choice = random.Random(seed)
    while not Path(stop).exists():
        kind = choice.choice(["truncate", "truncate", "checkpoint", "purge", "read"])
        try:
            if kind == "truncate":
                table.truncate(dry_run=False)
            elif kind == "checkpoint":
                table.checkpoint()
            elif kind == "purge":
                table.purge(dry_run=False)
            else:
                live = Table.open(store_of(where), cache=ManifestCache()).snapshot().paths()
                assert len(live) == len(set(live))
        except (NotFoundError, CommitConflictError):
            pass  # the other one was faster
        time.sleep(choice.uniform(0, 0.02))


def test_writers_lose_nothing_while_others_forget_history(folder):
    where = str(folder / "table")
    Table.create(where, columns={"id": "long"})
    context = multiprocessing.get_context("spawn")
    stop = folder / "stop"
    cleaners = [context.Process(target=keep_clean, args=(where, seed, stop)) for seed in range(2)]
    for cleaner in cleaners:
        cleaner.start()
    answers = race(append_many, where, folder, 4, 50)
    stop.touch()
    for cleaner in cleaners:
        cleaner.join(60)
        assert cleaner.exitcode == 0
    table = Table.open(where, cache=ManifestCache())
    live = table.snapshot().paths()
    acknowledged = [path for version, path in answers if version.isdigit()]
    unknown = {path for version, path in answers if version == "unknown"}
    assert not [path for version, path in answers if version == "conflict"]
    # A commit whose number was set free under it is told as unknown, never as done.
    assert set(acknowledged) <= set(live) <= set(acknowledged) | unknown
    assert len(acknowledged) > 150 and len(live) == len(set(live))
    versions = [int(version) for version, _ in answers if version.isdigit()]
    assert len(set(versions)) == len(versions)
    assert table.verify(files=False).findings == ()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_sixteen_processes_append_250_times_each_while_some_are_killed(folder, kind):
    if kind == "local":
        Table.create(folder / "table", columns={"id": "long"})
        acknowledged = race(append_many, str(folder / "table"), folder, 16, 250, kills=KILLS)
        check_appends(str(folder / "table"), acknowledged, killed=True)
        return
    with s3_server() as server:
        server.store("race-of-tables")
        where = ("s3://race-of-tables/table", {**S3, "endpoint": server.endpoint})
        Table.create(store_of(where), columns={"id": "long"})
        acknowledged = race(append_many, where, folder, 16, 250, kills=KILLS)
        check_appends(where, acknowledged, killed=True)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_two_thousand_commits_ten_at_a_time_lose_none(folder):
    Table.create(folder / "table", columns={"id": "long"})
    acknowledged = race(append_many, str(folder / "table"), folder, 10, 200)
    assert len(acknowledged) == 2000
    check_appends(str(folder / "table"), acknowledged)


if __name__ == "__main__":
    sys.exit("run by pytest")
