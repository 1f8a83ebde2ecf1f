"""The registry as its writer holds it: everything that the journal's records make of it, one after the other.

A record that does not fit is refused (`JournalCorrupt`): nothing is guessed. The same code applies what was read and
what was just written, so that memory and journal cannot say different things.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import cast
from zlib import crc32

import numpy as np

from deltaic.errors import RegistryError
from deltaic.schema.registry_journal import Add, Evict, Mark, NewVersion, Record
from deltaic.schema.registry_paths import MAX_PATH_BYTES, check_path
from deltaic.schema.registry_table import MAX_INDEX, MAX_VERSION, NO_DESCRIPTOR, Descriptor, Table, View

MAGIC = b"DFRS"
FORMAT = b"\x01\0\0\0"

_HEADER = struct.Struct("<4s4sQIIII")
_DESCRIPTOR = struct.Struct("<BBHQ")
_VERSION = struct.Struct("<II")
_CHECKSUM = struct.Struct("<I")


def _is_add(record: Record) -> bool:
    return isinstance(record, Add)


class RegistryState:
    """Descriptors, tables and what is retired, after the record of a sequence."""

    def __init__(self) -> None:
        self.sequence = 0
        self._descriptors: list[Descriptor] = []
        self._retired: set[int] = set()
        self.view = View(0, 0, {0: Table(0, self._descriptors, (), frozen=False)})

    def is_retired(self, index: int, version: int | None = None) -> bool:
        """True if the field of an index is left out of the next version."""
        table = self.view.table(version)
        return 0 <= index < len(table) and table.number(index) in self._retired

    def live(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The indices of the current version that go on into the next one, rising."""
        numbers = np.array(self.view.table().numbers(), np.int64)
        gone = np.array([*self._retired, NO_DESCRIPTOR], np.int64)
        return np.flatnonzero(~np.isin(numbers, gone)).astype(np.int64)

    def apply(self, record: Record) -> None:
        """Take the next record; `JournalCorrupt` if it does not fit."""
        self.apply_all((record,))

    def apply_all(self, records: Sequence[Record]) -> None:
        """Take the next records; `JournalCorrupt` at the first that does not fit, those before it are taken."""
        for adds, some in groupby(records, _is_add):
            if adds:
                self._add(cast("Iterable[Add]", some))
            else:
                for record in some:
                    self._apply(record)

    def _apply(self, record: Record) -> None:
        match record:
            case NewVersion():
                self._new_version(record)
            case Mark():
                self._mark(record)
            case Evict():
                self._evict(record)
        self.sequence += 1

    def _add(self, records: Iterable[Add]) -> None:
        table, current = self.view.table(), self.view.current
        known, first = table.lookup, len(table)
        fields: dict[str, Descriptor] = {}
        try:
            for index, record in enumerate(records, first):
                path = record.path
                if record.version != current or record.index != index or index > MAX_INDEX:
                    raise self._unfit(
                        f"field {record.index} of version {record.version}, the next is {index}", index - first
                    )
                if path in fields or known(path) is not None:
                    raise self._unfit(f"{path} is there already", index - first)
                fields[path] = Descriptor(path, record.type, record.created_ms)
        finally:
            table.extend(fields.values())
            self.sequence += len(fields)

    def _new_version(self, record: NewVersion) -> None:
        view, order = self.view, record.old_index_of
        if record.old != view.current or record.new != record.old + 1 or record.new > MAX_VERSION:
            raise self._unfit(f"version {record.new} after {record.old}, while {view.current} is current")
        if not np.array_equal(np.sort(order), self.live()):
            raise self._unfit(f"version {record.new} does not have exactly the live fields of version {record.old}")
        old = view.table()
        numbers = np.array(old.numbers(), np.uint32)[order].tolist()
        tables = {**view.tables, old.version: old.freeze()}
        tables[record.new] = Table(record.new, self._descriptors, numbers, frozen=False)
        self.view = View(view.oldest, record.new, tables)

    def _mark(self, record: Mark) -> None:
        table = self.view.table()
        if record.version != table.version or table.get(record.index) is None or record.retired > 1:
            raise self._unfit(f"a mark of field {record.index} of version {record.version}")
        number = table.number(record.index)
        if record.retired:
            self._retired.add(number)
        else:
            self._retired.discard(number)

    def _evict(self, record: Evict) -> None:
        view = self.view
        if record.version != view.oldest or record.version == view.current:
            raise self._unfit(f"version {record.version} evicted, while {view.oldest} to {view.current} are kept")
        kept = {version: table for version, table in view.tables.items() if version != record.version}
        self.view = View(view.oldest + 1, view.current, kept)

    def _unfit(self, reason: str, ahead: int = 0) -> RegistryError:
        return RegistryError("JournalCorrupt", f"record {self.sequence + ahead + 1} does not fit: {reason}")

    def snapshot(self) -> bytes:
        """All of it as the bytes of a snapshot."""
        view, retired = self.view, self._retired
        count = len(self._descriptors)
        parts = [_HEADER.pack(MAGIC, FORMAT, self.sequence, view.current, view.oldest, count, len(view.tables))]
        for number, field in enumerate(self._descriptors):
            path = field.path.encode()
            parts.append(_DESCRIPTOR.pack(field.type, number in retired, len(path), field.created_ms) + path)
        for version in sorted(view.tables):
            numbers = np.array(view.tables[version].numbers(), "<u4")
            parts.append(_VERSION.pack(version, len(numbers)) + numbers.tobytes())
        data = b"".join(parts)
        return data + _CHECKSUM.pack(crc32(data))

    @staticmethod
    def is_whole(data: bytes) -> bool:
        """True if the bytes of a snapshot are those that were written."""
        end = len(data) - _CHECKSUM.size
        return end >= _HEADER.size and crc32(memoryview(data)[:end]) == _CHECKSUM.unpack_from(data, end)[0]

    @classmethod
    def from_snapshot(cls, data: bytes, name: str = "the snapshot") -> "RegistryState":
        """Read a snapshot.

        Raises:
            RegistryError: `Truncated`, `BadMagic`, `UnsupportedVersion`, `ChecksumMismatch`; `JournalCorrupt` if the
                checksum is right and the content cannot be.
        """
        state = cls()
        state._read(data, name)
        return state

    def _read(self, data: bytes, name: str) -> None:
        if len(data) < _HEADER.size + _CHECKSUM.size:
            raise RegistryError("Truncated", f"{name} ends after {len(data)} bytes", len(data))
        magic, written, sequence, current, oldest, descriptors, versions = _HEADER.unpack_from(data)
        if magic != MAGIC:
            raise RegistryError("BadMagic", f"{name} is no snapshot of a registry: it starts with {magic!r}", 0)
        if written != FORMAT:
            raise RegistryError("UnsupportedVersion", f"{name}: format {written.hex()}, this version reads 01000000", 4)
        end = len(data) - _CHECKSUM.size
        if not self.is_whole(data):
            raise RegistryError("ChecksumMismatch", f"{name}: the checksum is not that of its bytes", end)

        def wrong(reason: str, at: int) -> RegistryError:
            return RegistryError("JournalCorrupt", f"{name}: {reason}", at)

        if descriptors * (_DESCRIPTOR.size + 1) + versions * _VERSION.size > end - _HEADER.size:
            raise wrong(f"{descriptors:,} descriptors and {versions:,} versions do not fit its bytes", 24)
        if oldest > current or versions != current - oldest + 1:
            raise wrong(f"{versions:,} versions, from {oldest} to {current}", 16)
        at = _HEADER.size
        for number in range(descriptors):
            if at + _DESCRIPTOR.size > end:
                raise wrong(f"descriptor {number} runs past the end", at)
            value_type, retired, length, created_ms = _DESCRIPTOR.unpack_from(data, at)
            start, at = at + _DESCRIPTOR.size, at + _DESCRIPTOR.size + length
            if at > end or length > MAX_PATH_BYTES or retired > 1:
                raise wrong(f"descriptor {number} with a path of {length} bytes cannot be", start)
            try:
                path = check_path(str(data[start:at], "utf-8"))
            except (UnicodeDecodeError, RegistryError) as error:
                raise wrong(f"descriptor {number} has a path that is none: {error}", start) from error
            self._descriptors.append(Descriptor(path, value_type, created_ms))
            if retired:
                self._retired.add(number)
        tables: dict[int, Table] = {}
        for version in range(oldest, current + 1):
            found, count = _VERSION.unpack_from(data, at) if at + _VERSION.size <= end else (-1, 0)
            at += _VERSION.size
            if found != version or count > MAX_INDEX + 1 or count * 4 > end - at:
                raise wrong(f"version {version} is not where it must be, or does not fit", at)
            numbers = np.frombuffer(data, "<u4", count, at)
            present = numbers[numbers != NO_DESCRIPTOR]
            if (present >= descriptors).any():
                raise wrong(f"version {version} has a descriptor that is not there", at)
            tables[version] = Table(version, self._descriptors, numbers.tolist(), frozen=version < current)
            if len({self._descriptors[number].path for number in present.tolist()}) != len(present):
                raise wrong(f"version {version} has a path twice", at)
            at += count * 4
        if at != end:
            raise wrong(f"{end - at} bytes are left over", at)
        self.sequence, self.view = sequence, View(oldest, current, tables)
