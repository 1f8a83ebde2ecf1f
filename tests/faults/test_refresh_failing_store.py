"""A refresh whose store fails at any call, before or after its effect: the state is the old one or the new one."""

import pytest

from deltaic.consumer import Consumer
from deltaic.errors import DeltaicError
from deltaic.storage import open_store
from deltaic.testing.faulty_store import EVERY_FAULT, Fault, FaultyStore
from tests.unit.consumer.small_chain import SmallChain, watermarks

CACHED = [True, False]


def prepared(tmp_path, cached, versions=3, **options):
    """A chain whose newest version takes a list of old ones, and a consumer that is at the first."""
    store = FaultyStore(open_store("memory:"))
    chain = SmallChain(store)
    for number in range(versions):
        chain.publish(snapshot=number == 0)
    cache_dir = tmp_path / "cache" if cached else False
    return store, Consumer(store, cache_dir=cache_dir, **options)


def fast(consumer):
    """Retries without their pauses."""
    consumer._pause = lambda seconds: None
    consumer._refresher._pause = consumer._pause
    consumer._refresher.begin_in_process()
    return consumer


def calls_of(tmp_path, cached, start):
    store, consumer = prepared(tmp_path, cached)
    if start:
        consumer.refresh(to=start)
    store.fail()
    consumer.refresh()
    return len(store.calls)


@pytest.mark.parametrize("cached", CACHED, ids=["cached", "uncached"])
@pytest.mark.parametrize("start", [None, 1], ids=["first load", "by deltas"])
@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT)
def test_each_call_fails_once(tmp_path, cached, start, kind, moment):
    number_of_calls = calls_of(tmp_path / "count", cached, start)
    assert number_of_calls >= 3
    for number in range(1, number_of_calls + 1):
        store, consumer = prepared(tmp_path / str(number), cached)
        fast(consumer)
        if start:
            consumer.refresh(to=start)
        store.fail(Fault(kind, moment, call_number=number))
        try:
            consumer.refresh()
        except DeltaicError:
            assert consumer.version == start
        else:
            assert consumer.version == 3
        if consumer.version is not None:
            assert watermarks(consumer.state) == {consumer.version}
        store.fail()
        consumer.refresh()
        assert consumer.version == 3 and watermarks(consumer.state) == {3}
        assert consumer.status().healthy


@pytest.mark.parametrize("cached", CACHED, ids=["cached", "uncached"])
@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT)
def test_every_call_fails_from_one_on_and_later_none(tmp_path, cached, kind, moment):
    for number in range(1, calls_of(tmp_path / "count", cached, 1) + 1):
        store, consumer = prepared(tmp_path / str(number), cached)
        fast(consumer).refresh(to=1)
        store.fail(Fault(kind, moment, call_number=number, from_then_on=True))
        for _ in range(2):
            with pytest.raises(DeltaicError):
                consumer.refresh()
            assert consumer.version == 1 and watermarks(consumer.state) == {1}
        assert consumer.status().last_error is not None
        assert consumer.status().failed_transitions == (), "a failing store is no failed blob"
        store.fail()
        assert consumer.refresh().to_version == 3 and watermarks(consumer.state) == {3}


@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT)
def test_each_call_fails_once_on_the_way_through_versions_that_left_the_list(tmp_path, kind, moment):
    store, consumer = prepared(tmp_path, False, versions=70)
    fast(consumer).refresh(to=70)
    store.fail()
    consumer._refresher._router._etag = ""
    consumer.refresh(to=5)
    calls = len(store.calls)
    assert calls > 8 and any(key == "artifacts-5.json" for _, key in store.calls)
    for number in range(1, calls + 1):
        store.fail(Fault(kind, moment, call_number=number))
        goal = 70 if consumer.version == 5 else 5
        consumer._refresher._router._etag = ""
        try:
            consumer.refresh(to=goal)
        except DeltaicError:
            store.fail()
            consumer.refresh(to=goal)
        assert consumer.version == goal and watermarks(consumer.state) == {goal}
