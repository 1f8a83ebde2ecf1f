"""The table as rows: append, overwrite, delete, update, merge, evolve, scan, changes, compaction.

Names are imported when they are used, and pyarrow with them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltaic.table.rows.commits import RowCommit
    from deltaic.table.rows.compact import Compaction
    from deltaic.table.rows.table import Table
    from deltaic.table.rows.types import vector_field
    from deltaic.table.rows.upserting import Delete, Insert, Update
    from deltaic.table.rows.view import ScanExplain, TableView
    from deltaic.table.rows.writing import Progress, WriteOptions

_PLACES = {
    "Compaction": "compact",
    "Delete": "upserting",
    "Insert": "upserting",
    "Progress": "writing",
    "RowCommit": "commits",
    "ScanExplain": "view",
    "Table": "table",
    "TableView": "view",
    "Update": "upserting",
    "WriteOptions": "writing",
    "vector_field": "types",
}

__all__ = [
    "Compaction",
    "Delete",
    "Insert",
    "Progress",
    "RowCommit",
    "ScanExplain",
    "Table",
    "TableView",
    "Update",
    "WriteOptions",
    "vector_field",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"deltaic.table.rows has no {name!r}")
    found = getattr(importlib.import_module(f"deltaic.table.rows.{_PLACES[name]}"), name)
    globals()[name] = found
    return found
