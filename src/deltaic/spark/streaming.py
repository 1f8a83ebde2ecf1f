"""Stream source: a table as a stream of its versions.

An offset is a table version: everything up to it was given. A stream starts with the rows of the table as it is and
goes on with what every version adds; with `startingVersion` it starts with what that version added. Rows that were
changed or deleted are no rows of a stream: a version that did that is an error, unless the stream is a change feed
(`changes`), which gives every change with the row before and after, and the rows at the start as inserts.

    {"version": 7}               all of version 7 and before
    {"version": 7, "splits": 3}  of the rows at the start, which are those of version 7, the first three splits
    {"version": -1, "splits": 0} before the rows at the start, whichever version they will be of
"""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from deltaic.errors import InputError, NotFoundError
from deltaic.spark.columns import arrow_schema, for_spark, spark_schema
from deltaic.spark.reading import SplitsPart, batches, share_out, view_of
from deltaic.spark.request import ReadRequest

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from deltaic.table.actions import AddFile
    from deltaic.table.rows.table import Table

_Offset = dict[str, int]
_CHANGE_ROWS = 65_536


class ChangesPart(InputPartition):
    """The changes of some versions, which one task finds out."""

    def __init__(self, path: str, from_version: int, to_version: int) -> None:
        super().__init__(None)
        self.path, self.from_version, self.to_version = path, from_version, to_version


def changes_schema(request: ReadRequest) -> "StructType":
    """The Spark schema of a change feed."""
    from deltaic.table.rows.changes import change_schema

    return spark_schema(change_schema(view_of(request).reader))


class VersionStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A table as a stream."""

    def __init__(self, request: ReadRequest, schema: "StructType") -> None:
        if request.version is not None or request.timestamp is not None or request.tag is not None:
            raise InputError("a stream is of all versions from startingVersion on, not of one version")
        if request.limit is not None or request.query is not None:
            raise InputError("a stream has neither a limit nor a query: filter it by where, or in Spark")
        if request.changes and (request.where is not None or request.columns is not None):
            raise InputError("a change feed has whole rows before and after: filter and choose in Spark")
        self._request, self._schema = request, schema
        self._target: int | None = None

    def initialOffset(self) -> _Offset:
        """Before the rows that are there, or before the version that the option names."""
        request = self._request
        if request.starting_offset is not None:
            return _offset(request.starting_offset)
        if request.starting_version is not None:
            return {"version": request.starting_version - 1}
        return {"version": -1, "splits": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options say a batch may hold."""
        if self._request.max_versions is not None:
            return ReadMaxFiles(self._request.max_versions)
        if self._request.max_rows is not None:
            return ReadMaxRows(self._request.max_rows)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Do not go beyond what is there now."""
        self._target = self._table().version

    def latestOffset(self, start: _Offset, limit: ReadLimit) -> _Offset:
        """As far as the table goes, and the limit lets."""
        table = self._table()
        newest = table.version if self._target is None else min(table.version, self._target)
        if "splits" in start:
            return self._more_rows(table, start, newest, limit)
        first = start["version"]
        if newest <= first:
            return start
        if isinstance(limit, ReadMaxFiles):
            return {"version": min(newest, first + limit.max_files)}
        if isinstance(limit, ReadMaxRows):
            return {"version": self._within(table, first, newest, limit.max_rows)}
        return {"version": newest}

    def reportLatestOffset(self) -> _Offset | None:
        """The newest version."""
        return {"version": self._table().version}

    def partitions(self, start: _Offset, end: _Offset) -> Sequence[InputPartition]:
        """The splits that the versions between two offsets added, or their changes."""
        if start == end:
            return []
        table, request = self._table(), self._request
        if "splits" in start:
            # A batch ends where the rows at the start do, so that all of them are of the version of its end.
            reader = table.at(version=end["version"]).reader
            rows = reader.files_of()[start["splits"] : end.get("splits")]
            return [SplitsPart(request.path, reader, group) for group in share_out(rows, request.bytes_per_task)]
        first, last = start["version"], end["version"]
        if request.changes:
            return self._change_parts(table, first, last)
        added: list[AddFile] = []
        for step in self._steps(table, first, last):
            if any(remove.data_change for remove in step.removed):
                raise InputError(
                    f"version {step.version} of {request.path} changed or deleted rows, which a stream of rows cannot "
                    f"tell: read the change feed (option changes), or start after it (startingVersion "
                    f"{step.version + 1})",
                    "RowsChanged",
                )
            added += [add for add in step.added if add.data_change]
        reader = table.at(version=last).reader
        return [SplitsPart(request.path, reader, group) for group in share_out(added, request.bytes_per_task)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a partition as Arrow batches."""
        wanted = arrow_schema(self._schema)
        if isinstance(partition, ChangesPart):
            from deltaic.table.rows.table import Table

            table = Table.open(partition.path)
            for batch in table.changes(partition.from_version, partition.to_version):
                yield for_spark(batch, wanted)
        elif isinstance(partition, SplitsPart) and self._request.changes:
            yield from self._as_inserts(partition, wanted)
        elif isinstance(partition, SplitsPart):
            yield from batches(partition, [field.name for field in self._schema.fields], wanted, self._request)

    def commit(self, end: _Offset) -> None:
        """Nothing is kept that would have to go."""

    def _table(self) -> "Table":
        from deltaic.table.rows.table import Table

        return Table.open(self._request.path)

    def _more_rows(self, table: "Table", start: _Offset, newest: int, limit: ReadLimit) -> _Offset:
        """How far a batch goes into the rows at the start."""
        version, given = start["version"], start["splits"]
        if version < 0:
            version = newest
        if not isinstance(limit, ReadMaxRows):
            return {"version": version}
        rows, reached = 0, given
        adds = table.at(version=version).reader.files_of()
        for add in adds[given:]:
            rows += add.num_records or 0
            if rows > limit.max_rows and reached > given:
                break
            reached += 1
        return {"version": version} if reached >= len(adds) else {"version": version, "splits": reached}

    def _steps(self, table: "Table", first: int, last: int) -> Iterator[Any]:
        try:
            yield from table.files.changes(first, last)
        except NotFoundError as error:
            raise NotFoundError(
                f"{error}: the stream is behind the table's history; start it anew, or with startingVersion "
                f"{min(table.versions()) + 1}"
            ) from error

    def _change_parts(self, table: "Table", first: int, last: int) -> list[InputPartition]:
        """Ranges of versions, each as large as a task likes; versions that changed no rows are in no range."""
        parts: list[InputPartition] = []
        begun, size = None, 0
        for step in self._steps(table, first, last):
            if not step.data_change:
                continue
            if step.version == 0:
                raise InputError("version 0 has no version before it: a change feed starts with version 1")
            begun = step.version - 1 if begun is None else begun
            size += sum(each.size_bytes or 0 for each in (*step.added, *step.removed))
            if size >= self._request.bytes_per_task:
                parts.append(ChangesPart(self._request.path, begun, step.version))
                begun, size = None, 0
        if begun is not None:
            parts.append(ChangesPart(self._request.path, begun, last))
        return parts

    def _as_inserts(self, partition: SplitsPart, wanted: Any) -> Iterator[Any]:
        """The rows at the start of a change feed."""
        import pyarrow as pa

        from deltaic.table.rows.changes import change_schema

        reader = partition.reader()
        schema, key = change_schema(reader), reader.schema.key
        names = [field.name for field in schema.field("after").type]
        for table in reader.scan(partition.adds, names, None, threads=2):
            for batch in table.combine_chunks().to_batches(max_chunksize=_CHANGE_ROWS):
                count = batch.num_rows
                after = pa.StructArray.from_arrays(
                    [batch.column(name) for name in names], fields=list(schema.field("after").type)
                )
                arrays = [
                    pa.repeat(pa.scalar("insert"), count),
                    pa.repeat(pa.scalar(partition.version, pa.int64()), count),
                    *(batch.column(name) for name in key),
                    pa.nulls(count, after.type),
                    after,
                ]
                yield for_spark(pa.RecordBatch.from_arrays(arrays, schema=schema), wanted)

    def _within(self, table: "Table", first: int, newest: int, most: int) -> int:
        """The last version up to which no more than so many rows were added; at least one version."""
        rows, reached = 0, first
        for step in self._steps(table, first, newest):
            rows += sum(add.num_records or 0 for add in step.added if add.data_change)
            if rows > most and reached > first:
                break
            reached = step.version
        return reached


def _offset(text: str) -> _Offset:
    try:
        found = json.loads(text)
        offset = {name: int(found[name]) for name in ("version", "splits") if name in found}
    except (ValueError, TypeError) as error:
        raise InputError(f"startingOffset {text[:80]!r} is no offset: {error}") from None
    if "version" not in offset or offset.get("splits", 0) < 0:
        raise InputError(f"startingOffset {text[:80]!r} is no offset: give what stream_progress told")
    return offset
