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
    """What the tail removed or replaced of one manifest of the base."""

    columns: FileColumns
    rows: Rows


def build_state(
    snapshot: Snapshot,
    settings: Settings,
    *,
    created_ms: int,
    force_full: bool = False,
    after_merge: bool = False,
    new_paths: frozenset[str] = frozenset(),
) -> NewState:
    """The state of a snapshot.

    Args:
        snapshot: what it is of.
        settings: when to compact, and how.
        created_ms: its time.
        force_full: every live file anew.
        after_merge: the commit was a merge.
        new_paths: paths of the tail that were made for it, so that no manifest of the base can hold them. Where the
            tail has nothing else, no manifest is read: an append costs the same however many files there are.
    """
    base = snapshot.state
    if force_full or base is None or not base.own or any(part.key is None for part in snapshot.base):
        return _full(snapshot, settings, created_ms)
    tombstones = frozenset(base.tombstones)
    if not tombstones.isdisjoint(snapshot.tail):
        return _full(snapshot, settings, created_ms)
    gone = _gone(snapshot, snapshot.hidden - tombstones - new_paths)
    fresh = _paths(gone)
    if not set(fresh).isdisjoint(snapshot.tail):
        return _full(snapshot, settings, created_ms)
    dead = len(tombstones) + len(fresh)
    many = base.num_files <= 0 or dead / base.num_files > settings.tombstone_threshold
    compacts = many or (after_merge and settings.compact_after_merge)
    if (dead and compacts) or len(fresh) > settings.large_remove_threshold:
        return _full(snapshot, settings, created_ms)
    infos = [_counted(info, one) for info, one in zip(base.carried(), gone, strict=True)]
    totals, hidden = _totals(base, gone, snapshot), [*base.tombstones, *fresh]
    small = [info.num_entries * 2 < settings.entries_per_manifest for info in infos]
    if len(infos) > settings.max_manifests and sum(small) > 1:
        kept = [info for info, is_small in zip(infos, small, strict=True) if not is_small]
        made, hidden = _joined(snapshot, small, hidden, settings)
        return _state(snapshot, totals, created_ms, kept, made, hidden, "partial")
    made = _manifests_of(snapshot.tail, snapshot, settings)
    return _state(snapshot, totals, created_ms, infos, made, hidden, "incremental")


def _gone(snapshot: Snapshot, recent: frozenset[str]) -> list[_Gone | None]:
    """For each manifest of the base what went since, by the paths that it may be; None where nothing did."""
    if not recent:
        return [None] * len(snapshot.base)
    read = snapshot._read([part.key for part in snapshot.base])
    found = [_Gone(columns, columns.find(recent)) for columns in read]
    return [one if len(one.rows) else None for one in found]


def _totals(base: State, gone: Sequence[_Gone | None], snapshot: Snapshot) -> tuple[int, int]:
    """Files and bytes: those of the base, less what went, and the tail. States of ours count exactly."""
    files = base.num_files - sum(len(one.rows) for one in gone if one is not None) + len(snapshot.tail)
    size = base.total_bytes - sum(int(one.columns.longs("size")[0][one.rows].sum()) for one in gone if one is not None)
    return files, size + sum(add.size_bytes for add in snapshot.tail.values())


def _paths(gone: Sequence[_Gone | None]) -> list[str]:
    texts = (path for one in gone if one is not None for path in one.columns.paths.texts(one.rows))
    return [path for path in texts if path is not None]


def _counted(info: ManifestInfo, gone: _Gone | None) -> ManifestInfo:
    if info.live_entry_count < 0:
        return info  # the form of the protocol text does not count them
    dead = info.tombstone_count + (0 if gone is None else len(gone.rows))
    return replace(info, tombstone_count=dead, live_entry_count=info.num_entries - dead)


def _manifests_of(tail: Mapping[str, AddFile], snapshot: Snapshot, settings: Settings) -> list[NewManifest]:
    adds = list(tail.values())
    names, types = snapshot.metadata.partition_columns, snapshot.types
    size = settings.entries_per_manifest
    return [manifest_of_adds(adds[first : first + size], names, types, settings) for first in range(0, len(adds), size)]


def _joined(
    snapshot: Snapshot, small: Sequence[bool], hidden: Sequence[str], settings: Settings
) -> tuple[list[NewManifest], list[str]]:
    """The small manifests of the base and the tail in one; and the tombstones that the others still need."""
    keys = [part.key for part, is_small in zip(snapshot.base, small, strict=True) if is_small]
    joined, dropped = [], set()
    for columns in snapshot._read(keys):
        dead = columns.find(hidden)
        dropped.update(columns.paths.texts(dead))
        joined.append((columns, np.setdiff1d(np.arange(len(columns), dtype=np.int64), dead)))
    if snapshot.tail_columns is not None:
        joined.append((snapshot.tail_columns, np.arange(len(snapshot.tail_columns), dtype=np.int64)))
    made = manifests_of_rows(joined, snapshot.metadata.partition_columns, snapshot.types, settings)
    return made, [path for path in hidden if path not in dropped]


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
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        own=True,
    )
    log.debug("state of version %d: %s, %d manifests", snapshot.version, kind, len(state.manifests))
    return NewState(state, tuple(made), kind)
