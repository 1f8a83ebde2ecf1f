"""Splits: an index and the rows it was made from in one file, and the cache that unpacks them on a host."""

from deltaic.table.split.cache import CachedSplit, CacheUsage, SplitCache
from deltaic.table.split.deletes import with_deletes
from deltaic.table.split.documents import index_value
from deltaic.table.split.engine import open_index
from deltaic.table.split.mapping import ColumnIndex, DocMapping, IndexedColumn, exact_term
from deltaic.table.split.open import SplitFile, open_split
from deltaic.table.split.write import SplitOptions, WrittenSplit, write_split, write_splits

__all__ = [
    "CacheUsage",
    "CachedSplit",
    "ColumnIndex",
    "DocMapping",
    "IndexedColumn",
    "SplitCache",
    "SplitFile",
    "SplitOptions",
    "WrittenSplit",
    "exact_term",
    "index_value",
    "open_index",
    "open_split",
    "with_deletes",
    "write_split",
    "write_splits",
]
