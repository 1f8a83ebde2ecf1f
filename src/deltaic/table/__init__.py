"""The index table: a transaction log, commits, checkpoints, statistics, maintenance.

Names are imported when they are used: a process that only reads does not load what commits and cleans.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltaic.table.actions import AddFile, Metadata, Protocol, RemoveFile, SkipFile
    from deltaic.table.changes import EVERYTHING, Changes, Isolation
    from deltaic.table.commit import Commit
    from deltaic.table.history import Entry, FileChanges
    from deltaic.table.predicate import Predicate, column, parse_predicate
    from deltaic.table.prune import Explain, Plan
    from deltaic.table.retention import Purge, Truncation
    from deltaic.table.settings import Settings
    from deltaic.table.snapshot import Snapshot
    from deltaic.table.table import Table
    from deltaic.table.verify import Finding, Verification

_PLACES = {
    "EVERYTHING": "changes",
    "AddFile": "actions",
    "Changes": "changes",
    "Commit": "commit",
    "Entry": "history",
    "Explain": "prune",
    "FileChanges": "history",
    "Finding": "verify",
    "Isolation": "changes",
    "Metadata": "actions",
    "Plan": "prune",
    "Predicate": "predicate",
    "Protocol": "actions",
    "Purge": "retention",
    "RemoveFile": "actions",
    "Settings": "settings",
    "SkipFile": "actions",
    "Snapshot": "snapshot",
    "Table": "table",
    "Truncation": "retention",
    "Verification": "verify",
    "column": "predicate",
    "parse_predicate": "predicate",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"deltaic.table has no {name!r}")
    found = getattr(importlib.import_module(f"deltaic.table.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


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
