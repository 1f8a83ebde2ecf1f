"""The change feed of consumers and datasets: which patches a step is, and what reading them costs."""

import threading
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from deltaic.consumer import Consumer
from deltaic.consumer.feed import FeedListener
from deltaic.dataset.dataset import Dataset
from deltaic.errors import ChainError, InputError, NotFoundError
from deltaic.producer import Producer, count_up
from deltaic.schema.model import Model
from deltaic.state.columns import read_column
from deltaic.state.filter import Filter
from deltaic.storage.urls import open_store
from deltaic.wire.patches import ABSENT, MISSING, Operation, Patch, PatchBatch

MODEL = """
String { string value; }
Actor { String name; int born; }
Role { string name; int weight; }
ListOfActor List<Actor>;
SetOfString Set<String> @HashKey(value);
SetOfRole Set<Role> @HashKey(name);
SetOfActor Set<Actor>;
MapOfStringToActor Map<String, Actor> @HashKey(value);
Movie @PrimaryKey(id) {
    int id; String title; double score; ListOfActor cast; SetOfString tags; SetOfRole roles; SetOfActor friends;
    MapOfStringToActor parts; Actor lead;
}
"""


def movie(number=1, **fields):
    return {"id": number, "title": f"Movie {number}", "score": 1.0, **fields}


def chain(*versions, model=MODEL, type_name="Movie"):
    """A chain of versions, each of them a list of records."""
    store = open_store("memory:")
    with Producer(store, Model.parse(model), versions=count_up) as producer:
        for rows in versions:
            producer.publish(tables={type_name: rows})
    return store


def patches(old, new, **options):
    """What the step between two versions of records is."""
    (step,) = Consumer(chain(old, new), share=False).changes(1, 2, **options)
    return list(step)


def test_a_changed_field_is_a_set_of_this_field_alone():
    assert patches([movie(), movie(2)], [movie(score=2.5), movie(2)]) == [Patch("Movie", 1, "score", 2.5)]


def test_with_before_a_patch_says_what_was_there():
    found = patches([movie(lead={"name": "A"})], [movie(title="New", lead={"name": "A"}, score=None)], before=True)
    assert found == [
        Patch("Movie", 1, "title", "New", previous="Movie 1"),
        Patch("Movie", 1, "score", None, previous=1.0),
    ]
    assert patches([movie()], [movie(title="New")])[0].previous is MISSING


def test_records_that_come_and_go_are_told_whole():
    put, remove = sorted(patches([movie()], [movie(2)], before=True), key=lambda patch: patch.operation)
    assert (put.operation, put.key, put.previous) == (Operation.PUT, 2, ABSENT)
    assert put.value["title"] == "Movie 2" and put.value["cast"] is None
    assert (remove.operation, remove.key, remove.previous["title"]) == (Operation.REMOVE, 1, "Movie 1")


def test_an_element_of_a_list_that_kept_its_length_is_told_by_its_place():
    old = [{"name": "A", "born": 1}, {"name": "B", "born": 2}]
    new = [{"name": "A", "born": 1}, {"name": "B", "born": 3}]
    assert patches([movie(cast=old)], [movie(cast=new)]) == [Patch("Movie", 1, "cast[1].born", 3)]


def test_a_list_of_another_length_is_told_whole():
    found = patches([movie(cast=[{"name": "A"}])], [movie(cast=[{"name": "A"}, {"name": "B"}])])
    assert found == [Patch("Movie", 1, "cast", [{"name": "A", "born": None}, {"name": "B", "born": None}])]


def test_a_long_list_of_which_most_changed_is_told_whole():
    old, new = ([{"name": f"{side}{place}"} for place in range(10)] for side in "AB")
    (found,) = patches([movie(cast=old)], [movie(cast=new)])
    assert found.path == "cast" and len(found.value) == 10


def test_elements_of_a_set_of_texts_come_and_go_by_their_text():
    found = patches([movie(tags=["a", "b"])], [movie(tags=["b", 'c "x"'])], before=True)
    assert found == [
        Patch("Movie", 1, 'tags{"a"}', operation=Operation.DELETE, previous="a"),
        Patch("Movie", 1, r'tags{"c \"x\""}', 'c "x"', previous=ABSENT),
    ]


def test_an_element_of_a_set_with_a_key_is_told_by_its_key():
    old, new = ([{"name": "x", "weight": weight}, {"name": "y", "weight": 1}] for weight in (1, 2))
    assert patches([movie(roles=old)], [movie(roles=new)]) == [Patch("Movie", 1, 'roles{"x"}.weight', 2)]


def test_a_set_whose_elements_have_no_key_is_told_whole():
    (found,) = patches([movie(friends=[{"name": "A"}])], [movie(friends=[{"name": "B"}])])
    assert found.path == "friends" and found.value == [{"name": "B", "born": None}]


