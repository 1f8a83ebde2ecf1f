"""What happened to a table: its versions, when, and which files came and went."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from deltaic.errors import InputError, NotFoundError
from deltaic.table.actions import AddFile, Metadata, RemoveFile
from deltaic.table.listing import LogListing, milliseconds
from deltaic.table.log import Log
from deltaic.table.protocol import NOTE_KEY, OPERATION_KEY, TOKEN_KEY, USER_PREFIX
from deltaic.table.versionfile import VersionFile


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of a table."""

    version: int
    committed_ms: int
    operation: str
    files_added: int = 0
    files_removed: int = 0
    bytes_added: int = 0
    records_added: int | None = None
    data_change: bool = True
    note: str | None = None
    user: dict[str, str] = field(default_factory=dict)
    token: str | None = None
    tags: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True)
class FileChanges:
    """The files that came and went from one version to the next."""

    version: int
    added: tuple[AddFile, ...]
    removed: tuple[RemoveFile, ...]

    @property
    def data_change(self) -> bool:
        """False for merges: the same rows in other files."""
        return any(add.data_change for add in self.added) or any(one.data_change for one in self.removed)


def commit_times(log: Log, listing: LogListing | None = None) -> dict[int, int]:
    """When each version came by the store's clock, in milliseconds, never falling from one version to the next.

    For ages: a table that was copied is as young as its copy. `version_at` and `history` tell what writers wrote.
    """
    listing = listing or log.listing()
    found: dict[int, int] = {}
    last = 0
    for version in sorted({*listing.versions, *listing.states, *listing.checkpoints}):
        if version == 0 and version not in listing.versions and len(listing.states) > 1:
            continue
        info = listing.versions.get(version)
        if info is None:
            # The number 0 of a public checkpoint is not a version's; see log.py.
            info = listing.states.get(version) or listing.checkpoints[version]
        last = max(last, milliseconds(info.modified))
        found[version] = last
    return found


def version_at(log: Log, timestamp_ms: int) -> int:
    """The version that was the newest at a time, by what states say of when they were made.

    States of ours never go back in time from one to the next, so that a few of them need to be read.
    """
    listing = log.listing()
    versions = sorted({*listing.versions, *listing.states, *listing.checkpoints})
    if not versions:
        raise NotFoundError(f"there is no table at {log.url}")
    states = [version for version in sorted(listing.states) if version > 0]
    known: dict[int, int] = {}

    def reached(version: int) -> bool:
        if version not in known:
            known[version] = _written_ms(log, listing, version)
        return known[version] <= timestamp_ms

    newest = log.state(states[-1]) if states else None
    if newest is not None and newest.own:
        place = bisect_left(states, True, key=lambda version: not reached(version))
    else:
        place = next((place for place, version in enumerate(states) if not reached(version)), len(states))
    low = states[place - 1] if place else -1
    high = states[place] if place < len(states) else versions[-1] + 1
    # Versions between two states have the store's time only.
    for version in versions:
        if low < version < high:
            if not reached(version):
                break
            low = version
    if low < 0:
        raise NotFoundError(f"the oldest version of {log.url} is {versions[0]}, which came later than that")
    return low


def _written_ms(log: Log, listing: LogListing, version: int) -> int:
    state = log.state(version) if version in listing.states and version > 0 else None
    if state is not None and state.created_ms:
        return state.created_ms
    if version == 0 and 0 in listing.versions:
        version_file = log.read_version(0)
        if version_file is not None and version_file.metadata is not None and version_file.metadata.created_ms:
            return version_file.metadata.created_ms
    info = listing.versions.get(version) or listing.checkpoints.get(version) or listing.states[version]
    return milliseconds(info.modified)


