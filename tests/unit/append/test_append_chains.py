"""Producers and consumers: a field that is added is there with the next delta, for all that is built on records."""

from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from deltaic.compare.diff import diff
from deltaic.compare.history import history
from deltaic.consumer import Consumer
from deltaic.errors import InputError, SchemaError
from deltaic.producer import Appended, Producer, SchemaAppend, count_up
from deltaic.schema.annotations import RenamedFrom, key
from deltaic.schema.model import Model
from deltaic.state.filter import Filter
from deltaic.state.typed import typed
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from tests.unit.append.histories import content


@key("id")
@dataclass
class Movie:
    id: int
    title: str


OLD = Model.of(Movie)


@dataclass
class Studio:
    name: str


def newer() -> Any:
    @key("id")
    @dataclass
    class Movie:
        id: int
        title: str
        rating: float | None = None
        studio: Studio | None = None
        tags: list[str] | None = None

    return Movie


NewMovie = newer()
NEW = Model.of(NewMovie)


def old(*numbers: int) -> list[Movie]:
    return [Movie(number, f"movie {number}") for number in numbers]


def new(*numbers: int) -> list[Any]:
    return [NewMovie(n, f"movie {n}", n / 4, Studio(f"studio {n % 2}"), [f"tag {n}", "all"]) for n in numbers]


@pytest.fixture
def store() -> Store:
    return open_store("memory:")


def producer_of(store: Store, model: Model = OLD, **options: Any) -> Producer:
    return Producer(store, model, versions=count_up, **options)


def consumer_of(store: Store, **options: Any) -> Consumer:
    return Consumer(store, cache_dir=False, share=False, **options)


def fresh(store: Store) -> Any:
    consumer = consumer_of(store)
    consumer.refresh()
    return consumer.state


def evolve(store: Store, how: str, producer: Producer, **options: Any) -> Producer:
    """Another model: in a producer that is started anew, or in the one that is at work."""
    if how == "restart":
        producer.close()
        return producer_of(store, NEW, **options)
    producer.change_model(NEW)
    return producer


@pytest.mark.parametrize("how", ["restart", "at work"])
@pytest.mark.parametrize("order", ["given", "canonical"])
def test_adding_a_field_is_all_that_a_user_does(store: Store, how: str, order: Any) -> None:
    producer = producer_of(store, order=order, snapshot_every=100)
    producer.publish(old(1, 2, 3, 4))
    consumer = consumer_of(store, double_snapshot=False)
    consumer.refresh()
    producer = evolve(store, how, producer, order=order, snapshot_every=100)
    cycle = producer.publish(new(1, 2, 3, 5))
    refresh = consumer.refresh()
    assert [step.blob for step in refresh.steps] == ["delta-1-2"] and not refresh.by_snapshot
    assert {r.id: r.rating for r in consumer.state["Movie"]} == {1: 0.25, 2: 0.5, 3: 0.75, 5: 1.25}
    assert {r.id: r.studio.name for r in consumer.state["Movie"]}[3] == "studio 1"
    assert {r.id: list(r.tags) for r in consumer.state["Movie"]}[2] == ["tag 2", "all"]
    assert content(consumer.state) == content(fresh(store)) and consumer.state.checksum() == fresh(store).checksum()
    assert isinstance(cycle.appended, Appended)
    assert (cycle.appended.fields, cycle.appended.values) == (3, 9)
    counts = consumer.metrics.counts()
    assert (counts.appended_fields, counts.appended_values) == (3, 9)
    assert counts.appended_bytes == cycle.appended.size_bytes > 0 and counts.appended_seconds > 0
    assert producer.publish(new(1, 2, 5)).appended is None
    consumer.refresh()
    assert content(consumer.state) == content(fresh(store))


MATRIX = [
    # The document's behaviour matrix, 10.3: producer, consumer, what the consumer has of the new fields.
    (SchemaAppend(False, False), "off", "nothing", False),
    (SchemaAppend(False, False), "values", "nothing", False),
    (SchemaAppend(False, True), "full", "nothing", False),
    (SchemaAppend(True, False), "off", "nothing", False),
    (SchemaAppend(True, False), "values", "nothing", True),
    (SchemaAppend(True, False), "full", "nothing", True),
    (SchemaAppend(True, True), "off", "nothing", False),
    (SchemaAppend(True, True), "values", "nothing", True),
    (SchemaAppend(True, True), "full", "all", True),
]


