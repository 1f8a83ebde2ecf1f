"""What a table knows of the streams that write to it: which batch came last, and where their sources were then.

Every batch is committed together with its number and, where the sink can read Spark's checkpoint, with the offsets of
its sources. Spark numbers batches from 0 for each checkpoint, so the number alone does not tell a batch that is sent
again from one of a stream that starts over: the table keeps the id of the query too, which stays the same as long as
the checkpoint does.

A stream that starts over with a new checkpoint is refused, because some of its rows may be in the table: it goes on
after `stream_progress`.

    progress = deltaic.spark.stream_progress(url, "films")
    source = spark.readStream.format("deltaic").options(**progress.source_options()).load(source_url)
    source.writeStream.format("deltaic").options(**progress.sink_options()).option("checkpointLocation", new)…
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from deltaic.errors import DeltaicError, InputError, NotFoundError

if TYPE_CHECKING:
    from deltaic.table.snapshot import Snapshot

PREFIX = "deltaic.stream."
"""In the table's configuration, before the application's name."""

_MOST_OFFSET_BYTES = 1 << 16
_MOST_TOLD = 1_000

log = logging.getLogger("deltaic.spark")


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """The last batch of a stream that a table has."""

    application: str
    number: int
    """In the table: it rises with every batch, also from one checkpoint to the next."""
    query_id: str | None = None
    """Of the checkpoint that it came by; None if another kind of writer wrote it."""
    batch_id: int | None = None
    """Of that checkpoint."""
    offsets: tuple[Any, ...] = ()
    """Of each source, up to where the table has its rows; empty if the checkpoint could not be read."""

    def sink_options(self) -> dict[str, str]:
        """For a stream that goes on with a new checkpoint: it says after which number."""
        return {"txnAppId": self.application, "txnResumeAfter": str(self.number)}

    def source_options(self, source: int = 0) -> dict[str, str]:
        """For reading a deltaic table as a stream: go on after what is there.

        Args:
            source: which of the stream's sources, in the order of its plan.

        Raises:
            InputError: it is not known where the source was, or it was no deltaic table.
        """
        if source >= len(self.offsets):
            raise InputError(f"the table does not know where source {source} of {self.application} was")
        offset = self.offsets[source]
        if not isinstance(offset, dict) or not isinstance(offset.get("version"), int):
            raise InputError(
                f"source {source} of {self.application} was no deltaic table, its offset is "
                f"{json.dumps(offset)[:200]}: start it after that by its own options"
            )
        return {"startingOffset": json.dumps(offset, separators=(",", ":"))}


def stream_progress(table: "str | PathLike[str] | Any", application: str) -> StreamProgress | None:
    """The last batch of a stream that a table has; None if it has none.

    Args:
        table: a URL or a `Table`.
        application: the `txnAppId` of the stream.
    """
    from deltaic.table.rows.table import Table

    opened = Table.open(table) if isinstance(table, str | PathLike) else table
    return progress_of(opened.files.snapshot(), application)


def progress_of(snapshot: "Snapshot", application: str) -> StreamProgress | None:
    """The last batch of a stream that a version has."""
    number = snapshot.transactions.get(application)
    if number is None:
        return None
    told: Any = {}
    try:
        told = json.loads(snapshot.metadata.configuration.get(PREFIX + application, "{}"))
    except ValueError:
        log.warning("the progress of %s is no JSON", application)
    if not isinstance(told, dict) or told.get("number") != number:
        # Another kind of writer has gone on under this name.
        return StreamProgress(application, number)
    return StreamProgress(application, number, told.get("query"), told.get("batch"), tuple(told.get("offsets") or ()))


def configuration_of(progress: StreamProgress) -> dict[str, str]:
    """What the table keeps of it."""
    told: dict[str, Any] = {"number": progress.number, "query": progress.query_id, "batch": progress.batch_id}
    if progress.offsets:
        told["offsets"] = list(progress.offsets)
    return {PREFIX + progress.application: json.dumps(told, separators=(",", ":"), sort_keys=True)}


def next_number(
    before: StreamProgress | None, application: str, query_id: str, batch_id: int, resume_after: int | None
) -> int | None:
    """The number by which a batch goes into the table; None if it is there.

    Raises:
        InputError: the batch may hold rows that are in the table, and others that are not.
    """
    if before is None:
        if resume_after is not None:
            raise InputError(f"txnResumeAfter {resume_after}: the table has nothing of {application}")
        return batch_id
    if before.query_id == query_id and before.batch_id is not None:
        if batch_id < before.batch_id:
            raise InputError(
                f"batch {batch_id} of {application}, of which the table has batch {before.batch_id}: the checkpoint is "
                "older than the table, and the batches that it makes from here on may be cut in other places. "
                f"Start with a new checkpoint after deltaic.spark.stream_progress(…, {application!r})",
                "OldCheckpoint",
            )
        return None if batch_id == before.batch_id else before.number + batch_id - before.batch_id
    if resume_after == before.number:
        return before.number + 1 + batch_id
    raise InputError(
        f"the table has rows of {application} up to number {before.number}, from another checkpoint, and this one "
        f"starts at batch {batch_id}: some of its rows may be there. Go on after what is there, with the options that "
        f"deltaic.spark.stream_progress(…, {application!r}) gives for source and sink; or use another txnAppId",
        "NewCheckpoint",
    )


def checkpoint_offsets(checkpoint: str | None, batch_id: int) -> tuple[Any, ...]:
    """The offsets at which a batch ends, one for each source, by Spark's checkpoint; empty if it cannot be read."""
    if not checkpoint:
        return ()
    from deltaic.storage import open_store

    try:
        path = f"file://{checkpoint[5:]}" if checkpoint.startswith("file:/") and checkpoint[6:7] != "/" else checkpoint
        found = open_store(path).get(f"offsets/{batch_id}", limit_bytes=_MOST_OFFSET_BYTES)
        lines = bytes(found.data).decode().splitlines()
        return tuple(None if line == "-" else json.loads(line) for line in lines[2:])
    except (DeltaicError, NotFoundError, ValueError, OSError) as error:
        log.info("the offsets of batch %d are not known: %s", batch_id, error)
        return ()


def offsets_text(offsets: tuple[Any, ...]) -> dict[str, str]:
    """What the history says of where the sources were; nothing if that is long, the table keeps it all the same."""
    text = json.dumps(list(offsets), separators=(",", ":"))
    return {"sources": text} if offsets and len(text) <= _MOST_TOLD else {}


def query_id_of_task(properties: Mapping[str, str] | None = None) -> str | None:
    """The id of the stream that a task works for: it is the checkpoint's, and stays over restarts."""
    if properties is not None:
        return properties.get("sql.streaming.queryId")
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")
