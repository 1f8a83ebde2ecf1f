"""Vector columns published by Spark: blobs and vector parts with the bytes of the embedded producer."""

import pathlib
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltaic.dataset.dataset import Dataset
from deltaic.errors import InputError
from deltaic.producer import Producer, count_up
from deltaic.schema.model import Model
from deltaic.table.rows import vector_field
from deltaic.vector.storage import VectorStorage

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

DIMENSIONS = 12
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("title", pa.string()),
        vector_field("embedding", DIMENSIONS),
        vector_field("colour", 3),
    ]
)


def rows(numbers: Any, seed: int = 0, title: str = "film") -> dict[str, Any]:
    numbers, random_numbers = list(numbers), np.random.default_rng(seed)
    return {
        "id": numbers,
        "title": [f"{title} {number}" for number in numbers],
        "embedding": random_numbers.standard_normal((len(numbers), DIMENSIONS)).astype(np.float32),
        "colour": random_numbers.standard_normal((len(numbers), 3)).astype(np.float32),
    }


def made(folder: pathlib.Path) -> Dataset:
    dataset = Dataset.create(folder, Model.from_arrow(SCHEMA, "Film", key="id"), table=True)
    dataset.table.append(rows(range(60)))
    dataset.table.append(rows(range(60, 80), seed=1))
    dataset.table.append([{"id": 90, "title": "no vectors"}])
    return dataset


def terms(seed: int, **more: Any) -> dict[str, Any]:
    made_terms = {"versions": count_up, "clock": lambda: 1_700_000_000.0, "random": random.Random(seed)}
    return {**made_terms, "order": "canonical", **more}


def files(dataset: Dataset) -> dict[str, bytes]:
    folder = pathlib.Path(dataset.store.url.removeprefix("file://"), "chain")
    kinds = ("snapshot", "delta", "reversedelta", "header", "vector")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith(kinds)}


class Both:
    """The same table published in this process and on Spark."""

    def __init__(self, folder: pathlib.Path, spark: Any, **more: Any) -> None:
        self.here, self.there, self.spark = made(folder / "here"), made(folder / "there"), spark
        self.mine, self.theirs = terms(3, **more), terms(3, **more)

    def change(self, how: Any) -> None:
        for dataset in (self.here, self.there):
            how(dataset.table)

    def publish(self, **more: Any) -> Any:
        mine = self.here.publish(engine="embedded", **more, **self.mine)
        theirs = self.there.publish(engine="spark", spark=self.spark, **more, **self.theirs)
        assert (mine.version, mine.mode) == (theirs.version, theirs.mode)
        assert theirs.cycle.vectors == mine.cycle.vectors
        assert files(self.here) == files(self.there)
        return theirs


def test_spark_writes_the_vector_parts_of_the_embedded_producer(tmp_path: pathlib.Path, spark: Any) -> None:
    both = Both(tmp_path, spark)
    done = both.publish()
    assert done.engine == "spark" and f"vector-{done.version}-snapshot" in files(both.there)

    # Only vectors change: a version, in which no record is another one.
    moved = rows([3, 70], seed=5)
    both.change(lambda table: table.merge({"id": [3, 70], "embedding": moved["embedding"]}))
    done = both.publish()
    assert done.mode == "incremental" and done.cycle.vectors["Film", "embedding"].changed == 2

    # Records change, go and come; one vector becomes null, one comes to a record that had none.
    both.change(lambda table: table.update({"title": "renamed"}, "id < 10"))
    both.change(lambda table: table.delete("id >= 75 and id < 79"))
    both.change(lambda table: table.merge([{"id": 20, "colour": None}]))
    both.change(lambda table: table.merge([{"id": 90, "embedding": [0.5] * DIMENSIONS}]))
    both.change(lambda table: table.append(rows(range(200, 215), seed=7)))
    done = both.publish()
    assert done.cycle.vectors["Film", "embedding"].moved == 10

    # All rows are read again, and nothing is others.
    assert both.publish(full=True).version is None
    both.change(lambda table: table.overwrite(rows(range(60), seed=0)))
    done = both.publish(full=True)
    assert done.mode == "full" and done.version is not None
    with both.there.consumer() as consumer:
        consumer.refresh()
        found = pa.table(consumer.state["Film"].to_arrow()).sort_by("id")
    assert found.equals(both.there.table.to_arrow().sort_by("id"))


@pytest.mark.parametrize(
    "vectors",
    [
        {"Film.embedding": VectorStorage(quantization="int8"), "Film.colour": "bytes"},
        VectorStorage(quantization="f16", compression="none"),
    ],
    ids=["int8 and bytes", "f16"],
)
def test_other_storages_are_equal_too(tmp_path: pathlib.Path, spark: Any, vectors: Any) -> None:
    both = Both(tmp_path, spark, vectors=vectors)
    both.publish()
    both.change(lambda table: table.merge(rows(range(30, 50), seed=4)))
    both.publish()
    both.change(lambda table: table.merge(rows(range(40, 65), seed=6, title="other")))
    both.publish()


