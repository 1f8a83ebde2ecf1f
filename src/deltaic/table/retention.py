"""What may be deleted, and when: versions by the time they were superseded, files by the time they were removed.

A version is in the *window* while it is the newest, among the few newest, tagged, or was the newest at some moment of
the last `log_retention_hours`. A file of the table is deleted only if

- no version of the window refers to it, and
- its removal lies `file_retention_hours` back: by the version file that removed it; where none tells, by the oldest
  version there is, which does not have it any more, and
- it was written as long ago, so that a slow writer's file that no version has yet is safe.

An age by the file's own time alone would delete an old file a minute after a merge replaced it. To every age the clock
skew is added. Order: the hint is brought up to date; states, then checkpoints, then version files go, oldest first, so
that no state is left whose successor is missing; the log is listed again; and only then manifests and files go that no
survivor refers to. A dry run does all of the finding and none of the writing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from deltaic.errors import InputError, StorageError
from deltaic.storage import ObjectInfo, Store
from deltaic.table.checkpoint import AVRO_FORMAT, JSON_FORMAT, Hint, write_hint
from deltaic.table.commit import Committer, writes_json
from deltaic.table.history import commit_times
from deltaic.table.listing import LogListing, milliseconds, number_of
from deltaic.table.log import FOLDER, Log
from deltaic.table.manifest import read_manifest
from deltaic.table.protocol import is_ours
from deltaic.table.snapshot import Snapshot
from deltaic.table.state import State

HOUR_MS = 3_600_000

SCRATCH = "_scratch"
"""The folder of a table in which tasks leave work for each other; what a job that died left there goes with a purge."""


@dataclass(frozen=True, slots=True)
class Purge:
    """What a purge deleted, or would delete."""

    dry_run: bool
    oldest_version: int
    """The oldest version that stays readable, tagged ones aside."""
    log_files: tuple[str, ...]
    """States, checkpoints and version files."""
    manifests: tuple[str, ...]
    files: tuple[str, ...]
    """Files of the table, by path."""
    size_bytes: int
    """Of the files of the table."""
    too_young: int
    """Files that nobody refers to and that stay for their age."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Truncation:
    """The history that was forgotten, or would be."""

    dry_run: bool
    version: int
    log_files: tuple[str, ...]
    tagged: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def readable_versions(log: Log, listing: LogListing | None = None) -> tuple[int, ...]:
    """The versions that can be read: those with a state or checkpoint, and what version files add to them."""
    listing = listing or log.listing()
    found: list[int] = []
    for version in sorted({*listing.versions, *listing.states, *listing.checkpoints}):
        based = version > 0 and (version in listing.states or version in listing.checkpoints)
        follows = version in listing.versions and (version == 0 or (bool(found) and found[-1] == version - 1))
        if based or follows:
            found.append(version)
    return tuple(found)


def purge(
    store: Store,
    log: Log,
    committer: Committer,
    *,
    now_ms: int,
    file_retention_hours: float | None,
    log_retention_hours: float | None,
    dry_run: bool,
    limit: int,
) -> Purge:
    """Delete what no version in the window needs."""
    settings = committer.settings
    files_hours = settings.file_retention_hours if file_retention_hours is None else file_retention_hours
    log_hours = settings.log_retention_hours if log_retention_hours is None else log_retention_hours
    if files_hours < settings.min_file_retention_hours or log_hours < 0:
        least = settings.min_file_retention_hours
        raise InputError(f"files are kept for at least {least:g} hours; lower min_file_retention_hours to go below")
    snapshot = _ours(log)
    skew_ms = settings.clock_skew_hours * HOUR_MS
    listing = log.listing(with_manifests=True)
    window = _window(log, listing, snapshot, committer, now_ms - log_hours * HOUR_MS - skew_ms)
    removed = _removal_times(log, listing)
    expired = _expired(log, listing, window, committer, now_ms - settings.state_retention_hours * HOUR_MS - skew_ms)
    oldest_file_ms = now_ms - files_hours * HOUR_MS - skew_ms
    oldest_manifest_ms = now_ms - settings.min_manifest_age_hours * HOUR_MS - skew_ms
    doomed = set(expired)
    manifests = _unreachable(log, listing, doomed, oldest_manifest_ms)
    referenced = _referenced(log, listing, doomed, window)
    orphans, too_young = _orphans(store, referenced, removed, oldest_file_ms, limit)
    if not dry_run:
        _write_tagged(log, committer, window)
        if expired and window.base:
            _bring_hint_to(log, snapshot.version, window.base)
        _delete(log.store, expired)
        survivors = log.listing(with_manifests=True)
        reachable = _unreachable(log, survivors, set(), oldest_manifest_ms)
        still = _referenced(log, survivors, set(), window)
        _delete(log.store, [key for key in manifests if key in set(reachable)])
        orphans = [info for info in orphans if info.key not in still]
        _delete(store, [info.key for info in orphans])
        sweep = getattr(store, "sweep", None)
        if sweep is not None:
            sweep(older_than_seconds=files_hours * 3600 + skew_ms / 1000)
    return Purge(
        dry_run,
        window.first,
        tuple(expired),
        tuple(manifests),
        tuple(info.key for info in orphans),
        sum(info.size_bytes for info in orphans),
        too_young,
    )


