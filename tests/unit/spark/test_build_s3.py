"""A build on an object store: what tasks exchange and stage goes through it, and no credentials travel with the calls.

The calls run in this process, each copied as Spark would send it; the store is a real S3 protocol.
"""

import pickle

import pytest

from deltaic.spark.build import _shared
from deltaic.spark.build_engine import Sizes, SparkEngine
from deltaic.spark.build_jobs import InlineJobs
from deltaic.spark.build_sources import FileSplit, Input
from deltaic.storage.urls import open_store
from deltaic.testing.stores import s3_server
from tests.unit.spark.build_chains import embedded_blobs, producer, write_files

pytest.importorskip("moto", reason="no moto: pip install 'moto[server,s3]'")

SECRET, GIVEN = "a-secret-that-stays-here", "another-one-that-stays-here"
TINY = Sizes(sorted_rows=1, range_bytes=1, group_bytes=1, restore_bytes=1)


class SentJobs(InlineJobs):
    """Runs copies of calls that went through a pickle, and keeps what was sent."""

    def __init__(self, tasks):
        super().__init__(tasks)
        self.sent = []

    def run(self, what, calls):
        self.sent += [pickle.dumps(call) for call in calls]
        return super().run(what, [pickle.loads(sent) for sent in self.sent[len(self.sent) - len(calls) :]])


@pytest.fixture
def bucket(monkeypatch):
    with s3_server() as server:
        server.store("chain")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        options = {"endpoint": server.endpoint, "region": "us-east-1", "allow_http": True}
        # What the caller hands over stays in this process; the tasks find theirs in the environment.
        yield open_store("s3://chain/movies", options={**options, "access_key_id": "me", "secret_access_key": GIVEN})


def test_a_history_on_s3_has_the_same_bytes_leaves_no_scratch_and_sends_no_secret(bucket, tmp_path):
    jobs = SentJobs(2)
    with producer(bucket) as built:
        for version in range(2):
            splits = {
                name: tuple(FileSplit.of(path) for path in paths)
                for name, paths in write_files(tmp_path, version).items()
            }
            built.build(SparkEngine(jobs, Input((), tuple(splits.items())), _shared(built), sizes=TINY))
        keys = [info.key for info in built.store.list()]
        found = {
            key: built.store.get(key).data for key in keys if key.startswith(("snapshot", "delta", "reverse", "header"))
        }
    assert found == embedded_blobs(tmp_path / "embedded", 2)
    assert [key for key in keys if key.startswith("staging/")] == []
    assert len(jobs.sent) > 40
    assert not any(SECRET.encode() in sent or GIVEN.encode() in sent for sent in jobs.sent)