def test_engines_may_take_turns_with_vectors(tmp_path: pathlib.Path, spark: Any) -> None:
    here, there = made(tmp_path / "here"), made(tmp_path / "there")
    mine, theirs = terms(5), terms(5)
    for step, engine in enumerate(["spark", "embedded", "spark"]):
        for dataset in (here, there):
            dataset.table.merge(rows(range(step * 5, step * 5 + 20), seed=step + 10))
        Dataset.open(tmp_path / "here").publish(engine="embedded", **mine)
        Dataset.open(tmp_path / "there").publish(engine=engine, spark=spark if engine == "spark" else None, **theirs)
        assert files(here) == files(there)


def test_frames_with_arrays_of_floats_carry_vectors(tmp_path: pathlib.Path, spark: Any) -> None:
    from deltaic.spark.build import publish, publish_changes

    model = Model.from_arrow(SCHEMA.remove(3), "Film", key="id")
    given = rows(range(40))
    table = pa.table(
        {
            "id": pa.array(given["id"]),
            "title": given["title"],
            "embedding": pa.array(list(given["embedding"]), pa.list_(pa.float32())),
        }
    )
    one = Producer(tmp_path / "one", model, **terms(1))
    two = Producer(tmp_path / "two", model, **terms(1))
    one.cycle(lambda cycle: cycle.add_arrow("Film", table))
    frame = spark.createDataFrame(table).repartition(3)
    publish(spark, two, {"Film": frame})
    changed = table.slice(5, 3).set_column(
        2, "embedding", pa.array([[float(n)] * DIMENSIONS for n in range(3)], pa.list_(pa.float32()))
    )
    with one.incremental() as changes:
        changes.add_or_modify(changed, "Film")
        changes.delete("Film", 7)
        changes.delete("Film", 30)
    publish_changes(
        spark,
        two,
        {"Film": spark.createDataFrame(changed.slice(0, 2))},
        {"Film": spark.createDataFrame([(7,), (30,)], "id bigint")},
    )

    def found(name: str) -> dict[str, bytes]:
        kinds = ("snapshot", "delta", "reversedelta", "vector")
        return {each.name: each.read_bytes() for each in (tmp_path / name).iterdir() if each.name.startswith(kinds)}

    assert found("one") == found("two") and any(name.startswith("vector-") for name in found("one"))
    one.close()
    two.close()


def test_a_key_with_two_vectors_is_refused_with_its_key(tmp_path: pathlib.Path, spark: Any) -> None:
    from deltaic.spark.build import publish

    model = Model.from_arrow(SCHEMA.remove(3), "Film", key="id")
    producer = Producer(tmp_path, model, **terms(1))
    same = [(1, "a", [1.0] * DIMENSIONS), (1, "a", [2.0] * DIMENSIONS)]
    for given in (same, [same[0], (1, "b", [2.0] * DIMENSIONS)]):
        frame = spark.createDataFrame(given, "id bigint, title string, embedding array<float>").repartition(2)
        with pytest.raises(InputError, match=r"Film.* 1 was given twice|have the key 1, with different vectors"):
            publish(spark, producer, {"Film": frame})
    wrong = spark.createDataFrame([(1, "a", [1.0])], "id bigint, title string, embedding array<float>")
    with pytest.raises(InputError, match="embedding.*1 numbers where a vector of 12 belongs"):
        publish(spark, producer, {"Film": wrong})
    assert not [name for name in tmp_path.iterdir() if name.name.startswith(("snapshot", "vector"))]
    assert (
        not [path for path in (tmp_path / "staging").rglob("*") if path.is_file()]
        if (tmp_path / "staging").exists()
        else True
    )
    producer.close()


def test_validators_see_the_vectors(tmp_path: pathlib.Path, spark: Any) -> None:
    dataset, given = made(tmp_path), terms(2, validators=[HasVectors()])
    dataset.publish(engine="spark", spark=spark, **given)
    dataset.table.merge(rows([4], seed=9))
    done = dataset.publish(engine="spark", spark=spark, **given)
    assert done.version is not None


class HasVectors:
    """Refuses a version without vectors."""

    name = "has vectors"

    def validate(self, candidate: Any) -> Any:
        from deltaic.producer.validators import ValidationResult

        columns = candidate.state.vectors
        before = True if candidate.previous is None else len(candidate.previous.vectors) == 2
        return ValidationResult(self.name, len(columns) == 2 and len(columns["Film", "embedding"]) == 80 and before, "")
