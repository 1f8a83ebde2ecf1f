"""Patches on a chain: what changes, what is shared, what is refused, and that all or nothing happens."""

import datetime
import decimal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

from deltaic.compare.diff import record_value
from deltaic.errors import InputError, NotFoundError, PatchConflictError
from deltaic.producer import Producer, count_up, patching
from deltaic.producer.patch_records import PatchRules
from deltaic.producer.patching import patch
from deltaic.schema.annotations import Logical, Vector, key
from deltaic.schema.model import Model
from deltaic.wire.patches import ABSENT, Operation, Patch, PatchBatch, PatchColumn, PatchGroup
from deltaic.wire.vectors import VectorDelta

SCHEMAS = """
String { string value; }
Rating { double score; int votes; }
MapOfStringToRating Map<String, Rating> @HashKey(value);
Actor { String name; int age; }
ListOfActor List<Actor>;
ListOfString List<String>;
SetOfString Set<String> @HashKey(value);
Studio { String name; }
Movie @PrimaryKey(id) {
  int id; String title; int year; float rate; Studio studio; ListOfActor cast; ListOfString tags; SetOfString genres;
  MapOfStringToRating ratings;
}
Note { string text; }
"""


def movie(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "title": f"t{number}",
        "year": 1900 + number,
        "rate": 0.5,
        "studio": {"name": "shared"},
        "cast": [{"name": "a", "age": 1}, {"name": "b", "age": 2}],
        "tags": ["x", "y"],
        "genres": ["g", "h"],
        "ratings": {"imdb": {"score": 1.0, "votes": number}},
    }


@pytest.fixture
def producer(tmp_path: Path) -> Iterator[Producer]:
    with Producer(str(tmp_path), Model.parse(SCHEMAS), versions=count_up) as made:
        made.publish(tables={"Movie": [movie(number) for number in range(5)], "Note": [{"text": "hi"}, {"text": "ho"}]})
        yield made


def content(producer: Producer, type_name: str = "Movie") -> dict[Any, Any]:
    state = producer.state
    assert state is not None
    found = [record_value(state, type_name, ordinal) for ordinal in state[type_name].populated.ordinals().tolist()]
    return {record.get("id", record.get("text")): record for record in found}


def count(producer: Producer, type_name: str) -> int:
    assert producer.state is not None
    return len(producer.state.types[type_name].populated)


def test_a_nested_field_of_a_shared_record_is_copied_for_the_patched_one_alone(producer: Producer) -> None:
    assert count(producer, "Studio") == 1
    patch(producer, [Patch("Movie", 3, "studio.name", "Mosfilm")])
    found = content(producer)
    assert found[3]["studio"] == {"name": "Mosfilm"}
    assert [found[number]["studio"]["name"] for number in (0, 1, 2, 4)] == ["shared"] * 4
    assert count(producer, "Studio") == 2
    patch(producer, [Patch("Movie", number, "studio.name", "Mosfilm") for number in range(5)])
    assert count(producer, "Studio") == 1, "what nobody refers to any more goes"


def test_patches_of_one_record_apply_in_order_whatever_they_do(producer: Producer) -> None:
    patch(
        producer,
        [
            Patch("Movie", 1, "cast", [{"name": "c", "age": 3}]),
            Patch("Movie", 1, "cast[1]", {"name": "d"}),
            Patch("Movie", 1, "cast[1].age", 4),
            Patch("Movie", 1, "cast[0]", operation=Operation.DELETE),
            Patch("Movie", 1, "title", None),
            Patch("Movie", 1, "title", "last"),
            Patch("Movie", 2, operation=Operation.REMOVE),
            Patch("Movie", 2, value={"id": 2, "title": "again"}, operation=Operation.PUT),
            Patch("Movie", 2, "year", 7),
        ],
    )
    found = content(producer)
    assert found[1]["cast"] == [{"name": "d", "age": 4}] and found[1]["title"] == "last"
    assert found[2]["title"] == "again" and found[2]["year"] == 7 and found[2]["cast"] is None


