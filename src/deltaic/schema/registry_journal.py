"""The journal of the registry in bytes (docs/formats/field-registry.md, 9). Little-endian throughout.

    "DFRJ" 01 000000, base sequence u64                                      16 bytes
    records: length u32, CRC-32 of payload u32, payload
    payload: sequence u64 (one more than the record before), op u8, body

Only the last record of the last file may be torn: cut short, or its checksum wrong. What stands behind a damaged record
shows that it was not the last one; a length that was damaged must not make a whole file look like one torn record.
"""

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.errors import RegistryError
from deltaic.schema.registry_paths import MAX_PATH_BYTES, check_path
from deltaic.schema.registry_table import MAX_INDEX

MAGIC = b"DFRJ"
FORMAT = b"\x01\0\0\0"
HEADER_BYTES = 16

_HEADER = struct.Struct("<4s4sQ")
_FRAME = struct.Struct("<II")
_START = struct.Struct("<QB")
_ADD = struct.Struct("<QBIIBQH")
_VERSION = struct.Struct("<QBIII")
_MARK = struct.Struct("<QBIIB")
_EVICT = struct.Struct("<QBI")
_OP_ADD, _OP_VERSION, _OP_MARK, _OP_EVICT = 1, 2, 3, 4
_LONGEST_PAYLOAD = max(_ADD.size + MAX_PATH_BYTES, _VERSION.size + 4 * (MAX_INDEX + 1))
_NAME = re.compile(r"journal-(\d{20})\.dfrj")


# There may be millions of these at once, and none can lead back to itself: the collector need not look at them.
class Add(msgspec.Struct, frozen=True, gc=False):
    """A field got the next index of the current version."""

    version: int
    index: int
    type: int
    created_ms: int
    path: str


class NewVersion(msgspec.Struct, frozen=True):
    """A version was made: for each of its indices the index in the old one."""

    old: int
    new: int
    old_index_of: NDArray[np.uint32]


class Mark(msgspec.Struct, frozen=True, gc=False):
    """A field was retired, or is live again."""

    version: int
    index: int
    retired: int


class Evict(msgspec.Struct, frozen=True, gc=False):
    """The oldest version was dropped."""

    version: int


Record: TypeAlias = Add | NewVersion | Mark | Evict


@dataclass(frozen=True, slots=True)
class JournalFile:
    """What a journal file holds, as far as it is whole."""

    base: int
    skipped: int
    """How many records were looked at by their checksum only, because their content is known."""
    records: tuple[Record, ...]
    good_bytes: int
    """Where the whole records end; what is behind is torn."""
    torn: bool


def journal_name(base: int) -> str:
    """The name of the file whose first record follows the record of that sequence."""
    return f"journal-{base:020d}.dfrj"


def journal_base(name: str) -> int | None:
    """The base in a file's name; None if it is no journal."""
    matched = _NAME.fullmatch(name)
    return None if matched is None else int(matched[1])


def write_journal(base: int, records: Iterable[Record]) -> bytes:
    """The bytes of a journal file with these records."""
    return b"".join((_HEADER.pack(MAGIC, FORMAT, base), *_frames(base, records)))


def _frames(base: int, records: Iterable[Record]) -> Iterable[bytes]:
    for sequence, record in enumerate(records, base + 1):
        match record:
            case Add(version, index, value_type, created_ms, path):
                data = path.encode()
                payload = _ADD.pack(sequence, _OP_ADD, version, index, value_type, created_ms, len(data)) + data
            case NewVersion(old, new, order):
                payload = _VERSION.pack(sequence, _OP_VERSION, old, new, len(order)) + order.astype("<u4").tobytes()
            case Mark(version, index, retired):
                payload = _MARK.pack(sequence, _OP_MARK, version, index, retired)
            case Evict(version):
                payload = _EVICT.pack(sequence, _OP_EVICT, version)
        yield _FRAME.pack(len(payload), crc32(payload))
        yield payload


