"""Export, split, combine, traversal, search and statistics against plain Python on random states."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.compare import (
    add_children,
    add_parents,
    combine,
    copy_records,
    csv_lines,
    diff,
    filtered_copy,
    find,
    footprint,
    json_lines,
    orphans,
    parents,
    split,
    split_matches,
    type_statistics,
    without_referenced_outside,
)
from deltaic.compare.links import edges_of, type_groups
from deltaic.compare.traverse import populated, reference_counts, with_what_only_they_need
from deltaic.schema.text import parse_schemas
from deltaic.state.bitset import OrdinalSet
from deltaic.state.ingest import ingest_arrow, ingest_dicts
from deltaic.state.write import WriteState
from tests.unit.compare.films import (
    LINKS,
    MODEL,
    SCHEMAS,
    TYPES,
    catalogues,
    contents,
    counted,
    expected_counts,
    flat_catalogues,
    frozen,
    layouts,
    snapshot,
    texts,
    written,
)

FLAT_SCHEMAS = parse_schemas(MODEL.replace(" Movie sequel;", ""))


def graph(state):
    """Every reference of every populated record, as pairs of (type, ordinal)."""
    pairs = []
    for name in state:
        ordinals = state[name].populated.ordinals()
        for edges in edges_of(state, name, ordinals):
            owners = ordinals[edges.owners].tolist()
            pairs += [
                ((name, one), (edges.target_type, to)) for one, to in zip(owners, edges.targets.tolist(), strict=True)
            ]
    return pairs


def closed(start, pairs):
    found = set(start)
    while True:
        more = {to for one, to in pairs if one in found} - found
        if not more:
            return found
        found |= more


def as_set(matches):
    return {(name, ordinal) for name, records in matches.items() for ordinal in records}


def as_matches(records):
    by_type = {}
    for name, ordinal in records:
        by_type.setdefault(name, []).append(ordinal)
    return {name: OrdinalSet.from_ordinals(np.array(ordinals, np.int64)) for name, ordinals in by_type.items()}


@st.composite
def states_and_records(draw):
    state = written(draw(catalogues), **draw(layouts))
    everything = sorted(as_set(populated(state)))
    return state, set(draw(st.lists(st.sampled_from(everything), unique=True))) if everything else set()


@given(states_and_records())
def test_children_and_parents_are_those_of_the_graph(drawn):
    state, chosen = drawn
    pairs, matches = graph(state), as_matches(chosen)
    assert as_set(add_children(state, matches)) == closed(chosen, pairs)
    assert as_set(add_parents(state, matches)) == closed(chosen, [(to, one) for one, to in pairs])
    assert as_set(parents(state, matches)) == {one for one, to in pairs if to in chosen}


@given(states_and_records())
def test_what_nobody_outside_needs_can_go_without_a_dangling_reference(drawn):
    state, chosen = drawn
    pairs = graph(state)
    alone = as_set(without_referenced_outside(state, as_matches(chosen)))
    everything = as_set(populated(state))
    assert alone == chosen - closed(everything - chosen, pairs)
    assert not any(to in alone for one, to in pairs if one not in alone)


@given(states_and_records())
def test_orphans_are_what_no_root_leads_to(drawn):
    state, _ = drawn
    everything = as_set(populated(state))
    assert orphans(state) == {}
    expected = everything - closed({one for one in everything if one[0] == "Actor"}, graph(state))
    assert as_set(orphans(state, ["Actor"])) == expected


@given(states_and_records())
def test_what_goes_with_records_is_what_only_they_lead_to(drawn):
    state, chosen = drawn
    gone = as_set(with_what_only_they_need(state, as_matches(chosen)))
    pairs = [(one, to) for one, to in graph(state) if one not in chosen and to not in chosen]
    everything = as_set(populated(state))
    below = closed(chosen, graph(state))
    stays = closed({one for one in everything if one not in below or (one[0] == "Movie" and one not in chosen)}, pairs)
    assert gone == below - stays


@given(states_and_records())
def test_reference_counts_are_those_of_the_graph(drawn):
    state, _ = drawn
    pairs = graph(state)
    for name in state:
        counts = reference_counts(state, name)
        assert counts.sum() == sum(to[0] == name for _, to in pairs)
        assert all(
            counts[ordinal] == sum(to == (name, ordinal) for _, to in pairs) for ordinal in state[name].populated
        )


def test_groups_come_after_what_they_refer_to():
    groups = type_groups(SCHEMAS)
    assert sorted(name for group in groups for name in group) == sorted(TYPES)
    placed = set()
    for group in groups:
        placed |= set(group)
        assert all(set(SCHEMAS[name].references()) <= placed for name in group)


@given(catalogues)
def test_export_as_json_lines_then_publish_gives_the_same_state(catalogue):
    state = written(catalogue)
    copy = WriteState(SCHEMAS)
    ingest_dicts(copy, "Movie", [json.loads(line) for line in json_lines(state, "Movie")])
    assert not diff(state, snapshot(copy))


@given(flat_catalogues, layouts)
def test_exported_lines_without_circles_are_made_by_column_and_publish_the_same_state(catalogue, layout):
    state = _flat(catalogue, layout)
    lines = list(json_lines(state, "Movie"))
    copy = WriteState(FLAT_SCHEMAS)
    ingest_dicts(copy, "Movie", map(json.loads, lines))
    assert not diff(state, snapshot(copy))
    for line, record in zip(lines, state["Movie"], strict=True):
        plain = json.loads(line)
        assert list(plain) == list(record.field_names())
        assert (plain["note"], plain["seen"], plain["id"]) == (record.note, record.seen, record.id)
        assert [actor["name"] for actor in plain["cast"] or ()] == [actor.name for actor in record.cast or ()]


@given(flat_catalogues)
def test_export_as_arrow_then_publish_gives_the_same_state(catalogue):
    state = _flat([_without_surrogates(movie) for movie in catalogue], {})
    copy = WriteState(FLAT_SCHEMAS)
    ingest_arrow(copy, "Movie", state["Movie"].to_arrow())
    assert not diff(state, snapshot(copy))


@given(flat_catalogues)
def test_export_as_parquet_then_publish_gives_the_same_state(tmp_path_factory, catalogue):
    parquet = pytest.importorskip("pyarrow.parquet")
    from deltaic.compare import write_parquet

    state = _flat([_without_surrogates(movie) for movie in catalogue], {})
    file = tmp_path_factory.mktemp("parquet") / "movies.parquet"
    assert write_parquet(state, "Movie", file) == len(catalogue)
    copy = WriteState(FLAT_SCHEMAS)
    ingest_arrow(copy, "Movie", parquet.read_table(file))
    assert not diff(state, snapshot(copy))


@given(flat_catalogues)
def test_csv_has_a_line_for_each_record(catalogue):
    movies = [movie | {"note": 'a,"b"\n' if movie["note"] == "a" else movie["note"]} for movie in catalogue]
    lines = list(csv_lines(_flat(movies, {}), "Movie"))
    rows = list(csv.reader(("\n".join(lines) + "\n").splitlines(keepends=True)))
    assert rows[0] == [field.name for field in FLAT_SCHEMAS["Movie"].fields]
    assert [row[rows[0].index("note")] for row in rows[1:]] == [movie["note"] or "" for movie in movies]
    assert [row[0] for row in rows[1:]] == [str(movie["id"]) for movie in movies]


def _flat(catalogue, layout):
    from tests.unit.compare import films

    state = WriteState(FLAT_SCHEMAS, **layout)
    fields = films.FIELDS
    try:
        films.FIELDS = fields | {"Movie": tuple(name for name in fields["Movie"] if name != "sequel")}
        for movie in catalogue:
            films.add(state, "Movie", movie)
    finally:
        films.FIELDS = fields
    return snapshot(state)


def _without_surrogates(value):
    if isinstance(value, str):
        return "surrogate" if "\ud800" in value else value
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(each) for key, each in value.items()}
    return [_without_surrogates(each) for each in value] if isinstance(value, list) else value


@given(catalogues, st.integers(1, 4), layouts)
def test_the_parts_of_a_split_combine_to_the_whole(catalogue, count, layout):
    state = written(catalogue, **layout)
    parts = [snapshot(part) for part in split(state, count, "Movie")]
    assert len(parts) == count
    assert not diff(state, snapshot(combine(parts, on_equal_keys="both")))
    for matches in split_matches(state, count, "Movie"):
        assert as_set(add_children(state, matches)) == as_set(matches)


@given(flat_catalogues, flat_catalogues, st.sampled_from(["first", "last", "both"]))
def test_where_keys_meet_the_chosen_side_wins(one, other, which):
    states = written(one), written(other)
    combined = snapshot(combine(states, on_equal_keys=which))
    if which == "both":
        expected = [*one, *other]
    else:
        winner, loser = (one, other) if which == "first" else (other, one)
        keys = {movie["id"] for movie in winner}
        expected = [*winner, *(movie for movie in loser if movie["id"] not in keys)]
    found = diff(written([]), combined)
    assert counted(found) == {name: (len(records), 0, 0, 0) for name, records in contents(expected).items()}
    assert not diff(written(expected), combined)["Movie"]


@given(catalogues, layouts)
def test_a_copy_of_everything_is_the_same(catalogue, layout):
    state = written(catalogue, **layout)
    assert not diff(state, snapshot(copy_records(state, populated(state))))
    assert not diff(state, snapshot(filtered_copy(state)))


@given(flat_catalogues, st.integers(0, 6))
def test_a_filtered_copy_has_the_records_that_were_kept_and_what_they_need(catalogue, limit):
    state = written(catalogue)
    copy = snapshot(filtered_copy(state, keep={"Movie": lambda view: view.column("id").to_numpy() < limit}))
    kept = [movie for movie in catalogue if movie["id"] < limit]
    assert counted(diff(state, copy)) == expected_counts(catalogue, kept)


@given(catalogues, texts, st.sampled_from(["equal", "prefix", "contains"]))
def test_a_text_is_found_where_it_stands_and_rolled_up_to_its_movies(catalogue, text, how):
    # Bytes are found by their hex digits too, which is another matter.
    catalogue = [
        movie | {"raw": None, "sequel": movie["sequel"] and movie["sequel"] | {"raw": None}} for movie in catalogue
    ]
    state = written(catalogue)
    found = find(state, text, how=how)
    hit = {"equal": str.__eq__, "prefix": str.startswith, "contains": str.__contains__}[how]
    strings = {value for value in contents(catalogue)["String"] if hit(value, text)}
    assert {state["String"][ordinal].value for ordinal in found.records().get("String", ())} == strings

    def holds(type_name, value):
        if isinstance(value, str):
            return hit(value, text)
        if type_name in LINKS and value is not None:
            return any(holds(LINKS[type_name].get(name), value[name]) for name in value)
        inside = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
        return any(holds(None if isinstance(each, str) else "Actor", each) for each in inside)

    expected = {frozen("Movie", movie) for movie in _all_movies(catalogue) if holds("Movie", movie)}
    roots = found.roots(["Movie"]).get("Movie", ())
    assert len(roots) == len(expected)
    assert {state["Movie"][ordinal].id for ordinal in roots} == {movie[0] for movie in expected}


def _all_movies(catalogue):
    return [*catalogue, *(movie["sequel"] for movie in catalogue if movie["sequel"] is not None)]


@given(catalogues)
def test_statistics_are_those_of_plain_python(catalogue):
    state = written(catalogue)
    for name in ("Movie", "Actor", "String"):
        records = list(state[name])
        for one in type_statistics(state, name, top=100):
            values = [record[one.name] for record in records]
            links = [record.reference(one.name) for record in records] if one.type in TYPES else None
            there = [value for value in (values if links is None else links) if value is not None]
            assert (one.count, one.nulls) == (len(records), len(records) - len(there))
            assert one.distinct == len({frozen(None, value) for value in there})
            assert sum(count for _, count in one.top) == len(there)
            numbers = [value for value in there if isinstance(value, int | float) and value == value]
            if numbers and links is None and one.type != "BOOLEAN":
                narrow = np.float32 if one.type == "FLOAT" else type(numbers[0])
                assert (narrow(one.min), narrow(one.max)) == (narrow(min(numbers)), narrow(max(numbers)))


@given(catalogues, layouts)
def test_a_footprint_adds_up_to_the_bytes_of_the_state(catalogue, layout):
    state = written(catalogue, **layout)
    found = footprint(state)
    assert sum(one.total_bytes for one in found) == state.nbytes
    for one in found:
        assert one.overhead_bytes >= 0 and one.records == len(state[one.name])
        assert all(0 <= field.hole_bytes <= field.fixed_bytes for field in one.fields)
