"""Being told by the kernel that a folder changed: inotify on Linux, through ctypes; elsewhere there is only polling."""

import ctypes
import os
import select
import sys
from pathlib import Path

_CLOSE_WRITE, _MOVED_TO, _CREATE, _DELETE_SELF = 0x8, 0x80, 0x100, 0x400
_MASK = _CLOSE_WRITE | _MOVED_TO | _CREATE | _DELETE_SELF


class FolderNotice:
    """Wakes a waiter when something in a folder changes, or when `wake` is called from another thread."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._handle = _watch(Path(folder))
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._closed = False

    @classmethod
    def of(cls, folder: str | os.PathLike[str]) -> "FolderNotice | None":
        """A notice of the folder, or None where the system has none or the folder is not there."""
        if not sys.platform.startswith("linux"):
            return None
        try:
            return cls(folder)
        except OSError:
            return None

    def fileno(self) -> int:
        """The handle that becomes readable on a change, for an event loop."""
        return self._handle

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for a change, a wake or the time; True if something happened."""
        ready = select.poll()
        for handle in (self._handle, self._wake_read):
            ready.register(handle, select.POLLIN)
        found = ready.poll(max(0.0, timeout_seconds) * 1000)
        self.drain()
        return bool(found)

    def drain(self) -> None:
        """Forget what was told so far."""
        for handle in (self._handle, self._wake_read):
            try:
                while os.read(handle, 65536):
                    pass
            except BlockingIOError:
                continue

    def wake(self) -> None:
        """Make a waiter return at once."""
        if not self._closed:
            try:
                os.write(self._wake_write, b"x")
            except BlockingIOError:
                return

    def close(self) -> None:
        """Give the handles back."""
        if not self._closed:
            self._closed = True
            for handle in (self._handle, self._wake_read, self._wake_write):
                os.close(handle)


def _watch(folder: Path) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    handle = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if handle < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    if library.inotify_add_watch(handle, os.fsencode(folder), ctypes.c_uint32(_MASK)) < 0:
        number = ctypes.get_errno()
        os.close(handle)
        raise OSError(number, "inotify_add_watch")
    return handle
