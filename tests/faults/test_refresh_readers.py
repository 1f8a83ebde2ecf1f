"""Readers during refreshes see one version each; memory stays flat."""

import gc
import threading
import tracemalloc

import pytest

from deltaic.consumer import Consumer, Longevity
from deltaic.storage import open_store
from tests.unit.consumer.small_chain import SmallChain, titles, watermarks

REFRESHES = 200
THREADS = 8


@pytest.mark.parametrize("longevity", [None, Longevity(3600, 3600)], ids=["plain", "guarded"])
def test_eight_readers_during_two_hundred_refreshes_see_exactly_one_version_each(longevity):
    chain = SmallChain(open_store("memory:"))
    publish(chain)
    consumer = Consumer(chain.store, cached_types=["Country"], longevity=longevity)
    consumer.refresh()
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
            except Exception as error:
                failures.append(error)
                return

    readers = [threading.Thread(target=read, args=(number,)) for number in range(THREADS)]
    for reader in readers:
        reader.start()
    try:
        for number in range(REFRESHES):
            publish(chain)
            if number % 10 == 9:
                consumer.refresh(to=chain.versions[-5])
            consumer.refresh()
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


def measured(work) -> list[int]:
    """Memory in use at quarters of the work, after garbage was collected."""
    tracemalloc.start()
    try:
        sizes = []
        for step in work:
            if step:
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
        return sizes
    finally:
        tracemalloc.stop()


def test_memory_is_flat_over_a_thousand_refreshes():
    chain = SmallChain(open_store("memory:"))
    for _ in range(12):
        publish(chain)
    consumer = Consumer(chain.store, cached_types=["Country"])

    def work():
        for number in range(1, 1001):
            consumer.refresh(to=1 + number * 7 % 12)
            yield number % 250 == 0

    sizes = measured(work())
    assert len(sizes) == 4 and max(sizes) < min(sizes) * 1.05, sizes
    assert consumer.metrics.counts().refreshes == 1000


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
