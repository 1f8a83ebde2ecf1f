"""From a snapshot to its state: by reference where that is cheap, rewritten where it pays.

*Incremental*: the manifests of the base as they are, one new manifest for the files of the tail, and tombstones for the
paths of the base that are gone. *Partial*: small manifests are joined into one; those that are kept as they are keep
their tombstones too, because a dropped tombstone brings its file back. *Full*: every live file anew, by partition, no
tombstones, schemas hashed afresh if there are many.

A path that is added again while a manifest of the base still holds it needs a full rewrite: tombstones beat manifests,
and without one there would be two entries.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from deltaic.table.actions import AddFile
from deltaic.table.columns import FileColumns
from deltaic.table.manifest import ManifestInfo, NewManifest, manifest_of_adds, manifests_of_rows
from deltaic.table.registry import renormalized
from deltaic.table.settings import Settings
from deltaic.table.snapshot import Rows, Snapshot
from deltaic.table.state import State

log = logging.getLogger("deltaic.table")


@dataclass(frozen=True)
class NewState:
    """A state that is to be written, with the manifests that it needs first."""

    state: State
    manifests: tuple[NewManifest, ...]
    kind: str
    """`incremental`, `partial` or `full`."""


@dataclass(frozen=True)
class _Gone:
    """What of a base's manifest is there no more."""

    columns: FileColumns
    rows: Rows
    fresh: Rows
    """Of these rows, those without a tombstone yet."""


def build_state(
    snapshot: Snapshot, settings: Settings, *, created_ms: int, force_full: bool = False, after_merge: bool = False
) -> NewState:
    """The state of a snapshot."""
    base = snapshot.state
    if force_full or base is None or not base.own or any(part.key is None for part in snapshot.base):
        return _full(snapshot, settings, created_ms)
    tombstones = frozenset(base.tombstones)
    if not tombstones.isdisjoint(snapshot.tail):
        return _full(snapshot, settings, created_ms)
    gone = _gone(snapshot, tombstones)
    fresh = sum(len(one.fresh) for one in gone)
    if fresh and not set(_paths(gone)).isdisjoint(snapshot.tail):
        return _full(snapshot, settings, created_ms)
    dead = len(tombstones) + fresh
    many = base.num_files <= 0 or dead / base.num_files > settings.tombstone_threshold
    if (dead and (many or (after_merge and settings.compact_after_merge))) or fresh > settings.large_remove_threshold:
        return _full(snapshot, settings, created_ms)
    small = [info.num_entries * 2 < settings.entries_per_manifest for info in base.manifests]
    if len(base.manifests) > settings.max_manifests and sum(small) > 1:
        return _partial(snapshot, gone, small, settings, created_ms)
    infos = [_counted(info, one) for info, one in zip(base.carried(), gone, strict=True)]
    made = _manifests_of(snapshot.tail, snapshot, settings)
    totals = _totals(base, gone, snapshot)
    return _state(snapshot, totals, created_ms, infos, made, [*base.tombstones, *_paths(gone)], "incremental")


def _gone(snapshot: Snapshot, tombstones: frozenset[str]) -> list[_Gone]:
    """For each manifest of the base the rows that are not live any more."""
    recent = snapshot.hidden - tombstones
    found = []
    for columns in snapshot._read([part.key for part in snapshot.base]):
        fresh = columns.find(recent)
        rows = np.union1d(fresh, columns.find(tombstones)) if tombstones else fresh
        found.append(_Gone(columns, rows, fresh))
    return found


def _totals(base: State, gone: Sequence[_Gone], snapshot: Snapshot) -> tuple[int, int]:
    """Files and bytes: those of the base, less what went, and the tail. States of ours count exactly."""
    files = base.num_files - sum(len(one.fresh) for one in gone) + len(snapshot.tail)
    size = base.total_bytes - sum(int(one.columns.longs("size")[0][one.fresh].sum()) for one in gone)
    return files, size + sum(add.size_bytes for add in snapshot.tail.values())


def _paths(gone: Sequence[_Gone]) -> list[str]:
    return [path for one in gone for path in one.columns.paths.texts(one.fresh) if path is not None]


