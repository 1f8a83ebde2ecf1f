"""Streams from tables and into tables: nothing is lost and nothing comes twice, whatever becomes of the checkpoint."""

import shutil
from itertools import chain

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows

from deltaic.errors import InputError, NotFoundError
from deltaic.spark import stream_progress
from deltaic.spark.request import ReadRequest
from deltaic.spark.streaming import ChangesPart, VersionStream
from deltaic.table.rows import Table, WriteOptions

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROWS = pa.schema([("id", pa.int64()), ("title", pa.string())])


def rows(*numbers):
    return [{"id": number, "title": f"film {number}"} for number in numbers]


@pytest.fixture
def source(tmp_path):
    made = Table.create(tmp_path / "source", ROWS, key=("id",))
    made.append(rows(0, 1, 2))
    return made


@pytest.fixture
def target(tmp_path):
    return Table.create(tmp_path / "target", ROWS)


def ids(table):
    return sorted(table.to_arrow(["id"])["id"].to_pylist())


class Copy:
    """A stream from one table to another."""

    def __init__(self, spark, source, target, folder):
        self.spark, self.source, self.target, self.folder = spark, source, target, folder

    def __call__(self, checkpoint="checkpoint", sink=None, **options):
        frame = self.spark.readStream.format("deltaic").options(**options).load(self.source.url)
        query = (
            frame.writeStream.format("deltaic")
            .option("txnAppId", "copy")
            .option("checkpointLocation", str(self.folder / checkpoint))
            .options(**(sink or {}))
            .trigger(availableNow=True)
            .start(self.target.url)
        )
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()


@pytest.fixture
def copy(spark, source, target, tmp_path):
    return Copy(spark, source, target, tmp_path)


def test_first_the_rows_that_are_there_then_what_every_version_adds(copy, source, target):
    copy()
    assert ids(target) == [0, 1, 2]
    source.append(rows(3))
    source.append(rows(4, 5))
    copy()
    assert ids(target) == [0, 1, 2, 3, 4, 5]
    version = target.version
    copy()
    assert target.version == version


def test_a_batch_that_is_sent_again_changes_nothing(copy, source, target, tmp_path):
    copy()
    source.append(rows(3))
    copy()
    for name in ("1", ".1.crc", "0", ".0.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    version = target.version
    copy()
    assert ids(target) == [0, 1, 2, 3] and target.version == version
    live = {add.path for add in target.at().reader.files_of()}
    assert {path.name for path in (tmp_path / "target").glob("*.split")} == live
    source.append(rows(4))
    copy()
    assert ids(target) == [0, 1, 2, 3, 4]


def test_a_lost_checkpoint_is_refused_and_the_stream_goes_on_from_the_log(copy, source, target, tmp_path):
    copy()
    source.append(rows(3))
    copy()
    source.append(rows(4))
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(Exception, match="from another checkpoint"):
        copy()
    assert ids(target) == [0, 1, 2, 3]
    assert {path.name for path in (tmp_path / "target").glob("*.split")} == {
        add.path for add in target.at().reader.files_of()
    }
    progress = stream_progress(target.url, "copy")
    assert (progress.number, progress.batch_id, progress.offsets) == (1, 1, ({"version": 2},))
    copy("new", progress.sink_options(), **progress.source_options())
    assert ids(target) == [0, 1, 2, 3, 4]
    source.append(rows(5))
    # The options stay as they are: the new checkpoint knows better by now.
    copy("new", progress.sink_options(), **progress.source_options())
    assert ids(target) == [0, 1, 2, 3, 4, 5]
    assert stream_progress(target, "copy").number == 3
    with pytest.raises(Exception, match="from another checkpoint"):
        copy("third", progress.sink_options(), **progress.source_options())
    assert ids(target) == [0, 1, 2, 3, 4, 5]


def test_an_older_checkpoint_is_refused(copy, source, target, tmp_path):
    copy()
    source.append(rows(3))
    copy()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "kept")
    source.append(rows(4))
    copy()
    source.append(rows(5))
    copy()
    with pytest.raises(Exception, match="checkpoint is older than the table"):
        copy("kept", startingVersion="1")
    assert ids(target) == [0, 1, 2, 3, 4, 5]