def truncate(log: Log, committer: Committer, *, dry_run: bool) -> Truncation:
    """Forget every version but the newest and the tagged ones; files of the table stay."""
    snapshot = _ours(log)
    listing = log.listing()
    tagged = frozenset(_tagged(snapshot, readable_versions(log, listing)))
    window = _Window(snapshot.version, snapshot.version, tagged)
    if not dry_run:
        _stand_alone(log, committer, snapshot.version)
        _write_tagged(log, committer, window)
        if snapshot.version:
            _bring_hint_to(log, snapshot.version, snapshot.version)
    doomed = _older(listing, snapshot.version, tagged)
    if not dry_run:
        _delete(log.store, doomed)
    return Truncation(dry_run, snapshot.version, tuple(doomed), tuple(sorted(tagged)))


@dataclass(frozen=True, slots=True)
class _Window:
    first: int
    """The oldest version that stays, tagged ones aside."""
    base: int | None
    """The state, checkpoint or first version that it stands on; None if there is none: nothing of the log may go."""
    tagged: frozenset[int]


def _ours(log: Log) -> Snapshot:
    snapshot = log.snapshot()
    if not is_ours(snapshot.metadata):
        reason = f"{log.url} belongs to another family of writers"
        raise InputError(f"{reason}, whose files only they may delete: run `deltaic table adopt`", "NotAdopted")
    return snapshot


def _tagged(snapshot: Snapshot, readable: Iterable[int]) -> set[int]:
    return set(snapshot.tags.values()) & set(readable)


def _window(log: Log, listing: LogListing, snapshot: Snapshot, committer: Committer, oldest_ms: float) -> _Window:
    times = commit_times(log, listing)
    readable = readable_versions(log, listing)
    kept = max(committer.settings.retained_states, 2)
    first = snapshot.version
    for version in reversed(readable):
        # A version was the newest until the next one came.
        until = times.get(version + 1)
        if version in readable[-kept:] or until is None or until >= oldest_ms:
            first = version
        else:
            break
    tagged = frozenset(version for version in _tagged(snapshot, readable) if version < first)
    bases = [version for version in (*listing.states, *listing.checkpoints) if 0 < version <= first]
    replayed = 0 if 0 in listing.versions else None
    return _Window(first, max(bases, default=replayed), tagged)


def _expired(log: Log, listing: LogListing, window: _Window, committer: Committer, oldest_state_ms: float) -> list[str]:
    if window.base is None or not _stands_alone(log, listing, window.base):
        return []
    return _older(listing, window.base, window.tagged) + _thinned(listing, window, committer, oldest_state_ms)


def _stands_alone(log: Log, listing: LogListing, version: int) -> bool:
    if version in listing.states and version > 0:
        state = log.state(version)
        return state is not None and state.own and state.metadata is not None
    return True


def _older(listing: LogListing, version: int, tagged: frozenset[int]) -> list[str]:
    """The files of versions below one, tagged ones aside: states first, version files last, the oldest first."""
    found: list[str] = []
    for kind in (listing.states, listing.checkpoints):
        found += [info.key for number, info in sorted(kind.items()) if number < version and number not in tagged]
    for info in listing.others:
        number = number_of(info.key)
        if number is not None and number < version and number not in tagged:
            found.append(info.key)
    found += [info.key for number, info in sorted(listing.versions.items()) if number < version]
    return found


def _thinned(listing: LogListing, window: _Window, committer: Committer, oldest_ms: float) -> list[str]:
    """States inside of the window that version files make up for: old ones, all but the newest few."""
    assert window.base is not None
    kept = set(sorted(listing.states)[-committer.settings.retained_states :]) | {window.base} | window.tagged
    latest = max(listing.states, default=0)
    if any(version not in listing.versions for version in range(window.base + 1, latest + 1)):
        return []
    return [
        info.key
        for number, info in sorted(listing.states.items())
        if number > window.base and number not in kept and milliseconds(info.modified) < oldest_ms
    ]


def _removal_times(log: Log, listing: LogListing) -> "_Removals":
    times = commit_times(log, listing)
    found: dict[str, int] = {}
    for version in sorted(listing.versions):
        version_file = log.read_version(version)
        for remove in version_file.removes if version_file is not None else ():
            found[remove.path] = max(times[version], remove.deletion_ms or 0)
    return _Removals(found, min(times.values(), default=0))


