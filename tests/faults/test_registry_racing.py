"""Threads and processes that add fields at once: one index for each path, none lost, whatever the store."""

import json
import multiprocessing
import os
import random
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from deltaic.errors import RegistryError
from deltaic.schema import registry_store
from deltaic.schema.registry import ValueType
from deltaic.schema.registry_store import open_registry
from deltaic.storage import open_store
from deltaic.testing.stores import s3_server
from tests.unit.schema import plain_registry

S3 = {"region": "us-east-1", "access_key_id": "test-key-id", "secret_access_key": "test-secret-key", "allow_http": True}
TYPES = (ValueType.INT64, ValueType.STRING)


@pytest.fixture
def folder():
    """A folder in memory where there is one: races are about order, and syncs of a busy disk take minutes."""
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=parent) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def server():
    with s3_server() as running:
        yield running


def store_of(where):
    return open_store(where[0], options=dict(where[1])) if isinstance(where, tuple) else open_store(where)


def add_all(registry, wanted, seed, answers, optimizing):
    """Register paths in an order of one's own and write down each number with the version it is of."""
    chance = random.Random(seed)
    order = list(wanted)
    chance.shuffle(order)
    for place, path in enumerate(order):
        kind = TYPES[int(path.rpartition("f")[2]) % 2]
        registry.register(path, kind)
        if chance.random() < 0.1:
            with pytest.raises(RegistryError, match="has the type"):
                registry.register(path, TYPES[1 - TYPES.index(kind)])
        view = registry.view
        answers.append((view.current, view.lookup(path), path))
        if optimizing and place % 25 == 10:
            registry.optimize(force=True)


def work(where, number, threads, wanted, file, snapshot_files, optimizing):
    """One process: threads that share a registry."""
    registry_store.SNAPSHOT_FILES = snapshot_files
    registry = open_registry(store_of(where), durability="batch" if number % 2 else "sync")
    answers, failures = [], []
    barrier = threading.Barrier(threads)

    def run(thread):
        try:
            barrier.wait()
            add_all(registry, wanted, number * 100 + thread, answers, optimizing and thread == 0)
        except BaseException as error:
            failures.append(repr(error))

    running = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    registry.close()
    file.write_text(json.dumps({"answers": answers, "failures": failures}))


def race(where, folder, processes, threads, wanted, *, snapshot_files=20, optimizing=False, kills=0):
    context = multiprocessing.get_context("spawn")
    files = [folder / f"answers-{number}" for number in range(processes)]
    started = [
        context.Process(target=work, args=(where, number, threads, wanted, files[number], snapshot_files, optimizing))
        for number in range(processes)
    ]
    for process in started:
        process.start()
    for process in started[:kills]:
        while process.is_alive() and len(list(store_of(where).list())) < 5:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    for process in started:
        process.join(280)
    ends = [process.exitcode for process in started]
    assert ends[kills:] == [0] * (processes - kills)
    found = [json.loads(file.read_text()) for file in files if file.exists()]
    assert [failure for each in found for failure in each["failures"]] == []
    return [tuple(answer) for each in found for answer in each["answers"]]


def check(where, answers, wanted):
    registry = open_registry(store_of(where))
    by_place = {}
    for version, index, path in answers:
        assert by_place.setdefault((version, index), path) == path, "one index, two paths"
        assert registry.descriptor(index, version).path == path
    table = [field.path for field in registry.fields()]
    assert sorted(table) == sorted(wanted), "each path once, none lost"
    for field in registry.fields():
        assert field.type == TYPES[int(field.path.rpartition("f")[2]) % 2]
    return registry


WANTED = [f"table.f{number}" for number in range(60)]


@pytest.mark.parametrize("optimizing", [False, True], ids=["", "while it is reordered"])
def test_sixteen_threads_with_a_registry_each_on_a_local_store(folder, monkeypatch, optimizing):
    monkeypatch.setattr(registry_store, "SNAPSHOT_FILES", 15)
    answers = many_threads(folder / "registry", 16, WANTED, optimizing)
    registry = check(folder / "registry", answers, WANTED)
    assert plain_registry.read_folder(folder / "registry").shown() == plain_registry.read_snapshot(registry.snapshot())


def test_sixteen_threads_with_a_registry_each_on_s3(server, monkeypatch):
    monkeypatch.setattr(registry_store, "SNAPSHOT_FILES", 6)
    server.store("registry-threads")
    where = ("s3://registry-threads/registry", {**S3, "endpoint": server.endpoint})
    check(where, many_threads(where, 16, WANTED[:12], False), WANTED[:12])


def many_threads(where, threads, wanted, optimizing):
    answers, failures = [], []
    barrier = threading.Barrier(threads)

    def run(thread):
        try:
            registry = open_registry(store_of(where))
            barrier.wait()
            add_all(registry, wanted, thread, answers, optimizing and thread == 0)
        except BaseException as error:
            failures.append(repr(error))
            raise

    running = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert failures == []
    assert len(answers) == threads * len(wanted)
    return answers


@pytest.mark.slow
def test_eight_processes_of_sixteen_threads_on_a_local_store(folder):
    answers = race(folder / "registry", folder, 8, 16, WANTED, optimizing=True)
    assert len(answers) == 8 * 16 * len(WANTED)
    registry = check(folder / "registry", answers, WANTED)
    assert plain_registry.read_folder(folder / "registry").shown() == plain_registry.read_snapshot(registry.snapshot())


@pytest.mark.slow
def test_eight_processes_on_s3(folder, server):
    server.store("registry-processes")
    where = ("s3://registry-processes/registry", {**S3, "endpoint": server.endpoint})
    answers = race(where, folder, 8, 2, WANTED[:16], snapshot_files=6)
    assert len(answers) == 8 * 2 * 16
    check(where, answers, WANTED[:16])


@pytest.mark.slow
def test_processes_that_are_killed_take_nothing_with_them(folder):
    answers = race(folder / "registry", folder, 8, 4, WANTED, kills=3, snapshot_files=5)
    check(folder / "registry", answers, WANTED)
    registry = open_registry(str(folder / "registry"))
    assert registry.register("another.f1000", ValueType.INT64) == 60
