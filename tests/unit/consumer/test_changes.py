"""What a refresh changed, by ordinal and by key."""

import numpy as np
import pytest

from deltaic.consumer import Consumer, RefreshListener
from deltaic.errors import NotFoundError
from deltaic.schema.text import parse_schemas
from deltaic.state.filter import Filter
from deltaic.state.write import WriteState
from deltaic.storage import open_store
from tests.unit.consumer.small_chain import COUNTRIES, SmallChain


@pytest.fixture
def chain():
    return SmallChain(open_store("memory:"))


class Collector(RefreshListener):
    def __init__(self):
        self.seen = []

    def after(self, refresh, changes):
        self.seen.append(changes)


def keys(values):
    return sorted(key for (key,) in values)


def test_added_removed_and_modified_records_are_told_by_key(chain):
    collector = Collector()
    consumer = Consumer(chain.store, listeners=[collector])
    chain.publish({1: "stays", 2: "goes", 3: "changes"})
    consumer.refresh()
    first = collector.seen[0]
    assert first.whole and keys(first["Movie"].added_keys()) == [1, 2, 3] and len(first["Movie"].removed) == 0
    chain.publish({1: "stays", 3: "changed", 4: "comes"})
    consumer.refresh()
    movies = collector.seen[1]["Movie"]
    assert not collector.seen[1].whole
    assert keys(movies.added_keys()) == [4]
    assert keys(movies.removed_keys()) == [2]
    assert keys(movies.modified_keys()) == [1, 3]  # the watermark of 1 changed
    rows = dict(zip(keys(movies.modified_keys()), movies.modified.before.tolist(), strict=True))
    before = {movies.before[int(row)].id: movies.before[int(row)].title for row in movies.modified.before}
    after = {movies.after[int(row)].id: movies.after[int(row)].title for row in movies.modified.after}
    assert before == {1: "stays", 3: "changes"} and after == {1: "stays", 3: "changed"} and len(rows) == 2
    assert [movies.before[int(row)].title for row in movies.removed] == ["goes"]


def test_types_that_did_not_change_are_not_told(chain):
    consumer = Consumer(chain.store)
    chain.publish()
    consumer.refresh()
    chain.publish({9: "nine"})
    changes = consumer.refresh().changes
    assert "Country" not in changes and set(changes) == {"Movie", "String"}
    with pytest.raises(KeyError):
        changes["Country"]


def test_a_type_without_a_key_tells_ordinals_only(chain):
    consumer = Consumer(chain.store)
    chain.publish({1: "one"})
    consumer.refresh()
    chain.publish({1: "two"})
    strings = consumer.refresh().changes["String"]
    assert not strings.has_key and len(strings.modified) == 0
    assert [strings.after[int(row)].value for row in strings.added] == ["two"]
    assert [strings.before[int(row)].value for row in strings.removed] == ["one"]
    with pytest.raises(NotFoundError, match="primary key"):
        strings.added_keys()


def test_ordinals_that_were_freed_and_taken_again_on_the_way_are_told(chain):
    consumer = Consumer(chain.store)
    chain.publish({1: "a", 2: "b"})
    consumer.refresh()
    for titles in ({1: "a"}, {1: "a"}, {1: "a", 5: "c"}, {1: "a", 5: "c", 6: "d"}):
        chain.publish(titles)
    changes = consumer.refresh().changes["Movie"]
    assert keys(changes.added_keys()) == [5, 6] and keys(changes.removed_keys()) == [2]


def test_a_second_snapshot_tells_keys_exactly_and_counts_the_rest_as_modified(chain):
    consumer = Consumer(chain.store, max_deltas=1)
    chain.publish({1: "a", 2: "b"})
    consumer.refresh()
    for titles in ({1: "a"}, {1: "a", 3: "c"}):
        chain.publish(titles)
    refresh = consumer.refresh()
    assert refresh.by_snapshot and refresh.changes.whole
    movies = refresh.changes["Movie"]
    assert (keys(movies.added_keys()), keys(movies.removed_keys()), keys(movies.modified_keys())) == ([3], [2], [1])


def test_a_key_that_a_filter_left_out_is_no_key(chain):
    consumer = Consumer(chain.store, filter=Filter.without("Movie.id"))
    chain.publish({1: "one"})
    consumer.refresh()
    chain.publish({2: "two"})
    movies = consumer.refresh().changes["Movie"]
    assert not movies.has_key and len(movies.added) == 1 and len(movies.modified) == 0


def test_text_keys_of_many_lengths_are_matched(chain):
    consumer = Consumer(chain.store)
    codes = {"": 1, "a": 1, "b": 1, "aa": 1, "ä": 1, "\ud800": 1, "long" * 50: 1, "x\0": 1, "x": 1}
    chain.publish(countries=codes)
    consumer.refresh()
    chain.publish(countries={code: 2 for code in codes if code != "aa"} | {"new": 2})
    countries = consumer.refresh().changes["Country"]
    assert countries.added_keys() == [("new",)] and countries.removed_keys() == [("aa",)]
    assert {key for (key,) in countries.modified_keys()} == set(codes) - {"aa"}
    before = [countries.before[int(row)].code for row in countries.modified.before]
    after = [countries.after[int(row)].code for row in countries.modified.after]
    assert before == after and len(COUNTRIES) == 3