def test_entries_of_a_map_come_go_and_change():
    old = {"a": {"name": "A", "born": 1}, "b": {"name": "B", "born": 1}}
    new = {"b": {"name": "B", "born": 2}, "c": {"name": "C", "born": 1}}
    assert {(one.operation, one.path): one.value for one in patches([movie(parts=old)], [movie(parts=new)])} == {
        (Operation.DELETE, 'parts{"a"}'): None,
        (Operation.SET, 'parts{"b"}.born'): 2,
        (Operation.SET, 'parts{"c"}'): {"name": "C", "born": 1},
    }


def test_a_value_that_becomes_null_and_one_that_was_null_are_sets():
    found = patches([movie(lead={"name": "A"}), movie(2)], [movie(), movie(2, lead={"name": "B"})])
    assert {one.key: (one.path, one.value) for one in found} == {
        1: ("lead", None),
        2: ("lead", {"name": "B", "born": None}),
    }


def test_records_without_a_key_come_and_go_by_all_they_hold():
    store = chain(
        [{"word": "a"}, {"word": "b"}], [{"word": "b"}, {"word": "c"}], model="T { string word; }", type_name="T"
    )
    (step,) = Consumer(store, share=False).changes(1)
    assert [(one.operation, one.key, one.value) for one in step] == [
        (Operation.REMOVE, None, {"word": "a"}),
        (Operation.PUT, None, {"word": "c"}),
    ]


def test_steps_go_from_version_to_version_forth_and_back():
    store = chain([movie(score=1.0)], [movie(score=2.0)], [movie(score=3.0)])
    consumer = Consumer(store, share=False)
    assert [(step.from_version, step.to_version, *(one.value for one in step)) for step in consumer.changes(1)] == [
        (1, 2, 2.0),
        (2, 3, 3.0),
    ]
    assert [(step.from_version, step.to_version, *(one.value for one in step)) for step in consumer.changes(3, 1)] == [
        (3, 2, 2.0),
        (2, 1, 1.0),
    ]
    assert list(consumer.changes(2, 2)) == []


def test_the_feed_leaves_what_the_consumer_has_loaded():
    consumer = Consumer(chain([movie()], [movie(score=2.0)]), share=False)
    consumer.refresh()
    state = consumer.state
    assert len(list(consumer.changes(1, 2))) == 1
    assert consumer.state is state and consumer.version == 2


def test_a_feed_can_be_read_twice():
    feed = Consumer(chain([movie()], [movie(score=2.0)]), share=False).changes(1)
    assert list(feed.patches()) == list(feed.patches()) != []


def test_a_version_that_is_not_there_is_an_error():
    consumer = Consumer(chain([movie()], [movie(2)]), share=False)
    with pytest.raises(ChainError, match="version 9 "):
        list(consumer.changes(9))
    with pytest.raises(ChainError, match="9"):
        list(consumer.changes(1, 9))


def test_only_types_that_are_asked_for_are_told():
    consumer = Consumer(chain([movie()], [movie(2)]), share=False)
    (step,) = consumer.changes(1, types=["Movie"])
    assert len(step) == 2
    with pytest.raises(NotFoundError, match="no type 'Film'"):
        list(consumer.changes(1, types=["Film"]))
    with pytest.raises(InputError, match="list of names"):
        consumer.changes(1, types="Movie")


def test_new_fields_are_sets_and_a_field_that_went_is_a_note():
    store = open_store("memory:")
    models = [f"Movie @PrimaryKey(id) {{ int id; {fields} }}" for fields in ("int a;", "int a; int b;", "int b;")]
    rows = [[{"id": 1, "a": 1}, {"id": 2, "a": 2}], [{"id": 1, "a": 1, "b": 7}, {"id": 2, "a": 2}], [{"id": 1, "b": 7}]]
    with Producer(store, Model.parse(models[0]), versions=count_up) as producer:
        for model, each in zip(models, rows, strict=True):
            producer.change_model(Model.parse(model))
            producer.publish(tables={"Movie": each})
    first, second = Consumer(store, share=False).changes(1)
    assert list(first) == [Patch("Movie", 1, "b", 7)]
    assert [(one.operation, one.key) for one in second] == [(Operation.REMOVE, 2)]
    assert second.notes == ("field Movie.a is gone",)


def test_a_key_that_several_nested_records_share_is_told_with_what_refers_to_them():
    model = "Country @PrimaryKey(code) { string code; int size; } Movie @PrimaryKey(id) { int id; Country home; }"
    homes = [{"code": "de", "size": size} for size in (1, 2)]
    before = [{"id": 1, "home": homes[0]}, {"id": 2, "home": homes[0]}]
    after = [{"id": 1, "home": homes[0]}, {"id": 2, "home": homes[1]}]
    (step,) = Consumer(chain(before, after, model=model), share=False).changes(1)
    assert list(step) == [Patch("Movie", 2, "home.size", 2)]
    assert any("several records" in note for note in step.notes)


