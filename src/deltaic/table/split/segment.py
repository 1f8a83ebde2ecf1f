"""The files of a segment as far as we look into them: footers with checksums, `meta.json`, delete files.

Every segment file ends with `{"version":…,"crc":N}`, u32 length of that text, u32 1337; the CRC-32 is of everything
before the text. It is checked before the engine sees the file: the engine itself only looks when it is asked to.
"""

import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.errors import ChecksumError, DecodeError
from deltaic.table.split.engine import SEGMENT_SUFFIXES

FOOTER_MAGIC = 1337
MAX_FOOTER_BYTES = 4096
MAX_DOCUMENTS = 2**31 - 1
MAX_INDEX_FORMAT = 7
"""The newest index format whose files are understood here."""

_TAIL = struct.Struct("<II")
_SEGMENT_ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
FILE_NAME = re.compile(r"[0-9a-f]{32}(\.[a-z]+|\.[0-9]{1,20}\.del)|meta\.json|\.managed\.json")
"""The names of index files; nothing else of a foreign split becomes a file."""


@dataclass(frozen=True, slots=True)
class Deletes:
    """Which delete file a segment has."""

    count: int
    opstamp: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as `meta.json` knows it."""

    id: str
    """32 hexadecimal digits, as in file names."""
    max_doc: int
    deletes: Deletes | None = None

    def file(self, suffix: str) -> str:
        """The name of one of its files."""
        return f"{self.id}{suffix}"

    @property
    def delete_file(self) -> str | None:
        """The name of its delete file."""
        return None if self.deletes is None else f"{self.id}.{self.deletes.opstamp}.del"


@dataclass(frozen=True, slots=True)
class IndexMeta:
    """`meta.json`: the segments, the schema, and everything else as it was."""

    segments: tuple[Segment, ...]
    fields: tuple[Mapping[str, Any], ...]
    opstamp: int
    document: Mapping[str, Any]


def read_meta(data: bytes, where: str) -> IndexMeta:
    """Read `meta.json`."""
    where = f"{where}, meta.json"
    try:
        document: Any = msgspec.json.decode(data)
        segments = tuple(_read_segment(one, where) for one in document["segments"])
        fields = tuple(document["schema"])
        for field in fields:
            if not isinstance(field["name"], str) or not isinstance(field["type"], str):
                raise TypeError("a field has no name or type")
            if not isinstance(field.get("options", {}), dict):
                raise TypeError("the options of a field are no object")
        opstamp = _number(document["opstamp"])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise DecodeError("BadIndex", f"no description of an index: {error}", where) from error
    if len({segment.id for segment in segments}) != len(segments):
        raise DecodeError("BadIndex", "a segment stands there twice", where)
    if sum(segment.max_doc for segment in segments) > MAX_DOCUMENTS:
        raise DecodeError("BadIndex", "more documents than an index can have", where)
    return IndexMeta(segments, fields, opstamp, document)


def read_managed(data: bytes, where: str) -> list[str]:
    """Read `.managed.json`: the names of the index's files."""
    try:
        return msgspec.json.decode(data, type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError("BadIndex", f"no list of files: {error}", f"{where}, .managed.json") from error


def check_segment_file(data: bytes | memoryview, where: str) -> memoryview:
    """The body of a segment file, without its footer, after its checksum was compared."""
    view = memoryview(data)
    if len(view) < _TAIL.size:
        raise DecodeError("Truncated", f"a segment file of {len(view)} bytes", where)
    length, magic = _TAIL.unpack_from(view, len(view) - _TAIL.size)
    if magic != FOOTER_MAGIC:
        raise DecodeError("BadMagic", f"a segment file ends with {magic}", where)
    if length > min(MAX_FOOTER_BYTES, len(view) - _TAIL.size):
        raise DecodeError("BadFooter", f"a footer of {length:,} bytes", where)
    body = view[: len(view) - _TAIL.size - length]
    try:
        footer: Any = msgspec.json.decode(bytes(view[len(body) : len(body) + length]))
        expected, index_format = _number(footer["crc"]), _number(footer["version"]["index_format_version"])
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, KeyError, RecursionError) as error:
        raise DecodeError("BadFooter", f"no footer of a segment file: {error}", where) from error
    if index_format > MAX_INDEX_FORMAT:
        raise DecodeError("NewerEngine", f"index format {index_format}, newer than {MAX_INDEX_FORMAT}", where)
    if zlib.crc32(body) != expected:
        raise ChecksumError("WrongChecksum", "the file is not the one that was written", where)
    return body


def segment_footer(body: bytes, version: str) -> bytes:
    """The footer that goes behind the body of a segment file; `version` is the JSON object of the writer's version."""
    text = b'{"version":%s,"crc":%d}' % (version.encode(), zlib.crc32(body))
    return text + _TAIL.pack(len(text), FOOTER_MAGIC)


def footer_version(data: bytes | memoryview, where: str) -> str:
    """The version object in the footer of a segment file that was checked."""
    view = memoryview(data)
    length, _ = _TAIL.unpack_from(view, len(view) - _TAIL.size)
    text = bytes(view[len(view) - _TAIL.size - length : len(view) - _TAIL.size])
    found = re.match(rb'\{"version":(\{[^{}]*\})', text)
    if found is None:
        raise DecodeError("BadFooter", "the footer of a segment file has no version", where)
    return found[1].decode()


def read_alive(data: bytes | memoryview, segment: Segment, where: str) -> NDArray[np.bool_]:
    """Which documents of a segment are alive, from its delete file."""
    assert segment.deletes is not None
    return unpack_alive(check_segment_file(data, where), segment.max_doc, segment.deletes.count, where)


def unpack_alive(body: bytes | memoryview, count: int, dead: int, where: str) -> NDArray[np.bool_]:
    """Which of `count` documents are alive, from the body of a delete file that leaves `dead` of them out."""
    if len(body) != 4 + 8 * -(-count // 64) or int.from_bytes(body[:4], "little") != count:
        raise DecodeError("BadDeletes", f"{len(body)} bytes for {count:,} documents", where)
    bits = np.unpackbits(np.frombuffer(body, np.uint8, offset=4), bitorder="little")
    alive = bits[:count].astype(np.bool_)
    if count - int(alive.sum()) != dead or bits[count:].any():
        raise DecodeError("BadDeletes", f"{dead:,} documents should be dead", where)
    return alive


def pack_alive(alive: NDArray[np.bool_]) -> bytes:
    """The body of a delete file."""
    bits = np.zeros(-(-len(alive) // 64) * 64, np.uint8)
    bits[: len(alive)] = alive
    return len(alive).to_bytes(4, "little") + np.packbits(bits, bitorder="little").tobytes()


def is_segment_file(name: str) -> bool:
    """Whether a member has the footer of a segment file."""
    return name.endswith((*SEGMENT_SUFFIXES, ".del"))


def _read_segment(value: Any, where: str) -> Segment:
    name = value["segment_id"]
    if not isinstance(name, str) or not _SEGMENT_ID.fullmatch(name):
        raise DecodeError("BadIndex", f"{str(name)[:80]!r} is no segment id", where)
    deletes = value.get("deletes")
    found = None
    max_doc = _number(value["max_doc"])
    if deletes is not None:
        found = Deletes(_number(deletes["num_deleted_docs"]), _number(deletes["opstamp"]))
        if found.count > max_doc:
            raise DecodeError("BadIndex", "more documents are dead than there are", where)
    return Segment(name.replace("-", ""), max_doc, found)


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**64:
        raise TypeError(f"{value!r} is no count")
    return value
