"""Watchers: soon, seldom, in spite of failures, and stopped at once."""

import asyncio
import logging
import random
import threading
import time
from pathlib import Path

import pytest

from deltaic.errors import InputError
from deltaic.storage.announcement import Announcement, Announcements
from deltaic.storage.backoff import Backoff
from deltaic.storage.lease import acquire_lease
from deltaic.storage.local import LocalStore
from deltaic.storage.notify import FolderNotice
from deltaic.storage.store import Store
from deltaic.storage.watch import MAX_DELAY_SECONDS, Watcher
from deltaic.testing.faulty_store import Fault, FaultKind, FaultyStore
from deltaic.testing.simulated_store import SimulatedStore

NO_WAIT = Backoff(attempts=1, sleep=lambda seconds: None)


class FakeWaiter:
    """Time that passes only when somebody waits; a script of things to do at each wait."""

    def __init__(self, *script: object) -> None:
        self.script, self.waits, self.woken = list(script), [], 0
        self.waits: list[float] = []

    def wait(self, timeout_seconds: float) -> bool:
        self.waits.append(timeout_seconds)
        step = self.script.pop(0)
        if callable(step):
            step()
        return False

    def wake(self) -> None:
        self.woken += 1

    def close(self) -> None:
        raise AssertionError("a waiter that was given is its owner's to close")


def announcing(store: Store) -> Announcements:
    announcements = Announcements(store, backoff=NO_WAIT)
    acquire_lease(announcements, holder="one")
    return announcements


def test_each_change_is_told_once_and_the_present_first() -> None:
    announcements = announcing(SimulatedStore())
    announcements.announce(1, [], epoch=1)
    waiter = FakeWaiter(None, lambda: announcements.announce(2, [], epoch=1), None, lambda: watcher.stop())
    watcher = Watcher(announcements, waiter=waiter)
    assert [found.version() for found in watcher] == [1, 2]
    assert watcher.last is not None and watcher.last.version() == 2
    assert len(waiter.waits) == 4


def test_waits_vary_around_the_interval() -> None:
    announcements = announcing(SimulatedStore())
    waiter = FakeWaiter(*[None] * 199, lambda: watcher.stop())
    watcher = Watcher(announcements, interval_seconds=2, jitter=0.25, waiter=waiter, random=random.Random(1))
    list(watcher)
    assert 1.5 <= min(waiter.waits) < 1.6 < 2.4 < max(waiter.waits) <= 2.5
    assert abs(sum(waiter.waits) / len(waiter.waits) - 2) < 0.1


def test_a_poll_of_an_unchanged_announcement_is_one_conditional_read() -> None:
    faulty = FaultyStore(SimulatedStore())
    watcher = Watcher(announcing(faulty))
    assert watcher.poll() is not None
    faulty.fail()
    assert watcher.poll() is None
    assert faulty.calls == [("get_if_changed", "announced.json")]


def test_a_failing_store_is_asked_less_and_less_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "deltaic.storage")
    faulty = FaultyStore(SimulatedStore())
    announcements = announcing(faulty)
    faulty.fail(Fault(FaultKind.UNAVAILABLE, call_number=1, from_then_on=True))

    def recover() -> None:
        faulty.fail()
        announcements.announce(1, [], epoch=1)

    waiter = FakeWaiter(*[None] * 9, recover, None, lambda: watcher.stop())
    watcher = Watcher(announcements, jitter=0, waiter=waiter)
    assert [found.version() for found in watcher] == [1]
    assert waiter.waits == [2, 4, 8, 16, 30, 30, 30, 30, 30, 30, 1, 1]
    assert MAX_DELAY_SECONDS == 30
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert watcher.failures == 0


def test_a_corrupt_announcement_is_survived() -> None:
    store = SimulatedStore()
    announcements = announcing(store)
    good = store.get("announced.json").data
    store.put("announced.json", b"{")
    watcher = Watcher(announcements)
    assert watcher.poll() is None and watcher.failures == 1
    store.put("announced.json", good)
    assert watcher.poll() is not None and watcher.failures == 0


def test_before_the_first_announcement_there_is_nothing_to_tell() -> None:
    store = SimulatedStore()
    watcher = Watcher(Announcements(store))
    assert watcher.poll() is None and watcher.failures == 0
    store.put("announced.version", b"5")
    found = watcher.poll()
    assert found is not None and found.version() == 5 and not found.verified


