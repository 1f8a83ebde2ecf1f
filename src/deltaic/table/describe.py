"""A table, its state and its log in plain values, for commands and pages."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltaic.table.actions import action_members
from deltaic.table.log import Log
from deltaic.table.protocol import is_ours
from deltaic.table.snapshot import Snapshot

if TYPE_CHECKING:
    from deltaic.table.table import Table


def describe_table(table: "Table", snapshot: Snapshot) -> dict[str, Any]:
    """What a table is, at one version."""
    metadata = snapshot.metadata
    return {
        "url": table.url,
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "version": snapshot.version,
        "protocol": f"{snapshot.protocol.min_reader_version}/{snapshot.protocol.min_writer_version}",
        "written_by": "deltaic" if is_ours(metadata) else "others",
        "columns": [f"{column.name} {column.type}" for column in snapshot.columns],
        "partition_columns": list(metadata.partition_columns),
        "files": snapshot.num_files,
        "records": snapshot.num_records,
        "bytes": snapshot.total_bytes,
        "tags": [f"{name}={version}" for name, version in sorted(snapshot.tags.items())],
        "configuration": [f"{key}={_short(text)}" for key, text in sorted(metadata.configuration.items())],
    }


def describe_state(table: "Table") -> dict[str, Any]:
    """How the newest version is stored, and whether a checkpoint would make it better."""
    snapshot, settings = table.snapshot(), table.settings
    state = snapshot.state
    if state is None:
        kind = "json" if snapshot.base else "none"
        return {
            "format": kind,
            "version": snapshot.version,
            "files": snapshot.num_files,
            "replayed": len(snapshot.tail),
        }
    ratio = len(state.tombstones) / max(state.num_files, 1)
    return {
        "format": f"{state.form} state",
        "version": state.version,
        "written_by": "deltaic" if state.own else "others",
        "replayed_versions": snapshot.version - state.version,
        "files": state.num_files,
        "bytes": state.total_bytes,
        "manifests": len(state.manifests),
        "tombstones": len(state.tombstones),
        "tombstone_ratio": round(ratio, 4),
        "schemas": len(state.schemas),
        "needs_compaction": ratio > settings.tombstone_threshold or len(state.manifests) > settings.max_manifests,
    }


def describe_log(log: Log) -> Iterator[dict[str, Any]]:
    """Every action of the log that is still there, one after the other."""
    for version in sorted(log.listing().versions):
        version_file = log.read_version(version)
        for action in version_file.actions if version_file is not None else ():
            kind, members = next(iter(action_members(action).items()))
            yield {"version": version, "action": kind, **members}


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
