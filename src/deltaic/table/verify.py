"""Whether a table is what its log says: dense, readable, true, with all its files there."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from deltaic.errors import DecodeError, DeltaicError, InputError
from deltaic.storage import Store
from deltaic.table.actions import AddFile
from deltaic.table.listing import LogListing
from deltaic.table.log import FOLDER, Log
from deltaic.table.manifest import read_manifest
from deltaic.table.partitions import bounds_of, ordering
from deltaic.table.protocol import is_ours
from deltaic.table.settings import Settings
from deltaic.table.snapshot import Snapshot, is_absolute
from deltaic.table.statistics import bounds_hold
from deltaic.table.values import parse

_MOST_STATES = 100
"""So many states, the newest, are compared with the version files before them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True)
class Verification:
    """What a check of a table found."""

    version: int
    versions: int
    states: int
    files: int
    size_bytes: int
    findings: tuple[Finding, ...] = field(default=())
    remarks: tuple[str, ...] = field(default=())
    """What is not wrong but worth knowing."""

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "version": self.version,
            "versions": self.versions,
            "states": self.states,
            "files": self.files,
            "size_bytes": self.size_bytes,
            "findings": [{"code": one.code, "message": one.message} for one in self.findings],
            "remarks": list(self.remarks),
        }


Bounds = Callable[[AddFile], Mapping[str, tuple[Any, Any]]]
"""Reads a file and gives, by column, its smallest and largest value as Python values, nulls and NaN aside.

A column without any value is left out, or is (None, None). Columns that the file has no statistics of may be given or
left out. A file that cannot be read raises an error of deltaic, which becomes the finding `UnreadableFile`; a min above
the smallest value or a max below the largest becomes `WrongStatistics`.
"""


def verify_table(
    store: Store, log: Log, settings: Settings, *, files: bool = True, bounds: Bounds | None = None
) -> Verification:
    """Check a table.

    Args:
        store: where its files are.
        log: its log.
        settings: of the table.
        files: look also whether every live file is there and has its size.
        bounds: reads the smallest and largest values of a file's columns, to check statistics against rows.
    """
    check = _Check(store, log)
    listing = log.listing(with_manifests=True)
    check.density(listing)
    try:
        snapshot = log.snapshot()
    except DeltaicError as error:
        check.add("Unreadable", str(error))
        return check.result(listing, None, 0, 0)
    check.hint(snapshot)
    check.states(listing, snapshot)
    try:
        live = list(snapshot.files())
    except DeltaicError as error:
        check.add("Unreadable", str(error))
        return check.result(listing, snapshot, 0, 0)
    check.manifests(snapshot)
    check.entries(snapshot, live)
    if files:
        check.files(live)
    if bounds is not None:
        check.statistics(snapshot, live, bounds)
    return check.result(listing, snapshot, len(live), sum(add.size_bytes for add in live))


