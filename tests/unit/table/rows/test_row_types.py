"""Arrow in and out of a table: every type comes back as it went in, or is refused by name."""

import dataclasses
import datetime
import decimal
import json
import math

import pandas
import polars
import pyarrow as pa
import pytest

import deltaic
from deltaic.errors import DeltaicError, InputError, SchemaError
from deltaic.table.rows import Table
from deltaic.table.rows.types import describe_type, from_spark, read_type, to_spark
from tests.unit.table.rows.making import FAST, make_table, new_store

D = decimal.Decimal
UTC = datetime.UTC
TYPES = [
    (pa.int8(), [-128, 127, None]),
    (pa.int16(), [-(2**15), None]),
    (pa.int32(), [2**31 - 1]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.uint8(), [255, None]),
    (pa.uint16(), [65535]),
    (pa.uint32(), [2**32 - 1]),
    (pa.uint64(), [2**64 - 1, 0]),
    (pa.float16(), [1.5, None]),
    (pa.float32(), [0.5, -0.0, math.inf]),
    (pa.float64(), [0.1, -0.0, -math.inf]),
    (pa.bool_(), [True, False, None]),
    (pa.string(), ["", "x", "\U0001f600", None]),
    (pa.large_string(), ["x", None]),
    (pa.string_view(), ["x" * 50, None]),
    (pa.binary(), [b"", b"\0\xff", None]),
    (pa.large_binary(), [b"x"]),
    (pa.binary_view(), [b"x" * 50]),
    (pa.binary(3), [b"abc", None]),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
    (pa.date64(), [datetime.date(2024, 2, 29)]),
    (pa.time32("s"), [datetime.time(23, 59, 59), None]),
    (pa.time32("ms"), [datetime.time(0, 0, 0, 1000)]),
    (pa.time64("us"), [datetime.time(0, 0, 0, 1)]),
    (pa.time64("ns"), [datetime.time(0, 0, 0, 1)]),
    (pa.duration("s"), [datetime.timedelta(seconds=-1), None]),
    (pa.duration("us"), [datetime.timedelta(microseconds=1)]),
    (pa.timestamp("s"), [datetime.datetime(1969, 1, 1), None]),
    (pa.timestamp("ms", "UTC"), [datetime.datetime(2024, 1, 1, tzinfo=UTC)]),
    (pa.timestamp("us", "Europe/Berlin"), [datetime.datetime(2024, 1, 1, tzinfo=UTC)]),
    (pa.timestamp("us"), [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)]),
    (pa.decimal128(38, 10), [D("-1234567890123456789012345678.0123456789"), None]),
    (pa.decimal256(70, 2), [D("9" * 60 + ".25")]),
    (pa.decimal128(5, 2), [D("-999.99")]),
    (pa.list_(pa.int16()), [[1, None], [], None]),
    (pa.large_list(pa.string()), [["a", None], None]),
    (pa.list_(pa.float32(), 3), [[1.0, 2.0, 3.0], None]),
    (pa.list_(pa.list_(pa.uint8())), [[[1], None, []], None]),
    (pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.string()))]), [{"a": 1, "b": ["x"]}, None]),
    (pa.map_(pa.string(), pa.int8()), [[("a", 1), ("b", None)], [], None]),
    (pa.dictionary(pa.int8(), pa.string()), ["x", "y", "x", None]),
    (pa.dictionary(pa.int32(), pa.int64()), [1, None]),
    (pa.list_(pa.struct([("t", pa.timestamp("ns", "UTC"))])), [[{"t": None}], None]),
]


@pytest.mark.parametrize(
    ("kind", "values"), TYPES, ids=lambda value: str(value)[:40] if isinstance(value, pa.DataType) else ""
)
def test_a_column_of_any_type_comes_back_as_it_went_in(kind, values):
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    column = pa.array(values, plain)
    if plain != kind:
        column = column.dictionary_encode().cast(kind)
    given = pa.table({"id": range(len(values)), "x": column})
    table = make_table(given.schema)
    table.append(given)
    found = Table.open(table.files.store).to_arrow()
    assert found.schema.field("x").type == kind
    assert str(found.schema.field("x").type) == str(table.schema.field("x").type)
    assert in_order(table) == column.to_pylist()
    table.delete("id = 0")
    assert in_order(table) == column.to_pylist()[1:]
    table.append(given.slice(0, 1))
    table.update({"id": 0}, "id = 0")
    table.compact()
    table.merge(given.slice(0, 1), on="id")
    assert in_order(table) == column.to_pylist()
    assert [
        change["after"]["x"] for change in table.changes(2, 3).read_all().to_pylist() if change["after"]
    ] == column.to_pylist()[:1]
    assert table.verify().findings == ()


