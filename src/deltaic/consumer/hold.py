"""The refresh lock: while someone holds it, the consumer stays at its version.

Holders do not exclude each other. A refresh prepares the next state meanwhile and waits with the swap until the last
holder is done; who comes while a swap waits comes after it, so that a stream of short holds cannot keep a consumer
back for ever. A thread may hold twice.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class HoldGate:
    """Lets either holders or one swap in."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._holders: dict[int, int] = {}
        self._waiting = 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep swaps out of the block."""
        me = threading.get_ident()
        with self._condition:
            self._condition.wait_for(lambda: me in self._holders or not self._waiting)
            self._holders[me] = self._holders.get(me, 0) + 1
        try:
            yield
        finally:
            with self._condition:
                self._holders[me] -= 1
                if not self._holders[me]:
                    del self._holders[me]
                self._condition.notify_all()

    @contextmanager
    def swapping(self, cancelled: Callable[[], bool]) -> Iterator[bool]:
        """Wait for the holders, then keep new ones out of the block. Gives False if it was cancelled while waiting."""
        with self._condition:
            self._waiting += 1
            try:
                self._condition.wait_for(lambda: not self._holders or cancelled())
                yield not self._holders
            finally:
                self._waiting -= 1
                self._condition.notify_all()

    def wake(self) -> None:
        """Make a waiting swap look whether it was cancelled."""
        with self._condition:
            self._condition.notify_all()

    def held_here(self) -> bool:
        """True if this thread holds the lock: a refresh in it would wait for itself."""
        return threading.get_ident() in self._holders