class _Check:
    def __init__(self, store: Store, log: Log) -> None:
        self._store, self._log = store, log
        self._findings: list[Finding] = []
        self._remarks: list[str] = []

    def add(self, code: str, message: str) -> None:
        self._findings.append(Finding(code, message))

    def result(self, listing: LogListing, snapshot: Snapshot | None, files: int, size_bytes: int) -> Verification:
        version = -1 if snapshot is None else snapshot.version
        counts = (len(listing.versions), len(listing.states), files, size_bytes)
        return Verification(version, *counts, tuple(self._findings), tuple(self._remarks))

    def density(self, listing: LogListing) -> None:
        numbers = sorted(listing.versions)
        known = {*numbers, *listing.states, *listing.checkpoints}
        for before, after in pairwise(numbers):
            missing = [version for version in range(before + 1, after) if version not in known]
            if missing and after not in listing.states:
                self.add("Gap", f"version {missing[0]} is missing between {before} and {after}")

    def hint(self, snapshot: Snapshot) -> None:
        hint = self._log.hint()
        if hint is None:
            if snapshot.state is not None:
                self._remarks.append("_last_checkpoint is missing: readers list the log")
        elif hint.version > snapshot.version:
            self.add("HintAhead", f"_last_checkpoint names version {hint.version}, the newest is {snapshot.version}")
        elif hint.version < snapshot.version:
            self._remarks.append(f"_last_checkpoint is at {hint.version}, the newest version is {snapshot.version}")

    def states(self, listing: LogListing, snapshot: Snapshot) -> None:
        ours = is_ours(snapshot.metadata)
        avro = snapshot.protocol.min_reader_version >= 4
        if ours and avro and snapshot.version and snapshot.version not in listing.states and listing.states:
            self._remarks.append(f"version {snapshot.version} has no state yet; the next commit makes up for it")
        for number in sorted(listing.states)[-_MOST_STATES:]:
            try:
                self._state(listing, number, ours)
            except DeltaicError as error:
                self.add("BadState", f"the state of version {number}: {error}")

    def _state(self, listing: LogListing, number: int, ours: bool) -> None:
        state = self._log.state(number)
        if state is None or number == 0:
            return
        if not state.own and not self._log.is_ours_at(listing, state):
            ours = False  # from before the table was adopted
        if ours and not state.own:
            under = "under a version file of ours" if number in listing.versions else "without a version file"
            self.add("ForeignState", f"the state of version {number} is another writer's, {under}")
            return
        for key, info in zip(state.manifest_keys(), state.manifests, strict=True):
            if "/" in info.path and key.startswith("manifests/") and key not in listing.manifests:
                self.add("MissingManifest", f"{key} of the state of version {number} is gone")
                return
        if not ours:
            return
        mine = self._log.snapshot(number)
        if mine.num_files != state.num_files:
            self.add(
                "WrongCount", f"the state of version {number} counts {state.num_files} files, has {mine.num_files}"
            )
        before = listing.states.get(number - 1) if number > 1 else listing.versions.get(0)
        version_file = self._log.read_version(number) if number in listing.versions else None
        if before is not None and version_file is not None:
            replayed = self._log.snapshot(number - 1).advance(version_file)
            if set(replayed.paths()) != set(mine.paths()):
                self.add("WrongState", f"the state of version {number} has other files than its version file says")

    def manifests(self, snapshot: Snapshot) -> None:
        """What the newest state says of its manifests: counts, and bounds by which readers pass them over."""
        state = snapshot.state
        if state is None or not state.own:
            return
        for info, key in zip(state.manifests, state.manifest_keys(), strict=True):
            columns = read_manifest(self._log.store, key, self._log.cache)
            dead = len(columns.find(state.tombstones))
            counts = (info.tombstone_count, info.live_entry_count)
            counted = info.live_entry_count < 0 or counts == (dead, len(columns) - dead)
            if info.num_entries != len(columns) or not counted:
                said = f"{info.num_entries} and {info.tombstone_count}"
                self.add("WrongManifest", f"{key} has {len(columns)} files, {dead} of them dead; its state says {said}")
            for name, given in (info.partition_bounds or {}).items():
                kind = snapshot.types.get(name)
                low, high = bounds_of(columns.value_of("partitionValues", name).texts(), kind)
                texts = [text for text in (low, high, given.min, given.max) if text is not None]
                key_of = ordering(texts, kind)
                holds = low is None or (
                    given.min is not None
                    and given.max is not None
                    and key_of(given.min) <= key_of(low)
                    and key_of(high) <= key_of(given.max)
                )
                if not holds:
                    self.add("WrongBounds", f"{key} has values of {name} outside of what its state says")

    def entries(self, snapshot: Snapshot, live: list[AddFile]) -> None:
        if len({add.path for add in live}) != len(live):
            twice = next(path for path, count in Counter(add.path for add in live).items() if count > 1)
            self.add("TwoEntries", f"{twice} is in the table more than once")
        for add in live:
            if add.footer_end is not None and add.has_footer_offsets and add.footer_end != add.size_bytes:
                self.add("WrongFooter", f"{add.path}: the footer ends at {add.footer_end} of {add.size_bytes} bytes")
            missing = set(snapshot.metadata.partition_columns) - set(add.partition_values)
            if missing:
                self.add("NoPartitionValue", f"{add.path} has no value of {sorted(missing)[0]}")
            try:
                snapshot.document_mapping(add)
            except DecodeError as error:
                self.add(error.code, error.reason)
            for name in set(add.min_values or {}) & set(add.max_values or {}):
                low, high = (add.min_values or {})[name], (add.max_values or {})[name]
                kind = snapshot.types.get(name)
                bottom, top = parse(low, kind), parse(high, kind)
                if bottom is not None and top is not None and bottom > top:
                    self.add("WrongStatistics", f"{add.path}: the min of {name} is above its max")

    def files(self, live: list[AddFile]) -> None:
        sizes = {info.key: info.size_bytes for info in self._store.list() if not info.key.startswith(f"{FOLDER}/")}
        for add in live:
            if is_absolute(add.path):
                continue
            size = sizes.get(add.path)
            if size is None:
                self.add("MissingFile", f"{add.path} is not there")
            elif size != add.size_bytes:
                self.add("WrongSize", f"{add.path} has {size} bytes, its add action says {add.size_bytes}")

    def statistics(self, snapshot: Snapshot, live: list[AddFile], bounds: Bounds) -> None:
        for add in live:
            try:
                found = bounds(add)
            except (DeltaicError, InputError) as error:
                self.add("UnreadableFile", f"{add.path}: {error}")
                continue
            for name, (smallest, largest) in found.items():
                low, high = (add.min_values or {}).get(name), (add.max_values or {}).get(name)
                if not bounds_hold(low, high, smallest, largest, snapshot.types.get(name)):
                    self.add("WrongStatistics", f"{add.path}: the min and max of {name} are not true of its rows")
