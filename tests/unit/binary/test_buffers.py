"""Memory for packed arrays: slack, reuse, other sources of memory, threads and forks."""

import gc
import os
import sys
import threading

import numpy as np
import pytest

from deltaic.binary import buffers
from deltaic.binary.buffers import SLACK, Recycler

LARGE = 1 << 20


@pytest.mark.parametrize("used", [0, 1, 7, 8, 1000, 300_000, LARGE])
def test_behind_the_used_bytes_there_are_zeros_to_the_end(used: int) -> None:
    for round in range(2):
        array = buffers.empty(used)
        assert len(array) >= used + SLACK and len(array) % 8 == 0, round
        assert not array[used:].any()
        array[:] = 255  # so that a second round would find it
        del array
        assert not buffers.zeros(used).any()


def test_a_large_buffer_is_used_again_when_its_last_view_is_gone() -> None:
    recycler = Recycler(64 << 20)
    array = recycler.take(LARGE)
    address = array.__array_interface__["data"][0]
    view = array[10:20].view(np.uint8)
    del array
    other = recycler.take(LARGE)
    assert other.__array_interface__["data"][0] != address
    del view
    assert recycler.take(LARGE).__array_interface__["data"][0] == address


def test_a_much_larger_buffer_is_not_wasted_on_a_small_need() -> None:
    recycler = Recycler(64 << 20)
    recycler.take(16 * LARGE)
    assert recycler.take(LARGE).nbytes < 2 * LARGE
    assert recycler.kept_bytes >= 16 * LARGE


def test_no_more_is_kept_than_the_limit() -> None:
    recycler = Recycler(4 * LARGE)
    taken = [recycler.take(LARGE) for _ in range(10)]
    assert recycler.kept_bytes == 0
    del taken
    assert 2 * LARGE <= recycler.kept_bytes <= 4 * LARGE
    recycler.clear()
    assert recycler.kept_bytes == 0


def test_no_more_is_kept_than_is_in_use_and_the_oldest_goes_first() -> None:
    recycler = Recycler(1 << 40)
    in_use = recycler.take(64 * LARGE)
    for size in range(60, 10, -1):  # each too large for the next one
        recycler.take(size * LARGE)
    assert 32 * LARGE <= recycler.kept_bytes <= in_use.nbytes
    kept = recycler.kept_bytes
    recycler.take(11 * LARGE)
    assert recycler.kept_bytes == kept, "the last ones were kept"


def test_what_is_beyond_the_limit_goes_when_it_comes_back_and_not_with_the_next_use() -> None:
    recycler = Recycler(1 << 20)
    array = recycler.take(64 * LARGE)
    memory = array.base._memory
    held = sys.getrefcount(memory)
    del array
    gc.collect()
    assert sys.getrefcount(memory) == held - 1, "nobody but this test holds it"


def test_buffers_from_elsewhere_are_cleared_where_they_must_be() -> None:
    asked = []

    def allocate(size_bytes: int) -> buffers.Bytes:
        asked.append(size_bytes)
        return np.full(size_bytes, 255, np.uint8)

    with buffers.allocating(allocate):
        assert not buffers.zeros(LARGE).any()
        array = buffers.empty(LARGE)
        assert array[LARGE - 1] == 255 and not array[LARGE:].any()
        buffers.empty(100)
    assert asked == [LARGE + SLACK] * 2, "small arrays do not come from elsewhere"
    buffers.zeros(LARGE)
    assert len(asked) == 2


def test_another_source_of_memory_is_for_its_own_thread() -> None:
    asked: list[int] = []

    def allocate(size_bytes: int) -> buffers.Bytes:
        asked.append(size_bytes)
        return np.zeros(size_bytes, np.uint8)

    with buffers.allocating(allocate):
        thread = threading.Thread(target=lambda: buffers.zeros(LARGE))
        thread.start()
        thread.join()
    assert asked == []


def test_threads_never_get_the_same_memory() -> None:
    recycler = Recycler(8 * LARGE)
    wrong: list[int] = []

    def work(mark: int) -> None:
        for _ in range(200):
            array = recycler.take(300_000)
            array[:64] = mark
            again = recycler.take(300_000)
            again[:64] = mark + 100
            if not (array[:64] == mark).all():
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_child_can_allocate_though_a_thread_of_its_parent_was_at_it() -> None:
    with buffers.RECYCLER._lock:
        forked: list[int] = []

        def fork() -> None:
            child = os.fork()
            if child == 0:
                gc.collect()
                buffers.zeros(LARGE)
                os._exit(0)
            forked.append(child)

        # From another thread: the child is that thread alone, and the lock belongs to one it does not have.
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
    _, status = os.waitpid(forked[0], 0)
    assert status == 0
