"""The searches of a consumer that know vectors: nearest records, and text and vectors together."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from deltaic.consumer.listener import Listeners
from deltaic.consumer.refresh import Loaded
from deltaic.errors import InputError

if TYPE_CHECKING:
    from deltaic.consumer.hybrid import HybridHits
    from deltaic.consumer.nearest import Asked, Nearest, NearestIndexes
    from deltaic.consumer.searching import Hits
    from deltaic.vector.approximate import ApproximateIndex
    from deltaic.vector.graph import GraphOptions
    from deltaic.vector.metric import Metric

IndexChoice = Literal["exact", "hnsw"]
"""How neighbours are looked for."""

_making = threading.Lock()


class VectorSearch:
    """What a consumer can be asked by vectors; a part of `Consumer`."""

    _listeners: Listeners
    _nearest_indexes: "NearestIndexes | None" = None

    @property
    def loaded(self) -> Loaded:
        """Version and state together, as they were swapped."""
        raise NotImplementedError

    def _search_in(self, loaded: Loaded, type_name: str, query: Any, options: dict[str, Any]) -> "Hits":
        raise NotImplementedError

    def nearest(
        self,
        type_name: str,
        field: str,
        query: Any = None,
        k: int = 10,
        *,
        like: Any = None,
        where: Any = None,
        metric: "Metric | str" = "cosine",
        index: IndexChoice = "exact",
    ) -> "Nearest":
        """The records of a type whose vectors are nearest, at the version that is loaded.

        Args:
            type_name: the type.
            field: its vector column.
            query: a vector, of as many numbers as those of the column.
            k: how many records; fewer come where there are not as many.
            like: in place of a query, the key of a record: those nearest to it, without itself.
            where: only records that fulfil it: conditions as `consumer[type].where` takes them, in a mapping; what that
                gave; a set of ordinals; or a list of keys.
            metric: `cosine`, `dot` or `l2`.
            index: `exact` compares with every vector; `hnsw` asks an approximate index, which is built in the
                background on first use and follows refreshes. Until it is ready the search is exact.

        Raises:
            NotFoundError: there is no such type or vector column in the loaded version, or no record like that.
            InputError: a query of another size, with a NaN or an infinity, or of zeros by cosine.
            MissingExtraError: `hnsw` needs the extra `vector`.
        """
        from deltaic.consumer.nearest import nearest_like, nearest_to

        what = self._asked(type_name, field, where, metric, index)
        if _given(query, like) == "like":
            return nearest_like(what, [like], k)[0]
        return nearest_to(what, query, k)

    def nearest_many(
        self,
        type_name: str,
        field: str,
        queries: Any = None,
        k: int = 10,
        *,
        like: Sequence[Any] | None = None,
        where: Any = None,
        metric: "Metric | str" = "cosine",
        index: IndexChoice = "exact",
    ) -> "list[Nearest]":
        """`nearest` for several queries at once, which is faster than one by one.

        Args:
            type_name: the type.
            field: its vector column.
            queries: vectors as the rows of a matrix.
            k: how many records for each.
            like: in place of queries, the keys of records.
            where: as for `nearest`.
            metric: as for `nearest`.
            index: as for `nearest`.
        """
        from deltaic.consumer.nearest import nearest_like, nearest_to_many

        what = self._asked(type_name, field, where, metric, index)
        if _given(queries, like) == "like":
            assert like is not None
            return nearest_like(what, like, k) if len(like) else []
        return nearest_to_many(what, queries, k)

    def hybrid(
        self,
        type_name: str,
        text: Any,
        field: str,
        query: Any = None,
        k: int = 10,
        *,
        like: Any = None,
        where: Any = None,
        metric: "Metric | str" = "cosine",
        index: IndexChoice = "exact",
        weights: tuple[float, float] = (1.0, 1.0),
        constant: float = 60.0,
        candidates: int | None = None,
        snippets: Iterable[str] = (),
    ) -> "HybridHits":
        """Search by text and by vector, in one order by reciprocal rank.

        Args:
            type_name: the type.
            text: in the query language, as for `search`.
            field: the vector column.
            query: a vector.
            k: how many records.
            like: in place of a vector, the key of a record.
            where: as for `nearest`; it holds for both.
            metric: as for `nearest`.
            index: as for `nearest`.
            weights: how much text and vector count.
            constant: how much the first ranks stand out: the smaller, the more.
            candidates: how many records of each list are fused; ten for each that is wanted, at least 100.
            snippets: columns whose best part of the text is wanted.

        Raises:
            NotFoundError: as for `search` and for `nearest`.
            InputError: as for `nearest`.
        """
        from deltaic.consumer.hybrid import candidates_of, fused_hits, text_hits
        from deltaic.consumer.nearest import nearest_like, nearest_to
        from deltaic.vector.metric import check_count

        # Both lists and the records are of one version, whatever is refreshed meanwhile.
        loaded = self.loaded
        what = self._asked(type_name, field, where, metric, index, loaded)
        k, count = check_count(k), candidates_of(k, candidates)
        by_key = _given(query, like) == "like"
        near = nearest_like(what, [like], count)[0] if by_key else nearest_to(what, query, count)
        options = {"snippets": tuple(snippets), "where": None}
        texts = text_hits(
            lambda many: self._search_in(loaded, type_name, text, {**options, "k": many}), what.where, count
        )
        return fused_hits(texts, near, k, weights=weights, constant=constant)

    def approximate(
        self, type_name: str, field: str, *, metric: "Metric | str" = "cosine", options: "GraphOptions | None" = None
    ) -> "ApproximateIndex":
        """The approximate index of a vector column, which begins to be built if it is not there.

        `consumer.approximate("Movie", "embedding").wait()` builds ahead of the first search; `.counts` says how it is.

        Args:
            type_name: the type.
            field: its vector column.
            metric: what it is for.
            options: how it is built and kept; those of the first call hold.

        Raises:
            InputError: it is there already with other options.
            MissingExtraError: usearch is not installed.
        """
        from deltaic.vector.metric import Metric

        column = self.loaded.lookup[type_name].view.vectors(field)
        return self._indexes_of_vectors().get(type_name, field, Metric.named(metric), column, options)

    def approximate_indexes(self) -> "Mapping[tuple[str, str, Metric], ApproximateIndex]":
        """The approximate indexes that were asked for so far, by type, field and metric."""
        return {} if self._nearest_indexes is None else self._nearest_indexes.all()

    def _asked(
        self, type_name: str, field: str, where: Any, metric: Any, index: str, loaded: Loaded | None = None
    ) -> "Asked":
        from deltaic.consumer.nearest import asked

        loaded = self.loaded if loaded is None else loaded
        indexes = self._indexes_of_vectors() if index == "hnsw" else None
        return asked(loaded.version, loaded.lookup, indexes, type_name, field, where=where, metric=metric, index=index)

    def _indexes_of_vectors(self) -> "NearestIndexes":
        from deltaic.consumer.nearest import NearestIndexes

        with _making:
            if self._nearest_indexes is None:
                self._nearest_indexes = NearestIndexes()
                self._listeners.add(self._nearest_indexes)
            return self._nearest_indexes


def _given(query: Any, like: Any) -> Literal["query", "like"]:
    if (query is None) == (like is None):
        raise InputError("give either a query or, by `like`, the key of a record")
    return "query" if like is None else "like"
