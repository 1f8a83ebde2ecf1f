"""What changes the columns and constraints of a table, by name; each is one commit and touches no split."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from deltaic.errors import SchemaError
from deltaic.schema.arrow import VECTOR_METADATA
from deltaic.state.vector_arrow import VECTOR_VALUE
from deltaic.table.changes import EVERYTHING, Changes
from deltaic.table.rows import evolve
from deltaic.table.rows.commits import RowCommit, RowCommits
from deltaic.table.rows.constraints import Checks, kept_check
from deltaic.table.rows.matching import Where
from deltaic.table.rows.reading import RowReader
from deltaic.table.rows.schema import TableSchema
from deltaic.table.rows.writing import document_mapping
from deltaic.table.split import ColumnIndex


class SchemaOperations(RowCommits):
    """The operations on the schema of a table; all take `note`, `user` and `transaction`."""

    def add_column(
        self,
        name: str,
        type: Any,
        *,
        default: Any = None,
        nullable: bool = True,
        after: str | None = None,
        index: ColumnIndex | None = None,
        vector: bool = False,
        **terms: Any,
    ) -> RowCommit:
        """Add a column; rows that are there have its default, or null.

        Args:
            name: what it is called.
            type: its Arrow type.
            default: what rows that are there have in it.
            nullable: whether it may be null.
            after: the column that it follows; the last one without it.
            index: how it is indexed; without it the rows answer.
            vector: it is a vector: a fixed-size list of float32 that the index leaves alone.
            terms: `note`, `user`, `transaction`.
        """
        wanted = None if index is None else asdict(index)
        metadata = {VECTOR_METADATA: VECTOR_VALUE} if vector else None
        field = pa.field(name, type, nullable=nullable, metadata=metadata)

        def changed(schema: TableSchema) -> TableSchema:
            return evolve.with_added(schema, field, default=default, after=after, index=wanted)

        return self._evolve("add column", changed, terms)

    def rename_column(self, old: str, new: str, **terms: Any) -> RowCommit:
        """Give a column another name."""
        return self._evolve("rename column", lambda schema: evolve.with_renamed(schema, old, new), terms)

    def drop_column(self, name: str, **terms: Any) -> RowCommit:
        """Take a column away; old versions still have it."""
        return self._evolve("drop column", lambda schema: evolve.with_dropped(schema, name), terms)

    def widen_column(self, name: str, type: Any, **terms: Any) -> RowCommit:
        """Give a column a type that holds all of its values and more."""
        return self._evolve("widen column", lambda schema: evolve.with_widened(schema, name, type), terms)

    def reorder_columns(self, names: Sequence[str], **terms: Any) -> RowCommit:
        """Put columns first, in an order; the others follow in theirs."""
        return self._evolve("reorder columns", lambda schema: evolve.with_order(schema, tuple(names)), terms)

    def set_nullable(self, name: str, nullable: bool, **terms: Any) -> RowCommit:
        """Let a column be null, or not any more: refused with the row if one is."""

        def changed(schema: TableSchema) -> TableSchema:
            return evolve.with_nullable(schema, name, nullable)

        return self._evolve("change nullability", changed, terms, check=not nullable)

    def set_index(self, name: str, index: ColumnIndex | None, **terms: Any) -> RowCommit:
        """Index a column of the rows that come, or with None no more.

        Splits that are there stay as they are: a search that needs more of them indexes their rows once, in the cache;
        a compaction writes it down.
        """

        def changed(schema: TableSchema) -> TableSchema:
            physical = schema.column(name).physical
            others = {key: said for key, said in schema.index.items() if key != physical}
            return replace(schema, index=others if index is None else {**others, physical: asdict(index)})

        return self._evolve("change index", changed, terms)

    def add_constraint(self, name: str, check: Where, **terms: Any) -> RowCommit:
        """Demand a predicate of every row, of those that are there too."""

        def changed(schema: TableSchema) -> TableSchema:
            if name in schema.constraints:
                raise SchemaError(f"there is a constraint {name!r} already")
            return replace(schema, constraints={**schema.constraints, name: kept_check(name, check, schema)})

        return self._evolve("add constraint", changed, terms, check=True)

    def drop_constraint(self, name: str, **terms: Any) -> RowCommit:
        """Demand it no more."""

        def changed(schema: TableSchema) -> TableSchema:
            if name not in schema.constraints:
                raise SchemaError(f"there is no constraint {name!r}")
            return replace(schema, constraints={key: text for key, text in schema.constraints.items() if key != name})

        return self._evolve("drop constraint", changed, terms)

    def _evolve(
        self,
        operation: str,
        changed: Callable[[TableSchema], TableSchema],
        terms: Mapping[str, Any],
        *,
        check: bool = False,
    ) -> RowCommit:
        def attempt(reader: RowReader) -> RowCommit:
            after = changed(reader.schema)
            document_mapping(after)
            if check:
                _check_rows(reader, after)
            text = _schema_text(after, reader)
            changes = Changes(
                operation,
                # All of it, also what stays: a change of columns and one of constraints must not pass each other.
                configuration=after.configuration(),
                schema_string=None if after.spark_json() == reader.schema.spark_json() else text,
                reads=EVERYTHING if check else None,
            )
            return RowCommit.of(self.files.commit(changes, snapshot=reader.snapshot, **terms), 0)

        return self._retried(operation, attempt, terms.get("transaction"))


def _schema_text(after: TableSchema, reader: RowReader) -> str:
    """What `schemaString` says after a change, with what others noted on its fields."""
    noted = {
        field["name"]: field.get("metadata") for field in json.loads(reader.snapshot.metadata.schema_string)["fields"]
    }
    names = {column.physical: column.name for column in reader.schema.columns}
    schema = json.loads(after.spark_json())
    for field, column in zip(schema["fields"], after.columns, strict=True):
        field["metadata"] = noted.get(names.get(column.physical, "")) or {}
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def _check_rows(reader: RowReader, schema: TableSchema) -> None:
    checks = Checks(schema, time_zone=reader.settings.time_zone)
    first = 0
    for table in reader.under(schema).scan(reader.files_of(), schema.arrow.names, None):
        checks(table, first_row=first)
        first += table.num_rows
