"""States that the processes of a host share: attach if another process made the state, else make it for all.

Sharing never makes a refresh fail that would work without: where there is no room or no mount for it, the state is made
in the memory of this process, and the log says so.
"""

import logging
import weakref
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Literal

from deltaic.consumer.apply import Made, PrivateStates, StateMaker
from deltaic.errors import DecodeError, StorageError
from deltaic.index.index_set import IndexHome
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.storage.store import Store
from deltaic.wire.append import AppendMode

if TYPE_CHECKING:
    from deltaic.consumer.arena import Arena

log = logging.getLogger("deltaic.consumer")

SHARED_FROM_BYTES = 64 << 20
"""With `share="auto"`, a state is shared if its snapshot is at least this large."""

Share = bool | Literal["auto"]
"""Whether to share: always, never, or where it pays."""


def open_states(
    share: Share,
    store: Store,
    filter: Filter | None,
    parts: tuple[str, ...],
    append: AppendMode = AppendMode.OFF,
) -> StateMaker:
    """The maker of states for a consumer."""
    if share is False or store.url.startswith("memory:"):
        return PrivateStates()
    identity = "\0".join((store.url, repr(filter), append.value, *parts))
    return SharedStates(identity, filter, 0 if share is True else SHARED_FROM_BYTES)


class SharedStates:
    """States in an arena of the host.

    Args:
        identity: what the states are of; processes that give the same text share.
        filter: what is left out of them.
        from_bytes: how large a state must be.
    """

    def __init__(self, identity: str, filter: Filter | None, from_bytes: int) -> None:
        self._identity, self._filter, self._from_bytes = identity, filter, from_bytes
        self._arena: Arena | None = None
        self._last: weakref.ref[ReadState] | None = None
        self._last_identity = (0, "")

    def nearest(self, version: int, expected_bytes: int, fingerprint: Callable[[int], str]) -> Made | None:
        """A shared state of the version, or the best one to go on from."""
        if expected_bytes < self._from_bytes:
            return None
        try:
            arena = self._opened(expected_bytes)
            fingerprint = cache(fingerprint)
            state: ReadState | None = arena.attach(version, self._filter, fingerprint=fingerprint(version))
            found: int | None = version
            if state is None:
                state, found = arena.nearest(version, self._filter, fingerprint)
        except (StorageError, DecodeError) as error:
            log.warning("no shared state can be attached: %s", str(error))
            return None
        return None if state is None or found is None else self._shared(state, found, fingerprint(found), built=False)

    def make(
        self,
        version: int,
        before: ReadState | None,
        expected_bytes: int,
        fingerprint: Callable[[int], str],
        build: Callable[[], ReadState],
    ) -> Made:
        """Attach to the state of a version, or make it for everybody."""
        goes_on = before is not None and self._last is not None and self._last() is before
        if expected_bytes < self._from_bytes and not goes_on:
            return Made(build(), version, built=True, shared=False)
        built = False
        # Asked for more than once, and not always for nothing: it may be in the store.
        fingerprint = cache(fingerprint)

        def make(base: ReadState | None, base_version: int | None) -> ReadState:
            nonlocal built
            built = True
            return build()

        try:
            arena = self._opened(expected_bytes)
            state = arena.refresh(version, make, filter=self._filter, fingerprint=fingerprint)
        except StorageError as error:
            log.warning("version %d is not shared on this host: %s", version, str(error))
            return Made(build(), version, built=True, shared=False)
        return self._shared(state, version, fingerprint(version), built=built)

    def index_home(self, state: ReadState) -> IndexHome | None:
        """Files of the arena, for a state that is in it."""
        if self._arena is None or self._last is None or self._last() is not state:
            return None
        return self._arena.indexes.home(*self._last_identity)

    def tidy(self) -> None:
        """Give memory back that no process reads any more."""
        if self._arena is not None:
            try:
                self._arena.tidy()
            except StorageError as error:
                log.debug("the shared states could not be tidied: %s", str(error))

    def _shared(self, state: ReadState, version: int, fingerprint: str, *, built: bool) -> Made:
        self._last, self._last_identity = weakref.ref(state), (version, fingerprint)
        return Made(state, version, built=built, shared=True)

    def _opened(self, need_bytes: int) -> "Arena":
        if self._arena is None:
            from deltaic.consumer.arena import Arena

            self._arena = Arena.open(self._identity, need_bytes=2 * need_bytes)
        return self._arena
