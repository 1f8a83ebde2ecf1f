"""The change feed in Spark: every version of a chain is told once, forth and back, as rows or as wire bytes."""

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from deltaic.dataset.dataset import Dataset
from deltaic.errors import InputError
from deltaic.producer import count_up
from deltaic.schema.model import Model
from deltaic.spark.feed_source import FeedReader, FeedRequest, FeedStream, StepsPart, feed_schema
from deltaic.wire.patches import Operation, PatchBatch

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

MODEL = "Movie @PrimaryKey(id) { int id; string title; double score; }"


@pytest.fixture
def dataset(tmp_path):
    return Dataset.create(tmp_path / "movies", Model.parse(MODEL))


@pytest.fixture
def publish(dataset):
    producer = dataset.producer(versions=count_up)
    yield lambda **titles: producer.publish(
        tables={"Movie": [{"id": int(name[1:]), "title": title, "score": 1.0} for name, title in titles.items()]}
    )
    producer.close()


class Follow:
    """A stream of the feed into a folder of JSON, with a checkpoint."""

    def __init__(self, spark, url, folder):
        self.spark, self.url, self.folder = spark, url, folder

    def __call__(self, feed="patches", **options):
        """Take what is there; gives everything that was told so far."""
        frame = self.spark.readStream.format("deltaic").option("feed", feed).options(**options).load(self.url)
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self.folder / "told"))
        )
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()
        rows = self.spark.read.parquet(str(self.folder / "told")).collect()
        return sorted((row.asDict() for row in rows), key=str)


@pytest.fixture
def follow(spark, dataset, tmp_path):
    return Follow(spark, dataset.store.url, tmp_path)


def told(rows):
    return [(row["from"], row["to"], row["op"], row["key"], row["path"], row["value"]) for row in rows]


def test_every_version_is_told_once_over_restarts(follow, publish):
    publish(m1="A", m2="B")
    publish(m1="A2", m2="B")
    publish(m1="A2")
    first = follow(fromVersion=1)
    assert told(first) == [(1, 2, "set", "1", "title", '"A2"'), (2, 3, "remove", "2", None, None)]
    assert follow(fromVersion=1) == first
    publish(m1="A2", m3="C")
    (new,) = [row for row in follow(fromVersion=1, maxVersionsPerTrigger=1) if row not in first]
    assert told([new])[0][:4] == (3, 4, "put", "3") and '"title": "C"' in new["value"]


def test_a_stream_begins_with_what_changes_after_its_start_and_tells_the_way_back(follow, dataset, publish):
    publish(m1="A")
    publish(m1="B")
    follow()
    dataset.announcements.pin(1)
    assert told(follow()) == [(2, 1, "set", "1", "title", '"A"')]
    dataset.announcements.unpin()
    assert sorted(told(follow())) == [(1, 2, "set", "1", "title", '"B"'), (2, 1, "set", "1", "title", '"A"')]


def test_wire_gives_a_frame_for_every_step(spark, dataset, publish):
    publish(m1="A")
    publish(m1="B")
    publish(m1="C")
    frame = spark.read.format("deltaic").options(feed="wire", fromVersion=1, before=True).load(dataset.store.url)
    rows = sorted(frame.collect(), key=lambda row: row["to"])
    assert [(row["from"], row["to"]) for row in rows] == [(1, 2), (2, 3)]
    found = [PatchBatch.from_bytes(bytes(row["patches"])) for row in rows]
    assert [[(one.operation, one.value, one.previous) for one in batch] for batch in found] == [
        [(Operation.SET, "B", "A")],
        [(Operation.SET, "C", "B")],
    ]


def test_offsets_are_versions_and_a_limit_counts_steps(dataset, publish):
    for title in "ABCD":
        publish(m1=title)
    stream = FeedStream(FeedRequest(dataset.store.url, "patches", from_version=1), None)
    assert stream.initialOffset() == {"version": 1}
    assert stream.latestOffset({"version": 1}, ReadAllAvailable()) == {"version": 4}
    assert stream.latestOffset({"version": 1}, ReadMaxFiles(2)) == {"version": 3}
    assert stream.latestOffset({"version": 4}, ReadMaxFiles(2)) == {"version": 4}
    stream.prepareForTriggerAvailableNow()
    publish(m1="E")
    assert stream.latestOffset({"version": 3}, ReadAllAvailable()) == {"version": 4}
    assert stream.reportLatestOffset() == {"version": 5}
    assert FeedStream(FeedRequest(dataset.store.url, "patches"), None).initialOffset() == {"version": 5}
    (part,) = stream.partitions({"version": 1}, {"version": 4})
    assert isinstance(part, StepsPart) and (part.from_version, part.to_version) == (1, 4)
    assert stream.partitions({"version": 4}, {"version": 4}) == []


def test_the_batches_of_a_task_have_the_schema_that_was_promised(dataset, publish):
    publish(m1="A")
    publish(m1="B")
    for form in ("patches", "wire"):
        request = FeedRequest.of({"path": dataset.store.url, "feed": form, "fromVersion": "1"})
        schema = feed_schema(request)
        (batch,) = FeedReader(request, schema).read(StepsPart(1, 2))
        assert batch.schema.names == schema.names and batch.num_rows == 1


def test_what_cannot_be_asked_for_is_said():
    with pytest.raises(InputError, match="feed: 'rows'"):
        FeedRequest.of({"path": "x", "feed": "rows"})
    with pytest.raises(InputError, match="where are unknown"):
        FeedRequest.of({"path": "x", "feed": "patches", "where": "id > 3"})
    for name, value in (
        ("fromVersion", "x"),
        ("before", "maybe"),
        ("maxVersionsPerTrigger", "0"),
        ("startingOffset", "7"),
    ):
        with pytest.raises(InputError, match=name):
            FeedRequest.of({"path": "x", "feed": "patches", name: value})
    assert FeedRequest.of({"path": "/x", "feed": "wire", "startingOffset": '{"version": 7}', "types": "A, B"}) == (
        FeedRequest("/x", "wire", 7, types=("A", "B"))
    )
    with pytest.raises(InputError, match="fromVersion"):
        FeedReader(FeedRequest("x", "patches"), None)
    with pytest.raises(InputError, match="toVersion is for batches"):
        FeedStream(FeedRequest("x", "patches", to_version=3), None)
