"""Random histories: what is published by changes alone is what is published whole; columns give what objects give."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltaic.producer import CompactionLimits, Producer, count_up
from deltaic.producer.references import references
from deltaic.producer.restoring import load_version
from deltaic.schema.model import Model
from deltaic.storage.announcement import Announcements
from deltaic.storage.urls import open_store

SCHEMAS = """
String { string value; }
Country @PrimaryKey(code) { string code; String name; }
Actor { String name; Country home; }
ListOfActor List<Actor>;
SetOfString Set<String> @HashKey(value);
MapOfStringToActor Map<String, Actor> @HashKey(value);
Movie @PrimaryKey(country.code, number) {
  Country country; int number; String title; ListOfActor cast; SetOfString tags; MapOfStringToActor roles; double score;
}
"""
MODEL = Model.parse(SCHEMAS)
ARROW_COUNTRY = pa.struct([("code", pa.string()), ("name", pa.string())])
ARROW_ACTOR = pa.struct([("name", pa.string()), ("home", ARROW_COUNTRY)])
ARROW = pa.schema(
    [
        ("country", ARROW_COUNTRY),
        ("number", pa.int32()),
        ("title", pa.string()),
        ("cast", pa.list_(ARROW_ACTOR)),
        ("tags", pa.list_(pa.string())),
        ("roles", pa.map_(pa.string(), ARROW_ACTOR)),
        ("score", pa.float64()),
    ]
)

words = st.sampled_from(["a", "b", "ä", "", "🎬", "longer text"])
countries = st.sampled_from([{"code": "de", "name": "x"}, {"code": "fr", "name": "y"}, {"code": "fr", "name": "z"}])
actors = st.fixed_dictionaries({"name": st.none() | words, "home": st.none() | countries})
movies = st.fixed_dictionaries(
    {
        "country": countries,
        "number": st.integers(0, 3),
        "title": st.none() | words,
        "cast": st.none() | st.lists(actors, max_size=3),
        "tags": st.none() | st.lists(words, max_size=3, unique=True),
        "roles": st.none() | st.lists(st.tuples(words, actors), max_size=2, unique_by=lambda pair: pair[0]),
        "score": st.none() | st.sampled_from([0.5, float("nan"), -0.0]),
    }
)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("add_or_modify"), st.lists(movies, max_size=4)),
        st.tuples(st.just("add_if_absent"), st.lists(movies, max_size=2)),
        st.tuples(st.just("delete"), st.tuples(st.sampled_from(["de", "fr"]), st.integers(0, 3))),
        st.tuples(st.just("discard"), st.tuples(st.sampled_from(["de", "fr"]), st.integers(0, 3))),
        st.tuples(st.just("arrow"), st.lists(movies, max_size=4)),
    ),
    max_size=5,
)


def key_of(movie: dict[str, Any]) -> tuple[str, int]:
    return movie["country"]["code"], movie["number"]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=ARROW)


def content(state: Any) -> dict[tuple[str, int], Any]:
    found = {}
    for record in state["Movie"]:
        row = record.to_dict()
        for name in ("tags",):
            row[name] = None if row[name] is None else sorted(row[name])
        row["roles"] = None if row["roles"] is None else sorted(map(repr, dict(row["roles"]).items()))
        row["score"] = repr(row["score"])
        found[key_of(row)] = row
    return found


def counts(state: Any) -> dict[str, int]:
    return {name: len(data.populated) for name, data in state.types.items()}


def no_orphans(state: Any) -> bool:
    """Every record but movies is referred to, and no reference leads nowhere."""
    referred: dict[str, set[int]] = {}
    for name, data in state.types.items():
        for target, found in references(state, name, data.populated.ordinals()):
            referred.setdefault(target, set()).update(found.tolist())
    return all(
        set(data.populated.ordinals().tolist()) == referred.get(name, set())
        for name, data in state.types.items()
        if name != "Movie"
    )


def applied(model: dict[Any, Any], batch: list[Any]) -> dict[Any, Any]:
    """What a batch means, said plainly."""
    before, after = dict(model), dict(model)
    for kind, given_value in batch:
        if kind in ("add_or_modify", "arrow"):
            for movie in given_value:
                after[key_of(movie)] = movie
        elif kind == "add_if_absent":
            for movie in given_value:
                after.setdefault(key_of(movie), movie)
        elif kind == "delete":
            after.pop(given_value, None)
        elif given_value in before:
            after[given_value] = before[given_value]
        else:
            after.pop(given_value, None)
    return after


@given(
    st.lists(movies, max_size=5),
    st.lists(changes, min_size=1, max_size=4),
    st.lists(st.sampled_from("rc-"), max_size=4),
)
def test_changes_alone_give_what_publishing_everything_gives(first: Any, history: Any, breaks: Any) -> None:
    store, whole = open_store("memory:"), open_store("memory:")
    by_changes = Producer(store, MODEL, versions=count_up)
    in_whole = Producer(whole, MODEL, versions=count_up)
    expected = {key_of(movie): movie for movie in first}
    by_changes.publish(list(expected.values()), type_name="Movie")
    in_whole.publish(list(expected.values()), type_name="Movie")
    for number, batch in enumerate(history):
        if number < len(breaks) and breaks[number] == "r":
            by_changes.close()
            by_changes = Producer(store, MODEL, versions=count_up)
        elif number < len(breaks) and breaks[number] == "c":
            by_changes.compact(CompactionLimits(0, 0))
        with by_changes.incremental() as collected:
            for kind, value in batch:
                if kind == "arrow":
                    collected.add_or_modify(table(value), "Movie")
                elif kind in ("add_or_modify", "add_if_absent"):
                    getattr(collected, kind)(value, "Movie")
                else:
                    getattr(collected, kind)("Movie", value)
        expected = applied(expected, batch)
        in_whole.publish(list(expected.values()), type_name="Movie")
        assert by_changes.state is not None and in_whole.state is not None
        assert content(by_changes.state) == content(in_whole.state)
        assert counts(by_changes.state) == counts(in_whole.state)
        assert no_orphans(by_changes.state)
    loaded = load_version(store, Announcements(store), by_changes.version or 0)
    assert content(loaded) == content(by_changes.state)


@given(st.lists(st.lists(movies, max_size=6), min_size=1, max_size=3))
def test_columns_and_dicts_give_the_same_bytes(versions: Any) -> None:
    producers = [Producer(open_store("memory:"), MODEL, versions=count_up) for _ in range(2)]
    for rows in versions:
        producers[0].publish(rows, type_name="Movie")
        producers[1].publish(table(rows), type_name="Movie")
        states = [producer.state for producer in producers]
        assert states[0] is not None and states[1] is not None
        assert states[0].checksum() == states[1].checksum()
        assert content(states[0]) == content(states[1])
