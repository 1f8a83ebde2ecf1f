"""Rows go into a split and come out the same; every column can be found by its values."""

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tantivy

from deltaic.errors import InputError
from deltaic.storage.local import LocalStore
from deltaic.table.split import (
    CachedSplit,
    ColumnIndex,
    DocMapping,
    SplitCache,
    exact_term,
    index_value,
    open_index,
    open_split,
    write_split,
)
from tests.unit.table.split.rows_of_all_types import all_types, all_types_mapping


@pytest.fixture(scope="module")
def cached(tmp_path_factory: pytest.TempPathFactory) -> CachedSplit:
    folder = tmp_path_factory.mktemp("split")
    write_split(all_types(), all_types_mapping(), folder / "a.split")
    return SplitCache(folder / "cache").get(LocalStore(folder), "a.split")


def found(cached: CachedSplit, name: str, value: Any) -> list[int]:
    """The rows of a term."""
    index = open_index(cached.index_folder)
    query = tantivy.Query.term_query(index.schema, name, value)
    searcher = index.searcher()
    hits = searcher.search(query, limit=10).hits
    return sorted(searcher.fast_field_values("_row", [address for _, address in hits]))


def test_rows_of_every_type_come_back_as_they_were(tmp_path):
    rows = all_types()
    written = write_split(rows, all_types_mapping(), tmp_path / "a.split")
    split = open_split(LocalStore(tmp_path), "a.split")
    assert split.rows().schema == rows.schema
    assert repr(split.rows().to_pylist()) == repr(rows.to_pylist())
    assert (split.num_rows, split.kind) == (3, "deltaic")
    assert written.size == (tmp_path / "a.split").stat().st_size == written.footer_end
    assert split.footer.start == written.footer_start == written.uncompressed_bytes


def test_cached_rows_of_every_type_are_the_rows(cached):
    rows = all_types()
    assert repr(cached.rows.to_pylist()) == repr(rows.to_pylist())
    assert cached.rows.schema.names == rows.schema.names


def test_the_mapping_comes_back_from_the_log_text(tmp_path):
    mapping = all_types_mapping()
    written = write_split(all_types(), mapping, tmp_path / "a.split")
    assert DocMapping.from_json(written.doc_mapping_json) == mapping
    assert open_split(LocalStore(tmp_path), "a.split").mapping == mapping


