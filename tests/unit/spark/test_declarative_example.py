"""The example of a declarative pipeline does what its head says: new files become rows, once."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deltaic.table.rows import Table

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "declarative"


@pytest.fixture
def folder(tmp_path, spark_is_here):
    copy = tmp_path / "declarative"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("table", "incoming", "__pycache__"))
    described = copy / "spark-pipeline.yml"
    text = described.read_text().splitlines()
    kept = [f"storage: {(tmp_path / 'storage').as_uri()}" if line.startswith("storage:") else line for line in text]
    assert kept != text
    described.write_text("\n".join(kept) + "\n")
    (copy / "incoming").mkdir()
    return copy


def run(folder):
    command = Path(sys.executable).parent / "spark-pipelines"
    done = subprocess.run(
        [str(command), "run"], cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ, **PLACES}
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


PLACES = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    "PYSPARK_PYTHON": sys.executable,
}


def add(folder, name, *films):
    (folder / "incoming" / f"{name}.json").write_text("".join(json.dumps(film) + "\n" for film in films))


@pytest.mark.long
def test_new_files_become_rows_once(folder):
    subprocess.run([sys.executable, "-c", "from films_table import make; make()"], cwd=folder, check=True)
    add(folder, "a", {"id": 1, "title": "Solaris"})
    run(folder)
    add(folder, "b", {"id": 2, "title": "Stalker"})
    run(folder)
    rows = Table.open(folder / "table").to_arrow().to_pylist()
    assert sorted(row["id"] for row in rows) == [1, 2]
