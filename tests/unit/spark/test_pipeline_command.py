"""`deltaic run`: what it prints, and what it refuses before Spark is started."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("pyspark")

from deltaic.cli.app import run
from deltaic.table.rows import Table

ROOT = Path(__file__).resolve().parents[3]
PIPELINE = """
name = "films"
[[source]]
name = "raw"
format = "json"
path = "in"
schema = "id bigint, title string"
[table]
dataset = "store"
type = "Film"
key = ["id"]
[publish]
engine = "embedded"
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1, "title": "one"}\n')
    (tmp_path / "films.toml").write_text(PIPELINE)
    return tmp_path / "films.toml"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--every", "0"], "--every takes a number"),
        (["--every", "5", "--continuous"], "does not go with --continuous"),
        (["--conf", "nothing"], "NAME=VALUE"),
    ],
)
def test_what_makes_no_sense_is_misuse(file, capsys, words, complaint):
    assert run(["run", str(file), *words]) == 2
    assert complaint in capsys.readouterr().err


def test_a_file_with_a_fault_is_one_line(file, capsys):
    file.write_text(PIPELINE.replace("format", "formta"))
    assert run(["run", str(file)]) == 2
    assert "unknown field `formta`" in capsys.readouterr().err
    assert run(["run", str(file.parent / "nothing.toml")]) == 1
    assert "no file" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_it_runs_again_and_again_until_it_is_told_to_stop(spark_is_here, file):
    command = [sys.executable, "-m", "deltaic.cli", "run", str(file), "--every", "1", "--json"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    seen = []
    try:
        for line in process.stdout:
            seen.append(json.loads(line)["step"])
            if seen.count("published") == 1 and "unchanged" not in seen:
                (file.parent / "in" / "b.json").write_text('{"id": 2, "title": "two"}\n')
            if seen.count("published") == 2:
                process.send_signal(signal.SIGTERM)
                break
        process.stdout.read()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert Table.open(file.parent / "store" / "table").count() == 2
    assert seen[:4] == ["sources", "created", "rows", "published"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_the_example_runs_and_an_error_of_spark_is_one_line(spark_is_here, tmp_path, file):
    import shutil

    shutil.copytree(ROOT / "examples" / "films", tmp_path / "example")
    around = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "deltaic.cli", "run"]
    done = subprocess.run(
        [*command, str(tmp_path / "example" / "films.toml")], capture_output=True, text=True, env=around
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["sources", "created", "rows", "published"]
    rows = Table.open(tmp_path / "example" / "store" / "table").to_arrow().to_pylist()
    assert sorted((row["id"], row["title"]) for row in rows) == [(1, "Solaris"), (2, "Stalker")]
    file.write_text(PIPELINE + '[[expect]]\nname = "large"\nthat = "id > 5"\n')
    failed = subprocess.run([*command, str(file)], capture_output=True, text=True, env=around)
    assert failed.returncode == 1
    last = failed.stderr.splitlines()[-1]
    assert last.startswith("deltaic: ") and "expectation 'large' does not hold" in last
