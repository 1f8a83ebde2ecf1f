"""`deltaic table …` over rows."""

import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from deltaic.cli.app import run
from tests.unit.table.rows.making import FILMS, films


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAIC_SPLIT_CACHE", str(tmp_path / "cache"))

    def called(*words, fails=0):
        capsys.readouterr()
        code = run(["table", *map(str, words)])
        found = capsys.readouterr()
        assert code == fails, found.err
        return found.err if fails else found.out

    return called


@pytest.fixture
def files(tmp_path):
    """The same rows in every format."""
    rows = pa.Table.from_pylist(films(1, 2, 3), schema=FILMS)
    pyarrow.parquet.write_table(rows, tmp_path / "a.parquet")
    pyarrow.csv.write_csv(rows, tmp_path / "b.csv")
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    with pa.ipc.new_file(str(tmp_path / "d.arrow"), rows.schema) as writer:
        writer.write_table(rows)
    return [tmp_path / name for name in ("a.parquet", "b.csv", "c.jsonl", "d.arrow")]


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_files_of_every_format_become_rows(call, files, tmp_path):
    url = tmp_path / "films"
    assert "created" in call("create", url, "--like", files[0], "--key", "id", "--text", "title", "--check", "c=id > 0")
    for number, path in enumerate(files, 1):
        assert f"version {number}, 3 rows" in call("append", url, path)
    assert call("scan", url, "--count").strip() == "12"
    found = lines(call("scan", url, "--where", "id = 2", "--json"))
    assert found == films(2) * 4
    assert "film 3" in call("scan", url, "--column", "title", "--limit", 3)
    assert "read id" in call("scan", url, "--column", "id", "--explain")
    assert json.loads(call("scan", url, "--version", 1, "--count", "--json")) == {"rows": 3}
    assert "version 5: 4 files" in call("compact", url)
    assert json.loads(call("compact", url, "--target-mb", 1, "--json"))["files_before"] == 0


def test_rows_are_searched_deleted_updated_merged_and_compacted(call, files, tmp_path):
    url = tmp_path / "films"
    call("create", url, "--like", files[0], "--key", "id", "--text", "title")
    call("append", url, files[0], "--note", "first")
    out = call("search", url, "title:film", "--snippet", "title", "--limit", 2)
    assert "2 of 3 rows" in out
    assert lines(call("search", url, "title:3", "--json"))[0]["id"] == 3
    assert "answered by" in call("search", url, "title:3", "--explain")
    assert "would delete 1 rows" in call("delete", url, "--query", "title:3")
    assert json.loads(call("delete", url, "--where", "id = 3", "--run", "--json"))["rows"] == 1
    assert "would update 2 rows" in call("update", url, "--set", "year=1999")
    assert "2 rows" in call("update", url, "--set", "year=1999", "--set", 'title="x"', "--run")
    assert {row["title"] for row in lines(call("scan", url, "--json"))} == {"x"}
    assert "3 rows" in call("merge", url, files[2])
    changed = lines(call("changes", url, 1, "--rows", "--net", "--json"))
    assert changed == []
    assert len(lines(call("changes", url, 1, "--rows", "--json"))) == 1 + 2 + 3
    assert "0 problems" in call("verify", url, "--rows")
    call("restore", url, "--version", 2)
    assert call("scan", url, "--count").strip() == "2"
    assert "1 rows" in call("merge", url, files[0], "--no-update")
    assert "no rows" in call("scan", url, "--where", "id = 77")


def test_a_table_is_made_by_columns_or_by_sparks_json(call, tmp_path):
    call("create", tmp_path / "a", "--column", "id:long", "--column", "day:date", "--partition-by", "day")
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "day": "2024-01-31"}\n')
    call("append", tmp_path / "a", tmp_path / "rows.jsonl")
    assert lines(call("scan", tmp_path / "a", "--json")) == [{"id": 1, "day": "2024-01-31"}]
    (tmp_path / "schema.json").write_text(
        '{"type":"struct","fields":[{"name":"x","type":"string","nullable":true,"metadata":{}}]}'
    )
    assert json.loads(call("create", tmp_path / "b", "--schema", tmp_path / "schema.json", "--json"))["columns"] == [
        "x"
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("create", "{t}/x"), "one of them"),
        (("create", "{t}/x", "--column", "id"), "NAME:TYPE"),
        (("create", "{t}/x", "--column", "id:strange"), "strange"),
        (("append", "{t}/films", "{t}/none.csv"), "no file"),
        (("append", "{t}/films", "{t}/films/odd.txt"), "no f"),
        (("delete", "{t}/films"), "which rows"),
        (("delete", "{t}/films", "--where", "nothing = 1"), "no column"),
        (("update", "{t}/films", "--set", "id=x"), "no int64"),
        (("update", "{t}/films", "--set", "id"), "no ="),
        (("update", "{t}/films", "--set", "no=1"), "no column"),
        (("search", "{t}/films", "title:(", "--json"), "title"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(call, tmp_path, words, why):
    call("create", tmp_path / "films", "--column", "id:long", "--column", "title:string")
    found = call(
        *(word.format(t=tmp_path) for word in words), fails=2 if words[2:] != ("--column", "id:strange") else 1
    )
    assert why in found and found.count("\n") <= 3
