"""Applying: from fetched bytes to the next state.

A `StateMaker` decides whose memory a state is in. The plain one takes that of this process; `sharing.py` has one that
lets the processes of a host share what one of them made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from deltaic.consumer.fetch import Fetched
from deltaic.errors import ChainError, DecodeError, SchemaError
from deltaic.index.index_set import IndexHome
from deltaic.limits import Limits
from deltaic.state.bitset import OrdinalSet
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.storage.chain import BlobName
from deltaic.wire.append import AppendMode


@dataclass(frozen=True, slots=True)
class Made:
    """A state, and how it came to be."""

    state: ReadState
    version: int
    built: bool
    """False if another process had made it."""
    shared: bool
    """True if it is one copy for all processes of the host."""


class StateMaker(Protocol):
    """Where the states of a consumer are made."""

    def nearest(self, version: int, expected_bytes: int, fingerprint: Callable[[int], str]) -> Made | None:
        """A state that is there already: of the version, or the best one to go on from; None if there is none."""
        ...

    def make(
        self,
        version: int,
        before: ReadState | None,
        expected_bytes: int,
        fingerprint: Callable[[int], str],
        build: Callable[[], ReadState],
    ) -> Made:
        """The state of a version; `build` makes it out of blobs, and may be called again if there was no room."""
        ...

    def index_home(self, state: ReadState) -> IndexHome | None:
        """Where the indexes of a state that was made here are kept; None is the memory of this process alone."""
        ...

    def tidy(self) -> None:
        """Give memory back that nobody uses any more."""
        ...


class PrivateStates:
    """States in the memory of this process alone."""

    def nearest(self, version: int, expected_bytes: int, fingerprint: Callable[[int], str]) -> Made | None:
        """There never is one."""
        return None

    def make(
        self,
        version: int,
        before: ReadState | None,
        expected_bytes: int,
        fingerprint: Callable[[int], str],
        build: Callable[[], ReadState],
    ) -> Made:
        """Make it out of blobs."""
        return Made(build(), version, built=True, shared=False)

    def index_home(self, state: ReadState) -> IndexHome | None:
        """There is none."""
        return None

    def tidy(self) -> None:
        """Memory goes by itself."""


def read_step(
    before: ReadState | None,
    step: BlobName,
    fetched: Fetched,
    wanted: Filter | None,
    limits: Limits,
    append: AppendMode = AppendMode.OFF,
) -> ReadState:
    """Read a snapshot, or apply a delta to the state before. Errors name the blob."""
    try:
        if step.from_version is None:
            return ReadState.load(fetched.data, parts=fetched.parts, filter=wanted, limits=limits)
        if before is None:
            raise ChainError("a delta needs a state to start from")
        return before.apply(fetched.data, parts=fetched.parts, limits=limits, schema_append=append)
    except DecodeError as error:
        raise type(error)(error.code, error.reason, f"{step}, {error.at.removeprefix('<bytes>: ')}") from error
    except ChainError as error:
        raise ChainError(f"{step}: {error}") from error
    except SchemaError as error:
        raise SchemaError(f"{step}: {str(error).removeprefix('<bytes>: ')}") from error


def changed_ordinals(state: ReadState) -> Mapping[str, tuple[OrdinalSet, OrdinalSet]]:
    """What the last delta of a state touched: by type, the ordinals populated before it and after it.

    A record that got appended values counts as one that was not there before: its content is another one.
    """
    return {
        name: (data.previous.difference(data.appended) if data.appended else data.previous, data.populated)
        for name, data in state.types.items()
        if data.appended or (data.previous is not data.populated and data.previous != data.populated)
    }
