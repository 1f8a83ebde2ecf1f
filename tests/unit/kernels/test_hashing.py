"""Hollow's hashes: both twins against recorded values of the Java implementation."""

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from deltaic.errors import InputError
from deltaic.kernels.plain.text import encode_text


@pytest.fixture(params=["_hashing", "plain.hashing"])
def hashing(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"deltaic.kernels.{request.param}")


@pytest.fixture(scope="module")
def recorded(hollow_fixtures: Path) -> dict[str, Any]:
    return json.loads((hollow_fixtures / "vectors" / "vectors.json").read_text())


def column(values: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(values)]
    return np.frombuffer(b"".join(values), np.uint8), starts, ends


def field_hash(hashing: ModuleType, family: str, kind: str, value: Any) -> np.ndarray:
    """The hash of one value through the columnar functions, null as None."""
    nulls = np.array([value is None], np.uint8)
    match kind:
        case "INT" | "LONG" | "REFERENCE":
            name = "long" if kind == "LONG" else "int"
            return getattr(hashing, f"{family}_hash_{name}")(np.array([value or 0], np.int64), nulls)
        case "BOOLEAN":
            return getattr(hashing, f"{family}_hash_boolean")(np.array([bool(value)], np.uint8), nulls)
        case "FLOAT":
            bits = int(value, 16) if value is not None else 0x7FC00001
            return getattr(hashing, f"{family}_hash_float")(np.array([bits], np.uint32))
        case "DOUBLE":
            bits = int(value, 16) if value is not None else 0x7FF8000000000001
            return getattr(hashing, f"{family}_hash_double")(np.array([bits], np.uint64))
        case "STRING":
            data, starts, ends = column([encode_text(value or "")])
            return (
                hashing.java_hash(data, starts, ends)
                if family == "key"
                else hashing.bytes_hash(data, starts, ends, nulls)
            )
        case "BYTES":
            data, starts, ends = column([bytes.fromhex(value or "")])
            return hashing.bytes_hash(data, starts, ends, nulls)
    raise AssertionError(kind)


def test_integers_hash_as_in_java(hashing, recorded):
    for name, one, many, kind in (
        ("hashInt", hashing.hash_int_one, hashing.hash_int, np.int32),
        ("hashLong", hashing.hash_long_one, hashing.hash_long, np.int64),
    ):
        values, expected = zip(*recorded[name], strict=True)
        assert many(np.array(values, kind)).tolist() == list(expected)
        assert [one(value) for value in values] == list(expected)


def test_one_number_is_taken_modulo_its_width(hashing):
    assert hashing.hash_int_one(2**32 - 1) == hashing.hash_int_one(-1)
    assert hashing.hash_long_one(2**64 - 1) == hashing.hash_long_one(-1)


def test_texts_hash_as_in_java(hashing, recorded):
    samples = [sample for sample in recorded["string_hash_and_javaHashCode"] if sample[0] is not None]
    values, string_hashes, java_hashes = (list(part) for part in zip(*samples, strict=True))
    units = column([encode_text(text) for text in values])
    assert hashing.bytes_hash(*units).tolist() == string_hashes
    assert hashing.java_hash(*units).tolist() == java_hashes
    assert [hashing.string_hash_one(text) for text in values] == string_hashes
    assert [hashing.java_hash_one(text) for text in values] == java_hashes


def test_a_null_text_hashes_as_in_java(hashing, recorded):
    nulls = [expected for text, expected, *_ in recorded["string_hash_and_javaHashCode"] if text is None]
    assert nulls == [hashing.string_hash_one(None)] == [-1]


def test_bytes_hash_as_in_java(hashing, recorded):
    values = [bytes.fromhex(value) for value, _ in recorded["bytes_hash"]]
    expected = [value for _, value in recorded["bytes_hash"]]
    assert hashing.bytes_hash(*column(values)).tolist() == expected
    assert [hashing.bytes_hash_one(value) for value in values] == expected


def test_table_sizes_are_those_of_java(hashing, recorded):
    counts, expected = zip(*recorded["hashTableSize"], strict=True)
    assert [hashing.hash_table_size(count) for count in counts] == list(expected)
    assert hashing.hash_table_sizes(np.array(counts, np.int64)).tolist() == list(expected)


def test_no_table_is_sized_beyond_what_java_can(hashing):
    assert hashing.hash_table_size(hashing.LARGEST_TABLE_COUNT) == 2**30
    assert hashing.hash_table_sizes(np.array([hashing.LARGEST_TABLE_COUNT])).tolist() == [2**30]
    for count in (hashing.LARGEST_TABLE_COUNT + 1, -1):
        with pytest.raises(InputError, match="no hash table"):
            hashing.hash_table_size(count)


def test_index_field_hashes_are_those_of_java(hashing, recorded):
    kinds = {kind for kind, _, _ in recorded["fieldHashCode_forIndexes"]}
    assert kinds == {"BOOLEAN", "LONG", "FLOAT", "DOUBLE"}
    for kind, value, expected in recorded["fieldHashCode_forIndexes"]:
        assert field_hash(hashing, "index", kind, value).tolist() == [expected], (kind, value)


