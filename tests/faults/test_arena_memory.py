"""How much memory the followers of one chain take together, and how long an attach takes."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltaic.kernels import PLAIN_ASKED
from tests.unit.consumer.arena_chains import chain_of

pytestmark = pytest.mark.skipif(
    PLAIN_ASKED, reason="with the plain kernels a chain of this size takes minutes to write"
)

ROOT = Path(__file__).resolve().parent.parent.parent
DELTAS = 20
PYTHON_BYTES = 25 << 20
LARGE = pytest.param(820_000, 440, 400_000_000, marks=pytest.mark.long, id="400MB")
SMALL = pytest.param(100_000, 368, 40_000_000, id="40MB")


class Process:
    """A follower in a process of its own."""

    def __init__(self, chain: Path, share: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.arena_follower", str(chain), share],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def tell(self, command: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(command, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chains")


def written(folder: Path, movies: int, poster_bytes: int) -> tuple[Path, tuple[int, ...]]:
    """The blobs of a chain as files, and the contents of its versions."""
    chain = chain_of(movies, DELTAS, poster_bytes=poster_bytes)
    place = folder / f"chain-{movies}"
    if not place.exists():
        place.mkdir()
        (place / "snapshot-0").write_bytes(chain.snapshot)
        for version, delta in enumerate(chain.deltas):
            (place / f"delta-{version}-{version + 1}").write_bytes(delta)
    return place, chain.contents


def follow(processes: list[Process], contents: tuple[int, ...]) -> list[dict[str, Any]]:
    """All go through every version, one after the other; gives the answers of those that attached."""
    attached = []
    for version, content in enumerate(contents):
        answers = [process.tell(f"go {version}") for process in processes]
        if version % 5 == 0:
            assert {process.tell("read")["content"] for process in processes} == {content}
        attached += [answer for answer in answers if not answer["made"]]
    return attached


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in shared memory, where there is one: where arenas are."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name)


@pytest.mark.parametrize(("movies", "poster_bytes", "at_least"), [SMALL, LARGE])
def test_four_followers_hold_hardly_more_than_one(
    folder: Path, place: Path, movies: int, poster_bytes: int, at_least: int, record_property: Any
) -> None:
    chain, contents = written(folder, movies, poster_bytes)
    totals: dict[str, int] = {}
    for name, count in (("private", 1), ("one", 1), ("four", 4)):
        share = "private" if name == "private" else str(place / name)
        processes = [Process(chain, share) for _ in range(count)]
        try:
            before = [process.tell("memory") for process in processes]
            attached = follow(processes, contents)
            after = [process.tell("memory") for process in processes]
            nbytes = processes[0].tell(f"go {DELTAS}")["nbytes"]
        finally:
            for process in processes:
                process.end()
        assert nbytes >= at_least
        # What Python itself takes is there before; it is the dataset that is compared.
        totals[name] = sum(after["pss"] - before["pss"] for before, after in zip(before, after, strict=True))
        record_property(f"{name}: PSS of the dataset, MB", round(totals[name] / 1e6, 1))
        record_property(f"{name}: PSS with Python, MB", round(sum(one["pss"] for one in after) / 1e6, 1))
        if name == "four":
            assert len(attached) == 3 * len(contents), "each version is made once"
            seconds = [answer["seconds"] for answer in attached]
            record_property("attach, median, ms", round(1e3 * statistics.median(seconds), 2))
            record_property("attach, slowest, ms", round(1e3 * max(seconds), 2))
    record_property("state, MB", round(nbytes / 1e6, 1))
    assert list(place.iterdir()) == [], "the last one out takes the files along"
    extra = (totals["four"] - totals["one"]) / 3
    record_property("per extra process, % of the state", round(100 * extra / nbytes, 2))
    assert totals["four"] < 1.1 * totals["one"]
    assert totals["four"] < 1.1 * totals["private"]
    assert extra < 0.02 * nbytes


@pytest.mark.parametrize(("movies", "poster_bytes", "at_least"), [SMALL, LARGE])
def test_children_of_a_preloading_parent_share_its_state_and_the_next_ones(
    folder: Path, place: Path, movies: int, poster_bytes: int, at_least: int, record_property: Any
) -> None:
    chain, contents = written(folder, movies, poster_bytes)
    parent = Process(chain, str(place / "arena"))
    try:
        parent.tell("go 0")
        assert parent.tell("read")["content"] == contents[0]
        alone = parent.tell("memory")["pss"]
        parent.tell("fork 4")
        for version, content in enumerate(contents):
            answers = parent.tell(f"go {version}")
            if version % 5 == 0:
                assert [answer["content"] for answer in parent.tell("read")] == [content] * 4
            assert sum(answer["made"] for answer in answers) == (1 if version else 0)
        held = parent.tell("memory")
        nbytes = answers[0]["nbytes"]
    finally:
        parent.end()
    assert nbytes >= at_least
    together = sum(one["pss"] for one in held)
    record_property("parent alone, MB", round(alone / 1e6, 1))
    record_property("four children, MB", round(together / 1e6, 1))
    # Beside the state there is the memory for the next one; Python itself is mostly the parent's.
    assert together < 2 * nbytes + 4 * PYTHON_BYTES
