"""Vectors as people read them: by record, by column, as plain values, JSON, Arrow, frames and objects of a class."""

import csv
import importlib
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import numpy as np
import pytest

from deltaic.compare import csv_lines, json_lines, record_text, write_parquet
from deltaic.consumer import Consumer
from deltaic.errors import NotFoundError
from deltaic.kernels.plain import access as plain_access
from deltaic.schema.annotations import Vector, key, type_name
from deltaic.schema.arrow import VECTOR_METADATA
from deltaic.schema.classes import VectorColumn
from deltaic.schema.model import Model
from deltaic.state.generate import generate_module
from deltaic.state.read import ReadState
from deltaic.state.records import StateRecords
from deltaic.state.typed import typed
from deltaic.state.vector_column import StoredVectors
from deltaic.storage.local import LocalStore
from tests.unit.vector.reading_chain import EMBEDDING, VectorChain

STAR = ("Actor", "face")
SPECIAL = [float("nan"), float("-inf"), -0.0, 1e-45]


@pytest.fixture
def consumer(tmp_path: Path) -> Consumer:
    chain = VectorChain(LocalStore(tmp_path / "chain"))
    chain.publish(
        {0: "Stalker", 1: "Solaris", 2: "Mirror", 3: "Nostalghia"},
        {EMBEDDING: {0: [0.1, 0.2, 0.3, 0.4], 1: SPECIAL, 2: None, 3: [1, 2, 3, 4]}, STAR: {"Banionis": [0.5, 0.25]}},
        stars={1: "Banionis", 0: "Kaidanovsky"},
    )
    made = Consumer(chain.store)
    made.refresh()
    return made


@pytest.fixture
def state(consumer: Consumer) -> ReadState:
    return consumer.state


@pytest.fixture(params=["compiled", "plain"])
def kernel(request: pytest.FixtureRequest) -> ModuleType | None:
    return plain_access if request.param == "plain" else None


def movie(state: ReadState, number: int, kernel: ModuleType | None = None) -> Any:
    records = StateRecords(state.types, kernel, state.vectors).of("Movie")
    return next(records[ordinal] for ordinal in state["Movie"].populated if records[ordinal].id == number)


def test_a_record_has_its_vector_by_attribute_and_by_name(state: ReadState, kernel: ModuleType | None) -> None:
    one = movie(state, 3, kernel)
    assert one.embedding.tolist() == one["embedding"].tolist() == [1, 2, 3, 4]
    assert one.vector_names() == ("embedding",)
    assert one.field_names() == ("id", "title", "star"), "a vector is beside the record"
    assert {"embedding", "title"} <= set(dir(one))
    assert movie(state, 2, kernel).embedding is None
    with pytest.raises(AttributeError):
        one.embedding = [1]
    with pytest.raises(NotFoundError, match="no field 'poster'"):
        one["poster"]
    assert "embedding=<4 numbers>" in repr(one)
    assert "embedding=None" in repr(movie(state, 2, kernel))


def test_a_vector_is_a_view_of_the_column_and_not_a_copy(state: ReadState) -> None:
    one = movie(state, 3)
    assert np.shares_memory(one.embedding, state["Movie"].vectors("embedding").chunks[0])


def test_plain_values_hold_lists_of_numbers_also_below_references(state: ReadState, kernel: ModuleType | None) -> None:
    assert movie(state, 3, kernel).to_dict()["embedding"] == [1.0, 2.0, 3.0, 4.0]
    solaris = movie(state, 1, kernel).to_dict()
    assert solaris["star"] == {"name": "Banionis", "face": [0.5, 0.25]}
    assert np.array_equal(np.array(solaris["embedding"], np.float32), np.array(SPECIAL, np.float32), equal_nan=True)
    assert movie(state, 0, kernel).to_python()["star"] == {"name": "Kaidanovsky", "face": None}
    assert movie(state, 2, kernel).to_dict()["embedding"] is None
    assert json.loads(json.dumps(movie(state, 3, kernel).to_dict()))["embedding"] == [1.0, 2.0, 3.0, 4.0]


