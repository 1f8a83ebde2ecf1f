"""Patches on a chain whose model changed, whose types refer to themselves, and whose values have no order."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from deltaic.compare.diff import record_value
from deltaic.errors import InputError, PatchConflictError
from deltaic.producer import Producer, count_up
from deltaic.producer.patching import patch
from deltaic.schema.classes import VectorColumn
from deltaic.schema.model import Model
from deltaic.wire.patches import Operation, Patch
from deltaic.wire.vectors import VectorDelta

SCHEMAS = """
String { string value; }
Number { int value; }
Actor { String name; int age; float height; }
ListOfActor List<Actor>;
SetOfActor Set<Actor>;
SetOfString Set<String> @HashKey(value);
MapOfNumberToString Map<Number, String>;
MapOfActorToString Map<Actor, String>;
Node { string name; Node next; }
Movie @PrimaryKey(id) { int id; int year; ListOfActor cast; SetOfActor friends; SetOfString tags; Node thread;
  MapOfNumberToString names; MapOfActorToString roles; }
"""


def actor(name: str, age: int = 1) -> dict[str, Any]:
    return {"name": name, "age": age, "height": 0.1}


def movie(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "year": 1900,
        "cast": [actor("a"), actor("b", number)],
        "friends": [actor("c"), actor("d"), actor("e")],
        "tags": [f"x{number}", "y"],
        "thread": {"name": f"n{number}", "next": {"name": "m", "next": None}},
        "names": {1: "one", 2: "two"},
        "roles": [(actor("f"), "king"), (actor("g"), "queen")],
    }


def published() -> Producer:
    producer = Producer("memory:", Model.parse(SCHEMAS), versions=count_up)
    producer.publish([movie(number) for number in range(3)], type_name="Movie")
    return producer


def content(producer: Producer) -> dict[int, Any]:
    state = producer.state
    assert state is not None
    found = [record_value(state, "Movie", ordinal) for ordinal in state["Movie"].populated.ordinals().tolist()]
    return {record["id"]: record for record in found}


def counts(producer: Producer, *names: str) -> list[int]:
    assert producer.state is not None
    return [len(producer.state.types[name].populated) for name in names]


def test_a_record_is_patched_after_the_model_dropped_a_field_of_it_and_one_inside() -> None:
    with published() as producer:
        producer.change_model(Model.parse(SCHEMAS.replace("SetOfString tags;", "").replace("int age;", "")))
        patch(producer, [Patch("Movie", 1, "year", 1972), Patch("Movie", 2, "cast[0].name", "z")])
        found = content(producer)
        assert found[1]["year"] == 1972 and found[2]["cast"][0]["name"] == "z" and "tags" not in found[1]
        assert all("age" not in each for each in found[1]["cast"] + found[2]["cast"] + found[2]["friends"])
        assert counts(producer, "SetOfString") == [0], "what only the dropped field referred to goes, for all records"


def test_records_that_were_there_for_themselves_stay_when_the_model_drops_a_reference() -> None:
    text = """
    String { string value; }
    Country @PrimaryKey(code) { int code; }
    Box { int n; }
    Movie @PrimaryKey(id) { int id; int year; Country country; String title; Box box; }
    """
    row = {"id": 1, "year": 1, "country": {"code": 1}, "title": "t", "box": {"n": 1}}
    with Producer("memory:", Model.parse(text), versions=count_up) as producer:
        producer.publish(tables={"Movie": [row], "Country": [{"code": 2}], "Box": [{"n": 2}]})
        producer.change_model(Model.parse(text.replace("String title;", "")))
        patch(producer, [Patch("Movie", 1, "year", 2)])
        assert counts(producer, "Country", "String", "Box") == [2, 0, 2]
        producer.change_model(Model.parse(text.replace("String title; Box box;", "").replace("Country country;", "")))
        patch(producer, [Patch("Movie", 1, "year", 3)])
        assert counts(producer, "Country", "Box") == [2, 1], "a keyed record is one of its own, with nobody above it"


def test_a_record_that_is_put_cannot_have_a_field_that_was_dropped() -> None:
    with published() as producer:
        producer.change_model(Model.parse(SCHEMAS.replace("SetOfString tags;", "")))
        with pytest.raises(InputError, match="tags"):
            patch(producer, [Patch("Movie", 1, value=movie(1), operation=Operation.PUT)])


def test_an_expected_record_may_have_what_was_dropped_but_nothing_that_never_was() -> None:
    with published() as producer:
        producer.change_model(Model.parse(SCHEMAS.replace("SetOfString tags;", "")))
        with pytest.raises(PatchConflictError):
            patch(producer, [Patch("Movie", 1, previous={**movie(1), "label": 1}, operation=Operation.REMOVE)])
        patch(producer, [Patch("Movie", 1, previous=movie(1), operation=Operation.REMOVE)])
        assert set(content(producer)) == {0, 2}


def test_a_field_that_was_renamed_keeps_its_value_when_its_record_is_patched() -> None:
    with published() as producer:
        later = Model.parse(SCHEMAS.replace("int year;", "int released; int seen;"))
        producer.change_model(later.with_renamed({"Movie": {"released": "year"}}))
        patch(producer, [Patch("Movie", 1, "cast[0].age", 7, previous=1), Patch("Movie", 1, "seen", 5)])
        found = content(producer)[1]
        assert (found["released"], found["seen"], found["cast"][0]["age"]) == (1900, 5, 7)


def test_vectors_move_after_the_model_dropped_a_field() -> None:
    def model(text: str) -> Model:
        return replace(Model.parse(text), vectors=(VectorColumn("Movie", "vector", 2),))

    rows = [{**movie(number), "vector": [1.0, 2.0]} for number in range(3)]
    with Producer("memory:", model(SCHEMAS), versions=count_up) as producer:
        producer.publish(rows, type_name="Movie")
        producer.change_model(model(SCHEMAS.replace("int year; ListOfActor cast;", "")))
        moved = VectorDelta(2, np.array([1], np.uint32), np.array([9.0], np.float32).view(np.uint32))
        patch(producer, [Patch("Movie", 1, "vector", moved, operation=Operation.VECTOR)])
        assert producer.state is not None
        places = {producer.state["Movie"][each]["id"]: each for each in producer.state["Movie"].populated.ordinals()}
        held = producer.state.vectors["Movie", "vector"]
        assert [held[int(places[number])].tolist() for number in range(3)] == [[1, 2], [1, 9], [1, 2]]
        assert content(producer)[1]["friends"] == content(producer)[2]["friends"] and counts(producer, "Node") == [4]


def test_a_vector_that_the_model_dropped_is_gone_from_a_record_that_is_patched() -> None:
    model = Model.parse(SCHEMAS)
    with Producer("memory:", replace(model, vectors=(VectorColumn("Movie", "vector", 2),)), versions=count_up) as made:
        made.publish([{**movie(1), "vector": [1.0, 2.0]}], type_name="Movie")
        made.change_model(model)
        patch(made, [Patch("Movie", 1, "cast[0:1]", [])])
        assert "vector" not in content(made)[1] and len(content(made)[1]["cast"]) == 1


def test_fields_of_a_type_that_refers_to_itself_are_set_at_any_depth() -> None:
    with published() as producer:
        patch(producer, [Patch("Movie", 1, "thread.name", "x"), Patch("Movie", 2, "thread.next.name", "y")])
        assert content(producer)[1]["thread"] == {"name": "x", "next": {"name": "m", "next": None}}
        assert content(producer)[2]["thread"] == {"name": "n2", "next": {"name": "y", "next": None}}
        patch(producer, [Patch("Movie", number, "thread.next", None) for number in range(3)])
        assert [each["thread"]["next"] for each in content(producer).values()] == [None] * 3
        assert counts(producer, "Node") == [3]


def test_types_that_refer_to_each_other_are_patched_in_one_batch() -> None:
    text = """
    One { int n; Two two; }
    Two { int n; One one; }
    Movie @PrimaryKey(id) { int id; One one; Two two; }
    """
    row = {"id": 1, "one": {"n": 1, "two": {"n": 2, "one": None}}, "two": {"n": 3, "one": {"n": 4, "two": None}}}
    with Producer("memory:", Model.parse(text), versions=count_up) as producer:
        producer.publish([row, {**row, "id": 2}], type_name="Movie")
        patch(producer, [Patch("Movie", 1, "one.two.n", 20), Patch("Movie", 1, "two.one.n", 40)])
        found = content(producer)
        assert (found[1]["one"]["two"]["n"], found[1]["two"]["one"]["n"]) == (20, 40)
        assert {**found[2], "id": 1} == row


def test_expected_sets_and_maps_have_no_order_and_numbers_are_as_their_field_keeps_them() -> None:
    turned = [actor("e"), actor("c"), actor("d")]
    names = [(2, "two"), (1, "one")]
    with published() as producer:
        expected = {**movie(1), "friends": turned, "names": names, "roles": movie(1)["roles"][::-1]}
        report = patch(
            producer,
            [
                Patch("Movie", 0, "friends", [], previous=turned),
                Patch("Movie", 0, "names", {}, previous=names),
                Patch("Movie", 0, "cast[0:2]", [], previous=[actor("a"), actor("b", 0)]),
                Patch("Movie", 1, operation=Operation.REMOVE, previous=expected),
            ],
        )
        assert report.applied == 4 and set(content(producer)) == {0, 2}


@pytest.mark.parametrize(
    ("path", "previous"),
    [
        ("friends", [actor("c"), actor("d")]),
        ("friends", [actor("c"), actor("d"), actor("e", 2)]),
        ("cast", [actor("b", 1), actor("a")]),
        ("cast[0:2]", [actor("b", 1), actor("a")]),
        ("cast[0:2]", [actor("a")]),
        ("names", {1: "two", 2: "one"}),
        ("roles", [(actor("f"), "queen"), (actor("g"), "king")]),
    ],
)
def test_expected_values_that_hold_something_else_are_told_apart(path: str, previous: Any) -> None:
    with published() as producer, pytest.raises(PatchConflictError, match="was expected"):
        patch(producer, [Patch("Movie", 1, path, [], previous=previous)])


def test_what_a_new_field_referred_to_goes_with_it_though_its_record_kept_its_number() -> None:
    without = Model.parse(SCHEMAS.replace("SetOfString tags;", ""))
    with Producer("memory:", without, versions=count_up) as producer:
        row = {name: value for name, value in movie(1).items() if name != "tags"}
        producer.publish([row], type_name="Movie")
        producer.change_model(Model.parse(SCHEMAS))
        patch(producer, [Patch("Movie", 1, "tags", ["new"])])
        assert counts(producer, "SetOfString") == [1]
        patch(producer, [Patch("Movie", 1, "tags", ["newer"])])
        assert content(producer)[1]["tags"] == ["newer"] and counts(producer, "SetOfString") == [1]


def test_changes_by_key_let_go_of_what_a_new_field_referred_to() -> None:
    without = Model.parse(SCHEMAS.replace("SetOfString tags;", ""))
    with Producer("memory:", without, versions=count_up) as producer:
        rows = [{name: value for name, value in movie(number).items() if name != "tags"} for number in (1, 2)]
        producer.publish(rows, type_name="Movie")
        with producer.incremental() as changes:
            changes.add_or_modify({**rows[1], "year": 1901}, type_name="Movie")
        producer.change_model(Model.parse(SCHEMAS))
        kept = [{**rows[0], "tags": ["new"]}, {**rows[1], "year": 1901, "tags": ["new"]}]
        producer.publish(kept, type_name="Movie")
        with producer.incremental() as changes:
            for row in kept:
                changes.add_or_modify({**row, "tags": ["newer"]}, type_name="Movie")
        assert counts(producer, "SetOfString") == [1]
        assert all(row["tags"] == ["newer"] for row in content(producer).values())
