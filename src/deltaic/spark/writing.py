"""Writing: every task writes splits, the driver commits them together; batches and streams.

A split is durable before its task reports it, and no version has it before the commit. Spark calls `abort` also after a
`commit` that raised, even if it landed: so nothing is removed that the log has or may get. What a task that died left
is found by `deltaic table purge`.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from deltaic.errors import CommitConflictError, DeltaicError, InputError, NotFoundError, SchemaError
from deltaic.spark.columns import arrow_schema, for_table, with_vectors
from deltaic.spark.progress import (
    PREFIX,
    StreamProgress,
    checkpoint_offsets,
    configuration_of,
    next_number,
    offsets_text,
    progress_of,
    query_id_of_task,
)
from deltaic.spark.request import WriteRequest

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from deltaic.table.rows.prepared import SplitsWritten
    from deltaic.table.rows.table import Table
    from deltaic.table.snapshot import Snapshot

GATHERED_ROWS = 131_072
"""Rows that are checked and handed on together."""

log = logging.getLogger("deltaic.spark")


@dataclass
class WrittenSplits(WriterCommitMessage):
    """What a task wrote: small, whatever the rows were."""

    adds: tuple[Any, ...]
    schema_token: str
    version: int
    """The table's newest version before the first of them was written: a commit that has them comes after it."""
    query_id: str | None = None
    """Of the stream that the task worked for."""


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
        with_vectors(arrow_schema(schema), request.vectors),
        partition_by=request.partition_by,
        key=request.key,
        exist_ok=True,
    )


def write_rows(request: WriteRequest, batches: Iterator[Any]) -> WrittenSplits:
    """Write the rows of a task as splits."""
    from deltaic.table.rows.writing import WriteOptions

    table = open_table(request)
    version, columns, default = table.version, table.schema, WriteOptions()
    table.write_options = WriteOptions(
        split_bytes=request.split_bytes or default.split_bytes,
        split_rows=request.split_rows or default.split_rows,
        threads=1,
    )
    gathered = gather(for_table(batch, columns) for batch in batches)
    written = table.write_splits(gathered, within=request.replace_where)
    return WrittenSplits(written.adds, written.token, version, query_id_of_task())


