"""The version of a source is known before it is read; what is no table says so."""

import json
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from deltaic.errors import InputError, NotFoundError
from deltaic.spark.pipeline_file import make_pipeline
from deltaic.spark.pipeline_sources import _files_version, _newest_delta, _newest_iceberg, resume_options
from deltaic.spark.progress import StreamProgress


def test_the_newest_version_of_a_delta_table_is_read_off_its_log(tmp_path):
    log = tmp_path / "_delta_log"
    log.mkdir()
    for name in (f"{9:020d}.json", f"{10:020d}.json", f"{10:020d}.checkpoint.parquet", "_last_checkpoint", "x.crc"):
        (log / name).touch()
    assert _newest_delta(str(tmp_path)) == 10
    # The log of an old table may have been cleaned up to its checkpoint.
    for path in log.glob("*.json"):
        path.unlink()
    assert _newest_delta(str(tmp_path)) == 10


def test_the_current_snapshot_of_an_iceberg_table_is_read_off_its_metadata(tmp_path):
    folder = tmp_path / "metadata"
    folder.mkdir()
    (folder / "version-hint.text").write_text("3")
    (folder / "v3.metadata.json").write_text(json.dumps({"current-snapshot-id": 2**62 + 1}))
    assert _newest_iceberg(str(tmp_path)) == str(2**62 + 1)
    (folder / "v3.metadata.json").write_text(json.dumps({"current-snapshot-id": -1}))
    assert _newest_iceberg(str(tmp_path)) is None


@pytest.mark.parametrize("newest", [_newest_delta, _newest_iceberg])
def test_a_folder_that_is_no_table_says_so(newest, tmp_path):
    with pytest.raises(NotFoundError, match="is no (Delta|Iceberg) table"):
        newest(str(tmp_path))


def test_files_are_told_apart_by_name_size_and_time(tmp_path):
    one = tmp_path / "a b.json"
    one.write_text("1")
    frame = SimpleNamespace(inputFiles=lambda: [one.as_uri()])
    first = _files_version(frame)
    assert first.startswith("1 files ") and _files_version(frame) == first
    one.write_text("22")
    assert _files_version(frame) != first
    assert _files_version(SimpleNamespace(inputFiles=list)) is None


def test_only_a_stream_of_one_table_goes_on_by_itself():
    def pipeline(*formats):
        sources = [{"name": f"s{n}", "format": name, "path": "x", "stream": True} for n, name in enumerate(formats)]
        table = {"dataset": "store", "type": "T", "key": ["id"], "mode": "merge"}
        return make_pipeline({"name": "p", "source": sources, "table": table}, "/folder")

    progress = StreamProgress("p", 4, "q", 4, ({"version": 7},))
    assert resume_options(pipeline("deltaic"), progress) == {"s0": {"startingOffset": '{"version":7}'}}
    for formats in (("json",), ("deltaic", "deltaic")):
        with pytest.raises(InputError, match="is gone"):
            resume_options(pipeline(*formats), progress)
    with pytest.raises(InputError, match="is gone"):
        resume_options(pipeline("deltaic"), StreamProgress("p", 4))
