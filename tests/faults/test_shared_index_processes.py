"""Two processes of a host and one set of indexes: the second builds nothing, and its own memory does not grow."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deltaic.kernels import PLAIN_ASKED
from deltaic.storage import LocalStore
from deltaic.storage.announced import Artifact
from deltaic.storage.announcement import Announcements
from deltaic.storage.checksum import checksum
from deltaic.storage.lease import acquire_lease
from tests.unit.consumer.arena_chains import chain_of

pytestmark = pytest.mark.skipif(
    PLAIN_ASKED, reason="with the plain kernels a chain of this size takes minutes to write"
)

ROOT = Path(__file__).resolve().parent.parent.parent
MOVIES = 150_000
KINDS = 5


class Process:
    """A consumer in a process of its own."""

    def __init__(self, chain: Path, share: str) -> None:
        command = [sys.executable, "-m", "tests.faults.index_follower", str(chain), share]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def tell(self, command: str) -> Any:
        self.send(command)
        return self.answer()

    def send(self, command: str) -> None:
        assert self.process.stdin is not None
        print(command, file=self.process.stdin, flush=True)

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


class Published:
    """A chain in a folder, announced version by version."""

    def __init__(self, place: Path) -> None:
        made = chain_of(MOVIES, 3)
        self.store = LocalStore(place)
        self._blobs = {1: ("snapshot", "snapshot-1", made.snapshot)}
        for number, delta in enumerate(made.deltas, 2):
            self._blobs[number] = ("delta", f"delta-{number - 1}-{number}", delta)
        self._epoch = acquire_lease(Announcements(self.store)).epoch

    def announce(self, version: int) -> None:
        kind, name, data = self._blobs[version]
        self.store.put(name, data)
        ends = (None, None) if kind == "snapshot" else (version - 1, version)
        artifact = Artifact(kind, name, len(data), checksum(data), *ends)
        Announcements(self.store).announce(version, [artifact], epoch=self._epoch)


@pytest.fixture
def chain(tmp_path: Path) -> Published:
    published = Published(tmp_path / "chain")
    published.announce(1)
    return published


@pytest.fixture
def start(chain: Published, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(share: str = "share") -> Process:
        started.append(Process(tmp_path / "chain", share))
        return started[-1]

    yield begin
    for process in started:
        process.end()


def test_the_second_process_builds_nothing_and_takes_no_memory_of_its_own(
    chain: Published, start: Callable[..., Process], record_property: Any
) -> None:
    first, second, alone = start(), start(), start("alone")
    for process in (first, second, alone):
        assert process.tell("go")["version"] == 1
    # What Python loads to look something up is there before; it is the indexes that are measured.
    for process in (second, alone):
        process.tell("memory")
    answers = first.tell("ask")
    before = second.tell("memory"), alone.tell("memory")
    assert second.tell("ask") == alone.tell("ask") == answers
    nbytes = first.tell("counts")["nbytes"]
    assert nbytes > 10 << 20
    assert first.tell("counts") == {"builds": KINDS, "updates": 0, "attached": 0, "nbytes": nbytes}
    assert second.tell("counts") == {"builds": 0, "updates": 0, "attached": KINDS, "nbytes": nbytes}
    grown = second.tell("memory")["private"] - before[0]["private"]
    grown_alone = alone.tell("memory")["private"] - before[1]["private"]
    record_property("indexes, MB", round(nbytes / 1e6, 1))
    record_property("private memory that came with them, second process, MB", round(grown / 1e6, 2))
    record_property("the same, a process that shares nothing, MB", round(grown_alone / 1e6, 2))
    assert grown < 0.15 * nbytes and grown_alone > 0.9 * nbytes

    for version in (2, 3, 4):
        chain.announce(version)
        for process in (first, second, alone):
            assert process.tell("go")["version"] == version
        assert first.tell("ask") == second.tell("ask") == alone.tell("ask")
    assert first.tell("counts")["updates"] == 3 * KINDS and first.tell("counts")["builds"] == KINDS
    last = second.tell("counts")
    assert (last["builds"], last["updates"], last["attached"]) == (0, 0, 4 * KINDS)
    assert second.tell("memory")["private"] - before[0]["private"] < 0.25 * nbytes


def test_a_process_that_is_killed_while_it_makes_an_index_holds_nobody_up(
    start: Callable[..., Process],
) -> None:
    first, second = start(), start()
    for process in (first, second):
        process.tell("go")
    first.send("ask")
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    assert second.tell("ask")[0] == f"{33_333:012d}"
    found = second.tell("counts")
    assert found["builds"] + found["attached"] == KINDS
