"""What a consumer looks records up with: tables by key, indexes that refreshes carry on, one version at a time."""

import gc
import os
import threading
import weakref
from dataclasses import dataclass

import pytest

from deltaic.consumer import Consumer, Longevity, RefreshListener
from deltaic.errors import InputError, MissingKeyError, NotFoundError
from deltaic.index import KeylessTable, PrimaryKeyIndex
from deltaic.schema.annotations import Int32, key
from deltaic.state.filter import Filter
from deltaic.storage import open_store
from tests.unit.consumer.small_chain import SmallChain


@pytest.fixture
def chain():
    return SmallChain(open_store("memory:"))


@pytest.fixture
def consumer(chain):
    chain.publish({1: "Solaris", 2: "Stalker", 3: "Mirror"})
    consumer = Consumer(chain.store)
    consumer.refresh()
    return consumer


def test_the_records_of_a_type_are_a_mapping_by_primary_key(consumer):
    movies = consumer["Movie"]
    assert movies[2].title == "Stalker" and movies.get(20) is None and movies.get(20, "none") == "none"
    assert 3 in movies and 30 not in movies and len(movies) == 3
    assert list(movies) == [1, 2, 3] and [movie.title for movie in movies.values()] == ["Solaris", "Stalker", "Mirror"]
    assert [movie.id for movie in movies.where(title="Mirror")] == [3]
    assert consumer["Country"]["fr"].size == 68


def test_a_missing_key_is_a_key_error_and_an_error_of_ours(consumer):
    with pytest.raises(KeyError) as caught:
        consumer["Movie"][20]
    error = caught.value
    assert isinstance(error, MissingKeyError) and isinstance(error, NotFoundError) and isinstance(error, LookupError)
    assert str(error) == "there is no Movie with the key 20" and (error.type_name, error.key) == ("Movie", 20)
    with pytest.raises(MissingKeyError):
        consumer.typed(Movie)[20]
    with pytest.raises(MissingKeyError, match="'xx'"):
        consumer.lookup.key("Country")["xx"]


def test_a_missing_key_error_survives_pickling():
    import pickle

    again = pickle.loads(pickle.dumps(MissingKeyError("Edition", (7, "dvd"))))
    assert str(again) == "there is no Edition with the key (7, 'dvd')" and again.key == (7, "dvd")


def test_ordinals_are_reached_by_the_view(consumer):
    view = consumer["Movie"].view
    assert view is consumer.state["Movie"] and view[0].title == "Solaris"
    assert view.column("id").to_pylist() == [1, 2, 3]


def test_a_type_without_a_key_is_asked_and_not_looked_up(consumer):
    titles = consumer["String"]
    assert isinstance(titles, KeylessTable) and len(titles) == 3
    assert sorted(record.value for record in titles) == ["Mirror", "Solaris", "Stalker"]
    assert [record.value for record in titles.where(value="Mirror")] == ["Mirror"]
    for look_up in (lambda: titles[1], lambda: titles.get(1), lambda: 1 in titles, lambda: titles.find([1])):
        with pytest.raises(InputError, match="no primary key"):
            look_up()


def test_a_key_that_a_filter_left_out_is_no_key(chain):
    chain.publish({1: "Solaris"})
    consumer = Consumer(chain.store, filter=Filter.without("Movie.id"))
    consumer.refresh()
    assert isinstance(consumer["Movie"], KeylessTable)
    assert [movie.title for movie in consumer["Movie"].where(watermark=1)] == ["Solaris"]
    with pytest.raises(InputError, match="no primary key"):
        consumer.lookup.key("Movie")


def test_a_consumer_knows_its_types(consumer):
    assert "Movie" in consumer and "Nonsense" not in consumer
    assert set(consumer) == {"Movie", "String", "Country"}
    with pytest.raises(NotFoundError, match="Nonsense"):
        consumer["Nonsense"]


@key("id")
@dataclass(frozen=True)
class Movie:
    id: int
    title: str
    watermark: Int32


def test_records_come_as_objects_of_the_users_own_class(chain, consumer):
    movies = consumer.typed(Movie)
    assert movies[1] == Movie(1, "Solaris", 1) and movies.get(9) is None
    assert [movie.title for movie in movies.where(title="Mirror")] == ["Mirror"]
    chain.publish({1: "Solyaris"})
    consumer.refresh()
    assert movies[1].title == "Solaris" and consumer.typed(Movie)[1] == Movie(1, "Solyaris", 2)