def test_a_step_as_json_bytes_and_arrow_says_what_its_patches_say():
    store = chain([movie(tags=["a"])], [movie(score=2.0, tags=["a", "b"])], [movie(2)])
    feed = Consumer(store, share=False).changes(1, before=True)
    whole = list(feed.patches())
    assert list(PatchBatch.from_bytes(feed.to_bytes())) == whole
    assert list(PatchBatch.from_json_lines(feed.to_json_lines())) == whole
    table = pa.table(feed)
    assert table["to"].to_pylist() == [2, 2, 3, 3] and table["from"].to_pylist() == [1, 1, 2, 2]
    assert list(PatchBatch.from_arrow(table.drop_columns(["from", "to"]))) == whole
    assert pa.table(Consumer(store, share=False).changes(2, 2)).schema == table.schema


def test_columns_of_a_step_have_the_types_of_the_model():
    store = chain([movie(cast=[{"name": "A"}])], [movie(score=2.0, cast=[{"name": "B"}])])
    (step,) = Consumer(store, share=False).changes(1, before=True).columns()
    found = {group.place: pa.table(group) for group in step.groups}
    assert found["Movie.score"].to_pylist() == [{"id": 1, "after": 2.0, "before": 1.0}]
    assert found["Movie.cast[].name"].to_pylist() == [{"id": 1, "selector_0": 0, "after": "B", "before": "A"}]
    assert found["Movie.score"].schema.field("after").type == pa.float64()


def test_a_listener_is_told_what_each_refresh_changed():
    store, found = chain([movie()], [movie(score=2.0)], [movie(score=3.0)]), []
    consumer = Consumer(store, share=False, listeners=[FeedListener(found.append, before=True)])
    consumer.refresh(to=1)
    assert not found
    consumer.refresh()
    (step,) = found
    assert (step.from_version, step.to_version) == (1, 3)
    assert list(step) == [Patch("Movie", 1, "score", 3.0, previous=1.0)]


def test_following_changes_gives_a_step_for_every_refresh():
    store = open_store("memory:")
    producer = Producer(store, Model.parse(MODEL), versions=count_up)
    producer.publish(tables={"Movie": [movie()]})
    consumer = Consumer(store, share=False, poll_seconds=0.02)
    steps, seen = consumer.follow_changes(), []

    def read():
        for step in steps:
            seen.append((step.from_version, step.to_version, [one.value for one in step]))
            if len(seen) == 1:
                producer.publish(tables={"Movie": [movie(score=3.0)]})
            if len(seen) == 2:
                break
        steps.close()

    reader = threading.Thread(target=read)
    reader.start()
    assert consumer.wait_for(1, 10)
    producer.publish(tables={"Movie": [movie(score=2.0)]})
    reader.join(20)
    assert seen == [(1, 2, [2.0]), (2, 3, [3.0])]
    assert not consumer.running


def test_a_dataset_tells_its_changes():
    dataset = Dataset.create(open_store("memory:"), Model.parse(MODEL))
    with dataset.producer(versions=count_up) as producer:
        producer.publish(tables={"Movie": [movie()]})
        producer.publish(tables={"Movie": [movie(title="New")]})
    assert list(dataset.changes(1).patches()) == [Patch("Movie", 1, "title", "New")]


def test_a_folder_of_blobs_without_an_announcement_has_a_feed(tmp_path):
    store = chain([movie(score=1.0)], [movie(score=2.0)], [movie(score=3.0)])
    for name in ("snapshot-1", "delta-1-2", "delta-2-3", "reversedelta-3-2", "reversedelta-2-1"):
        (tmp_path / name).write_bytes(store.get(name).data)
    dataset = Dataset.open(tmp_path)
    assert [[one.value for one in step] for step in dataset.changes(1)] == [[2.0], [3.0]]
    assert [[one.value for one in step] for step in dataset.changes(3, 1)] == [[2.0], [1.0]]


def test_where_only_a_snapshot_leads_on_a_step_compares_whole_states():
    store = chain([movie(score=1.0)], [movie(score=2.0)], [movie(score=3.0)])
    for name in ("delta-1-2", "delta-2-3"):
        store.delete(name)
    consumer = Consumer(store, share=False)
    consumer.refresh(to=1)
    assert [list(step) for step in consumer.changes(1, 3)] == [
        [Patch("Movie", 1, "score", 2.0)],
        [Patch("Movie", 1, "score", 3.0)],
    ]


