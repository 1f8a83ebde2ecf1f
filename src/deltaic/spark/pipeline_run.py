"""Running a pipeline: once, or again and again; killed at any point, the next run ends where this one would have.

    1 pending   what the table has and the dataset has not is published
    2 sources   their versions are fixed; those that the table was made from already need nothing more
    3 dataset   it is made, or its table gets the columns that the rows have and it has not
    4 rows      written as splits and committed, with the number of the run and the versions of the sources
    5 publish   the table's version becomes one of the dataset, with the same in its header

Progress is kept nowhere but in the table's log, in the commits that make it: a run that finds its number there does
nothing again. Of streams Spark keeps the place in a checkpoint, and the table keeps its number beside the rows; a
checkpoint that got lost is made up from there where the source is a table (`deltaic.spark.progress`).
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltaic.dataset.dataset import TABLE, Dataset
from deltaic.errors import InputError, NotFoundError
from deltaic.spark.columns import arrow_schema, with_vectors
from deltaic.spark.merging import merge_frame
from deltaic.spark.patch_stream import checked_columns
from deltaic.spark.pipeline_file import Pipeline
from deltaic.spark.pipeline_frames import checked_rows, counted, plan_text, transformed
from deltaic.spark.pipeline_publish import Publisher, published_facts
from deltaic.spark.pipeline_sources import Opened, open_source
from deltaic.spark.pipeline_stream import Resumption, broken_in, resumption, start_stream
from deltaic.spark.progress import StreamProgress, configuration_of, stream_progress
from deltaic.spark.recording import recording
from deltaic.spark.session import activate
from deltaic.storage import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltaic.dataset.publishing import Published
    from deltaic.table.rows.table import Table

log = logging.getLogger("deltaic.spark")

_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Step:
    """What a run has just done."""

    name: str
    text: str
    seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)


class PipelineRun:
    """A pipeline with a session: what it does next, step by step."""

    def __init__(self, pipeline: Pipeline, spark: "SparkSession") -> None:
        self.pipeline, self.spark = pipeline, spark
        self._publisher: Publisher | None = None
        self._looked_at: int | None = None
        self._resumed = Resumption()

    @property
    def dataset(self) -> Dataset | None:
        """The dataset; None before the first run has made it."""
        if self._publisher is not None:
            return self._publisher.dataset
        try:
            found = Dataset.open(self.pipeline.dataset_url)
        except NotFoundError:
            return None
        return found if found.has_table else None

    @property
    def table_url(self) -> str:
        """Where the table is."""
        return open_store(self.pipeline.dataset_url).child(TABLE).url

    def plan(self) -> str:
        """What a run would do, without doing anything."""
        lines = [f"pipeline {self.pipeline.name} → {self.pipeline.dataset_url} ({self.pipeline.table.mode})"]
        progress = self._progress()
        opened = self._open(progress, dry=True)
        for each in opened:
            kind = "stream" if each.source.stream else f"version {each.version or 'unknown'}"
            lines.append(f"source {each.source.name}: {each.source.format} {each.source.path or ''}, {kind}")
        frame = transformed(self.spark, self.pipeline, opened)
        lines += [f"expect {each.name}: {each.that}, else {each.otherwise}" for each in self.pipeline.expect]
        columns = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in frame.schema.fields)
        lines.append(f"rows {self.pipeline.written}: {columns}")
        if progress is None:
            lines.append("the table has nothing of it yet")
        else:
            same = not self.pipeline.streams and self._told(opened) == list(progress.offsets)
            lines.append(f"the table has it up to number {progress.number}{': nothing to do' if same else ''}")
        lines.append("then publish" if self.pipeline.publish is not None else "not published")
        return "\n".join([*lines, "", plan_text(frame)])

    def run(self) -> Iterator[Step]:
        """One run, step by step: what was done is told after it is done."""
        yield from self._pending()
        started = time.perf_counter()
        progress = self._progress()
        opened = self._open(progress)
        told = self._told(opened)
        text = ", ".join(f"{each.source.name} {each.version or 'as a stream'}" for each in opened)
        yield Step("sources", text, time.perf_counter() - started, {"sources": told})
        if not self.pipeline.streams and progress is not None and list(progress.offsets) == told:
            yield Step("unchanged", f"the table was made from these (run {progress.number})", 0.0)
            return
        frame = transformed(self.spark, self.pipeline, opened)
        yield from self._shaped(frame)
        if self.pipeline.streams:
            yield from self._stream_once(frame)
        else:
            yield from self._write(frame, StreamProgress(self.pipeline.name, _next(progress), offsets=tuple(told)))
        yield from self._pending()

    def run_continuously(self, stopped: Callable[[], bool], *, pause_seconds: float = 1.0) -> Iterator[Step]:
        """Go on until it is stopped; streams stay open, and every version of the table is published as it comes."""
        if not self.pipeline.streams:
            while not stopped():
                yield from self.run()
                _wait(pause_seconds, stopped)
            return
        yield from self._pending()
        progress = self._progress()
        frame = transformed(self.spark, self.pipeline, self._open(progress))
        yield from self._shaped(frame)
        query = start_stream(self, frame, self._resumed, once=False)
        try:
            while not stopped():
                if not query.isActive:
                    raise query.exception() or InputError("the stream ended by itself")
                before = time.perf_counter()
                done = list(self._pending())
                yield from done
                if not done:
                    _wait(max(0.0, _POLL_SECONDS - (time.perf_counter() - before)), stopped)
        finally:
            query.stop()
        yield from self._pending()

    def lineage(self, told: "list[Any] | None" = None) -> dict[str, str]:
        """What a commit says of where its rows come from."""
        found = {"pipeline": self.pipeline.name}
        for each in told or ():
            if isinstance(each, dict) and "source" in each:
                found[f"source.{each['source']}"] = str(each.get("version"))
        return found

    def _progress(self) -> StreamProgress | None:
        try:
            return stream_progress(self.table_url, self.pipeline.name)
        except NotFoundError:
            return None

    def _open(self, progress: StreamProgress | None, *, dry: bool = False) -> list[Opened]:
        activate(self.spark)
        if self.pipeline.streams:
            self._resumed = resumption(self.pipeline, progress, dry=dry)
        return [
            open_source(self.spark, self.pipeline, source, self._resumed.sources.get(source.name, {}))
            for source in self.pipeline.source
        ]

    def _told(self, opened: list[Opened]) -> list[Any]:
        """What a commit keeps of its sources."""
        sources = [
            {"source": each.source.name, "format": each.source.format, "version": each.version} for each in opened
        ]
        if any(each.version is None for each in opened) and not self.pipeline.streams:
            # One that cannot tell may always have changed.
            sources.append({"at": str(time.time_ns())})
        return [*sources, {"pipeline": self.pipeline.digest}]

    def _shaped(self, frame: "DataFrame") -> Iterator[Step]:
        """Make the dataset, or give its table the columns that the rows have."""
        from deltaic.schema.model import Model
        from deltaic.table.split import ColumnIndex

        started, target = time.perf_counter(), self.pipeline.table
        if target.mode == "patch":
            checked_columns([*frame.columns, "type"])
            if self.dataset is None:
                raise NotFoundError(f"there is no dataset with a table to patch in {self.pipeline.dataset_url}")
            return
        wanted = with_vectors(arrow_schema(frame.schema), target.vectors)
        if missing := [name for name in target.key if name not in wanted.names]:
            raise InputError(
                f"the key {missing[0]!r} is no column of {self.pipeline.written}: {', '.join(wanted.names)}"
            )
        if self.dataset is None:
            Dataset.create(
                self.pipeline.dataset_url,
                Model.from_arrow(wanted, target.type, key=target.key),
                table=True,
                exist_ok=True,
                partition_by=target.partition_by,
                index={name: ColumnIndex(kind="text") for name in target.text},
            )
            text = f"{self.pipeline.dataset_url}, {len(wanted)} columns"
            yield Step("created", text, time.perf_counter() - started)
            return
        table = self.dataset.table
        for column in wanted:
            if column.name not in table.schema.names:
                note = f"pipeline {self.pipeline.name}"
                table.add_column(column.name, column.type, vector=column.name in target.vectors, note=note)
                yield Step("column", f"{column.name} {column.type}", time.perf_counter() - started)

    def _write(self, frame: "DataFrame", progress: StreamProgress) -> Iterator[Step]:
        started = time.perf_counter()
        rows, counts = counted(checked_rows(frame, self.pipeline.expect), self.pipeline.expect)
        note = f"pipeline {self.pipeline.name}, run {progress.number}"
        user = self.lineage(list(progress.offsets))
        transaction = (progress.application, progress.number)
        if self.pipeline.table.mode == "merge":
            table = recording(self.table_url, configuration_of(progress))
            done = merge_frame(rows, table, note=note, user=user, transaction=transaction)
            version: int | None = done.version
        else:
            options = {
                "note": note,
                "user": json.dumps(user),
                "txnAppId": progress.application,
                "txnVersion": str(progress.number),
                "txnProgress": configuration_of(progress)[next(iter(configuration_of(progress)))],
            }
            rows.write.format("deltaic").mode("overwrite").options(**options).save(self.table_url)
            version = None
        broken = counts()
        facts = {"broken": broken, "run": progress.number}
        text = f"run {progress.number}{'' if version is None else f', table version {version}'}{_broken(broken)}"
        yield Step("rows", text, time.perf_counter() - started, facts)

    def _stream_once(self, frame: "DataFrame") -> Iterator[Step]:
        started = time.perf_counter()
        before = self._table().version
        query = start_stream(self, frame, self._resumed, once=True)
        try:
            query.awaitTermination()
            broken = broken_in(query)
        finally:
            query.stop()
        version = self._table().version
        text = "nothing new" if version == before else f"table version {before} → {version}{_broken(broken)}"
        facts = {"from": before, "to": version, "broken": broken}
        yield Step("rows", text, time.perf_counter() - started, facts)

    def _table(self) -> "Table":
        from deltaic.table.rows.table import Table

        return Table.open(self.table_url)

    def _pending(self) -> Iterator[Step]:
        """Publish what the table has and the dataset has not."""
        how, dataset = self.pipeline.publish, self.dataset
        if how is None or dataset is None:
            return
        if self._publisher is None:
            self._publisher = Publisher(dataset, how)
        started, newest = time.perf_counter(), dataset.table.version
        if newest == self._looked_at:
            return
        version = _newest_rows(dataset.table)
        if version is None or version == self._publisher.table_version:
            self._looked_at = newest
            return
        progress = self._progress()
        tags = {"deltaic.pipeline": self.pipeline.name}
        for place, offset in enumerate(progress.offsets if progress is not None else ()):
            name, told = _source_of(offset, place, self.pipeline)
            if name is not None:
                tags[f"deltaic.source.{name}"] = told
        engine = how.engine != "embedded"
        note = f"pipeline {self.pipeline.name}"
        done = self._publisher.publish(version, tags, note, self.spark if engine else None)
        self._looked_at = newest
        if done.version is not None:
            yield Step("published", _published(done), time.perf_counter() - started, published_facts(done))


def run_pipeline(pipeline: Pipeline, spark: "SparkSession") -> list[Step]:
    """Run a pipeline once; what it did."""
    return list(PipelineRun(pipeline, spark).run())


def _next(progress: StreamProgress | None) -> int:
    return 0 if progress is None else progress.number + 1


def _newest_rows(table: "Table") -> int | None:
    """The newest version that changed rows; None for a table that was never written to.

    A column alone is published with the rows that have it: a run that was killed in between makes no version more.
    """
    for entry in table.history():
        if entry.data_change and entry.version > 0 and (entry.files_added or entry.files_removed):
            return entry.version
    return None


def _source_of(offset: Any, place: int, pipeline: Pipeline) -> tuple[str | None, str]:
    """The name of a source and its version, as a commit keeps them."""
    if isinstance(offset, dict) and "source" in offset:
        return offset["source"], str(offset.get("version"))
    if pipeline.streams and place < len(pipeline.streams):
        return pipeline.streams[place].name, json.dumps(offset, separators=(",", ":"))
    return None, ""


def _published(done: "Published") -> str:
    return f"version {done.version} from table version {done.table_version}, {done.mode}: {done.reason}"


def _broken(counts: Mapping[str, int]) -> str:
    said = [f"{count:,} rows not {name!r}" for name, count in counts.items() if count]
    return f"; {', '.join(said)}" if said else ""


def _wait(seconds: float, stopped: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not stopped() and (left := deadline - time.monotonic()) > 0:
        time.sleep(min(left, 0.1))
