"""Folders of one user alone, and the locks in them.

Every name is opened relative to the folder's own descriptor and without following links, and must be a plain file of
this user: whoever plants something in a shared mount gets an error out of us, and nothing else.

There are two kinds of locks, both `flock` and so gone with their process, however it ends. The *lock of the maker* is
exclusive, and so is the lock of whoever makes an index. A *lease* is a shared lock on a file that says "somebody reads
what this describes". After a fork the child has leases of its own, and never a lock.
"""

import contextlib
import fcntl
import logging
import os
import stat
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from deltaic.errors import StorageError

log = logging.getLogger("deltaic.consumer")

OnStep = Callable[[str], None]
"""Called before and after each change of a folder with what it is; tests kill the process there."""

_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_POLL_SECONDS = 0.002
_MAKERS_LOCK = "lock"


class PrivateFolder:
    """A folder of this user alone."""

    def __init__(self, path: Path, on_step: OnStep | None = None) -> None:
        self.path = path
        self._on_step = on_step
        self._handle = _Handle(path)

    @contextlib.contextmanager
    def _step(self, name: str) -> Iterator[None]:
        if self._on_step is not None:
            self._on_step(f"before {name}")
        yield
        if self._on_step is not None:
            self._on_step(f"after {name}")

    def _descriptor(self) -> int:
        if self._handle.is_gone():
            self._handle = _Handle(self.path)
        return self._handle.descriptor

    def names(self) -> set[str]:
        """Everything in it."""
        return set(os.listdir(self._descriptor()))

    def open(self, name: str, *, writable: bool = False) -> int:
        """Open a file that is there. FileNotFoundError if it is not, StorageError if it is not a file of this user."""
        mode = os.O_RDWR if writable else os.O_RDONLY
        try:
            descriptor = os.open(name, mode | _FLAGS, dir_fd=self._descriptor())
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StorageError(error.errno, f"{name} in {self.path} cannot be opened: {error.strerror}") from error
        if not _is_own(os.fstat(descriptor), stat.S_ISREG):
            os.close(descriptor)
            raise StorageError(f"{name} in {self.path} is not a file of this user")
        return descriptor

    def create(self, name: str, size_bytes: int) -> int:
        """Make a file with all its room reserved."""
        descriptor = -1
        try:
            with self._step("create"):
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS
                descriptor = os.open(name, flags, 0o600, dir_fd=self._descriptor())
            with self._step("reserve"):
                os.posix_fallocate(descriptor, 0, size_bytes)
        except OSError as error:
            if descriptor >= 0:
                os.close(descriptor)
                self.unlink(name)
            reason = f"no room for {size_bytes:,} bytes of a shared state in {self.path}: {error.strerror}"
            raise StorageError(error.errno, reason) from error
        return descriptor

    def write(self, name: str, data: bytes) -> None:
        """Put a whole file under a new name, in one step."""
        temporary = f"tmp-{name}"
        self.unlink(temporary)
        descriptor = self.create(temporary, len(data))
        try:
            with self._step("write"):
                os.pwrite(descriptor, data, 0)
        finally:
            os.close(descriptor)
        self.rename(temporary, name)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name."""
        folder = self._descriptor()
        with self._step("rename"):
            os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)

    def unlink(self, name: str) -> None:
        """Take a file out, if it is there."""
        with self._step("unlink"), contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor())

    def discard(self, name: str) -> None:
        """Take out a file that nobody reads. Its memory goes at once, though a process may still have it mapped."""
        with contextlib.suppress(OSError):
            descriptor = self.open(name, writable=True)
            try:
                with self._step("truncate"):
                    os.ftruncate(descriptor, 0)
            finally:
                os.close(descriptor)
        self.unlink(name)

    def stat(self, name: str) -> os.stat_result:
        """Facts about a name itself, not about what a link leads to."""
        return os.stat(name, dir_fd=self._descriptor(), follow_symlinks=False)

    def sizes(self, names: Iterable[str]) -> dict[str, int]:
        """The sizes of those of the names that are files of this user, without another name."""
        found = {name: self.stat(name) for name in names}
        return {name: one.st_size for name, one in found.items() if _is_own(one, stat.S_ISREG) and one.st_nlink == 1}

    def free_bytes(self) -> int:
        """Room left on the mount."""
        found = os.statvfs(self._descriptor())
        return found.f_bavail * found.f_frsize

    def remove(self) -> None:
        """Take the folder and all files in it away; the caller holds its lock."""
        for name in self.names():
            self.unlink(name)
        with contextlib.suppress(OSError):
            self.path.rmdir()

    @contextlib.contextmanager
    def try_lock(self, name: str = _MAKERS_LOCK) -> Iterator[bool]:
        """Be the maker inside the block, or what else a lock is for, if nobody else is; gives whether that worked."""
        held = self._take_lock(name)
        try:
            yield held is not None
        finally:
            if held is not None:
                held.release()

    @contextlib.contextmanager
    def lock(self, timeout_seconds: float) -> Iterator[None]:
        """Be the maker inside the block; waits for another one."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            with self.try_lock() as held:
                if held:
                    yield
                    return
            if time.monotonic() > deadline:
                reason = (
                    f"another process has held the lock of the shared state {self.path.name} for {timeout_seconds} s"
                )
                raise StorageError(reason)
            time.sleep(_POLL_SECONDS)

    def _take_lock(self, name: str) -> "_HeldLock | None":
        while True:
            try:
                flags = os.O_RDWR | os.O_CREAT | _FLAGS
                descriptor = os.open(name, flags, 0o600, dir_fd=self._descriptor())
            except OSError as error:
                raise StorageError(
                    error.errno, f"the lock of {self.path} cannot be opened: {error.strerror}"
                ) from error
            if not _is_own(os.fstat(descriptor), stat.S_ISREG):
                os.close(descriptor)
                raise StorageError(f"the lock of {self.path} is not a file of this user")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return None
            if os.fstat(descriptor).st_nlink:
                return _HeldLock(descriptor)
            # Whoever held it has removed the folder: the lock is another file now.
            os.close(descriptor)


