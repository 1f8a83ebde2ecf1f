"""A reader takes over what a delta appends: values, fields, types; and nothing of it that it does not want."""

import io
import struct

import numpy as np
import pytest

from deltaic.errors import ChainError, DecodeError, SchemaError
from deltaic.schema.text import parse_schemas
from deltaic.state.append_write import SchemaAppend
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.state.write_blobs import BlobPart
from tests.unit.append.histories import History, content

OLD = "Movie @PrimaryKey(id) { int id; string title; }\n"
NEW = """Word { string w; }
Movie @PrimaryKey(id) {
    int id; string title; int i; long l; boolean b; float f; double d; string s; bytes y; Word r; }
"""
NAN = struct.unpack(">f", bytes.fromhex("7fc00000"))[0]


def old_row(number):
    return {"id": number, "title": f"movie {number}"}


def new_row(number):
    row = old_row(number)
    if number % 5:
        row |= {"i": number * 1000 - 7, "l": (1 << 40) * number, "b": number % 2 == 0, "r": number % 3}
    if number % 4:
        row |= {"f": NAN if number == 3 else number / 2, "d": -number / 3}
    if number % 3:
        row |= {"s": "Größe \U0001f600 \ud800" * (number % 4), "y": bytes(range(number))}
    return row


def evolved(options=None, **write_options):
    """Ten records; then new fields, two records gone and two added; then a change under the same model."""
    history = History(options or SchemaAppend(), **write_options)
    history.publish(OLD, {"Movie": [old_row(n) for n in range(10)]})
    words = [{"w": f"word {n}"} for n in range(3)]
    history.publish(NEW, {"Word": words, "Movie": [new_row(n) for n in (0, 1, 3, 4, 5, 6, 7, 9, 10, 11)]})
    history.publish(NEW, {"Word": words, "Movie": [new_row(n) for n in (0, 1, 3, 4, 5, 6, 7, 11, 12)]})
    return history


@pytest.mark.parametrize("shards", [1, 2, 8])
@pytest.mark.parametrize("compression", [None, "zstd", "zlib"])
def test_a_full_reader_has_what_a_fresh_reader_of_the_snapshot_has(shards, compression):
    history = evolved(SchemaAppend(compression=compression), pinned_shards={"Movie": shards})
    for number in (2, 3):
        partial = History()
        partial.versions = history.versions[:number]
        reader, fresh = partial.follow("full"), partial.fresh()
        assert content(reader) == content(fresh)
        assert reader.checksum() == fresh.checksum()
        assert reader["Movie"].schema.primary_key == ("id",)
        assert reader["Movie"].column("s").to_pylist() == fresh["Movie"].column("s").to_pylist()


def test_without_the_feature_a_reader_has_what_deltas_without_a_section_give():
    with_sections, without = evolved(), evolved(SchemaAppend(enabled=False))
    assert any(
        len(a.delta) != len(b.delta) for a, b in zip(with_sections.versions[1:], without.versions[1:], strict=True)
    )
    assert content(with_sections.follow("off")) == content(without.follow("full"))


def test_nothing_is_appended_while_the_model_stays():
    history, plain = evolved(), evolved(SchemaAppend(enabled=False))
    assert len(history.versions[2].delta) == len(plain.versions[2].delta)


def test_null_and_nan_stay_apart():
    reader = evolved().follow("full")
    by_id = {record["id"]: record for record in reader["Movie"]}
    assert by_id[0]["f"] is None and by_id[0]["d"] is None
    assert np.isnan(by_id[3]["f"])


def test_records_added_by_the_same_delta_have_their_new_fields():
    history = evolved()
    reader = history.fresh(0).apply(history.versions[1].delta, schema_append="full")
    assert {r["id"]: r["l"] for r in reader["Movie"]}[11] == (1 << 40) * 11


def test_the_old_state_stays_as_it_was():
    history = evolved()
    before = history.fresh(0)
    shown = content(before)
    before.apply(history.versions[1].delta, schema_append="full")
    assert content(before) == shown


