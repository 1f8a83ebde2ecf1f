"""Reading batch frames: every check in a fixed order, so that one fault has one name (vector-delta.md, "errors").

Magic, version, entries, directory, header checksum, frame length, flags, dimensions; each buffer in order; then each
section from its row ids on; rows twice; row count. Whole columns are checked at once.
"""

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.cursor import ReadableBuffer
from deltaic.kernels import vectors
from deltaic.wire.vectors.bounds import DEFAULT_VECTOR_LIMITS, MAX_ENTRIES, VectorLimits
from deltaic.wire.vectors.codecs import PLANES, check_codec, unpack
from deltaic.wire.vectors.dictionary import Dictionaries, find_dictionary
from deltaic.wire.vectors.faults import fault
from deltaic.wire.vectors.frame import Frame, Section
from deltaic.wire.vectors.layout import (
    ENTRY,
    ENTRY_BYTES,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    NUMPY_TYPES,
    WIDTHS,
    Array,
    Column,
    Entry,
    Type,
    expected_columns,
    padded,
)
from deltaic.wire.vectors.message import check_flags
from deltaic.wire.vectors.options import Flag, Format, Mode

Columns = dict[Column, tuple[Entry, Array]]

_GAP_FAULTS = {
    1: ("IndexOrder", "indices do not rise"),
    2: ("IndexOutOfRange", "an index is not below the number of dimensions"),
}


def read_frame(
    data: ReadableBuffer,
    *,
    dictionaries: Dictionaries = None,
    limits: VectorLimits = DEFAULT_VECTOR_LIMITS,
    name: str = "frame",
) -> Frame:
    """Read bytes that are one batch frame. Buffers that are not compressed are not copied.

    Raises:
        DecodeError: the bytes are no frame, or need a dictionary that is not there; `code` says what is wrong.
    """
    view = memoryview(data).cast("B")
    frame = _FrameReader(view, 0, name, dictionaries, limits, alone=True).read()
    return frame


def read_frames(
    data: ReadableBuffer,
    *,
    dictionaries: Dictionaries = None,
    limits: VectorLimits = DEFAULT_VECTOR_LIMITS,
    name: str = "frames",
) -> Iterator[Frame]:
    """Read frames that stand one after another, as `encode_batch` writes them."""
    view = memoryview(data).cast("B")
    start = 0
    while start < len(view):
        frame = _FrameReader(view[start:], start, name, dictionaries, limits, alone=False).read()
        yield frame
        start += frame.size_bytes


