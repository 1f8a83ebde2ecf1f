"""The thread that refreshes in the background. It exists between start and stop, and never in a forked child."""

import logging
import threading
from collections.abc import Callable

from deltaic.storage.local import LocalStore
from deltaic.storage.notify import FolderNotice
from deltaic.storage.store import Store
from deltaic.storage.watch import EventWaiter, Waiter

log = logging.getLogger("deltaic.consumer")


class BackgroundLoop:
    """Calls a function again and again; it says how long to wait until the next time.

    Args:
        look: does one round and gives the seconds until the next.
        store: where a local folder's changes end the wait early.
    """

    def __init__(self, look: Callable[[], float], store: Store) -> None:
        self._look = look
        self._stopped = threading.Event()
        notice = FolderNotice.of(store.folder) if isinstance(store, LocalStore) else None
        self._waiter: Waiter = notice or EventWaiter()
        self._mutex = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="deltaic-consumer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def request_stop(self) -> None:
        """End after the round that runs, without waiting for it."""
        self._stopped.set()
        self.wake()

    def stop(self, timeout_seconds: float) -> bool:
        """End after the round that runs; False if it did not end in time. From any thread, the own one included."""
        self.request_stop()
        if self._thread is threading.current_thread():
            return True
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def wake(self) -> None:
        """Begin the next round now."""
        with self._mutex:
            if not self._closed:
                self._waiter.wake()

    def forget(self) -> None:
        """Give back what a forked child inherited of a loop that runs in its parent only."""
        self._stopped.set()
        self._closed = True
        self._waiter.close()

    @property
    def stopping(self) -> bool:
        """True once it was told to stop."""
        return self._stopped.is_set()

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    def runs_here(self) -> bool:
        """True on the loop's own thread."""
        return self._thread is threading.current_thread()

    def pause(self, seconds: float) -> None:
        """Sleep, but not past a stop."""
        self._stopped.wait(seconds)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                try:
                    wait_seconds = self._look()
                except Exception:
                    # A round answers for its own errors; what arrives here is a fault, and no reason to go blind.
                    log.exception("a round in the background failed")
                    wait_seconds = 1.0
                if not self._stopped.is_set():
                    self._waiter.wait(wait_seconds)
        finally:
            with self._mutex:
                self._closed = True
                self._waiter.close()
