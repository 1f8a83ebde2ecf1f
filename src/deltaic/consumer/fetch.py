"""Fetching: the bytes of a blob, from a copy or from the store, and proof that they are the announced ones.

Bytes that are verified are the bytes that are applied: both look at the same mapping or the same memory, so nothing can
change in between. A damaged copy is removed and the blob fetched once more; a damaged blob is refused.
"""

import logging
import mmap
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from deltaic.consumer.cache import BlobCache, is_full
from deltaic.consumer.route import Route
from deltaic.consumer.times import Times
from deltaic.errors import ChecksumError, NotFoundError, StorageError
from deltaic.limits import Limits
from deltaic.storage.announced import Artifact
from deltaic.storage.backoff import Backoff
from deltaic.storage.chain import BlobName
from deltaic.storage.checksum import verify
from deltaic.storage.local import LocalStore
from deltaic.storage.packing import unpacked
from deltaic.storage.store import Store
from deltaic.storage.transfer import check_limit
from deltaic.vector.names import part_name

log = logging.getLogger("deltaic.consumer")

_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Fetched:
    """The bytes of one step: the blob, and its optional parts by name."""

    data: memoryview
    parts: dict[str, memoryview]
    size_bytes: int
    """Of the files as they are stored."""
    from_cache: bool
    """True if nothing was read from the store."""
    verified: bool
    """True if every file was compared with its announced checksum."""


@dataclass(frozen=True, slots=True)
class FetchedPart:
    """The bytes of a vector part."""

    data: memoryview
    size_bytes: int
    from_cache: bool
    verified: bool
    """True if the file was compared with its announced checksum."""


@dataclass(slots=True)
class Fetcher:
    """Fetches the blobs of one chain."""

    store: Store
    cache: BlobCache | None
    backoff: Backoff
    limits: Limits
    parts: tuple[str, ...] = ()
    times: Times = field(default_factory=Times)

    def fetch(self, step: BlobName, route: Route) -> Fetched:
        """The verified bytes of a step."""
        blobs = [step, *(BlobName(step.kind, step.from_version, step.to_version, part) for part in self.parts)]
        read: dict[str | None, memoryview] = {}
        cached, verified, size_bytes = True, True, 0
        for blob in blobs:
            if str(blob) not in route.artifacts:
                if blob.part is None:
                    raise NotFoundError(f"{blob} is not among the announced files of {self.store.url}")
                continue  # this version has no such part
            artifact = route.artifact(blob)
            data, from_cache = self.read(str(blob), artifact)
            read[blob.part] = data
            size_bytes += len(data) if artifact is None else artifact.size
            cached, verified = cached and from_cache, verified and artifact is not None
        parts = {part: data for part, data in read.items() if part is not None}
        return Fetched(read[None], parts, size_bytes, cached, verified)

    def fetch_vectors(self, step: BlobName, route: Route) -> FetchedPart | None:
        """The verified bytes of the vector part beside a step's blob; None if it has none."""
        name = part_name(step)
        if name not in route.artifacts:
            return None
        artifact = route.artifacts[name]
        data, from_cache = self.read(name, artifact)
        return FetchedPart(data, len(data) if artifact is None else artifact.size, from_cache, artifact is not None)

    def read(self, name: str, artifact: Artifact | None) -> tuple[memoryview, bool]:
        """The bytes of one blob, verified if something was announced of it, and whether they were a copy's."""
        if artifact is None:
            # Not mapped: a Java producer writes over files in place, and a mapping would change or end under our hands.
            with self.times("fetch"):
                return self._in_memory(name, self.limits.max_blob_bytes), False
        check_limit(name, max(artifact.size, artifact.plain_size), self.limits.max_blob_bytes)
        data, from_cache = self._stored(name, artifact)
        if artifact.codec is not None:
            with self.times("fetch"):
                data = memoryview(unpacked(data, artifact, self.limits.max_blob_bytes))
        return data, from_cache

    def _stored(self, name: str, artifact: Artifact) -> tuple[memoryview, bool]:
        """The verified bytes of a file as it is stored."""
        if self.cache is not None:
            return self._through_cache(self.cache, artifact)
        with self.times("fetch"):
            data = self._mapped_in_place(self.store, name) if isinstance(self.store, LocalStore) else None
            if data is None:
                data = self._in_memory(name, artifact.size)
        self._verify(data, artifact)
        return data, False

    def _through_cache(self, cache: BlobCache, artifact: Artifact) -> tuple[memoryview, bool]:
        for attempt in (1, 2):
            with self.times("fetch"):
                handle = cache.find(self.store.url, artifact)
                if handle is None:
                    break
                data = _mapped(handle)
            try:
                self._verify(data, artifact)
            except ChecksumError:
                log.warning("the copy of %s is damaged and is fetched again", artifact.name)
                cache.drop(self.store.url, artifact)
                if attempt == 2:
                    raise
            else:
                return data, True
        try:
            with self.times("fetch"):
                data = _mapped(cache.fill(self.store.url, artifact, lambda path: self._to_file(artifact, path)))
        except StorageError as error:
            if not is_full(error):
                raise
            log.warning("%s is read without a copy: %s", artifact.name, str(error))
            with self.times("fetch"):
                data = self._in_memory(artifact.name, artifact.size)
        # Once more, on the mapping itself: these are the bytes that will be applied.
        self._verify(data, artifact)
        return data, False

    def _to_file(self, artifact: Artifact, path: Path) -> None:
        def read() -> None:
            # A failed attempt may have left its file.
            with suppress(FileNotFoundError):
                path.unlink()
            self.store.get_to_file(artifact.name, path, limit_bytes=artifact.size)

        self.backoff.read(read)

    def _in_memory(self, name: str, limit_bytes: int) -> memoryview:
        return memoryview(self.backoff.read(lambda: self.store.get(name, limit_bytes=limit_bytes)).data)

    def _mapped_in_place(self, store: LocalStore, name: str) -> memoryview:
        try:
            return _mapped(os.open(store.path_of(name), _READ_FLAGS))
        except FileNotFoundError:
            raise NotFoundError(f"there is no {name} in {store.url}") from None
        except OSError as error:
            raise StorageError(error.errno, f"cannot read {name} in {store.url}: {error.strerror}") from error

    def _verify(self, data: memoryview, artifact: Artifact) -> None:
        with self.times("verify"):
            if len(data) != artifact.size:
                reason = f"{len(data):,} bytes where {artifact.size:,} were announced"
                raise ChecksumError("WrongSize", reason, artifact.name)
            verify(data, artifact.checksum, artifact.name)


def _mapped(handle: int) -> memoryview:
    """All bytes of an open file, which is closed."""
    try:
        size_bytes = os.fstat(handle).st_size
        if size_bytes == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(handle, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ))
    finally:
        os.close(handle)
