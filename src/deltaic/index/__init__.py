"""Look-ups in a read state: by key, by value, by prefix, by range, and the tables that choose among them.

The names below are loaded when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltaic.index.catalog import Lookup
    from deltaic.index.conditions import any_of, between, starts_with
    from deltaic.index.following import Counts, Definition
    from deltaic.index.hashed import HashIndex
    from deltaic.index.index_set import IndexSet
    from deltaic.index.plan import Plan
    from deltaic.index.prefix import PrefixIndex
    from deltaic.index.primary import Duplicates, PrimaryKeyIndex, UniqueKeyIndex
    from deltaic.index.ranges import RangeIndex
    from deltaic.index.tables import KeylessTable, Selection, TypeTable
    from deltaic.index.typed_table import TypedTable

_HOMES = {
    "Counts": "following",
    "Definition": "following",
    "Duplicates": "primary",
    "HashIndex": "hashed",
    "IndexSet": "index_set",
    "KeylessTable": "tables",
    "Lookup": "catalog",
    "Plan": "plan",
    "PrefixIndex": "prefix",
    "PrimaryKeyIndex": "primary",
    "RangeIndex": "ranges",
    "Selection": "tables",
    "TypeTable": "tables",
    "TypedTable": "typed_table",
    "UniqueKeyIndex": "primary",
    "any_of": "conditions",
    "between": "conditions",
    "starts_with": "conditions",
}

__all__ = [
    "Counts",
    "Definition",
    "Duplicates",
    "HashIndex",
    "IndexSet",
    "KeylessTable",
    "Lookup",
    "Plan",
    "PrefixIndex",
    "PrimaryKeyIndex",
    "RangeIndex",
    "Selection",
    "TypeTable",
    "TypedTable",
    "UniqueKeyIndex",
    "any_of",
    "between",
    "starts_with",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'deltaic.index' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"deltaic.index.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