def test_elements_entries_ranges_and_members(producer: Producer) -> None:
    patch(
        producer,
        [
            Patch("Movie", 1, "tags[1]", "z"),
            Patch("Movie", 1, "tags[2]", "appended"),
            Patch("Movie", 2, "tags[0:1]", ["p", "q", "r"]),
            Patch("Movie", 3, "tags[]", "same"),
            Patch("Movie", 1, 'ratings{"imdb"}.score', 9.0),
            Patch("Movie", 2, 'ratings{"new"}.votes', 5),
            Patch("Movie", 3, 'ratings{"imdb"}', operation=Operation.DELETE),
            Patch("Movie", 1, 'genres{"g"}', operation=Operation.DELETE),
            Patch("Movie", 2, 'genres{"n"}', "n"),
            Patch("Movie", 4, "cast[0:2].age", 40),
        ],
    )
    found = content(producer)
    assert found[1]["tags"] == ["x", "z", "appended"] and found[2]["tags"] == ["p", "q", "r", "y"]
    assert found[3]["tags"] == ["same", "same"]
    assert found[1]["ratings"] == {"imdb": {"score": 9.0, "votes": 1}}
    assert found[2]["ratings"] == {"imdb": {"score": 1.0, "votes": 2}, "new": {"score": None, "votes": 5}}
    assert found[3]["ratings"] == {}
    assert found[1]["genres"] == ["h"] and set(found[2]["genres"]) == {"g", "h", "n"}
    assert [actor["age"] for actor in found[4]["cast"]] == [40, 40]


def test_of_a_place_that_is_set_twice_in_a_group_the_last_value_counts_null_or_not(producer: Producer) -> None:
    for values in (["x", None], [None, "x"], ["x", None, "y"], [None, "x", None]):
        keys = (PatchColumn.of([1] * len(values)),)
        for path in ("title", "studio.name"):
            group = PatchGroup(Operation.SET, "Movie", len(values), keys, path, (), PatchColumn.of(values))
            patch(producer, PatchBatch((group,)))
        found = content(producer)[1]
        assert found["title"] == values[-1] and found["studio"] == {"name": values[-1]}


def test_records_without_a_key_come_and_go_as_a_whole(producer: Producer) -> None:
    patch(producer, [Patch("Note", None, value={"text": "ho"}, operation=Operation.REMOVE),
                     Patch("Note", None, value={"text": "hu"}, operation=Operation.PUT)])  # fmt: skip
    assert set(content(producer, "Note")) == {"hi", "hu"}
    remove, put = (
        Patch("Note", None, value={"text": "hi"}, operation=each) for each in (Operation.REMOVE, Operation.PUT)
    )
    patch(producer, [remove, put])
    assert set(content(producer, "Note")) == {"hi", "hu"}
    with pytest.raises(PatchConflictError, match="no such record"):
        patch(producer, [Patch("Note", None, value={"text": "nope"}, operation=Operation.REMOVE)])


def test_a_patch_that_changes_nothing_makes_no_version(producer: Producer) -> None:
    version = producer.version
    report = patch(producer, [Patch("Movie", 1, "title", "t1"), Patch("Movie", 1, "cast[0].age", 1)])
    assert report.version is None and report.applied == 2 and producer.version == version


