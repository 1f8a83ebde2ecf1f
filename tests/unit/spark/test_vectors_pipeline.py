"""Pipelines carry vectors: arrays of floats in, vector columns of a dataset out."""

import json

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from deltaic.dataset import Dataset
from deltaic.errors import InputError
from deltaic.spark.pipeline_file import make_pipeline
from deltaic.spark.pipeline_run import run_pipeline
from deltaic.table.split.vectors import is_vector

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def write_json(folder, name, *rows):
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_text("\n".join(json.dumps(row) for row in rows))
    (folder / f".{name}").rename(folder / f"{name}.json")


def pipeline(folder, mode, stream=False, engine="embedded", sql="SELECT id, embedding FROM raw", **table):
    schema = "id bigint, embedding array<float>"
    values = {
        "name": "films",
        "source": [{"name": "raw", "format": "json", "path": "in", "schema": schema, "stream": stream}],
        "transform": [{"name": "films", "sql": sql}],
        "table": {
            "dataset": "store",
            "type": "Film",
            "key": ["id"],
            "mode": mode,
            "vectors": {"embedding": 3},
            **table,
        },
        "publish": {"engine": engine},
    }
    return make_pipeline(values, str(folder))


def published(folder):
    dataset = Dataset.open(folder / "store")
    consumer = dataset.consumer()
    consumer.refresh()
    rows = pa.table(consumer.state["Film"].to_arrow()).sort_by("id")
    assert rows.equals(dataset.table.to_arrow().sort_by("id"))
    assert is_vector(rows.schema.field("embedding"))
    return dict(zip(rows["id"].to_pylist(), rows["embedding"].to_pylist(), strict=True))


@pytest.mark.parametrize("engine", ["embedded", "spark"])
def test_a_merge_refreshes_vectors(spark, tmp_path, engine):
    write_json(tmp_path / "in", "a", {"id": 1, "embedding": [1, 2, 3]}, {"id": 2, "embedding": None})
    run_pipeline(pipeline(tmp_path, "merge", stream=True, engine=engine), spark)
    assert published(tmp_path) == {1: [1, 2, 3], 2: None}
    write_json(tmp_path / "in", "b", {"id": 2, "embedding": [0.1, 0, 0]}, {"id": 3, "embedding": [3, 3, 3]})
    run_pipeline(pipeline(tmp_path, "merge", stream=True, engine=engine), spark)
    assert published(tmp_path) == {1: [1, 2, 3], 2: [np.float32(0.1), 0, 0], 3: [3, 3, 3]}


def test_a_vector_that_the_rows_get_later_becomes_a_column(spark, tmp_path):
    write_json(tmp_path / "in", "a", {"id": 1, "embedding": [1, 2, 3]})
    run_pipeline(pipeline(tmp_path, "overwrite", sql="SELECT id FROM raw", vectors={}), spark)
    steps = [step.name for step in run_pipeline(pipeline(tmp_path, "overwrite"), spark)]
    assert "column" in steps and published(tmp_path) == {1: [1, 2, 3]}


def test_a_vector_of_another_length_stops_the_run(spark, tmp_path):
    write_json(tmp_path / "in", "a", {"id": 1, "embedding": [1, 2]})
    with pytest.raises(Exception, match="column embedding, row 0: .*it has 2 elements"):
        run_pipeline(pipeline(tmp_path, "overwrite"), spark)


def test_vectors_need_a_key(tmp_path):
    with pytest.raises(InputError, match=r"table\.vectors needs table\.key"):
        pipeline(tmp_path, "overwrite", key=[])
