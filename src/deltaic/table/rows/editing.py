"""Deletes and updates of rows: every split that holds such a row is written again without it, or with it changed.

Planned on one snapshot: what is removed, what is added, and what was read to know that. The commit fails if another
changed those splits or added rows to what was read; then all is read and planned again, so that of two edits of one
split none is lost.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.table.actions import AddFile
from deltaic.table.changes import EVERYTHING, Everything
from deltaic.table.predicate import Predicate, columns_in
from deltaic.table.rows.choosing import filtered, taken, taken_values
from deltaic.table.rows.conform import exactly
from deltaic.table.rows.constraints import Checks
from deltaic.table.rows.equality import codes_of_both
from deltaic.table.rows.matching import matches
from deltaic.table.rows.partitioning import partition_values
from deltaic.table.rows.reading import RowReader
from deltaic.table.rows.schema import TableSchema
from deltaic.table.rows.writing import Listener, SplitWriter, WriteOptions

Setting: TypeAlias = Any
"""A value, a `pyarrow.compute.Expression`, or a function from an Arrow table of the rows to an array."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What an edit of rows would do to a snapshot."""

    removed: tuple[str, ...]
    added: tuple[AddFile, ...]
    reads: Predicate | Everything | None
    rows: int
    """Rows that it deletes, changes or inserts."""

    @property
    def empty(self) -> bool:
        """True if nothing changes."""
        return not self.removed and not self.added


def plan_delete(
    reader: RowReader,
    where: Predicate | None,
    options: WriteOptions,
    *,
    listener: Listener | None = None,
    hide: Callable[[RowReader, AddFile, Any], AddFile | None] | None = None,
    found: Mapping[str, Any] | None = None,
) -> Edit:
    """Delete the rows for which a predicate is true.

    Args:
        reader: the version.
        where: which rows; all of them without it.
        options: how the splits that are left are written.
        listener: told of progress.
        hide: makes a copy of a split with the rows of a mask hidden, or gives None where that cannot be.
        found: the numbers of rows of each file, from a search that asked for the predicate too.
    """
    removed: list[str] = []
    hidden: list[AddFile] = []
    count = 0
    with SplitWriter(reader.files, reader.schema, options, operation="delete", listener=listener) as writer:
        for add in reader.files_of(where):
            sure = _whole_file(reader, add, where)
            if sure is False or (found is not None and add.path not in found):
                continue
            if sure and found is None:
                removed.append(add.path)
                count += add.num_records if add.num_records is not None else reader.read(add, ()).num_rows
                continue
            dead = _dead(reader, add, where, found)
            gone = pc.sum(dead).as_py() or 0
            if not gone:
                continue
            removed.append(add.path)
            count += gone
            if gone == len(dead):
                continue
            copy = hide(reader, add, dead) if hide is not None else None
            if copy is not None:
                hidden.append(copy)
            else:
                writer.write(filtered(reader.read(add), pc.invert(dead)))
        added = (*writer.finish(), *hidden)
    return Edit(tuple(removed), added, _reads(reader, where), count)


def _dead(reader: RowReader, add: AddFile, where: Predicate | None, found: Mapping[str, Any] | None) -> Any:
    """Which rows of a file are to go."""
    if found is not None:
        mask = np.zeros(reader.read(add, ()).num_rows, bool)
        mask[found[add.path]] = True
        return pa.array(mask)
    assert where is not None
    return matches(where, reader.read(add, sorted(columns_in(where))), time_zone=reader.settings.time_zone)


def plan_update(
    reader: RowReader,
    settings: Mapping[str, Setting],
    where: Predicate | None,
    options: WriteOptions,
    *,
    listener: Listener | None = None,
) -> Edit:
    """Set columns of the rows for which a predicate is true."""
    if not settings:
        raise InputError("an update needs a column to set")
    for name in settings:
        reader.schema.column(name)
    checks = Checks(reader.schema, time_zone=reader.settings.time_zone)
    removed: list[str] = []
    count = 0
    with SplitWriter(reader.files, reader.schema, options, operation="update", listener=listener) as writer:
        for add in reader.files_of(where):
            if _whole_file(reader, add, where) is False:
                continue
            rows = reader.read(add)
            chosen = _mask(where, rows, reader)
            if not pc.any(chosen).as_py():
                continue
            changed = updated(rows, chosen, settings, reader.schema, lambda table: table)
            checks(changed)
            other = int(differing(rows, changed).sum())
            if not other:
                continue
            count += other
            removed.append(add.path)
            writer.write(changed)
        added = tuple(writer.finish())
    return Edit(tuple(removed), added, _reads(reader, where), count)


