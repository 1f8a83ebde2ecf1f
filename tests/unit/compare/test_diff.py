"""Diffs: null, empty and missing, keys and bags, models that differ, circles, and what comes out."""

import io
import json

import numpy as np
import pytest

from deltaic.compare import MISSING, diff, version_changes
from deltaic.compare.changes import shown
from deltaic.errors import InputError, NotFoundError
from deltaic.schema.text import parse_schemas
from deltaic.state.read import ReadState
from deltaic.state.type_data import TypeData
from deltaic.state.write import WriteState
from tests.unit.compare.films import snapshot


def state_of(model, *records):
    """A read state of records added one by one: (type, values)."""
    made = WriteState(parse_schemas(model))
    for name, values in records:
        if isinstance(values, dict):
            made.add_object(name, values)
        else:
            made.add_list(name, values)
    return snapshot(made)


NOTED = "Movie @PrimaryKey(id) { long id; string note; Words words; } Words List<Word>; Word { string value; }"


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (None, "", 'note: null -> ""'),
        ("", None, 'note: "" -> null'),
        ("", "x", 'note: "" -> "x"'),
        (None, "x", 'note: null -> "x"'),
    ],
)
def test_null_and_empty_texts_are_told_apart(before, after, line):
    change = next(
        diff(
            state_of(NOTED, ("Movie", {"id": 1, "note": before})), state_of(NOTED, ("Movie", {"id": 1, "note": after}))
        )["Movie"].records()
    )
    assert [str(one) for one in change.differences()] == [line]
    assert change.to_dict()["differences"] == [{"path": "note", "before": before, "after": after}]


def test_null_and_empty_lists_are_told_apart():
    before = state_of(NOTED, ("Words", []), ("Movie", {"id": 1}))
    after = state_of(NOTED, ("Words", []), ("Movie", {"id": 1, "words": 0}))
    found = diff(before, after)["Movie"]
    assert [str(one) for one in next(found.records()).differences()] == ["words: null -> []"]
    assert (found.fields["words"].changed, found.fields["words"].set, found.fields["words"].cleared) == (1, 1, 0)


def test_a_reference_to_a_boxed_null_reads_as_null_and_compares_as_null():
    model = "Movie @PrimaryKey(id) { long id; Word title; } Word { string value; }"
    boxed = state_of(model, ("Word", {"value": None}), ("Movie", {"id": 1, "title": 0}))
    plain = state_of(model, ("Movie", {"id": 1}))
    assert not diff(boxed, plain)["Movie"]


def test_a_field_that_a_model_lacks_is_missing_and_counts_where_it_holds_something():
    wide = NOTED.replace("string note;", "string note; int year;")
    before = state_of(NOTED, ("Movie", {"id": 1}), ("Movie", {"id": 2}))
    after = state_of(wide, ("Movie", {"id": 1, "year": None}), ("Movie", {"id": 2, "year": 1972}))
    found = diff(before, after)["Movie"]
    assert (found.counts.modified, found.counts.unchanged) == (1, 1)
    assert found.fields["year"].only_in == "after" and found.fields["note"].only_in is None
    change = next(found.records("modified"))
    assert [str(one) for one in change.differences()] == ["year: missing -> 1972"]
    assert "year" not in change.before and change.differences()[0].to_dict() == {"path": "year", "after": 1972}
    back = diff(after, before)["Movie"]
    assert (back.fields["year"].only_in, back.fields["year"].cleared) == ("before", 1)


def test_a_type_that_only_one_side_has_came_or_went_as_a_whole():
    before, after = state_of("A { int n; }", ("A", {"n": 1})), state_of("B { int n; }", ("B", {"n": 1}))
    found = diff(before, after)
    assert (found["A"].only_in, found["A"].counts.removed) == ("before", 1)
    assert (found["B"].only_in, found["B"].counts.added) == ("after", 1)
    assert next(found["B"].records()).before is MISSING
    assert found["A"].fields["n"].only_in == "before"


def test_a_type_without_a_key_is_a_bag_and_a_given_key_matches_its_records():
    model = "Line { int number; string text; }"
    before = state_of(model, ("Line", {"number": 1, "text": "a"}), ("Line", {"number": 2, "text": "b"}))
    after = state_of(model, ("Line", {"number": 2, "text": "c"}), ("Line", {"number": 1, "text": "a"}))
    bag = diff(before, after)["Line"]
    assert (bag.key, bag.counts.added, bag.counts.removed, bag.counts.modified) == (None, 1, 1, 0)
    keyed = diff(before, after, keys={"Line": ["number"]})["Line"]
    assert (keyed.counts.added, keyed.counts.removed, keyed.counts.modified) == (0, 0, 1)
    assert [change.key for change in keyed.records()] == [(2,)]


