"""Indexes over deltas that append values to records that stay: what they find is what a new index finds."""

import numpy as np
import pytest

from deltaic.consumer.apply import changed_ordinals
from deltaic.index import HashIndex, Lookup, PrimaryKeyIndex, RangeIndex
from deltaic.state.append_write import SchemaAppend
from deltaic.state.bitset import OrdinalSet
from tests.unit.append.histories import History

OLD = "Film @PrimaryKey(id) { int id; Actor actor; } Actor { int id; }"
NEW = "Film @PrimaryKey(id) { int id; Actor actor; int year; } Actor { int id; string name; }"


def rows(films, *, new=True):
    """As many films; film n is of actor n % 3."""
    actors = [{"id": number, **({"name": f"name {number}"} if new else {})} for number in range(3)]
    made = [{"id": n, "actor": n % 3, **({"year": 1900 + n} if new else {})} for n in range(films)]
    return {"Actor": actors, "Film": made}


@pytest.fixture
def history():
    made = History(SchemaAppend())
    made.publish(OLD, rows(40, new=False))
    made.publish(NEW, rows(40))
    made.publish(NEW, rows(41))
    made.publish(NEW, rows(42))
    return made


def finds(lookup):
    return (
        lookup.hash("Film", "actor.name").find("name 1").tolist(),
        lookup.hash("Film", ["actor.name", "year"]).find("name 1", 1901).tolist(),
        lookup.range("Film", "year").between(1900, 1905).tolist(),
        lookup.key("Film", "year").find([1901, 1999]).tolist(),
        lookup.key("Film").find([7, 99]).tolist(),
    )


@pytest.mark.parametrize("told", [False, True], ids=["by the state", "by steps"])
def test_appended_values_are_found_through_records_that_stayed(history, told):
    state = history.fresh(1)
    lookup = Lookup(state)
    expected = finds(lookup)
    assert all(expected)
    # Back to before the fields, and forward again.
    for blob in (history.versions[1].reverse, history.versions[1].delta):
        state = state.apply(blob, schema_append="values")
        lookup = lookup.refreshed(state, [changed_ordinals(state)] if told else None)
        assert finds(lookup) == finds(Lookup(state))
    assert finds(lookup) == expected


def test_an_index_goes_on_by_updates_after_values_were_appended(history):
    state = history.fresh(1)
    index = HashIndex.build(state, "Film", "actor.name")
    state = state.apply(history.versions[2].delta, schema_append="values")
    # An actor got a value, as a delta says it: it was not there before. The films that lead to it stayed.
    actors = state.types["Actor"].populated
    appended = {"Actor": (actors.difference(OrdinalSet.from_ordinals(np.array([1]))), actors)}
    index = index.update(state, [{**changed_ordinals(state), **appended}])
    assert (index.builds, index.updates) == (2, 0)
    state = state.apply(history.versions[3].delta, schema_append="values")
    index = index.update(state, [changed_ordinals(state)])
    assert (index.builds, index.updates) == (2, 1)
    assert index.find("name 1").tolist() == HashIndex.build(state, "Film", "actor.name").find("name 1").tolist()


def test_fields_that_come_with_a_delta_can_be_indexed(history):
    state = history.fresh(0)
    by_id = PrimaryKeyIndex.build(state, "Film")
    steps = []
    for version in history.versions[1:]:
        state = state.apply(version.delta, schema_append="full")
        steps.append(changed_ordinals(state))
    by_id = by_id.update(state, steps)
    assert by_id[41].year == 1941 and by_id[7].actor.name == "name 1"
    assert RangeIndex.build(state, "Film", "year").count(1900, 1949) == 42
    assert len(HashIndex.build(state, "Film", "actor.name").find("name 0")) == 14