def test_no_index_is_made_before_somebody_asks(chain, consumer):
    assert consumer.lookup.indexes() == ()
    movies = consumer["Movie"]
    len(movies), movies.head(), movies.sample(1), movies.view[0], list(movies.values())
    movies.where(title="Mirror"), consumer["String"].where(value="Mirror")
    chain.publish({1: "Solaris"})
    consumer.refresh()
    assert [str(index.definition) for index in consumer.lookup.indexes()] == []
    consumer["Movie"][1]
    assert [type(index) for index in consumer.lookup.indexes()] == [PrimaryKeyIndex]


def filled(number, **more):
    return {1000 + one: f"filler {one}" for one in range(number)} | {int(one[1:]): title for one, title in more.items()}


def test_refreshes_carry_every_index_on_by_updates_alone(chain, consumer):
    chain.publish(filled(300, _1="Solaris"))
    consumer.refresh()
    lookup = consumer.lookup
    made = [
        consumer["Movie"].index,
        lookup.unique("Movie", "title"),
        lookup.hash("Movie", ["country.code", "watermark"]),
        lookup.prefix("Movie", "title", tokens=True),
        lookup.range("Country", "size"),
    ]
    for number in range(5):
        chain.publish(filled(300, _1=f"Solaris {number}"))
        consumer.refresh()
        assert consumer["Movie"][1].title == f"Solaris {number}"
        assert consumer.lookup.prefix("Movie", "title", tokens=True).records("solaris")[0].title == f"Solaris {number}"
    for _ in range(2):
        chain.publish(filled(300))
    consumer.refresh()
    assert 1 not in consumer["Movie"]
    consumer.refresh(to=chain.versions[-5])
    assert consumer["Movie"][1].title == "Solaris 2"
    after = consumer.lookup.indexes()
    assert [index.definition for index in after] == [index.definition for index in made]
    assert [(index.builds, index.updates) for index in after] == [(1, 7)] * 5
    assert [(index.builds, index.updates) for index in made] == [(1, 0)] * 5


def test_a_second_snapshot_builds_the_indexes_anew(chain):
    consumer = Consumer(chain.store, max_deltas=1)
    chain.publish({1: "a", 2: "b"})
    consumer.refresh()
    consumer["Movie"][1]
    for _ in range(3):
        chain.publish({2: "c"})
    assert consumer.refresh().by_snapshot
    [index] = consumer.lookup.indexes()
    assert (index.builds, index.updates) == (2, 0)
    assert 1 not in consumer["Movie"] and consumer["Movie"][2].title == "c"


def test_indexes_are_there_when_the_new_state_is_first_seen(chain, consumer):
    consumer.lookup.hash("Movie", "title")
    seen = []

    class Look(RefreshListener):
        def after(self, refresh, changes):
            loaded = consumer.loaded
            assert loaded.lookup.state is loaded.state is changes.after
            seen.append([index.state is loaded.state for index in loaded.lookup.indexes()])

    consumer.add_listener(Look())
    chain.publish({1: "Solyaris"})
    refresh = consumer.refresh()
    assert seen == [[True]] and refresh.seconds["index"] > 0


def test_readers_never_see_the_state_of_one_version_with_the_index_of_another(chain, consumer):
    chain.publish(filled(200))
    consumer.refresh()
    wrong, rounds = [], []
    done = threading.Event()

    def read():
        count = 0
        while not done.is_set():
            lookup = consumer.lookup
            version = int(lookup.state.header_tags["hollow.blob.to.version"])
            found = lookup.hash("Movie", "watermark").find(version)
            others = lookup.hash("Movie", "watermark").find(version - 1)
            table = consumer["Movie"]
            marks = {table[1000 + one].watermark for one in range(0, 200, 7)}
            marks |= {movie.watermark for movie in table.where(title="filler 3")}
            if len(found) != 200 or len(others) or len(marks) != 1:
                wrong.append((version, len(found), len(others), marks))
            count += 1
        rounds.append(count)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(25):
            chain.publish(filled(200))
            consumer.refresh()
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert wrong == [] and all(rounds)
    by_mark = consumer.lookup.hash("Movie", "watermark")
    # One that was asked for first in a version that was just being replaced is made once more.
    assert by_mark.builds <= 2 and by_mark.updates >= 20


