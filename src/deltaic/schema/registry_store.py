"""The registry in a store: journal files, snapshots, recovery, following (docs/formats/field-registry.md, 9).

Each durable batch is a journal file of its own, put if absent under the sequence before its first record. That name is
the lock of all writers: who comes second reads what the first one wrote and tries again. Readers never wait.

Old files are removed when two newer snapshots exist. A writer that slept through that could put a file under a name
that is free again, and a reader could find it. Therefore whoever has put or read a journal looks at the snapshots
*afterwards*: as long as fewer than two are newer than the file's name, nobody can have removed it, so it was the
one and only. Otherwise everything is read anew.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from deltaic.errors import (
    CommitConflictError,
    CommitUnknownError,
    DeltaicError,
    LimitError,
    NotFoundError,
    RegistryError,
    StorageError,
)
from deltaic.schema.registry import Durability, Registry
from deltaic.schema.registry_journal import JournalFile, Record, journal_base, journal_name, read_journal, write_journal
from deltaic.schema.registry_state import RegistryState
from deltaic.storage.backoff import Backoff
from deltaic.storage.store import Blob, Store
from deltaic.storage.urls import open_store

SNAPSHOT_RECORDS = 10_000
"""A snapshot is due after so many records."""

SNAPSHOT_FILES = 100
"""A snapshot is due after so many journal files: whoever opens the registry reads at most twice as many."""

MAX_JOURNAL_BYTES = 1 << 30
"""The largest journal file that is read."""

MAX_SNAPSHOT_BYTES = 4 << 30
"""The largest snapshot that is read."""

_SNAPSHOT = re.compile(r"snapshot-(\d{20})\.dfrs")
_ATTEMPTS = 20

log = logging.getLogger("deltaic.schema")


def open_registry(
    store: Store | str,
    *,
    max_versions: int | None = None,
    durability: Durability = "sync",
    read_only: bool = False,
    backoff: Backoff | None = None,
) -> Registry:
    """Open the registry in a folder; an empty folder is an empty registry, and nothing is written yet.

    Args:
        store: the folder, or its URL.
        max_versions: how many versions are kept when one is made here; None keeps all.
        durability: `sync` makes each registration durable by itself, `batch` those that wait at the same time together;
            both before they return. With `none` the folder is read once and what is registered stays in memory.
        read_only: refuse to write; `refresh` follows what others write.
        backoff: how long to wait after another process was first.

    Raises:
        RegistryError: what is there cannot be read: `JournalCorrupt`, `BadMagic`, `UnsupportedVersion`, `Truncated`.
    """
    files = RegistryFiles(open_store(store) if isinstance(store, str) else store)
    return Registry(
        journal=files,
        state=files.recover(),
        max_versions=max_versions,
        durability=durability,
        read_only=read_only,
        backoff=backoff,
    )


def snapshot_name(sequence: int) -> str:
    """The name of the snapshot after the record of a sequence."""
    return f"snapshot-{sequence:020d}.dfrs"


@dataclass(frozen=True, slots=True)
class _Listing:
    """The files of a registry's folder."""

    journals: dict[int, int]
    """Base → size, rising."""
    snapshots: tuple[int, ...]
    """Sequences, falling."""

    def newer_snapshots(self, sequence: int, damaged: frozenset[int] = frozenset()) -> int:
        """How many snapshots were made after the record of a sequence."""
        return sum(found > sequence and found not in damaged for found in self.snapshots)


@dataclass(frozen=True, slots=True)
class _Tail:
    """The last journal file that was read, and how far it is whole."""

    base: int
    size_bytes: int
    good_bytes: int
    etag: str | None


class _Vanished(Exception):
    """A file was removed or replaced while it was wanted: look again."""


