"""Compaction: many small splits of a partition become few of a wanted size. The same rows, so no change of data.

Files that a skip action keeps out of merges stay as they are until it has cooled down; a file that cannot be read gets
such an action and the rest goes on. Another writer's change of some sources takes only their group out of the commit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from msgspec.structs import replace as changed

from deltaic.errors import CommitConflictError, DecodeError, NotFoundError
from deltaic.table.actions import AddFile
from deltaic.table.rows.commits import check_still_fits
from deltaic.table.rows.reading import RowReader
from deltaic.table.rows.writing import Listener, Progress, SplitWriter, WriteOptions

TARGET_BYTES = 128 << 20
"""The size of splits that a compaction aims at."""

_WHOLE = 1 << 62


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did."""

    version: int
    files_before: int
    """Files that were merged away."""
    files_after: int
    """Files that hold their rows now."""
    bytes_before: int
    bytes_after: int
    skipped: tuple[str, ...] = ()
    """Files that could not be read and got a skip action."""
    left: int = 0
    """Groups that another writer changed meanwhile."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class _Merged:
    sources: tuple[AddFile, ...]
    made: tuple[AddFile, ...]


def groups_of(
    adds: Sequence[AddFile], partition_by: Sequence[str], target_bytes: int, *, least_files: int = 2
) -> list[list[AddFile]]:
    """Files of one partition that together come near the wanted size; large ones stay alone."""
    partitions: dict[tuple[str | None, ...], list[AddFile]] = {}
    for add in sorted(adds, key=lambda one: (one.added_at_version, one.path)):
        if add.size_bytes < target_bytes or add.delete_opstamp:
            key = tuple(add.partition_values.get(name) for name in partition_by)
            partitions.setdefault(key, []).append(add)
    found = []
    for members in partitions.values():
        group: list[AddFile] = []
        size = 0
        for add in members:
            if group and size + add.size_bytes > target_bytes:
                found.append(group)
                group, size = [], 0
            group.append(add)
            size += add.size_bytes
        found.append(group)
    # Rows that a delete file hides go for good, also if their split is alone.
    return [group for group in found if len(group) >= least_files or any(add.delete_opstamp for add in group)]


def compact(
    reader: RowReader,
    options: WriteOptions,
    *,
    target_bytes: int,
    adds: Sequence[AddFile],
    note: str | None,
    listener: Listener | None,
    cancelled: Callable[[], bool] | None = None,
) -> Compaction:
    """Merge files of a version by groups, in one commit."""
    groups = groups_of(adds, reader.schema.partition_by, target_bytes)
    whole = replace(options, split_bytes=_WHOLE, split_rows=_WHOLE)
    merged: list[_Merged] = []
    bad: dict[str, str] = {}
    total = sum(add.num_records or 0 for group in groups for add in group)
    done = 0
    for group in groups:
        if cancelled is not None and cancelled():
            break
        tables, sources = [], []
        for add in group:
            try:
                tables.append(reader.read(add))
                sources.append(add)
            except (DecodeError, NotFoundError) as error:
                bad[add.path] = str(error)
        if len(sources) < 2 and not any(add.delete_opstamp for add in sources):
            continue
        merged.append(_Merged(tuple(sources), tuple(_written(reader, tables, sources, whole))))
        done += sum(add.num_records or 0 for add in sources)
        if listener is not None:
            made = [add for one in merged for add in one.made]
            listener(Progress("compact", done, total, len(made), sum(add.size_bytes for add in made)))
    return _committed(reader, merged, bad, note)


def _written(reader: RowReader, tables: list[Any], sources: list[AddFile], options: WriteOptions) -> list[AddFile]:
    with SplitWriter(reader.files, reader.schema, options, operation="compact") as writer:
        writer.write(pa.concat_tables(tables))
        made = writer.finish()
    operations = max((add.num_merge_ops or 0 for add in sources), default=0) + 1
    return [changed(add, num_merge_ops=operations, data_change=False) for add in made]


def _committed(reader: RowReader, merged: list[_Merged], bad: dict[str, str], note: str | None) -> Compaction:
    files, version, left = reader.files, reader.snapshot.version, 0
    for path, reason in bad.items():
        version = files.skip([path], reason=reason[:500], operation="merge").version
    for number in range(1, files.settings.retry_max_attempts + 1):
        if not merged:
            break
        snapshot = files.snapshot()
        live = snapshot.find({add.path for one in merged for add in one.sources})
        still = [one for one in merged if all(add.path in live for add in one.sources)]
        left += len(merged) - len(still)
        merged = still
        if not merged:
            break
        check_still_fits(reader.schema, snapshot)
        try:
            done = files.merge(
                [add.path for one in merged for add in one.sources],
                [add for one in merged for add in one.made],
                snapshot=snapshot,
                note=note,
            )
            version = done.version
            break
        except CommitConflictError:
            if number == files.settings.retry_max_attempts:
                raise
        files.pause(number)
    sources = [add for one in merged for add in one.sources]
    made = [add for one in merged for add in one.made]
    return Compaction(
        version,
        len(sources),
        len(made),
        sum(add.size_bytes for add in sources),
        sum(add.size_bytes for add in made),
        tuple(bad),
        left,
    )
