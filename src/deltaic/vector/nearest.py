"""The nearest vectors of a column, exactly.

    found = nearest(state.vectors["Movie", "embedding"], query, 10)
    found.ordinals, found.scores            # one row for each query, nearest first

Chunks without a wanted row are passed over; where few rows of a chunk are wanted, those are gathered first.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from deltaic.errors import InputError
from deltaic.state.bitset import OrdinalSet
from deltaic.state.vector_column import CHUNK_ROWS, StoredVectors, present_in
from deltaic.vector.measures import MEASURES, measure
from deltaic.vector.metric import Matrix, Metric, as_queries, check_count, rank_values
from deltaic.vector.scan import Best, Neighbours, Ordinals, Scan

_GATHERED_SHARE = 4
"""A chunk of which less than one row in so many is wanted is gathered."""


def nearest(
    vectors: StoredVectors,
    query: Any,
    k: int = 10,
    *,
    metric: Metric | str = Metric.COSINE,
    where: OrdinalSet | None = None,
) -> Neighbours:
    """The `k` nearest vectors to each query.

    Args:
        vectors: the column.
        query: one vector, or several as rows.
        k: how many; fewer come where there are not as many.
        metric: cosine, dot or l2.
        where: only these ordinals.

    Raises:
        InputError: a query of another size, with a NaN or an infinity, or of zeros by cosine; a `k` below 1.
    """
    metric = Metric.named(metric)
    queries, _ = as_queries(query, vectors.dimensions, metric)
    return nearest_rows(vectors, queries, check_count(k), metric, where)


def nearest_rows(
    vectors: StoredVectors, queries: Matrix, count: int, metric: Metric, where: OrdinalSet | None = None
) -> Neighbours:
    """`nearest` for queries that were checked."""
    wanted = vectors.present if where is None else vectors.present.intersection(where)
    with Scan(queries, max(1, min(count, len(wanted))), metric) as scan:
        _look_through(scan, vectors, wanted)
        return scan.finish()


def _look_through(scan: Scan, vectors: StoredVectors, wanted: OrdinalSet) -> None:
    gathered, waiting = list[Ordinals](), 0
    for number, present in _chunk_counts(wanted):
        if present * _GATHERED_SHARE < CHUNK_ROWS:
            gathered.append(np.flatnonzero(present_in(wanted, number)) + number * CHUNK_ROWS)
            waiting += present
            if waiting >= CHUNK_ROWS:
                _add_gathered(scan, vectors, gathered)
                gathered, waiting = [], 0
            continue
        chunk = vectors.chunks[number]
        if present == CHUNK_ROWS:
            scan.add(chunk, MEASURES.of(chunk), first=number * CHUNK_ROWS)
            continue
        flags = present_in(wanted, number)
        end = CHUNK_ROWS - int(flags[::-1].argmax())
        some = None if present == end else flags[:end]
        scan.add(chunk[:end], MEASURES.of(chunk).first(end), first=number * CHUNK_ROWS, wanted=some)
    if gathered:
        _add_gathered(scan, vectors, gathered)


def _chunk_counts(wanted: OrdinalSet) -> Iterator[tuple[int, int]]:
    """The chunks that have a wanted row, and how many."""
    words = CHUNK_ROWS // 64
    counts = np.bitwise_count(wanted.words).astype(np.int64)
    if not len(counts):
        return
    sums = np.add.reduceat(counts, np.arange(0, len(counts), words))
    for number in np.flatnonzero(sums).tolist():
        yield number, int(sums[number])


def _add_gathered(scan: Scan, vectors: StoredVectors, parts: list[Ordinals]) -> None:
    ordinals = np.concatenate(parts)
    rows = vectors.rows(ordinals)
    scan.add(rows, measure(rows), ordinals=ordinals)


def rank_ordinals(
    vectors: StoredVectors, queries: Matrix, candidates: list[Ordinals], count: int, metric: Metric
) -> Neighbours:
    """The nearest among some candidates of each query, by their stored vectors; all of them must be present.

    Args:
        vectors: the column.
        queries: checked queries.
        candidates: for each query, ordinals in any order, twice or not.
        count: how many are wanted.
        metric: the metric.
    """
    if len(candidates) != len(queries):
        raise InputError(f"{len(candidates)} lists of candidates for {len(queries)} queries")
    best = Best(len(queries), count)
    asking = np.repeat(np.arange(len(queries)), [len(part) for part in candidates])
    ordinals = np.concatenate([*candidates, np.zeros(0, np.int64)])
    step = 16_384
    for start in range(0, len(ordinals), step):
        part = slice(start, start + step)
        ranks = rank_values(vectors.rows(ordinals[part]), queries[asking[part]], metric)
        best.offer(asking[part], ordinals[part], ranks)
    return best.neighbours(metric, max((len(part) for part in candidates), default=0))
