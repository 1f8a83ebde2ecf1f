"""Applying: from fetched bytes to the next state.

A `StateMaker` makes states; the plain one reads each blob into memory of this process. `sharing.py` has one that lets
the processes of a host share what one of them made.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from deltaic.consumer.fetch import Fetched
from deltaic.errors import ChainError, DecodeError
from deltaic.limits import Limits
from deltaic.state.bitset import OrdinalSet
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.storage.chain import BlobName

Fetch = Callable[[], AbstractContextManager[Fetched]]
"""Fetches the bytes of a step when they are needed: a state that another process made needs none."""


@dataclass(frozen=True, slots=True)
class Made:
    """A state, and what it took to make it."""

    state: ReadState
    size_bytes: int = 0
    from_cache: bool = True
    verified: bool = True
    shared: bool = False
    """True if the state is one copy for all processes of the host."""


class StateMaker(Protocol):
    """Makes the states of a consumer."""

    def attach(self, version: int, expected_bytes: int) -> Made | None:
        """The state of a version that is there already, without any blob; None if there is none."""
        ...

    def make(self, before: ReadState | None, step: BlobName, fetch: Fetch, expected_bytes: int) -> Made:
        """The state after a step: a snapshot if there is none before."""
        ...


@dataclass(frozen=True, slots=True)
class PrivateStates:
    """States in the memory of this process alone."""

    filter: Filter | None
    limits: Limits

    def attach(self, version: int, expected_bytes: int) -> Made | None:
        """There never is one."""
        return None

    def make(self, before: ReadState | None, step: BlobName, fetch: Fetch, expected_bytes: int) -> Made:
        """Read the blob of a step."""
        with fetch() as fetched:
            state = read_step(before, step, fetched, self.filter, self.limits)
        return Made(state, fetched.size_bytes, fetched.from_cache, fetched.verified)


def read_step(
    before: ReadState | None, step: BlobName, fetched: Fetched, wanted: Filter | None, limits: Limits
) -> ReadState:
    """Read a snapshot, or apply a delta to the state before. Errors name the blob."""
    try:
        if step.from_version is None:
            return ReadState.load(fetched.data, parts=fetched.parts, filter=wanted, limits=limits)
        if before is None:
            raise ChainError("a delta needs a state to start from")
        return before.apply(fetched.data, parts=fetched.parts, limits=limits)
    except DecodeError as error:
        raise type(error)(error.code, error.reason, f"{step}, {error.at.removeprefix('<bytes>: ')}") from error
    except ChainError as error:
        raise ChainError(f"{step}: {error}") from error


def changed_ordinals(state: ReadState) -> Mapping[str, tuple[OrdinalSet, OrdinalSet]]:
    """What the last delta of a state touched: by type, the ordinals populated before it and after it."""
    return {
        name: (data.previous, data.populated)
        for name, data in state.types.items()
        if data.previous is not data.populated and data.previous != data.populated
    }