def test_values_only_fill_fields_that_the_reader_has_and_count_the_others():
    history = evolved()
    state = history.fresh(0).apply(history.versions[1].delta, schema_append="values")
    assert content(state) == content(history.fresh(0).apply(history.versions[1].delta))
    assert state.appended.skipped_fields == 8 and state.appended.values == 0


def test_going_back_and_forward_again_ends_at_the_same_content():
    history = evolved()
    state = history.fresh(0)
    for _ in range(2):
        for version in history.versions[1:]:
            state = state.apply(version.delta, schema_append="full")
        assert content(state) == content(history.fresh())
        for version in reversed(history.versions[1:]):
            state = state.apply(version.reverse, schema_append="full")
        assert [r["title"] for r in state["Movie"]] == [r["title"] for r in history.fresh(0)["Movie"]]
    # A reader of a later snapshot that walks back to before the field, and forward again, has the values again.
    state = history.fresh(2)
    for number in (2, 1):
        state = state.apply(history.versions[number].reverse, schema_append="values")
    for number in (1, 2):
        state = state.apply(history.versions[number].delta, schema_append="values")
    assert content(state) == content(history.fresh())


COLLECTIONS = {
    "list": ("Tag { string t; }\nTags List<Tag>;\n", [{"elements": [0, 1]}, {"elements": []}]),
    "set": ("Tag { string t; }\nTags Set<Tag> @HashKey(t);\n", [{"elements": [0, 1]}, {"elements": [1]}]),
    "map": ("Tag { string t; }\nTags Map<Tag,Tag>;\n", [{"entries": {0: 1}}, {"entries": {}}]),
}


@pytest.mark.parametrize("kind", COLLECTIONS)
@pytest.mark.parametrize("shards", [1, 16])
def test_a_new_field_brings_types_that_the_reader_has_never_seen(kind, shards):
    text, rows = COLLECTIONS[kind]
    history = History(pinned_shards={"Tags": shards, "Tag": shards})
    history.publish("Movie { int id; }", {"Movie": [{"id": n} for n in range(4)]})
    tags = [{"t": "a"}, {"t": "b"}]
    movies = [{"id": n, "tags": n % 2} for n in range(3)]
    history.publish(text + "Movie { int id; Tags tags; }", {"Tag": tags, "Tags": rows, "Movie": movies})
    reader = history.follow("full")
    assert content(reader) == content(history.fresh())
    assert reader.checksum() == history.fresh().checksum()
    assert str(reader["Movie"][1]) == str(history.fresh()["Movie"][1])
    assert set(history.follow("off").types) == {"Movie"}


def test_a_new_type_without_a_record_is_there_too():
    history = History(pinned_shards={"Empty": 4})
    history.publish("Movie { int id; }", {"Movie": [{"id": 1}]})
    history.publish("Empty { int x; string s; }\nMovie { int id; Empty e; }", {"Movie": [{"id": 1}]})
    reader = history.follow("full")
    assert content(reader) == content(history.fresh())
    assert len(reader.types["Empty"].shards) == 4
    history.publish(
        "Empty { int x; string s; }\nMovie { int id; Empty e; }", {"Empty": [{"x": 3}], "Movie": [{"id": 2, "e": 0}]}
    )
    assert content(history.follow("full")) == content(history.fresh())


def test_removed_and_renamed_fields_and_types_follow_the_producer():
    history = History()
    old = "Note { string n; }\nMovie @PrimaryKey(id) { int id; string name; int gone; Note note; }"
    new = "Movie @PrimaryKey(key) { string title; int key; int year; }"
    renamed = {"Movie": {"title": "name", "key": "id"}}
    history.publish(
        old, {"Note": [{"n": "x"}], "Movie": [{"id": n, "name": f"m{n}", "gone": n, "note": 0} for n in range(6)]}
    )
    history.publish(new, {"Movie": [{"key": n, "title": f"m{n}", "year": 1990 + n} for n in range(1, 7)]}, renamed)
    reader = history.follow("full")
    assert content(reader) == content(history.fresh())
    assert reader.appended.values == 15, "values of renamed fields are sent too, for readers that walked back"
    assert {r["key"]: r["title"] for r in reader["Movie"]}[4] == "m4"
    assert set(history.follow("off").types) == {"Movie", "Note"}
    back = reader.apply(history.versions[1].reverse, schema_append="full")
    assert {r["key"]: r["title"] for r in back["Movie"]}[0] == "m0"
    assert content(back.apply(history.versions[1].delta, schema_append="full")) == content(history.fresh())


