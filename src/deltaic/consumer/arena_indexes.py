"""One copy of each index per host: files beside the shared states they belong to.

An index is a *manifest*, `index-<version>-<digest>.json`, that says which bytes of which files its arrays are; the
digest is of the state and of what the index is about. A process that wants an index looks for its manifest and maps
the files. If there is none it takes the lock of the indexes, makes the index, copies its arrays into a file of their
own and puts the manifest beside it, by a rename. So an index is made once, by the process that comes first, which is
the one that made the state as a rule; the others wait for it and attach.

Arrays that an update took over from the index before stay in the files that they are in. A file is written once and
never again: there is nothing to lease. The maker of the next state removes the manifests of states that are gone, and
the files that no manifest names; processes that have them mapped keep the memory.
"""

import hashlib
import json
import logging
import os
import re
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.consumer.arena_folder import PrivateFolder
from deltaic.consumer.arena_manifest import boot_identity, sealed, unsealed
from deltaic.consumer.arena_memory import Bytes, Loan, Mapping, Ranges, address_of
from deltaic.errors import DecodeError, DeltaicError, StorageError
from deltaic.index.following import Counts, Definition
from deltaic.index.kinds import rebuild_index
from deltaic.index.plan import Index
from deltaic.state.read import ReadState

log = logging.getLogger("deltaic.consumer")

FORMAT = 1
WAIT_SECONDS = 60.0
"""How long a process waits for another one to make an index before it makes its own."""

_LOCK = "lock-indexes"
_LEFT_OVER = ("i-", "tmp-index-")
_POLL_SECONDS = 0.002
_ALIGNMENT_BYTES = 64
_MAX_MANIFEST_BYTES = 1 << 24
_FILE_NAME = re.compile(r"i-[0-9a-f]{16}", re.ASCII)
_DTYPES = frozenset({"|b1", "|u1", "<i4", "<i8", "<u8", "<f4", "<f8"})


class ArrayPlace(msgspec.Struct, frozen=True, array_like=True):
    """One array: its name, what it is made of, and its bytes; of no file if there are none."""

    name: str
    dtype: str
    file: str
    offset: int
    length: int


class IndexManifest(msgspec.Struct, frozen=True, kw_only=True):
    """One index of one state."""

    format: int = FORMAT
    boot: str
    """Which start of the host it was written after."""
    description: dict[str, Any]
    """What `Following.describe` says."""
    arrays: tuple[ArrayPlace, ...]

    def files(self) -> set[str]:
        """Names of the files that the index needs."""
        return {place.file for place in self.arrays} - {""}


