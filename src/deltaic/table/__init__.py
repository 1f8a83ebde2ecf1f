"""The index table: a transaction log, commits, checkpoints, statistics, maintenance."""

from deltaic.table.actions import AddFile, Metadata, Protocol, RemoveFile, SkipFile
from deltaic.table.commit import Commit
from deltaic.table.conflict import EVERYTHING, Changes, Isolation
from deltaic.table.history import Entry, FileChanges
from deltaic.table.predicate import Predicate, column, parse_predicate
from deltaic.table.prune import Explain, Plan
from deltaic.table.retention import Purge, Truncation
from deltaic.table.settings import Settings
from deltaic.table.snapshot import Snapshot
from deltaic.table.table import Table
from deltaic.table.verify import Finding, Verification

__all__ = [
    "EVERYTHING",
    "AddFile",
    "Changes",
    "Commit",
    "Entry",
    "Explain",
    "FileChanges",
    "Finding",
    "Isolation",
    "Metadata",
    "Plan",
    "Predicate",
    "Protocol",
    "Purge",
    "RemoveFile",
    "Settings",
    "SkipFile",
    "Snapshot",
    "Table",
    "Truncation",
    "Verification",
    "column",
    "parse_predicate",
]
