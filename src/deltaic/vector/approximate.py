"""Approximate search over a vector column: a graph that is built once in the background and then follows.

    index = ApproximateIndex("cosine")
    index.follow(column)                  # begins to build; searches are exact until it is ready
    index.search(column, query, 10)
    index.follow(next_column)             # the graph is brought on by what changed
    index.counts                          # builds, updates, nodes placed anew, measured recall

A search is always about the column that it is given. What the graph does not know of it yet is asked exactly beside the
graph, and every score comes from the column itself, so an answer is never out of date; it can only lack a neighbour.
"""

import logging
import os
import threading
import time
import weakref
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deltaic.state.bitset import OrdinalSet
from deltaic.state.vector_column import StoredVectors
from deltaic.vector.differences import differences
from deltaic.vector.graph import Graph, GraphOptions, Ordinals
from deltaic.vector.metric import Matrix, Metric, as_queries, check_count
from deltaic.vector.nearest import nearest_rows, rank_ordinals
from deltaic.vector.repair import Repair, repair
from deltaic.vector.scan import Neighbours

log = logging.getLogger("deltaic.vector")

EXACT_BELOW = 5_000
"""Where so few vectors are wanted, they are compared one by one: a graph would not be faster."""

_FETCHED_AT_MOST = 4_096
_WIDEST = 512
_MEASURED_NEIGHBOURS = 10
_ASKED_SHARE = 10
"""More than one vector in so many that the graph does not know: the search is exact."""


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """What an approximate index did so far, and how good it is."""

    vectors: int = 0
    """Nodes of the graph."""
    builds: int = 0
    """How often the graph was built from nothing."""
    updates: int = 0
    """How often it was brought on by what changed."""
    added: int = 0
    removed: int = 0
    renamed: int = 0
    """Nodes that were kept for a record that got another ordinal."""
    reinserted: int = 0
    """Nodes that were placed anew, because their vectors changed by more than the bound."""
    left: int = 0
    """Nodes that stayed although their vectors changed a little."""
    recall: float | None = None
    """The share of the true neighbours that it found when it was last measured."""
    expansion_search: int = 0
    """How many nodes a search looks at."""
    build_seconds: float = 0.0
    update_seconds: float = 0.0
    size_bytes: int = 0

    def with_repair(self, done: Repair) -> "IndexCounts":
        """The counts after an update."""
        return replace(
            self,
            updates=self.updates + 1,
            added=self.added + done.added,
            removed=self.removed + done.removed,
            renamed=self.renamed + done.renamed,
            reinserted=self.reinserted + done.reinserted,
            left=self.left + done.left,
        )


@dataclass(frozen=True, slots=True)
class ApproximateAnswer:
    """What was found, and how."""

    neighbours: Neighbours
    way: str
    """`hnsw`, or `exact` with the reason."""