class SharedIndexes:
    """The indexes of the states of one arena. Any thread may use it."""

    def __init__(self, folder: PrivateFolder) -> None:
        self._folder = folder
        self._guard = threading.Lock()
        self._mapped: weakref.WeakValueDictionary[str, Mapping] = weakref.WeakValueDictionary()

    def home(self, version: int, fingerprint: str) -> "StateIndexes":
        """The indexes of one state."""
        return StateIndexes(self, version, fingerprint)

    def after_fork(self) -> None:
        """Another thread of the parent may have held the lock."""
        self._guard = threading.Lock()

    def obtain(self, name: str, state: ReadState, counts: Counts, make: Callable[[], Index]) -> Index:
        """The index of a manifest; if there is none, what `make` gives."""
        made: Index | None = None
        deadline = time.monotonic() + WAIT_SECONDS
        try:
            while True:
                found = self._attach(name, state, counts)
                if found is not None:
                    return found
                with self._folder.try_lock(_LOCK) as held:
                    if held:
                        # Another process may have made it while we came to the lock.
                        found = self._attach(name, state, counts)
                        if found is None:
                            made = make()
                            found = self._keep(name, made)
                        return found
                if time.monotonic() > deadline:
                    raise StorageError(f"another process has been making an index for {WAIT_SECONDS} s")
                time.sleep(_POLL_SECONDS)
        except StorageError as error:
            log.warning("an index is not shared on this host: %s", str(error))
        return make() if made is None else made

    def sweep(self, versions: Collection[int]) -> None:
        """Remove the indexes of states that are gone, and what a process that died left."""
        if not any(name.startswith(("index-", *_LEFT_OVER)) for name in self._folder.names()):
            return
        with self._folder.try_lock(_LOCK) as held:
            if not held:
                return
            needed: set[str] = set()
            for name in self._folder.names():
                if not name.startswith("index-"):
                    continue
                manifest = self._read(name) if _version_of(name) in versions else None
                if manifest is None:
                    self._folder.unlink(name)
                else:
                    needed |= manifest.files()
            for name in self._folder.names() - needed:
                if name.startswith(_LEFT_OVER):
                    self._folder.unlink(name)

    def _attach(self, name: str, state: ReadState, counts: Counts) -> Index | None:
        manifest = self._read(name)
        if manifest is None:
            return None
        try:
            return self._rebuilt(manifest, state, replace(counts, attached=counts.attached + 1), name)
        except (DeltaicError, FileNotFoundError, LookupError, TypeError, ValueError) as error:
            log.warning("%s of a shared index cannot be used: %s", name, str(error))
            return None

    def _read(self, name: str) -> IndexManifest | None:
        """A manifest; None if there is none that can be used."""
        try:
            descriptor = self._folder.open(name)
        except FileNotFoundError:
            return None
        try:
            size_bytes = min(os.fstat(descriptor).st_size, _MAX_MANIFEST_BYTES)
            manifest = msgspec.json.decode(unsealed(os.pread(descriptor, size_bytes, 0), name), type=IndexManifest)
        except (DecodeError, msgspec.MsgspecError, RecursionError) as error:
            log.warning("%s of a shared index cannot be read: %s", name, str(error))
            return None
        finally:
            os.close(descriptor)
        sound = manifest.format == FORMAT and manifest.boot == boot_identity()
        return manifest if sound and all(map(_FILE_NAME.fullmatch, manifest.files())) else None

    def _rebuilt(self, manifest: IndexManifest, state: ReadState, counts: Counts, name: str) -> Index:
        arrays = {place.name: self._array(place, name) for place in manifest.arrays}
        return rebuild_index(state, manifest.description, arrays, counts)

    def _array(self, place: ArrayPlace, name: str) -> NDArray[Any]:
        if place.dtype not in _DTYPES:
            raise DecodeError("BadManifest", f"an array of {place.dtype!r} in a shared index", name)
        dtype = np.dtype(place.dtype)
        if not place.length:
            return np.zeros(0, dtype)
        if place.offset < 0 or place.length < 0 or place.offset % dtype.itemsize or place.length % dtype.itemsize:
            raise DecodeError("BadManifest", f"array {place.name!r} of a shared index is not made of numbers", name)
        mapping = self._map(place.file)
        if place.offset + place.length > mapping.size:
            raise DecodeError("Truncated", f"file {place.file} of a shared index ends before its arrays", name)
        return Loan(mapping, None).array()[place.offset : place.offset + place.length].view(dtype)

    def _map(self, file: str) -> Mapping:
        with self._guard:
            mapping = self._mapped.get(file)
            if mapping is None:
                descriptor = self._folder.open(file)
                try:
                    if not os.fstat(descriptor).st_size:
                        raise DecodeError("Truncated", f"file {file} of a shared index is empty", file)
                    mapping = self._mapped[file] = Mapping(file, descriptor, writable=False)
                finally:
                    os.close(descriptor)
            return mapping

    def _keep(self, name: str, index: Index) -> Index:
        """Put an index into files and give the one that is there; the caller holds the lock."""
        arrays = {one: np.ascontiguousarray(array) for one, array in index.arrays().items()}
        places = self._known_places(arrays)
        fresh = {one: array for one, array in arrays.items() if one not in places}
        if fresh:
            places |= self._write(fresh)
        manifest = IndexManifest(
            boot=boot_identity(), description=index.describe(), arrays=tuple(places[one] for one in arrays)
        )
        self._folder.write(name, sealed(msgspec.json.encode(manifest)))
        return self._rebuilt(manifest, index.state, index.counts, name)

    def _known_places(self, arrays: dict[str, NDArray[Any]]) -> dict[str, ArrayPlace]:
        """The arrays that are in files already, unless they are the lesser part of one."""
        with self._guard:
            mappings = list(self._mapped.values())
        names = self._folder.names()
        known = Ranges(mapping for mapping in mappings if mapping.name in names)
        found: dict[str, ArrayPlace] = {}
        used: dict[str, int] = {}
        for name, array in arrays.items():
            if not array.nbytes:
                found[name] = ArrayPlace(name, array.dtype.str, "", 0, 0)
                continue
            place = known.find(address_of(array), array.nbytes)
            if place is not None:
                mapping, offset = place
                found[name] = ArrayPlace(name, array.dtype.str, mapping.name, offset, array.nbytes)
                used[mapping.name] = used.get(mapping.name, 0) + _aligned(array.nbytes)
        sizes = {mapping.name: mapping.size for mapping in mappings}
        return {name: one for name, one in found.items() if not one.file or 2 * used[one.file] >= sizes[one.file]}

    def _write(self, arrays: dict[str, NDArray[Any]]) -> dict[str, ArrayPlace]:
        """Copy arrays into a new file."""
        file = f"i-{uuid.uuid4().hex[:16]}"
        places: dict[str, ArrayPlace] = {}
        end = 0
        for name, array in arrays.items():
            places[name] = ArrayPlace(name, array.dtype.str, file, end, array.nbytes)
            end += _aligned(array.nbytes)
        descriptor = self._folder.create(file, end)
        try:
            mapping = Mapping(file, descriptor, writable=True)
        finally:
            os.close(descriptor)
        target: Bytes = Loan(mapping, None, writable=True).array()
        for name, array in arrays.items():
            place = places[name]
            target[place.offset : place.offset + place.length] = array.view(np.uint8).reshape(-1)
        with self._guard:
            self._mapped[file] = mapping
        return places


@dataclass(frozen=True, slots=True)
class StateIndexes:
    """The indexes of one shared state.

    Args:
        indexes: those of all states of the arena.
        version: of the state.
        fingerprint: what tells the state from another one of the same version.
    """

    indexes: SharedIndexes
    version: int
    fingerprint: str

    def obtain(self, state: ReadState, definition: Definition, counts: Counts, make: Callable[[], Index]) -> Index:
        """The index of a state: one that is there, or what `make` gives, put there for the others."""
        path = (definition.kind, definition.type_name, definition.match, definition.select, definition.options)
        about = (self.fingerprint, f"{state.tag:016x}", *path)
        digest = hashlib.blake2b(json.dumps(about).encode(), digest_size=16).hexdigest()
        return self.indexes.obtain(f"index-{self.version}-{digest}.json", state, counts, make)


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def _version_of(name: str) -> int | None:
    """The version in the name of a manifest."""
    version = name.split("-")[1]
    return int(version) if version.isascii() and version.isdigit() else None
