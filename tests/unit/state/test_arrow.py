"""Arrow in and out of states: exact values, nulls, slices; no pyarrow in the code under test."""

import gc
import io
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from deltaic.binary.arrow import ArrowArray, ArrowColumn, ArrowField, ArrowTable, read_stream
from deltaic.errors import DecodeError, InputError, NotFoundError
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema
from tests.unit.state.movies import catalogue
from tests.unit.state.packed_types import pack_type, state_of

pa = pytest.importorskip("pyarrow")

STRING = ObjectSchema("String", (Field("value", FieldType.STRING),))
CITY = ObjectSchema("City", (Field("name", FieldType.REFERENCE, "String"), Field("twin", FieldType.REFERENCE, "City")))


@pytest.fixture(params=[1, 4])
def state(request):
    return catalogue(request.param, (0, 3))


def rows(table):
    result = pa.table(table)
    result.validate(full=True)
    return result.to_pylist()


def test_records_become_rows_with_references_followed(state):
    found = rows(state["Movie"])
    assert found[0] == {
        "id": 7,
        "year": 1972,
        "rating": 8.5,
        "weight": 0.25,
        "seen": True,
        "poster": b"\x89PNG",
        "note": "космос",
        "title": "Solaris",
        "cast": [{"id": 2, "name": None}, {"id": 1, "name": "Banionis"}, {"id": 2, "name": None}],
        "tags": ["Зеркало 🎬", "Solaris"],
        "scores": [("Solaris", -6), ("Зеркало 🎬", 5)],
        "ordinal": 99,
        "studio": 3,
    }
    assert found[1] == dict.fromkeys(found[1]) | {"id": -3}
    assert found[2]["cast"] == [] and found[2]["rating"] != found[2]["rating"]


def test_past_the_depth_references_are_ordinals_and_boxed_values_are_not(state):
    flat = pa.table(state["Movie"].to_arrow(depth=0))
    assert flat["cast"].to_pylist() == [1, None, 0] and flat["title"].to_pylist() == ["Solaris", None, "Зеркало 🎬"]
    assert flat.schema.field("cast").type == pa.int32()
    one = pa.table(state["Movie"].to_arrow(depth=1))
    assert one["cast"].to_pylist() == [[1, 0, 1], None, []] and one["tags"].to_pylist()[2] == []


def test_fields_and_ordinals_can_be_chosen(state):
    table = state["Movie"].to_arrow(fields=["year", "id"], ordinals=[3, 4, 0], ordinal_column="at")
    assert table.column_names == ("at", "year", "id") and table.num_rows == len(table) == 3
    assert rows(table) == [
        {"at": 3, "year": 1975, "id": 1 << 60},
        {"at": 4, "year": 1, "id": 8},
        {"at": 0, "year": 1972, "id": 7},
    ]
    with pytest.raises(NotFoundError, match="nothing"):
        state["Movie"].to_arrow(fields=["nothing"])
    with pytest.raises(InputError, match="no fields"):
        state["ListOfActor"].to_arrow(fields=["x"])


