"""History, export, copies, search, statistics and footprint: one promise each, and what they refuse."""

import csv
import datetime
import decimal
import gzip
import json
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import pytest

from deltaic.compare import (
    MISSING,
    combine,
    copy_records,
    csv_lines,
    diff,
    filtered_copy,
    find,
    find_by_key,
    footprint,
    history,
    json_lines,
    key_values,
    orphans,
    record_json,
    record_text,
    references,
    root_types,
    split,
    split_matches,
    type_statistics,
)
from deltaic.compare.json_text import JsonTexts
from deltaic.compare.traverse import add_children, parents
from deltaic.errors import InputError, NotFoundError, SchemaError
from deltaic.schema.annotations import UInt64, digits
from deltaic.schema.mapping import TYPES_TAG
from deltaic.schema.model import Model
from deltaic.schema.text import parse_schemas
from deltaic.state.bitset import OrdinalSet
from deltaic.state.filter import Filter
from deltaic.state.ingest import ingest_dicts, ingest_objects
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from tests.unit.compare.films import SCHEMAS, chain, snapshot, written

EMPTY_MOVIE = dict.fromkeys(
    ("id", "title", "rating", "gross", "cast", "tags", "scores", "raw", "note", "seen", "sequel"), None
)
ACTOR = {"name": "Banionis", "born": 1924}


def movie(number, **fields):
    return EMPTY_MOVIE | {"id": number} | fields


@pytest.fixture(scope="module")
def movies(hollow_fixtures):
    folder = hollow_fixtures / "movie-catalog"
    states = [ReadState.load(folder / "snapshot-1")]
    for version in (2, 3, 4):
        states.append(states[-1].apply(folder / f"delta-{version - 1}-{version}"))
    return states


# History.


def test_a_history_tells_which_versions_touched_a_key_and_what_changed():
    versions = [
        [movie(1, note="a")],
        [movie(1, note="a"), movie(2)],
        [movie(1, note=""), movie(2)],
        [movie(2)],
        [movie(1), movie(2)],
    ]
    found = history(enumerate(chain(versions)[0], 10), "Movie", 1)
    assert [(entry.version, entry.change) for entry in found] == [
        (10, "first"),
        (12, "modified"),
        (13, "removed"),
        (14, "added"),
    ]
    assert [str(one) for one in found.entries[1].differences] == ['note: "a" -> ""']
    assert found.at(11)["note"] == "a" and found.at(13) is MISSING and found.at(14)["note"] is None
    assert found.touched == (12, 13, 14) and json.dumps(found.to_dict())
    with pytest.raises(InputError, match="99"):
        found.at(99)


def test_the_history_of_a_key_that_never_was_is_empty():
    found = history(enumerate(chain([[movie(1)], [movie(2)]])[0]), "Movie", 7)
    assert not found.entries and found.versions == (0, 1)
    with pytest.raises(InputError, match="no version"):
        history([], "Movie", 7)


def test_a_history_along_a_recorded_chain_is_the_one_of_its_snapshots(movies, hollow_fixtures):
    keys = [key for (key,) in key_values(movies[3], "Movie", diff(movies[0], movies[3])["Movie"].modified_after[:5])]
    for key in keys:
        found = history(enumerate(movies, 1), "Movie", key)
        assert found.touched
        for version, state in enumerate(movies, 1):
            (ordinal,) = find_by_key(state, "Movie", key).tolist()
            assert found.at(version) == state["Movie"][ordinal].to_python()


def test_a_type_that_came_later_has_no_record_before():
    old = snapshot(WriteState(parse_schemas("Other { int n; }")))
    found = history([(1, old), (2, written([movie(1)]))], "Movie", 1)
    assert [(entry.version, entry.change) for entry in found] == [(2, "added")]


# Keys.


