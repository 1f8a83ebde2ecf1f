# ruff: noqa: F811 (fixtures of another folder, by their names)
"""A pipeline whose driver is killed between any two steps, or in the middle of one, ends as one that was not."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from deltaic.consumer import Consumer
from deltaic.dataset import Dataset
from deltaic.errors import CommitUnknownError
from deltaic.spark.pipeline_file import read_pipeline
from deltaic.spark.pipeline_run import PipelineRun, run_pipeline
from deltaic.spark.progress import stream_progress
from deltaic.spark.recording import RecordingFiles
from deltaic.table.rows import Table
from tests.unit.spark.conftest import spark, spark_is_here  # noqa: F401

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("overwrite", "merge", "stream append", "stream merge")
DAYS = (
    ("SELECT id, title FROM raw", [(1, "one"), (2, "two"), (3, "three")]),
    ("SELECT id, title FROM raw", [(2, "zwei"), (4, "four")]),
    ("SELECT id, title, length(title) AS letters FROM raw", [(1, "eins"), (5, "five")]),
)


class Killed(BaseException):
    """Stands for a kill: no code catches it."""


@dataclass(frozen=True)
class Outcome:
    rows: list
    commits: int
    number: int
    versions: int
    served: list


class Case:
    """A pipeline in a folder, with a table as its source, day by day."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        self.mode = kind.split()[-1]
        self.stream = kind.startswith("stream")
        folder.mkdir()
        self.source = Table.create(folder / "source", pa.schema([("id", pa.int64()), ("title", pa.string())]))

    def bring(self, day):
        """Put what a day brings into the source, and the day's transform into the file."""
        sql, rows = DAYS[day]
        if self.mode == "append":
            rows = [(day * 10 + number, title) for number, title in rows]
        brought = [{"id": number, "title": title} for number, title in rows]
        self.source.append(brought) if self.stream else self.source.overwrite(brought)
        (self.folder / "films.toml").write_text(
            f"""
            name = "films"
            [[source]]
            name = "raw"
            format = "deltaic"
            path = "source"
            stream = {str(self.stream).lower()}
            [[transform]]
            name = "films"
            sql = "{sql}"
            [table]
            dataset = "store"
            type = "Film"
            key = ["id"]
            mode = "{self.mode}"
            [publish]
            engine = "embedded"
            lease_seconds = 3
            """.replace("            ", "")
        )
        return read_pipeline(self.folder / "films.toml")

    def outcome(self):
        dataset = Dataset.open(self.folder / "store")
        with Consumer(dataset.chain) as consumer:
            consumer.refresh()
            served = pa.table(consumer.state["Film"].to_arrow()).to_pylist()
        order = lambda row: row["id"]  # noqa: E731
        return Outcome(
            sorted(dataset.table.to_arrow().to_pylist(), key=order),
            sum(entry.data_change and entry.version > 0 for entry in dataset.table.history()),
            stream_progress(dataset.table, "films").number,
            len(dataset.versions()),
            sorted(served, key=order),
        )


@pytest.fixture(scope="module")
def unharmed(spark, tmp_path_factory):
    """What becomes of each kind of pipeline, day by day, if nothing happens to it; and the steps of each day."""
    found = {}
    for kind in KINDS:
        case = Case(tmp_path_factory.mktemp("unharmed") / "case", kind)
        found[kind] = []
        for day in range(len(DAYS)):
            steps = [step.name for step in run_pipeline(case.bring(day), spark)]
            found[kind].append((steps, case.outcome()))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_driver_that_is_gone_after_any_step_is_followed_by_one_that_ends_the_same(kind, unharmed, spark, tmp_path):
    case = Case(tmp_path / "case", kind)
    for day in range(len(DAYS)):
        pipeline = case.bring(day)
        steps, expected = unharmed[kind][day]
        # One after the other, without a whole run in between: what each leaves is found by the next.
        for last in range(len(steps) - 1):
            for number, _ in enumerate(PipelineRun(pipeline, spark).run()):
                if number == last:
                    break
        run_pipeline(pipeline, spark)
        assert case.outcome() == expected, f"day {day}"
        assert expected.rows == expected.served


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("kind", ["merge", "stream merge"])
def test_a_kill_before_or_after_the_commit_itself(kind, landed, unharmed, spark, tmp_path, monkeypatch):
    case = Case(tmp_path / "case", kind)
    commit = RecordingFiles.commit

    def killed(self, *arguments, **terms):
        if landed:
            commit(self, *arguments, **terms)
        if kind == "merge":
            raise Killed
        raise CommitUnknownError("killed")  # Spark catches everything in a stream

    for day in range(2):
        pipeline = case.bring(day)
        monkeypatch.setattr(RecordingFiles, "commit", killed)
        with pytest.raises(Killed if kind == "merge" else Exception, match=None if kind == "merge" else "killed"):
            run_pipeline(pipeline, spark)
        monkeypatch.setattr(RecordingFiles, "commit", commit)
        run_pipeline(pipeline, spark)
        assert case.outcome() == unharmed[kind][day][1]


def start(case, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.faults.pipeline_driver", str(case.folder / "films.toml"), *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("overwrite", "the version file is there"),
        ("stream append", "the lease is taken"),
        # Each starts Spark twice.
        pytest.param("overwrite", "a split is there", marks=pytest.mark.long),
        pytest.param("overwrite", "the lease is taken", marks=pytest.mark.long),
        pytest.param("stream append", "a split is there", marks=pytest.mark.long),
        pytest.param("stream append", "the version file is there", marks=pytest.mark.long),
    ],
)
def test_a_driver_that_is_killed_at_work_is_followed_by_one_that_ends_the_same(
    kind,
    moment,
    unharmed,
    spark,
    tmp_path,
):
    case = Case(tmp_path / "case", kind)
    pipeline = case.bring(0)
    store = case.folder / "store"
    reached = {
        "a split is there": lambda: any((store / "table").glob("*.split")),
        "the version file is there": lambda: (store / "table" / "_transaction_log" / f"{1:020d}.json").exists(),
        "the lease is taken": lambda: any((store / "chain").glob("*announced*")),
    }[moment]
    driver = start(case)
    try:
        deadline = time.monotonic() + 240
        while not reached() and driver.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        driver.send_signal(signal.SIGKILL)
    finally:
        driver.kill()
        driver.wait()
        driver.stdout.close()
    time.sleep(3)  # Java ends when it finds its driver gone
    run_pipeline(pipeline, spark)
    outcome = case.outcome()
    assert outcome == unharmed[kind][0][1]
    run_pipeline(case.bring(1), spark)
    assert case.outcome() == unharmed[kind][1][1]


def test_the_driver_of_these_tests_kills_itself(spark_is_here, tmp_path):
    case = Case(tmp_path / "case", "overwrite")
    case.bring(0)
    driver = start(case, "0")
    out, _ = driver.communicate(timeout=200)
    assert driver.returncode == -signal.SIGKILL and out.split() == ["sources"]
