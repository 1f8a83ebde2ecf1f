"""Changes by key: what goes, what stays, who wins."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from deltaic.errors import InputError, NotFoundError
from deltaic.producer import Producer, count_up
from deltaic.producer.keys import KeyNumbers
from deltaic.schema.annotations import key
from deltaic.schema.model import Model
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from tests.unit.producer.catalogue import Actor, Movie, check_chain, content, content_of, movie, movies, producer_of


@pytest.fixture
def store() -> Store:
    return open_store("memory:")


@pytest.fixture
def producer(store: Store) -> Producer:
    made = producer_of(store)
    made.publish(movies(1, 2, 3, 4))
    return made


def names(producer: Producer) -> set[str]:
    assert producer.state is not None
    return {record.name for record in producer.state["Actor"]}


def test_what_only_a_deleted_record_needed_goes_with_it(producer: Producer, store: Store) -> None:
    assert names(producer) == {"actor 0", "actor 1", "actor 2", "actor 3", "actor 4"}
    with producer.incremental() as changes:
        changes.delete(Movie, 4)
    assert names(producer) == {"actor 0", "actor 1", "actor 2", "actor 3"}, "actor 1 plays elsewhere too"
    assert producer.state is not None and content(producer.state) == content_of(movies(1, 2, 3))
    check_chain(store)


def test_the_last_change_of_a_key_wins(producer: Producer) -> None:
    with producer.incremental() as changes:
        changes.add_or_modify(movie(2, "once"))
        changes.add_or_modify([movie(2, "twice"), movie(9), movie(2, "thrice")])
        changes.delete(Movie, 9)
        changes.delete(Movie, 1)
        changes.add_or_modify(movie(1, "back again"))
    assert producer.state is not None
    expected = content_of([movie(1, "back again"), movie(2, "thrice"), movie(3), movie(4)])
    assert content(producer.state) == expected
    titles = {record.value for record in producer.state["String"]}
    assert not titles & {"once", "twice", "movie 9"}, "what lost was never added"


def test_add_if_absent_looks_at_the_batch_too(producer: Producer) -> None:
    with producer.incremental() as changes:
        changes.add_if_absent([movie(1, "no"), movie(8, "first"), movie(8, "second")])
        changes.delete(Movie, 2)
        changes.add_if_absent(movie(2, "after the delete"))
    assert producer.state is not None
    found = content(producer.state)
    assert (found[1][0], found[8][0], found[2][0]) == ("movie 1", "first", "after the delete")


def test_discard_forgets_what_the_batch_did(producer: Producer) -> None:
    with producer.incremental() as changes:
        changes.delete(Movie, 1)
        changes.add_or_modify(movie(2, "changed"))
        changes.discard(Movie, 1)
        changes.discard(Movie, 2)
    assert changes.cycle is not None and not changes.cycle.published


def test_a_block_that_raises_publishes_nothing(producer: Producer) -> None:
    with pytest.raises(KeyError), producer.incremental() as changes:
        changes.delete(Movie, 1)
        raise KeyError
    assert producer.version == 1 and not producer.publish(movies(1, 2, 3, 4)).published


def test_deleting_what_is_not_there_changes_nothing(producer: Producer) -> None:
    with producer.incremental() as changes:
        changes.delete_many(Movie, np.arange(100, 200))
    assert changes.cycle is not None and not changes.cycle.published


def test_the_first_version_may_be_incremental(store: Store) -> None:
    with producer_of(store).incremental() as changes:
        changes.add_or_modify(movies(1, 2))
        changes.delete(Movie, 2)
    assert changes.cycle is not None and changes.cycle.types["Movie"].records == 1


@pytest.mark.parametrize("form", ["pyarrow", "pandas", "polars", "reader"])
def test_frames_of_any_library_are_changes(form: str, store: Store) -> None:
    model = Model.parse("Price @PrimaryKey(sku) { string sku; double price; }")
    table = pa.table({"sku": ["a", "b", "a"], "price": [1.0, 2.0, 3.0]})
    data = {"pyarrow": table, "pandas": table.to_pandas(), "polars": pl.from_arrow(table), "reader": table.to_reader()}
    producer = Producer(store, model, versions=count_up)
    with producer.incremental() as changes:
        changes.add_or_modify(data[form], "Price")
    assert producer.state is not None
    assert {record.sku: record.price for record in producer.state["Price"]} == {"a": 3.0, "b": 2.0}
    assert isinstance(data["pandas"], pd.DataFrame)


def test_records_with_one_key_twice_are_both_replaced(store: Store) -> None:
    producer = producer_of(store)
    producer.publish([movie(1, "one"), movie(1, "other"), movie(2)])
    with producer.incremental() as changes:
        changes.add_or_modify(movie(1, "only"))
    assert producer.state is not None
    assert sorted(record.title for record in producer.state["Movie"]) == ["movie 2", "only"]


def test_a_record_that_others_refer_to_stays_until_they_let_go(store: Store) -> None:
    @key("code")
    @dataclass
    class Country:
        code: str
        name: str

    @key("id")
    @dataclass
    class City:
        id: int
        country: Country

    producer = Producer(store, Model.of(City, Country), versions=count_up)
    old, new = Country("de", "Germany"), Country("de", "Deutschland")
    producer.publish([City(1, old), City(2, old), Country("fr", "France")])

    def countries() -> list[str]:
        assert producer.state is not None
        return sorted(record.name for record in producer.state["Country"])

    with producer.incremental() as changes:
        changes.add_or_modify(new)
    assert countries() == ["Deutschland", "France", "Germany"], "the cities still refer to the old one"
    with producer.incremental() as changes:
        changes.add_or_modify([City(1, new), City(2, new)])
        changes.add_or_modify(new)
    assert countries() == ["Deutschland", "France"]
    with producer.incremental() as changes:
        changes.delete_many(City, [1, 2])
    assert countries() == ["Deutschland", "France"], "countries are roots: they were added for themselves"
    with producer.incremental() as changes:
        changes.delete(Country, "de")
    assert countries() == ["France"]


def test_wrong_keys_and_types_are_refused_and_harm_nothing(producer: Producer) -> None:
    for wrong in (("Film", 1), (Actor, 1)):
        with pytest.raises((NotFoundError, InputError)), producer.incremental() as changes:
            changes.delete(*wrong)
    for value in ((1, 2), "seven", None, 2**70):
        try:
            with producer.incremental() as changes:
                changes.delete(Movie, value)
        except InputError as error:
            assert value is not None, error
    assert producer.version == 1
    with producer.incremental() as changes:
        changes.delete(Movie, 1)
    assert producer.version == 2


def test_keys_of_every_kind_have_numbers_that_tell_them_apart(store: Store) -> None:
    model = Model.parse(
        "String { string value; } Inner @PrimaryKey(code) { string code; int extra; }"
        "Thing @PrimaryKey(a, b, c, d, inner, name) "
        "{ int a; boolean b; double c; bytes d; Inner inner; String name; int other; }"
    )
    base = {"a": 1, "b": True, "c": 0.5, "d": b"x", "inner": {"code": "k", "extra": 1}, "name": "n", "other": 1}
    rows = [
        base,
        {**base, "other": 2},
        {**base, "inner": {"code": "k", "extra": 2}},
        {**base, "a": 2},
        {**base, "b": False},
        {**base, "c": float("nan")},
        {**base, "c": None},
        {**base, "d": b""},
        {**base, "inner": {"code": "K", "extra": 1}},
        {**base, "inner": None},
        {**base, "name": "ñ"},
    ]
    producer = Producer(store, model, versions=count_up)
    producer.publish(rows, type_name="Thing")
    state = producer.state
    assert state is not None
    numbers = KeyNumbers(model, "Thing")
    by_state = numbers.of_state(state, state["Thing"].populated.ordinals())
    by_key = numbers.of_values(
        [(1, True, 0.5, b"x", "k", "n"), (1, True, 0.5, b"x", "K", "n"), (2, True, 0.5, b"x", "k", "n")]
    )
    assert len(numbers) == 9, "the first three have one key"
    assert by_state[:3].tolist() == [by_key[0]] * 3
    assert by_key[1] == by_state[8] and by_key[2] == by_state[3]


@pytest.mark.parametrize("between", ["full", "other type", "failed follow"])
def test_an_ordinal_that_comes_back_with_another_record_is_not_taken_for_the_old_one(
    between: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Versions that the index of keys did not take part in: a record goes, and its ordinal is used again.
    producer = producer_of(store)
    producer.publish(movies(1, 2, 3))
    with producer.incremental() as changes:
        changes.delete(Movie, 3)
    if between == "failed follow":
        monkeypatch.setattr("deltaic.producer.incremental.ChangeIndex.advance", lambda self, state: None)
    for given in (movies(1), movies(1, 5), movies(1, 5, 6), movies(5, 6, 7)):
        if between == "other type":
            with producer.incremental() as changes:
                changes.add_or_modify(given)
                changes.delete_many(Movie, {1, 2, 5, 6, 7} - {each.id for each in given})
        else:
            producer.publish(given)
    with producer.incremental() as changes:
        changes.delete_many(Movie, [1, 2, 3])
        changes.add_or_modify(movie(6, "changed"))
    assert producer.state is not None
    assert content(producer.state) == content_of([movie(5), movie(6, "changed"), movie(7)])
    assert len(producer.state["String"]) == len({"movie 5", "changed", "movie 7", *names(producer)})


def test_a_keyed_set_that_is_added_again_after_a_restart_is_the_one_that_is_there(tmp_path):
    model = Model.parse("String { string value; } SetOfString Set<String> @HashKey(value); "
                        "Film @PrimaryKey(id) { int id; SetOfString tags; }")  # fmt: skip
    with Producer(str(tmp_path), model) as producer:
        producer.publish([{"id": 0, "tags": ["a", "ä", "c"]}], type_name="Film")
    with Producer(str(tmp_path), model) as producer:
        for number, tags in ((1, None), (2, ["a", "ä", "c"])):
            with producer.incremental() as changes:
                changes.add_or_modify({"id": number, "tags": tags}, "Film")
        assert len(producer.state["SetOfString"]) == 1