def test_hash_key_hashes_are_those_of_java(hashing, recorded):
    for fields, expected in recorded["hashKey_hash"]:
        hashes = [field_hash(hashing, "key", kind, value) for kind, value in fields]
        assert hashing.combine_hash_key(hashes).tolist() == [expected], fields


@pytest.mark.parametrize(
    ("family", "kind", "expected"),
    [
        ("key", "INT", 0),
        ("key", "LONG", 0),
        ("key", "BOOLEAN", 0),
        ("key", "FLOAT", 0x7FC00001),
        ("key", "DOUBLE", 0x7FF80000 ^ 1),
        ("index", "INT", -(2**31)),
        ("index", "LONG", -(2**31)),
        ("index", "BOOLEAN", -1),
        ("index", "FLOAT", 0x7FC00000),
        ("index", "DOUBLE", 0x7FF80000),
        ("index", "STRING", -1),
        ("index", "BYTES", -1),
    ],
)
def test_null_has_a_hash_in_each_family(hashing, family, kind, expected):
    assert field_hash(hashing, family, kind, None).tolist() == [expected]


def test_the_families_differ_where_the_format_says(hashing):
    assert field_hash(hashing, "key", "BOOLEAN", True).tolist() == [1231]
    assert field_hash(hashing, "key", "BOOLEAN", False).tolist() == [1237]
    assert field_hash(hashing, "index", "BOOLEAN", True).tolist() == [1]
    assert field_hash(hashing, "index", "BOOLEAN", False).tolist() == [0]
    assert field_hash(hashing, "key", "FLOAT", "ffc12345").tolist() == [0xFFC12345 - 2**32]
    assert field_hash(hashing, "index", "FLOAT", "ffc12345").tolist() == [0x7FC00000]
    assert field_hash(hashing, "index", "FLOAT", "ff800000").tolist() == [0xFF800000 - 2**32]


def test_a_primary_key_mixes_numbers_and_leaves_texts_as_they_are(hashing):
    numbers, texts = np.array([1, 2, 3], np.int32), np.array([7, -8, 9], np.int32)
    mixed = [hashing.hash_int_one(value) for value in (1, 2, 3)]
    expected = [left ^ right for left, right in zip(mixed, (7, -8, 9), strict=True)]
    assert hashing.combine_primary_key([numbers, texts], [False, True]).tolist() == expected
    assert hashing.combine_hash_index([numbers, numbers]).tolist() == [0, 0, 0]
    assert hashing.combine_hash_index([numbers]).tolist() == mixed
    assert hashing.combine_primary_key([texts], [True]).tolist() == [7, -8, 9]


def test_a_combined_hash_is_a_new_array(hashing):
    texts = np.array([7, -8], np.int32)
    hashing.combine_primary_key([texts, texts], [True, True])
    bits = np.array([1, 2], np.uint32)
    hashing.key_hash_float(bits)[:] = 9
    assert texts.tolist() == [7, -8]
    assert bits.tolist() == [1, 2]


def test_java_hash_of_damaged_texts_is_that_of_the_text_they_read_as(hashing):
    data, starts, ends = column([b"\x80", b"a\x81", b"next", b"\x84\x80\x41"])
    expected = [hashing.java_hash_one(text) for text in ("", "a\ufffd", "next", "A")]
    assert hashing.java_hash(data, starts, ends).tolist() == expected


def test_nothing_gives_nothing(hashing):
    none = np.zeros(0, np.uint8)
    no_ranges = np.zeros(0, np.int64)
    assert hashing.hash_int(np.zeros(0, np.int32)).tolist() == []
    assert hashing.hash_long(no_ranges).tolist() == []
    assert hashing.bytes_hash(none, no_ranges, no_ranges).tolist() == []
    assert hashing.java_hash(none, no_ranges, no_ranges).tolist() == []
    assert hashing.bytes_hash(none, np.zeros(1, np.int64), np.zeros(1, np.int64)).tolist() == [130510007]
    assert hashing.java_hash(none, np.zeros(1, np.int64), np.zeros(1, np.int64)).tolist() == [0]
    assert hashing.hash_table_sizes(no_ranges).tolist() == []
    assert hashing.combine_hash_key([np.zeros(0, np.int32)]).tolist() == []
    assert hashing.key_hash_int(no_ranges, none).tolist() == []


def test_results_are_int32(hashing):
    values = np.array([1], np.int64)
    for hashes in (
        hashing.hash_long(values),
        hashing.key_hash_long(values),
        hashing.index_hash_int(values, np.array([1], np.uint8)),
        hashing.key_hash_boolean(np.array([1], np.uint8), np.array([0], np.uint8)),
        hashing.index_hash_double(np.array([1], np.uint64)),
        hashing.combine_hash_key([np.array([1], np.int32)]),
    ):
        assert hashes.dtype == np.int32
