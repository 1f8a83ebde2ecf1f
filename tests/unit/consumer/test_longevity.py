"""Replaced states: alive by default, and given periods and an end where that is asked for."""

import gc
import weakref

import pytest

from deltaic.consumer import Consumer, Longevity
from deltaic.errors import InputError, NotFoundError
from deltaic.storage import open_store
from tests.unit.consumer.small_chain import SmallChain, titles


@pytest.fixture
def chain():
    return SmallChain(open_store("memory:"))


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def replaced(chain, consumer):
    """A state of the consumer that a newer one replaced."""
    chain.publish({1: "one"})
    consumer.refresh()
    state = consumer.state
    chain.publish({1: "two"})
    consumer.refresh()
    return state


def test_by_default_a_state_lives_as_long_as_someone_holds_it(chain, clock):
    consumer = Consumer(chain.store, clock=clock)
    state = replaced(chain, consumer)
    clock.now += 1e9
    [held] = consumer.held_states()
    assert (held.version, held.phase) == (1, "held") and consumer.status().states_held == 1
    read, gone = titles(state), weakref.ref(state)
    del state
    gc.collect()  # publishing leaves frames behind that hold what their callers had
    assert read == {1: "one"} and gone() is None and consumer.held_states() == ()


def test_a_state_passes_from_grace_to_detection_to_its_end(chain, clock):
    consumer = Consumer(chain.store, clock=clock, longevity=Longevity(grace_seconds=10, detection_seconds=10))
    state = replaced(chain, consumer)
    assert titles(state) == {1: "one"}
    assert [held.phase for held in consumer.held_states()] == ["grace"]
    clock.now += 11
    assert [held.phase for held in consumer.held_states()] == ["detection"]
    clock.now += 10
    assert [held.phase for held in consumer.held_states()] == ["dropped"]
    for read in (
        lambda: state["Movie"],
        lambda: state.types,
        lambda: state.nbytes,
        lambda: state.checksum(),
        lambda: len(state),
    ):
        with pytest.raises(NotFoundError, match="version 1 was dropped"):
            read()
    assert titles(consumer.state) == {1: "two"}


def test_a_drop_takes_the_memory_although_state_and_view_are_held(chain, clock):
    consumer = Consumer(chain.store, clock=clock, longevity=Longevity(0, 0))
    chain.publish({1: "one"})
    consumer.refresh()
    state, view = consumer.state, consumer["Movie"].view
    _ = view[0].title
    arrays = [weakref.ref(shard.records) for shard in view.data.shards]
    inner = weakref.ref(state._inner)
    chain.publish({1: "two"})
    consumer.refresh()
    consumer.held_states()
    gc.collect()
    assert inner() is None and all(array() is None for array in arrays)
    for read in (
        lambda: view[0],
        lambda: list(view),
        lambda: view.column("id"),
        lambda: view.populated,
        lambda: len(view),
    ):
        with pytest.raises(NotFoundError, match="dropped"):
            read()
    assert "dropped" not in repr(consumer)


def test_a_record_that_was_handed_out_stays_readable_after_a_drop(chain, clock):
    consumer = Consumer(chain.store, clock=clock, longevity=Longevity(0, 0))
    chain.publish({1: "one"})
    consumer.refresh()
    movie = consumer["Movie"][1]
    chain.publish({1: "two"})
    consumer.refresh()
    assert movie.title == "one"


def test_a_state_that_is_still_used_is_kept_and_told_of(chain, clock, caplog):
    settings = Longevity(grace_seconds=10, detection_seconds=10, stack_traces=True)
    consumer = Consumer(chain.store, clock=clock, longevity=settings)
    state = replaced(chain, consumer)
    clock.now += 11
    consumer.held_states()
    assert "still used" not in caplog.text
    view = state["Movie"]
    assert view[0].title == "one"
    assert "version 1 is still used" in caplog.text and "test_longevity" in caplog.text
    clock.now += 100
    [held] = consumer.held_states()
    assert held.phase == "expired" and held.uses >= 2 and titles(state) == {1: "one"}


def test_a_forced_drop_takes_a_state_that_is_still_used(chain, clock):
    consumer = Consumer(chain.store, clock=clock, longevity=Longevity(10, 10, force_drop=True))
    state = replaced(chain, consumer)
    clock.now += 11
    consumer.held_states()
    rows = iter(state["Movie"])
    clock.now += 11
    consumer.held_states()
    with pytest.raises(NotFoundError):
        next(rows)


def test_without_drop_a_state_is_only_watched(chain, clock):
    consumer = Consumer(chain.store, clock=clock, longevity=Longevity(0, 0, drop=False))
    state = replaced(chain, consumer)
    assert [held.phase for held in consumer.held_states()] == ["expired"] and titles(state) == {1: "one"}


def test_settings_are_changed_while_it_runs(chain, clock):
    consumer = Consumer(chain.store, clock=clock)
    chain.publish({1: "one"})
    consumer.refresh()
    plain = consumer.state
    consumer.longevity = Longevity(5, 5)
    guarded = consumer.state
    assert guarded is not plain and titles(guarded) == {1: "one"}
    chain.publish({1: "two"})
    consumer.refresh()
    clock.now += 11
    consumer.held_states()
    with pytest.raises(NotFoundError):
        titles(guarded)
    assert titles(plain) == {1: "one"}
    consumer.longevity = Longevity(1e6, 0)
    newer = consumer.state
    chain.publish({1: "three"})
    consumer.refresh()
    clock.now += 1000
    consumer.held_states()
    assert titles(newer) == {1: "two"}
    consumer.longevity = None
    chain.publish({1: "four"})
    consumer.refresh()
    assert type(consumer.state).__name__ == "ReadState"


def test_the_current_state_is_never_dropped(chain, clock):
    consumer = Consumer(chain.store, clock=clock, longevity=Longevity(0, 0, force_drop=True))
    chain.publish({1: "one"})
    consumer.refresh()
    clock.now += 1e9
    consumer.held_states()
    assert titles(consumer.state) == {1: "one"}
    chain.publish({1: "two"})
    assert consumer.refresh().changes["Movie"].before.column("id").to_pylist() == [1]


def test_negative_periods_are_refused():
    with pytest.raises(InputError):
        Longevity(grace_seconds=-1)
