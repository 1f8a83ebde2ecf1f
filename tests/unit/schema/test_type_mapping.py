"""Arrow, Hollow and Python types: what carries what, and what is refused."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest

from deltaic.errors import DecodeError, InputError
from deltaic.schema.logical import LogicalType, natural
from deltaic.schema.mapping import (
    arrow_to_physical,
    boxed_name,
    from_python,
    python_to_logical,
    read_types_tag,
    to_python,
    write_types_tag,
)
from deltaic.schema.types import FieldType

CARRIERS = [
    (pa.null(), "BOOLEAN"),
    (pa.bool_(), "BOOLEAN"),
    (pa.int8(), "INT"),
    (pa.int16(), "INT"),
    (pa.int32(), "INT"),
    (pa.int64(), "LONG"),
    (pa.uint8(), "INT"),
    (pa.uint16(), "INT"),
    (pa.uint32(), "LONG"),
    (pa.uint64(), "LONG"),
    (pa.float16(), "FLOAT"),
    (pa.float32(), "FLOAT"),
    (pa.float64(), "DOUBLE"),
    (pa.string(), "STRING"),
    (pa.large_string(), "STRING"),
    (pa.string_view(), "STRING"),
    (pa.binary(), "BYTES"),
    (pa.large_binary(), "BYTES"),
    (pa.binary_view(), "BYTES"),
    (pa.binary(16), "BYTES"),
    (pa.date32(), "INT"),
    (pa.date64(), "LONG"),
    (pa.time32("s"), "INT"),
    (pa.time32("ms"), "INT"),
    (pa.time64("us"), "LONG"),
    (pa.time64("ns"), "LONG"),
    (pa.timestamp("s"), "LONG"),
    (pa.timestamp("us", "UTC"), "LONG"),
    (pa.timestamp("ns", "Europe/Berlin"), "LONG"),
    (pa.duration("ms"), "LONG"),
    (pa.decimal32(9, 2), "LONG"),
    (pa.decimal64(18, 2), "LONG"),
    (pa.decimal128(18, 4), "LONG"),
    (pa.decimal128(19, 4), "BYTES"),
    (pa.decimal256(70, 4), "BYTES"),
]


@pytest.mark.parametrize(("arrow_type", "field_type"), CARRIERS, ids=lambda value: str(value))
def test_every_flat_arrow_type_has_a_hollow_field(arrow_type, field_type):
    logical = arrow_to_physical(arrow_type)
    assert logical.field_type.value == field_type
    assert logical.name == str(arrow_type).replace("double", "float64").replace("halffloat", "float16").replace(
        "float", "float32" if arrow_type == pa.float32() else "float"
    ).replace("tz=", "").replace("[day]", "").replace("date64[ms]", "date64")


def test_names_are_unique_so_that_boxed_types_never_share_one():
    names = [boxed_name(arrow_to_physical(arrow_type)) for arrow_type, _ in CARRIERS]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").isalnum() for name in names)


def test_dictionaries_nulls_and_order_are_kept():
    field = pa.field("kind", pa.dictionary(pa.int8(), pa.large_string(), ordered=True), nullable=False)
    assert arrow_to_physical(field) == LogicalType("U", False, "c", True)
    assert str(arrow_to_physical(field)) == "dictionary<int8, large_string> not null"


@pytest.mark.parametrize(
    "arrow_type", [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.map_(pa.int8(), pa.int8())]
)
def test_nested_types_are_for_models(arrow_type):
    with pytest.raises(InputError, match="make a model of it"):
        arrow_to_physical(arrow_type)


@pytest.mark.parametrize(
    "arrow_type", [pa.month_day_nano_interval(), pa.dictionary(pa.int8(), pa.list_(pa.int8()))], ids=str
)
def test_types_that_hollow_cannot_carry_are_refused(arrow_type):
    with pytest.raises(InputError) as caught:
        arrow_to_physical(arrow_type)
    assert caught.value.code == "UnknownType"


@pytest.mark.parametrize(
    "text", ["", "x", "ts", "tsq:", "ts:UTC", "w:", "w:0", "w:-1", "d:0,1", "d:39,1", "d:10", "tdX", "d:77,0,256"]
)
def test_formats_that_arrow_does_not_have_are_refused(text):
    with pytest.raises(InputError, match="no logical type"):
        LogicalType.of(text)


@pytest.mark.parametrize(
    ("text", "dtype", "smallest"),
    [
        ("i", np.int32, -(2**31)),
        ("l", np.int64, -(2**63)),
        ("tdD", np.int32, -(2**31)),
        ("tsu:UTC", np.int64, -(2**63)),
        ("L", np.uint64, 2**63),
    ],
)
def test_the_smallest_number_is_refused_beside_nulls_with_column_row_and_value(text, dtype, smallest):
    values = np.array([5, smallest, 7], dtype)
    with pytest.raises(InputError, match=rf"column 'year', row 1: {smallest} means null") as caught:
        LogicalType.of(text).encode(values, None, "year")
    assert caught.value.code == "Reserved"
    physical, valid = LogicalType.of(text).encode(values, np.array([True, False, True]), "year")
    assert valid.tolist() == [True, False, True] and physical[0] == 5


@pytest.mark.parametrize(
    ("text", "dtype", "smallest"), [("i", np.int32, -(2**31)), ("l", np.int64, -(2**63)), ("L", np.uint64, 2**63)]
)
def test_the_smallest_number_survives_in_a_column_without_nulls(text, dtype, smallest):
    logical = LogicalType.of(text, nullable=False)
    values = np.array([5, smallest, 7], dtype)
    physical, valid = logical.encode(values, None, "year")
    assert valid.tolist() == [True, False, True]
    back, present = logical.decode(np.where(valid, physical, 0).astype(physical.dtype), valid, "year")
    assert back.dtype == dtype and back.tolist() == values.tolist() and present.all()


def test_a_null_in_a_column_without_nulls_is_refused():
    with pytest.raises(InputError, match="column 'year', row 2: null in a column without nulls"):
        LogicalType.of("i", nullable=False).encode(np.zeros(3, np.int32), np.array([True, True, False]), "year")


@pytest.mark.parametrize(
    ("text", "dtype", "field_type"),
    [
        ("i", np.int32, "LONG"),
        ("l", np.int64, "BYTES"),
        ("L", np.uint64, "BYTES"),
        ("tsn:", np.int64, "BYTES"),
        ("c", np.int8, "LONG"),
    ],
)
def test_a_wide_column_keeps_every_number_beside_nulls(text, dtype, field_type):
    logical = LogicalType.of(text, wide=True)
    assert logical.field_type.value == field_type
    limits = np.iinfo(dtype)
    values = np.array([limits.min, limits.max, 0, 1], dtype)
    valid = np.array([True, True, False, True])
    physical, present = logical.encode(values, valid, "year")
    back, present = logical.decode(physical, present, "year")
    assert back.tolist() == values.tolist() and present.tolist() == valid.tolist()


def test_a_wide_long_is_what_a_java_byte_buffer_reads():
    physical, _ = LogicalType.of("l", wide=True).encode(np.array([-2], np.int64), None, "year")
    assert physical.tobytes() == (-2).to_bytes(8, "big", signed=True)


@pytest.mark.parametrize("text", ["g", "u", "b", "d:10,2", "w:3"])
def test_only_numbers_with_a_reserved_value_can_be_wide(text):
    with pytest.raises(InputError, match="cannot be stored wide"):
        LogicalType.of(text, wide=True)


def test_a_number_outside_its_type_is_refused_on_the_way_out():
    with pytest.raises(DecodeError, match=r"300 is no int8 \(at column 'age', row 1\)") as caught:
        LogicalType.of("c").decode(np.array([1, 300], np.int32), None, "age")
    assert caught.value.code == "TypeRange"
    back, _ = LogicalType.of("c").decode(np.array([1, 300], np.int32), np.array([True, False]), "age")
    assert back[0] == 1


def test_an_array_of_another_type_is_refused():
    with pytest.raises(InputError, match="column 'age': int8 is an array of int8, not int64"):
        LogicalType.of("c").encode(np.zeros(2, np.int64), None, "age")
    with pytest.raises(InputError, match=r"with rows of 3, not uint8 of shape \(2, 4\)"):
        LogicalType.of("w:3").encode(np.zeros((2, 4), np.uint8), None, "age")


def _matrix(array, width):
    return np.frombuffer(array.buffers()[1], np.uint8)[: len(array) * width].reshape(len(array), width)


@pytest.mark.parametrize(
    "arrow_type",
    [pa.decimal32(9, 2), pa.decimal64(18, 3), pa.decimal128(18, 2), pa.decimal128(38, 5), pa.decimal256(76, 5)],
    ids=str,
)
def test_decimals_are_stored_as_their_unscaled_number_and_come_back(arrow_type):
    largest = decimal.Decimal(10**arrow_type.precision - 1).scaleb(-arrow_type.scale, decimal.Context(prec=80))
    numbers = [decimal.Decimal("0.01"), largest.copy_negate(), largest, decimal.Decimal("-1.5"), decimal.Decimal(0)]
    array = pa.array(numbers, arrow_type)
    logical = arrow_to_physical(arrow_type)
    values = _matrix(array, logical.width)
    physical, valid = logical.encode(values, None, "price")
    for number, stored in zip(numbers, physical, strict=True):
        unscaled = (
            int.from_bytes(stored.tobytes(), "big", signed=True) if logical.field_type == "BYTES" else int(stored)
        )
        assert to_python(unscaled, logical) == number
        assert from_python(number, logical, "price") == (
            stored.tobytes() if logical.field_type == "BYTES" else unscaled
        )
    back, _ = logical.decode(physical, valid, "price")
    assert back.tobytes() == values.tobytes()


def test_a_decimal_beyond_its_digits_is_refused():
    values = np.zeros((2, 16), np.uint8)
    values[1, 9] = 1
    with pytest.raises(
        InputError, match=r"column 'price', row 1: unscaled 4722366482869645213696 is no decimal128\(10, 2\)"
    ):
        LogicalType.of("d:10,2").encode(values, None, "price")
    values[1] = np.frombuffer((10**10).to_bytes(16, "little"), np.uint8)
    with pytest.raises(InputError, match="unscaled 10000000000 is no"):
        LogicalType.of("d:10,2").encode(values, None, "price")


def test_half_floats_are_exact_and_nan_stays_nan():
    values = np.array([1.5, -0.0, np.inf, np.nan, 65504, 6e-8], np.float16)
    logical = LogicalType.of("e")
    physical, valid = logical.encode(values, None, "weight")
    assert physical.dtype == np.float32
    back, _ = logical.decode(physical, valid, "weight")
    assert back.tobytes() == values.tobytes()


def test_the_tag_keeps_what_hollow_cannot_say_and_nothing_else():
    logical = {
        "Movie": {"at": LogicalType("tsu:UTC"), "year": natural(FieldType.INT), "n": LogicalType("l", wide=True)},
        "Plain": {"x": natural(FieldType.STRING)},
        "ListOfLong": {"element": LogicalType("l", nullable=False)},
    }
    tag = write_types_tag(logical)
    assert tag == (
        '{"ListOfLong":{"element":{"format":"l","nullable":false}},'
        '"Movie":{"at":{"format":"tsu:UTC"},"n":{"format":"l","wide":true}}}'
    )
    assert read_types_tag(tag) == {
        "Movie": {"at": LogicalType("tsu:UTC"), "n": LogicalType("l", wide=True)},
        "ListOfLong": {"element": LogicalType("l", nullable=False)},
    }
    assert write_types_tag({"Plain": logical["Plain"]}) == "" and read_types_tag("") == {}


@pytest.mark.parametrize(
    "tag",
    [
        "{",
        "[]",
        '{"A": {"b": {}}}',
        '{"A": {"b": {"format": "nonsense"}}}',
        '{"A": {"b": {"format": "+q"}}}',
        '{"A": {"b": {"format": "g", "wide": true}}}',
        '{"A": {"b": {"format": "u", "index": "u"}}}',
        '{"A": {"b": {"format": "u", "more": 1}}}',
        '{"A": {"b": {"format": 7}}}',
        "\ud800",
    ],
)
def test_a_tag_that_cannot_be_is_refused_with_its_place(tag):
    with pytest.raises(DecodeError, match=r"header tag deltaic.types: .*\(at snapshot-7\)") as caught:
        read_types_tag(tag, "snapshot-7")
    assert caught.value.code == "BadTypesTag"


UTC = datetime.UTC


@pytest.mark.parametrize(
    ("value", "text", "physical"),
    [
        (datetime.date(1969, 12, 31), "tdD", -1),
        (datetime.date(1970, 1, 2), "tdm", 86_400_000),
        (datetime.time(0, 0, 1, 5), "ttu", 1_000_005),
        (datetime.time(1, 0), "tts", 3600),
        (datetime.timedelta(seconds=-1), "tDm", -1000),
        (datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "tsm:UTC", 1000),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), "tsu:", -1),
        (datetime.datetime.max, "tsu:", 253402300799999999),
        (decimal.Decimal("-12.30"), "d:10,2", -1230),
        (decimal.Decimal("1E+3"), "d:10,2", 100000),
        ("text", "u", "text"),
        (7, "l", 7),
        (None, "tdD", None),
    ],
)
def test_python_values_become_numbers_and_come_back(value, text, physical):
    logical = LogicalType.of(text)
    assert from_python(value, logical, "column") == physical
    assert to_python(physical, logical) == value


def test_a_zoned_moment_is_the_same_moment_in_utc():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    logical = LogicalType.of("tsu:UTC")
    moment = datetime.datetime(2024, 5, 1, 2, tzinfo=zone)
    assert to_python(from_python(moment, logical, "at"), logical) == moment


@pytest.mark.parametrize(
    ("value", "text", "message"),
    [
        (
            datetime.datetime(2024, 1, 1, microsecond=1, tzinfo=UTC),
            "tsm:UTC",
            r"is finer than timestamp\[ms, UTC\] can keep",
        ),
        (datetime.datetime(2024, 1, 1), "tsm:UTC", "has no time zone"),
        (datetime.datetime(2024, 1, 1, tzinfo=UTC), "tsm:", "has a time zone"),
        (datetime.time(1, 2, 3, 4), "tts", "is finer than"),
        (decimal.Decimal("1.005"), "d:10,2", r"1.005 does not fit decimal128\(10, 2\)"),
        (decimal.Decimal("100000000"), "d:10,2", "does not fit"),
        (decimal.Decimal("NaN"), "d:10,2", "NaN is no number"),
    ],
)
def test_python_values_that_cannot_be_kept_are_refused_with_column_and_value(value, text, message):
    with pytest.raises(InputError, match=message) as caught:
        from_python(value, LogicalType.of(text), "released")
    assert "'released'" in str(caught.value)


def test_python_types_have_a_logical_type():
    assert str(python_to_logical(bool)) == "bool" and str(python_to_logical(int)) == "int64"
    assert python_to_logical(dict) is None