def test_a_field_of_another_type_is_a_schema_error_in_full_mode_and_skipped_in_values_mode():
    history = History(SchemaAppend(all_fields=True))
    history.publish("Movie { int id; }", {"Movie": [{"id": n} for n in range(3)]})
    history.publish("Movie { int id; long x; }", {"Movie": [{"id": n, "x": n} for n in range(3)]})
    clash = History()
    clash.publish("Movie { int id; string x; }", {"Movie": [{"id": n, "x": "t"} for n in range(3)]})
    stranger = ReadState.load(clash.versions[0].snapshot)
    stranger.tag = history.fresh(0).tag
    shown = content(stranger)
    with pytest.raises(SchemaError, match=r"Movie\.x is STRING here and LONG"):
        stranger.apply(history.versions[1].delta, schema_append="full")
    assert content(stranger) == shown
    state = stranger.apply(history.versions[1].delta, schema_append="values")
    assert content(state)["Movie"][4] == shown["Movie"][4] and state.appended.skipped_fields == 1


@pytest.mark.parametrize(
    ("wanted", "fields", "types"),
    [
        (Filter.only("Movie.id"), {"id"}, {"Movie"}),
        (Filter.only("Movie"), {"id", "title", "i", "l", "b", "f", "d", "s", "y", "r"}, {"Movie"}),
        (Filter.without("Movie.s", "Word"), {"id", "title", "i", "l", "b", "f", "d", "y", "r"}, {"Movie"}),
        (Filter.only("Movie.**"), {"id", "title", "i", "l", "b", "f", "d", "s", "y", "r"}, {"Movie", "Word"}),
    ],
)
def test_a_filter_leaves_out_of_new_fields_what_it_leaves_out_of_a_snapshot(wanted, fields, types):
    history = evolved()
    state = ReadState.load(history.versions[0].snapshot, filter=wanted)
    for version in history.versions[1:]:
        state = state.apply(version.delta, schema_append="full")
    fresh = ReadState.load(history.versions[-1].snapshot, filter=wanted)
    assert content(state) == content(fresh)
    assert {field.name for field in state.types["Movie"].schema.fields} == fields and set(state.types) == types


def test_conservative_mode_resends_everything_and_changes_nothing():
    history = evolved(SchemaAppend(all_fields=True))
    assert len(history.versions[2].delta) > len(evolved().versions[2].delta)
    for start in (0, 1):
        reader = history.follow("full", start)
        assert content(reader) == content(history.fresh())
    assert not reader.types["Movie"].appended, "values that were there already touch nothing"


def test_conservative_mode_brings_a_reader_along_that_missed_the_definition():
    history = History(SchemaAppend(enabled=False))
    history.publish("T { int a; }", {"T": [{"a": n} for n in range(5)]})
    new = "T { int a; string b; }"
    history.publish(new, {"T": [{"a": n, "b": f"b{n}"} for n in range(5)]})
    history.options = SchemaAppend(all_fields=True)
    history.publish(new, {"T": [{"a": n, "b": f"b{n}"} for n in range(1, 6)]})
    assert content(history.follow("full")) == content(history.fresh())


def test_switches_by_type():
    old, new = "A { int a; }\nB { int b; }", "A { int a; int x; }\nB { int b; int y; }"
    rows = {"A": [{"a": 1, "x": 2}], "B": [{"b": 1, "y": 2}]}
    for switches in (("A",), {"B": False}):
        history = History(SchemaAppend(types=switches))
        history.publish(old, {"A": [{"a": 1}], "B": [{"b": 1}]})
        history.publish(new, rows)
        reader = history.follow("full")
        assert reader["A"][0]["x"] == 2 and reader.types["B"].schema.position("y") < 0


