"""Everything that holds rows can be published."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from deltaic.errors import InputError, NotFoundError
from deltaic.producer import Producer
from deltaic.producer.sources import ArrowRows, row_sources
from deltaic.schema.model import Model
from deltaic.storage.urls import open_store
from tests.unit.producer.catalogue import MODEL, content, content_of, movies, producer_of

FLAT = Model.parse("Price @PrimaryKey(sku) { string sku; double price; long stock; }")
TABLE = pa.table({"sku": ["a", "b", "ü"], "price": [1.0, None, 2.5], "stock": [1, 2, 3]})
ROWS = TABLE.to_pylist()


def published(data: Any, **options: Any) -> list[dict[str, Any]]:
    producer = Producer(open_store("memory:"), FLAT)
    producer.publish(data, **options)
    assert producer.state is not None
    return [record.to_dict() for record in producer.state["Price"]]


class FakeSparkFrame:
    """What a Spark DataFrame looks like from outside."""

    def toArrow(self) -> pa.Table:
        return TABLE


FakeSparkFrame.__module__ = "pyspark.sql.classic.dataframe"


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        pd.DataFrame(ROWS),
        pl.DataFrame(ROWS),
        ROWS,
        iter(ROWS),
        FakeSparkFrame(),
    ],
    ids=["table", "batch", "reader", "pandas", "polars", "dicts", "iterator", "spark"],
)
def test_rows_of_any_library_are_the_same_records(data: Any) -> None:
    found = published(data)
    assert [row["sku"] for row in found] == ["a", "b", "ü"]
    assert [row["stock"] for row in found] == [1, 2, 3]
    assert found[0]["price"] == 1.0


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".tsv", ".jsonl", ".json", ".arrow"])
def test_files_are_rows(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"prices{ending}"
    match ending:
        case ".parquet":
            pyarrow.parquet.write_table(TABLE, path)
        case ".csv":
            pyarrow.csv.write_csv(TABLE, path)
        case ".tsv":
            pyarrow.csv.write_csv(TABLE, path, pyarrow.csv.WriteOptions(delimiter="\t"))
        case ".arrow":
            pyarrow.feather.write_feather(TABLE, path)
        case ".jsonl":
            path.write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n")
        case _:
            path.write_text("  " + json.dumps(ROWS))
    assert published(path) == published(str(path)) == ROWS


def test_damaged_files_say_where(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"sku": "a"}\n{"sku": ')
    with pytest.raises(InputError, match=r"x\.jsonl, line 2: no JSON"):
        published(tmp_path / "x.jsonl")
    (tmp_path / "y.json").write_text("[1, 2]")
    with pytest.raises(InputError, match="row 1: int where an object should be"):
        published(tmp_path / "y.json")
    (tmp_path / "z.parquet").write_bytes(b"PAR1 not")
    with pytest.raises(InputError, match="cannot be read"):
        published(tmp_path / "z.parquet")
    with pytest.raises(NotFoundError):
        published(tmp_path / "none.csv")
    (tmp_path / "w.xyz").touch()
    with pytest.raises(InputError, match="no format is known"):
        published(tmp_path / "w.xyz")


def test_objects_of_several_classes_may_be_mixed_with_dicts() -> None:
    given = movies(1, 2)
    producer = producer_of(open_store("memory:"))
    row = {"id": 3, "title": "movie 3", "cast": [{"name": "actor 3", "born": 1903}, {"name": "actor 0", "born": 1900}]}
    producer.publish([given[0], row, given[1]])
    assert producer.state is not None
    assert content(producer.state) == content_of(movies(1, 2, 3))


def test_what_holds_no_rows_is_refused() -> None:
    for wrong in (7, b"bytes", object(), [object()]):
        with pytest.raises(InputError):
            list(row_sources(wrong, MODEL))
    with pytest.raises(NotFoundError):
        list(row_sources([{}], MODEL, "Film"))
    with pytest.raises(InputError, match="say which type"):
        list(row_sources([{}], Model.parse("A { int a; } B { int b; }")))


def test_runs_of_one_class_are_read_as_one_source() -> None:
    sources = list(row_sources([*movies(1, 2, 3), {"id": 1}, {"id": 2}], MODEL))
    assert len(sources) == 2
    assert isinstance(next(iter(row_sources(TABLE, FLAT))), ArrowRows)
