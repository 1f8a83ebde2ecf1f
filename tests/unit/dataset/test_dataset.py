"""The root object: made, opened, evolved; a bare chain is opened too."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from deltaic.dataset import Dataset, list_datasets, open_dataset
from deltaic.errors import CommitConflictError, InputError, NotFoundError, SchemaError
from deltaic.producer import count_up
from deltaic.schema.annotations import key
from deltaic.schema.model import Model
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.testing.faulty_store import EVERY_FAULT, Fault, FaultKind, FaultyStore, Moment
from tests.unit.producer.catalogue import MODEL, Actor, Movie, content_of, movies, read


@pytest.fixture
def store() -> Store:
    return open_store("memory:")


def test_a_dataset_is_made_published_to_and_opened(tmp_path: Path) -> None:
    made = Dataset.create(tmp_path / "movies", MODEL)
    assert made.name == "movies" and not made.is_bare
    with made.producer(versions=count_up) as producer:
        producer.publish(movies(1, 2))
        producer.publish(movies(1, 3))
    opened = Dataset.open(tmp_path / "movies")
    assert opened.model.schemas == MODEL.schemas and opened.model.roots == MODEL.roots
    assert opened.created_ms == made.created_ms
    versions = opened.versions()
    assert [(each.version, each.channels, each.has_snapshot) for each in versions] == [
        (2, ("main",), True),
        (1, (), True),
    ]
    assert versions[0].announced_ms is not None and versions[0].size_bytes > 0
    assert read(opened.chain) == (2, content_of(movies(1, 3)))
    assert (tmp_path / "movies/chain/announced.version").read_text() == "2"


def test_a_consumer_follows_a_dataset(tmp_path: Path) -> None:
    dataset = Dataset.create(tmp_path / "movies", MODEL)
    with dataset.producer(versions=count_up) as producer:
        producer.publish(movies(1, 2))
        consumer = dataset.consumer(cache_dir=False, share=False)
        consumer.refresh()
        assert consumer.version == 1
        producer.publish(movies(5))
        consumer.refresh()
    assert [record.title for record in consumer.state["Movie"]] == ["movie 5"]


def test_only_one_of_two_makes_the_dataset(store: Store) -> None:
    Dataset.create(store, MODEL, name="first")
    with pytest.raises(CommitConflictError, match="open it"):
        Dataset.create(store, MODEL)
    assert Dataset.create(store, MODEL, exist_ok=True).name == "first"


@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT)
def test_making_a_dataset_on_a_failing_store_makes_it_once_or_says_so(kind: FaultKind, moment: Moment) -> None:
    store = FaultyStore(open_store("memory:"), [Fault(kind, moment, 1)])
    try:
        made = Dataset.create(store, MODEL)
    except Exception as error:
        assert moment is Moment.BEFORE, error
        made = Dataset.create(store, MODEL)
    assert Dataset.open(store).created_ms == made.created_ms


def test_nothing_is_opened_where_nothing_is(store: Store) -> None:
    with pytest.raises(NotFoundError, match="neither a dataset"):
        Dataset.open(store)
    with pytest.raises(NotFoundError):
        open_dataset(store.child("sub"))


def test_a_bare_chain_is_opened_with_the_model_of_its_newest_snapshot(tmp_path: Path) -> None:
    dataset = Dataset.create(tmp_path / "data", MODEL)
    with dataset.producer(versions=count_up) as producer:
        producer.publish(movies(1))
    shutil.copytree(tmp_path / "data/chain", tmp_path / "bare")
    bare = open_dataset(tmp_path / "bare")
    assert bare.is_bare and bare.name == "bare" and bare.model.schemas == MODEL.schemas
    assert [each.version for each in bare.versions()] == [1]
    with bare.producer(versions=count_up) as producer:
        rows = [{"id": 9, "title": "by hand", "cast": []}]
        assert producer.publish(rows, type_name="Movie").version == 2
    with pytest.raises(InputError):
        bare.evolve(MODEL)


def test_a_chain_of_a_java_producer_is_taken_over(hollow_fixtures: Path, tmp_path: Path) -> None:
    source = hollow_fixtures / "blob-store"
    if not source.is_dir():
        pytest.skip("no fixture blob-store")
    folder = next(path.parent for path in sorted(source.rglob("announced.version")))
    shutil.copytree(folder, tmp_path / "java")
    dataset = Dataset.open(tmp_path / "java")
    announced = int((folder / "announced.version").read_text())
    assert dataset.is_bare and announced in [each.version for each in dataset.versions()]
    with dataset.producer() as producer:
        assert producer.restore() == announced
        assert producer.state is not None
        name = next(name for name in dataset.model.schemas.names if len(producer.state[name]))

        def shrunk(cycle: object) -> None:
            state = cycle.write_state  # type: ignore[attr-defined]
            state.keep_all_from_previous()
            root = dataset.model.roots[0]
            state.remove(root, state.previous(root).ordinals()[:1])

        cycle = producer.cycle(shrunk)
        assert cycle.from_version == announced and name in cycle.types
    assert (tmp_path / f"java/delta-{announced}-{cycle.version}").exists()
    assert (tmp_path / "java/announced.version").read_text() == str(cycle.version)


def test_a_model_evolves_and_refuses_what_would_break_readers(store: Store) -> None:
    dataset = Dataset.create(store, MODEL)
    with dataset.producer(versions=count_up) as producer:
        producer.publish(movies(1))
    wider = Model.parse(str(MODEL.schemas).replace("String title;", "String title;\n\tint year;"))
    evolved = dataset.evolve(wider)
    assert Dataset.open(store).model.schemas == wider.schemas
    with evolved.producer(versions=count_up) as producer:
        cycle = producer.publish([{"id": 1, "title": "x", "year": 3, "cast": []}], type_name="Movie")
    assert cycle.from_version == 1
    with pytest.raises(CommitConflictError):
        dataset.evolve(wider)
    retyped = Model.parse(str(MODEL.schemas).replace("long id;", "string id;"))
    with pytest.raises(SchemaError, match="readers would break"):
        evolved.evolve(retyped)
    with pytest.raises(InputError, match="evolve"):
        evolved.producer(retyped)


def test_classes_join_a_dataset_that_was_opened(store: Store) -> None:
    Dataset.create(store, MODEL)
    opened = Dataset.open(store).with_classes(Movie)
    with opened.producer(versions=count_up) as producer:
        assert producer.publish(movies(1)).version == 1

    @key("id")
    @dataclass
    class Other:
        id: int

    Other.__name__ = "Movie"
    with pytest.raises(SchemaError, match="not the type Movie"):
        Dataset.open(store).with_classes(Other)
    assert Actor


def test_datasets_are_listed_wherever_they_lie(store: Store) -> None:
    for path in ("films", "shop/prices", "shop/deep/stock"):
        Dataset.create(store.child(path), MODEL)
    Dataset.create(store.child("films/chain/inner"), MODEL)
    assert sorted(list_datasets(store)) == ["films", "shop/deep/stock", "shop/prices"]
    assert sorted(list_datasets(store, depth=2)) == ["films", "shop/prices"]