def test_a_new_type_comes_with_the_field_that_leads_to_it():
    new = "B { int b; }\nBs List<B>;\nC { int c; }\nA { int a; Bs bs; }"
    rows = {"B": [{"b": 1}], "Bs": [{"elements": [0]}], "C": [{"c": 1}], "A": [{"a": 1, "bs": 0}]}
    for switches, types in ((("A",), {"A", "B", "Bs"}), ({"Bs": False, "C": False}, {"A", "B"}), (("C",), {"A", "C"})):
        history = History(SchemaAppend(types=switches))
        history.publish("A { int a; }", {"A": [{"a": 1}]})
        history.publish(new, rows)
        assert set(history.follow("full").types) == types


def test_a_new_type_in_an_optional_part_is_there_for_who_has_the_part():
    first = WriteState(parse_schemas("A { int a; }"))
    first.add_object("A", {"a": 1})
    first.write_snapshot(snapshot := io.BytesIO())
    state = WriteState(parse_schemas("B { int b; }\nA { int a; B r; }"))
    state.restore(ReadState.load(snapshot.getvalue()))
    state.add_object("B", {"b": 7})
    state.add_object("A", {"a": 1, "r": 0})
    main, part = io.BytesIO(), io.BytesIO()
    state.write_delta(main, parts={"more": BlobPart(part, frozenset({"B"}))}, append=SchemaAppend())
    before = ReadState.load(snapshot.getvalue())
    whole = before.apply(main.getvalue(), parts={"more": part.getvalue()}, schema_append="full")
    assert whole["B"][whole["A"].column("r").values[0]]["b"] == 7
    without = before.apply(main.getvalue(), schema_append="full")
    assert set(without.types) == {"A"} and without["A"].column("r").values.tolist() == [0]


def test_values_without_definitions_reach_only_who_has_the_field():
    history = evolved(SchemaAppend(include_definitions=False))
    assert content(history.follow("full")) == content(history.follow("off"))
    # Who has the field with nulls gets the values.
    state = history.fresh(1)
    state = state.apply(history.versions[1].reverse)
    state = state.apply(history.versions[1].delta, schema_append="values")
    assert content(state) == content(history.fresh(1))


def test_a_shard_count_that_changes_in_the_same_delta(monkeypatch):
    history = History(target_shard_bytes=200, allow_resharding=True)
    history.publish("T { int a; }", {"T": [{"a": n * 7919} for n in range(100)]})
    new = "T { int a; string b; }"
    for round in range(3):
        rows = [{"a": n * 7919, "b": f"text {n}"} for n in range(round, 100 + 60 * round)]
        history.publish(new, {"T": rows})
    assert len({len(history.fresh(n).types["T"].shards) for n in range(4)}) > 1
    for start in range(4):
        assert content(history.follow("full", start)) == content(history.fresh())


def test_a_delta_from_another_state_is_refused_before_its_section_is_looked_at():
    history = evolved()
    with pytest.raises(ChainError):
        history.fresh(1).apply(history.versions[1].delta, schema_append="full")


def test_a_value_for_a_record_that_is_not_there_is_refused():
    history = History()
    history.publish("T { int a; }", {"T": [{"a": n} for n in range(3)]})
    history.publish("T { int a; int b; }", {"T": [{"a": n, "b": n + 1} for n in range(3)]})
    delta = bytearray(history.versions[1].delta)
    at = delta.rindex(b"\x00\x02\x01\x04\x02\x06")
    delta[at : at + 6] = b"\x00\x02\x01\x04\x03\x06"
    with pytest.raises(DecodeError) as caught:
        history.fresh(0).apply(bytes(delta), schema_append="full")
    assert caught.value.code == "BadOrdinal"
