"""Tables read by Spark: every type exactly, any version, only what was asked for, errors that can be read."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import deltaic.spark
from deltaic.spark.reading import share_out
from deltaic.table.rows import Table, WriteOptions
from deltaic.table.split import ColumnIndex

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

FILMS = pa.schema([("id", pa.int64()), ("title", pa.string()), ("year", pa.int32())])


def films(first, last, year=1970):
    return [{"id": number, "title": f"film {number}", "year": year + number % 3} for number in range(first, last)]


@pytest.fixture
def table(tmp_path):
    made = Table.create(tmp_path / "films", FILMS, key=("id",), index={"title": ColumnIndex(kind="text")})
    made.append(films(0, 20))
    made.append(films(20, 30, 1990))
    made.files.tag("thirty")
    made.delete("id < 5")
    return made


def load(spark, table, **options):
    return spark.read.format("deltaic").options(**options).load(table.url)


def ids(frame):
    return sorted(row["id"] for row in frame.collect())


UTC = dt.UTC
EVERY_TYPE = {
    "bool": (pa.bool_(), [True, False], None),
    "int8": (pa.int8(), [-128, 127], None),
    "int16": (pa.int16(), [-32768, 32767], None),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1], None),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1], None),
    "uint8": (pa.uint8(), [0, 255], None),
    "uint16": (pa.uint16(), [0, 65535], None),
    "uint32": (pa.uint32(), [0, 2**32 - 1], None),
    "uint64": (pa.uint64(), [0, 2**64 - 1], [Decimal(0), Decimal(2**64 - 1)]),
    "half": (pa.float16(), [1.5, -0.25], None),
    "float": (pa.float32(), [1.5, float("inf")], None),
    "double": (pa.float64(), [0.1, -1e300], None),
    "text": (pa.string(), ["", "日本 🎬"], None),
    "large_text": (pa.large_string(), ["a", "b"], None),
    "text_view": (pa.string_view(), ["a", "a text that is longer than twelve bytes"], None),
    "bytes": (pa.binary(), [b"", b"\0\xff"], None),
    "large_bytes": (pa.large_binary(), [b"a", b"b"], None),
    "bytes_view": (pa.binary_view(), [b"a", b"bytes that are longer than twelve"], None),
    "four_bytes": (pa.binary(4), [b"abcd", b"\0\0\0\0"], None),
    "date": (pa.date32(), [dt.date(1970, 1, 1), dt.date(9999, 12, 31)], None),
    "date64": (pa.date64(), [dt.date(1970, 1, 1), dt.date(2024, 2, 29)], None),
    "time_s": (pa.time32("s"), [dt.time(0), dt.time(23, 59, 59)], [0, 86_399]),
    "time_ms": (pa.time32("ms"), [dt.time(0), dt.time(0, 0, 1)], [0, 1_000]),
    "time_us": (pa.time64("us"), [dt.time(0), dt.time(0, 0, 1, 5)], [0, 1_000_005]),
    "time_ns": (pa.time64("ns"), [dt.time(0), dt.time(0, 0, 1)], [0, 10**9]),
    "duration_s": (pa.duration("s"), [dt.timedelta(0), dt.timedelta(days=-1)], [0, -86_400]),
    "duration_ns": (pa.duration("ns"), [dt.timedelta(0), dt.timedelta(seconds=2)], [0, 2 * 10**9]),
    "at": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 5, 1, 12, tzinfo=UTC), dt.datetime(1900, 1, 1, tzinfo=UTC)],
        None,
    ),
    "at_berlin": (
        pa.timestamp("ms", "Europe/Berlin"),
        [dt.datetime(2024, 5, 1, 12, tzinfo=UTC), dt.datetime(2024, 1, 1, tzinfo=UTC)],
        None,
    ),
    "at_ns": (
        pa.timestamp("ns", "UTC"),
        [dt.datetime(2024, 5, 1, tzinfo=UTC), dt.datetime(2024, 1, 1, tzinfo=UTC)],
        None,
    ),
    "local": (pa.timestamp("us"), [dt.datetime(2024, 5, 1, 12), dt.datetime(1900, 1, 1)], None),
    "local_s": (pa.timestamp("s"), [dt.datetime(2024, 5, 1, 12), dt.datetime(1900, 1, 1)], None),
    "money": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-99999999.99")], None),
    "small_money": (pa.decimal32(9, 2), [Decimal("1.50"), Decimal("-9999999.99")], None),
    "digits": (pa.decimal256(50, 3), [Decimal("1.500"), Decimal(10**46)], ["1.500", str(10**46) + ".000"]),
    "word": (pa.dictionary(pa.int32(), pa.string()), ["a", "b"], None),
    "list": (pa.list_(pa.int32()), [[1, None], []], None),
    "large_list": (pa.large_list(pa.string()), [["a"], []], None),
    "pair": (pa.list_(pa.float32(), 2), [[1.0, 2.0], [3.0, 4.0]], None),
    "struct": (
        pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.string()))]),
        [{"a": 1, "b": ["x"]}, {"a": None, "b": None}],
        None,
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], []], [{"a": 1}, {}]),
    "times": (pa.list_(pa.time64("us")), [[dt.time(0, 0, 1)], []], [[1_000_000], []]),
    "deep": (
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.uint16())))])),
        [[{"m": [("k", [1, 65535])]}], []],
        [[{"m": {"k": [1, 65535]}}], []],
    ),
}


def plain(value):
    """Rows of Spark as plain values, times in UTC."""
    if hasattr(value, "asDict"):
        return {name: plain(each) for name, each in value.asDict().items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.fixture(scope="module")
def every_type(tmp_path_factory):
    schema = pa.schema(
        [pa.field("row", pa.int32()), *(pa.field(name, kind) for name, (kind, *_) in EVERY_TYPE.items())]
    )
    columns = [pa.array([0, 1, 2], pa.int32())]
    for kind, values, _ in EVERY_TYPE.values():
        if pa.types.is_float16(kind):
            import numpy as np

            values = [np.float16(value) for value in values]
        target = kind.value_type if pa.types.is_dictionary(kind) else kind
        array = pa.array([*values, None], target)
        columns.append(array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array)
    rows = pa.table(columns, schema=schema)
    table = Table.create(tmp_path_factory.mktemp("types") / "all", schema)
    table.append(rows)
    return table


def test_every_type_comes_with_equal_values_and_nulls(spark, every_type):
    found = {row["row"]: row for row in spark.read.format("deltaic").load(every_type.url).toArrow().to_pylist()}
    for name, (_kind, values, told) in EVERY_TYPE.items():
        expected = told if told is not None else values
        for number, value in enumerate(expected):
            got = found[number][name]
            if name in ("map", "deep") and got is not None:
                got = dict(got) if name == "map" else [{"m": dict(each["m"])} for each in got]
            if isinstance(got, dt.datetime) and got.tzinfo is not None:
                got = got.astimezone(UTC)
            assert got == value, name
        assert found[2][name] is None, name


def test_every_type_that_spark_read_can_be_written_back_and_is_the_same(spark, every_type, tmp_path):
    copy = Table.create(tmp_path / "copy", every_type.schema)
    frame = spark.read.format("deltaic").load(every_type.url)
    frame.coalesce(1).write.format("deltaic").mode("append").save(copy.url)
    assert copy.schema == every_type.schema
    assert copy.to_arrow().to_pylist() == every_type.to_arrow().to_pylist()


def test_a_value_that_sparks_type_cannot_hold_is_refused_with_its_column(spark, tmp_path):
    table = Table.create(tmp_path / "t", pa.schema([("at", pa.timestamp("ns", "UTC"))]))
    table.append(pa.table({"at": pa.array([1], pa.timestamp("ns", "UTC"))}))
    with pytest.raises(Exception, match="column at: Spark's timestamp"):
        spark.read.format("deltaic").load(table.url).collect()


def test_columns_that_are_never_null_stay_so(spark, tmp_path):
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("s", pa.struct([pa.field("a", pa.int32(), nullable=False)])),
        ]
    )
    table = Table.create(tmp_path / "t", schema)
    table.append([{"id": 1, "s": {"a": 2}}, {"id": 2, "s": None}])
    frame = spark.read.format("deltaic").load(table.url)
    assert not frame.schema["id"].nullable and not frame.schema["s"].dataType["a"].nullable
    assert sorted((row["id"], row["s"] and row["s"]["a"]) for row in frame.collect()) == [(1, 2), (2, None)]


def test_versions_tags_and_times_go_back(spark, table):
    assert ids(load(spark, table)) == list(range(5, 30))
    assert load(spark, table, version="1").count() == 20
    assert load(spark, table, versionAsOf="2").count() == 30
    assert load(spark, table, tag="thirty").count() == 30
    committed = {entry.version: entry.committed_ms for entry in table.history()}
    at = dt.datetime.fromtimestamp(committed[1] / 1000, UTC)
    assert load(spark, table, timestampAsOf=at.isoformat()).count() == 20
    assert deltaic.spark.read(spark, table.url, timestamp=at).count() == 20


def test_what_is_asked_for_is_applied_in_the_task(spark, table):
    assert ids(load(spark, table, where="year >= 1990 AND id < 25")) == [20, 21, 22, 23, 24]
    assert ids(load(spark, table, query="title:7")) == [7]
    assert ids(load(spark, table, query="title:film", where="id > 26", columns="id")) == [27, 28, 29]
    assert load(spark, table, limit="4").count() == 4
    assert load(spark, table, limit="0").count() == 0
    assert load(spark, table, limit="3", where="id > 20").count() == 3
    assert load(spark, table, columns="year,id").columns == ["year", "id"]
    assert ids(load(spark, table, where="year >= 1990", query="title:film", columns="id", limit="100")) == list(
        range(20, 30)
    )


def test_a_schema_of_some_columns_reads_only_those(spark, table):
    frame = spark.read.format("deltaic").schema("year int, id bigint").load(table.url)
    assert frame.columns == ["year", "id"] and frame.count() == 25
    assert {row["year"] for row in frame.collect()} <= set(range(1970, 1993))


def test_a_schema_with_a_column_that_is_not_there_names_it(spark, table):
    with pytest.raises(Exception, match="has no column 'director'"):
        spark.read.format("deltaic").schema("director string").load(table.url).collect()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"version": "99"}, "99"),
        ({"tag": "nope"}, "there is no tag 'nope'; there are thirty"),
        ({"columns": "id,director"}, "there is no column 'director'"),
        ({"columns": "id,id"}, "each of them once"),
        ({"where": "year >>> 3"}, "'>' stands where a value must"),
        ({"aws_secret_access_key": "hunter2"}, "secrets are no options"),
        ({"changes": "true"}, "the change feed is a stream"),
    ],
)
def test_errors_can_be_read_from_spark(spark, table, options, complaint):
    with pytest.raises(Exception) as raised:
        load(spark, table, **options).collect()
    assert complaint in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_folder_without_a_table_is_said_to_be_none(spark, tmp_path):
    with pytest.raises(Exception, match="NotFoundError"):
        spark.read.format("deltaic").load(str(tmp_path / "nothing"))


def test_the_rows_are_of_the_version_that_the_schema_is_of(spark, tmp_path):
    table = Table.create(tmp_path / "films", FILMS)
    table.append(films(0, 3))
    frame = load(spark, table)
    table.append(films(3, 9))
    table.drop_column("year")
    assert ids(frame) == [0, 1, 2] and frame.columns == ["id", "title", "year"]
    assert load(spark, table).count() == 9


def test_an_empty_table_and_a_filter_that_nothing_matches_give_no_rows(spark, tmp_path):
    table = Table.create(tmp_path / "films", FILMS)
    assert load(spark, table).collect() == []
    table.append(films(0, 3))
    assert load(spark, table, where="id > 100").collect() == []


def test_partition_columns_come_from_the_log(spark, tmp_path):
    table = Table.create(tmp_path / "films", FILMS, partition_by=("year",))
    table.append(films(0, 9))
    assert load(spark, table).groupBy("year").count().count() == 3
    assert {row["year"] for row in load(spark, table, columns="year").collect()} == {1970, 1971, 1972}


def test_filters_of_one_data_frame_do_not_leak_into_another_use_of_it(spark, table):
    """Spark 4.3 mixes them up where a source takes filters; so this one takes none, and says so by its class."""
    from pyspark.sql.datasource import DataSourceReader

    from deltaic.spark.reading import BatchReader

    assert BatchReader.pushFilters is DataSourceReader.pushFilters
    frame = load(spark, table)
    assert frame.filter("id = 7").count() == 1
    assert frame.count() == 25
    assert ids(frame.filter("id = 7").union(frame.filter("id = 9"))) == [7, 9]
    frame.createOrReplaceTempView("films_view")
    counted = spark.sql(
        "SELECT (SELECT count(*) FROM films_view WHERE id = 8) a, (SELECT count(*) FROM films_view) b, "
        "(SELECT count(*) FROM films_view WHERE id IN (9, 10)) c"
    ).collect()[0]
    assert (counted["a"], counted["b"], counted["c"]) == (1, 25, 2)


def test_with_pushdown_switched_on_the_answers_stay_right(spark, table):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = load(spark, table)
        assert frame.filter("id = 7").count() == 1
        assert frame.count() == 25
        assert ids(frame.filter("id = 7").union(frame.filter("id = 9"))) == [7, 9]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_sql_reads_through_a_temporary_view(spark, table):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW old_films USING deltaic OPTIONS (path '{table.url}', version '1')")
    assert spark.sql("SELECT count(*) AS n FROM old_films WHERE year = 1970").collect()[0]["n"] == 7


def test_few_large_tasks_read_many_splits(spark, tmp_path):
    table = Table.create(tmp_path / "films", FILMS, write=WriteOptions(split_rows=2))
    table.append(films(0, 40))
    assert len(table.at().reader.files_of()) == 20
    assert load(spark, table).rdd.getNumPartitions() == 1
    one = table.at().reader.files_of()[0].size_bytes
    assert 9 <= load(spark, table, bytesPerTask=str(one * 2 + 100)).rdd.getNumPartitions() <= 20


def test_splits_are_shared_out_in_their_order_without_losing_one(table):
    adds = table.at().reader.files_of() * 7
    groups = share_out(adds, adds[0].size_bytes * 2)
    assert [add for group in groups for add in group] == adds and all(groups)


def test_the_python_call_says_the_same_as_the_options(spark, table):
    frame = deltaic.spark.read(spark, table.url, version=2, columns=["id"], where="id >= 28")
    assert [row["id"] for row in frame.orderBy("id").collect()] == [28, 29]
