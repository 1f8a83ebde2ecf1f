"""Columns: values and nulls of one field of many records."""

import numpy as np
import pytest

from deltaic.errors import InputError, NotFoundError
from deltaic.schema.types import Field, FieldType, ObjectSchema
from tests.unit.state.movies import MOVIE, STRING, catalogue
from tests.unit.state.packed_types import pack_type, state_of


@pytest.fixture(params=[1, 2, 4])
def state(request):
    return catalogue(request.param, (0, 5, 1, 2))


DTYPES = {
    "id": np.int64,
    "year": np.int32,
    "rating": np.float32,
    "weight": np.float64,
    "seen": np.bool_,
    "title": np.int32,
}


@pytest.mark.parametrize("name", DTYPES)
def test_a_column_has_the_type_of_its_field(state, name):
    column = state["Movie"].column(name)
    assert column.values.dtype == DTYPES[name] and len(column) == 3


def test_columns_leave_holes_and_ghosts_out(state):
    column = state["Movie"].column("id")
    assert column.values.tolist() == [7, -3, 1 << 60]
    assert column.ordinals.tolist() == [0, 2, 3]
    assert column.valid is None and column.null_count == 0


def test_nulls_are_masked_and_hold_what_java_returns(state):
    movies = state["Movie"]
    for name in ("year", "rating", "weight", "seen", "title", "note", "poster"):
        assert movies.column(name).valid.tolist() == [True, False, True]
        assert movies.column(name).null_count == 1
    assert movies.column("year").values[1] == -(2**31)
    assert movies.column("title").values[1] == -1
    assert np.isnan(movies.column("rating").values[1]) and not movies.column("seen").values[1]


def test_ordinals_come_in_the_order_asked_for_with_repeats_and_ghosts(state):
    movies = state["Movie"]
    asked = np.array([4, 0, 0, 3], np.int32)
    assert movies.column("note", asked).to_pylist() == ["gone", "космос", "космос", ""]
    assert movies.column("year", [4, 0]).to_pylist() == [1, 1972]
    assert movies.column("poster", asked).to_pylist() == [b"old", b"\x89PNG", b"\x89PNG", b""]
    assert movies.column("year", []).to_pylist() == [] and movies.column("note", []).to_pylist() == []


@pytest.mark.parametrize("wrong", [[-1], [5], [0, 2**40], np.array([2**62])])
def test_ordinals_outside_the_type_are_not_found(state, wrong):
    for name in ("year", "note"):
        with pytest.raises(NotFoundError, match="Movie has no record"):
            state["Movie"].column(name, wrong)


@pytest.mark.parametrize("wrong", [[[0]], [0.5], ["0"], 3])
def test_ordinals_are_integers_in_a_row(state, wrong):
    with pytest.raises(InputError, match="list of integers"):
        state["Movie"].column("year", wrong)


def test_a_value_can_stand_for_null(state):
    movies = state["Movie"]
    assert movies.column("year", null=0).values.tolist() == [1972, 0, 1975]
    assert movies.column("year", null=0).valid is None
    assert movies.column("id", null=5).values.tolist() == [7, -3, 1 << 60]
    assert np.isnan(movies.column("weight", null=float("nan")).values[1])
    for wrong in (2**40, 0.5, "x"):
        with pytest.raises(InputError, match="stand for null"):
            movies.column("year", null=wrong)
    with pytest.raises(InputError, match="note"):
        movies.column("note", null=0)


def test_unknown_fields_are_named(state):
    with pytest.raises(NotFoundError, match="'yaer'.*fields: id, year"):
        state["Movie"].column("yaer")
    with pytest.raises(InputError, match="members"):
        state["ListOfActor"].column("element")
    with pytest.raises(InputError, match="column"):
        state["Movie"].members()


def test_numpy_gets_a_masked_array_only_where_nulls_are(state):
    movies = state["Movie"]
    assert type(movies.column("id").to_numpy()) is np.ndarray
    assert movies.column("year").to_numpy().mask.tolist() == [False, True, False]
    assert movies.column("note").to_numpy().tolist() == ["космос", None, ""]


def test_collections_are_offsets_and_ordinals(state):
    lists = state["ListOfActor"].members()
    assert lists.offsets.tolist() == [0, 0, 3] and lists.elements.tolist() == [1, 0, 1] and lists.values is None
    assert state["SetOfString"].members([1, 0, 1]).to_pylist() == [[3, 0], [], [3, 0]]
    assert state["MapOfStringToInteger"].members().to_pylist() == [[], [(0, 1), (3, 0)]]


def test_ascii_texts_of_one_shard_are_not_copied():
    state = state_of(pack_type(STRING, [("Solaris",), (None,), ("Mirror",)]))
    column = state["String"].column("value")
    stored = state.types["String"].shards[0].variable[0]
    assert np.shares_memory(column.data, stored)
    assert column.to_pylist() == ["Solaris", None, "Mirror"]


