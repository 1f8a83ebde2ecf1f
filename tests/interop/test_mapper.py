"""Objects of a class model through Hollow's object mapper, and their Python twins through ours: the same bytes."""

import io
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from twin import Films, Movie, as_arrow, as_json

from deltaic.schema.model import Model
from deltaic.state.ingest import ingest_arrow, ingest_objects
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from tools.java import Batch

pytestmark = pytest.mark.interop

Ingest = Callable[[WriteState, Sequence[Movie]], Any]
MODEL = Model.of(Movie)


def by_objects(state: WriteState, movies: Sequence[Movie]) -> Any:
    return ingest_objects(state, "Movie", movies, model=MODEL)


def by_arrow(state: WriteState, movies: Sequence[Movie]) -> Any:
    pytest.importorskip("pyarrow")
    return ingest_arrow(state, "Movie", as_arrow(movies), model=MODEL)


def history(seed: int, versions: int, *, lone_surrogates: bool) -> list[tuple[int, bool, list[Movie]]]:
    """Per version its tag, whether the producer restarts before it, and its movies."""
    films, choose = Films(seed, lone_surrogates=lone_surrogates), random.Random(seed)
    steps = [(choose.getrandbits(63), False, list(films.movies))]
    for _ in range(versions - 1):
        steps.append((choose.getrandbits(63), choose.random() < 0.3, films.change()))
    return steps


def same_bytes(java: Batch, folder: Path, seed: int, ingest: Ingest, versions: int = 4) -> None:
    steps = history(seed, versions, lone_surrogates=ingest is by_objects)
    lines = [
        {"tag": f"{tag:016x}", "restart": restart, "rows": as_json(movies)} for tag, restart, movies in steps
    ]
    (folder / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    theirs = folder / "java"
    answers = java.run("map", folder / "steps.jsonl", theirs)
    state = WriteState(MODEL.schemas, pinned_shards=MODEL.shards)
    for version, (tag, restart, movies) in enumerate(steps, 1):
        if restart:
            state = WriteState(MODEL.schemas, pinned_shards=MODEL.shards)
            state.restore(ReadState.load(theirs / f"snapshot-{version - 1}"))
        elif version > 1:
            state.next_cycle()
        state.set_tag(tag)
        assert ingest(state, movies).tolist() == answers[version - 1]["ordinals"]
        blobs = {f"snapshot-{version}": state.write_snapshot}
        if version > 1:
            blobs[f"delta-{version - 1}-{version}"] = state.write_delta
            blobs[f"reversedelta-{version}-{version - 1}"] = state.write_reverse_delta
        for name, write in blobs.items():
            write(written := io.BytesIO())
            assert written.getvalue() == (theirs / name).read_bytes(), name


@pytest.mark.parametrize("seed", range(6))
def test_python_objects_give_the_bytes_of_the_object_mapper(java: Batch, tmp_path: Path, seed: int) -> None:
    same_bytes(java, tmp_path, seed, by_objects)


@pytest.mark.parametrize("seed", range(12, 18))
def test_arrow_rows_give_the_bytes_of_the_object_mapper(java: Batch, tmp_path: Path, seed: int) -> None:
    same_bytes(java, tmp_path, seed, by_arrow)


@pytest.mark.long
@pytest.mark.parametrize("ingest", [by_objects, by_arrow])
@pytest.mark.parametrize("seed", range(3000, 3100))
def test_longer_histories_give_the_bytes_of_the_object_mapper(
    java: Batch, tmp_path: Path, seed: int, ingest: Ingest
) -> None:
    same_bytes(java, tmp_path, seed, ingest, versions=12)