def read_journal(data: bytes, name: str = "the journal", *, last: bool = True, after: int = 0) -> JournalFile:
    """Read a journal file.

    Args:
        data: its bytes.
        name: what it is called, for errors.
        last: whether it is the last journal, whose last record may be torn.
        after: the content of records up to this sequence is not looked at.

    Raises:
        RegistryError: `Truncated`, `BadMagic`, `UnsupportedVersion` for the header, else `JournalCorrupt`.
    """
    if len(data) < HEADER_BYTES:
        raise RegistryError("Truncated", f"{name}: a header has {HEADER_BYTES} bytes, not {len(data)}", len(data))
    magic, written, base = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise RegistryError("BadMagic", f"{name} is no journal of a registry: it starts with {magic!r}", 0)
    if written != FORMAT:
        raise RegistryError("UnsupportedVersion", f"{name}: format {written.hex()}, this version reads 01000000", 4)
    records: list[Record] = []
    at, before, skipped = HEADER_BYTES, base, 0
    while at < len(data):
        payload = _payload(data, at, name, last=last)
        if payload is None:
            return JournalFile(base, skipped, tuple(records), at, True)
        sequence, operation = _START.unpack_from(payload)
        if sequence != before + 1:
            raise _corrupt(name, at, f"record {sequence} follows record {before}")
        if sequence <= after:
            skipped += 1
        else:
            records.append(_record(sequence, operation, payload, at, name))
        at, before = at + _FRAME.size + len(payload), sequence
    return JournalFile(base, skipped, tuple(records), at, False)


def _payload(data: bytes, at: int, name: str, *, last: bool) -> memoryview | None:
    """The payload of the record at an offset; None if it is torn."""
    left = len(data) - at
    if left >= _FRAME.size:
        length, checksum = _FRAME.unpack_from(data, at)
        whole = length <= left - _FRAME.size
        payload = memoryview(data)[at + _FRAME.size : at + _FRAME.size + length]
        if whole and length >= _START.size and crc32(payload) == checksum:
            return payload
        if whole and length < left - _FRAME.size and any(data[at:]):
            raise _corrupt(name, at, "a record is damaged, and there are bytes behind it")
        if not whole and _record_behind(data, at + _FRAME.size):
            raise _corrupt(name, at, f"a record of {length:,} bytes runs past the end over other records")
    if not last:
        raise _corrupt(name, at, "a record is torn, and another journal follows")
    return None


def _record_behind(data: bytes, start: int) -> bool:
    """True if a whole record stands anywhere behind an offset."""
    tail = np.frombuffer(data, np.uint8, offset=start)
    places = len(tail) - _FRAME.size - _START.size
    if places < 0:
        return False
    columns = [tail[shift : shift + places + 1].astype(np.int64) << 8 * shift for shift in range(4)]
    lengths = columns[0] | columns[1] | columns[2] | columns[3]
    room = len(tail) - _FRAME.size - np.arange(places + 1)
    fits = (lengths >= _START.size) & (lengths <= np.minimum(room, _LONGEST_PAYLOAD))
    fits &= (tail[16 : 16 + places + 1] >= _OP_ADD) & (tail[16 : 16 + places + 1] <= _OP_EVICT)
    for place in np.flatnonzero(fits).tolist():
        length, checksum = _FRAME.unpack_from(data, start + place)
        first = start + place + _FRAME.size
        if crc32(memoryview(data)[first : first + length]) == checksum:
            return True
    return False


def _record(sequence: int, op: int, payload: memoryview, at: int, name: str) -> Record:
    size = len(payload)
    try:
        if op == _OP_ADD and size >= _ADD.size:
            _, _, version, index, value_type, created_ms, length = _ADD.unpack_from(payload)
            if size == _ADD.size + length:
                path = check_path(str(payload[_ADD.size :], "utf-8"))
                return Add(version, index, value_type, created_ms, path)
        elif op == _OP_VERSION and size >= _VERSION.size:
            _, _, old, new, count = _VERSION.unpack_from(payload)
            if size == _VERSION.size + 4 * count:
                order = np.frombuffer(payload, "<u4", offset=_VERSION.size).astype(np.uint32)
                return NewVersion(old, new, order)
        elif op == _OP_MARK and size == _MARK.size:
            return Mark(*_MARK.unpack_from(payload)[2:])
        elif op == _OP_EVICT and size == _EVICT.size:
            return Evict(_EVICT.unpack_from(payload)[2])
    except (UnicodeDecodeError, RegistryError) as error:
        raise _corrupt(name, at, f"record {sequence} has a path that is none: {error}") from error
    raise _corrupt(name, at, f"record {sequence} has operation {op} and {size} bytes: no such record is known")


def _corrupt(name: str, at: int, reason: str) -> RegistryError:
    return RegistryError("JournalCorrupt", f"{name}: {reason}", at)