def test_collections_are_tables_of_one_column(state):
    assert rows(state["SetOfString"]) == [{"elements": []}, {"elements": ["Зеркало 🎬", "Solaris"]}]
    assert rows(state["MapOfStringToInteger"])[1] == {"entries": [("Solaris", -6), ("Зеркало 🎬", 5)]}
    assert rows(state["String"])[0] == {"value": "Solaris"}


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
def test_batches_are_parts_of_one_whole(state, batch_rows):
    parts = pa.RecordBatchReader.from_stream(state["Movie"].to_arrow(batch_rows=batch_rows)).read_all()
    assert repr(parts.to_pylist()) == repr(rows(state["Movie"]))
    assert len(parts["id"].chunks) == -(-3 // batch_rows)


def test_a_table_can_be_taken_more_than_once_and_dropped_half_way(state):
    table = state["Movie"].to_arrow(batch_rows=1)
    for _ in range(3):
        assert pa.table(table).num_rows == 3
        reader = pa.RecordBatchReader.from_stream(table)
        reader.read_next_batch()
        del reader
    assert table.to_pyarrow().schema.equals(pa.table(table).schema) and table.to_pyarrow().num_rows == 3


def test_polars_and_pandas_take_the_rows(state):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(state["Movie"].to_arrow(fields=["id", "title", "cast", "tags"]))
    assert frame["title"].to_list() == ["Solaris", None, "Зеркало 🎬"]
    assert frame["cast"].to_list()[0][1] == {"id": 1, "name": "Banionis"}


def test_an_empty_type_has_its_schema():
    state = state_of(pack_type(STRING, []), pack_type(CITY, []))
    table = pa.table(state["City"].to_arrow(depth=1))
    assert table.num_rows == 0 and table.schema.names == ["name", "twin"]


def test_a_type_that_refers_to_itself_needs_a_depth():
    strings = [("a",), ("b",)]
    state = state_of(pack_type(STRING, strings), pack_type(CITY, [(0, 1), (1, 0)]))
    with pytest.raises(InputError, match="depth"):
        state["City"].to_arrow()
    assert rows(state["City"].to_arrow(depth=2))[0] == {
        "name": "a",
        "twin": {"name": "b", "twin": {"name": "a", "twin": 1}},
    }
    assert rows(state["City"])[0]["twin"]["twin"]["twin"]["twin"] == 0
    with pytest.raises(InputError, match="not negative"):
        state["City"].to_arrow(depth=-1)


def test_two_ways_to_one_type_are_no_circle():
    pair = ObjectSchema("Pair", (Field("a", FieldType.REFERENCE, "S"), Field("b", FieldType.REFERENCE, "S")))
    single = ObjectSchema("S", (Field("x", FieldType.INT),))
    state = state_of(pack_type(single, [(1,), (2,)]), pack_type(pair, [(0, 1), (1, 1)]))
    assert rows(state["Pair"])[0] == {"a": {"x": 1}, "b": {"x": 2}}


def test_lone_surrogates_are_refused_by_name_or_replaced():
    text = ObjectSchema("T", (Field("s", FieldType.STRING),))
    state = state_of(pack_type(text, [("fine",), None, ("é\ud800x\udc00",), ("\ud83c\udfac",)]))
    with pytest.raises(InputError, match=r"T\.s of record 2 ") as caught:
        state["T"].to_arrow().to_pyarrow()
    assert caught.value.code == "InvalidText"
    with pytest.raises(InputError, match=r"T\.s of record 2 "):
        state["T"].column("s").to_arrow()
    # Behind the C interface the taker makes its own error of the message; plain kernels fail before.
    with pytest.raises((pa.ArrowInvalid, InputError), match=r"T\.s of record 2 "):
        pa.table(state["T"])
    table = state["T"].to_arrow(on_invalid_text="replace")
    assert [row["s"] for row in rows(table)] == ["fine", "é\ufffdx\ufffd", "🎬"]
    with pytest.raises(InputError, match="on_invalid_text"):
        state["T"].to_arrow(on_invalid_text="ignore")


def test_a_null_key_of_a_map_is_refused_by_name():
    maps = MapSchema("M", "String", "String")
    state = state_of(pack_type(STRING, [(None,), ("a",)]), pack_type(maps, [(None,), ((1, 0), (0, 1), None, None)]))
    with pytest.raises(InputError, match="type M, record 1 has a null key"):
        state["M"].to_arrow().to_pyarrow()


def test_a_reference_past_its_type_is_an_error():
    state = state_of(pack_type(STRING, [("a",)]), pack_type(ListSchema("L", "String"), [(0, 7)]))
    with pytest.raises(DecodeError, match="String 7"):
        state["L"].to_arrow().to_pyarrow()


@pytest.mark.parametrize("name", ["id", "year", "rating", "weight", "seen", "poster", "note", "title"])
def test_columns_are_arrow_arrays(state, name):
    column = state["Movie"].column(name)
    array = pa.array(column)
    array.validate(full=True)
    assert repr(array.to_pylist()) == repr(column.to_pylist()) and array.null_count == column.null_count
    assert pa.chunked_array(column).to_pylist()[0] == column.to_pylist()[0]


def test_members_are_arrow_lists_and_maps(state):
    assert pa.array(state["ListOfActor"].members()).to_pylist() == [[], [1, 0, 1]]
    assert pa.array(state["MapOfStringToInteger"].members()).to_pylist() == [[], [(0, 1), (3, 0)]]


def test_without_pyarrow_everything_but_to_pyarrow_works():
    code = """
import sys
import tracemalloc
sys.modules["pyarrow"] = None
from tests.unit.state.movies import catalogue
from deltaic.binary.arrow import read_stream
from deltaic.errors import MissingExtraError
table = catalogue()["Movie"].to_arrow()
kind, batches = read_stream(table)
assert [child.name for child in kind.children][:2] == ["id", "year"]
assert next(batches).children[0].data.tolist()[:2] == [7, -3]
try:
    table.to_pyarrow()
except MissingExtraError as error:
    assert "deltaic[arrow]" in str(error)
else:
    raise SystemExit("pyarrow was there")
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


VALUES = {
    "int8": pa.array([1, None, -3], pa.int8()),
    "uint64": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "float16": pa.array(np.array([1.5, 0, 2], np.float16)),
    "bool": pa.array([True, None, False] * 5),
    "text": pa.array(["a", None, "ccc", ""]),
    "large text": pa.array(["a", None, "ccc", ""], pa.large_string()),
    "text view": pa.array(
        ["a", None, "a text of more than twelve bytes", "", "another text that is long"], pa.string_view()
    ),
    "bytes view": pa.array([b"a", None, b"more than twelve bytes"], pa.binary_view()),
    "bytes": pa.array([b"a", None, b""]),
    "fixed bytes": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "list": pa.array([[1, 2], None, [], [3]]),
    "large list": pa.array([[1, 2], None, [], [3]], pa.large_list(pa.int16())),
    "fixed list": pa.array([[1, 2], None, [5, 6]], pa.list_(pa.int32(), 2)),
    "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": None}]),
    "map": pa.array([[("a", 1)], None, [], [("b", None), ("c", 3)]], pa.map_(pa.string(), pa.int32())),
    "nested": pa.array([[{"x": [1, None]}, None], None, [{"x": None}], []]),
    "dictionary": pa.array(["p", None, "q", "p"]).dictionary_encode(),
    "dictionary of lists": pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), pa.array([[1], [2, 3]])),
    "runs": pa.RunEndEncodedArray.from_arrays([2, 3, 5], ["a", None, "b"]),
    "date": pa.array([1, None], pa.date32()),
    "timestamp": pa.array([1, None], pa.timestamp("us", "UTC")),
    "decimal": pa.array([1, None], pa.decimal128(5, 2)),
    "null": pa.nulls(3),
    "list of texts": pa.array([["a", None], None, ["bb"]], pa.list_(pa.string_view())),
}


@pytest.mark.parametrize("name", VALUES)
def test_arrow_values_come_in_and_go_out_again_however_they_are_sliced(name):
    array = VALUES[name]
    for begin in range(len(array) + 1):
        for length in range(len(array) - begin + 1):
            part = array.slice(begin, length)
            _, batches = read_stream(part)
            column = next(batches)
            assert column.length == length
            back = pa.array(ArrowArray(column))
            back.validate(full=True)
            assert back.to_pylist() == part.to_pylist()
            assert column.null_count == sum(value is None for value in part.to_pylist())
            if column.offsets is not None:
                assert column.offsets[0] == 0 and len(column.offsets) == length + 1


@pytest.mark.parametrize("name", VALUES)
def test_columns_can_be_sliced_and_taken(name):
    _, batches = read_stream(pa.concat_arrays([VALUES[name]] * 3).slice(1))
    column = next(batches)
    whole = pa.array(ArrowArray(column)).to_pylist()
    for begin, end in ((0, len(whole)), (1, 4), (2, 2), (3, len(whole))):
        assert pa.array(ArrowArray(column.slice(begin, end))).to_pylist() == whole[begin:end]
    places = np.array([2, 0, 2, len(whole) - 1, 1], np.int64)
    assert pa.array(ArrowArray(column.take(places))).to_pylist() == [whole[place] for place in places]


def test_a_table_of_several_chunks_is_read_batch_by_batch():
    table = pa.table({"a": pa.chunked_array([[1, 2], [3]]), "s": pa.chunked_array([["x", None], ["z"]])})
    kind, batches = read_stream(table)
    columns = list(batches)
    assert [column.length for column in columns] == [2, 1]
    assert kind.children[0] == ArrowField("a", "l")
    assert pa.table(ArrowTable(kind, 3, lambda: iter(columns))).to_pylist() == table.to_pylist()


def test_field_metadata_and_nullability_survive():
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False, metadata={"k": "v"})])
    kind, _ = read_stream(pa.table({"a": pa.array([1], pa.int32())}, schema=schema))
    assert kind.children[0].metadata == ((b"k", b"v"),) and not kind.children[0].nullable
    back = pa.schema(ArrowTable(kind, 0, lambda: iter(())))
    assert back.field("a").metadata == {b"k": b"v"} and not back.field("a").nullable


def test_what_is_not_arrow_or_not_known_is_refused():
    with pytest.raises(InputError, match="no Arrow data"):
        read_stream([1, 2])
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    _, batches = read_stream(union)
    with pytest.raises(InputError, match="not supported"):
        next(batches)


def test_columns_hold_the_memory_of_a_source_that_is_gone():
    def source():
        return pa.array([{"s": f"text {number}", "l": [number] * 3} for number in range(2000)])

    _, batches = read_stream(source())
    column = next(batches)
    del batches
    gc.collect()
    pa.array(np.random.default_rng(1).integers(0, 9, 100_000))  # what was freed would be written over
    assert pa.array(ArrowArray(column)).equals(source())
    text = column.children[0].data
    del column
    gc.collect()
    assert text[:6].tobytes() == b"text 0"


def test_what_was_handed_out_holds_its_memory():
    schema = ObjectSchema("T", (Field("n", FieldType.INT), Field("s", FieldType.STRING)))
    rows_given = [(number, f"text {number}") for number in range(2000)]
    table = pa.table(state_of(pack_type(schema, rows_given))["T"])
    gc.collect()
    assert table["s"].to_pylist() == [text for _, text in rows_given]
    assert table["n"].to_pylist() == [number for number, _ in rows_given]


def test_texts_past_two_gigabytes_of_offsets_are_large():
    from deltaic.binary.arrow import text_format

    assert text_format(np.array([0, 2**31 - 1])) == "u" and text_format(np.array([0, 2**31])) == "U"
    assert text_format(np.array([0, 2**31]), binary=True) == "Z" and text_format(np.array([0])) == "u"


def test_a_failing_batch_ends_the_stream_with_its_message():
    def broken():
        yield ArrowColumn(ArrowField("", "+s", False), 2)
        raise InputError("row 7 is bad")

    with pytest.raises((pa.ArrowInvalid, InputError), match="row 7 is bad"):
        pa.table(ArrowTable(ArrowField("", "+s", False), 4, broken))


def unfolding(*lists):
    """A state of lists of lists: each is the ordinals of its elements."""
    from deltaic.schema.text import parse_schemas
    from deltaic.state.read import ReadState
    from deltaic.state.write import WriteState

    state = WriteState(parse_schemas("Nest List<Nest>;"))
    for elements in lists:
        state.add_list("Nest", elements)
    stream = io.BytesIO()
    state.write_snapshot(stream)
    return ReadState.load(stream.getvalue())


def test_a_row_that_unfolds_to_far_more_than_the_state_holds_is_refused_before_memory_is_taken():
    # 15,000 elements, of which the second level would make 25 million and the third 10^11.
    state = unfolding([], [0] * 5000, [1] * 5000, [2] * 5000)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"type Nest, record 3 unfolds to more than [\d,]+ elements") as refused:
            list(state["Nest"].to_arrow(depth=3, ordinals=[3, 3]).batches())
        assert refused.value.code == "TooLarge"
        assert tracemalloc.get_traced_memory()[1] < 128 << 20
    finally:
        tracemalloc.stop()


def test_a_batch_that_unfolds_to_too_much_is_cut_and_gives_the_same_rows(monkeypatch):
    state = unfolding([], *[[0] * number for number in range(1, 40)])
    whole = state["Nest"].to_arrow(depth=1)
    assert len(list(whole.batches())) == 1
    monkeypatch.setattr("deltaic.state.arrow.BATCH_ELEMENTS", 100)
    cut = state["Nest"].to_arrow(depth=1)
    assert len(list(cut.batches())) > 5
    assert rows(cut) == rows(whole) and len(rows(cut)) == 40


def test_one_list_larger_than_a_batch_is_a_row_all_the_same(monkeypatch):
    monkeypatch.setattr("deltaic.state.unfolding.BATCH_ELEMENTS", 100)
    monkeypatch.setattr("deltaic.state.arrow.BATCH_ELEMENTS", 100)
    state = unfolding([], [0] * 5000)
    assert [len(row["elements"]) for row in rows(state["Nest"].to_arrow(depth=1))] == [0, 5000]