def in_order(table):
    return [row["x"] for row in sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])]


def test_nanoseconds_come_back_to_the_last_one():
    column = pa.array([1, -1, 2**62 + 3], pa.int64()).cast(pa.timestamp("ns", "UTC"))
    table = make_table(pa.schema([("id", pa.int8()), ("t", column.type)]))
    table.append(pa.table({"id": pa.array([0, 1, 2], pa.int8()), "t": column}))
    assert table.to_arrow().sort_by("id").column("t").cast(pa.int64()).to_pylist() == [1, -1, 2**62 + 3]
    assert table.count(where="t > '1970-01-01T00:00:00+00:00'") == 2
    assert table.count(where="t < '1970-01-01T00:00:00+00:00'") == 1


def test_every_type_can_be_said_and_read_again():
    for kind, _ in TYPES:
        assert read_type(json.loads(json.dumps(describe_type(kind))), "x") == kind
        from_spark(to_spark(kind), "x")


@pytest.mark.parametrize(
    "kind",
    [
        pa.month_day_nano_interval(),
        pa.null(),
        pa.struct([]),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.list_(pa.int8(), 0),
    ],
    ids=str,
)
def test_a_type_that_cannot_be_kept_is_refused_with_its_column(kind):
    with pytest.raises(SchemaError, match="odd"):
        make_table(pa.schema([("id", pa.int8()), ("odd", kind)]))


@pytest.mark.parametrize(
    "text", ['{"format":"zz"}', '{"format":"+s"}', '{"format":"d:1"}', "[]", '{"format":"+w:x","children":[]}']
)
def test_a_damaged_type_is_a_schema_error(text):
    with pytest.raises(SchemaError):
        read_type(json.loads(text), "x")


def test_metadata_of_a_field_stays():
    field = pa.field("v", pa.list_(pa.float32(), 2), metadata={"deltaic.vector": "yes"})
    table = make_table(pa.schema([("id", pa.int8()), field]))
    assert Table.open(table.files.store).schema.field("v").metadata == {b"deltaic.vector": b"yes"}


@pytest.mark.parametrize(
    ("kind", "given", "row", "shown"),
    [
        (pa.int8(), pa.array([1, 300]), 1, "300"),
        (pa.float32(), pa.array([0.5, 0.1]), 1, "0.1"),
        (pa.int32(), pa.array([1.0, 2.5]), 1, "2.5"),
        (pa.float64(), pa.array([1, 2**53 + 1]), 1, str(2**53 + 1)),
        (pa.decimal128(4, 1), pa.array([D("1.25")]), 0, "1.25"),
        (pa.timestamp("s"), pa.array([1500], pa.timestamp("ms")), 0, "datetime"),
        (pa.list_(pa.int8()), pa.array([[1], [2, 300]]), 1, "300"),
        (pa.list_(pa.float32(), 2), pa.array([[0.1, 1.0]], pa.list_(pa.float64(), 2)), 0, "0.1"),
        (pa.list_(pa.float32(), 2), pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float32())), 1, "1.0"),
    ],
)
def test_a_value_that_would_change_is_refused_with_column_row_and_value(kind, given, row, shown):
    table = make_table(pa.schema([("id", pa.int8()), ("x", kind)]))
    with pytest.raises(InputError, match=f"x, row {row}.*{shown}"):
        table.append(pa.table({"x": given}))
    assert table.version == 0


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (pa.timestamp("us", "UTC"), pa.array([0], pa.timestamp("us"))),
        (pa.string(), pa.array([1])),
        (pa.int8(), pa.array(["1"])),
        (pa.float64(), pa.array([D("0.1")])),
        (pa.struct([("a", pa.int8())]), pa.array([{"b": 1}])),
    ],
    ids=str,
)
def test_a_column_of_another_kind_is_refused(kind, given):
    table = make_table(pa.schema([("id", pa.int8()), ("x", kind)]))
    with pytest.raises(InputError, match="column x"):
        table.append(pa.table({"x": given}))