class RegistryFiles:
    """The folder of a registry. Used by one registry, under its lock."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._tail: _Tail | None = None
        self._snapshot = 0
        self._files = 0
        self._wrote = False

    def recover(self) -> RegistryState:
        """The state from the newest readable snapshot and the journals behind it.

        Raises:
            RegistryError: a bad record that is not the torn end of the last journal, a gap, or a record that does not
                fit.
        """
        for _ in range(_ATTEMPTS):
            try:
                return self._recover()
            except _Vanished:
                continue
        raise StorageError(f"{self.store.url}: files of the registry vanished while they were read, again and again")

    def _recover(self) -> RegistryState:
        self._tail = None
        listing = self._list()
        state, damaged = self._newest_snapshot(listing)
        snapshot = state.sequence
        # Only the last journal that starts at or before the snapshot can hold records behind it. What is older may be
        # the leftover of a writer that came too late.
        bases = list(listing.journals)
        start = max((place for place, base in enumerate(bases) if base <= snapshot), default=0)
        used = bases[start:]
        files = self._read(used, state.sequence)
        if used and self._list().newer_snapshots(used[0], damaged) >= 2 > listing.newer_snapshots(used[0], damaged):
            raise _Vanished
        self._take(state, files)
        if listing.snapshots and state.sequence < listing.snapshots[0]:
            raise RegistryError(
                "JournalCorrupt",
                f"{self.store.url}: the journals end at record {state.sequence}, but there was a snapshot at "
                f"{listing.snapshots[0]} that cannot be read",
            )
        self._snapshot, self._files = snapshot, len(used)
        return state

    def _newest_snapshot(self, listing: _Listing) -> tuple[RegistryState, frozenset[int]]:
        damaged: set[int] = set()
        for sequence in listing.snapshots:
            name = snapshot_name(sequence)
            data = self._wanted(name, MAX_SNAPSHOT_BYTES).data
            try:
                state = RegistryState.from_snapshot(data, f"{self.store.url}/{name}")
            except RegistryError as error:
                # Only damage is passed over. A whole file that this version cannot read is not.
                if error.code not in ("Truncated", "BadMagic", "ChecksumMismatch", "UnsupportedVersion") or (
                    error.code == "UnsupportedVersion" and RegistryState.is_whole(data)
                ):
                    raise
                log.warning("passing over a damaged snapshot: %s", error)
                damaged.add(sequence)
                continue
            if state.sequence != sequence:
                raise RegistryError("JournalCorrupt", f"{self.store.url}/{name} is of record {state.sequence}")
            return state, frozenset(damaged)
        return RegistryState(), frozenset(damaged)

    def _wanted(self, name: str, limit_bytes: int) -> Blob:
        try:
            return self.store.get(name, limit_bytes=limit_bytes)
        except NotFoundError as error:
            raise _Vanished from error
        except LimitError as error:
            raise RegistryError("JournalCorrupt", f"{self.store.url}/{name}: {error.reason}") from error

    def _read(self, bases: Sequence[int], after: int) -> list[JournalFile]:
        """Read journals in order, their records behind a sequence; only the last may be torn."""
        files = []
        for base in bases:
            name = journal_name(base)
            blob = self._wanted(name, MAX_JOURNAL_BYTES)
            shown = f"{self.store.url}/{name}"
            found = read_journal(blob.data, shown, last=base == bases[-1], after=after)
            if found.base != base:
                raise RegistryError("JournalCorrupt", f"{shown} says that it follows record {found.base}", 8)
            files.append(found)
            if base == bases[-1]:
                self._tail = _Tail(base, len(blob.data), found.good_bytes, blob.etag)
        return files

    def _take(self, state: RegistryState, files: Sequence[JournalFile]) -> None:
        """Apply the records behind the state's."""
        for file in files:
            # The first one may have been known before, in part or as a whole.
            missing = file.base + file.skipped - state.sequence
            if missing > 0 or (missing and (file.records or file is not files[0])):
                raise RegistryError(
                    "JournalCorrupt",
                    f"{self.store.url}/{journal_name(file.base)} does not follow record {state.sequence}: records are "
                    "missing or there twice",
                )
            try:
                state.apply_all(file.records)
            except RegistryError as error:
                name = f"{self.store.url}/{journal_name(file.base)}"
                raise RegistryError(error.code, f"{name}: {error.reason}", *error.args[2:]) from error

    def pull(self, state: RegistryState) -> RegistryState:
        """Bring a state up to date: the same one, or a new one if its journals are gone."""
        try:
            return self._pull(state)
        except _Vanished:
            return self.recover()

    def _pull(self, state: RegistryState) -> RegistryState:
        listing = self._list()
        new = [base for base in listing.journals if base >= state.sequence]
        tail = self._tail
        if tail is not None and tail.base < state.sequence and listing.journals.get(tail.base, 0) > tail.size_bytes:
            new.insert(0, tail.base)  # somebody appends to one file
        if not new:
            if listing.newer_snapshots(state.sequence):
                raise _Vanished
            return state
        before = state.sequence
        files = self._read(new, before)
        after = self._list()
        if after.newer_snapshots(min(new[0], before)) >= 2 or new[0] > before:
            raise _Vanished
        self._take(state, files)
        self._files += len(new)
        self._seen(after)
        return state

    def append(self, state: RegistryState, records: Sequence[Record]) -> bool:
        """Make the records durable behind those of the state; False if another writer was first.

        Raises:
            CommitUnknownError: the store did not answer. The records may be there; `pull` finds them.
            StorageError: nothing was written.
        """
        self._cut(state)
        base = state.sequence
        name, data = journal_name(base), write_journal(base, records)
        try:
            if not self._put(name, data):
                return False
        except CommitUnknownError:
            if not self._is_ours(name, data):
                return False
        try:
            listing = self._list()
            if listing.newer_snapshots(base) >= 2:
                # Either the file was too late, or it is covered by snapshots already: nobody needs it.
                self.store.delete(name)
                return False
        except StorageError as error:
            raise CommitUnknownError(f"{self.store.url}/{name} is written, but may have come too late") from error
        self._tail = _Tail(base, len(data), len(data), None)
        self._files += 1
        self._wrote = True
        self._seen(listing)
        return True

    def _put(self, name: str, data: bytes) -> bool:
        try:
            self.store.put_if_absent(name, data)
        except CommitConflictError:
            try:
                found = self.store.get(name, limit_bytes=MAX_JOURNAL_BYTES)
            except NotFoundError:
                return False
            except StorageError as error:
                raise CommitUnknownError(f"{self.store.url}/{name} exists, and may be ours") from error
            if found.data == data:
                return True  # an own success whose answer was lost
            if read_journal(found.data, f"{self.store.url}/{name}").records:
                return False
            # A header without a record, or with a torn one: its place is still free.
            try:
                self.store.put_if_match(name, data, found.etag)
            except CommitConflictError:
                return False
        return True

    def _is_ours(self, name: str, data: bytes) -> bool:
        try:
            return self.store.get(name, limit_bytes=MAX_JOURNAL_BYTES).data == data
        except NotFoundError:
            return False
        except StorageError as error:
            raise CommitUnknownError(f"{self.store.url}/{name} may or may not be written") from error

    def _cut(self, state: RegistryState) -> None:
        """Remove the torn end of the last journal, so that another one may follow."""
        tail = self._tail
        if tail is None or tail.good_bytes == tail.size_bytes or tail.base == state.sequence or tail.etag is None:
            return
        name = journal_name(tail.base)
        log.warning("cutting the torn end off %s/%s: %d bytes", self.store.url, name, tail.size_bytes - tail.good_bytes)
        try:
            whole = self.store.get(name, limit_bytes=MAX_JOURNAL_BYTES).data[: tail.good_bytes]
            etag = self.store.put_if_match(name, whole, tail.etag)
        except (CommitConflictError, NotFoundError):
            self._tail = _Tail(tail.base, tail.size_bytes, tail.size_bytes, None)  # another writer did it
            return
        self._tail = _Tail(tail.base, tail.good_bytes, tail.good_bytes, etag)

    def written(self, state: RegistryState) -> None:
        """Write a snapshot if one is due; a failure is logged, the journal is enough."""
        if state.sequence - self._snapshot >= SNAPSHOT_RECORDS or self._files >= SNAPSHOT_FILES:
            self._try_snapshot(state)

    def close(self, state: RegistryState) -> None:
        """Write a snapshot if this process wrote records that none holds."""
        if self._wrote and state.sequence > self._snapshot:
            self._try_snapshot(state)

    def _try_snapshot(self, state: RegistryState) -> None:
        try:
            self.write_snapshot(state)
        except (DeltaicError, OSError) as error:
            log.warning("no snapshot of the registry %s: %s", self.store.url, error)
            self._snapshot, self._files = state.sequence, 0  # again after as many records

    def write_snapshot(self, state: RegistryState) -> None:
        """Write a snapshot of the state and remove what is older than the one before it."""
        # Bytes follow from the records alone, so that it does not matter who writes over whose.
        self.store.put(snapshot_name(state.sequence), state.snapshot())
        self._snapshot, self._files = state.sequence, 0
        self._clean()

    def _clean(self) -> None:
        listing = self._list()
        # The newest was just written; of the others the newest that can be read is the one to fall back to.
        floor = next((sequence for sequence in listing.snapshots[1:] if self._is_readable(sequence)), None)
        if floor is None:
            return
        bases = list(listing.journals)
        for base, following in pairwise(bases):
            if following <= floor:
                self.store.delete(journal_name(base))
        for sequence in listing.snapshots:
            if sequence < floor:
                self.store.delete(snapshot_name(sequence))

    def _is_readable(self, sequence: int) -> bool:
        try:
            data = self.store.get(snapshot_name(sequence), limit_bytes=MAX_SNAPSHOT_BYTES).data
        except NotFoundError:
            return False
        return RegistryState.is_whole(data)

    def _seen(self, listing: _Listing) -> None:
        """Another process may have written a snapshot: then none is due here."""
        if listing.snapshots and listing.snapshots[0] > self._snapshot:
            self._snapshot = listing.snapshots[0]
            self._files = sum(base >= self._snapshot for base in listing.journals)

    def _list(self) -> _Listing:
        journals: dict[int, int] = {}
        snapshots = []
        for info in self.store.list():
            base = journal_base(info.key)
            if base is not None:
                journals[base] = info.size_bytes
            elif (matched := _SNAPSHOT.fullmatch(info.key)) is not None:
                snapshots.append(int(matched[1]))
        return _Listing(dict(sorted(journals.items())), tuple(sorted(snapshots, reverse=True)))
