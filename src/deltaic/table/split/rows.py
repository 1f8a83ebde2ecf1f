"""The rows of a split as Parquet: written with their Arrow schema, read back exactly, as a whole or by column chunk.

Every column chunk has a checksum in the description, and so has the Parquet footer. A reader that wants a few columns
or row groups of a large split fetches those ranges alone and checks each before the Parquet library sees it; the rest
of the file is zeros to it, and it never looks there.
"""

import base64
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from deltaic.errors import ChecksumError, DecodeError, DeltaicError, InputError
from deltaic.kernels import crc
from deltaic.table.split.vectors import is_vector, is_vector_type, packed, unpacked

_FOOTER_TAIL_BYTES = 8
WHOLE_BYTES = 4 << 20
"""Rows up to this size are read as a whole."""
_SAMPLED_ROWS = 2048

ReadRange = Callable[[int, int], bytes]
"""Reads (start, length) of the member."""


class RowsPart(msgspec.Struct, frozen=True, array_like=True):
    """A column chunk, or the Parquet footer, with its checksum."""

    start: int
    length: int
    crc32c: int


class RowsIndex(msgspec.Struct, frozen=True):
    """What is needed to read the rows in parts."""

    schema: str
    """The Arrow schema, as base64 of its IPC form: Parquet does not keep every type."""
    footer: RowsPart
    chunks: tuple[RowsPart, ...]
    """Those of the first row group by column, then of the next."""


def write_rows(
    rows: pa.Table, path: Path, *, compression: str, compression_level: int | None, row_group_rows: int
) -> RowsIndex:
    """Write a Parquet file."""
    stored = _with_packed_vectors(_without_views(rows))
    try:
        pq.write_table(
            stored,
            path,
            compression=compression,
            compression_level=compression_level,
            row_group_size=row_group_rows,
            store_schema=True,
            **_leaf_options(stored),
        )
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(f"the rows cannot be kept as Parquet: {error}") from error
    with pa.memory_map(str(path)) as source:
        return _index_of(np.frombuffer(source.read_buffer(), np.uint8), rows.schema)


def read_rows(
    index: RowsIndex,
    size: int,
    read: ReadRange,
    where: str,
    *,
    columns: Sequence[str] | None = None,
    row_numbers: NDArray[np.int64] | None = None,
) -> pa.Table:
    """Some columns and rows, by ranged reads, each checked."""
    schema = rows_schema(index, where)
    names = _wanted(schema, columns)
    footer = _checked(index.footer, size, read, where)
    sparse = _SparseFile(size)
    sparse.put(index.footer.start, footer)
    try:
        file = pq.ParquetFile(sparse, pre_buffer=False)
        groups, local = _groups_of(file.metadata, row_numbers)
        wanted = set(names)
        leaves = [
            leaf
            for leaf in range(file.metadata.num_columns)
            if file.schema.column(leaf).path.split(".", 1)[0] in wanted or _top_name(file, leaf) in wanted
        ]
        count = file.metadata.num_columns
        if len(index.chunks) != count * file.metadata.num_row_groups:
            raise DecodeError("BadRows", "the description and the rows have different column chunks", where)
        for group in groups:
            for leaf in leaves:
                chunk = index.chunks[group * count + leaf]
                sparse.put(chunk.start, _checked(chunk, size, read, where))
        table = file.read_row_groups(groups, columns=names, use_threads=False).select(names)
    except DeltaicError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError) as error:
        raise DecodeError("BadRows", f"the rows are no Parquet: {error}", where) from error
    table = _cast(table, schema, where)
    return table if local is None else table.take(pa.array(local))


def parse_rows(index: RowsIndex, data: Any, where: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows from the bytes of a whole Parquet file that were checked."""
    schema = rows_schema(index, where)
    names = _wanted(schema, columns)
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read(columns=names, use_threads=False).select(names)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DecodeError("BadRows", f"the rows are no Parquet: {error}", where) from error
    return _cast(table, schema, where)


def rows_schema(index: RowsIndex, where: str) -> pa.Schema:
    """The Arrow schema of the rows."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(index.schema, validate=True)))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DecodeError("BadRows", f"no Arrow schema: {error}", where) from error
    if len(set(schema.names)) != len(schema.names):
        raise DecodeError("BadRows", "two columns have the same name", where)
    return schema


def _index_of(data: NDArray[np.uint8], schema: pa.Schema) -> RowsIndex:
    metadata = pq.read_metadata(pa.BufferReader(pa.py_buffer(data)))
    chunks = []
    for group in range(metadata.num_row_groups):
        for leaf in range(metadata.num_columns):
            column = metadata.row_group(group).column(leaf)
            start = column.data_page_offset
            if column.has_dictionary_page:
                start = min(start, column.dictionary_page_offset)
            chunks.append(_part(data, start, column.total_compressed_size))
    length = int.from_bytes(data[-_FOOTER_TAIL_BYTES:-4].tobytes(), "little") + _FOOTER_TAIL_BYTES
    text = base64.b64encode(schema.serialize()).decode()
    return RowsIndex(text, _part(data, len(data) - length, length), tuple(chunks))


def _part(data: NDArray[np.uint8], start: int, length: int) -> RowsPart:
    return RowsPart(start, length, crc.crc32c(data[start : start + length]))


def _checked(part: RowsPart, size: int, read: ReadRange, where: str) -> bytes:
    if part.start < 0 or part.length < 0 or part.start + part.length > size:
        raise DecodeError("BadRange", f"{part.length:,} bytes from byte {part.start:,} of {size:,}", where)
    data = read(part.start, part.length)
    if crc.crc32c(data) != part.crc32c:
        raise ChecksumError(
            "WrongChecksum", f"the rows from byte {part.start:,} are not those that were written", where
        )
    return data


def _top_name(file: pq.ParquetFile, leaf: int) -> str:
    # A column whose own name has a dot: the path alone does not tell where the name ends.
    path = file.schema.column(leaf).path
    for name in file.schema_arrow.names:
        if path == name or path.startswith(f"{name}."):
            return str(name)
    return ""


def _groups_of(
    metadata: pq.FileMetaData, row_numbers: NDArray[np.int64] | None
) -> tuple[list[int], NDArray[np.int64] | None]:
    """The row groups to read, and where in them the rows are."""
    if row_numbers is None:
        return list(range(metadata.num_row_groups)), None
    counts = np.array([metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)], np.int64)
    ends = np.cumsum(counts)
    of_row = np.searchsorted(ends, row_numbers, side="right")
    groups = np.unique(of_row)
    before = np.zeros(len(counts), np.int64)
    before[groups] = np.cumsum(counts[groups]) - counts[groups]
    return groups.tolist(), row_numbers - (ends - counts)[of_row] + before[of_row]


