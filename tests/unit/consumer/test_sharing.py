"""Consumers of one host share states: one makes, the others attach, and all is as without sharing."""

import os

import pytest

from deltaic.consumer import Consumer
from deltaic.consumer import arena as arena_module
from deltaic.errors import StorageError
from deltaic.state.filter import Filter
from deltaic.storage import LocalStore
from deltaic.testing.faulty_store import Fault, FaultKind, FaultyStore
from tests.unit.consumer.small_chain import SmallChain, titles, watermarks


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Arenas of a test are its own."""
    opened = arena_module.Arena.open.__func__

    def here(cls, identity, *, base=None, need_bytes=0):
        return opened(cls, identity, base=tmp_path / "arenas", need_bytes=need_bytes)

    monkeypatch.setattr(arena_module.Arena, "open", classmethod(here))
    return tmp_path / "arenas"


@pytest.fixture
def chain(tmp_path):
    return SmallChain(LocalStore(tmp_path / "chain"))


def shared(chain, **options):
    return Consumer(chain.store, share=True, **options)


def test_the_second_consumer_attaches_and_fetches_nothing(chain):
    chain.publish({1: "one"})
    first, second = shared(chain), shared(chain)
    assert [step.blob for step in first.refresh().steps] == ["snapshot-1"]
    refresh = second.refresh()
    assert [step.blob for step in refresh.steps] == ["shared-1"] and refresh.size_bytes == 0
    assert titles(second.state) == titles(first.state) == {1: "one"}
    assert first.status().shared and second.status().shared and second.status().verified


def test_deltas_are_made_once_and_tell_both_what_changed(chain):
    chain.publish({1: "one", 2: "two"})
    first, second = shared(chain), shared(chain)
    first.refresh()
    second.refresh()
    chain.publish({1: "uno", 3: "three"})
    for consumer in (first, second):
        changes = consumer.refresh().changes
        assert not changes.whole
        movies = changes["Movie"]
        assert (movies.added_keys(), movies.removed_keys(), movies.modified_keys()) == ([(3,)], [(2,)], [(1,)])
    assert second.metrics.counts().fetched_bytes == 0
    chain.announcements.pin(1)
    for consumer in (second, first):
        assert consumer.refresh().to_version == 1 and titles(consumer.state) == {1: "one", 2: "two"}


def test_a_consumer_that_missed_versions_attaches_to_the_newest(chain):
    chain.publish()
    first, second = shared(chain), shared(chain)
    first.refresh()
    second.refresh()
    for _ in range(4):
        chain.publish()
        first.refresh()
    refresh = second.refresh()
    assert [step.blob for step in refresh.steps] == ["shared-5"] and refresh.changes.whole
    assert watermarks(second.state) == {5}


def test_a_newcomer_goes_on_from_the_state_that_is_there(chain):
    chain.publish()
    first = shared(chain)
    first.refresh()
    chain.publish()
    newcomer = shared(chain)
    refresh = newcomer.refresh()
    assert [step.blob for step in refresh.steps] == ["delta-1-2"] and refresh.from_version is None
    assert refresh.changes.whole and len(refresh.changes["Movie"].added) == 5
    assert watermarks(newcomer.state) == {2}


def test_another_filter_is_another_state(chain):
    chain.publish()
    whole, part = shared(chain), shared(chain, filter=Filter.only("Country"))
    whole.refresh()
    part.refresh()
    assert set(part.state) == {"Country"} and "Movie" in whole.state


def test_a_chain_that_was_made_anew_at_the_same_place_is_not_mistaken(chain, tmp_path):
    chain.publish({1: "old"})
    first = shared(chain)
    first.refresh()
    import shutil

    shutil.rmtree(tmp_path / "chain")
    again = SmallChain(LocalStore(tmp_path / "chain"))
    again.publish({1: "new"})
    second = shared(again)
    second.refresh()
    assert titles(second.state) == {1: "new"} and titles(first.state) == {1: "old"}


def test_without_room_for_sharing_a_refresh_works_in_private_memory(chain, monkeypatch, caplog):
    chain.publish({1: "one"})

    def full(self, *rest, **options):
        raise StorageError("no room for a shared state")

    monkeypatch.setattr(arena_module.Arena, "share", full)
    consumer = shared(chain)
    consumer.refresh()
    assert titles(consumer.state) == {1: "one"} and not consumer.status().shared
    assert "not shared on this host" in caplog.text


def test_a_failing_store_is_told_as_such_and_not_as_a_lack_of_room(chain, caplog):
    chain.publish()
    store = FaultyStore(chain.store)
    consumer = Consumer(store, share=True, cache_dir=False)
    store.fail(Fault(FaultKind.IO_ERROR, operation="get", from_then_on=True))
    with pytest.raises(StorageError, match="injected"):
        consumer.refresh()
    assert "not shared" not in caplog.text and consumer.version is None
    store.fail()
    assert consumer.refresh().to_version == 1


def test_a_small_state_is_not_shared_by_itself(chain, place):
    chain.publish()
    consumer = Consumer(chain.store)
    consumer.refresh()
    assert not consumer.status().shared and not place.exists()


def test_a_child_follows_in_the_same_arena(chain):
    chain.publish()
    consumer = shared(chain)
    consumer.refresh()
    chain.publish()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            consumer.refresh()
            code = 0 if watermarks(consumer.state) == {2} and consumer.status().shared else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [step.blob for step in consumer.refresh().steps] == ["shared-2"]
