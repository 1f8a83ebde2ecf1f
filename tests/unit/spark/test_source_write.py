"""Tables written by Spark: one commit or none, whatever fails on the way."""

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import deltaic.spark
from deltaic.errors import CommitConflictError, CommitUnknownError, InputError
from deltaic.spark import writing
from deltaic.spark.request import WriteRequest
from deltaic.spark.writing import BatchWriter
from deltaic.table.rows import Table

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

FILMS = pa.schema([("id", pa.int64()), ("title", pa.string()), ("year", pa.int32())])


@pytest.fixture
def table(tmp_path):
    made = Table.create(tmp_path / "films", FILMS, partition_by=("year",))
    made.append([{"id": number, "title": f"film {number}", "year": 1970 + number % 3} for number in range(9)])
    return made


def frame(spark, *rows):
    return spark.createDataFrame(list(rows), "id bigint, title string, year int")


def save(rows, table, mode="append", **options):
    rows.write.format("deltaic").mode(mode).options(**options).save(table.url)


def ids(table):
    return sorted(table.to_arrow(["id"])["id"].to_pylist())


def splits(table, tmp_path):
    return {str(path.relative_to(tmp_path / "films")) for path in (tmp_path / "films").rglob("*.split")}


def live(table):
    return {add.path for add in table.at().reader.files_of()}


def test_rows_of_several_tasks_are_one_version(spark, table):
    before = table.version
    save(spark.range(100, 140).selectExpr("id", "'new' AS title", "2000 AS year").repartition(3), table, note="more")
    assert table.version == before + 1 and ids(table) == [*range(9), *range(100, 140)]
    entry = next(iter(table.history(limit=1)))
    assert (entry.note, entry.records_added) == ("more", 40)


def test_columns_are_matched_by_name_and_missing_ones_are_null(spark, table):
    save(spark.createDataFrame([(1975, 50)], "year int, id bigint"), table)
    assert table.to_arrow(where="id = 50").to_pylist() == [{"id": 50, "title": None, "year": 1975}]


def test_overwrite_replaces_all_rows(spark, table):
    save(frame(spark, (1, "one", 1970)), table, "overwrite")
    assert ids(table) == [1]
    assert table.count(version=1) == 9


def test_overwrite_by_no_rows_empties_the_table(spark, table):
    save(frame(spark, (1, "one", 1970)).filter("id > 1"), table, "overwrite")
    assert ids(table) == []


def test_replace_where_replaces_what_matches_and_takes_nothing_else(spark, table):
    save(frame(spark, (100, "x", 1971)), table, "overwrite", replaceWhere="year = 1971")
    assert ids(table) == [0, 2, 3, 5, 6, 8, 100]
    with pytest.raises(Exception, match="does not match"):
        save(frame(spark, (101, "x", 1972)), table, "overwrite", replaceWhere="year = 1971")
    assert ids(table) == [0, 2, 3, 5, 6, 8, 100]


def test_dynamic_overwrite_replaces_the_partitions_that_the_rows_are_in(spark, table):
    save(frame(spark, (100, "x", 1971), (101, "y", 1999)), table, "overwrite", partitionOverwriteMode="dynamic")
    assert ids(table) == [0, 2, 3, 5, 6, 8, 100, 101]


def test_a_transaction_is_done_once(spark, table, tmp_path):
    for _ in range(2):
        save(frame(spark, (50, "x", 1970)), table, txnAppId="nightly", txnVersion="3")
    save(frame(spark, (51, "x", 1970)), table, txnAppId="nightly", txnVersion="2")
    assert ids(table) == [*range(9), 50]
    assert splits(table, tmp_path) == live(table), "the splits of the second time are gone"


def test_a_table_is_made_if_that_is_asked_for(spark, tmp_path):
    made = frame(spark, (1, "one", 1970))
    with pytest.raises(Exception, match="there is no table at"):
        made.write.format("deltaic").mode("append").save(str(tmp_path / "new"))
    deltaic.spark.write(made, tmp_path / "new", create=True, key=["id"], partition_by=["year"], user={"who": "me"})
    table = Table.open(tmp_path / "new")
    assert (table.key, table.partition_by, ids(table)) == (("id",), ("year",), [1])
    assert next(iter(table.history(limit=1))).user == {"who": "me"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"replaceWhere": "id = 1"}, "are for mode\\('overwrite'\\)"),
        ({"txnAppId": "a"}, "needs txnVersion"),
        ({"secretKey": "x"}, "secrets are no options"),
    ],
)
def test_options_that_make_no_sense_are_refused(spark, table, options, complaint):
    with pytest.raises(Exception, match=complaint):
        save(frame(spark, (1, "one", 1970)), table, **options)
    assert table.version == 1


