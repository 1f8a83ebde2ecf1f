"""Vector columns through the data source: `array<float>` in Spark, vectors in the table."""

import struct

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import deltaic.spark
from deltaic.errors import InputError
from deltaic.spark.columns import with_vectors
from deltaic.spark.request import WriteRequest
from deltaic.table.rows import Table, vector_field
from deltaic.table.split.vectors import is_vector

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SCHEMA = pa.schema([pa.field("id", pa.int64()), ("title", pa.string()), vector_field("embedding", 3)])


@pytest.fixture
def table(tmp_path):
    made = Table.create(tmp_path / "films", SCHEMA, key=("id",))
    made.append({"id": [1, 2], "title": ["a", "b"], "embedding": np.array([[1, 2, 3], [0.1, -0.0, 5]], np.float32)})
    made.append([{"id": 3, "title": "c", "embedding": None}])
    return made


def rows(spark, *given):
    return spark.createDataFrame(list(given), "id bigint, embedding array<float>")


def vectors(table):
    found = table.to_arrow(["id", "embedding"]).sort_by("id")
    return dict(zip(found["id"].to_pylist(), found["embedding"].to_pylist(), strict=True))


def test_spark_reads_vectors_as_arrays_of_floats(spark, table):
    frame = deltaic.spark.read(spark, table.url)
    assert frame.schema["embedding"].dataType.simpleString() == "array<float>"
    found = {row.id: row.embedding for row in frame.collect()}
    assert found[1] == [1.0, 2.0, 3.0] and found[3] is None
    assert struct.pack("<3f", *found[2]) == np.array([0.1, -0.0, 5], np.float32).tobytes()
    assert deltaic.spark.read(spark, table.url, columns=["embedding"], where="id = 1").collect()[0][0] == [1, 2, 3]


def test_spark_writes_vectors_and_gets_them_back(spark, table):
    written = rows(spark, (7, [1.5, float("inf"), -2.0]), (8, None)).repartition(2)
    deltaic.spark.write(written, table.url)
    found = vectors(table)
    assert found[7] == [1.5, float("inf"), -2.0] and found[8] is None and found[1] == [1, 2, 3]
    assert is_vector(table.schema.field("embedding"))


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([1.0, 2.0], "column embedding, row 1: .*it has 2 elements, the column's lists have 3"),
        ([1.0, 2.0, 3.0, 4.0], "column embedding, row 1: .*it has 4 elements, the column's lists have 3"),
        ([], "column embedding, row 1: .*it has 0 elements"),
        ([1.0, None, 2.0], "column embedding, row 1: .*an element of the vector is null"),
    ],
)
def test_a_vector_of_another_length_is_refused_with_column_and_row(spark, table, vector, message):
    before = table.version
    with pytest.raises(Exception, match=message):
        deltaic.spark.write(rows(spark, (7, [1.0, 2.0, 3.0]), (8, vector)).coalesce(1), table.url)
    assert table.version == before


def test_doubles_are_taken_only_if_they_are_floats(spark, table):
    frame = spark.createDataFrame([(7, [0.5, 1.0, 2.0])], "id bigint, embedding array<double>")
    deltaic.spark.write(frame, table.url)
    assert vectors(table)[7] == [0.5, 1, 2]
    with pytest.raises(Exception, match="column embedding, row 0: .*would be another value"):
        deltaic.spark.write(
            spark.createDataFrame([(8, [0.1, 1.0, 2.0])], "id bigint, embedding array<double>"), table.url
        )


def test_a_table_that_spark_makes_can_have_vectors(spark, tmp_path):
    url = str(tmp_path / "made")
    deltaic.spark.write(rows(spark, (1, [1.0, 2.0])), url, create=True, key=["id"], vectors={"embedding": 2})
    made = Table.open(url)
    assert is_vector(made.schema.field("embedding")) and vectors(made) == {1: [1, 2]}


def test_columns_that_cannot_be_vectors_are_refused():
    lists = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float64()))])
    with pytest.raises(InputError, match="column v is a .*: a vector is an array<float>"):
        with_vectors(lists, {"v": 3})
    with pytest.raises(InputError, match="no column 'w' to be a vector"):
        with_vectors(lists, {"w": 3})
    with pytest.raises(InputError, match="option vectors"):
        WriteRequest.of({"path": "/x", "vectors": '{"v": "many"}'})


def test_a_stream_carries_vectors(spark, table, tmp_path):
    target = Table.create(tmp_path / "copy", SCHEMA, key=("id",))
    source = spark.readStream.format("deltaic").option("path", table.url).load()
    query = (
        source.select("id", "title", "embedding")
        .writeStream.format("deltaic")
        .option("path", target.url)
        .option("txnAppId", "copy")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert vectors(target) == vectors(table)


def test_the_change_feed_tells_vectors_before_and_after(spark, table, tmp_path):
    table.merge({"id": [1], "embedding": np.array([[9, 9, 9]], np.float32)})
    table.delete("id = 2")
    source = spark.readStream.format("deltaic").option("changes", "true").option("startingVersion", 1).load(table.url)
    found = []
    query = (
        source.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    told = [
        (row["_change"], row.before and row.before.embedding, row.after and row.after.embedding)
        for row in sorted(found, key=lambda row: (row["_version"], row.id))
    ]
    assert told[-2:] == [("update", [1, 2, 3], [9, 9, 9]), ("delete", [np.float32(0.1), -0.0, 5], None)]
    assert told[:3] == [("insert", None, [1, 2, 3]), ("insert", None, [np.float32(0.1), 0, 5]), ("insert", None, None)]


def test_batches_with_nulls_become_arrays_of_floats_in_every_slice():
    from deltaic.spark.columns import for_spark

    wanted = pa.schema([("v", pa.list_(pa.field("element", pa.float32())))])
    column = pa.array([[1, 2], None, [3, 4], None, None, [5, 6]], pa.list_(pa.float32(), 2))
    for start in range(6):
        for stop in range(start, 7):
            batch = pa.record_batch([column.slice(start, stop - start)], names=["v"])
            found = for_spark(batch, wanted)
            found.validate(full=True)
            assert found.column(0).to_pylist() == column.to_pylist()[start:stop]
