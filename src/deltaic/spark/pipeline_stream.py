"""The stream of a pipeline: every batch goes into the table once, by the sink or by a merge."""

import json
from typing import TYPE_CHECKING, Any

from deltaic.errors import DeltaicError
from deltaic.spark.pipeline_frames import checked_rows
from deltaic.spark.progress import (
    StreamProgress,
    checkpoint_offsets,
    configuration_of,
    next_number,
    stream_progress,
)
from deltaic.spark.recording import recording
from deltaic.storage import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    from deltaic.spark.pipeline_run import PipelineRun


def start_stream(
    run: "PipelineRun", frame: "DataFrame", progress: StreamProgress | None, *, once: bool
) -> "StreamingQuery":
    """Start the stream: for what there is now, or for good."""
    pipeline = run.pipeline
    rows = checked_rows(frame, pipeline.expect)
    resumed = progress if progress is not None and not run.has_checkpoint() else None
    writer = rows.writeStream.option("checkpointLocation", pipeline.checkpoint_url)
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
    if pipeline.table.mode == "merge":
        after = _resume_after(run, resumed)
        batch = MergedBatch(run.table_url, pipeline.name, pipeline.checkpoint_url, run.lineage(), after)
        return writer.foreachBatch(batch).start()
    options = {
        "txnAppId": pipeline.name,
        "note": f"pipeline {pipeline.name}",
        "user": json.dumps(run.lineage()),
    }
    after = _resume_after(run, resumed)
    if after is not None:
        options["txnResumeAfter"] = str(after)
    return writer.format("deltaic").options(**options).start(run.table_url)


def _resume_after(run: "PipelineRun", resumed: StreamProgress | None) -> int | None:
    """After which number a new checkpoint goes on.

    It is kept beside the checkpoint before that is made: a run that is killed before its first batch is committed
    leaves a checkpoint that is there, and still new to the table.
    """
    store = open_store(run.pipeline.checkpoint_url)
    if resumed is not None:
        store.put("resumed-after", str(resumed.number).encode())
        return resumed.number
    try:
        return int(bytes(store.get("resumed-after", limit_bytes=100).data))
    except (DeltaicError, ValueError):
        return None


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
        table.merge(
            batch.toArrow(),
            note=f"pipeline {self._application}",
            user=self._user,
            transaction=(self._application, number),
        )

    def _query_id(self) -> str:
        """The id of the stream, which Spark keeps in the checkpoint."""
        found = open_store(self._checkpoint).get("metadata", limit_bytes=10_000)
        return str(json.loads(bytes(found.data))["id"])
