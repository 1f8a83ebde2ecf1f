"""Rows become splits: cut by partition and size, indexed in parallel, durable before anything refers to them.

A crash leaves files that no version has; a purge finds them by that.
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltaic.errors import InputError
from deltaic.table.actions import AddFile
from deltaic.table.rows.bounds import statistics
from deltaic.table.rows.conform import retyped
from deltaic.table.rows.filetable import RowFiles
from deltaic.table.rows.partitioning import by_partition
from deltaic.table.rows.schema import TableSchema
from deltaic.table.split import ColumnIndex, DocMapping, SplitOptions, write_split
from deltaic.table.split.vectors import is_vector

_NO_INDEX = ColumnIndex(kind="none")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a long operation is."""

    operation: str
    rows: int = 0
    """Rows read or written so far."""
    total_rows: int | None = None
    files: int = 0
    """Splits written so far."""
    bytes: int = 0
    """Of those splits."""


Listener = Callable[[Progress], None]
"""Told of progress, in the thread that runs the operation."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How rows become splits."""

    split_bytes: int = 256 << 20
    """Rows of so many bytes, as Arrow holds them, become one split."""
    split_rows: int = 2_000_000
    """So many rows at most become one split."""
    threads: int = 2
    """Splits that are written at the same time."""
    split: SplitOptions = field(default_factory=SplitOptions)

    def __post_init__(self) -> None:
        for name in ("split_bytes", "split_rows", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is at least 1")


def document_mapping(schema: TableSchema, *, by_type: bool = False) -> DocMapping:
    """How the splits of a schema are indexed.

    Only columns that the table was told of are in the index: all others are answered from the rows, which a split holds
    by column, and so cost nothing when they are written.

    Args:
        schema: the table's.
        by_type: index the columns that nothing was said of too, as their types suggest.
    """
    plain = None if by_type else ColumnIndex(kind="none")
    options = {column.physical: plain for column in schema.stored if plain is not None}
    said = {name: ColumnIndex(**one) for name, one in schema.index.items()}
    present = {column.physical for column in schema.stored}
    for column in schema.stored:
        if is_vector(column.field):
            if said.get(column.physical, _NO_INDEX).kind != "none":
                raise InputError(f"column {column.name!r} is a vector: the index of a split does not hold vectors")
            options[column.physical] = _NO_INDEX
    return DocMapping.from_schema(schema.stored_arrow, options | {n: one for n, one in said.items() if n in present})


class SplitWriter:
    """Writes the rows of one operation; a context: its temporary files go when it ends."""

    def __init__(
        self,
        files: RowFiles,
        schema: TableSchema,
        options: WriteOptions,
        *,
        operation: str = "append",
        listener: Listener | None = None,
    ) -> None:
        self._files, self._schema, self._options = files, schema, options
        self._settings = files.settings
        self._operation, self._listener = operation, listener
        self._mapping = document_mapping(schema, by_type=options.split.native)
        self._waiting: dict[tuple[Any, ...], tuple[dict[str, Any], list[Any], int, int]] = {}
        self._running: list[Future[AddFile]] = []
        self._done: list[AddFile] = []
        self._rows = 0

    def __enter__(self) -> "SplitWriter":
        self._folder = tempfile.TemporaryDirectory(prefix="deltaic-splits-")
        self._pool = ThreadPoolExecutor(self._options.threads, "deltaic-split")
        return self

    def __exit__(self, *_problem: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._folder.cleanup()

    def write(self, rows: Any) -> None:
        """Take rows of the table's exact schema; they are in splits when `finish` returns."""
        for values, part in by_partition(rows, self._schema):
            key = tuple((name, repr(value)) for name, value in values.items())
            _, parts, count, size = self._waiting.get(key, (values, [], 0, 0))
            parts.append(part)
            self._waiting[key] = (values, parts, count + part.num_rows, size + part.nbytes)
            self._cut(key)
        while sum(size for *_, size in self._waiting.values()) > self._options.split_bytes * 2:
            self._submit(max(self._waiting, key=lambda one: self._waiting[one][3]))

    def finish(self) -> list[AddFile]:
        """Write what is left, and give the add actions of all splits, all of them durable."""
        for key in list(self._waiting):
            self._submit(key)
        self._collect(everything=True)
        return self._done

    def _cut(self, key: tuple[Any, ...]) -> None:
        """Submit full splits of a partition, as long as it has some."""
        values, parts, count, size = self._waiting[key]
        while count >= self._options.split_rows or (size >= self._options.split_bytes and count > 1):
            per_row = max(size / count, 1e-9)
            most = max(1, min(self._options.split_rows, int(self._options.split_bytes / per_row), count))
            rows = pa.concat_tables(parts)
            self._start(values, rows.slice(0, most))
            rest = rows.slice(most)
            parts, count, size = ([rest] if rest.num_rows else []), rest.num_rows, int(per_row * rest.num_rows)
            if not count:
                del self._waiting[key]
                return
        self._waiting[key] = (values, parts, count, size)

    def _submit(self, key: tuple[Any, ...]) -> None:
        values, parts, _, _ = self._waiting.pop(key)
        self._start(values, pa.concat_tables(parts))

    def _start(self, values: Mapping[str, Any], rows: Any) -> None:
        while len(self._running) > self._options.threads:
            self._collect(everything=False)
        self._running.append(self._pool.submit(self._one, dict(values), rows))

    def _collect(self, *, everything: bool) -> None:
        while self._running:
            add = self._running.pop(0).result()
            self._done.append(add)
            self._rows += add.num_records or 0
            if self._listener is not None:
                size = sum(one.size_bytes for one in self._done)
                self._listener(Progress(self._operation, self._rows, None, len(self._done), size))
            if not everything:
                return

    def _one(self, values: Mapping[str, Any], rows: Any) -> AddFile:
        key, texts = self._files.new_path(values)
        low, high = statistics(rows, self._schema, self._settings)
        target_schema = self._schema.stored_arrow
        columns = [
            retyped(rows.column(column.name), field.type)
            for column, field in zip(self._schema.stored, target_schema, strict=True)
        ]
        stored = pa.table(columns, schema=target_schema)
        target = Path(self._folder.name, key.rpartition("/")[2])
        written = write_split(stored, self._mapping, target, options=self._options.split)
        self._files.store.put_file(key, target)
        target.unlink()
        return AddFile(
            path=key,
            partition_values=texts,
            size_bytes=written.size,
            modified_ms=self._files.now_ms(),
            min_values=low or None,
            max_values=high or None,
            num_records=written.num_records,
            footer_start=written.footer_start,
            footer_end=written.footer_end,
            has_footer_offsets=True,
            num_merge_ops=0,
            doc_mapping_json=written.doc_mapping_json,
            uncompressed_bytes=written.uncompressed_bytes,
            tags=dict(written.tags) or None,
        )


def write_all(
    files: RowFiles,
    schema: TableSchema,
    tables: Iterable[Any],
    options: WriteOptions,
    *,
    operation: str = "append",
    listener: Listener | None = None,
) -> list[AddFile]:
    """Write tables of the exact schema as splits."""
    with SplitWriter(files, schema, options, operation=operation, listener=listener) as writer:
        for table in tables:
            writer.write(table)
        return writer.finish()
