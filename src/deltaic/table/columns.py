"""The files of a manifest as columns.

A manifest of 50,000 files is a handful of arrays, not 50,000 objects: pruning and membership run over arrays, and an
add action is made only for a file that somebody asks for. Texts stay in the manifest's own bytes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.errors import DecodeError
from deltaic.kernels import manifest as kernel
from deltaic.table.actions import AddFile
from deltaic.table.avro import Container, read_container, read_values
from deltaic.table.entries import BASE, FULL, EntrySchema, encode_entries, entry_from, program_of, schema_for

_REASONS = {
    "BadVarint": "a number that does not end within 64 bits",
    "Truncated": "a text that runs past the end",
    "BadUnion": "a branch that its union does not have",
    "BadLength": "more items than bytes",
    "BadBoolean": "a boolean that is neither 0 nor 1",
    "TrailingBytes": "bytes behind the last record",
}


class TextColumn(msgspec.Struct, frozen=True):
    """Texts that lie in some bytes: where each starts and how long it is, -1 for null."""

    data: bytes
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def octets(self, row: int) -> bytes | None:
        """The bytes of one text, or None."""
        length = int(self.lengths[row])
        start = int(self.starts[row])
        return None if length < 0 else self.data[start : start + length]

    def texts(self, rows: NDArray[np.int64] | None = None) -> list[str | None]:
        """The texts of some rows, or of all."""
        starts, lengths = (self.starts, self.lengths) if rows is None else (self.starts[rows], self.lengths[rows])
        data = self.data
        try:
            return [
                None if length < 0 else data[start : start + length].decode()
                for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
            ]
        except UnicodeDecodeError as error:
            raise DecodeError("BadText", f"no UTF-8: {error.reason}", "a manifest") from error

    def distinct(self) -> tuple[list[bytes | None], NDArray[np.int64]]:
        """The different texts, and for each row which of them it is."""
        codes, firsts = kernel.number_texts(self.data, self.starts, self.lengths)
        return [self.octets(row) for row in firsts.tolist()], codes

    def compared(self, needle: bytes) -> NDArray[np.int8]:
        """How each text sorts beside a needle: see `kernels.manifest.compare_texts`."""
        return kernel.compare_texts(self.data, self.starts, self.lengths, needle)

    def longs(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Each text as an integer, and whether it is one."""
        return kernel.parse_longs(self.data, self.starts, self.lengths)

    def doubles(self) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
        """Each text as a number, and whether it is one."""
        return kernel.parse_doubles(self.data, self.starts, self.lengths)


