"""One copy per host: states in files that every process maps.

The processes of a host that follow one chain with one filter share a folder. A state in it is a *manifest*,
`state-<version>.json`, that says which bytes of which files its arrays are. One process at a time, the *maker*, holds
the folder's lock and makes the next state: large arrays are allocated in files from the start, unchanged ones are the
files of the state before. The others attach: they read the manifest and map. A manifest appears by a rename, so a state
is there whole or not at all; the lock ends with its holder, however that dies, and what it left half done is swept by
the next one.

Who has attached holds a lease, a shared lock on the manifest, for as long as an array of the state is in use. The maker
removes the manifests of old states on which nobody has one, and writes the next state into their files: memory that was
used before costs a fraction of new memory. So a folder holds the newest state, the one before it (which becomes the
one after it), and those that somebody still reads. Files are only ever written over if they are known to have no
reader; in every other case they are unlinked, and processes that map them keep the memory.

Space is reserved before it is written, so that a full mount is an error and not a crash. The folder belongs to the
user alone.
"""

import atexit
import contextlib
import hashlib
import logging
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deltaic.binary import buffers
from deltaic.consumer.arena_folder import Lease, OnStep, PrivateFolder, is_unused, is_unused_elsewhere
from deltaic.consumer.arena_indexes import SharedIndexes
from deltaic.consumer.arena_making import Making, used_name
from deltaic.consumer.arena_manifest import (
    FORMAT,
    Bytes,
    Manifest,
    boot_identity,
    decode_manifest,
    describe_types,
    describe_vectors,
    encode_manifest,
    rebuild,
)
from deltaic.consumer.arena_memory import Loan, Mapping
from deltaic.consumer.arena_places import arena_roots, sweep_idle
from deltaic.consumer.vector_parts import missing_vectors
from deltaic.errors import DecodeError, StorageError
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState

log = logging.getLogger("deltaic.consumer")

SPARE_BYTES = buffers.RECYCLED_LIMIT_BYTES
"""How much memory that no process reads is kept for the next state."""

WAIT_SECONDS = 60.0
"""How long a process waits for another one to make a state before it goes on without sharing."""

# The state before the newest is memory for the next one already; beside it only what comes and goes is worth keeping.
_SPARE_PARTS = 8
_SPARE_FLOOR_BYTES = 8 << 20
_POLL_SECONDS = 0.002
_MAX_MANIFEST_BYTES = 1 << 30