@pytest.mark.parametrize("by_record", [False, True])
@pytest.mark.parametrize(
    ("bad", "found", "expected"),
    [
        (Patch("Movie", 2, "title", "x", previous="y"), "t2", "y"),
        (Patch("Movie", 2, "year", 1, previous=None), 1902, None),
        (Patch("Movie", 2, "rate", 1.0, previous=0.25), 0.5, 0.25),
        (Patch("Movie", 2, "cast[1].name", "x", previous="a"), "b", "a"),
        (Patch("Movie", 2, 'ratings{"imdb"}.votes', 1, previous=3), 2, 3),
    ],
)
def test_a_patch_that_expects_something_else_names_the_record_and_the_place(
    producer: Producer, monkeypatch: pytest.MonkeyPatch, by_record: bool, bad: Patch, found: Any, expected: Any
) -> None:
    if by_record:
        monkeypatch.setattr(patching, "takes", lambda *_: False)
    before = content(producer)
    with pytest.raises(PatchConflictError) as caught:
        patch(producer, [Patch("Movie", 1, "title", "never"), bad])
    error = caught.value
    assert (error.type_name, error.key, error.path) == ("Movie", 2, bad.path)
    assert (error.found, error.expected) == (found, expected)
    assert content(producer) == before, "nothing of the batch was applied"
    report = patch(producer, [Patch("Movie", 1, "title", "now"), bad], rules=PatchRules("skip"))
    assert (report.applied, report.mismatched, report.skipped) == (1, 1, 1)
    assert str(bad.path) in report.examples[0]
    assert content(producer)[1]["title"] == "now"


def test_expected_values_are_those_that_the_patches_before_leave(producer: Producer) -> None:
    patch(
        producer,
        [
            Patch("Movie", 1, "title", "one", previous="t1"),
            Patch("Movie", 1, "title", "two", previous="one"),
            Patch("Movie", 1, "year", 5, previous=1901),
            Patch("Movie", 1, "year", None, previous=5),
            Patch("Movie", 1, "studio", None),
            Patch("Movie", 1, "studio.name", "new", previous=ABSENT),
            Patch("Movie", 7, value={"id": 7}, operation=Operation.PUT, previous=ABSENT),
        ],
    )
    found = content(producer)
    assert found[1]["title"] == "two" and found[1]["year"] is None and found[1]["studio"] == {"name": "new"}
    with pytest.raises(PatchConflictError):
        patch(producer, [Patch("Movie", 7, value={"id": 7}, operation=Operation.PUT, previous=ABSENT)])
    patch(producer, [Patch("Movie", 7, operation=Operation.REMOVE, previous=found[7])])
    assert 7 not in content(producer)


def test_a_record_that_is_not_there_is_an_error_passed_over_or_made(producer: Producer) -> None:
    missing = [Patch("Movie", 99, "title", "x"), Patch("Movie", 98, operation=Operation.REMOVE)]
    for each in missing:
        with pytest.raises(PatchConflictError, match="no record with this key"):
            patch(producer, [each])
    report = patch(producer, missing, rules=PatchRules(on_missing="skip"))
    assert report.missing == 2 and report.applied == 0
    report = patch(producer, missing[:1], rules=PatchRules(on_missing="insert"))
    assert content(producer)[99]["title"] == "x" and report.applied == 1