def test_records_that_no_delta_touched_are_not_read(monkeypatch):
    rows = [movie(number) for number in range(500)]
    consumer = Consumer(chain(rows, [movie(0, score=9.0), *rows[1:]]), share=False)
    read = []

    def counting(records, type_name, position, rows):
        read.append(rows.count)
        return read_column(records, type_name, position, rows)

    monkeypatch.setattr("deltaic.state.view.read_column", counting)
    monkeypatch.setattr("deltaic.compare.feed_values.read_column", counting)
    (step,) = consumer.changes(1)
    assert list(step) == [Patch("Movie", 0, "score", 9.0)]
    assert read and max(read) <= 2


def test_fields_are_named_by_their_numbers_on_the_wire_if_asked():
    dataset = Dataset.create(open_store("memory:"), Model.parse(MODEL))
    with dataset.producer(versions=count_up) as producer:
        producer.publish(tables={"Movie": [movie(cast=[{"name": "A"}])]})
        producer.publish(tables={"Movie": [movie(title="New", cast=[{"name": "B"}])]})
    registry = dataset.registry
    feed = dataset.changes(1, references=True)
    found = PatchBatch.from_bytes(feed.to_bytes())
    assert found.has_references
    paths = found.resolved(lambda reference: registry.descriptor(reference.index, reference.version).path)
    assert list(paths) == list(feed.patches())
    assert not PatchBatch.from_bytes(dataset.changes(1).to_bytes()).has_references


def test_without_a_registry_fields_are_named_by_their_paths(tmp_path):
    store = chain([movie()], [movie(title="New")])
    (patch,) = PatchBatch.from_bytes(Dataset.open(store).changes(1, references=True).to_bytes())
    assert patch.path == "title"
    assert not list(store.list("registry/"))


def test_what_a_filter_leaves_out_is_not_told():
    cast = [[{"name": name}] for name in "AB"]
    store = chain([movie(cast=cast[0])], [movie(score=2.0, cast=cast[1]), movie(2, cast=cast[1], lead={"name": "C"})])
    consumer = Consumer(store, share=False, filter=Filter.without("Actor"))
    (step,) = consumer.changes(1)
    put, changed = sorted(step, key=lambda patch: -patch.operation)
    assert changed == Patch("Movie", 1, "score", 2.0)
    assert put.key == 2 and "lead" not in put.value and put.value["cast"] == []
    assert step.notes == ("type Actor is not loaded: what refers to it is not compared",)
    assert list(PatchBatch.from_bytes(step.to_bytes())) == list(step)


def test_a_consumer_that_is_held_elsewhere_begins_where_it_is(monkeypatch):
    store = chain(*([movie(score=float(number))] for number in range(5)))
    consumer = Consumer(store, share=False)
    consumer.refresh(to=4)
    fetched = []
    get = type(store).get
    monkeypatch.setattr(
        type(store), "get", lambda self, key, **options: fetched.append(key) or get(self, key, **options)
    )
    assert [one.value for step in consumer.changes(4) for one in step] == [4.0]
    assert not any(name.startswith("snapshot") for name in fetched)


def test_values_are_what_they_stand_for_and_null_elements_are_null():
    columns = pa.schema(
        [
            ("id", pa.int64()),
            ("day", pa.date32()),
            ("price", pa.decimal128(10, 2)),
            ("words", pa.list_(pa.string())),
            ("days", pa.list_(pa.date32())),
        ]
    )
    old = {
        "id": 1,
        "day": date(2024, 1, 31),
        "price": Decimal("1.50"),
        "words": ["a", None],
        "days": [date(2024, 1, 1)],
    }
    new = {**old, "day": date(2024, 2, 1), "price": Decimal("2.25"), "words": [None, "b"], "days": [date(2024, 1, 2)]}
    store = open_store("memory:")
    with Producer(store, Model.from_arrow(columns, "Movie", key=("id",)), versions=count_up) as producer:
        for row in (old, new):
            producer.publish(pa.Table.from_pylist([row], schema=columns))
    feed = Consumer(store, share=False).changes(1, before=True)
    assert {one.path: (one.value, one.previous) for one in feed.patches()} == {
        "day": (new["day"], old["day"]),
        "price": (new["price"], old["price"]),
        "words[0]": (None, "a"),
        "words[1]": ("b", None),
        "days[0]": (new["days"][0], old["days"][0]),
    }
    (step,) = feed.columns()
    found = {group.place: pa.table(group)["after"].to_pylist() for group in step.groups}
    assert found["Movie.day"] == [new["day"]] and found["Movie.price"] == [new["price"]]
    on_the_wire = {one.path: one.value for one in PatchBatch.from_bytes(feed.to_bytes())}
    assert on_the_wire["day"] == "2024-02-01" and on_the_wire["price"] == "2.25" and on_the_wire["words[0]"] is None