class ApproximateIndex:
    """An approximate index of one vector column, over all its versions. Safe to use from many threads.

    Args:
        metric: cosine, dot or l2.
        options: how the graph is built and kept.
        background: whether `follow` returns at once and a thread does the work.
    """

    def __init__(
        self, metric: Metric | str = Metric.COSINE, options: GraphOptions | None = None, *, background: bool = True
    ) -> None:
        self.metric = Metric.named(metric)
        self.options = options or GraphOptions()
        self.background = background
        self.counts = IndexCounts(expansion_search=self.options.expansion_search)
        """What it did so far; replaced, never changed."""
        self.error: str | None = None
        """Why the graph could not be made or brought on, if so; searches are exact then."""
        self._graph: Graph | None = None
        self._at: StoredVectors | None = None
        self._wanted: StoredVectors | None = None
        self._underway: Ordinals = np.zeros(0, np.int64)
        self._unknown: tuple[weakref.ref[StoredVectors], weakref.ref[StoredVectors], Ordinals] | None = None
        self._state = threading.Condition()
        self._job: threading.Thread | None = None
        self._closed = False
        _indexes.add(self)

    # Following.

    def follow(self, vectors: StoredVectors) -> None:
        """Be an index of this version of the column as soon as possible.

        Raises:
            MissingExtraError: usearch is not installed.
        """
        if self._graph is None:
            Graph(vectors.dimensions, self.metric, self.options)
        with self._state:
            self._wanted = vectors
            if self._at is vectors or self._closed or self._job is not None:
                return
            if self.background:
                # It ends with the process, as nothing is lost with it.
                self._job = threading.Thread(target=self._work, name="deltaic-nearest", daemon=True)
                self._job.start()
                return
        self._work()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until nothing is done in the background; True if the graph is at the version asked for last."""
        with self._state:
            self._state.wait_for(lambda: self._job is None, timeout_seconds)
            return self._job is None and self._at is not None and self._at is self._wanted

    @property
    def ready(self) -> bool:
        """True if there is a graph; it may be at an earlier version."""
        return self._graph is not None

    def close(self) -> None:
        """Stop the work in the background and let the graph go."""
        with self._state:
            self._closed = True
            self._graph = self._at = self._wanted = None
            self._state.notify_all()

    def _work(self) -> None:
        while True:
            with self._state:
                wanted, at = self._wanted, self._at
                if self._closed or wanted is None or wanted is at:
                    self._job = None
                    self._state.notify_all()
                    return
            try:
                self._bring_to(wanted, at)
            except Exception as error:
                log.exception("an approximate index could not be brought on")
                with self._state:
                    self.error = str(error) or type(error).__name__
                    self._graph = self._at = None
                    self._underway = np.zeros(0, np.int64)
                    if self._wanted is wanted:
                        self._job = None
                        self._state.notify_all()
                        return

    def _bring_to(self, wanted: StoredVectors, at: StoredVectors | None) -> None:
        graph = self._graph
        if graph is None or at is None or at.dimensions != wanted.dimensions:
            self._build(wanted)
            return
        started = time.perf_counter()
        found = differences(at, wanted)
        with self._state:
            self._underway = np.concatenate([found.removed, found.added, found.changed])
        done = repair(graph, at, wanted, found, self.options.change_bound)
        seconds = time.perf_counter() - started
        self.counts = replace(self.counts.with_repair(done), update_seconds=self.counts.update_seconds + seconds)
        self._swap(graph, wanted)
        log.debug("approximate index brought on in %.3f s: %s", seconds, done)
        if not self._good_enough(wanted):
            log.info("recall %.3f is below %.3f: built anew", self.counts.recall, self.options.recall_floor)
            self._build(wanted)

    def _build(self, wanted: StoredVectors) -> None:
        started = time.perf_counter()
        graph = Graph(wanted.dimensions, self.metric, self.options)
        ordinals = wanted.present.ordinals()
        step = 4_096
        for start in range(0, len(ordinals), step):
            if self._closed:
                return
            part = ordinals[start : start + step]
            graph.add(part, wanted.rows(part))
        self.counts = replace(
            self.counts,
            builds=self.counts.builds + 1,
            build_seconds=self.counts.build_seconds + time.perf_counter() - started,
            expansion_search=self.options.expansion_search,
        )
        self._swap(graph, wanted)
        self._good_enough(wanted)

    def _swap(self, graph: Graph, at: StoredVectors) -> None:
        with self._state:
            if self._closed:
                return
            self._graph, self._at, self._underway, self.error = graph, at, np.zeros(0, np.int64), None
            self.counts = replace(self.counts, vectors=len(graph), size_bytes=graph.nbytes)

    # How good it is.

    def _good_enough(self, vectors: StoredVectors) -> bool:
        """Measure; look at more nodes where too little is found. False if that does not help."""
        if not self.options.recall_sample:
            return True
        while True:
            recall = self.measured_recall(vectors, self.options.recall_sample)
            self.counts = replace(self.counts, recall=recall)
            if recall is None or recall >= self.options.recall_floor:
                return True
            if self.counts.expansion_search >= _WIDEST:
                return False
            self.counts = replace(self.counts, expansion_search=min(_WIDEST, self.counts.expansion_search * 2))

    def measured_recall(
        self, vectors: StoredVectors, sample: int = 64, k: int = _MEASURED_NEIGHBOURS, *, queries: Any = None
    ) -> float | None:
        """The share of the true `k` nearest that the graph finds: of some stored vectors, or of given queries.

        A neighbour as near as the last of the true ones counts as found. None without a graph or without vectors.
        """
        graph = self._graph
        if graph is None or not len(graph) or graph.dimensions != vectors.dimensions:
            return None
        if queries is None:
            ordinals = vectors.present.ordinals()
            generator = np.random.default_rng(self.options.seed)
            rows = vectors.rows(np.sort(generator.choice(ordinals, min(sample, len(ordinals)), replace=False)))
            asked = rows[graph.prepared(rows)[1]]
        else:
            asked, _ = as_queries(queries, vectors.dimensions, self.metric)
        if not len(asked):
            return None
        true = nearest_rows(vectors, asked, k, self.metric)
        found = self._candidates(graph, vectors, asked, k, None)
        near = rank_ordinals(vectors, asked, found, k, self.metric)
        there = true.ordinals >= 0
        if not there.any():
            return None
        last = np.where(there, true.scores, np.inf).min(axis=1, keepdims=True)
        hits = np.minimum((near.scores >= last).sum(axis=1), there.sum(axis=1))
        return float(hits.sum() / there.sum())

    # Searching.

    def search(
        self, vectors: StoredVectors, query: Any, k: int = 10, *, where: OrdinalSet | None = None
    ) -> ApproximateAnswer:
        """The nearest vectors of a column, most of them with certainty.

        Args:
            vectors: the column, at any version.
            query: one vector, or several as rows.
            k: how many.
            where: only these ordinals.

        Raises:
            InputError: as for `nearest`.
        """
        queries, _ = as_queries(query, vectors.dimensions, self.metric)
        count = check_count(k)
        wanted = vectors.present if where is None else vectors.present.intersection(where)
        graph, reason = self._graph, None
        unknown = np.zeros(0, np.int64)
        if graph is None:
            reason = "the index is not ready" if self.error is None else self.error
        elif graph.dimensions != vectors.dimensions:
            reason = f"the index is of vectors of {graph.dimensions} dimensions"
        elif len(wanted) <= max(EXACT_BELOW, 4 * count) or len(wanted) * 20 < len(vectors):
            reason = f"{len(wanted):,} vectors are few"
        elif 2 * count > _FETCHED_AT_MOST:
            reason = f"k is {count:,}"
        else:
            unknown = self._unknown_to_graph(vectors)
            if len(unknown) * _ASKED_SHARE > len(wanted):
                reason = f"{len(unknown):,} vectors are new to the index"
        if reason is not None or graph is None:
            return ApproximateAnswer(nearest_rows(vectors, queries, count, self.metric, where), f"exact: {reason}")
        candidates = self._candidates(graph, vectors, queries, count, None if where is None else wanted)
        if len(unknown):
            unknown = unknown[wanted.flags(int(unknown.max()) + 1)[unknown]]
            candidates = [np.concatenate([part, unknown]) for part in candidates]
        found = rank_ordinals(vectors, queries, candidates, count, self.metric)
        lacking = np.flatnonzero((found.ordinals >= 0).sum(axis=1) < min(count, len(wanted)))
        if len(lacking):
            # Few neighbours went through the filter.
            exact = nearest_rows(vectors, queries[lacking], count, self.metric, where)
            width = exact.ordinals.shape[1]
            found.ordinals[lacking, :width], found.scores[lacking, :width] = exact.ordinals, exact.scores
            return ApproximateAnswer(found, f"hnsw, {len(lacking)} of {len(queries)} exact: the filter left too few")
        return ApproximateAnswer(found, "hnsw")

    def _candidates(
        self, graph: Graph, vectors: StoredVectors, queries: Matrix, count: int, wanted: OrdinalSet | None
    ) -> list[Ordinals]:
        """Ordinals near each query that are there, and wanted."""
        # More than asked for: nodes stand where their vectors were when they were placed.
        fetched = 2 * count + 8
        if wanted is not None:
            fetched = fetched * max(1, len(vectors)) // max(1, len(wanted))
        fetched = min(fetched, _FETCHED_AT_MOST)
        found = graph.search(queries, fetched, self.counts.expansion_search)
        allowed = vectors.present if wanted is None else wanted
        flags = allowed.flags(max(allowed.max(), max((int(part.max(initial=-1)) for part in found), default=-1)) + 1)
        return [part[flags[part]] for part in found]

    def _unknown_to_graph(self, vectors: StoredVectors) -> Ordinals:
        """Ordinals whose vectors the graph may have otherwise, or not have."""
        with self._state:
            at, underway, known = self._at, self._underway, self._unknown
        if at is None:
            return vectors.present.ordinals()
        if at is vectors:
            found = np.zeros(0, np.int64)
        elif known is not None and known[0]() is at and known[1]() is vectors:
            found = known[2]
        else:
            found = differences(at, vectors).to_ask
            with self._state:
                self._unknown = (weakref.ref(at), weakref.ref(vectors), found)
        return np.union1d(found, underway) if len(underway) else found

    def _forked(self) -> None:
        """In a child: the thread is not there, and a graph that was being changed cannot be trusted."""
        if self._graph is not None and (self._graph.lock.locked() or len(self._underway)):
            self._graph = self._at = None
        self._underway = np.zeros(0, np.int64)
        self._state, self._job = threading.Condition(), None


_indexes: "weakref.WeakSet[ApproximateIndex]" = weakref.WeakSet()


def _after_fork() -> None:
    for index in list(_indexes):
        index._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
