"""Publishing from the table: only what changed, always traceable, never two records for one row."""

import datetime
import decimal
import pathlib
from typing import Any

import pyarrow as pa
import pytest

from deltaic.dataset.dataset import Dataset
from deltaic.dataset.publishing import TABLE_VERSION_TAG
from deltaic.errors import CommitConflictError, InputError, NotFoundError, SchemaError, ValidationError
from deltaic.schema.model import Model

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("title", pa.string()),
        ("day", pa.date32()),
        ("cast", pa.list_(pa.struct([("name", pa.string()), ("role", pa.string())]))),
    ]
)


def rows(*ids: int, title: str = "film") -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"id": i, "title": f"{title} {i}", "day": None, "cast": [{"name": f"actor {i % 3}", "role": "x"}]}
            for i in ids
        ],
        SCHEMA,
    )


@pytest.fixture
def dataset(tmp_path: pathlib.Path) -> Dataset:
    made = Dataset.create(tmp_path / "films", Model.from_arrow(SCHEMA, "Film", key="id"), table=True)
    made.table.append(rows(*range(10)))
    return made


def contents(dataset: Dataset) -> list[dict[str, Any]]:
    consumer = dataset.consumer(share=False)
    consumer.refresh()
    return consumer["Film"].to_arrow().to_pyarrow().sort_by("id").to_pylist()


def test_the_first_publish_reads_all_rows_and_says_of_which_table_version(dataset: Dataset) -> None:
    published = dataset.publish(note="first")
    assert (published.mode, published.reason, published.rows_read) == ("full", "the first version", 10)
    assert contents(dataset) == dataset.table.to_arrow().sort_by("id").to_pylist()
    consumer = dataset.consumer(share=False)
    consumer.refresh()
    assert consumer.state.header_tags[TABLE_VERSION_TAG] == str(dataset.table.version)


def test_the_next_publish_reads_only_the_rows_that_changed(dataset: Dataset) -> None:
    dataset.publish()
    dataset.table.delete("id = 3")
    dataset.table.update({"title": "new"}, where="id = 4")
    dataset.table.append(rows(100))
    published = dataset.publish()
    assert (published.mode, published.rows_read) == ("incremental", 3)
    change = published.cycle.types["Film"]
    assert (change.records, change.added, change.removed, change.modified) == (10, 1, 1, 1)
    assert contents(dataset) == dataset.table.to_arrow().sort_by("id").to_pylist()


def test_another_process_goes_on_where_the_last_one_stopped(dataset: Dataset) -> None:
    dataset.publish()
    again = Dataset.open(dataset.store.url)
    again.table.append(rows(50))
    published = again.publish()
    assert (published.mode, published.rows_read) == ("incremental", 1)
    dataset.table.append(rows(51))
    assert (third := dataset.publish()).mode == "incremental" and third.rows_read == 1
    assert len(contents(dataset)) == 12


def test_a_compaction_is_no_version(dataset: Dataset) -> None:
    dataset.table.append(rows(20))
    dataset.publish()
    before = dataset.table.version
    dataset.table.compact()
    assert dataset.table.version > before
    assert dataset.publish().version is None
    dataset.table.append(rows(21))
    assert dataset.publish().rows_read == 1


@pytest.mark.parametrize("incremental", [False, True])
def test_two_rows_with_one_key_are_refused_by_name(dataset: Dataset, incremental: bool) -> None:
    if incremental:
        dataset.publish()
    dataset.table.append(rows(7, title="again"))
    with pytest.raises(ValidationError, match=r"7"):
        dataset.publish()
    consumer = dataset.consumer(share=False)
    if incremental:
        consumer.refresh()
        assert len(consumer["Film"]) == 10
    else:
        with pytest.raises(NotFoundError):
            consumer.refresh()


def test_equal_rows_with_one_key_are_refused_too(dataset: Dataset) -> None:
    dataset.table.append(rows(7))
    with pytest.raises(ValidationError, match=r"7 \(2 rows\)"):
        dataset.publish()


def test_a_new_column_of_the_table_becomes_a_field_and_reaches_a_running_consumer(dataset: Dataset) -> None:
    dataset.publish()
    consumer = dataset.consumer(share=False)
    consumer.refresh()
    dataset.table.add_column("rating", pa.float64())
    dataset.table.update({"rating": 7.5}, where="id < 5")
    published = dataset.publish()
    assert published.columns_added == ("rating",)
    consumer.refresh()
    assert consumer["Film"][1].rating == 7.5 and consumer["Film"][9].rating is None
    assert contents(dataset) == dataset.table.to_arrow().sort_by("id").to_pylist()
    assert "rating" in str(Dataset.open(dataset.store.url).model.schemas)


