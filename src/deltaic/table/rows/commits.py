"""How an operation on rows becomes a commit: planned on the newest version, and again if another writer came first."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow.compute as pc

from deltaic.errors import CommitConflictError, InputError
from deltaic.table.actions import AddFile
from deltaic.table.changes import Changes
from deltaic.table.commit import Commit
from deltaic.table.predicate import Predicate
from deltaic.table.rows.conform import GivenRows
from deltaic.table.rows.constraints import Checks
from deltaic.table.rows.editing import Edit
from deltaic.table.rows.filetable import RowFiles
from deltaic.table.rows.matching import Where, as_predicate, matches, predicate_text
from deltaic.table.rows.prepared import SplitsWritten, schema_token
from deltaic.table.rows.reading import RowReader
from deltaic.table.rows.schema import COLUMNS_KEY, CONSTRAINTS_KEY, KEY_KEY, TableSchema, read_schema
from deltaic.table.rows.writing import Listener, WriteOptions, write_all
from deltaic.table.snapshot import Snapshot
from deltaic.table.split import SplitCache

_GUARDED = (COLUMNS_KEY, CONSTRAINTS_KEY, KEY_KEY)


@dataclass(frozen=True, slots=True)
class RowCommit(Commit):
    """What became of an operation on rows."""

    rows: int | None = None
    """Rows that it inserted, changed or deleted, where that is known."""

    @classmethod
    def of(cls, commit: Commit, rows: int | None) -> "RowCommit":
        """A commit with its count of rows."""
        return cls(**asdict(commit), rows=0 if commit.repeated else rows)


class RowCommits:
    """The commits of a table of rows."""

    files: RowFiles
    write_options: WriteOptions

    @property
    def split_cache(self) -> SplitCache:
        """Where searched splits are unpacked on this host."""
        raise NotImplementedError

    def write_splits(
        self, rows: Any, *, within: Where | None = None, listener: Listener | None = None
    ) -> SplitsWritten:
        """Write rows as splits that no version has yet: `append` or `overwrite` commits them, here or elsewhere.

        Args:
            rows: as `append` takes them.
            within: a predicate that all of them must fulfil.
            listener: told of progress.
        """
        reader = RowReader.of(self.files, self.files.snapshot())
        adds = self._written(reader, GivenRows(rows), "write splits", listener, as_predicate(within))
        return SplitsWritten(tuple(adds), schema_token(reader.snapshot.metadata))

    def _retried(
        self,
        operation: str,
        attempt: Callable[[RowReader], RowCommit],
        transaction: tuple[str, int] | None = None,
        *,
        again: bool = True,
    ) -> RowCommit:
        """Try on the newest version until no other commit is in the way.

        Args:
            operation: what is tried, for errors.
            attempt: plans on a version and commits.
            transaction: one that is in the table already is not tried.
            again: False if it can be tried only once, because rows were given that come only once.
        """
        most = self.files.settings.retry_max_attempts
        for number in range(1, most + 1):
            snapshot = self.files.snapshot()
            if transaction is not None:
                last = snapshot.transactions.get(transaction[0])
                if last is not None and last >= transaction[1]:
                    return RowCommit(snapshot.version, operation, number, repeated=True, rows=0)
            try:
                return attempt(RowReader.of(self.files, snapshot))
            except CommitConflictError:
                if not again or number == most:
                    raise
            self.files.pause(number)
        raise CommitConflictError(f"{operation}: others were always first; nothing was written")

    def _with_rows(
        self,
        operation: str,
        rows: Any,
        attempt: Callable[[RowReader, "GivenRows | SplitsWritten"], RowCommit],
        transaction: tuple[str, int] | None,
    ) -> RowCommit:
        """Try with the rows that a caller gave, again if the rows can be had again."""
        given = rows if isinstance(rows, SplitsWritten) else GivenRows(rows)
        return self._retried(operation, lambda reader: attempt(reader, given), transaction, again=given.replayable)

    def _commit_edit(self, operation: str, reader: RowReader, edit: Edit, terms: Mapping[str, Any]) -> RowCommit:
        if edit.empty and terms.get("transaction") is None:
            return RowCommit(reader.snapshot.version, operation, rows=0)
        changes = Changes(
            operation,
            adds=edit.added,
            removes=self.files.removals(reader.snapshot, edit.removed),
            # Said again as they are: who changes the columns or constraints meanwhile is in conflict with this.
            configuration={key: reader.snapshot.metadata.configuration.get(key) for key in _GUARDED},
            reads=edit.reads,
        )
        return RowCommit.of(self.files.commit(changes, snapshot=reader.snapshot, **terms), edit.rows)

    def _written(
        self,
        reader: RowReader,
        given: "GivenRows | SplitsWritten",
        operation: str,
        listener: Listener | None,
        within: Predicate | None = None,
    ) -> list[AddFile]:
        """Write the rows that a caller gave, once they are found to be what they must."""
        if isinstance(given, SplitsWritten):
            return given.checked(reader.snapshot.metadata)
        checks = Checks(reader.schema, time_zone=reader.settings.time_zone)
        tables = _checked(given.tables(reader.schema), checks, within, reader)
        return write_all(self.files, reader.schema, tables, self.write_options, operation=operation, listener=listener)


def _checked(tables: Iterator[Any], checks: Checks, within: Predicate | None, reader: RowReader) -> Iterator[Any]:
    first = 0
    for table in tables:
        checks(table, first_row=first)
        if within is not None:
            found = matches(within, table, time_zone=reader.settings.time_zone)
            place = pc.index(found, False).as_py()
            if place >= 0:
                # Else the next overwrite would not replace it.
                raise InputError(f"row {first + place} does not match {predicate_text(within)}, which it is to replace")
        first += table.num_rows
        yield table


def check_still_fits(written: TableSchema, snapshot: Snapshot) -> None:
    """Raise CommitConflictError if rows written by one schema may not go into a version with another."""
    now = read_schema(snapshot.metadata)
    if now == written:
        return
    old = {column.physical: column for column in written.columns}
    for column in now.columns:
        mine = old.pop(column.physical, None)
        if mine is None:
            if not column.field.nullable and column.default is None:
                raise CommitConflictError(f"{column.name} came meanwhile and is never null; nothing was written")
        elif mine.name != column.name or mine.type != column.type or mine.field.nullable != column.field.nullable:
            raise CommitConflictError(f"{column.name} was changed meanwhile; nothing was written")
    if old or (now.constraints, now.partition_by, now.key) != (written.constraints, written.partition_by, written.key):
        raise CommitConflictError("the columns, key or constraints were changed meanwhile; nothing was written")


def records(adds: list[AddFile]) -> int:
    """The rows of files that were just written."""
    return sum(add.num_records or 0 for add in adds)
