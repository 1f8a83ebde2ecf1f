"""`deltaic patch`: files and single patches applied, reports for people and programs, files shown."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from deltaic.cli.app import run
from deltaic.dataset import Dataset
from deltaic.dataset.feed import field_numbers
from deltaic.schema.model import Model
from deltaic.wire.patches import Operation, Patch, PatchBatch

MODEL = Model.parse(
    """
String { string value; }
ListOfString List<String>;
MapOfStringToString Map<String, String> @HashKey(value);
Movie @PrimaryKey(id) { int id; String title; int year; ListOfString tags; MapOfStringToString links; }
"""
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    dataset = Dataset.create(str(tmp_path / "data"), MODEL)
    with dataset.producer() as producer:
        producer.publish(
            [{"id": n, "title": f"t{n}", "year": n, "tags": ["a", "b"], "links": {"x=y": "z"}} for n in range(4)]
        )
    return str(tmp_path / "data")


def movie(url: str, number: int) -> Any:
    with Dataset.open(url).consumer() as consumer:
        consumer.refresh()
        rows = consumer.state["Movie"].to_arrow().to_pyarrow().to_pylist()
    return next((row for row in rows if row["id"] == number), None)


def test_one_patch_is_said_in_words(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["patch", url, "--set", "Movie", "3", "title=Solaris = 1"]) == 0
    assert "1 of 1 patches applied" in capsys.readouterr().out
    assert run(["patch", url, "--set", "Movie", "3", 'links{"x=y"}=q', "--expect", "z"]) == 0
    assert run(["patch", url, "--set", "Movie", "3", "year=null"]) == 0
    assert run(["patch", url, "--delete", "Movie", "3", "tags[0]"]) == 0
    assert run(["patch", url, "--remove", "Movie", "2"]) == 0
    found = movie(url, 3)
    assert found == {"id": 3, "title": "Solaris = 1", "year": None, "tags": ["b"], "links": [("x=y", "q")]}
    assert movie(url, 2) is None


def test_a_conflict_is_one_line_and_code_1_and_can_be_passed_over(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["patch", url, "--set", "Movie", "3", "title=x", "--expect", "y"]
    assert run(words) == 1
    assert capsys.readouterr().err == "deltaic: Movie 3, title: 't3' is there, 'y' was expected\n"
    assert run([*words, "--on-mismatch", "skip"]) == 0
    assert "passed over: Movie 3, title" in capsys.readouterr().out


def test_files_of_json_lines_and_of_wire_bytes_are_told_apart(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = PatchBatch.of([Patch("Movie", 1, "year", 1972), Patch("Movie", 9, operation=Operation.REMOVE)])
    lines, wire = tmp_path / "patches.jsonl", tmp_path / "patches.dpat"
    lines.write_text("\n".join(batch.to_json_lines()))
    wire.write_bytes(batch.to_bytes(field_numbers(Dataset.open(url))))
    assert run(["patch", url, str(lines), "--on-missing", "skip", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["patches"], report["applied"], report["missing"]) == (2, 1, 1)
    assert report["version"] == Dataset.open(url).versions()[0].version
    assert run(["patch", url, str(wire), "--on-missing", "skip", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] is None, "nothing changed"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"type":"Movie","key":1,"path":"year","value":5}')))
    assert run(["patch", url, "-"]) == 0
    assert movie(url, 1)["year"] == 5


def test_what_a_file_holds_is_shown(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    patches = [
        Patch("Movie", key, f"tags[{key}]", "x", previous="a", timestamp=key << 16, source="eu") for key in range(3)
    ]
    wire = tmp_path / "patches.dpat"
    wire.write_bytes(PatchBatch.of(patches).to_bytes())
    assert run(["patch", "show", str(wire)]) == 0
    shown = capsys.readouterr().out
    assert "tags[]" in shown and "3 patches in 1 groups; sources: eu 3" in shown and "2.0" in shown
    assert run(["patch", "show", str(wire), "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    wire.write_bytes(PatchBatch.of([Patch("Movie", 1, "year", 1)]).to_bytes(field_numbers(Dataset.open(url))))
    assert run(["patch", "show", str(wire)]) == 0
    assert "reference 0000" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [[], ["--set", "Movie", "1", "title"], ["--set", "Movie", "1", "a=1", "--remove", "Movie", "1"],
     ["--set", "Movie", "1", "year=1", "--on-mismatch", "maybe"], ["--set", "Movie", "1", "nope=1"]],
)  # fmt: skip
def test_misuse_is_code_2(url: str, words: list[str]) -> None:
    assert run(["patch", url, *words]) == 2


def test_files_that_cannot_be_read_are_code_1(url: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"DPAT\x01")
    assert run(["patch", url, str(bad)]) == 1
    assert run(["patch", url, str(tmp_path / "none")]) == 1
    assert run(["patch", "show"]) == 2
