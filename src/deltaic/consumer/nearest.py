"""The nearest records by a vector column, in the version that a consumer has loaded.

    consumer.nearest("Movie", "embedding", query, 10, where={"year": 1999})
    consumer.nearest("Movie", "embedding", like=7)             # more like the movie with the key 7
    consumer.nearest("Movie", "embedding", query, index="hnsw")

The search is exact unless an index is asked for. An index is built in the background on first use and follows each
refresh; until it is ready, and wherever it would not be faster, the answer is exact.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.arrow import ArrowTable
from deltaic.consumer.changes import Changes
from deltaic.consumer.listener import RefreshListener
from deltaic.consumer.report import Refresh
from deltaic.errors import InputError, MissingKeyError, NotFoundError
from deltaic.index.catalog import Lookup
from deltaic.index.tables import KeylessTable, Selection, TypeTable
from deltaic.state.bitset import OrdinalSet
from deltaic.state.vector_column import StoredVectors
from deltaic.state.view import TypeView
from deltaic.vector.approximate import ApproximateIndex
from deltaic.vector.graph import GraphOptions
from deltaic.vector.metric import Metric, as_queries, check_count
from deltaic.vector.nearest import nearest_rows
from deltaic.vector.scan import Neighbours


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A record that is near."""

    score: float
    """Larger is nearer: the cosine, the dot product, or minus the Euclidean distance."""
    distance: float
    """Smaller is nearer: 1 - cosine, minus the dot product, or the Euclidean distance."""
    record: Any
    ordinal: int


@dataclass(frozen=True, slots=True)
class Nearest(Sequence[Neighbour]):
    """The records that are nearest, nearest first."""

    found: tuple[Neighbour, ...]
    metric: Metric
    way: str
    """How they were found: `exact`, `hnsw`, or `exact` with the reason why the index was not used."""
    version: int
    """The version of the records."""
    view: TypeView = field(repr=False)

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, place: int) -> Neighbour: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Neighbour, ...]: ...
    def __getitem__(self, place: int | slice) -> Neighbour | tuple[Neighbour, ...]:
        return self.found[place]

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self.found)

    @property
    def records(self) -> tuple[Any, ...]:
        """The records alone."""
        return tuple(one.record for one in self.found)

    @property
    def ordinals(self) -> NDArray[np.int64]:
        """The ordinals of the records."""
        return np.array([one.ordinal for one in self.found], np.int64)

    @property
    def scores(self) -> list[float]:
        """The scores alone."""
        return [one.score for one in self.found]

    @property
    def distances(self) -> list[float]:
        """The distances alone."""
        return [one.distance for one in self.found]

    def to_arrow(self, **options: Any) -> ArrowTable:
        """The records as Arrow rows, nearest first; options as for `TypeView.to_arrow`."""
        return self.view.to_arrow(ordinals=self.ordinals, **options)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class NearestIndexes(RefreshListener):
    """The approximate indexes of a consumer: made when they are first asked for, brought on after each refresh."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str, Metric], ApproximateIndex] = {}

    def get(
        self,
        type_name: str,
        field_name: str,
        metric: Metric,
        column: StoredVectors,
        options: GraphOptions | None = None,
    ) -> ApproximateIndex:
        """The index of a column, told of this version of it.

        Raises:
            InputError: it is there already with other options.
            MissingExtraError: usearch is not installed.
        """
        name = (type_name, field_name, metric)
        index = self._made.get(name)
        if index is None:
            made = ApproximateIndex(metric, options)
            # Told first: without usearch it is refused, and nothing should follow refreshes.
            made.follow(column)
            index = self._made.setdefault(name, made)
            if index is not made:
                made.close()
        if options is not None and index.options != options:
            raise InputError(f"the index of {type_name}.{field_name} by {metric} is there with other options")
        if index.error is None or index.ready:
            index.follow(column)
        return index

    def all(self) -> Mapping[tuple[str, str, Metric], ApproximateIndex]:
        """The indexes by type, field and metric."""
        return dict(self._made)

    def after(self, refresh: Refresh, changes: Changes) -> None:
        """Bring the indexes to the version that was loaded."""
        for (type_name, field_name, _), index in list(self._made.items()):
            column = changes.after.vectors.get((type_name, field_name))
            if column is not None:
                index.follow(column)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a search is over: the records of a type, one vector column, and which records count."""

    version: int
    records: TypeTable | KeylessTable
    field_name: str
    column: StoredVectors
    metric: Metric
    where: OrdinalSet | None
    index: ApproximateIndex | None

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[Neighbours, str]:
        """The neighbours of checked queries, and how they were found."""
        if self.index is None:
            return nearest_rows(self.column, queries, k, self.metric, self.where), "exact"
        answer = self.index.search(self.column, queries, k, where=self.where)
        return answer.neighbours, answer.way

    def shown(self, neighbours: Neighbours, way: str, k: int, passed: Sequence[int] | None = None) -> list[Nearest]:
        """Neighbours as records; for each query one ordinal may be passed over."""
        view = self.records.view
        results = []
        for query in range(len(neighbours)):
            ordinals, scores = neighbours.of(query)
            if passed is not None:
                kept = ordinals != passed[query]
                ordinals, scores = ordinals[kept], scores[kept]
            distances = self.metric.distances(scores[:k]).tolist()
            found = tuple(
                Neighbour(score, distance, view[ordinal], ordinal)
                for score, distance, ordinal in zip(scores[:k].tolist(), distances, ordinals[:k].tolist(), strict=True)
            )
            results.append(Nearest(found, self.metric, way, self.version, view))
        return results


