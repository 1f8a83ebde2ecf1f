"""Snapshots in the background: the version is announced with its deltas, the snapshot follows."""

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor

from deltaic.errors import CommitUnknownError, DeltaicError
from deltaic.producer.attachments import StagedFile
from deltaic.producer.encode import EncodedBlob
from deltaic.producer.listeners import Listeners
from deltaic.producer.publish import Publication
from deltaic.producer.stage import stage, unstage
from deltaic.producer.vector_parts import EncodedPart, read_back, staged_key
from deltaic.storage.announcement import Announcements
from deltaic.storage.packing import Packing

log = logging.getLogger("deltaic.producer")


class BackgroundSnapshots:
    """Stores snapshots one after the other in a thread of its own."""

    def __init__(self, announcements: Announcements, listeners: Listeners, packing: Packing | None = None) -> None:
        self._announcements, self._listeners, self._packing = announcements, listeners, packing
        self._executor: ThreadPoolExecutor | None = None
        self._mutex = threading.Lock()
        self._at_work: dict[str, Future[None]] = {}

    @property
    def at_work(self) -> tuple[str, ...]:
        """The cycle ids whose staging folder is still needed."""
        with self._mutex:
            return tuple(self._at_work)

    def submit(self, blob: EncodedBlob, cycle_id: str, epoch: int, part: EncodedPart | None = None) -> None:
        """Store a snapshot of a version that is announced, with its vector part."""
        with self._mutex:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="deltaic-snapshot")
            self._at_work[cycle_id] = self._executor.submit(self._store, blob, cycle_id, epoch, part)

    def wait(self, timeout_seconds: float | None = None) -> None:
        """Wait until all are stored, or failed."""
        with self._mutex:
            pending = list(self._at_work.values())
        for future in pending:
            future.result(timeout_seconds)

    def close(self) -> None:
        """Finish what is at work and stop."""
        self.wait()
        with self._mutex:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()

    def _store(self, blob: EncodedBlob, cycle_id: str, epoch: int, part: EncodedPart | None) -> None:
        store, version = self._announcements.store, blob.name.to_version
        publication = Publication(store)
        keys = [f"staging/{cycle_id}/{blob.name}"]
        attached: list[StagedFile] = []
        try:
            if part is not None:
                keys.append(staged_key(cycle_id, part.name))
                attached.append(part.stage(store, cycle_id))
                with read_back(store, attached[0]):
                    pass
            staged = stage(store, cycle_id, blob, self._packing)
            with staged.read_back(store):
                pass  # the bytes are those that were checked; reading them compared the checksum
            publication.publish([staged], attached)
            artifacts = [staged.artifact, *(file.artifact for file in attached)]
            self._announcements.add_artifacts(version, artifacts, epoch=epoch)
        except Exception as error:
            # Unlisted it could not be verified, so it goes; but not if it may be listed after all.
            if not isinstance(error, CommitUnknownError):
                publication.take_back()
            log.warning("the snapshot of version %d could not be published: %s", version, error)
            failure = error
            self._listeners.tell_only(lambda listener: listener.snapshot_failed(version, failure))
        else:
            self._listeners.tell_only(lambda listener: listener.snapshot_published(version))
        finally:
            blob.close()
            if part is not None:
                part.close()
            try:
                unstage(store, keys)
            except DeltaicError:
                log.warning("%s is left in the staging folder", ", ".join(keys))
            with self._mutex:
                self._at_work.pop(cycle_id, None)