@pytest.mark.parametrize(("sends", "takes", "expected", "reads"), MATRIX)
def test_the_behaviour_matrix_of_the_document(
    store: Store, sends: SchemaAppend, takes: Any, expected: str, reads: bool
) -> None:
    with producer_of(store, schema_append=sends) as producer:
        producer.publish(old(1, 2, 3))
    consumer = consumer_of(store, schema_append=takes)
    consumer.refresh()
    with producer_of(store, NEW, schema_append=sends) as producer:
        producer.publish(new(1, 2, 4))
        # A second chain of the same versions without any section, for comparison.
        plain = open_store("memory:")
    with producer_of(plain, schema_append=SchemaAppend(False)) as producer:
        producer.publish(old(1, 2, 3))
    reference = consumer_of(plain, schema_append="off")
    reference.refresh()
    with producer_of(plain, NEW, schema_append=SchemaAppend(False)) as producer:
        producer.publish(new(1, 2, 4))
    consumer.refresh()
    reference.refresh()
    assert (consumer.state.appended is not None) == reads
    if expected == "all":
        assert content(consumer.state) == content(fresh(store))
    else:
        assert content(consumer.state) == content(reference.state)
    # Who has the field already, by walking back from a later snapshot, gets values in both modes that take them.
    late = consumer_of(store, schema_append=takes)
    late.refresh()
    late.refresh(to=1)
    late.refresh(to=2)
    assert content(late.state) == content(fresh(store))


def test_on_off_on_in_the_middle_of_a_chain(store: Store) -> None:
    """Roll-out and rollback of the document's appendix: no reader fails, nothing is lost with the next snapshot."""
    text = "T @PrimaryKey(id) {{ int id; {} }}"
    fields = ["", "int a;", "int a; int b;", "int a; int b; int c;"]
    modes = [SchemaAppend(), SchemaAppend(), SchemaAppend(False), SchemaAppend()]
    consumers = {mode: consumer_of(store, schema_append=mode) for mode in ("off", "values", "full")}
    for number, (added, sends) in enumerate(zip(fields, modes, strict=True)):
        model = Model.parse(text.format(added))
        rows = [{"id": n, "a": n, "b": 10 * n, "c": 100 * n} for n in range(number, 5 + number)]
        known = [field.name for field in model.schemas.object_schema("T").fields]
        with producer_of(store, model, schema_append=sends) as producer:
            producer.publish([{name: row[name] for name in known} for row in rows], type_name="T")
        for consumer in consumers.values():
            consumer.refresh()
            assert sorted(record["id"] for record in consumer.state["T"]) == list(range(number, 5 + number))
    names = {mode: [f.name for f in one.state.types["T"].schema.fields] for mode, one in consumers.items()}
    assert names == {"off": ["id"], "values": ["id"], "full": ["id", "a", "c"]}
    # A consumer is rolled back to off, and forth again: it goes on from a snapshot with all of it.
    assert [f.name for f in fresh(store).types["T"].schema.fields] == ["id", "a", "b", "c"]
    rolled = consumer_of(store, schema_append="off")
    rolled.refresh()
    assert content(rolled.state) == content(fresh(store))


def test_consumers_several_versions_behind_end_at_the_same_model_over_every_path(store: Store) -> None:
    models = [
        Model.parse("T @PrimaryKey(id) { int id; " + "".join(f"int f{n}; " for n in range(k)) + "}") for k in range(5)
    ]
    consumers = []
    for k, model in enumerate(models):
        with producer_of(store, model, snapshot_every=1) as producer:
            rows = [{"id": n, **{f"f{i}": n * 10 + i for i in range(k)}} for n in range(k, k + 6)]
            producer.publish(rows, type_name="T")
        consumer = consumer_of(store, double_snapshot=False)
        consumer.refresh()
        consumers.append(consumer)
    for consumer in consumers:
        refresh = consumer.refresh()
        assert not refresh.steps or not refresh.by_snapshot
        assert content(consumer.state) == content(fresh(store))
    for target in (1, 3, 2, 5):
        consumers[0].refresh(to=target)
    assert content(consumers[0].state) == content(fresh(store))