def _counted(info: ManifestInfo, gone: _Gone) -> ManifestInfo:
    return replace(info, tombstone_count=len(gone.rows), live_entry_count=info.num_entries - len(gone.rows))


def _manifests_of(tail: Mapping[str, AddFile], snapshot: Snapshot, settings: Settings) -> list[NewManifest]:
    adds = list(tail.values())
    names, types = snapshot.metadata.partition_columns, snapshot.types
    size = settings.entries_per_manifest
    return [manifest_of_adds(adds[first : first + size], names, types, settings) for first in range(0, len(adds), size)]


def _partial(
    snapshot: Snapshot, gone: Sequence[_Gone], small: Sequence[bool], settings: Settings, created_ms: int
) -> NewState:
    base = snapshot.state
    assert base is not None
    joined, kept, tombstones = [], [], []
    for info, one, is_small in zip(base.carried(), gone, small, strict=True):
        if is_small:
            joined.append((one.columns, np.setdiff1d(np.arange(len(one.columns), dtype=np.int64), one.rows)))
        else:
            kept.append(_counted(info, one))
            tombstones += [path for path in one.columns.paths.texts(one.rows) if path is not None]
    if snapshot.tail_columns is not None:
        joined.append((snapshot.tail_columns, np.arange(len(snapshot.tail_columns), dtype=np.int64)))
    made = manifests_of_rows(joined, snapshot.metadata.partition_columns, snapshot.types, settings)
    return _state(snapshot, _totals(base, gone, snapshot), created_ms, kept, made, tombstones, "partial")


def _full(snapshot: Snapshot, settings: Settings, created_ms: int) -> NewState:
    live = snapshot.live()
    names, types = snapshot.metadata.partition_columns, snapshot.types
    registry = dict(snapshot.registry)
    hashes = _new_references(live, registry, settings)
    if hashes:
        adds = [
            replace(add, doc_mapping_ref=hashes.get(add.doc_mapping_ref or "", add.doc_mapping_ref))
            for columns, rows in live
            for add in columns.entries(rows)
        ]
        columns = FileColumns.of_adds(adds, "a checkpoint")
        live = [(columns, np.arange(len(columns), dtype=np.int64))]
        # Old names stay in the registry as long as version files may refer to them; equal schemas are one text.
        registry |= {new: registry[old] for old, new in hashes.items()}
        registry = {key: text for key, text in registry.items() if key not in hashes or hashes[key] == key}
    made = manifests_of_rows(live, names, types, settings)
    totals = (
        sum(len(rows) for _, rows in live),
        sum(int(columns.longs("size")[0][rows].sum()) for columns, rows in live),
    )
    return _state(snapshot, totals, created_ms, [], made, [], "full", registry)


def _new_references(
    live: Sequence[tuple[FileColumns, Rows]], registry: Mapping[str, str], settings: Settings
) -> dict[str, str]:
    """The references that change, if more different ones are in use than the settings let pass."""
    used: set[bytes | None] = set()
    for columns, _ in live:
        column = columns.text("docMappingRef")
        if column is not None:
            used |= set(column.distinct()[0])
    if len(used - {None}) <= settings.renormalize_threshold:
        return {}
    return {old: new for old, new in renormalized(registry).items() if old != new}


def _state(
    snapshot: Snapshot,
    totals: tuple[int, int],
    created_ms: int,
    kept: Sequence[ManifestInfo],
    made: Sequence[NewManifest],
    tombstones: Sequence[str],
    kind: str,
    registry: Mapping[str, str] | None = None,
) -> NewState:
    state = State(
        version=snapshot.version,
        created_ms=created_ms,
        num_files=totals[0],
        total_bytes=totals[1],
        manifests=(*kept, *(one.info for one in made)),
        tombstones=tuple(tombstones),
        schemas=dict(snapshot.registry if registry is None else registry),
        protocol_version=max(snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version),
        metadata=snapshot.metadata,
        own=True,
    )
    log.debug("state of version %d: %s, %d manifests", snapshot.version, kind, len(state.manifests))
    return NewState(state, tuple(made), kind)
