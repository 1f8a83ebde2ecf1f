"""The container of a split: many files in one, their ranges behind them, and a hot cache at the end.

    [member 1][member 2]…            no gaps, any order
    [u32 magic, u32 version, JSON]   bundle metadata: {"files": {name: {"start": a, "end": b}}}
    [u32 length of the metadata]
    [hot cache][u32 length of it]
    [u64 start of the metadata, u32 version, "QWFT"]   only some writers add this

All numbers are little-endian (index-table.md, 9). Every length is checked against what is there before it is used, so
that a lying one costs nothing.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from deltaic.errors import DecodeError, LimitError

METADATA_MAGIC = 403_881_646
METADATA_VERSION = 1
FIELDS_NAME = "split_fields"
"""The member that stands last, empty in splits of the public implementation and in ours."""

MAX_FOOTER_BYTES = 256 << 20
"""The longest footer that is read; real ones are some kilobytes."""
MAX_MEMBERS = 100_000

_HEADER = struct.Struct("<II")
_LENGTH = struct.Struct("<I")
_TRAILER = struct.Struct("<QI4s")
_TRAILER_MAGIC = b"QWFT"


@dataclass(frozen=True, slots=True)
class Range:
    """Where a member lies in the split; `end` is the first byte behind it."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """How many bytes it has."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Footer:
    """What the end of a split says: the members, and the bytes of the hot cache."""

    members: Mapping[str, Range]
    hotcache: bytes
    start: int
    """The first byte of the bundle metadata, which is the end of the last member."""
    end: int
    """The size of the split."""


def pack_footer(members: Mapping[str, Range], hotcache: bytes) -> bytes:
    """The bytes that follow the members."""
    files = {name: {"start": place.start, "end": place.end} for name, place in members.items()}
    metadata = _HEADER.pack(METADATA_MAGIC, METADATA_VERSION) + msgspec.json.encode({"files": files})
    return b"".join((metadata, _LENGTH.pack(len(metadata)), hotcache, _LENGTH.pack(len(hotcache))))


def pack(members: Iterable[tuple[str, bytes]], hotcache: bytes) -> bytes:
    """A whole split in memory; `split_fields` is put last if it is not among the members."""
    body: list[bytes] = []
    places: dict[str, Range] = {}
    position = 0
    for name, data in members:
        places[name] = Range(position, position + len(data))
        body.append(data)
        position += len(data)
    places.setdefault(FIELDS_NAME, Range(position, position))
    return b"".join((*body, pack_footer(places, hotcache)))


def footer_start(tail: bytes, size: int, where: str) -> int:
    """Where the footer of a split of `size` bytes starts, from its last bytes; negative if more of them are needed.

    The negative number says how many bytes from the end would do.
    """
    at = len(tail)
    if at >= _TRAILER.size and tail[-4:] == _TRAILER_MAGIC:
        start, version, _ = _TRAILER.unpack_from(tail, at - _TRAILER.size)
        if version != 1 or start > size - _TRAILER.size:
            raise DecodeError("BadFooter", f"a trailer of version {version} that points to byte {start}", where)
        return int(start)
    need = _LENGTH.size
    for what in ("hot cache", "bundle metadata"):
        if need > size:
            raise DecodeError("Truncated", f"no room for the length of the {what} in {size} bytes", where)
        if need > at:
            return -need
        length = _LENGTH.unpack_from(tail, at - need)[0]
        need += length
        if need > size:
            raise DecodeError("BadFooter", f"{length:,} bytes of {what} in a split of {size:,}", where)
        if what == "hot cache":
            need += _LENGTH.size
    return size - need


def read_footer(data: bytes, start: int, where: str) -> Footer:
    """The footer from its bytes; `start` is where they begin in the split."""
    end = start + len(data)
    if len(data) >= _TRAILER.size and data[-4:] == _TRAILER_MAGIC:
        data = data[: -_TRAILER.size]
    if len(data) < 2 * _LENGTH.size + _HEADER.size:
        raise DecodeError("Truncated", f"a footer of {len(data)} bytes", where)
    hot_length = _LENGTH.unpack_from(data, len(data) - _LENGTH.size)[0]
    metadata_end = len(data) - 2 * _LENGTH.size - hot_length
    if metadata_end < _HEADER.size:
        raise DecodeError("BadFooter", f"{hot_length:,} bytes of hot cache in a footer of {len(data):,}", where)
    metadata_length = _LENGTH.unpack_from(data, metadata_end)[0]
    if metadata_length != metadata_end:
        raise DecodeError(
            "BadFooter", f"bundle metadata of {metadata_length:,} bytes where {metadata_end:,} are", where
        )
    magic, version = _HEADER.unpack_from(data, 0)
    if magic != METADATA_MAGIC:
        raise DecodeError("BadMagic", f"bundle metadata start with {data[:4].hex()}", where)
    if version != METADATA_VERSION:
        raise DecodeError("UnknownVersion", f"bundle metadata of version {version}: update deltaic", where)
    members = _read_members(data[_HEADER.size : metadata_end], start, where)
    return Footer(members, data[metadata_end + _LENGTH.size : len(data) - _LENGTH.size], start, end)


def read_split(data: bytes, where: str) -> Footer:
    """The footer of a split that is in memory as a whole."""
    start = footer_start(data, len(data), where)
    return read_footer(data[start:], start, where)


def check_footer_length(length: int, where: str) -> None:
    """Refuse a footer that is too long to be one."""
    if length > MAX_FOOTER_BYTES:
        raise LimitError("TooLarge", f"a footer of {length:,} bytes, the limit is {MAX_FOOTER_BYTES:,}", where)


@contextmanager
def new_split(target: Path) -> Iterator[BinaryIO]:
    """A new file for a split; if anything fails it is removed."""
    out = open(target, "xb")  # noqa: SIM115
    try:
        with out:
            yield out
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise


def _read_members(text: bytes, body_end: int, where: str) -> dict[str, Range]:
    try:
        document: Any = msgspec.json.decode(text)
        files = document["files"]
        if not isinstance(files, dict):
            raise TypeError("files is no object")
        if len(files) > MAX_MEMBERS:
            raise LimitError("TooLarge", f"{len(files):,} members, the limit is {MAX_MEMBERS:,}", where)
        members = {name: Range(_offset(place["start"]), _offset(place["end"])) for name, place in files.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, KeyError, RecursionError) as error:
        raise DecodeError("BadFooter", f"no bundle metadata: {error}", where) from error
    for name, place in members.items():
        if not place.start <= place.end <= body_end:
            at = f"bytes {place.start} to {place.end} of {body_end}"
            raise DecodeError("BadRange", f"member {name[:80]!r} would be {at}", where)
    return members


def _offset(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r} is no offset")
    return value
