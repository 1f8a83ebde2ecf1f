"""The blob cleaner: removes old blobs, never one that a version in use needs.

Needed are the versions of all channels, the pin, and the newest `keep_versions` listed ones (look-back). For each of
them stays the nearest snapshot before it; beside that the newest `keep_snapshots` snapshots. From the oldest snapshot
that stays on, every delta and reverse delta stays, so that every needed version can be loaded and walked to, forward
and back. What is newer than the newest announced version belongs to a producer at work and is not looked at.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from deltaic.errors import InputError
from deltaic.storage.announced import version_name
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobKind, BlobName, Chain
from deltaic.storage.store import ObjectInfo, Store


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What is removed, or would be, and what has to stay."""

    remove: tuple[str, ...]
    size_bytes: int
    kept_snapshots: tuple[int, ...]
    needed_versions: tuple[int, ...]
    done: bool
    """False for a dry run."""


def clean_chain(
    store: Store,
    *,
    keep_snapshots: int = 5,
    keep_versions: int = 64,
    older_than_seconds: float = 3600.0,
    dry_run: bool = True,
    clock: Callable[[], float] = time.time,
) -> Cleaning:
    """Remove blobs that no version in use needs.

    Args:
        store: the folder of the chain.
        keep_snapshots: how many of the newest announced snapshots stay in any case.
        keep_versions: how many of the newest announced versions can still be loaded.
        older_than_seconds: younger blobs stay: a consumer may be about to fetch them.
        dry_run: only say what would be removed.
        clock: seconds since 1970.
    """
    if keep_snapshots < 1 or keep_versions < 1:
        raise InputError("a chain keeps at least one snapshot and one version")
    announcements = Announcements(store, clock=clock)
    announcement = announcements.read()
    infos = {info.key: info for info in store.list() if "/" not in info.key}
    blobs = {key: blob for key in infos if (blob := BlobName.parse(key)) is not None}
    record = announcement.record
    if record is None:
        assert announcement.number is not None
        needed, newest = {announcement.number}, announcement.number
    else:
        needed = {*record.channels.values(), *(entry.version for entry in record.versions[:keep_versions])}
        needed |= {record.pin} if record.pin is not None else set()
        newest = record.versions[0].version if record.versions else -1
    chain = Chain.of_names(blobs)
    kept, oldest = _kept_snapshots(chain, needed, newest, keep_snapshots)
    latest_change = clock() - older_than_seconds
    doomed = [
        infos[key]
        for key, blob in sorted(blobs.items())
        if _is_superfluous(blob, kept, oldest, newest) and infos[key].modified.timestamp() < latest_change
    ]
    doomed += _lists_without_blobs(infos, blobs, {info.key for info in doomed}, needed)
    if not dry_run:
        for info in doomed:
            store.delete(info.key)
    return Cleaning(
        tuple(info.key for info in doomed),
        sum(info.size_bytes for info in doomed),
        tuple(sorted(kept)),
        tuple(sorted(needed)),
        not dry_run,
    )


def _kept_snapshots(chain: Chain, needed: set[int], newest: int, count: int) -> tuple[set[int], int]:
    """The snapshots that stay, and the version from which on every delta stays."""
    announced = [version for version in chain.snapshots if version <= newest]
    kept = set(announced[-count:])
    oldest = min(kept, default=-1)
    for version in needed:
        nearest = chain.snapshot_at_or_before(version)
        if nearest is None:
            # Without a snapshot before it a needed version can only be walked back to: every delta stays.
            oldest = -1
            continue
        kept.add(nearest)
        oldest = min(oldest, nearest)
    return kept, oldest


def _is_superfluous(blob: BlobName, kept: set[int], oldest: int, newest: int) -> bool:
    if blob.kind is BlobKind.SNAPSHOT:
        return blob.to_version not in kept and blob.to_version <= newest
    if blob.from_version is None:
        return blob.to_version < oldest
    return min(blob.from_version, blob.to_version) < oldest and max(blob.from_version, blob.to_version) <= newest


def _lists_without_blobs(
    infos: dict[str, ObjectInfo], blobs: dict[str, BlobName], doomed: set[str], needed: set[int]
) -> list[ObjectInfo]:
    """Files that list the artifacts of versions of which no blob is left."""
    left = {
        version for key, blob in blobs.items() if key not in doomed for version in (blob.to_version, blob.from_version)
    }
    gone = {blob.to_version for key, blob in blobs.items() if key in doomed} - left - needed
    return [infos[name] for version in sorted(gone) if (name := version_name(version)) in infos]
