"""Batch write: every task writes splits, the driver commits them together.

A split is durable before its task reports it, and no version has it before the commit. Spark calls `abort` also after a
`commit` that raised, even if it landed: so `abort` looks in the log before it removes anything. What a task that died
left is found by `deltaic table purge`.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from deltaic.errors import DeltaicError, InputError, NotFoundError
from deltaic.spark.columns import arrow_schema
from deltaic.spark.request import WriteRequest

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from deltaic.table.actions import AddFile
    from deltaic.table.rows.table import Table

log = logging.getLogger("deltaic.spark")


@dataclass
class WrittenSplits(WriterCommitMessage):
    """What a task wrote: small, whatever the rows were."""

    adds: tuple[Any, ...]
    schema_token: str


def open_table(request: WriteRequest, schema: "StructType | None" = None) -> "Table":
    """The table that is written to; it is made if `createTable` asks for that and it is not there."""
    from deltaic.table.rows.table import Table

    try:
        return Table.open(request.path)
    except NotFoundError:
        if not request.create or schema is None:
            raise NotFoundError(
                f"there is no table at {request.path}: make one by Table.create, or with the option createTable"
            ) from None
    return Table.create(
        request.path,
        arrow_schema(schema),
        partition_by=request.partition_by,
        key=request.key,
        exist_ok=True,
    )


class _Tasks:
    """What a task does, for batches and streams alike."""

    def __init__(self, request: WriteRequest) -> None:
        self.request = request

    def write(self, rows: Iterator[Any]) -> WrittenSplits:
        """Write the rows of a task as splits."""
        from deltaic.table.rows.writing import WriteOptions

        table = open_table(self.request)
        default = WriteOptions()
        table.write_options = WriteOptions(
            split_bytes=self.request.split_bytes or default.split_bytes,
            split_rows=self.request.split_rows or default.split_rows,
            threads=1,
        )
        written = table.write_splits(rows, within=self.request.replace_where)
        return WrittenSplits(written.adds, written.token)

    def remove(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove splits that no version has."""
        adds = tuple(add for message in messages for add in _adds(message))
        if not adds:
            return
        try:
            table = open_table(self.request)
            landed = {add.path for add in _in_log(table, adds)}
            for add in adds:
                if add.path not in landed:
                    store, key = table.files.locate(add.path)
                    store.delete(key)
        except DeltaicError as error:
            # What stays is found by a purge; the error that led here is what the caller must see.
            log.warning("%d splits of a write that failed may be left: %s", len(adds), error)


def _in_log(table: "Table", adds: "Sequence[AddFile]") -> "list[AddFile]":
    """Those of these splits that any version has, also one that has lost them since."""
    paths = {add.path for add in adds}
    found = dict(table.files.snapshot().find(paths))
    for entry in table.files.changes(_before(table, adds)):
        found.update({add.path: add for add in entry.added if add.path in paths})
    return list(found.values())


def _before(table: "Table", adds: "Sequence[AddFile]") -> int:
    """The last version from before the first of these splits was written, as far as history goes."""
    first = min(add.modified_ms for add in adds)
    for entry in table.files.history():
        if entry.committed_ms < first - 60_000:
            return entry.version
    return min(table.versions())


def _adds(message: WriterCommitMessage | None) -> "tuple[AddFile, ...]":
    return message.adds if isinstance(message, WrittenSplits) else ()


def commit(
    request: WriteRequest,
    messages: Sequence[WriterCommitMessage | None],
    *,
    overwrite: bool,
    transaction: tuple[str, int] | None,
    schema: "StructType",
) -> bool:
    """Commit what all tasks wrote; False if the transaction is in the table already."""
    from deltaic.table.rows.prepared import SplitsWritten

    table = open_table(request, schema)
    tokens = {message.schema_token for message in messages if isinstance(message, WrittenSplits)}
    if len(tokens) > 1:
        raise InputError("the table's columns changed while tasks wrote to it; write again")
    adds = tuple(add for message in messages for add in _adds(message))
    written = SplitsWritten(adds, next(iter(tokens), ""))
    terms: dict[str, Any] = {"note": request.note, "transaction": transaction}
    if not overwrite:
        done = table.append(written, **terms)
    else:
        done = table.overwrite(written, where=request.replace_where, dynamic=request.dynamic, **terms)
    return not done.repeated


class BatchWriter(DataSourceArrowWriter):
    """Appends to a table or overwrites it, in one commit."""

    def __init__(self, request: WriteRequest, schema: "StructType", overwrite: bool) -> None:
        if request.kind != "all" and not overwrite:
            raise InputError("replaceWhere and dynamic partitions are for mode('overwrite')")
        self._tasks, self._schema, self._overwrite = _Tasks(request), schema, overwrite
        open_table(request, schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task."""
        return self._tasks.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make them one version."""
        request = self._tasks.request
        transaction = None
        if request.application is not None and request.number is not None:
            transaction = (request.application, request.number)
        if not commit(request, messages, overwrite=self._overwrite, transaction=transaction, schema=self._schema):
            self._tasks.remove(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was written, unless it is in the log."""
        self._tasks.remove(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends every batch of a stream exactly once: its number is committed together with its rows."""

    def __init__(self, request: WriteRequest, schema: "StructType", overwrite: bool) -> None:
        if request.application is None:
            raise InputError(
                "a stream needs the option txnAppId, a name that stays the same: by it, and the number of a batch, the "
                "table knows what it has already"
            )
        self._tasks, self._schema, self._overwrite = _Tasks(request), schema, overwrite
        open_table(request, schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task."""
        return self._tasks.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make them one version, unless the table has the batch."""
        request = self._tasks.request
        assert request.application is not None
        landed = commit(
            request,
            messages,
            overwrite=self._overwrite,
            transaction=(request.application, batchId),
            schema=self._schema,
        )
        if not landed:
            log.info("batch %d of %s is in the table already", batchId, request.application)
            self._tasks.remove(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what was written, unless it is in the log."""
        self._tasks.remove(messages)
