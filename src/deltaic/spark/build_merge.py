"""Merge: one range of the records of a type, from all tasks and from the version before, in one place.

Equal records become one. One that the version before had keeps its ordinal; the others are new, and are put in the
order of their bytes. Records of the version before that nobody has any more leave with this version, and are kept for
the reverse delta.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import ordinals as ordinal_kernels
from deltaic.kernels import records
from deltaic.schema.types import Schema
from deltaic.spark.build_runs import NO_RECORDS, Labels, Records, Run, joined, read_range
from deltaic.spark.build_scratch import Part, Scratch
from deltaic.state.bitset import OrdinalSet
from deltaic.state.write_statistics import field_kinds, statistics_for

Rows = NDArray[np.int64]


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """The rows of a task's run that fell into a range: its own ordinals and the codes of the records."""

    labels: Part
    codes: Part


class Merged(msgspec.Struct, frozen=True, array_like=True):
    """A range of a type."""

    live: int
    """Records of this version; they come first."""
    new: int
    leaving: int
    """Records of the version before that this one has no more; they come last, under their ordinals."""
    data: Part
    ends: Part
    codes: Part
    segments: dict[int, Segment]
    """By task: what its records are."""
    counts: list[tuple[list[int], list[int]]]
    """What was counted for the widths, where it is not 0."""
    total: int
    """Elements or buckets."""


@dataclass(frozen=True)
class Merge:
    """Merge one range of a type."""

    Result: ClassVar[type] = Merged

    schema: Schema
    runs: tuple[tuple[int, Run], ...]
    """By task."""
    previous: tuple[Run, ...]
    kept: Part | None
    """Bits of records of the version before that stay without being given again."""
    fields: tuple[int, ...] | None
    """Fields that the version before has too, if it has not all of them."""
    low: bytes | None
    high: bytes | None
    scratch: Scratch
    weight: int

    def run(self) -> Merged:
        """Do it."""
        found = [(task, read_range(self.scratch, run, self.low, self.high)) for task, run in self.runs]
        found = [(task, part) for task, part in found if len(part)]
        given = joined([part.found for _, part in found])
        distinct = ordinal_kernels.OrdinalMap()
        numbers = distinct.assign(given.data, given.ends)
        if len(distinct) < len(given):
            given = given.take(_first_meetings(numbers))
        before = _Before(self, given)
        # Claimed ones stay as they come, new ones are in the order of their bytes.
        fresh = np.flatnonzero(before.claims < 0)
        fresh = records.sort_records(given.data, given.ends, fresh)
        claimed = np.flatnonzero(before.claims >= 0)
        codes = before.claims.copy()
        codes[fresh] = -1 - np.arange(len(fresh), dtype=np.int32)
        order = np.concatenate((claimed, fresh))
        in_order = len(claimed) == 0 and bool((np.diff(fresh) == 1).all())
        live = [given if in_order else given.take(order), before.staying]
        whole = joined([*live, before.leaving])
        whole_codes = np.concatenate((codes[order], before.staying_ordinals, before.leaving_ordinals))
        statistics = statistics_for(self.schema)
        statistics.update(_Source(whole), OrdinalSet.all_below(len(whole)))  # type: ignore[arg-type]
        label_parts = [part.labels for _, part in found]
        data, ends, kept_codes, labels, row_codes = self.scratch.write(
            whole.data,
            whole.ends,
            whole_codes,
            np.concatenate(label_parts) if label_parts else np.zeros(0, np.int32),
            codes[numbers] if len(codes) else np.zeros(0, np.int32),
        )
        segments, start = {}, 0
        for task, part in found:
            stop = start + len(part)
            segments[task] = Segment(labels.piece(start, stop), row_codes.piece(start, stop))
            start = stop
        return Merged(
            sum(len(part) for part in live),
            len(fresh),
            len(before.leaving),
            data,
            ends,
            kept_codes,
            segments,
            [_sparse(counted) for counted in statistics.counts],
            statistics.total,
        )


class _Source:
    """Records as the statistics want them."""

    def __init__(self, found: Records) -> None:
        # One byte of slack: an arena is never empty.
        self.arena = found.data if len(found.data) else np.zeros(1, np.uint8)
        self.starts = found.starts


