"""For random chains: the feed of a step, replayed on the older version, gives the newer one; back and forth."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from deltaic.compare.diff import diff
from deltaic.consumer import Consumer
from deltaic.consumer.feed import changes_between, feed_step, step_of_refresh
from deltaic.producer import Producer, count_up
from deltaic.producer.patching import patch
from deltaic.schema.classes import VectorColumn
from deltaic.schema.model import Model
from deltaic.state.read import ReadState
from deltaic.storage.urls import open_store
from deltaic.wire.patches import MISSING, PatchBatch
from tests.properties.feed_model import Tables

TYPES = """
String { string value; }
Number { int value; }
Country @PrimaryKey(code) { string code; String name; }
Role { String name; int weight; SetOfString words; }
Actor { String name; Country home; int born; MapOfNumberToString aliases; %s }
ListOfActor List<Actor>;
ListOfString List<String>;
Grid List<ListOfString>;
SetOfString Set<String> @HashKey(value);
SetOfRole Set<Role> @HashKey(name.value);
SetOfCountry Set<Country> @HashKey(code);
SetOfActor Set<Actor>;
MapOfNumberToString Map<Number, String>;
MapOfStringToActor Map<String, Actor> @HashKey(value);
MapOfActorToString Map<Actor, String>;
Node { string name; Node next; }
Loose { string word; ListOfString words; }
"""
ALWAYS = {"id": "int id;", "code": "string code;"}
SOMETIMES = {
    "title": "String title;",
    "score": "double score;",
    "votes": "long votes;",
    "seen": "boolean seen;",
    "raw": "bytes raw;",
    "cast": "ListOfActor cast;",
    "grid": "Grid grid;",
    "tags": "SetOfString tags;",
    "roles": "SetOfRole roles;",
    "countries": "SetOfCountry countries;",
    "friends": "SetOfActor friends;",
    "parts": "MapOfStringToActor parts;",
    "odd": "MapOfActorToString odd;",
    "lead": "Actor lead;",
    "thread": "Node thread;",
    "embedding": "",
}
NESTED = {"height": "int height;", "nick": "String nick;"}
"""Fields that a nested type gets in the course of time."""

WORDS = ("", "a", "b", "ä", "🎬", "longer text", 'quote " and {brace}', "\ud800")


class RandomChain:
    """A producer whose records and model change at random."""

    def __init__(self, source: random.Random, words: tuple[str, ...]) -> None:
        self.random, self.words = source, words
        self.fields = [name for name in SOMETIMES if source.random() < 0.6]
        self.nested: list[str] = []
        self.store = open_store("memory:")
        self.producer = Producer(self.store, self._model(), versions=count_up)
        self.movies = {key: self._movie(*key) for key in self._keys(source.randrange(8))}
        self.loose = [self._loose() for _ in range(source.randrange(3))]
        self.versions: list[int] = []

    def tables(self) -> dict[str, Any]:
        return {"Movie": list(self.movies.values()), "Loose": self.loose}

    def publish(self) -> None:
        report = self.producer.publish(tables=self.tables())
        if report.version is not None and report.version not in self.versions:
            self.versions.append(report.version)

    def step(self) -> None:
        source = self.random
        if source.random() < 0.3:
            self._change_model()
        for key in list(self.movies):
            chance = source.random()
            if chance < 0.15:
                del self.movies[key]
            elif chance < 0.5:
                self._touch(self.movies[key])
            elif chance < 0.6:
                self.movies[key] = self._movie(*key)
        for key in self._keys(source.randrange(4)):
            self.movies.setdefault(key, self._movie(*key))
        if source.random() < 0.4:
            self.loose = [each for each in self.loose if source.random() < 0.6] + [self._loose()]
        self.publish()

    def _change_model(self) -> None:
        source = self.random
        if len(self.nested) < len(NESTED) and source.random() < 0.4:
            name = [*NESTED][len(self.nested)]
            self.nested.append(name)
            for actor in _actors([*self.movies.values()]):
                actor[name] = self._extra(name)
            self.producer.change_model(self._model())
            return
        missing = [name for name in SOMETIMES if name not in self.fields]
        if missing and source.random() < 0.8:
            name = source.choice(missing)
            self.fields.append(name)
            for movie in self.movies.values():
                movie[name] = self._value(name)
        elif len(self.fields) > 1:
            gone = source.choice(self.fields)
            self.fields.remove(gone)
            for movie in self.movies.values():
                movie.pop(gone, None)
        self.producer.change_model(self._model())

    def _model(self) -> Model:
        fields = " ".join([*ALWAYS.values(), *(SOMETIMES[name] for name in self.fields)])
        types = TYPES % " ".join(NESTED[name] for name in self.nested)
        model = Model.parse(f"{types} Movie @PrimaryKey(id, code) {{ {fields} }}")
        vectors = (VectorColumn("Movie", "embedding", 4),) if "embedding" in self.fields else ()
        return replace(model, vectors=vectors)

    def _keys(self, count: int) -> list[tuple[int, str]]:
        return [(self.random.randrange(9), self.random.choice("xy")) for _ in range(count)]

    def _movie(self, number: int, code: str) -> dict[str, Any]:
        return {"id": number, "code": code, **{name: self._value(name) for name in self.fields}}

    def _touch(self, movie: dict[str, Any]) -> None:
        """Change a little of a record, somewhere inside."""
        source = self.random
        if not self.fields:
            return
        name = source.choice(self.fields)
        value = movie.get(name)
        if not value or source.random() < 0.3:
            movie[name] = self._value(name)
        elif name == "cast":
            cast = [dict(each) for each in value]
            cast[source.randrange(len(cast))] = self._actor()
            movie[name] = cast
        elif name == "grid":
            movie[name] = [list(row) for row in value]
            row = source.choice(movie[name])
            if row:
                row[source.randrange(len(row))] = source.choice(self.words)
        elif name in ("parts",):
            movie[name] = dict(value)
            movie[name][source.choice(list(value))] = self._actor()
        elif name == "roles":
            movie[name] = [{**each, "weight": source.randrange(5)} for each in value]
        elif name == "lead":
            movie[name] = {**value, "born": source.randrange(5)}
        else:
            movie[name] = self._value(name)

    def _value(self, name: str) -> Any:
        source = self.random
        if source.random() < 0.15:
            return None
        several = range(source.randrange(9))
        match name:
            case "title":
                return source.choice(self.words)
            case "score":
                return source.choice([0.5, float("nan"), -0.0, 0.0, 1e300])
            case "votes":
                return source.choice([0, -1, 2**62, 7])
            case "seen":
                return source.random() < 0.5
            case "raw":
                return bytes([source.randrange(3)])
            case "cast":
                return [self._actor() for _ in several]
            case "grid":
                return [self._words() for _ in several]
            case "tags":
                return list(dict.fromkeys(self._words()))
            case "roles":
                names = [*dict.fromkeys(self._words()), *source.choice([(), (), ("a", "a")])]
                roles = [{"name": each, "weight": source.randrange(5), "words": self._tags()} for each in names]
                return list({str(each): each for each in roles}.values())
            case "countries":
                return [{"code": "de", "name": "x"}, {"code": "fr", "name": source.choice("yz")}]
            case "friends":
                return list({str(each): each for each in (self._actor() for _ in several)}.values())
            case "parts":
                return {each: self._actor() for each in self._words()}
            case "odd":
                return list({str(each): (each, source.choice(self.words)) for each in [self._actor()]}.values())
            case "lead":
                return self._actor()
            case "embedding":
                return [source.choice([0.0, 0.5, -1.5]) for _ in range(4)]
            case _:
                return {"name": source.choice(self.words), "next": self._value(name) if source.random() < 0.6 else None}

    def _words(self) -> list[str]:
        return [self.random.choice(self.words) for _ in range(self.random.randrange(8))]

    def _tags(self) -> list[str]:
        return list(dict.fromkeys(self._words()))

    def _actor(self) -> dict[str, Any]:
        source = self.random
        return {
            "name": source.choice([None, *self.words]),
            "home": source.choice([None, {"code": "de", "name": "x"}, {"code": "fr", "name": source.choice("yz")}]),
            "born": source.choice([None, 1, 2]),
            "aliases": source.choice([None, {n: source.choice(self.words) for n in range(source.randrange(4))}]),
            **{name: self._extra(name) for name in self.nested},
        }

    def _extra(self, name: str) -> Any:
        found = self.random.choice([None, 1, 2])
        return None if found is None else found if name == "height" else self.words[found]

    def _loose(self) -> dict[str, Any]:
        return {"word": self.random.choice(self.words), "words": self._words()}


def _actors(value: Any) -> Iterator[dict[str, Any]]:
    """Every actor inside of some values."""
    if isinstance(value, dict) and "aliases" in value:
        yield value
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _actors(each)


def chain_of(seed: int) -> RandomChain:
    made = RandomChain(random.Random(seed), WORDS)
    made.publish()
    while len(made.versions) < 2 or made.random.random() < 0.6:
        made.step()
    return made


def states_of(chain: RandomChain, route: list[int]) -> list[Any]:
    """The states of versions as one consumer meets them on its way."""
    consumer = Consumer(chain.store, share=False, max_deltas=1000)
    found = []
    for version in route:
        consumer.refresh(to=version)
        found.append(consumer.state)
    return found


def told(tables: Tables) -> dict[str, Any]:
    """What can be said by itself: records of a type that others refer to may share a key, and come and go with them."""
    found = tables.content()
    return {name: each for name, each in found.items() if name in ("Movie", "Loose")}


def replayed(state: Any, after: Any, step: Any) -> dict[str, Any]:
    tables = Tables(state)
    tables.become(after)
    for one in step:
        tables.patch(one)
    return told(tables)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_replaying_the_feed_of_a_step_on_the_older_version_gives_the_newer_one(seed, before):
    chain = chain_of(seed)
    states = states_of(chain, chain.versions)
    steps = list(changes_between(Consumer(chain.store, share=False), chain.versions[0], before=before))
    assert [step.to_version for step in steps] == chain.versions[1:]
    for (old, new), step in zip(pairwise(states), steps, strict=True):
        assert replayed(old, new, step) == told(Tables(new))
        assert before == any(patch.previous is not MISSING for patch in step) or not len(step)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_the_feed_back_gives_the_older_version_by_reverse_deltas(seed, before):
    chain = chain_of(seed)
    route = [*reversed(chain.versions)]
    states = [states_of(chain, [version])[0] for version in route]
    steps = list(changes_between(Consumer(chain.store, share=False), route[0], route[-1], before=before))
    assert [step.to_version for step in steps] == route[1:]
    for (old, new), step in zip(pairwise(states), steps, strict=True):
        assert replayed(old, new, step) == told(Tables(new))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_one_refresh_over_several_deltas_is_one_step_to_replay(seed):
    chain = chain_of(seed)
    old, new = states_of(chain, [chain.versions[0], chain.versions[-1]])
    consumer = Consumer(chain.store, share=False, max_deltas=1000)
    consumer.refresh(to=chain.versions[0])
    step = step_of_refresh(consumer.refresh(), before=True)
    assert step is None if old.tag == new.tag else replayed(old, new, step) == told(Tables(new))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_states_that_only_snapshots_lead_to_are_compared_as_a_whole(seed):
    chain = chain_of(seed)
    old, new = (ReadState.load(chain.store.get(f"snapshot-{version}").data) for version in chain.versions[:2])
    step = feed_step(1, 2, old, new, None, with_before=True)
    assert replayed(old, new, step) == told(Tables(new))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_bytes_and_objects_of_a_step_say_the_same(seed, before):
    chain = chain_of(seed)
    states = states_of(chain, chain.versions)
    for (old, new), step in zip(
        pairwise(states), changes_between(Consumer(chain.store), chain.versions[0], before=before), strict=True
    ):
        assert replayed(old, new, PatchBatch.from_bytes(step.to_bytes())) == told(Tables(new))
        assert replayed(old, new, PatchBatch.of(step)) == told(Tables(new))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
@example(224382316, False, False)
def test_patching_the_older_version_with_the_feed_publishes_the_newer_one(seed, before, as_bytes):
    chain = RandomChain(random.Random(seed), WORDS)
    chain.publish()
    store = open_store("memory:")
    with Producer(store, chain.producer.model, versions=count_up) as copy:
        copy.publish(tables=chain.tables())
        for _ in range(3):
            at = chain.versions[-1]
            chain.step()
            copy.change_model(chain.producer.model)
            for step in changes_between(Consumer(chain.store, share=False), at, before=before):
                patch(copy, PatchBatch.from_bytes(step.to_bytes()) if as_bytes else step.batch)
            states = []
            for each in (chain.store, store):
                consumer = Consumer(each, share=False)
                consumer.refresh()
                states.append(consumer.state)
            # Of all types: nothing stays behind that nobody refers to.
            assert not diff(*states)
