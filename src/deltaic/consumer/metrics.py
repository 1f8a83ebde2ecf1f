"""Counters of a consumer, in this process: what a health page or a scraper asks for."""

import threading
from dataclasses import dataclass, field, replace

from deltaic.consumer.changes import Changes
from deltaic.consumer.listener import RefreshListener
from deltaic.consumer.report import Refresh, RefreshFailure


@dataclass(frozen=True, slots=True)
class Counts:
    """The counters at one moment; all but the last three only grow."""

    refreshes: int = 0
    """Refreshes that moved the consumer."""
    failures: int = 0
    """Refreshes that failed."""
    snapshots: int = 0
    """Snapshots that were loaded."""
    deltas: int = 0
    """Deltas and reverse deltas that were applied."""
    failed_transitions: int = 0
    """Blobs that could not be applied."""
    fetched_bytes: int = 0
    """Bytes that came from the store."""
    cached_bytes: int = 0
    """Bytes that came from copies on this host."""
    stuck: int = 0
    """How often the consumer got stuck."""
    appended_bytes: int = 0
    """Bytes of appended sections that were read."""
    appended_fields: int = 0
    """Fields that got values from them."""
    appended_values: int = 0
    """Values that were put into records that did not change."""
    appended_skipped_fields: int = 0
    """Fields with values that this consumer does not have, or has with another type."""
    appended_seconds: float = 0.0
    vector_bytes: int = 0
    """Bytes of vector parts, from the store or from copies."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By step of a refresh, all together."""
    version: int | None = None
    last_refresh_seconds: float = 0.0
    last_refresh_bytes: int = 0


class ConsumerMetrics(RefreshListener):
    """Counts refreshes. Every consumer has one: `consumer.metrics`."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._counts = Counts()

    def counts(self) -> Counts:
        """The counters now, as one consistent value."""
        return self._counts

    def after(self, refresh: Refresh, changes: Changes) -> None:
        """Count a refresh."""
        snapshots = sum(step.blob.startswith("snapshot") for step in refresh.steps)
        from_store = sum(step.size_bytes for step in refresh.steps if not step.from_cache)
        appended = [step.appended for step in refresh.steps if step.appended is not None]
        with self._mutex:
            old = self._counts
            seconds = {step: old.seconds.get(step, 0.0) + spent for step, spent in refresh.seconds.items()}
            self._counts = replace(
                old,
                refreshes=old.refreshes + 1,
                snapshots=old.snapshots + snapshots,
                deltas=old.deltas + len(refresh.steps) - snapshots,
                failed_transitions=old.failed_transitions + len(refresh.failures),
                fetched_bytes=old.fetched_bytes + from_store,
                cached_bytes=old.cached_bytes + refresh.size_bytes - from_store,
                appended_bytes=old.appended_bytes + sum(one.size_bytes for one in appended),
                appended_fields=old.appended_fields + sum(one.fields for one in appended),
                appended_values=old.appended_values + sum(one.values for one in appended),
                appended_skipped_fields=old.appended_skipped_fields + sum(one.skipped_fields for one in appended),
                appended_seconds=old.appended_seconds + sum(one.seconds for one in appended),
                vector_bytes=old.vector_bytes + sum(step.vector_bytes for step in refresh.steps),
                seconds=seconds,
                version=refresh.to_version,
                last_refresh_seconds=refresh.total_seconds,
                last_refresh_bytes=refresh.size_bytes,
            )

    def failed(self, failure: RefreshFailure) -> None:
        """Count a failure."""
        with self._mutex:
            self._counts = replace(self._counts, failures=self._counts.failures + 1)

    def stuck(self, version: int, wanted: int, reason: str) -> None:
        """Count getting stuck."""
        with self._mutex:
            self._counts = replace(self._counts, stuck=self._counts.stuck + 1)

    def after_fork(self) -> None:
        """Begin with a lock of this process: another thread may have held the old one at the fork."""
        self._mutex = threading.Lock()
