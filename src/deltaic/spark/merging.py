"""Merging on Spark: rows meet those of the table by key in tasks, and only the names of splits reach the driver.

    stage     the rows go by their keys to tasks, which check them and leave them as Arrow files on the store
    files     every split that may have one of the keys is read by a task, and written again if a row of it changes
    insert    what met no row becomes new splits
    commit    by the driver, at once; if another writer came first, from `files` on again

A few rows are merged in the driver, which is quicker than three jobs.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.spark.build import parallelism
from deltaic.spark.build_jobs import Jobs, Progress, SparkJobs
from deltaic.spark.build_scratch import Part, Scratch
from deltaic.spark.columns import for_table
from deltaic.spark.reading import SplitsPart
from deltaic.spark.writing import gather
from deltaic.table.actions import AddFile
from deltaic.table.retention import SCRATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from deltaic.table.predicate import Predicate
    from deltaic.table.rows.commits import RowCommit
    from deltaic.table.rows.editing import Edit
    from deltaic.table.rows.reading import RowReader
    from deltaic.table.rows.table import Table
    from deltaic.table.rows.upserting import MergeClauses

FEW_BYTES = 8 << 20
"""Rows of so many bytes are merged by the driver itself."""

_INLINE_BYTES = 64 << 10
_BITS = np.dtype(np.uint8)


class Staged(msgspec.Struct, frozen=True, array_like=True):
    """The rows of one task, by their keys: no other task has a key of these."""

    rows: int
    size_bytes: int
    where: str | None
    """A predicate that is true of every row of the table that they can meet; None if none can be said."""
    inline: bytes | None = None
    """The rows themselves, where they are few."""
    key: str = ""
    keys_key: str = ""
    """The file of the key columns alone: most splits have none of the keys."""
    keys_bytes: int = 0


@dataclass(frozen=True)
class StageRows:
    """Takes the rows of a task in the types of the table, checks their keys, and leaves them for others."""

    Result: ClassVar[Any] = Staged
    part: SplitsPart
    on: tuple[str, ...]
    scratch: Scratch

    def run(self, batches: Iterator[Any]) -> Staged:
        """Stage them."""
        from deltaic.table.rows.conform import GivenRows
        from deltaic.table.rows.matching import predicate_text
        from deltaic.table.rows.upserting import check_source_keys, key_predicate

        schema = self.part.reader().schema
        gathered = gather(for_table(batch, schema.arrow) for batch in batches)
        source = GivenRows(gathered).whole(schema)
        if not source.num_rows:
            return Staged(0, 0, None, b"")
        missing = [name for name in self.on if name not in source.column_names]
        if missing:
            raise InputError(f"the rows have no {missing[0]}, by which they are matched", "NoColumn")
        check_source_keys(source, self.on)
        found = key_predicate(source, self.on)
        where = None if found is None else predicate_text(found)
        whole = _packed(source)
        if whole.size <= _INLINE_BYTES:
            return Staged(source.num_rows, whole.size, where, whole.to_pybytes())
        keys = _packed(source.select(list(self.on)))
        return Staged(
            source.num_rows,
            whole.size,
            where,
            None,
            self.scratch.write_bytes([memoryview(whole)]),
            self.scratch.write_bytes([memoryview(keys)]),
            keys.size,
        )


class MergedFiles(msgspec.Struct, frozen=True, array_like=True):
    """What became of some splits."""

    removed: list[str]
    added: list[AddFile]
    rows: int
    met: dict[int, Part]
    """For each staged part of which rows were met: which, as bits."""


@dataclass(frozen=True)
class MergeFiles:
    """Merges staged rows into some splits."""

    Result: ClassVar[Any] = MergedFiles
    part: SplitsPart
    staged: tuple[Staged, ...]
    on: tuple[str, ...]
    clauses: "MergeClauses"
    scratch: Scratch

    @property
    def weight(self) -> int:
        """Bytes that are read."""
        return sum(add.size_bytes or 0 for add in self.part.adds)

    def run(self) -> MergedFiles:
        """Merge them."""
        from deltaic.table.rows.upserting import RowMerge
        from deltaic.table.rows.writing import SplitWriter, WriteOptions

        reader = self.part.reader()
        chosen = self._chosen(reader)
        source, places = self._source(chosen, reader)
        met = np.zeros(source.num_rows, np.bool_)
        merge = RowMerge(reader, source, self.on, self.clauses, met=met)
        removed, count = [], 0
        with SplitWriter(reader.files, reader.schema, WriteOptions(threads=1), operation="merge") as writer:
            for add in self.part.adds:
                changed = merge.merge_file(add, writer)
                if changed:
                    removed.append(add.path)
                    count += changed
            added = list(writer.finish())
        return MergedFiles(removed, added, count, self._met(places, met))

    def _chosen(self, reader: "RowReader") -> dict[int, NDArray[np.bool_]]:
        """The staged rows whose keys these splits have, by staged part."""
        from deltaic.table.rows.equality import codes_of_both

        keys = [reader.read(add, self.on) for add in self.part.adds]
        found: dict[int, NDArray[np.bool_]] = {}
        for number, staged in enumerate(self.staged):
            if not staged.rows:
                continue
            mine = staged_keys(staged, self.scratch, self.on)
            mask = np.zeros(staged.rows, np.bool_)
            for theirs in keys:
                ours, others = codes_of_both(mine, theirs, self.on)
                mask |= np.isin(ours, others)
            if mask.any():
                found[number] = mask
        return found

    def _source(
        self, chosen: Mapping[int, NDArray[np.bool_]], reader: "RowReader"
    ) -> tuple[Any, list[tuple[int, NDArray[np.int64]]]]:
        import pyarrow as pa

        tables, places = [], []
        for number, mask in chosen.items():
            rows = np.flatnonzero(mask)
            tables.append(staged_rows(self.staged[number], self.scratch).take(pa.array(rows)))
            places.append((number, rows))
        if tables:
            return pa.concat_tables(tables), places
        return next(staged_rows(each, self.scratch) for each in self.staged if each.rows).slice(0, 0), places

    def _met(self, places: list[tuple[int, NDArray[np.int64]]], met: NDArray[np.bool_]) -> dict[int, Part]:
        found, first = {}, 0
        for number, rows in places:
            mask = np.zeros(self.staged[number].rows, np.bool_)
            mask[rows] = met[first : first + len(rows)]
            first += len(rows)
            found[number] = self.scratch.write(np.packbits(mask, bitorder="little"))[0]
        return found


class InsertedRows(msgspec.Struct, frozen=True, array_like=True):
    """Splits of rows that are new."""

    added: list[AddFile]
    rows: int


@dataclass(frozen=True)
class InsertRows:
    """Writes the staged rows that met no row of the table."""

    Result: ClassVar[Any] = InsertedRows
    part: SplitsPart
    staged: Staged
    met: tuple[Part, ...]
    on: tuple[str, ...]
    clauses: "MergeClauses"
    scratch: Scratch

    @property
    def weight(self) -> int:
        """Bytes that are read."""
        return self.staged.size_bytes

    def run(self) -> InsertedRows:
        """Write them."""
        from deltaic.table.rows.upserting import RowMerge
        from deltaic.table.rows.writing import SplitWriter, WriteOptions

        reader = self.part.reader()
        met = np.zeros(self.staged.rows, np.bool_)
        for part in self.met:
            bits = np.unpackbits(np.asarray(self.scratch.read(part), _BITS), bitorder="little")
            met |= bits[: self.staged.rows].astype(np.bool_)
        if met.all():
            return InsertedRows([], 0)
        source = staged_rows(self.staged, self.scratch)
        merge = RowMerge(reader, source, self.on, self.clauses, met=met)
        with SplitWriter(reader.files, reader.schema, WriteOptions(threads=1), operation="merge") as writer:
            count = merge.insert(writer)
            return InsertedRows(list(writer.finish()), count)


@dataclass
class StagedSource:
    """Rows that were staged, ready to be merged by tasks into whatever version is the newest."""

    path: str
    jobs: Jobs
    scratch: Scratch
    staged: tuple[Staged, ...]

    @cached_property
    def num_rows(self) -> int:
        """How many there are."""
        return sum(each.rows for each in self.staged)

    def plan_merge(self, reader: "RowReader", on: Sequence[str], clauses: "MergeClauses") -> "Edit":
        """Merge into a version by tasks."""
        from deltaic.table.changes import EVERYTHING
        from deltaic.table.rows.editing import Edit

        names = tuple(on)
        where = None if clauses.not_matched_by_source else self._where()
        adds = sorted(reader.files_of(where), key=lambda add: -(add.size_bytes or 0))
        shares: list[list[AddFile]] = [[] for _ in range(min(len(adds), self.jobs.tasks))]
        for number, add in enumerate(adds):
            shares[number % len(shares)].append(add)
        merged: list[MergedFiles] = self.jobs.run(
            "merge files",
            [
                MergeFiles(SplitsPart(self.path, reader, share), self.staged, names, clauses, self.scratch)
                for share in shares
            ],
        )
        met: dict[int, list[Part]] = {}
        for each in merged:
            for number, part in each.met.items():
                met.setdefault(number, []).append(part)
        bare = SplitsPart(self.path, reader, ())
        inserted: list[InsertedRows] = self.jobs.run(
            "insert rows",
            [
                InsertRows(bare, staged, tuple(met.get(number, ())), names, clauses, self.scratch)
                for number, staged in enumerate(self.staged)
                if staged.rows
            ],
        )
        added = [add for one in merged for add in one.added] + [add for new in inserted for add in new.added]
        removed = [path for each in merged for path in each.removed]
        rows = sum(one.rows for one in merged) + sum(new.rows for new in inserted)
        return Edit(tuple(removed), tuple(added), reader.reads(where) or EVERYTHING, rows)

    def _where(self) -> "Predicate | None":
        from deltaic.table.predicate import Or, parse_predicate

        texts = [each.where for each in self.staged if each.rows]
        if any(text is None for text in texts):
            return None
        parts = tuple(parse_predicate(text) for text in dict.fromkeys(texts) if text is not None)
        return None if not parts else parts[0] if len(parts) == 1 else Or(parts)

    def whole(self) -> Any:
        """All rows, here."""
        import pyarrow as pa

        return pa.concat_tables([staged_rows(each, self.scratch) for each in self.staged if each.rows])


def merge_frame(
    frame: "DataFrame",
    table: "Table",
    *,
    few_bytes: int = FEW_BYTES,
    tasks: int | None = None,
    progress: Progress | None = None,
    **terms: Any,
) -> "RowCommit":
    """Merge the rows of a DataFrame into a table by its key, by the tasks of its session.

    Args:
        frame: the rows.
        table: the table; its store must be one that tasks can reach.
        few_bytes: rows of so many bytes are merged by the driver itself.
        tasks: how many tasks a job has at most; the session's parallelism if None.
        progress: told of every job.
        terms: what `Table.merge` takes beside the rows: `on`, clauses, `note`, `user`, `transaction`.
    """
    jobs = SparkJobs(frame.sparkSession, tasks or parallelism(frame.sparkSession), progress)
    reader = table.at().reader
    on = terms.get("on") or reader.schema.key
    names = (on,) if isinstance(on, str) else tuple(on)
    if not names:
        raise InputError("the table has no key: say by which columns rows are matched")
    if missing := [name for name in names if name not in frame.columns]:
        raise InputError(f"the rows have no {missing[0]}, by which they are matched", "NoColumn")
    scratch = Scratch(table.url, f"{SCRATCH}/{secrets.token_hex(12)}")
    by_key = frame.repartition(jobs.tasks, *(frame[name] for name in names))
    try:
        stage = StageRows(SplitsPart(table.url, reader, ()), names, scratch)
        (staged,) = jobs.run_beside("stage rows", (), [(by_key, stage)])[1]
        source = StagedSource(table.url, jobs, scratch, tuple(each for each in staged if each.rows))
        if not source.num_rows:
            return table.merge(reader.schema.arrow.empty_table(), **terms)
        if sum(each.size_bytes for each in staged) <= few_bytes:
            return table.merge(source.whole(), **terms)
        return table.merge(source, **terms)
    finally:
        scratch.clear()


def staged_rows(staged: Staged, scratch: Scratch) -> Any:
    """The rows of a staged part."""
    if staged.inline is not None:
        return _unpacked(staged.inline)
    return _unpacked(scratch.read_bytes(staged.key, 0, staged.size_bytes))


def staged_keys(staged: Staged, scratch: Scratch, on: Sequence[str]) -> Any:
    """The key columns of a staged part."""
    if staged.inline is not None:
        return _unpacked(staged.inline).select(list(on))
    return _unpacked(scratch.read_bytes(staged.keys_key, 0, staged.keys_bytes))


def _packed(table: Any) -> Any:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _unpacked(data: bytes) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.BufferReader(data)) as reader:
        return reader.read_all()
