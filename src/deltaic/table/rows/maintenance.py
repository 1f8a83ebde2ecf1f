"""Keeping a table of rows in order: compaction, going back, tags, cleaning, checking."""

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as changed

from deltaic.errors import CommitConflictError, DeltaicError, InputError
from deltaic.table.actions import AddFile
from deltaic.table.changes import EVERYTHING, Changes
from deltaic.table.commit import Commit
from deltaic.table.rows.bounds import bounds, statistics_columns
from deltaic.table.rows.commits import RowCommit, RowCommits
from deltaic.table.rows.compact import TARGET_BYTES, Compaction, compact
from deltaic.table.rows.constraints import Checks
from deltaic.table.rows.matching import Where, as_predicate
from deltaic.table.rows.reading import RowReader
from deltaic.table.rows.schema import TableSchema, read_schema
from deltaic.table.rows.writing import Listener
from deltaic.table.statistics import bounds_hold

if TYPE_CHECKING:
    from deltaic.table.retention import Purge
    from deltaic.table.verify import Finding, Verification


class Maintenance(RowCommits):
    """The operations that keep a table in order and change no row."""

    def compact(
        self,
        *,
        target_bytes: int = TARGET_BYTES,
        where: Where | None = None,
        note: str | None = None,
        progress: Listener | None = None,
    ) -> Compaction:
        """Merge small splits of one partition into splits of about a wanted size; no row changes.

        Args:
            target_bytes: the size of a split that is large enough.
            where: only files that may hold such rows.
            note: for the history.
            progress: told of progress.
        """
        if target_bytes < 1:
            raise InputError("a split has at least a byte")
        most = self.files.settings.retry_max_attempts
        for number in range(1, most + 1):
            reader = RowReader.of(self.files, self.files.snapshot())
            cooling = self.files.cooling()
            adds = [add for add in reader.files_of(as_predicate(where)) if add.path not in cooling]
            try:
                return compact(
                    reader, self.write_options, target_bytes=target_bytes, adds=adds, note=note, listener=progress
                )
            except CommitConflictError:
                if number == most:
                    raise
            self.files.pause(number)
        raise CommitConflictError("compact: the columns were always changed meanwhile; nothing was written")

    def restore(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
        **terms: Any,
    ) -> RowCommit:
        """Make the table what it was, rows, columns and constraints, by a new version."""
        old = self.files.at(version=version, timestamp=timestamp, tag=tag)
        then = read_schema(old.metadata)
        wanted = {add.path: add for add in old.files()}
        terms.setdefault("note", f"restored version {old.version}")

        def attempt(reader: RowReader) -> RowCommit:
            live = {add.path for add in reader.snapshot.files()}
            back = [add for path, add in wanted.items() if path not in live]
            self.files.check_there(back)
            after = _brought_back(then, reader.schema)
            changes = Changes(
                "restore",
                adds=tuple(changed(add, data_change=True) for add in back),
                removes=self.files.removals(reader.snapshot, sorted(live - set(wanted))),
                schema_string=old.metadata.schema_string,
                partition_columns=_different(
                    old.metadata.partition_columns, reader.snapshot.metadata.partition_columns
                ),
                configuration=after.configuration(),
                reads=EVERYTHING,
            )
            return RowCommit.of(self.files.commit(changes, snapshot=reader.snapshot, **terms), None)

        return self._retried("restore", attempt, terms.get("transaction"))

    def tag(self, name: str, version: int | None = None, **terms: Any) -> Commit:
        """Name a version; it stays readable as long as the tag does."""
        return self.files.tag(name, version, **terms)

    def untag(self, name: str, **terms: Any) -> Commit:
        """Take a tag away."""
        return self.files.untag(name, **terms)

    def purge(self, **terms: Any) -> "Purge":
        """Delete what no version in the window needs, files of crashed writers too; only tells what by default."""
        return self.files.purge(**terms)

    def verify(self, *, files: bool = True, rows: bool = True) -> "Verification":
        """Look whether the log is true, files are there, and rows are what the log says of them.

        Args:
            files: look whether every file is there and has its size.
            rows: read every row too: counts, statistics, partition values and constraints must be true of them.
        """
        found = self.files.verify(files=files)
        if not rows:
            return found
        reader = RowReader.of(self.files, self.files.snapshot())
        checks = Checks(reader.schema, time_zone=reader.settings.time_zone)
        more = [finding for add in reader.files_of() for finding in _wrong_rows(reader, add, checks)]
        return replace(found, findings=(*found.findings, *more))


def _wrong_rows(reader: RowReader, add: AddFile, checks: Checks) -> "list[Finding]":
    from deltaic.table.verify import Finding

    try:
        rows = reader.read(add)
    except DeltaicError as error:
        return [Finding("UnreadableFile", f"{add.path}: {error}")]
    found = []
    if add.num_records is not None and add.num_records != rows.num_rows:
        message = f"{add.path} has {rows.num_rows:,} rows, its add action says {add.num_records:,}"
        found.append(Finding("WrongCount", message))
    every = replace(reader.settings, statistics_columns=(), statistics_column_count=-1)
    for column, plain in statistics_columns(reader.schema, every):
        low, high = (add.min_values or {}).get(plain.name), (add.max_values or {}).get(plain.name)
        if low is None and high is None:
            continue
        smallest, largest = bounds(rows.column(column.name))
        # A max beside NaN would be one that engines which sort NaN last rely on; its numbers are checked all the same.
        if not bounds_hold(low, high, smallest, largest, plain.type):
            message = f"{add.path}: the min and max of {column.name} are not true of its rows"
            found.append(Finding("WrongStatistics", message))
    try:
        checks(rows)
    except InputError as error:
        found.append(Finding("WrongRow", f"{add.path}: {error}"))
    return found


def _brought_back(then: TableSchema, now: TableSchema) -> TableSchema:
    """The columns of an old version; physical names that were given since stay taken."""
    used = {column.physical for column in then.columns}
    since = (*then.retired, *now.retired, *(column.physical for column in now.columns))
    return replace(then, retired=tuple(dict.fromkeys(name for name in since if name not in used)))


def _different(old: Any, now: Any) -> Any:
    return None if old == now else old
