"""`deltaic changes`."""

import json

import pyarrow as pa
import pytest

from deltaic.cli import main
from deltaic.dataset.dataset import Dataset
from deltaic.producer import count_up
from deltaic.schema.model import Model
from deltaic.wire.patches import Operation, PatchBatch

pytest.importorskip("typer")

MODEL = "Movie @PrimaryKey(id) { int id; string title; } Loose { string word; }"
VERSIONS = (
    {"Movie": [{"id": 1, "title": "A"}, {"id": 2, "title": "B"}], "Loose": [{"word": "x"}]},
    {"Movie": [{"id": 1, "title": "[bold]C"}, {"id": 2, "title": "B"}], "Loose": [{"word": "x"}]},
    {"Movie": [{"id": 1, "title": "[bold]C"}, {"id": 3, "title": "\ud800"}], "Loose": []},
)


@pytest.fixture
def dataset(tmp_path):
    dataset = Dataset.create(tmp_path / "movies", Model.parse(MODEL))
    with dataset.producer(versions=count_up) as producer:
        for tables in VERSIONS:
            producer.publish(tables=tables)
    return tmp_path / "movies"


@pytest.fixture
def run(dataset, capsys):
    def run(*words, code=0):
        assert main(["changes", str(dataset), *words]) == code
        found = capsys.readouterr()
        return found.err if code else found.out

    return run


def test_a_table_counts_the_patches_of_every_step(run):
    lines = [line.split() for line in run("--from", "1").splitlines()]
    assert lines[0] == ["1", "to", "2:", "1", "patches"] and lines[1] == ["Movie.title", "set", "1"]
    assert lines[2] == ["2", "to", "3:", "3", "patches"]
    assert sorted(lines[3:]) == [["Loose", "remove", "1"], ["Movie", "put", "1"], ["Movie", "remove", "1"]]


def test_a_table_shows_patches_if_asked(run):
    assert 'Movie 1 title: "A" -> "[bold]C"' in run("--from", "1", "--to", "2", "--before", "--limit", "5")
    assert 'Movie 1 title: set "[bold]C"' in run("--from", "1", "--to", "2", "--limit", "5")
    assert "Movie 1" not in run("--from", "1", "--to", "2")


def test_no_change_is_said(run):
    assert run("--from", "2", "--to", "2") == "no change\n"


def test_json_is_one_patch_a_line_and_reads_back(run):
    lines = run("--from", "1", "--to", "2", "--before", "--format", "json").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"op": "set", "type": "Movie", "key": 1, "path": "title", "value": "[bold]C", "previous": "A"}
    ]
    assert run("--from", "1", "--to", "2", "--before", "--json").splitlines() == lines


def test_the_steps_back_undo_the_steps_forth(run):
    (patch,) = PatchBatch.from_json_lines(run("--from", "2", "--to", "1", "--json").splitlines())
    assert (patch.operation, patch.key, patch.path, patch.value) == (Operation.SET, 1, "title", "A")


def test_wire_and_arrow_go_to_files(run, tmp_path):
    assert run("--from", "1", "--to", "2", "--format", "wire", "--output", str(tmp_path / "wire")) == ""
    (patch,) = PatchBatch.from_bytes((tmp_path / "wire").read_bytes())
    assert patch.value == "[bold]C"
    assert run("--from", "1", "--to", "2", "--format", "arrow", "-o", str(tmp_path / "arrow")) == ""
    with pa.ipc.open_stream(tmp_path / "arrow") as reader:
        rows = reader.read_all().to_pylist()
    assert [(row["from"], row["to"], row["op"], row["value"]) for row in rows] == [(1, 2, "set", '"[bold]C"')]


def test_types_are_chosen(run):
    lines = run("--from", "1", "--type", "Loose", "--json").splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["Loose"]


def test_misuse_is_said(run):
    assert "--format is" in run("--from", "1", "--format", "xml", code=2)
    assert "--limit" in run("--from", "1", "--limit", "1", "--json", code=2)
    assert "no type 'Film'" in run("--from", "1", "--type", "Film", code=1)
    assert "version 9" in run("--from", "9", code=1)
