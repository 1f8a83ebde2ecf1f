"""Stage: blobs go to the store under names that no consumer looks for.

`staging/<cycle id>/<final name>`: consumers, Java's included, list only the chain's folder itself. What a crashed cycle
leaves there is swept by the next producer that holds the lease.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from deltaic.errors import ChecksumError, DeltaicError
from deltaic.producer.encode import EncodedBlob
from deltaic.state.source import Source
from deltaic.storage.announced import Artifact
from deltaic.storage.chain import BlobName
from deltaic.storage.checksum import checksum, verify_file
from deltaic.storage.local import LOCK_NAME, LocalStore
from deltaic.storage.store import Store

STAGING = "staging"
"""The folder of blobs that are not published yet."""

IN_MEMORY_BYTES = 256 << 20
"""A staged blob larger than this is read back through a temporary file."""


@dataclass(frozen=True, slots=True)
class StagedBlob:
    """A blob in the staging folder, and what it is to be called."""

    name: BlobName
    key: str
    artifact: Artifact

    @contextmanager
    def read_back(self, store: Store) -> Iterator[Source]:
        """The bytes as the store has them, compared with those that were written."""
        if self.artifact.size <= IN_MEMORY_BYTES:
            data = store.get(self.key, limit_bytes=self.artifact.size).data
            if checksum(data) != self.artifact.checksum:
                raise ChecksumError("Checksum", "the store gave other bytes than were written", self.key)
            yield data
            return
        with tempfile.TemporaryDirectory(prefix="deltaic-") as folder:
            path = Path(folder) / os.path.basename(self.key)
            store.get_to_file(self.key, path, limit_bytes=self.artifact.size)
            verify_file(path, self.artifact.checksum, self.artifact.size, self.key)
            yield path


def stage(store: Store, cycle_id: str, blob: EncodedBlob) -> StagedBlob:
    """Write a blob into the staging folder."""
    key = f"{STAGING}/{cycle_id}/{blob.name}"
    store.put_chunks(key, blob.chunks())
    return StagedBlob(blob.name, key, blob.artifact)


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
