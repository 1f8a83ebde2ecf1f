"""Following in the background: prompt to start, to stop, to obey, in forked and in spawned processes."""

import asyncio
import multiprocessing
import os
import pickle
import threading
import time

import pytest

from deltaic.consumer import Consumer, RefreshListener
from deltaic.errors import InputError, NotFoundError
from deltaic.storage import LocalStore, open_store
from deltaic.testing.faulty_store import Fault, FaultKind, FaultyStore
from tests.unit.consumer.small_chain import SmallChain, titles, watermarks

POLL = 0.05


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "chain")


@pytest.fixture
def chain(store):
    return SmallChain(store)


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "deltaic-consumer"]


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def test_there_is_no_thread_before_start_and_none_after_stop(chain):
    chain.publish()
    consumer = Consumer(chain.store)
    consumer.refresh()
    assert threads() == []
    consumer.start()
    assert len(threads()) == 1 and consumer.running and consumer.status().running
    assert consumer.stop() and threads() == [] and not consumer.running
    assert consumer.version == 1


def test_starting_twice_is_starting_once_and_it_can_be_started_again(chain):
    chain.publish()
    with Consumer(chain.store, poll_seconds=POLL) as consumer:
        consumer.start()
        assert len(threads()) == 1
        consumer.stop()
        consumer.stop()
        chain.publish()
        consumer.start()
        assert consumer.wait_for(2, 10)
    assert threads() == []


def test_a_new_version_is_seen_within_moments_of_a_local_announcement(chain):
    chain.publish()
    with Consumer(chain.store, poll_seconds=30) as consumer:
        time.sleep(0.1)
        chain.publish()
        started = time.monotonic()
        assert consumer.wait_for(2, 10) and time.monotonic() - started < 2


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_a_pin_and_its_end_take_effect_within_two_polls(kind, tmp_path):
    store = LocalStore(tmp_path) if kind == "local" else open_store("memory:")
    chain = SmallChain(store)
    for _ in range(5):
        chain.publish()
    poll = 0.3
    with Consumer(store, poll_seconds=poll) as consumer:
        for change, version in (
            (lambda: chain.announcements.pin(2), 2),
            (lambda: chain.announcements.unpin(), 5),
            (lambda: consumer.pin_locally(3), 3),
            (lambda: consumer.unpin_locally(), 5),
        ):
            change()
            started = time.monotonic()
            assert consumer.wait_for(version, 10, exact=True)
            assert time.monotonic() - started < 2 * poll * 1.2 + 0.5
            assert watermarks(consumer.state) == {version}


def test_stop_is_prompt_while_it_waits_for_the_next_look(chain):
    chain.publish()
    consumer = Consumer(open_store("memory:"), poll_seconds=60)
    consumer.start(load=False)
    time.sleep(0.05)
    started = time.monotonic()
    assert consumer.stop() and time.monotonic() - started < 1


def test_stop_is_prompt_while_the_store_fails(chain):
    chain.publish()
    store = FaultyStore(chain.store, [Fault(FaultKind.TIMEOUT, from_then_on=True)])
    consumer = Consumer(store, poll_seconds=5)
    consumer.start(load=False)
    time.sleep(0.2)
    started = time.monotonic()
    assert consumer.stop() and time.monotonic() - started < 1


def test_stop_does_not_wait_for_a_reader_that_holds(chain):
    chain.publish()
    consumer = Consumer(chain.store, poll_seconds=POLL).start()
    with consumer.hold() as state:
        chain.publish()
        time.sleep(0.3)
        assert consumer.version == 1
        started = time.monotonic()
        assert consumer.stop() and time.monotonic() - started < 1
        assert watermarks(state) == {1}
    assert consumer.version == 1


def test_stop_from_a_listener_does_not_wait_for_itself(chain):
    class Stopper(RefreshListener):
        def after(self, refresh, changes):
            if refresh.to_version == 2:
                consumer.stop()

    chain.publish()
    consumer = Consumer(chain.store, listeners=[Stopper()], poll_seconds=POLL).start()
    chain.publish()
    wait_until(lambda: consumer.version == 2 and not consumer.running)


