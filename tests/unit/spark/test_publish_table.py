"""`dataset.publish(spark=…)`: the same bytes as in one process, from the table's own splits."""

import pathlib
import random
from typing import Any

import pyarrow as pa
import pytest

from deltaic.dataset.dataset import Dataset
from deltaic.errors import InputError, ValidationError
from deltaic.producer import count_up
from deltaic.schema.model import Model

pytestmark = pytest.mark.spark

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
        [{"id": i, "title": f"{title} {i}", "day": None, "cast": [{"name": f"a {i % 3}", "role": "x"}]} for i in ids],
        SCHEMA,
    )


def made(folder: pathlib.Path) -> Dataset:
    dataset = Dataset.create(folder, Model.from_arrow(SCHEMA, "Film", key="id"), table=True)
    dataset.table.append(rows(*range(40)))
    dataset.table.append(rows(*range(40, 60)))
    return dataset


def terms(seed: int) -> dict[str, Any]:
    return {
        "versions": count_up,
        "clock": lambda: 1_700_000_000.0,
        "random": random.Random(seed),
        "order": "canonical",
    }


def blobs(dataset: Dataset) -> dict[str, bytes]:
    folder = pathlib.Path(dataset.store.url.removeprefix("file://"), "chain")
    found = [path for path in folder.iterdir() if path.name.startswith(("snapshot", "delta", "reversedelta"))]
    return {path.name: path.read_bytes() for path in found}


def test_spark_and_this_process_write_the_same_bytes(tmp_path: pathlib.Path, spark: Any) -> None:
    here, there = made(tmp_path / "here"), made(tmp_path / "there")
    mine, theirs = terms(3), terms(3)

    def both(reason: str) -> None:
        alone = here.publish(engine="embedded", **mine)
        spread = there.publish(engine="spark", spark=spark, **theirs)
        assert spread.engine == "spark" and alone.engine == "embedded"
        assert (alone.version, alone.mode) == (spread.version, spread.mode), reason
        assert blobs(here) == blobs(there), reason

    both("the first version")
    for dataset in (here, there):
        dataset.table.delete("id = 3")
        dataset.table.update({"title": "new"}, where="id = 44")
        dataset.table.append(rows(100, 101))
    both("changes")
    for dataset in (here, there):
        dataset.table.compact()
    both("a compaction is no version")
    for dataset in (here, there):
        dataset.table.add_column("rating", pa.float64())
        dataset.table.update({"rating": 7.5}, where="id < 20")
    both("a new column")
    consumer = there.consumer(share=False)
    consumer.refresh()
    assert consumer["Film"][7].rating == 7.5


def test_two_rows_with_one_key_are_refused_on_spark_too(tmp_path: pathlib.Path, spark: Any) -> None:
    dataset = made(tmp_path / "d")
    dataset.table.append(rows(7))
    with pytest.raises(ValidationError, match="7"):
        dataset.publish(engine="spark", spark=spark)


def test_small_data_are_published_without_sparks_help(tmp_path: pathlib.Path, spark: Any) -> None:
    dataset = made(tmp_path / "d")
    assert dataset.publish(spark=spark).engine == "embedded"


def test_what_tasks_cannot_see_is_refused(spark: Any) -> None:
    dataset = Dataset.create("memory:publish-table", Model.from_arrow(SCHEMA, "Film", key="id"), table=True)
    dataset.table.append(rows(1))
    with pytest.raises(InputError, match="memory"):
        dataset.publish(engine="spark", spark=spark)


def test_a_version_without_a_header_file_is_followed_by_all_rows_and_says_why(
    tmp_path: pathlib.Path, spark: Any
) -> None:
    dataset = made(tmp_path / "d")
    dataset.publish(engine="spark", spark=spark, header_file=False)
    dataset.table.append(rows(70))
    published = dataset.publish(engine="spark", spark=spark, header_file=False)
    assert published.mode == "full" and "no header file" in published.reason