def test_an_empty_key_compares_a_keyed_type_as_a_bag():
    before, after = state_of(NOTED, ("Movie", {"id": 1})), state_of(NOTED, ("Movie", {"id": 1, "note": "x"}))
    found = diff(before, after, keys={"Movie": []})["Movie"]
    assert (found.counts.added, found.counts.removed, found.counts.modified) == (1, 1, 0)


def test_of_records_with_one_key_equal_ones_are_paired_first():
    notes = [("Movie", {"id": 1, "note": note}) for note in ("a", "b", "c")]
    found = diff(state_of(NOTED, *notes), state_of(NOTED, notes[2], ("Movie", {"id": 1, "note": "d"})))["Movie"]
    counts = found.counts
    assert (counts.unchanged, counts.modified, counts.removed, counts.added) == (1, 1, 1, 0)


def test_a_key_through_references_matches_over_different_ordinals():
    model = "Movie @PrimaryKey(title) { Word title; int year; } Word { string value; }"
    before = state_of(model, ("Word", {"value": "a"}), ("Word", {"value": "b"}), ("Movie", {"title": 1, "year": 1}))
    after = state_of(model, ("Word", {"value": "b"}), ("Movie", {"title": 0, "year": 2}))
    found = diff(before, after)["Movie"]
    assert found.counts.modified == 1 and next(found.records()).key == ("b",)


def test_a_field_that_grew_from_int_to_long_has_not_changed():
    before = state_of("A @PrimaryKey(n) { int n; int v; }", ("A", {"n": 1, "v": -5}))
    after = state_of("A @PrimaryKey(n) { long n; long v; }", ("A", {"n": 1, "v": -5}))
    assert not diff(before, after)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "x", "b": "y"}, {"a": "y", "b": "x"}),
        ({"a": "x", "b": None}, {"a": None, "b": "x"}),
        ({"a": "x"}, {"c": "x"}),
        ({"d": "x"}, {"e": "x"}),
        ({"a": "12345678abcdefgh"}, {"a": "abcdefgh12345678"}),
        ({"a": "x"}, {"a": "x\x00"}),
        ({"a": ""}, {"a": "\x00"}),
        ({"a": "\x00" * 8}, {"a": "\x00" * 16}),
        ({"f": 0.0}, {"f": -0.0}),
        ({"n": 1}, {"m": 1}),
        ({"n": 0}, {"n": None}),
        ({"t": False}, {"t": None}),
    ],
)
def test_near_misses_are_told_apart(one, other):
    model = "A @PrimaryKey(k) { int k; string a; string b; bytes c; L d; S e; double f; int n; int m; boolean t; }"
    model += "L List<W>; S Set<W>; W { string value; }"

    def made(values):
        state = WriteState(parse_schemas(model))
        fields = {"k": 1} | values
        if "d" in fields:
            fields["d"] = state.add_list("L", [state.add_object("W", {"value": fields["d"]})])
        if "e" in fields:
            fields["e"] = state.add_set("S", [state.add_object("W", {"value": fields["e"]})])
        if "c" in fields:
            fields["c"] = fields["c"].encode()
        state.add_object("A", fields)
        return snapshot(state)

    assert counts_of(diff(made(one), made(other))["A"]) == (0, 0, 1, 0)
    assert counts_of(diff(made(one), made(one))["A"]) == (0, 0, 0, 1)


def test_the_order_of_a_list_and_the_sides_of_a_map_count():
    model = "A @PrimaryKey(k) { int k; L l; M m; } L List<W>; M Map<W,W>; W { string value; }"

    def made(elements, entries):
        state = WriteState(parse_schemas(model))
        word = {text: state.add_object("W", {"value": text}) for text in "xyz"}
        fields = {
            "k": 1,
            "l": state.add_list("L", [word[text] for text in elements]),
            "m": state.add_map("M", [(word[key], word[value]) for key, value in entries]),
        }
        state.add_object("A", fields)
        return snapshot(state)

    whole = made("xyx", [("x", "y"), ("y", "z")])
    for other in (made("xxy", [("x", "y"), ("y", "z")]), made("xyx", [("x", "z"), ("y", "y")])):
        assert diff(whole, other)["A"].counts.modified == 1
    assert diff(made("x", [("x", "y")]), made("x", [("y", "x")]))["A"].counts.modified == 1
    assert not diff(whole, made("xyx", [("y", "z"), ("x", "y")]))


