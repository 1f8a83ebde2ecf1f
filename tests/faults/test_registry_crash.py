"""Crashes and failures at every step of a registry's life: no number that was given is ever lost or given again."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from deltaic.errors import CommitUnknownError, DeltaicError
from deltaic.schema import registry_store
from deltaic.schema.registry import ValueType
from deltaic.schema.registry_store import open_registry
from deltaic.storage.backoff import Backoff
from deltaic.storage.disk import RealDisk
from deltaic.storage.local import LocalStore
from deltaic.testing.stores import EVERY_FAULT, DishonestDisk, Fault, FaultyStore, SimulatedStore, SteppedDisk
from tests.unit.schema import plain_registry

INT = ValueType.INT64
NO_WAIT = Backoff(sleep=lambda _seconds: None)


@pytest.fixture(autouse=True)
def _few_files(monkeypatch):
    monkeypatch.setattr(registry_store, "SNAPSHOT_FILES", 3)


@pytest.fixture
def folder():
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=parent) as name:
        yield Path(name)


def live(registry, tell, prefix="f"):
    """A life with everything in it; tells each number that it was given, and each version that it made."""

    def add(*paths):
        for path, index in zip(paths, registry.register_many([(path, INT) for path in paths]), strict=True):
            tell(["field", registry.version, index, path])

    add(f"{prefix}0")
    add(f"{prefix}1", f"{prefix}2")
    registry.retire(f"{prefix}1")
    tell(["version", registry.optimize(force=True)])
    add(f"{prefix}3")
    for number in range(4, 9):
        add(f"{prefix}{number}")
    tell(["version", registry.optimize(force=True)])
    registry.evict(registry.oldest)
    tell(["evicted", registry.oldest])
    add(f"{prefix}9")
    registry.close()


def check(store, told):
    """Everything that was told is so."""
    registry = open_registry(store, backoff=NO_WAIT)
    places = {}
    for entry in told:
        if entry[0] == "field":
            _, version, index, path = entry
            assert places.setdefault((version, index), path) == path
            if version >= registry.oldest:
                assert registry.descriptor(index, version).path == path
        elif entry[0] == "version":
            assert registry.version >= entry[1]
        else:
            assert registry.oldest >= entry[1]
    return registry


class _Killed:
    """Kills this process at the n-th step of the disk."""

    def __init__(self, at):
        self.left = at

    def __call__(self, _step):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def work(root, step, file):
    registry_store.SNAPSHOT_FILES = 3
    store = LocalStore(root, disk=SteppedDisk(RealDisk(root), _Killed(step)))
    with open(file, "a", buffering=1) as out:
        live(open_registry(store), lambda entry: out.write(json.dumps(entry) + "\n"))


@pytest.fixture(scope="module")
def processes():
    """Children of a process that has not run anything but imports."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.test_registry_crash"])
    return context


def kill_at_every(stride, folder, processes, first=1):
    root, file = folder / "registry", folder / "told"
    step, status, kills = first, None, 0
    while status != 0:
        shutil.rmtree(root, ignore_errors=True)
        file.unlink(missing_ok=True)
        child = processes.Process(target=work, args=(root, step, file))
        child.start()
        child.join(120)
        status = child.exitcode
        assert status in (0, -signal.SIGKILL), status
        kills += status != 0
        told = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        store = LocalStore(root)
        registry = check(store, told)
        # The next process goes on; what the dead one was given still means the same.
        live(registry, told.append, "again")
        check(store, told)
        shown = plain_registry.read_snapshot(open_registry(store).snapshot())
        assert plain_registry.read_folder(root).shown() == shown, step
        step += stride
    return kills


def test_a_kill_at_many_steps_of_the_disk_loses_no_number(folder, processes):
    assert kill_at_every(19, folder, processes, first=5) > 10


@pytest.mark.slow
def test_a_kill_at_any_step_of_the_disk_loses_no_number(folder, processes):
    assert kill_at_every(1, folder, processes) > 200


@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT, ids=lambda value: str(value).replace(" ", "-"))
def test_a_store_call_that_fails_once_loses_no_number(kind, moment):
    number = 1
    while True:
        inner = SimulatedStore()
        faulty = FaultyStore(inner)
        registry = open_registry(faulty, backoff=NO_WAIT)
        faulty.fail(Fault(kind, moment, call_number=number))
        told, error = [], None
        try:
            live(registry, told.append)
        except DeltaicError as raised:
            error = raised
        reached = len(faulty.calls) >= number
        faulty.fail()
        check(inner, told)
        # The same process may go on, and so may another.
        live(registry, told.append, "again")
        other = check(inner, told)
        live(other, told.append, "other")
        check(inner, told)
        if not reached:
            assert error is None
            break
        number += 1
    assert number > 30


@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT[:4], ids=lambda value: str(value).replace(" ", "-"))
def test_a_store_that_stays_broken_loses_no_number(kind, moment):
    for number in range(1, 60, 3):
        inner = SimulatedStore()
        faulty = FaultyStore(inner)
        registry = open_registry(faulty, backoff=NO_WAIT)
        faulty.fail(Fault(kind, moment, call_number=number, from_then_on=True))
        told = []
        try:
            live(registry, told.append)
        except DeltaicError:
            assert len(faulty.calls) >= number
        faulty.fail()
        other = check(inner, told)
        live(other, told.append, "other")
        live(registry, told.append, "again")
        check(inner, told)


def test_an_unanswered_write_is_said_and_found_later():
    inner = SimulatedStore()
    faulty = FaultyStore(inner)
    registry = open_registry(faulty, backoff=NO_WAIT)
    kind, moment = next(pair for pair in EVERY_FAULT if str(pair[0]) == "timeout" and str(pair[1]) == "after")
    # The put has its effect and no answer, and nothing can be read afterwards.
    faulty.fail(Fault(kind, moment, call_number=1, from_then_on=True))
    with pytest.raises(CommitUnknownError):
        registry.register("a", INT)
    faulty.fail()
    assert registry.register("b", INT) == 1
    assert registry.lookup("a") == 0


class PowerCutError(Exception):
    """The machine has no power."""


def cut_at_every(stride, seeds):
    cut_at, whole = 0, False
    while not whole:
        for seed in seeds:
            disk = DishonestDisk()

            def cut(_step, _path, disk=disk, cut_at=cut_at):
                if len(disk.steps) >= cut_at:
                    raise PowerCutError

            disk.hook = cut
            told = []
            try:
                live(open_registry(LocalStore("/simulated", disk=disk)), told.append)
                whole = True
            except PowerCutError:
                pass
            disk.hook = None
            after = LocalStore("/simulated", disk=disk.crash(random.Random(seed)))
            live(check(after, told), told.append, "again")
            check(after, told)
        cut_at += stride
    return cut_at


def test_a_power_cut_at_many_steps_loses_no_number():
    assert cut_at_every(7, range(2)) > 100


@pytest.mark.slow
def test_a_power_cut_at_any_step_loses_no_number():
    assert cut_at_every(1, range(3)) > 100
