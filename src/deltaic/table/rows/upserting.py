"""Merges: rows of a source meet the rows of the table by key, and clauses say what becomes of them.

    table.merge(rows)                                     what has a match is updated, the rest inserted
    table.merge(rows, matched=[Delete("source.gone = true"), Update()])

For each row the first clause whose condition is true is taken; a row without one stays as it is. Conditions,
expressions and functions are asked about the columns `target.x` and `source.x`. Two source rows of one key are refused:
which of them should win is not for the order of rows to say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.table.actions import AddFile
from deltaic.table.changes import EVERYTHING
from deltaic.table.predicate import And, Compare, In, Predicate
from deltaic.table.rows.choosing import filtered, taken
from deltaic.table.rows.conform import exactly, filled, refused
from deltaic.table.rows.constraints import Checks
from deltaic.table.rows.editing import Edit, Setting, differing, evaluated, updated
from deltaic.table.rows.equality import Codes, codes_of_both, ranks, row_codes
from deltaic.table.rows.matching import Where, as_predicate, check_columns, matches
from deltaic.table.rows.reading import RowReader
from deltaic.table.rows.schema import check_key_type
from deltaic.table.rows.writing import Listener, SplitWriter, WriteOptions

Condition: TypeAlias = Where | Callable[[Any], Any] | Any
"""A predicate or its text, a `pyarrow.compute.Expression`, or a function from an Arrow table to a boolean array."""

_Mask: TypeAlias = NDArray[np.bool_]
_MOST_LISTED = 1_000
"""So many keys of a source are looked for one by one in statistics; more of them by their range."""


@dataclass(frozen=True, slots=True)
class Update:
    """Set columns: those that are named, or all that the source has."""

    set: Mapping[str, Setting] | None = None
    where: Condition = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the row."""

    where: Condition = None


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert a row: of named values, or of all that the source has; the rest gets its default."""

    values: Mapping[str, Setting] | None = None
    where: Condition = None


@dataclass(frozen=True, slots=True)
class MergeClauses:
    """What becomes of rows: first clauses first."""

    matched: Sequence[Update | Delete] = (Update(),)
    not_matched: Sequence[Insert] = (Insert(),)
    not_matched_by_source: Sequence[Update | Delete] = ()

    def __post_init__(self) -> None:
        for clause in (*self.matched, *self.not_matched_by_source):
            if not isinstance(clause, Update | Delete):
                raise InputError(f"{clause!r} is no Update or Delete")
        for one in self.not_matched:
            if not isinstance(one, Insert):
                raise InputError(f"{one!r} is no Insert")
        if any(isinstance(clause, Update) and clause.set is None for clause in self.not_matched_by_source):
            raise InputError("an update of rows that the source has not needs the columns to set")


@runtime_checkable
class MergePlanner(Protocol):
    """Rows that lie elsewhere and are merged there: the work is done by others, and one process commits it."""

    def plan_merge(self, reader: RowReader, on: Sequence[str], clauses: MergeClauses) -> Edit:
        """Merge into a version."""
        ...


def plan_merge(
    reader: RowReader,
    source: Any,
    on: Sequence[str],
    clauses: MergeClauses,
    options: WriteOptions,
    *,
    listener: Listener | None = None,
) -> Edit:
    """Merge a source (an Arrow table of exact types, all columns or some) into a version."""
    if not on:
        raise InputError("the table has no key: say by which columns rows are matched")
    for name in on:
        check_key_type(name, reader.schema.column(name).type)
        if name not in source.column_names:
            raise InputError(f"the rows have no {name}, by which they are matched", "NoColumn")
    check_source_keys(source, on)
    where = None if clauses.not_matched_by_source else key_predicate(source, on)
    return RowMerge(reader, source, tuple(on), clauses).run(where, options, listener)


class RowMerge:
    """The rows of a source on their way into one version of a table.

    Args:
        reader: the version.
        source: an Arrow table of exact types, all columns or some; no two rows have one key.
        on: the columns by which rows are matched.
        clauses: what becomes of rows.
        met: the source rows that a row of the table met already.
    """

    def __init__(
        self,
        reader: RowReader,
        source: Any,
        on: tuple[str, ...],
        clauses: MergeClauses,
        *,
        met: _Mask | None = None,
    ) -> None:
        self._reader, self._source, self._on, self._clauses = reader, source, on, clauses
        self._schema = reader.schema
        self._checks = Checks(reader.schema, time_zone=reader.settings.time_zone)
        self._met: _Mask = np.zeros(source.num_rows, bool) if met is None else met

    def run(self, where: Predicate | None, options: WriteOptions, listener: Listener | None) -> Edit:
        """All of it: what the files become, and the rows that are new."""
        reader = self._reader
        removed: list[str] = []
        count = 0
        with SplitWriter(reader.files, self._schema, options, operation="merge", listener=listener) as writer:
            for add in reader.files_of(where):
                changed = self.merge_file(add, writer)
                if changed:
                    removed.append(add.path)
                    count += changed
            count += self.insert(writer)
            added = tuple(writer.finish())
        reads = reader.reads(where) or EVERYTHING
        return Edit(tuple(removed), added, reads, count)

    def merge_file(self, add: AddFile, writer: SplitWriter) -> int:
        """Write what becomes of the rows of a file, if any changes; gives how many do."""
        places = self._places(self._reader.read(add, self._on))
        self._met[places[places >= 0]] = True
        if not (places >= 0).any() and not self._clauses.not_matched_by_source:
            return 0
        rows = self._reader.read(add)
        after, kept = self._changed(rows, places)
        changed = int((~kept | differing(rows, after)).sum())
        if changed:
            left = filtered(after, pa.array(kept)) if not kept.all() else after
            self._checks(left)
            if left.num_rows:
                writer.write(left)
        return changed

    def insert(self, writer: SplitWriter) -> int:
        """Write the rows for source rows that no row of the table met; gives how many there are."""
        fresh = self._inserted()
        if fresh.num_rows:
            self._checks(fresh)
            writer.write(fresh)
        return int(fresh.num_rows)

    def _places(self, keys: Any) -> Codes:
        """For each row of the table the source row of its key, or -1."""
        source, target = codes_of_both(self._source.select(list(self._on)), keys, self._on)
        lookup = np.full(int(max(source.max(initial=-1), target.max(initial=-1))) + 1, -1, np.int64)
        lookup[source] = np.arange(len(source))
        found = lookup[target] if len(target) else target
        # A null key matches nothing.
        for name in self._on:
            nulls = np.asarray(keys.column(name).is_null().to_numpy(), bool)
            found = np.where(nulls, -1, found)
        return found

    def _changed(self, rows: Any, places: Codes) -> tuple[Any, _Mask]:
        """The rows after all clauses, and which of them stay."""
        kept = np.ones(rows.num_rows, bool)
        matched = places >= 0
        rows_after = rows
        for clauses, among in ((self._clauses.matched, matched), (self._clauses.not_matched_by_source, ~matched)):
            open_ = among.copy()
            for clause in clauses:
                if not open_.any():
                    break
                chosen = self._chosen(clause.where, rows, places, open_)
                open_ &= ~chosen
                if not chosen.any():
                    continue
                if isinstance(clause, Delete):
                    kept &= ~chosen
                else:
                    rows_after = self._updated(rows, rows_after, places, chosen, clause)
        return rows_after, kept

    def _updated(self, rows: Any, rows_after: Any, places: Codes, chosen: _Mask, clause: Update) -> Any:
        settings = clause.set
        if settings is None:
            settings = {name: _from_source(name) for name in self._source.column_names if name not in self._on}
        asked = self._joined(rows, places, np.flatnonzero(chosen))
        return updated(rows_after, pa.array(chosen), settings, self._schema, lambda _: asked)

    def _chosen(self, condition: Condition, rows: Any, places: Codes, among: _Mask) -> _Mask:
        if condition is None:
            return among.copy()
        numbers = np.flatnonzero(among)
        found = among.copy()
        found[numbers] = self._true(condition, self._joined(rows, places, numbers))
        return found

    def _true(self, condition: Condition, asked: Any) -> _Mask:
        if isinstance(condition, pc.Expression) or callable(condition):
            answer = evaluated(condition, asked, pa.bool_(), "condition")
            if answer.type != pa.bool_():
                raise InputError(f"a condition gives {answer.type}, not true or false")
            answer = pc.fill_null(answer, False)
        else:
            predicate = as_predicate(condition)
            assert predicate is not None
            check_columns(predicate, asked.schema, time_zone=self._reader.settings.time_zone)
            answer = matches(predicate, asked, time_zone=self._reader.settings.time_zone)
        if len(answer) != asked.num_rows:
            raise InputError(f"a condition gives {len(answer):,} answers for {asked.num_rows:,} rows")
        return np.asarray(
            answer.to_numpy(zero_copy_only=False) if isinstance(answer, pa.Array) else answer.to_numpy(), bool
        )

    def _joined(self, rows: Any, places: Codes, numbers: Codes) -> Any:
        """Rows beside their source rows: `target.x`, and where they have one, `source.x`."""
        chosen = taken(rows, numbers)
        arrays = list(chosen.columns)
        names = [f"target.{name}" for name in chosen.column_names]
        mine = places[numbers]
        if len(mine) == 0 or (mine >= 0).all():
            beside = taken(self._source, mine)
            arrays += beside.columns
            names += [f"source.{name}" for name in beside.column_names]
        return pa.table(arrays, names=names)

    def _inserted(self) -> Any:
        """The rows for source rows that no row of the table met."""
        open_ = ~self._met
        tables = []
        asked = self._source.rename_columns([f"source.{name}" for name in self._source.column_names])
        for clause in self._clauses.not_matched:
            if not open_.any():
                break
            numbers = np.flatnonzero(open_)
            part = taken(asked, numbers)
            if clause.where is not None:
                numbers = numbers[self._true(clause.where, part)]
                part = taken(asked, numbers)
            open_[numbers] = False
            if len(numbers):
                tables.append(self._made(part, clause))
        return pa.concat_tables(tables) if tables else self._schema.arrow.empty_table()

    def _made(self, part: Any, clause: Insert) -> Any:
        values = clause.values
        if values is None:
            values = {name: _from_source(name) for name in self._source.column_names}
        for name in values:
            self._schema.column(name)
        arrays = []
        for column in self._schema.columns:
            if column.name in values:
                found = evaluated(values[column.name], part, column.type, column.name)
                arrays.append(exactly(found, column.type, column.name))
            else:
                arrays.append(filled(column, part.num_rows))
        return pa.table(arrays, schema=self._schema.arrow)


def _from_source(name: str) -> Callable[[Any], Any]:
    return lambda rows: rows.column(f"source.{name}")


def check_source_keys(source: Any, on: Sequence[str]) -> None:
    """Refuse a source in which a key is null or stands twice."""
    for name in on:
        nulls = source.column(name).is_null()
        place = pc.index(nulls, True).as_py()
        if place >= 0:
            raise refused(name, place, None, "a row without a key cannot be merged")
    twice = np.flatnonzero(ranks(row_codes(source, on)) > 0)
    if len(twice):
        place = int(twice[0])
        shown = ", ".join(f"{name}={source.column(name)[place].as_py()!r}" for name in on)
        raise InputError(f"row {place} of the source has the key of a row before it: {shown[:120]}", "DuplicateKey")


def key_predicate(source: Any, on: Sequence[str]) -> Predicate | None:
    """What is true of every row that the source can match: for skipping files and for what was read."""
    if source.num_rows == 0:
        return None
    parts: list[Predicate] = []
    for name in on:
        values = source.column(name)
        if not _has_simple_values(values.type):
            continue
        if len(on) == 1 and source.num_rows <= _MOST_LISTED:
            parts.append(In(name, tuple(values.to_pylist())))
            continue
        found = pc.min_max(values)
        parts += [Compare(name, ">=", found["min"].as_py()), Compare(name, "<=", found["max"].as_py())]
    return None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


def _has_simple_values(kind: Any) -> bool:
    kinds = pa.types
    return bool(kinds.is_integer(kind) or kind in (pa.string(), pa.large_string()) or kinds.is_date32(kind))
