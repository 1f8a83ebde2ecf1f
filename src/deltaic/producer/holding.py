"""Holding the lease: one producer at a time, fenced by the lease's epoch."""

from deltaic.errors import CommitConflictError
from deltaic.storage.announcement import Announcements
from deltaic.storage.lease import Lease, acquire_lease, release_lease, renew_lease


class LeaseHolder:
    """Takes the lease when it is first needed, renews it in time, and knows when it is lost."""

    def __init__(self, announcements: Announcements, *, holder: str | None = None, ttl_seconds: float = 60.0) -> None:
        self._announcements = announcements
        self._holder = holder
        self._ttl_seconds = ttl_seconds
        self._lease: Lease | None = None

    @property
    def lease(self) -> Lease | None:
        """The lease, as far as is known."""
        return self._lease

    @property
    def epoch(self) -> int:
        """The epoch to announce with."""
        if self._lease is None:
            raise CommitConflictError("the producer does not hold the lease")
        return self._lease.epoch

    def take(self) -> None:
        """Take the lease, or renew it; CommitConflictError while another producer has it.

        Either way the record is written: an announcement of ours that is still on its way can land no more.
        """
        if self._lease is not None:
            try:
                self._lease = renew_lease(self._announcements, self._lease, ttl_seconds=self._ttl_seconds)
                return
            except CommitConflictError:
                self._lease = None
        self._lease = acquire_lease(self._announcements, holder=self._holder, ttl_seconds=self._ttl_seconds)
        self._holder = self._lease.holder

    def keep(self) -> None:
        """Renew the lease if a third of its time is over; CommitConflictError if it is lost."""
        if self._lease is None:
            raise CommitConflictError("the producer does not hold the lease")
        left_ms = self._lease.expires_ms - self._announcements.now_ms()
        if left_ms < self._ttl_seconds * 1000 * 2 / 3:
            try:
                self._lease = renew_lease(self._announcements, self._lease, ttl_seconds=self._ttl_seconds)
            except CommitConflictError:
                self._lease = None
                raise

    def lost(self) -> None:
        """Note that another producer has it now."""
        self._lease = None

    def release(self) -> None:
        """Give it back, so that another producer need not wait."""
        lease, self._lease = self._lease, None
        if lease is not None:
            release_lease(self._announcements, lease)