def test_records_that_differ_in_their_vectors_alone_are_not_equal(state: ReadState, kernel: ModuleType | None) -> None:
    column = state.vectors[EMBEDDING]
    ordinal = movie(state, 3).ordinal
    other = state.with_vectors(
        {**state.vectors, EMBEDDING: column.changed(np.array([ordinal]), np.ones((1, 4), np.float32), column.present)}
    )
    assert movie(state, 3, kernel) != movie(other, 3, kernel)
    assert movie(state, 1, kernel) == movie(other, 1, kernel), "NaN is equal to the same NaN"
    assert movie(state, 3, kernel) != movie(state.with_vectors({}), 3, kernel)
    assert hash(movie(state, 1, kernel)) == hash(movie(other, 1, kernel))


def test_a_record_that_refers_to_one_with_another_vector_is_not_equal(state: ReadState) -> None:
    face = state.vectors[STAR]
    other = state.with_vectors({**state.vectors, STAR: StoredVectors.empty(face.dimensions)})
    assert movie(state, 1) != movie(other, 1)
    assert movie(state, 3) == movie(other, 3)


def test_the_column_gives_chunks_without_copying(state: ReadState) -> None:
    column = state["Movie"].vectors("embedding")
    ((first, block),) = column.blocks()
    assert first == 0
    assert not block.flags.writeable
    assert np.shares_memory(block, column.chunks[0])
    assert len(column) == 3
    assert state["Movie"].vector_names == ("embedding",)
    with pytest.raises(NotFoundError, match="vector columns: embedding"):
        state["Movie"].vectors("nothing")
    assert state["Movie"].bytes_per_field()["embedding"] == column.nbytes
    assert state["Movie"].nbytes == state.types["Movie"].nbytes + column.nbytes


def test_json_lines_hold_vectors_that_come_back_bit_for_bit(state: ReadState) -> None:
    lines = {row["id"]: row for row in map(json.loads, json_lines(state, "Movie"))}
    assert lines[0]["embedding"] == [0.1, 0.2, 0.3, 0.4], "the shortest numbers that give the same 32 bits"
    assert lines[2]["embedding"] is None
    assert lines[1]["star"]["face"] == [0.5, 0.25]
    for number in (0, 1, 3):
        given = np.array(lines[number]["embedding"], np.float32)
        assert given.tobytes() == movie(state, number).embedding.tobytes() or number == 1
    assert np.isnan(lines[1]["embedding"][0]) and lines[1]["embedding"][1:] == [float("-inf"), -0.0, 1e-45]
    assert "embedding" not in json.loads(list(json_lines(state, "Movie", skip_nulls=True))[2])


def test_csv_holds_vectors_as_json_in_a_cell(state: ReadState) -> None:
    rows = list(csv.DictReader(io.StringIO("\n".join(csv_lines(state, "Movie")))))
    assert json.loads(rows[0]["embedding"]) == [0.1, 0.2, 0.3, 0.4]
    assert rows[2]["embedding"] == ""


def test_people_see_a_vector_shortened(state: ReadState) -> None:
    wide = state.with_vectors({EMBEDDING: StoredVectors.of(384, np.array([0]), np.full((1, 384), 0.5, np.float32))})
    text = record_text(wide, "Movie", 0)
    assert "embedding: [0.5, 0.5, 0.5, 0.5, … 384 numbers, norm 9.798]" in text
    assert len(text.splitlines()) == 5
    assert "embedding: null" in record_text(wide, "Movie", 1)


def test_arrow_has_fixed_size_lists_that_say_that_they_are_vectors(state: ReadState) -> None:
    pa = pytest.importorskip("pyarrow")
    table = state["Movie"].to_arrow().to_pyarrow()
    field = table.schema.field("embedding")
    assert field.type == pa.list_(pa.float32(), 4)
    assert VECTOR_METADATA in field.metadata
    rows = {row["id"]: row for row in table.to_pylist()}
    assert rows[2]["embedding"] is None
    assert rows[3]["embedding"] == [1, 2, 3, 4]
    assert rows[1]["star"] == {"name": "Banionis", "face": [0.5, 0.25]}
    assert rows[3]["star"] is None
    bits = table["embedding"].combine_chunks().flatten().to_numpy().view(np.uint32)
    expected = np.concatenate([movie(state, number).embedding for number in (0, 1, 3)]).view(np.uint32)
    assert np.array_equal(bits, expected)
    assert state["Movie"].to_arrow(fields=["embedding"]).column_names == ("embedding",)
    assert state["Movie"].to_arrow(fields=["title", "id"]).column_names == ("title", "id")


