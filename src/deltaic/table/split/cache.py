"""The split cache: one unpacked copy of each split per host, shared by its processes.

    <folder>/<key>/            an entry (`entry.py`)
    <folder>/<key>.lock        shared by whoever uses the entry; its time says when that was last
    <folder>/<key>.build       held by whoever unpacks it
    <folder>/.tmp-<key>-…      an entry in the making, or what is left of one; whoever holds the build lock removes it
    <folder>/.room.lock        held while room is made and an entry gets its name

An entry appears whole, by a rename. It is removed only by someone who holds its lock alone, so never while it is used;
those not used for longest go first. The sum of the entries stays within `max_bytes`, the one in the making aside.
"""

import errno
import hashlib
import os
import secrets
import shutil
import threading
import weakref
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaic.errors import DeltaicError, InputError, StorageError
from deltaic.storage.local import LocalStore
from deltaic.storage.store import Store
from deltaic.table.actions import AddFile
from deltaic.table.split.entry import (
    INDEX_FOLDER,
    ROWS_FILE,
    Entry,
    dead_rows,
    map_rows,
    mapping_of,
    read_entry,
    unpack_split,
)
from deltaic.table.split.mapping import DocMapping
from deltaic.table.split.open import TAG_DESCRIPTION, SplitFile, open_split
from deltaic.table.split.pins import Pin, alone, alone_if_free, pin

DEFAULT_MAX_BYTES = 32 << 30
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class CachedSplit:
    """A split in the cache; it is not removed as long as this value lives."""

    index_folder: Path
    rows: pa.Table
    """Every row by its number, mapped; also those in `dead`."""
    mapping: DocMapping
    split_id: str
    num_rows: int
    """How many rows are alive."""
    reindexed: bool
    """Whether the index was made here, from the rows of a foreign split."""
    pin: Pin
    dead: NDArray[np.int64] | None = None
    """The numbers of rows that a delete file hides from the index, rising; None if there are none."""


@dataclass(frozen=True, slots=True)
class CacheUsage:
    """How full a cache is."""

    folder: Path
    num_splits: int
    size_bytes: int
    max_bytes: int
    used_bytes: int
    """What is in use now and cannot be removed."""


@dataclass(frozen=True, slots=True)
class _Listed:
    key: str
    used_ns: int
    size_bytes: int


