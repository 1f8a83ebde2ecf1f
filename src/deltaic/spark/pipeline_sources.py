"""The sources of a pipeline: which version of each a run reads, and the frames that read exactly that.

A version is fixed before anything is read, so that what a commit says of its sources is so. Tables have versions of
their own. Files have none: theirs is a digest of their names, sizes and times.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic.errors import DeltaicError, InputError, NotFoundError
from deltaic.spark.pipeline_file import Pipeline, Source
from deltaic.storage import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DELTA_ENTRY = re.compile(r"(\d{20})(?:\.json|\.checkpoint.*\.parquet)")
_METADATA_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Opened:
    """A source as a run reads it."""

    source: Source
    frame: "DataFrame"
    version: str | None
    """None for a stream, whose offsets Spark keeps, and for what cannot tell."""


def open_source(spark: "SparkSession", pipeline: Pipeline, source: Source, resume: dict[str, str]) -> Opened:
    """Open a source at the version that it has now.

    Args:
        spark: the session.
        pipeline: to which its paths are relative.
        source: what to open.
        resume: options by which a stream goes on after what the table has, if its checkpoint is lost.
    """
    path = None if source.path is None else pipeline.place(source.path)
    options = dict(source.options)
    if source.stream:
        reader = spark.readStream.format(source.format).options(**{**options, **resume})
        if source.schema is not None:
            reader = reader.schema(source.schema)
        if source.table is not None:
            return Opened(source, spark.readStream.options(**options).table(source.table), None)
        return Opened(source, reader.load(path) if path is not None else reader.load(), None)
    version, chosen = _version(spark, source, path)
    batch = spark.read.format(source.format).options(**{**options, **chosen})
    if source.schema is not None:
        batch = batch.schema(source.schema)
    if source.table is not None:
        frame = spark.read.options(**{**options, **chosen}).table(source.table)
    else:
        frame = batch.load(path) if path is not None else batch.load()
    if version is None:
        version = _files_version(frame)
    return Opened(source, frame, version)


def _version(spark: "SparkSession", source: Source, path: str | None) -> tuple[str | None, dict[str, str]]:
    """The version of a table and the options that read it; None where the format has no versions."""
    asked = {name.lower() for name in source.options}
    if asked & {"version", "versionasof", "timestampasof", "timestamp", "tag", "snapshot-id", "as-of-timestamp"}:
        return json.dumps(source.options, sort_keys=True), {}
    if source.format == "deltaic" and path is not None:
        from deltaic.table.rows.table import Table

        version = Table.open(path).version
        return str(version), {"version": str(version)}
    if source.format == "delta" and path is not None:
        version = _newest_delta(path)
        return str(version), {"versionAsOf": str(version)}
    if source.format == "iceberg":
        snapshot = _iceberg_by_catalog(spark, source.table) if source.table else _newest_iceberg(str(path))
        return (None, {}) if snapshot is None else (snapshot, {"snapshot-id": snapshot})
    return None, {}


def _newest_delta(path: str) -> int:
    """The newest version of a Delta table, by the names in its log."""
    try:
        names = [entry.key for entry in open_store(path).list("_delta_log/")]
    except (NotFoundError, OSError) as error:
        raise NotFoundError(f"{path} is no Delta table: {error}") from error
    found = [int(match[1]) for name in names if (match := _DELTA_ENTRY.fullmatch(name.rpartition("/")[2]))]
    if not found:
        raise NotFoundError(f"{path} is no Delta table: it has no _delta_log")
    return max(found)


def _newest_iceberg(path: str) -> str | None:
    """The current snapshot of an Iceberg table in a folder; None if it has none yet."""
    store = open_store(path)
    try:
        hint = bytes(store.get("metadata/version-hint.text", limit_bytes=100).data).decode().strip()
        name = hint if hint.endswith(".json") else f"v{hint}.metadata.json"
        metadata: Any = json.loads(bytes(store.get(f"metadata/{name}", limit_bytes=_METADATA_BYTES).data))
    except (DeltaicError, ValueError) as error:
        raise NotFoundError(f"{path} is no Iceberg table that can be read without a catalog: {error}") from error
    snapshot = metadata.get("current-snapshot-id")
    return None if snapshot in (None, -1) else str(snapshot)


def _iceberg_by_catalog(spark: "SparkSession", table: str) -> str | None:
    rows = spark.table(f"{table}.snapshots").orderBy("committed_at", ascending=False).limit(1).collect()
    return str(rows[0]["snapshot_id"]) if rows else None


def _files_version(frame: "DataFrame") -> str | None:
    """A digest of the files that a frame reads; None if it reads none that can be named."""
    files = sorted(frame.inputFiles())
    if not files:
        return None
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.encode() + b"\0" + _written(file) + b"\0")
    return f"{len(files)} files {digest.hexdigest()[:16]}"


def _written(file: str) -> bytes:
    """Size and time of a file, as far as they can be had."""
    folder, _, name = file.rpartition("/")
    try:
        info = open_store(_decoded(folder)).head(_decoded(name))
        return f"{info.size_bytes} {info.modified} {info.etag}".encode()
    except (DeltaicError, OSError):
        return b""


def _decoded(text: str) -> str:
    from urllib.parse import unquote

    return unquote(text.removeprefix("file://")) if text.startswith("file:///") else unquote(text)


def resume_options(pipeline: Pipeline, progress: Any) -> dict[str, dict[str, str]]:
    """By source, the options by which streams go on after what the table has, where a checkpoint was lost.

    Raises:
        InputError: a source cannot be told where to go on.
    """
    streams = pipeline.streams
    if len(streams) != 1 or streams[0].format != "deltaic" or not progress.offsets:
        raise InputError(
            f"the checkpoint of pipeline {pipeline.name} is gone, and the table has its rows up to number "
            f"{progress.number}: only a stream from one deltaic table can go on by itself. Bring the checkpoint back "
            f"({pipeline.checkpoint_url}), or give the pipeline another name once the sources hold only what is new",
            "NewCheckpoint",
        )
    return {streams[0].name: progress.source_options()}