@pytest.mark.parametrize(
    ("place", "operation"),
    [("cast[9].name", Operation.SET), ("cast[2].name", Operation.DELETE), ("tags[5:6]", Operation.SET),
     ('ratings{"no"}', Operation.DELETE), ('genres{"no"}', Operation.DELETE), ("cast[0,7].age", Operation.SET)],
)  # fmt: skip
def test_a_place_that_is_not_there_is_a_conflict(producer: Producer, place: str, operation: Operation) -> None:
    value: Any = None if operation is Operation.DELETE else ["x"] if "tags" in place else None
    with pytest.raises(PatchConflictError, match="no such place") as caught:
        patch(producer, [Patch("Movie", 1, place, value, operation=operation)])
    assert caught.value.path == place
    report = patch(producer, [Patch("Movie", 1, place, value, operation=operation)], rules=PatchRules("skip"))
    assert report.mismatched == 1


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        (Patch("Movie", 1, "nope", 1), InputError, "no field 'nope'"),
        (Patch("Movie", 1, "title.x", 1), InputError, "behind a value"),
        (Patch("Movie", 1, "year[0]", 1), InputError, "behind a value"),
        (Patch("Movie", 1, 'cast{"x"}', 1), InputError, "behind a LIST"),
        (Patch("Movie", 1, "year", "x"), InputError, "Movie 1, year: 'x'"),
        (Patch("Movie", 1, "year", 2**31), InputError, "out of the range"),
        (Patch("Movie", 1, "title", 5), InputError, "Movie 1, title: 5"),
        (Patch("Movie", 1, "cast[0].age", True), InputError, r"cast\[0\].age: True"),
        (Patch("Movie", 1, "tags[0:1]", "x"), InputError, "a range takes a list"),
        (Patch("Movie", 1, "id", 2), InputError, "another key"),
        (Patch("Movie", 1, value={"id": 2}, operation=Operation.PUT), InputError, "another key"),
        (Patch("Movie", 1, value=[1], operation=Operation.PUT), InputError, "a mapping"),
        (Patch("Movie", (1, 2), "year", 1), InputError, "no key of type Movie"),
        (Patch("Movie", "x", "year", 1), InputError, "x"),
        (Patch("Movie", None, value={"id": 1}, operation=Operation.PUT), InputError, "needs the key"),
        (Patch("Nope", 1, "year", 1), NotFoundError, "no type 'Nope'"),
        (Patch("String", 1, "value", 1), InputError, "no primary key"),
        (Patch("ListOfActor", 1, "value", 1), InputError, "is a LIST"),
        (Patch("Movie", 1, "title", VectorDelta.identity(3), operation=Operation.VECTOR), InputError, "no vector"),
    ],
)
def test_what_does_not_fit_the_model_is_refused_by_name(
    producer: Producer, bad: Patch, error: type[Exception], words: str
) -> None:
    version = producer.version
    with pytest.raises(error, match=words):
        patch(producer, [bad], rules=PatchRules("skip", "skip"))
    assert producer.version == version
    patch(producer, [Patch("Movie", 1, "title", "fine")])
    assert content(producer)[1]["title"] == "fine", "the next batch is not held up"


@dataclass
class Price:
    amount: Annotated[decimal.Decimal, Logical("d:10,2")]
    since: datetime.date


@key("day", "shop")
@dataclass
class Offer:
    day: datetime.date
    shop: str
    price: Price | None
    seen: Annotated[datetime.datetime, Logical("tsu:UTC")] | None
    embedding: Annotated[list[float], Vector(4)] | None


def delta(changes: dict[int, float], prev: list[float] | None = None) -> VectorDelta:
    before = None if prev is None else np.array(prev, np.float32).view(np.uint32)
    words = np.array(list(changes.values()), np.float32).view(np.uint32)
    return VectorDelta(4, np.array(list(changes), np.uint32), words, prev=before)


@pytest.fixture(params=["part", "bytes"])
def offers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Producer]:
    day, moment = datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC)
    with Producer(str(tmp_path), Model.of(Offer), versions=count_up, vectors=request.param) as made:
        made.publish(
            [
                Offer(
                    day,
                    shop,
                    Price(decimal.Decimal("1.50"), day),
                    moment,
                    [1.0, 2.0, 3.0, 4.0] if shop != "c" else None,
                )
                for shop in "abc"
            ]
        )
        yield made


def offer(producer: Producer, shop: str) -> dict[str, Any]:
    assert producer.state is not None
    state = producer.state
    found = [record_value(state, "Offer", ordinal) for ordinal in state["Offer"].populated.ordinals().tolist()]
    return next(record for record in found if record["shop"] == shop)


def test_dates_decimals_and_moments_are_set_as_themselves_or_as_their_texts(offers: Producer) -> None:
    day = datetime.date(2026, 1, 2)
    patch(
        offers,
        [
            Patch("Offer", (day, "a"), "price.amount", decimal.Decimal("2.25"), previous=decimal.Decimal("1.50")),
            Patch("Offer", ("2026-01-02", "b"), "price.amount", "3.75", previous="1.5"),
            Patch("Offer", (day, "b"), "price.since", "2026-02-03", previous=day),
            Patch("Offer", (day, "c"), "seen", "2026-01-02T04:00:00+00:00"),
        ],
    )
    assert offer(offers, "a")["price"]["amount"] == decimal.Decimal("2.25")
    assert offer(offers, "b")["price"] == {"amount": decimal.Decimal("3.75"), "since": datetime.date(2026, 2, 3)}
    assert offer(offers, "c")["seen"] == datetime.datetime(2026, 1, 2, 4, tzinfo=datetime.UTC)
    with pytest.raises(InputError, match="price.amount"):
        patch(offers, [Patch("Offer", (day, "a"), "price.amount", "1.505")])