def test_a_dropped_column_leaves_the_model_and_its_types_go_with_it(dataset: Dataset) -> None:
    dataset.publish()
    dataset.table.drop_column("cast")
    published = dataset.publish()
    assert published.columns_removed == ("cast",)
    assert "FilmCast" not in dataset.model.schemas.names
    assert contents(dataset) == dataset.table.to_arrow().sort_by("id").to_pylist()


def test_a_widened_column_is_refused_with_what_to_do(tmp_path: pathlib.Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("year", pa.int32())])
    dataset = Dataset.create(tmp_path / "d", Model.from_arrow(schema, "Film", key="id"), table=True)
    dataset.table.append(pa.table({"id": [1], "year": pa.array([1999], pa.int32())}))
    dataset.publish()
    dataset.table.widen_column("year", pa.int64())
    with pytest.raises(SchemaError, match="evolve"):
        dataset.publish()


def test_an_older_table_version_can_be_published(dataset: Dataset) -> None:
    dataset.publish()
    old = dataset.table.version
    dataset.table.delete("id < 5")
    dataset.publish()
    published = dataset.publish(version=old)
    assert published.mode == "full" and "goes back" in published.reason
    assert len(contents(dataset)) == 10


def test_history_that_is_gone_means_all_rows(dataset: Dataset) -> None:
    dataset.publish()
    dataset.table.append(rows(30))
    dataset.table.files.truncate(dry_run=False)
    published = dataset.publish()
    assert published.mode == "full" and "gone" in published.reason
    assert len(contents(dataset)) == 11


def test_a_type_without_a_key_is_published_whole_every_time(tmp_path: pathlib.Path) -> None:
    dataset = Dataset.create(tmp_path / "d", Model.from_arrow(SCHEMA, "Film"), table=True)
    dataset.table.append(rows(1, 1, 2))
    assert dataset.publish().mode == "full"
    dataset.table.append(rows(3))
    published = dataset.publish()
    assert published.mode == "full" and "no key" in published.reason
    assert published.cycle.types["Film"].added == 1


def test_a_bare_chain_and_a_dataset_without_table_say_so(tmp_path: pathlib.Path) -> None:
    dataset = Dataset.create(tmp_path / "d", Model.from_arrow(SCHEMA, "Film", key="id"))
    assert not dataset.has_table
    with pytest.raises(NotFoundError, match="create_table"):
        dataset.publish()
    with pytest.raises(InputError, match="table=True"):
        Dataset.create(tmp_path / "e", Model.from_arrow(SCHEMA, "Film", key="id"), partition_by=("day",))
    dataset.create_table(partition_by=("day",))
    assert dataset.has_table and dataset.table.partition_by == ("day",) and dataset.table.key == ("id",)
    with pytest.raises(CommitConflictError):
        dataset.create_table()


def test_a_model_with_several_roots_needs_the_name_of_the_rows_type(tmp_path: pathlib.Path) -> None:
    model = Model.parse("A @PrimaryKey(id) { int id; } B @PrimaryKey(id) { int id; }")
    with pytest.raises(InputError, match="A, B"):
        Dataset.create(tmp_path / "d", model, table=True)
    assert not (tmp_path / "d" / "dataset.json").exists()
    dataset = Dataset.create(tmp_path / "d", model, table="B")
    assert dataset.table_type == "B"


def test_an_engine_that_does_not_exist_and_spark_without_a_session_are_refused(dataset: Dataset) -> None:
    with pytest.raises(InputError, match="engine"):
        dataset.publish(engine="dask")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="session"):
        dataset.publish(engine="spark")


def test_keys_of_logical_types_are_deleted_and_changed_incrementally(tmp_path: pathlib.Path) -> None:
    schema = pa.schema(
        [
            pa.field("day", pa.date32(), nullable=False),
            pa.field("price", pa.decimal128(9, 2), nullable=False),
            ("n", pa.int32()),
        ]
    )
    dataset = Dataset.create(tmp_path / "d", Model.from_arrow(schema, "Film", key=("day", "price")), table=True)
    days = [datetime.date(2024, 1, day) for day in (1, 2, 3)]
    prices = [decimal.Decimal("1.50"), decimal.Decimal("2.25"), decimal.Decimal("-3.00")]
    dataset.table.append(
        [{"day": day, "price": price, "n": n} for n, (day, price) in enumerate(zip(days, prices, strict=True))]
    )
    dataset.publish()
    dataset.table.delete("n = 0")
    dataset.table.update({"n": 7}, where="n = 1")
    published = dataset.publish()
    assert published.mode == "incremental" and published.rows_read == 2
    consumer = dataset.consumer(share=False)
    consumer.refresh()
    found = consumer["Film"].to_arrow().to_pyarrow().sort_by("day").to_pylist()
    assert found == [{"day": days[1], "price": prices[1], "n": 7}, {"day": days[2], "price": prices[2], "n": 2}]
