"""The stream of a pipeline: every batch goes into the table once, by the sink or by a merge."""

import json
from typing import TYPE_CHECKING, Any

import msgspec

from deltaic.errors import InputError, NotFoundError
from deltaic.spark.merging import merge_frame
from deltaic.spark.patch_stream import PatchedBatch
from deltaic.spark.pipeline_file import Pipeline
from deltaic.spark.pipeline_frames import broken_counts, checked_rows
from deltaic.spark.pipeline_sources import resume_options
from deltaic.spark.progress import (
    StreamProgress,
    checkpoint_offsets,
    configuration_of,
    next_number,
    offsets_text,
    stream_progress,
)
from deltaic.spark.recording import recording
from deltaic.storage import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    from deltaic.spark.pipeline_run import PipelineRun


_KEPT = "resumed"
"""Beside Spark's own files in a checkpoint: where the stream goes on that it is of."""

EXPECTATIONS = "expectations"
"""The name under which a stream counts the rows that break what only warns."""


class Resumption(msgspec.Struct, frozen=True):
    """How a stream goes on whose checkpoint was lost."""

    after: int | None = None
    """The number of the last batch that the table has."""
    sources: dict[str, dict[str, str]] = {}
    """By name of the source, the options that let it go on after that."""


def resumption(pipeline: Pipeline, progress: StreamProgress | None, *, dry: bool = False) -> Resumption:
    """How the stream of a pipeline goes on; nothing is special if its checkpoint is there or it is new.

    It is kept beside the checkpoint before Spark makes that, and counts as long as the checkpoint does: a run that is
    killed before its first batch leaves a checkpoint that is there, and knows of no place yet.
    """
    try:
        store = open_store(pipeline.checkpoint_url)
    except InputError:
        # A file system of Java's: what is there cannot be seen from here, and the sink refuses what may not be.
        return Resumption()
    try:
        return msgspec.json.decode(bytes(store.get(_KEPT, limit_bytes=1 << 20).data), type=Resumption)
    except NotFoundError:
        pass
    try:
        store.head("metadata")
        return Resumption()
    except NotFoundError:
        if progress is None:
            return Resumption()
    found = Resumption(progress.number, resume_options(pipeline, progress))
    if not dry:
        store.put(_KEPT, msgspec.json.encode(found))
    return found


def start_stream(run: "PipelineRun", frame: "DataFrame", resumed: Resumption, *, once: bool) -> "StreamingQuery":
    """Start the stream: for what there is now, or for good."""
    pipeline = run.pipeline
    rows = checked_rows(frame, pipeline.expect)
    if counts := broken_counts(pipeline.expect):
        rows = rows.observe(EXPECTATIONS, *counts)
    writer = rows.writeStream.option("checkpointLocation", pipeline.checkpoint_url)
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
    if pipeline.table.mode == "merge":
        batch = MergedBatch(run.table_url, pipeline.name, pipeline.checkpoint_url, run.lineage(), resumed.after)
        return writer.foreachBatch(batch).start()
    if pipeline.table.mode == "patch":
        patched = PatchedBatch(
            pipeline.dataset_url,
            pipeline.name,
            pipeline.checkpoint_url,
            resume_after=resumed.after,
            publish=False,
            type_name=pipeline.table.type,
        )
        return writer.foreachBatch(patched).start()
    options = {
        "txnAppId": pipeline.name,
        "note": f"pipeline {pipeline.name}",
        "user": json.dumps(run.lineage()),
    }
    if resumed.after is not None:
        options["txnResumeAfter"] = str(resumed.after)
    return writer.format("deltaic").options(**options).start(run.table_url)


def broken_in(query: "StreamingQuery") -> dict[str, int]:
    """How many rows of the batches of a stream break what only warns."""
    found: dict[str, int] = {}
    for progress in query.recentProgress:
        seen = progress.observedMetrics.get(EXPECTATIONS)
        for name, count in (seen.asDict() if seen is not None else {}).items():
            found[name] = found.get(name, 0) + (count or 0)
    return found


class MergedBatch:
    """Merges a batch of a stream into the table by its key; a batch that is there is left out."""

    def __init__(
        self, table_url: str, application: str, checkpoint: str, user: dict[str, str], resume_after: int | None
    ) -> None:
        self._table_url, self._application, self._checkpoint = table_url, application, checkpoint
        self._user, self._resume_after = user, resume_after

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Merge one batch."""
        before = stream_progress(self._table_url, self._application)
        query_id = self._query_id()
        number = next_number(before, self._application, query_id, batch_id, self._resume_after)
        if number is None:
            return
        offsets = checkpoint_offsets(self._checkpoint, batch_id)
        progress = StreamProgress(self._application, number, query_id, batch_id, offsets)
        table = recording(self._table_url, configuration_of(progress))
        merge_frame(
            batch,
            table,
            note=f"pipeline {self._application}",
            user={**self._user, **offsets_text(offsets)},
            transaction=(self._application, number),
        )

    def _query_id(self) -> str:
        """The id of the stream, which Spark keeps in the checkpoint."""
        found = open_store(self._checkpoint).get("metadata", limit_bytes=10_000)
        return str(json.loads(bytes(found.data))["id"])