class _Before:
    """What the version before has in the range: who claims it, what stays without being claimed, what leaves."""

    def __init__(self, merge: Merge, given: Records) -> None:
        self.claims: Labels = np.full(len(given), -1, np.int32)
        self.staying = self.leaving = NO_RECORDS
        self.staying_ordinals: Labels = np.zeros(0, np.int32)
        self.leaving_ordinals: Labels = np.zeros(0, np.int32)
        if not merge.previous:
            return
        scratch = merge.scratch
        slices = [read_range(scratch, each, merge.low, merge.high) for each in merge.previous]
        matched = joined([each.found for each in slices])
        ordinals = np.concatenate([each.labels for each in slices])
        if not len(ordinals):
            return
        order = _by_ordinal_if_needed(ordinals, merge)
        if order is not None:
            matched, ordinals = matched.take(order), ordinals[order]
        known = ordinal_kernels.OrdinalMap()
        rows = np.arange(len(ordinals), dtype=np.int32)
        if merge.fields is None and len(given) < len(ordinals):
            found = _found_from_there(matched, given)
        elif merge.fields is None:
            known.put(matched.data, matched.ends, rows)
            found = known.find(given.data, given.ends)
        else:
            known.put(matched.data, matched.ends, rows)
            kinds = field_kinds(merge.schema)
            fields = np.array(merge.fields, np.int64)
            found = known.find(*records.project_objects(given.data, given.ends, kinds, fields))
            found = _first_claims(given, found)
        self.claims = np.where(found >= 0, ordinals[np.maximum(found, 0)], -1).astype(np.int32)
        claimed = np.zeros(len(ordinals), np.bool_)
        claimed[found[found >= 0]] = True
        unclaimed = np.flatnonzero(~claimed)
        if not len(unclaimed):
            return
        written = matched
        others = [each.beside for each in slices if each.beside is not None]
        if others:
            written = joined(others) if order is None else joined(others).take(order)
        stays = np.zeros(len(unclaimed), np.bool_)
        if merge.kept is not None:
            kept = OrdinalSet.from_words(scratch.read(merge.kept))
            stays = kept.flags(int(ordinals.max()) + 1)[ordinals[unclaimed]]
        self.staying, self.staying_ordinals = written.take(unclaimed[stays]), ordinals[unclaimed[stays]]
        self.leaving, self.leaving_ordinals = written.take(unclaimed[~stays]), ordinals[unclaimed[~stays]]


def _found_from_there(matched: Records, given: Records) -> Labels:
    """The row of `matched` that equals each given record, or -1; looked up among the given ones, which are fewer."""
    known = ordinal_kernels.OrdinalMap()
    known.put(given.data, given.ends, np.arange(len(given), dtype=np.int32))
    hits = known.find(matched.data, matched.ends)
    rows = np.flatnonzero(hits >= 0)
    found = np.full(len(given), -1, np.int32)
    # Backwards: of equal records the first is to win.
    found[hits[rows][::-1]] = rows[::-1]
    return found


def _by_ordinal_if_needed(ordinals: Labels, merge: Merge) -> Rows | None:
    """Of equal records of the version before the one with the lowest ordinal is claimed: it must come first."""
    if merge.fields is None or bool((np.diff(ordinals) > 0).all()):
        return None
    return np.argsort(ordinals, kind="stable")


def _first_claims(given: Records, found: Labels) -> Labels:
    """Of several records that may claim one ordinal the first by its bytes does."""
    order = records.sort_records(given.data, given.ends, np.arange(len(given)))
    in_order = found[order]
    _, first = np.unique(in_order, return_index=True)
    kept = np.full(len(found), -1, np.int32)
    kept[order[first]] = in_order[first]
    return kept


def _first_meetings(numbers: Labels) -> Rows:
    """The rows at which a number comes for the first time; numbers are given in that order."""
    largest = np.maximum.accumulate(numbers)
    first = np.ones(len(numbers), np.bool_)
    np.greater(largest[1:], largest[:-1], out=first[1:])
    return np.flatnonzero(first)


def _sparse(counted: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    flat = counted.reshape(-1)
    used = np.flatnonzero(flat)
    return used.tolist(), flat[used].tolist()


def dense(sparse: list[tuple[list[int], list[int]]], like: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """What was counted, in the shape of arrays."""
    arrays: list[NDArray[Any]] = []
    for (places, values), shape in zip(sparse, like, strict=True):
        array = np.zeros(shape.size, np.int64)
        array[places] = values
        arrays.append(array.reshape(shape.shape))
    return arrays
