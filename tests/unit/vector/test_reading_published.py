"""What a producer publishes with vectors, as its consumers have it: in parts, inside records, quantised."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

from deltaic import Consumer, Producer
from deltaic.compare import combine, diff, split, state_digest, vectors_of
from deltaic.consumer import verify_chain
from deltaic.schema.annotations import Vector, key
from deltaic.schema.model import Model
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.vector.storage import VectorStorage

DIMENSIONS = 16
ROWS = 60


@key("id")
@dataclass
class Movie:
    id: int
    title: str
    embedding: Annotated[list[float], Vector(DIMENSIONS)] | None = None
    tags: list[str] = field(default_factory=list)


def movies(version: int) -> list[Movie]:
    """Some vectors change, some records, some of both; some have no vector; records come and go."""
    random = np.random.default_rng(3)
    matrix = random.standard_normal((ROWS, DIMENSIONS)).astype(np.float32)
    made = []
    for number in range(version, ROWS - 5 + version):
        row = matrix[number].copy()
        if number % 7 == version:
            row[version] += 1
        title = f"{number} at {version if number % 11 == version else 0}"
        made.append(Movie(number, title, None if (number + version) % 13 == 0 else row.tolist(), [str(number % 3)]))
    return made


def expected(version: int) -> dict[int, list[float] | None]:
    return {movie.id: movie.embedding for movie in movies(version)}


def vectors(state: ReadState) -> dict[int, list[float] | None]:
    return {movie.id: None if movie.embedding is None else movie.embedding.tolist() for movie in state["Movie"]}


def published(folder: Path, storage: object, *, order: str = "given") -> list[int]:
    producer = Producer(folder, Model.of(Movie), vectors=storage, order=order)  # type: ignore[arg-type]
    return [int(producer.publish(movies(version)).version or 0) for version in range(4)]


@pytest.mark.parametrize("order", ["given", "canonical"])
@pytest.mark.parametrize("form", ["part", "bytes"])
@pytest.mark.parametrize("share", [False, True], ids=["private", "shared"])
def test_consumers_have_what_was_published_forward_and_back(
    tmp_path: Path, form: str, order: str, share: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltaic.consumer.arena.arena_roots", lambda: [tmp_path / "arenas"])
    versions = published(tmp_path / "chain", form, order=order)
    consumer = Consumer(tmp_path / "chain", share=share)
    for place in (0, 1, 2, 3, 2, 1, 0, 3):
        consumer.refresh(versions[place])
        assert vectors(consumer.state) == expected(place)
        assert consumer.typed(Movie)[10].embedding == expected(place)[10]
        assert consumer.status().missing_vectors == ()
    assert verify_chain(consumer.store).findings == ()


def test_both_forms_read_the_same_and_only_one_has_bytes_in_its_model(tmp_path: Path) -> None:
    states = []
    for form in ("part", "bytes"):
        published(tmp_path / form, form)
        consumer = Consumer(tmp_path / form)
        consumer.refresh()
        states.append(consumer.state)
    assert not diff(states[0], states[1])["Movie"]
    assert state_digest(states[0]) == state_digest(states[1])
    assert states[0]["Movie"].to_arrow().field == states[1]["Movie"].to_arrow().field
    assert [len(state["Movie"][5].field_names()) for state in states] == [3, 4]
    assert states[0]["Movie"][5].to_dict() == states[1]["Movie"][5].to_dict()


@pytest.mark.parametrize("form", ["part", "bytes"])
def test_a_filter_leaves_vectors_out_whatever_their_form(tmp_path: Path, form: str) -> None:
    versions = published(tmp_path, form)
    consumer = Consumer(tmp_path, filter=Filter.without("Movie.embedding"))
    for version in versions:
        refresh = consumer.refresh(version)
        assert not consumer.state.vectors
        assert sum(step.vector_bytes for step in refresh.steps) == 0
        assert consumer.status().missing_vectors == ()


def test_a_quantised_column_is_within_its_bound_and_the_same_by_every_way(tmp_path: Path) -> None:
    versions = published(tmp_path, VectorStorage(quantization="int8", max_error=0.05))
    walked, loaded = Consumer(tmp_path), Consumer(tmp_path)
    for place, version in enumerate(versions):
        walked.refresh(version)
        found, given = vectors(walked.state), expected(place)
        assert {number for number, row in found.items() if row is None} == {
            n for n, row in given.items() if row is None
        }
        for number, row in found.items():
            assert row is None or np.abs(np.array(row) - np.array(given[number])).max() <= 0.05
    loaded.refresh(versions[-1])
    assert vectors(loaded.state) == vectors(walked.state)
    assert verify_chain(loaded.store).findings == ()


def test_a_model_that_gains_and_loses_a_vector_column_is_followed(tmp_path: Path) -> None:
    @key("id")
    @dataclass
    class Plain:
        id: int
        title: str

    Plain.__name__ = Plain.__qualname__ = "Movie"

    def rows(with_vectors: bool) -> list[object]:
        return [Movie(n, str(n), [float(n)] * DIMENSIONS) if with_vectors else Plain(n, str(n)) for n in range(4)]

    def publish(model: type, with_vectors: bool) -> int:
        with Producer(tmp_path, Model.of(model)) as producer:
            version = producer.publish(rows(with_vectors)).version
        assert version is not None
        return version

    first, second, third = publish(Plain, False), publish(Movie, True), publish(Plain, False)
    consumer = Consumer(tmp_path)
    for version, has in (
        (first, False),
        (second, True),
        (first, False),
        (third, False),
        (second, True),
        (first, False),
    ):
        consumer.refresh(version)
        assert (("Movie", "embedding") in consumer.state.vectors) == has, version
        if has:
            assert consumer["Movie"][3].embedding.tolist() == [3.0] * DIMENSIONS
        # A reader that had the column is told that it ended; who goes back to before it is not.
        assert consumer.status().missing_vectors == (("Movie.embedding",) if version == third else ())
    assert verify_chain(consumer.store).findings == ()
    fresh = Consumer(tmp_path)
    fresh.refresh(second)
    assert fresh["Movie"][3].embedding.tolist() == [3.0] * DIMENSIONS


@pytest.mark.parametrize("form", ["part", "bytes"])
def test_a_published_state_that_is_split_and_combined_keeps_its_vectors(tmp_path: Path, form: str) -> None:
    published(tmp_path, form)
    consumer = Consumer(tmp_path)
    consumer.refresh()
    parts = split(consumer.state, 3, "Movie")
    assert sum(len(vectors_of(part)["Movie", "embedding"]) for part in parts) == len(
        consumer.state.vectors["Movie", "embedding"]
    )
    assert vectors_of(combine([consumer.state]))["Movie", "embedding"].dimensions == DIMENSIONS


def test_every_program_of_the_page_runs(project_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", (project_root / "docs/vector-columns.md").read_text(), re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        exec(compile(block, "vector-columns.md", "exec"), names)
    assert names["movie"].embedding.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.9])
    assert names["found"]["Movie"].fields["embedding"].changed == 1
