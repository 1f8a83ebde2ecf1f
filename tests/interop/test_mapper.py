"""Objects of a class model through Hollow's object mapper, and their Python twins through ours: the same bytes."""

import dataclasses
import io
import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from twin import Films, Movie, as_arrow, as_json

from deltaic.errors import InputError
from deltaic.schema.model import Model
from deltaic.state.ingest import ingest_arrow, ingest_objects
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from tools.java import Batch

pytestmark = pytest.mark.interop

Ingest = Callable[[WriteState, Sequence[Movie]], Any]
MODEL = Model.of(Movie)
NULL_TO_JAVA = {
    "sh": -(2**15),
    "by": -128,
    "ch": 0,
    "rating": "7fc00000",
    "score": "7ff8000000000000",
    "inlineDouble": "7ff8000000000000",
}


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
    lines = [{"tag": f"{tag:016x}", "restart": restart, "rows": as_json(movies)} for tag, restart, movies in steps]
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


@pytest.mark.parametrize("seed", range(4))
def test_python_objects_give_the_bytes_of_the_object_mapper(java: Batch, tmp_path: Path, seed: int) -> None:
    same_bytes(java, tmp_path, seed, by_objects)


@pytest.mark.parametrize("seed", range(12, 16))
def test_arrow_rows_give_the_bytes_of_the_object_mapper(java: Batch, tmp_path: Path, seed: int) -> None:
    same_bytes(java, tmp_path, seed, by_arrow)


@pytest.mark.long
@pytest.mark.parametrize("ingest", [by_objects, by_arrow])
@pytest.mark.parametrize("seed", range(3000, 3100))
def test_longer_histories_give_the_bytes_of_the_object_mapper(
    java: Batch, tmp_path: Path, seed: int, ingest: Ingest
) -> None:
    same_bytes(java, tmp_path, seed, ingest, versions=12)


def test_values_that_java_takes_for_null_are_kept_or_refused_and_java_reads_them(java: Batch, tmp_path: Path) -> None:
    """The smallest short and byte, the char 0 and NaN are null to the object mapper; here only null is null.

    An inline Double is an exception: the mapper keeps its NaN.
    """
    movie = Films(1).movie(1)
    movie.sh, movie.by, movie.ch, movie.rating = -(2**15), -128, 0, math.nan
    movie.score = movie.inlineDouble = math.nan
    names = list(NULL_TO_JAVA)
    (tmp_path / "steps.jsonl").write_text(json.dumps({"tag": "0" * 15 + "1", "rows": [as_json(movie)]}))
    java.run("map", tmp_path / "steps.jsonl", tmp_path)
    assert values_java_reads(java, tmp_path / "snapshot-1", names) == [None] * 5 + ["7ff8000000000000"]
    for ingest in (by_objects, by_arrow):
        state = WriteState(MODEL.schemas, pinned_shards=MODEL.shards, tag=1)
        ingest(state, [movie] if ingest is by_objects else [replace_texts(movie)])
        with open(tmp_path / "ours", "wb") as file:
            state.write_snapshot(file)
        # Hollow's own null of a FLOAT is another NaN than the one that is a value.
        assert values_java_reads(java, tmp_path / "ours", names) == list(NULL_TO_JAVA.values())


@pytest.mark.parametrize(("name", "smallest"), [("year", -(2**31)), ("inlineLong", -(2**63)), ("boxedInt", -(2**31))])
def test_the_smallest_number_is_null_to_java_and_refused_here(
    java: Batch, tmp_path: Path, name: str, smallest: int
) -> None:
    movie = Films(2).movie(1)
    setattr(movie, name, smallest)
    (tmp_path / "steps.jsonl").write_text(json.dumps({"tag": "0" * 15 + "1", "rows": [as_json(movie)]}))
    java.run("map", tmp_path / "steps.jsonl", tmp_path)
    (dumped,) = java.run("dump", tmp_path / "snapshot-1")
    integers = dumped["types"]["Integer"]["records"]
    found = integers if name == "boxedInt" else [values_java_reads(java, tmp_path / "snapshot-1", [name])]
    assert [None] in found
    with pytest.raises(InputError, match=f"column '{name}', row 0: {smallest} means null"):
        by_objects(WriteState(MODEL.schemas, pinned_shards=MODEL.shards), [movie])


def values_java_reads(java: Batch, snapshot: Path, names: Sequence[str]) -> list[Any]:
    (dumped,) = java.run("dump", snapshot)
    movies = dumped["types"]["Movie"]
    (record,) = movies["records"]
    values = dict(zip((field[0] for field in movies["fields"]), record, strict=True))
    return [values[name] for name in names]


def replace_texts(movie: Movie) -> Movie:
    """Arrow's texts are UTF-8, which has no lone surrogates."""
    clean = Films(1, lone_surrogates=False).movie(1)
    return dataclasses.replace(clean, **{name: getattr(movie, name) for name in NULL_TO_JAVA})
