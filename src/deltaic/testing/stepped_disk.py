"""A disk that tells of each step before and after it, for crash points.

`SteppedDisk(RealDisk(folder), on_step)` calls `on_step("before link")`, does it, calls `on_step("after link")`. The
hook may kill the process (a crash point) or raise an OSError (a failing disk).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deltaic.storage.disk import Disk, FileFacts, FolderEntry

OnStep = Callable[[str], None]
"""Called with `before` or `after` and the name of the step."""


class SteppedDisk:
    """A disk around another one, with a hook at each step that changes something."""

    def __init__(self, disk: Disk, on_step: OnStep) -> None:
        self._disk, self._on_step = disk, on_step

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._on_step(f"before {name}")
        yield
        self._on_step(f"after {name}")

    def make_folder(self, folder: str) -> bool:
        """Make one folder whose parent exists; False if it was there."""
        with self._step("make_folder"):
            return self._disk.make_folder(folder)

    def create(self, path: str) -> int:
        """Make a new file and give a handle for writing."""
        with self._step("create"):
            return self._disk.create(path)

    def write(self, handle: int, data: memoryview) -> None:
        """Append all the bytes."""
        # In two halves, so that a crash can fall into the middle of a write.
        middle = len(data) // 2
        with self._step("write"):
            self._disk.write(handle, data[:middle])
        with self._step("write"):
            self._disk.write(handle, data[middle:])

    def sync(self, handle: int) -> None:
        """Return when the file's bytes are on the medium."""
        with self._step("sync"):
            self._disk.sync(handle)

    def facts(self, handle: int) -> FileFacts:
        """Size, time and inode of an open file."""
        return self._disk.facts(handle)

    def close(self, handle: int) -> None:
        """Give the handle back."""
        self._disk.close(handle)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name; FileExistsError if that is taken."""
        with self._step("link"):
            self._disk.link(source, target)

    def rename(self, source: str, target: str) -> None:
        """Move a name over another in one step."""
        with self._step("rename"):
            self._disk.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        with self._step("unlink"):
            self._disk.unlink(path)

    def sync_folder(self, folder: str) -> None:
        """Return when the folder's names are on the medium."""
        with self._step("sync_folder"):
            self._disk.sync_folder(folder)

    def open(self, path: str) -> int:
        """Open a regular file for reading; ELOOP if it is a symbolic link."""
        return self._disk.open(path)

    def read(self, handle: int, start: int, length: int) -> bytes:
        """Read up to `length` bytes; fewer only at the end of the file."""
        return self._disk.read(handle, start, length)

    def scan(self, folder: str) -> list[FolderEntry]:
        """The names in a folder."""
        return self._disk.scan(folder)

    @contextmanager
    def lock(self, path: str, timeout_seconds: float) -> Iterator[None]:
        """Hold the lock of that name; TimeoutError if another holds it too long. It ends with the process."""
        self._on_step("before lock")
        with self._disk.lock(path, timeout_seconds):
            self._on_step("after lock")
            yield
