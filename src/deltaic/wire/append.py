"""The appended section of a delta: new fields, and their values for records that did not change.

It stands after the last type section of the main blob, so that readers which know nothing of it never see it; one or
two bytes in the header's envelope say that it is there (hollow-blob.md, 23 and 25; docs/formats/schema-append.md).
Definitions and values are separate, so that a reader can take the second without the first. Values of a field are
pairs of an ordinal and a value, ordinals rising; null is left out. Here they are parsed into columns; what they do to
records is `state.append`.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.cursor import Cursor
from deltaic.errors import DecodeError, LimitError
from deltaic.kernels import append as kernel
from deltaic.kernels import records, text
from deltaic.limits import DEFAULT_LIMITS, MAX_FIELDS, MAX_NAME_BYTES, Limits
from deltaic.schema.binary import read_schema
from deltaic.schema.types import Field, FieldType, Schema
from deltaic.storage.decompress import Codec, decompress

FLAG = 1
"""The first byte of the envelope where a reader of the base layout can read the section."""

EXTENSION_MARK = 0xA0
"""The high half of the second byte, which tells it from whatever else may stand there; the low half are flags."""

PACKED = 1
"""Flag: the section is compressed."""

EXTENDED = 2
"""Flag: an extension block follows the base section."""

FIELD_TYPES = (
    FieldType.REFERENCE,
    FieldType.INT,
    FieldType.LONG,
    FieldType.BOOLEAN,
    FieldType.FLOAT,
    FieldType.DOUBLE,
    FieldType.STRING,
    FieldType.BYTES,
)
"""Field types by their number on the wire."""

FIELD_NUMBERS = {kind: number for number, kind in enumerate(FIELD_TYPES)}
"""Numbers on the wire by field type."""

CODECS = {1: Codec.ZSTD, 2: Codec.ZLIB}
"""How a section may be compressed, by number."""

TYPE_ADDED, TYPE_REMOVED, FIELD_REMOVED, FIELD_RENAMED, KEY_CHANGED = 1, 2, 3, 4, 5
IGNORABLE = 0x80
"""Entries of the extension block from this kind on may be passed over by who does not know them."""

_KNOWN_FLAGS = PACKED | EXTENDED
_ERRORS = {
    -1: ("Truncated", "the values end early"),
    -2: ("InvalidVarint", "no number where one must stand"),
    -3: ("OrdinalOrder", "ordinals must rise and stay below 2^31"),
    -4: ("BadValue", "a BOOLEAN is 0 or 1"),
}

Ordinals = NDArray[np.int64]


class AppendMode(StrEnum):
    """What a reader takes of an appended section."""

    OFF = "off"
    """Nothing: the section is never read."""
    VALUES = "values"
    """Values of fields that the reader has, with the same type; the others are passed over and counted."""
    FULL = "full"
    """New fields and types too: the reader's model becomes the producer's."""


@dataclass(frozen=True, slots=True)
class TypeDefinition:
    """Fields that an OBJECT type gained, in the order of the producer's model."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FieldValues:
    """The values of one field: row i is of record `ordinals[i]`, which rise.

    Values of fixed length are in `raw`, as records hold them; texts and bytes are ranges of `data`, as on the wire.
    """

    field: Field
    ordinals: Ordinals
    raw: NDArray[np.uint64] | None = None
    starts: Ordinals | None = None
    ends: Ordinals | None = None
    data: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.ordinals)

    def pieces(self, at: str) -> tuple[Ordinals, NDArray[np.uint8]]:
        """The values of a STRING or BYTES as records hold them: offsets, and bytes back to back.

        Raises:
            DecodeError: a text is not UTF-8.
        """
        assert self.starts is not None and self.ends is not None and self.data is not None
        offsets, data = records.gather_ranges(self.data, self.starts, self.ends)
        if self.field.type is FieldType.BYTES:
            return offsets, data
        offsets, data, malformed = text.utf8_to_units(offsets, data)
        if malformed:
            raise DecodeError("BadText", f"{malformed:,} texts of field {self.field.name} are not UTF-8", at)
        return offsets, data


@dataclass(frozen=True, slots=True, eq=False)
class TypeValues:
    """The values that a section has for one type."""

    name: str
    fields: tuple[FieldValues, ...]


@dataclass(frozen=True, slots=True)
class AddedType:
    """A type that is new in the model; its records are in its type section, if it has any."""

    schema: Schema
    shards: int


@dataclass(frozen=True, slots=True)
class Extension:
    """What the base layout cannot say about a changed model."""

    added_types: tuple[AddedType, ...] = ()
    removed_types: tuple[str, ...] = ()
    removed_fields: tuple[tuple[str, str], ...] = ()
    """Type and field."""
    renamed_fields: tuple[tuple[str, str, str], ...] = ()
    """Type, old name, new name."""
    keys: tuple[tuple[str, tuple[str, ...] | None], ...] = ()
    """Type and its primary key from now on."""

    def __bool__(self) -> bool:
        return bool(self.added_types or self.removed_types or self.removed_fields or self.renamed_fields or self.keys)


