"""A cycle on a store whose n-th call fails, before or after it had its effect."""

from collections.abc import Callable

import pytest

from deltaic.errors import CommitUnknownError, DeltaicError
from deltaic.producer import Producer
from deltaic.storage.urls import open_store
from deltaic.testing.faulty_store import EVERY_FAULT, Fault, FaultKind, FaultyStore, Moment
from tests.unit.producer.catalogue import check_chain, content_of, movie, movies, producer_of, read

FIRST = movies(1, 2, 3)
SECOND = [movie(1), movie(2, "changed"), movie(4)]
THIRD = [movie(1), movie(5)]


def full(producer: Producer) -> None:
    producer.publish(SECOND)


def incremental(producer: Producer) -> None:
    with producer.incremental() as changes:
        changes.add_or_modify([movie(2, "changed"), movie(4)])
        changes.delete("Movie", 3)


WAYS: dict[str, Callable[[Producer], None]] = {"full": full, "incremental": incremental}

CASES = [
    *(("full", kind, moment) for kind, moment in EVERY_FAULT),
    ("incremental", FaultKind.IO_ERROR, Moment.BEFORE),
    ("incremental", FaultKind.TIMEOUT, Moment.AFTER),
]


def calls_of(way: str) -> int:
    """How many store calls an undisturbed second cycle makes."""
    store = FaultyStore(open_store("memory:"))
    producer = producer_of(store)
    producer.publish(FIRST)
    before = len(store.calls)
    WAYS[way](producer)
    return len(store.calls) - before


@pytest.mark.parametrize(("way", "kind", "moment"), CASES)
def test_each_store_call_failing_once_leaves_the_old_or_the_new_version(
    way: str, kind: FaultKind, moment: Moment
) -> None:
    calls = calls_of(way)
    assert calls > 15
    outcomes = set()
    for number in range(1, calls + 1):
        store = FaultyStore(open_store("memory:"))
        producer = producer_of(store)
        producer.publish(FIRST)
        store.fail(Fault(kind, moment, number))
        try:
            WAYS[way](producer)
            outcome: type[BaseException] | None = None
        except DeltaicError as error:
            outcome = type(error)
        store.fail()
        version, seen = read(store)
        if outcome is None:
            assert (version, seen) == (2, content_of(SECOND)), f"call {number}"
        elif outcome is CommitUnknownError:
            assert (version, seen) in ((1, content_of(FIRST)), (2, content_of(SECOND)))
        else:
            assert (version, seen) == (1, content_of(FIRST)), f"call {number}: {outcome}"
        outcomes.add(outcome)
        # The same producer goes on as if nothing had been.
        cycle = producer.publish(THIRD)
        assert cycle.from_version == version
        assert read(store) == (cycle.version, content_of(THIRD))
        check_chain(store)
    assert None in outcomes or moment is Moment.BEFORE
    assert len(outcomes) > 1


@pytest.mark.parametrize(("kind", "moment"), [(FaultKind.IO_ERROR, Moment.BEFORE), (FaultKind.TIMEOUT, Moment.AFTER)])
def test_the_store_going_away_in_the_middle_leaves_work_for_the_next_producer(kind: FaultKind, moment: Moment) -> None:
    now = 1_000_000.0
    for number in range(1, calls_of("full") + 1):
        store = FaultyStore(open_store("memory:"))
        producer = producer_of(store, clock=lambda: now)
        producer.publish(FIRST)
        store.fail(Fault(kind, moment, number, from_then_on=True))
        failed = False
        try:
            producer.publish(SECOND)
        except DeltaicError:
            failed = True
        store.fail()
        version, seen = read(store)
        assert (version, seen) in ((1, content_of(FIRST)), (2, content_of(SECOND)))
        if not failed:
            assert version == 2
        successor = producer_of(store, clock=lambda: now + 3600)
        cycle = successor.publish(THIRD)
        assert cycle.from_version == version
        assert read(store) == (cycle.version, content_of(THIRD))
        check_chain(store)


@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT)
def test_the_first_cycle_ever_may_fail_at_any_call(kind: FaultKind, moment: Moment) -> None:
    counting = FaultyStore(open_store("memory:"))
    producer_of(counting).publish(FIRST)
    for number in range(1, len(counting.calls) + 1):
        store = FaultyStore(open_store("memory:"), [Fault(kind, moment, number)])
        producer = producer_of(store)
        try:
            producer.publish(FIRST)
            failed = False
        except DeltaicError:
            failed = True
        store.fail()
        version, seen = read(store)
        assert (version, seen) in ((None, {}), (1, content_of(FIRST)))
        assert failed or version == 1
        cycle = producer.publish(SECOND)
        assert read(store) == (cycle.version, content_of(SECOND))
        check_chain(store)
