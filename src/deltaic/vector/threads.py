"""Threads for products: as many as the BLAS would take, made when they are first needed."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

Item = TypeVar("Item")

_MOST = 8
"""Products of one query wait for memory: more threads than this do not make it faster."""


def thread_count() -> int:
    """As many as processors that this process may use, or as the settings of OpenBLAS and OpenMP say; at most 8."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        told = os.environ.get(name, "")
        if told.isdecimal() and int(told) > 0:
            return min(_MOST, int(told))
    if hasattr(os, "sched_getaffinity"):
        return min(_MOST, len(os.sched_getaffinity(0)))
    return min(_MOST, os.cpu_count() or 1)


def in_parallel(work: Callable[[Item], None], items: Sequence[Item]) -> None:
    """Do the work for every item, a part of them on each thread; it must let go of the interpreter to gain anything."""
    threads = min(thread_count(), len(items))
    if threads <= 1:
        for item in items:
            work(item)
        return

    def some(number: int) -> None:
        for item in items[number::threads]:
            work(item)

    waiting = [_pool().submit(some, number) for number in range(1, threads)]
    try:
        some(0)
    finally:
        for one in waiting:
            one.result()


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST, "deltaic-products")


if hasattr(os, "register_at_fork"):
    # A child has none of the threads, and an executor does not notice.
    os.register_at_fork(after_in_child=_pool.cache_clear)