def test_it_starts_before_anything_is_announced(chain):
    with pytest.raises(NotFoundError):
        Consumer(chain.store).start()
    consumer = Consumer(chain.store, poll_seconds=POLL).start(load=False)
    try:
        assert consumer.version is None
        chain.publish()
        assert consumer.wait_for(1, 10)
    finally:
        consumer.stop()


def test_a_store_that_fails_for_a_while_is_survived(chain):
    chain.publish()
    store = FaultyStore(chain.store)
    with Consumer(store, poll_seconds=POLL, cache_dir=False) as consumer:
        store.fail(Fault(FaultKind.TIMEOUT, from_then_on=True))
        chain.publish()
        wait_until(lambda: consumer.status().failures_in_a_row > 0)
        assert consumer.version == 1 and not consumer.status().healthy
        store.fail()
        assert consumer.wait_for(2, 30)
        wait_until(lambda: consumer.status().healthy)


def test_a_blob_that_comes_late_is_found_without_a_new_announcement(chain):
    chain.publish()
    now = [1000.0]
    with Consumer(chain.store, poll_seconds=POLL, clock=lambda: now[0]) as consumer:
        chain.publish(snapshot=False, announce=False)
        chain.store.delete("delta-1-2")
        from deltaic.storage import Artifact, checksum

        data = chain.blobs["delta-1-2"]
        chain.announce(2, [Artifact("delta", "delta-1-2", len(data), checksum(data), 1, 2)])
        wait_until(lambda: consumer.status().stuck is not None)
        chain.store.put("delta-1-2", data)
        time.sleep(0.3)
        assert consumer.version == 1
        now[0] += 100
        assert consumer.wait_for(2, 10)


def test_waiting_for_a_version_without_a_background_refreshes(chain):
    chain.publish()
    consumer = Consumer(chain.store, poll_seconds=POLL)
    assert consumer.wait_for(1, 10)
    assert not consumer.wait_for(2, 0.2)
    threading.Timer(0.2, chain.publish).start()
    assert consumer.wait_for(2, 10)


class TestHold:
    def test_the_version_stays_for_everybody_until_the_last_holder_is_done(self, chain):
        chain.publish()
        consumer = Consumer(chain.store, poll_seconds=POLL).start()
        try:
            with consumer.hold() as first:
                with consumer.hold() as second:
                    assert first is second
                    chain.publish()
                    time.sleep(0.3)
                    assert consumer.version == 1
                assert consumer.version == 1
            assert consumer.wait_for(2, 10)
        finally:
            consumer.stop()

    def test_a_refresh_inside_of_a_hold_is_refused_and_not_waited_for_ever(self, chain):
        chain.publish()
        consumer = Consumer(chain.store)
        consumer.refresh()
        with consumer.hold(), pytest.raises(InputError, match="holds"):
            consumer.refresh()
        assert not consumer.refresh().changed

    def test_a_stream_of_short_holds_does_not_keep_a_consumer_back(self, chain):
        chain.publish()
        consumer = Consumer(chain.store)
        consumer.refresh()
        done = threading.Event()

        def reader():
            while not done.is_set():
                with consumer.hold():
                    time.sleep(0.01)

        readers = [threading.Thread(target=reader) for _ in range(4)]
        for one in readers:
            one.start()
        try:
            chain.publish()
            started = time.monotonic()
            assert consumer.refresh().to_version == 2
            assert time.monotonic() - started < 5
        finally:
            done.set()
            for one in readers:
                one.join()

    def test_nothing_can_be_held_before_the_first_version_and_the_lock_is_free_again(self, chain):
        consumer = Consumer(chain.store)
        with pytest.raises(NotFoundError), consumer.hold():
            pass
        chain.publish()
        assert consumer.refresh().to_version == 1