def test_ascii_texts_are_not_copied_around_holes_without_bytes():
    state = state_of(pack_type(STRING, [None, ("Solaris",), None, ("Mirror",), None]))
    column = state["String"].column("value")
    assert np.shares_memory(column.data, state.types["String"].shards[0].variable[0])
    assert column.to_pylist() == ["Solaris", "Mirror"]


def test_the_bytes_of_ghosts_stay_out_of_the_column():
    state = state_of(pack_type(STRING, [("a",), ("ghost",), ("b",)], ghosts=(1,)))
    column = state["String"].column("value")
    assert column.data.tobytes() == b"ab" and column.to_pylist() == ["a", "b"]


def test_lone_surrogates_are_kept_in_texts_and_counted():
    texts = ["a", "\ud800", "🎬", "\udc00\ud800"]
    column = state_of(pack_type(STRING, [(text,) for text in texts]))["String"].column("value")
    assert column.to_pylist() == texts and column.lone_surrogates == 2


def test_a_type_without_records_gives_empty_columns():
    state = state_of(pack_type(MOVIE, []))
    for field in MOVIE.fields:
        column = state["Movie"].column(field.name)
        assert len(column) == 0 and column.to_pylist() == [] and column.valid is None


def test_a_field_of_no_bits_is_all_null():
    from dataclasses import replace

    kinds = [FieldType.INT, FieldType.FLOAT, FieldType.DOUBLE, FieldType.STRING, FieldType.REFERENCE, FieldType.BOOLEAN]
    schema = ObjectSchema(
        "Bare", tuple(Field(kind.lower(), kind, "X" if kind is FieldType.REFERENCE else None) for kind in kinds)
    )
    full = pack_type(schema, [(1, 1.0, 1.0, "x", 1, True)] * 3)
    shard = replace(full.shards[0], widths=(0,) * 6, offsets=(0,) * 6, bits_per_record=0, records=np.zeros(0, np.uint8))
    view = state_of(replace(full, shards=(shard,)))["Bare"]
    for field in schema.fields:
        assert view.column(field.name).to_pylist() == [None] * 3
        assert view[1][field.name] is None


@pytest.mark.parametrize("count", [1, 63, 64, 65, 511, 512, 513, 1500])
def test_columns_longer_than_a_block_are_whole(count):
    schema = ObjectSchema("N", (Field("n", FieldType.LONG), Field("s", FieldType.STRING)))
    holes = {o for o in range(count) if o % 7 == 3}
    rows = [
        None if o in holes else (o * 31 - 5000 if o % 5 else None, f"t{o}" if o % 3 else None) for o in range(count)
    ]
    for shards in (1, 8):
        view = state_of(pack_type(schema, rows, shards=shards))["N"]
        kept = [row for row in rows if row is not None]
        assert view.column("n").to_pylist() == [row[0] for row in kept]
        assert view.column("s").to_pylist() == [row[1] for row in kept]
        whole = state_of(pack_type(schema, kept, shards=shards))["N"]
        assert whole.column("n").to_pylist() == [row[0] for row in kept]
        assert whole.column("s").to_pylist() == [row[1] for row in kept]


def test_columns_of_recorded_states_are_what_java_read(hollow_fixtures):
    import json
    import struct

    from deltaic.state.read import ReadState

    def seen(value, kind):
        if value is None or kind not in ("FLOAT", "DOUBLE", "BYTES"):
            return value
        return value.hex() if kind == "BYTES" else struct.pack(">f" if kind == "FLOAT" else ">d", value).hex()

    checked = 0
    for case in ("scalars", "scalar-edges", "collections", "nested", "shards", "resharding", "focus-holes"):
        for wanted in sorted((hollow_fixtures / case).glob("state-*.json")):
            expected = json.loads(wanted.read_text())
            state = ReadState.load(wanted.with_name(f"snapshot-{expected['version']}"))
            for name, content in expected["types"].items():
                records = content["records"]
                if content["kind"] == "OBJECT":
                    for place, (field, kind, *_) in enumerate(content["fields"]):
                        column = state[name].column(field).to_pylist()
                        assert [seen(value, kind) for value in column] == [record[place] for record in records]
                        checked += 1
                elif content["kind"] == "LIST":
                    assert state[name].members().to_pylist() == records
                else:
                    empty = -1 if content["kind"] == "SET" else None
                    kept = [[b for b in record["buckets"] if b != empty] for record in records]
                    found = [
                        [list(m) if isinstance(m, tuple) else m for m in ms] for ms in state[name].members().to_pylist()
                    ]
                    assert found == kept
    assert checked > 100
