"""Avro object container files, as far as a table's log needs them.

    "Obj" 01, a map of metadata (avro.schema, avro.codec), 16 bytes of sync marker,
    then blocks: long records, long bytes, the packed records, the sync marker again

Integers are zigzag varints of at most ten bytes. Every length is checked against what is left before anything is taken.
Codecs: `null`, `deflate`, `snappy` (with its CRC-32), `zstandard`. `read_values` decodes any schema slowly, for state
manifests; manifests of files go to a kernel by columns (`columns.py`).
"""

import json
import secrets
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from deltaic.errors import DecodeError, LimitError
from deltaic.storage import Codec, compress, decompress

MAGIC: Final = b"Obj\x01"
MAX_UNPACKED_BYTES: Final = 1 << 30
"""What the blocks of one file may unpack to."""

MAX_PACKED_RATIO: Final = 1100
"""No codec packs better than this, but for bombs."""

CODECS: Final = {
    "null": Codec.NONE,
    "deflate": Codec.DEFLATE,
    "snappy": Codec.SNAPPY,
    "zstandard": Codec.ZSTD,
}
_NAMES = {"none": "null", "deflate": "deflate", "snappy": "snappy", "zstd": "zstandard"}
_MAX_DEPTH = 32


class Container(msgspec.Struct, frozen=True):
    """A container file: its schema and its records, unpacked and joined."""

    schema: Any
    count: int
    data: bytes


def read_container(data: bytes, name: str, *, limit_bytes: int = MAX_UNPACKED_BYTES) -> Container:
    """Unpack a container file."""
    if data[:4] != MAGIC:
        raise DecodeError("BadMagic", "no Avro container file", name)
    cursor = AvroCursor(data, name, 4)
    header: dict[str, bytes] = {}
    while count := cursor.block_count(2):
        for _ in range(count):
            key = cursor.text()
            header[key] = cursor.octets()
    sync = cursor.take(16)
    codec = header.get("avro.codec", b"null")
    if codec.decode("latin-1") not in CODECS:
        raise DecodeError("UnknownCodec", f"packed by the unknown codec {ascii(codec.decode('latin-1'))[:40]}", name)
    try:
        schema = json.loads(header.get("avro.schema", b""))
    except (ValueError, RecursionError) as error:
        raise DecodeError("BadSchema", f"the schema is no JSON: {error}", name) from error
    total, pieces, unpacked = 0, [], 0
    while cursor.remaining:
        count, size = cursor.long(), cursor.long()
        if count < 0 or size < 0:
            raise DecodeError("BadLength", f"a block of {count} records in {size} bytes", cursor.where())
        block = cursor.take(size)
        if cursor.take(16) != sync:
            raise DecodeError("BadSync", "the sync marker of a block is another one", cursor.where())
        piece = _unpack(block, codec.decode("latin-1"), limit_bytes - unpacked, name)
        if count > len(piece):
            raise DecodeError("BadLength", f"a block of {count} records in {len(piece)} bytes", name)
        unpacked += len(piece)
        total += count
        pieces.append(piece)
    return Container(schema, total, pieces[0] if len(pieces) == 1 else b"".join(pieces))


def write_container(
    schema: Any, blocks: Iterable[tuple[int, bytes]], *, codec: str = "zstd", level: int = 3, sync: bytes | None = None
) -> bytes:
    """Pack blocks (number of records, their bytes) into a container file; `codec` as in the settings."""
    marker = sync if sync is not None else secrets.token_bytes(16)
    text = schema if isinstance(schema, str) else json.dumps(schema, separators=(",", ":"), ensure_ascii=False)
    header = {"avro.schema": text.encode(), "avro.codec": _NAMES[codec].encode()}
    out = [MAGIC, encode_long(len(header))]
    for key, value in header.items():
        out += [encode_text(key), encode_long(len(value)), value]
    out += [b"\0", marker]
    for count, data in blocks:
        packed = _pack(data, codec, level)
        out += [encode_long(count), encode_long(len(packed)), packed, marker]
    return b"".join(out)


