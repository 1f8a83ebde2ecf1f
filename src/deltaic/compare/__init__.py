"""Tools on states: diff, history, export, split and combine, traversal, search, statistics, footprint.

Those that write are loaded when they are first used: a reader needs none of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from deltaic.compare.changes import MISSING, Difference
from deltaic.compare.content import ContentDigests
from deltaic.compare.diff import Counts, FieldDiff, RecordChange, StateDiff, TypeDiff, diff
from deltaic.compare.export import csv_lines, json_lines, record_json, record_text, write_parquet
from deltaic.compare.find import Found, find
from deltaic.compare.footprint import FieldFootprint, TypeFootprint, footprint
from deltaic.compare.history import History, HistoryEntry, VersionChanges, history, version_changes
from deltaic.compare.keys import find_by_key, key_values
from deltaic.compare.links import edges_of, references, root_types
from deltaic.compare.state_digest import state_digest
from deltaic.compare.statistics import FieldStatistics, type_statistics
from deltaic.compare.traverse import add_children, add_parents, orphans, parents, without_referenced_outside

if TYPE_CHECKING:
    from deltaic.compare.combining import combine, filtered_copy
    from deltaic.compare.copied_vectors import snapshot_part, vectors_of
    from deltaic.compare.copying import copy_records
    from deltaic.compare.splitting import split, split_matches

_LATER = {
    "combine": "combining",
    "copy_records": "copying",
    "filtered_copy": "combining",
    "snapshot_part": "copied_vectors",
    "split": "splitting",
    "split_matches": "splitting",
    "vectors_of": "copied_vectors",
}

__all__ = [
    "MISSING",
    "ContentDigests",
    "Counts",
    "Difference",
    "FieldDiff",
    "FieldFootprint",
    "FieldStatistics",
    "Found",
    "History",
    "HistoryEntry",
    "RecordChange",
    "StateDiff",
    "TypeDiff",
    "TypeFootprint",
    "VersionChanges",
    "add_children",
    "add_parents",
    "combine",
    "copy_records",
    "csv_lines",
    "diff",
    "edges_of",
    "filtered_copy",
    "find",
    "find_by_key",
    "footprint",
    "history",
    "json_lines",
    "key_values",
    "orphans",
    "parents",
    "record_json",
    "record_text",
    "references",
    "root_types",
    "snapshot_part",
    "split",
    "split_matches",
    "state_digest",
    "type_statistics",
    "vectors_of",
    "version_changes",
    "without_referenced_outside",
    "write_parquet",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'deltaic.compare' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"deltaic.compare.{_LATER[name]}"), name)
    globals()[name] = value
    return value
