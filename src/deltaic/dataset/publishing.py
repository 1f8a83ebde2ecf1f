"""Publish: the next version of the chain from the table.

Every blob says in its header of which table version it is (`deltaic.table.version`). So the next publish knows where to
go on: rows that changed since then, by key, become an incremental cycle. Where that cannot be, all rows are read, and
the producer finds out by itself what did not change.
"""

import importlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from deltaic.consumer.searching import TABLE_VERSION_TAG, table_version_of
from deltaic.dataset.columns import Growth, grown, key_columns, root_type
from deltaic.errors import InputError
from deltaic.producer.incremental import ChangeBatch
from deltaic.producer.populate import Population
from deltaic.producer.report import Cycle
from deltaic.producer.validators import Candidate, DuplicateKeys, ValidationResult
from deltaic.schema.evolve import compare
from deltaic.schema.schemas import SchemaSet
from deltaic.vector.storage import read_vectors_tag

if TYPE_CHECKING:
    from deltaic.dataset.dataset import Dataset
    from deltaic.producer.producer import Producer
    from deltaic.table.rows.table import Table
    from deltaic.table.rows.view import TableView

__all__ = ["TABLE_VERSION_TAG", "AllRows", "Published", "publish_table", "reason_for_all", "table_version_of"]

EngineName = Literal["auto", "embedded", "spark"]

_ENGINES = {"spark": "deltaic.spark.publishing"}
"""Where other engines live: modules above this one, so they are found by name. Each has `publish_table`."""

log = logging.getLogger("deltaic.dataset")


@dataclass(frozen=True, slots=True)
class Published:
    """What a publish did."""

    cycle: Cycle
    mode: Literal["full", "incremental"]
    reason: str
    """Why all rows were read, or how many changes there were."""
    table_version: int
    from_table_version: int | None
    """The table version of the dataset's version before; None if it had none."""
    rows_read: int | None
    """None where tasks of a cluster read them and nobody counted."""
    engine: str = "embedded"
    columns_added: tuple[str, ...] = ()
    """Columns that the table had and the model had not: the model has them now."""
    columns_removed: tuple[str, ...] = ()

    @property
    def version(self) -> int | None:
        """The dataset's new version; None if nothing had changed."""
        return self.cycle.version

    def __str__(self) -> str:
        return f"{self.cycle} (table version {self.table_version}, {self.mode}: {self.reason}; {self.engine})"


def publish_table(
    dataset: "Dataset",
    producer: "Producer",
    *,
    version: int | None = None,
    full: bool = False,
    note: str | None = None,
    engine: EngineName = "auto",
    spark: Any = None,
    growth: Growth | None = None,
) -> Published:
    """Publish a version of the table; see `Dataset.publish`."""
    if engine not in ("auto", "embedded", "spark"):
        raise InputError(f"engine {engine!r}: 'auto', 'embedded' or 'spark'")
    if engine == "spark" and spark is None:
        raise InputError("the engine 'spark' needs a session: publish(spark=…)")
    if spark is not None and engine != "embedded":
        other = importlib.import_module(_ENGINES["spark"])
        found: Published | None = other.publish_table(
            dataset, producer, spark, version=version, full=full, note=note, forced=engine == "spark", growth=growth
        )
        if found is not None:
            return found
    return _Publish(dataset, producer, version, full, note, growth).run()


def reason_for_all(
    table: "Table",
    view: "TableView",
    producer: "Producer",
    root: str,
    schemas: SchemaSet | None,
    tags: Mapping[str, str],
    before: int | None,
    *,
    full: bool,
) -> str | None:
    """Why all rows of a version must be read; None if the changes are enough.

    Args:
        table: the table.
        view: the version of it that is published.
        producer: of the chain.
        root: the type of the rows.
        schemas: of the dataset's version before; None if there is none.
        tags: the header tags of that version.
        before: the table version of that one.
        full: whether the caller wants all of them.
    """
    key = key_columns(producer.model, root)
    if full:
        return "asked for"
    if schemas is None:
        return "the first version"
    if before is None:
        return "the version before was not made from the table"
    if not key:
        return f"type {root} has no key by which rows could be told apart"
    if key != view.reader.schema.key:
        return f"the table is not keyed by {', '.join(key)}"
    if len(compare(schemas, producer.model.schemas)):
        return "the model changed"
    if {note.column for note in read_vectors_tag(tags)} != set(producer.model.vectors):
        return "the vector columns changed"
    if before > view.version:
        return f"the table goes back from version {before} to {view.version}"
    if before not in table.versions():
        return f"the table's version {before} is gone from its history"
    return None


