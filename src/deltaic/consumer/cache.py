"""Copies of fetched blobs on the local disk, so that a restart does not fetch them again.

A file's name is made of what was announced of the blob: its checksum, its size, and a hash of the chain and the name.
A blob that was published again under the same name has another checksum, so an older copy is never found for it; and
what is found is verified again before it is applied. Names from data never become paths here.

A copy is written under a temporary name, verified, and renamed: it is there whole or not at all. The folder belongs
to one user (mode 0700, owner checked, links refused), and holds at most `limit_bytes`: copies that were not used for
longest go.
"""

import errno
import hashlib
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from deltaic.errors import StorageError
from deltaic.storage.announced import Artifact
from deltaic.storage.checksum import check_text, verify_file

log = logging.getLogger("deltaic.consumer")

DEFAULT_LIMIT_BYTES = 8 << 30
"""How much the copies of all chains may take together."""

FILLING_PREFIX = "filling-"
"""How the names of copies in the making start."""

_STALE_SECONDS = 3600.0
_FOLDER = "blobs"
_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)

OnStep = Callable[[str], None]
"""Told before and after each step of a fill; a test kills the process there."""


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where copies belong: DELTAIC_CACHE, or the user's cache folder."""
    named = environment.get("DELTAIC_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deltaic"


def is_full(error: OSError) -> bool:
    """True if the disk of the cache is full or may not be written: the blob can still be read without a copy."""
    return error.errno in _FULL


class BlobCache:
    """The copies under one folder.

    Args:
        folder: where; made if it is not there. Refused if another user owns it or others may write to it.
        limit_bytes: how much they may take; a blob larger than that is not kept.
        clock: seconds since 1970.
        on_step: told before and after each step of a fill.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        clock: Callable[[], float] = time.time,
        on_step: OnStep | None = None,
    ) -> None:
        self.folder = Path(folder) / _FOLDER
        self.limit_bytes = limit_bytes
        self._clock = clock
        self._on_step = on_step or (lambda _: None)
        self._ready = False

    def find(self, chain: str, artifact: Artifact) -> int | None:
        """Open the copy of a blob for reading; None if there is none that has the announced size."""
        self._make()
        try:
            handle = os.open(self._path(chain, artifact), _OPEN_FLAGS)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                log.warning("a link was planted in the cache and is passed over: %s", self._path(chain, artifact).name)
                self.drop(chain, artifact)
                return None
            raise _failed("read", self.folder, error) from error
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_size != artifact.size:
            os.close(handle)
            self.drop(chain, artifact)
            return None
        with suppress(OSError):
            os.utime(handle)  # the last use, by which old copies are found
        return handle

    def fill(self, chain: str, artifact: Artifact, fetch: Callable[[Path], None]) -> int:
        """Make a copy by `fetch`, which writes a new file; gives it opened for reading.

        Raises:
            ChecksumError: what was fetched is not what was announced. Nothing is kept.
        """
        self._make()
        temporary = self.folder / f"{FILLING_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
        try:
            self._on_step("before fetch")
            fetch(temporary)
            self._on_step("after fetch")
            verify_file(temporary, artifact.checksum, artifact.size, artifact.name)
            self._on_step("after verify")
            handle = os.open(temporary, _OPEN_FLAGS)
            try:
                os.fchmod(handle, 0o600)
                if artifact.size <= self.limit_bytes:
                    self._make_room(artifact.size)
                    self._on_step("before rename")
                    os.rename(temporary, self._path(chain, artifact))
                    self._on_step("after rename")
            except BaseException:
                os.close(handle)
                raise
            return handle
        except StorageError:
            raise
        except OSError as error:
            raise _failed("write", self.folder, error) from error
        finally:
            with suppress(OSError):
                temporary.unlink()

    def drop(self, chain: str, artifact: Artifact) -> None:
        """Remove the copy of a blob, such as one that turned out to be damaged."""
        with suppress(OSError):
            self._path(chain, artifact).unlink()

    def size_bytes(self) -> int:
        """What the copies take now."""
        return sum(size for _, size, _ in self._copies())

    def sweep(self) -> None:
        """Remove what crashed fills left, and copies beyond the limit."""
        oldest = self._clock() - _STALE_SECONDS
        with suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    leftover = entry.name.startswith(FILLING_PREFIX)
                    if leftover and entry.stat(follow_symlinks=False).st_mtime < oldest:
                        os.unlink(entry.path)
        self._make_room(0)

    def _make(self) -> None:
        if self._ready and self.folder.is_dir():
            return
        make_private(self.folder.parent)
        make_private(self.folder)
        self._ready = True
        self.sweep()

    def _make_room(self, need_bytes: int) -> None:
        copies = sorted(self._copies())
        total = sum(size for _, size, _ in copies) + need_bytes
        for _, size, path in copies:
            if total <= self.limit_bytes:
                return
            with suppress(OSError):
                os.unlink(path)
                total -= size

    def _copies(self) -> list[tuple[int, int, str]]:
        """Last use, size and path of each copy."""
        found = []
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    facts = entry.stat(follow_symlinks=False)
                    if not entry.name.startswith(FILLING_PREFIX):
                        found.append((facts.st_mtime_ns, facts.st_size, entry.path))
        return found

    def _path(self, chain: str, artifact: Artifact) -> Path:
        value = check_text(artifact.checksum, artifact.name).partition(":")[2]
        identity = hashlib.blake2b(f"{chain}\0{artifact.name}".encode("utf-8", "surrogatepass"), digest_size=16)
        return self.folder / f"{value}-{artifact.size}-{identity.hexdigest()}"


def make_private(folder: Path) -> None:
    """Make a folder of this user alone, or refuse one that is not.

    Raises:
        StorageError: it is a link, belongs to another user, or others may write to it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise _failed("make", folder, error) from error
    if not stat.S_ISDIR(found.st_mode):
        raise StorageError(errno.ELOOP, f"{folder} is a link or no folder: no blobs are kept there")
    if found.st_uid != os.geteuid():
        raise StorageError(errno.EPERM, f"{folder} belongs to another user: no blobs are kept there")
    if stat.S_IMODE(found.st_mode) & 0o022:
        raise StorageError(errno.EPERM, f"others may write to {folder}: no blobs are kept there; chmod go-w it")


def _failed(what: str, folder: Path, error: OSError) -> StorageError:
    return StorageError(error.errno, f"cannot {what} the cache {folder}: {error.strerror}")
