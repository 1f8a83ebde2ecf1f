"""Stage: blobs go to the store under names that no consumer looks for.

`staging/<cycle id>/<final name>`: consumers, Java's included, list only the chain's folder itself. What a crashed cycle
leaves there is swept by the next producer that holds the lease.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec

from deltaic.errors import DeltaicError
from deltaic.producer.encode import EncodedBlob
from deltaic.producer.reading import read_stored
from deltaic.state.source import Source
from deltaic.storage.announced import Artifact
from deltaic.storage.chain import BlobKind, BlobName
from deltaic.storage.checksum import Checksum
from deltaic.storage.decompress import iter_compressed
from deltaic.storage.local import LOCK_NAME, LocalStore
from deltaic.storage.packing import Packing
from deltaic.storage.store import Store

STAGING = "staging"
"""The folder of blobs that are not published yet."""


@dataclass(frozen=True, slots=True)
class StagedBlob:
    """A blob in the staging folder, and what it is to be called."""

    name: BlobName
    key: str
    artifact: Artifact

    @contextmanager
    def read_back(self, store: Store) -> Iterator[Source]:
        """The bytes as the store has them, compared with those that were written."""
        limit_bytes = max(self.artifact.size, self.artifact.plain_size)
        with read_stored(store, self.key, self.artifact, limit_bytes=limit_bytes) as source:
            yield source


def stage(store: Store, cycle_id: str, blob: EncodedBlob, packing: Packing | None = None) -> StagedBlob:
    """Write a blob into the staging folder, packed if that is asked for; a header never is, it is small."""
    key = f"{STAGING}/{cycle_id}/{blob.name}"
    if packing is None or blob.name.kind is BlobKind.HEADER:
        store.put_chunks(key, blob.chunks())
        return StagedBlob(blob.name, key, blob.artifact)
    packed = Checksum()
    store.put_chunks(key, _counted(iter_compressed(blob.chunks(), packing), packed))
    artifact = msgspec.structs.replace(
        blob.artifact,
        size=packed.size_bytes,
        checksum=packed.text(),
        codec=packing,
        unpacked_size=blob.size_bytes,
    )
    return StagedBlob(blob.name, key, artifact)


def _counted(pieces: Iterator[bytes], total: Checksum) -> Iterator[bytes]:
    for piece in pieces:
        total.update(piece)
        yield piece


def unstage(store: Store, keys: Iterable[str]) -> bool:
    """Remove staged blobs as far as the store lets; False if something may be left."""
    clean = True
    for key in keys:
        try:
            store.delete(key)
        except DeltaicError:
            clean = False
        else:
            _remove_folder(store, key)
    return clean


def sweep_staging(store: Store, *, keep: Iterable[str] = ()) -> list[str]:
    """Remove what crashed cycles left; `keep` are cycle ids that are still at work. Gives the keys removed."""
    kept = tuple(f"{STAGING}/{cycle_id}/" for cycle_id in keep)
    removed = []
    for info in list(store.list(f"{STAGING}/")):
        if not info.key.startswith(kept):
            with suppress(DeltaicError):
                store.delete(info.key)
                removed.append(info.key)
                _remove_folder(store, info.key)
    return removed


def _remove_folder(store: Store, key: str) -> None:
    """A file system keeps the folder of a cycle when its last blob went, with the lock file of the local store."""
    if isinstance(store, LocalStore):
        folder = store.path_of(key).parent
        with suppress(OSError):
            if {entry.name for entry in os.scandir(folder)} <= {LOCK_NAME}:
                (folder / LOCK_NAME).unlink(missing_ok=True)
                folder.rmdir()
