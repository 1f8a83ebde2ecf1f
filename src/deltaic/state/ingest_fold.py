"""Structs that come again and again: told from each other by their own bytes, before anything below them is looked up.

Where `Actor {id, name: String, birthYear}` stands in a list, most actors were there before, and with them their
names. So each struct, with all that it refers to, is first laid out flat (id, text of the name, year) and looked up
as a whole. Only those not seen before in this ingest go on to be numbered, type by type; the others have their
ordinal already. Nothing changes in the result: a record seen before has its ordinal, and so has everything below it.

It pays only where structs repeat: a place where they do not is left alone after a while.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import ingest
from deltaic.kernels import ordinals as ordinal_kernels
from deltaic.schema.types import ObjectSchema
from deltaic.state.ingest_plan import Place
from deltaic.state.ingest_rows import Fixed, Link, Mask, Ordinals, Rows, Variable
from deltaic.state.write_statistics import field_kinds

_JUDGED_AFTER = 1 << 16
_LEAST_HITS = 0.25
_BOOLEAN = 3
_NO_COLUMN = (None, None, None, None, None)


class Fold:
    """What is known of the structs of one place."""

    def __init__(self) -> None:
        self.active = True
        self._known = ordinal_kernels.OrdinalMap(1)
        self._ordinals: Ordinals = np.zeros(1024, np.int32)
        self._count = 0
        self._seen = 0

    def fold(self, link: Link) -> Link:
        """A link whose rows are only those not seen before."""
        rows = link.rows
        kinds, columns = _flat(rows)
        numbers = self._known.assign(*ingest.serialize_rows(np.array(kinds, np.uint8), [(rows.count, columns)]))
        # Numbers are given in the order of first meetings: each raises the largest so far.
        largest = np.maximum.accumulate(numbers)
        first = np.empty(rows.count, np.bool_)
        first[:1] = numbers[:1] >= self._count
        np.greater(largest[1:], largest[:-1], out=first[1:])
        first &= numbers >= self._count
        fresh = len(self._known) - self._count
        self._seen += rows.count
        folded = FoldedLink(link.valid, _take(rows, first, fresh), first, numbers, self)
        if self._seen >= _JUDGED_AFTER and len(self._known) > (1 - _LEAST_HITS) * self._seen:
            self.active = False
        return folded

    def learn(self, ordinals: Ordinals) -> None:
        """Take the ordinals of the rows that were new."""
        needed = self._count + len(ordinals)
        if needed > len(self._ordinals):
            grown = np.zeros(max(needed, 2 * len(self._ordinals)), np.int32)
            grown[: self._count] = self._ordinals[: self._count]
            self._ordinals = grown
        self._ordinals[self._count : needed] = ordinals
        self._count = needed

    def ordinals(self, numbers: NDArray[np.int32]) -> Ordinals:
        """The ordinals of structs by the numbers under which they are known."""
        return self._ordinals[numbers]


@dataclass(slots=True, eq=False)
class FoldedLink(Link):
    """A link from all parents to rows of which only some are new."""

    first: Mask
    numbers: NDArray[np.int32]
    fold: Fold
    _learnt: Ordinals | None = field(default=None, init=False)

    @property
    def present(self) -> Mask | None:
        """Which parents have a record here that is new."""
        if self.valid is None:
            return self.first
        spread = np.zeros(len(self.valid), np.bool_)
        spread[self.valid] = self.first
        return spread

    def own_ordinals(self) -> Ordinals:
        """The ordinals of all structs, new or not."""
        if self._learnt is None:
            self.fold.learn(self.rows.ordinals)
            self._learnt = self.fold.ordinals(self.numbers)
        return self._learnt


def foldable_places(root: Place) -> set[int]:
    """The places worth trying: structs that refer to something, with nothing but structs and scalars below."""
    found: set[int] = set()

    def visit(place: Place) -> None:
        for below in place.below():
            if _is_flat(below) and any(slot.place is not None for slot in below.slots):
                found.add(below.number)
            else:
                visit(below)

    visit(root)
    return found


def fold_rows(rows: Rows, folds: dict[int, Fold]) -> None:
    """Fold every link to a foldable place, below these rows."""
    for position, link in enumerate(rows.links):
        if link is None:
            continue
        fold = folds.get(link.rows.place.number)
        if fold is None or not fold.active or not link.rows.count:
            fold_rows(link.rows, folds)
        else:
            rows.links[position] = fold.fold(link)


def _is_flat(place: Place) -> bool:
    # Records with vectors beside them are looked at one by one: equal ones may have other vectors.
    return isinstance(place.schema, ObjectSchema) and not place.vectors and all(map(_is_flat, place.below()))


def _flat(rows: Rows, present: Mask | None = None) -> tuple[list[int], list[Any]]:
    """Kinds and columns of a struct and of all that it refers to; `present` says which of more rows these are."""
    kinds: list[int] = []
    columns: list[Any] = []
    own_kinds = field_kinds(rows.place.schema).tolist()
    for kind, column, link in zip(own_kinds, rows.columns, rows.links, strict=True):
        if link is not None:
            inside = _composed(present, link.valid)
            if link.rows.place.boxed is None:
                kinds.append(_BOOLEAN)
                there = np.ones(rows.count, np.bool_) if inside is None else inside
                columns.append((there, None, None, None, None))
            inner_kinds, inner_columns = _flat(link.rows, inside)
            kinds += inner_kinds
            columns += inner_columns
        else:
            kinds.append(kind)
            columns.append(_spread(column, present))
    return kinds, columns


def _composed(outer: Mask | None, inner: Mask | None) -> Mask | None:
    if outer is None or inner is None:
        return inner if outer is None else outer
    composed = outer.copy()
    composed[outer] = inner
    return composed


def _spread(column: Fixed | Variable | None, present: Mask | None) -> Any:
    if column is None:
        return _NO_COLUMN
    if present is None:
        if isinstance(column, Fixed):
            return (column.values, column.valid, None, None, None)
        return (None, column.valid, column.starts, column.ends, column.data)
    valid = _composed(present, column.valid)
    if isinstance(column, Fixed):
        return (_spread_values(column.values, present), valid, None, None, None)
    starts, ends = _spread_values(column.starts, present), _spread_values(column.ends, present)
    return (None, valid, starts, ends, column.data)


def _spread_values(values: NDArray[Any], present: Mask) -> NDArray[Any]:
    spread = np.zeros(len(present), values.dtype)
    spread[present] = values
    return spread


def _take(rows: Rows, mask: Mask, count: int) -> Rows:
    """Some rows of a struct, and what they refer to."""
    taken = Rows(rows.place, count)
    for column, link in zip(rows.columns, rows.links, strict=True):
        if isinstance(column, Fixed):
            valid = None if column.valid is None else column.valid[mask]
            taken.columns.append(Fixed(column.values[mask], valid))
        elif isinstance(column, Variable):
            valid = None if column.valid is None else column.valid[mask]
            taken.columns.append(Variable(column.starts[mask], column.ends[mask], column.data, valid))
        else:
            taken.columns.append(None)
        if link is None:
            taken.links.append(None)
        elif link.valid is None:
            taken.links.append(Link(None, _take(link.rows, mask, count)))
        else:
            inside = mask[link.valid]
            taken.links.append(Link(link.valid[mask], _take(link.rows, inside, int(inside.sum()))))
    return taken