def _wanted(schema: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(schema.names)
    for name in columns:
        if name not in schema.names:
            raise InputError(f"there is no column {name!r}; there are {', '.join(schema.names)}")
    return list(columns)


def _cast(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    wanted = pa.schema([schema.field(name) for name in table.column_names], schema.metadata)
    table = _with_unpacked_vectors(table, wanted, where)
    if table.schema.equals(wanted, check_metadata=True):
        return table
    try:
        return table.cast(wanted)
    except (pa.ArrowException, ValueError) as error:
        raise DecodeError("BadRows", f"the rows are not of their schema: {error}", where) from error


def _with_packed_vectors(rows: pa.Table) -> pa.Table:
    for place, field in enumerate(rows.schema):
        if is_vector(field) and is_vector_type(field.type):
            column = packed(rows.column(place), field.name)
            rows = rows.set_column(place, field.with_type(column.type), column)
    return rows


def _with_unpacked_vectors(table: pa.Table, wanted: pa.Schema, where: str) -> pa.Table:
    for place, field in enumerate(wanted):
        column = table.column(place)
        if not is_vector(field) or not is_vector_type(field.type) or not pa.types.is_fixed_size_binary(column.type):
            continue
        if column.type.byte_width != 4 * field.type.list_size:
            raise DecodeError(
                "BadRows", f"{field.name} holds {column.type.byte_width} bytes a row, no {field.type}", where
            )
        table = table.set_column(place, field, unpacked(column, field.type))
    return table


def _leaf_options(rows: pa.Table) -> dict[str, Any]:
    """Without bounds for vectors, and without dictionaries for what hardly repeats: they cost time and never help."""
    schema = rows.schema
    vectors = {field.name for field in schema if is_vector(field)}
    varied = {field.name for field in schema if field.name not in vectors and _hardly_repeats(rows, field)}
    if not vectors and not varied:
        return {}
    empty = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), empty)
    parquet = pq.ParquetFile(pa.BufferReader(empty.getvalue())).schema
    leaves = [path for leaf in range(len(parquet)) if (path := parquet.column(leaf).path) not in vectors]
    return {"use_dictionary": [path for path in leaves if path not in varied], "write_statistics": leaves}


def _hardly_repeats(rows: pa.Table, field: pa.Field) -> bool:
    """Whether most values of a plain column are others than those around them, by its beginning and its middle."""
    if pa.types.is_nested(field.type) or pa.types.is_dictionary(field.type) or pa.types.is_boolean(field.type):
        return False
    column = rows.column(field.name)
    for start in (0, rows.num_rows // 2):
        some = column.slice(start, _SAMPLED_ROWS)
        try:
            if len(some) < _SAMPLED_ROWS or 2 * pc.count_distinct(some).as_py() <= _SAMPLED_ROWS:
                return False
        except pa.ArrowNotImplementedError:
            return False
    return True


def _without_views(rows: pa.Table) -> pa.Table:
    plain = [_plain_type(field) for field in rows.schema]
    return rows.cast(pa.schema(plain)) if plain != list(rows.schema) else rows


def _plain_type(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_string_view(kind):
        return field.with_type(pa.large_string())
    if pa.types.is_binary_view(kind):
        return field.with_type(pa.large_binary())
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return field.with_type(pa.large_list(_plain_type(kind.value_field)))
    if pa.types.is_run_end_encoded(kind):
        return field.with_type(kind.value_type)
    return field


class _SparseFile(io.RawIOBase):
    """A file of which only some stretches are there; the others read as zeros."""

    def __init__(self, size: int) -> None:
        self._size, self._position = size, 0
        self._stretches: dict[int, bytes] = {}

    def put(self, start: int, data: bytes) -> None:
        self._stretches[start] = data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def size(self) -> int:
        return self._size

    def read(self, size: int = -1) -> bytes:
        start = min(self._position, self._size)
        stop = self._size if size < 0 else min(self._size, start + size)
        self._position = stop
        for place, data in self._stretches.items():
            if place <= start and stop <= place + len(data):
                return data[start - place : stop - place]
        made = bytearray(stop - start)
        for place, data in self._stretches.items():
            first, last = max(place, start), min(place + len(data), stop)
            if first < last:
                made[first - start : last - start] = data[first - place : last - place]
        return bytes(made)
