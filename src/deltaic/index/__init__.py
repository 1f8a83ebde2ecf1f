"""Look-ups in a read state: by key, by value, by prefix, by range."""

from deltaic.index.following import Counts, Definition
from deltaic.index.hashed import HashIndex
from deltaic.index.prefix import PrefixIndex
from deltaic.index.primary import Duplicates, PrimaryKeyIndex, UniqueKeyIndex
from deltaic.index.ranges import RangeIndex

__all__ = [
    "Counts",
    "Definition",
    "Duplicates",
    "HashIndex",
    "PrefixIndex",
    "PrimaryKeyIndex",
    "RangeIndex",
    "UniqueKeyIndex",
]
