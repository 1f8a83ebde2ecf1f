"""`deltaic table companion …`, and the examples of its page."""

import json
import re

import pyarrow as pa
import pytest

from deltaic.cli.app import run
from deltaic.errors import InputError
from deltaic.table.rows import Table
from tests.unit.table.companion.making import put, rows


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAIC_SPLIT_CACHE", str(tmp_path / "cache"))

    def called(*words, fails=0):
        capsys.readouterr()
        code = run(["table", "companion", *map(str, words)])
        found = capsys.readouterr()
        assert code == fails, found.err
        return found.err if fails else found.out

    return called


def test_a_companion_is_made_refreshed_and_looked_at(call, tmp_path):
    source, index = tmp_path / "source", tmp_path / "index"
    put(source, "year=2020/a.parquet", rows(0, 20))
    assert "20 rows of 1 files" in call("create", index, source, "--text", "plot", "--partition", "year:int32")
    assert "nothing changed" in call("refresh", index)
    put(source, "year=2021/b.parquet", rows(20, 5))
    shown = call("status", index)
    assert "yes: refresh" in shown and "year=2021/b.parquet" in shown
    found = json.loads(call("status", index, "--json"))
    assert found["stale"] and found["new"] == ["year=2021/b.parquet"] and found["rows"] == 20
    done = json.loads(call("refresh", index, "--note", "more", "--json"))
    assert done["added"] == 1 and done["committed"] and done["rows"] == 5
    assert not json.loads(call("status", index, "--json"))["stale"]
    source.rename(tmp_path / "moved")
    assert not json.loads(call("status", index, "--source", tmp_path / "moved", "--json"))["stale"]


def test_hive_and_chosen_columns(call, tmp_path):
    put(tmp_path / "source", "kind=x/a.parquet", rows(0, 3))
    made = call("create", tmp_path / "index", tmp_path / "source", "--hive", "--column", "id", "--json")
    assert json.loads(made)["rows"] == 3


def test_misuse_is_told_in_one_line(call, tmp_path):
    put(tmp_path / "source", "a.parquet", pa.table({"id": [1]}))
    for words in (("--kind", "csv"), ("--partition", "year:nonsense"), ("--text", "nothing")):
        text = call("create", tmp_path / "index", tmp_path / "source", *words, fails=2)
        assert text.startswith("deltaic: ") and text.count("\n") == 1
    assert "no" in call("status", tmp_path / "nowhere", fails=1)


def test_the_examples_of_the_page_run(project_root, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DELTAIC_SPLIT_CACHE", str(tmp_path / "cache"))
    text = (project_root / "docs/companion.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    names = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, "docs/companion.md", "exec"), names)
    out = capsys.readouterr().out
    assert "Solaris" in out and "refresh" in out


def test_a_companion_is_searched_by_the_command_of_tables_and_written_by_none(call, capsys, tmp_path):
    put(tmp_path / "source", "a.parquet", rows(0, 40))
    call("create", tmp_path / "index", tmp_path / "source", "--text", "plot")
    capsys.readouterr()
    assert run(["table", "search", str(tmp_path / "index"), "plot:river", "--limit", "0", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    wanted = [row["id"] for row in rows(0, 40).to_pylist() if "river" in (row["plot"] or "")]
    assert sorted(row["id"] for row in found) == wanted
    assert run(["table", "search", str(tmp_path / "index"), "plot:river", "--version", "1"]) == 2
    with pytest.raises(InputError, match="companion"):
        Table.open(tmp_path / "index")
