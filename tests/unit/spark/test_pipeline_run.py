"""A pipeline from its sources to a published version: only what is new, exactly once, and it says where from."""

import json
import shutil
import threading
import time

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from deltaic.consumer import Consumer
from deltaic.dataset import Dataset
from deltaic.errors import InputError
from deltaic.spark.pipeline_file import make_pipeline
from deltaic.spark.pipeline_run import PipelineRun, run_pipeline
from deltaic.spark.progress import stream_progress
from deltaic.table.rows import Table

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def write_json(folder, name, *rows):
    folder.mkdir(exist_ok=True)
    # Whole at once, as those who write for others do it.
    (folder / f".{name}").write_text("\n".join(json.dumps(row) for row in rows))
    (folder / f".{name}").rename(folder / f"{name}.json")


def film(number, title=None):
    return {"id": number, "title": title or f"film {number}"}


def pipeline(folder, mode="overwrite", stream=False, **more):
    values = {
        "name": "films",
        "source": [
            {"name": "raw", "format": "json", "path": "in", "schema": "id bigint, title string", "stream": stream}
        ],
        "transform": [{"name": "films", "sql": "SELECT id, upper(title) AS title FROM raw"}],
        "table": {"dataset": "store", "type": "Film", "key": ["id"], "mode": mode},
        "publish": {"engine": "embedded"},
    }
    return make_pipeline({**values, **more}, str(folder))


def names(steps):
    return [step.name for step in steps]


def titles(folder):
    return {row["id"]: row["title"] for row in Dataset.open(folder / "store").table.to_arrow().to_pylist()}


def published(folder):
    with Consumer(Dataset.open(folder / "store").chain) as consumer:
        consumer.refresh()
        state = consumer.state
        rows = pa.table(state["Film"].to_arrow()).to_pylist()
        return {row["id"]: row["title"] for row in rows}, dict(state.header_tags)


def test_files_become_a_table_and_a_version_once(spark, tmp_path):
    write_json(tmp_path / "in", "a", film(1), film(2))
    assert names(run_pipeline(pipeline(tmp_path), spark)) == ["sources", "created", "rows", "published"]
    assert titles(tmp_path) == {1: "FILM 1", 2: "FILM 2"}
    rows, tags = published(tmp_path)
    assert rows == titles(tmp_path)
    assert tags["deltaic.pipeline"] == "films" and tags["deltaic.source.raw"].startswith("1 files ")
    assert names(run_pipeline(pipeline(tmp_path), spark)) == ["sources", "unchanged"]
    write_json(tmp_path / "in", "b", film(3))
    assert names(run_pipeline(pipeline(tmp_path), spark)) == ["sources", "rows", "published"]
    assert published(tmp_path)[0] == {1: "FILM 1", 2: "FILM 2", 3: "FILM 3"}
    table = Dataset.open(tmp_path / "store").table
    entry = next(iter(table.history(limit=1)))
    assert entry.note == "pipeline films, run 1"
    assert entry.user["pipeline"] == "films" and entry.user["source.raw"].startswith("2 files ")


def test_another_transform_is_run_although_the_sources_are_the_same(spark, tmp_path):
    write_json(tmp_path / "in", "a", film(1))
    run_pipeline(pipeline(tmp_path), spark)
    longer = [{"name": "films", "sql": "SELECT id, title, length(title) AS letters FROM raw"}]
    assert names(run_pipeline(pipeline(tmp_path, transform=longer), spark)) == [
        "sources", "column", "rows", "published",
    ]  # fmt: skip
    assert Dataset.open(tmp_path / "store").table.to_arrow().to_pylist() == [{"id": 1, "title": "film 1", "letters": 6}]


def test_a_table_is_read_at_the_version_that_is_said(spark, tmp_path):
    source = Table.create(tmp_path / "source", pa.schema([("id", pa.int64()), ("title", pa.string())]))
    source.append([film(1)])
    run = pipeline(tmp_path, source=[{"name": "raw", "format": "deltaic", "path": "source"}])
    run_pipeline(run, spark)
    assert published(tmp_path)[1]["deltaic.source.raw"] == "1"
    assert names(run_pipeline(run, spark)) == ["sources", "unchanged"]
    source.append([film(2)])
    run_pipeline(run, spark)
    assert published(tmp_path)[1]["deltaic.source.raw"] == "2"
    assert stream_progress(tmp_path / "store" / "table", "films").offsets[0] == {
        "source": "raw", "format": "deltaic", "version": "2",
    }  # fmt: skip


def test_a_merge_keeps_what_is_not_in_the_source_any_more(spark, tmp_path):
    write_json(tmp_path / "in", "a", film(1), film(2))
    run_pipeline(pipeline(tmp_path, "merge"), spark)
    write_json(tmp_path / "in", "a", film(2, "other"), film(3))
    run_pipeline(pipeline(tmp_path, "merge"), spark)
    assert published(tmp_path)[0] == {1: "FILM 1", 2: "OTHER", 3: "FILM 3"}


def test_a_python_transform_lies_beside_the_file_and_may_use_its_own_functions_in_tasks(spark, tmp_path):
    (tmp_path / "clean.py").write_text(
        "from pyspark.sql.functions import udf\n"
        "def shout(text):\n    return text + '!'\n"
        "def clean(spark, frames):\n"
        "    return frames['raw'].withColumn('title', udf(shout)('title'))\n"
    )
    write_json(tmp_path / "in", "a", film(1))
    run_pipeline(pipeline(tmp_path, transform=[{"name": "films", "python": "clean.py:clean"}]), spark)
    assert titles(tmp_path) == {1: "film 1!"}


