"""Look-ups in a read state: by key, by value, by prefix, by range, and the tables that choose among them."""

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
