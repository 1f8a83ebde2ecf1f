"""A table at one version: scan, count, explain, search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltaic.errors import InputError, MissingExtraError
from deltaic.table.predicate import Predicate
from deltaic.table.prune import Explain
from deltaic.table.rows.matching import Where, as_predicate, check_columns, predicate_text
from deltaic.table.rows.reading import RowReader
from deltaic.table.snapshot import Snapshot

if TYPE_CHECKING:
    from deltaic.table.actions import AddFile
    from deltaic.table.rows.searching import Searched
    from deltaic.table.rows.table import Table
    from deltaic.table.search.result import SearchResult

BATCH_ROWS = 65_536
"""Rows of a batch of a scan, at most."""

_KEPT_OPEN = 4


@dataclass(frozen=True, slots=True)
class ScanExplain:
    """How a scan would find its rows."""

    version: int
    columns: tuple[str, ...]
    where: str | None
    files: tuple[str, ...]
    """The files that are read."""
    rows: int | None
    """Rows of those files, of which some may not match; None if a file does not tell."""
    size_bytes: int
    pruning: Explain

    def __str__(self) -> str:
        rows = "unknown" if self.rows is None else f"{self.rows:,}"
        return (
            f"version {self.version}: read {', '.join(self.columns)} of {len(self.files)} files ({rows} rows, "
            f"{self.size_bytes:,} bytes){'' if self.where is None else f' where {self.where}'}\n{self.pruning}"
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        import msgspec

        found = {name: getattr(self, name) for name in self.__slots__ if name != "pruning"}
        return {**found, "files": list(self.files), "pruning": msgspec.structs.asdict(self.pruning)}


class TableView:
    """A table at one version. Immutable; made by `Table.at`."""

    def __init__(self, table: "Table", snapshot: Snapshot) -> None:
        self._table = table
        self._reader = RowReader.of(table.files, snapshot)
        self._opened: dict[tuple[str, ...], Searched] = {}
        self._everything: tuple[AddFile, ...] | None = None

    def __repr__(self) -> str:
        return f"TableView({self._table.url!r}, version={self.version})"

    def __len__(self) -> int:
        return self.count()

    @property
    def snapshot(self) -> Snapshot:
        """The files of this version."""
        return self._reader.snapshot

    @property
    def version(self) -> int:
        """The number of this version."""
        return self._reader.snapshot.version

    @property
    def schema(self) -> Any:
        """The Arrow schema of this version."""
        return self._reader.schema.arrow

    @property
    def reader(self) -> RowReader:
        """What reads the rows of this version."""
        return self._reader

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
    ) -> Any:
        """The rows for which a predicate is true, as a `pyarrow.RecordBatchReader`.

        Args:
            columns: the names of the columns, in the wanted order; all without it.
            where: a predicate or its text; files that cannot match are not read.
            limit: so many rows at most, of no promised choice; without it all of them.
            batch_rows: rows of one batch at most.
        """
        names = self._names(columns)
        predicate = self._predicate(where)
        if limit is not None and limit < 0:
            raise InputError(f"a limit of {limit} rows")
        adds = self._reader.files_of(predicate) if limit != 0 else []
        schema = pa.schema([self._reader.schema.by_name[name].field for name in names])

        def batches() -> Iterator[Any]:
            left = limit
            for table in self._reader.scan(adds, names, predicate):
                if left is not None:
                    table = table.slice(0, left)
                    left -= table.num_rows
                yield from table.to_batches(max_chunksize=max(1, batch_rows))
                if left == 0:
                    return

        return pa.RecordBatchReader.from_batches(schema, batches())

    def to_arrow(
        self, columns: Sequence[str] | None = None, where: Where | None = None, limit: int | None = None
    ) -> Any:
        """The rows as a `pyarrow.Table`."""
        return self.scan(columns, where, limit).read_all()

    def to_pandas(
        self, columns: Sequence[str] | None = None, where: Where | None = None, limit: int | None = None
    ) -> Any:
        """The rows as a pandas data frame."""
        return self.to_arrow(columns, where, limit).to_pandas()

    def to_polars(
        self, columns: Sequence[str] | None = None, where: Where | None = None, limit: int | None = None
    ) -> Any:
        """The rows as a Polars data frame."""
        try:
            import polars
        except ImportError:
            raise MissingExtraError("a Polars data frame", "polars") from None
        return polars.from_arrow(self.to_arrow(columns, where, limit))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scan().__arrow_c_stream__(requested_schema)

    def explain(self, columns: Sequence[str] | None = None, where: Where | None = None) -> ScanExplain:
        """How `scan` would find its rows, without reading any."""
        predicate = as_predicate(where)
        found = self._reader.plan(predicate)
        adds = found.files()
        counts = [add.num_records for add in adds]
        rows = None if any(count is None for count in counts) else sum(count or 0 for count in counts)
        text = None if predicate is None else predicate_text(predicate)
        paths = tuple(sorted(add.path for add in adds))
        return ScanExplain(
            self.version, tuple(self._names(columns)), text, paths, rows, found.total_bytes, found.explain
        )

    def _names(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return list(self.schema.names)
        if isinstance(columns, str):
            raise InputError("columns are a list of names")
        names = [self._reader.schema.column(name).name for name in columns]
        if len(set(names)) != len(names):
            raise InputError("a column is asked for twice")
        return names

    def count(self, query: Any = None, where: Where | None = None) -> int:
        """How many rows there are, or match a search or a predicate."""
        predicate = self._predicate(where)
        if query is not None:
            return self._searched(predicate, ranked=False).searcher.count(query, where=predicate)
        return self._reader.count(predicate)

    def search(self, query: Any = None, *, where: Where | None = None, **terms: Any) -> "SearchResult":
        """The best rows of a search; `k`, `columns`, `snippets`, … are those of `Searcher.search`."""
        predicate = self._predicate(where)
        return self._searched(predicate, ranked=True).searcher.search(query, where=predicate, **terms)

    def nearest(
        self, column: str, query: Any, k: int = 10, *, where: Where | None = None, **terms: Any
    ) -> "SearchResult":
        """The rows whose vectors are nearest; `metric`, `columns`, … are those of `Searcher.nearest`."""
        predicate = self._predicate(where)
        return self._searched(predicate, ranked=False).searcher.nearest(column, query, k=k, where=predicate, **terms)

    def hybrid(
        self, text: Any, column: str, query: Any, k: int = 10, *, where: Where | None = None, **terms: Any
    ) -> "SearchResult":
        """The best rows by text and by vector together; `weights`, `metric`, … are those of `Searcher.hybrid`."""
        predicate = self._predicate(where)
        return self._searched(predicate, ranked=True).searcher.hybrid(
            text, column, query, k=k, where=predicate, **terms
        )

    def aggregate(self, query: Any = None, *, where: Where | None = None, **terms: Any) -> Any:
        """Measures over the rows that match, by groups; see `Searcher.aggregate`."""
        predicate = self._predicate(where)
        return self._searched(predicate, ranked=False).searcher.aggregate(query, where=predicate, **terms)

    def facets(self, query: Any = None, *, where: Where | None = None, **terms: Any) -> Any:
        """The values of columns with their counts; see `Searcher.facets`."""
        predicate = self._predicate(where)
        return self._searched(predicate, ranked=False).searcher.facets(query, where=predicate, **terms)

    def histogram(self, query: Any = None, *, where: Where | None = None, **terms: Any) -> Any:
        """Rows by buckets of a column; see `Searcher.histogram`."""
        predicate = self._predicate(where)
        return self._searched(predicate, ranked=False).searcher.histogram(query, where=predicate, **terms)

    def ranges(self, query: Any = None, *, where: Where | None = None, **terms: Any) -> list[int]:
        """How many rows are in each range of a column; see `Searcher.ranges`."""
        predicate = self._predicate(where)
        return self._searched(predicate, ranked=False).searcher.ranges(query, where=predicate, **terms)

    def _predicate(self, where: Where | None) -> Predicate | None:
        predicate = as_predicate(where)
        check_columns(predicate, self.schema, time_zone=self._reader.settings.time_zone)
        return predicate

    def _searched(self, where: Predicate | None, *, ranked: bool) -> "Searched":
        from deltaic.table.rows.searching import opened, searched_files

        if where is None and self._everything is None:
            self._everything = searched_files(self._reader, None, ranked=ranked)
        adds = searched_files(self._reader, where, ranked=ranked) if where is not None else self._everything
        assert adds is not None
        # Opening splits is most of a search, and one search after another is over the same ones.
        key = tuple(add.path for add in adds)
        found = self._opened.get(key)
        if found is None:
            found = opened(self._table.split_cache, self._reader, adds)
            # A list is made in one step, whatever other threads do to the dictionary.
            for oldest in list(self._opened)[: max(0, len(self._opened) + 1 - _KEPT_OPEN)]:
                self._opened.pop(oldest, None)
            self._opened[key] = found
        return found


class RowSearch:
    """The search of the newest version, or with `version`, `timestamp` or `tag` of an old one."""

    def at(
        self, *, version: int | None = None, timestamp: datetime | str | None = None, tag: str | None = None
    ) -> TableView:
        """The table at a version."""
        raise NotImplementedError

    def search(
        self,
        query: Any = None,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
        **terms: Any,
    ) -> "SearchResult":
        """The best rows of a search; see `TableView.search`."""
        return self.at(version=version, timestamp=timestamp, tag=tag).search(query, **terms)

    def nearest(
        self, column: str, query: Any, k: int = 10, *, version: int | None = None, tag: str | None = None, **terms: Any
    ) -> "SearchResult":
        """The rows whose vectors are nearest; see `TableView.nearest`."""
        return self.at(version=version, tag=tag).nearest(column, query, k, **terms)

    def hybrid(
        self,
        text: Any,
        column: str,
        query: Any,
        k: int = 10,
        *,
        version: int | None = None,
        tag: str | None = None,
        **terms: Any,
    ) -> "SearchResult":
        """The best rows by text and by vector together; see `TableView.hybrid`."""
        return self.at(version=version, tag=tag).hybrid(text, column, query, k, **terms)

    def aggregate(self, query: Any = None, *, version: int | None = None, tag: str | None = None, **terms: Any) -> Any:
        """Measures over the rows that match, by groups; see `TableView.aggregate`."""
        return self.at(version=version, tag=tag).aggregate(query, **terms)

    def facets(self, query: Any = None, *, version: int | None = None, tag: str | None = None, **terms: Any) -> Any:
        """The values of columns with their counts; see `TableView.facets`."""
        return self.at(version=version, tag=tag).facets(query, **terms)

    def histogram(self, query: Any = None, *, version: int | None = None, tag: str | None = None, **terms: Any) -> Any:
        """Rows by buckets of a column; see `TableView.histogram`."""
        return self.at(version=version, tag=tag).histogram(query, **terms)