def test_rows_that_were_read_can_be_published_again(state: ReadState) -> None:
    model = Model.from_arrow(state["Movie"].to_arrow(fields=["id", "title", "embedding"]), "Movie", key="id")
    assert model.vectors == (VectorColumn("Movie", "embedding", 4),)


def test_arrow_in_small_batches_and_of_chosen_ordinals_is_the_same(state: ReadState) -> None:
    pytest.importorskip("pyarrow")
    whole = state["Movie"].to_arrow().to_pyarrow()
    assert state["Movie"].to_arrow(batch_rows=1).to_pyarrow().to_pylist()[2:] == whole.to_pylist()[2:]
    chosen = state["Movie"].to_arrow(ordinals=[3, 0]).to_pyarrow()
    assert chosen["embedding"].to_pylist() == [whole["embedding"].to_pylist()[3], whole["embedding"].to_pylist()[0]]


def test_frames_and_parquet_hold_vectors(consumer: Consumer, tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = consumer["Movie"].to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["embedding"][3].tolist() == [1, 2, 3, 4]
    assert frame["embedding"][2] is None
    assert consumer["Movie"].to_polars().schema["embedding"] == polars.Array(polars.Float32, 4)
    assert write_parquet(consumer.state, "Movie", tmp_path / "movies.parquet") == 4
    read = polars.read_parquet(tmp_path / "movies.parquet")
    assert read["embedding"][3].to_list() == [1, 2, 3, 4]
    chosen = consumer["Movie"].where(title="Mirror")
    assert chosen.to_arrow().to_pyarrow()["embedding"].to_pylist() == [None]


@key("name")
@dataclass(frozen=True)
class Actor:
    name: str
    face: Annotated[tuple[float, ...], Vector(2)] | None = None


@key("id")
@dataclass
class Movie:
    id: int
    title: str
    star: Actor | None
    embedding: Annotated[list[float], Vector(4)]


@key("id")
@type_name("Movie")
@dataclass
class ArrayMovie:
    id: int
    embedding: Annotated[np.ndarray, Vector(4)]


def test_objects_of_a_class_have_what_the_annotation_says(consumer: Consumer) -> None:
    movies = consumer.typed(Movie)
    assert movies[3].embedding == [1.0, 2.0, 3.0, 4.0]
    assert isinstance(movies[3].embedding, list)
    assert movies[2].embedding is None
    star = movies[1].star
    assert star is not None and star.face == (0.5, 0.25)


def test_objects_of_a_class_do_without_vectors_that_are_missing(state: ReadState) -> None:
    bare = state.with_vectors({})
    made = typed(Movie)(bare["Movie"][3])
    assert made.embedding is None and made.title == "Nostalghia"


def test_a_class_may_ask_for_the_array_itself(consumer: Consumer, state: ReadState) -> None:
    made = typed(ArrayMovie)(movie(state, 3))
    assert isinstance(made.embedding, np.ndarray)
    assert np.shares_memory(made.embedding, movie(state, 3).embedding)


def test_generated_classes_know_vectors(consumer: Consumer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = consumer.state
    vectors = tuple(VectorColumn(*names, column.dimensions) for names, column in state.vectors.items())
    model = replace(Model.from_schemas(state.schemas), vectors=vectors)
    text = generate_module(model)
    assert "embedding: Annotated[list[float], marks.Vector(4)] | None = None" in text
    (tmp_path / "generated_movies.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("generated_movies")
    assert set(Model.of(module.Movie).vectors) == set(vectors)
    assert consumer.typed(module.Movie)[3].embedding == [1.0, 2.0, 3.0, 4.0]
