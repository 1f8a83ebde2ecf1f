"""A cycle with vectors on a store that fails, and a producer that is killed: the old version or the new one, whole."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from deltaic.errors import DeltaicError
from deltaic.producer import Producer
from deltaic.producer.restoring import load_version
from deltaic.storage.announcement import Announcements
from deltaic.storage.local import LocalStore
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.testing.faulty_store import Fault, FaultKind, FaultyStore, Moment
from tests.faults.test_cycle_crash import KillingStore, later
from tests.unit.vector.plain_chain import Movie, by_key, patterns, plain_of, producer_of, vector, walk_plainly

FIRST = [Movie(1, "a", vector(1)), Movie(2, "b", vector(2)), Movie(3, "c", None)]
SECOND = [Movie(1, "a", vector(1, 5)), Movie(2, "moved", vector(2)), Movie(4, "d", vector(4))]
THIRD = [Movie(1, "a", None), Movie(4, "d", vector(4, 4))]

CASES = [
    (FaultKind.IO_ERROR, Moment.BEFORE),
    (FaultKind.TIMEOUT, Moment.BEFORE),
    (FaultKind.TIMEOUT, Moment.AFTER),
]


def wanted(movies: list[Movie]) -> dict:
    return {movie.id: patterns(movie.embedding) for movie in movies}


def read(store: Store) -> tuple[int, dict]:
    """The announced version, and its vectors by key as a reader gets them."""
    announcements = Announcements(store)
    version = announcements.read().version()
    assert version is not None
    return version, by_key(load_version(store, announcements, version))


def check(store: Store, producer: Producer) -> None:
    """After a failure the next cycle completes, and every way through the chain holds."""
    cycle = producer.publish(THIRD)
    assert cycle.version is not None
    assert read(store) == (cycle.version, wanted(THIRD))
    assert walk_plainly(store)[cycle.version] == plain_of(producer.state)


def calls_of_a_cycle() -> int:
    store = FaultyStore(open_store("memory:"))
    producer = producer_of(store)
    producer.publish(FIRST)
    before = len(store.calls)
    producer.publish(SECOND)
    return len(store.calls) - before


@pytest.mark.parametrize(("kind", "moment"), CASES)
def test_each_store_call_failing_once_leaves_the_old_or_the_new_vectors(kind, moment):
    outcomes = set()
    calls = calls_of_a_cycle()
    assert calls > 20
    for number in range(1, calls + 1):
        store = FaultyStore(open_store("memory:"))
        producer = producer_of(store)
        producer.publish(FIRST)
        store.fail(Fault(kind, moment, number))
        with suppress(DeltaicError):
            producer.publish(SECOND)
        store.fail()
        found = read(store)
        assert found in ((1, wanted(FIRST)), (2, wanted(SECOND))), f"half after call {number}"
        outcomes.add(found[0])
        check(store, producer)
    assert outcomes == {1, 2}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_at_any_store_call_leaves_the_old_or_the_new_vectors(moment, tmp_path: Path):
    seen = set()
    # The calls around a write are alike: each way to die takes every third one, not the same ones.
    for kill_at in range(1 if moment == "before" else 2, 200, 3):
        folder = tmp_path / str(kill_at)
        with producer_of(LocalStore(folder)) as producer:
            producer.publish(FIRST)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                producer_of(KillingStore(LocalStore(folder), kill_at, moment)).publish(SECOND)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        store = LocalStore(folder)
        found = read(store)
        assert found in ((1, wanted(FIRST)), (2, wanted(SECOND))), f"half after call {kill_at}"
        seen.add(found[0])
        with producer_of(store, clock=later) as successor:
            check(store, successor)
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            break
    assert seen == {1, 2} and kill_at > 20