SEVERAL = """
Rating @PrimaryKey(movie.id, user.name, weight) { Film movie; User user; double weight; int stars; }
Film @PrimaryKey(id) { int id; }
User { Name name; int age; }
Name { string value; }
"""


def two_states(first, second):
    import io

    from deltaic.state.read import ReadState

    writer = WriteState(parse_schemas(SEVERAL))
    states = []
    for rows in (first, second):
        for movie, user, weight, stars in rows:
            film = writer.add_object("Film", {"id": movie}) if movie is not None else None
            person = None
            if user is not None:
                name = writer.add_object("Name", {"value": user}) if user else None
                person = writer.add_object("User", {"name": name, "age": 1})
            writer.add_object("Rating", {"movie": film, "user": person, "weight": weight, "stars": stars})
        stream = io.BytesIO()
        if not states:
            writer.write_snapshot(stream)
            states.append(ReadState.load(stream.getvalue()))
        else:
            writer.write_delta(stream)
            states.append(states[0].apply(stream.getvalue()))
        writer.next_cycle()
    return states


def test_keys_of_several_paths_through_references_with_nulls_and_nan_are_matched():
    from deltaic.consumer.apply import changed_ordinals
    from deltaic.consumer.changes import Changes

    nan = float("nan")
    first = [
        (1, "ann", 0.5, 1),
        (1, "bob", 0.5, 1),
        (2, "ann", 0.5, 1),
        (None, "ann", nan, 1),
        (3, None, 1.0, 1),
        (4, "", 0.0, 1),
    ]
    second = [
        (1, "ann", 0.5, 2),
        (1, "bob", 1.5, 2),
        (2, "ann", 0.5, 1),
        (None, "ann", nan, 2),
        (3, None, 1.0, 2),
        (4, "", 0.0, 2),
    ]
    before, after = two_states(first, second)
    ratings = Changes(before, after, (changed_ordinals(after),))["Rating"]
    modified = {tuple("nan" if part != part else part for part in key) for key in ratings.modified_keys()}
    assert modified == {(1, "ann", 0.5), (None, "ann", "nan"), (3, None, 1.0), (4, None, 0.0)}
    assert ratings.added_keys() == [(1, "bob", 1.5)] and ratings.removed_keys() == [(1, "bob", 0.5)]


def test_keys_that_lead_through_types_without_a_record_are_null_and_no_error():
    from deltaic.consumer.apply import changed_ordinals
    from deltaic.consumer.cached import CachedType
    from deltaic.consumer.changes import Changes
    from deltaic.index import PrimaryKeyIndex

    before, after = two_states([(None, None, 0.5, 1), (None, "", 2.5, 1)], [(None, None, 0.5, 2), (None, "", 1.5, 1)])
    assert len(after["Film"]) == len(after["Name"]) == 0 and len(after["User"]) == 1
    ratings = Changes(before, after, (changed_ordinals(after),))["Rating"]
    assert ratings.modified_keys() == [(None, None, 0.5)]
    assert ratings.added_keys() == [(None, None, 1.5)] and ratings.removed_keys() == [(None, None, 2.5)]
    assert CachedType.of(after, "Rating").find(None, None, 0.5)["stars"] == 2
    assert len(PrimaryKeyIndex.build(after, "Rating").nulls()) == 2
    none_left = two_states([(1, "ann", 0.5, 1)], [])[1]
    assert CachedType.of(none_left, "Rating").find(1, "ann", 0.5) is None
    assert PrimaryKeyIndex.build(none_left, "Rating").find([(1, "ann", 0.5)]).tolist() == [-1]


def test_records_that_share_a_key_are_paired_in_order():
    from deltaic.consumer.apply import changed_ordinals
    from deltaic.consumer.changes import Changes

    before, after = two_states([(1, "ann", 0.5, 1), (1, "ann", 0.5, 2)], [(1, "ann", 0.5, 3)])
    ratings = Changes(before, after, (changed_ordinals(after),))["Rating"]
    assert [before["Rating"][int(row)].stars for row in ratings.modified.before] == [1]
    assert [before["Rating"][int(row)].stars for row in ratings.removed] == [2] and len(ratings.added) == 0


def test_a_hundred_thousand_changed_keys_take_no_python_per_record():
    import sys

    from deltaic.consumer.apply import changed_ordinals
    from deltaic.consumer.changes import Changes
    from deltaic.state.read import ReadState

    count = 100_000
    writer = WriteState(parse_schemas("Row @PrimaryKey(id) { long id; int value; }"))
    states = []
    for version in (1, 2):
        import io

        stream = io.BytesIO()
        ids = np.arange(version * 10, count + version * 10, dtype=np.int64)
        writer.add_objects("Row", {"id": ids, "value": np.full(count, version, np.int32)})
        (writer.write_delta if states else writer.write_snapshot)(stream)
        states.append(states[0].apply(stream.getvalue()) if states else ReadState.load(stream.getvalue()))
        writer.next_cycle()
    changes = Changes(states[0], states[1], (changed_ordinals(states[1]),))["Row"]
    calls = 0

    def count_calls(frame, event, argument):
        nonlocal calls
        calls += 1

    sys.setprofile(count_calls)
    try:
        sizes = len(changes.added), len(changes.removed), len(changes.modified)
    finally:
        sys.setprofile(None)
    assert sizes == (10, 10, count - 10)
    assert calls < 2_000
