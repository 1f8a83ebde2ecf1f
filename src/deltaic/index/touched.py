"""What a delta touched, and whether an index may trust it.

A record never changes while its ordinal stays populated, and it refers only to records that stay with it; so an index
needs to look at the root records that came and went, and at nothing else. One thing breaks this: a producer that drops
a field or a type from its model. Readers keep the old references, and what they lead to may be gone or be another
record by now. `points_elsewhere` finds that out, and the index is then built anew. So it is, once, where a delta
appends values to records that a path leads to and leaves those as they are that lead there.
"""

from collections.abc import Iterable, Mapping, Sequence

from deltaic.index.traversal import Edge
from deltaic.kernels import keys
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.records import records_of

Step = Mapping[str, tuple[OrdinalSet, OrdinalSet]]
"""What one delta touched: by type, the ordinals populated before and after it."""


def touched_between(
    before: ReadState, after: ReadState, names: Iterable[str], steps: Sequence[Step] | None = None
) -> dict[str, OrdinalSet] | None:
    """The ordinals of each type that were removed or added on the way; None if that cannot be told.

    Args:
        before: the state of an index.
        after: a later state.
        names: the types that matter.
        steps: what each delta on the way touched; None if there was one delta.
    """
    touched: dict[str, OrdinalSet] = {}
    for name in names:
        old, new = before.types.get(name), after.types.get(name)
        if old is None or new is None or old.schema != new.schema:
            return None
        if steps is None:
            if after.origin_tag != before.tag or new.previous != old.populated or new.appended:
                return None
            touched[name] = _difference(old.populated, new.populated)
            continue
        found = EMPTY
        for step in steps:
            if name in step:
                found = found.union(_difference(*step[name]))
        touched[name] = found
    return touched


def removed_between(
    before: ReadState, after: ReadState, names: Iterable[str], steps: Sequence[Step] | None = None
) -> dict[str, OrdinalSet]:
    """Of what `touched_between` gives, the ordinals that were removed on the way, to stay so or to be another record.

    The others that were there before have got appended values.
    """
    removed: dict[str, OrdinalSet] = {}
    for name in names:
        one_step = {name: (before.types[name].populated, after.types[name].populated)}
        removed[name] = EMPTY
        for step in (one_step,) if steps is None else steps:
            if name in step:
                old, new = step[name]
                removed[name] = removed[name].union(old.difference(new))
    return removed


def points_elsewhere(after: ReadState, edges: Iterable[Edge], touched: Mapping[str, OrdinalSet]) -> bool:
    """True if a record that stayed refers to one that did not."""
    records = records_of(after)
    for edge in edges:
        changed = touched[edge.child]
        if not changed:
            continue
        stayed = after.types[edge.parent].populated.difference(touched[edge.parent])
        number = records.number(edge.parent)
        if keys.points_into(records.reader, number, edge.position, stayed.words, changed.words):
            return True
    return False


def _difference(old: OrdinalSet, new: OrdinalSet) -> OrdinalSet:
    if old is new:
        return EMPTY
    return old.difference(new).union(new.difference(old))
