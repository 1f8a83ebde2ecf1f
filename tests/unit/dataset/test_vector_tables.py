"""A dataset whose table has vectors: table → publish → consume → Arrow gives the same vectors, bit for bit."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
import pytest

from deltaic import Dataset
from deltaic.errors import InputError, SchemaError
from deltaic.schema.annotations import Vector, key
from deltaic.schema.model import Model
from deltaic.table.rows import vector_field
from deltaic.table.split.vectors import is_vector

DIMENSIONS = 8


@key("id")
@dataclass
class Film:
    id: int
    embedding: Annotated[list[float], Vector(DIMENSIONS)]
    title: str


def made(where, model=None, **more):
    return Dataset.create(where, model or Model.of(Film), table=True, **more)


def rows(numbers, seed=0, title="film"):
    numbers = list(numbers)
    matrix = np.random.default_rng(seed).standard_normal((len(numbers), DIMENSIONS)).astype(np.float32)
    return {"id": numbers, "title": [f"{title} {number}" for number in numbers], "embedding": matrix}


def consumed(dataset, consumer=None, name="Film"):
    if consumer is not None:
        consumer.refresh()
        return pa.table(consumer.state[name].to_arrow()).sort_by("id")
    with dataset.consumer() as fresh:
        return consumed(dataset, fresh, name)


def at_rest(dataset):
    return dataset.table.to_arrow().sort_by("id")


def exactly_equal(one, other):
    assert one.schema.equals(other.schema, check_metadata=True)
    for name in one.column_names:
        left, right = one.column(name).combine_chunks(), other.column(name).combine_chunks()
        if not is_vector(one.schema.field(name)):
            assert left.equals(right), name
            continue
        assert left.is_valid().equals(right.is_valid()), name
        for place in range(len(left)):
            if left[place].is_valid:
                pair = [np.asarray(each[place].values).view(np.uint32).tolist() for each in (left, right)]
                assert pair[0] == pair[1], (name, place)
    return True


def test_the_table_of_a_model_has_its_vectors_as_columns(tmp_path):
    dataset = made(tmp_path)
    assert dataset.table.schema.names == ["id", "title", "embedding"] and dataset.table.key == ("id",)
    assert dataset.table.schema.field("embedding").equals(vector_field("embedding", DIMENSIONS), check_metadata=True)
    again = Dataset.open(tmp_path)
    assert again.model.vectors == Model.of(Film).vectors
    assert again.publish().version is not None


def test_vectors_go_the_whole_road_and_come_back_equal(tmp_path):
    dataset = made(tmp_path)
    dataset.table.append(rows(range(50)))
    odd = np.array([[0x7FC12345, 0x80000000, 0, 1, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00001]], np.uint32)
    dataset.table.append({"id": [100], "title": ["odd"], "embedding": odd.view(np.float32)})
    dataset.table.append([{"id": 101, "title": "none", "embedding": None}])
    dataset.publish()
    assert exactly_equal(consumed(dataset), at_rest(dataset))


def test_only_rows_whose_vector_changed_are_read_and_shipped(tmp_path):
    dataset = made(tmp_path)
    dataset.table.append(rows(range(500)))
    first = dataset.publish()
    with dataset.consumer() as consumer:
        consumer.refresh()
        dataset.table.merge({"id": [7, 9], "embedding": rows([7, 9], seed=5)["embedding"]})
        second = dataset.publish()
        assert (second.mode, second.rows_read, second.from_table_version) == ("incremental", 2, 1)
        assert second.cycle.vectors["Film", "embedding"].changed == 2 and second.version != first.version
        part = next(each for each in second.cycle.artifacts if "-delta." in each.name)
        assert part.size < 500
        assert exactly_equal(consumed(dataset, consumer), at_rest(dataset))


def test_an_unchanged_table_and_a_compaction_make_no_version(tmp_path):
    dataset = made(tmp_path)
    for start in range(0, 30, 10):
        dataset.table.append(rows(range(start, start + 10), seed=start))
    dataset.publish()
    assert dataset.publish().version is None
    dataset.table.compact()
    done = dataset.publish()
    assert done.version is None
    assert dataset.publish(full=True).version is None


def test_a_vector_follows_its_row_when_other_columns_change(tmp_path):
    dataset = made(tmp_path)
    dataset.table.append(rows(range(40)))
    dataset.publish()
    with dataset.consumer() as consumer:
        consumer.refresh()
        dataset.table.update({"title": "renamed"}, "id < 10")
        dataset.table.delete("id = 20")
        done = dataset.publish()
        change = done.cycle.vectors["Film", "embedding"]
        assert (change.moved, change.changed, change.added, change.removed) == (10, 0, 0, 1)
        assert exactly_equal(consumed(dataset, consumer), at_rest(dataset))


def test_null_and_back_again(tmp_path):
    dataset = made(tmp_path)
    dataset.table.append(rows(range(5)))
    dataset.publish()
    with dataset.consumer() as consumer:
        consumer.refresh()
        dataset.table.merge([{"id": 2, "embedding": None}])
        assert dataset.publish().version is not None
        found = consumed(dataset, consumer)
        assert found.column("embedding").to_pylist()[2] is None and exactly_equal(found, at_rest(dataset))
        dataset.table.merge([{"id": 2, "embedding": [0] * DIMENSIONS}])
        assert dataset.publish().version is not None
        assert exactly_equal(consumed(dataset, consumer), at_rest(dataset))


def test_a_new_process_goes_on_incrementally(tmp_path):
    dataset = made(tmp_path)
    dataset.table.append(rows(range(20)))
    dataset.publish()
    other = Dataset.open(tmp_path)
    other.table.merge({"id": [3], "embedding": np.ones((1, DIMENSIONS), np.float32)})
    done = other.publish()
    assert (done.mode, done.rows_read) == ("incremental", 1)
    assert exactly_equal(consumed(other), at_rest(other))


def test_a_vector_column_that_the_table_gets_becomes_one_of_the_dataset(tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("title", pa.string())])
    dataset = made(tmp_path, Model.from_arrow(schema, "Film", key="id"))
    dataset.table.append([{"id": number, "title": "a"} for number in range(10)])
    dataset.publish()
    with dataset.consumer() as consumer:
        consumer.refresh()
        dataset.table.add_column("embedding", pa.list_(pa.float32(), DIMENSIONS), vector=True)
        dataset.table.merge(rows(range(5)))
        done = dataset.publish()
        assert done.columns_added == ("embedding",) and done.mode == "full"
        assert [each.field_name for each in dataset.model.vectors] == ["embedding"]
        assert exactly_equal(consumed(dataset, consumer), at_rest(dataset))
        dataset.table.merge(rows([7], seed=3))
        assert dataset.publish().mode == "incremental"
        assert exactly_equal(consumed(dataset, consumer), at_rest(dataset))
        dataset.table.drop_column("embedding")
        done = dataset.publish()
        assert done.columns_removed == ("embedding",) and dataset.model.vectors == ()
        assert "embedding" not in consumed(dataset).column_names


def test_a_vector_column_of_a_table_without_a_key_is_refused(tmp_path):
    schema = pa.schema([("id", pa.int64())])
    dataset = made(tmp_path, Model.from_arrow(schema, "Film"))
    dataset.table.add_column("embedding", pa.list_(pa.float32(), 4), vector=True)
    with pytest.raises(SchemaError, match="no primary key, by which vectors"):
        dataset.publish()


def test_a_list_does_not_become_a_vector_nor_the_other_way_round(tmp_path):
    dataset = made(tmp_path)
    dataset.table.drop_column("embedding")
    dataset.table.add_column("embedding", pa.list_(pa.float32(), DIMENSIONS))
    with pytest.raises(SchemaError, match="'embedding' is a list in the table and a vector in the model"):
        dataset.publish()


def test_vectors_of_types_inside_rows_are_refused(tmp_path):
    @key("name")
    @dataclass
    class Studio:
        name: str
        logo: Annotated[list[float], Vector(4)]

    @key("id")
    @dataclass
    class Work:
        id: int
        studio: Studio

    with pytest.raises(SchemaError, match=r"Studio\.logo is a vector of a type that rows of Work refer to"):
        made(tmp_path, Model.of(Work))


def test_two_rows_with_one_key_are_refused(tmp_path):
    dataset = made(tmp_path)
    dataset.table.append(rows([1, 2]))
    dataset.table.append(rows([2], seed=9))
    with pytest.raises(InputError, match="2 records of Film have the key 2, with different vectors|Film 2 was given"):
        dataset.publish()
    assert dataset.versions() == ()


def test_vectors_as_bytes_are_read_by_everyone(tmp_path):
    dataset = made(tmp_path)
    dataset.table.append(rows(range(10)))
    dataset.publish(vectors="bytes")
    with dataset.consumer() as consumer:
        consumer.refresh()
        assert "embedding" in [field.name for field in consumer.state["Film"].schema.fields]
        assert exactly_equal(consumed(dataset, consumer), at_rest(dataset))
        dataset.table.merge(rows([3], seed=4, title="film"))
        assert dataset.publish(vectors="bytes").mode == "incremental"
        assert exactly_equal(consumed(dataset, consumer), at_rest(dataset))


def test_quantised_columns_stay_within_their_bound(tmp_path):
    from deltaic.vector.storage import VectorStorage

    dataset = made(tmp_path)
    storage = VectorStorage(quantization="int8", max_error=0.05)
    dataset.table.append(rows(range(30)))
    dataset.publish(vectors={"Film.embedding": storage})
    with dataset.consumer() as consumer:
        for step in range(4):
            dataset.table.overwrite(rows(range(30), seed=step))
            dataset.publish(vectors={"Film.embedding": storage})
            found, wanted = consumed(dataset, consumer), at_rest(dataset)
            pair = [np.stack(each.column("embedding").to_numpy()) for each in (found, wanted)]
            assert np.abs(pair[0] - pair[1]).max() <= 0.05
