"""Transitions that failed: not tried for ever, not given up for ever.

A blob that could not be read or applied is left out of plans until its announced checksum changes (then it is another
blob) or a time has passed that doubles with each failure, from 30 seconds to an hour. A failing store is no failed
transition.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from deltaic.storage.chain import BlobName

FIRST_WAIT_SECONDS = 30.0
"""How long a blob is left alone after its first failure."""

LONGEST_WAIT_SECONDS = 3600.0
"""How long a blob is left alone at most."""

_MOST = 1_000


@dataclass(frozen=True, slots=True)
class FailedTransition:
    """A blob that could not be applied."""

    blob: BlobName
    checksum: str | None
    """What was announced of it; None in a chain that cannot be verified."""
    attempts: int
    error: str
    retry_at: float
    """When it may be tried again, in seconds since 1970."""


class FailedTransitions:
    """What failed, by blob."""

    def __init__(self) -> None:
        self._failed: dict[BlobName, FailedTransition] = {}

    def record(self, blob: BlobName, checksum: str | None, error: Exception, now: float) -> FailedTransition:
        """Remember a failure."""
        before = self._failed.pop(blob, None)
        attempts = before.attempts + 1 if before is not None and before.checksum == checksum else 1
        wait = min(FIRST_WAIT_SECONDS * 2 ** min(attempts - 1, 20), LONGEST_WAIT_SECONDS)
        failed = FailedTransition(blob, checksum, attempts, str(error), now + wait)
        self._failed[blob] = failed
        while len(self._failed) > _MOST:
            del self._failed[next(iter(self._failed))]
        return failed

    def blocked(self, now: float, announced: Mapping[str, str]) -> frozenset[BlobName]:
        """Blobs that must not be tried now; `announced` are the checksums that are known, by name."""
        return frozenset(
            blob
            for blob, failed in self._failed.items()
            if failed.retry_at > now and announced.get(str(blob), failed.checksum) == failed.checksum
        )

    def succeeded(self, blob: BlobName) -> None:
        """Forget a blob that could be applied after all."""
        self._failed.pop(blob, None)

    def clear(self) -> None:
        """Forget everything: all may be tried again."""
        self._failed.clear()

    def next_retry(self) -> float | None:
        """When the first of them may be tried again."""
        return min((failed.retry_at for failed in self._failed.values()), default=None)

    def all(self) -> tuple[FailedTransition, ...]:
        """What failed, oldest first."""
        return tuple(self._failed.values())
