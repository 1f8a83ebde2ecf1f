"""Shared indexes under kills: SIGKILL at every change of the folder while one is made, carried on or swept."""

import gc
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltaic.consumer.arena import Arena
from deltaic.consumer.arena_indexes import SharedIndexes
from deltaic.index.index_set import IndexSet
from deltaic.state.read import ReadState
from tests.faults.test_arena_crash import Work, killed_at, steps_of
from tests.unit.consumer.arena_chains import ChainOfBlobs, chain_of, files_in

YEAR = 1950


@pytest.fixture(scope="module")
def chain() -> ChainOfBlobs:
    return chain_of(1_200, 6, shards=1)


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


def indexed(arena: Arena, state: ReadState, version: int) -> IndexSet:
    """A set of indexes of a shared state, with three in it."""
    made = IndexSet(state, home=arena.indexes.home(version, ""))
    made.key("Movie"), made.hash("Movie", "year"), made.range("Movie", "score")
    return made


def make_indexes(arena: Arena, chain: ChainOfBlobs) -> None:
    indexed(arena, arena.refresh(2, chain.make(2)), 2)


def carry_them_on(arena: Arena, chain: ChainOfBlobs) -> None:
    before = indexed(arena, arena.refresh(2, chain.make(2)), 2)
    state = arena.refresh(3, chain.make(3))
    before.refreshed(state, None, arena.indexes.home(3, ""))


def leave_them_behind(arena: Arena, chain: ChainOfBlobs) -> None:
    indexed(arena, arena.refresh(2, chain.make(2)), 2)
    for version in (3, 4, 5):
        arena.refresh(version, chain.make(version))
        gc.collect()


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("work", [make_indexes, carry_them_on, leave_them_behind])
def test_a_kill_at_any_step_leaves_whole_indexes_or_none_and_no_file_that_nobody_names(
    work: Work, every: int, place: Path, chain: ChainOfBlobs
) -> None:
    steps = len(steps_of(work, place / "dry", chain))
    assert steps >= 20
    expected = {version: IndexSet(chain.at(version)).hash("Movie", "year").find(YEAR).tolist() for version in (2, 3, 6)}
    for step in range(1, steps + 1, every):
        folder = place / f"at-{step}"
        killed_at(step, work, folder, chain)
        started = time.monotonic()
        arena = Arena(folder)
        for version in (2, 3, 6):
            state = arena.refresh(version, chain.make(version))
            found = indexed(arena, state, version)
            assert found.hash("Movie", "year").find(YEAR).tolist() == expected[version]
            key = int(state["Movie"].column("id").to_pylist()[5])
            assert found.key("Movie")[key].id == key
            del state, found
            gc.collect()
        assert time.monotonic() - started < 10
        names = {name for name in files_in(folder) if name.startswith(("i-", "tmp-index-"))}
        manifests = [name for name in files_in(folder) if name.startswith("index-")]
        read = [SharedIndexes(arena._folder)._read(name) for name in manifests]
        assert names == {file for manifest in read if manifest is not None for file in manifest.files()}, step
        assert {int(name.split("-")[1]) for name in manifests} <= set(arena.versions())
        arena.remove()
        assert not folder.exists()
