"""The log of a table: from its files to a snapshot.

The fast way: the hint names a state of ours, and version files after it are probed one by one; this finds the newest
version, because our writers leave no gap above a state (`retention.py`). Everything else (no hint, a hint that leads
nowhere, states of other writers, old versions) is decided from a listing:

1. the newest usable state or JSON checkpoint not above the wanted version is the base. A state that is not ours is not
   used where a version file of its number exists in a table of ours: the version file is the truth there;
2. version files after it are replayed in order, without a gap;
3. a file that vanished meanwhile (another process cleans up) starts it all again.
"""

from collections.abc import Iterator
from dataclasses import replace

import msgspec
from msgspec.structs import replace as changed

from deltaic.errors import DecodeError, NotFoundError
from deltaic.storage import Blob, Store
from deltaic.table.actions import Metadata, Protocol
from deltaic.table.checkpoint import AVRO_FORMAT, Hint, JsonCheckpoint, read_checkpoint, read_hint
from deltaic.table.columns import FileColumns
from deltaic.table.listing import LogListing, list_log, milliseconds
from deltaic.table.manifest import CACHE, ManifestCache
from deltaic.table.protocol import check_readable, is_ours
from deltaic.table.settings import Settings
from deltaic.table.snapshot import Part, Snapshot
from deltaic.table.state import AVRO_NAME, JSON_NAME, State, read_state, state_folder
from deltaic.table.versionfile import MAX_VERSION_BYTES, VersionFile, version_name

FOLDER = "_transaction_log"
"""The folder of the log in a table's folder."""

_RESTARTS = 5


class _Vanished(Exception):
    """A file of the listing is not there any more."""


class _Base(msgspec.Struct, frozen=True):
    version: int
    state: State | None = None
    checkpoint: JsonCheckpoint | None = None


