"""Rows from Arrow: every layout that Arrow has gives the same records, and what cannot be kept is named."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltaic.errors import InputError
from deltaic.schema.model import Model
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.text import parse_schemas
from deltaic.state.ingest import ingest_arrow, ingest_dicts
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState

MOVIES = parse_schemas(
    """
    String { string value; }
    Integer { int value; }
    Actor @PrimaryKey(id) { long id; String name; int birthYear; }
    ListOfActor List<Actor>;
    SetOfString Set<String>;
    MapOfStringToInteger Map<String, Integer>;
    Studio { String name; String city; }
    Movie @PrimaryKey(id) {
        long id; int year; float rating; boolean seen; bytes poster; string slug;
        String title; Studio studio; ListOfActor cast; SetOfString tags; MapOfStringToInteger scores;
    }
    """,
    "<test>",
)
ACTOR = pa.struct([("id", pa.int64()), ("name", pa.string()), ("birthYear", pa.int32())])
MOVIE = pa.schema(
    [
        ("id", pa.int64()),
        ("year", pa.int32()),
        ("rating", pa.float32()),
        ("seen", pa.bool_()),
        ("poster", pa.binary()),
        ("slug", pa.string()),
        ("title", pa.string()),
        ("studio", pa.struct([("name", pa.string()), ("city", pa.string())])),
        ("cast", pa.list_(ACTOR)),
        ("tags", pa.list_(pa.string())),
        ("scores", pa.map_(pa.string(), pa.int32())),
    ]
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "year": 1972,
        "rating": 8.0,
        "seen": True,
        "poster": b"\x00\xff",
        "slug": "solaris",
        "title": "Solaris",
        "studio": {"name": "Mosfilm", "city": "Moskva"},
        "cast": [
            {"id": 7, "name": "Natalja", "birthYear": 1950},
            {"id": 8, "name": "Solaris", "birthYear": None},
        ],
        "tags": ["slow", "sea", "slow"],
        "scores": [("critics", 9), ("sea", 1)],
    },
    {
        "id": 2,
        "year": None,
        "rating": None,
        "seen": None,
        "poster": None,
        "slug": None,
        "title": None,
        "studio": None,
        "cast": None,
        "tags": None,
        "scores": None,
    },
    {
        "id": 3,
        "year": -1,
        "rating": float("nan"),
        "seen": False,
        "poster": b"",
        "slug": "",
        "title": "Żółw 𝄞",
        "studio": {"name": None, "city": "Moskva"},
        "cast": [],
        "tags": [],
        "scores": [],
    },
    {
        "id": 4,
        "year": 2000,
        "rating": 1.5,
        "seen": True,
        "poster": b"\x00\xff",
        "slug": "a long enough slug for a view",
        "title": "sea",
        "studio": {"name": "Moskva", "city": None},
        "cast": [{"id": 7, "name": "Natalja", "birthYear": 1950}],
        "tags": ["Moskva"],
        "scores": [("x", 2)],
    },
]


def table(schema: pa.Schema = MOVIE, rows: list[dict[str, Any]] = ROWS) -> pa.Table:
    return pa.Table.from_pylist(rows, schema)


def content(state: WriteState) -> dict[str, list[bytes]]:
    maps = {schema.name: state._types[schema.name].ordinals.map for schema in state.schemas}
    return {name: [held.record(ordinal) for ordinal in range(held.max_ordinal + 1)] for name, held in maps.items()}


def ingested(data: Any, schemas: SchemaSet = MOVIES, **options: Any) -> dict[str, list[bytes]]:
    state = WriteState(schemas)
    ingest_arrow(state, "Movie", data, **options)
    return content(state)


@pytest.fixture(scope="module")
def expected() -> dict[str, list[bytes]]:
    state = WriteState(MOVIES)
    assert ingest_dicts(state, "Movie", ROWS).tolist() == [0, 1, 2, 3]
    return content(state)


def test_strings_are_numbered_in_the_order_in_which_a_row_is_read(expected: dict[str, list[bytes]]) -> None:
    texts = [record[1:].decode() for record in expected["String"] if max(record) < 0x80]
    assert texts == ["Solaris", "Mosfilm", "Moskva", "Natalja", "slow", "sea", "critics", "x"]


def test_a_table_gives_the_same_records_as_its_dicts(expected: dict[str, list[bytes]]) -> None:
    assert ingested(table()) == expected


@pytest.mark.parametrize("chunk_records", [1, 2, 7, 1000])
def test_the_size_of_chunks_does_not_matter(expected: dict[str, list[bytes]], chunk_records: int) -> None:
    assert ingested(table(), chunk_records=chunk_records) == expected


@pytest.mark.parametrize("start", [1, 3, 8, 9])
def test_slices_are_read_from_where_they_start(expected: dict[str, list[bytes]], start: int) -> None:
    whole = table(rows=[*ROWS * 3, *ROWS][: start + 4] if start % 4 == 0 else [ROWS[1]] * start + ROWS)
    assert ingested(whole.combine_chunks().slice(start)) == expected
    batch = whole.combine_chunks().to_batches()[0].to_struct_array().slice(start)
    assert ingested(pa.RecordBatch.from_struct_array(batch)) == expected


def test_a_sliced_struct_array_keeps_its_own_offset(expected: dict[str, list[bytes]]) -> None:
    inner = pa.array([ROWS[1]["studio"], *[row["studio"] for row in ROWS]], MOVIE.field("studio").type).slice(1)
    assert inner.offset == 1
    columns = {name: table()[name] for name in MOVIE.names} | {"studio": inner}
    assert ingested(pa.table(columns)) == expected


def test_chunked_columns_with_other_borders_are_read(expected: dict[str, list[bytes]]) -> None:
    whole = table()
    columns = {}
    for position, name in enumerate(MOVIE.names):
        cut = 1 + position % 3
        columns[name] = pa.chunked_array([*whole[name].slice(0, cut).chunks, *whole[name].slice(cut).chunks])
    assert ingested(pa.table(columns)) == expected


def _replaced(name: str, arrow_type: pa.DataType | str) -> pa.Table:
    whole = table()
    column = whole[name].dictionary_encode() if arrow_type == "dictionary" else whole[name].cast(arrow_type)
    return whole.set_column(whole.schema.get_field_index(name), name, column)


@pytest.mark.parametrize(
    ("name", "arrow_type"),
    [
        ("title", pa.large_string()),
        ("title", pa.string_view()),
        ("slug", pa.string_view()),
        ("title", pa.dictionary(pa.int8(), pa.string())),
        ("title", pa.dictionary(pa.int32(), pa.large_string())),
        ("slug", pa.dictionary(pa.uint16(), pa.string())),
        ("year", pa.int16()),
        ("year", pa.int64()),
        ("year", "dictionary"),
        ("id", "dictionary"),
        ("id", pa.uint8()),
        ("id", pa.uint64()),
        ("rating", pa.float64()),
        ("rating", pa.float16()),
        ("poster", pa.large_binary()),
        ("poster", pa.binary_view()),
        ("cast", pa.large_list(ACTOR)),
        ("tags", pa.large_list(pa.large_string())),
        ("tags", pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        ("scores", pa.map_(pa.large_string(), pa.int64())),
    ],
)
def test_every_layout_of_a_column_gives_the_same_records(
    expected: dict[str, list[bytes]], name: str, arrow_type: pa.DataType | str
) -> None:
    assert ingested(_replaced(name, arrow_type)) == expected


def test_run_end_encoded_columns_are_followed(expected: dict[str, list[bytes]]) -> None:
    import pyarrow.compute as pc

    whole = table().combine_chunks()
    runs = pc.run_end_encode(whole["year"].combine_chunks())
    assert ingested(whole.set_column(1, "year", runs)) == expected
    titles = pc.run_end_encode(whole["title"].combine_chunks())
    assert ingested(whole.set_column(6, "title", titles)) == expected


def test_dictionaries_may_hold_nulls_themselves() -> None:
    schemas = parse_schemas("String { string value; } Movie { String title; string slug; }", "<test>")
    coded = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0], pa.int8()), pa.array(["a", None]))
    plain = pa.array(["a", None, None, "a"])
    assert ingested(pa.table({"title": coded, "slug": coded}), schemas) == ingested(
        pa.table({"title": plain, "slug": plain}), schemas
    )


def test_a_dictionary_of_structs_is_followed() -> None:
    schemas = parse_schemas("String { string value; } Studio { String name; } Movie { Studio studio; }", "<test>")
    studios = pa.array([{"name": "a"}, {"name": None}, None], pa.struct([("name", pa.string())]))
    coded = pa.DictionaryArray.from_arrays(pa.array([1, None, 2, 0, 1], pa.int8()), studios)
    plain = pa.array([{"name": None}, None, None, {"name": "a"}, {"name": None}], studios.type)
    assert ingested(pa.table({"studio": coded}), schemas) == ingested(pa.table({"studio": plain}), schemas)


def test_elements_under_a_null_list_are_no_records() -> None:
    schemas = parse_schemas("String { string value; } SetOfString Set<String>; Movie { SetOfString tags; }", "<test>")
    tags = pa.ListArray.from_arrays(
        pa.array([0, 2, 4, 5], pa.int32()),
        pa.array(["a", "b", "hidden", "b", "c"]),
        mask=pa.array([False, True, False]),
    )
    plain = pa.array([["a", "b"], None, ["c"]])
    assert ingested(pa.table({"tags": tags}), schemas) == ingested(pa.table({"tags": plain}), schemas)


def test_fields_under_a_null_struct_are_no_records() -> None:
    schemas = parse_schemas(
        "String { string value; } Studio { String name; long id; } Movie { Studio studio; }", "<test>"
    )
    studio = pa.StructArray.from_arrays(
        [pa.array(["a", "hidden", "b"]), pa.array([1, -(2**63), 3])],
        ["name", "id"],
        mask=pa.array([False, True, False]),
    )
    plain = pa.array([{"name": "a", "id": 1}, None, {"name": "b", "id": 3}], studio.type)
    assert ingested(pa.table({"studio": studio}), schemas) == ingested(pa.table({"studio": plain}), schemas)


def test_fixed_size_lists_and_their_nulls_are_lists() -> None:
    schemas = parse_schemas("Integer { int value; } ListOfInteger List<Integer>; Movie { ListOfInteger at; }", "<test>")
    at = pa.array([[1, 2], None, [2, 3]], pa.list_(pa.int32(), 2))
    plain = pa.array([[1, 2], None, [2, 3]], pa.list_(pa.int32()))
    assert ingested(pa.table({"at": at}), schemas) == ingested(pa.table({"at": plain}), schemas)
    assert ingested(pa.table({"at": at.slice(2)}), schemas) == ingested(pa.table({"at": plain.slice(2)}), schemas)


def test_a_null_scalar_in_a_list_is_a_boxed_record_without_a_value() -> None:
    schemas = parse_schemas("Integer { int value; } ListOfInteger List<Integer>; Movie { ListOfInteger at; }", "<test>")
    found = ingested(pa.table({"at": pa.array([[1, None, 1]], pa.list_(pa.int32()))}), schemas)
    assert found["Integer"] == [b"\x02", b"\x80"]
    assert found["ListOfInteger"] == [b"\x03\x00\x01\x00"]


def test_null_structs_in_lists_are_kept_where_the_model_says_so() -> None:
    rows = pa.table({"cast": pa.array([[{"id": 1}, None]], pa.list_(pa.struct([("id", pa.int64())])))})
    kept = Model.from_arrow(rows.schema, "Movie", keep_null_elements=True)
    state = WriteState(kept.schemas)
    ingest_arrow(state, "Movie", rows, model=kept)
    assert content(state)["NullableMovieCast"] == [b"\x00", b"\x80"]
    refusing = Model.from_arrow(rows.schema, "Movie")
    with pytest.raises(InputError, match=r"column 'cast\[\]', row 0: a MovieCast inside a collection is null"):
        ingest_arrow(WriteState(refusing.schemas), "Movie", rows, model=refusing)


def test_a_list_of_pairs_is_a_map(expected: dict[str, list[bytes]]) -> None:
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.int32())]))
    rows = [None if row["scores"] is None else [{"key": k, "value": v} for k, v in row["scores"]] for row in ROWS]
    assert ingested(table().set_column(10, "scores", pa.array(rows, pairs))) == expected


def test_columns_may_come_in_any_order_and_missing_ones_are_null(expected: dict[str, list[bytes]]) -> None:
    names = list(reversed(MOVIE.names))
    assert ingested(table().select(names)) == expected
    some = ingested(table().select(["title", "id"]))
    assert some["Movie"][1] == b"\x04\x80\x7f\xc0\x00\x01\x80\x80\x80\x80\x80\x80\x80\x80"
    assert some["Actor"] == []


def test_unknown_columns_are_refused_by_name_at_every_level_or_ignored(expected: dict[str, list[bytes]]) -> None:
    more = table().append_column("colour", pa.array([1, 2, 3, 4]))
    with pytest.raises(InputError, match="type Movie has no field for column 'colour'"):
        ingested(more)
    assert ingested(more, ignore_unknown=True) == expected
    nested = pa.table({"studio": pa.array([{"name": "a", "boss": 1}])})
    with pytest.raises(InputError, match=r"type Studio has no field for column 'studio\.boss'"):
        ingested(nested)


def test_columns_of_nulls_have_any_type(expected: dict[str, list[bytes]]) -> None:
    nulls = pa.table({name: pa.nulls(4) for name in MOVIE.names[1:]}).append_column("id", pa.array([1, 2, 3, 4]))
    found = ingested(nulls)
    assert [len(records) for records in found.values()] == [0, 0, 0, 0, 0, 0, 0, 4]


def test_polars_and_pandas_are_read_through_the_stream_they_offer(expected: dict[str, list[bytes]]) -> None:
    polars = pytest.importorskip("polars")
    rows = [{key: value for key, value in row.items() if key != "scores"} for row in ROWS]
    frame = polars.DataFrame(rows, schema_overrides={"year": polars.Int32, "rating": polars.Float32})
    found = ingested(frame)
    assert found["Actor"] == expected["Actor"]
    assert len(found["Movie"]) == 4


def test_a_stream_of_batches_is_read_once(expected: dict[str, list[bytes]]) -> None:
    batches = table().to_batches(max_chunksize=1)
    assert ingested(pa.RecordBatchReader.from_batches(MOVIE, batches)) == expected


def test_progress_is_told_and_rows_are_counted_over_batches() -> None:
    done: list[int] = []
    reader = pa.RecordBatchReader.from_batches(MOVIE, table().to_batches(max_chunksize=3))
    ordinals = ingest_arrow(WriteState(MOVIES), "Movie", reader, progress=done.append)
    assert done == [3, 4]
    assert ordinals.dtype == np.int32


def test_no_rows_give_no_ordinals() -> None:
    assert ingest_arrow(WriteState(MOVIES), "Movie", table(rows=[])).tolist() == []
    assert ingest_arrow(WriteState(MOVIES), "Movie", pa.RecordBatchReader.from_batches(MOVIE, [])).tolist() == []


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("year", pa.array([1, 2**31]), r"column 'year', row 1: 2147483648 is out of the range of int32"),
        ("year", pa.array([1, -(2**31)], pa.int32()), r"column 'year', row 1: -2147483648 means null in a Hollow INT"),
        ("id", pa.array([1, 2**64 - 1], pa.uint64()), r"column 'id', row 1: 18446744073709551615 is out of the range"),
        ("rating", pa.array([1.5, 0.1]), r"column 'rating', row 1: 0.1 is no float32"),
        ("year", pa.array(["a"]), r"column 'year' is string, its field is int32"),
        ("title", pa.array([1]), r"column 'title' is int64, its field is string"),
        ("id", pa.array([1.0]), r"column 'id' is float64, its field is int64"),
        ("id", pa.array([1], pa.timestamp("us")), r"column 'id' is timestamp\[us\], its field is int64"),
        ("cast", pa.array(["a"]), r"column 'cast' is Arrow 'u': type ListOfActor is a LIST"),
        ("cast", pa.array([{"id": 1}]), r"column 'cast' is Arrow '\+s': type ListOfActor is a LIST"),
        ("studio", pa.array([[1]]), r"column 'studio' is Arrow '\+l': type Studio is a OBJECT"),
        ("slug", pa.array([["a"]]), r"column 'slug' is nested, its field is string"),
        ("cast", pa.array([[{"id": 1}], [{"id": 2}, None]]), r"column 'cast\[\]', row 1: a Actor inside a collection"),
    ],
)
def test_what_cannot_be_kept_is_named_with_column_and_row(column: str, values: pa.Array, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ingested(pa.table({column: values}))


def test_the_row_of_a_nested_value_is_the_row_of_the_table() -> None:
    cast = [None, [], [{"id": 1, "birthYear": 3}], [{"id": 1, "birthYear": 4}, {"id": 2, "birthYear": -(2**31)}]]
    with pytest.raises(InputError, match=r"column 'cast\[\]\.birthYear', row 7: -2147483648 means null"):
        ingested(pa.table({"cast": pa.array([None] * 4 + cast, pa.list_(ACTOR))}), chunk_records=2)


def test_text_that_is_no_utf8_is_refused_with_its_row() -> None:
    broken = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer(b"a\xc3\x28"))
    for column in ("title", "slug"):
        with pytest.raises(InputError, match=rf"column '{column}', row 1: the text b'\\xc3\(' is no UTF-8"):
            ingested(pa.table({column: broken}))


def test_what_is_no_arrow_or_no_object_is_refused() -> None:
    with pytest.raises(InputError, match="a list has none"):
        ingest_arrow(WriteState(MOVIES), "Movie", [1, 2])
    with pytest.raises(InputError, match="rows are structs"):
        ingest_arrow(WriteState(MOVIES), "Movie", pa.chunked_array([[1, 2]]))
    with pytest.raises(InputError, match="type ListOfActor is a LIST"):
        ingest_arrow(WriteState(MOVIES), "ListOfActor", table())
    other = Model.parse("Movie { int id; }")
    with pytest.raises(InputError, match="type Movie of the model is not that of the write state"):
        ingest_arrow(WriteState(MOVIES), "Movie", table(), model=other)


def test_columns_without_nulls_keep_the_smallest_number_and_refuse_null() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    model = Model.from_arrow(schema, "Movie")
    state = WriteState(model.schemas)
    ingest_arrow(state, "Movie", pa.table({"id": [-(2**63), 1]}, schema=schema), model=model)
    assert content(state)["Movie"] == [b"\x80", b"\x02"]
    with pytest.raises(InputError, match="column 'id', row 1: null in a column without nulls"):
        ingest_arrow(state, "Movie", pa.table({"id": [1, None]}), model=model)
    with pytest.raises(InputError, match="column 'id' is missing"):
        ingest_arrow(state, "Movie", pa.table({"x": [1]}).select([]), model=model)


def test_several_places_keep_their_order_after_a_restore_and_in_partitions(expected: dict[str, list[bytes]]) -> None:
    first = WriteState(MOVIES)
    ingest_arrow(first, "Movie", table(rows=ROWS[2:]))
    blob = io.BytesIO()
    first.write_snapshot(blob)
    states = []
    for _ in range(2):
        restored = WriteState(MOVIES)
        restored.restore(ReadState.load(blob.getvalue()))
        states.append(restored)
    by_column = ingest_arrow(states[0], "Movie", table())
    by_record = [int(ingest_dicts(states[1], "Movie", [row])[0]) for row in ROWS]
    assert by_column.tolist() == by_record
    blobs = []
    for state in states:
        state.set_tag(7)
        blobs.append(io.BytesIO())
        state.write_delta(blobs[-1])
    assert blobs[0].getvalue() == blobs[1].getvalue()
    parts = [WriteState(MOVIES, partitioned=True) for _ in range(2)]
    assert ingest_arrow(parts[0], "Movie", table()).tolist() == [
        int(ingest_dicts(parts[1], "Movie", [row])[0]) for row in ROWS
    ]


def test_rows_come_back_as_they_went_in() -> None:
    state = WriteState(MOVIES)
    ordinals = ingest_arrow(state, "Movie", table())
    blob = io.BytesIO()
    state.write_snapshot(blob)
    back = pa.table(ReadState.load(blob.getvalue())["Movie"].to_arrow(ordinals=ordinals)).to_pylist()
    for found, row in zip(back, ROWS, strict=True):
        assert {name: found[name] for name in ("id", "title", "studio", "cast", "slug", "poster", "year")} == {
            name: row[name] for name in ("id", "title", "studio", "cast", "slug", "poster", "year")
        }
        assert sorted(found["tags"] or []) == sorted(row["tags"] or [])
        assert dict(found["scores"] or []) == dict(row["scores"] or [])


def test_list_views_may_overlap_and_go_backwards() -> None:
    schemas = parse_schemas("Integer { int value; } ListOfInteger List<Integer>; Movie { ListOfInteger at; }", "<test>")
    views = pa.ListViewArray.from_arrays(
        pa.array([2, 0, 1], pa.int32()), pa.array([1, 2, 2], pa.int32()), pa.array([5, 6, 7], pa.int32())
    )
    plain = pa.array([[7], [5, 6], [6, 7]], pa.list_(pa.int32()))
    assert ingested(pa.table({"at": views}), schemas) == ingested(pa.table({"at": plain}), schemas)
