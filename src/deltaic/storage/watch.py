"""Noticing a new announcement: conditional reads once per second, with jitter, and a kernel notice for local folders.

A watcher survives a failing store: it waits longer after each failure (up to 30 s), logs the first failure of a row and
the recovery, and goes on. Use it as an iterator, with a callback on a thread of its own, or with asyncio:

    for announcement in Watcher(announcements): ...
    with Watcher(announcements).started(callback): ...
    async for announcement in Watcher(announcements).changes(): ...

A watcher's thread does not survive a fork: start it in the process that uses it.
"""

import logging
import random as random_module
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from deltaic.errors import DeltaicError, InputError, NotFoundError
from deltaic.storage.announcement import Announcement, Announcements
from deltaic.storage.local import LocalStore
from deltaic.storage.notify import FolderNotice

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("deltaic.storage")

MAX_DELAY_SECONDS = 30.0
"""The longest wait between two tries at a failing store."""


class Waiter(Protocol):
    """How a watcher waits; a test gives its own clock here."""

    def wait(self, timeout_seconds: float) -> bool:
        """Wait so long, or less; True if woken."""
        ...

    def wake(self) -> None:
        """End the wait."""
        ...

    def close(self) -> None:
        """Nobody will wait again."""
        ...


class EventWaiter:
    """Waits by the clock of the system."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def wait(self, timeout_seconds: float) -> bool:
        """Wait so long, or less; True if woken."""
        woken = self._event.wait(timeout_seconds)
        self._event.clear()
        return woken

    def wake(self) -> None:
        """End the wait."""
        self._event.set()

    def close(self) -> None:
        """Nothing to give back."""


class Watcher:
    """Follows the announcements of one chain and tells of each change.

    Args:
        announcements: what to follow.
        interval_seconds: how often to look; with a kernel notice changes come at once and this is the safety net.
        jitter: the share of the interval by which each wait is varied, so that a fleet does not ask in step.
        notify: use the kernel's notice where the store is a local folder.
        random: the source of the jitter.
        waiter: how to wait.
    """

    def __init__(
        self,
        announcements: Announcements,
        *,
        interval_seconds: float = 1.0,
        jitter: float = 0.2,
        notify: bool = True,
        random: random_module.Random | None = None,
        waiter: Waiter | None = None,
    ) -> None:
        if interval_seconds <= 0 or not 0 <= jitter < 1:
            raise InputError("a watcher needs a positive interval and a jitter from 0 to less than 1")
        self._announcements = announcements
        self._interval_seconds, self._jitter = interval_seconds, jitter
        self._notify = notify
        self._random = random or random_module.Random()
        self._given_waiter = waiter
        self._waiter: Waiter | None = None
        self._stopped = threading.Event()
        self._etag: str | None = None
        self.failures = 0
        """Failed looks in a row."""
        self.last: Announcement | None = None
        """The newest announcement seen."""

    def poll(self) -> Announcement | None:
        """Look once: the announcement if it changed since the last look, else None, also if the store fails."""
        try:
            found = self._announcements.read_if_changed(self._etag)
        except NotFoundError:
            found = None  # nothing announced yet
        except (DeltaicError, OSError) as error:
            self.failures += 1
            if self.failures == 1:
                log.warning("cannot look at the announcement of %s: %s", self._announcements.store.url, error)
            return None
        if self.failures:
            log.info("the announcement of %s is seen again", self._announcements.store.url)
            self.failures = 0
        if found is not None:
            self._etag, self.last = found.etag, found
        return found

    def delay_seconds(self) -> float:
        """How long to wait before the next look."""
        grown = self._interval_seconds * 2 ** min(self.failures, 16)
        base = min(grown, max(MAX_DELAY_SECONDS, self._interval_seconds)) if self.failures else self._interval_seconds
        return base * (1 + self._jitter * (2 * self._random.random() - 1))

    def __iter__(self) -> Iterator[Announcement]:
        """Every announcement, the present one first, until `stop`."""
        try:
            while not self._stopped.is_set():
                # The notice is there before the look, so that no change falls between them.
                waiter = self._ready_waiter()
                found = self.poll()
                if found is not None:
                    yield found
                elif not self._stopped.is_set():
                    waiter.wait(self.delay_seconds())
        finally:
            self._close_waiter()

    @contextmanager
    def started(self, callback: Callable[[Announcement], None]) -> Iterator["Watcher"]:
        """Call back on a thread of the watcher's own for each change, until the block ends.

        What the callback raises is logged, and the watcher goes on.
        """
        thread = threading.Thread(target=self._run, args=(callback,), name="deltaic-watcher", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.stop()
            if thread is not threading.current_thread():
                thread.join()

    async def changes(self) -> AsyncIterator[Announcement]:
        """Every announcement, the present one first, until `stop` or cancellation; reads run on a thread."""
        import asyncio

        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        notice = self._notice()
        if notice is not None:

            def told() -> None:
                notice.drain()
                changed.set()

            loop.add_reader(notice.fileno(), told)
        try:
            while not self._stopped.is_set():
                changed.clear()
                found = await asyncio.to_thread(self.poll)
                if found is not None:
                    yield found
                    continue
                await self._sleep(changed)
        finally:
            if notice is not None:
                loop.remove_reader(notice.fileno())
                notice.close()

    def stop(self) -> None:
        """End every loop of this watcher; from any thread, at once."""
        self._stopped.set()
        waiter = self._waiter
        if waiter is not None:
            waiter.wake()

    def _run(self, callback: Callable[[Announcement], None]) -> None:
        for announcement in self:
            try:
                callback(announcement)
            except Exception:
                log.exception("a callback for announcements failed")

    async def _sleep(self, changed: "asyncio.Event") -> None:
        import asyncio

        # In short naps, because stop() may come from a thread that knows no event loop.
        left = self.delay_seconds()
        while left > 0 and not self._stopped.is_set() and not changed.is_set():
            nap = min(left, 0.1)
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), nap)
            left -= nap

    def _notice(self) -> FolderNotice | None:
        store = self._announcements.store
        return FolderNotice.of(store.folder) if self._notify and isinstance(store, LocalStore) else None

    def _ready_waiter(self) -> Waiter:
        if self._waiter is None:
            self._waiter = self._given_waiter or self._notice() or EventWaiter()
            if self._stopped.is_set():
                self._waiter.wake()
        return self._waiter

    def _close_waiter(self) -> None:
        if self._waiter is not None and self._waiter is not self._given_waiter:
            waiter, self._waiter = self._waiter, None
            waiter.close()
