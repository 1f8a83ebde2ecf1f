"""The demonstration as `make demo` runs it: a pipeline on Spark, without a terminal."""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_a_pipeline_brings_the_rows_and_nothing_is_left_behind(spark_is_here, tmp_path):
    command = [sys.executable, "-m", "deltaic.cli.demo", "--movies", "500"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    answer = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "500 movies in Parquet files" in answer.stdout
    assert "'decade': " in answer.stdout
    assert "both processes hold the same records" in answer.stdout
    assert answer.stderr == ""
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("deltaic-")] == []