@pytest.mark.parametrize("fallback", ["omit", "snapshot"])
def test_a_section_that_is_too_large_is_left_out(store: Store, fallback: Any) -> None:
    options = SchemaAppend(max_bytes=20, on_too_large=fallback)
    with producer_of(store, snapshot_every=100, schema_append=options) as producer:
        producer.publish(old(*range(50)))
    consumer = consumer_of(store)
    consumer.refresh()
    with producer_of(store, NEW, snapshot_every=100, schema_append=options) as producer:
        cycle = producer.publish(new(*range(50)))
    assert cycle.appended is not None and cycle.appended.omitted and cycle.appended.size_bytes > 20
    assert "snapshot" in {artifact.kind for artifact in cycle.artifacts}
    consumer.refresh()
    assert consumer.state.types["Movie"].schema.position("rating") < 0 and consumer.state.appended is None
    assert fresh(store)["Movie"][0].rating is not None


def test_a_section_of_all_fields_that_is_too_large_calls_for_a_snapshot(store: Store) -> None:
    for fallback, expected in (("omit", False), ("snapshot", True)):
        where = open_store("memory:")
        options = SchemaAppend(all_fields=True, max_bytes=20, on_too_large=fallback)  # type: ignore[arg-type]
        with producer_of(where, snapshot_every=100, schema_append=options) as producer:
            producer.publish(old(*range(50)))
            cycle = producer.publish(old(*range(1, 51)))
        assert ("snapshot" in {artifact.kind for artifact in cycle.artifacts}) == expected


def test_a_restart_after_deltas_with_sections_knows_the_model_without_a_snapshot(store: Store) -> None:
    with producer_of(store, snapshot_every=100) as producer:
        producer.publish(old(1, 2, 3))
    with producer_of(store, NEW, snapshot_every=100) as producer:
        producer.publish(new(1, 2, 3))
    store.delete("snapshot-2")
    with producer_of(store, NEW, snapshot_every=100, integrity="deltas") as producer:
        producer.restore()
        assert producer.state is not None and producer.state["Movie"][0].rating == 0.25
        assert not producer.publish(new(1, 2, 3)).published
        assert producer.publish(new(1, 2, 4)).appended is None


def test_incremental_cycles_keep_records_whose_new_field_is_null(store: Store) -> None:
    with producer_of(store) as producer:
        producer.publish(old(1, 2, 3))
        consumer = consumer_of(store)
        consumer.refresh()
        producer.change_model(NEW)
        with producer.incremental() as changes:
            changes.add_or_modify(new(2)[0])
    consumer.refresh()
    assert {r.id: r.rating for r in consumer.state["Movie"]} == {1: None, 2: 0.5, 3: None}
    assert content(consumer.state) == content(fresh(store))


def test_a_renamed_field_keeps_its_values(store: Store) -> None:
    def renamed() -> Any:
        @key("id")
        @dataclass
        class Movie:
            id: int
            name: Annotated[str, RenamedFrom("title")]

        return Movie

    cls = renamed()
    with producer_of(store) as producer:
        producer.publish(old(1, 2, 3))
        consumers = [consumer_of(store), consumer_of(store, schema_append="off")]
        for consumer in consumers:
            consumer.refresh()
        producer.change_model(cls)
        cycle = producer.publish([cls(n, f"movie {n}") for n in (1, 2, 4)])
        assert cycle.appended is not None and cycle.appended.values == 2
        assert (cycle.types["Movie"].added, cycle.types["Movie"].removed) == (1, 1), "nothing else got another ordinal"
    for consumer in consumers:
        consumer.refresh()
    assert {r.id: r.name for r in consumers[0].state["Movie"]} == {n: f"movie {n}" for n in (1, 2, 4)}
    assert content(consumers[0].state) == content(fresh(store))
    assert {r.id: r.title for r in consumers[1].state["Movie"]} == {1: "movie 1", 2: "movie 2", 4: None}
    with pytest.raises(Exception, match="no field 'nix'"):
        OLD.with_renamed({"Movie": {"nix": "x"}})


