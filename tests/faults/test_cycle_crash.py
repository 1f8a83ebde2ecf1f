"""A producer that is killed at any store call of a cycle: before or after, never between; the next one completes."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from deltaic.producer import Producer
from deltaic.storage.local import LocalStore
from deltaic.testing.faulty_store import FaultyStore
from tests.unit.producer.catalogue import check_chain, content_of, movie, movies, producer_of, read

FIRST = movies(1, 2, 3)
SECOND = [movie(1), movie(2, "changed"), movie(4)]
THIRD = [movie(1), movie(5)]
_Result = TypeVar("_Result")


def later() -> float:
    """A clock by which the lease of a killed producer has expired."""
    return time.time() + 3600


class KillingStore(FaultyStore):
    """Kills its process before or after the n-th call."""

    def __init__(self, store: LocalStore, kill_at: int, moment: str) -> None:
        super().__init__(store)
        self._kill_at, self._moment = kill_at, moment

    def _call(self, operation: str, key: str, call: Callable[[], _Result]) -> _Result:
        self.calls.append((operation, key))
        now = len(self.calls) == self._kill_at
        if now and self._moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return call()
        finally:
            if now:
                os.kill(os.getpid(), signal.SIGKILL)


def first_version(folder: Path) -> None:
    with producer_of(LocalStore(folder)) as producer:
        producer.publish(FIRST)


def killed(folder: Path, operation: Callable[[Producer], object], kill_at: int, moment: str) -> bool:
    """Run in a child that is killed at a call; False if it ended before."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            operation(producer_of(KillingStore(LocalStore(folder), kill_at, moment)))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def incremental(producer: Producer) -> None:
    with producer.incremental() as changes:
        changes.add_or_modify([movie(2, "changed"), movie(4)])
        changes.delete("Movie", 3)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_at_any_store_call_leaves_the_old_or_the_new_version(moment: str, tmp_path: Path) -> None:
    seen = set()
    for kill_at in range(1, 200):
        folder = tmp_path / str(kill_at)
        first_version(folder)
        operation = incremental if kill_at % 2 else lambda producer: producer.publish(SECOND)
        died = killed(folder, operation, kill_at, moment)
        store = LocalStore(folder)
        found = read(store)
        assert found in ((1, content_of(FIRST)), (2, content_of(SECOND))), f"half after call {kill_at}"
        if not died:
            assert found[0] == 2
            break
        seen.add(found[0])
        with producer_of(store, clock=later) as successor:
            cycle = successor.publish(THIRD)
        assert cycle.from_version == found[0]
        assert read(store) == (cycle.version, content_of(THIRD))
        check_chain(store)
    else:
        raise AssertionError("the cycle did not end")
    assert kill_at > 20
    assert seen == {1, 2}, "the crash points did not cover both sides of the announcement"


def test_a_kill_in_the_first_cycle_ever_leaves_nothing_or_the_first_version(tmp_path: Path) -> None:
    for kill_at in range(1, 200):
        folder = tmp_path / str(kill_at)
        died = killed(folder, lambda producer: producer.publish(FIRST), kill_at, "after")
        store = LocalStore(folder)
        found = read(store)
        assert found in ((None, {}), (1, content_of(FIRST)))
        if not died:
            break
        with producer_of(store, clock=later) as successor:
            cycle = successor.publish(SECOND)
        assert read(store) == (cycle.version, content_of(SECOND))
        check_chain(store)
    assert kill_at > 10


def test_a_producer_killed_while_it_restores_does_no_harm(tmp_path: Path) -> None:
    first_version(tmp_path)
    for kill_at in range(1, 100):
        if not killed(tmp_path, lambda producer: producer.restore(), kill_at, "after"):
            break
        assert read(LocalStore(tmp_path)) == (1, content_of(FIRST))
        with producer_of(LocalStore(tmp_path), clock=later) as successor:
            assert successor.restore() == 1
    assert kill_at > 3
