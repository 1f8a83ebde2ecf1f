"""The indexes of companion splits in the split cache, and columns of source rows beside them as they are needed.

    <cache>/<key>/index/…                        the index, as of any split
    <cache>/<key>/column-<n>-<boot>.arrow        a column of all rows of the split, as Arrow IPC, made on first use

A clause that the index cannot answer, or an aggregate over rows, needs whole columns: each is read from the source once
and mapped from then on. The entry belongs to one split, and a split to files of one size and etag, so a column is never
that of another file. A file of an earlier start of the machine may be torn and is made anew.
"""

import hashlib
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaic.errors import DecodeError
from deltaic.storage.local import LocalStore
from deltaic.storage.store import Store
from deltaic.table.actions import AddFile
from deltaic.table.companion.manifest import Manifest
from deltaic.table.companion.opened import CompanionSplit, open_companion_split
from deltaic.table.companion.parquet import SourceReader
from deltaic.table.query.columns import SearchColumn
from deltaic.table.search.searcher import Searcher
from deltaic.table.search.splits import SearchedSplit, SplitColumns
from deltaic.table.split.cache import CachedSplit, SplitCache, boot_id
from deltaic.table.split.entry import write_ipc
from deltaic.table.split.pins import alone

_DOWNLOAD = "download.split"
_FEW = 4
"""Fewer rows than one in so many are read from the source by row group, more by whole columns through the cache."""


class CompanionCache(SplitCache):
    """A split cache for splits without rows, in the folder of the others and within the same bounds."""

    def get(self, store: Store, path: str, add: AddFile | None = None) -> CachedSplit:
        """The index of the split, unpacked here first if it is not yet; it has no rows."""
        return super().get(cast("Store", _Renamed(store)), path, add)

    def _fetched(self, store: Store, path: str, add: AddFile | None, work: Path) -> CompanionSplit:
        store = store.inner if isinstance(store, _Renamed) else store
        split = open_companion_split(store, path, add)
        split.manifest()
        if isinstance(store, LocalStore):
            return split
        store.get_to_file(path, work / _DOWNLOAD, limit_bytes=split.footer.end)
        return CompanionSplit(LocalStore(work), _DOWNLOAD, split.footer, add, shown=split.where)

    def with_rows(
        self, store: Store, path: str, add: AddFile, manifest: Manifest, schema: pa.Schema, source: SourceReader
    ) -> CachedSplit:
        """The split in the cache, with the rows of its source files as far as they are asked for."""
        cached = self.get(store, path, add)
        rows = SourceRows(self, cached.index_folder.parent, manifest, schema, source)
        return replace(cached, rows=cast("pa.Table", rows))

    def keep_column(self, folder: Path, name: str, made: pa.Table) -> None:
        """Put a column beside an index, making room for it first."""
        work = folder / f".{name}.{os.getpid()}.{threading.get_ident()}"
        try:
            write_ipc(made, work)
            with alone(self.folder / ".room.lock"):
                there = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                self._make_room(there, folder.name)
                work.rename(folder / name)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            with suppress(OSError):
                work.unlink()


