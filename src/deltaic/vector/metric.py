"""What near means: the metrics, their exact scores, and which queries are none.

A score is larger for what is nearer: the cosine, the dot product, or minus the Euclidean distance. Exact scores are
float64 sums over the stored float32 values, so equal vectors have equal scores wherever they are stored. A stored
vector of zeros has the cosine 0 to everything; one with a NaN or an infinity is near to nothing and never found.
"""

from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError

Matrix = NDArray[np.float32]
Scores = NDArray[np.float64]

_VALUES_AT_ONCE = 1 << 20


class Metric(StrEnum):
    """How far two vectors are apart."""

    COSINE = "cosine"
    """By the angle between them; their lengths do not matter."""
    DOT = "dot"
    """By their dot product: the longer a vector, the nearer it can be."""
    L2 = "l2"
    """By the Euclidean distance."""

    @classmethod
    def named(cls, name: "str | Metric") -> "Metric":
        """The metric of a name.

        Raises:
            InputError: there is none of that name.
        """
        try:
            return cls(name)
        except ValueError:
            raise InputError(f"metric is cosine, dot or l2, not {name!r}", "UnknownMetric") from None

    def distances(self, scores: Scores) -> Scores:
        """Scores as distances: 1 - cosine, minus the dot product, the Euclidean distance."""
        return 1.0 - scores if self is Metric.COSINE else -scores


def as_queries(query: Any, dimensions: int, metric: Metric) -> tuple[Matrix, bool]:
    """Queries as a matrix, and whether it was a single one.

    Args:
        query: one vector, or several as rows: an array, a list, or what numpy takes for one.
        dimensions: how many values a vector has.
        metric: what they are asked by.

    Raises:
        InputError: another size, something that is no number, a NaN or an infinity; or, by cosine, a vector of zeros,
            which has no direction.
    """
    try:
        with np.errstate(over="ignore"):
            given = np.asarray(query)
            if given.dtype.kind not in "fiub" and given.size:
                raise TypeError(f"{given.dtype}")
            matrix = np.ascontiguousarray(given, np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"a query is an array of numbers, not {type(query).__name__}: {error}", "BadQuery") from error
    single = matrix.ndim == 1
    matrix = matrix.reshape(1, -1) if single else matrix
    if matrix.ndim != 2 or matrix.shape[1] != dimensions:
        shape = " × ".join(map(str, given.shape))
        raise InputError(f"the query has the shape {shape}; vectors here have {dimensions} values", "DimensionMismatch")
    if not np.isfinite(matrix).all():
        row, place = (int(one[0]) for one in np.nonzero(~np.isfinite(matrix)))
        which = "the query" if single else f"query {row}"
        raise InputError(f"{which} is not a number, or too large for one, at dimension {place}", "NotFinite")
    if metric is Metric.COSINE and not matrix.any(axis=1).all():
        row = int(np.flatnonzero(~matrix.any(axis=1))[0])
        which = "the query" if single else f"query {row}"
        raise InputError(f"{which} is all zeros: it has no direction to compare by cosine", "ZeroQuery")
    return matrix, single


def check_count(count: Any) -> int:
    """How many neighbours are wanted: at least 1.

    Raises:
        InputError: it is not a whole number from 1 on.
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise InputError(f"k is a whole number from 1 on, not {count!r}")
    return int(count)


def rank_values(rows: Matrix, queries: Matrix, metric: Metric) -> Scores:
    """How each row ranks for the query beside it: larger is nearer. As scores, but by L2 minus the squared distance.

    Args:
        rows: stored vectors.
        queries: as many queries.
        metric: the metric.
    """
    found = np.empty(len(rows), np.float64)
    step = max(1, _VALUES_AT_ONCE // max(1, rows.shape[1]))
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            found[part] = _rank(rows[part].astype(np.float64), queries[part].astype(np.float64), metric)
    return found


def _rank(rows: Scores, queries: Scores, metric: Metric) -> Scores:
    if metric is Metric.L2:
        rows -= queries
        return -_sums(rows * rows)
    products = _sums(rows * queries)
    if metric is Metric.DOT:
        return products
    lengths = np.sqrt(_sums(rows * rows)) * np.sqrt(_sums(queries * queries))
    cosines: Scores = np.divide(products, lengths, out=np.zeros(len(products)), where=lengths != 0)
    return np.clip(cosines, -1.0, 1.0)


def _sums(values: Scores) -> Scores:
    total: Scores = values.sum(axis=1)
    return total


def as_scores(ranks: Scores, metric: Metric) -> Scores:
    """Values of `rank_values` as scores."""
    if metric is not Metric.L2:
        return ranks
    scores: Scores = -np.sqrt(-ranks)
    return scores
