"""Readers during refreshes see one version each; memory stays flat."""

import gc
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from deltaic.consumer import Consumer, Longevity
from deltaic.state.read import ReadState
from deltaic.storage import open_store
from tests.unit.consumer.small_chain import SmallChain, titles, watermarks

REFRESHES = 200
THREADS = 8


@pytest.fixture
def many_switches():
    """Let threads take turns often, so that a reader is interrupted anywhere."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("longevity", [None, Longevity(3600, 3600)], ids=["plain", "guarded"])
def test_eight_readers_during_two_hundred_refreshes_see_exactly_one_version_each(longevity, many_switches):
    chain = SmallChain(open_store("memory:"))
    for _ in range(REFRESHES + 1):
        publish(chain)
    consumer = Consumer(chain.store, cached_types=["Country"], longevity=longevity)
    consumer.refresh(to=1)
    done = threading.Event()
    mixed, failures, seen = [], [], [set() for _ in range(THREADS)]

    def read(number):
        while not done.is_set():
            try:
                loaded = consumer.loaded
                state = loaded.state
                marks = watermarks(state) | {movie.watermark for movie in state["Movie"]}
                expected = {f"{loaded.version} {key}" for key in range(len(state["Movie"]))}
                if marks != {loaded.version} or set(titles(state).values()) != expected:
                    mixed.append((loaded.version, marks))
                if loaded.cached["Country"].find("de") != {"code": "de", "size": loaded.version}:
                    mixed.append((loaded.version, "cached"))
                if number == 0:
                    with consumer.hold() as held:
                        if watermarks(held) != {consumer.version}:
                            mixed.append("hold")
                seen[number].add(loaded.version)
                time.sleep(0.001)
            except Exception as error:
                failures.append(error)
                return

    readers = [threading.Thread(target=read, args=(number,)) for number in range(THREADS)]
    for reader in readers:
        reader.start()
    try:
        for version in range(2, REFRESHES + 2):
            if version % 10 == 9:
                consumer.refresh(to=version - 5)
            consumer.refresh(to=version)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert failures == [] and mixed == []
    assert consumer.version == REFRESHES + 1
    assert all(len(versions) > 1 for versions in seen), "every reader was there while versions changed"


def publish(chain):
    version = len(chain.versions) + 1
    rows = {key: f"{version} {key}" for key in range(4 + version % 3)}
    chain.publish(rows, snapshot=version % 20 == 1, countries={"de": version})


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc to read the memory of the process from")
def test_memory_is_flat_over_a_thousand_refreshes(tmp_path):
    chain = SmallChain(open_store("memory:"))
    for _ in range(12):
        publish(chain)
    consumer = Consumer(chain.store, cached_types=["Country"], cache_dir=tmp_path)
    round_trip = [*range(1, 12), *range(12, 1, -1)]
    resident, objects = [], []
    for number in range(1, 1201):
        consumer.refresh(to=round_trip[number % len(round_trip)])
        if number % 200 == 0:
            gc.collect()
            resident.append(resident_bytes())
            objects.append(len(gc.get_objects()))
            assert sum(isinstance(one, ReadState) for one in gc.get_objects()) <= 2
    # The first 200 fill what is kept on purpose: free lists, recycled buffers, copies of blobs.
    assert max(resident[1:]) < min(resident[1:]) * 1.05, resident
    assert max(objects[1:]) < min(objects[1:]) * 1.01, objects
    assert consumer.metrics.counts().refreshes >= 1000


def test_no_state_waits_for_the_garbage_collector():
    chain = SmallChain(open_store("memory:"))
    for _ in range(6):
        publish(chain)
    consumer = Consumer(chain.store)
    gc.collect()
    gc.disable()
    try:
        for number in range(60):
            consumer.refresh(to=1 + number % 6)
            _ = titles(consumer.state)
            assert consumer.held_states() == ()
    finally:
        gc.enable()


def test_no_state_waits_for_the_garbage_collector_after_a_failure():
    chain = SmallChain(open_store("memory:"))
    for _ in range(3):
        chain.publish(snapshot=len(chain.versions) == 0)
    chain.store.put("delta-2-3", b"rubbish")
    consumer = Consumer(chain.store)
    consumer.refresh(to=1)
    consumer.refresh(to=2)
    gc.collect()
    gc.disable()
    try:
        for number in range(20):
            consumer.forget_failures()
            try:
                consumer.refresh(to=3)
            except ValueError:
                pass
            else:
                raise AssertionError("it should have failed")
            consumer.refresh(to=1)
            assert consumer.held_states() == (), f"round {number}"
            consumer.refresh(to=2)
    finally:
        gc.enable()
