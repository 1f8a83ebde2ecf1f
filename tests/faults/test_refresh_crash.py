"""Killed (SIGKILL) at any step of a refresh: the cache is whole, and the next process loads the version."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from deltaic.consumer import Consumer
from deltaic.consumer.cache import FILLING_PREFIX, BlobCache
from deltaic.storage import LocalStore
from deltaic.testing.faulty_store import FaultyStore
from tests.unit.consumer.small_chain import SmallChain, watermarks


class Killer:
    """Counts steps, and kills the process at one of them."""

    def __init__(self, at: int | None) -> None:
        self.at, self.steps = at, 0

    def __call__(self, step: str = "") -> None:
        self.steps += 1
        if self.steps == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


class KillingStore(FaultyStore):
    """Dies before and after each call."""

    def __init__(self, store, killer) -> None:
        super().__init__(store)
        self.killer = killer

    def _call(self, operation, key, call):
        self.killer()
        result = call()
        self.killer()
        return result


def run_killed(root: Path, cache: Path, at: int | None) -> int:
    """Refresh in a child that is killed at a step; the number of steps if it was not."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            killer = Killer(at)
            consumer = Consumer(KillingStore(LocalStore(root), killer), cache_dir=cache)
            settings = consumer._refresher.settings
            consumer._refresher.settings = replace(settings, cache=BlobCache(cache, on_step=killer))
            consumer.refresh()
            os.write(write, str(killer.steps).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        return int(pipe.read() or 0)


def copies(cache: Path) -> list[Path]:
    folder = cache / "blobs"
    return [path for path in folder.iterdir() if not path.name.startswith(FILLING_PREFIX)] if folder.exists() else []


def test_a_kill_at_any_step_leaves_whole_copies_and_the_next_run_completes(tmp_path):
    chain = SmallChain(LocalStore(tmp_path / "chain"))
    for number in range(3):
        chain.publish(snapshot=number == 0)
    contents = set(chain.blobs.values())
    steps = run_killed(tmp_path / "chain", tmp_path / "count", None)
    assert steps >= 20
    left = 0
    for at in range(1, steps + 1):
        cache = tmp_path / f"cache-{at}"
        assert run_killed(tmp_path / "chain", cache, at) == 0
        assert {path.read_bytes() for path in copies(cache)} <= contents
        leftovers = list((cache / "blobs").glob(f"{FILLING_PREFIX}*")) if (cache / "blobs").exists() else []
        left += len(leftovers)
        for leftover in leftovers:
            os.utime(leftover, (1, 1))
        consumer = Consumer(FaultyStore(LocalStore(tmp_path / "chain")), cache_dir=cache)
        consumer.refresh()
        assert consumer.version == 3 and watermarks(consumer.state) == {3} and consumer.status().verified
        assert {path.read_bytes() for path in copies(cache)} <= contents and len(copies(cache)) == 3
        assert not list((cache / "blobs").glob(f"{FILLING_PREFIX}*"))
    assert left > 0, "no kill fell into a fill"


@pytest.mark.parametrize("size", [0, 1, 100])
def test_a_copy_that_was_cut_by_a_crash_of_the_machine_is_fetched_again(tmp_path, size):
    chain = SmallChain(LocalStore(tmp_path / "chain"))
    chain.publish()
    store = FaultyStore(LocalStore(tmp_path / "chain"))
    Consumer(store, cache_dir=tmp_path / "cache").refresh()
    [copy] = copies(tmp_path / "cache")
    whole = copy.read_bytes()
    copy.write_bytes(whole[:size])
    assert Consumer(store, cache_dir=tmp_path / "cache").refresh().to_version == 1
    assert copy.read_bytes() == whole
    copy.write_bytes(bytes(len(whole)))
    assert Consumer(store, cache_dir=tmp_path / "cache").refresh().to_version == 1
    assert copy.read_bytes() == whole