def test_an_index_of_what_a_new_model_does_not_have_is_let_go(chain, consumer):
    from deltaic.schema.text import parse_schemas
    from deltaic.state.write import WriteState

    consumer.lookup.hash("Movie", "title")
    consumer.lookup.hash("Movie", "watermark")
    chain.writer, chain._base = WriteState(parse_schemas("Movie @PrimaryKey(id) { long id; int watermark; }")), None
    chain.writer.add_object("Movie", {"id": 7, "watermark": 2})
    chain.store.put("snapshot-9", chain._written("snapshot"))
    chain.store.put("announced.version", b"9")
    chain.store.delete("announced.json")
    consumer.refresh()
    assert [str(index.definition) for index in consumer.lookup.indexes()] == ["hash index of Movie by watermark"]
    assert [movie.id for movie in consumer["Movie"].where(watermark=2)] == [7]


def test_a_replaced_state_goes_with_its_tables_and_indexes(chain, consumer):
    consumer["Movie"][1], consumer.lookup.hash("Movie", "title").find("Mirror")
    old = weakref.ref(consumer.state)
    gc.disable()
    try:
        chain.publish({1: "Solaris"})
        refresh = consumer.refresh()
        del refresh
        assert old() is None
        table = consumer["Movie"]
        held = weakref.ref(consumer.state)
        chain.publish({1: "Solaris"})
        consumer.refresh()
        assert [one.version for one in consumer.held_states()] == [2] and table[1].watermark == 2
        del table
        assert held() is None and consumer.held_states() == ()
    finally:
        gc.enable()


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_a_table_that_is_kept_too_long_is_noticed_and_dropped(chain, caplog):
    clock = Clock()
    consumer = Consumer(chain.store, clock=clock, longevity=Longevity(grace_seconds=10, detection_seconds=10))
    chain.publish({1: "Solaris"})
    consumer.refresh()
    kept, titles, lookup = consumer["Movie"], consumer["String"], consumer.lookup
    assert kept[1].title == "Solaris" and kept.get(2) is None and 1 in kept and lookup.state is consumer.state
    inner = weakref.ref(consumer.loaded.base)
    chain.publish({1: "Solyaris"})
    consumer.refresh()
    assert kept[1].title == "Solaris" and consumer["Movie"][1].title == "Solyaris"
    [index] = consumer.lookup.indexes()
    assert (index.builds, index.updates) == (1, 1)
    clock.now += 21
    assert [held.phase for held in consumer.held_states()] == ["dropped"]
    gc.collect()
    assert inner() is None
    for read in (
        lambda: kept[1],
        lambda: kept.get(1),
        lambda: 1 in kept,
        lambda: len(kept),
        lambda: list(kept),
        lambda: kept.find([1]),
        lambda: kept.ordinal(1),
        lambda: kept.where(watermark=1),
        lambda: list(titles),
        lambda: titles.where(value="Solaris"),
        lambda: lookup["Movie"][1],
        lambda: lookup.hash("Movie", "title"),
    ):
        with pytest.raises(NotFoundError, match="version 1 was dropped"):
            read()
    assert "still used" not in caplog.text


def test_a_look_up_in_the_detection_period_is_told(chain, caplog):
    clock = Clock()
    consumer = Consumer(chain.store, clock=clock, longevity=Longevity(grace_seconds=10, detection_seconds=10))
    chain.publish({1: "Solaris"})
    consumer.refresh()
    kept = consumer["Movie"]
    kept[1]
    chain.publish({1: "Solyaris"})
    consumer.refresh()
    clock.now += 11
    consumer.held_states()
    assert kept[1].title == "Solaris"
    assert "version 1 is still used" in caplog.text
    clock.now += 100
    [held] = consumer.held_states()
    assert held.phase == "expired" and held.uses >= 1 and kept[1].title == "Solaris"


def test_longevity_changes_while_indexes_stay(chain, consumer):
    consumer["Movie"][1]
    [before] = consumer.lookup.indexes()
    consumer.longevity = Longevity()
    assert consumer["Movie"][1].title == "Solaris" and consumer.lookup.indexes() == (before,)
    consumer.longevity = None
    assert consumer["Movie"][1].title == "Solaris" and consumer.lookup.indexes() == (before,)
    chain.publish({1: "Solyaris"})
    consumer.refresh()
    assert [index.updates for index in consumer.lookup.indexes()] == [1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_looks_up_although_its_parent_was_making_an_index(consumer):
    indexes = consumer.loaded.indexes
    holding, let_go = threading.Event(), threading.Event()

    def hold():
        with indexes.making:
            holding.set()
            let_go.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait(30)
    child = os.fork()
    if not child:
        import signal

        signal.alarm(20)
        os._exit(0 if consumer["Movie"][2].title == "Stalker" else 1)
    status = os.waitpid(child, 0)[1]
    let_go.set()
    thread.join()
    assert status == 0
