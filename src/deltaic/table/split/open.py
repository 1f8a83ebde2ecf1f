"""Opening a split where it lies: its footer, its description, its rows, by ranged reads and without a cache.

Rows have numbers, from 0, in the order in which they were written; a delete file hides some and does not number the
others anew. Of a split of ours, the description is checked first and everything else against it; of a foreign one, each
segment file against its own footer.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaic.errors import ChecksumError, DecodeError, InputError
from deltaic.storage.checksum import verify
from deltaic.storage.store import Store
from deltaic.table.actions import AddFile
from deltaic.table.split.container import Footer, Range, check_footer_length, footer_start, read_footer
from deltaic.table.split.description import (
    ALIVE_NAME,
    DESCRIPTION_NAME,
    MAX_DESCRIPTION_BYTES,
    ROWS_NAME,
    Description,
)
from deltaic.table.split.engine import check_engine_version
from deltaic.table.split.foreign import alive_rows, filtered, foreign_mapping, read_foreign_rows
from deltaic.table.split.mapping import DocMapping
from deltaic.table.split.rows import WHOLE_BYTES, parse_rows, read_rows, rows_schema
from deltaic.table.split.segment import IndexMeta, check_segment_file, is_segment_file, read_meta, unpack_alive

COMPANION_NAME = "_parquet_manifest.json"
"""The member that says where the rows of a companion split are."""

TAG_SPLIT = "deltaic.split"
TAG_ENGINE = "deltaic.engine"
TAG_DESCRIPTION = "deltaic.description"
TAG_ROWS = "deltaic.rows"

_TAIL_BYTES = 64 << 10
_MAX_HINTED_BYTES = 16 << 20
_MAX_META_BYTES = 64 << 20


class SplitFile:
    """A split in a store."""

    def __init__(
        self, store: Store, path: str, footer: Footer, add: AddFile | None = None, *, shown: str | None = None
    ) -> None:
        self.store, self.path, self.footer, self.add = store, path, footer, add
        self.where = shown or f"{store.url}/{path}"
        """The split, for errors."""

    def member(self, name: str) -> bytes:
        """The bytes of a member, checked: against the description of ours, or by the footer of a segment file."""
        data = self._read(name)
        self.check_member(name, data)
        return data

    def check_member(self, name: str, data: bytes | memoryview) -> None:
        """Raise if these are not the bytes of the member of that name."""
        if name == DESCRIPTION_NAME:
            return
        if self.description is not None:
            expected = self.description.members.get(name)
            if expected is None:
                raise DecodeError("BadDescription", f"the description has no checksum of {name[:80]!r}", self.where)
            verify(data, expected, f"{self.where}, {name}")
        if is_segment_file(name):
            check_segment_file(data, f"{self.where}, {name}")

    @cached_property
    def description(self) -> Description | None:
        """What the split says of itself, if it is ours."""
        place = self.footer.members.get(DESCRIPTION_NAME)
        expected = self.tags.get(TAG_DESCRIPTION)
        if place is None:
            if expected is not None:
                raise ChecksumError("MissingMember", "the description that the log knows is not there", self.where)
            return None
        if place.length > MAX_DESCRIPTION_BYTES:
            raise DecodeError("TooLarge", f"a description of {place.length:,} bytes", self.where)
        data = self._read(DESCRIPTION_NAME)
        if expected is not None:
            verify(data, expected, f"{self.where}, {DESCRIPTION_NAME}")
        found = Description.read(data, self.where)
        check_engine_version(found.engine, self.where)
        return found

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the add action, if there is one."""
        return dict(self.add.tags or {}) if self.add is not None else {}

    @property
    def kind(self) -> Literal["deltaic", "native", "foreign"]:
        """Whose split it is: ours, ours for others too, or another writer's."""
        if self.description is None:
            return "foreign"
        return "native" if self.description.kind == "native" else "deltaic"

    @property
    def has_index(self) -> bool:
        """Whether there is an index beside the rows: one of ours in which no column is indexed has none."""
        return "meta.json" in self.footer.members or bool(self.mapping.indexed_columns)

    @cached_property
    def meta(self) -> IndexMeta:
        """What its index says of itself."""
        place = self.footer.members.get("meta.json")
        if place is not None and place.length > _MAX_META_BYTES:
            raise DecodeError("TooLarge", f"a meta.json of {place.length:,} bytes", self.where)
        return read_meta(self.member("meta.json"), self.where)

    @property
    def num_rows(self) -> int:
        """How many rows are alive."""
        if self.description is not None:
            return self.description.num_rows - self.description.num_dead
        dead = sum(segment.deletes.count for segment in self.meta.segments if segment.deletes is not None)
        return self.num_numbers - dead

    @property
    def num_numbers(self) -> int:
        """How many rows have a number: dead ones too."""
        if self.description is not None:
            return self.description.num_rows
        return sum(segment.max_doc for segment in self.meta.segments)

    @cached_property
    def mapping(self) -> DocMapping:
        """Which columns are indexed, and how; of a foreign split, how it is indexed in the cache."""
        if self.description is not None:
            return DocMapping(self.description.columns)
        return foreign_mapping(self.meta, self._foreign[0].schema)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        if self.description is not None:
            return rows_schema(self.description.rows, self.where)
        return self._foreign[0].schema

    @cached_property
    def alive(self) -> NDArray[np.bool_] | None:
        """Which rows no delete file hides, by number; None if none is hidden."""
        if self.description is not None and not self.description.num_dead:
            return None
        if self.description is not None and not self.has_index:
            dead = self.description.num_dead
            return unpack_alive(self.member(ALIVE_NAME), self.num_numbers, dead, f"{self.where}, {ALIVE_NAME}")
        return alive_rows(self.meta.segments, self.member, self.where)

    def row_numbers(self) -> NDArray[np.int64]:
        """The numbers of the rows that are alive."""
        return np.arange(self.num_numbers) if self.alive is None else np.flatnonzero(self.alive)

    def rows(
        self, columns: Sequence[str] | None = None, row_numbers: Sequence[int] | NDArray[np.int64] | None = None
    ) -> pa.Table:
        """The rows that are alive, or those of some numbers, with all columns or some.

        Raises:
            InputError: there is no row of a number, or it is dead.
        """
        numbers = None if row_numbers is None else self._checked_numbers(row_numbers)
        if self.description is None:
            table = self._foreign[0]
            if columns is not None:
                missing = [name for name in columns if name not in table.column_names]
                if missing:
                    raise InputError(f"there is no column {missing[0]!r}; there are {', '.join(table.column_names)}")
                table = table.select(list(columns))
        else:
            place = self._place(ROWS_NAME)
            if place.length <= WHOLE_BYTES or (columns is None and numbers is None):
                table = parse_rows(self.description.rows, self.member(ROWS_NAME), self.where, columns)
            else:
                return self._some_rows(place, columns, numbers)
            self._check_count(table)
        if numbers is not None:
            return table.take(pa.array(numbers))
        return filtered(table, self.alive)

    def all_rows(self) -> pa.Table:
        """Every row by its number, dead ones too."""
        if self.description is None:
            return self._foreign[0]
        table = parse_rows(self.description.rows, self.member(ROWS_NAME), self.where)
        self._check_count(table)
        return table

    @cached_property
    def _foreign(self) -> tuple[pa.Table, NDArray[np.bool_] | None]:
        if COMPANION_NAME in self.footer.members:
            raise DecodeError("CompanionSplit", "the rows of this split are in Parquet files elsewhere", self.where)
        return read_foreign_rows(self.meta, self.member, self.where)

    def _some_rows(self, place: Range, columns: Sequence[str] | None, numbers: NDArray[np.int64] | None) -> pa.Table:
        assert self.description is not None

        def read(start: int, length: int) -> bytes:
            part = Range(place.start + start, place.start + start + length)
            return read_exactly(self.store, self.path, part, self.where)

        table = read_rows(self.description.rows, place.length, read, self.where, columns=columns, row_numbers=numbers)
        if numbers is not None:
            return table
        self._check_count(table)
        return filtered(table, self.alive)

    def _check_count(self, table: pa.Table) -> None:
        if table.num_rows != self.num_numbers:
            raise DecodeError("BadRows", f"{table.num_rows:,} rows where {self.num_numbers:,} must be", self.where)

    def _checked_numbers(self, row_numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        numbers = np.asarray(row_numbers, np.int64)
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < self.num_numbers:
            raise InputError(
                f"row numbers from {numbers.min()} to {numbers.max()}; there are {self.num_numbers:,} rows"
            )
        if self.alive is not None and not self.alive[numbers].all():
            raise InputError("a row of these numbers was deleted")
        return numbers

    def _place(self, name: str) -> Range:
        place = self.footer.members.get(name)
        if place is None:
            raise DecodeError("MissingMember", f"the split has no {name[:80]}", self.where)
        return place

    def _read(self, name: str) -> bytes:
        return read_exactly(self.store, self.path, self._place(name), self.where)


def open_split(store: Store, path: str, add: AddFile | None = None) -> SplitFile:
    """Open a split by reading its end; the add action, if given, says where that starts and what to expect."""
    where = f"{store.url}/{path}"
    size = add.size_bytes if add is not None and add.size_bytes else store.head(path).size_bytes
    hint = add.footer_start if add is not None and add.footer_end == size else None
    hinted = size - hint if hint is not None and 0 <= hint <= size else 0
    wanted = min(size, hinted if 0 < hinted <= _MAX_HINTED_BYTES else _TAIL_BYTES)
    while True:
        tail = read_exactly(store, path, Range(size - wanted, size), where)
        start = footer_start(tail, size, where)
        if start >= 0:
            break
        check_footer_length(-start, where)
        wanted = min(size, max(-start, wanted * 2))
    check_footer_length(size - start, where)
    if size - start > wanted:
        tail = read_exactly(store, path, Range(start, size), where)
    footer = read_footer(tail[len(tail) - (size - start) :], start, where)
    return SplitFile(store, path, footer, add)


def read_exactly(store: Store, path: str, place: Range, where: str) -> bytes:
    """A range of an object, all of it."""
    data = store.get_range(path, place.start, place.length)
    if len(data) != place.length:
        raise DecodeError("Truncated", f"{len(data):,} bytes where {place.length:,} must be", where)
    return data