class _Handle:
    """An open folder of this user alone."""

    def __init__(self, path: Path) -> None:
        self.descriptor = -1
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            found = os.fstat(self.descriptor)
            if not _is_own(found, stat.S_ISDIR):
                raise StorageError(f"{path} is not a folder of this user: no shared state goes through it")
            if stat.S_IMODE(found.st_mode) & 0o077:
                os.fchmod(self.descriptor, 0o700)
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(error.errno, f"{path} is no folder for a shared state: {error.strerror}") from error

    def is_gone(self) -> bool:
        """True if somebody removed the folder."""
        return os.fstat(self.descriptor).st_nlink == 0

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class _HeldLock:
    """The lock of the maker or of the indexes, held."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        _held_locks.add(self)

    def release(self) -> None:
        """Let others make."""
        if self._descriptor >= 0:
            # Unlocked, not only closed: a process that was forked off meanwhile may still have the file open.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """Close the file; the lock stays with those who have it open too."""
        os.close(self._descriptor)
        self._descriptor = -1
        _held_locks.discard(self)


class Lease:
    """A shared lock on an open file, held as long as this lives."""

    __slots__ = ("__weakref__", "descriptor", "inode")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.inode = os.fstat(descriptor).st_ino
        # Not by `__del__`: that runs while the weak references to this are still good, so that another thread could
        # be given a lease that is no more.
        weakref.finalize(self, os.close, descriptor).atexit = False
        _leases.add(self)

    @classmethod
    def take(cls, descriptor: int) -> "Lease | None":
        """Lock an open file; closes it and gives None if it is being removed."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        lease = cls(descriptor)
        return lease if os.fstat(descriptor).st_nlink else None

    def rejoin(self) -> None:
        """Hold a lease of our own instead of the one that we got from our parent."""
        try:
            own = os.open(f"/proc/self/fd/{self.descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return  # No such folder: the lease is the parent's and ours together, which protects as well.
        with contextlib.suppress(OSError):
            fcntl.flock(own, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os.dup2(own, self.descriptor, inheritable=False)
        os.close(own)


def is_unused(descriptor: int) -> bool:
    """True if nobody holds a lease on an open file; nobody can take one until it is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_unused_elsewhere(descriptor: int) -> bool:
    """True if no other process holds a lease on an open file. The caller holds the lock of the maker."""
    inode = os.fstat(descriptor).st_ino
    own = [lease for lease in list(_leases) if lease.inode == inode]
    # Nobody takes what leases protect while we are the maker, so that they can be put down for a moment.
    for lease in own:
        fcntl.flock(lease.descriptor, fcntl.LOCK_UN)
    unused = is_unused(descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    for lease in own:
        fcntl.flock(lease.descriptor, fcntl.LOCK_SH)
    return unused


def _is_own(found: os.stat_result, of_kind: Callable[[int], bool]) -> bool:
    return of_kind(found.st_mode) and found.st_uid == os.geteuid()


_held_locks: set[_HeldLock] = set()
_leases: weakref.WeakSet[Lease] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for lock in list(_held_locks):
        lock.forget()
    for lease in list(_leases):
        lease.rejoin()


os.register_at_fork(after_in_child=_after_fork_in_child)