def test_dimensions_of_vectors_change_one_after_another_and_stay_with_their_record(offers: Producer) -> None:
    day = datetime.date(2026, 1, 2)
    vector = Operation.VECTOR
    patch(
        offers,
        [
            Patch("Offer", (day, "a"), "embedding", delta({1: 9.0}, [2.0]), operation=vector),
            Patch("Offer", (day, "a"), "embedding", delta({1: 8.0, 3: -1.0}, [9.0, 4.0]), operation=vector),
            Patch("Offer", (day, "b"), "price", None),
            Patch("Offer", (day, "c"), "embedding", [0.5, 0.0, 0.0, 0.25]),
        ],
    )
    assert list(offer(offers, "a")["embedding"]) == [1.0, 8.0, 3.0, -1.0]
    assert list(offer(offers, "b")["embedding"]) == [1.0, 2.0, 3.0, 4.0], "another field changed, the vector stays"
    assert list(offer(offers, "c")["embedding"]) == [0.5, 0.0, 0.0, 0.25]
    patch(offers, [Patch("Offer", (day, "a"), "embedding", operation=Operation.DELETE)])
    assert offer(offers, "a")["embedding"] is None
    for bad, error in (
        (delta({1: 1.0}, [7.0]), PatchConflictError),
        (VectorDelta.identity(3), InputError),
    ):
        with pytest.raises(error, match="embedding"):
            patch(offers, [Patch("Offer", (day, "b"), "embedding", bad, operation=vector)])
    with pytest.raises(PatchConflictError, match="no such place"):
        patch(offers, [Patch("Offer", (day, "a"), "embedding", delta({1: 1.0}), operation=vector)])
    report = patch(
        offers,
        [Patch("Offer", (day, "b"), "embedding", delta({1: 1.0}, [7.0]), operation=vector)],
        rules=PatchRules("skip"),
    )
    assert report.mismatched == 1 and report.version is None


def test_canonical_order_takes_patches_too(tmp_path: Path) -> None:
    with Producer(str(tmp_path), Model.parse(SCHEMAS), versions=count_up, order="canonical") as producer:
        producer.publish([movie(number) for number in range(3)], type_name="Movie")
        patch(producer, [Patch("Movie", 1, "cast[0].name", "z"), Patch("Movie", 2, operation=Operation.REMOVE)])
        found = content(producer)
        assert found[1]["cast"][0]["name"] == "z" and set(found) == {0, 1}


def test_the_first_version_may_come_from_patches(tmp_path: Path) -> None:
    with Producer(str(tmp_path), Model.parse(SCHEMAS), versions=count_up) as producer:
        report = patch(
            producer, [Patch("Movie", 1, value=movie(1), operation=Operation.PUT), Patch("Movie", 1, "year", 5)]
        )
        assert report.version is not None and content(producer)[1]["year"] == 5


def test_a_model_that_grew_takes_patches_of_its_new_fields(tmp_path: Path) -> None:
    with Producer(str(tmp_path), Model.parse(SCHEMAS), versions=count_up) as producer:
        producer.publish([movie(1), movie(2)], type_name="Movie")
        producer.change_model(Model.parse(SCHEMAS.replace("int year;", "int year; int length;")))
        patch(producer, [Patch("Movie", 1, "length", 90), Patch("Movie", 2, "title", "x")])
        found = content(producer)
        assert found[1]["length"] == 90 and found[2]["length"] is None and found[2]["title"] == "x"