@dataclass(frozen=True, slots=True)
class _Removals:
    known: dict[str, int]
    otherwise: int
    """The time of the oldest version: what it does not have went before, or was never committed."""

    def at(self, path: str) -> int:
        return self.known.get(path, self.otherwise)


def _unreachable(log: Log, listing: LogListing, doomed: set[str], oldest_ms: float) -> list[str]:
    """Manifests that no surviving state refers to, whatever its number, and that are no longer new."""
    reachable: set[str] = set()
    for state in _surviving(log, listing, doomed):
        reachable.update(state.manifest_keys())
    return [
        key
        for key, info in sorted(listing.manifests.items())
        if key not in reachable and milliseconds(info.modified) < oldest_ms
    ]


def _surviving(log: Log, listing: LogListing, doomed: set[str]) -> list[State]:
    found = []
    for number, info in sorted(listing.states.items()):
        if info.key not in doomed:
            state = log.state(number)
            if state is not None:
                found.append(state)
    return found


def _referenced(log: Log, listing: LogListing, doomed: set[str], window: _Window) -> set[str]:
    """Every path that a surviving version has: by its state, by a checkpoint, or by a version file after them."""
    dead: dict[str, frozenset[str]] = {}
    for state in _surviving(log, listing, doomed):
        tombstones = frozenset(state.tombstones)
        for key in state.manifest_keys():
            # Dead is what every state that refers to the manifest calls dead.
            dead[key] = dead[key] & tombstones if key in dead else tombstones
    found: set[str] = set()
    for key, tombstones in dead.items():
        paths = read_manifest(log.store, key, log.cache).paths.texts()
        found.update(path for path in paths if path is not None and path not in tombstones)
    for number, info in listing.checkpoints.items():
        if info.key not in doomed:
            found.update(log.snapshot(number).paths())
    base = window.base or 0
    for number, info in listing.versions.items():
        if info.key not in doomed and number >= base:
            version_file = log.read_version(number)
            if version_file is not None and number > base:
                found.update(add.path for add in version_file.adds)
    return found


def _orphans(
    store: Store, referenced: set[str], removed: _Removals, oldest_ms: float, limit: int
) -> tuple[list[ObjectInfo], int]:
    found: list[ObjectInfo] = []
    too_young = 0
    for info in store.list():
        if info.key.startswith(f"{FOLDER}/"):
            continue
        if not info.key.endswith((".split", ".split.crc")) and not info.key.startswith(f"{SCRATCH}/"):
            continue
        path = _data_path(info.key)
        if path in referenced or info.key in referenced:
            continue
        # What lies in the scratch folder no version ever had.
        gone_ms = 0 if info.key.startswith(f"{SCRATCH}/") else removed.at(path)
        if max(milliseconds(info.modified), gone_ms) >= oldest_ms:
            too_young += 1
        elif len(found) < limit:
            found.append(info)
    return sorted(found, key=lambda info: info.key), too_young


def _data_path(key: str) -> str:
    """The file that a side file `.name.crc` belongs to, or the file itself."""
    folder, slash, name = key.rpartition("/")
    if name.startswith(".") and name.endswith(".crc"):
        return f"{folder}{slash}{name[1:-4]}"
    return key


def _write_tagged(log: Log, committer: Committer, window: _Window) -> None:
    """Tagged versions stand on their own before anything goes."""
    checkpoints = log.listing().checkpoints if window.tagged else {}
    for version in sorted(window.tagged):
        tagged, state = log.snapshot(version), log.state(version)
        if writes_json(tagged, committer.settings):
            if version not in checkpoints:
                committer.write_json_checkpoint(tagged)
        elif state is None or not state.own:
            committer.write_state(tagged, force_full=True)


def _bring_hint_to(log: Log, newest: int, base: int) -> None:
    """Readers and writers that hold an older version learn from the hint that the files after it are gone."""
    for version in (newest, base):
        state = log.state(version)
        if state is not None and state.own:
            write_hint(
                log.store,
                Hint(version, state.num_files, state.total_bytes, state.created_ms, AVRO_FORMAT, state.folder),
            )
            break
    else:
        checkpoint = log.snapshot(base)
        counts = (checkpoint.num_files, checkpoint.total_bytes, checkpoint.created_ms)
        write_hint(log.store, Hint(base, *counts, JSON_FORMAT))
    hint = log.hint()
    if hint is None or hint.version < base:
        raise StorageError(f"{log.url}: _last_checkpoint cannot be brought to version {base}; nothing was deleted")


def _stand_alone(log: Log, committer: Committer, version: int) -> None:
    """Write the version as a whole, in the form that readers of its protocol know."""
    snapshot = log.snapshot(version)
    if writes_json(snapshot, committer.settings):
        committer.write_json_checkpoint(snapshot)
    else:
        committer.replace_state(snapshot)


def _delete(store: Store, keys: Iterable[str]) -> None:
    for key in keys:
        store.delete(key)
