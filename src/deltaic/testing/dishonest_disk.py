"""A disk that keeps only what was synced, as a power cut may leave it.

`DishonestDisk` is a `Disk` (storage/disk.py) in memory. It keeps two pictures: what a running process sees, and what
is certain to be on the medium: bytes of files that were synced, names of folders that were synced. `crash` gives
the disk after a power cut: every name and every file that was not synced is, each by its own throw, as before,
as now, or (bytes) cut somewhere or zeroed, in whatever order. Code that survives all seeds syncs what it must.
"""

import errno
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deltaic.storage.disk import FileFacts, FolderEntry

Hook = Callable[[str, str], None]
"""Called as hook(step, path) before a step; what it raises is raised in the step's place."""


class _File:
    def __init__(self, inode: int) -> None:
        self.inode = inode
        self.data = bytearray()
        self.synced: bytes | None = None
        self.modified_ns = 0


class DishonestDisk:
    """A disk in memory whose `crash` loses what was not synced."""

    def __init__(self, *, hook: Hook | None = None, capacity_bytes: int | None = None) -> None:
        self.hook = hook
        self.capacity_bytes = capacity_bytes
        self.steps: list[tuple[str, str]] = []
        self._names: dict[str, _File | None] = {"": None}  # None is a folder
        self._durable: dict[str, _File | None] = {"": None}
        self._open: dict[int, _File] = {}
        self._numbers = itertools.count(1)
        self._mutex = threading.RLock()
        self._locks: dict[str, threading.Lock] = {}

    def crash(self, chance: random.Random) -> "DishonestDisk":
        """The disk that a machine finds after its power failed now."""
        after = DishonestDisk()
        after._numbers = itertools.count(1_000_000)
        copies: dict[int, _File] = {}
        for path in sorted(set(self._names) | set(self._durable)):
            now, before = self._names.get(path, _GONE), self._durable.get(path, _GONE)
            kept = now if now is before or chance.random() < 0.5 else before
            if isinstance(kept, _Gone) or not after._has_folder(path):
                continue
            if kept is not None and kept.inode not in copies:
                copies[kept.inode] = _after_power_cut(kept, chance)
            after._names[path] = after._durable[path] = None if kept is None else copies[kept.inode]
        return after

    def files(self) -> dict[str, bytes]:
        """Every file that a process sees now."""
        return {path: bytes(file.data) for path, file in self._names.items() if file is not None}

    def make_folder(self, folder: str) -> bool:
        """Make one folder whose parent exists; False if it was there."""
        with self._step("make_folder", folder):
            if folder in self._names:
                if self._names[folder] is not None:
                    raise NotADirectoryError(errno.ENOTDIR, "not a folder")
                return False
            self._need_parent(folder)
            self._names[folder] = None
            return True

    def create(self, path: str) -> int:
        """Make a new file and give a handle for writing."""
        with self._step("create", path):
            self._need_parent(path)
            if path in self._names:
                raise FileExistsError(errno.EEXIST, "exists")
            file = self._names[path] = _File(next(self._numbers))
            return self._handle(file)

    def write(self, handle: int, data: memoryview) -> None:
        """Append all the bytes."""
        with self._step("write", str(handle)):
            used = sum(len(file.data) for file in self._names.values() if file is not None)
            if self.capacity_bytes is not None and used + len(data) > self.capacity_bytes:
                self._open[handle].data += data[: self.capacity_bytes - used]
                raise OSError(errno.ENOSPC, "no space left on device")
            self._open[handle].data += data

    def sync(self, handle: int) -> None:
        """Return when the file's bytes are on the medium."""
        with self._step("sync", str(handle)):
            file = self._open[handle]
            file.modified_ns = time.time_ns()
            file.synced = bytes(file.data)

    def facts(self, handle: int) -> FileFacts:
        """Size, time and inode of an open file."""
        file = self._open[handle]
        return FileFacts(len(file.data), file.modified_ns, file.inode)

    def close(self, handle: int) -> None:
        """Give the handle back."""
        with self._mutex:
            del self._open[handle]

    def link(self, source: str, target: str) -> None:
        """Give a file a second name; FileExistsError if that is taken."""
        with self._step("link", target):
            self._need_parent(target)
            if target in self._names:
                raise FileExistsError(errno.EEXIST, "exists")
            self._names[target] = self._file(source)

    def rename(self, source: str, target: str) -> None:
        """Move a name over another in one step."""
        with self._step("rename", target):
            self._need_parent(target)
            file = self._file(source)
            if target in self._names and self._names[target] is None:
                raise IsADirectoryError(errno.EISDIR, "is a folder")
            self._names[target] = file
            del self._names[source]

    def unlink(self, path: str) -> None:
        """Remove a name."""
        with self._step("unlink", path):
            self._file(path)
            del self._names[path]

    def sync_folder(self, folder: str) -> None:
        """Return when the folder's names are on the medium."""
        with self._step("sync_folder", folder):
            inside = [path for path in {*self._names, *self._durable} if path and _parent(path) == folder]
            for path in inside:
                if path in self._names:
                    self._durable[path] = self._names[path]
                else:
                    del self._durable[path]

    def open(self, path: str) -> int:
        """Open a regular file for reading; ELOOP if it is a symbolic link."""
        with self._step("open", path):
            return self._handle(self._file(path))

    def read(self, handle: int, start: int, length: int) -> bytes:
        """Read up to `length` bytes; fewer only at the end of the file."""
        with self._step("read", str(handle)):
            return bytes(self._open[handle].data[start : start + length])

    def scan(self, folder: str) -> list[FolderEntry]:
        """The names in a folder."""
        with self._step("scan", folder):
            if self._names.get(folder, _GONE) is not None:
                raise FileNotFoundError(errno.ENOENT, "no such folder")
            return [
                FolderEntry(
                    path.rpartition("/")[2],
                    file is not None,
                    file is None,
                    0 if file is None else len(file.data),
                    0 if file is None else file.modified_ns,
                )
                for path, file in self._names.items()
                if path and _parent(path) == folder
            ]

    @contextmanager
    def lock(self, path: str, timeout_seconds: float) -> Iterator[None]:
        """Hold the lock of that name; TimeoutError if another holds it too long. It ends with the process."""
        with self._mutex:
            self._need_parent(path)
            lock = self._locks.setdefault(path, threading.Lock())
        if not lock.acquire(timeout=timeout_seconds):
            raise TimeoutError(errno.ETIMEDOUT, "locked")
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _step(self, step: str, path: str) -> Iterator[None]:
        with self._mutex:
            self.steps.append((step, path))
            if self.hook is not None:
                self.hook(step, path)
            yield

    def _handle(self, file: _File) -> int:
        handle = next(self._numbers)
        self._open[handle] = file
        return handle

    def _file(self, path: str) -> _File:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file")
        file = self._names[path]
        if file is None:
            raise IsADirectoryError(errno.EISDIR, "is a folder")
        return file

    def _has_folder(self, path: str) -> bool:
        return not path or self._names.get(_parent(path), _GONE) is None

    def _need_parent(self, path: str) -> None:
        if not self._has_folder(path):
            raise FileNotFoundError(errno.ENOENT, "no such folder")


class _Gone:
    pass


_GONE = _Gone()


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _after_power_cut(file: _File, chance: random.Random) -> _File:
    copy = _File(file.inode)
    copy.modified_ns = file.modified_ns
    if file.synced == bytes(file.data):
        copy.data = bytearray(file.data)
    else:
        # Unsynced bytes: cut anywhere, or there in length but not in content.
        copy.data = bytearray(file.data[: chance.randint(0, len(file.data))])
        if chance.random() < 0.5:
            copy.data = bytearray(len(copy.data))
    copy.synced = bytes(copy.data)
    return copy