class _FrameReader:
    """One frame being read."""

    def __init__(
        self,
        view: memoryview,
        start: int,
        name: str,
        dictionaries: Dictionaries,
        limits: VectorLimits,
        *,
        alone: bool,
    ) -> None:
        self.view, self.start, self.name, self.alone = view, start, name, alone
        self.dictionaries, self.limits = dictionaries, limits
        self.dims = self.flags = self.row_count = self.length = 0

    def at(self, byte: int) -> str:
        return f"{self.name}: byte {self.start + byte}"

    def read(self) -> Frame:
        entries = self._read_header()
        columns = self._read_buffers(entries)
        sections = tuple(self._read_section(section, columns[section]) for section in sorted(columns))
        self._check_rows(sections)
        return Frame(self.dims, self.flags, self.length, sections, entries, self.name)

    def _read_header(self) -> tuple[Entry, ...]:
        view = self.view
        for place, byte in enumerate(MAGIC):
            if len(view) > place and view[place] != byte:
                raise fault("BadMagic", "a batch frame starts with DE 7B", self.at(place))
        if len(view) > 2 and view[2] != 1:
            raise fault("UnsupportedVersion", f"frame version {view[2]}, this reader knows 1", self.at(2))
        if len(view) < HEADER_BYTES:
            raise fault("Truncated", f"{len(view)} bytes of a header of {HEADER_BYTES}", self.at(len(view)))
        _, _, self.flags, self.dims, self.row_count, self.length, count = HEADER.unpack(view[: HEADER.size])
        if count > MAX_ENTRIES:
            raise fault("LimitExceeded", f"{count:,} buffers, the limit is {MAX_ENTRIES}", self.at(24))
        end = HEADER_BYTES + ENTRY_BYTES * count
        if len(view) < end:
            raise fault("Truncated", f"{len(view)} bytes of a header of {end}", self.at(len(view)))
        checksum = zlib.crc32(view[HEADER_BYTES:end], zlib.crc32(view[: HEADER.size]))
        if checksum != int.from_bytes(view[28:32], "little"):
            raise fault("ChecksumMismatch", "the CRC-32 of the header is that of other bytes", self.at(28))
        self._check_length()
        at_flags = self.at(3)
        if self.flags & Flag.COMPRESSED:
            raise fault("InvalidFlags", "the buffers of a frame are compressed, not the frame", at_flags)
        check_flags(self.flags, at_flags, version=2 if self.flags & Flag.RELATIVE else 1)
        if not self.dims:
            raise fault("InvalidDims", "vectors without dimensions", self.at(4))
        if self.dims > self.limits.max_dims:
            reason = f"{self.dims:,} dimensions, the limit is {self.limits.max_dims:,}"
            raise fault("LimitExceeded", reason, self.at(4))
        return tuple(
            Entry(*ENTRY.unpack(view[HEADER_BYTES + ENTRY_BYTES * place :][:ENTRY_BYTES])) for place in range(count)
        )

    def _check_length(self) -> None:
        if self.length > len(self.view):
            raise fault("Truncated", f"{len(self.view)} bytes of a frame of {self.length}", self.at(len(self.view)))
        if self.length > self.limits.max_frame_bytes:
            reason = f"{self.length:,} bytes, the limit is {self.limits.max_frame_bytes:,}"
            raise fault("LimitExceeded", reason, self.at(16))
        if self.alone and self.length < len(self.view):
            raise fault("TrailingData", f"{len(self.view) - self.length} bytes behind the frame", self.at(self.length))

    def _read_buffers(self, entries: tuple[Entry, ...]) -> dict[Format, Columns]:
        columns: dict[Format, Columns] = {}
        position = HEADER_BYTES + ENTRY_BYTES * len(entries)
        last = (-1, -1)
        left = self.limits.max_frame_bytes
        for place, entry in enumerate(entries):
            at = self.at(HEADER_BYTES + ENTRY_BYTES * place)
            if (entry.section, entry.column) <= last or entry.offset != position:
                raise fault("MalformedFrame", "buffers are not in the order of the directory", at)
            last = entry.section, entry.column
            position = self._check_stored(entry, at)
            if entry.section not in list(Format) or entry.column not in list(Column) or entry.type not in list(Type):
                raise fault("MalformedFrame", "a section, column or type that is not known", at)
            array = self._unpacked(entry, left, at)
            left -= entry.raw_length
            columns.setdefault(Format(entry.section), {})[Column(entry.column)] = (entry, array)
        if position != self.length:
            raise fault("MalformedFrame", f"{self.length - position} bytes that no buffer has", self.at(position))
        return columns

    def _check_stored(self, entry: Entry, at: str) -> int:
        """Check the stored bytes of a buffer; returns where the next one starts."""
        end = entry.offset + entry.stored_length
        after = padded(end)
        if after > self.length:
            code = "Truncated" if end > self.length else "MalformedFrame"
            raise fault(code, f"a buffer reaches to byte {after} of {self.length}", at)
        if zlib.crc32(self.view[entry.offset : end]) != entry.crc:
            raise fault("ChecksumMismatch", "the CRC-32 of a buffer is that of other bytes", self.at(entry.offset))
        if any(self.view[end:after]):
            raise fault("MalformedFrame", "bytes between buffers are not zero", self.at(end))
        return after

    def _unpacked(self, entry: Entry, left: int, at: str) -> Array:
        if entry.codec:
            check_codec(entry.codec, at)
        elif entry.raw_length != entry.stored_length:
            raise fault("MalformedFrame", f"{entry.stored_length} bytes stated as {entry.raw_length}", at)
        if entry.raw_length > left:
            raise fault("LimitExceeded", f"the buffers unpack to more than {self.limits.max_frame_bytes:,} bytes", at)
        type_ = Type(entry.type)
        if entry.raw_length % WIDTHS[type_]:
            raise fault("MalformedFrame", f"{entry.raw_length} bytes are no whole numbers", at)
        stored = self.view[entry.offset : entry.offset + entry.stored_length]
        if not entry.codec:
            array = np.frombuffer(stored, np.uint8)
        else:
            raw = unpack(stored, entry.codec, entry.raw_length, self.at(entry.offset))
            array = np.frombuffer(raw, np.uint8)
            if entry.codec & PLANES and WIDTHS[type_] > 1:
                array = vectors.from_planes(array, WIDTHS[type_])
        return aligned(array.view(NUMPY_TYPES[type_]))

    def _read_section(self, form: Format, columns: Columns) -> Section:
        if form is Format.DICTIONARY and self.flags:
            raise fault("InvalidFlags", f"patterns in a frame with flags 0x{self.flags:02x}", self.at(3))
        expected = expected_columns(form, self.flags)
        for column in expected:
            if column not in columns:
                raise self._malformed(form, f"column {column.name.lower()} is missing")
        for column, (entry, _) in columns.items():
            if column not in expected:
                raise self._malformed(form, f"column {column.name.lower()} has no place")
            if Type(entry.type) not in expected[column]:
                raise self._malformed(form, f"column {column.name.lower()} as {Type(entry.type).name.lower()}")
        arrays = {column: array for column, (_, array) in columns.items()}
        row_ids = arrays[Column.ROW_IDS]
        if not len(row_ids):
            raise self._malformed(form, "no rows")
        if row_ids[0] < 0 or not bool((row_ids[1:] > row_ids[:-1]).all()):
            raise fault("IndexOrder", f"row ids of the {form.name.lower()} section do not rise", self.name)
        if form is Format.DICTIONARY:
            return self._read_patterns(arrays)
        offsets, heads = self._read_heads(form, arrays)
        return self._read_values(form, arrays, offsets, heads)

    def _read_heads(self, form: Format, arrays: Mapping[Column, Array]) -> tuple[NDArray[np.int64], dict[str, Any]]:
        """Where the words of each row start, and what says which dimensions they belong to."""
        row_ids = arrays[Column.ROW_IDS]
        if form is Format.DENSE:
            return np.arange(len(row_ids) + 1, dtype=np.int64) * self.dims, {}
        if form is Format.SPARSE:
            gaps = arrays[Column.GAPS]
            offsets = self._offsets(form, arrays[Column.OFFSETS], len(row_ids), len(gaps))
            row, wrong = vectors.check_gaps(offsets, gaps, self.dims)
            self._check_rows_of(row, wrong, row_ids)
            return offsets, {"gaps": gaps}
        run_gaps, run_lengths = arrays[Column.RUN_GAPS], arrays[Column.RUN_LENGTHS]
        run_offsets = self._offsets(form, arrays[Column.RUN_OFFSETS], len(row_ids), len(run_gaps))
        if len(run_lengths) != len(run_gaps):
            raise self._malformed(form, f"{len(run_gaps)} gaps and {len(run_lengths)} lengths of runs")
        counts, row, wrong = vectors.check_runs(run_offsets, run_gaps, run_lengths, self.dims)
        self._check_rows_of(row, wrong, row_ids)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return offsets, {"run_offsets": run_offsets, "run_gaps": run_gaps, "run_lengths": run_lengths}

    def _offsets(self, form: Format, stored: Array, rows: int, entries: int) -> NDArray[np.int64]:
        if len(stored) != rows + 1:
            raise self._malformed(form, f"{len(stored)} offsets of {rows} rows")
        # Compared as they are: 2^63 would turn negative.
        if stored[0] != 0 or stored[-1] != entries or not bool((stored[1:] >= stored[:-1]).all()):
            raise self._malformed(form, "offsets do not run from 0 to the last entry")
        return stored.astype(np.int64)

    def _check_rows_of(self, row: int, wrong: int, row_ids: NDArray[np.int64]) -> None:
        if wrong:
            code, reason = _GAP_FAULTS[wrong]
            raise fault(code, reason, f"{self.name}: row {row_ids[row]}")

    def _read_values(
        self, form: Format, arrays: Mapping[Column, Array], offsets: NDArray[np.int64], heads: dict[str, Any]
    ) -> Section:
        row_ids, stored, total = arrays[Column.ROW_IDS], arrays[Column.VALUES], int(offsets[-1])
        mode = Mode(self.flags >> 4)
        counts = np.diff(offsets)
        wanted = int(((counts + 1) // 2).sum()) if mode is Mode.INT4 else total
        if len(stored) != wanted:
            raise self._malformed(form, f"{len(stored)} values where {wanted} belong")
        prev = arrays.get(Column.PREV)
        if prev is not None and len(prev) != total:
            raise self._malformed(form, f"{len(prev)} previous values where {total} belong")
        words = stored
        if mode is not Mode.F32:
            scale, zero_point = self._parameters(form, arrays, len(row_ids))
            words, row = vectors.dequantize_rows(stored, counts, scale, zero_point, mode)
            if row >= 0:
                reason = "scale, zero point or values of a quantized row cannot be"
                raise fault("InvalidQuantization", reason, f"{self.name}: row {row_ids[row]}")
        return Section(form, row_ids, offsets, words, prev, **heads)

    def _parameters(
        self, form: Format, arrays: Mapping[Column, Array], rows: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        if Column.SCALE not in arrays:
            return np.zeros(0, np.float32), np.zeros(0, np.int32)
        scale, zero_point = arrays[Column.SCALE], arrays[Column.ZERO_POINT]
        if len(scale) != rows or len(zero_point) != rows:
            raise self._malformed(form, f"{len(scale)} scales and {len(zero_point)} zero points of {rows} rows")
        return scale.view(np.float32), zero_point

    def _read_patterns(self, arrays: Mapping[Column, Array]) -> Section:
        row_ids, pattern_ids = arrays[Column.ROW_IDS], arrays[Column.PATTERNS]
        if (
            len(arrays[Column.DICT_ID]) != 1
            or len(arrays[Column.DICT_VERSION]) != 1
            or len(pattern_ids) != len(row_ids)
        ):
            raise self._malformed(Format.DICTIONARY, "one dictionary and one pattern a row belong there")
        dict_id, version = int(arrays[Column.DICT_ID][0]), int(arrays[Column.DICT_VERSION][0])
        dictionary, patterns = find_dictionary(self.dictionaries, dict_id, version, self.name)
        numbers, places = np.unique(pattern_ids, return_inverse=True)
        for number in numbers.tolist():
            if number not in patterns:
                raise fault("UnknownPattern", f"dictionary {dict_id} has no pattern {number}", self.name)
        if dictionary.dims != self.dims:
            reason = f"a frame of {self.dims} dimensions, a dictionary of {dictionary.dims}"
            raise fault("DimensionMismatch", reason, self.name)
        used = [patterns[number] for number in numbers.tolist()]
        sizes = np.array([len(pattern.indices) for pattern in used], np.int64)
        starts = np.cumsum(sizes) - sizes
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes[places])])
        if int(offsets[-1]) * 8 > self.limits.max_frame_bytes:
            raise fault("LimitExceeded", f"{int(offsets[-1]):,} values from patterns are too many", self.name)
        members = np.arange(int(offsets[-1])) + np.repeat(starts[places] - offsets[:-1], sizes[places])
        indices = np.concatenate([pattern.indices for pattern in used])[members]
        words = np.concatenate([pattern.words for pattern in used])[members]
        return Section(Format.DICTIONARY, row_ids, offsets, words, pattern_ids=pattern_ids, known_indices=indices)

    def _check_rows(self, sections: tuple[Section, ...]) -> None:
        if len(sections) > 1:
            together = np.sort(np.concatenate([section.row_ids for section in sections]))
            twice = np.flatnonzero(together[1:] == together[:-1])
            if len(twice):
                raise fault("DuplicateRow", f"row {together[twice[0]]} is in two sections", self.name)
        rows = sum(len(section) for section in sections)
        if rows != self.row_count:
            raise fault("MalformedFrame", f"{rows} rows where the header says {self.row_count}", self.at(8))

    def _malformed(self, form: Format, reason: str) -> Exception:
        return fault("MalformedFrame", f"{form.name.lower()} section: {reason}", self.name)


def aligned(array: Array) -> Array:
    """The array, copied where the processor could not read its numbers in place."""
    return array if array.flags.aligned else array.copy()
