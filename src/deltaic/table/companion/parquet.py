"""Source files read by row group and column, and never believed if they are not those that were indexed.

Size and etag are compared with the manifest after the bytes were read, so that a file replaced meanwhile is noticed
too. What `deltaic` keeps of a file between two reads is its Parquet footer.
"""

import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from deltaic.errors import DecodeError, DeltaicError, InputError, NotFoundError, SchemaError
from deltaic.storage import Store
from deltaic.table.companion.manifest import ManifestFile
from deltaic.table.companion.stale import StaleCompanionError
from deltaic.table.rows.conform import exactly

_KEPT_FOOTERS = 1024


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What is known of a source file before its rows are read."""

    path: str
    size_bytes: int
    etag: str
    modified_us: int
    row_groups: tuple[int, ...]
    group_bytes: tuple[int, ...]
    schema: pa.Schema

    @property
    def num_rows(self) -> int:
        """How many rows the file has."""
        return sum(self.row_groups)


class SourceReader:
    """Reads the files of one source; may be shared between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._footers: OrderedDict[tuple[str, str], pq.FileMetaData] = OrderedDict()
        self._lock = threading.Lock()

    def facts(self, path: str) -> FileFacts:
        """What a file is now."""
        info = self._store.head(path)
        etag = _etag(info.etag, info.modified)
        metadata = self._footer(path, info.size_bytes, etag)
        groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
        where = self._where(path)
        try:
            source = _ObjectFile(self._store, path, info.size_bytes)
            schema = pq.ParquetFile(source, metadata=metadata).schema_arrow
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DecodeError("BadParquet", f"no Arrow schema: {error}", where) from error
        if len(set(schema.names)) != len(schema.names):
            raise SchemaError(f"{where} has two columns of one name")
        return FileFacts(
            path,
            info.size_bytes,
            etag,
            int(info.modified.timestamp() * 1_000_000),
            tuple(group.num_rows for group in groups),
            tuple(group.total_byte_size for group in groups),
            schema,
        )

    def check(self, file: ManifestFile) -> None:
        """Raise StaleCompanionError if a file is not the one that was indexed."""
        try:
            info = self._store.head(file.path)
        except NotFoundError as error:
            raise StaleCompanionError(f"{self._where(file.path)} is gone: refresh the companion") from error
        if info.size_bytes != file.size or _etag(info.etag, info.modified) != file.etag:
            raise StaleCompanionError(
                f"{self._where(file.path)} is another since it was indexed: refresh the companion"
            )

    def same(self, file: ManifestFile) -> bool:
        """Whether a file is still the one that was indexed."""
        try:
            self.check(file)
        except StaleCompanionError:
            return False
        return True

    def rows(self, file: ManifestFile, schema: pa.Schema, numbers: NDArray[np.int64] | None = None) -> pa.Table:
        """Rows of a file in the types of a schema; those of the manifest's entry, or of some numbers within it."""
        try:
            found = self._rows(file, schema, numbers)
        except (DeltaicError, pa.ArrowException, OSError, ValueError) as error:
            self.check(file)
            if isinstance(error, DeltaicError):
                raise
            raise DecodeError("BadParquet", f"cannot be read: {error}", self._where(file.path)) from error
        self.check(file)
        return found

    def _rows(self, file: ManifestFile, schema: pa.Schema, numbers: NDArray[np.int64] | None) -> pa.Table:
        where = self._where(file.path)
        metadata = self._footer(file.path, file.size, file.etag)
        counts = np.array([metadata.row_group(place).num_rows for place in range(metadata.num_row_groups)], np.int64)
        if counts.tolist() != list(file.row_groups):
            raise DecodeError("BadManifest", "its row groups are not those of the manifest", where)
        wanted = np.arange(file.num_rows) if numbers is None else numbers
        if not len(wanted):
            return schema.empty_table()
        wanted = wanted + file.first_row
        ends = np.cumsum(counts)
        group_of = np.searchsorted(ends, wanted, side="right")
        groups = np.unique(group_of)
        before = np.zeros(len(counts), np.int64)
        before[groups] = np.cumsum(counts[groups]) - counts[groups]
        local = wanted - (ends - counts)[group_of] + before[group_of]
        opened = pq.ParquetFile(_ObjectFile(self._store, file.path, file.size), metadata=metadata, pre_buffer=True)
        present = set(opened.schema_arrow.names)
        names = [name for name in schema.names if name in present]
        read = opened.read_row_groups(groups.tolist(), columns=names, use_threads=False) if names else None
        if read is not None and len(local) < read.num_rows:
            read = _taken(read, local)
        arrays = []
        for one in schema:
            if one.name in present and read is not None:
                arrays.append(_typed(read.column(one.name), one, where))
            else:
                arrays.append(pa.chunked_array([pa.nulls(len(local), one.type)]))
        return pa.table(arrays, schema=schema)

    def _footer(self, path: str, size: int, etag: str) -> pq.FileMetaData:
        key = (path, etag)
        with self._lock:
            found = self._footers.get(key)
            if found is not None:
                self._footers.move_to_end(key)
                return found
        try:
            found = pq.read_metadata(_ObjectFile(self._store, path, size))
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, DeltaicError):
                raise
            raise DecodeError("BadParquet", f"no Parquet file: {error}", self._where(path)) from error
        with self._lock:
            self._footers[key] = found
            while len(self._footers) > _KEPT_FOOTERS:
                self._footers.popitem(last=False)
        return found

    def _where(self, path: str) -> str:
        return f"{self._store.url}/{path}"


def _taken(read: pa.Table, local: NDArray[np.int64]) -> pa.Table:
    if len(local) == local[-1] - local[0] + 1 and bool((np.diff(local) == 1).all()):
        return read.slice(int(local[0]), len(local))
    return read.take(pa.array(local))


def _typed(values: Any, field: pa.Field, where: str) -> Any:
    try:
        return exactly(values, field.type, field.name)
    except InputError as error:
        raise SchemaError(f"{where}: {error}") from error


def _etag(etag: str | None, modified: Any) -> str:
    return etag if etag is not None else f"m-{int(modified.timestamp() * 1_000_000)}"


class _ObjectFile(io.RawIOBase):
    """An object of a store as a file that can be read at any place."""

    def __init__(self, store: Store, key: str, size: int) -> None:
        self._store, self._key, self._size, self._position = store, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        start = min(self._position, self._size)
        stop = self._size if size < 0 else min(self._size, start + size)
        data = self._store.get_range(self._key, start, stop - start) if stop > start else b""
        self._position = start + len(data)
        return data


def schema_of(facts: Sequence[FileFacts]) -> pa.Schema:
    """One schema for the columns of several files; numbers of different widths become the wider."""
    plain = [pa.schema([pa.field(one.name, one.type) for one in fact.schema]) for fact in facts]
    made = plain[0]
    for fact, schema in zip(facts, plain, strict=True):
        try:
            made = pa.unify_schemas([made, schema], promote_options="permissive")
        except (pa.ArrowException, ValueError) as error:
            raise SchemaError(f"{fact.path} does not fit the files before it: {error}") from error
    return made