def test_keys_are_found_by_value_by_text_and_by_other_paths():
    state = written([movie(1, title="Solaris"), movie(2, title="Stalker", seen=True), movie(3)])
    assert find_by_key(state, "Movie", 2).tolist() == find_by_key(state, "Movie", "2").tolist()
    assert len(find_by_key(state, "Movie", 9)) == 0
    (ordinal,) = find_by_key(state, "Movie", "Stalker", ["title"])
    assert state["Movie"][int(ordinal)].id == 2
    assert len(find_by_key(state, "Movie", (2, "true"), ["id", "seen"])) == 1
    assert len(find_by_key(state, "Movie", None, ["title"])) == 1
    assert key_values(state, "Movie", np.array([0, 2]), ["id", "title"]) == [(1, "Solaris"), (3, None)]


@pytest.mark.parametrize(
    ("key", "paths", "error"),
    [
        ("two", None, InputError),
        ((1, 2), None, InputError),
        (1 << 70, None, InputError),
        (2.5, None, InputError),
        (1, ["nonsense"], SchemaError),
        (1, [], InputError),
        (5, ["note"], InputError),
        ("maybe", ["seen"], InputError),
    ],
)
def test_a_key_that_cannot_be_is_refused(key, paths, error):
    with pytest.raises(error):
        find_by_key(written([movie(1)]), "Movie", key, paths)


def test_a_type_without_a_key_needs_paths():
    state = written([movie(1, cast=[ACTOR])])
    with pytest.raises(InputError, match="no primary key"):
        find_by_key(state, "Actor", "Banionis")
    assert len(find_by_key(state, "Actor", "Banionis", ["name"])) == 1
    with pytest.raises(NotFoundError, match="Film"):
        find_by_key(state, "Film", 1)


# Export.


def test_json_of_a_record_keeps_apart_what_differs():
    state = written([movie(1, cast=[], tags=["a"], scores={"imdb": ACTOR}, raw=b"\x00\xff", note="", rating=0.1)])
    plain = record_json(state, "Movie", 0)
    assert (plain["cast"], plain["note"], plain["title"], plain["raw"]) == ([], "", None, "AP8=")
    assert json.loads(next(json_lines(state, "Movie"))) == plain | {"rating": pytest.approx(0.1)}
    text = record_text(state, "Movie", 0)
    assert "cast: []" in text and 'note: ""' in text and "title: null" in text and 'raw: "0x00ff"' in text


def test_json_lines_of_floats_are_short_and_exact():
    state = snapshot(_written_by("A { float f; double d; }", "A", [{"f": 0.1, "d": 0.1}, {"f": float("nan")}]))
    assert list(json_lines(state, "A")) == ['{"f": 0.1, "d": 0.1}', '{"f": NaN, "d": null}']
    assert list(json_lines(state, "A", skip_nulls=True))[1] == '{"f": NaN}'
    assert list(json_lines(state, "A", ordinals=[1, 0]))[1] == '{"f": 0.1, "d": 0.1}'


def test_maps_with_keys_that_are_no_texts_are_pairs():
    model = "A { M m; } M Map<Integer,Integer>; Integer { int value; }"
    state = snapshot(_written_by(model, "A", [{"m": [[1, 2], [3, 4]]}]))
    pairs = json.loads(next(json_lines(state, "A")))["m"]
    assert sorted(pairs) == [[1, 2], [3, 4]] and record_json(state, "A", 0)["m"] in (pairs, pairs[::-1])


def test_a_name_with_a_percent_sign_is_a_name():
    made = WriteState(parse_schemas("A { int a%s; }"))
    made.add_object("A", {"a%s": 1})
    assert list(json_lines(snapshot(made), "A")) == ['{"a%s": 1}']
    assert list(json_lines(snapshot(made), "A", skip_nulls=True)) == ['{"a%s": 1}']


def test_lists_and_boxed_types_are_exported_too():
    state = written([movie(1, tags=["a"], cast=[ACTOR])])
    assert list(json_lines(state, "Tags")) == ['["a"]'] and '"a"' in list(json_lines(state, "String"))
    assert list(json_lines(state, "Cast")) == ['[{"name": "Banionis", "born": 1924}]']