@pytest.mark.parametrize(
    "name",
    [
        *("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "small", "wide", "huge"),
        *("day", "day64", "us", "zoned", "s", "ms", "exact", "large", "coded", "bytes", "four", "address", "flag"),
        *("weird name.x", "_row"),
    ],
)
def test_a_value_of_a_column_finds_its_row_and_no_other(cached, name):
    rows = all_types()
    column = cached.mapping[name]
    for row in (0, 1):
        value = index_value(column, rows[name][row].as_py())
        assert found(cached, column.field, value) == [row]


@pytest.mark.parametrize(
    ("name", "value"), [("ns", 2**62 + 1), ("time", 86_399), ("time64", 86_399_999_999), ("took", 5)]
)
def test_values_without_a_python_type_are_found_by_their_number(cached, name, value):
    assert found(cached, name, value) == [1]


@pytest.mark.parametrize(
    ("path", "value", "rows"),
    [
        ("words", "hello", [0, 1]),
        ("words", "Hello", []),
        ("words", "worlds", [1]),
        ("german", "haus", [0, 1]),
        ("document.a.b", 1, [0]),
        ("document.x", "y", [1]),
        ("person.age", 7, [0]),
        ("person.name", "Kris", [0]),
        ("person.born", (datetime.date(1961, 1, 1) - datetime.date(1970, 1, 1)).days, [0]),
        ("tags", "b", [0]),
        ("numbers", 2, [0]),
        ("scores.k", 1, [0]),
        ("by_number.7", "seven", [0]),
        ("crew.n", "B", [0]),
        ("f64", 0.0, [1]),
        ("_present", "tags", [0, 1]),
        ("_present", "words", [0, 1]),
        ("_present", "crew", [0, 1]),
    ],
)
def test_text_nested_values_lists_and_maps_are_found(cached, path, value, rows):
    assert found(cached, path, value) == rows


def test_every_document_has_the_id_of_its_split(cached):
    assert found(cached, "_split", cached.split_id) == [0, 1, 2]


def test_long_strings_that_start_alike_have_different_terms():
    first, second = "a" * 100_000 + "b", "a" * 100_000 + "c"
    assert exact_term(first) != exact_term(second)
    assert len(exact_term(first).encode()) < 65_530
    assert exact_term("é" * 16_000) == "é" * 16_000


def test_wide_decimals_sort_as_their_numbers_do():
    column = DocMapping.from_schema(pa.schema([("d", pa.decimal128(30, 2))]))["d"]
    numbers = [
        decimal.Decimal(text)
        for text in ("-9999999999.99", "-1", "-0.01", "0", "0.01", "2", "10", "12345678901234567890")
    ]
    terms = [index_value(column, number) for number in numbers]
    assert terms == sorted(terms)


@pytest.mark.parametrize(
    ("arrow", "wanted", "words"),
    [
        (pa.int64(), ColumnIndex("text"), "cannot be indexed as text"),
        (pa.string(), ColumnIndex("text", tokenizer="klingon"), "no tokenizer 'klingon'"),
        (pa.string(), ColumnIndex(tokenizer="default"), "has no tokenizer"),
    ],
)
def test_options_that_do_not_fit_are_refused(arrow, wanted, words):
    with pytest.raises(InputError, match=words):
        DocMapping.from_schema(pa.schema([("a", arrow)]), {"a": wanted})


def test_options_for_a_column_that_is_not_there_are_refused():
    with pytest.raises(InputError, match="no column"):
        DocMapping.from_schema(pa.schema([("a", pa.int8())]), {"b": ColumnIndex()})


@pytest.mark.parametrize(
    ("wanted", "value", "words"),
    [(ColumnIndex("ip"), "300.1.1.1", "column 'a'.*no IP address"), (ColumnIndex("json"), "{", "column 'a'.*no JSON")],
)
def test_values_that_do_not_fit_their_kind_are_refused_and_nothing_is_left(tmp_path, wanted, value, words):
    rows = pa.table({"a": [value]})
    with pytest.raises(InputError, match=words):
        write_split(rows, DocMapping.from_schema(rows.schema, {"a": wanted}), tmp_path / "a.split")
    assert list(tmp_path.iterdir()) == []


def test_json_that_is_too_deep_is_refused(tmp_path):
    rows = pa.table({"a": ["[" * 100_000 + "]" * 100_000]})
    with pytest.raises(InputError, match="JSON"):
        write_split(rows, DocMapping.from_schema(rows.schema, {"a": ColumnIndex("json")}), tmp_path / "a.split")


def test_an_existing_file_is_not_written_over(tmp_path):
    rows = pa.table({"a": [1]})
    Path(tmp_path, "a.split").write_bytes(b"here")
    with pytest.raises(OSError, match="a.split"):
        write_split(rows, DocMapping.from_schema(rows.schema), tmp_path / "a.split")
    assert Path(tmp_path, "a.split").read_bytes() == b"here"


def test_no_rows_are_a_split_too(tmp_path):
    rows = all_types().slice(0, 0)
    write_split(rows, all_types_mapping(), tmp_path / "a.split")
    assert open_split(LocalStore(tmp_path), "a.split").rows().equals(rows)
    assert SplitCache(tmp_path / "cache").get(LocalStore(tmp_path), "a.split").rows.num_rows == 0


def test_a_split_has_one_segment(tmp_path):
    rows = pa.table({"a": list(range(20_000))})
    write_split(rows, DocMapping.from_schema(rows.schema), tmp_path / "a.split")
    names = open_split(LocalStore(tmp_path), "a.split").footer.members
    assert sum(name.endswith(".term") for name in names) == 1
    assert list(names)[-1] == "split_fields"