@dataclass(frozen=True, slots=True, eq=False)
class AppendedSection:
    """A section as it was read. Without definitions if they were not asked for."""

    size_bytes: int
    """Bytes that it takes in the blob."""
    definitions: tuple[TypeDefinition, ...] = ()
    values: tuple[TypeValues, ...] = ()
    extension: Extension = field(default_factory=Extension)
    plain_bytes: int = 0
    """Bytes that it takes without compression."""
    codec: Codec | None = None


@dataclass(frozen=True, slots=True)
class AppendFlags:
    """What the envelope says of a section."""

    packed: bool
    extended: bool
    followed: bool = False
    """True if something else may follow, which a later release reads."""


def append_flags(extra: bytes, at: str) -> AppendFlags | None:
    """What the further bytes of a header's envelope say; None if there is no section.

    Raises:
        DecodeError: there is one that only a later release can read.
    """
    flags = 0
    if len(extra) > 1 and extra[1] & 0xF0 == EXTENSION_MARK:
        flags = extra[1] & 0x0F
    if extra[:1] == bytes((FLAG,)):
        # The base layout can be read whatever else is said; an extension that is not known goes unread.
        known = flags & ~_KNOWN_FLAGS == 0
        followed = not known or (len(extra) > 1 and not flags)
        return AppendFlags(packed=False, extended=known and bool(flags & EXTENDED), followed=followed)
    if extra[:1] != b"\0" or not flags:
        return None
    if flags & ~_KNOWN_FLAGS:
        reason = f"an appended section with flags {flags:#x}, which a later release of deltaic reads"
        raise DecodeError("UnknownExtension", reason, at)
    return AppendFlags(packed=bool(flags & PACKED), extended=bool(flags & EXTENDED))


def read_append(
    cursor: Cursor, flags: AppendFlags, mode: AppendMode, limits: Limits = DEFAULT_LIMITS
) -> AppendedSection:
    """Read the section that starts here and ends with the blob; definitions only in full mode."""
    start = cursor.position
    codec = None
    inside = cursor
    if flags.packed:
        codec, inside = _unpacked(cursor, limits)
    plain_start = inside.position
    definitions, values = _read_base(inside, mode, limits)
    extension = Extension()
    if flags.extended:
        block = _block(inside, "the extension block")
        if mode is AppendMode.FULL:
            extension = _read_extension(block, limits)
        inside.position = len(block.view)
    for one in (inside, cursor):
        if one.remaining and not flags.followed:
            one.fail("TrailingBytes", f"{one.remaining} bytes after the appended section")
    return AppendedSection(
        size_bytes=cursor.position - start,
        definitions=definitions,
        values=values,
        extension=extension,
        plain_bytes=inside.position - plain_start,
        codec=codec,
    )


def _unpacked(cursor: Cursor, limits: Limits) -> tuple[Codec, Cursor]:
    block = _block(cursor, "the appended section")
    number = block.byte()
    codec = CODECS.get(number)
    if codec is None:
        block.fail("UnknownCodec", f"an appended section packed with codec {number}, which a later release reads")
    size = block.varlong()
    if size > limits.max_append_bytes:
        reason = f"an appended section of {size:,} bytes, limit is {limits.max_append_bytes:,}"
        raise LimitError("Limit", reason, block.where())
    name = f"{cursor.name}: appended section"
    packed = block.take(block.remaining)
    cursor.position = len(block.view)
    plain = decompress(packed, codec, limits.max_append_bytes, expected_bytes=size, name=name)
    return codec, Cursor(plain, name)


def _block(cursor: Cursor, what: str) -> Cursor:
    """The bytes that a length stands before, with places counted as in the whole. The cursor stays before them."""
    length = cursor.varlong()
    if length > cursor.remaining:
        cursor.fail("Truncated", f"{what} has {length:,} bytes, {cursor.remaining:,} are left")
    block = Cursor(cursor.view[: cursor.position + length], cursor.name)
    block.position = cursor.position
    return block


def _read_base(
    cursor: Cursor, mode: AppendMode, limits: Limits
) -> tuple[tuple[TypeDefinition, ...], tuple[TypeValues, ...]]:
    block = _block(cursor, "the appended section")
    if block.remaining > limits.max_append_bytes:
        reason = f"an appended section of {block.remaining:,} bytes, limit is {limits.max_append_bytes:,}"
        raise LimitError("Limit", reason, block.where())
    cursor.position = len(block.view)
    if not block.remaining:
        return (), ()
    definitions: tuple[TypeDefinition, ...] = ()
    inner = _block(block, "the definitions")
    if mode is AppendMode.FULL:
        definitions = _read_definitions(inner)
        if inner.remaining:
            inner.fail("TrailingBytes", f"{inner.remaining} bytes after the definitions")
    block.position = len(inner.view)
    values = _read_values(block)
    if block.remaining:
        block.fail("TrailingBytes", f"{block.remaining} bytes after the appended values")
    return definitions, values


