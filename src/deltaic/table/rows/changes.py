"""The rows that changed from one version to another.

Only splits that came or went with a change of data are read; what a merge moved is none. A rewrite copies most of its
rows: those that are the same before and after, bit by bit, cancel out. What is left is told by key where the table has
one (`update` with the row before and after), else as rows that came and rows that went.

    _change    insert, update or delete
    _version   the version that made it
    …          the key columns
    before     the row before, as a struct; null for an insert
    after      the row after; null for a delete

All rows have the columns of the last version: changes of the schema alone are no changes of rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.table.actions import AddFile
from deltaic.table.history import changes as file_changes
from deltaic.table.rows.choosing import taken
from deltaic.table.rows.equality import codes_of_both, matched
from deltaic.table.rows.reading import RowReader, ahead
from deltaic.table.snapshot import Snapshot

_BATCH_ROWS = 65_536
_Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FileStep:
    """The files whose rows one version took away and put there."""

    version: int
    removed: tuple[AddFile, ...]
    added: tuple[AddFile, ...]


def change_schema(reader: RowReader) -> Any:
    """The Arrow schema of changes."""
    row = pa.struct([column.field for column in reader.schema.columns])
    return pa.schema(
        [
            pa.field("_change", pa.string(), nullable=False),
            pa.field("_version", pa.int64(), nullable=False),
            *(reader.schema.by_name[name].field for name in reader.schema.key),
            pa.field("before", row),
            pa.field("after", row),
        ]
    )


def row_changes(reader: RowReader, from_version: int, *, net: bool = False, threads: int = 4) -> Iterator[Any]:
    """Batches of the changes after a version up to that of the reader."""
    to_version = reader.snapshot.version
    if from_version > to_version:
        raise InputError(f"changes go forward: from {from_version} to {to_version}")
    schema = change_schema(reader)
    steps = net_step(reader, from_version) if net else file_steps(reader, from_version)
    for step in steps:
        before = _rows(reader, step.removed, threads)
        after = _rows(reader, step.added, threads)
        yield from _compared(before, after, step.version, schema, reader.schema.key)


def file_steps(reader: RowReader, from_version: int) -> Iterator[FileStep]:
    """The files of each version that changed rows."""
    log, to_version = reader.files.log, reader.snapshot.version
    snapshot: Snapshot | None = None
    for step in file_changes(log, from_version, to_version):
        added = tuple(add for add in step.added if add.data_change)
        gone = [remove.path for remove in step.removed if remove.data_change]
        if not added and not gone:
            continue
        removed: tuple[AddFile, ...] = ()
        if gone:
            snapshot = log.snapshot(step.version - 1)
            found = snapshot.find(set(gone))
            removed = tuple(found[path] for path in gone if path in found)
        yield FileStep(step.version, removed, added)


def net_step(reader: RowReader, from_version: int) -> Iterator[FileStep]:
    """The files that differ between two versions, those that merges only moved left out."""
    log, snapshot = reader.files.log, reader.snapshot
    old = {add.path: add for add in log.snapshot(from_version).files()}
    new = {add.path: add for add in snapshot.files()}
    removed = {path: add for path, add in old.items() if path not in new}
    added = {path: add for path, add in new.items() if path not in old}
    for step in file_changes(log, from_version, snapshot.version):
        if step.data_change or not step.added:
            continue
        moved, merged = {one.path for one in step.removed}, {one.path for one in step.added}
        if moved <= set(removed) and merged <= set(added):
            removed = {path: add for path, add in removed.items() if path not in moved}
            added = {path: add for path, add in added.items() if path not in merged}
    if removed or added:
        yield FileStep(snapshot.version, tuple(removed.values()), tuple(added.values()))


def _rows(reader: RowReader, adds: Sequence[AddFile], threads: int) -> Any:
    ordered = sorted(adds, key=lambda add: (add.added_at_version, add.path))
    tables = [table for _, table in ahead(reader.read, ordered, threads)]
    return pa.concat_tables(tables) if tables else reader.schema.arrow.empty_table()


def _compared(before: Any, after: Any, version: int, schema: Any, key: Sequence[str]) -> Iterator[Any]:
    if before.num_rows and after.num_rows:
        old, new = matched(*codes_of_both(before, after))
        before, after = _without(before, old), _without(after, new)
    if key and before.num_rows and after.num_rows:
        old, new = matched(*codes_of_both(before, after, key))
        yield from _batches("update", version, schema, key, before, after, old, new)
        before, after = _without(before, old), _without(after, new)
    yield from _batches("delete", version, schema, key, before, None, _every(before), None)
    yield from _batches("insert", version, schema, key, None, after, None, _every(after))


def _without(rows: Any, places: _Places) -> Any:
    if not len(places):
        return rows
    return taken(rows, np.delete(np.arange(rows.num_rows), places))


def _every(rows: Any) -> _Places:
    return np.arange(rows.num_rows, dtype=np.int64)


def _batches(
    kind: str,
    version: int,
    schema: Any,
    key: Sequence[str],
    before: Any,
    after: Any,
    old: _Places | None,
    new: _Places | None,
) -> Iterator[Any]:
    count = len(old) if old is not None else len(new) if new is not None else 0
    for first in range(0, count, _BATCH_ROWS):
        size = min(_BATCH_ROWS, count - first)
        sides = []
        for rows, places in ((before, old), (after, new)):
            sides.append(None if places is None else taken(rows, places[first : first + size]))
        keyed: Any = sides[1] if sides[1] is not None else sides[0]
        arrays = [pa.repeat(pa.scalar(kind), size), pa.repeat(pa.scalar(version, pa.int64()), size)]
        arrays += [_whole(keyed.column(name)) for name in key]
        for side, name in zip(sides, ("before", "after"), strict=True):
            row = schema.field(name).type
            if side is None:
                arrays.append(pa.nulls(size, row))
            else:
                columns = [_whole(side.column(field.name)) for field in row]
                arrays.append(pa.StructArray.from_arrays(columns, fields=list(row)))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _whole(values: Any) -> Any:
    found = values.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)
    return found