class SplitCache:
    """Unpacked splits in a folder of this host.

    Args:
        folder: default is DELTAIC_SPLIT_CACHE, else `splits` in DELTAIC_CACHE or the user's cache folder.
        max_bytes: what all entries together may take.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        if max_bytes <= 0:
            raise InputError(f"a split cache of {max_bytes} bytes")
        self.folder = Path(folder) if folder is not None else default_folder()
        self.max_bytes = max_bytes
        self._known: weakref.WeakValueDictionary[str, CachedSplit] = weakref.WeakValueDictionary()
        self._guard = threading.Lock()

    def get(self, store: Store, path: str, add: AddFile | None = None) -> CachedSplit:
        """The split, unpacked here first if it is not yet.

        Raises:
            DecodeError: the split is damaged.
            StorageError: the cache cannot be written to, or everything in it is in use and there is no room.
        """
        size = add.size_bytes if add is not None and add.size_bytes else store.head(path).size_bytes
        key = entry_key(store, path, size)
        expected = (add.tags or {}).get(TAG_DESCRIPTION) if add is not None else None
        with self._guard:
            known = self._known.get(key)
        if known is not None:
            known.pin.touch()
            return known
        self._make_folder()
        held = pin(self.folder / f"{key}.lock")
        try:
            entry = self._entry(key, expected)
            if entry is None:
                entry = self._build(key, store, path, add, expected)
            held.touch()
            folder = self.folder / key
            found = CachedSplit(
                folder / INDEX_FOLDER,
                map_rows(folder),
                mapping_of(entry),
                entry.split_id,
                entry.num_rows,
                entry.reindexed,
                held,
                dead_rows(entry),
            )
        except BaseException:
            held.release()
            raise
        with self._guard:
            return self._known.setdefault(key, found)

    def prewarm(
        self, store: Store, files: Iterable[AddFile | str], *, threads: int = 4, read: bool = True
    ) -> CacheUsage:
        """Unpack splits ahead of use and have the system read them into memory; gives the usage afterwards."""

        def fetch(file: AddFile | str) -> None:
            found = self.get(store, file) if isinstance(file, str) else self.get(store, file.path, file)
            if read:
                for path in (*found.index_folder.iterdir(), found.index_folder.parent / ROWS_FILE):
                    _advise(path)

        with ThreadPoolExecutor(threads, "deltaic-prewarm") as pool:
            for _ in pool.map(fetch, files):
                pass
        return self.usage()

    def usage(self) -> CacheUsage:
        """How full the cache is."""
        entries = self._list()
        used = 0
        for entry in entries:
            with alone_if_free(self.folder / f"{entry.key}.lock", keep=True) as free:
                used += 0 if free else entry.size_bytes
        total = sum(entry.size_bytes for entry in entries)
        return CacheUsage(self.folder, len(entries), total, self.max_bytes, used)

    def clear(self) -> int:
        """Remove every entry that is not in use; gives the bytes that were freed."""
        return self._evict(0) if self.folder.is_dir() else 0

    def _entry(self, key: str, expected: str | None) -> Entry | None:
        entry = read_entry(self.folder / key, boot_id())
        if entry is None or (expected is not None and entry.description not in (None, expected)):
            return None
        return entry

    def _build(self, key: str, store: Store, path: str, add: AddFile | None, expected: str | None) -> Entry:
        with alone(self.folder / f"{key}.build"):
            entry = self._entry(key, expected)
            if entry is not None:
                return entry
            self._sweep(key)
            try:
                return self._unpack(key, store, path, add)
            except OSError as error:
                if error.errno not in _NO_ROOM or not self._evict(0):
                    raise self._failed(error) from error
            # What others left unused made the disk full; it is gone now.
            try:
                return self._unpack(key, store, path, add)
            except OSError as error:
                raise self._failed(error) from error

    def _unpack(self, key: str, store: Store, path: str, add: AddFile | None) -> Entry:
        work = self.folder / f".tmp-{key}-{secrets.token_hex(4)}"
        work.mkdir(mode=0o700)
        try:
            split = self._fetched(store, path, add, work)
            split_id = split.description.split_id if split.description is not None else str(UUID(key[:32]))
            entry = unpack_split(split, work, split_id, boot_id())
            (work / _DOWNLOAD).unlink(missing_ok=True)
            with alone(self.folder / ".room.lock"):
                self._make_room(entry.size_bytes, key)
                place = self.folder / key
                if place.exists():
                    # A damaged entry: whoever maps it keeps what it has.
                    place.rename(self.folder / f".tmp-{key}-{secrets.token_hex(4)}")
                work.rename(place)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        self._sweep(key)
        return entry

    def _fetched(self, store: Store, path: str, add: AddFile | None, work: Path) -> SplitFile:
        split = open_split(store, path, add)
        if isinstance(store, LocalStore):
            return split
        store.get_to_file(path, work / _DOWNLOAD, limit_bytes=split.footer.end)
        return SplitFile(LocalStore(work), _DOWNLOAD, split.footer, add, shown=split.where)

    def _make_room(self, needed: int, key: str) -> None:
        entries = [entry for entry in self._list() if entry.key != key]
        over = sum(entry.size_bytes for entry in entries) + needed - self.max_bytes
        if over > 0:
            over -= self._evict(self.max_bytes - needed, key)
        if over > 0:
            text = f"the split cache {self.folder} has no room for {needed:,} bytes: what is there is in use"
            raise StorageError(errno.ENOSPC, f"{text}, and {self.max_bytes:,} are allowed; raise max_bytes")

    def _evict(self, most_bytes: int, besides: str = "") -> int:
        """Remove entries, those unused for longest first, until the others take no more than this."""
        entries = sorted((one for one in self._list() if one.key != besides), key=lambda entry: entry.used_ns)
        total = sum(entry.size_bytes for entry in entries)
        freed = 0
        for entry in entries:
            if total - freed <= most_bytes:
                break
            with alone_if_free(self.folder / f"{entry.key}.lock") as free:
                if not free:
                    continue
                trash = self.folder / f".tmp-{entry.key}-{secrets.token_hex(4)}"
                with suppress(FileNotFoundError):
                    (self.folder / entry.key).rename(trash)
                    shutil.rmtree(trash, ignore_errors=True)
                    freed += entry.size_bytes
        return freed

    def _list(self) -> list[_Listed]:
        found = []
        with suppress(FileNotFoundError):
            for place in self.folder.iterdir():
                if place.name.startswith(".") or place.suffix or not place.is_dir():
                    continue
                try:
                    used = (self.folder / f"{place.name}.lock").stat().st_mtime_ns
                except OSError:
                    used = 0
                found.append(_Listed(place.name, used, _size(place)))
        return found

    def _sweep(self, own: str) -> None:
        """Remove what builders left that are no more: their build lock is free."""
        for place in self.folder.glob(".tmp-*"):
            key = place.name.split("-")[1]
            if key == own:
                shutil.rmtree(place, ignore_errors=True)
                continue
            with alone_if_free(self.folder / f"{key}.build") as free:
                if free:
                    shutil.rmtree(place, ignore_errors=True)

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> DeltaicError:
        if isinstance(error, DeltaicError) and error.errno not in _NO_ROOM:
            return error
        reason = error.strerror or str(error)
        hint = "set DELTAIC_SPLIT_CACHE to a folder that can be written to"
        if error.errno in _NO_ROOM:
            hint = "free some space, or lower max_bytes and call clear()"
        return StorageError(error.errno, f"cannot use the split cache {self.folder}: {reason}; {hint}")


_DOWNLOAD = "download.split"


def default_folder() -> Path:
    """Where the cache is unless the caller says otherwise."""
    if named := os.environ.get("DELTAIC_SPLIT_CACHE"):
        return Path(named)
    if shared := os.environ.get("DELTAIC_CACHE"):
        return Path(shared, "splits")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "deltaic", "splits")


def entry_key(store: Store, path: str, size: int) -> str:
    """The name of a split's entry: paths of splits are never used twice."""
    return hashlib.sha256(f"{store.url}\n{path}\n{size}".encode("utf-8", "surrogatepass")).hexdigest()[:40]


@cache
def boot_id() -> str:
    """A text that is another after the machine started anew; empty where it cannot be known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _size(folder: Path) -> int:
    total = 0
    for path in (*folder.glob("*"), *(folder / INDEX_FOLDER).glob("*")):
        with suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def _advise(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(handle)
