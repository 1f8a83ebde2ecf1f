"""What a consumer tells: the report of a refresh, and its state of health."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from deltaic.consumer.changes import Changes
from deltaic.consumer.failed import FailedTransition
from deltaic.state.append import AppendReport


@dataclass(frozen=True, slots=True)
class RefreshStep:
    """One blob of a refresh."""

    blob: str
    size_bytes: int
    from_cache: bool
    """True if nothing was read from the store."""
    verified: bool
    """True if it was compared with its announced checksum."""
    shared: bool = False
    """True if the state after it is one copy for all processes of the host."""
    appended: AppendReport | None = None
    """What its appended section did; None if it has none, or none was read."""
    vector_bytes: int = 0
    """Of the bytes, those of its vector part."""

    def to_dict(self) -> dict[str, Any]:
        """The step as plain values."""
        return {
            "blob": self.blob,
            "bytes": self.size_bytes,
            "from_cache": self.from_cache,
            "verified": self.verified,
            "shared": self.shared,
            "vector_bytes": self.vector_bytes,
            "appended": None if self.appended is None else asdict(self.appended),
        }


@dataclass(frozen=True, slots=True)
class Refresh:
    """What a refresh did. Whoever keeps it keeps the memory of both states, by `changes`."""

    from_version: int | None
    """None at the first load."""
    to_version: int
    wanted: int
    """Where the consumer should be; not `to_version` if there was no way."""
    steps: tuple[RefreshStep, ...]
    seconds: Mapping[str, float]
    """By step: plan, fetch, verify, apply, swap, notify."""
    changes: Changes = field(repr=False, compare=False)
    stuck: str | None = None
    """Why the wanted version could not be reached."""
    failures: tuple[FailedTransition, ...] = ()
    """Blobs that failed on the way; another way was found, or a version nearer to the wanted one."""

    @property
    def changed(self) -> bool:
        """True if the consumer is at another version than before."""
        return self.from_version != self.to_version

    @property
    def by_snapshot(self) -> bool:
        """True if the state was loaded as a whole."""
        return bool(self.steps) and self.changes.whole

    @property
    def size_bytes(self) -> int:
        """Bytes of all blobs."""
        return sum(step.size_bytes for step in self.steps)

    @property
    def total_seconds(self) -> float:
        """Seconds of all steps."""
        return sum(self.seconds.values())

    @property
    def verified(self) -> bool:
        """True if every blob was compared with its announced checksum."""
        return all(step.verified for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, without the records."""
        return {
            "from_version": self.from_version,
            "to_version": self.to_version,
            "wanted": self.wanted,
            "steps": [step.to_dict() for step in self.steps],
            "bytes": self.size_bytes,
            "seconds": dict(self.seconds),
            "verified": self.verified,
            "stuck": self.stuck,
            "failures": [f"{failed.blob}: {failed.error}" for failed in self.failures],
        }


@dataclass(frozen=True, slots=True)
class RefreshFailure:
    """A refresh that failed. The consumer is where it was."""

    version: int | None
    wanted: int | None
    error: Exception


@dataclass(frozen=True, slots=True)
class Status:
    """How a consumer is."""

    version: int | None
    """The version that is loaded; None before the first."""
    wanted: int | None
    """Where it should be, by the announcement it saw last or by its own pin."""
    announced: int | None
    """What its channel announces, pins aside."""
    pinned: int | None
    """The version it is held at."""
    pinned_by: str | None
    """`announcement` for everybody's pin, `consumer` for this one's own."""
    verified: bool | None
    """False if a blob that led here could not be checked: a chain without `announced.json`. None before the first."""
    freshness_seconds: float | None
    """Time since it was last known to be where it should be; None if it never was."""
    stuck: str | None
    """Why it cannot get where it should be."""
    failed_transitions: tuple[FailedTransition, ...]
    last_error: str | None
    """The error of the last refresh or look that failed; None after one that succeeded."""
    failures_in_a_row: int
    size_bytes: int
    """Memory of the state."""
    states_held: int
    """Older states that someone still holds."""
    running: bool
    """True if it refreshes in the background."""
    shared: bool
    """True if the state is one copy for all processes of the host."""
    missing_vectors: tuple[str, ...] = ()
    """Vector columns that the chain has or had and this state lacks, because a blob came without its vector part:
    `Movie.embedding`. They come back with the next snapshot that has one."""

    @property
    def healthy(self) -> bool:
        """True if a version is loaded, nothing holds it back, and the last look succeeded."""
        return self.version is not None and self.stuck is None and self.failures_in_a_row == 0

    def to_dict(self) -> dict[str, Any]:
        """The status as plain values."""
        values = {name: getattr(self, name) for name in self.__slots__ if name != "failed_transitions"}
        values["failed_transitions"] = [
            {"blob": str(failed.blob), "error": failed.error, "attempts": failed.attempts, "retry_at": failed.retry_at}
            for failed in self.failed_transitions
        ]
        return {**values, "healthy": self.healthy}
