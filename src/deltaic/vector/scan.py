"""Exact search over blocks of rows: BLAS finds candidates, float64 decides.

Each block is multiplied with all queries by one float32 product of the BLAS; with a single query by a kernel of ours,
blocks side by side on several threads. A row is a candidate if its product, less the most
that float32 rounding can take or give (dimensions · 2⁻²⁴ of both lengths), may still be among the best; candidates are
asked again in float64 from the stored values. So the answer is exact, and does not depend on how rows lie in blocks, on
the number of queries, on threads or on the BLAS; equal scores are ordered by ordinal.

The work that is not the product is small: one comparison per score, and a few candidates per block once the best are
known. Many rows that are equally near are all candidates, and then it is slower.
"""

from dataclasses import dataclass, replace
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import nearest as kernel
from deltaic.vector.measures import Measures
from deltaic.vector.metric import Matrix, Metric, Scores, as_scores, rank_values
from deltaic.vector.threads import in_parallel

Ordinals = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SCORES_AT_ONCE = 1 << 17
"""Scores that are compared together: they stay in the cache between the product and the comparison."""
_ROWS_OF_A_MAXIMUM = 64
_VALUES_AT_ONCE = 1 << 22
_WAITING_BLOCKS = 64
"""Blocks whose rows are held for candidates that wait to be asked."""
_ROUNDING = 2.0**-24
_WIDE_ROUNDING = 2.0**-28
_UNDERFLOW = 2.0**-126
_NOTHING = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nearest rows of each query, nearest first; places beyond the last are -1 and NaN."""

    ordinals: Ordinals
    """One row for each query."""
    scores: Scores
    metric: Metric
    compared: int
    """How many products were formed for each query."""

    @property
    def distances(self) -> Scores:
        """The scores as distances: 1 - cosine, minus the dot product, the Euclidean distance."""
        return self.metric.distances(self.scores)

    def __len__(self) -> int:
        return len(self.ordinals)

    def of(self, query: int) -> tuple[Ordinals, Scores]:
        """The neighbours of one query, without empty places."""
        count = int((self.ordinals[query] >= 0).sum())
        return self.ordinals[query, :count], self.scores[query, :count]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows whose scores lie in the buffer from `start` on."""

    start: int
    rows: Matrix
    first: int
    ordinals: Ordinals | None
    wanted: Flags | None
    scale: NDArray[np.float32]
    shift: NDArray[np.float32]
    """What makes scores of the products, one number for each row, or none."""
    measures: Measures

    def ordinals_of(self, places: Ordinals) -> Ordinals:
        return places + self.first if self.ordinals is None else self.ordinals[places]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Candidates among the rows of a piece, each for one query, and their float32 scores."""

    piece: _Piece
    places: Ordinals
    asking: Ordinals
    scores: NDArray[np.float32]

    def kept(self, flags: Flags) -> "_Waiting":
        return _Waiting(self.piece, self.places[flags], self.asking[flags], self.scores[flags])


class Best:
    """The nearest rows that were met so far, for each query."""

    def __init__(self, queries: int, count: int) -> None:
        self.ranks = np.full((queries, count), -np.inf)
        self.ordinals = np.full((queries, count), -1, np.int64)
        self.full = np.zeros(queries, np.bool_)

    def offer(self, queries: Ordinals, ordinals: Ordinals, ranks: Scores) -> None:
        """Take in rows, each for one query; what is no number is left out, and a row twice counts once."""
        good = np.isfinite(ranks)
        if not good.all():
            queries, ordinals, ranks = queries[good], ordinals[good], ranks[good]
        if not len(queries):
            return
        count = self.ranks.shape[1]
        # Only queries that gain something are sorted again.
        gaining = np.zeros(len(self.ranks), np.bool_)
        gaining[queries] = True
        kept_query, kept_place = np.nonzero((self.ordinals >= 0) & gaining[:, None])
        queries = np.concatenate([kept_query, queries])
        ordinals = np.concatenate([self.ordinals[kept_query, kept_place], ordinals])
        ranks = np.concatenate([self.ranks[kept_query, kept_place], ranks])
        order = np.lexsort((ordinals, -ranks, queries))
        queries, ordinals, ranks = queries[order], ordinals[order], ranks[order]
        fresh = np.ones(len(queries), np.bool_)
        fresh[1:] = (queries[1:] != queries[:-1]) | (ordinals[1:] != ordinals[:-1])
        if not fresh.all():
            queries, ordinals, ranks = queries[fresh], ordinals[fresh], ranks[fresh]
        starts = np.flatnonzero(np.concatenate([[True], queries[1:] != queries[:-1]]))
        lengths = np.diff(np.append(starts, len(queries)))
        places = np.arange(len(queries)) - np.repeat(starts, lengths)
        chosen = places < count
        self.ordinals[queries[chosen], places[chosen]] = ordinals[chosen]
        self.ranks[queries[chosen], places[chosen]] = ranks[chosen]
        self.full[queries[starts]] = lengths >= count

    def neighbours(self, metric: Metric, compared: int) -> Neighbours:
        """What was found."""
        scores = np.full(self.ranks.shape, np.nan)
        there = self.ordinals >= 0
        scores[there] = as_scores(self.ranks[there], metric)
        return Neighbours(self.ordinals, scores, metric, compared)


class Scan:
    """One exact search, as a context: blocks are added one after the other inside, then it is finished.

    Args:
        queries: finite float32 rows.
        count: how many neighbours each query wants.
        metric: the metric.
    """

    def __init__(self, queries: Matrix, count: int, metric: Metric) -> None:
        self._queries, self._metric = queries, metric
        self._best = Best(len(queries), count)
        self._count = count
        wide = queries.astype(np.float64)
        self._lengths: Scores = np.sqrt((wide * wide).sum(axis=1))
        if metric is not Metric.L2:
            # Unit queries: products cannot overflow because of the query.
            wide = np.divide(wide, self._lengths[:, None], out=wide, where=self._lengths[:, None] != 0)
        with np.errstate(over="ignore"):
            factors = np.ascontiguousarray(wide.T, np.float32)
        self._alone = len(queries) == 1
        self._factors = factors.reshape(-1) if self._alone else factors
        self._scores = np.empty((0, len(queries)), np.float32)
        self._rows_at_once = max(1, _SCORES_AT_ONCE // max(1, len(queries)))
        self._pieces: list[_Piece] = []
        self._used, self._largest, self._odd = 0, 0.0, False
        self._room = _room(1024)
        self._lower = np.full(len(queries), -np.inf)
        """What the last of the wanted number reaches at least, on the scale of the float32 scores."""
        self._waiting: list[_Waiting] = []
        self._enough = 3 * max(1, self._best.ranks.size)
        self.compared = 0

    def __enter__(self) -> "Scan":
        # Rows with a NaN, an infinity or the largest numbers are dealt with; numpy need not tell of them.
        self._quiet = np.errstate(over="ignore", invalid="ignore")
        self._quiet.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._quiet.__exit__(kind, error, trace)

    def add(
        self,
        rows: Matrix,
        measures: Measures,
        *,
        first: int = 0,
        ordinals: Ordinals | None = None,
        wanted: Flags | None = None,
    ) -> None:
        """Look through a block of rows.

        Args:
            rows: the block, read while this scan goes on.
            measures: of these rows.
            first: the ordinal of the first row, where ordinals follow each other.
            ordinals: the ordinal of each row, where they do not.
            wanted: which rows count; all of them without it.
        """
        total = len(rows)
        if not total or not len(self._queries):
            return
        if self._used and self._used + total > self._rows_at_once:
            self._choose()
        if self._used + total > len(self._scores):
            self._scores = np.empty((max(total, self._rows_at_once), len(self._queries)), np.float32)
        scale = measures.inverse if self._metric is Metric.COSINE else _NOTHING
        shift = measures.half_squares if self._metric is Metric.L2 else _NOTHING
        piece = _Piece(self._used, rows, first, ordinals, wanted, scale, shift, measures)
        if not self._alone:
            self._multiply(piece)
        self._pieces.append(piece)
        self._odd = self._odd or len(measures.odd) > 0
        self._used += total
        self._largest = max(self._largest, measures.largest)
        self.compared += total
        if self._used >= self._rows_at_once:
            self._choose()

    def _multiply(self, piece: _Piece) -> None:
        """Form the products of a piece with all queries."""
        scores = self._scores[piece.start : piece.start + len(piece.rows)]
        if self._alone and piece.rows.flags.c_contiguous:
            # Twice as fast as the product of a matrix and a vector by OpenBLAS, and without its threads.
            kernel.products(piece.rows, self._factors, scores.reshape(-1))
        else:
            np.dot(piece.rows, self._factors, out=scores.reshape(-1) if self._alone else scores)
        if len(piece.measures.broken):
            scores[piece.measures.broken] = -np.inf
        if len(piece.measures.odd):
            # Above every bound, so that they are asked exactly.
            scores[piece.measures.odd] = np.inf

    def finish(self) -> Neighbours:
        """The nearest rows of everything that was added."""
        self._choose()
        self._trim()
        self._ask()
        return self._best.neighbours(self._metric, self.compared)

    def _margin(self) -> Scores:
        """By how much a float32 score may be off, at most, for each query."""
        dimensions = len(self._factors)
        share = 2 * (dimensions + 8) * _ROUNDING
        reach = self._lengths + self._largest
        if self._metric is Metric.COSINE:
            margin = np.full(len(self._lengths), share)
        elif self._metric is Metric.DOT:
            margin = np.full(len(self._lengths), share * self._largest)
        else:
            # The last term is what float64 itself loses when a long query stands far off.
            margin = share * (self._largest * reach + reach * reach * _WIDE_ROUNDING)
            # A query that overflows beside what is stored is asked of every row exactly.
            margin[self._lengths * max(self._largest, 1.0) > 1e30] = np.inf
        return margin + dimensions * _UNDERFLOW

    def _choose(self) -> None:
        """Find the candidates among the scores of the buffer, and begin a new buffer."""
        if not self._pieces:
            return
        if self._alone:
            in_parallel(self._multiply, self._pieces)
        scores = self._scores[: self._used]
        margin = self._margin()
        overflowing = np.isinf(margin)
        if overflowing.any():
            scores[:, overflowing] = np.inf
        fresh = np.isinf(self._lower)
        if fresh.any():
            self._pieces = [self._finished(piece) for piece in self._pieces]
            unbound = scores if fresh.all() else scores[:, fresh]
            self._lower[fresh] = self._first_bounds(unbound) - margin[fresh]
            self._lower[overflowing] = -np.inf
        limits = _rounded_down(self._lower - margin)
        for piece in self._pieces:
            self._wait(piece, limits)
        if self._waiting_count > self._enough or len(self._waiting) > _WAITING_BLOCKS:
            self._trim()
            if self._waiting_count > self._enough or len(self._waiting) > _WAITING_BLOCKS:
                self._ask()
        self._pieces, self._used, self._odd = [], 0, False

    def _finished(self, piece: _Piece) -> _Piece:
        """A piece whose products in the buffer were made scores."""
        scores = self._scores[piece.start : piece.start + len(piece.rows)]
        if len(piece.scale):
            scores *= piece.scale[:, None]
        if len(piece.shift):
            scores -= piece.shift[:, None]
        return replace(piece, scale=_NOTHING, shift=_NOTHING)

    def _scaled(self, ranks: Scores) -> Scores:
        """Exact ranks on the scale of the float32 scores."""
        if self._metric is Metric.COSINE:
            return ranks
        if self._metric is Metric.DOT:
            return ranks / np.where(self._lengths == 0, 1.0, self._lengths)
        return (ranks + self._lengths**2) / 2

    def _first_bounds(self, scores: NDArray[np.float32]) -> Scores:
        """A score that as many rows reach as are wanted, for queries that have not found as many yet."""
        if self._odd or any(piece.wanted is not None for piece in self._pieces):
            scores = scores.copy()
            scores[np.isinf(scores)] = -np.inf
            for piece in self._pieces:
                if piece.wanted is not None:
                    scores[piece.start : piece.start + len(piece.rows)][~piece.wanted] = -np.inf
        blocks = len(scores) // _ROWS_OF_A_MAXIMUM
        if blocks >= 2 * self._count:
            # So many blocks have a row as good as this; that it may be a little low costs a few candidates more.
            whole = scores[: blocks * _ROWS_OF_A_MAXIMUM]
            shape = (
                (blocks, _ROWS_OF_A_MAXIMUM) if scores.shape[1] == 1 else (blocks, _ROWS_OF_A_MAXIMUM, scores.shape[1])
            )
            scores = whole.reshape(shape).max(axis=1).reshape(blocks, -1)
        total = len(scores)
        if total <= self._count:
            return np.full(scores.shape[1], -np.inf)
        columns = np.ascontiguousarray(scores.T)
        found: Scores = np.partition(columns, total - self._count, axis=1)[:, total - self._count].astype(np.float64)
        return found

    def _wait(self, piece: _Piece, limits: NDArray[np.float32]) -> None:
        """Keep the candidates of a piece."""
        scores = self._scores[piece.start : piece.start + len(piece.rows)]
        while True:
            places, asking, found = self._room
            count = kernel.candidates(scores, piece.scale, piece.shift, limits, places, asking, found)
            if count <= len(places):
                break
            self._room = _room(count)
        if not count:
            return
        waiting = _Waiting(piece, places[:count].copy(), asking[:count].copy(), found[:count].copy())
        self._waiting.append(waiting if piece.wanted is None else waiting.kept(piece.wanted[waiting.places]))

    @property
    def _waiting_count(self) -> int:
        return sum(len(one.places) for one in self._waiting)

    def _trim(self) -> None:
        """Let the bounds rise by what waits, and drop what is below them."""
        if self._waiting_count <= self._best.ranks.size:
            return
        asking = np.concatenate([one.asking for one in self._waiting])
        scores = np.concatenate([one.scores for one in self._waiting])
        # Odd rows stand above every bound, but say nothing of where it should be.
        scores[np.isinf(scores)] = -np.inf
        order = np.lexsort((-scores, asking))
        asking, scores = asking[order], scores[order]
        starts = np.searchsorted(asking, np.arange(len(self._queries)))
        last = starts + self._count - 1
        there = last < np.append(starts[1:], len(asking))
        margin = self._margin()
        reached = scores[last[there]] - margin[there]
        self._lower[there] = np.maximum(self._lower[there], reached)
        limits = _rounded_down(self._lower - margin)
        kept = [one.kept(one.scores >= limits[one.asking]) for one in self._waiting]
        self._waiting = [one for one in kept if len(one.places)]

    def _ask(self) -> None:
        """Rank the candidates exactly."""
        if not self._waiting:
            return
        asking = np.concatenate([one.asking for one in self._waiting])
        ordinals = np.concatenate([one.piece.ordinals_of(one.places) for one in self._waiting])
        if asking.size * self._queries.shape[1] <= _VALUES_AT_ONCE:
            # Few of many blocks: put together first.
            rows = np.concatenate([one.piece.rows[one.places] for one in self._waiting])
            ranks = rank_values(rows, self._queries[asking], self._metric)
        else:
            ranks = np.concatenate([self._ranks(one) for one in self._waiting])
        self._best.offer(asking, ordinals, ranks)
        self._waiting = []
        full = self._best.full
        self._lower[full] = np.maximum(self._lower, self._scaled(self._best.ranks[:, -1]))[full]

    def _ranks(self, one: _Waiting) -> Scores:
        ranks = np.empty(len(one.places), np.float64)
        step = max(1, _VALUES_AT_ONCE // self._queries.shape[1])
        for start in range(0, len(ranks), step):
            part = slice(start, start + step)
            ranks[part] = rank_values(one.piece.rows[one.places[part]], self._queries[one.asking[part]], self._metric)
        return ranks


def _room(count: int) -> tuple[Ordinals, Ordinals, NDArray[np.float32]]:
    """Memory for so many candidates: rows, queries, scores."""
    return np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.float32)


def _rounded_down(bounds: Scores) -> NDArray[np.float32]:
    """As float32, so that a bound never passes over what it should let through."""
    return np.nextafter(bounds.astype(np.float32), np.float32(-np.inf))
