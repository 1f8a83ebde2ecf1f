"""The document store of a segment (`.store`): stored values, read by columns.

All documents of a batch of blocks are walked side by side: one NumPy step per value of the longest document, whatever
their number. Texts are cut out by Arrow. Only documents with nested values are walked one by one.

    last 28 bytes   u32 version 2, u64 offset of the block index, u8 compressor, 15 zeros
    block index     vint layers, a vint end for each, the layers; the last lists every block
    block           u32 unpacked length, packed bytes → documents, u32 offset of each, u32 number of documents
    document        vint number of values, then u32 field id, u8 type, value (index-table.md, 9.2.3)
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import DecodeError, LimitError, MissingExtraError
from deltaic.storage.decompress import Codec, decompress

TEXT, U64, I64, BYTES, DATE, F64, BOOL, IP, NULL, LIST, OBJECT = 0, 1, 2, 4, 5, 6, 9, 10, 11, 12, 13
SIZES = {U64: 8, I64: 8, DATE: 8, F64: 8, BOOL: 1, IP: 16, NULL: 0}
"""How many bytes the values of fixed width have."""

BATCH_BYTES = 32 << 20
"""Unpacked bytes that are walked together."""
MAX_BLOCK_BYTES = 512 << 20
MAX_DEPTH = 64

_TAIL = struct.Struct("<IQB15s")
_VERSION = 2
_LZ4_MOST = 255
_SLACK = 32


class Moment(int):
    """Nanoseconds since the epoch inside a nested value, to be told from a number."""


@dataclass(frozen=True, slots=True)
class Values:
    """Values of one field and one type: which document each belongs to, and where its bytes are."""

    field: int
    type: int
    documents: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Some consecutive documents: their bytes, and the values that were found in them."""

    first_document: int
    count: int
    data: NDArray[np.uint8]
    values: tuple[Values, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    start: int
    end: int
    first_document: int
    count: int


def read_store(body: memoryview, max_doc: int, where: str) -> Iterator[StoredBatch]:
    """The documents of a store whose footer was checked and taken off."""
    blocks, compressor = _read_index(body, max_doc, where)
    batch: list[tuple[_Block, bytes]] = []
    size = 0
    for block in blocks:
        unpacked = _unpack(bytes(body[block.start : block.end]), compressor, where)
        batch.append((block, unpacked))
        size += len(unpacked)
        if size >= BATCH_BYTES:
            yield _walk(batch, where)
            batch, size = [], 0
    if batch:
        yield _walk(batch, where)


def nested_value(data: NDArray[np.uint8], start: int, value_type: int, where: str) -> tuple[Any, int]:
    """A list or object as Python, and the byte behind it."""
    return _Nested(data, where).value(int(start), value_type, 0)


def float_of(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Numbers from their order-preserving form."""
    positive = bits >> np.uint64(63) == 1
    return np.where(positive, bits ^ np.uint64(1 << 63), ~bits).view(np.float64)


def _read_index(body: memoryview, max_doc: int, where: str) -> tuple[list[_Block], int]:
    if len(body) < _TAIL.size:
        raise DecodeError("Truncated", f"a document store of {len(body)} bytes", where)
    end = len(body) - _TAIL.size
    version, offset, compressor, zeros = _TAIL.unpack_from(body, end)
    if version != _VERSION or zeros.strip(b"\0") or offset > end:
        raise DecodeError("BadStore", f"a document store of version {version} with its index at {offset:,}", where)
    reader = _Vints(bytes(body[offset:end]), where)
    layers = reader.number()
    if layers > len(reader.data):
        raise DecodeError("BadStore", f"{layers:,} layers of blocks", where)
    ends = [reader.number() for _ in range(layers)]
    if not ends:
        if max_doc:
            raise DecodeError("BadStore", f"no blocks for {max_doc:,} documents", where)
        return [], compressor
    first = reader.position
    at, stop = first + (ends[-2] if len(ends) > 1 else 0), first + ends[-1]
    if not first <= at <= stop <= len(reader.data):
        raise DecodeError("BadStore", "the layers of blocks lie outside the index", where)
    reader.position = at
    blocks: list[_Block] = []
    document = start = 0
    while reader.position < stop:
        count, group_document, group_start = reader.number(), reader.number(), reader.number()
        if (group_document, group_start) != (document, start) or count > stop - reader.position:
            raise DecodeError("BadStore", "the groups of blocks do not follow each other", where)
        for _ in range(count):
            documents, length = reader.number(), reader.number()
            if start + length > offset or document + documents > max_doc:
                raise DecodeError("BadStore", f"a block of {length:,} bytes and {documents:,} documents", where)
            blocks.append(_Block(start, start + length, document, documents))
            document, start = document + documents, start + length
    if document != max_doc or start != offset:
        raise DecodeError("BadStore", f"{document:,} documents where {max_doc:,} must be", where)
    return blocks, compressor


def _unpack(data: bytes, compressor: int, where: str) -> bytes:
    if compressor == 0:
        return data
    if len(data) < 4:
        raise DecodeError("Truncated", f"a block of {len(data)} bytes", where)
    size = int.from_bytes(data[:4], "little")
    if size > MAX_BLOCK_BYTES:
        raise LimitError("TooLarge", f"a block of {size:,} bytes, the limit is {MAX_BLOCK_BYTES:,}", where)
    if compressor == 4:
        return decompress(data[4:], Codec.ZSTD, MAX_BLOCK_BYTES, expected_bytes=size, name=where)
    if compressor != 1:
        raise DecodeError("UnknownCodec", f"compressor {compressor} of the document store is not known", where)
    if size > _LZ4_MOST * len(data):
        raise LimitError("TooLarge", f"{size:,} bytes out of {len(data):,}: LZ4 cannot do that", where)
    try:
        import cramjam
    except ImportError as error:
        raise MissingExtraError("a document store", "table") from error
    try:
        unpacked = bytes(cramjam.lz4.decompress_block(data[4:], output_len=size)) if size else b""
    except Exception as error:
        raise DecodeError("BadStore", f"a block is no LZ4: {error}", where) from error
    if len(unpacked) != size:
        raise DecodeError("BadStore", f"a block of {len(unpacked):,} bytes where {size:,} must be", where)
    return unpacked


def _walk(batch: list[tuple[_Block, bytes]], where: str) -> StoredBatch:
    starts_of: list[NDArray[np.int64]] = []
    ends_of: list[NDArray[np.int64]] = []
    base = 0
    for block, data in batch:
        starts, end = _document_starts(block, data, where)
        starts_of.append(starts + base)
        ends_of.append(np.append(starts[1:], end) + base)
        base += len(data)
    whole = np.empty(base + _SLACK, np.uint8)
    whole[base:] = 0
    at = 0
    for _, data in batch:
        whole[at : at + len(data)] = np.frombuffer(data, np.uint8)
        at += len(data)
    starts, ends = np.concatenate(starts_of), np.concatenate(ends_of)
    return StoredBatch(batch[0][0].first_document, len(starts), whole, tuple(_values(whole, starts, ends, where)))


def _document_starts(block: _Block, data: bytes, where: str) -> tuple[NDArray[np.int64], int]:
    if len(data) < 4 or int.from_bytes(data[-4:], "little") != block.count or len(data) - 4 < 4 * block.count:
        raise DecodeError("BadStore", f"a block without its {block.count:,} documents", where)
    end = len(data) - 4 - 4 * block.count
    starts = np.frombuffer(data, "<u4", block.count, end).astype(np.int64)
    if block.count and (starts[0] != 0 or (np.diff(starts) <= 0).any() or starts[-1] >= end):
        raise DecodeError("BadStore", "the documents of a block do not follow each other", where)
    return starts, end


def _values(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], where: str
) -> Iterator[Values]:
    counts, cursors = _vints(data, starts, ends, where)
    if (counts * 5 > ends - cursors).any():
        raise DecodeError("BadStore", "a document has more values than bytes", where)
    active = np.flatnonzero(counts > 0)
    while len(active):
        at, limit = cursors[active], ends[active]
        if (at + 5 > limit).any():
            raise DecodeError("Truncated", "a stored document ends inside a value", where)
        fields = _fixed(data, at, 4).astype(np.int64)
        types = data[at + 4].astype(np.int64)
        at = at + 5
        after = np.empty_like(at)
        value_starts, lengths = at.copy(), np.zeros_like(at)
        for value_type in np.unique(types).tolist():
            chosen = np.flatnonzero(types == value_type)
            if value_type in (TEXT, BYTES):
                lengths[chosen], value_starts[chosen] = _vints(data, at[chosen], limit[chosen], where)
            elif value_type in SIZES:
                lengths[chosen] = SIZES[value_type]
            elif value_type in (LIST, OBJECT):
                for place in chosen.tolist():
                    end = _Nested(data[: limit[place]], where).skip(int(at[place]), value_type, 0)
                    lengths[place] = end - at[place]
            else:
                raise DecodeError("UnknownType", f"a stored value of type {value_type}", where)
            after[chosen] = value_starts[chosen] + lengths[chosen]
        if (lengths > limit - value_starts).any():
            raise DecodeError("Truncated", "a stored document ends inside a value", where)
        kinds = fields * 256 + types
        for kind in np.unique(kinds).tolist():
            chosen = np.flatnonzero(kinds == kind)
            yield Values(kind >> 8, kind & 255, active[chosen], value_starts[chosen], lengths[chosen])
        cursors[active] = after
        counts[active] -= 1
        active = active[counts[active] > 0]
    if (cursors != ends).any():
        raise DecodeError("BadStore", "bytes behind the last value of a document", where)


def _vints(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], where: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A vint at each place (the high bit is on the last byte), and where the next byte is."""
    values = np.zeros(len(starts), np.int64)
    cursors = starts.copy()
    open_ = np.arange(len(starts))
    for place in range(5):
        at = cursors[open_]
        if (at >= ends[open_]).any():
            raise DecodeError("Truncated", "a stored document ends inside a number", where)
        found = data[at].astype(np.int64)
        values[open_] |= (found & 127) << (7 * place)
        cursors[open_] += 1
        open_ = open_[found < 128]
        if not len(open_):
            return values, cursors
    raise DecodeError("InvalidVarint", "a number of a stored document is too long", where)


def _fixed(data: NDArray[np.uint8], starts: NDArray[np.int64], size: int) -> NDArray[np.uint64]:
    value = np.zeros(len(starts), np.uint64)
    for place in range(size):
        value |= data[starts + place].astype(np.uint64) << np.uint64(8 * place)
    return value


def fixed_values(batch: StoredBatch, values: Values) -> NDArray[np.uint64]:
    """The 64-bit values (or bytes) of fixed-width values, as unsigned numbers."""
    return _fixed(batch.data, values.starts, SIZES[values.type])


class _Vints:
    """Single vints, distrusted."""

    __slots__ = ("data", "position", "where")

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.where, self.position = data, where, 0

    def number(self) -> int:
        value = 0
        for place in range(10):
            if self.position >= len(self.data):
                raise DecodeError("Truncated", "the data end inside a number", self.where)
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 127) << (7 * place)
            if byte >= 128:
                return value
        raise DecodeError("InvalidVarint", "a number is too long", self.where)


class _Nested:
    """Lists and objects inside a JSON field, one value at a time."""

    __slots__ = ("data", "where")

    def __init__(self, data: NDArray[np.uint8], where: str) -> None:
        self.data, self.where = data, where

    def skip(self, at: int, value_type: int, depth: int) -> int:
        return self.value(at, value_type, depth)[1]

    def value(self, at: int, value_type: int, depth: int) -> tuple[Any, int]:
        if depth > MAX_DEPTH:
            raise DecodeError("TooDeep", f"a stored value of more than {MAX_DEPTH} levels", self.where)
        if value_type in (TEXT, BYTES):
            length, at = self._vint(at)
            raw = self._take(at, length)
            return (self._text(raw) if value_type == TEXT else raw), at + length
        if value_type in SIZES:
            raw = self._take(at, SIZES[value_type])
            return _scalar(raw, value_type), at + SIZES[value_type]
        if value_type not in (LIST, OBJECT):
            raise DecodeError("UnknownType", f"a stored value of type {value_type}", self.where)
        count, at = self._vint(at)
        if count > len(self.data) - at:
            raise DecodeError("Truncated", f"{count:,} values in {len(self.data) - at} bytes", self.where)
        found: list[Any] = []
        for _ in range(count):
            inner = self._take(at, 1)[0]
            one, at = self.value(at + 1, inner, depth + 1)
            found.append(one)
        if value_type == LIST:
            return found, at
        if count % 2 or not all(isinstance(key, str) for key in found[::2]):
            raise DecodeError("BadStore", "a stored object without its keys", self.where)
        return dict(zip(found[::2], found[1::2], strict=True)), at

    def _vint(self, at: int) -> tuple[int, int]:
        value = 0
        for place in range(5):
            byte = self._take(at + place, 1)[0]
            value |= (byte & 127) << (7 * place)
            if byte >= 128:
                return value, at + place + 1
        raise DecodeError("InvalidVarint", "a number of a stored value is too long", self.where)

    def _take(self, at: int, length: int) -> bytes:
        if at + length > len(self.data):
            raise DecodeError("Truncated", "a stored document ends inside a value", self.where)
        return bytes(self.data[at : at + length])

    def _text(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise DecodeError("BadText", "a stored text is no UTF-8", self.where) from error


def _scalar(raw: bytes, value_type: int) -> Any:
    number = int.from_bytes(raw, "little")
    if value_type == NULL:
        return None
    if value_type == BOOL:
        return number != 0
    if value_type in (I64, DATE):
        signed = number - 2**64 if number >> 63 else number
        return signed if value_type == I64 else Moment(signed)
    if value_type == F64:
        return float(float_of(np.array([number], np.uint64))[0])
    return number
