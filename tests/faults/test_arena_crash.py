"""One copy per host under kills: SIGKILL at every change of the folder while a state is made, retired or removed."""

import gc
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deltaic.binary import buffers
from deltaic.consumer.arena import Arena
from deltaic.consumer.arena_manifest import decode_manifest
from tests.unit.consumer.arena_chains import ChainOfBlobs, chain_of, content_of, ended, files_in, in_child

MOVIES = 1_200
Work = Callable[[Arena, ChainOfBlobs], object]


@pytest.fixture(autouse=True)
def many_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of a few kilobytes get files of their own, as large ones do: more steps to be killed at."""
    monkeypatch.setattr(buffers, "_SMALLEST_BYTES", 4 << 10)


@pytest.fixture(scope="module")
def chain() -> ChainOfBlobs:
    return chain_of(MOVIES, 8, shards=1)


def next_version(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.refresh(4, chain.make(4))


def from_a_snapshot(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.refresh(4, lambda base, version: chain.at(4))


def the_same_version_again(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.refresh(3, chain.make(3), fingerprint=lambda version: "another")


def give_back(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.tidy()


def leave(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.close()


OPERATIONS: dict[str, Work] = {
    work.__name__.replace("_", " "): work
    for work in (next_version, from_a_snapshot, the_same_version_again, give_back, leave)
}


def filled(folder: Path, chain: ChainOfBlobs) -> Arena:
    """An arena at version 3, with version 2 that nobody reads, and files to be used again."""
    arena = Arena(folder)
    for version in (1, 2, 3):
        arena.refresh(version, chain.make(version))
    return arena


def steps_of(work: Work, folder: Path, chain: ChainOfBlobs) -> list[str]:
    """The steps of an undisturbed run."""
    steps: list[str] = []
    work(Arena(folder, spare_bytes=0, on_step=steps.append), chain)
    return steps


def killed_at(step: int, work: Work, folder: Path, chain: ChainOfBlobs) -> int:
    """Do the work in a child that is killed at a step."""

    def run() -> None:
        left = step

        def on_step(name: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        work(Arena(folder, spare_bytes=0, on_step=on_step), chain)

    return ended(in_child(run))


def unnamed(folder: Path) -> set[str]:
    """Files that no manifest names."""
    names = files_in(folder)
    needed = {name for name in names if name.endswith(".json")}
    for name in sorted(needed):
        needed |= decode_manifest((folder / name).read_bytes(), name).files()
    return names - needed


def test_the_operations_take_steps_of_every_kind(tmp_path: Path, chain: ChainOfBlobs) -> None:
    seen: set[str] = set()
    for number, work in enumerate(OPERATIONS.values()):
        filled(tmp_path / str(number), chain)
        gc.collect()
        seen |= set(steps_of(work, tmp_path / str(number), chain))
    kinds = {"create", "reserve", "write", "rename", "truncate", "unlink"}
    assert seen == {f"{when} {kind}" for kind in kinds for when in ("before", "after")}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in shared memory, where there is one: where arenas are."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_kill_at_any_step_harms_nobody_and_leaks_nothing(
    name: str, every: int, place: Path, chain: ChainOfBlobs
) -> None:
    work = OPERATIONS[name]
    filled(place / "dry", chain)
    gc.collect()
    steps = len(steps_of(work, place / "dry", chain))
    assert steps >= 8
    # Every third one tries steps before and after their effect in turn, with and without a reader.
    for step in range(1, steps + 1, every):
        folder = place / f"at-{step}"
        arena = filled(folder, chain)
        # A reader stays attached all the time; in half of the runs there is none, so that files are free at once.
        reader = Arena(folder)
        held = reader.attach(3) if step % 4 < 2 else None
        gc.collect()
        # With a reader the steps are not the same ones, and there may be fewer.
        assert killed_at(step, work, folder, chain) in ((-signal.SIGKILL, 0) if held else (-signal.SIGKILL,)), step
        started = time.monotonic()
        if held is not None:
            assert content_of(held) == chain.contents[3], f"a reader was harmed at step {step}"
        for state_version in arena.versions():
            found = Arena(folder).attach(state_version)
            if found is not None:
                assert content_of(found) == chain.contents[state_version], f"half a state after step {step}"
        found = None
        # Another process finishes what the dead one began, and goes on.
        successor = Arena(folder)
        for version in (4, 5, 6):
            assert content_of(successor.refresh(version, chain.make(version))) == chain.contents[version]
        assert time.monotonic() - started < 10
        if held is not None:
            assert content_of(held) == chain.contents[3]
        held = None
        gc.collect()
        successor.refresh(7, chain.make(7))
        left = unnamed(folder)
        assert all(left_over.startswith("f-") for left_over in left), f"left at step {step}: {left}"
        assert arena.versions() == (6, 7)
        arena.remove()
        assert not folder.exists()


def test_kills_again_and_again_do_not_fill_the_folder(tmp_path: Path, chain: ChainOfBlobs) -> None:
    folder = tmp_path / "arena"
    filled(folder, chain)
    gc.collect()
    undisturbed = Arena(folder).size_bytes()
    for step in range(1, 60, 2):
        killed_at(step, next_version, folder, chain)
        killed_at(step + 20, from_a_snapshot, folder, chain)
        assert Arena(folder).size_bytes() < 4 * undisturbed
    arena = Arena(folder)
    assert content_of(arena.refresh(5, chain.make(5))) == chain.contents[5]
    assert arena.size_bytes() < 2 * undisturbed


def test_a_reader_killed_while_attached_lets_its_state_go(tmp_path: Path, chain: ChainOfBlobs) -> None:
    folder = tmp_path / "arena"
    arena = filled(folder, chain)
    ready, tell = os.pipe()

    def read() -> None:
        held = Arena(folder).attach(3)
        assert held is not None
        os.write(tell, b"x")
        time.sleep(60)

    child = in_child(read)
    os.read(ready, 1)
    for version in (4, 5, 6):
        arena.refresh(version, chain.make(version))
    assert 3 in arena.versions()
    os.kill(child, signal.SIGKILL)
    assert ended(child) == -signal.SIGKILL
    arena.refresh(7, chain.make(7))
    assert arena.versions() == (6, 7)
    os.close(ready)
    os.close(tell)
