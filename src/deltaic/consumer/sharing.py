"""States that the processes of a host share: attach if another process made the state, else make it.

Sharing never makes a refresh fail that would work without: where there is no room or no mount for it, the state is
made in the memory of this process, and the log says so.
"""

import logging
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal

from deltaic.consumer.apply import Fetch, Made, PrivateStates, StateMaker
from deltaic.consumer.fetch import Fetched
from deltaic.errors import DecodeError
from deltaic.state.read import ReadState
from deltaic.storage.chain import BlobName
from deltaic.storage.store import Store

if TYPE_CHECKING:
    from deltaic.consumer.arena import Arena

log = logging.getLogger("deltaic.consumer")

SHARED_FROM_BYTES = 64 << 20
"""With `share="auto"`, a state is shared if its snapshot is at least this large."""

Share = bool | Literal["auto"]
"""Whether to share: always, never, or where it pays."""


def open_states(share: Share, store: Store, private: PrivateStates, parts: tuple[str, ...]) -> StateMaker:
    """The maker of states for a consumer."""
    if share is False or store.url.startswith("memory:"):
        return private
    identity = "\0".join((store.url, repr(private.filter), *parts))
    return SharedStates(identity, private, 0 if share is True else SHARED_FROM_BYTES)


class SharedStates:
    """States in an arena of the host."""

    def __init__(self, identity: str, private: PrivateStates, from_bytes: int) -> None:
        self._identity, self._private, self._from_bytes = identity, private, from_bytes
        self._arena: Arena | None = None
        self._last: weakref.ref[ReadState] | None = None

    def attach(self, version: int, expected_bytes: int) -> Made | None:
        """The state of a version that another process of this host made; None if none did."""
        if expected_bytes < self._from_bytes:
            return None
        try:
            state = self._opened(expected_bytes).attach(version, self._private.filter)
        except (OSError, DecodeError) as error:
            log.warning("version %d cannot be attached and is made here: %s", version, error)
            return None
        return None if state is None else self._shared(Made(state, shared=True))

    def make(self, before: ReadState | None, step: BlobName, fetch: Fetch, expected_bytes: int) -> Made:
        """Attach to the state after a step, or make it for everybody."""
        if not self._pays(before, expected_bytes):
            return self._private.make(before, step, fetch, expected_bytes)
        made: list[Made] = []
        store_failed: list[OSError] = []

        @contextmanager
        def watched() -> Iterator[Fetched]:
            with ExitStack() as stack:
                try:
                    fetched = stack.enter_context(fetch())
                except OSError as error:
                    store_failed.append(error)
                    raise
                yield fetched

        def build() -> ReadState:
            made.append(self._private.make(before, step, watched, expected_bytes))
            return made[0].state

        try:
            arena = self._opened(expected_bytes)
            with arena.lock():
                state = arena.attach(step.to_version, self._private.filter)
                if state is not None:
                    return self._shared(Made(state, shared=True))
                state = arena.share(step.to_version, build)
        except OSError as error:
            if store_failed:
                raise
            log.warning("version %d is not shared on this host: %s", step.to_version, error)
            return self._private.make(before, step, fetch, expected_bytes)
        first = made[0]
        return self._shared(Made(state, first.size_bytes, first.from_cache, first.verified, shared=True))

    def _pays(self, before: ReadState | None, expected_bytes: int) -> bool:
        return expected_bytes >= self._from_bytes or (
            before is not None and self._last is not None and self._last() is before
        )

    def _shared(self, made: Made) -> Made:
        self._last = weakref.ref(made.state)
        return made

    def _opened(self, need_bytes: int) -> "Arena":
        if self._arena is None:
            from deltaic.consumer.arena import Arena

            self._arena = Arena.open(self._identity, need_bytes=2 * need_bytes)
        return self._arena
