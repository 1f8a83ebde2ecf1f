"""A folder as a store: durable, atomic, with conditional writes.

A write makes an exclusive temporary file in the target's own folder, writes, syncs the file, gives it its name (`link`
for put-if-absent, `rename` otherwise) and syncs the folder. A reader opens a name or does not find it; it never sees
half. Put-if-match, put and delete take the lock of the folder (`.deltaic-lock`, flock) for the moment between comparing
and renaming; temporary files are written before. After a crash a temporary file may be left: `sweep` removes old ones.

The etag of an object up to 1 MiB is a hash of its bytes: right however fast writes follow each other, and also when
another program (a Java producer) wrote the file. A larger object's is its inode, size and time stamp; those
are blobs, which are not overwritten. Links planted below the root are refused.
"""

import errno
import hashlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from deltaic.errors import (
    CommitConflictError,
    CommitUnknownError,
    DeltaicError,
    InputError,
    NotFoundError,
    StorageError,
)
from deltaic.storage.disk import Disk, FileFacts, FolderEntry, RealDisk
from deltaic.storage.names import RESERVED_PREFIX, check_key, check_segment, join_key
from deltaic.storage.store import Blob, Data, ObjectInfo
from deltaic.storage.transfer import CHUNK_BYTES, check_limit, check_range, file_chunks, new_file

TEMPORARY_PREFIX = RESERVED_PREFIX + "tmp-"
"""How the names of temporary files start."""

LOCK_NAME = RESERVED_PREFIX + "lock"
"""The lock file of a folder. It stays: removing it would let two writers hold different locks."""

HASHED_BYTES = 1 << 20
"""Objects up to this size have the hash of their bytes as etag."""

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
# After one of these from link or rename nothing has changed; after any other it may have.
_REFUSED = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.EMLINK,
    errno.EXDEV,
    errno.EISDIR,
    errno.ENOTDIR,
    errno.ENOTSUP,
    errno.ELOOP,
    errno.ENAMETOOLONG,
)


