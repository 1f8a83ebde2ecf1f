"""Batch read: splits are shared out among few large tasks, which give Spark Arrow batches of exactly its types.

Spark prunes nothing for a Python source, so what is wanted is said by options: columns (or `.schema(…)`), a predicate,
a search query, a limit. They are applied in the task, before a row reaches the JVM. A search here is a filter: scores
have no order over tasks; `Table.search` in the driver gives the best first.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from deltaic.errors import InputError
from deltaic.spark.columns import arrow_schema, for_spark, spark_schema
from deltaic.spark.request import ReadRequest

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from deltaic.table.actions import AddFile
    from deltaic.table.rows.reading import RowReader
    from deltaic.table.rows.view import TableView

BATCH_ROWS = 65_536


class SplitsPart(InputPartition):
    """The splits that one task reads, by their add actions: a task need not read the log."""

    def __init__(self, path: str, reader: "RowReader", adds: "Sequence[AddFile]", limit: int | None = None) -> None:
        super().__init__(None)
        self.path, self.limit = path, limit
        snapshot = reader.snapshot
        self.version, self.protocol, self.metadata = snapshot.version, snapshot.protocol, snapshot.metadata
        self.settings, self.adds = reader.settings, tuple(adds)

    def reader(self) -> "RowReader":
        """What reads the rows: the version as if it had these splits only."""
        from deltaic.storage import open_store
        from deltaic.table.log import FOLDER
        from deltaic.table.rows.filetable import RowFiles
        from deltaic.table.rows.reading import RowReader
        from deltaic.table.rows.schema import read_schema as schema_of
        from deltaic.table.snapshot import Snapshot

        store = open_store(self.path)
        tail = {add.path: add for add in self.adds}
        snapshot = Snapshot(store.child(FOLDER), self.version, self.protocol, self.metadata, tail=tail)
        return RowReader(RowFiles(store), snapshot, schema_of(self.metadata), self.settings)


def view_of(request: ReadRequest) -> "TableView":
    """The table at the version that is asked for."""
    from deltaic.table.rows.table import Table

    return Table.open(request.path).at(version=request.version, timestamp=request.timestamp, tag=request.tag)


def read_schema(request: ReadRequest) -> "tuple[StructType, int]":
    """The Spark schema of what is asked for, and the version that it is of."""
    view = view_of(request)
    names = view.schema.names if request.columns is None else request.columns
    for name in names:
        if name not in view.schema.names:
            raise InputError(f"there is no column {name!r}; columns: {', '.join(view.schema.names)}")
    if len(set(names)) != len(names):
        raise InputError(f"columns {', '.join(names)}: each of them once")
    return spark_schema([view.schema.field(name) for name in names]), view.version


def share_out(adds: Sequence["AddFile"], bytes_per_task: int) -> list[list["AddFile"]]:
    """Splits in groups of about so many bytes, in their order."""
    groups: list[list[AddFile]] = []
    size = 0
    for add in adds:
        if not groups or size + add.size_bytes > bytes_per_task:
            groups.append([])
            size = 0
        groups[-1].append(add)
        size += add.size_bytes
    return groups


class BatchReader(DataSourceReader):
    """Reads a table at one version."""

    def __init__(self, request: ReadRequest, schema: "StructType") -> None:
        self._request, self._schema = request, schema

    # No pushFilters: with it, Spark 4.3 mixes up the filters of different scans of one DataFrame.

    def partitions(self) -> Sequence[InputPartition]:
        """One for every group of splits that may hold wanted rows."""
        from deltaic.table.rows.matching import as_predicate

        request, view = self._request, view_of(self._request)
        for field in self._schema.fields:
            if field.name not in view.schema.names:
                raise InputError(
                    f"version {view.version} of {request.path} has no column {field.name!r}; "
                    f"columns: {', '.join(view.schema.names)}"
                )
        adds = view.reader.files_of(as_predicate(request.where))
        if request.limit is not None:
            # One task stops when it has enough; several could not know of each other.
            groups = [_enough(adds, request)] if adds and request.limit else []
        else:
            groups = share_out(adds, request.bytes_per_task)
        return [SplitsPart(request.path, view.reader, group, request.limit) for group in groups or [[]]]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of some splits as Arrow batches."""
        assert isinstance(partition, SplitsPart)
        names = [field.name for field in self._schema.fields]
        yield from batches(partition, names, arrow_schema(self._schema), self._request)


def batches(partition: SplitsPart, names: Sequence[str], wanted: Any, request: ReadRequest) -> Iterator[Any]:
    """The wanted rows of a partition, in the types that Spark expects."""
    from deltaic.table.rows.matching import as_predicate

    reader, left = partition.reader(), partition.limit
    predicate = as_predicate(request.where)
    if request.query is None:
        tables = reader.scan(partition.adds, names, predicate, threads=2)
    else:
        tables = _found(reader, partition, names, predicate, request.query)
    for table in tables:
        if left is not None:
            table = table.slice(0, left)
            left -= table.num_rows
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            yield for_spark(batch, wanted)
        if left == 0:
            return


def _found(
    reader: "RowReader", partition: SplitsPart, names: Sequence[str], predicate: Any, query: str
) -> Iterator[Any]:
    """The rows that a search finds, split by split: a filter, without scores."""
    from deltaic.table.rows.choosing import taken
    from deltaic.table.rows.searching import found_rows, searched
    from deltaic.table.split import SplitCache

    if not partition.adds:
        return
    found = found_rows(searched(SplitCache(), reader, predicate, ranked=False), query, predicate)
    for add in partition.adds:
        numbers = found.get(add.path)
        if numbers is not None and len(numbers):
            yield taken(reader.read(add, names), numbers)


def _enough(adds: "Sequence[AddFile]", request: ReadRequest) -> "list[AddFile]":
    """The first splits that have so many rows in all, if nothing can be filtered out of them."""
    if request.where is not None or request.query is not None:
        return list(adds)
    chosen: list[AddFile] = []
    rows = 0
    for add in adds:
        chosen.append(add)
        if add.num_records is None:
            return list(adds)
        rows += add.num_records
        if rows >= (request.limit or 0):
            break
    return chosen
