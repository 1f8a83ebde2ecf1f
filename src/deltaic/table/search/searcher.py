"""Searching splits: ranked rows, counts, groups, facets, histograms.

One searcher is for one version of a table and may be used by several threads. Scores are BM25 with the statistics of
all splits that it was given, so they depend neither on how rows are spread over splits nor on filters. Nothing is cut
off without a word: `k=None` gives every row, and a result says when there are more.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.table.predicate import Predicate, parse_predicate
from deltaic.table.query.bound import Always, Bound, Group, Never, Weighted, every, leaves, scores
from deltaic.table.query.columns import SearchColumn, SearchColumns, UnknownColumn
from deltaic.table.query.filter import resolve_predicate
from deltaic.table.query.limits import DEFAULT_QUERY_LIMITS, QueryLimits
from deltaic.table.query.parse import parse_query
from deltaic.table.query.resolve import resolve_query
from deltaic.table.query.show import show_query
from deltaic.table.query.tree import Occur, Query
from deltaic.table.search.aggregate import aggregate_rows, aggregate_target, gather, measured_name
from deltaic.table.search.arrays import arrow_array
from deltaic.table.search.buckets import bucket_column, check_interval, filled, range_masks
from deltaic.table.search.deadline import Deadline
from deltaic.table.search.describe import described
from deltaic.table.search.engine_aggregate import engine_aggregate
from deltaic.table.search.execute import Execution, Hits
from deltaic.table.search.joined import JoinedIndex, joined_indexes
from deltaic.table.search.measures import Measure, count
from deltaic.table.search.result import SCORE_COLUMN, SNIPPET_PREFIX, SearchExplain, SearchResult
from deltaic.table.search.snippets import DEFAULT_SNIPPETS, Highlighter, SnippetOptions
from deltaic.table.search.splits import SearchedSplit, SplitColumns, physical_rows
from deltaic.table.split.mapping import DocMapping, IndexedColumn

_KEPT_JOINED = 8


class Searcher:
    """Searches the splits of one version of a table."""

    def __init__(
        self,
        splits: Sequence[SearchedSplit],
        schema: pa.Schema,
        *,
        physical: Mapping[str, str] | None = None,
        mapping: DocMapping | None = None,
        default_columns: Sequence[str] = (),
        default_operator: str = "or",
        folder: Path | None = None,
        limits: QueryLimits = DEFAULT_QUERY_LIMITS,
    ) -> None:
        """Make a searcher.

        Args:
            splits: the splits, in the order in which rows of equal score come.
            schema: the columns of the table, partition columns too, by their names of today.
            physical: for columns that are called otherwise in the splits, the name there.
            mapping: how columns are indexed today, by physical names; if not given, as the splits say.
            default_columns: where a word without a field is looked for; if none, every column of text.
            default_operator: "or" or "and" between clauses side by side.
            folder: where joined indexes are kept; if not given, beside the cache of the splits.
            limits: what a query may ask for.
        """
        self.schema, self.limits = schema, limits
        self._splits = [SplitColumns(split) for split in splits]
        self._mapping = mapping or _common_mapping([split.cached.mapping for split in splits])
        partitions = {name for split in splits for name in split.partition}
        for name in default_columns:
            if name not in schema.names and "." not in name:
                raise InputError(f"default column {name!r} is not in the schema", "UnknownColumn")
        self.columns = SearchColumns.of(
            schema, self._mapping, physical=physical, partition_columns=partitions, default=default_columns
        )
        self._operator, self._folder = default_operator, folder
        self._joined: OrderedDict[tuple[int, ...], JoinedIndex] = OrderedDict()
        self._lock = threading.Lock()

    def search(
        self,
        query: str | Query | None = None,
        *,
        where: Predicate | str | None = None,
        k: int | None = 10,
        offset: int = 0,
        columns: Sequence[str] | None = None,
        snippets: Iterable[str] = (),
        snippet_options: SnippetOptions = DEFAULT_SNIPPETS,
        order_by: str | Sequence[str] | None = None,
        total: bool = False,
        deadline_seconds: float | None = None,
    ) -> SearchResult:
        """The best rows.

        Args:
            query: what to look for, in the query language or as a tree; None is every row.
            where: a predicate, which is part of the query: the best rows among those for which it is true.
            k: how many rows; None is all.
            offset: how many of the best to pass over.
            columns: which columns; None is all. `_score` always comes along.
            snippets: the columns of text of which marked fragments are wanted.
            snippet_options: how the fragments look.
            order_by: order by columns and not by score; `-name` is descending. Nulls come last.
            total: whether to count all matching rows even if not all are returned.
            deadline_seconds: after which to give up; else that of the limits.
        """
        started = time.perf_counter()
        _check_number("k", k)
        _check_number("offset", offset)
        ordering = [order_by] if isinstance(order_by, str) else list(order_by or ())
        execution, bound, shown = self._execution(query, where, deadline_seconds, ranking=not ordering)
        wanted = None if k is None else offset + k + 1
        hits = self._ordered(execution, ordering, wanted) if ordering else execution.top(wanted)
        limited = k is not None and len(hits) > offset + k
        matched = len(hits) if not limited else None
        hits = hits[offset : None if k is None else offset + k]
        if matched is None and total:
            matched = execution.count()
        table = self._table(execution, hits, self._chosen(columns))
        table = self._with_snippets(table, execution, hits, bound, list(snippets), snippet_options)
        ids = tuple(split.cached.split_id for split in execution.splits)
        seconds = time.perf_counter() - started

        def explain() -> SearchExplain:
            return self._explain(execution, bound, shown, seconds)

        return SearchResult(table, limited, matched, explain, ids, hits.splits, hits.rows)

    def nearest(self, column: str, query: Any, *, k: int = 10, **terms: Any) -> SearchResult:
        """The rows whose vectors are nearest to one, compared with every vector; with `_score` and `_distance`.

        Args:
            column: fixed-size lists of float32.
            query: a vector.
            k: how many rows.
            terms: `where`, `metric` (cosine, dot or l2), `columns`, `deadline_seconds`.
        """
        from deltaic.table.search.nearest import nearest_in

        return nearest_in(self, column, query, k=k, **terms)

    def hybrid(self, text: str | Query, column: str, query: Any, *, k: int = 10, **terms: Any) -> SearchResult:
        """The best rows by text and by vector, in one order by reciprocal rank, with `_text_rank` and `_vector_rank`.

        Args:
            text: what to look for, as for `search`.
            column: fixed-size lists of float32.
            query: a vector.
            k: how many rows.
            terms: `where`, `metric`, `columns`, `deadline_seconds`; `weights` of text and vector, `constant`,
                `candidates` of each to fuse.
        """
        from deltaic.table.search.nearest import hybrid_in

        return hybrid_in(self, text, column, query, k=k, **terms)

    def count(
        self,
        query: str | Query | None = None,
        *,
        where: Predicate | str | None = None,
        deadline_seconds: float | None = None,
    ) -> int:
        """How many rows match."""
        execution, _, _ = self._execution(query, where, deadline_seconds)
        return execution.count()

    def row_numbers(
        self,
        query: str | Query | None = None,
        *,
        where: Predicate | str | None = None,
        deadline_seconds: float | None = None,
    ) -> dict[str, NDArray[np.int64]]:
        """The numbers of all rows that match, rising, by the id of their split; splits without any are left out."""
        execution, _, _ = self._execution(query, where, deadline_seconds)
        found = zip(execution.splits, execution.matches(), strict=True)
        return {split.cached.split_id: rows for split, rows in found if len(rows)}

    def explain(self, query: str | Query | None = None, *, where: Predicate | str | None = None) -> SearchExplain:
        """How a query is answered; it is, up to ten rows."""
        return self.search(query, where=where, columns=()).explain

    def aggregate(
        self,
        query: str | Query | None = None,
        *,
        where: Predicate | str | None = None,
        group_by: str | Sequence[str] = (),
        measures: Mapping[str, Measure] | None = None,
        deadline_seconds: float | None = None,
    ) -> pa.Table:
        """Measures over all rows that match, or for each group of them, in the order of the groups' keys.

        A row with several values of a key (a list) counts in the group of each.
        """
        measures = {"count": count()} if measures is None else measures
        keys = [group_by] if isinstance(group_by, str) else list(group_by)
        if clash := set(keys) & set(measures):
            raise InputError(f"{sorted(clash)[0]!r} is both a key and a measure")
        execution, _, _ = self._execution(query, where, deadline_seconds)
        targets = {name: aggregate_target(self.columns, name) for name in keys}
        measured = {
            measured_name(one.column): aggregate_target(self.columns, one.column)
            for one in measures.values()
            if one.column is not None
        }
        found = engine_aggregate(execution, targets, measured, measures)
        if found is not None:
            return found
        table = gather(execution, targets | measured)
        return aggregate_rows(table, keys, measures, max_groups=self.limits.max_groups)

    def facets(
        self,
        query: str | Query | None = None,
        *,
        columns: Sequence[str],
        where: Predicate | str | None = None,
        k: int | None = None,
        deadline_seconds: float | None = None,
    ) -> dict[str, pa.Table]:
        """For each column its values with `count`, the most frequent first, then by value; null is not counted.

        `k` takes the first so many of each.
        """
        _check_number("k", k)
        found = {}
        for name in columns:
            table = self.aggregate(
                query, where=where, group_by=name, measures={"count": count()}, deadline_seconds=deadline_seconds
            )
            table = table.filter(pc.is_valid(table.column(name)))
            table = table.sort_by([("count", "descending"), (name, "ascending")])
            found[name] = table if k is None else table.slice(0, k)
        return found

    def histogram(
        self,
        query: str | Query | None = None,
        *,
        column: str,
        interval: int | float | str,
        offset: int | float = 0,
        where: Predicate | str | None = None,
        measures: Mapping[str, Measure] | None = None,
        empty: bool = False,
        deadline_seconds: float | None = None,
    ) -> pa.Table:
        """Rows by buckets of a column: `column` is the start of each bucket, `count` its rows, and the measures.

        Args:
            query: what to look for.
            column: numbers, dates or times; rows without a value are in no bucket.
            interval: the width of a bucket, or second, minute, hour, day, week (from Monday), month, quarter, year.
            offset: where a bucket of numbers starts.
            where: a predicate that is part of the query.
            measures: what to compute for each bucket, beside the count.
            empty: whether buckets of whole numbers without rows, between others, are listed too.
            deadline_seconds: after which to give up.
        """
        target = aggregate_target(self.columns, column)
        check_interval(target, interval, offset)
        measures = {"count": count()} | dict(measures or {})
        execution, _, _ = self._execution(query, where, deadline_seconds)
        measured = {
            measured_name(one.column): aggregate_target(self.columns, one.column)
            for one in measures.values()
            if one.column is not None
        }
        table = gather(execution, {column: target} | measured)
        starts = bucket_column(target, table.column(column), interval, offset)
        table = table.set_column(0, column, starts).filter(pc.is_valid(starts))
        found = aggregate_rows(table, [column], measures, max_groups=self.limits.max_groups)
        return filled(found, column, interval, self.limits.max_groups) if empty else found

    def ranges(
        self,
        query: str | Query | None = None,
        *,
        column: str,
        ranges: Sequence[tuple[Any, Any]],
        where: Predicate | str | None = None,
        deadline_seconds: float | None = None,
    ) -> list[int]:
        """For each range `low <= value < high` how many rows are in it; None is an open end, ranges may overlap."""
        target = aggregate_target(self.columns, column)
        if target.kind in ("text", "boolean", "json", "ip", "none") or target.many:
            raise InputError(f"{target.described}: it has no ranges")
        execution, _, _ = self._execution(query, where, deadline_seconds)
        values = gather(execution, {column: target}).column(column)
        return [pc.sum(mask).as_py() or 0 for mask in range_masks(target, values, ranges)]

    def bound(self, query: str | Query | None, where: Predicate | str | None) -> tuple[Bound, str]:
        """A query and a predicate as one question, and the query as text."""
        parts = list[Bound]()
        shown = "*:*"
        if query is not None:
            source = query if isinstance(query, str) else ""
            tree = (
                parse_query(query, default_operator=self._operator, limits=self.limits)
                if isinstance(query, str)
                else query
            )
            parts.append(resolve_query(tree, self.columns, source=source, limits=self.limits))
            shown = source[:2000] or show_query(tree)[:2000]
        if where is not None:
            predicate = parse_predicate(where) if isinstance(where, str) else where
            parts.append(resolve_predicate(predicate, self.columns))
        return every(*parts), shown

    def _execution(
        self,
        query: str | Query | None,
        where: Predicate | str | None,
        seconds: float | None,
        *,
        ranking: bool = False,
    ) -> tuple[Execution, Bound, str]:
        deadline = Deadline(self.limits.deadline_seconds if seconds is None else seconds)
        bound, shown = self.bound(query, where)
        deadline.check("after the query was read")
        # Scores have the statistics of every split: what a filter leaves out must not change them.
        ranked = ranking and scores(bound)
        chosen = [place for place, split in enumerate(self._splits) if ranked or _may_match(bound, split)]
        splits = [self._splits[place] for place in chosen]
        key = tuple(chosen)
        return Execution(bound, splits, lambda: self._index(key), self.limits, deadline), bound, shown

    def _index(self, chosen: tuple[int, ...]) -> JoinedIndex:
        with self._lock:
            found = self._joined.get(chosen)
            if found is not None:
                self._joined.move_to_end(chosen)
                return found
        splits = [self._splits[place] for place in chosen]
        home = joined_indexes(self._home)
        made = home.open(
            [split.cached for split in splits],
            self._mapping,
            lambda place: physical_rows(splits[place], self.columns.columns, self._mapping),
        )
        with self._lock:
            self._joined[chosen] = made
            while len(self._joined) > _KEPT_JOINED:
                self._joined.popitem(last=False)
        return made

    @cached_property
    def _home(self) -> Path:
        if self._folder is not None:
            return self._folder
        # Beside the cache and on its file system, so that links can be made and its eviction does not meet them.
        cache = self._splits[0].cached.index_folder.parent.parent
        return cache.with_name(f"{cache.name}-joined")

    def _ordered(self, execution: Execution, ordering: Sequence[str], most: int | None) -> Hits:
        """All rows that match, by the values of columns; equal ones by split and row."""
        keys = [(name.removeprefix("-"), "descending" if name.startswith("-") else "ascending") for name in ordering]
        chosen = self._chosen([name for name, _ in keys])
        matches = execution.matches()
        splits = np.repeat(np.arange(len(matches)), [len(rows) for rows in matches])
        rows = np.concatenate(matches) if matches else np.empty(0, np.int64)
        found = Hits(splits, rows, np.zeros(len(rows), np.float32))
        if not len(rows):
            return found
        tables = [split.taken(chosen, mine) for split, mine in zip(execution.splits, matches, strict=True)]
        table = pa.concat_tables(tables).append_column("\x00place", arrow_array(np.arange(len(rows))))
        try:
            order = pc.sort_indices(table, sort_keys=[*keys, ("\x00place", "ascending")])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InputError(f"cannot order by {', '.join(ordering)}: {error}") from error
        picked = order.to_numpy()
        return found[picked if most is None else picked[:most]]

    def _chosen(self, names: Sequence[str] | None) -> list[SearchColumn]:
        known = self.columns.columns
        if names is None:
            return list(known.values())
        for name in names:
            if name not in known:
                try:
                    self.columns.target(name)
                except UnknownColumn as error:
                    raise InputError(str(error), "UnknownColumn") from None
                raise InputError(f"{name!r} is within a column: take the whole column", "UnknownColumn")
        return [known[name] for name in dict.fromkeys(names)]

    def _table(self, execution: Execution, hits: Hits, columns: Sequence[SearchColumn]) -> pa.Table:
        execution.deadline.check("before rows were read")
        scores_column = arrow_array(hits.scores)
        if not len(hits):
            empty = pa.schema([pa.field(one.name, one.type) for one in columns]).empty_table()
            return empty.append_column(SCORE_COLUMN, scores_column)
        if not columns:
            return pa.Table.from_arrays([scores_column], [SCORE_COLUMN])
        if (hits.splits == hits.splits[0]).all():
            table = execution.splits[hits.splits[0]].taken(columns, hits.rows)
            return table.append_column(SCORE_COLUMN, scores_column)
        pieces, order = list[pa.Table](), list[NDArray[np.int64]]()
        for place in np.unique(hits.splits):
            mine = np.flatnonzero(hits.splits == place)
            pieces.append(execution.splits[place].taken(columns, hits.rows[mine]))
            order.append(mine)
        back = np.empty(len(hits), np.int64)
        back[np.concatenate(order)] = np.arange(len(hits))
        table = pa.concat_tables(pieces).combine_chunks().take(arrow_array(back))
        return table.append_column(SCORE_COLUMN, scores_column)

    def _with_snippets(
        self,
        table: pa.Table,
        execution: Execution,
        hits: Hits,
        bound: Bound,
        names: Sequence[str],
        options: SnippetOptions,
    ) -> pa.Table:
        for name in names:
            column = self._chosen([name])[0]
            target = self.columns.target(name)
            if target.kind not in ("text", "string") or target.many:
                raise InputError(f"{target.described}: snippets are of text")
            texts = table if name in table.column_names else self._table(execution, hits, [column])
            highlighter = Highlighter(bound, target, options)
            made = list[str | None]()
            for text in texts.column(name).to_pylist():
                execution.deadline.check("while snippets were made")
                made.append(highlighter.fragment(text))
            table = table.append_column(SNIPPET_PREFIX + name, pa.array(made, pa.string()))
        return table

    def _explain(self, execution: Execution, bound: Bound, shown: str, seconds: float) -> SearchExplain:
        reindexed = [split.cached.split_id for split in execution.splits if split.cached.reindexed]
        if "index" in execution.way:
            reindexed += [one for one in execution.joined.reindexed if one not in reindexed]
        notes = tuple(leaf.why for leaf in leaves(bound) if isinstance(leaf, Never) and leaf.why)
        return SearchExplain(
            query=shown,
            lowered=described(bound),
            splits_given=len(self._splits),
            splits_searched=len(execution.splits),
            reindexed=tuple(reindexed),
            from_rows=tuple(described(leaf) for leaf in execution.from_rows[:100]),
            way=execution.way,
            notes=notes[:20],
            seconds=seconds,
        )


def _may_match(bound: Bound, split: SplitColumns) -> bool:
    """Whether the partition of a split allows a row of it to match."""
    if isinstance(bound, Never):
        return False
    if isinstance(bound, Weighted):
        return _may_match(bound.part, split)
    if isinstance(bound, Group):
        required = [part for occur, part in bound.clauses if occur is Occur.MUST]
        optional = [part for occur, part in bound.clauses if occur is Occur.SHOULD]
        excluded = [part for occur, part in bound.clauses if occur is Occur.MUST_NOT]
        if any(_must_match(part, split) for part in excluded):
            return False
        if required:
            return all(_may_match(part, split) for part in required)
        return not optional or any(_may_match(part, split) for part in optional)
    if isinstance(bound, Always) or not bound.target.column.partition:
        return True
    return split.partition_matches(bound, bound.target)


def _must_match(bound: Bound, split: SplitColumns) -> bool:
    """Whether the partition of a split makes every row of it match."""
    if isinstance(bound, Weighted):
        return _must_match(bound.part, split)
    if isinstance(bound, Group):
        required = [part for occur, part in bound.clauses if occur is Occur.MUST]
        optional = [part for occur, part in bound.clauses if occur is Occur.SHOULD]
        if any(_may_match(part, split) for occur, part in bound.clauses if occur is Occur.MUST_NOT):
            return False
        if required:
            return all(_must_match(part, split) for part in required)
        return not optional or any(_must_match(part, split) for part in optional)
    if isinstance(bound, Always | Never):
        return isinstance(bound, Always)
    return bound.target.column.partition and split.partition_matches(bound, bound.target)


def _common_mapping(mappings: Sequence[DocMapping]) -> DocMapping:
    """The mapping of the newest split, and the columns that only older ones have."""
    columns = dict[str, IndexedColumn]()
    for mapping in reversed(mappings):
        for column in mapping.columns:
            columns.setdefault(column.name, column)
    return DocMapping(tuple(columns.values()))


def _check_number(name: str, value: int | None) -> None:
    if value is not None and (type(value) is not int or value < 0):
        raise InputError(f"{name} is a number that is not negative, not {value!r}")


__all__ = ["Searcher"]
