"""Finds the rows of a fitted query: by the index where it can tell, by rows where it cannot, together where it must.

Three ways, all exact. If every clause is lowered, the engine answers. If a query is what the engine knows *and* filters
that only rows know, the engine's ranking is walked down until enough rows pass the filters. Else every part gives a
mask and a score for each row, and those are combined.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from deltaic.table.query.bound import (
    Always,
    Between,
    Bound,
    BoundLeaf,
    Equal,
    Group,
    Never,
    Present,
    Weighted,
    leaves,
    scores,
)
from deltaic.table.query.columns import Target
from deltaic.table.query.limits import QueryLimits
from deltaic.table.query.tree import Occur
from deltaic.table.search.deadline import Deadline
from deltaic.table.search.joined import JoinedIndex
from deltaic.table.search.lower import Lowering
from deltaic.table.search.splits import SplitColumns
from deltaic.table.split.engine import engine, guarded
from deltaic.table.split.mapping import ROW_FIELD

_FIRST_WALK = 1000
_WIDER = 8
# A row of a mask costs this many times less than a hit of the engine.
_MANY = 50
Value = TypeVar("Value")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows in their order: the split (by its place), the row in it, the score."""

    splits: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: Any) -> "Hits":
        return Hits(self.splits[part], self.rows[part], self.scores[part])


