"""The rows of a table whose vectors are nearest, exactly: a scan over a column of fixed-size lists of float32.

The vectors of a split are read where they lie, mapped from its file; rows that are hidden, that a predicate leaves out
or that have no vector are passed over.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.table.predicate import Predicate
from deltaic.table.query.columns import SearchColumn
from deltaic.table.search.execute import Execution, Hits
from deltaic.table.search.result import SearchExplain, SearchResult
from deltaic.table.search.splits import SplitColumns
from deltaic.vector.fusion import DEFAULT_CONSTANT, reciprocal_rank
from deltaic.vector.measures import measure
from deltaic.vector.metric import Metric, as_queries, check_count
from deltaic.vector.scan import Neighbours, Scan

if TYPE_CHECKING:
    from deltaic.table.query.tree import Query
    from deltaic.table.search.searcher import Searcher

DISTANCE_COLUMN = "_distance"
TEXT_RANK_COLUMN = "_text_rank"
VECTOR_RANK_COLUMN = "_vector_rank"
_BLOCK_ROWS = 4_096
_GATHERED_SHARE = 4
_CANDIDATES = 100


def nearest_in(
    searcher: "Searcher",
    column: str,
    query: Any,
    *,
    k: int = 10,
    where: Predicate | str | None = None,
    metric: Metric | str = Metric.COSINE,
    columns: Sequence[str] | None = None,
    deadline_seconds: float | None = None,
) -> SearchResult:
    """The nearest rows, with `_score` and `_distance`; see `Searcher.nearest`."""
    started = time.perf_counter()
    metric, k = Metric.named(metric), check_count(k)
    execution, found, total = _scanned(searcher, column, query, k, where, metric, deadline_seconds)
    hits = _as_hits(execution, found)
    table = searcher._table(execution, hits, searcher._chosen(columns))
    _, scores = found.of(0)
    table = table.append_column(DISTANCE_COLUMN, pa.array(metric.distances(scores)))
    seconds = time.perf_counter() - started

    def explain() -> SearchExplain:
        return _explained(searcher, execution, f"nearest by {metric} of {column}", found.compared, seconds)

    ids = tuple(split.cached.split_id for split in execution.splits)
    return SearchResult(table, total > k, total, explain, ids, hits.splits, hits.rows)


def hybrid_in(
    searcher: "Searcher",
    text: "str | Query",
    column: str,
    query: Any,
    *,
    k: int = 10,
    where: Predicate | str | None = None,
    metric: Metric | str = Metric.COSINE,
    columns: Sequence[str] | None = None,
    weights: tuple[float, float] = (1.0, 1.0),
    constant: float = DEFAULT_CONSTANT,
    candidates: int | None = None,
    deadline_seconds: float | None = None,
) -> SearchResult:
    """Text and vector in one order by reciprocal rank; see `Searcher.hybrid`."""
    started = time.perf_counter()
    metric, k = Metric.named(metric), check_count(k)
    count = max(_CANDIDATES, 10 * k) if candidates is None else check_count(candidates)
    by_text, bound, shown = searcher._execution(text, where, deadline_seconds, ranking=True)
    hits = by_text.top(count)
    by_vector, found, _ = _scanned(searcher, column, query, count, where, metric, deadline_seconds)
    near = _as_hits(by_vector, found)
    # Each side counts the splits that it looked at; ids are the same for both.
    ids = tuple(dict.fromkeys(split.cached.split_id for one in (by_text, by_vector) for split in one.splits))
    place = {split_id: number for number, split_id in enumerate(ids)}
    order = reciprocal_rank(
        [_rows(by_text, hits, place), _rows(by_vector, near, place)], weights=weights, constant=constant
    )
    limited, order = len(order) > k, order[:k]
    known = {split.cached.split_id: split for one in (by_text, by_vector) for split in one.splits}
    both = Execution(bound, [known[split_id] for split_id in ids], by_text._joined, searcher.limits, by_text.deadline)
    fused = Hits(
        np.array([one.item[0] for one in order], np.int64),
        np.array([one.item[1] for one in order], np.int64),
        np.array([one.score for one in order], np.float32),
    )
    table = searcher._table(both, fused, searcher._chosen(columns))
    for number, name in enumerate((TEXT_RANK_COLUMN, VECTOR_RANK_COLUMN)):
        table = table.append_column(name, pa.array([one.ranks[number] for one in order], pa.int64()))
    seconds = time.perf_counter() - started

    def explain() -> SearchExplain:
        near_text = f"{shown}, and nearest by {metric} of {column}"
        return _explained(searcher, by_text, near_text, found.compared, seconds, way=by_text.way)

    return SearchResult(table, limited, None, explain, ids, fused.splits, fused.rows)


def _rows(execution: Execution, hits: Hits, place: dict[str, int]) -> list[tuple[int, int]]:
    splits = [place[split.cached.split_id] for split in execution.splits]
    return [(splits[split], row) for split, row in zip(hits.splits.tolist(), hits.rows.tolist(), strict=True)]


def _scanned(
    searcher: "Searcher",
    name: str,
    query: Any,
    k: int,
    where: Predicate | str | None,
    metric: Metric,
    deadline_seconds: float | None,
) -> tuple[Execution, Neighbours, int]:
    """The neighbours of a query, and among how many rows they were looked for."""
    column = searcher._chosen([name])[0]
    dimensions = _dimensions(column)
    queries, single = as_queries(query, dimensions, metric)
    if not single:
        raise InputError("a table is asked by one query at a time", "DimensionMismatch")
    execution, _, _ = searcher._execution(None, where, deadline_seconds)
    matches = [None] * len(execution.splits) if where is None else list(execution.matches())
    total = sum(split.num_rows for split in execution.splits)
    start = wanted = 0
    with Scan(queries, max(1, min(k, total)), metric) as scan:
        for split, rows in zip(execution.splits, matches, strict=True):
            wanted += _scan_split(scan, split, column, rows, start, execution)
            start += split.num_rows
        return execution, scan.finish(), wanted


def _dimensions(column: SearchColumn) -> int:
    kind = column.type
    if not pa.types.is_fixed_size_list(kind) or kind.value_type != pa.float32():
        raise InputError(f"column {column.name!r} is {kind}; nearest needs a fixed-size list of float32", "NoVectors")
    return int(kind.list_size)


def _scan_split(
    scan: Scan,
    split: SplitColumns,
    column: SearchColumn,
    rows: NDArray[np.int64] | None,
    start: int,
    execution: Execution,
) -> int:
    """Look through a split, whose row r is the ordinal `start` + r; gives how many rows count."""
    wanted = np.ones(split.num_rows, np.bool_)
    if rows is not None:
        wanted[:] = False
        wanted[rows] = True
    if split.alive is not None:
        wanted &= split.alive
    first = counted = 0
    for chunk in split.column(column).chunks:
        if not len(chunk) or chunk.null_count == len(chunk):
            first += len(chunk)
            continue
        matrix, valid = _matrix(chunk)
        flags = wanted[first : first + len(chunk)]
        if valid is not None:
            flags = flags & valid
        counted += int(flags.sum())
        for begin in range(0, len(chunk), _BLOCK_ROWS):
            execution.deadline.check("while vectors were compared")
            _scan_block(
                scan, matrix[begin : begin + _BLOCK_ROWS], flags[begin : begin + _BLOCK_ROWS], start + first + begin
            )
        first += len(chunk)
    return counted


def _scan_block(scan: Scan, block: NDArray[np.float32], flags: NDArray[np.bool_], first: int) -> None:
    count = int(flags.sum())
    if not count:
        return
    if count * _GATHERED_SHARE < len(block):
        places = np.flatnonzero(flags)
        block = block[places]
        scan.add(block, measure(block), ordinals=places + first)
        return
    scan.add(block, measure(block), first=first, wanted=None if count == len(block) else flags)


def _matrix(chunk: Any) -> tuple[NDArray[np.float32], NDArray[np.bool_] | None]:
    """The vectors of a chunk as rows, not copied; and which of them are there, None if all."""
    size = chunk.type.list_size
    inner = chunk.values
    flat = np.frombuffer(inner.buffers()[1], np.float32)[inner.offset :]
    matrix = flat[chunk.offset * size : (chunk.offset + len(chunk)) * size].reshape(len(chunk), size)
    valid = None
    if chunk.null_count:
        valid = np.asarray(chunk.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    if inner.null_count:
        parts = inner.slice(chunk.offset * size, len(chunk) * size).is_valid().to_numpy(zero_copy_only=False)
        whole = np.asarray(np.asarray(parts, np.bool_).reshape(len(chunk), size).all(axis=1))
        valid = whole if valid is None else valid & whole
    return matrix, valid


def _as_hits(execution: Execution, found: Neighbours) -> Hits:
    """Neighbours by split and row."""
    ordinals, scores = found.of(0)
    ends = np.cumsum([split.num_rows for split in execution.splits], dtype=np.int64)
    splits = np.searchsorted(ends, ordinals, side="right").astype(np.int64)
    starts = np.concatenate([[0], ends])
    return Hits(splits, ordinals - starts[splits], scores.astype(np.float32))


def _explained(
    searcher: "Searcher", execution: Execution, shown: str, compared: int, seconds: float, way: str = "rows"
) -> SearchExplain:
    return SearchExplain(
        query=shown,
        lowered=shown,
        splits_given=len(searcher._splits),
        splits_searched=len(execution.splits),
        reindexed=(),
        from_rows=(),
        way=way,
        notes=(f"{compared:,} vectors were compared",),
        seconds=seconds,
    )
