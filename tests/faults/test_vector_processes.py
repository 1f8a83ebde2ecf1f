"""Vectors among processes: one copy per host, what a refresh takes at most, makers that are killed."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deltaic.consumer import Consumer
from deltaic.consumer.apply import read_step
from deltaic.consumer.arena import Arena
from deltaic.consumer.arena_manifest import decode_manifest, encode_manifest
from deltaic.consumer.fetch import Fetched
from deltaic.consumer.vector_parts import with_part
from deltaic.errors import DecodeError
from deltaic.kernels import PLAIN_ASKED
from deltaic.limits import DEFAULT_LIMITS
from deltaic.state.read import ReadState
from deltaic.storage.chain import BlobName
from deltaic.storage.local import LocalStore
from deltaic.vector.names import part_name
from tests.faults.vector_follower import EMBEDDING, write_chain
from tests.unit.consumer.arena_chains import ended, files_in, in_child
from tests.unit.vector.reading_chain import VectorChain, same_vectors, vectors_by_key

ROOT = Path(__file__).resolve().parent.parent.parent
DELTAS = 3
BESIDE_BYTES = 48 << 20
"""What a small column may take beside two copies: modules that are loaded late, a frame and its parts."""

needs_kernels = pytest.mark.skipif(PLAIN_ASKED, reason="with the plain kernels a chain of this size takes minutes")
SMALL = pytest.param(40_000, 384, id="63MB")
LARGE = pytest.param(1_000_000, 384, marks=pytest.mark.long, id="1.5GB")


class Process:
    """A follower in a process of its own, whose arenas are in a place of the test."""

    def __init__(self, chain: Path, place: Path, *, share: bool, max_deltas: int = 32) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys; from pathlib import Path; import deltaic.consumer.arena as arena;"
                f"arena.arena_roots = lambda: [Path({str(place)!r})];"
                "from tests.faults.vector_follower import main; main()",
                str(chain),
                "share" if share else "private",
                str(max_deltas),
            ],
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


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in shared memory, where there is one: where arenas are."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name)


_written: dict[tuple[int, int], tuple[Path, list[int]]] = {}


def written(folder: Path, rows: int, dimensions: int) -> tuple[Path, list[int]]:
    """A chain on the disk, and the checksums of the vectors of its versions."""
    if (rows, dimensions) not in _written:
        chain = folder / f"{rows}x{dimensions}"
        _written[rows, dimensions] = chain, write_chain(chain, rows, dimensions, DELTAS)
    return _written[rows, dimensions]


@needs_kernels
@pytest.mark.slow
@pytest.mark.parametrize(("rows", "dimensions"), [SMALL, LARGE])
@pytest.mark.parametrize("share", [False, True], ids=["private", "shared"])
def test_a_refresh_takes_hardly_more_than_two_columns(
    folder: Path, place: Path, rows: int, dimensions: int, share: bool, record_property: Any
) -> None:
    chain, sums = written(folder, rows, dimensions)
    for way, max_deltas, versions in (("deltas", 32, (1, 2, 3, 4)), ("second snapshot", 1, (1, 4))):
        process = Process(chain, place, share=share, max_deltas=max_deltas)
        try:
            before = process.tell("memory")["held"]
            answers = [process.tell(f"go {version}") for version in versions]
            assert process.tell("read")["sum"] == sums[versions[-1] - 1]
        finally:
            process.end()
        column = answers[-1]["column"]
        assert column >= rows * dimensions * 4
        most = max(answer["peak"] for answer in answers) - before
        record_property(f"{way}: peak, times the column", round(most / column, 3))
        assert BESIDE_BYTES < column, "a third copy would be seen"
        assert most < max(2.1 * column, 2 * column + BESIDE_BYTES)
        loading = answers[0]["peak"] - before
        assert loading < max(1.1 * column, column + BESIDE_BYTES), "a first load takes no copy of the file"


@needs_kernels
@pytest.mark.slow
def test_a_second_process_maps_the_chunks_that_the_first_one_made(
    folder: Path, place: Path, record_property: Any
) -> None:
    chain, sums = written(folder, 40_000, 384)
    first = Process(chain, place, share=True)
    second = Process(chain, place, share=True)
    try:
        before = second.tell("memory")
        for version in (1, 2, 3, 4):
            assert first.tell(f"go {version}")["made"]
            answer = second.tell(f"go {version}")
            assert not answer["made"], "the second one attaches"
            assert first.tell("read") == {"sum": sums[version - 1]}
            assert first.tell("bits") == second.tell("bits")
        after = second.tell("memory")
    finally:
        first.end()
        second.end()
    private = after["private"] - before["private"]
    record_property("private memory of the second process, % of the column", round(100 * private / answer["column"], 1))
    assert private < 0.1 * answer["column"] + (4 << 20)
    assert list(place.iterdir()) == [], "the last one out takes the files along"


# Makers that are killed.

TITLES = {number: f"Movie {number}" for number in range(300)}


def rows_of(version: int) -> dict[int, list[float]]:
    return {number: [float(version if number % 7 == version % 7 else 0), float(number), 1.0] for number in TITLES}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> VectorChain:
    chain = VectorChain(LocalStore(tmp_path_factory.mktemp("small") / "chain"))
    for version in range(1, 5):
        chain.publish({**TITLES, version: f"changed in {version}"}, rows_of(version))
    return chain


def made(chain: VectorChain, version: int) -> ReadState:
    consumer = Consumer(chain.store, share=False)
    consumer.refresh(version)
    return consumer.state


def go(arena: Arena, chain: VectorChain, version: int) -> ReadState:
    """What a sharing consumer does: from the shared state before, by the delta and the part of a version."""

    def make(base: ReadState | None, base_version: int | None) -> ReadState:
        if base is None or base_version != version - 1:
            return made(chain, version)
        step = BlobName.delta(version - 1, version)
        fetched = Fetched(memoryview(chain.files[str(step)]), {}, 0, False, True)
        state = read_step(base, step, fetched, None, DEFAULT_LIMITS)
        return with_part(base, state, step, memoryview(chain.files[part_name(step)]), (), DEFAULT_LIMITS)

    return arena.refresh(version, make)


def killed_at(step: int, folder: Path, chain: VectorChain) -> int:
    """Make version 3 in a child that is killed at a step."""

    def run() -> None:
        left = step

        def on_step(name: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        go(Arena(folder, spare_bytes=0, on_step=on_step), chain, 3)

    return ended(in_child(run))


def test_a_maker_that_is_killed_at_any_step_leaves_the_old_vectors_and_the_next_maker_goes_on(
    small: VectorChain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltaic.binary.buffers._SMALLEST_BYTES", 4 << 10)
    for step in range(1, 200):
        folder = tmp_path / str(step)
        arena = Arena(folder)
        held = go(arena, small, 2)
        code = killed_at(step, folder, small)
        assert code in (0, -signal.SIGKILL)
        assert same_vectors(held, small.states[2]), "what is read stays as it is"
        found = arena.attach(3)
        assert found is None or same_vectors(found, small.states[3])
        after = go(Arena(folder), small, 3)
        assert vectors_by_key(after) == vectors_by_key(small.states[3])
        assert vectors_by_key(go(Arena(folder), small, 4)) == vectors_by_key(small.states[4])
        if code == 0:
            break
    assert step > 10, "there are many steps to be killed at"


def test_the_files_of_a_manifest_are_those_of_its_chunks_too(small: VectorChain, tmp_path: Path) -> None:
    arena = Arena(tmp_path / "arena")
    state = go(arena, small, 2)
    names = files_in(tmp_path / "arena")
    manifest = decode_manifest((tmp_path / "arena" / "state-2.json").read_bytes(), "state-2.json")
    (column,) = manifest.vectors
    assert (column.type_name, column.field_name, column.dimensions) == (*EMBEDDING, 3)
    assert {place.file for place in column.chunks if place is not None} <= manifest.files() <= names
    assert state.vectors[EMBEDDING].present == small.states[2].vectors[EMBEDDING].present


@pytest.mark.parametrize(
    "change", [{"dimensions": 4}, {"dimensions": 0}, {"dimensions": -3}, {"type_name": "Nobody"}, {"chunks": ()}]
)
def test_a_manifest_whose_vectors_cannot_be_is_refused(
    small: VectorChain, tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = tmp_path / "arena"
    go(Arena(folder), small, 2)
    path = folder / "state-2.json"
    manifest = decode_manifest(path.read_bytes(), path.name)
    wrong = msgspec.structs.replace(manifest.vectors[0], **change)
    path.write_bytes(encode_manifest(msgspec.structs.replace(manifest, vectors=(wrong,))))
    with pytest.raises(DecodeError, match="vector column"):
        Arena(folder).attach(2)
    assert same_vectors(go(Arena(folder), small, 2), small.states[2]), "it is made again"


def test_a_chunk_whose_file_became_shorter_is_refused(small: VectorChain, tmp_path: Path) -> None:
    folder = tmp_path / "arena"
    state = go(Arena(folder), small, 2)
    del state
    manifest = decode_manifest((folder / "state-2.json").read_bytes(), "state-2.json")
    place = manifest.vectors[0].chunks[0]
    assert place is not None
    os.truncate(folder / place.file, place.offset + place.length // 2)
    with pytest.raises(DecodeError, match="ends before its arrays"):
        Arena(folder).attach(2)
