"""Locks of the split cache: who uses an entry, who makes it, who clears up. All end with their process.

A lock is `flock` on a file that may be removed by whoever holds it alone; therefore everyone who got a lock looks
whether the file of that name is still the one that is locked.
"""

import contextlib
import errno
import fcntl
import os
import weakref
from collections.abc import Iterator
from pathlib import Path

from deltaic.errors import StorageError

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Pin:
    """A shared lock that lasts as long as this value, or until `release`."""

    __slots__ = ("__weakref__", "_handle", "_release")

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._release = weakref.finalize(self, os.close, handle)

    def touch(self) -> None:
        """Say that the entry was used now."""
        with contextlib.suppress(OSError):
            os.utime(self._handle)

    def release(self) -> None:
        """Give the lock back."""
        self._release()


def pin(path: Path) -> Pin:
    """Share the lock, waiting for whoever holds it alone."""
    handle = _locked(path, fcntl.LOCK_SH)
    assert handle is not None
    return Pin(handle)


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock alone, waiting for others; its file is gone afterwards."""
    handle = _locked(path, fcntl.LOCK_EX)
    assert handle is not None
    try:
        yield
    finally:
        _drop(path, handle)


@contextlib.contextmanager
def alone_if_free(path: Path, *, keep: bool = False) -> Iterator[bool]:
    """Hold the lock alone if nobody has it: the body learns whether."""
    handle = _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if handle is None:
        yield False
        return
    try:
        yield True
    finally:
        if keep:
            os.close(handle)
        else:
            _drop(path, handle)


def _drop(path: Path, handle: int) -> None:
    # The name first: who comes between sees a file that is no longer there, and tries again.
    with contextlib.suppress(OSError):
        path.unlink()
    os.close(handle)


def _locked(path: Path, how: int) -> int | None:
    while True:
        try:
            handle = os.open(path, _FLAGS, 0o600)
        except OSError as error:
            raise StorageError(error.errno, f"cannot lock {path}: {error.strerror}") from error
        try:
            fcntl.flock(handle, how)
            if os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False)):
                return handle
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(handle)
            if how & fcntl.LOCK_NB and error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise StorageError(error.errno, f"cannot lock {path}: {error.strerror}") from error
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
