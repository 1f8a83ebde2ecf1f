"""The hot cache: the stretches of a split's files that opening it reads, gathered at its end.

    u32 magic, u32 version 1, u32 n
    n bytes     map of name to length, list of (name, offset of its slice block)
    data area   for each listed file: [cached bytes][u64 total, list of (start, stop, address)][u64 cached bytes]

Numbers in the middle part and in the slice index are unsigned LEB128, texts are length-prefixed UTF-8 (index-table.md,
9.1). Ours is the smallest valid one: `meta.json` and `.managed.json` whole, no slice of any other file.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from deltaic.errors import DecodeError

MAGIC = 2_557_869_106
VERSION = 1
WHOLE_FILES = ("meta.json", ".managed.json")
"""What a minimal hot cache holds whole."""

_HEADER = struct.Struct("<III")
_COUNT = struct.Struct("<Q")
_MAX_LEB128_BYTES = 10


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of a file, and its bytes."""

    start: int
    data: bytes

    @property
    def stop(self) -> int:
        """The first byte of the file behind it."""
        return self.start + len(self.data)


@dataclass(frozen=True, slots=True)
class CachedFile:
    """What a hot cache holds of one file."""

    length: int
    slices: tuple[Slice, ...]

    def whole(self) -> bytes | None:
        """The bytes of the file if one slice covers it."""
        if self.length == 0:
            return b""
        if len(self.slices) == 1 and len(self.slices[0].data) == self.length:
            return self.slices[0].data
        return None


def pack_hotcache(lengths: Mapping[str, int], whole: Mapping[str, bytes]) -> bytes:
    """A hot cache that lists every file and holds some of them whole."""
    files = {
        name: CachedFile(length, (Slice(0, whole[name]),) if whole.get(name) else ())
        for name, length in lengths.items()
    }
    return pack_slices(files)


def pack_slices(files: Mapping[str, CachedFile]) -> bytes:
    """A hot cache of some slices of each file."""
    blocks: list[bytes] = []
    offsets: list[tuple[str, int]] = []
    position = 0
    for name, file in files.items():
        index = leb128(file.length) + leb128(len(file.slices))
        address = 0
        for one in file.slices:
            index += leb128(one.start) + leb128(one.stop) + leb128(address)
            address += len(one.data)
        block = b"".join((*(one.data for one in file.slices), index, _COUNT.pack(address)))
        offsets.append((name, position))
        blocks.append(block)
        position += len(block)
    middle = leb128(len(files)) + b"".join(_text(name) + leb128(file.length) for name, file in files.items())
    middle += leb128(len(offsets)) + b"".join(_text(name) + leb128(offset) for name, offset in offsets)
    return b"".join((_HEADER.pack(MAGIC, VERSION, len(middle)), middle, *blocks))


def read_hotcache(data: bytes, where: str) -> dict[str, CachedFile]:
    """Every file that a hot cache lists, with its slices."""
    if len(data) < _HEADER.size:
        raise DecodeError("Truncated", f"a hot cache of {len(data)} bytes has no header", where)
    magic, version, middle_length = _HEADER.unpack_from(data, 0)
    if magic != MAGIC:
        raise DecodeError("BadMagic", f"the hot cache starts with {data[:4].hex()}", where)
    if version != VERSION:
        raise DecodeError("UnknownVersion", f"a hot cache of version {version}: update deltaic", where)
    area = _HEADER.size + middle_length
    if area > len(data):
        raise DecodeError("Truncated", f"the hot cache's list would have {middle_length:,} bytes", where)
    reader = _Reader(data[_HEADER.size : area], where)
    lengths: dict[str, int] = {}
    for _ in range(reader.count(2)):
        name = reader.text()
        lengths[name] = reader.number()
    listed = [(reader.text(), reader.number()) for _ in range(reader.count(2))]
    reader.end()
    found: dict[str, CachedFile] = {}
    body = data[area:]
    for place, (name, offset) in enumerate(listed):
        stop = listed[place + 1][1] if place + 1 < len(listed) else len(body)
        if name not in lengths or name in found or not offset <= stop <= len(body):
            raise DecodeError("BadHotCache", f"the slices of {name[:80]!r} have no place", where)
        found[name] = _read_block(body[offset:stop], lengths[name], f"{where}, {name[:80]}")
    return found


def leb128(value: int) -> bytes:
    """A number as unsigned LEB128."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(text: str) -> bytes:
    raw = text.encode()
    return leb128(len(raw)) + raw


def _read_block(block: bytes, length: int, where: str) -> CachedFile:
    if len(block) < _COUNT.size:
        raise DecodeError("Truncated", f"a slice block of {len(block)} bytes", where)
    cached = _COUNT.unpack_from(block, len(block) - _COUNT.size)[0]
    if cached > len(block) - _COUNT.size:
        raise DecodeError("BadHotCache", f"{cached:,} cached bytes in a block of {len(block):,}", where)
    reader = _Reader(block[cached : -_COUNT.size], where)
    if reader.number() != length:
        raise DecodeError("BadHotCache", "two lengths for one file", where)
    slices: list[Slice] = []
    last = 0
    for _ in range(reader.count(3)):
        start, stop, address = reader.number(), reader.number(), reader.number()
        if not last <= start < stop <= length or address + stop - start > cached:
            raise DecodeError("BadHotCache", f"a slice of bytes {start} to {stop} at {address}", where)
        slices.append(Slice(start, block[address : address + stop - start]))
        last = stop
    reader.end()
    return CachedFile(length, tuple(slices))


class _Reader:
    """LEB128 numbers and texts, distrusted."""

    __slots__ = ("data", "position", "where")

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.where, self.position = data, where, 0

    def number(self) -> int:
        value = 0
        for place in range(_MAX_LEB128_BYTES):
            if self.position >= len(self.data):
                raise DecodeError("Truncated", "the hot cache ends inside a number", self.where)
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                if value >> 64:
                    break
                return value
        raise DecodeError("InvalidVarint", "a number of the hot cache is too large", self.where)

    def count(self, least_bytes: int) -> int:
        found = self.number()
        if found * least_bytes > len(self.data) - self.position:
            raise DecodeError("Truncated", f"{found:,} entries in {len(self.data) - self.position} bytes", self.where)
        return found

    def text(self) -> str:
        length = self.number()
        if length > len(self.data) - self.position:
            raise DecodeError("Truncated", f"a name of {length:,} bytes", self.where)
        raw = self.data[self.position : self.position + length]
        self.position += length
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise DecodeError("BadText", "a name in the hot cache is no UTF-8", self.where) from error

    def end(self) -> None:
        if self.position != len(self.data):
            raise DecodeError("BadHotCache", "bytes behind the last entry", self.where)
