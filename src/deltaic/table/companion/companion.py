"""`Companion`: a search index over Parquet files that stay where they are.

    companion = Companion.create("s3://bucket/films-index", "s3://bucket/films", index={"plot": ColumnIndex("text")})
    companion.search("plot:heist", k=5, columns=["title"]).table
    companion.refresh()

It is an index table whose splits hold the index and point to file and row of the source. It is read-only: rows change
where the source is written, and `refresh` takes over what changed, in one commit.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltaic.errors import CommitConflictError, DecodeError, NotFoundError
from deltaic.storage import Store, open_store
from deltaic.table.actions import AddFile
from deltaic.table.changes import EVERYTHING, Changes
from deltaic.table.companion.cached import CompanionCache, CompanionSearcher
from deltaic.table.companion.indexing import write_companion_splits
from deltaic.table.companion.making import Partitions, companion_schema
from deltaic.table.companion.manifest import Manifest
from deltaic.table.companion.opened import open_companion_split
from deltaic.table.companion.options import CompanionOptions
from deltaic.table.companion.parquet import SourceReader
from deltaic.table.companion.refresh import Difference, Refresh, by_partition, compare, packed, splits_to_remove
from deltaic.table.companion.source import (
    DELTA_VERSION_KEY,
    Listing,
    Source,
    SourceDescription,
    SourceKind,
    describe_source,
    infer_partitions,
    open_source,
    refuse_nesting,
)
from deltaic.table.companion.status import CompanionExplain, Status
from deltaic.table.predicate import Predicate
from deltaic.table.protocol import COMPANION_KEY
from deltaic.table.rows.filetable import RowFiles
from deltaic.table.rows.matching import Where, as_predicate, check_columns, weakened
from deltaic.table.rows.partitioning import partition_values
from deltaic.table.rows.reading import RowReader
from deltaic.table.rows.schema import TableSchema, read_schema
from deltaic.table.rows.types import stored_type
from deltaic.table.rows.writing import document_mapping
from deltaic.table.search.splits import SearchedSplit
from deltaic.table.settings import Settings
from deltaic.table.snapshot import Snapshot
from deltaic.table.split import ColumnIndex, SplitCache

if TYPE_CHECKING:
    from deltaic.table.search.result import SearchResult

_ATTEMPTS = 4


class Companion:
    """A search index over a source of Parquet files. Create or open one; it can be shared between threads."""

    def __init__(
        self,
        files: RowFiles,
        source: Source,
        *,
        write: CompanionOptions | None = None,
        split_cache: SplitCache | None = None,
    ) -> None:
        self.files = files
        """The companion as far as files go: log, versions, maintenance."""
        self.source = source
        self.write_options = write or CompanionOptions()
        given = split_cache or SplitCache()
        self._cache = CompanionCache(given.folder, given.max_bytes)
        self._reader = SourceReader(source.store)
        self._manifests: dict[str, Manifest] = {}
        self._everything: tuple[int, CompanionSearcher] | None = None
        self._lock = threading.Lock()

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str] | Store,
        source: str | os.PathLike[str] | Store,
        *,
        kind: SourceKind | None = None,
        index: Mapping[str, ColumnIndex] | None = None,
        columns: Sequence[str] | None = None,
        partitions: Partitions | None = None,
        hive: bool = False,
        schema: pa.Schema | None = None,
        version: int | None = None,
        name: str | None = None,
        description: str | None = None,
        settings: Settings | Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        source_options: Mapping[str, object] | None = None,
        write: CompanionOptions | None = None,
        split_cache: SplitCache | None = None,
        refresh: bool = True,
        **given: Any,
    ) -> "Companion":
        """Make the companion of a source, and index it.

        Args:
            url: where the index is kept; not around the source.
            source: a folder of Parquet files, or a Delta table.
            kind: "parquet" or "delta"; without it a folder with a Delta log is a Delta table.
            index: how columns are indexed, where their type does not say it.
            columns: the columns that can be searched and given back; all without it.
            partitions: of a folder, the columns whose values are in the paths (`year=2020/`), with or without types.
            hive: find those columns from the paths.
            schema: of the source, instead of what its files or its log say.
            version: of a Delta table, instead of the newest.
            name: of the companion, for people.
            description: of the companion, for people.
            settings: how the log is written.
            options: of the companion's store.
            source_options: of the source's store, and of `deltalake`; they are not kept.
            write: how source files become splits.
            split_cache: where searched splits are unpacked on this host.
            refresh: index the source now; else the companion is empty until `refresh`.
            given: clock, sleep, random, for tests.
        """
        wanted = tuple(partitions or ())
        said, opened = describe_source(source, kind, wanted, source_options)
        listing = opened.listing(version)
        if said.kind == "delta":
            names = tuple(next(iter(listing.files.values())).partition) if listing.files else _delta_names(opened)
            said = SourceDescription(said.url, said.kind, names)
        elif hive and not wanted:
            said = SourceDescription(said.url, said.kind, infer_partitions(listing))
        if said.partitions != opened.description.partitions:
            opened = open_source(said, opened.store, source_options)
            listing = opened.listing(version)
        table_schema = companion_schema(
            listing,
            SourceReader(opened.store),
            said.partitions,
            partitions=partitions if isinstance(partitions, Mapping) else (),
            columns=columns,
            index=index,
            schema=schema,
        )
        carried = {key: text for key, text in table_schema.configuration().items() if text is not None}
        place = open_store(url, options=options) if isinstance(url, str | os.PathLike) else url
        refuse_nesting(place, opened.store)
        files = RowFiles.create(
            place,
            schema=table_schema.spark_json(),
            partition_by=table_schema.partition_by,
            name=name,
            description=description,
            configuration={**carried, COMPANION_KEY: said.to_json()},
            settings=settings,
            **given,
        )
        assert isinstance(files, RowFiles)
        made = cls(files, opened, write=write, split_cache=split_cache)
        if refresh:
            made.refresh(version=version)
        return made

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str] | Store,
        *,
        source: str | os.PathLike[str] | Store | None = None,
        settings: Settings | Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        source_options: Mapping[str, object] | None = None,
        write: CompanionOptions | None = None,
        split_cache: SplitCache | None = None,
        **given: Any,
    ) -> "Companion":
        """Open the companion at a URL; `source` says where the source is now, if it was moved.

        Raises:
            NotFoundError: there is no table.
            InputError: the table is no companion.
        """
        files = RowFiles.open(url, settings=settings, options=options, **given)
        assert isinstance(files, RowFiles)
        said = SourceDescription.read(files.snapshot().metadata.configuration, files.url)
        return cls(files, open_source(said, source, source_options), write=write, split_cache=split_cache)

    def __repr__(self) -> str:
        return f"Companion({self.url!r}, of {self.source.description.url!r})"

    @property
    def url(self) -> str:
        """Where the companion is."""
        return self.files.url

    @property
    def version(self) -> int:
        """The number of its newest version."""
        return self.files.version

    @property
    def schema(self) -> pa.Schema:
        """The columns that can be searched and given back."""
        return self.table_schema.arrow

    @property
    def table_schema(self) -> TableSchema:
        """The columns with all that is known of them."""
        return read_schema(self.files.snapshot().metadata)

    def refresh(self, *, version: int | None = None, note: str | None = None, allow_empty: bool = False) -> Refresh:
        """Take over what changed in the source, in one commit; none if nothing did.

        Args:
            version: of a Delta table, instead of the newest.
            note: free text for the history.
            allow_empty: of a folder, drop everything if it has no files any more; it may only be out of reach.

        Raises:
            NotFoundError: the folder has no files at all, and that was not said to be meant.
            StaleCompanionError: a file was replaced while it was indexed; nothing was committed, call again.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return self._refresh(version, note, allow_empty)
            except CommitConflictError:
                # Another refresh was first: what it indexed must not be indexed twice.
                if attempt + 1 == _ATTEMPTS:
                    raise
                self.files.pause(attempt + 1)
        raise AssertionError

    def status(self, *, version: int | None = None) -> Status:
        """What is indexed, and how far that is behind the source."""
        snapshot = self.files.snapshot()
        manifests = self._manifests_of(snapshot)
        listing = self.source.listing(version)
        found = compare(manifests, listing, self._reader.same)
        adds = list(snapshot.files())
        seen = snapshot.metadata.configuration.get(DELTA_VERSION_KEY)
        known = {file.path: file.size for manifest in manifests.values() for file in manifest.files}
        return Status(
            url=self.url,
            source=self.source.description.url,
            kind=self.source.description.kind,
            version=snapshot.version,
            indexed_version=int(seen) if seen is not None and seen.isdigit() else None,
            source_version=listing.version,
            splits=len(adds),
            rows=sum(manifest.rows for manifest in manifests.values()),
            files=len(known),
            index_bytes=sum(add.size_bytes for add in adds),
            source_bytes=sum(known.values()),
            new=found.new,
            changed=found.changed,
            gone=found.gone,
        )

    def search(self, query: Any = None, *, where: Where | None = None, **terms: Any) -> "SearchResult":
        """The best rows of a search, read from the source; `k`, `columns`, `snippets`, … are those of a table's search.

        Raises:
            StaleCompanionError: a row that was found is in a file that was replaced or deleted since.
        """
        searcher, predicate = self._asked(where, ranked=True)
        return searcher.search(query, where=predicate, **terms)

    def count(self, query: Any = None, where: Where | None = None) -> int:
        """How many rows match, as of the newest refresh."""
        searcher, predicate = self._asked(where, ranked=False)
        return searcher.count(query, where=predicate)

    def aggregate(self, query: Any = None, *, where: Where | None = None, **terms: Any) -> pa.Table:
        """Measures over the rows that match, by groups; see `Searcher.aggregate`."""
        searcher, predicate = self._asked(where, ranked=False)
        return searcher.aggregate(query, where=predicate, **terms)

    def facets(self, query: Any = None, *, where: Where | None = None, **terms: Any) -> dict[str, pa.Table]:
        """The values of columns with their counts; see `Searcher.facets`."""
        searcher, predicate = self._asked(where, ranked=False)
        return searcher.facets(query, where=predicate, **terms)

    def histogram(self, query: Any = None, *, where: Where | None = None, **terms: Any) -> pa.Table:
        """Rows by buckets of a column; see `Searcher.histogram`."""
        searcher, predicate = self._asked(where, ranked=False)
        return searcher.histogram(query, where=predicate, **terms)

    def ranges(self, query: Any = None, *, where: Where | None = None, **terms: Any) -> list[int]:
        """How many rows are in each range of a column; see `Searcher.ranges`."""
        searcher, predicate = self._asked(where, ranked=False)
        return searcher.ranges(query, where=predicate, **terms)

    def explain(self, query: Any = None, *, where: Where | None = None) -> CompanionExplain:
        """How a search is answered, and how far the companion is behind its source."""
        searcher, predicate = self._asked(where, ranked=True)
        found = searcher.explain(query, where=predicate)
        return CompanionExplain(found, self.status())

    def _refresh(self, version: int | None, note: str | None, allow_empty: bool) -> Refresh:
        snapshot = self.files.snapshot()
        schema = read_schema(snapshot.metadata)
        listing = self.source.listing(version)
        manifests = self._manifests_of(snapshot)
        if manifests and not listing.files and listing.version is None and not allow_empty:
            place = self.source.description.url
            raise NotFoundError(f"{place} has no Parquet files any more; if that is meant, refresh with allow_empty")
        difference = compare(manifests, listing, self._reader.same)
        removed, again = splits_to_remove(manifests, difference)
        wanted = {*difference.new, *difference.changed, *again}
        adds = self._indexed(wanted, listing, schema)
        if adds or removed:
            configuration = {} if listing.version is None else {DELTA_VERSION_KEY: str(listing.version)}
            changes = Changes(
                "refresh",
                adds=tuple(adds),
                removes=self.files.removals(snapshot, sorted(removed)),
                configuration=configuration,
                reads=EVERYTHING,
            )
            done = self.files.commit(changes, snapshot=snapshot, note=note).version
        else:
            done = snapshot.version
        return _report(done, listing, difference, again, adds, removed)

    def _indexed(self, paths: set[str], listing: Listing, schema: TableSchema) -> list[AddFile]:
        threads = self.write_options.threads
        with ThreadPoolExecutor(threads, "deltaic-companion") as pool:
            facts = dict(zip(sorted(paths), pool.map(self._reader.facts, sorted(paths)), strict=True))
        groups = by_partition(paths, listing, facts, schema.partition_by)
        parts = [(texts, entries) for texts, files in groups.items() for entries in packed(files, self.write_options)]
        return write_companion_splits(self.files, schema, self._reader, parts, version=listing.version, threads=threads)

    def _manifests_of(self, snapshot: Snapshot) -> dict[str, Manifest]:
        adds = list(snapshot.files())
        with ThreadPoolExecutor(8, "deltaic-manifest") as pool:
            found = dict(zip((add.path for add in adds), pool.map(self._manifest, adds), strict=True))
        with self._lock:
            self._manifests = found
        return dict(found)

    def _manifest(self, add: AddFile) -> Manifest:
        known = self._manifests.get(add.path)
        if known is not None:
            return known
        store, key = self.files.locate(add.path)
        found = open_companion_split(store, key, add).manifest()
        if add.companion_source_files is not None:
            named = {file.path for file in found.files}
            if named != set(add.companion_source_files):
                reason = "its manifest names other source files than the log"
                raise DecodeError("BadManifest", reason, f"{store.url}/{key}")
        return found

    def _asked(self, where: Where | None, *, ranked: bool) -> tuple[CompanionSearcher, Predicate | None]:
        """What searches the newest version, and a predicate that was checked against it."""
        snapshot = self.files.snapshot()
        reader = RowReader.of(self.files, snapshot)
        predicate = as_predicate(where)
        check_columns(predicate, reader.schema.arrow, time_zone=self.files.settings.time_zone)
        partitions = reader.schema.partition_by
        # Scores count over every split of the partitions, so statistics leave none out.
        left = weakened(predicate, lambda name: name in partitions) if ranked and predicate is not None else predicate
        if left is not None:
            return self._made_searcher(reader, reader.files_of(left)), predicate
        known = self._everything
        if known is None or known[0] != snapshot.version:
            known = self._everything = snapshot.version, self._made_searcher(reader, reader.files_of(None))
        return known[1], predicate

    def _made_searcher(self, reader: RowReader, adds: Sequence[AddFile]) -> CompanionSearcher:
        schema = reader.schema
        splits = []
        for add in adds:
            store, key = self.files.locate(add.path)
            manifest = self._manifest(add)
            with self._lock:
                self._manifests[add.path] = manifest
            cached = self._cache.with_rows(store, key, add, manifest, schema.stored_arrow, self._reader)
            splits.append(SearchedSplit(cached, partition_values(add, schema, schema.partition_by)))
        arrow = pa.schema([column.field.with_type(stored_type(column.type)) for column in schema.columns])
        return CompanionSearcher(
            splits, arrow, physical=schema.physical, mapping=document_mapping(schema, by_type=True)
        )


def _report(
    version: int,
    listing: Listing,
    difference: Difference,
    again: set[str],
    adds: Sequence[AddFile],
    removed: set[str],
) -> Refresh:
    return Refresh(
        version=version,
        source_version=listing.version,
        added=len(difference.new),
        changed=len(difference.changed),
        removed=len(difference.gone),
        reindexed=len(again),
        splits_added=len(adds),
        splits_removed=len(removed),
        rows=sum(add.num_records or 0 for add in adds),
    )


def _delta_names(source: Source) -> tuple[str, ...]:
    from deltaic.table.companion.delta import DeltaSource

    return source.partition_columns() if isinstance(source, DeltaSource) else ()
