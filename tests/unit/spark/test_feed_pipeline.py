"""Pipelines whose source is a stream of patches: once and only once, also after a lost checkpoint."""

import json
import shutil

import pytest

pytest.importorskip("pyspark")

from deltaic.dataset.dataset import Dataset
from deltaic.errors import InputError, NotFoundError
from deltaic.producer import count_up
from deltaic.schema.model import Model
from deltaic.spark.pipeline_file import make_pipeline
from deltaic.spark.pipeline_run import run_pipeline

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

MODEL = "Film @PrimaryKey(id) { long id; string title; }"


def write_json(folder, name, *rows):
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_text("\n".join(json.dumps(row) for row in rows))
    (folder / f".{name}").rename(folder / f"{name}.json")


def pipeline(folder, source):
    values = {
        "name": "edits",
        "source": [{"name": "raw", "stream": True, **source}],
        "table": {"dataset": "store", "type": "Film", "mode": "patch"},
        "publish": {"engine": "embedded"},
    }
    return make_pipeline(values, str(folder))


def made(folder, count=3):
    dataset = Dataset.create(folder / "store", Model.parse(MODEL), table=True)
    dataset.table.append([{"id": number, "title": "A"} for number in range(count)])
    dataset.publish()


def titles(folder):
    dataset = Dataset.open(folder / "store")
    consumer = dataset.consumer(share=False)
    consumer.refresh()
    found = {record.id: record.title for record in consumer.state["Film"]}
    assert {row["id"]: row["title"] for row in dataset.table.to_arrow().to_pylist()} == found
    return found


def test_rows_of_patches_change_the_table_and_the_dataset_once(spark, tmp_path):
    made(tmp_path)
    source = {"format": "json", "path": "in", "schema": "op string, key string, path string, value string"}
    write_json(tmp_path / "in", "a", {"op": "set", "key": "1", "path": "title", "value": '"B"'})
    steps = run_pipeline(pipeline(tmp_path, source), spark)
    assert [step.name for step in steps] == ["sources", "rows", "published"]
    assert titles(tmp_path) == {0: "A", 1: "B", 2: "A"}
    versions = Dataset.open(tmp_path / "store").versions()
    run_pipeline(pipeline(tmp_path, source), spark)
    assert Dataset.open(tmp_path / "store").versions() == versions
    write_json(tmp_path / "in", "b", {"op": "remove", "key": "0"})
    run_pipeline(pipeline(tmp_path, source), spark)
    assert titles(tmp_path) == {1: "B", 2: "A"}


def test_a_feed_goes_on_where_the_table_says_if_its_checkpoint_is_lost(spark, tmp_path):
    made(tmp_path)
    source = Dataset.create(tmp_path / "source", Model.parse(MODEL))
    producer = source.producer(versions=count_up)

    def publish(*words):
        producer.publish(tables={"Film": [{"id": number, "title": word} for number, word in enumerate(words)]})

    publish("A", "A", "A")
    publish("A", "B", "A")
    told = {"format": "deltaic", "path": "source", "options": {"feed": "wire", "fromVersion": "1"}}
    run_pipeline(pipeline(tmp_path, told), spark)
    assert titles(tmp_path) == {0: "A", 1: "B", 2: "A"}
    shutil.rmtree(pipeline(tmp_path, told).checkpoint_url)
    publish("C", "B")
    run_pipeline(pipeline(tmp_path, told), spark)
    assert titles(tmp_path) == {0: "C", 1: "B"}
    producer.close()


def test_what_cannot_be_is_said(spark, tmp_path):
    with pytest.raises(InputError, match="patch needs a source with stream"):
        pipeline(tmp_path, {"format": "json", "path": "in", "stream": False})
    write_json(tmp_path / "in", "a", {"id": 1})
    with pytest.raises(InputError, match="no patches"):
        run_pipeline(pipeline(tmp_path, {"format": "json", "path": "in", "schema": "id bigint"}), spark)
    told = {"format": "json", "path": "in", "schema": "key string, path string, value string"}
    with pytest.raises(NotFoundError, match="no dataset with a table to patch"):
        run_pipeline(pipeline(tmp_path, told), spark)
