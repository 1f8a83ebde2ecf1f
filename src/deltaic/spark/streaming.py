"""Stream source: a table as a stream of its versions.

An offset is a table version. A stream starts with the rows of the table as it is (unless `startingVersion` says after
which version) and goes on with what every version adds. Rows that were changed or deleted are no rows of a stream: a
version that did that is an error, unless the stream is a change feed (`changes`), which gives every change with the row
before and after.
"""

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

from deltaic.errors import InputError
from deltaic.spark.columns import arrow_schema, for_spark, spark_schema
from deltaic.spark.reading import SplitsPart, batches, share_out, view_of
from deltaic.spark.request import ReadRequest

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from deltaic.table.rows.table import Table

BEFORE_ALL = -1
"""The version of the offset at which a stream starts that begins with the rows that are there."""


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
        self._request, self._schema = request, schema
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:
        """Before the rows that are there, or after the version that the option names."""
        if self._request.starting_version is not None:
            return {"version": self._request.starting_version}
        return {"version": BEFORE_ALL}

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

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """As far as the table goes, and the limit lets."""
        table, first = self._table(), start["version"]
        newest = table.version if self._target is None else min(table.version, self._target)
        if newest <= first:
            return {"version": first}
        if first == BEFORE_ALL or isinstance(limit, ReadAllAvailable):
            return {"version": newest}
        if isinstance(limit, ReadMaxFiles):
            return {"version": min(newest, first + limit.max_files)}
        if isinstance(limit, ReadMaxRows):
            return {"version": self._within(table, first, newest, limit.max_rows)}
        return {"version": newest}

    def reportLatestOffset(self) -> dict[str, int] | None:
        """The newest version."""
        return {"version": self._table().version}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The splits that the versions between two offsets added, or their changes."""
        first, last = start["version"], end["version"]
        if last <= first:
            return []
        table, request = self._table(), self._request
        if first == BEFORE_ALL and not request.changes:
            view = table.at(version=last)
            groups = share_out(view.reader.files_of(), request.bytes_per_task)
            return [SplitsPart(request.path, view.reader, group) for group in groups]
        if request.changes:
            return self._change_parts(table, first, last)
        reader = table.at(version=last).reader
        added = []
        for step in table.files.changes(first, last):
            if any(remove.data_change for remove in step.removed):
                raise InputError(
                    f"version {step.version} of {request.path} changed or deleted rows, which a stream of rows cannot "
                    "tell: read the change feed (option changes), or start after it (startingVersion)"
                )
            added += [add for add in step.added if add.data_change]
        return [SplitsPart(request.path, reader, group) for group in share_out(added, request.bytes_per_task)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a partition as Arrow batches."""
        wanted = arrow_schema(self._schema)
        if isinstance(partition, SplitsPart):
            yield from batches(partition, [field.name for field in self._schema.fields], wanted, self._request)
            return
        assert isinstance(partition, ChangesPart)
        from deltaic.table.rows.table import Table

        table = Table.open(partition.path)
        for batch in table.changes(partition.from_version, partition.to_version):
            yield for_spark(batch, wanted)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept that would have to go."""

    def _table(self) -> "Table":
        from deltaic.table.rows.table import Table

        return Table.open(self._request.path)

    def _change_parts(self, table: "Table", first: int, last: int) -> list[InputPartition]:
        start = max(first, min(table.versions())) if first != BEFORE_ALL else min(table.versions())
        changed = [step.version for step in table.files.changes(start, last) if step.data_change]
        return [ChangesPart(self._request.path, version - 1, version) for version in changed]

    def _within(self, table: "Table", first: int, newest: int, most: int) -> int:
        """The last version up to which no more than so many rows were added; at least one version."""
        rows, reached = 0, first
        for step in table.files.changes(first, newest):
            rows += sum(add.num_records or 0 for add in step.added if add.data_change)
            if rows > most and reached > first:
                break
            reached = step.version
        return reached
