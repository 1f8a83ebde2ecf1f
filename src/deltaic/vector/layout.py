"""The bytes of a vector part between its frames: header, column heads, end marks (docs/formats/vector-part.md)."""

import struct
import zlib
from dataclasses import dataclass, field

import numpy as np

from deltaic.limits import MAX_NAME_BYTES, MAX_ORDINAL, Limits
from deltaic.state.vector_column import Ordinals
from deltaic.storage.decompress import Codec, compress
from deltaic.vector.numbers import NO_RUNS, NumberReader, Runs, write_number, write_numbers
from deltaic.wire.vectors.bounds import DEFAULT_VECTOR_LIMITS
from deltaic.wire.vectors.codecs import unpack
from deltaic.wire.vectors.faults import fault
from deltaic.wire.vectors.layout import padded

MAGIC = b"\xde\x7c"
VERSION = 1
DELTA = 1
"""The header's flag: the part leads from a state to another one."""
FROM_NOTHING = 1
"""A column's flag: whatever the column held before is gone."""
HEADER = struct.Struct("<2sBBIQQ")
HEADER_BYTES = 32
COLUMN = struct.Struct("<III")
"""A column's lengths, after their checksum: bytes of the head as stored and before compression, and its codec."""
COLUMN_BYTES = 16
END_OF_FRAMES = bytes(8)
"""What follows the frames: a frame never starts with it."""