class Arena:
    """The shared states of one chain and one filter on this host. Any thread may use it.

    Args:
        folder: where the files are; made if it is not there.
        spare_bytes: how much memory that no process reads is kept for the next state.
        on_step: called before and after each change of the folder, for tests.
    """

    def __init__(self, folder: Path, *, spare_bytes: int = SPARE_BYTES, on_step: OnStep | None = None) -> None:
        self._folder = PrivateFolder(folder, on_step)
        self._spare_bytes = spare_bytes
        self._guard = threading.Lock()
        self._mapped: weakref.WeakValueDictionary[str, Mapping] = weakref.WeakValueDictionary()
        self._leases: weakref.WeakValueDictionary[str, Lease] = weakref.WeakValueDictionary()
        self.indexes = SharedIndexes(self._folder)
        """The indexes of the states."""
        # What this process wrote stays mapped while the files are there: to write into them again costs no faults.
        self._written: dict[str, Mapping] = {}
        _arenas.add(self)
        _folders.add(folder)

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._folder.path

    @classmethod
    def open(cls, identity: str, *, base: Path | None = None, need_bytes: int = 0, skip_places: int = 0) -> "Arena":
        """The arena of a chain and filter, named by `identity`.

        Args:
            identity: what the states are of; processes that give the same text share.
            base: a folder to use instead of the host's shared memory and the user's cache folder.
            need_bytes: how much room there should be; a place without it is passed over, except the last.
            skip_places: how many places to pass over: those that turned out to have no room.

        Raises:
            StorageError: there is no place.
        """
        name = hashlib.blake2b(f"{FORMAT}\0{identity}".encode(), digest_size=12).hexdigest()
        places = (arena_roots() if base is None else [base])[skip_places:]
        for place in places:
            last = place is places[-1]
            try:
                sweep_idle(place)
                free_bytes = PrivateFolder(place).free_bytes()
                if last or free_bytes >= need_bytes or (place / name).is_dir():
                    return cls(place / name)
                log.info("%s has room for %d MiB: states are shared through the next place", place, free_bytes >> 20)
            except StorageError as error:
                if last:
                    raise
                log.warning("states are not shared through %s: %s", place, error)
        raise StorageError("there is no place for a shared state")

    @contextlib.contextmanager
    def lock(self, timeout_seconds: float = WAIT_SECONDS) -> Iterator[None]:
        """Be the one process that makes states. The lock ends with the process."""
        with self._folder.lock(timeout_seconds):
            yield

    def versions(self) -> tuple[int, ...]:
        """Versions that can be attached, rising."""
        found = (_version_of(name) for name in self._folder.names())
        return tuple(sorted(version for version in found if version is not None))

    def size_bytes(self) -> int:
        """Bytes of all files, in use or spare."""
        total = 0
        for name in self._folder.names():
            with contextlib.suppress(FileNotFoundError):
                total += self._folder.stat(name).st_blocks * 512
        return total

    def attach(self, version: int, filter: Filter | None = None, *, fingerprint: str = "") -> ReadState | None:
        """The shared state of a version; None if there is none.

        Args:
            version: which one.
            filter: what the state says was left out; part of the arena's identity.
            fingerprint: a state that was shared with another one is not what is wanted, and counts as none.

        Raises:
            DecodeError: its manifest or one of its files is damaged.
        """
        name = f"state-{version}.json"
        lease = self._lease(name)
        if lease is None:
            return None
        manifest = _read_manifest(lease.descriptor, name)
        if manifest.version != version or manifest.fingerprint != fingerprint:
            return None
        return rebuild(manifest, self._borrowing(lease, name), filter, name)

    def share(self, version: int, build: Callable[[], ReadState], *, fingerprint: str = "") -> ReadState:
        """Make a state and share it; the caller holds the lock. Gives the shared form of what `build` gives.

        Large arrays that `build` allocates are in shared files from the start.
        """
        name = f"state-{version}.json"
        room = self._make_room(name)
        making = Making(self._folder, self._map_to_write, room.free)
        try:
            with making.allocating():
                state = build()
            place = making.places(state, self._in_use())
            manifest = Manifest(
                boot=boot_identity(),
                serial=room.serial,
                version=version,
                fingerprint=fingerprint,
                tag=state.tag,
                origin_tag=state.origin_tag,
                header_tags=dict(state.header_tags),
                types=describe_types(state, place),
                vectors=describe_vectors(state, place),
                missing_vectors=tuple(sorted(missing_vectors(state))),
            )
            self._folder.write(name, encode_manifest(manifest))
            lease = self._lease(name)
            if lease is None:
                raise StorageError(f"{name} of a shared state is gone from {self.folder}")
            # Who keeps what `build` gave has the state too.
            making.hand_over(lease)
            shared = rebuild(manifest, self._borrowing(lease, name), state.filter, name)
            spare = making.set_aside(min(self._spare_bytes, max(state.nbytes // _SPARE_PARTS, _SPARE_FLOOR_BYTES)))
        except BaseException:
            self._sweep(room.needed)
            raise
        self._sweep(room.needed | manifest.files() | spare)
        self.indexes.sweep(self.versions())
        self._remember(making.written())
        return shared

    def refresh(
        self,
        version: int,
        make: Callable[[ReadState | None, int | None], ReadState],
        *,
        filter: Filter | None = None,
        fingerprint: Callable[[int], str] = lambda version: "",
        wait_seconds: float = WAIT_SECONDS,
    ) -> ReadState:
        """The state of a version: another process's, or made here for all.

        Args:
            version: which one.
            make: gives the state; it is offered the nearest shared state and its version, or None and None, and is
                called by one process of the host at a time.
            filter: what `make` leaves out; part of the arena's identity.
            fingerprint: of a version, what it is of, where the number alone does not say.
            wait_seconds: how long to wait for another process that makes a state.

        Raises:
            StorageError: no room, or the other process takes too long: go on without sharing.
        """

        def share() -> ReadState:
            base, base_version = self.nearest(version, filter, fingerprint)
            return self.share(version, lambda: make(base, base_version), fingerprint=fingerprint(version))

        return self._attach_or(share, version, filter, fingerprint(version), wait_seconds)

    def attach_or_share(
        self,
        version: int,
        build: Callable[[], ReadState],
        *,
        filter: Filter | None = None,
        fingerprint: str = "",
        wait_seconds: float = WAIT_SECONDS,
    ) -> ReadState:
        """As `refresh`, for a caller who has the state to start from."""

        def share() -> ReadState:
            return self.share(version, build, fingerprint=fingerprint)

        return self._attach_or(share, version, filter, fingerprint, wait_seconds)

    def nearest(
        self, version: int, filter: Filter | None = None, fingerprint: Callable[[int], str] = lambda version: ""
    ) -> tuple[ReadState | None, int | None]:
        """The shared state from which a version is reached best: the last before it, else the first after it."""
        others = [one for one in self.versions() if one != version]
        for candidate in sorted(others, key=lambda one: (one > version, abs(version - one))):
            state = self._attach_sound(candidate, filter, fingerprint(candidate))
            if state is not None:
                return state, candidate
        return None, None

    def tidy(self) -> None:
        """Give memory back that no process reads, beyond what is kept for the next state.

        To be called when this process has let go of its old state: the last one to do so finds what can go.
        """
        with self._folder.try_lock() as held:
            if not held:
                return
            sound = [manifest for manifest in self._manifests().values() if manifest is not None]
            newest = max(sound, key=lambda manifest: manifest.serial, default=None)
            needed = set() if newest is None else newest.files()
            others = {name for name in self._folder.names() - needed if name.startswith(("a-", "f-"))}
            if sum(self._folder.sizes(others).values()) <= self._spare_bytes:
                return
            room = self._make_room("")
            spare = Making(self._folder, self._map_to_write, room.free).set_aside(self._spare_bytes)
            self._sweep(room.needed | spare)
            self.indexes.sweep(self.versions())
            self._remember(())

    def close(self) -> None:
        """Remove the files of states that no other process reads, and of all if no other reads any.

        What this process has attached stays readable. A process that ends without it leaves the newest two states for
        those who come after it.
        """
        self._written = {}
        with self._folder.try_lock() as held:
            if not held:
                return
            needed: set[str] = set()
            used = False
            for name, manifest in self._manifests().items():
                if self._is_unused(name, elsewhere=True):
                    self._folder.unlink(name)
                else:
                    used = True
                    needed |= set() if manifest is None else manifest.files()
            self._sweep(needed)
            self.indexes.sweep(self.versions())
            if not used:
                self._folder.remove()

    def remove(self) -> None:
        """Remove every file of the arena. Processes that are attached stay so."""
        with self._folder.lock(WAIT_SECONDS):
            self._written = {}
            self._folder.remove()

    def _attach_or(
        self,
        share: Callable[[], ReadState],
        version: int,
        filter: Filter | None,
        fingerprint: str,
        wait_seconds: float,
    ) -> ReadState:
        deadline = time.monotonic() + wait_seconds
        while True:
            state = self._attach_sound(version, filter, fingerprint)
            if state is not None:
                return state
            with self._folder.try_lock() as held:
                if held:
                    # Another process may have made it while we came to the lock.
                    return self._attach_sound(version, filter, fingerprint) or share()
            if time.monotonic() > deadline:
                raise StorageError(f"another process has been making a shared state for {wait_seconds} s")
            time.sleep(_POLL_SECONDS)

    def _attach_sound(self, version: int, filter: Filter | None, fingerprint: str) -> ReadState | None:
        try:
            return self.attach(version, filter, fingerprint=fingerprint)
        except (DecodeError, StorageError) as error:
            log.warning("the shared state of version %d is made again: %s", version, str(error))
            return None

    def _lease(self, name: str) -> Lease | None:
        """The right to read what a manifest describes; None if it is not there."""
        with self._guard:
            try:
                descriptor = self._folder.open(name)
            except FileNotFoundError:
                return None
            held = self._leases.get(name)
            if held is not None and held.inode == os.fstat(descriptor).st_ino:
                os.close(descriptor)
                return held
            lease = Lease.take(descriptor)
            if lease is not None:
                self._leases[name] = lease
            return lease

    def _borrowing(self, lease: Lease, name: str) -> Callable[[str], Bytes]:
        """How the state of a lease gets at the bytes of its files."""

        def mapped(file: str) -> Bytes:
            try:
                return Loan(self._map(file), lease).array()
            except FileNotFoundError:
                raise DecodeError("Truncated", f"file {file} of a shared state is missing", name) from None

        return mapped

    def _map(self, file: str) -> Mapping:
        """All bytes of a file, mapped once per process."""
        with self._guard:
            mapping = self._mapped.get(file)
            if mapping is not None:
                # A file that became shorter would end this process by a signal.
                found = self._folder.stat(file)
                if found.st_ino == mapping.inode and found.st_size >= mapping.size:
                    return mapping
                raise DecodeError("Truncated", f"file {file} of a shared state was changed", self.folder.name)
            descriptor = self._folder.open(file, writable=True)
            try:
                if not os.fstat(descriptor).st_size:
                    raise DecodeError("Truncated", f"file {file} of a shared state is empty", self.folder.name)
                mapping = self._mapped[file] = Mapping(file, descriptor, writable=False)
            finally:
                os.close(descriptor)
            return mapping

    def _map_to_write(self, file: str, descriptor: int | None) -> Mapping:
        """The bytes of a file that has no reader, for writing; of a new one if its descriptor is given."""
        with self._guard:
            mapping = self._written.get(file)
            if mapping is None:
                opened = self._folder.open(file, writable=True) if descriptor is None else descriptor
                try:
                    mapping = Mapping(file, opened, writable=True)
                finally:
                    if descriptor is None:
                        os.close(opened)
            self._mapped[file] = mapping
            return mapping

    def _remember(self, written: Iterable[Mapping]) -> None:
        """Keep what was written mapped, and forget files that are gone."""
        names = {used_name(name) for name in self._folder.names()}
        with self._guard:
            kept = self._written | {mapping.name: mapping for mapping in written}
            self._written = {name: mapping for name, mapping in kept.items() if name in names}

    def _in_use(self) -> list[Mapping]:
        with self._guard:
            return list(self._mapped.values())

    def _make_room(self, wanted: str) -> "_Room":
        """Retire states without readers, before one is made.

        The newest state stays, so that there is one to attach to or to start from whatever happens now.
        """
        manifests = self._manifests()
        sound = {name: manifest for name, manifest in manifests.items() if manifest is not None}
        newest = max(sound, key=lambda name: sound[name].serial, default="")
        serial = max((manifest.serial for manifest in sound.values()), default=0) + 1
        free: set[str] = set()
        unknown = False
        for name, manifest in manifests.items():
            if name == newest != wanted:
                continue
            if self._is_unused(name, remove=True):
                free |= set() if manifest is None else manifest.files()
                sound.pop(name, None)
                continue
            # Readers of a manifest that cannot be read any more may be reading anything.
            unknown = unknown or manifest is None
            if name == wanted or (manifest is None and name.startswith("state-")):
                self._folder.rename(name, f"old-{uuid.uuid4().hex[:12]}.json")
        needed = {file for manifest in sound.values() for file in manifest.files()}
        names = self._folder.names()
        free = set() if unknown else (free - needed) & names
        sizes = self._folder.sizes(free | {name for name in names if name.startswith("f-")})
        self._sweep(needed | set(sizes))
        self._remember(())
        return _Room(serial, sizes, needed)

    def _is_unused(self, name: str, *, elsewhere: bool = False, remove: bool = False) -> bool:
        """True if nobody, or no other process, has a lease on a manifest; it is removed before anybody can take one."""
        try:
            descriptor = self._folder.open(name)
        except FileNotFoundError:
            return True
        except StorageError:
            # Not a file of ours, so nobody could open it for a lease.
            if remove:
                self._folder.unlink(name)
            return True
        try:
            unused = is_unused_elsewhere(descriptor) if elsewhere else is_unused(descriptor)
            if unused and remove:
                self._folder.unlink(name)
            return unused
        finally:
            os.close(descriptor)

    def _manifests(self) -> dict[str, Manifest | None]:
        """The manifests by the names of their files; None for one that cannot be read."""
        found: dict[str, Manifest | None] = {}
        for name in self._folder.names():
            if not _is_manifest(name):
                continue
            found[name] = None
            try:
                descriptor = self._folder.open(name)
            except OSError as error:
                log.warning("%s of a shared state cannot be read: %s", name, error)
                continue
            try:
                found[name] = _read_manifest(descriptor, name)
            except DecodeError as error:
                log.warning("%s of a shared state cannot be read: %s", name, error)
            finally:
                os.close(descriptor)
        return found

    def _sweep(self, needed: set[str]) -> None:
        """Remove all files but those: what a maker that died or failed left, and what no state needs any more."""
        for name in self._folder.names() - needed:
            if name.startswith(("a-", "f-", "tmp-")) and not name.startswith("tmp-index-"):
                self._folder.unlink(name)

    def _after_fork(self) -> None:
        # Another thread of the parent may have held it; and what the parent wrote is not ours to keep mapped.
        self._guard = threading.Lock()
        self._written = {}
        self.indexes.after_fork()


@dataclass(frozen=True, slots=True)
class _Room:
    """What there is to make a state with."""

    serial: int
    free: dict[str, int]
    """Files without a reader, with their sizes."""
    needed: set[str]
    """Files of the states that stay."""


def _read_manifest(descriptor: int, name: str) -> Manifest:
    size_bytes = os.fstat(descriptor).st_size
    if size_bytes > _MAX_MANIFEST_BYTES:
        raise DecodeError("BadManifest", f"a manifest of {size_bytes:,} bytes", name)
    return decode_manifest(os.pread(descriptor, size_bytes, 0), name)


def _is_manifest(name: str) -> bool:
    return name.startswith(("state-", "old-")) and name.endswith(".json")


def _version_of(name: str) -> int | None:
    """The version in the name of a manifest that can be attached."""
    digits = name[6:-5]
    attachable = name.startswith("state-") and name.endswith(".json") and digits.isascii() and digits.isdigit()
    return int(digits) if attachable else None


_arenas: weakref.WeakSet[Arena] = weakref.WeakSet()
_folders: set[Path] = set()


def _after_fork_in_child() -> None:
    for arena in list(_arenas):
        arena._after_fork()


def _at_exit() -> None:
    for folder in list(_folders):
        try:
            if folder.is_dir():
                Arena(folder).close()
        except OSError as error:
            log.debug("the shared states in %s are left to others: %s", folder, error)


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
