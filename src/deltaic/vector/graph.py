"""The graph behind approximate search: usearch's HNSW, with ordinals as its keys.

What usearch stores is a copy of each vector, by cosine scaled to length 1 and in half precision. Distances of the graph
only choose candidates; their scores are always taken from the column. Vectors of zeros (by cosine) and vectors with a
NaN or an infinity have no place in it.
"""

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError, MissingExtraError
from deltaic.vector.metric import Matrix, Metric

Ordinals = NDArray[np.int64]

_KINDS = {Metric.COSINE: ("cos", "f16"), Metric.DOT: ("ip", "f32"), Metric.L2: ("l2sq", "f32")}
_BATCH = 128
"""Nodes that are placed before a search gets its turn."""


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """How an approximate index is built and kept.

    Raises:
        InputError: a number that cannot be.
    """

    connectivity: int = 16
    """Links of a node; more of them find more and take more memory."""
    expansion_add: int = 128
    """How many nodes are looked at to place one."""
    expansion_search: int = 64
    """How many nodes are looked at to answer a query; raised by itself where the recall is too low."""
    change_bound: float = 0.1
    """A node is placed anew once its vector is farther from the placed one than this share of its length."""
    recall_floor: float = 0.95
    """Below this measured recall the search looks at more nodes, and at last the graph is built anew."""
    recall_sample: int = 64
    """How many stored vectors the recall is measured with after each update; 0 measures none."""
    threads: int = 1
    """Threads that build. With more than one, usearch may leave single nodes that no search reaches."""
    seed: int = 0
    """Chooses the sample."""

    def __post_init__(self) -> None:
        if min(self.connectivity, self.expansion_add, self.expansion_search, self.threads) < 1:
            raise InputError("connectivity, expansion_add, expansion_search and threads are at least 1")
        if not (0 <= self.change_bound and 0 <= self.recall_floor <= 1 and self.recall_sample >= 0):
            raise InputError("change_bound and recall_sample are at least 0, recall_floor is between 0 and 1")


class Graph:
    """A graph over vectors by ordinal. Safe to use from many threads: one at a time gets in.

    Args:
        dimensions: of the vectors.
        metric: what it is built for.
        options: how.

    Raises:
        MissingExtraError: usearch is not installed.
    """

    def __init__(self, dimensions: int, metric: Metric, options: GraphOptions) -> None:
        try:
            from usearch.index import Index
        except ImportError:
            raise MissingExtraError("approximate search", "vector") from None
        kind, precision = _KINDS[metric]
        self.dimensions, self.metric, self._threads = dimensions, metric, options.threads
        self._index: Any = Index(
            ndim=dimensions,
            metric=kind,
            dtype=precision,
            connectivity=options.connectivity,
            expansion_add=options.expansion_add,
            expansion_search=options.expansion_search,
        )
        # usearch lets a search and an insertion meet only while no memory is taken; a lock is simpler to be sure of.
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self._index.memory_usage)

    def prepared(self, rows: Matrix) -> tuple[Matrix, NDArray[np.bool_]]:
        """Rows as the graph stores them, and which of them have a place in it."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.metric is not Metric.COSINE:
                return rows, np.asarray(np.isfinite(rows).all(axis=1))
            lengths = np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1))
            placed = np.isfinite(lengths) & (lengths > 0)
            lengths[~placed] = 1
            return (rows / lengths[:, None]).astype(np.float32), placed

    def add(self, ordinals: Ordinals, rows: Matrix) -> int:
        """Place vectors of ordinals that the graph does not have; gives how many."""
        rows, placed = self.prepared(rows)
        if not placed.all():
            ordinals, rows = ordinals[placed], rows[placed]
        for start in range(0, len(ordinals), _BATCH):
            part = slice(start, start + _BATCH)
            with self.lock:
                self._index.add(ordinals[part].astype(np.uint64), rows[part], threads=self._threads)
        return len(ordinals)

    def remove(self, ordinals: Ordinals) -> int:
        """Take ordinals out, as far as they are there; gives how many."""
        removed = 0
        for start in range(0, len(ordinals), _BATCH):
            with self.lock:
                keys = ordinals[start : start + _BATCH].astype(np.uint64)
                keys = keys[self._index.contains(keys)]
                if len(keys):
                    self._index.remove(keys)
                removed += len(keys)
        return removed

    def rename(self, ordinals: Ordinals, others: Ordinals) -> None:
        """Let nodes stand for other ordinals, which the graph does not have."""
        if len(ordinals):
            with self.lock:
                self._index.rename(ordinals.astype(np.uint64), others.astype(np.uint64))

    def has(self, ordinals: Ordinals) -> NDArray[np.bool_]:
        """Which ordinals the graph has."""
        if not len(ordinals):
            return np.zeros(0, np.bool_)
        with self.lock:
            found: NDArray[np.bool_] = np.asarray(self._index.contains(ordinals.astype(np.uint64)), np.bool_)
        return found

    def stored(self, ordinals: Ordinals) -> Matrix:
        """What the graph has for ordinals; all of them must be there."""
        if not len(ordinals):
            return np.zeros((0, self._index.ndim), np.float32)
        with self.lock:
            return np.vstack(self._index.get(ordinals.astype(np.uint64))).astype(np.float32)

    def search(self, queries: Matrix, count: int, expansion: int) -> list[Ordinals]:
        """For each query ordinals that are near, in no promised order."""
        if not len(self._index) or not len(queries):
            return [np.zeros(0, np.int64) for _ in queries]
        asked, _ = self.prepared(queries)
        with self.lock:
            self._index.expansion_search = max(expansion, count)
            found = self._index.search(asked, count, threads=1 if len(queries) < 8 else 0)
        keys = found.keys.astype(np.int64).reshape(len(queries), -1)
        counts = [keys.shape[1]] if keys.shape[0] == 1 else np.asarray(found.counts).tolist()
        return [row[:total] for row, total in zip(keys, counts, strict=True)]