def test_records_that_refer_to_themselves_are_compared_too():
    # No writer makes a circle in one go; a reader may still meet one, so two are bent into shape here.
    def circle(numbers):
        model = parse_schemas("Node { int n; Node next; }")
        made = WriteState(model)
        for place, number in enumerate(numbers):
            made.writer("Node")
            made.add_object("Node", {"n": number, "next": max(place - 1, 0) if place else None})
        state = snapshot(made)
        data = state.types["Node"]
        shard = data.shards[0]
        from deltaic.kernels import bits

        records = shard.records.copy()
        # The first record, which refers to nothing, now refers to the last.
        width, offset = shard.widths[1], shard.offsets[1]
        assert (1 << width) - 1 > len(numbers) - 1
        bits.store(records, offset, shard.bits_per_record, width, np.array([len(numbers) - 1], np.uint64))
        from dataclasses import replace

        bent = replace(shard, records=records)
        types = {"Node": TypeData(data.schema, (bent,), data.max_ordinal, data.populated)}
        return ReadState(types, tag=1, origin_tag=0, header_tags={})

    assert not diff(circle([1, 2, 3]), circle([1, 2, 3]))
    assert counts_of(diff(circle([1, 2, 3]), circle([2, 3, 1]))["Node"]) == (0, 0, 0, 3)
    assert counts_of(diff(circle([1, 2, 3]), circle([1, 2, 4]))["Node"]) == (3, 3, 0, 0)


def counts_of(found):
    return found.counts.added, found.counts.removed, found.counts.modified, found.counts.unchanged


def test_a_long_chain_of_records_is_no_problem():
    def linked(count, last):
        made = WriteState(parse_schemas("Node { int n; Node next; }"))
        ordinal = None
        for number in range(count):
            ordinal = made.add_object("Node", {"n": last if number == 0 else number, "next": ordinal})
        return snapshot(made)

    assert not diff(linked(500, 0), linked(500, 0))
    assert counts_of(diff(linked(500, 0), linked(500, 7))["Node"]) == (500, 500, 0, 0)


def test_a_diff_as_json_holds_counts_fields_and_records():
    before, after = state_of(NOTED, ("Movie", {"id": 1})), state_of(NOTED, ("Movie", {"id": 1, "note": "x"}))
    plain = json.loads(json.dumps(diff(before, after).to_dict(limit=5)))
    movie = plain["types"]["Movie"]
    assert not plain["equal"] and movie["modified"] == 1 and movie["fields"]["note"]["set"] == 1
    assert movie["records"][0]["before"]["note"] is None and movie["records"][0]["after"]["note"] == "x"
    assert diff(before, before).to_dict()["equal"]


def test_a_diff_as_arrow_has_both_sides_as_structs():
    pyarrow = pytest.importorskip("pyarrow")
    before = state_of(NOTED, ("Movie", {"id": 1}), ("Movie", {"id": 2}))
    after = state_of(NOTED, ("Movie", {"id": 1, "note": "x"}), ("Movie", {"id": 3}))
    found = diff(before, after)["Movie"]
    rows = pyarrow.table(found).to_pylist()
    assert [row["change"] for row in rows] == ["added", "removed", "modified"]
    assert rows[0]["before"] is None and rows[0]["after"]["id"] == 3
    assert rows[1]["after"] is None and rows[1]["before"]["id"] == 2
    assert (rows[2]["before"]["note"], rows[2]["after"]["note"]) == (None, "x")
    assert found.to_arrow().to_pyarrow().num_rows == 3
    empty = state_of(NOTED)
    assert pyarrow.table(diff(empty, after)["Movie"]).column("before").null_count == 2


def test_limits_kinds_and_fields_choose_the_records():
    before = state_of(NOTED, *(("Movie", {"id": number}) for number in range(6)))
    after = state_of(NOTED, *(("Movie", {"id": number, "note": "x"}) for number in range(3, 9)))
    found = diff(before, after)["Movie"]
    assert [change.key[0] for change in found.records("added")] == [6, 7, 8]
    assert [change.key[0] for change in found.records("removed", limit=2)] == [0, 1]
    assert [change.kind for change in found.records(limit=4)] == ["added"] * 3 + ["removed"]
    assert len(list(found.records("modified", field="note"))) == 3
    assert list(found.records("modified", field="words")) == []
    with pytest.raises(NotFoundError, match="nonsense"):
        found.changed_in("nonsense")


def test_what_is_not_there_is_refused():
    state = state_of(NOTED)
    with pytest.raises(NotFoundError, match="Film"):
        diff(state, state, types=["Film"])
    with pytest.raises(NotFoundError, match="Film"):
        diff(state, state, keys={"Film": ["id"]})
    with pytest.raises(InputError, match="empty"):
        found = state_of(NOTED, ("Movie", {"id": 1})), state_of(NOTED, ("Movie", {"id": 2}))
        diff(*found, keys={"Movie": [""]})


