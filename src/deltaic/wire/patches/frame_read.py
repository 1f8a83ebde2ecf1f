"""Frames of patches from bytes that are distrusted (docs/formats/patches.md).

Checks come in a fixed order: magic, format, flags, sizes, checksum, decompression; then the body from its first byte
to its last, each group whole before the next.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.cursor import ReadableBuffer
from deltaic.errors import ChecksumError, DecodeError, LimitError, RegistryError
from deltaic.kernels import crc
from deltaic.storage.decompress import Codec, decompress
from deltaic.wire.patches.bounds import DEFAULT_PATCH_LIMITS, MAX_KEY_COLUMNS, MAX_SELECTORS, PatchLimits
from deltaic.wire.patches.column_read import BodyReader
from deltaic.wire.patches.columns import ColumnKind, PatchColumn
from deltaic.wire.patches.group import PatchGroup, SelectorColumn
from deltaic.wire.patches.layout import (
    BY_PATH,
    BY_REFERENCE,
    FORMAT,
    HAS_PREVIOUS,
    HAS_SOURCES,
    HAS_TIMESTAMPS,
    HAS_VALUES,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    PACKED,
    ROW_COUNTS,
)
from deltaic.wire.patches.patch import Operation
from deltaic.wire.patches.places import placeholders, split_place
from deltaic.wire.references import LARGEST, ParameterType, Reference
from deltaic.wire.references.encoding import decode_exact

if TYPE_CHECKING:
    from deltaic.wire.patches.batch import PatchBatch

_ALL_PARTS = HAS_VALUES | HAS_PREVIOUS | HAS_TIMESTAMPS | HAS_SOURCES
_KEY_KINDS = (
    ColumnKind.BOOL,
    ColumnKind.INT,
    ColumnKind.FLOAT64,
    ColumnKind.FLOAT32,
    ColumnKind.TEXT,
    ColumnKind.BYTES,
    ColumnKind.ANY,
)


def read_frames(
    data: ReadableBuffer, *, limits: PatchLimits = DEFAULT_PATCH_LIMITS, name: str = "patches"
) -> "Iterator[PatchBatch]":
    """The batch of every frame, one after another; there is at least one.

    Raises:
        DecodeError: at the first frame that is none.
        RegistryError: a reference in a frame is none.
    """
    view = memoryview(data).cast("B")
    start = 0
    while start < len(view) or not start:
        end, body = _read_envelope(view[start:], start, limits, name)
        yield _Body(body, f"{name}, frame at byte {start}", limits).read()
        start += end


def _read_envelope(view: memoryview, start: int, limits: PatchLimits, name: str) -> tuple[int, bytes]:
    def at(byte: int) -> str:
        return f"{name}: byte {start + byte}"

    if bytes(view[:4]) != MAGIC[: len(view)]:
        raise DecodeError("BadMagic", "a frame of patches starts with DPAT", at(0))
    if len(view) < HEADER_BYTES:
        raise DecodeError("Truncated", f"{len(view)} bytes of a header of {HEADER_BYTES}", at(len(view)))
    _, form, flags, zero, stored_bytes, plain_bytes = HEADER.unpack(view[: HEADER.size])
    if form != FORMAT:
        raise DecodeError("UnsupportedVersion", f"format {form}, this reader knows {FORMAT}: update deltaic", at(4))
    if flags & ~PACKED or zero:
        raise DecodeError("InvalidFlags", f"flags 0x{flags:02x} and reserved bytes {zero} cannot be", at(5))
    if max(stored_bytes, plain_bytes) > limits.max_frame_bytes:
        most = max(stored_bytes, plain_bytes)
        raise LimitError("LimitExceeded", f"{most:,} bytes, the limit is {limits.max_frame_bytes:,}", at(8))
    if not flags & PACKED and stored_bytes != plain_bytes:
        raise DecodeError("WrongSize", f"{stored_bytes:,} bytes that are not packed are {plain_bytes:,}", at(12))
    end = HEADER_BYTES + stored_bytes
    if len(view) < end:
        raise DecodeError("Truncated", f"{len(view)} bytes of a frame of {end:,}", at(len(view)))
    stored = view[HEADER_BYTES:end]
    if crc.crc32c(stored, crc.crc32c(view[: HEADER.size], 0)) != int.from_bytes(
        view[HEADER.size : HEADER_BYTES], "little"
    ):
        raise ChecksumError("ChecksumMismatch", "the CRC-32C is that of other bytes", at(HEADER.size))
    if not flags & PACKED:
        return end, bytes(stored)
    return end, decompress(stored, Codec.ZSTD, plain_bytes, expected_bytes=plain_bytes, name=at(HEADER_BYTES))


class _Body(BodyReader):
    """The body of one frame."""

    def read(self) -> "PatchBatch":
        from deltaic.wire.patches.batch import PatchBatch

        types = self._names("types")
        sources = self._names("sources")
        fields = [self._field(len(types)) for _ in range(self.bounded(self.limits.max_names, "fields"))]
        count = self.bounded(self.limits.max_groups, "groups")
        left = self.limits.max_patches
        groups: list[PatchGroup] = []
        for _ in range(count):
            groups.append(self._group(types, fields, len(sources), left))
            left -= groups[-1].count
        if self.remaining:
            self.fail("TrailingData", f"{self.remaining:,} bytes behind the last group")
        return PatchBatch(tuple(groups), tuple(sources))

    def _names(self, what: str) -> list[str]:
        names = [self.text() for _ in range(self.bounded(self.limits.max_names, what))]
        if len(set(names)) != len(names) or "" in names:
            self.fail("TwiceListed", f"one of the {what} is listed twice, or has no name")
        return names

    def _field(self, types: int) -> tuple[int, str | Reference]:
        kind = self.number()
        if kind >= types:
            self.fail("UnknownType", f"a field of type {kind} of {types}")
        form = self.byte()
        if form == BY_PATH:
            path = self.text()
            plain, selectors = split_place(path)
            if selectors or plain != path:
                raise RegistryError("InvalidPath", f"{path!r} binds a selector: it belongs into a column")
            return kind, path
        if form != BY_REFERENCE:
            self.fail("UnknownForm", f"a field in form {form}, this reader knows 0 and 1")
        reference = decode_exact(bytes(self.take(self.number())))
        if reference.selectors:
            raise RegistryError(
                "InvalidParam", "a selector stands in a field", version=reference.version, index=reference.index
            )
        return kind, reference

    def _group(
        self, types: list[str], fields: list[tuple[int, str | Reference]], sources: int, left: int
    ) -> PatchGroup:
        code, parts = self.byte(), self.byte()
        if not 1 <= code <= Operation.VECTOR:
            self.fail("UnknownOperation", f"operation {code}, this reader knows 1 to 5")
        operation = Operation(code)
        if parts & ~_ALL_PARTS:
            self.fail("InvalidFlags", f"parts 0x{parts:02x} of a group are not known")
        kind, field = self.number(), self.number()
        if kind >= len(types):
            self.fail("UnknownType", f"a group of type {kind} of {len(types)}")
        if field > len(fields) or operation.of_record == bool(field):
            self.fail("UnknownField", f"{operation.name} of field {field} of {len(fields)}")
        path: str | Reference = ""
        if field:
            of, path = fields[field - 1]
            if of != kind:
                self.fail("UnknownField", f"field {field} is none of type {types[kind]}")
        count = self.bounded(left, "patches")
        if not count:
            self.fail("MalformedGroup", "a group without patches")
        keys = self._keys(count, operation)
        selectors = self._selectors(count, path, operation)
        values = self._values(count, operation, parts, bool(keys))
        previous = self.column(count) if parts & HAS_PREVIOUS else None
        if previous is not None and previous.kind is ColumnKind.VECTOR:
            self.fail("MalformedGroup", "previous values of a vector are in its delta")
        timestamps = sources_found = None
        if parts & HAS_TIMESTAMPS:
            self.spend(count)
            timestamps = self.integers(count).view(np.uint64)
        if parts & HAS_SOURCES:
            self.spend(count)
            sources_found = self.integers(count)
            if int(sources_found.min()) < 0 or int(sources_found.max()) > sources:
                self.fail("UnknownSource", f"a source that is none of {sources}")
        return PatchGroup(
            operation, types[kind], count, keys, path, selectors, values, previous, timestamps, sources_found
        )

    def _keys(self, count: int, operation: Operation) -> tuple[PatchColumn, ...]:
        columns = self.byte()
        if columns > MAX_KEY_COLUMNS or (not columns and not operation.of_record):
            self.fail("MalformedGroup", f"{columns} key columns of a group of {operation.name}")
        keys = tuple(self.column(count) for _ in range(columns))
        if any(key.kind not in _KEY_KINDS for key in keys):
            self.fail("MalformedGroup", "a column of keys is null or a vector")
        return keys

    def _selectors(self, count: int, path: str | Reference, operation: Operation) -> tuple[SelectorColumn, ...]:
        selectors = self.byte()
        if selectors > MAX_SELECTORS or (selectors and operation.of_record):
            self.fail("MalformedGroup", f"{selectors} selectors of a group of {operation.name}")
        found = tuple(self._selector(count) for _ in range(selectors))
        if isinstance(path, str):
            kinds = ["{" == path[place] for place in placeholders(path)]
            for selector, of_map in zip(found, kinds, strict=False):
                if (selector.code == ParameterType.MAP_KEY) != of_map:
                    raise RegistryError("ParamKindMismatch", f"a selector does not fit its placeholder in {path}")
        return found

    def _selector(self, count: int) -> SelectorColumn:
        code = self.byte()
        if code == ParameterType.MAP_KEY:
            keys = self.column(count)
            if keys.kind is not ColumnKind.TEXT or keys.valid is not None:
                self.fail("MalformedGroup", "keys of entries are texts, none of them null")
            return SelectorColumn(code, keys=keys)
        columns = ROW_COUNTS.get(code)
        if columns is None:
            self.fail("UnknownSelector", f"a selector of type {code}, this reader knows 2 to 6")
        offsets, total = None, count
        if code in (ParameterType.INDICES, ParameterType.RANGES):
            self.spend(count)
            lengths = self.integers(count)
            if int(lengths.min()) < 1 or int(lengths.max()) > self.limits.max_cells:
                self.fail("InvalidParam", "a selector of no elements, or of too many")
            total = int(lengths.sum())
            offsets = np.zeros(count + 1, np.int64)
            np.cumsum(lengths, out=offsets[1:])
        self.spend(total * columns)
        numbers = tuple(self.integers(total) for _ in range(columns))
        self._check_numbers(numbers, offsets)
        return SelectorColumn(code, numbers, offsets)

    def _check_numbers(self, numbers: tuple[NDArray[np.int64], ...], offsets: NDArray[np.int64] | None) -> None:
        for column in numbers:
            if int(column.min()) < 0 or int(column.max()) > LARGEST:
                self.fail("VarintOverflow", f"elements are numbered from 0 to {LARGEST:,}")
        if len(numbers) == 2 and bool((numbers[0] >= numbers[1]).any()):
            self.fail("InvalidParam", "a range selects nothing")
        if offsets is None:
            return
        rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        order = np.lexsort((numbers[0], rows))
        same = rows[order][1:] == rows[order][:-1]
        ends = numbers[-1][order][:-1] + (0 if len(numbers) == 2 else 1)
        if bool((same & (numbers[0][order][1:] < ends)).any()):
            self.fail("InvalidParam", "an element is selected twice")

    def _values(self, count: int, operation: Operation, parts: int, keyed: bool) -> PatchColumn | None:
        needed = operation in (Operation.SET, Operation.PUT, Operation.VECTOR) or not keyed
        if bool(parts & HAS_VALUES) != needed:
            self.fail("MalformedGroup", f"a group of {operation.name} {'without' if needed else 'with'} values")
        if not needed:
            return None
        values = self.column(count)
        if (values.kind is ColumnKind.VECTOR) != (operation is Operation.VECTOR):
            self.fail("MalformedGroup", f"a group of {operation.name} with values of kind {values.kind.name}")
        return values
