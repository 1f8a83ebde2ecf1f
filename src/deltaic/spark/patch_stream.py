"""A stream of patches into a dataset: every batch takes effect once, whatever is killed.

    query = patch_stream(frame, "s3://bucket/movies", application="edits", checkpoint="/checkpoints/edits")

A frame has wire bytes in a column `patches`, one or more frames in each row (docs/formats/patches.md), or a row for
each patch with the columns of `PatchBatch.to_arrow`; other columns, such as versions, are passed over. Patches of a
batch apply in the order of Spark's partitions and of the rows in each.

How far the stream is, is kept with what it made: in the commit of the table, or in the header of the version where the
dataset is a chain without a table. A batch that Spark sends again is found there and left out.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic.binary.cursor import Cursor
from deltaic.dataset.dataset import Dataset
from deltaic.errors import InputError, NotFoundError
from deltaic.limits import DEFAULT_LIMITS
from deltaic.producer.patch_records import PatchRules
from deltaic.producer.validators import Candidate, ValidationResult
from deltaic.spark.progress import (
    PREFIX,
    StreamProgress,
    checkpoint_offsets,
    configuration_of,
    next_number,
    stream_progress,
)
from deltaic.spark.recording import RecordingFiles
from deltaic.storage.chain import BlobName
from deltaic.storage.packing import unpacked
from deltaic.wire.header import read_header
from deltaic.wire.patches import PatchBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    from deltaic.table.commit import Commit

log = logging.getLogger("deltaic.spark")

WIRE = "patches"
"""The column that holds wire bytes."""

_COLUMNS = ("op", "type", "key", "path", "value", "previous", "absent", "source", "reference", "timestamp")
_METADATA_BYTES = 10_000


def patch_stream(
    frame: "DataFrame",
    url: str,
    *,
    application: str,
    checkpoint: str,
    rules: PatchRules = PatchRules(),  # noqa: B008 - frozen
    resume_after: int | None = None,
    once: bool = False,
) -> "StreamingQuery":
    """Start a stream that patches a dataset.

    Args:
        frame: a stream of patches.
        url: the dataset, or the folder of a bare chain.
        application: the name under which the dataset keeps how far the stream is.
        checkpoint: where Spark keeps its place in the sources.
        rules: what becomes of patches that do not fit what they meet.
        resume_after: of a stream with a new checkpoint: the last number that the dataset has.
        once: end when everything that is there now was taken.
    """
    if not frame.isStreaming:
        raise InputError("the frame is no stream: patch_batch takes a batch")
    checked_columns(frame.columns)
    writer = frame.writeStream.option("checkpointLocation", checkpoint)
    writer = writer.trigger(availableNow=True) if once else writer
    return writer.foreachBatch(PatchedBatch(url, application, checkpoint, rules, resume_after)).start()


def patch_progress(url: str, application: str) -> StreamProgress | None:
    """The last batch of a stream of patches that a dataset has; None if it has none."""
    dataset = Dataset.open(url)
    return stream_progress(dataset.table, application) if dataset.has_table else _of_chain(dataset, application)


def checked_columns(names: list[str]) -> None:
    """Look that a frame has patches in it.

    Raises:
        InputError: it has neither wire bytes nor the columns of patches.
    """
    if WIRE not in names and not {"type", "key"} <= set(names):
        raise InputError(
            f"the rows are no patches: a column {WIRE!r} of wire bytes, or op, type, key, path, value; "
            f"columns: {', '.join(names)}"
        )


def patches_of(rows: Any, type_name: str | None = None) -> PatchBatch:
    """The patches of an Arrow table, in the order of its rows.

    Args:
        rows: with a column `patches` of wire bytes, or with a column for each part of a patch.
        type_name: the type of records, if there is no column `type`.
    """
    if type_name is not None and WIRE not in rows.column_names and "type" not in rows.column_names:
        import pyarrow as pa

        rows = rows.append_column("type", pa.repeat(pa.scalar(type_name), rows.num_rows))
    checked_columns(rows.column_names)
    if WIRE in rows.column_names:
        frames = (frame for frame in rows[WIRE].to_pylist() if frame is not None)
        return PatchBatch.joined(
            PatchBatch.from_bytes(frame, name=f"row {number}") for number, frame in enumerate(frames)
        )
    kept = rows.select([name for name in _COLUMNS if name in rows.column_names])
    if "timestamp" in kept.column_names:
        import pyarrow as pa

        # Spark has no unsigned numbers: there they are decimals.
        place = kept.column_names.index("timestamp")
        kept = kept.set_column(place, "timestamp", kept["timestamp"].cast(pa.uint64()))
    return PatchBatch.from_arrow(kept, name="rows")


@dataclass(frozen=True, slots=True)
class PatchedBatch:
    """Patches a dataset with a batch of a stream; a batch that the dataset has is left out."""

    url: str
    application: str
    checkpoint: str
    rules: PatchRules = PatchRules()  # noqa: RUF009 - frozen
    resume_after: int | None = None
    publish: bool = True
    """Of a dataset with a table: publish a version after each batch."""
    type_name: str | None = None
    """Of patches in rows that do not say it."""

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Take one batch."""
        dataset, query_id = Dataset.open(self.url), self._query_id()
        with_table = dataset.has_table
        before = (
            stream_progress(dataset.table, self.application) if with_table else _of_chain(dataset, self.application)
        )
        number = next_number(before, self.application, query_id, batch_id, self.resume_after)
        note = f"stream {self.application}, batch {batch_id}"
        if number is None:
            log.info("batch %d of %s is there already", batch_id, self.application)
            if with_table and self.publish:
                # Whoever put it there may have been killed before the version was published.
                dataset.publish(note=note)
            return
        patches = patches_of(batch.toArrow(), self.type_name)
        if not len(patches):
            return
        offsets = checkpoint_offsets(self.checkpoint, batch_id)
        progress = StreamProgress(self.application, number, query_id, batch_id, offsets)
        if with_table:
            _patch_table(dataset, patches, progress, self.rules, note, publish=self.publish)
        else:
            _patch_chain(dataset, patches, before, progress, self.rules, note)

    def _query_id(self) -> str:
        """The id of the stream, which Spark keeps in the checkpoint."""
        from deltaic.storage import open_store

        found = open_store(self.checkpoint).get("metadata", limit_bytes=_METADATA_BYTES)
        return str(json.loads(bytes(found.data))["id"])