def test_expectations_drop_warn_or_fail(spark, tmp_path):
    write_json(tmp_path / "in", "a", film(1), {"id": None, "title": "x"}, {"id": 3, "title": None})
    drop = {"name": "has an id", "that": "id IS NOT NULL", "otherwise": "drop"}
    warn = {"name": "has a title", "that": "title <> ''", "otherwise": "warn"}
    steps = run_pipeline(pipeline(tmp_path, expect=[drop, warn]), spark)
    rows = next(step for step in steps if step.name == "rows")
    assert rows.facts["broken"] == {"has a title": 1} and "1 rows not 'has a title'" in rows.text
    assert titles(tmp_path) == {1: "FILM 1", 3: None}
    version = Dataset.open(tmp_path / "store").table.version
    with pytest.raises(Exception, match="expectation 'has a title' does not hold"):
        run_pipeline(pipeline(tmp_path, expect=[drop, {**warn, "otherwise": "fail"}]), spark)
    assert Dataset.open(tmp_path / "store").table.version == version


def test_a_dry_run_tells_the_plan_and_makes_nothing(spark, tmp_path):
    write_json(tmp_path / "in", "a", film(1))
    text = PipelineRun(pipeline(tmp_path), spark).plan()
    assert "source raw: json in, version 1 files" in text
    assert "rows films: id bigint, title string" in text and "Physical Plan" in text
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_stream_of_files_gives_only_what_is_new(spark, tmp_path, mode):
    write_json(tmp_path / "in", "a", film(1), film(2))
    run = pipeline(tmp_path, mode, stream=True)
    run_pipeline(run, spark)
    version = Dataset.open(tmp_path / "store").table.version
    assert "nothing new" in next(step.text for step in run_pipeline(run, spark) if step.name == "rows")
    assert Dataset.open(tmp_path / "store").table.version == version
    write_json(tmp_path / "in", "b", film(2 if mode == "merge" else 4, "again"))
    run_pipeline(run, spark)
    expected = {1: "FILM 1", 2: "AGAIN"} if mode == "merge" else {1: "FILM 1", 2: "FILM 2", 4: "AGAIN"}
    assert published(tmp_path)[0] == expected
    shutil.rmtree(tmp_path / "store" / "checkpoints")
    with pytest.raises(InputError, match="checkpoint of pipeline films is gone"):
        run_pipeline(run, spark)


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_stream_from_a_table_goes_on_without_its_checkpoint(spark, tmp_path, mode):
    source = Table.create(tmp_path / "source", pa.schema([("id", pa.int64()), ("title", pa.string())]))
    source.append([film(1)])
    run = pipeline(tmp_path, mode, source=[{"name": "raw", "format": "deltaic", "path": "source", "stream": True}])
    run_pipeline(run, spark)
    source.append([film(2)])
    run_pipeline(run, spark)
    assert json.loads(published(tmp_path)[1]["deltaic.source.raw"]) == {"version": 2}
    shutil.rmtree(tmp_path / "store" / "checkpoints")
    source.append([film(3)])
    run_pipeline(run, spark)
    source.append([film(4)])
    run_pipeline(run, spark)
    assert published(tmp_path)[0] == {number: f"FILM {number}" for number in (1, 2, 3, 4)}
    assert Dataset.open(tmp_path / "store").table.count() == 4


def test_a_kill_between_a_new_checkpoint_and_its_first_batch_brings_nothing_twice(spark, tmp_path):
    source = Table.create(tmp_path / "source", pa.schema([("id", pa.int64()), ("title", pa.string())]))
    source.append([film(1)])
    run = pipeline(tmp_path, "append", source=[{"name": "raw", "format": "deltaic", "path": "source", "stream": True}])
    run_pipeline(run, spark)
    shutil.rmtree(tmp_path / "store" / "checkpoints")
    source.append([film(2)])
    next(PipelineRun(run, spark).run())
    checkpoint = tmp_path / "store" / "checkpoints" / "films"
    assert (checkpoint / "resumed").exists() and not (checkpoint / "metadata").exists()
    (checkpoint / "metadata").write_text('{"id":"00000000-0000-0000-0000-000000000001"}')
    run_pipeline(run, spark)
    assert sorted(row["id"] for row in Dataset.open(tmp_path / "store").table.to_arrow().to_pylist()) == [1, 2]
    entry = next(iter(Dataset.open(tmp_path / "store").table.history(limit=1)))
    assert json.loads(entry.user["sources"]) == [{"version": 2}]


def test_a_stream_counts_what_only_warns(spark, tmp_path):
    write_json(tmp_path / "in", "a", film(1), {"id": 2, "title": None})
    warn = [{"name": "has a title", "that": "title <> ''", "otherwise": "warn"}]
    for mode in ("append", "merge"):
        folder = tmp_path / mode
        folder.mkdir()
        shutil.copytree(tmp_path / "in", folder / "in")
        steps = run_pipeline(pipeline(folder, mode, stream=True, expect=warn), spark)
        assert next(step for step in steps if step.name == "rows").facts["broken"] == {"has a title": 1}


def test_a_stream_that_stays_open_publishes_what_comes(spark, tmp_path):
    write_json(tmp_path / "in", "a", film(1))
    stop, steps = threading.Event(), []
    run = PipelineRun(pipeline(tmp_path, "append", stream=True), spark)

    def go():
        steps.extend(run.run_continuously(stop.is_set))

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    try:
        for expected in ({1: "FILM 1"}, {1: "FILM 1", 2: "FILM 2"}):
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    found = published(tmp_path)[0]
                except Exception:
                    found = None
                if found == expected:
                    break
                time.sleep(0.2)
            assert found == expected
            write_json(tmp_path / "in", "b", film(2))
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive() and "published" in names(steps)