_ZSTD = 1
_COMPRESSED_FROM_BYTES = 512
_NO_ORDINALS: Ordinals = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class PartHeader:
    """What a part starts with."""

    delta: bool
    columns: int
    origin_tag: int
    destination_tag: int

    def to_bytes(self) -> bytes:
        """The header with its checksum."""
        flags = DELTA if self.delta else 0
        plain = HEADER.pack(MAGIC, VERSION, flags, self.columns, self.origin_tag, self.destination_tag)
        return plain + zlib.crc32(plain).to_bytes(4, "little") + bytes(4)

    @classmethod
    def read(cls, view: memoryview, name: str) -> "PartHeader":
        """The header at the start of bytes."""
        for place, byte in enumerate(MAGIC):
            if len(view) > place and view[place] != byte:
                raise fault("BadMagic", "a vector part starts with DE 7C", f"{name}: byte {place}")
        if len(view) > 2 and view[2] != VERSION:
            raise fault("UnsupportedVersion", f"part version {view[2]}, this reader knows 1", f"{name}: byte 2")
        if len(view) < HEADER_BYTES:
            raise fault("Truncated", f"{len(view)} bytes of a header of {HEADER_BYTES}", f"{name}: byte {len(view)}")
        _, _, flags, columns, origin, destination = HEADER.unpack(view[: HEADER.size])
        if zlib.crc32(view[: HEADER.size]) != int.from_bytes(view[24:28], "little"):
            raise fault("ChecksumMismatch", "the CRC-32 of the header is that of other bytes", f"{name}: byte 24")
        if flags & ~DELTA or any(view[28:32]) or (not flags & DELTA and origin):
            raise fault("InvalidFlags", f"flags 0x{flags:02x}, or bytes that must be zero", f"{name}: byte 3")
        return cls(bool(flags & DELTA), columns, origin, destination)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnHead:
    """What a part says of a column before its frames."""

    type_name: str
    field_name: str
    dimensions: int
    rows: int
    """Vectors in the column afterwards."""
    checksum: int
    """Of the column afterwards."""
    from_nothing: bool = False
    removed: Runs = field(default_factory=lambda: NO_RUNS)
    """Records that stay and lose their vector."""
    origins: Ordinals = field(default_factory=lambda: _NO_ORDINALS)
    """Where moved vectors were."""
    targets: Ordinals = field(default_factory=lambda: _NO_ORDINALS)
    """Where they go, rising."""

    @property
    def key(self) -> tuple[str, str]:
        """Type and field."""
        return self.type_name, self.field_name

    def to_bytes(self) -> bytes:
        """Lengths, checksum and head, up to a multiple of eight."""
        plain = self._plain()
        codec, stored = 0, plain
        if len(plain) >= _COMPRESSED_FROM_BYTES:
            packed = compress(plain, Codec.ZSTD, level=3)
            if len(packed) < len(plain):
                codec, stored = _ZSTD, packed
        lengths = COLUMN.pack(len(stored), len(plain), codec)
        checksum = zlib.crc32(stored, zlib.crc32(lengths))
        return checksum.to_bytes(4, "little") + lengths + stored + bytes(padded(len(stored)) - len(stored))

    def _plain(self) -> bytes:
        names = (name.encode() for name in (self.type_name, self.field_name))
        zigzag = np.diff(self.origins, prepend=0)
        zigzag = zigzag << 1 ^ zigzag >> 63
        return b"".join(
            [
                bytes([FROM_NOTHING if self.from_nothing else 0]),
                *(write_number(len(name)) + name for name in names),
                write_number(self.dimensions),
                write_number(self.rows),
                self.checksum.to_bytes(8, "little"),
                self.removed.to_bytes(),
                write_number(len(self.targets)),
                write_numbers(np.diff(self.targets, prepend=0)),
                write_numbers(zigzag),
            ]
        )

    @classmethod
    def read(cls, view: memoryview, start: int, name: str, limits: Limits) -> "tuple[ColumnHead, int]":
        """The head at a place, and where its frames start."""
        at = f"{name}: byte {start}"
        if len(view) < start + COLUMN_BYTES:
            raise fault("Truncated", "the part ends inside the lengths of a column", at)
        stored_length, length, codec = COLUMN.unpack(view[start + 4 : start + COLUMN_BYTES])
        end = start + COLUMN_BYTES + stored_length
        after = padded(end)
        if after > len(view):
            raise fault("Truncated", f"the part ends inside a head of {stored_length:,} bytes", at)
        if zlib.crc32(view[start + 4 : end]) != int.from_bytes(view[start : start + 4], "little"):
            raise fault("ChecksumMismatch", "the CRC-32 of a column's head is that of other bytes", at)
        if any(view[end:after]):
            raise fault("MalformedPart", "bytes that must be zero are not", at)
        if codec not in (0, _ZSTD):
            raise fault("UnsupportedCodec", f"codec {codec} is not known", at)
        if length > limits.max_append_bytes:
            raise fault("LimitExceeded", f"a head of {length:,} bytes, limit is {limits.max_append_bytes:,}", at)
        stored = view[start + COLUMN_BYTES : end]
        if codec:
            stored = memoryview(unpack(stored, codec, length, at))
        elif length != stored_length:
            raise fault("MalformedPart", f"{stored_length} bytes stated as {length}", at)
        return cls._read_plain(NumberReader(stored, at), at), after

    @classmethod
    def _read_plain(cls, reader: NumberReader, at: str) -> "ColumnHead":
        flags = reader.take(1)[0]
        if flags & ~FROM_NOTHING:
            raise fault("InvalidFlags", f"a column's flags are 0x{flags:02x}", at)
        type_name, field_name = _name(reader, at), _name(reader, at)
        dimensions = reader.number()
        if not dimensions:
            raise fault("InvalidDims", "vectors without dimensions", at)
        if dimensions > DEFAULT_VECTOR_LIMITS.max_dims:
            raise fault("LimitExceeded", f"{dimensions:,} dimensions", at)
        rows = reader.number()
        checksum = int.from_bytes(reader.take(8), "little")
        removed = reader.runs()
        count = reader.number()
        gaps, zigzag = reader.numbers(count), reader.numbers(count)
        reader.end()
        targets, origins = np.cumsum(gaps), np.cumsum(zigzag >> 1 ^ -(zigzag & 1))
        if bool((gaps[1:] == 0).any()):
            raise fault("IndexOrder", "the targets of moves do not rise", at)
        inside = not count or 0 <= int(origins.min()) <= max(int(origins.max()), int(targets[-1])) <= MAX_ORDINAL
        if not inside:
            raise fault("IndexOutOfRange", "a move from or to an ordinal that cannot be", at)
        if flags and (len(removed) or count):
            raise fault("MalformedPart", "a column that starts empty removes or moves vectors", at)
        return cls(type_name, field_name, dimensions, rows, checksum, bool(flags), removed, origins, targets)


def _name(reader: NumberReader, at: str) -> str:
    length = reader.number()
    if not 0 < length <= MAX_NAME_BYTES:
        raise fault("LimitExceeded", f"a name of {length:,} bytes", at)
    try:
        return bytes(reader.take(length)).decode()
    except UnicodeDecodeError:
        raise fault("MalformedPart", "a name is no UTF-8", at) from None
