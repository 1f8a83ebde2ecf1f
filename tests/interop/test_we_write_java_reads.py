"""Chains that we write: the same bytes as Java's for the same calls, and Java reads them back."""

import io
import random
from pathlib import Path

import pytest
from chains import java_chain, java_walk, our_walk
from histories import History
from replay import Replay

from benchmarks.movies import SCHEMAS, Catalogue, state_tag
from deltaic.schema.text import parse_schemas
from deltaic.state.ingest import ingest_arrow
from deltaic.state.write import WriteState
from tools.java import Batch

pytestmark = pytest.mark.interop


def same_bytes(java: Batch, folder: Path, history: History) -> None:
    calls = java_chain(java, folder / "java", history)
    Replay(folder / "ours").run(calls)
    written = sorted(path.name for path in (folder / "java").iterdir() if path.name != "ops.jsonl")
    assert sorted(path.name for path in (folder / "ours").iterdir()) == written
    for name in written:
        assert (folder / "ours" / name).read_bytes() == (folder / "java" / name).read_bytes(), name


@pytest.mark.parametrize("seed", range(25))
def test_a_random_history_gives_the_bytes_that_java_writes(java: Batch, tmp_path: Path, seed: int) -> None:
    same_bytes(java, tmp_path, History(seed))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2000, 2300))
def test_a_longer_random_history_gives_the_bytes_that_java_writes(java: Batch, tmp_path: Path, seed: int) -> None:
    same_bytes(java, tmp_path, History(seed, versions=10, records=120))


@pytest.mark.parametrize("seed", range(100, 110))
def test_java_reads_what_we_write_with_partitioned_ordinals(java: Batch, tmp_path: Path, seed: int) -> None:
    Replay(tmp_path, partitioned=True).run(History(seed).ops())
    both_read(java, tmp_path)


@pytest.mark.parametrize("seed", range(200, 210))
def test_java_reads_the_optional_parts_that_we_write(java: Batch, tmp_path: Path, seed: int) -> None:
    names = [f"T{number}" for number in range(7)]
    random.Random(seed).shuffle(names)
    parts = {"some": frozenset(names[:2]), "more": frozenset(names[2:4])}
    Replay(tmp_path, parts=parts).run(History(seed).ops())
    both_read(java, tmp_path)
    assert list(tmp_path.glob("snapshot_some-*"))


def test_the_movie_catalogue_from_arrow_gives_the_bytes_of_the_object_mapper(java: Batch, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    java.run("movies", "1500", "3", tmp_path)
    catalogue, state = Catalogue.first(1500), WriteState(parse_schemas(SCHEMAS), tag=state_tag(0))
    for version in range(4):
        if version:
            catalogue, _ = catalogue.advance()
            state.next_cycle(state_tag(version))
        ingest_arrow(state, "Movie", catalogue.as_arrow())
        blobs = {f"delta-{version - 1}-{version}": state.write_delta}
        blobs[f"reversedelta-{version}-{version - 1}"] = state.write_reverse_delta
        for name, write in {f"snapshot-{version}": state.write_snapshot, **blobs}.items():
            if (tmp_path / name).exists():
                write(blob := io.BytesIO())
                assert blob.getvalue() == (tmp_path / name).read_bytes(), name
    assert (tmp_path / "snapshot-3").exists()


def both_read(java: Batch, folder: Path) -> None:
    steps = java_walk(java, folder)
    assert len(steps) == 9
    for theirs, ours in zip(steps, our_walk(folder, [step["blob"] for step in steps]), strict=True):
        assert ours == theirs, theirs["blob"]
