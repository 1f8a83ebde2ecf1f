"""What a chain's folder says of itself, without loading any of it."""

from dataclasses import dataclass
from typing import Any

from deltaic.consumer.pin import wanted
from deltaic.errors import NotFoundError
from deltaic.storage.announced import MAIN, AnnouncedVersion
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import Chain
from deltaic.storage.store import Store


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """What is announced in a chain, and what it holds."""

    url: str
    wanted: int | None
    """Where consumers of the channel should be."""
    channels: dict[str, int]
    pin: int | None
    verified: bool
    """False for a chain whose files cannot be checked: announced by its bare number only."""
    versions: tuple[AnnouncedVersion, ...]
    """What is listed, newest first."""
    snapshots: tuple[int, ...]
    """Versions that a consumer can begin with."""
    lease_holder: str | None
    epoch: int
    announced_seconds_ago: float | None
    """Age of the wanted version."""

    def to_dict(self) -> dict[str, Any]:
        """The status as plain values."""
        return {
            "url": self.url,
            "wanted": self.wanted,
            "channels": dict(self.channels),
            "pin": self.pin,
            "verified": self.verified,
            "versions": [
                {
                    "version": entry.version,
                    "announced_ms": entry.announced_ms,
                    "channels": list(entry.channels),
                    "withdrawn": entry.withdrawn,
                    "files": len(entry.artifacts),
                    "bytes": sum(artifact.size for artifact in entry.artifacts),
                }
                for entry in self.versions
            ],
            "snapshots": list(self.snapshots),
            "lease_holder": self.lease_holder,
            "epoch": self.epoch,
            "announced_seconds_ago": self.announced_seconds_ago,
        }


def chain_status(store: Store, channel: str = MAIN) -> ChainStatus:
    """Look at a chain.

    Raises:
        NotFoundError: nothing is announced there.
    """
    announcements = Announcements(store)
    try:
        found = announcements.read()
    except NotFoundError:
        raise NotFoundError(f"nothing is announced in {store.url}") from None
    target = wanted(found, channel, None).version
    record = found.record
    channels = {MAIN: found.number} if found.number is not None else {}
    entry = None if target is None else found.entry(target)
    return ChainStatus(
        url=store.url,
        wanted=target,
        channels=channels if record is None else dict(record.channels),
        pin=found.pin,
        verified=found.verified,
        versions=() if record is None else record.versions,
        snapshots=Chain.read(store).snapshots,
        lease_holder=None if record is None or record.lease is None else record.lease.holder,
        epoch=found.epoch,
        announced_seconds_ago=None if entry is None else (announcements.now_ms() - entry.announced_ms) / 1000,
    )