def asked(
    version: int,
    lookup: Lookup,
    indexes: NearestIndexes | None,
    type_name: str,
    field_name: str,
    *,
    where: Any,
    metric: Metric | str,
    index: str,
) -> Asked:
    """What a search is over.

    Raises:
        NotFoundError: there is no such type or vector column in the loaded version.
        InputError: an unknown metric or way, or a filter that is none.
        MissingExtraError: an index is asked for and usearch is not installed.
    """
    if index not in ("exact", "hnsw"):
        raise InputError(f"index is 'exact' or 'hnsw', not {index!r}")
    metric = Metric.named(metric)
    records = lookup[type_name]
    column = records.view.vectors(field_name)
    graph = None if indexes is None else indexes.get(type_name, field_name, metric, column)
    return Asked(version, records, field_name, column, metric, wanted_ordinals(records, where), graph)


def wanted_ordinals(records: TypeTable | KeylessTable, where: Any) -> OrdinalSet | None:
    """The ordinals that a filter lets through; None for all.

    A filter is a mapping of conditions as for `where(…)`, what `where(…)` gave, a set of ordinals, or a list of keys.

    Raises:
        InputError: it is none of these, or of another version or type.
    """
    if where is None or isinstance(where, OrdinalSet):
        return where
    if isinstance(where, Mapping):
        return OrdinalSet.from_ordinals(records.where(where).ordinals)
    if isinstance(where, Selection):
        if where.view is not records.view:
            raise InputError(
                f"the filter was chosen from other records than the {records.name} of the loaded version: choose again"
            )
        return OrdinalSet.from_ordinals(where.ordinals)
    if isinstance(where, str | bytes) or not isinstance(where, Sequence | set | frozenset | np.ndarray):
        raise InputError(
            "where is a mapping of conditions, a selection, a set of ordinals or a list of keys, not "
            f"{type(where).__name__}"
        )
    keys = list(where) if isinstance(where, set | frozenset) else where
    found = records.find(keys) if len(keys) else np.zeros(0, np.int64)
    return OrdinalSet.from_ordinals(found[found >= 0])


def nearest_to(what: Asked, query: Any, k: Any) -> Nearest:
    """The nearest records to one query."""
    k = check_count(k)
    queries, single = as_queries(query, what.column.dimensions, what.metric)
    if not single:
        raise InputError("several queries are asked by nearest_many", "DimensionMismatch")
    return what.shown(*what.search(queries, k), k)[0]


def nearest_to_many(what: Asked, queries: Any, k: Any) -> list[Nearest]:
    """The nearest records to each of several queries."""
    k = check_count(k)
    matrix, single = as_queries(queries, what.column.dimensions, what.metric)
    if single and matrix.size:
        raise InputError("one query is asked by nearest; several are rows of a matrix", "DimensionMismatch")
    return what.shown(*what.search(matrix, k), k)


def nearest_like(what: Asked, keys: Sequence[Any], k: Any) -> list[Nearest]:
    """For each key the records nearest to the one with that key, without itself.

    Raises:
        MissingKeyError: no record has the key.
        NotFoundError: the record has no vector.
        InputError: the type has no key, or the vector is none to search with.
    """
    k = check_count(k)
    ordinals = what.records.find(list(keys))
    for key, ordinal in zip(keys, ordinals.tolist(), strict=True):
        if ordinal < 0:
            raise MissingKeyError(what.records.name, key)
        if ordinal not in what.column.present:
            raise NotFoundError(f"the {what.records.name} with the key {key!r} has no {what.field_name}")
    queries, _ = as_queries(what.column.rows(ordinals), what.column.dimensions, what.metric)
    return what.shown(*what.search(queries, k + 1), k, ordinals.tolist())
