"""One copy per host: states in files that every process maps.

The processes of a host that follow one chain with one filter share a folder. A state in it is a *manifest*,
`state-<version>.json`, that says which bytes of which files its arrays are; the files are native-endian and never
change once a manifest names them. One process at a time holds the folder's lock and makes the next state: large
arrays are allocated in new files from the start, unchanged ones are the files of the state before. The others attach:
they read the manifest and map. A manifest appears by a rename, so a state is there whole or not at all; the lock ends
with its holder, however that dies, and what it left half done is swept by the next one.

Space is reserved before it is written, so that a full mount is an error and not a crash. The folder belongs to the
user alone. Files of old states are unlinked as soon as no manifest needs them; processes that still map them keep the
memory.
"""

import contextlib
import fcntl
import hashlib
import logging
import mmap
import os
import stat
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.binary import buffers
from deltaic.consumer.arena_manifest import Manifest, Place, describe, rebuild
from deltaic.errors import DecodeError, StorageError
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState

Bytes = NDArray[np.uint8]

log = logging.getLogger("deltaic.consumer")

KEPT_STATES = 2
"""How many states stay attachable: the newest, and the one before for processes on their way to it."""

_SHARED_MEMORY = Path("/dev/shm")


class Arena:
    """The shared states of one chain and one filter on this host."""

    def __init__(self, folder: Path, *, reserve_bytes: int = 64 << 20) -> None:
        self.folder = folder
        self._reserve_bytes = reserve_bytes
        self._mapped: weakref.WeakValueDictionary[str, _Mapping] = weakref.WeakValueDictionary()
        self._mapping_lock = threading.Lock()
        _make_private(folder)

    @classmethod
    def open(cls, identity: str, *, base: Path | None = None, need_bytes: int = 0) -> "Arena":
        """The arena of a chain and filter, named by `identity`.

        Args:
            identity: what the states are of; processes that give the same text share.
            base: a folder to use instead of the host's shared memory.
            need_bytes: how much room there should be; without it in shared memory, the cache folder is taken.
        """
        name = hashlib.blake2b(identity.encode(), digest_size=12).hexdigest()
        root = base if base is not None else _base_folder(need_bytes)
        _make_private(root)
        return cls(root / name)

    @contextlib.contextmanager
    def lock(self, timeout_seconds: float = 60.0) -> Iterator[None]:
        """Be the one process that makes states. The lock ends with the process."""
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            deadline = time.monotonic() + timeout_seconds
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        reason = f"another process has held the lock of {self.folder.name} for {timeout_seconds} s"
                        raise StorageError(reason) from None
                    time.sleep(0.002)
            yield
        finally:
            os.close(descriptor)

    def versions(self) -> tuple[int, ...]:
        """Versions that can be attached, rising."""
        names = (path.name for path in self.folder.glob("state-*.json"))
        return tuple(sorted(int(name[6:-5]) for name in names if name[6:-5].isdigit()))

    def attach(self, version: int, filter: Filter | None = None) -> ReadState | None:
        """The shared state of a version; None if there is none."""
        for _ in range(3):
            try:
                manifest = msgspec.json.decode((self.folder / f"state-{version}.json").read_bytes(), type=Manifest)
                return rebuild(manifest, self._map, filter)
            except FileNotFoundError:
                # Gone, or replaced by a newer state while it was read: look once more.
                if not (self.folder / f"state-{version}.json").exists():
                    return None
            except msgspec.MsgspecError as error:
                raise DecodeError("BadManifest", str(error), f"state-{version}.json") from error
        return None

    def share(self, version: int, build: Callable[[], ReadState]) -> ReadState:
        """Make a state and share it; the caller holds the lock. Gives the shared form of what `build` gives.

        Large arrays that `build` allocates are in shared files from the start.
        """
        self._sweep_unfinished()
        token = uuid.uuid4().hex[:12]
        scribe = _Scribe(self.folder, token)
        try:
            with buffers.allocating(scribe.allocate):
                state = build()
            self._room(state.nbytes)
            manifest = describe(state, version, lambda array: self._place(array, scribe))
            scribe.close()
            _write_atomically(self.folder / f"state-{version}.json", msgspec.json.encode(manifest))
            shared = rebuild(manifest, self._map, state.filter)
        except BaseException:
            del scribe
            self._sweep_unfinished()
            raise
        self._retire(version)
        return shared

    def remove(self) -> None:
        """Remove every file of the arena. Processes that are attached stay so."""
        for path in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                path.unlink()

    def _room(self, need_bytes: int) -> None:
        free = os.statvfs(self.folder)
        if free.f_bavail * free.f_frsize < self._reserve_bytes:
            log.warning("%s has less than %d MiB left", self.folder, self._reserve_bytes >> 20)

    def _place(self, array: Bytes, scribe: "_Scribe") -> Place:
        """Where an array lies in the files; an array outside of them is copied in."""
        place = scribe.place(array)
        if place is not None:
            return place
        address = array.__array_interface__["data"][0]
        with self._mapping_lock:
            mapped = list(self._mapped.items())
        for name, mapping in mapped:
            start = mapping.address
            if start <= address and address + array.nbytes <= start + mapping.size:
                return Place(name, address - start, array.nbytes)
        return scribe.copy(array)

    def _map(self, name: str) -> Bytes:
        """All bytes of a file, mapped once per process."""
        with self._mapping_lock:
            mapping = self._mapped.get(name)
            if mapping is None:
                mapping = self._mapped[name] = _Mapping(self.folder / name)
            return mapping.array()

    def _retire(self, newest: int) -> None:
        """Unlink manifests that are too old, and files that no manifest needs."""
        keep = sorted(self.versions(), key=lambda version: version != newest)[:1]
        others = [version for version in self.versions() if version != newest]
        others.sort(key=lambda version: (self.folder / f"state-{version}.json").stat().st_mtime_ns, reverse=True)
        keep += others[: KEPT_STATES - 1]
        needed: set[str] = set()
        for version in self.versions():
            path = self.folder / f"state-{version}.json"
            if version not in keep:
                path.unlink()
                continue
            needed |= msgspec.json.decode(path.read_bytes(), type=Manifest).files()
        for path in self.folder.glob("a-*"):
            if path.name not in needed:
                path.unlink()

    def _sweep_unfinished(self) -> None:
        """Remove what a process left that died while it held the lock."""
        needed: set[str] = set()
        for version in self.versions():
            needed |= msgspec.json.decode((self.folder / f"state-{version}.json").read_bytes(), type=Manifest).files()
        for path in self.folder.iterdir():
            unfinished = path.name.startswith("tmp-") or (path.name.startswith("a-") and path.name not in needed)
            if unfinished:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()