class Log:
    """Reads a table's log."""

    def __init__(self, store: Store, settings: Settings | None = None, *, cache: ManifestCache = CACHE) -> None:
        self.store = store.child(FOLDER)
        self.settings = settings or Settings()
        self.cache = cache
        self._seen_metadata: dict[int, Metadata | None] = {}

    @property
    def url(self) -> str:
        """Where the log is."""
        return self.store.url

    def listing(self, *, with_manifests: bool = False) -> LogListing:
        """What lies in the log."""
        return list_log(self.store, with_manifests=with_manifests)

    def hint(self) -> Hint | None:
        """What `_last_checkpoint` says."""
        return read_hint(self.store)

    def state(self, version: int) -> State | None:
        """The state of a version, or None."""
        return read_state(self.store, version)

    def written_state(self, version: int, *, literal: bool) -> State | None:
        """The state of a version in the one form that a table's writers use: one request less where there is none."""
        return read_state(self.store, version, forms=(JSON_NAME if literal else AVRO_NAME,))

    def read_version(self, version: int) -> VersionFile | None:
        """The version file of a version, or None."""
        blob = self._version_blob(version)
        if blob is None:
            return None
        return VersionFile.read(version, blob.data, f"{self.url}/{version_name(version)}", blob.etag)

    def version_bytes(self, version: int) -> bytes | None:
        """The bytes of a version file, or None."""
        blob = self._version_blob(version)
        return None if blob is None else blob.data

    def _version_blob(self, version: int) -> Blob | None:
        try:
            return self.store.get(version_name(version), limit_bytes=MAX_VERSION_BYTES)
        except NotFoundError:
            return None

    def version_etag(self, version: int) -> str | None:
        """The etag of a version file, or None if it is not there."""
        try:
            return self.store.head(version_name(version)).etag
        except NotFoundError:
            return None

    def snapshot(self, version: int | None = None, *, replay: bool = False) -> Snapshot:
        """The table at a version, or at the newest one.

        Args:
            version: the number, the newest without it.
            replay: from version files and JSON checkpoints alone, for when states or manifests are damaged.

        Raises:
            NotFoundError: there is no table, or no such version in its log.
        """
        found = None if replay else self._by_hint(version)
        if found is None:
            for _ in range(_RESTARTS):
                try:
                    found = self._by_listing(version, replay=replay)
                    break
                except _Vanished:
                    continue
            else:
                raise NotFoundError(f"files of {self.url} vanish while they are read: another process cleans up")
        check_readable(found.protocol, self.url)
        return found

    def newer(self, snapshot: Snapshot) -> Snapshot:
        """The newest snapshot, from one that is known: only what came after it is read."""
        if not is_ours(snapshot.metadata):
            return self.snapshot()
        advanced = self._replayed(snapshot)
        if self.is_cut_off(advanced):
            return self.snapshot()
        if advanced.version == snapshot.version and self._has_state(advanced.version + 1):
            return self.snapshot()
        check_readable(advanced.protocol, self.url)
        return advanced

    def is_cut_off(self, snapshot: Snapshot) -> bool:
        """Whether the log may go on elsewhere, although no version file follows this one.

        A clean-up deletes version files, also those that follow a snapshot which somebody still holds. It brings the
        hint up to date before: a hint beyond the end of the line that was followed tells.
        """
        hint = self.hint()
        if hint is not None:
            return hint.version > snapshot.version
        return snapshot.version > 0 and self.version_etag(snapshot.version) is None

    def _by_hint(self, version: int | None) -> Snapshot | None:
        """The fast way, or None where it does not lead to a sure answer."""
        if version is not None:
            return self._of_own_state(version)
        for _ in range(_RESTARTS):
            hint = self.hint()
            if hint is None or hint.format != AVRO_FORMAT:
                return None
            based = self._of_own_state(hint.version)
            if based is None:
                return None
            found = self._replayed(based)
            if found.version > based.version and self.is_cut_off(found):
                continue
            # A state without a version file is the commit of another family of writers.
            return None if self._has_state(found.version + 1) else found
        return None

    def _of_own_state(self, version: int) -> Snapshot | None:
        try:
            state = self.state(version) if version > 0 else None
        except DecodeError:
            return None
        if state is None or not state.own or state.metadata is None:
            return None
        return self._of_state(state, state.metadata)

    def _replayed(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot with all version files that follow it."""
        while (following := self.read_version(snapshot.version + 1)) is not None:
            snapshot = snapshot.advance(following, self._time_of(following))
        return snapshot

    def _time_of(self, version_file: VersionFile) -> int:
        times = [add.modified_ms for add in version_file.adds] + [one.deletion_ms or 0 for one in version_file.removes]
        return max(times, default=0)

    def _has_state(self, version: int) -> bool:
        return any(True for _ in self.store.list(f"{state_folder(version)}/"))

    def _by_listing(self, version: int | None, *, replay: bool = False) -> Snapshot:
        listing = self.listing()
        if replay:
            listing = changed(listing, states={})
        latest = listing.latest
        if latest is None:
            raise NotFoundError(f"there is no table at {self.url.removesuffix('/' + FOLDER)}")
        wanted = latest if version is None else version
        if not 0 <= wanted <= latest:
            raise NotFoundError(f"version {wanted} is not in {self.url}; the newest is {latest}")
        problem: DecodeError | None = None
        for number in sorted({*listing.states, *listing.checkpoints} - {0}, reverse=True):
            if number > wanted or not _dense(listing, number + 1, wanted):
                continue
            try:
                for base in self._bases(listing, number):
                    return self._replay(listing, base, wanted)
            except DecodeError as error:
                # An unreadable base is passed over if another one leads to the version as well.
                problem = problem or error
        if _dense(listing, 0, wanted):
            return self._replay(listing, None, wanted)
        if problem is not None:
            raise problem
        # The state of number 0 may hold any version (a public command numbers it so): better than nothing.
        if wanted == 0 or (latest == 0 and version is None):
            for base in self._bases(listing, 0):
                return self._replay(listing, base, wanted)
        raise NotFoundError(f"version {wanted} is not in {self.url} any more{_oldest(listing)}")

    def _bases(self, listing: LogListing, number: int) -> Iterator[_Base]:
        if number in listing.states:
            state = self.state(number)
            if state is None:
                raise _Vanished
            if state.own or number not in listing.versions or not self.is_ours_at(listing, state):
                yield _Base(number, state=state)
        if number in listing.checkpoints:
            checkpoint = read_checkpoint(self.store, number)
            if checkpoint is None:
                raise _Vanished
            yield _Base(number, checkpoint=checkpoint)

    def is_ours_at(self, listing: LogListing, state: State) -> bool:
        """Whether the table was ours already at the version of a state."""
        return is_ours(state.metadata or self._older_metadata(listing, state.version))

    def _replay(self, listing: LogListing, base: _Base | None, wanted: int) -> Snapshot:
        snapshot, first = None, 0
        if base is not None:
            snapshot, first = self._of_base(listing, base), base.version + 1
        for version in range(first, wanted + 1):
            version_file = self.read_version(version)
            if version_file is None:
                raise _Vanished
            if snapshot is None:
                snapshot = self._empty(version_file)
            created_ms = milliseconds(listing.versions[version].modified)
            if version == 0 and version_file.metadata is not None and version_file.metadata.created_ms is not None:
                created_ms = version_file.metadata.created_ms  # as the table says itself, also in a copy of it
            snapshot = snapshot.advance(version_file, created_ms)
        if snapshot is None:
            raise NotFoundError(f"there is no table in {self.url}")
        return snapshot

    def _empty(self, first: VersionFile) -> Snapshot:
        if first.metadata is None:
            raise DecodeError(
                "NoMetadata", "the first version says not what the table is", f"{self.url} {first.version}"
            )
        return self._new(first.version, first.protocol or Protocol(1, 1), first.metadata)

    def _of_base(self, listing: LogListing, base: _Base) -> Snapshot:
        if base.state is not None:
            metadata = base.state.metadata or self._older_metadata(listing, base.version)
            if metadata is None:
                raise DecodeError("NoMetadata", "nothing says what the table is", f"{self.url} version {base.version}")
            state = base.state if base.state.own else changed(base.state, protocol=self._featured(listing, base.state))
            return self._of_state(state, metadata, milliseconds(listing.states[base.version].modified))
        checkpoint = base.checkpoint
        assert checkpoint is not None
        metadata = checkpoint.metadata or self._older_metadata(listing, base.version)
        if metadata is None:
            raise DecodeError("NoMetadata", "nothing says what the table is", f"{self.url} version {base.version}")
        columns = FileColumns.of_adds(checkpoint.adds, f"{self.url} checkpoint {base.version}")
        found = self._new(base.version, checkpoint.protocol or Protocol(1, 1), metadata)
        created_ms = milliseconds(listing.checkpoints[base.version].modified)
        return replace(found, base=(Part(columns=columns),), created_ms=created_ms)

    def _featured(self, listing: LogListing, state: State) -> Protocol | None:
        """The protocol of another writer's state: its number, with the features that the first version asks for.

        States have no place for features, and a table that needs one we do not know must not be read for that.
        """
        first = self.read_version(0) if 0 in listing.versions else None
        if first is None or first.protocol is None:
            return None
        number = state.protocol_version
        return changed(first.protocol, min_reader_version=number, min_writer_version=number)

    def _of_state(self, state: State, metadata: Metadata, stored_ms: int = 0) -> Snapshot:
        parts = tuple(Part(info, key) for info, key in zip(state.manifests, state.manifest_keys(), strict=True))
        number = state.protocol_version
        found = self._new(state.version, state.protocol or Protocol(number, number), metadata)
        return replace(
            found,
            base=parts,
            state=state,
            hidden=frozenset(state.tombstones),
            schemas=state.schemas,
            created_ms=state.created_ms or stored_ms,
        )

    def _new(self, version: int, protocol: Protocol, metadata: Metadata) -> Snapshot:
        return Snapshot(
            self.store, version, protocol, metadata, parallelism=self.settings.read_parallelism, cache=self.cache
        )

    def _older_metadata(self, listing: LogListing, version: int) -> Metadata | None:
        """The newest metadata at or below a version: of its version file, else of its state, else of older ones."""
        for number in sorted({*listing.versions, *listing.states}, reverse=True):
            if number > version:
                continue
            if number in listing.versions:
                version_file = self.read_version(number)
                if version_file is not None and version_file.metadata is not None:
                    return version_file.metadata
            if number in listing.states and (number or version == 0):
                metadata = self._state_metadata(number)
                if metadata is not None:
                    return metadata
        return None

    def _state_metadata(self, number: int) -> Metadata | None:
        # Ordinary states of the first generation carry none, so that a reader may have to look through all of them.
        if number not in self._seen_metadata:
            state = self.state(number)
            if state is None:
                return None
            self._seen_metadata[number] = state.metadata
        return self._seen_metadata[number]


def _dense(listing: LogListing, first: int, last: int) -> bool:
    return all(version in listing.versions for version in range(first, last + 1))


def _oldest(listing: LogListing) -> str:
    oldest = min((number for number in (*listing.states, *listing.checkpoints) if number), default=None)
    return "" if oldest is None else f"; the oldest is {oldest}"
