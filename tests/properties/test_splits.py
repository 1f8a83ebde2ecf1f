"""Splits on random rows: what goes in comes out, every value finds its rows, and deletes equal a plain list."""

import tempfile
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import tantivy
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.storage.local import LocalStore
from deltaic.table.split import (
    ColumnIndex,
    DocMapping,
    SplitCache,
    SplitOptions,
    index_value,
    open_index,
    open_split,
    with_deletes,
    write_split,
)
from deltaic.table.split.container import pack, read_split
from tests.unit.table.split.plain_reader import hot_cache_of, members_of

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SCALARS = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(),
    pa.string(): TEXT,
    pa.binary(): st.binary(max_size=8),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.decimal128(9, 2): st.decimals(-9_999_999, 9_999_999, places=2),
    pa.decimal128(30, 4): st.decimals(-(10**20), 10**20, places=4),
}
NESTED = {
    pa.list_(pa.int64()): st.lists(st.none() | st.integers(-9, 9), max_size=3),
    pa.list_(pa.string()): st.lists(st.none() | TEXT, max_size=3),
    pa.struct([("a", pa.int32()), ("b", pa.string())]): st.fixed_dictionaries({"a": st.integers(0, 9), "b": TEXT}),
    pa.map_(pa.string(), pa.float64()): st.dictionaries(
        st.text("abc.\x01 é", max_size=3), st.floats(allow_nan=False), max_size=2
    ).map(lambda value: list(value.items())),
    pa.list_(pa.list_(pa.struct([("x", pa.bool_())]))): st.lists(
        st.lists(st.fixed_dictionaries({"x": st.booleans()}), max_size=2), max_size=2
    ),
}


@st.composite
def tables(draw, kinds):
    count = draw(st.integers(0, 8))
    chosen = draw(st.lists(st.sampled_from(sorted(kinds, key=str)), min_size=1, max_size=5))
    columns = {}
    for number, kind in enumerate(chosen):
        values = draw(st.lists(st.none() | kinds[kind], min_size=count, max_size=count))
        columns[draw(TEXT) + str(number)] = pa.array(values, kind)
    return pa.table(columns)


@given(tables({**SCALARS, **NESTED}))
@settings(max_examples=40)
def test_rows_come_back_from_the_split_and_from_the_cache(rows):
    with tempfile.TemporaryDirectory() as folder:
        write_split(rows, DocMapping.from_schema(rows.schema), Path(folder, "a"))
        split = open_split(LocalStore(folder), "a")
        assert repr(split.rows().to_pylist()) == repr(rows.to_pylist())
        assert split.rows().schema == rows.schema
        cached = SplitCache(Path(folder, "cache")).get(LocalStore(folder), "a")
        assert repr(cached.rows.to_pylist()) == repr(rows.to_pylist())


@given(tables(SCALARS))
@settings(max_examples=40)
def test_every_value_finds_exactly_its_rows(rows):
    with tempfile.TemporaryDirectory() as folder:
        mapping = DocMapping.from_schema(rows.schema)
        write_split(rows, mapping, Path(folder, "a"))
        cached = SplitCache(Path(folder, "cache")).get(LocalStore(folder), "a")
        index = open_index(cached.index_folder)
        searcher = index.searcher()
        for name in rows.column_names:
            expected = defaultdict(list)
            for row, value in enumerate(rows[name].to_pylist()):
                if value is not None and value == value:
                    expected[index_value(mapping[name], value)].append(row)
            for value, wanted in expected.items():
                query = tantivy.Query.term_query(index.schema, mapping[name].field, value)
                hits = searcher.search(query, limit=20).hits
                found = searcher.fast_field_values("_row", [address for _, address in hits])
                assert sorted(found) == wanted, (name, value)


@given(
    st.lists(
        st.tuples(st.none() | TEXT, st.none() | st.integers(-9, 9), st.none() | st.floats()), min_size=1, max_size=9
    ),
    st.lists(st.sets(st.integers(0, 8)), max_size=3),
)
@settings(max_examples=25)
def test_a_native_split_read_as_a_foreign_one_has_the_same_rows_through_deletes(values, deletes):
    names, types = ("text", "number", "float"), (pa.string(), pa.int64(), pa.float64())
    rows = pa.table(
        [pa.array(column, kind) for column, kind in zip(zip(*values, strict=True), types, strict=True)], names
    )
    with tempfile.TemporaryDirectory() as folder:
        mapping = DocMapping.from_schema(rows.schema, {"text": ColumnIndex("text")})
        write_split(rows, mapping, Path(folder, "0"), options=SplitOptions(native=True))
        alive = set(range(rows.num_rows))
        for step, dead in enumerate(deletes):
            dead = {row for row in dead if row < rows.num_rows}
            alive -= dead
            with_deletes(open_split(LocalStore(folder), str(step)), sorted(dead), Path(folder, str(step + 1)))
        data = Path(folder, str(len(deletes))).read_bytes()
        public = [(name, member) for name, member in members_of(data).items() if not name.startswith("_")]
        Path(folder, "foreign").write_bytes(pack(public, hot_cache_of(data)))
        assert read_split(data, "x").members["split_fields"].length == 0
        expected = repr([rows.slice(row, 1).to_pylist()[0] for row in sorted(alive)]).replace("-0.0", "0.0")
        for name in (str(len(deletes)), "foreign"):
            split = open_split(LocalStore(folder), name)
            assert repr(split.rows().to_pylist()).replace("-0.0", "0.0") == expected
            assert split.num_rows == len(alive)
            cached = SplitCache(Path(folder, "cache")).get(LocalStore(folder), name)
            assert open_index(cached.index_folder).searcher().num_docs == cached.num_rows == len(alive)