class Execution:
    """One query over some splits."""

    def __init__(
        self,
        bound: Bound,
        splits: Sequence[SplitColumns],
        joined: Callable[[], JoinedIndex],
        limits: QueryLimits,
        deadline: Deadline,
    ) -> None:
        self.bound, self.splits = bound, splits
        self._joined, self._limits, self.deadline = joined, limits, deadline
        self._lowered: dict[int, Any] = {}
        self.from_rows: list[BoundLeaf] = []
        self._known: set[int] = set()
        self.way = ""

    @cached_property
    def joined(self) -> JoinedIndex:
        """The index over the splits."""
        self.deadline.check("before the indexes were joined")
        return self._joined()

    @cached_property
    def _lowering(self) -> Lowering:
        return Lowering(self.joined, self._limits, self._partition_splits, self.longest)

    def lowered(self, part: Bound) -> Any | None:
        """The engine's query for a part; None if it needs rows."""
        if not _is_known(part):
            return None
        key = id(part)
        if key not in self._lowered:
            self._lowered[key] = self._lowering.query(part)
        return self._lowered[key]

    def lowered_once(self, part: Bound) -> Any | None:
        """The engine's query for something that is no part of this query."""
        return self._lowering.query(part) if _is_known(part) else None

    def count(self) -> int:
        """How many rows match."""
        if isinstance(self.bound, Never) or not self.splits:
            self.way = "nothing"
            return 0
        query = self.asked_of_index()
        if query is None and not self._needs_index(self.bound):
            self.way = "rows"
            return sum(int(mask.sum()) for mask in self._row_masks(self.bound))
        if query is None:
            return len(self._dense())
        self.way = "index"
        with guarded("count", "the joined index"):
            return int(self.joined.searcher.search(query, 1, count=True).count)

    def top(self, most: int | None) -> Hits:
        """The best rows, at most so many; None is all. Equal scores are ordered by split and row."""
        if isinstance(self.bound, Never) or not self.splits or most == 0:
            self.way = "nothing"
            return _no_hits()
        query = self.asked_of_index()
        if query is not None and (most is not None or scores(self.bound)):
            self.way = "index"
            return self._ranked(query, most)
        if not scores(self.bound) and (query is not None or not self._needs_index(self.bound)):
            return self._first_rows(most) if query is None else self._in_table_order()
        if most is not None:
            found = self._walked(most)
            if found is not None:
                return found
        found = self._dense()
        order = np.lexsort((found.rows, found.splits, -found.scores))
        return found[order if most is None else order[:most]]

    def matches(self) -> list[NDArray[np.int64]]:
        """The numbers of all rows that match, for each split, rising."""
        if isinstance(self.bound, Never) or not self.splits:
            self.way = "nothing"
            return [np.empty(0, np.int64) for _ in self.splits]
        query = self.asked_of_index()
        if self._by_rows(query):
            self.way = "rows"
            return [np.flatnonzero(mask) for mask in self._row_masks(self.bound)]
        if query is not None:
            self.way = "index"
            found = self._all_hits(engine().Query.const_score_query(query, 0.0))
        else:
            found = self._dense()
        rows = []
        for place in range(len(self.splits)):
            mine = found.rows[found.splits == place]
            rows.append(np.sort(mine))
        return rows

    def asked_of_index(self) -> Any | None:
        """The whole query as one of the engine; None if it needs rows, or nothing but rows."""
        asking = [leaf for leaf in leaves(self.bound) if not isinstance(leaf, Always | Never)]
        if not scores(self.bound) and all(leaf.target.column.partition for leaf in asking):
            return None
        return self.lowered(self.bound)

    def _by_rows(self, query: Any | None) -> bool:
        """Whether all matching rows are best found by rows: always if nothing else can, else if they are many."""
        if self._needs_index(self.bound):
            return False
        if query is None:
            return True
        if any(not is_cheap(leaf) for leaf in leaves(self.bound)):
            return False
        with guarded("count", "the joined index"):
            found = self.joined.searcher.search(query, 1, count=True).count
        return bool(found * _MANY > self.joined.num_documents)

    def _in_table_order(self) -> Hits:
        matches = self.matches()
        splits = np.repeat(np.arange(len(matches)), [len(rows) for rows in matches])
        rows = np.concatenate(matches)
        return Hits(splits, rows, np.zeros(len(rows), np.float32))

    def _first_rows(self, most: int | None) -> Hits:
        self.way = "rows"
        splits, rows, found = list[NDArray[np.int64]](), list[NDArray[np.int64]](), 0
        for place, split in enumerate(self.splits):
            self.deadline.check(f"after {place} of {len(self.splits)} splits")
            mine = np.flatnonzero(self._row_mask(self.bound, split))
            if most is not None:
                mine = mine[: most - found]
            splits.append(np.full(len(mine), place, np.int64))
            rows.append(mine)
            found += len(mine)
            if most is not None and found >= most:
                break
        every = np.concatenate(rows)
        return Hits(np.concatenate(splits), every, np.zeros(len(every), np.float32))

    def _ranked(self, query: Any, most: int | None) -> Hits:
        if most is None:
            return self._all_hits(query)
        return self._hits(query, max(1, min(most, self.joined.num_documents)))[:most]

    def _walked(self, most: int) -> Hits | None:
        """Down the engine's ranking, until enough rows pass the filters that only rows know."""
        known, filters = list[Bound](), list[Bound]()
        for part in _conjuncts(self.bound):
            if self.lowered(part) is not None:
                known.append(part)
            elif scores(part) or self._needs_index(part):
                return None
            else:
                filters.append(part)
        if not known or not any(scores(part) for part in known):
            return None
        query = self.lowered_once(Group(tuple((Occur.MUST, part) for part in known)))
        self.way = "index, then rows"
        masks = self._masks_of(filters)
        wanted, total = max(_FIRST_WALK, most * _WIDER), self.joined.num_documents
        while True:
            self.deadline.check(f"after the first {wanted:,} rows of the ranking")
            found = self._hits(query, max(1, min(wanted, total)))
            passed = np.zeros(len(found), np.bool_)
            for place, mask in enumerate(masks):
                mine = found.splits == place
                passed[mine] = mask[found.rows[mine]]
            if passed.sum() >= most or len(found) < wanted:
                return found[np.flatnonzero(passed)[:most]]
            wanted *= _WIDER

    def _masks_of(self, filters: Sequence[Bound]) -> list[NDArray[np.bool_]]:
        return self._over_splits(
            lambda split: np.logical_and.reduce([self._row_mask(part, split) for part in filters]), self.splits
        )

    def _dense(self) -> Hits:
        """A mask and a score for each row of each split, part by part."""
        self.way = "index and rows, combined"
        starts = np.cumsum([0, *(split.num_rows for split in self.splits)])
        mask, score = self._combined(self.bound, starts)
        alive = [split.alive for split in self.splits]
        for place, kept in enumerate(alive):
            if kept is not None:
                mask[starts[place] : starts[place + 1]] &= kept
        found = np.flatnonzero(mask)
        splits = np.searchsorted(starts, found, side="right") - 1
        kept_scores = np.zeros(len(found), np.float32) if score is None else score[found]
        return Hits(splits, found - starts[splits], kept_scores)

    def _combined(self, part: Bound, starts: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.float32] | None]:
        self.deadline.check("while clauses were combined")
        query = self.lowered(part) if self._needs_index(part) else None
        if query is not None:
            hits = self._all_hits(query if scores(part) else engine().Query.const_score_query(query, 0.0))
            places = starts[hits.splits] + hits.rows
            mask = np.zeros(starts[-1], np.bool_)
            mask[places] = True
            if not scores(part):
                return mask, None
            score = np.zeros(starts[-1], np.float32)
            score[places] = hits.scores
            return mask, score
        if isinstance(part, Weighted):
            mask, worth = self._combined(part.part, starts)
            if worth is not None:
                return mask, worth * np.float32(part.factor)
            return mask, mask.astype(np.float32) * np.float32(part.factor)
        if isinstance(part, Group):
            return self._combined_group(part, starts)
        return np.concatenate(self._leaf_masks(part)), None

    def _combined_group(
        self, group: Group, starts: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.float32] | None]:
        required = any(occur is Occur.MUST for occur, _ in group.clauses)
        optional = any(occur is Occur.SHOULD for occur, _ in group.clauses)
        mask = np.full(starts[-1], required or not optional, np.bool_)
        score: NDArray[np.float32] | None = None
        for occur, part in group.clauses:
            inner, worth = self._combined(part, starts)
            if occur is Occur.MUST:
                mask &= inner
            elif occur is Occur.MUST_NOT:
                continue
            elif not required:
                mask |= inner
            if worth is not None:
                gained = np.where(inner, worth, np.float32(0)).astype(np.float32)
                score = gained if score is None else score + gained
        for occur, part in group.clauses:
            if occur is Occur.MUST_NOT:
                mask &= ~self._combined(part, starts)[0]
        return mask, score

    def _needs_index(self, part: Bound) -> bool:
        """Whether a part can only be answered with the index."""
        return any(needs_index(leaf) for leaf in leaves(part))

    def _row_masks(self, part: Bound) -> list[NDArray[np.bool_]]:
        return self._over_splits(lambda split: self._row_mask(part, split), self.splits)

    def _row_mask(self, part: Bound, split: SplitColumns) -> NDArray[np.bool_]:
        mask = self._mask(part, split)
        return mask if split.alive is None else mask & split.alive

    def _mask(self, part: Bound, split: SplitColumns) -> NDArray[np.bool_]:
        if isinstance(part, Weighted):
            return self._mask(part.part, split)
        if not isinstance(part, Group):
            return self._leaf_mask(part, split)
        required = any(occur is Occur.MUST for occur, _ in part.clauses)
        optional = any(occur is Occur.SHOULD for occur, _ in part.clauses)
        mask = np.full(split.num_rows, required or not optional, np.bool_)
        for occur, inner in part.clauses:
            if occur is Occur.MUST:
                mask &= self._mask(inner, split)
            elif occur is Occur.SHOULD and not required:
                mask |= self._mask(inner, split)
        for occur, inner in part.clauses:
            if occur is Occur.MUST_NOT:
                mask &= ~self._mask(inner, split)
        return mask

    def _leaf_masks(self, leaf: BoundLeaf) -> list[NDArray[np.bool_]]:
        return self._over_splits(lambda split: self._leaf_mask(leaf, split), self.splits)

    def _leaf_mask(self, leaf: BoundLeaf, split: SplitColumns) -> NDArray[np.bool_]:
        if isinstance(leaf, Always | Never):
            return np.full(split.num_rows, isinstance(leaf, Always), np.bool_)
        self.deadline.check(f"while rows were asked about {leaf.target.name}")
        if id(leaf) not in self._known and not leaf.target.column.partition:
            self._known.add(id(leaf))
            self.from_rows.append(leaf)
        return split.mask(leaf, leaf.target)

    def _all_hits(self, query: Any) -> Hits:
        searcher = self.joined.searcher
        with guarded("search", "the joined index"):
            count = searcher.search(query, 1, count=True).count
        return self._hits(query, count) if count else _no_hits()

    def _hits(self, query: Any, most: int) -> Hits:
        self.deadline.check("before the index was searched")
        joined = self.joined
        with guarded("search", "the joined index"):
            hits = joined.searcher.search(query, most, count=False).hits
            if not hits:
                return _no_hits()
            found, addresses = zip(*hits, strict=True)
            segments = (
                np.zeros(len(hits), np.int64)
                if len(joined.split_of) == 1
                else np.fromiter((address.segment_ord for address in addresses), np.int64, len(hits))
            )
            if joined.in_order:
                rows = np.fromiter((address.doc for address in addresses), np.int64, len(hits))
                rows += joined.first_document[segments]
            else:
                rows = np.array(joined.searcher.fast_field_values(ROW_FIELD, list(addresses)), np.int64)
        return Hits(joined.split_of[segments], rows, np.array(found, np.float32))

    def _partition_splits(self, leaf: BoundLeaf) -> tuple[str, ...] | None:
        assert not isinstance(leaf, Always | Never)
        chosen = [split for split in self.splits if split.partition_matches(leaf, leaf.target)]
        return None if len(chosen) == len(self.splits) else tuple(one.cached.split_id for one in chosen)

    def longest(self, target: Target) -> int:
        """The most bytes that a value of a string column has."""
        return max((split.longest(target) for split in self.splits), default=0)

    def _over_splits(self, work: Callable[[SplitColumns], Value], splits: Sequence[SplitColumns]) -> list[Value]:
        return in_parallel(work, splits)


