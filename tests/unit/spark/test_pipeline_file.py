"""The file of a pipeline: everything in it is known, or it is refused with its place."""

import pytest

pytest.importorskip("pyspark")

from deltaic.errors import InputError, NotFoundError
from deltaic.spark.pipeline_file import make_pipeline, read_pipeline

SMALL = {
    "name": "films",
    "source": [{"name": "raw", "format": "json", "path": "in"}],
    "table": {"dataset": "store", "type": "Film", "key": ["id"]},
}


def changed(**values):
    return {**SMALL, **values}


def test_paths_are_relative_to_the_file(tmp_path):
    (tmp_path / "films.toml").write_text(
        'name = "films"\n[[source]]\nname = "raw"\nformat = "json"\npath = "in"\n'
        '[table]\ndataset = "store"\ntype = "Film"\nkey = ["id"]\n'
    )
    pipeline = read_pipeline(tmp_path / "films.toml")
    assert pipeline.dataset_url == str(tmp_path / "store")
    assert pipeline.place("s3://bucket/x") == "s3://bucket/x" and pipeline.place("/abs") == "/abs"
    assert pipeline.checkpoint_url == str(tmp_path / "store" / "checkpoints" / "films")
    assert pipeline.written == "raw" and pipeline.publish is None and pipeline.table.mode == "overwrite"


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (changed(soruce=[]), "unknown field `soruce`"),
        (changed(source=[]), "no \\[\\[source\\]\\]"),
        (changed(name="a b"), "name 'a b'"),
        (changed(source=[{"name": "a-b", "format": "json"}]), "cannot be a name in SQL"),
        (changed(source=[{"name": "a", "format": "json", "formta": "x"}]), "unknown field `formta`"),
        (changed(source=SMALL["source"] * 2), "names of their own"),
        (changed(transform=[{"name": "t"}]), "sql or python"),
        (changed(transform=[{"name": "t", "sql": "x", "python": "y:z"}]), "sql or python"),
        (changed(transform=[{"name": "t", "python": "f"}]), "'file.py:function'"),
        (changed(expect=[{"name": "e", "that": "x", "otherwise": "pray"}]), "pray"),
        (changed(table={"dataset": "s", "type": "T", "mode": "merge"}), "needs table.key"),
        (changed(table={"dataset": "s", "type": "T", "mode": "append"}), "needs a source with stream"),
        (changed(table={"dataset": "s", "type": "T", "rows": "nope"}), "table.rows is 'nope'"),
        (changed(source=[{"name": "a", "format": "json", "options": {"secret.key": "x"}}]), "no secrets here"),
        (changed(source=[{"name": "a", "format": "json", "path": "x", "table": "y"}]), "not both"),
        (changed(source=[{"name": "a", "format": "json", "stream": True}]), "a stream has only what is new"),
    ],
)
def test_what_cannot_be_is_refused(values, complaint):
    with pytest.raises(InputError, match=complaint):
        make_pipeline(values, "/folder")


def test_no_file_and_no_toml_are_said(tmp_path):
    with pytest.raises(NotFoundError, match="no file"):
        read_pipeline(tmp_path / "nothing.toml")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(InputError, match="bad.toml"):
        read_pipeline(tmp_path / "bad.toml")


def test_a_checkpoint_has_to_be_where_spark_can_write():
    remote = make_pipeline(changed(table={"dataset": "s3://bucket/films", "type": "Film"}), "/folder")
    with pytest.raises(InputError, match="say where Spark may keep its checkpoint"):
        _ = remote.checkpoint_url


def test_the_digest_changes_with_what_is_done_to_the_rows(tmp_path):
    file = tmp_path / "clean.py"
    file.write_text("def clean(spark, frames): return frames['raw']")
    one = make_pipeline(changed(transform=[{"name": "t", "python": "clean.py:clean"}]), str(tmp_path))
    before = one.digest
    file.write_text("def clean(spark, frames): return frames['raw'].limit(1)")
    assert one.digest != before
    assert make_pipeline(changed(publish={}), "/x").digest == make_pipeline(SMALL, "/y").digest