class _PatchedFiles(RecordingFiles):
    """The files of a table; its commit by this object is one of a stream, and is refused if the table has it."""

    transaction: tuple[str, int] | None = None

    def commit(self, changes: Any, **terms: Any) -> "Commit":
        """Commit changes as a batch of the stream."""
        return super().commit(changes, **{**terms, "transaction": self.transaction})


def _patch_table(
    dataset: Dataset, patches: PatchBatch, progress: StreamProgress, rules: PatchRules, note: str, *, publish: bool
) -> None:
    from deltaic.table.rows.table import Table

    files = _PatchedFiles.open(dataset.table.url)
    assert isinstance(files, _PatchedFiles)
    files.carried = configuration_of(progress)
    files.transaction = (progress.application, progress.number)
    # The dataset was opened for this batch alone, and its one commit must be the one that carries the progress.
    dataset._table = Table(files)
    dataset.patch(patches, on_mismatch=rules.on_mismatch, on_missing=rules.on_missing, publish=publish, note=note)


def _patch_chain(
    dataset: Dataset,
    patches: PatchBatch,
    before: StreamProgress | None,
    progress: StreamProgress,
    rules: PatchRules,
    note: str,
) -> None:
    """Patch a chain; the version says in its header how far the stream is."""
    kept = {name: text for name, text in _announced_tags(dataset).items() if name.startswith(PREFIX)}
    tags = {**kept, **configuration_of(progress)}
    validator = _StillTheSame(progress.application, before)
    dataset.patch(
        patches,
        on_mismatch=rules.on_mismatch,
        on_missing=rules.on_missing,
        note=note,
        header_tags=tags,
        validators=(validator,),
    )


@dataclass(frozen=True, slots=True)
class _StillTheSame:
    """Refuses a version if the stream went on meanwhile, by another driver that holds the same checkpoint."""

    application: str
    before: StreamProgress | None

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"stream {self.application}"

    def validate(self, candidate: Candidate) -> ValidationResult:
        """Look how far the version before is."""
        tags = {} if candidate.previous is None else candidate.previous.header_tags
        found = _progress_in(tags, self.application)
        same = (found and found.number) == (self.before and self.before.number)
        return ValidationResult(self.name, same, "went on meanwhile" if not same else "is where it was")


def _of_chain(dataset: Dataset, application: str) -> StreamProgress | None:
    return _progress_in(_announced_tags(dataset), application)


def _progress_in(tags: Mapping[str, str], application: str) -> StreamProgress | None:
    text = tags.get(PREFIX + application)
    if text is None:
        return None
    told = json.loads(text)
    return StreamProgress(
        application, told["number"], told.get("query"), told.get("batch"), tuple(told.get("offsets") or ())
    )


def _announced_tags(dataset: Dataset) -> dict[str, str]:
    """The header tags of the newest version, by the file that holds its header alone."""
    try:
        version = dataset.announcements.read().version()
    except NotFoundError:
        return {}
    if version is None:
        return {}
    name = str(BlobName.header(version))
    entry = dataset.announcements.entry_of(version)
    artifact = None if entry is None else entry.artifact(name)
    try:
        data: Any = dataset.chain.get(name, limit_bytes=DEFAULT_LIMITS.max_blob_bytes).data
    except NotFoundError as error:
        raise NotFoundError(
            f"version {version} of {dataset.chain.url} has no header file, which would tell how far the stream is"
        ) from error
    if artifact is not None and artifact.codec is not None:
        data = unpacked(data, artifact, DEFAULT_LIMITS.max_blob_bytes)
    return dict(read_header(Cursor(data, name), DEFAULT_LIMITS).tags)