def gather(batches: Iterator[Any], rows: int = GATHERED_ROWS) -> Iterator[Any]:
    """Batches put together: Spark sends 10,000 rows at a time, and every piece is checked and cut by itself."""
    import pyarrow as pa

    held: list[Any] = []
    for batch in batches:
        if held and batch.schema != held[0].schema:
            yield pa.Table.from_batches(held)
            held = []
        held.append(batch)
        if sum(each.num_rows for each in held) >= rows:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def remove_unless_landed(request: WriteRequest, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Remove the splits of a write that is given up, if no version has them."""
    written = [message for message in messages if isinstance(message, WrittenSplits) and message.adds]
    if not written:
        return
    adds = {add.path: add for message in written for add in message.adds}
    try:
        table = open_table(request)
        landed = _in_log(table, set(adds), min(message.version for message in written))
        for path in adds.keys() - landed:
            store, key = table.files.locate(path)
            store.delete(key)
    except DeltaicError as error:
        # What stays is found by a purge; the error that led here is what the caller must see.
        log.warning("%d splits of a write that failed may be left: %s", len(adds), error)


def _in_log(table: "Table", paths: set[str], before: int) -> set[str]:
    """Those of these splits that any version after one has, also if it has lost them since."""
    found = set(table.files.snapshot().find(paths))
    for entry in table.files.changes(before):
        found |= {add.path for add in entry.added if add.path in paths}
    return found


def splits_of(messages: Sequence[WriterCommitMessage | None]) -> "SplitsWritten":
    """What all tasks wrote."""
    from deltaic.table.rows.prepared import SplitsWritten

    written = [message for message in messages if isinstance(message, WrittenSplits)]
    tokens = {message.schema_token for message in written if message.adds}
    if len(tokens) > 1:
        raise CommitConflictError("the table's columns changed while tasks wrote to it; write again")
    return SplitsWritten(tuple(add for message in written for add in message.adds), next(iter(tokens), ""))


@contextmanager
def cleaned_up(request: WriteRequest, messages: Sequence[WriterCommitMessage | None]) -> Iterator[None]:
    """Remove what was written if the commit inside is refused.

    Only a refusal says for sure that nothing was committed. After any other error a commit may be there, or be still
    on its way: `abort`, which comes next and in another process, cannot know, so it does not remove what a whole set
    of tasks wrote.
    """
    try:
        yield
    except (CommitConflictError, InputError, SchemaError, NotFoundError):
        remove_unless_landed(request, messages)
        raise


def give_up(request: WriteRequest, messages: Sequence[WriterCommitMessage | None]) -> None:
    """What `abort` does: Spark calls it when a task failed, and also after a commit that raised."""
    if any(message is None for message in messages):
        remove_unless_landed(request, messages)


class BatchWriter(DataSourceArrowWriter):
    """Appends to a table or overwrites it, in one commit."""

    def __init__(self, request: WriteRequest, schema: "StructType", overwrite: bool) -> None:
        if request.kind != "all" and not overwrite:
            raise InputError("replaceWhere and dynamic partitions are for mode('overwrite')")
        if request.application is not None and request.number is None:
            raise InputError("txnAppId needs txnVersion, the number by which the table knows what it has already")
        self._request, self._schema, self._overwrite = request, schema, overwrite
        open_table(request, schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task."""
        return write_rows(self._request, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make them one version."""
        request = self._request
        transaction = None
        if request.application is not None and request.number is not None:
            transaction = (request.application, request.number)
        with cleaned_up(request, messages):
            table, written = self._open(), splits_of(messages)
            terms: dict[str, Any] = {"note": request.note, "user": request.user, "transaction": transaction}
            if not self._overwrite:
                done = table.append(written, **terms)
            else:
                done = table.overwrite(written, where=request.replace_where, dynamic=request.dynamic, **terms)
        if done.repeated:
            remove_unless_landed(request, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was written, unless it is in the log or may come there."""
        give_up(self._request, messages)

    def _open(self) -> "Table":
        request = self._request
        table = open_table(request, self._schema)
        if request.application is None or request.progress is None:
            return table
        from deltaic.spark.recording import recording

        return recording(request.path, {PREFIX + request.application: request.progress})


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends every batch of a stream exactly once: its number is committed together with its rows."""

    def __init__(self, request: WriteRequest, schema: "StructType", overwrite: bool) -> None:
        if request.application is None:
            raise InputError(
                "a stream needs the option txnAppId, a name that stays the same: by it, and the number of a batch, the "
                "table knows what it has already"
            )
        if request.kind != "all" or request.number is not None:
            raise InputError("replaceWhere, dynamic partitions and txnVersion are for batches: use foreachBatch")
        self._request, self._schema, self._overwrite = request, schema, overwrite
        open_table(request, schema)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task."""
        return write_rows(self._request, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make them one version, unless the table has the batch."""
        request = self._request
        with cleaned_up(request, messages):
            landed = self._commit(messages, batchId)
        if not landed:
            log.info("batch %d of %s is in the table already", batchId, request.application)
            remove_unless_landed(request, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what was written, unless it is in the log or may come there."""
        give_up(self._request, messages)

    def _commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> bool:
        """Commit a batch; False if the table has it."""
        from deltaic.table.changes import Changes

        request = self._request
        queries = {message.query_id for message in messages if isinstance(message, WrittenSplits)} - {None}
        if not queries:
            # Without tasks there are no rows: nothing that could be lost or come twice.
            if self._overwrite:
                open_table(request, self._schema).overwrite(splits_of(messages), note=request.note)
            return True
        (query_id,) = queries
        assert query_id is not None and request.application is not None
        table, written = open_table(request, self._schema), splits_of(messages)
        before = progress_of(table.files.snapshot(), request.application)
        number = next_number(before, request.application, query_id, batch_id, request.resume_after)
        if number is None:
            return False
        offsets = checkpoint_offsets(request.checkpoint, batch_id)
        progress = StreamProgress(request.application, number, query_id, batch_id, offsets)

        def planned(snapshot: "Snapshot") -> Changes:
            if progress_of(snapshot, progress.application) != before:
                raise CommitConflictError(f"another stream writes as {progress.application}; nothing was written")
            adds = tuple(written.checked(snapshot.metadata))
            removes = tuple(table.files.removal(add) for add in snapshot.files()) if self._overwrite else ()
            operation = "overwrite" if self._overwrite else "append"
            return Changes(operation, adds=adds, removes=removes, configuration=configuration_of(progress))

        done = table.files.commit(
            planned,
            replan=True,
            note=request.note,
            user={**request.user, **offsets_text(offsets)},
            transaction=(progress.application, progress.number),
        )
        return not done.repeated
