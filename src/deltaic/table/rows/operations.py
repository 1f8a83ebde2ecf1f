"""What changes the rows of a table, by name: append, overwrite, delete, update, merge; each is one commit."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deltaic.errors import InputError
from deltaic.table.actions import AddFile
from deltaic.table.changes import Changes, Isolation
from deltaic.table.predicate import Predicate
from deltaic.table.rows.commits import RowCommit, RowCommits, check_still_fits, records
from deltaic.table.rows.conform import GivenRows
from deltaic.table.rows.editing import Setting, plan_delete, plan_update
from deltaic.table.rows.hiding import hide
from deltaic.table.rows.matching import Where, as_predicate, check_columns
from deltaic.table.rows.partitioning import partition_values
from deltaic.table.rows.prepared import SplitsWritten
from deltaic.table.rows.reading import RowReader
from deltaic.table.rows.schema import TableSchema
from deltaic.table.rows.upserting import Delete, Insert, MergeClauses, MergePlanner, Update, plan_merge
from deltaic.table.rows.writing import Listener
from deltaic.table.snapshot import Snapshot


class RowOperations(RowCommits):
    """The operations on the rows of a table.

    All of them take `note` and `user` (texts for the history) and `transaction` (application and number: a number that
    is not above the application's last is not done again, and the result says `repeated`). Those that read rows to know
    what to change take `isolation`: serializable, where rows that others add to what was read are a conflict and all is
    read again, or snapshot, where only the files that are rewritten are.
    """

    def append(
        self,
        rows: Any,
        *,
        note: str | None = None,
        user: Mapping[str, str] | None = None,
        transaction: tuple[str, int] | None = None,
        progress: Listener | None = None,
    ) -> RowCommit:
        """Add rows: an Arrow table, batches or reader, anything with an Arrow stream, a data frame, a list of dicts."""
        terms: dict[str, Any] = {"note": note, "user": user, "transaction": transaction}

        def attempt(reader: RowReader, given: GivenRows | SplitsWritten) -> RowCommit:
            adds = self._written(reader, given, "append", progress)
            if not adds and transaction is None:
                return RowCommit(reader.snapshot.version, "append", rows=0)

            def planned(snapshot: Snapshot) -> Changes:
                check_still_fits(reader.schema, snapshot)
                return Changes("append", adds=tuple(adds))

            return RowCommit.of(self.files.commit(planned, replan=True, **terms), records(adds))

        return self._with_rows("append", rows, attempt, transaction)

    def overwrite(
        self,
        rows: Any,
        *,
        where: Where | None = None,
        dynamic: bool = False,
        note: str | None = None,
        user: Mapping[str, str] | None = None,
        transaction: tuple[str, int] | None = None,
        progress: Listener | None = None,
    ) -> RowCommit:
        """Put rows in the place of all, of those for which a predicate is true, or of the partitions that they are in.

        Args:
            rows: as `append` takes them; with `where` all of them must match it.
            where: which rows they replace.
            dynamic: replace the partitions that the new rows are in, and no others.
            note: for the history.
            user: texts for the history.
            transaction: application and number; not done twice.
            progress: told of progress.
        """
        predicate = as_predicate(where)
        if dynamic and predicate is not None:
            raise InputError("a predicate or the partitions of the rows: one of them says what is replaced")
        terms: dict[str, Any] = {"note": note, "user": user, "transaction": transaction}

        def attempt(reader: RowReader, given: GivenRows | SplitsWritten) -> RowCommit:
            if dynamic and not reader.schema.partition_by:
                raise InputError("the table has no partitions to overwrite by")
            check_columns(predicate, reader.schema.arrow, time_zone=reader.settings.time_zone)
            adds = self._written(reader, given, "overwrite", progress, predicate)
            if predicate is not None:
                edit = plan_delete(reader, predicate, self.write_options, listener=progress)
                both = replace(edit, added=(*edit.added, *adds), rows=edit.rows + records(adds))
                return self._commit_edit("overwrite", reader, both, terms)
            wanted = {_partition_of(add, reader.schema) for add in adds}

            def planned(snapshot: Snapshot) -> Changes:
                check_still_fits(reader.schema, snapshot)
                gone = tuple(
                    self.files.removal(add)
                    for add in snapshot.files()
                    if not dynamic or _partition_of(add, reader.schema) in wanted
                )
                return Changes("overwrite", adds=tuple(adds), removes=gone)

            return RowCommit.of(self.files.commit(planned, replan=True, **terms), records(adds))

        return self._with_rows("overwrite", rows, attempt, transaction)

    def delete(
        self,
        where: Where | None,
        *,
        query: Any = None,
        delete_files: bool = False,
        note: str | None = None,
        user: Mapping[str, str] | None = None,
        transaction: tuple[str, int] | None = None,
        isolation: Isolation | str = Isolation.SERIALIZABLE,
        progress: Listener | None = None,
    ) -> RowCommit:
        """Delete the rows for which a predicate is true; None is all of them.

        Args:
            where: which rows.
            query: only those of them that a search finds.
            delete_files: copy a large split with its rows hidden, where they are few, and do not write it anew.
            note: for the history.
            user: texts for the history.
            transaction: application and number; not done twice.
            isolation: whether rows that others add meanwhile to what was read are a conflict.
            progress: told of progress.
        """
        predicate = as_predicate(where)
        terms = {"note": note, "user": user, "transaction": transaction, "isolation": isolation}

        def attempt(reader: RowReader) -> RowCommit:
            check_columns(predicate, reader.schema.arrow, time_zone=reader.settings.time_zone)
            found = None if query is None else self._found(reader, query, predicate)
            way = hide if delete_files else None
            edit = plan_delete(reader, predicate, self.write_options, listener=progress, found=found, hide=way)
            return self._commit_edit("delete", reader, edit, terms)

        return self._retried("delete", attempt, transaction)

    def update(
        self,
        set: Mapping[str, Setting],
        where: Where | None = None,
        *,
        note: str | None = None,
        user: Mapping[str, str] | None = None,
        transaction: tuple[str, int] | None = None,
        isolation: Isolation | str = Isolation.SERIALIZABLE,
        progress: Listener | None = None,
    ) -> RowCommit:
        """Set columns of the rows for which a predicate is true.

        Args:
            set: for each column a value, a `pyarrow.compute` expression over the columns, or a function that gets the
                rows as an Arrow table and gives an array. All see the rows as they were.
            where: which rows; all without it.
            note: for the history.
            user: texts for the history.
            transaction: application and number; not done twice.
            isolation: whether rows that others add meanwhile to what was read are a conflict.
            progress: told of progress.
        """
        predicate = as_predicate(where)
        terms = {"note": note, "user": user, "transaction": transaction, "isolation": isolation}

        def attempt(reader: RowReader) -> RowCommit:
            check_columns(predicate, reader.schema.arrow, time_zone=reader.settings.time_zone)
            edit = plan_update(reader, set, predicate, self.write_options, listener=progress)
            return self._commit_edit("update", reader, edit, terms)

        return self._retried("update", attempt, transaction)

    def merge(
        self,
        rows: Any,
        *,
        on: Sequence[str] | str | None = None,
        matched: Sequence[Update | Delete] = (Update(),),
        not_matched: Sequence[Insert] = (Insert(),),
        not_matched_by_source: Sequence[Update | Delete] = (),
        note: str | None = None,
        user: Mapping[str, str] | None = None,
        transaction: tuple[str, int] | None = None,
        isolation: Isolation | str = Isolation.SERIALIZABLE,
        progress: Listener | None = None,
    ) -> RowCommit:
        """Match rows with those of the table by key; without clauses, update what has a match and insert the rest.

        Args:
            rows: the source, as `append` takes rows; columns that it lacks are left as they are.
            on: the columns to match by; the table's key without it.
            matched: what becomes of rows of the table that have a match: the first clause whose condition is true.
            not_matched: what becomes of source rows without a match.
            not_matched_by_source: what becomes of rows of the table without a match.
            note: for the history.
            user: texts for the history.
            transaction: application and number; not done twice.
            isolation: whether rows that others add meanwhile to what was read are a conflict.
            progress: told of progress.
        """
        clauses = MergeClauses(tuple(matched), tuple(not_matched), tuple(not_matched_by_source))
        terms = {"note": note, "user": user, "transaction": transaction, "isolation": isolation}
        if isinstance(rows, MergePlanner):
            planner, by = rows, on

            def planned(reader: RowReader) -> RowCommit:
                names = (by,) if isinstance(by, str) else tuple(by) if by is not None else reader.schema.key
                return self._commit_edit("merge rows", reader, planner.plan_merge(reader, names, clauses), terms)

            return self._retried("merge", planned, transaction)

        def attempt(reader: RowReader, given: GivenRows | SplitsWritten) -> RowCommit:
            if isinstance(given, SplitsWritten):
                raise InputError(
                    "merge needs rows: splits that were written already can be appended, or overwrite others"
                )
            names = (on,) if isinstance(on, str) else tuple(on) if on is not None else reader.schema.key
            source = given.whole(reader.schema)
            edit = plan_merge(reader, source, names, clauses, self.write_options, listener=progress)
            return self._commit_edit("merge rows", reader, edit, terms)

        return self._with_rows("merge", rows, attempt, transaction)

    def _found(self, reader: RowReader, query: Any, where: Predicate | None) -> dict[str, Any]:
        from deltaic.table.rows.searching import found_rows, searched

        return found_rows(searched(self.split_cache, reader, where, ranked=False), query, where)


def _partition_of(add: AddFile, schema: TableSchema) -> tuple[Any, ...]:
    """The values of a file's partition: writers spell one value in several ways."""
    values = partition_values(add, schema, schema.partition_by)
    return tuple(value.as_py() for value in values.values())
