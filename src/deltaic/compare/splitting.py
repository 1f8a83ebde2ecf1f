"""A state in several, by the keys of its root records: each part has its roots and all that they refer to."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.content import ContentDigests
from deltaic.compare.copying import Copier
from deltaic.compare.digest import FIXED
from deltaic.compare.keys import declared_key, key_columns, key_digests
from deltaic.compare.links import root_types
from deltaic.compare.traverse import add_children
from deltaic.errors import InputError, NotFoundError
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState


def part_of(state: ReadState, type_name: str, count: int, paths: Sequence[str] | None = None) -> NDArray[np.int64]:
    """For each populated record of a type, rising by ordinal, the part that it goes to.

    The part depends on the key alone: it is the same in every version, process and release. Without a key the content
    decides.
    """
    ordinals = state[type_name].populated.ordinals()
    chosen = paths or declared_key(state, type_name)
    if chosen is None:
        digests = ContentDigests(state, FIXED).of(type_name, ordinals)
    else:
        digests = key_digests(key_columns(state, type_name, ordinals, chosen), FIXED)
    parts: NDArray[np.int64] = (digests[0] % np.uint64(count)).astype(np.int64)
    return parts


def split_matches(
    state: ReadState, count: int, roots: str | Iterable[str] | None = None
) -> tuple[dict[str, OrdinalSet], ...]:
    """The records of each part: root records by key, and all that they refer to.

    Args:
        state: what is split.
        count: into how many parts.
        roots: the types whose records are spread; by default those that no other type refers to. Records that none of
            them leads to are in no part.
    """
    if count < 1:
        raise InputError(f"a state is split into at least one part, not {count}")
    names = _roots(state, roots)
    chosen: list[dict[str, OrdinalSet]] = [{} for _ in range(count)]
    for name in names:
        ordinals, parts = state[name].populated.ordinals(), part_of(state, name, count)
        for number, part in enumerate(chosen):
            part[name] = OrdinalSet.from_ordinals(ordinals[parts == number])
    return tuple(add_children(state, part) for part in chosen)


def split(state: ReadState, count: int, roots: str | Iterable[str] | None = None) -> tuple[WriteState, ...]:
    """A state in parts, each ready to be written; see `split_matches`."""
    made = []
    for matches in split_matches(state, count, roots):
        target = WriteState(state.schemas)
        Copier(state, target).copy(matches)
        made.append(target)
    return tuple(made)


def _roots(state: ReadState, roots: str | Iterable[str] | None) -> tuple[str, ...]:
    if roots is None:
        referenced = {name for data in state.types.values() for name in data.schema.references()}
        found = tuple(name for name in state.types if name not in referenced)
        return found or root_types(data.schema for data in state.types.values())
    names = (roots,) if isinstance(roots, str) else tuple(roots)
    for name in names:
        if name not in state:
            raise NotFoundError(f"there is no type {name!r} to split by; types: {', '.join(state.types)}")
    return names
