"""Listeners: told of each refresh, before and after, and of failures.

They run on the thread that refreshes, one after the other, in the order they were given. What one raises is logged
and counted and changes nothing: the refresh goes on, the others are told too.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from deltaic.consumer.changes import Changes
from deltaic.consumer.report import Refresh, RefreshFailure

log = logging.getLogger("deltaic.consumer")


class RefreshListener(Protocol):
    """What a user may supply to be told of refreshes. Derive from it and write the methods that matter."""

    def before(self, from_version: int | None, to_version: int) -> None:
        """A refresh starts: this is where it wants to go. The state is still the old one."""
        return

    def after(self, refresh: Refresh, changes: Changes) -> None:
        """A refresh is done: the new state can be read by everybody."""
        return

    def failed(self, failure: RefreshFailure) -> None:
        """A refresh failed: the state is the old one."""
        return

    def stuck(self, version: int, wanted: int, reason: str) -> None:
        """The wanted version cannot be reached. Told once, not at every look."""
        return


class Listeners:
    """The listeners of a consumer."""

    def __init__(self, listeners: Iterable[RefreshListener] = ()) -> None:
        self._listeners = tuple(listeners)
        self.errors = 0
        """How often a listener raised."""

    def add(self, listener: RefreshListener) -> None:
        """Tell one more, from the next refresh on."""
        self._listeners = (*self._listeners, listener)

    def remove(self, listener: RefreshListener) -> None:
        """Tell one no longer."""
        self._listeners = tuple(kept for kept in self._listeners if kept is not listener)

    def all(self) -> tuple[RefreshListener, ...]:
        """Everybody who is told, in order."""
        return self._listeners

    def tell(self, what: Callable[[RefreshListener], None]) -> None:
        """Tell everybody, whatever they raise."""
        for listener in self._listeners:
            try:
                what(listener)
            except Exception:
                self.errors += 1
                log.exception("a listener failed: %s", type(listener).__name__)