def test_a_stream_without_a_name_and_with_batch_options_is_refused(spark, source, target, tmp_path):
    frame = spark.readStream.format("deltaic").load(source.url)
    for options, complaint in (
        ({}, "needs the option txnAppId"),
        ({"txnAppId": "a", "txnVersion": "1"}, "for batches"),
    ):
        with pytest.raises(Exception, match=complaint):
            query = (
                frame.writeStream.format("deltaic")
                .options(**options)
                .option("checkpointLocation", str(tmp_path / complaint))
                .trigger(availableNow=True)
                .start(target.url)
            )
            query.awaitTermination(60)


def test_rows_that_changed_are_an_error_that_says_what_to_do(copy, source, target):
    copy()
    source.delete("id = 0")
    with pytest.raises(Exception, match="version 2 of .* changed or deleted rows"):
        copy()
    assert ids(target) == [0, 1, 2]


def test_a_compaction_is_no_change(copy, source, target):
    copy()
    source.append(rows(3))
    source.append(rows(4))
    source.compact()
    copy()
    assert ids(target) == [0, 1, 2, 3, 4]


def test_a_column_that_the_table_gains_does_not_stop_a_stream(copy, source, target):
    copy()
    source.add_column("year", pa.int32())
    source.append([{"id": 3, "title": "t", "year": 1970}])
    # A stream that starts anew has the new columns; one with a schema of its own goes on as it was.
    frame = copy.spark.readStream.format("deltaic").schema("id bigint, title string").load(source.url)
    query = (
        frame.writeStream.format("deltaic")
        .options(txnAppId="copy", checkpointLocation=str(copy.folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(target.url)
    )
    assert query.awaitTermination(60)
    assert ids(target) == [0, 1, 2, 3]


def feed(spark, source, folder, name="feed", **options):
    """The change feed as it comes, batch by batch."""
    got = []
    frame = spark.readStream.format("deltaic").options(changes="true", **options).load(source.url)
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: got.append([row.asDict(True) for row in batch.collect()]))
        .option("checkpointLocation", str(folder / name))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return got


def test_the_change_feed_has_rows_before_and_after(spark, source, tmp_path):
    (start,) = feed(spark, source, tmp_path)
    assert sorted((row["_change"], row["_version"], row["id"]) for row in start) == [("insert", 1, n) for n in range(3)]
    assert all(row["before"] is None and row["after"]["title"] == f"film {row['id']}" for row in start)
    source.update({"title": "other"}, "id = 1")
    source.delete("id = 2")
    source.append(rows(9))
    (batch,) = feed(spark, source, tmp_path)
    told = sorted((row["_version"], row["_change"], row["id"]) for row in batch)
    assert told == [(2, "update", 1), (3, "delete", 2), (4, "insert", 9)]
    update = next(row for row in batch if row["_change"] == "update")
    assert (update["before"]["title"], update["after"]["title"]) == ("film 1", "other")
    (one,) = feed(spark, source, tmp_path, "since", startingVersion="3")
    assert sorted(row["_version"] for row in one) == [3, 4]


class TestOffsets:
    """Without Spark: how far a batch goes, and which parts it has."""

    def stream(self, source, **options):
        from deltaic.spark.reading import read_schema
        from deltaic.spark.streaming import changes_schema

        request = ReadRequest.of({"path": source.url, **options})
        schema = changes_schema(request) if request.changes else read_schema(request)[0]
        return VersionStream(request, schema)

    def batches(self, stream, limit):
        """The ids of each batch until nothing is left."""
        at, found = stream.initialOffset(), []
        while (end := stream.latestOffset(at, limit)) != at:
            parts = stream.partitions(at, end)
            found.append(sorted(n for part in parts for b in stream.read(part) for n in b.column("id").to_pylist()))
            at = end
        return found

    def test_all_at_once(self, source):
        source.append(rows(3))
        assert self.batches(self.stream(source), ReadAllAvailable()) == [[0, 1, 2, 3]]

    def test_the_rows_at_the_start_are_limited_too(self, tmp_path):
        source = Table.create(tmp_path / "many", ROWS, write=WriteOptions(split_rows=2))
        source.append(rows(*range(9)))
        source.append(rows(9, 10))
        stream = self.stream(source)
        assert stream.initialOffset() == {"version": -1, "splits": 0}
        found = self.batches(stream, ReadMaxRows(4))
        assert sorted(chain(*found)) == list(range(11)) and max(map(len, found)) <= 4 and len(found) == 3
        assert self.batches(stream, ReadMaxRows(1))[0], "a split is never cut, and a batch is never empty"

    def test_rows_at_the_start_are_of_one_version_whatever_comes_meanwhile(self, tmp_path):
        source = Table.create(tmp_path / "many", ROWS, write=WriteOptions(split_rows=2))
        source.append(rows(*range(6)))
        stream = self.stream(source)
        first = stream.latestOffset(stream.initialOffset(), ReadMaxRows(2))
        assert first == {"version": 1, "splits": 1}
        source.append(rows(6))
        source.compact()
        second = stream.latestOffset(first, ReadMaxRows(100))
        assert second == {"version": 1}
        given = []
        for start, end in ((stream.initialOffset(), first), (first, second), (second, {"version": 3})):
            for part in stream.partitions(start, end):
                given += [n for batch in stream.read(part) for n in batch.column("id").to_pylist()]
        assert sorted(given) == list(range(7))

    def test_versions_per_batch(self, source):
        for number in range(3, 8):
            source.append(rows(number))
        stream = self.stream(source, startingVersion="1")
        assert self.batches(stream, ReadMaxFiles(2)) == [[0, 1, 2, 3], [4, 5], [6, 7]]
        assert self.batches(stream, ReadMaxRows(3)) == [[0, 1, 2], [3, 4, 5], [6, 7]]
        limits = self.stream(source, maxVersionsPerTrigger="2").getDefaultReadLimit()
        assert isinstance(limits, ReadMaxFiles) and limits.max_files == 2

    def test_the_starting_version_is_the_first_that_is_given(self, source):
        source.append(rows(3))
        assert self.batches(self.stream(source, startingVersion="2"), ReadAllAvailable()) == [[3]]
        assert self.batches(self.stream(source, startingVersion="0"), ReadAllAvailable()) == [[0, 1, 2, 3]]
        assert self.batches(self.stream(source, startingVersion="3"), ReadAllAvailable()) == []

    def test_available_now_does_not_go_beyond_what_was_there(self, source):
        stream = self.stream(source)
        stream.prepareForTriggerAvailableNow()
        source.append(rows(3))
        assert self.batches(stream, ReadAllAvailable()) == [[0, 1, 2]]

    def test_a_predicate_filters_and_columns_choose(self, source):
        stream = self.stream(source, where="id > 0", columns="id")
        assert self.batches(stream, ReadAllAvailable()) == [[1, 2]]

    def test_a_history_that_is_gone_is_said(self, source):
        for number in range(3, 6):
            source.append(rows(number))
        source.files.truncate(dry_run=False)
        stream = self.stream(source, startingVersion="1")
        with pytest.raises(NotFoundError, match="behind the table's history"):
            stream.partitions({"version": 0}, {"version": source.version})

    def test_the_changes_of_many_small_versions_are_one_task(self, source):
        for number in range(3, 9):
            source.append(rows(number))
        stream = self.stream(source, changes="true")
        parts = stream.partitions({"version": 1}, {"version": source.version})
        assert len(parts) == 1 and isinstance(parts[0], ChangesPart)
        small = self.stream(source, changes="true", bytesPerTask="1")
        assert len(small.partitions({"version": 1}, {"version": source.version})) == 6
        for each in (stream, small):
            assert sorted(chain(*self.batches(each, ReadMaxFiles(3)))) == list(range(9))

    @pytest.mark.parametrize(
        "options",
        [{"version": "1"}, {"limit": "1"}, {"query": "x"}, {"changes": "true", "where": "id = 1"}],
    )
    def test_what_a_stream_has_not_is_refused(self, source, options):
        with pytest.raises(InputError):
            self.stream(source, **options)

    @pytest.mark.parametrize("offset", ["x", "[]", "{}", '{"version":"a"}', '{"version":1,"splits":-1}'])
    def test_an_offset_that_is_none_is_refused(self, source, offset):
        with pytest.raises(InputError, match="is no offset"):
            self.stream(source, startingOffset=offset).initialOffset()
