"""One producer at a time: a lease in the announcement, with an epoch that fences.

Time decides only when another producer may try. What keeps an old one out is the epoch: each grant raises it, and an
announcement with an older epoch is refused in the same conditional put that would have made it.
"""

import secrets
from dataclasses import dataclass

import msgspec

from deltaic.errors import CommitConflictError
from deltaic.storage.announced import LeaseRecord, Record
from deltaic.storage.announcement import Announcements


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to announce, until another producer is granted a higher epoch."""

    holder: str
    epoch: int
    expires_ms: int


def acquire_lease(announcements: Announcements, *, holder: str | None = None, ttl_seconds: float = 60.0) -> Lease:
    """Take the lease; CommitConflictError while another holds it.

    Args:
        announcements: of the chain.
        holder: unique to this producer; the writer and a random number by default.
        ttl_seconds: how long it holds without being renewed.
    """
    name = holder or f"{announcements.writer}:{secrets.token_hex(4)}"

    def change(record: Record) -> Record:
        now_ms = announcements.now_ms()
        held = record.lease
        if held is not None and held.holder != name and held.expires_ms > now_ms:
            raise CommitConflictError(
                f"{held.holder} holds the lease of {announcements.store.url} for "
                f"{(held.expires_ms - now_ms) / 1000:.1f} s more (epoch {held.epoch})"
            )
        epoch = record.epoch + 1
        lease = LeaseRecord(name, epoch, now_ms + int(ttl_seconds * 1000))
        return msgspec.structs.replace(record, epoch=epoch, lease=lease)

    return _lease_of(announcements.update("take the lease", change).record, name)


def renew_lease(announcements: Announcements, lease: Lease, *, ttl_seconds: float = 60.0) -> Lease:
    """Hold the lease for longer; CommitConflictError if another producer has it now."""

    def change(record: Record) -> Record:
        _check_held(record, lease)
        held = LeaseRecord(lease.holder, lease.epoch, announcements.now_ms() + int(ttl_seconds * 1000))
        return msgspec.structs.replace(record, lease=held)

    return _lease_of(announcements.update("renew the lease", change, write_number=False).record, lease.holder)


def release_lease(announcements: Announcements, lease: Lease) -> None:
    """Give the lease back, so that another producer need not wait; nothing happens if it is lost already."""

    def change(record: Record) -> Record:
        _check_held(record, lease)
        return msgspec.structs.replace(record, lease=None)

    try:
        announcements.update("release the lease", change, write_number=False)
    except CommitConflictError:
        return


def _check_held(record: Record, lease: Lease) -> None:
    held = record.lease
    if held is None or (held.holder, held.epoch) != (lease.holder, lease.epoch):
        owner = "nobody" if held is None else held.holder
        raise CommitConflictError(f"the lease of epoch {lease.epoch} is lost: {owner} holds epoch {record.epoch} now")


def _lease_of(record: Record | None, holder: str) -> Lease:
    # An unanswered write may be found only after another producer took over: then the lease is lost already.
    if record is None or record.lease is None or record.lease.holder != holder:
        raise CommitConflictError("the lease was taken and lost again before the store answered")
    return Lease(holder, record.lease.epoch, record.lease.expires_ms)