def test_sets_and_maps_differ_by_their_members():
    model = """
    Movie @PrimaryKey(id) { long id; Tags tags; Scores scores; }
    Word { string value; } Tags Set<Word>; Scores Map<Word,Word>;
    """

    def made(tags, scores):
        state = WriteState(parse_schemas(model))
        word = {text: state.add_object("Word", {"value": text}) for text in "abcd"}
        fields = {
            "id": 1,
            "tags": state.add_set("Tags", [word[text] for text in tags]),
            "scores": state.add_map("Scores", [(word[key], word[value]) for key, value in scores.items()]),
        }
        state.add_object("Movie", fields)
        return snapshot(state)

    found = diff(made("ab", {"a": "b", "b": "c"}), made("bc", {"a": "c", "d": "c"}))["Movie"]
    assert sorted(str(one) for one in next(found.records()).differences()) == [
        'scores{"a"}: "b" -> "c"',
        'scores{"b"}: "c" -> missing',
        'scores{"d"}: missing -> "c"',
        'tags{}: "a" -> missing',
        'tags{}: missing -> "c"',
    ]


def test_maps_keyed_by_bytes_are_compared_and_shown():
    model = "A @PrimaryKey(n) { int n; M m; } M Map<Bytes,Bytes>; Bytes { bytes value; }"

    def made(value):
        state = WriteState(parse_schemas(model))
        key, other = (state.add_object("Bytes", {"value": each}) for each in (b"\x01", value))
        state.add_object("A", {"n": 1, "m": state.add_map("M", [(key, other)])})
        return snapshot(state)

    found = diff(made(b"\x02"), made(b"\x03"))
    (change,) = found["A"].records()
    assert [str(one) for one in change.differences()] == ['m{"0x01"}: "0x02" -> "0x03"']
    assert json.loads(json.dumps(found.to_dict(limit=1)))["types"]["A"]["records"][0]["before"]["m"] == [
        ["AQ==", "Ag=="]
    ]
    assert shown(change.before) == '{"n": 1, "m": [["0x01", "0x02"]]}'


def test_values_for_people_are_short_and_printable():
    assert shown(None) == "null" and shown("") == '""' and shown([]) == "[]" and shown(MISSING) == "missing"
    assert shown(b"\x00\xff") == '"0x00ff"' and shown("\ud800") == '"\\ud800"' and shown("ö") == '"ö"'
    assert len(shown("x" * 1000)) == 200


def test_versions_tell_what_they_changed(hollow_fixtures):
    folder = hollow_fixtures / "movie-catalog"
    state = ReadState.load(folder / "snapshot-1")
    states = [(1, state)]
    for version in (2, 3, 4):
        state = state.apply(folder / f"delta-{version - 1}-{version}")
        states.append((version, state))
    found = list(version_changes(states, keys_limit=3))
    assert [one.version for one in found] == [2, 3, 4]
    movie = found[0].counts["Movie"]
    assert movie.added and movie.removed and movie.modified and len(found[0].keys["Movie"]["modified"]) == 3
    whole = diff(ReadState.load(folder / "snapshot-1"), ReadState.load(folder / "snapshot-4"))
    walked = diff(states[0][1], states[-1][1])
    assert {name: one.counts for name, one in whole.items()} == {name: one.counts for name, one in walked.items()}
    assert json.dumps(found[0].to_dict())


def test_a_recorded_delta_is_the_diff_of_its_ends(hollow_fixtures):
    # Records of a type without holes in their content are new at new ordinals: the delta's own sets tell the same.
    folder = hollow_fixtures / "movie-catalog"
    before = ReadState.load(folder / "snapshot-1")
    after = before.apply(folder / "delta-1-2")
    found = diff(before, after)
    for name, one in found.items():
        added = after[name].populated.difference(before[name].populated)
        assert one.counts.added + one.counts.modified == len(added), name


@pytest.mark.parametrize("case", ["collections", "hash-keys", "scalars", "shards"])
def test_a_state_by_deltas_and_one_by_snapshot_do_not_differ(case, project_root):
    folder = project_root / "tests/golden/hollow" / case
    walked = ReadState.load(folder / "snapshot-1")
    version = 1
    while (delta := folder / f"delta-{version}-{version + 1}").exists():
        version += 1
        before, walked = walked, walked.apply(delta)
        loaded = ReadState.load(folder / f"snapshot-{version}")
        assert not diff(walked, loaded) and not diff(loaded, walked)
        step, jump = diff(before, walked), diff(before, loaded)
        assert step and {name: one.counts for name, one in step.items()} == {
            name: one.counts for name, one in jump.items()
        }
    assert version > 2


def test_bytes_of_a_state_can_come_from_anywhere():
    stream = io.BytesIO()
    made = WriteState(parse_schemas(NOTED))
    made.add_object("Movie", {"id": 1})
    made.write_snapshot(stream)
    assert not diff(ReadState.load(stream.getvalue()), ReadState.load(stream.getvalue()))
