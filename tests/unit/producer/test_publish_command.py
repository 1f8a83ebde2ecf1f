"""`deltaic publish`: files become versions."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

typer = pytest.importorskip("typer")

from typer.testing import CliRunner  # noqa: E402

from deltaic.cli.publish import app  # noqa: E402
from deltaic.dataset import Dataset  # noqa: E402
from deltaic.errors import DeltaicError, InputError, NotFoundError  # noqa: E402

TABLE = pa.table({"id": [1, 2, 3], "title": ["a", "b", "c"], "year": [1990, None, 2000]})


def run(*words: object) -> Any:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)
    if isinstance(result.exception, DeltaicError):
        raise result.exception
    return result


def test_a_parquet_file_makes_a_dataset_and_then_versions(tmp_path: Path) -> None:
    data, url = tmp_path / "movies.parquet", tmp_path / "store/films"
    pyarrow.parquet.write_table(TABLE, data)
    first = json.loads(run(url, data, "--key", "id", "--json", "--note", "first").stdout)
    assert first["created"] and first["dataset"] == "films" and first["note"] == "first"
    assert first["types"]["Movies"] == {"records": 3, "added": 3, "removed": 0, "modified": 0}
    again = json.loads(run(url, data, "--json").stdout)
    assert again["version"] is None and again["from_version"] == first["version"] and not again["created"]
    pyarrow.parquet.write_table(pa.table({"id": [2, 4], "title": ["B", "d"], "year": [1, 2]}), data)
    second = json.loads(run(url, data, "--incremental", "--json").stdout)
    assert second["types"]["Movies"] == {"records": 4, "added": 1, "removed": 0, "modified": 1}
    assert second["from_version"] == first["version"] and second["size_bytes"] > 0
    assert set(second["seconds"]) >= {"populate", "encode", "stage", "check", "publish", "announce"}
    assert len(Dataset.open(url).versions()) == 2


def test_people_read_tables(tmp_path: Path) -> None:
    data = tmp_path / "movies.csv"
    data.write_text("id,title\n1,a\n2,b\n")
    shown = run(tmp_path / "d", data, "--type", "Movie").stdout
    assert "made the dataset d" in shown and "Movie" in shown and "added" in shown and "seconds: populate" in shown
    assert "nothing changed" in run(tmp_path / "d", data).stdout


def test_json_with_a_schema_text_needs_no_guessing(tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text(
        "Actor { string name; } ListOfActor List<Actor>; Movie @PrimaryKey(id) { long id; ListOfActor cast; }"
    )
    (tmp_path / "a.jsonl").write_text('{"id": 1, "cast": [{"name": "x"}]}\n{"id": 2, "cast": null}\n')
    (tmp_path / "b.txt").write_text('{"id": 3}\n')
    files = (tmp_path / "a.jsonl", tmp_path / "b.txt")
    answer = json.loads(
        run(tmp_path / "d", *files, "--schema", tmp_path / "model.txt", "--format", "json", "--json").stdout
    )
    assert answer["types"]["Movie"]["added"] == 3 and answer["types"]["Actor"]["added"] == 1


def test_misuse_is_told(tmp_path: Path) -> None:
    data = tmp_path / "movies.csv"
    data.write_text("id,title\n1,a\n")
    with pytest.raises(InputError, match="one of parquet"):
        run(tmp_path / "d", data, "--format", "xml")
    with pytest.raises(NotFoundError):
        run(tmp_path / "d", tmp_path / "none.csv")
    run(tmp_path / "d", data)
    with pytest.raises(InputError, match="Movies with no key: --key is for a new dataset"):
        run(tmp_path / "d", data, "--key", "id")
    with pytest.raises(InputError, match="--compression lzma: one of zstd, gzip"):
        run(tmp_path / "d", data, "--compression", "lzma")
    with pytest.raises(InputError, match="no type 'Film'"):
        run(tmp_path / "d", data, "--type", "Film")


def test_a_command_is_repeated_as_it_stands(tmp_path: Path) -> None:
    data, model = tmp_path / "movies.csv", tmp_path / "model.txt"
    data.write_text("id,title\n1,a\n")
    model.write_text("Movie @PrimaryKey(id) { long id; string title; }")
    for words in (("--key", "id"), ("--schema", model, "--type", "Movie")):
        place = tmp_path / words[0]
        assert json.loads(run(place, data, *words, "--json").stdout)["created"]
        assert json.loads(run(place, data, *words, "--json").stdout)["version"] is None
    with pytest.raises(InputError, match="with the key id"):
        run(tmp_path / "--key", data, "--key", "title")
    model.write_text("Movie @PrimaryKey(id) { long id; string title; int year; }")
    with pytest.raises(InputError, match="another model"):
        run(tmp_path / "--schema", data, "--schema", model)


def test_a_column_of_csv_has_the_type_of_the_model_whatever_it_looks_like(tmp_path: Path) -> None:
    data, url = tmp_path / "movies.csv", tmp_path / "d"
    data.write_text("id,title,rating,seen,code\n1,a,8.5,2020-01-31,x\n")
    run(url, data, "--key", "id")
    data.write_text("id,title,rating,seen,code\n1,17,8,,\n2,b,,2021-02-28,9\n")
    run(url, data)
    consumer = Dataset.open(url).consumer()
    consumer.refresh()
    rows = pa.table(consumer["Movies"]).to_pylist()
    assert [(row["title"], row["rating"], row["code"]) for row in rows] == [("17", 8.0, ""), ("b", None, "9")]
    assert [str(row["seen"]) for row in rows] == ["None", "2021-02-28"]
    data.write_text("id,title,rating,seen,code\n1,17,high,,\n")
    with pytest.raises(InputError, match="high"):
        run(url, data)


def test_a_canary_is_published_packed_and_promoted(tmp_path: Path) -> None:
    data, url = tmp_path / "movies.csv", tmp_path / "d"
    data.write_text("id,title\n1,a\n")
    run(url, data, "--key", "id")
    data.write_text("id,title\n1,b\n")
    run(url, data, "--channel", "canary", "--compression", "zstd")
    dataset = Dataset.open(url)
    main, canary = dataset.consumer(), dataset.consumer(channel="canary")
    assert canary.refresh().to_version > main.refresh().to_version
    dataset.announcements.promote()
    assert main.refresh().to_version == canary.version
