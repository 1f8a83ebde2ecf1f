"""`Table`: rows in a folder, every version of them readable.

    table = Table.create("s3://bucket/films", schema, partition_by=("year",), key=("id",))
    table.append(rows)
    table.delete("year < 1930")
    table.scan(columns=["id", "title"], where="rating >= 7.5").read_all()
    table.at(version=1).count()
    table.changes(1).read_all()

Every call that changes rows is one commit. What it may not do together with another writer's commit, it does again on
what is there then.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltaic.errors import InputError
from deltaic.schema.model import Model
from deltaic.storage import Store
from deltaic.table.protocol import COMPANION_KEY
from deltaic.table.rows.altering import SchemaOperations
from deltaic.table.rows.changes import change_schema, row_changes
from deltaic.table.rows.constraints import kept_checks, named_checks
from deltaic.table.rows.filetable import RowFiles
from deltaic.table.rows.maintenance import Maintenance
from deltaic.table.rows.matching import Where, predicate_text
from deltaic.table.rows.operations import RowOperations
from deltaic.table.rows.reading import RowReader
from deltaic.table.rows.schema import TableSchema, make_schema, read_schema
from deltaic.table.rows.types import fields_of_spark
from deltaic.table.rows.view import RowSearch, ScanExplain, TableView
from deltaic.table.rows.writing import WriteOptions, document_mapping
from deltaic.table.settings import Settings
from deltaic.table.split import ColumnIndex, SplitCache

if TYPE_CHECKING:
    from deltaic.table.history import Entry


class Table(RowOperations, SchemaOperations, Maintenance, RowSearch):
    """A table of rows at a URL. Open or create one; it can be shared between threads."""

    def __init__(
        self, files: RowFiles, *, write: WriteOptions | None = None, split_cache: SplitCache | None = None
    ) -> None:
        self.files = files
        """The table as far as files go: log, versions, maintenance."""
        self.write_options = write or WriteOptions()
        self._split_cache = split_cache
        self._last_view: TableView | None = None

    @classmethod
    def create(
        cls,
        url: str | PathLike[str] | Store,
        schema: Any,
        *,
        partition_by: Sequence[str] = (),
        key: Sequence[str] = (),
        index: Mapping[str, ColumnIndex] | None = None,
        constraints: Mapping[str, Where] | None = None,
        defaults: Mapping[str, Any] | None = None,
        name: str | None = None,
        description: str | None = None,
        configuration: Mapping[str, str] | None = None,
        settings: Settings | Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        write: WriteOptions | None = None,
        split_cache: SplitCache | None = None,
        exist_ok: bool = False,
        **given: Any,
    ) -> "Table":
        """Make a table without rows.

        Args:
            url: where, or a store.
            schema: an Arrow schema (or what has one: a table, a data frame), a model or class, or Spark's JSON.
            partition_by: columns whose values lie together; splits hold rows of one partition each.
            key: columns that tell rows apart: `merge` matches by them and `changes` tells updates by them.
            index: the columns that are indexed, and how; all others are answered from the rows. `ColumnIndex()` is what
                the type suggests, `ColumnIndex(kind="text")` is words.
            constraints: predicates that every row must fulfil, by name.
            defaults: what rows have in a column that they leave out.
            name: of the table, for people.
            description: of the table, for people.
            configuration: texts that the table carries.
            settings: how the log is written.
            options: of the store.
            write: how rows become splits.
            split_cache: where searched splits are unpacked on this host.
            exist_ok: open the table if there is one.
            given: clock, sleep, random, for tests.
        """
        chosen = {column: asdict(wanted) for column, wanted in (index or {}).items()}
        fields, own_key = _fields(schema)
        wanted = _names(key) or own_key
        made = make_schema(fields, partition_by=_names(partition_by), key=wanted, index=chosen, defaults=defaults)
        made = replace(made, constraints=kept_checks(constraints or {}, made))
        document_mapping(made)
        carried = {key: text for key, text in made.configuration().items() if text is not None}
        files = RowFiles.create(
            url,
            schema=made.spark_json(),
            partition_by=made.partition_by,
            name=name,
            description=description,
            configuration={**(configuration or {}), **carried},
            settings=settings,
            options=options,
            exist_ok=exist_ok,
            **given,
        )
        assert isinstance(files, RowFiles)
        return cls(files, write=write, split_cache=split_cache)

    @classmethod
    def open(
        cls,
        url: str | PathLike[str] | Store,
        *,
        settings: Settings | Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        write: WriteOptions | None = None,
        split_cache: SplitCache | None = None,
        **given: Any,
    ) -> "Table":
        """Open the table at a URL.

        Raises:
            NotFoundError: there is none.
            InputError: it is a companion, which has an index and no rows of its own.
        """
        files = RowFiles.open(url, settings=settings, options=options, **given)
        assert isinstance(files, RowFiles)
        if COMPANION_KEY in files.snapshot().metadata.configuration:
            raise InputError(f"{files.url} is a companion of other files: Companion.open searches it", "Companion")
        return cls(files, write=write, split_cache=split_cache)

    def __repr__(self) -> str:
        return f"Table({self.url!r})"

    @property
    def url(self) -> str:
        """Where the table is."""
        return self.files.url

    @property
    def version(self) -> int:
        """The number of the newest version."""
        return self.files.version

    @property
    def schema(self) -> Any:
        """The Arrow schema of the newest version."""
        return self.table_schema.arrow

    @property
    def table_schema(self) -> TableSchema:
        """The columns of the newest version with all that is known of them."""
        return read_schema(self.files.snapshot().metadata)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        return self.table_schema.key

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partition columns."""
        return self.table_schema.partition_by

    @property
    def constraints(self) -> dict[str, str]:
        """The checks by name."""
        return {name: predicate_text(check) for name, check in named_checks(self.table_schema).items()}

    @property
    def split_cache(self) -> SplitCache:
        """Where searched splits are unpacked on this host."""
        if self._split_cache is None:
            self._split_cache = SplitCache()
        return self._split_cache

    def at(
        self, *, version: int | None = None, timestamp: datetime | str | None = None, tag: str | None = None
    ) -> TableView:
        """The table at a version, at a time, or at a tag; the newest without any."""
        snapshot = self.files.at(version=version, timestamp=timestamp, tag=tag)
        last = self._last_view
        if last is None or last.snapshot is not snapshot:
            last = self._last_view = TableView(self, snapshot)
        return last

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        limit: int | None = None,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
    ) -> Any:
        """The rows for which a predicate is true, as a `pyarrow.RecordBatchReader`; see `TableView.scan`."""
        return self.at(version=version, timestamp=timestamp, tag=tag).scan(columns, where, limit)

    def to_arrow(self, columns: Sequence[str] | None = None, where: Where | None = None, **at: Any) -> Any:
        """The rows as a `pyarrow.Table`; `version`, `timestamp` or `tag` go back in time."""
        return self.at(**at).to_arrow(columns, where)

    def to_pandas(self, columns: Sequence[str] | None = None, where: Where | None = None, **at: Any) -> Any:
        """The rows as a pandas data frame."""
        return self.at(**at).to_pandas(columns, where)

    def to_polars(self, columns: Sequence[str] | None = None, where: Where | None = None, **at: Any) -> Any:
        """The rows as a Polars data frame."""
        return self.at(**at).to_polars(columns, where)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.at().__arrow_c_stream__(requested_schema)

    def count(self, query: Any = None, where: Where | None = None, **at: Any) -> int:
        """How many rows there are, or match a search or a predicate."""
        return self.at(**at).count(query, where)

    def explain(self, columns: Sequence[str] | None = None, where: Where | None = None, **at: Any) -> ScanExplain:
        """How `scan` would find its rows, without reading any."""
        return self.at(**at).explain(columns, where)

    def changes(self, from_version: int, to_version: int | None = None, *, net: bool = False) -> Any:
        """The rows that changed after a version, as a `pyarrow.RecordBatchReader`; see `changes.py`.

        Args:
            from_version: the version before.
            to_version: the version after; the newest without it.
            net: what differs between the two versions in all, instead of what each version between them did.
        """
        reader = RowReader.of(self.files, self.files.at(version=to_version))
        batches = row_changes(reader, from_version, net=net)
        return pa.RecordBatchReader.from_batches(change_schema(reader), batches)

    def history(self, *, limit: int | None = None) -> "Iterator[Entry]":
        """The versions, newest first."""
        return self.files.history(limit=limit)

    def versions(self) -> tuple[int, ...]:
        """The versions that can be read."""
        return self.files.versions()


def _fields(schema: Any) -> tuple[list[Any], tuple[str, ...]]:
    """The Arrow fields of a schema in any form, and the key where the form says one."""
    if isinstance(schema, str):
        return list(fields_of_spark(schema)), ()
    if isinstance(schema, pa.Schema):
        return list(schema), ()
    if isinstance(schema, Model | type):
        from deltaic.table.rows.models import model_schema

        found, key = model_schema(schema)
        return list(found), key
    if hasattr(schema, "__arrow_c_schema__"):
        return list(pa.schema(schema)), ()
    if isinstance(getattr(schema, "schema", None), pa.Schema):
        return list(schema.schema), ()
    if hasattr(schema, "__arrow_c_stream__"):
        return list(pa.RecordBatchReader.from_stream(schema).schema), ()
    raise InputError(f"a {type(schema).__name__} is no schema: give an Arrow schema, a model or Spark's JSON")


def _names(names: Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