def test_values_that_fit_go_into_narrower_and_wider_columns():
    schema = pa.schema(
        [("a", pa.int8()), ("b", pa.float32()), ("c", pa.large_string()), ("d", pa.timestamp("ns", "UTC"))]
    )
    table = make_table(schema)
    when = pa.array([5], pa.timestamp("s", "Europe/Berlin"))
    table.append(pa.table({"a": [7], "b": [0.5], "c": pa.array(["x"]).dictionary_encode(), "d": when}))
    assert table.schema == schema
    assert table.to_arrow().to_pylist()[0]["a"] == 7
    assert table.to_arrow().column("d").cast(pa.int64()).to_pylist() == [5_000_000_000]


def test_python_rows_are_refused_with_column_row_and_value():
    table = make_table(pa.schema([("id", pa.int8()), ("t", pa.timestamp("us", "UTC")), ("n", pa.timestamp("us"))]))
    with pytest.raises(InputError, match="id, row 1: 300"):
        table.append([{"id": 1}, {"id": 300}])
    with pytest.raises(InputError, match="row 1 has 'other'"):
        table.append([{"id": 1}, {"id": 2, "other": 1}])
    with pytest.raises(InputError, match="t, row 0.*no time zone"):
        table.append([{"t": datetime.datetime(2024, 1, 1)}])
    with pytest.raises(InputError, match="n, row 0.*has a time zone"):
        table.append([{"n": datetime.datetime(2024, 1, 1, tzinfo=UTC)}])
    with pytest.raises(InputError, match="row 1 is a int"):
        table.append([{"id": 1}, 2])
    with pytest.raises(InputError, match="id: a int is no column"):
        table.append({"id": 1})
    assert table.version == 0


class Stream:
    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_rows_come_as_whatever_speaks_arrow():
    given = pa.table({"id": [1, 2], "x": ["a", None]})
    ways = [
        given,
        given.to_batches()[0],
        given.to_reader(),
        iter(given.to_batches()),
        given.to_batches(),
        pandas.DataFrame({"id": [1, 2], "x": ["a", None]}),
        polars.DataFrame({"id": [1, 2], "x": ["a", None]}),
        Stream(given),
        given.to_pylist(),
        (row for row in given.to_pylist()),
        make_filled(given),
    ]
    for way in ways:
        table = make_table(given.schema)
        table.append(way)
        assert table.to_arrow().to_pylist() == given.to_pylist(), type(way)
    assert table.to_pandas()["id"].tolist() == [1, 2]
    assert table.to_polars()["x"].to_list() == ["a", None]
    assert pa.table(table).equals(given) and pa.table(table.at()).equals(given)


def make_filled(given):
    table = make_table(given.schema)
    table.append(given)
    return table


def test_a_table_is_made_from_spark_json_and_from_what_has_a_schema():
    spark = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":false,"metadata":{}}]}'
    assert make_table(spark).schema == pa.schema([pa.field("id", pa.int64(), nullable=False)])
    assert make_table(polars.DataFrame({"id": [1]})).schema.names == ["id"]
    with pytest.raises(InputError, match="no schema"):
        make_table(5)


def test_a_table_is_made_from_a_model_with_its_key_and_types():
    @deltaic.key("id")
    @dataclasses.dataclass
    class Film:
        id: int
        title: str
        shown: datetime.date
        tags: list[str]

    table = make_table(Film)
    assert table.key == ("id",) and table.schema.field("shown").type == pa.date32()
    row = {"id": 1, "title": "Solaris", "shown": datetime.date(1972, 3, 20), "tags": ["sf"]}
    table.append([row])
    assert table.to_arrow().to_pylist() == [row]
    assert make_table(deltaic.Model.of(Film)).schema == table.schema


def test_a_damaged_configuration_is_a_clear_error():
    table = make_table(pa.schema([("id", pa.uint8())]))
    for text in (
        "{",
        "[]",
        '{"columns":[5]}',
        '{"columns":[{"name":"id","type":5}]}',
        '{"columns":[{"name":"id","physical":5}]}',
    ):
        table.files.configure({"deltaic.columns": text})
        with pytest.raises(DeltaicError):
            Table.open(table.files.store, settings=FAST).count()


def test_a_column_of_a_reserved_name_is_refused():
    for name in ("_change", "before", "", "a\nb"):
        with pytest.raises(SchemaError):
            Table.create(new_store(), pa.schema([(name, pa.int8())]))
