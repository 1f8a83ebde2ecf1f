"""Depth-first order by column: which record of a type comes first when they come from several places of a row.

Java's object mapper adds, for every row in order, for every field in order, first what the field refers to, then the
record itself. Ordinals are per type, so only the order inside one type matters; a type with one place keeps its own
order. For several places the instances below each parent are counted, and laid one branch behind the other, parent by
parent.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import ingest
from deltaic.schema.types import ObjectSchema
from deltaic.state.ingest_plan import Place
from deltaic.state.ingest_rows import Rows

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Sequence:
    """Records of the wanted type below each of some parents: `offsets` per parent, and which records, in order."""

    offsets: Positions
    records: Positions


@dataclass(slots=True)
class DepthFirst:
    """The order of the records of one type in a chunk, over all its places one behind the other."""

    bases: dict[int, int]
    """Place number → the number of records of the places before it."""
    _leads: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: list[Rows]) -> "DepthFirst":
        """For the rows of all places of a type."""
        bases, count = {}, 0
        for each in rows:
            bases[each.place.number] = count
            count += each.count
        return cls(bases)

    def order(self, root: Rows) -> Positions:
        """The records of the type in the order in which they are added."""
        return self._below(root).records

    def _leads_there(self, place: Place) -> bool:
        known = self._leads.get(place.number)
        if known is None:
            known = place.number in self.bases or any(self._leads_there(below) for below in place.below())
            self._leads[place.number] = known
        return known

    def _below(self, rows: Rows) -> _Sequence:
        base = self.bases.get(rows.place.number)
        if base is not None:
            return _Sequence(
                np.arange(rows.count + 1, dtype=np.int64), np.arange(base, base + rows.count, dtype=np.int64)
            )
        branches = [
            _at_parents(link.present, self._below(link.rows))
            for link in rows.links
            if link is not None and self._leads_there(link.rows.place)
        ]
        # Per entry of a map the key comes first, then the value.
        inside = _interleaved(branches)
        if isinstance(rows.place.schema, ObjectSchema):
            return inside
        return _Sequence(inside.offsets[rows.offsets], inside.records)


def _at_parents(valid: NDArray[np.bool_] | None, sequence: _Sequence) -> _Sequence:
    """A child's sequence seen from its parents, some of which have no child."""
    if valid is None:
        return sequence
    children = np.zeros(len(valid) + 1, np.int64)
    np.cumsum(valid, out=children[1:])
    return _Sequence(sequence.offsets[children], sequence.records)


def _interleaved(branches: list[_Sequence]) -> _Sequence:
    if len(branches) == 1:
        return branches[0]
    offsets = branches[0].offsets.copy()
    for branch in branches[1:]:
        offsets += branch.offsets
    records = ingest.interleave([branch.offsets for branch in branches], [branch.records for branch in branches])
    return _Sequence(offsets, records)