def _unpack(block: bytes, codec: str, limit_bytes: int, name: str) -> bytes:
    if codec == "null":
        if len(block) > limit_bytes:
            raise LimitError("TooLarge", f"more than {MAX_UNPACKED_BYTES:,} bytes", name)
        return block
    if codec == "snappy":
        if len(block) < 4:
            raise DecodeError("Truncated", "a snappy block without its checksum", name)
        piece = decompress(block[:-4], Codec.SNAPPY, limit_bytes, name=name)
        if struct.pack(">I", zlib.crc32(piece)) != block[-4:]:
            raise DecodeError("BadChecksum", "a snappy block is not the one that was written", name)
        return piece
    limit_bytes = min(limit_bytes, len(block) * MAX_PACKED_RATIO + 4096)
    try:
        return decompress(block, CODECS[codec], limit_bytes, name=name)
    except DecodeError as error:
        # Python's Avro libraries cut one byte of the zlib checksum too few and leave the rest behind the stream.
        if codec != "deflate" or error.code != "TrailingBytes" or len(block) <= 3:
            raise
        return decompress(block[:-3], Codec.DEFLATE, limit_bytes, name=name)


def _pack(data: bytes, codec: str, level: int) -> bytes:
    if codec == "none":
        return data
    if codec == "snappy":
        return compress(data, Codec.SNAPPY) + struct.pack(">I", zlib.crc32(data))
    if codec == "deflate":
        return compress(data, Codec.DEFLATE, level=min(level, 9))
    return compress(data, Codec.ZSTD, level=level)


def encode_long(value: int) -> bytes:
    """A zigzag varint."""
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return _SMALL[rest]
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_SMALL = tuple(bytes((value,)) for value in range(0x80))


def encode_text(value: str) -> bytes:
    """A text: its length in bytes, then its bytes."""
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise DecodeError("BadText", f"a text that UTF-8 cannot hold: {error.reason}", "Avro record") from error
    return encode_long(len(data)) + data


