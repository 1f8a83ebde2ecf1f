"""The blob cleaner: removes old blobs, never one that a version in use needs.

Needed are the versions of all channels, the pin, and the newest `keep_versions` listed ones that were not withdrawn
(look-back). The nearest snapshot before each channel and before the pin stays, and the newest `keep_snapshots`; other
needed versions keep as many as it takes to load them by a snapshot and deltas. From the oldest snapshot that stays on,
every delta and reverse delta stays, so that every needed version can be walked to, forward and back. What is newer
than the newest announced version belongs to a producer at work and is not looked at.

Files leave the announcement before they leave the store: nobody is led to what is about to go.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from deltaic.consumer.plan import plan_refresh
from deltaic.errors import InputError
from deltaic.producer.attachments import version_of
from deltaic.producer.listeners import CycleListener
from deltaic.producer.report import Cycle
from deltaic.storage.announced import Record, version_name
from deltaic.storage.announcement import Announcement, Announcements
from deltaic.storage.backoff import Backoff
from deltaic.storage.chain import BlobKind, BlobName, Chain
from deltaic.storage.store import ObjectInfo, Store
from deltaic.vector.names import blob_of_part

log = logging.getLogger("deltaic.producer")

DEFAULT_SNAPSHOTS = 5
DEFAULT_VERSIONS = 64
DEFAULT_AGE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What is removed, or would be, and what has to stay."""

    remove: tuple[str, ...]
    size_bytes: int
    kept_snapshots: tuple[int, ...]
    needed_versions: tuple[int, ...]
    done: bool
    """False for a dry run."""


class BlobCleaner(CycleListener):
    """Cleans the chain after every version: `Producer(url, model, listeners=[BlobCleaner(store)])`.

    Args:
        store: the folder of the chain. keep_snapshots, keep_versions, older_than_seconds: as for `clean_chain`.
    """

    def __init__(
        self,
        store: Store,
        *,
        keep_snapshots: int = DEFAULT_SNAPSHOTS,
        keep_versions: int = DEFAULT_VERSIONS,
        older_than_seconds: float = DEFAULT_AGE_SECONDS,
    ) -> None:
        _check(keep_snapshots, keep_versions)
        self._store, self._keep_snapshots, self._keep_versions = store, keep_snapshots, keep_versions
        self._older_than_seconds = older_than_seconds

    def cycle_announced(self, cycle: Cycle) -> None:
        """Clean. What fails is logged; the version is announced already, and the next one cleans again."""
        done = clean_chain(
            self._store,
            keep_snapshots=self._keep_snapshots,
            keep_versions=self._keep_versions,
            older_than_seconds=self._older_than_seconds,
            dry_run=False,
        )
        if done.remove:
            log.info("removed %d old blobs, %d bytes", len(done.remove), done.size_bytes)


def clean_chain(
    store: Store,
    *,
    keep_snapshots: int = DEFAULT_SNAPSHOTS,
    keep_versions: int = DEFAULT_VERSIONS,
    older_than_seconds: float = DEFAULT_AGE_SECONDS,
    dry_run: bool = True,
    clock: Callable[[], float] = time.time,
    backoff: Backoff | None = None,
) -> Cleaning:
    """Remove blobs that no version in use needs.

    Args:
        store: the folder of the chain.
        keep_snapshots: how many of the newest announced snapshots stay in any case.
        keep_versions: how many of the newest announced versions can still be loaded.
        older_than_seconds: younger blobs stay: a consumer may be about to fetch them.
        dry_run: only say what would be removed.
        clock: seconds since 1970.
        backoff: how reads are repeated and races waited out.
    """
    _check(keep_snapshots, keep_versions)
    announcements = Announcements(store, clock=clock, backoff=backoff)
    announcement = announcements.read()
    infos = {info.key: info for info in store.list() if "/" not in info.key}
    blobs = {key: blob for key in infos if (blob := BlobName.parse(key)) is not None}
    directed, needed, newest = _in_use(announcement, keep_versions)
    kept, oldest = _kept_snapshots(Chain.of_names(blobs), directed, needed, newest, keep_snapshots)
    latest_change = clock() - older_than_seconds
    doomed = [
        infos[key]
        for key, blob in sorted(blobs.items())
        if _is_superfluous(blob, kept, oldest, newest) and infos[key].modified.timestamp() < latest_change
    ]
    gone = {info.key for info in doomed}
    attached = [
        infos[key]
        for key in sorted(infos)
        if (version := version_of(key)) is not None
        and (
            _is_superfluous(blob, kept, oldest, newest)
            if (blob := blob_of_part(key)) is not None
            else version not in needed and version <= newest
        )
        and infos[key].modified.timestamp() < latest_change
    ]
    doomed += attached
    gone |= {info.key for info in attached}
    doomed += _lists_without_blobs(infos, blobs, gone, needed)
    if not dry_run:
        if announcement.record is not None:
            announcements.remove_artifacts(gone)
        for info in doomed:
            store.delete(info.key)
    return Cleaning(
        tuple(info.key for info in doomed),
        sum(info.size_bytes for info in doomed),
        tuple(sorted(kept)),
        tuple(sorted(needed)),
        not dry_run,
    )


def _check(keep_snapshots: int, keep_versions: int) -> None:
    if keep_snapshots < 1 or keep_versions < 1:
        raise InputError("a chain keeps at least one snapshot and one version")


def _in_use(announcement: Announcement, keep_versions: int) -> tuple[set[int], set[int], int]:
    """Where consumers are sent, all versions that must stay loadable, and the newest announced one."""
    record: Record | None = announcement.record
    if record is None:
        assert announcement.number is not None
        return {announcement.number}, {announcement.number}, announcement.number
    directed = {*record.channels.values(), *(() if record.pin is None else (record.pin,))}
    looked_back = [entry.version for entry in record.versions if not entry.withdrawn][:keep_versions]
    newest = record.versions[0].version if record.versions else -1
    return directed, {*directed, *looked_back}, newest


def _kept_snapshots(
    chain: Chain, directed: set[int], needed: set[int], newest: int, count: int
) -> tuple[set[int], int]:
    """The snapshots that stay, and the version from which on every delta stays."""
    kept = set([version for version in chain.snapshots if version <= newest][-count:])
    kept |= {near for version in directed if (near := chain.snapshot_at_or_before(version)) is not None}
    loadable = True
    for version in sorted(needed):
        left = Chain(tuple(sorted(kept)), chain.deltas, chain.reverse_deltas)
        if plan_refresh(None, version, left).version != version:
            near = chain.snapshot_at_or_before(version)
            # Without a snapshot before it a needed version can only be walked back to: every delta stays.
            loadable &= near is not None
            kept |= set() if near is None else {near}
    return kept, min(kept, default=-1) if loadable else -1


def _is_superfluous(blob: BlobName, kept: set[int], oldest: int, newest: int) -> bool:
    if blob.kind is BlobKind.SNAPSHOT:
        return blob.to_version not in kept and blob.to_version <= newest
    if blob.from_version is None:
        return blob.to_version < oldest
    return min(blob.from_version, blob.to_version) < oldest and blob.owner <= newest


def _lists_without_blobs(
    infos: dict[str, ObjectInfo], blobs: dict[str, BlobName], doomed: set[str], needed: set[int]
) -> list[ObjectInfo]:
    """Files that list the artifacts of versions of which no blob is left."""
    left = {blob.owner for key, blob in blobs.items() if key not in doomed}
    gone = {blob.owner for key, blob in blobs.items() if key in doomed} - left - needed
    return [infos[name] for version in sorted(gone) if (name := version_name(version)) in infos]