class FileColumns:
    """The file entries of one manifest. Immutable; what is derived from it is kept with it."""

    def __init__(
        self, data: bytes, names: Sequence[str], program: bytes, count: int, where: str, *, schema: EntrySchema | None
    ) -> None:
        try:
            starts, arrays = kernel.decode_entries(data, count, program)
        except ValueError as error:
            code, position = error.args
            raise DecodeError(code, _REASONS.get(code, code), f"{where} byte {position}") from error
        self.data, self.count, self.where = data, count, where
        self.starts = starts
        self.schema = schema
        """The shape of the records if it is one of ours: then they can be copied as they are."""
        self._arrays: dict[str, tuple[Any, ...]] = dict(zip(names, arrays, strict=True))
        self._kinds = dict(zip(names, program, strict=True))
        for needed in ("path", "size", "modificationTime"):
            if needed not in self._arrays and count:
                raise DecodeError("BadEntry", f"file entries without {needed}", where)
        self._derived: dict[Any, Any] = {}

    @classmethod
    def read(cls, data: bytes, where: str) -> "FileColumns":
        """Decode a manifest file."""
        return cls.of_container(read_container(data, where), where)

    @classmethod
    def of_container(cls, container: Container, where: str) -> "FileColumns":
        """The entries of an unpacked manifest."""
        shape = program_of(container.schema)
        if shape is None:
            return cls.of_adds(_by_values(container, where), where)
        schema = next((known for known in (BASE, FULL) if _same_shape(known, shape)), None)
        return cls(container.data, shape[0], shape[1], container.count, where, schema=schema)

    @classmethod
    def of_adds(cls, adds: Iterable[AddFile], where: str) -> "FileColumns":
        """The same columns from add actions."""
        listed = adds if isinstance(adds, list | tuple) else list(adds)
        schema = schema_for(listed, literal=False)
        data, _ = encode_entries(listed, schema)
        return cls.of_records(data, len(listed), schema, where)

    @classmethod
    def of_records(cls, data: bytes, count: int, schema: EntrySchema, where: str) -> "FileColumns":
        """The same columns from records of one of our shapes."""
        fields = {"type": "record", "fields": schema.avro_fields}
        names, program = cast("tuple[tuple[str, ...], bytes]", program_of(fields))
        return cls(data, names, program, count, where, schema=schema)

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        """About how much memory this takes."""
        arrays = (array for column in self._arrays.values() for array in column if isinstance(array, np.ndarray))
        return len(self.data) + sum(array.nbytes for array in arrays)

    def text(self, name: str) -> TextColumn | None:
        """A column of texts, if the manifest has it."""
        found = self._arrays.get(name)
        return None if found is None else TextColumn(self.data, found[0], found[1])

    def longs(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """A column of numbers, and where it is not null; a column that is not there is null."""
        found = self._arrays.get(name)
        if found is None:
            return np.zeros(self.count, np.int64), np.zeros(self.count, bool)
        return found[0], found[1].view(bool)

    def flags(self, name: str, default: bool) -> NDArray[np.bool_]:
        """A column of booleans."""
        found = self._arrays.get(name)
        return np.full(self.count, default) if found is None else found[0].view(bool)

    @property
    def paths(self) -> TextColumn:
        """The path of each file."""
        return cast("TextColumn", self.text("path"))

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """A hash of each path, to find paths among many."""
        return cast("NDArray[np.uint64]", self.derived("hashes", lambda: _hashes(self.paths)))

    def find(self, paths: Iterable[str]) -> NDArray[np.int64]:
        """The rows whose path is one of these."""
        wanted = {path.encode("utf-8", "surrogatepass") for path in paths}
        if not wanted or not self.count:
            return np.zeros(0, np.int64)
        candidates = np.flatnonzero(np.isin(self.hashes, hash_paths(wanted)))
        column = self.paths
        return np.array([row for row in candidates.tolist() if column.octets(row) in wanted], np.int64)

    def value_of(self, name: str, key: str) -> TextColumn:
        """What a map says of one key in each row: null where the map or the key is missing."""
        return cast("TextColumn", self.derived((name, key), lambda: self._value_of(name, key)))

    def _value_of(self, name: str, key: str) -> TextColumn:
        starts, lengths = np.zeros(self.count, np.int64), np.full(self.count, -1, np.int64)
        found = self._arrays.get(name)
        if found is not None:
            offsets, ids, value_starts, value_lengths, _, keys = found
            encoded = key.encode("utf-8", "surrogatepass")
            if encoded in keys:
                items = np.flatnonzero(ids == keys.index(encoded))
                rows = np.searchsorted(offsets, items, side="right") - 1
                starts[rows], lengths[rows] = value_starts[items], value_lengths[items]
        return TextColumn(self.data, starts, lengths)

    def derived(self, key: Any, make: Any) -> Any:
        """Something computed from these columns, kept for the next who asks."""
        found = self._derived.get(key)
        if found is None:
            found = self._derived[key] = make()
        return found

    def entry(self, row: int) -> AddFile:
        """The add action of one row."""
        return next(self.entries(np.array([row], np.int64)))

    def entries(self, rows: NDArray[np.int64] | None = None) -> Iterator[AddFile]:
        """The add actions of some rows, or of all."""
        wanted = range(self.count) if rows is None else rows.tolist()
        for row in wanted:
            values = {name: self._value(name, row) for name in self._arrays}
            yield entry_from(values, self.where)

    def _value(self, name: str, row: int) -> Any:
        arrays, kind = self._arrays[name], self._kinds[name] & 7
        if kind == kernel.TEXT:
            return self._text(int(arrays[0][row]), int(arrays[1][row]))
        if kind == kernel.LONG:
            return int(arrays[0][row]) if arrays[1][row] else None
        if kind == kernel.BOOLEAN:
            return bool(arrays[0][row]) if arrays[1][row] else None
        if not arrays[-1 if kind == kernel.TEXTS else 4][row]:
            return None
        first, last = int(arrays[0][row]), int(arrays[0][row + 1])
        if kind == kernel.TEXTS:
            return [self._text(int(arrays[1][item]), int(arrays[2][item])) for item in range(first, last)]
        _, ids, starts, lengths, _, keys = arrays
        return {
            self._decoded(keys[ids[item]]): self._text(int(starts[item]), int(lengths[item]))
            for item in range(first, last)
        }

    def _text(self, start: int, length: int) -> str | None:
        return None if length < 0 else self._decoded(self.data[start : start + length])

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise DecodeError("BadText", f"no UTF-8: {error.reason}", self.where) from error


def hash_paths(paths: Iterable[bytes]) -> NDArray[np.uint64]:
    """The hashes by which `FileColumns.hashes` knows these paths."""
    listed = list(paths)
    lengths = np.array([len(path) for path in listed], np.int64)
    return kernel.hash_texts(b"".join(listed), np.cumsum(lengths) - lengths, lengths)


def _hashes(column: TextColumn) -> NDArray[np.uint64]:
    return kernel.hash_texts(column.data, column.starts, column.lengths)


def _same_shape(known: EntrySchema, shape: tuple[tuple[str, ...], bytes]) -> bool:
    return program_of({"type": "record", "fields": known.avro_fields}) == shape


def _by_values(container: Container, where: str) -> list[AddFile]:
    """Entries of a shape that the kernel does not know, one by one.

    Not by an Avro library: such a one overflows the stack on a schema that refers to itself.
    """
    found = []
    for record in read_values(container, where, most=container.count):
        if not isinstance(record, dict):
            raise DecodeError("BadEntry", "a file entry is no record", where)
        try:
            found.append(entry_from(record, where))
        except (TypeError, AttributeError, ValueError) as error:
            if isinstance(error, DecodeError):
                raise
            raise DecodeError("BadEntry", f"no file entry: {error}", where) from error
    return found