class _Renamed:
    """A store by another name: an entry without rows must not be taken for one of the splits that have them."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @property
    def url(self) -> str:
        return f"{self.inner.url}#companion"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class SourceRows:
    """Every row of a split by its number, like an Arrow table whose columns come when they are asked for."""

    def __init__(
        self, cache: CompanionCache, folder: Path, manifest: Manifest, schema: pa.Schema, source: SourceReader
    ) -> None:
        self.manifest, self.schema, self.source = manifest, schema, source
        self.num_rows = manifest.rows
        self._cache, self._folder = cache, folder
        self._columns: dict[int, pa.ChunkedArray] = {}
        self._lock = threading.Lock()

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def column(self, place: int) -> pa.ChunkedArray:
        """A whole column, mapped."""
        with self._lock:
            found = self._columns.get(place)
            if found is None:
                found = self._columns[place] = self._mapped(place)
            return found

    def has(self, name: str) -> bool:
        """Whether a column is mapped already, or is none of the split's."""
        place = self.schema.get_field_index(name)
        return place < 0 or place in self._columns

    def check(self, numbers: NDArray[np.int64]) -> None:
        """Raise StaleCompanionError if a file with one of these rows is not the one that was indexed."""
        for place in np.unique(np.searchsorted(self.manifest.ends(), numbers, side="right")):
            self.source.check(self.manifest.files[int(place)])

    def some(self, names: Sequence[str], numbers: NDArray[np.int64]) -> pa.Table:
        """Rows by their numbers, in this order, read from the source by row group and column."""
        schema = pa.schema([self.schema.field(name) for name in names])
        ends = self.manifest.ends()
        file_of = np.searchsorted(ends, numbers, side="right")
        pieces, order = list[pa.Table](), list[NDArray[np.int64]]()
        for place in np.unique(file_of):
            file = self.manifest.files[int(place)]
            mine = np.flatnonzero(file_of == place)
            inside = numbers[mine] - (ends[place] - file.num_rows)
            rising = np.argsort(inside, kind="stable")
            pieces.append(self.source.rows(file, schema, inside[rising]))
            order.append(mine[rising])
        if not pieces:
            return schema.empty_table()
        back = np.empty(len(numbers), np.int64)
        back[np.concatenate(order)] = np.arange(len(numbers))
        return pa.concat_tables(pieces).combine_chunks().take(pa.array(back))

    def _mapped(self, place: int) -> pa.ChunkedArray:
        boot = hashlib.sha256(boot_id().encode()).hexdigest()[:8]
        name = f"column-{place}-{boot}.arrow"
        path = self._folder / name
        if not path.exists():
            with alone(self._cache.folder / f"{self._folder.name}.build"):
                if not path.exists():
                    self._cache.keep_column(self._folder, name, self._read(place))
        try:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
        except (pa.ArrowException, OSError) as error:
            with suppress(OSError):
                path.unlink()
            raise DecodeError("BadRows", f"the cached column is no Arrow: {error}", str(path)) from error
        if table.num_rows != self.num_rows or table.schema.field(0).type != self.schema.field(place).type:
            with suppress(OSError):
                path.unlink()
            raise DecodeError("BadRows", "the cached column is another", str(path))
        return table.column(0)

    def _read(self, place: int) -> pa.Table:
        schema = pa.schema([self.schema.field(place)])
        pieces = [self.source.rows(file, schema) for file in self.manifest.files]
        return pa.concat_tables([schema.empty_table(), *pieces])


class CompanionColumns(SplitColumns):
    """A companion split as a query sees it; rows that are given back come from the source."""

    def taken(self, columns: Sequence[SearchColumn], rows: NDArray[np.int64]) -> pa.Table:
        """Some rows, in this order.

        Raises:
            StaleCompanionError: a file that they are in was replaced or deleted since it was indexed.
        """
        source = cast("SourceRows", self.cached.rows)
        stored = [one for one in columns if not one.partition and source.schema.get_field_index(one.physical) >= 0]
        if all(source.has(one.physical) for one in stored) or len(rows) * _FEW > self.num_rows:
            source.check(rows)
            return super().taken(columns, rows)
        read = source.some([one.physical for one in stored], rows)
        arrays: list[Any] = []
        for column in columns:
            if column.partition:
                arrays.append(pa.repeat(self.partition_value(column), len(rows)))
            elif column.physical in read.column_names:
                arrays.append(read.column(column.physical))
            else:
                arrays.append(pa.nulls(len(rows), column.type))
        return pa.Table.from_arrays(arrays, schema=pa.schema([pa.field(one.name, one.type) for one in columns]))


class CompanionSearcher(Searcher):
    """Searches companion splits."""

    def __init__(self, splits: Sequence[SearchedSplit], schema: pa.Schema, **terms: Any) -> None:
        super().__init__(splits, schema, **terms)
        self._splits = [CompanionColumns(split) for split in splits]