class AvroCursor:
    """Reads values from bytes; each step is bounded by what is left."""

    def __init__(self, data: bytes, name: str, position: int = 0) -> None:
        self._data, self._name, self.position = data, name, position

    @property
    def remaining(self) -> int:
        """Bytes that are left."""
        return len(self._data) - self.position

    def where(self) -> str:
        """The file and the byte, for errors."""
        return f"{self._name} byte {self.position}"

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if size < 0 or size > self.remaining:
            raise DecodeError("Truncated", f"{size} bytes must stand here, {self.remaining} are left", self.where())
        start, self.position = self.position, self.position + size
        return self._data[start : self.position]

    def long(self) -> int:
        """A zigzag varint."""
        value = shift = 0
        for position in range(self.position, min(self.position + 10, len(self._data))):
            byte = self._data[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = position + 1
                if value >> 64:
                    break
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise DecodeError("BadVarint", "a number that does not end within 64 bits", self.where())

    def octets(self) -> bytes:
        """Bytes with their length before them."""
        return self.take(self.long())

    def text(self) -> str:
        """A text."""
        try:
            return self.octets().decode()
        except UnicodeDecodeError as error:
            raise DecodeError("BadText", f"no UTF-8: {error.reason}", self.where()) from error

    def block_count(self, least_bytes: int) -> int:
        """The items of the next block of a map or array; 0 ends it. A negative count is followed by a size."""
        count = self.long()
        if count < 0:
            count = -count
            self.long()
        if count * least_bytes > self.remaining:
            raise DecodeError("BadLength", f"{count} items do not fit what is left", self.where())
        return count


def read_values(container: Container, name: str, *, most: int) -> list[Any]:
    """Every record of a container by its own schema, as dictionaries; slow, for few records."""
    if container.count > most:
        raise DecodeError("BadLength", f"{container.count} records where {most} may be", name)
    cursor = AvroCursor(container.data, name)
    reader = _ValueReader(container.schema, name)
    reader.allow(len(container.data))
    values = [reader.read(container.schema, cursor, "", 0) for _ in range(container.count)]
    if cursor.remaining:
        raise DecodeError("TrailingBytes", f"{cursor.remaining} bytes behind the last record", cursor.where())
    return values


class _ValueReader:
    """Decodes by a schema that came with the file, which may be wrong in any way."""

    def __init__(self, schema: Any, name: str) -> None:
        self._named: dict[str, Any] = {}
        self._name = name
        self._collect(schema, "", 0)
        self._items_left = 0

    def allow(self, items: int) -> None:
        """Bound the items of all lists together: some take no bytes, and blocks of them could go on for ever."""
        self._items_left = items

    def _collect(self, schema: Any, space: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise DecodeError("BadSchema", "a schema nested too deep", self._name)
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch, space, depth + 1)
        elif isinstance(schema, dict):
            kind = schema.get("type")
            if kind == "record" and isinstance(schema.get("name"), str):
                full = _full_name(schema, space)
                self._named[full] = self._named[full.rpartition(".")[2]] = schema
                fields = schema.get("fields")
                for entry in fields if isinstance(fields, list) else ():
                    if isinstance(entry, dict):
                        self._collect(entry.get("type"), full.rpartition(".")[0], depth + 1)
            else:
                for member in ("items", "values", "type"):
                    if isinstance(schema.get(member), dict | list):
                        self._collect(schema[member], space, depth + 1)

    def read(self, schema: Any, cursor: AvroCursor, space: str, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise DecodeError("BadSchema", "values nested too deep", cursor.where())
        if isinstance(schema, list):
            branch = cursor.long()
            if not 0 <= branch < len(schema):
                raise DecodeError("BadUnion", f"branch {branch} of {len(schema)}", cursor.where())
            return self.read(schema[branch], cursor, space, depth + 1)
        if isinstance(schema, dict):
            kind = schema.get("type")
            if kind == "record":
                return self._record(schema, cursor, space, depth)
            if kind in ("map", "array"):
                return self._items(schema, cursor, space, depth, named=kind == "map")
            return self.read(kind, cursor, space, depth + 1)
        return self._simple(schema, cursor, space, depth)

    def _record(self, schema: dict[str, Any], cursor: AvroCursor, space: str, depth: int) -> dict[str, Any]:
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(entry, dict) and "name" in entry for entry in fields):
            raise DecodeError("BadSchema", "a record without fields", self._name)
        inner = _full_name(schema, space).rpartition(".")[0]
        return {str(entry["name"]): self.read(entry.get("type"), cursor, inner, depth + 1) for entry in fields}

    def _items(self, schema: dict[str, Any], cursor: AvroCursor, space: str, depth: int, *, named: bool) -> Any:
        pairs: dict[str, Any] = {}
        items: list[Any] = []
        while count := cursor.block_count(1):
            self._items_left -= count
            if self._items_left < 0:
                raise DecodeError("BadLength", "more items than bytes", cursor.where())
            for _ in range(count):
                if named:
                    key = cursor.text()
                    pairs[key] = self.read(schema.get("values"), cursor, space, depth + 1)
                else:
                    items.append(self.read(schema.get("items"), cursor, space, depth + 1))
        return pairs if named else items

    def _simple(self, kind: Any, cursor: AvroCursor, space: str, depth: int) -> Any:
        if kind == "null":
            return None
        if kind == "boolean":
            return cursor.take(1) != b"\0"
        if kind in ("int", "long"):
            return cursor.long()
        if kind == "string":
            return cursor.text()
        if kind == "bytes":
            return cursor.octets()
        if kind == "double":
            return struct.unpack("<d", cursor.take(8))[0]
        if kind == "float":
            return struct.unpack("<f", cursor.take(4))[0]
        named = self._named.get(f"{space}.{kind}") or self._named.get(kind) if isinstance(kind, str) else None
        if named is None:
            raise DecodeError("BadSchema", f"the type {ascii(kind)[:60]} is not known", self._name)
        return self.read(named, cursor, space, depth + 1)


def _full_name(schema: dict[str, Any], space: str) -> str:
    name = str(schema.get("name", ""))
    if "." in name:
        return name
    inner = schema.get("namespace", space)
    return f"{inner}.{name}" if inner else name


def split_blocks(starts: Sequence[int], size_bytes: int) -> list[tuple[int, int]]:
    """Ranges of records that make blocks of about that size; `starts` has one entry more than there are records."""
    ranges, first = [], 0
    for row in range(1, len(starts)):
        if starts[row] - starts[first] >= size_bytes or row == len(starts) - 1:
            ranges.append((first, row))
            first = row
    return ranges
