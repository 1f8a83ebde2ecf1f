"""The page on nearest neighbours says what is so, and the command does what the page says."""

import json
import re
from dataclasses import fields

import pytest

from deltaic.cli.app import run
from deltaic.vector.approximate import IndexCounts
from deltaic.vector.graph import GraphOptions
from deltaic.vector.metric import Metric


@pytest.fixture
def page(project_root):
    return (project_root / "docs/nearest.md").read_text()


@pytest.fixture
def ran(page, tmp_path, monkeypatch):
    pytest.importorskip("usearch", reason="the extra 'vector' is not installed")
    monkeypatch.setenv("DELTAIC_SPLIT_CACHE", str(tmp_path / "splits"))
    names = {"url": str(tmp_path / "chain"), "table_url": str(tmp_path / "table"), "__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        exec(compile(block, "nearest.md", "exec"), names)
    return names


def test_every_program_of_the_page_runs(ran):
    assert ran["rows"].num_rows == 3 and ran["both"].num_rows == 3 and len(ran["hits"]) == 5


def test_every_option_metric_and_count_has_a_place(page):
    options = {one.name for one in fields(GraphOptions)}
    assert {name for name in options if f"| `{name}` |" not in page} == set()
    assert {metric for metric in Metric if f"| `{metric}` |" not in page} == set()
    for one in fields(GraphOptions):
        assert f"| `{one.name}` | {one.default} |" in page
    told = {"builds", "updates", "added", "removed", "renamed", "reinserted", "left", "recall"}
    assert told <= {one.name for one in fields(IndexCounts)}


def test_the_command_prints_the_nearest_of_a_record_and_of_a_vector(ran, tmp_path, capsys):
    url, consumer = ran["url"], ran["consumer"]
    assert run(["nearest", url, "Movie", "embedding", "--key", "7", "-k", "4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["nearest"]
    expected = consumer.nearest("Movie", "embedding", like=7, k=4)
    assert [one["key"] for one in found] == [one.record.id for one in expected]
    assert [one["score"] for one in found] == expected.scores
    assert found[0]["record"]["title"] == expected[0].record.title and "embedding" not in found[0]["record"]
    asked = tmp_path / "query.json"
    asked.write_text(json.dumps(ran["query"].tolist()))
    assert run(["nearest", url, "Movie", "embedding", "--vector", str(asked), "--metric", "l2", "-k", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = consumer.nearest("Movie", "embedding", ran["query"], 2, metric="l2")
    assert len(lines) == 2 and expected[0].record.title in lines[0]


def test_the_command_refuses_what_is_no_question(ran, tmp_path, capsys):
    url = ran["url"]
    broken = tmp_path / "broken.json"
    broken.write_text("[1, 2")
    for words, code, said in (
        ([], 2, "either --key or --vector"),
        (["--key", "7", "--vector", str(broken)], 2, "either --key or --vector"),
        (["--vector", str(broken)], 2, "no JSON"),
        (["--key", "100000"], 1, "no record with the key"),
        (["--key", "7", "--metric", "far"], 2, "cosine, dot or l2"),
    ):
        assert run(["nearest", url, "Movie", "embedding", *words]) == code
        assert said in capsys.readouterr().err
    assert run(["nearest", url, "Movie", "title", "--key", "7"]) == 1
    assert "no vector column" in capsys.readouterr().err