def test_a_type_that_was_left_out_is_named_with_its_ordinal(hollow_fixtures):
    path = hollow_fixtures / "movie-catalog" / "snapshot-1"
    state = ReadState.load(path, filter=Filter.only("Movie.id", "Movie.cast"))
    plain = json.loads(next(json_lines(state, "Movie")))
    assert plain["cast"]["type"] == "ListOfActor" and plain["cast"] == record_json(state, "Movie", 0)["cast"]


def test_csv_tells_null_from_empty_and_quotes_what_must_be():
    state = snapshot(_written_by("A { string s; int n; bytes b; boolean t; }", "A", [
        {"s": "", "n": 1}, {"s": None, "b": b"\x01", "t": True}, {"s": 'a,"b"\n'}, {"s": "plain"},
    ]))  # fmt: skip
    assert list(csv_lines(state, "A")) == ["s,n,b,t", '"",1,,', ",,AQ==,true", '"a,""b""\n",,,', "plain,,,"]
    with pytest.raises(InputError, match="LIST"):
        list(csv_lines(written([movie(1, cast=[])]), "Cast"))


@dataclass
class Dated:
    """A record with a value of each kind that Hollow carries in another one."""

    id: int
    day: datetime.date | None
    price: Annotated[decimal.Decimal, digits(12, 2)] | None
    precise: Annotated[decimal.Decimal, digits(30, 4)] | None
    seen: datetime.datetime | None
    at: datetime.time | None
    lasts: datetime.timedelta | None
    size: UInt64 | None
    days: list[datetime.date]
    prices: dict[str, Annotated[decimal.Decimal, digits(12, 2)]]


