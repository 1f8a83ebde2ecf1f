"""`dataset.publish(spark=…)`: the next version of a chain from its table, built by the tasks of a cluster.

Tasks read the splits of the table themselves; no row passes through Java or through the driver. What the driver knows
of the version before is its header: of which table version it is. Changes since then are found out by one task, which
reads only splits that came or went; where that cannot be, all splits are read.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic.binary.cursor import Cursor
from deltaic.consumer.searching import TABLE_VERSION_TAG, table_version_of
from deltaic.dataset.columns import Growth, key_columns, root_type
from deltaic.dataset.publishing import AllRows, Published, reason_for_all
from deltaic.errors import InputError, NotFoundError
from deltaic.limits import DEFAULT_LIMITS
from deltaic.producer.validators import DuplicateKeys
from deltaic.schema.schemas import SchemaSet
from deltaic.spark.build import choose_engine, publish, publish_changes
from deltaic.spark.build_sources import Input
from deltaic.spark.reading import SplitsPart, share_out
from deltaic.spark.request import BYTES_PER_TASK
from deltaic.storage.chain import BlobName
from deltaic.storage.local import LocalStore
from deltaic.wire.header import Header, read_header

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltaic.dataset.dataset import Dataset
    from deltaic.producer.producer import Producer

log = logging.getLogger("deltaic.spark")

_HEADER_BYTES = 32 << 20


@dataclass(frozen=True)
class TableRows:
    """Splits of a table as rows that a task reads."""

    part: SplitsPart
    size_bytes: int

    def read(self) -> Any:
        """The rows."""
        import pyarrow as pa

        reader = self.part.reader()
        names = reader.schema.arrow.names
        tables = reader.scan(self.part.adds, names, None, threads=2)
        batches = (batch for table in tables for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(reader.schema.arrow, batches)


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """What differs between two versions of a table, as a task finds out: the rows now, or the keys of those gone."""

    url: str
    from_version: int
    to_version: int
    gone: bool
    size_bytes: int

    def read(self) -> Any:
        """The rows as they are now; of rows that are no more, their keys."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from deltaic.table.rows.table import Table

        table = Table.open(self.url)
        view = table.at(version=self.to_version)
        key = list(view.reader.schema.key)
        schema = pa.schema([view.schema.field(name) for name in key]) if self.gone else view.schema

        def batches() -> Iterator[Any]:
            for changes in table.changes(self.from_version, self.to_version, net=True):
                deleted = pc.equal(changes.column("_change"), "delete")
                rows = changes.filter(deleted if self.gone else pc.invert(deleted))
                if rows.num_rows:
                    found = rows.select(key) if self.gone else pa.RecordBatch.from_struct_array(rows.column("after"))
                    yield found.cast(schema)

        return pa.RecordBatchReader.from_batches(schema, batches())


def publish_table(
    dataset: "Dataset",
    producer: "Producer",
    spark: "SparkSession",
    *,
    version: int | None,
    full: bool,
    note: str | None,
    forced: bool,
    growth: Growth | None,
) -> Published | None:
    """Publish a version of the table on Spark; None if the data fit this process and Spark was not asked for.

    Raises:
        InputError: the table or the chain lies where tasks cannot see it.
    """
    view = dataset.table.at(version=version)
    root = root_type(producer.model, dataset.table_type)
    url = _url(dataset)
    adds = view.reader.files_of()
    groups = share_out(adds, BYTES_PER_TASK)
    rows = [TableRows(SplitsPart(url, view.reader, group), sum(add.size_bytes for add in group)) for group in groups]
    choice = choose_engine(Input.of({root: rows}, producer.model), producer.model, engine="spark" if forced else "auto")
    log.info("publishing %s by the engine %s: %s", dataset.name, choice.engine, choice.reason)
    if choice.engine == "embedded":
        return None
    if producer.order != "canonical":
        raise InputError("Spark numbers records in canonical order: publish(order='canonical', spark=…)")
    announced = _announced(producer)
    header = None if announced is None else _header(producer, announced)
    tags = {} if header is None else dict(header.tags)
    before = table_version_of(tags)
    key = key_columns(producer.model, root)
    schemas = None if header is None else SchemaSet(header.schemas)
    reason = reason_for_all(dataset.table, view, producer, root, schemas, tags, before, full=full)
    if announced is not None and header is None and not full:
        reason = f"version {announced} has no header file, which would tell of which table version it is"
    kept, validators = producer.header_tags, producer.validators
    producer.set_header_tags({**kept, TABLE_VERSION_TAG: str(view.version)})
    if key:
        twice = () if reason is None else (DuplicateKeys(root),)
        producer.validators = (*validators, *twice, AllRows.of(root, view, key, url))
    read: int | None
    try:
        if reason is None:
            assert before is not None
            size = max(1, sum(add.size_bytes for add in adds))
            changed = ChangedRows(url, before, view.version, gone=False, size_bytes=size)
            gone = ChangedRows(url, before, view.version, gone=True, size_bytes=size)
            cycle = publish_changes(spark, producer, {root: [changed]}, {root: [gone]}, note=note)
            reason, mode, read = "rows that changed", "incremental", None
        else:
            cycle = publish(spark, producer, {root: rows}, note=note)
            mode, read = "full", view.count()
    finally:
        producer.set_header_tags(kept)
        producer.validators = validators
    added, removed = ((), ()) if growth is None else (growth.added, growth.removed)
    return Published(
        cycle,
        "full" if mode == "full" else "incremental",
        reason,
        view.version,
        before,
        read,
        engine="spark",
        columns_added=added,
        columns_removed=removed,
    )


def _announced(producer: "Producer") -> int | None:
    try:
        return producer.announcements.read().version()
    except NotFoundError:
        return None


def _header(producer: "Producer", version: int) -> Header | None:
    """The header of a version, if it has a file of its own: small, so that no state is loaded for it here."""
    name = str(BlobName.header(version))
    try:
        data = producer.store.get_range(name, 0, _HEADER_BYTES)
    except NotFoundError:
        return None
    return read_header(Cursor(data, name), DEFAULT_LIMITS)


def _url(dataset: "Dataset") -> str:
    store = dataset.table.files.store
    if isinstance(store, LocalStore):
        return str(store.folder.absolute())
    if store.url.startswith("memory:"):
        raise InputError(f"{store.url} is in the memory of this process: tasks on Spark cannot see it", "Store")
    return store.url