def updated(
    rows: Any,
    chosen: Any,
    settings: Mapping[str, Setting],
    schema: TableSchema,
    given: Callable[[Any], Any],
) -> Any:
    """Rows with some columns set where a mask says so.

    Args:
        rows: all rows.
        chosen: the mask.
        settings: what to set.
        schema: the table's.
        given: makes of the chosen rows what expressions and functions are asked about.
    """
    places = pa.array(np.flatnonzero(np.asarray(chosen.to_numpy(zero_copy_only=False), bool)))
    asked = given(taken(rows, places))
    found = rows
    for name, setting in settings.items():
        column = schema.column(name)
        values = exactly(evaluated(setting, asked, column.type, name), column.type, name)
        if len(values) != len(places):
            raise InputError(f"column {name}: {len(values):,} values for {len(places):,} rows")
        found = found.set_column(
            found.column_names.index(name), column.field, _scattered(rows.column(name), places, values)
        )
    return found


def evaluated(setting: Setting, rows: Any, kind: Any, name: str) -> Any:
    """What a setting is for each of some rows."""
    if isinstance(setting, pc.Expression):
        import pyarrow.dataset as ds

        try:
            return ds.InMemoryDataset(rows).to_table(columns={"value": setting}).column("value")
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise InputError(f"column {name}: {error}") from error
    if callable(setting):
        found = setting(rows)
        if isinstance(found, pa.Array):
            return pa.chunked_array([found])
        if isinstance(found, pa.ChunkedArray):
            return found
        if isinstance(found, pa.Scalar):
            return pa.chunked_array([pa.repeat(found, rows.num_rows)])
        if hasattr(found, "__arrow_c_array__") or hasattr(found, "__arrow_c_stream__"):
            return (
                pa.chunked_array(found) if hasattr(found, "__arrow_c_stream__") else pa.chunked_array([pa.array(found)])
            )
        return pa.chunked_array([_made(list(found), kind, name)])
    if isinstance(setting, pa.Scalar):
        return pa.chunked_array([pa.repeat(setting, rows.num_rows)])
    one = _made([setting], kind, name)
    return taken_values(pa.chunked_array([one]), np.zeros(rows.num_rows, np.int64))


def _made(values: list[Any], kind: Any, name: str) -> Any:
    from deltaic.table.rows.conform import python_array
    from deltaic.table.rows.schema import TableColumn

    return python_array(values, TableColumn(pa.field(name, kind), name), 0)


def _scattered(values: Any, places: Any, fresh: Any) -> Any:
    """Values with fresh ones at some places; for every type, nested ones too."""
    order = np.arange(len(values), dtype=np.int64)
    order[places.to_numpy(zero_copy_only=False)] = len(values) + np.arange(len(places))
    both = pa.chunked_array([*values.chunks, *fresh.chunks], values.type)
    return taken_values(both, order)


def _mask(where: Predicate | None, rows: Any, reader: RowReader) -> Any:
    if where is None:
        return pa.repeat(pa.scalar(True), rows.num_rows)
    found = matches(where, rows, time_zone=reader.settings.time_zone)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def differing(before: Any, after: Any) -> NDArray[np.bool_]:
    """For each row whether it is another one after."""
    old, new = codes_of_both(before, after)
    return np.not_equal(old, new)


def _whole_file(reader: RowReader, add: AddFile, where: Predicate | None) -> bool | None:
    """Whether all rows of a file match, or none does, or nobody knows without reading it."""
    if where is None:
        return True
    names = columns_in(where)
    if not names <= set(reader.schema.partition_by):
        return None
    values = partition_values(add, reader.schema, sorted(names))
    fields = [reader.schema.by_name[name].field for name in sorted(names)]
    arrays = [pa.repeat(values[field.name], 1) for field in fields]
    table = pa.table(arrays, schema=pa.schema(fields))
    return bool(matches(where, table, time_zone=reader.settings.time_zone)[0].as_py())


def _reads(reader: RowReader, where: Predicate | None) -> Predicate | Everything:
    return reader.reads(where) or EVERYTHING