def test_changes_name_the_records_that_got_a_value(store: Store) -> None:
    with producer_of(store) as producer:
        producer.publish(old(1, 2, 3))
        consumer = consumer_of(store, cached_types=["Movie"])
        consumer.refresh()
        before = consumer.state
        producer.change_model(NEW)
        rows = new(1, 2, 4)
        rows[1].rating = rows[1].studio = rows[1].tags = None
        producer.publish(rows)
    changes = consumer.refresh().changes["Movie"]
    assert changes.added_keys() == [(4,)] and changes.removed_keys() == [(3,)] and changes.modified_keys() == [(1,)]
    assert consumer.cached("Movie").find(1)["rating"] == 0.25 and consumer.cached("Movie").find(2)["rating"] is None
    found = diff(before, consumer.state)["Movie"]
    assert (1,) in [tuple(change.key) for change in found.records("modified", field="rating")]
    traced = history([(1, before), (2, consumer.state)], "Movie", 1)
    assert traced.touched == (2,) and traced.at(2)["rating"] == 0.25


def test_indexes_typed_records_and_history_work_on_appended_fields(store: Store) -> None:
    with producer_of(store) as producer:
        producer.publish(old(1, 2, 3))
        consumer = consumer_of(store)
        consumer.refresh()
        by_title = consumer.lookup.hash("Movie", "title.value")
        assert len(by_title.find("movie 2")) == 1
        producer.change_model(NEW)
        producer.publish(new(1, 2, 5))
    consumer.refresh()
    indexes = consumer.lookup
    assert len(indexes.hash("Movie", "studio.name.value").find("studio 1")) == 2
    assert len(indexes.hash("Movie", "tags.element.value").find("all")) == 3
    assert len(indexes.range("Movie", "rating").between(0.3, 2.0)) == 2
    assert len(indexes.hash("Movie", "title.value").find("movie 5")) == 1
    made = {movie.id: movie for movie in typed(NewMovie).all(consumer.state["Movie"])}
    assert made[2] == new(2)[0]
    producer = producer_of(store, NEW)
    producer.publish(new(2, 5, 6))
    consumer.refresh()
    assert len(consumer.lookup.hash("Movie", "studio.name.value").find("studio 0")) == 2


def test_a_field_of_another_type_takes_the_consumer_to_a_snapshot_or_leaves_it_where_it_is(store: Store) -> None:
    with producer_of(store, Model.parse("T { int id; int x; }")) as producer:
        producer.publish([{"id": 1, "x": 2}], type_name="T")
    stay = consumer_of(store, double_snapshot=False)
    jump = consumer_of(store)
    for consumer in (stay, jump):
        consumer.refresh()
    off = SchemaAppend(enabled=False)
    with producer_of(store, Model.parse("T { int id; }"), schema_append=off) as producer:
        producer.publish([{"id": 1}, {"id": 2}], type_name="T")
    with producer_of(store, Model.parse("T { int id; string x; }")) as producer:
        producer.publish([{"id": 1, "x": "a"}, {"id": 2, "x": "b"}], type_name="T")
    assert jump.refresh().to_version == 3 and jump.state["T"][0]["x"] == "a"
    refresh = stay.refresh()
    assert refresh.to_version == 2 and "delta-2-3: field T.x is INT here and STRING" in str(refresh.stuck)
    assert isinstance(refresh.failures[0].error, str | SchemaError) and stay.state["T"][0]["x"] == 2


def test_a_filtered_consumer_takes_of_new_fields_what_it_wants(store: Store) -> None:
    with producer_of(store) as producer:
        producer.publish(old(1, 2))
        consumer = consumer_of(store, filter=Filter.without("Movie.rating"))
        consumer.refresh()
        producer.change_model(NEW)
        producer.publish(new(1, 2))
    consumer.refresh()
    schema = consumer.state.types["Movie"].schema
    assert schema.position("rating") < 0 <= schema.position("studio")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: SchemaAppend(on_too_large="panic"),  # type: ignore[arg-type]
        lambda: SchemaAppend(max_bytes=-1),
        lambda: SchemaAppend(compression="rar"),  # type: ignore[arg-type]
        lambda: SchemaAppend(types="Movie"),
        lambda: Consumer("memory:", schema_append="some"),  # type: ignore[arg-type]
    ],
)
def test_options_that_cannot_be_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError):
        wrong()