def _read_definitions(cursor: Cursor) -> tuple[TypeDefinition, ...]:
    found: dict[str, TypeDefinition] = {}
    for _ in range(_count(cursor)):
        name = _text(cursor)
        if name in found:
            cursor.fail("BadSchema", f"type {name!r} has definitions twice")
        fields: dict[str, Field] = {}
        for _ in range(_count(cursor, MAX_FIELDS)):
            one = _field(cursor)
            if one.name in fields:
                cursor.fail("BadSchema", f"field {name}.{one.name} is defined twice")
            fields[one.name] = one
        found[name] = TypeDefinition(name, tuple(fields.values()))
    return tuple(found.values())


def _read_values(cursor: Cursor) -> tuple[TypeValues, ...]:
    found: dict[str, TypeValues] = {}
    for _ in range(_count(cursor)):
        name = _text(cursor)
        if name in found:
            cursor.fail("BadSchema", f"type {name!r} has values twice")
        fields: dict[str, FieldValues] = {}
        for _ in range(_count(cursor, MAX_FIELDS)):
            one = _field(cursor)
            if one.name in fields:
                cursor.fail("BadSchema", f"field {name}.{one.name} has values twice")
            fields[one.name] = _field_values(cursor, name, one)
        found[name] = TypeValues(name, tuple(fields.values()))
    return tuple(found.values())


def _field_values(cursor: Cursor, type_name: str, one: Field) -> FieldValues:
    count = _count(cursor)
    start = cursor.position
    if one.type.is_variable:
        ordinals, starts, ends, after = kernel.read_variable(cursor.data, start, count)
        values = FieldValues(one, ordinals, starts=starts, ends=ends, data=cursor.data)
    else:
        ordinals, raw, after = kernel.read_fixed(cursor.data, start, count, FIELD_NUMBERS[one.type])
        values = FieldValues(one, ordinals, raw)
    if after < 0:
        code, reason = _ERRORS[after]
        cursor.fail(code, f"field {type_name}.{one.name}: {reason}")
    cursor.position = after
    return values


def _read_extension(cursor: Cursor, limits: Limits) -> Extension:
    added: list[AddedType] = []
    removed: list[str] = []
    fields: list[tuple[str, str]] = []
    renamed: list[tuple[str, str, str]] = []
    keys: list[tuple[str, tuple[str, ...] | None]] = []
    for _ in range(_count(cursor)):
        kind = cursor.byte()
        entry = _block(cursor, "an entry of the extension block")
        match kind:
            case _ if kind >= IGNORABLE:
                entry.position = len(entry.view)
            case 1:
                added.append(AddedType(shards=_shards(entry, limits), schema=read_schema(entry)))
            case 2:
                removed.append(_text(entry))
            case 3:
                fields.append((_text(entry), _text(entry)))
            case 4:
                renamed.append((_text(entry), _text(entry), _text(entry)))
            case 5:
                keys.append((_text(entry), tuple(_text(entry) for _ in range(_count(entry))) or None))
            case _:
                entry.fail("UnknownExtension", f"an entry of kind {kind}, which a later release of deltaic reads")
        if entry.remaining:
            entry.fail("TrailingBytes", f"{entry.remaining} bytes after an entry of the extension block")
        cursor.position = len(entry.view)
    if cursor.remaining:
        cursor.fail("TrailingBytes", f"{cursor.remaining} bytes after the extension block")
    names = [one.schema.name for one in added]
    if len(names) > limits.max_types or len(set(names)) < len(names):
        _twice(cursor)
    return Extension(tuple(added), tuple(removed), tuple(fields), tuple(renamed), tuple(keys))


def _twice(cursor: Cursor) -> NoReturn:
    cursor.fail("BadSchema", "a type is added twice, or too many are")


def _shards(cursor: Cursor, limits: Limits) -> int:
    count = cursor.varint()
    if count == 0 or count & (count - 1) or count > limits.max_shards:
        cursor.fail("BadShards", f"{count} shards: a power of two, at most {limits.max_shards:,}")
    return count


def _field(cursor: Cursor) -> Field:
    name = _text(cursor)
    number = cursor.byte()
    if number >= len(FIELD_TYPES):
        cursor.fail("BadFieldType", f"field {name!r} has type number {number}, at most {len(FIELD_TYPES) - 1} can be")
    kind = FIELD_TYPES[number]
    return Field(name, kind, _text(cursor) if kind is FieldType.REFERENCE else None)


def _count(cursor: Cursor, limit: int | None = None) -> int:
    """A number of things that take at least a byte each."""
    count = cursor.varint()
    if count > cursor.remaining or (limit is not None and count > limit):
        cursor.fail("BadCount", f"{count:,} entries in {cursor.remaining:,} bytes")
    return count


def _text(cursor: Cursor) -> str:
    length = cursor.varint()
    if length > MAX_NAME_BYTES:
        cursor.fail("BadText", f"a name of {length:,} bytes, at most {MAX_NAME_BYTES:,} can be")
    try:
        return str(cursor.take(length), "utf-8")
    except UnicodeDecodeError:
        cursor.fail("BadText", "a name is not UTF-8")