class TestAsyncio:
    def test_the_event_loop_goes_on_while_it_refreshes(self, chain):
        async def main():
            chain.publish()
            consumer = Consumer(chain.store)
            refresh = await consumer.arefresh()
            chain.publish()
            again = await consumer.arefresh(to=1)
            return refresh.to_version, again.to_version

        assert asyncio.run(main()) == (1, 1)

    def test_versions_are_followed_as_they_come(self, chain):
        async def main():
            consumer = Consumer(chain.store, poll_seconds=POLL)
            chain.publish()
            seen = []
            async for version in consumer.follow():
                seen.append(version)
                if version == 3:
                    break
                await asyncio.to_thread(chain.publish)
            return seen, consumer

        seen, consumer = asyncio.run(main())
        assert seen == [1, 2, 3]
        wait_until(lambda: not consumer.running)

    def test_following_ends_when_the_consumer_is_stopped(self, chain):
        async def main():
            chain.publish()
            consumer = Consumer(chain.store, poll_seconds=POLL).start()
            async for _ in consumer.follow():
                await asyncio.to_thread(consumer.stop)

        asyncio.run(asyncio.wait_for(main(), 10))


def in_child(work):
    """Run in a forked child; what it returns is its exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    deadline = time.monotonic() + 10
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hung")
        time.sleep(0.01)


class TestFork:
    def test_a_child_reads_what_its_parent_loaded_and_follows_when_it_uses_it(self, chain):
        chain.publish()
        with Consumer(chain.store, poll_seconds=POLL) as consumer:

            def work():
                before = len(threads())
                read = titles(consumer.state)
                return 0 if before == 0 and consumer.running and read and consumer.wait_for(2, 8) else 1

            threading.Timer(0.3, chain.publish).start()
            assert in_child(work) == 0
            assert consumer.wait_for(2, 10) and consumer.running

    def test_a_child_that_does_not_use_it_gets_no_thread(self, chain):
        chain.publish()
        with Consumer(chain.store, poll_seconds=POLL):
            assert in_child(lambda: len(threads())) == 0

    def test_a_stopped_consumer_stays_stopped_in_a_child_and_can_be_refreshed(self, chain):
        chain.publish()
        consumer = Consumer(chain.store)
        consumer.refresh()
        chain.publish()

        def work():
            return 0 if consumer.refresh().to_version == 2 and not consumer.running else 1

        assert in_child(work) == 0 and consumer.version == 1

    def test_forks_in_the_middle_of_refreshes_do_not_hang(self, chain):
        chain.publish()
        done = threading.Event()

        def publish():
            while not done.is_set():
                chain.publish()

        publisher = threading.Thread(target=publish)
        with Consumer(chain.store, poll_seconds=0.001) as consumer:
            publisher.start()
            try:
                for _ in range(20):

                    def work():
                        at = consumer.version
                        consumer.refresh()
                        return 0 if len(watermarks(consumer.state)) == 1 and consumer.version >= at else 1

                    assert in_child(work) == 0
            finally:
                done.set()
                publisher.join()

    def test_a_fork_while_someone_holds_leaves_the_child_free(self, chain):
        chain.publish()
        consumer = Consumer(chain.store)
        consumer.refresh()
        inside, leave = threading.Event(), threading.Event()

        def hold():
            with consumer.hold():
                inside.set()
                leave.wait(10)

        holder = threading.Thread(target=hold)
        holder.start()
        inside.wait(10)
        chain.publish()
        try:
            assert in_child(lambda: 0 if consumer.refresh().to_version == 2 else 1) == 0
        finally:
            leave.set()
            holder.join()


def spawned(consumer, answers):
    refresh = consumer.refresh()
    answers.put((refresh.to_version, titles(consumer.state), consumer.running))


def test_a_spawned_process_opens_its_own(chain):
    chain.publish({1: "one"})
    with Consumer(chain.store, cached_types=["Country"], poll_seconds=POLL) as consumer:
        context = multiprocessing.get_context("spawn")
        answers = context.Queue()
        process = context.Process(target=spawned, args=(consumer, answers))
        process.start()
        assert answers.get(timeout=60) == (1, {1: "one"}, False)
        process.join(10)


def test_a_pickled_consumer_carries_its_settings_and_no_records(chain):
    chain.publish({1: "secret title"})
    consumer = Consumer(chain.store, channel="canary", max_deltas=7, poll_seconds=3)
    consumer.refresh()
    data = pickle.dumps(consumer)
    assert b"secret title" not in data
    copy = pickle.loads(data)
    assert copy.version is None and copy.poll_seconds == 3
    assert copy.refresh().to_version == 1
