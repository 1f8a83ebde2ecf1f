"""The local store under crashes: SIGKILL at every step, power cuts on a disk that loses what was not synced."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from deltaic.errors import NotFoundError
from deltaic.storage.announced import Artifact
from deltaic.storage.announcement import Announcements
from deltaic.storage.disk import RealDisk
from deltaic.storage.lease import acquire_lease
from deltaic.storage.local import TEMPORARY_PREFIX, LocalStore
from deltaic.testing.dishonest_disk import DishonestDisk
from deltaic.testing.stepped_disk import SteppedDisk

OLD, NEW = b"old " * 100, b"new " * 150


def put_chunks(store: LocalStore) -> None:
    store.put_chunks("a/k", [NEW[:100], NEW[100:]])


def etag_of(store: LocalStore) -> str:
    etag = store.head("a/k").etag
    assert etag is not None
    return etag


Operation = Callable[[LocalStore], object]
OPERATIONS: dict[str, tuple[bool, Operation, bytes | None]] = {
    # name: is there an old object, the operation, what is there after it
    "put a new object": (False, lambda store: store.put("a/k", NEW), NEW),
    "put over an old one": (True, lambda store: store.put("a/k", NEW), NEW),
    "put in chunks": (True, put_chunks, NEW),
    "put if absent": (False, lambda store: store.put_if_absent("a/k", NEW), NEW),
    "put if match": (True, lambda store: store.put_if_match("a/k", NEW, etag_of(store)), NEW),
    "copy if absent": (False, lambda store: store.copy_if_absent("staging/x", "a/k"), NEW),
    "delete": (True, lambda store: store.delete("a/k"), None),
}


def prepare(store: LocalStore, old: bool) -> bytes | None:
    store.put("staging/x", NEW)
    if old:
        store.put("a/k", OLD)
    return OLD if old else None


def content(store: LocalStore) -> bytes | None:
    try:
        return store.get("a/k").data
    except NotFoundError:
        return None


def steps_of(operation: Operation, folder: Path) -> int:
    """How many steps an undisturbed run takes."""
    count = 0

    def on_step(step: str) -> None:
        nonlocal count
        count += 1

    operation(LocalStore(folder, disk=SteppedDisk(RealDisk(folder), on_step)))
    return count


def killed_at(crash_at: int, operation: Operation, folder: Path) -> bool:
    """Run in a child that is killed at a step; True if it was not reached."""
    child = os.fork()
    if child == 0:
        count = 0

        def on_step(step: str) -> None:
            nonlocal count
            count += 1
            if count == crash_at:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            operation(LocalStore(folder, disk=SteppedDisk(RealDisk(folder), on_step)))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return not os.WIFSIGNALED(status)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_kill_at_any_step_leaves_before_or_after(name: str, tmp_path: Path) -> None:
    old, operation, after = OPERATIONS[name]
    prepare(LocalStore(tmp_path / "dry"), old)
    steps = steps_of(operation, tmp_path / "dry")
    assert steps >= 4
    seen = set()
    for crash_at in range(1, steps + 2):
        folder = tmp_path / f"at-{crash_at}"
        store = LocalStore(folder)
        before = prepare(store, old)
        finished = killed_at(crash_at, operation, folder)
        assert finished == (crash_at > steps)
        found = content(store)
        assert found in (before, after), f"half after step {crash_at}"
        if finished:
            assert found == after
        seen.add(found)
        leftovers = store.sweep(older_than_seconds=-1)
        assert len(leftovers) <= 1
        assert all(TEMPORARY_PREFIX in path for path in leftovers)
        assert {info.key for info in store.list()} <= {"a/k", "staging/x"}
        # A second run completes: no lock or leftover stands in its way.
        if found == before:
            operation(LocalStore(folder, lock_timeout_seconds=2))
            assert content(store) == after
    assert seen == {before, after}, "the crash points did not cover both sides"


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_power_cut_at_any_step_leaves_before_or_after_and_keeps_what_was_acknowledged(name: str) -> None:
    old, operation, after = OPERATIONS[name]
    seed = 0
    for cut_at in range(1, 40):
        for _ in range(6):
            seed += 1
            disk = DishonestDisk()
            store = LocalStore("/simulated", disk=disk)
            before = prepare(store, old)
            first = len(disk.steps)

            def cut(step: str, path: str, disk: DishonestDisk = disk, first: int = first, cut_at: int = cut_at) -> None:
                if len(disk.steps) - first == cut_at:
                    raise PowerCutError

            disk.hook = cut
            try:
                operation(store)
                acknowledged = True
            except PowerCutError:
                acknowledged = False
            disk.hook = None
            found = content(LocalStore("/simulated", disk=disk.crash(random.Random(seed))))
            assert found in (before, after), f"seed {seed}, step {cut_at}: half"
            if acknowledged:
                assert found == after, f"seed {seed}: an acknowledged write is lost"
        if acknowledged:
            return
    raise AssertionError("the operation did not end")


class PowerCutError(BaseException):
    """Not an Exception, so that no clean-up of the store's runs as if the machine were still on."""


@pytest.mark.parametrize("skipped", ["sync", "sync_folder"])
def test_the_dishonest_disk_catches_a_store_that_does_not_sync(skipped: str) -> None:
    class Hasty(DishonestDisk):
        pass

    setattr(Hasty, skipped, lambda self, *_: None)
    lost = 0
    for seed in range(60):
        disk = Hasty()
        LocalStore("/simulated", disk=disk).put_if_absent("k", NEW)
        lost += content_of(LocalStore("/simulated", disk=disk.crash(random.Random(seed)))) != NEW
    assert lost > 0


def content_of(store: LocalStore) -> bytes | None:
    try:
        return store.get("k").data
    except NotFoundError:
        return None


ARTIFACTS = (Artifact("snapshot", "snapshot-1", 3, "crc32c:00000000"),)


def test_a_kill_at_any_step_of_an_announcement_leaves_the_old_or_the_new_one(tmp_path: Path) -> None:
    def prepared(folder: Path) -> int:
        announcements = Announcements(LocalStore(folder))
        epoch = acquire_lease(announcements, holder="one").epoch
        announcements.announce(1, ARTIFACTS, epoch=epoch)
        return epoch

    def operation(store: LocalStore) -> object:
        return Announcements(store).announce(2, ARTIFACTS, epoch=1)

    assert prepared(tmp_path / "dry") == 1
    steps = steps_of(operation, tmp_path / "dry")
    seen = set()
    for crash_at in range(1, steps + 1):
        folder = tmp_path / f"at-{crash_at}"
        prepared(folder)
        assert not killed_at(crash_at, operation, folder)
        announcements = Announcements(LocalStore(folder))
        version = announcements.read().version()
        number = (folder / "announced.version").read_bytes()
        assert version in (1, 2)
        assert number in (b"1", str(version).encode())
        assert announcements.repair_number().number_written
        assert (folder / "announced.version").read_bytes() == str(version).encode()
        seen.add((version, number))
    assert seen == {(1, b"1"), (2, b"1"), (2, b"2")}
