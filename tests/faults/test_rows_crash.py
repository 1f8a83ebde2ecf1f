"""Crashes and failures at every step of an operation on rows: the old rows or the new ones, never between."""

import multiprocessing
import os
import shutil
import signal
import tempfile
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pytest

from deltaic.errors import CommitConflictError, CommitUnknownError, DeltaicError
from deltaic.storage.disk import RealDisk
from deltaic.storage.local import LocalStore
from deltaic.storage.urls import open_store
from deltaic.table import Settings
from deltaic.table.manifest import ManifestCache
from deltaic.table.rows import Delete, Table, Update, WriteOptions
from deltaic.testing.stores import EVERY_FAULT, Fault, FaultyStore, SimulatedStore, SteppedDisk

SETTINGS = Settings(
    retry_base_delay_ms=0, retry_max_delay_ms=0, retry_max_attempts=3, min_file_retention_hours=0, clock_skew_hours=0
)
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("part", pa.string()), ("text", pa.string())])


def no_wait(_seconds):
    pass


def opened(store, **more):
    one_by_one = WriteOptions(threads=1)
    return Table.open(store, settings=SETTINGS, cache=ManifestCache(), sleep=no_wait, write=one_by_one, **more)


def row(number, **more):
    return {"id": number, "part": "ab"[number % 2], "text": f"text {number}", **more}


def fill(store):
    table = Table.create(store, SCHEMA, partition_by=("part",), key=("id",), settings=SETTINGS, sleep=no_wait)
    table.append([row(number) for number in range(6)])
    table.append([row(number) for number in range(6, 10)])


@lru_cache
def _filled():
    store = SimulatedStore()
    fill(store)
    return dict(store._world.objects)


def filled():
    store = SimulatedStore()
    store._world.objects.update(_filled())
    return store


OPERATIONS = {
    "append": lambda table: table.append([row(20), row(21)]),
    "overwrite": lambda table: table.overwrite([row(30)]),
    "delete": lambda table: table.delete("id = 1 or id = 8"),
    "update": lambda table: table.update({"text": "new", "part": "c"}, "id = 3"),
    "merge": lambda table: table.merge(
        [row(2, text="merged"), row(40)], matched=[Update()], not_matched_by_source=[Delete("target.id = 9")]
    ),
    "compact": lambda table: table.compact(),
    "rename": lambda table: table.rename_column("text", "words"),
}


def content(table):
    found = table.to_arrow()
    return found.column_names, sorted(map(str, found.to_pylist())), len(table.files.snapshot().paths())


@lru_cache
def expected(name):
    store = filled()
    before = content(opened(store))
    OPERATIONS[name](opened(store))
    return before, content(opened(store))


@pytest.fixture
def folder():
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=parent) as name:
        yield Path(name)


class _Killed:
    """Kills this process at the n-th step of the disk."""

    def __init__(self, at):
        self.left = at

    def __call__(self, _step):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def work(root, name, step):
    store = LocalStore(root, disk=SteppedDisk(RealDisk(root), _Killed(step)))
    OPERATIONS[name](opened(store))


@pytest.fixture(scope="module")
def processes():
    """Children of a process that has not run anything: threads of engines do not survive a fork."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["deltaic.table.rows.table", "tests.faults.test_rows_crash"])
    return context


def kill_at_every(step_size, folder, name, processes):
    before, after = expected(name)
    template, root = folder / "template", folder / "table"
    fill(open_store(template))
    step, status = 1, None
    while status != 0:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(template, root)
        child = processes.Process(target=work, args=(root, name, step))
        child.start()
        child.join(120)
        status = child.exitcode
        assert status in (0, -signal.SIGKILL), status
        found = content(opened(open_store(root)))
        assert found in (before, after), f"step {step}"
        again = opened(open_store(root))
        if found == before:
            OPERATIONS[name](again)
            assert content(opened(open_store(root))) == after
        assert again.verify().findings == ()
        clean = opened(open_store(root), clock=lambda: 4_000_000_000.0)
        gone = clean.purge(file_retention_hours=0, log_retention_hours=0, dry_run=False)
        left = {path.relative_to(root).as_posix() for path in root.rglob("*.split")}
        known = {path for version in clean.versions() for path in clean.files.at(version=version).paths()}
        assert left == known, (step, gone)
        assert content(opened(open_store(root))) == after
        step += step_size
    assert step > 10
    assert found == after


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["append", "delete", "merge", "compact"])
def test_a_kill_at_many_steps_of_the_disk_leaves_the_old_or_the_new_rows(folder, name, processes):
    kill_at_every(11, folder, name, processes)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_a_kill_at_any_step_of_the_disk_leaves_the_old_or_the_new_rows(folder, name, processes):
    kill_at_every(1, folder, name, processes)


def fail_once(name, kind, moment, stride):
    before, after = expected(name)
    number = 1
    while True:
        inner = filled()
        faulty = FaultyStore(inner)
        table = opened(faulty)
        faulty.fail(Fault(kind, moment, call_number=number))
        error = None
        try:
            OPERATIONS[name](table)
        except DeltaicError as raised:
            error = raised
        reached = len(faulty.calls) >= number
        found = content(opened(inner))
        assert found in (before, after), (number, error)
        if error is None:
            # A split that cannot be read for a moment is skipped by a compaction, which is then one of fewer files.
            assert found == after or name == "compact", number
        elif not isinstance(error, CommitUnknownError):
            assert found == before, (number, error)
            assert not isinstance(error, CommitConflictError), error
        assert opened(inner).verify().findings == ()
        if not reached:
            break
        number += stride
    assert number > 4


@pytest.mark.parametrize("name", ["append", "delete", "merge", "compact"])
@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT[:2], ids=lambda value: str(value).replace(" ", "-"))
def test_store_calls_that_fail_once_leave_the_old_or_the_new_rows(name, kind, moment):
    fail_once(name, kind, moment, 3)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(OPERATIONS))
@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT, ids=lambda value: str(value).replace(" ", "-"))
def test_each_store_call_that_fails_once_leaves_the_old_or_the_new_rows(name, kind, moment):
    fail_once(name, kind, moment, 1)
