"""Look-ups in a read state: by key, by value, by prefix, by range."""

from deltaic.index.hashed import HashIndex
from deltaic.index.primary import Duplicates, PrimaryKeyIndex, UniqueKeyIndex

__all__ = ["Duplicates", "HashIndex", "PrimaryKeyIndex", "UniqueKeyIndex"]