@pytest.mark.parametrize("kind", ["local", "simulated"])
def test_a_thread_tells_and_stops_at_once(kind: str, tmp_path: Path) -> None:
    store: Store = LocalStore(tmp_path) if kind == "local" else SimulatedStore()
    announcements = announcing(store)
    seen: list[int | None] = []
    told = threading.Event()

    def callback(announcement: Announcement) -> None:
        seen.append(announcement.version())
        if announcement.version() == 1:
            told.set()
        raise RuntimeError("a callback that fails is the caller's trouble, not the watcher's")

    before = threading.active_count()
    with Watcher(announcements, interval_seconds=0.05).started(callback):
        announcements.announce(1, [], epoch=1)
        assert told.wait(10)
        started = time.monotonic()
    assert time.monotonic() - started < 1
    assert threading.active_count() == before


def test_a_watcher_with_a_long_interval_stops_at_once() -> None:
    for store in (SimulatedStore(), SimulatedStore()):
        watcher = Watcher(announcing(store), interval_seconds=600)
        with watcher.started(lambda announcement: None):
            time.sleep(0.05)
            started = time.monotonic()
        assert time.monotonic() - started < 1


def test_a_local_change_is_told_long_before_the_interval_is_over(tmp_path: Path) -> None:
    if FolderNotice.of(tmp_path) is None:
        pytest.skip("no inotify on this system")
    announcements = announcing(LocalStore(tmp_path).child("chain"))
    told = threading.Event()
    watcher = Watcher(announcements, interval_seconds=600)
    with watcher.started(lambda announcement: told.set() if announcement.version() == 1 else None):
        time.sleep(0.1)
        announcements.announce(1, [], epoch=1)
        assert told.wait(5)


def test_a_java_producer_that_moves_its_number_into_place_is_noticed_at_once(tmp_path: Path) -> None:
    if FolderNotice.of(tmp_path) is None:
        pytest.skip("no inotify on this system")
    told = threading.Event()
    with Watcher(Announcements(LocalStore(tmp_path)), interval_seconds=600).started(lambda announcement: told.set()):
        time.sleep(0.1)
        (tmp_path / "announced.version.tmp").write_bytes(b"7")
        (tmp_path / "announced.version.tmp").rename(tmp_path / "announced.version")
        assert told.wait(5)


def test_a_folder_that_is_not_there_yet_is_polled(tmp_path: Path) -> None:
    assert FolderNotice.of(tmp_path / "nothing") is None
    announcements = Announcements(LocalStore(tmp_path / "later"))
    told = threading.Event()
    with Watcher(announcements, interval_seconds=0.05).started(lambda announcement: told.set()):
        time.sleep(0.1)
        acquire_lease(announcements)
        assert told.wait(5)


def test_no_handle_is_left_behind(tmp_path: Path) -> None:
    announcements = announcing(LocalStore(tmp_path))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with Watcher(announcements).started(lambda announcement: None):
            time.sleep(0.02)
        for _found in Watcher(announcements):
            break
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("kind", ["local", "simulated"])
def test_asyncio_sees_each_change_and_can_be_cancelled(kind: str, tmp_path: Path) -> None:
    store: Store = LocalStore(tmp_path) if kind == "local" else SimulatedStore()
    announcements = announcing(store)

    async def follow(count: int) -> list[int | None]:
        seen: list[int | None] = []
        watcher = Watcher(announcements, interval_seconds=600 if kind == "local" else 0.02)
        async for found in watcher.changes():
            seen.append(found.version())
            if len(seen) == count:
                watcher.stop()
        return seen

    async def main() -> list[int | None]:
        task = asyncio.create_task(follow(3))
        for version in (1, 2):
            await asyncio.sleep(0.15)
            await asyncio.to_thread(announcements.announce, version, [], epoch=1)
        seen = await asyncio.wait_for(task, 10)
        cancelled = asyncio.create_task(follow(99))
        await asyncio.sleep(0.1)
        cancelled.cancel()
        started = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert time.monotonic() - started < 1
        return seen

    assert asyncio.run(main()) == [None, 1, 2]


@pytest.mark.parametrize("options", [{"interval_seconds": 0}, {"jitter": 1}, {"jitter": -0.1}])
def test_nonsense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Watcher(Announcements(SimulatedStore()), **options)  # type: ignore[arg-type]