class _Mapping:
    """A file of arrays, mapped read-only. Lives as long as an array over it."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            self.size = os.fstat(descriptor).st_size
            self._memory = mmap.mmap(descriptor, self.size, mmap.MAP_SHARED, mmap.PROT_READ)
        finally:
            os.close(descriptor)
        self._view = np.frombuffer(self._memory, np.uint8)
        self.address = int(self._view.__array_interface__["data"][0])

    @property
    def __array_interface__(self) -> dict[str, object]:
        return self._view.__array_interface__

    def array(self) -> Bytes:
        """The bytes, as an array that keeps this mapping alive."""
        array: Bytes = np.asarray(self)
        return array


class _Scribe:
    """Allocates arrays in new files of one state, and says afterwards where they are."""

    def __init__(self, folder: Path, token: str) -> None:
        self._folder = folder
        self._token = token
        self._ranges: list[tuple[int, int, str]] = []
        self._arrays: list[Bytes] = []
        self._small = bytearray()

    def allocate(self, size_bytes: int) -> Bytes:
        """Zeroed memory in a file of its own."""
        name = f"a-{self._token}-{len(self._ranges)}"
        descriptor = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size_bytes)
            memory = mmap.mmap(descriptor, size_bytes, mmap.MAP_SHARED)
        except OSError as error:
            with contextlib.suppress(FileNotFoundError):
                (self._folder / name).unlink()
            raise StorageError(f"no room for {size_bytes:,} bytes of a shared state: {error.strerror}") from error
        finally:
            os.close(descriptor)
        array = np.frombuffer(memory, np.uint8)
        self._ranges.append((int(array.__array_interface__["data"][0]), size_bytes, name))
        self._arrays.append(array)
        return array

    def place(self, array: Bytes) -> Place | None:
        """Where an array lies, if it was allocated here."""
        address = array.__array_interface__["data"][0]
        for start, size, name in self._ranges:
            if start <= address and address + array.nbytes <= start + size:
                return Place(name, address - start, array.nbytes)
        return None

    def copy(self, array: Bytes) -> Place:
        """Copy an array that lies elsewhere to the file of small arrays, with slack behind it."""
        offset = len(self._small)
        self._small += array.tobytes()
        self._small += bytes(-len(self._small) % 8 + buffers.SLACK)
        return Place(f"a-{self._token}-small", offset, array.nbytes)

    def close(self) -> None:
        """Write the file of small arrays."""
        path = self._folder / f"a-{self._token}-small"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            size = max(len(self._small), 1)
            os.posix_fallocate(descriptor, 0, size)
            os.pwrite(descriptor, self._small, 0)
        except OSError as error:
            raise StorageError(f"no room for a shared state: {error.strerror}") from error
        finally:
            os.close(descriptor)


def _write_atomically(path: Path, data: bytes) -> None:
    temporary = path.with_name(f"tmp-{uuid.uuid4().hex}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, len(data))
        os.pwrite(descriptor, data, 0)
    except OSError as error:
        raise StorageError(f"no room for a shared state: {error.strerror}") from error
    finally:
        os.close(descriptor)
    temporary.rename(path)


def _base_folder(need_bytes: int) -> Path:
    """Shared memory if the mount has room, else the cache folder."""
    name = f"deltaic-{os.getuid()}"
    try:
        room = os.statvfs(_SHARED_MEMORY)
        if os.access(_SHARED_MEMORY, os.W_OK) and room.f_bavail * room.f_frsize > need_bytes:
            return _SHARED_MEMORY / name
    except OSError:
        log.debug("no shared memory mount on this host")
    cache = os.environ.get("DELTAIC_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "deltaic" / "arena"


def _make_private(folder: Path) -> None:
    """Make a folder of this user alone, or refuse one that is not."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StorageError(f"{folder} is not a folder of this user: states are not shared through it")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)