def test_a_value_that_the_column_cannot_hold_is_refused_with_row_and_column(spark, table, tmp_path):
    with pytest.raises(Exception, match="column year, row 0: 4000000000"):
        save(spark.sql("SELECT 1L AS id, 't' AS title, 4000000000L AS year"), table)
    with pytest.raises(Exception, match="'director' is no column of the table"):
        save(spark.sql("SELECT 1L AS id, 'x' AS director"), table)
    assert table.version == 1


def test_a_task_that_fails_leaves_no_rows_and_no_files(spark, table, tmp_path):
    rows = spark.range(0, 4, 1, 4).selectExpr(
        "id", "IF(id = 3, raise_error('no luck'), 'x') AS title", "CAST(1970 AS INT) AS year"
    )
    with pytest.raises(Exception, match="no luck"):
        save(rows, table)
    assert table.version == 1 and ids(table) == list(range(9))
    # Those of tasks that were done are removed by abort; one that was at work when the job ended may be left.
    assert len(splits(table, tmp_path) - live(table)) <= 1


class TestAbort:
    """`abort` comes in another process than `commit`, and does not know why."""

    @pytest.fixture
    def writer(self, spark, table):
        schema = frame(spark, (1, "one", 1970)).schema
        return BatchWriter(WriteRequest.of({"path": table.url}), schema, False)

    def written(self, writer, number=70):
        batch = pa.RecordBatch.from_pylist([{"id": number, "title": "t", "year": 1970}], schema=FILMS)
        return writer.write(iter([batch]))

    def test_after_a_commit_that_landed_nothing_is_removed(self, writer, table, tmp_path, monkeypatch):
        message = self.written(writer)
        append = Table.append

        def lost(self, *arguments, **terms):
            append(self, *arguments, **terms)
            raise CommitUnknownError("the answer got lost")

        monkeypatch.setattr(Table, "append", lost)
        with pytest.raises(CommitUnknownError):
            writer.commit([message])
        writer.abort([message])
        assert ids(table)[-1] == 70 and live(table) <= splits(table, tmp_path)

    def test_after_an_unknown_outcome_nothing_is_removed(self, writer, table, tmp_path, monkeypatch):
        message = self.written(writer)
        append = Table.append

        def silent(self, *_arguments, **_terms):
            raise CommitUnknownError("no answer")

        monkeypatch.setattr(Table, "append", silent)
        with pytest.raises(CommitUnknownError):
            writer.commit([message])
        writer.abort([message])
        monkeypatch.setattr(Table, "append", append)
        # The request was only slow, and arrives now.
        writer.commit([message])
        assert ids(table)[-1] == 70 and table.to_arrow().num_rows == 10

    def test_after_a_refusal_what_was_written_is_removed(self, writer, table, tmp_path, monkeypatch):
        message = self.written(writer)

        def refuse(self, *_arguments, **_terms):
            raise CommitConflictError("others were first")

        monkeypatch.setattr(Table, "append", refuse)
        with pytest.raises(CommitConflictError):
            writer.commit([message])
        assert splits(table, tmp_path) == live(table)

    def test_with_a_failed_task_what_the_others_wrote_is_removed(self, writer, table, tmp_path):
        message = self.written(writer)
        writer.abort([None, message])
        assert splits(table, tmp_path) == live(table)

    def test_what_landed_and_was_compacted_away_since_is_not_removed(self, writer, table, tmp_path):
        message = self.written(writer)
        writer.commit([message])
        table.delete("id = 70")
        writer.abort([None, message])
        assert table.count(version=2) == 10 and table.to_arrow(version=2).num_rows == 10

    def test_columns_that_changed_while_tasks_wrote_are_a_conflict(self, writer, table, tmp_path, monkeypatch):
        message = self.written(writer)
        table.add_column("director", pa.string())
        monkeypatch.setattr("deltaic.table.rows.filetable.RowFiles.pause", lambda *_: None)
        with pytest.raises(CommitConflictError, match="changed since"):
            writer.commit([message])
        later = self.written(writer, 71)
        with pytest.raises(CommitConflictError, match="changed while tasks wrote"):
            writer.commit([message, later])
        assert ids(table) == list(range(9))


def test_small_batches_are_put_together():
    schema = pa.schema([("a", pa.int64())])
    batches = [pa.RecordBatch.from_pylist([{"a": number}], schema=schema) for number in range(10)]
    found = list(writing.gather(iter(batches), rows=4))
    assert [table.num_rows for table in found] == [4, 4, 2]
    assert pa.concat_tables(found)["a"].to_pylist() == list(range(10))


def test_a_time_that_is_none_is_refused():
    from deltaic.spark.columns import for_table

    table = pa.schema([("t", pa.time32("s"))])
    good = for_table(pa.RecordBatch.from_pydict({"t": pa.array([0, 86_399, None], pa.int32())}), table)
    assert good.schema.field("t").type == pa.time32("s")
    for bad in (-1, 86_400):
        with pytest.raises(InputError, match=f"column t: {bad} s is no time of a day"):
            for_table(pa.RecordBatch.from_pydict({"t": pa.array([bad], pa.int32())}), table)