def history(log: Log, *, limit: int | None = None) -> Iterator[Entry]:
    """The versions of a table, newest first."""
    listing = log.listing()
    times = commit_times(log, listing)
    tags: dict[int, list[str]] = {}
    if times:
        for name, version in log.snapshot().tags.items():
            tags.setdefault(version, []).append(name)
    for version in sorted(times, reverse=True)[:limit]:
        marks = tuple(sorted(tags.get(version, ())))
        written_ms = _written_ms(log, listing, version)
        version_file = log.read_version(version) if version in listing.versions else None
        if version_file is not None:
            yield _entry(version_file, written_ms, marks)
        else:
            changes = _by_snapshots(log, version)
            yield Entry(
                version,
                written_ms,
                "unknown" if changes is None else _operation(changes, None),
                0 if changes is None else len(changes.added),
                0 if changes is None else len(changes.removed),
                0 if changes is None else sum(add.size_bytes for add in changes.added),
                None if changes is None else _records(changes.added),
                changes is None or changes.data_change,
                tags=marks,
            )


def _entry(version_file: VersionFile, committed_ms: int, tags: tuple[str, ...]) -> Entry:
    changes = FileChanges(version_file.version, version_file.adds, version_file.removes)
    told = version_file.metadata.configuration if version_file.metadata is not None else {}
    return Entry(
        version=version_file.version,
        committed_ms=committed_ms,
        operation=told.get(OPERATION_KEY) or _operation(changes, version_file.metadata, version_file),
        files_added=len(changes.added),
        files_removed=len(changes.removed),
        bytes_added=sum(add.size_bytes for add in changes.added),
        records_added=_records(changes.added),
        data_change=changes.data_change,
        note=told.get(NOTE_KEY),
        user={key.removeprefix(USER_PREFIX): text for key, text in told.items() if key.startswith(USER_PREFIX)},
        token=told.get(TOKEN_KEY),
        tags=tags,
    )


def _records(adds: tuple[AddFile, ...]) -> int | None:
    counts = [add.num_records for add in adds]
    return None if any(count is None for count in counts) else sum(count or 0 for count in counts)


def _operation(changes: FileChanges, metadata: Metadata | None, version_file: VersionFile | None = None) -> str:
    """What a commit was, where it does not say."""
    if changes.added or changes.removed:
        if not changes.data_change:
            return "merge"
        if changes.added and changes.removed:
            return "rewrite"
        return "append" if changes.added else "remove"
    if version_file is not None and version_file.skips:
        return "skip"
    if metadata is not None:
        return "create" if version_file is not None and version_file.version == 0 else "update metadata"
    return "empty"


def changes(log: Log, from_version: int, to_version: int) -> Iterator[FileChanges]:
    """The file changes of each version after `from_version` up to and with `to_version`, oldest first.

    Version files tell them; where a table has only states, two snapshots are compared.
    """
    if from_version > to_version:
        raise InputError(f"changes go forward: from {from_version} to {to_version}")
    for version in range(from_version + 1, to_version + 1):
        version_file = log.read_version(version)
        if version_file is not None:
            yield FileChanges(version, version_file.adds, version_file.removes)
            continue
        found = _by_snapshots(log, version)
        if found is None:
            raise NotFoundError(f"the changes of version {version} are not in {log.url} any more")
        yield found


def net_changes(log: Log, from_version: int, to_version: int) -> FileChanges:
    """What changed from one version to another in all, either way."""
    before, after = log.snapshot(from_version), log.snapshot(to_version)
    old, new = {add.path: add for add in before.files()}, {add.path: add for add in after.files()}
    return _compared(to_version, old, new)


def _by_snapshots(log: Log, version: int) -> FileChanges | None:
    if version == 0:
        return None
    try:
        before, after = log.snapshot(version - 1), log.snapshot(version)
    except NotFoundError:
        return None
    return _compared(version, {add.path: add for add in before.files()}, {add.path: add for add in after.files()})


def _compared(version: int, old: dict[str, AddFile], new: dict[str, AddFile]) -> FileChanges:
    added = tuple(add for path, add in new.items() if path not in old)
    kept_rows = bool(added) and not any(add.data_change for add in added)
    removed = tuple(
        RemoveFile(path, data_change=not kept_rows, partition_values=add.partition_values, size_bytes=add.size_bytes)
        for path, add in old.items()
        if path not in new
    )
    return FileChanges(version, added, removed)
