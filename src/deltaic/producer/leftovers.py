"""Leftovers: blobs under final names that were never announced, after a crash between publish and announce.

Only a producer that holds the lease removes them. A blob is a leftover if it leads to (a reverse delta: starts at) a
version that is newer than the oldest listed one and was never announced. Of a version that was withdrawn the forward
delta and the snapshot go too, as soon as the chain goes on from an older one; its reverse delta stays for consumers
that still have to come back.
"""

from collections.abc import Container, Iterable

from deltaic.errors import InputError
from deltaic.storage.announced import Record
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobKind, BlobName
from deltaic.storage.store import Store
from deltaic.vector.names import blob_of_part


def base_version(record: Record) -> int | None:
    """The version that the chain goes on from: the newest announced one that was not withdrawn, on any channel."""
    for entry in record.versions:
        if not entry.withdrawn or entry.version == record.pin:
            return entry.version
    return None


def find_leftovers(names: Iterable[str], record: Record, announcements: Announcements) -> list[str]:
    """Which of these names of the chain's folder are leftovers, forward deltas first."""
    base = base_version(record)
    floor = record.versions[-1].version if record.versions else -1
    found: list[tuple[bool, str]] = []
    judged: dict[int, bool] = {}
    for name in names:
        # A vector part shares the fate of its blob.
        blob = BlobName.parse(name) or blob_of_part(name) if "/" not in name else None
        if blob is None:
            continue
        version = blob.owner
        if version <= floor:
            continue
        entry = record.find(version)
        if entry is None:
            if version not in judged:
                judged[version] = announcements.entry_of(version) is None
            stray = judged[version]
        else:
            abandoned = entry.withdrawn and base is not None and version > base
            stray = abandoned and blob.kind in (BlobKind.DELTA, BlobKind.SNAPSHOT)
        if stray:
            found.append((blob.kind is not BlobKind.DELTA, name))
    return [name for _, name in sorted(found)]


def remove_leftovers(
    store: Store, record: Record, announcements: Announcements, *, own: Container[str] = ()
) -> list[str]:
    """Remove all leftovers of a chain; gives their names.

    Args:
        store: the folder of the chain.
        record: its announcement.
        announcements: to ask for versions that left the list.
        own: names that this producer published itself and could not take back.

    Raises:
        InputError: blobs are there, nothing was ever announced, and no deltaic producer was here before: they are
            somebody else's.
    """
    leftovers = find_leftovers([info.key for info in store.list()], record, announcements)
    if not record.versions and record.epoch <= 1:
        foreign = [name for name in leftovers if name not in own]
        if foreign:
            raise InputError(
                f"{store.url} holds {foreign[0]} and {len(foreign) - 1} more blobs, but no version is announced there: "
                "announce one (announced.version), or publish into an empty folder",
                "ForeignBlobs",
            )
    for name in leftovers:
        store.delete(name)
    return leftovers
