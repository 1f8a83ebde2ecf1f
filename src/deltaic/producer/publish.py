"""Publish: staged blobs get the names that consumers look for, each by one copy-if-absent.

Nothing here moves a consumer: all go by the announcement. But Hollow's retriever takes the first delta that starts at
its version, so there may be only one: what a crashed or fenced producer left beside it is removed before, and the
forward delta comes last.
"""

import logging
from collections.abc import Iterable, Sequence

from deltaic.errors import ChainError, CommitConflictError, CommitUnknownError, DeltaicError, NotFoundError
from deltaic.producer.attachments import StagedFile
from deltaic.producer.stage import StagedBlob
from deltaic.storage.announced import Record
from deltaic.storage.chain import BlobKind, BlobName
from deltaic.storage.checksum import checksum
from deltaic.storage.store import Store

log = logging.getLogger("deltaic.producer")

_ORDER = (BlobKind.HEADER, BlobKind.REVERSE_DELTA, BlobKind.SNAPSHOT, BlobKind.DELTA)
_ATTEMPTS = 3


class Publication:
    """The blobs of one version on their way to their final names, so that they can be taken back."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tried: list[StagedBlob | StagedFile] = []

    def publish(self, blobs: Iterable[StagedBlob], attached: Iterable[StagedFile] = ()) -> None:
        """Give every file and blob its name, the forward delta last.

        Raises:
            CommitConflictError: a name is taken by other bytes.
        """
        for file in attached:
            self._tried.append(file)
            self._publish(file)
        for blob in sorted(blobs, key=lambda each: _ORDER.index(each.name.kind)):
            self._tried.append(blob)
            self._publish(blob)

    def take_back(self) -> bool:
        """Remove what was published, the forward delta first; False if something may be left."""
        clean = True
        for blob in reversed(self._tried):
            try:
                if self._is_ours(blob):
                    self._store.delete(str(blob.name))
            except DeltaicError as error:
                log.warning("cannot take %s back: %s", blob.name, error)
                clean = False
        return clean

    def _publish(self, blob: StagedBlob | StagedFile) -> None:
        unanswered: DeltaicError | None = None
        for _ in range(_ATTEMPTS):
            try:
                self._store.copy_if_absent(blob.key, str(blob.name))
                return
            except CommitUnknownError as error:
                unanswered = error
                if self._is_ours(blob):
                    return
            except CommitConflictError as error:
                # The conflict may be with our own earlier copy, whose answer was lost.
                if self._is_ours(blob):
                    return
                raise CommitConflictError(f"{blob.name} is there already, with other bytes: {error}") from error
        raise CommitUnknownError(f"{blob.name} could not be published: the store gave no answer") from unanswered

    def _is_ours(self, blob: StagedBlob | StagedFile) -> bool:
        """True if the bytes under the final name are those that were staged. A random state tag is part of them."""
        try:
            if self._store.head(str(blob.name)).size_bytes != blob.artifact.size:
                return False
            return (
                checksum(self._store.get(str(blob.name), limit_bytes=blob.artifact.size).data) == blob.artifact.checksum
            )
        except NotFoundError:
            return False


def clear_the_way(store: Store, record: Record, base: int | None) -> Sequence[str]:
    """Remove deltas that start at the base and lead to a version that is not announced, or was withdrawn.

    Raises:
        ChainError: a delta leads from the base to an announced version: the base is not the newest.
    """
    if base is None:
        return ()
    removed = []
    for info in list(store.list(f"delta-{base}-")):
        blob = BlobName.parse(info.key)
        if blob is None or blob.from_version != base:
            continue
        entry = record.find(blob.to_version)
        if entry is not None and not entry.withdrawn:
            raise ChainError(f"{info.key} leads on from version {base}, which is not the newest")
        store.delete(info.key)
        removed.append(info.key)
    return removed