DATED = Dated(
    1,
    datetime.date(1972, 2, 5),
    decimal.Decimal("-12.50"),
    decimal.Decimal("12345678901234567890.1234"),
    datetime.datetime(2024, 2, 29, 12, 30, 1, 250_000, datetime.UTC),
    datetime.time(23, 59, 59, 5),
    datetime.timedelta(seconds=90),
    2**64 - 1,
    [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    {"de": decimal.Decimal("0.05")},
)
DATED_JSON = {
    "id": 1,
    "day": "1972-02-05",
    "price": "-12.50",
    "precise": "12345678901234567890.1234",
    "seen": "2024-02-29T12:30:01.250000+00:00",
    "at": "23:59:59.000005",
    "lasts": 90_000_000,
    "size": 2**64 - 1,
    "days": ["0001-01-01", "9999-12-31"],
    "prices": {"de": "0.05"},
}


def dated_state(*rows):
    model = Model.of(Dated)
    made = WriteState(model.schemas)
    made.header_tags[TYPES_TAG] = model.types_tag()
    ingest_objects(made, "Dated", rows, model=model)
    return snapshot(made)


def test_exports_hold_dates_and_decimals_and_not_the_numbers_that_carry_them():
    state = dated_state(DATED)
    [line] = json_lines(state, "Dated")
    assert json.loads(line) == DATED_JSON == record_json(state, "Dated", 0)
    assert csv_rows(state) == [
        "1", "1972-02-05", "-12.50", "12345678901234567890.1234", "2024-02-29T12:30:01.250000+00:00", "23:59:59.000005",
        "90000000", str(2**64 - 1), '["0001-01-01", "9999-12-31"]', '{"de": "0.05"}',
    ]  # fmt: skip
    text = record_text(state, "Dated", 0)
    assert 'day: "1972-02-05"' in text and 'price: "-12.50"' in text and f"size: {2**64 - 1}" in text


def csv_rows(state):
    return next(csv.reader(list(csv_lines(state, "Dated"))[1:]))


def test_the_numbers_that_carry_dates_can_be_had_too():
    state = dated_state(DATED)
    [line] = json_lines(state, "Dated", logical=False)
    plain = json.loads(line)
    assert (plain["day"], plain["price"], plain["size"], plain["prices"]) == (765, -1250, -1, {"de": 5})
    assert next(csv.reader(list(csv_lines(state, "Dated", logical=False))[1:]))[1:3] == ["765", "-1250"]


def test_what_no_date_can_be_stays_a_number():
    model = Model.of(Dated)
    made = WriteState(model.schemas)
    made.header_tags[TYPES_TAG] = model.types_tag()
    moment = made.add_object("Date", {"value": 2**60})
    made.add_object("Dated", {"id": 1, "day": 2**30, "at": 10**12, "seen": moment})
    [line] = json_lines(snapshot(made), "Dated")
    assert (json.loads(line)["day"], json.loads(line)["at"], json.loads(line)["seen"]) == (2**30, 10**12, 2**60)


def test_a_note_that_does_not_fit_is_passed_over():
    made = _written_by("A { int n; string s; }", "A", [{"n": 5, "s": "x"}])
    made.header_tags[TYPES_TAG] = '{"A":{"n":{"format":"tsu:"},"s":{"format":"tdD"}},"B":{"x":{"format":"tdD"}}}'
    assert list(json_lines(snapshot(made), "A")) == ['{"n": 5, "s": "x"}']


def test_a_difference_names_dates():
    before, after = dated_state(DATED), dated_state(replace(DATED, day=datetime.date(1972, 3, 20)))
    [change] = diff(before, after, keys={"Dated": ["id"]})["Dated"].records()
    assert [str(one) for one in change.differences()] == ['day: "1972-02-05" -> "1972-03-20"']
    [one] = change.differences()
    assert one.before == datetime.date(1972, 2, 5) and one.to_dict()["after"] == "1972-03-20"


def test_every_movie_of_the_catalogue_exports_and_publishes_the_same(movies):
    state = movies[3]
    copy = WriteState(state.schemas)
    ingest_dicts(copy, "Movie", map(json.loads, json_lines(state, "Movie")))
    found = diff(state, snapshot(copy))
    assert not found["Movie"] and found["Movie"].counts.unchanged == len(state["Movie"])


def test_texts_that_records_share_are_made_once(movies):
    texts = JsonTexts(movies[0])
    lines = texts.of("Movie", movies[0]["Movie"].populated.ordinals()[:200])
    assert len(lines) == 200
    assert texts.of("Movie", np.zeros(0, np.int64)) == []


def _written_by(model, name, rows):
    made = WriteState(parse_schemas(model))
    for row in rows:
        fields = dict(row)
        if isinstance(fields.get("m"), list):
            entries = [tuple(made.add_object("Integer", {"value": each}) for each in pair) for pair in fields["m"]]
            fields["m"] = made.add_map("M", entries)
        made.add_object(name, fields)
    return made


# Copies.


def test_a_split_sends_a_key_to_the_same_part_in_every_version(movies):
    for number, (one, other) in enumerate(
        zip(split_matches(movies[0], 3, "Movie"), split_matches(movies[3], 3, "Movie"), strict=True)
    ):
        keys = [
            {key for (key,) in key_values(state, "Movie", matches["Movie"].ordinals())}
            for state, matches in ((movies[0], one), (movies[3], other))
        ]
        assert keys[0] & keys[1] and len(keys[0] ^ keys[1]) < 200, number
    sizes = [len(part["Movie"]) for part in split_matches(movies[0], 3, "Movie")]
    assert sum(sizes) == 20_000 and max(sizes) - min(sizes) < 1_000


def test_the_parts_of_the_catalogue_combine_to_the_catalogue(movies):
    parts = [snapshot(part) for part in split(movies[0], 2)]
    whole = diff(movies[0], snapshot(combine(parts)))
    needed = orphans(movies[0], ["Movie"])
    assert {one.name for one in whole.changed()} <= set(needed) and not whole["Movie"]


def test_a_split_needs_a_number_and_types_that_are_there():
    state = written([movie(1)])
    with pytest.raises(InputError, match="at least one"):
        split_matches(state, 0)
    with pytest.raises(NotFoundError, match="Film"):
        split_matches(state, 2, "Film")


KEYED = """
Movie @PrimaryKey(id) { long id; Actor star; Cast cast; }
Actor @PrimaryKey(name) { string name; int born; Town town; }
Town { string value; }
Cast List<Actor>;
"""


def _keyed(number, born, town):
    made = WriteState(parse_schemas(KEYED))
    place = made.add_object("Town", {"value": town})
    actor = made.add_object("Actor", {"name": "B", "born": born, "town": place})
    made.add_object("Movie", {"id": number, "star": actor, "cast": made.add_list("Cast", [actor, actor])})
    return snapshot(made)


@pytest.mark.parametrize(("which", "born", "town"), [("first", 1, "x"), ("last", 2, "y")])
def test_references_to_a_record_that_lost_lead_to_the_one_that_won(which, born, town):
    combined = snapshot(combine([_keyed(1, 1, "x"), _keyed(2, 2, "y")], on_equal_keys=which))
    assert len(combined["Actor"]) == 1 and len(combined["Movie"]) == 2
    assert {each.star.born for each in combined["Movie"]} == {born}
    assert {actor.born for each in combined["Movie"] for actor in each.cast} == {born}
    # What only the loser needed is gone with it.
    assert [each.value for each in combined["Town"]] == [town]


def test_models_that_differ_are_united():
    one = snapshot(_written_by("A @PrimaryKey(n) { int n; string s; }", "A", [{"n": 1, "s": "x"}]))
    other = snapshot(_written_by("A @PrimaryKey(n) { int n; int t; } B { int n; }", "A", [{"n": 2, "t": 5}]))
    combined = snapshot(combine([one, other]))
    assert [record.to_dict() for record in combined["A"]] == [
        {"n": 1, "s": "x", "t": None},
        {"n": 2, "s": None, "t": 5},
    ]
    assert "B" in combined
    clash = snapshot(_written_by("A @PrimaryKey(n) { int n; long s; }", "A", [{"n": 3, "s": 1}]))
    with pytest.raises(SchemaError, match="A.s"):
        combine([one, clash])


def test_a_filtered_copy_leaves_out_types_fields_and_what_refers_to_them():
    state = written([movie(1, note="x", cast=[ACTOR], tags=["a"])])
    copy = snapshot(filtered_copy(state, filter=Filter.without("Movie.note", "Actor")))
    assert set(copy) == {"Movie", "String", "Tags"}
    names = copy["Movie"][0].field_names()
    assert not {"note", "cast", "scores"} & set(names) and copy["Movie"][0].tags is not None


def test_a_key_over_a_field_that_is_left_out_goes_with_it():
    model = (
        "Movie @PrimaryKey(id) { long id; Bag bag; } Word { int number; string text; } Bag Set<Word> @HashKey(number);"
    )
    made = WriteState(parse_schemas(model))
    words = [made.add_object("Word", {"number": number, "text": "x" * number}) for number in range(3)]
    made.add_object("Movie", {"id": 1, "bag": made.add_set("Bag", words)})
    copy = snapshot(filtered_copy(snapshot(made), filter=Filter.without("Word.number", "Movie.id")))
    assert copy.schemas["Bag"].hash_key is None and copy.schemas["Movie"].primary_key is None
    assert sorted(word.text for word in copy["Movie"][0].bag) == ["", "x", "xx"]


def test_a_filtered_copy_drops_elements_that_are_gone_and_nulls_references():
    state = _keyed(1, 1, "x")
    copy = snapshot(filtered_copy(state, keep={"Actor": lambda view: np.zeros(0, np.int64)}))
    (record,) = copy["Movie"]
    assert record.star is None and len(record.cast) == 0 and len(copy["Actor"]) == len(copy["Town"]) == 0


def test_records_are_chosen_by_ordinals_flags_or_sets():
    state = written([movie(number) for number in range(4)])
    for choice in (np.array([1, 2]), np.array([False, True, True, False]), OrdinalSet.from_ordinals(np.array([1, 2]))):
        copy = snapshot(filtered_copy(state, keep={"Movie": lambda view, choice=choice: choice}))
        assert [record.id for record in copy["Movie"]] == [1, 2]
    for wrong in (np.array([True]), np.array([0.5])):
        with pytest.raises(InputError, match="Movie"):
            filtered_copy(state, keep={"Movie": lambda view, wrong=wrong: wrong})


def test_a_copy_of_some_records_brings_what_they_refer_to():
    state = written([movie(1, cast=[ACTOR]), movie(2, title="other")])
    copy = snapshot(copy_records(state, {"Movie": OrdinalSet.from_ordinals(np.array([0]))}))
    assert [record.id for record in copy["Movie"]] == [1]
    assert [record.value for record in copy["String"]] == ["Banionis"] and len(copy["Actor"]) == 1


def test_a_combination_can_go_on_a_chain():
    target = WriteState(SCHEMAS)
    combine([written([movie(1)]), written([movie(2)])], into=target)
    assert [record.id for record in snapshot(target)["Movie"]] == [1, 2]
    with pytest.raises(InputError, match="on_equal_keys"):
        combine([], on_equal_keys="some")
    with pytest.raises(NotFoundError, match="Film"):
        combine([written([])], keys={"Film": ["id"]})


# Traversal.


def test_root_types_have_a_key_or_nobody_who_refers_to_them():
    assert root_types(SCHEMAS) == ("Movie",)
    assert set(root_types(parse_schemas(KEYED))) == {"Movie", "Actor"}


def test_records_that_are_not_there_are_refused():
    state = written([movie(1)])
    with pytest.raises(NotFoundError, match="Film"):
        add_children(state, {"Film": OrdinalSet.from_ordinals(np.array([0]))})
    with pytest.raises(NotFoundError, match="Movie has no record 9"):
        parents(state, {"Movie": OrdinalSet.from_ordinals(np.array([9]))})
    with pytest.raises(NotFoundError, match="Film"):
        orphans(state, ["Film"])


def test_references_are_repeated_as_they_stand():
    state = written([movie(1, cast=[ACTOR, ACTOR])])
    assert [(name, targets.tolist()) for name, targets in references(state, "Cast", np.array([0]))] == [
        ("Actor", [0, 0])
    ]


# Search.


def test_a_value_is_found_in_any_kind_of_field():
    state = written([movie(7, rating=0.5, gross=0.25, seen=True, raw=b"\xab\xcd", note="7", cast=[ACTOR])])
    assert {(one.type_name, one.field_name) for one in find(state, "7").matches} == {("Movie", "id"), ("Movie", "note")}
    for value, field in ((0.5, "rating"), ("0.25", "gross"), (True, "seen"), ("abcd", "raw"), (b"\xab\xcd", "raw")):
        assert [one.field_name for one in find(state, value).matches] == [field]
    found = find(state, 1924)
    assert [one.type_name for one in found.matches] == ["Actor"] and list(found.roots()["Movie"]) == [0]
    assert {one.field_name for one in find(state, None, types=["Movie"]).matches} == {
        "title",
        "tags",
        "scores",
        "sequel",
    }
    assert not find(state, "nowhere") and find(state, "nowhere").roots() == {}
    assert [one.field_name for one in find(state, "7", field="note").matches] == ["note"]


def test_a_text_that_spans_two_records_is_not_contained_in_either():
    state = written([movie(1, note="ab"), movie(2, note="cd"), movie(3, note="xbcx")])
    assert list(find(state, "bc", how="contains").records()["Movie"]) == [2]


def test_a_search_in_what_is_not_there_is_refused():
    state = written([movie(1)])
    with pytest.raises(NotFoundError, match="nonsense"):
        find(state, 1, field="nonsense")
    with pytest.raises(NotFoundError, match="Film"):
        find(state, 1, types=["Film"])
    with pytest.raises(InputError, match="how"):
        find(state, 1, how="regex")


def test_movies_are_found_as_a_recorded_index_finds_them(movies, hollow_fixtures):
    recorded = json.loads(gzip.decompress((hollow_fixtures / "movie-catalog" / "indexes-1.json.gz").read_bytes()))
    state, seen = movies[0], 0
    for index in recorded["hash"]:
        path = index["match"][0].split(".")
        if index["select"] or len(index["match"]) > 1 or path[0] not in ("year", "cast"):
            continue
        for (value,), expected in index["queries"]:
            if path[0] == "year":
                found = find(state, value, types=["Movie"], field="year")
            else:
                found = find(state, value, types=["Actor"], field=path[-1])
            assert sorted(found.roots(["Movie"]).get("Movie", ())) == sorted(expected)
            seen += 1
    for key, ordinal in recorded["primaryKey"]["queries"]:
        assert find_by_key(state, "Movie", key).tolist() == ([] if ordinal < 0 else [ordinal])
        seen += 1
    assert seen > 20


# Statistics and footprint.


def test_statistics_of_a_field_tell_nulls_values_and_the_most_frequent():
    state = written([movie(n, note="x" if n < 3 else None, title="t", rating=n / 2) for n in range(5)])
    fields = {one.name: one for one in type_statistics(state, "Movie")}
    assert (fields["note"].nulls, fields["note"].distinct, fields["note"].top) == (2, 1, (("x", 3),))
    assert (fields["rating"].min, fields["rating"].max, fields["rating"].mean) == (0.0, 2.0, 1.0)
    assert fields["title"].top == (("t", 5),) and fields["cast"].nulls == 5 and fields["cast"].min is None
    (only,) = type_statistics(state, "Movie", fields=["id"], top=1)
    assert len(only.top) == 1 and json.dumps(only.to_dict())
    with pytest.raises(NotFoundError, match="nonsense"):
        type_statistics(state, "Movie", fields=["nonsense"])


def test_statistics_of_a_collection_are_about_sizes():
    state = written([movie(1, cast=[ACTOR]), movie(2, cast=[ACTOR, ACTOR]), movie(3, cast=[])])
    (sizes,) = type_statistics(state, "Cast")
    assert (sizes.name, sizes.count, sizes.min, sizes.max, sizes.mean) == ("size", 3, 0, 2, 1.0)
    assert type_statistics(written([]), "Cast")[0].min is None


def test_holes_have_a_cost():
    states, _ = chain([[movie(number, note="x" * 10) for number in range(20)], [movie(3)]])
    one = next(each for each in footprint(states[1]) if each.name == "Movie")
    assert one.holes == states[1]["Movie"].holes > 0 and one.hole_bytes > 0
    assert one.to_dict()["fields"][0]["name"] == "id" and one.bytes_per_record > 0


def test_empty_buckets_of_a_set_are_holes():
    state = written([movie(1, tags=["a", "b", "c"])])
    (tags,) = (each for each in footprint(state) if each.name == "Tags")
    buckets = next(field for field in tags.fields if field.name == "buckets")
    assert 0 <= buckets.hole_bytes <= buckets.fixed_bytes and buckets.bits == 2


def test_the_footprint_of_the_catalogue_adds_up(movies):
    found = footprint(movies[0])
    assert sum(one.total_bytes for one in found) == movies[0].nbytes
    assert found[0].total_bytes == max(one.total_bytes for one in found)
    assert all(one.overhead_bytes < 4096 + one.total_bytes // 50 for one in found)
