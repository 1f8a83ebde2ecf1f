"""Rows with a column of every type that a split can hold, and nulls in each."""

import datetime
import decimal

import pyarrow as pa

from deltaic.table.split import ColumnIndex, DocMapping

UTC = datetime.UTC


def all_types() -> pa.Table:
    """Three rows; the last is null wherever a column can be."""
    d = decimal.Decimal
    day, moment = datetime.date, datetime.datetime
    columns: dict[str, pa.Array] = {
        "i8": pa.array([-128, 127, None], pa.int8()),
        "i16": pa.array([-32768, 32767, None], pa.int16()),
        "i32": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
        "i64": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
        "u8": pa.array([0, 255, None], pa.uint8()),
        "u16": pa.array([0, 65535, None], pa.uint16()),
        "u32": pa.array([0, 2**32 - 1, None], pa.uint32()),
        "u64": pa.array([0, 2**64 - 1, None], pa.uint64()),
        "f16": pa.array([1.5, -0.0, None], pa.float16()),
        "f32": pa.array([1.5, float("inf"), None], pa.float32()),
        "f64": pa.array([float("nan"), -0.0, None], pa.float64()),
        "small": pa.array([d("1.25"), d("-3.00"), None], pa.decimal128(10, 2)),
        "wide": pa.array([d("1.25"), d("-" + "9" * 28 + ".99"), None], pa.decimal128(30, 2)),
        "huge": pa.array([d(10**60), d(-1), None], pa.decimal256(70, 0)),
        "day": pa.array([day(1, 1, 1), day(9999, 12, 31), None], pa.date32()),
        "day64": pa.array([day(1, 1, 1), day(9999, 12, 31), None], pa.date64()),
        "us": pa.array([moment(1, 1, 1), moment(9999, 12, 31, 23, 59, 59, 999999), None], pa.timestamp("us")),
        "zoned": pa.array(
            [moment(1, 1, 1, tzinfo=UTC), moment(9999, 12, 31, tzinfo=UTC), None], pa.timestamp("us", "Europe/Berlin")
        ),
        "s": pa.array([moment(1970, 1, 1), moment(2024, 2, 29), None], pa.timestamp("s")),
        "ms": pa.array([moment(1970, 1, 1), moment(2024, 2, 29, 1, 2, 3, 4000), None], pa.timestamp("ms", "UTC")),
        "ns": pa.array([0, 2**62 + 1, None], pa.timestamp("ns")),
        "time": pa.array([0, 86_399, None], pa.time32("s")),
        "time64": pa.array([0, 86_399_999_999, None], pa.time64("us")),
        "took": pa.array([-5, 5, None], pa.duration("ms")),
        "flag": pa.array([True, False, None]),
        "exact": pa.array(["Solaris", "b" * 70_000, None]),
        "large": pa.array(["Grüße", "", None], pa.large_string()),
        "coded": pa.array(["x", "y", None]).dictionary_encode(),
        "words": pa.array(["Hello big world", "the hello of worlds", None]),
        "german": pa.array(["Die Häuser", "das Haus", None]),
        "bytes": pa.array([b"\x00\xff", b"", None], pa.binary()),
        "four": pa.array([b"abcd", b"wxyz", None], pa.binary(4)),
        "address": pa.array(["10.1.2.3", "2001:db8::1", None]),
        "document": pa.array(['{"a":{"b":1},"t":["x","y"]}', '[1,{"x":"y"}]', None]),
        "person": pa.array(
            [{"age": 7, "name": "Kris", "born": day(1961, 1, 1)}, {"age": None, "name": "", "born": None}, None]
        ),
        "tags": pa.array([["a", "b", None], [], None]),
        "numbers": pa.array([[1, 2], [], None], pa.large_list(pa.int32())),
        "scores": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "by_number": pa.array([[(7, "seven")], [], None], pa.map_(pa.int32(), pa.string())),
        "crew": pa.array([[{"n": "A"}, {"n": "B"}], [], None]),
        "deep": pa.array([[[1, 2], [3]], [[]], None]),
        "nothing": pa.nulls(3),
        "weird name.x": pa.array([1, 2, None]),
        "_row": pa.array([5, 6, None]),
    }
    return pa.table(columns)


OPTIONS = {
    "words": ColumnIndex("text"),
    "german": ColumnIndex("text", tokenizer="stem_german"),
    "address": ColumnIndex("ip"),
    "document": ColumnIndex("json"),
}


def all_types_mapping() -> DocMapping:
    return DocMapping.from_schema(all_types().schema, OPTIONS)
