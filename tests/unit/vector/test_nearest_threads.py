"""Products on several threads: the same answer, also in a forked child."""

import os
import threading

import numpy as np
import pytest

from deltaic.state.vector_column import CHUNK_ROWS, StoredVectors
from deltaic.vector.nearest import nearest
from deltaic.vector.threads import in_parallel, thread_count


def column():
    rows = np.random.default_rng(1).standard_normal((5 * CHUNK_ROWS, 6), dtype=np.float32)
    return StoredVectors.of(6, np.arange(len(rows)), rows)


def test_the_answer_does_not_depend_on_the_number_of_threads(monkeypatch):
    vectors, answers = column(), set()
    for threads in ("1", "2", "5", "64"):
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
        found = nearest(vectors, np.ones(6), 9)
        answers.add((found.ordinals.tobytes(), found.scores.tobytes()))
    assert len(answers) == 1


def test_settings_of_the_blas_hold_and_nonsense_does_not(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    assert thread_count() == 3
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1000")
    assert thread_count() == 8
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "many")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert thread_count() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "0")
    assert 1 <= thread_count() <= 8


def test_every_item_is_done_once_and_a_failure_is_told(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    done, lock = [], threading.Lock()

    def work(item):
        with lock:
            done.append(item)

    in_parallel(work, range(101))
    assert sorted(done) == list(range(101))

    def fail(item):
        if item == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        in_parallel(fail, range(8))


def test_many_threads_may_search_at_once():
    vectors, wrong = column(), []
    expected = nearest(vectors, np.ones(6), 5).ordinals.tolist()

    def search():
        for _ in range(5):
            if nearest(vectors, np.ones(6), 5).ordinals.tolist() != expected:
                wrong.append(1)

    threads = [threading.Thread(target=search) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_searches_on_threads_of_its_own(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    vectors = column()
    expected = nearest(vectors, np.ones(6), 5).ordinals.tolist()
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if nearest(vectors, np.ones(6), 5).ordinals.tolist() == expected else 3)
        finally:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