class LocalStore:
    """A store in a folder of this machine.

    Args:
        root: the folder; it is made with the first write.
        disk: what stands for the file system; tests put models here.
        lock_timeout_seconds: how long a conditional write waits for another one.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        disk: Disk | None = None,
        lock_timeout_seconds: float = 30.0,
        file_mode: int = 0o644,
        folder_mode: int = 0o755,
        prefix: str = "",
    ) -> None:
        self.root = Path(os.path.abspath(root))
        self._given_disk = disk
        self._disk: Disk = disk or RealDisk(self.root, file_mode=file_mode, folder_mode=folder_mode)
        self._lock_timeout_seconds = lock_timeout_seconds
        self._modes = (file_mode, folder_mode)
        self._prefix = prefix

    @property
    def url(self) -> str:
        """Where this is, for people: without credentials."""
        return self.folder.as_uri()

    def __repr__(self) -> str:
        return f"LocalStore({self.url!r})"

    def child(self, name: str) -> "LocalStore":
        """The same store seen from a folder inside it."""
        return LocalStore(
            self.root,
            disk=self._disk,
            lock_timeout_seconds=self._lock_timeout_seconds,
            file_mode=self._modes[0],
            folder_mode=self._modes[1],
            prefix=join_key(self._prefix, check_key(name)),
        )

    def __reduce__(self) -> tuple[object, ...]:
        if self._given_disk is not None and not isinstance(self._given_disk, RealDisk):
            raise InputError("a local store on a test's disk is not pickled")
        return _reopen, (str(self.root), self._lock_timeout_seconds, *self._modes, self._prefix)

    @property
    def folder(self) -> Path:
        """The folder that keys are relative to."""
        return self.root / self._prefix

    def path_of(self, key: str) -> Path:
        """Where the object's file is, to map it into memory; objects are replaced, never changed in place."""
        return self.root / self._path(key)

    def get(self, key: str, *, limit_bytes: int | None = None) -> Blob:
        """Read a whole object; LimitError, before reading, if it is larger than the limit."""
        with self._reading(key) as (handle, facts):
            check_limit(self._shown(key), facts.size_bytes, limit_bytes)
            data = self._disk.read(handle, 0, facts.size_bytes)
            if len(data) != facts.size_bytes:
                raise StorageError(errno.EIO, f"{self._shown(key)} ended after {len(data)} of {facts.size_bytes} bytes")
            digest = _Digest()
            digest.update(data)
            return Blob(data, digest.etag(facts))

    def get_if_changed(self, key: str, etag: str | None, *, limit_bytes: int | None = None) -> Blob | None:
        """Read the object unless its etag is still this one: then None."""
        if etag is not None and self.head(key).etag == etag:
            return None
        blob = self.get(key, limit_bytes=limit_bytes)
        return None if blob.etag == etag else blob

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part; shorter at the end of the object, empty past it."""
        check_range(start, length)
        with self._reading(key) as (handle, _):
            return self._disk.read(handle, start, length)

    def get_to_file(self, key: str, path: str | os.PathLike[str], *, limit_bytes: int | None = None) -> ObjectInfo:
        """Stream the object into a new file; the file must not exist and is removed again if anything fails."""
        digest = _Digest()
        with self._reading(key) as (handle, facts):
            check_limit(self._shown(key), facts.size_bytes, limit_bytes)
            with new_file(path) as write:
                start = 0
                while piece := self._disk.read(handle, start, CHUNK_BYTES):
                    write(piece)
                    digest.update(piece)
                    start += len(piece)
        return ObjectInfo(key, facts.size_bytes, digest.etag(facts), _time(facts.modified_ns))

    def head(self, key: str) -> ObjectInfo:
        """Size, etag and time of an object."""
        digest = _Digest()
        with self._reading(key) as (handle, facts):
            if facts.size_bytes <= HASHED_BYTES:
                digest.update(self._disk.read(handle, 0, facts.size_bytes))
        return ObjectInfo(key, facts.size_bytes, digest.etag(facts), _time(facts.modified_ns))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object whose key starts with the text `prefix`, at any depth, in no promised order."""
        folder, _, start = prefix.rpartition("/")
        if folder:
            check_key(folder)
        yield from self._walk(folder, start)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """The names of the folders directly under the folder `prefix`, sorted."""
        folder = prefix.rstrip("/")
        if folder:
            check_key(folder)
        names = [
            entry.name
            for entry in self._entries(folder)
            if entry.is_folder and next(self._walk(join_key(folder, entry.name), ""), None) is not None
        ]
        return tuple(sorted(names))

    def put(self, key: str, data: Data) -> str:
        """Write an object, over an older one if there is one; gives its etag."""
        return self.put_chunks(key, (data,))

    def put_file(self, key: str, path: str | os.PathLike[str]) -> str:
        """Write an object from a local file without holding it in memory."""
        return self.put_chunks(key, file_chunks(path))

    def put_chunks(self, key: str, chunks: Iterable[Data]) -> str:
        """Write an object from pieces; it appears when the last one is there, and never if the iterator raises."""
        target = self._path(key)
        with (
            self._staged(key, chunks) as (temporary, etag),
            self._named(key, conditional=False) as naming,
            self._locked(target),
        ):
            naming.rename(temporary, target)
            self._disk.sync_folder(_folder_of(target))
        return etag

    def put_if_absent(self, key: str, data: Data) -> str:
        """Write an object if there is none of that key, else CommitConflictError."""
        target = self._path(key)
        with self._staged(key, (data,)) as (temporary, etag), self._named(key, conditional=True) as naming:
            naming.link(temporary, target)
            with suppress(OSError):
                self._disk.unlink(temporary)
            self._disk.sync_folder(_folder_of(target))
        return etag

    def put_if_match(self, key: str, data: Data, etag: str) -> str:
        """Write over an object if its etag is still this one, else CommitConflictError."""
        target = self._path(key)
        with (
            self._staged(key, (data,)) as (temporary, new_etag),
            self._named(key, conditional=True) as naming,
            self._locked(target),
        ):
            if self._current_etag(key) != etag:
                raise CommitConflictError(f"{self._shown(key)} was changed by another writer")
            naming.rename(temporary, target)
            self._disk.sync_folder(_folder_of(target))
        return new_etag

    def copy_if_absent(self, source: str, key: str) -> str:
        """Give the bytes of a staged object a second name if that is free, else CommitConflictError."""
        etag = self.head(source).etag
        target = self._path(key)
        with self._named(key, conditional=True) as naming:
            self._make_folders(_folder_of(target))
            naming.link(self._path(source), target)
            self._disk.sync_folder(_folder_of(target))
        assert etag is not None
        return etag

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is no error."""
        target = self._path(key)
        try:
            with self._locked(target):
                self._disk.unlink(target)
                self._disk.sync_folder(_folder_of(target))
        except OSError as error:
            if error.errno not in _ABSENT:
                raise self._failed("delete", key, error) from error

    def sweep(self, *, older_than_seconds: float = 86_400.0, dry_run: bool = False) -> tuple[str, ...]:
        """Remove temporary files that crashed writers left; gives their paths below the root."""
        oldest = time.time_ns() - int(older_than_seconds * 1e9)
        removed = []
        for folder in self._all_folders(self._prefix):
            for entry in self._disk.scan(folder):
                if entry.is_file and entry.name.startswith(TEMPORARY_PREFIX) and entry.modified_ns < oldest:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if not dry_run:
                        with suppress(FileNotFoundError):
                            self._disk.unlink(path)
                    removed.append(path)
        return tuple(sorted(removed))

    def _path(self, key: str) -> str:
        return join_key(self._prefix, check_key(key))

    def _shown(self, key: str) -> str:
        return f"{self.url}/{key}"

    def _failed(self, what: str, key: str, error: OSError) -> DeltaicError:
        if error.errno in (errno.ELOOP,):
            return StorageError(errno.ELOOP, f"cannot {what} {self._shown(key)}: a symbolic link is in its way")
        return StorageError(error.errno, f"cannot {what} {self._shown(key)}: {error.strerror or error}")

    @contextmanager
    def _reading(self, key: str) -> Iterator[tuple[int, FileFacts]]:
        handle = None
        try:
            handle = self._disk.open(self._path(key))
            yield handle, self._disk.facts(handle)
        except StorageError:
            raise
        except OSError as error:
            if handle is None and error.errno in _ABSENT:
                raise NotFoundError(f"there is no {self._shown(key)}") from error
            raise self._failed("read", key, error) from error
        finally:
            if handle is not None:
                self._disk.close(handle)

    @contextmanager
    def _staged(self, key: str, chunks: Iterable[Data]) -> Iterator[tuple[str, str]]:
        """A temporary file beside the target, written and synced; removed unless the body renamed it."""
        folder = _folder_of(self._path(key))
        temporary = f"{folder}/{TEMPORARY_PREFIX}" if folder else TEMPORARY_PREFIX
        temporary += secrets.token_hex(8)
        try:
            self._make_folders(folder)
            handle = self._disk.create(temporary)
        except OSError as error:
            raise self._failed("write", key, error) from error
        try:
            try:
                etag = self._fill(handle, chunks)
            finally:
                self._disk.close(handle)
            yield temporary, etag
        except BaseException as error:
            with suppress(OSError):
                self._disk.unlink(temporary)
            if isinstance(error, OSError) and not isinstance(error, DeltaicError):
                raise self._failed("write", key, error) from error
            raise

    def _fill(self, handle: int, chunks: Iterable[Data]) -> str:
        digest = _Digest()
        for chunk in chunks:
            view = memoryview(chunk).cast("B")
            digest.update(view)
            self._disk.write(handle, view)
        self._disk.sync(handle)
        return digest.etag(self._disk.facts(handle))

    @contextmanager
    def _named(self, key: str, *, conditional: bool) -> Iterator["_Naming"]:
        """Translate what giving the name may raise, by how far it got."""
        naming = _Naming(self._disk)
        try:
            yield naming
        except DeltaicError:
            raise
        except OSError as error:
            if naming.asked and not naming.done and isinstance(error, FileExistsError):
                raise CommitConflictError(f"{self._shown(key)} exists") from error
            if conditional and (naming.done or (naming.asked and error.errno not in _REFUSED)):
                raise CommitUnknownError(f"{self._shown(key)} may or may not be written: {error.strerror}") from error
            raise self._failed("write", key, error) from error

    def _locked(self, target: str) -> AbstractContextManager[None]:
        folder = _folder_of(target)
        return self._disk.lock(f"{folder}/{LOCK_NAME}" if folder else LOCK_NAME, self._lock_timeout_seconds)

    def _make_folders(self, folder: str) -> None:
        self._disk.make_folder("")
        made = ""
        for name in folder.split("/") if folder else ():
            parent, made = made, join_key(made, name)
            if self._disk.make_folder(made):
                self._disk.sync_folder(parent)

    def _current_etag(self, key: str) -> str | None:
        try:
            return self.head(key).etag
        except NotFoundError:
            return None

    def _entries(self, folder: str) -> Iterator[FolderEntry]:
        try:
            found = self._disk.scan(join_key(self._prefix, folder))
        except OSError as error:
            if error.errno in _ABSENT:
                return
            raise self._failed("list", folder, error) from error
        for entry in found:
            try:
                check_segment(entry.name)
            except InputError:
                continue  # temporary files, the lock, and names that no key can have
            yield entry

    def _walk(self, folder: str, start: str) -> Iterator[ObjectInfo]:
        for entry in self._entries(folder):
            if not entry.name.startswith(start):
                continue
            key = join_key(folder, entry.name)
            if entry.is_file:
                yield ObjectInfo(key, entry.size_bytes, None, _time(entry.modified_ns))
            elif entry.is_folder:
                yield from self._walk(key, "")

    def _all_folders(self, folder: str) -> Iterator[str]:
        try:
            entries = self._disk.scan(folder)
        except FileNotFoundError:
            return
        yield folder
        for entry in entries:
            if entry.is_folder:
                yield from self._all_folders(f"{folder}/{entry.name}" if folder else entry.name)


class _Naming:
    """The step that makes a write visible, and how far it got: before it nothing has happened, after it all has."""

    def __init__(self, disk: Disk) -> None:
        self._disk, self.asked, self.done = disk, False, False

    def link(self, source: str, target: str) -> None:
        self.asked = True
        self._disk.link(source, target)
        self.done = True

    def rename(self, source: str, target: str) -> None:
        self.asked = True
        self._disk.rename(source, target)
        self.done = True


class _Digest:
    """The etag in the making: the hash of the bytes as long as they are few."""

    def __init__(self) -> None:
        self._hash, self._size_bytes = hashlib.blake2b(digest_size=16), 0

    def update(self, data: Data) -> None:
        self._size_bytes += len(data)
        if self._size_bytes <= HASHED_BYTES:
            self._hash.update(data)

    def etag(self, facts: FileFacts) -> str:
        if facts.size_bytes <= HASHED_BYTES:
            return f"h-{self._hash.hexdigest()}"
        return f"s-{facts.inode:x}-{facts.size_bytes:x}-{facts.modified_ns:x}"


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _time(modified_ns: int) -> datetime:
    return datetime.fromtimestamp(modified_ns / 1e9, UTC)


def _reopen(root: str, lock_timeout_seconds: float, file_mode: int, folder_mode: int, prefix: str) -> LocalStore:
    return LocalStore(
        root,
        lock_timeout_seconds=lock_timeout_seconds,
        file_mode=file_mode,
        folder_mode=folder_mode,
        prefix=prefix,
    )
