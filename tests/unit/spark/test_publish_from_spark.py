"""What goes in as a Spark DataFrame comes out of a consumer with equal values and types."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import deltaic
from deltaic import Dataset, Model

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

COLUMNS = """
    id bigint, title string, year int, stars smallint, tiny tinyint, rating float, score double, available boolean,
    price decimal(10, 2), exact decimal(38, 18), seen timestamp, local timestamp_ntz, day date, picture binary,
    cast array<struct<id: bigint, name: string, roles: array<string>>>,
    ratings map<string, double>, prices map<bigint, struct<currency: string, amount: decimal(12, 4)>>,
    studio struct<name: string, address: struct<city: string, zip: int>>, matrix array<array<int>>
"""
ROWS = [
    (
        1, "Solaris", 1972, 5, -128, 8.0, 0.1, True,
        Decimal("12.50"), Decimal("12345678901234567890.123456789012345678"),
        dt.datetime(1972, 3, 20, 1, 2, 3, 456789), dt.datetime(1972, 3, 20, 23, 59, 59, 1), dt.date(1972, 3, 20),
        b"\x00\xff",
        [(7, "Natalya", ["Hari", None]), (8, None, []), (9, "Donatas", None)],
        {"critics": 9.1, "audience": None}, {1: ("EUR", Decimal("1.0001")), 2: (None, Decimal("-2.5"))},
        ("Mosfilm", ("Moscow", 119991)), [[1, 2], [], [3]],
    ),
    (
        2, "", -1, -32768, 127, float("inf"), -0.0, False,
        Decimal("-99999999.99"), Decimal("0E-18"),
        dt.datetime(1900, 1, 1), dt.datetime(9999, 12, 31), dt.date(1, 1, 1), b"",
        [], {}, {}, (None, (None, None)), [],
    ),
    (3, *[None] * 18),
    (4, "Solaris", 2002, 4, 0, 6.2, 1e308, *[None] * 10, ("Mosfilm", None), None),
]  # fmt: skip


@pytest.fixture(scope="module")
def movies(spark):
    return spark.createDataFrame(ROWS, COLUMNS)


@pytest.fixture
def dataset(movies, tmp_path):
    return Dataset.create(
        tmp_path / "movies", Model.from_arrow(movies.toArrow().schema, "Movie", key="id", keep_null_elements=True)
    )


def values(table):
    """Rows as plain values, maps as dicts: a map has no order."""

    def plain(value, kind):
        if value is None:
            return None
        if pa.types.is_map(kind):
            return {key: plain(item, kind.item_type) for key, item in value}
        if pa.types.is_list(kind):
            return [plain(item, kind.value_type) for item in value]
        if pa.types.is_struct(kind):
            return {field.name: plain(value[field.name], field.type) for field in kind}
        return value

    return [{field.name: plain(row[field.name], field.type) for field in table.schema} for row in table.to_pylist()]


def test_every_value_and_type_comes_back(movies, dataset):
    with dataset.producer() as producer:
        cycle = producer.publish(movies)
    assert cycle.types["Movie"].records == len(ROWS)
    consumer = deltaic.open(dataset.store.url).consumer()
    consumer.refresh()
    found, given = pa.table(consumer["Movie"].to_arrow()), movies.toArrow()
    assert found.schema.equals(given.schema)
    assert values(found) == values(given)
    assert [str(value) for value in found["score"].to_pylist()] == [str(value) for value in given["score"].to_pylist()]


def test_the_same_rows_make_no_version_and_changed_ones_a_delta(movies, dataset):
    from pyspark.sql import functions as F

    consumer = dataset.consumer()
    with dataset.producer() as producer:
        producer.publish(movies)
        consumer.refresh()
        assert not producer.publish(movies.repartition(3).orderBy("id")).published
        changed = movies.where("id != 2").withColumn("year", F.when(F.col("id") == 4, 2003).otherwise(F.col("year")))
        assert producer.publish(
            changed.unionByName(movies.where("id = 2").withColumn("id", F.lit(20).cast("bigint")))
        ).published
    refresh = consumer.refresh()
    assert not refresh.by_snapshot
    movie = refresh.changes["Movie"]
    assert (movie.added_keys(), movie.removed_keys(), movie.modified_keys()) == ([(20,)], [(2,)], [(4,)])
    assert movie.after[int(movie.modified.after[0])].year == 2003


def test_a_frame_that_spark_cannot_compute_leaves_nothing_behind(spark, movies, dataset):
    from pyspark.errors import PySparkException

    with dataset.producer() as producer:
        version = producer.publish(movies).version
        with pytest.raises(PySparkException):
            producer.publish(movies.selectExpr("*", "raise_error('no more rows') AS more"))
        assert [known.version for known in dataset.versions()] == [version]
        assert producer.publish(movies.limit(2)).from_version == version
