"""A merge by tasks gives the rows that a merge in one process gives, and brings none of them to the driver."""

import os

import numpy as np
import pyarrow as pa
import pytest

from deltaic.errors import InputError
from deltaic.spark.merging import merge_frame
from deltaic.table.retention import SCRATCH
from deltaic.table.rows import Table
from deltaic.table.rows.upserting import Delete, Update

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("title", pa.string()), ("score", pa.float64())])


def rows(numbers, tag):
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "part": [f"p{number % 3}" for number in numbers],
            "title": [f"{tag} {number}" for number in numbers],
            "score": np.asarray(numbers, np.float64) / 7,
        }
    )


def table_of(folder, *, partition_by=("part",), on=("id", "part")):
    table = Table.create(folder, SCHEMA, key=on, partition_by=partition_by)
    for first in range(0, 4000, 1000):
        table.append(rows(range(first, first + 1000), "old"))
    return table


def content(table):
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("partition_by", [(), ("part",)])
def test_tasks_merge_as_one_process_does(spark, tmp_path, partition_by):
    source = rows([*range(500, 700), *range(3900, 4300)], "new")
    alone = table_of(tmp_path / "alone", partition_by=partition_by)
    expected = alone.merge(source)
    table = table_of(tmp_path / "table", partition_by=partition_by)
    told = []
    done = merge_frame(
        spark.createDataFrame(source), table, few_bytes=0, tasks=3, note="n", progress=lambda *each: told.append(each)
    )
    assert content(table) == content(alone)
    assert done.rows == expected.rows == 600 and done.version == 5
    assert [what for what, _, _ in told] == ["stage rows", "merge files", "insert rows"]
    assert not (tmp_path / "table" / SCRATCH).exists() or not any((tmp_path / "table" / SCRATCH).iterdir())


def test_splits_without_a_key_of_the_source_stay_as_they_are(spark, tmp_path):
    table = table_of(tmp_path / "table", partition_by=())
    before = {add.path for add in table.files.snapshot().files()}
    merge_frame(spark.createDataFrame(rows(range(100, 5000, 10_000), "new")), table, few_bytes=0)
    after = {add.path for add in table.files.snapshot().files()}
    assert len(before - after) == 1 and len(after - before) == 1


def test_clauses_are_those_of_a_merge(spark, tmp_path):
    source = rows(range(0, 5000, 3), "new")
    clauses = {
        "matched": [Delete("source.score < 100"), Update()],
        "not_matched_by_source": [Update({"title": "gone"}, "target.score > 500")],
    }
    alone, table = table_of(tmp_path / "alone"), table_of(tmp_path / "table")
    alone.merge(source, **clauses)
    merge_frame(spark.createDataFrame(source), table, few_bytes=0, **clauses)
    assert content(table) == content(alone)


def test_few_rows_are_merged_at_once_and_none_at_all_is_a_commit_of_nothing(spark, tmp_path):
    table = table_of(tmp_path / "table")
    told = []
    merge_frame(spark.createDataFrame(rows([7], "new")), table, progress=lambda *each: told.append(each[0]))
    assert told == ["stage rows"] and content(table)[7]["title"] == "new 7"
    empty = spark.createDataFrame(rows([7], "new")).where("id < 0")
    assert merge_frame(empty, table, transaction=("app", 1)).version == 6
    assert merge_frame(empty, table, transaction=("app", 1)).repeated


def test_a_key_that_stands_twice_or_is_null_is_refused(spark, tmp_path):
    table = table_of(tmp_path / "table")
    with pytest.raises(InputError, match="has the key of a row before it: id=8"):
        merge_frame(spark.createDataFrame(rows([7, 8, 8], "new")), table, few_bytes=0)
    frame = spark.createDataFrame(rows([7], "new")).selectExpr("CAST(NULL AS LONG) AS id", "part", "title", "score")
    with pytest.raises(InputError, match="a row without a key cannot be merged"):
        merge_frame(frame, table, few_bytes=0)
    with pytest.raises(InputError, match="the rows have no id"):
        merge_frame(spark.createDataFrame(rows([7], "new")).drop("id"), table)
    assert table.version == 4


def test_a_commit_in_between_is_merged_with_and_not_lost(spark, tmp_path):
    table, other = table_of(tmp_path / "table"), Table.open(tmp_path / "table")
    came = []

    def progress(what, tasks, size):
        if what == "insert rows" and not came:
            came.append(other.merge(rows([5, 4100], "other")))

    merge_frame(spark.createDataFrame(rows([6, 4100, 4101], "new")), table, few_bytes=0, progress=progress)
    found = {row["id"]: row["title"] for row in content(table)}
    assert (found[5], found[6], found[4100], found[4101]) == ("other 5", "new 6", "new 4100", "new 4101")
    assert len(found) == 4002


def test_hardly_a_byte_of_the_rows_reaches_the_driver(spark, tmp_path):
    table = Table.create(tmp_path / "table", SCHEMA, key=("id",))
    table.append(rows(range(0, 100_000), "old"))
    source = rows(range(50_000, 150_000), "new")
    received = []
    merge_frame(
        spark.createDataFrame(source), table, few_bytes=0, progress=lambda what, tasks, size: received.append(size)
    )
    assert sum(received) < source.nbytes / 100
    assert table.count() == 150_000


def test_a_purge_takes_what_a_killed_merge_left(spark, tmp_path):
    table = table_of(tmp_path / "table")
    left = tmp_path / "table" / SCRATCH / "0123" / "abcd"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"rows")
    assert table.purge(dry_run=False).files == () and left.exists(), "it may be in use"
    os.utime(left, (0, 0))
    assert table.purge(dry_run=False).files == (f"{SCRATCH}/0123/abcd",) and not left.exists()
