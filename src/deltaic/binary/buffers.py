"""Memory for packed arrays: one place that takes it, and takes it again.

Memory that was never touched costs several times the copy into it, so a large buffer whose last user let go is kept
for the next state: as much as is in use, up to `RECYCLED_LIMIT_BYTES`. Buffers that nobody took again for long go
first: a type that grew needs larger ones. Every array has `SLACK` zero bytes after its used part, because kernels load
8 bytes at any element.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

SLACK = 16
"""Zero bytes after the last used byte of a packed array."""

RECYCLED_LIMIT_BYTES = 256 << 20
"""How much memory without a user is kept for the next state, at most."""

RECYCLED_FLOOR_BYTES = 32 << 20
"""How much of it is kept even if less than that is in use."""

_SMALLEST_BYTES = 256 << 10
_STEP_BYTES = 64 << 10
_GROWTH_PARTS = 64


class Recycler:
    """Keeps buffers that nobody uses any more and hands them out again."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        # A buffer comes back whenever Python drops its last reference; appending needs no lock.
        self._returned: deque[Bytes] = deque()
        self._kept: list[Bytes] = []
        self._lent_bytes = 0
        self._lock = threading.Lock()

    @property
    def kept_bytes(self) -> int:
        """Memory that waits for its next use."""
        with self._lock:
            self._collect()
            return sum(memory.nbytes for memory in self._kept)

    def take(self, size_bytes: int) -> Bytes:
        """At least `size_bytes` of memory with any content; it comes back by itself."""
        with self._lock:
            self._collect()
            fitting = [memory for memory in self._kept if size_bytes <= memory.nbytes <= size_bytes * 5 // 4]
            memory = min(fitting, key=lambda one: one.nbytes, default=None)
            if memory is not None:
                self._kept = [one for one in self._kept if one is not memory]
        if memory is None:
            # A little room to grow, so that the next version of the same type fits into the same memory.
            size_bytes += size_bytes // _GROWTH_PARTS
            memory = np.empty(-(-size_bytes // _STEP_BYTES) * _STEP_BYTES, np.uint8)
        with self._lock:
            self._lent_bytes += memory.nbytes
        array: Bytes = np.asarray(_Lent(memory, self))
        return array

    def give_back(self, memory: Bytes) -> None:
        """Take a buffer whose last user let go. Never waits: Python may call this anywhere, even inside of `take`."""
        self._returned.append(memory)
        if self._lock.acquire(blocking=False):
            try:
                self._collect()
            finally:
                self._lock.release()

    def after_fork(self) -> None:
        """Make it usable in a child: another thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Give all kept memory back to the system."""
        with self._lock:
            self._collect()
            self._kept = []

    def _collect(self) -> None:
        while self._returned:
            memory = self._returned.popleft()
            self._lent_bytes -= memory.nbytes
            self._kept.append(memory)
        total = sum(memory.nbytes for memory in self._kept)
        limit = min(self.limit_bytes, max(self._lent_bytes, RECYCLED_FLOOR_BYTES))
        while total > limit:
            total -= self._kept.pop(0).nbytes


class _Lent:
    """Memory in use: the base of every array over it. When the last one goes, so does this, and the memory comes
    back.
    """

    __slots__ = ("_memory", "_recycler")

    def __init__(self, memory: Bytes, recycler: Recycler) -> None:
        self._memory = memory
        self._recycler = recycler

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._memory.__array_interface__

    def __del__(self) -> None:
        self._recycler.give_back(self._memory)


RECYCLER = Recycler(RECYCLED_LIMIT_BYTES)
"""The recycler of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=RECYCLER.after_fork)

_elsewhere: ContextVar[Callable[[int], Bytes] | None] = ContextVar("deltaic_allocator", default=None)


@contextmanager
def allocating(allocate: Callable[[int], Bytes]) -> Iterator[None]:
    """Take large buffers from `allocate(size_bytes)` inside the block, which gives memory with any content: a shared
    arena's.
    """
    token = _elsewhere.set(allocate)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def zeros(used_bytes: int) -> Bytes:
    """A zeroed array of `used_bytes` plus slack, a whole number of words."""
    size = _rounded(used_bytes)
    if size < _SMALLEST_BYTES:
        return np.zeros(size, np.uint8)
    array = _take(size)
    array[:] = 0
    return array


def empty(used_bytes: int) -> Bytes:
    """An array of `used_bytes`, with any content, plus zeroed slack."""
    size = _rounded(used_bytes)
    array = np.empty(size, np.uint8) if size < _SMALLEST_BYTES else _take(size)
    array[used_bytes:] = 0
    return array


def _take(size: int) -> Bytes:
    elsewhere = _elsewhere.get()
    return RECYCLER.take(size)[:size] if elsewhere is None else elsewhere(size)


def _rounded(used_bytes: int) -> int:
    return (used_bytes + SLACK + 7) & ~7
