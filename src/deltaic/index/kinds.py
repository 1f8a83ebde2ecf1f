"""The kinds of indexes by name, for those who have one described and not in hand."""

from collections.abc import Mapping
from typing import Any

from deltaic.errors import InputError
from deltaic.index.following import Arrays, Counts
from deltaic.index.hashed import HashIndex
from deltaic.index.plan import Index
from deltaic.index.prefix import PrefixIndex
from deltaic.index.primary import PrimaryKeyIndex, UniqueKeyIndex
from deltaic.index.ranges import RangeIndex
from deltaic.state.read import ReadState

_CLASSES: tuple[type[Index], ...] = (PrimaryKeyIndex, UniqueKeyIndex, HashIndex, PrefixIndex, RangeIndex)
_KINDS = {cls.KIND: cls for cls in _CLASSES}


def rebuild_index(
    state: ReadState, description: Mapping[str, Any], arrays: Arrays, counts: Counts | None = None
) -> Index:
    """The index that `describe` and `arrays` of one of any kind came from, on the same state."""
    cls = _KINDS.get(description["kind"])
    if cls is None:
        raise InputError(f"there is no kind of index called {description['kind']!r}")
    return cls.rebuild(state, description, arrays, counts)
