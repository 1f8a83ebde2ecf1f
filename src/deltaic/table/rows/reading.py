"""Rows of splits under the names and types of one version: widened, with defaults where a split has no such column."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from deltaic.errors import DecodeError
from deltaic.table.actions import AddFile
from deltaic.table.predicate import Predicate, columns_in
from deltaic.table.prune import Plan, plan
from deltaic.table.rows.choosing import filtered
from deltaic.table.rows.conform import filled, retyped
from deltaic.table.rows.filetable import RowFiles
from deltaic.table.rows.matching import check_columns, matches, renamed, weakened
from deltaic.table.rows.partitioning import partition_values
from deltaic.table.rows.schema import TableSchema, read_schema
from deltaic.table.settings import Settings
from deltaic.table.snapshot import Snapshot
from deltaic.table.split import open_split

# Widened from these types, a column's old statistics cannot be read by its new type: a float's shortest text is not
# its value as a double, and a day may be written as a number.
_UNREADABLE = frozenset(("float", "date"))


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of one version of a table."""

    files: RowFiles
    snapshot: Snapshot
    schema: TableSchema
    settings: Settings

    @classmethod
    def of(cls, files: RowFiles, snapshot: Snapshot) -> "RowReader":
        """The reader of a snapshot."""
        return cls(files, snapshot, read_schema(snapshot.metadata), files.settings)

    @cached_property
    def _physical(self) -> Snapshot:
        return replace(self.snapshot, metadata=self.schema.physical_metadata(self.snapshot.metadata))

    def under(self, schema: TableSchema) -> "RowReader":
        """The same version seen by another version's schema."""
        return replace(self, schema=schema)

    def plan(self, where: Predicate | None = None) -> Plan:
        """The files that may hold rows for which a predicate is true."""
        check_columns(where, self.schema.arrow, time_zone=self.settings.time_zone)
        wanted = None if where is None else weakened(where, self._has_readable_statistics)
        if wanted is not None:
            wanted = renamed(wanted, self.schema.physical.__getitem__)
        return plan(self._physical, wanted, self.settings)

    def files_of(self, where: Predicate | None = None) -> list[AddFile]:
        """Those files, in the order in which they came."""
        return sorted(self.plan(where).files(), key=lambda add: (add.added_at_version, add.path))

    def reads(self, where: Predicate | None) -> Predicate | None:
        """What a commit may say that it read: over columns whose physical name everybody knows them by."""
        if where is None:
            return None
        plain = {column.name for column in self.schema.columns if column.physical == column.name}
        return weakened(where, lambda name: name in plain and self._has_readable_statistics(name))

    def _has_readable_statistics(self, name: str) -> bool:
        return not _UNREADABLE.intersection(self.schema.by_name[name].widened)

    def read(self, add: AddFile, names: Sequence[str] | None = None) -> Any:
        """The rows of one file: an Arrow table of the exact types, all columns or some."""
        chosen = self.schema.columns if names is None else [self.schema.column(name) for name in names]
        partitions = [column.name for column in chosen if column.name in self.schema.partition_by]
        values = partition_values(add, self.schema, partitions)
        stored = [column for column in chosen if column.name not in values]
        store, key = self.files.locate(add.path)
        split = open_split(store, key, add)
        present = {column.name for column in split.mapping.columns}
        wanted = [column.physical for column in stored if column.physical in present]
        rows = split.rows(columns=wanted) if wanted else None
        count = rows.num_rows if rows is not None else split.num_rows
        arrays = []
        for column in chosen:
            if column.name in values:
                arrays.append(pa.chunked_array([pa.repeat(values[column.name], count)], column.type))
            elif rows is not None and column.physical in present:
                arrays.append(_typed(rows.column(column.physical), column.type, column.name, add.path))
            else:
                arrays.append(filled(column, count))
        schema = pa.schema([column.field for column in chosen])
        if not chosen:
            return pa.table({"_": pa.nulls(count)}).select([])
        return pa.table(arrays, schema=schema)

    def scan(
        self, adds: Iterable[AddFile], names: Sequence[str], where: Predicate | None, *, threads: int = 4
    ) -> Iterator[Any]:
        """The rows of files that match, file after file, some read ahead."""
        for _, table in self.scan_files(adds, names, where, threads=threads):
            yield table

    def scan_files(
        self, adds: Iterable[AddFile], names: Sequence[str], where: Predicate | None, *, threads: int = 4
    ) -> Iterator[tuple[AddFile, Any]]:
        """Each file with its rows that match."""
        needed = list(dict.fromkeys((*names, *(sorted(columns_in(where)) if where is not None else ()))))

        def one(add: AddFile) -> Any:
            table = self.read(add, needed)
            if where is not None:
                table = filtered(table, matches(where, table, time_zone=self.settings.time_zone))
            return table.select(list(names))

        yield from ahead(one, adds, threads)

    def count(self, where: Predicate | None) -> int:
        """How many rows match."""
        if where is None:
            known = self.snapshot.num_records
            if known is not None:
                return known
        return sum(table.num_rows for table in self.scan(self.files_of(where), (), where))


def ahead(work: Any, adds: Iterable[AddFile], threads: int) -> Iterator[tuple[AddFile, Any]]:
    """The results of work on files, in their order, a few of them done ahead."""
    queue: list[tuple[AddFile, Future[Any]]] = []
    waiting = iter(adds)
    with ThreadPoolExecutor(threads, "deltaic-scan") as pool:
        try:
            for add in waiting:
                queue.append((add, pool.submit(work, add)))
                if len(queue) > threads:
                    first, done = queue.pop(0)
                    yield first, done.result()
            while queue:
                first, done = queue.pop(0)
                yield first, done.result()
        finally:
            for _, left in queue:
                left.cancel()


def _typed(values: Any, kind: Any, name: str, path: str) -> Any:
    try:
        return retyped(values, kind)
    except (pa.ArrowException, ValueError) as error:
        raise DecodeError("BadRows", f"column {name} holds a {values.type}, no {kind}: {error}", path) from error