def needs_index(leaf: BoundLeaf) -> bool:
    """Whether only the index can tell: words of text."""
    if isinstance(leaf, Always | Never):
        return False
    return leaf.target.tokenizer is not None and leaf.target.kind == "text" and not leaf.target.path


def _is_known(part: Bound) -> bool:
    """Whether some column of a part is in the index. Where none is there may be no index to ask."""
    return any(not isinstance(leaf, Always | Never) and leaf.target.column.index is not None for leaf in leaves(part))


def is_cheap(leaf: BoundLeaf) -> bool:
    """Whether rows answer a clause by one pass of Arrow over a column."""
    if isinstance(leaf, Always | Never):
        return True
    return isinstance(leaf, Equal | Between | Present) and leaf.target.kind not in ("json", "ip")


def in_parallel(work: Callable[[Item], Value], items: Sequence[Item]) -> list[Value]:
    """Work on each item, several at a time; what is done there leaves the interpreter free."""
    if len(items) < 2:
        return [work(item) for item in items]
    return list(_pool().map(work, items))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(8, os.cpu_count() or 1), "deltaic-search")


def _conjuncts(part: Bound) -> list[Bound]:
    """The parts that must all match, looked for through groups that only require."""
    if isinstance(part, Group) and all(occur is Occur.MUST for occur, _ in part.clauses):
        return [inner for _, clause in part.clauses for inner in _conjuncts(clause)]
    return [part]


def _no_hits() -> Hits:
    return Hits(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
