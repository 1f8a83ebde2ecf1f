"""Tools on states: diff, history, export, split and combine, traversal, search, statistics, footprint."""

from deltaic.compare.changes import MISSING, Difference
from deltaic.compare.combine import combine, filtered_copy
from deltaic.compare.content import ContentDigests
from deltaic.compare.copying import copy_records
from deltaic.compare.diff import Counts, FieldDiff, RecordChange, StateDiff, TypeDiff, diff
from deltaic.compare.export import csv_lines, json_lines, record_json, record_text, write_parquet
from deltaic.compare.find import Found, find
from deltaic.compare.footprint import FieldFootprint, TypeFootprint, footprint
from deltaic.compare.history import History, HistoryEntry, VersionChanges, history, version_changes
from deltaic.compare.keys import find_by_key, key_values
from deltaic.compare.links import edges_of, references, root_types
from deltaic.compare.split import split, split_matches
from deltaic.compare.statistics import FieldStatistics, type_statistics
from deltaic.compare.traverse import add_children, add_parents, orphans, parents, without_referenced_outside

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
    "split",
    "split_matches",
    "type_statistics",
    "version_changes",
    "without_referenced_outside",
    "write_parquet",
]