class _Publish:
    """One publish in this process."""

    def __init__(
        self,
        dataset: "Dataset",
        producer: "Producer",
        version: int | None,
        full: bool,
        note: str | None,
        growth: Growth | None,
    ) -> None:
        self.table: Table = dataset.table
        self.view: TableView = self.table.at(version=version)
        self.producer, self.full, self.note, self.growth = producer, full, note, growth
        self.root = root_type(producer.model, dataset.table_type)
        self.key = key_columns(producer.model, self.root)
        self.rows_read = 0

    def run(self) -> Published:
        """Publish; gives the report."""
        self.producer.restore()
        state = self.producer.state
        noted = {} if state is None else state.header_tags
        before = table_version_of(noted)
        schemas = None if state is None else state.schemas
        reason = reason_for_all(self.table, self.view, self.producer, self.root, schemas, noted, before, full=self.full)
        tags = {**self.producer.header_tags, TABLE_VERSION_TAG: str(self.view.version)}
        validators = self.producer.validators
        if self.key:
            # Changes by key cannot make a key twice, but they can make one record of two rows.
            twice = () if reason is None else (DuplicateKeys(self.root),)
            self.producer.validators = (*validators, *twice, AllRows.of(self.root, self.view, self.key, self.table.url))
        kept = self.producer.header_tags
        self.producer.set_header_tags(tags)
        try:
            if reason is None:
                assert before is not None
                cycle, reason = self._changes(before)
            else:
                cycle = self.producer.cycle(self._all, note=self.note)
                if cycle.published:
                    log.info("read all rows of table version %d: %s", self.view.version, reason)
                return self._report(cycle, "full", reason, before)
        finally:
            self.producer.validators = validators
            self.producer.set_header_tags(kept)
        return self._report(cycle, "incremental", reason, before)

    def _report(self, cycle: Cycle, mode: Literal["full", "incremental"], reason: str, before: int | None) -> Published:
        added, removed = ((), ()) if self.growth is None else (self.growth.added, self.growth.removed)
        return Published(
            cycle,
            mode,
            reason,
            self.view.version,
            before,
            self.rows_read,
            columns_added=added,
            columns_removed=removed,
        )

    def _all(self, cycle: Population) -> None:
        cycle.add_arrow(self.root, self._counted(self.view.scan()))

    def _changes(self, before: int) -> tuple[Cycle, str]:
        import pyarrow as pa

        batch = ChangeBatch(self.producer.model)
        counts = {"insert": 0, "update": 0, "delete": 0}
        reader = self.table.changes(before, self.view.version, net=True)
        gone: list[Any] = []
        come: list[Any] = []
        for changes in reader:
            for kind in counts:
                rows = changes.filter(pa.compute.equal(changes.column("_change"), kind))
                counts[kind] += rows.num_rows
                if not rows.num_rows:
                    continue
                if kind == "delete":
                    gone.append(rows.select(list(self.key)))
                else:
                    come.append(pa.RecordBatch.from_struct_array(rows.column("after")))
        for keys in gone:
            columns = [column.to_pylist() for column in keys.columns]
            batch.delete_many(self.root, columns[0] if len(columns) == 1 else list(zip(*columns, strict=True)))
        if come:
            batch.add_or_modify(pa.Table.from_batches(come), self.root)
        self.rows_read = sum(counts.values())
        cycle = self.producer.apply(batch, note=self.note)
        return cycle, ", ".join(f"{count:,} {kind}s" for kind, count in counts.items())

    def _counted(self, reader: Any) -> Any:
        import pyarrow as pa

        def batches() -> Iterator[Any]:
            for batch in reader:
                self.rows_read += batch.num_rows
                yield batch

        return pa.RecordBatchReader.from_batches(reader.schema, batches())


@dataclass(frozen=True, slots=True)
class AllRows:
    """Refuses a version that has fewer records than the table has rows: some rows have the same key.

    It travels to other processes, so it holds where the table is and no table.
    """

    root: str
    key: tuple[str, ...]
    rows: int
    table_version: int
    url: str

    @classmethod
    def of(cls, root: str, view: "TableView", key: tuple[str, ...], url: str) -> "AllRows":
        """For the rows of a version of a table."""
        return cls(root, key, view.count(), view.version, url)

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return "one record for each row"

    def validate(self, candidate: Candidate) -> ValidationResult:
        """Compare the counts; only where they differ the rows are looked at."""
        records = len(candidate.state.types[self.root].populated) if self.root in candidate.state.types else 0
        if records == self.rows:
            return ValidationResult(self.name, True, f"{self.rows:,} rows")
        return ValidationResult(
            self.name,
            False,
            f"the table has {self.rows:,} rows and the version {records:,} records of {self.root}: {self._found()}",
            {"rows": str(self.rows), "records": str(records)},
        )

    def _found(self) -> str:
        from deltaic.table.rows.table import Table

        view = Table.open(self.url).at(version=self.table_version)
        found = view.to_arrow(list(self.key)).group_by(list(self.key)).aggregate([([], "count_all")])
        twice = [row for row in found.to_pylist() if row["count_all"] > 1]
        if not twice:
            return "some of its records are referred to by others, or are not of the table"
        keys = "; ".join(
            f"{', '.join(repr(row[name]) for name in self.key)} ({row['count_all']} rows)" for row in twice[:5]
        )
        return f"{len(twice):,} keys are there more than once: {keys}"


def grow_model(dataset: "Dataset", version: int | None) -> "tuple[Dataset, Growth | None]":
    """The dataset with a model that has the columns of its table."""
    root = root_type(dataset.model, dataset.table_type)
    growth = grown(dataset.model, root, dataset.table.at(version=version).schema)
    if not growth:
        return dataset, None
    log.info(
        "the model of %s follows its table: %s",
        dataset.name,
        ", ".join([f"+{name}" for name in growth.added] + [f"-{name}" for name in growth.removed]),
    )
    return dataset.evolve(growth.model), growth
