"""The few things the local store asks of a disk, and the real disk.

The local store is written against `Disk`, so that a test can put a model in its place that loses whatever was not
synced (`deltaic.testing.dishonest_disk`), or stop the process before and after each step. Paths are `/`-separated and
relative to the root; the empty path is the root itself.

`RealDisk` walks from the root folder by folder with directory handles and never follows a symbolic link below the root:
a link planted there is an error, whatever it points at and whenever it appears. POSIX only.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_FLAGS = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_POLL_SECONDS = (0.0005, 0.02)


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a file's inode says."""

    size_bytes: int
    modified_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A name in a folder; neither flag is set for links, pipes and devices."""

    name: str
    is_file: bool
    is_folder: bool
    size_bytes: int
    modified_ns: int


class Disk(Protocol):
    """Files and folders under one root. Every failure is an OSError with its errno."""

    def make_folder(self, folder: str) -> bool:
        """Make one folder whose parent exists; False if it was there."""
        ...

    def create(self, path: str) -> int:
        """Make a new file and give a handle for writing."""
        ...

    def write(self, handle: int, data: memoryview) -> None:
        """Append all the bytes."""
        ...

    def sync(self, handle: int) -> None:
        """Return when the file's bytes are on the medium."""
        ...

    def facts(self, handle: int) -> FileFacts:
        """Size, time and inode of an open file."""
        ...

    def close(self, handle: int) -> None:
        """Give the handle back."""
        ...

    def link(self, source: str, target: str) -> None:
        """Give a file a second name; FileExistsError if that is taken."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a name over another in one step."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a name."""
        ...

    def sync_folder(self, folder: str) -> None:
        """Return when the folder's names are on the medium."""
        ...

    def open(self, path: str) -> int:
        """Open a regular file for reading; ELOOP if it is a symbolic link."""
        ...

    def read(self, handle: int, start: int, length: int) -> bytes:
        """Read up to `length` bytes; fewer only at the end of the file."""
        ...

    def scan(self, folder: str) -> list[FolderEntry]:
        """The names in a folder."""
        ...

    def lock(self, path: str, timeout_seconds: float) -> AbstractContextManager[None]:
        """Hold the lock of that name; TimeoutError if another holds it too long. It ends with the process."""
        ...


class RealDisk:
    """The file system below a root folder."""

    def __init__(self, root: str | os.PathLike[str], *, file_mode: int = 0o644, folder_mode: int = 0o755) -> None:
        # The root may be reached by links, as the caller wishes; everything below it may not.
        self.root = Path(os.path.realpath(root))
        self.file_mode, self.folder_mode = file_mode, folder_mode

    def make_folder(self, folder: str) -> bool:
        """Make one folder whose parent exists; False if it was there."""
        if not folder:
            return self._make_root()
        with self._parent(folder) as (parent, name):
            try:
                os.mkdir(name, self.folder_mode, dir_fd=parent)
            except FileExistsError:
                os.close(_open_folder(name, parent))
                return False
            return True

    def create(self, path: str) -> int:
        """Make a new file and give a handle for writing."""
        with self._parent(path) as (folder, name):
            return os.open(name, _CREATE_FLAGS, self.file_mode, dir_fd=folder)

    def write(self, handle: int, data: memoryview) -> None:
        """Append all the bytes."""
        while len(data):
            data = data[os.write(handle, data) :]

    def sync(self, handle: int) -> None:
        """Return when the file's bytes are on the medium."""
        # The kernel's own stamps may repeat within a tick of 4 ms; large files are told apart by theirs.
        now = time.time_ns()
        os.utime(handle, ns=(now, now))
        os.fsync(handle)

    def facts(self, handle: int) -> FileFacts:
        """Size, time and inode of an open file."""
        found = os.fstat(handle)
        return FileFacts(found.st_size, found.st_mtime_ns, found.st_ino)

    def close(self, handle: int) -> None:
        """Give the handle back."""
        os.close(handle)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name; FileExistsError if that is taken."""
        with self._parent(source) as (source_folder, source_name), self._parent(target) as (folder, name):
            os.link(source_name, name, src_dir_fd=source_folder, dst_dir_fd=folder, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        """Move a name over another in one step."""
        with self._parent(source) as (source_folder, source_name), self._parent(target) as (folder, name):
            os.rename(source_name, name, src_dir_fd=source_folder, dst_dir_fd=folder)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        with self._parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def sync_folder(self, folder: str) -> None:
        """Return when the folder's names are on the medium."""
        with self._folder(folder) as handle:
            os.fsync(handle)

    def open(self, path: str) -> int:
        """Open a regular file for reading; ELOOP if it is a symbolic link."""
        with self._parent(path) as (folder, name):
            handle = os.open(name, _READ_FLAGS, dir_fd=folder)
        mode = os.fstat(handle).st_mode
        if stat.S_ISREG(mode):
            return handle
        os.close(handle)
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "not a regular file")

    def read(self, handle: int, start: int, length: int) -> bytes:
        """Read up to `length` bytes; fewer only at the end of the file."""
        pieces: list[bytes] = []
        while length > 0 and (piece := os.pread(handle, min(length, 1 << 30), start)):
            pieces.append(piece)
            start, length = start + len(piece), length - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def scan(self, folder: str) -> list[FolderEntry]:
        """The names in a folder."""
        entries = []
        with self._folder(folder) as handle, os.scandir(handle) as found:
            for entry in found:
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                mode = facts.st_mode
                entries.append(
                    FolderEntry(entry.name, stat.S_ISREG(mode), stat.S_ISDIR(mode), facts.st_size, facts.st_mtime_ns)
                )
        return entries

    @contextmanager
    def lock(self, path: str, timeout_seconds: float) -> Iterator[None]:
        """Hold the lock of that name; TimeoutError if another holds it too long. It ends with the process."""
        import fcntl

        deadline = time.monotonic() + timeout_seconds
        pause, longest = _LOCK_POLL_SECONDS
        while True:
            with self._parent(path) as (folder, name):
                handle = os.open(name, _LOCK_FLAGS, self.file_mode, dir_fd=folder)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _same_file(handle, name, folder):
                        break
                except BlockingIOError:
                    pass
                except BaseException:
                    os.close(handle)
                    raise
            os.close(handle)
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, f"another process held the lock for {timeout_seconds:g} s")
            time.sleep(pause)
            pause = min(pause * 2, longest)
        try:
            yield
        finally:
            os.close(handle)

    def _make_root(self) -> bool:
        missing = [self.root] if not self.root.is_dir() else []
        while missing and not missing[-1].parent.is_dir():
            missing.append(missing[-1].parent)
        for folder in reversed(missing):
            try:
                folder.mkdir(self.folder_mode)
            except FileExistsError:
                continue
            handle = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return bool(missing)

    @contextmanager
    def _folder(self, folder: str) -> Iterator[int]:
        handle = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in folder.split("/") if folder else ():
                inner = _open_folder(name, handle)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        folder, _, name = path.rpartition("/")
        with self._folder(folder) as handle:
            yield handle, name


def _open_folder(name: str, parent: int) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    except NotADirectoryError:
        # The kernel says so for a link too; a link is worth its own word.
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, "a symbolic link in the place of a folder") from None
        raise


def _same_file(handle: int, name: str, folder: int) -> bool:
    # Someone may have removed the lock file between opening and locking; then two could hold "the" lock.
    try:
        named = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), named)
