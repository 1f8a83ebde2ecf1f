"""The appended section of a delta, written (docs/formats/schema-append.md)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import SchemaError
from deltaic.limits import MAX_NAME_BYTES
from deltaic.schema.binary import write_schema
from deltaic.schema.types import Field, FieldType
from deltaic.storage.decompress import Codec, compress
from deltaic.wire.append import (
    CODECS,
    EXTENDED,
    EXTENSION_MARK,
    FIELD_NUMBERS,
    FIELD_REMOVED,
    FIELD_RENAMED,
    FLAG,
    KEY_CHANGED,
    PACKED,
    TYPE_ADDED,
    TYPE_REMOVED,
    Extension,
    TypeDefinition,
)
from deltaic.wire.write_stream import varint

_CODEC_NUMBERS = {codec: number for number, codec in CODECS.items()}


@dataclass(frozen=True, slots=True, eq=False)
class EncodedValues:
    """The values of one field as pairs of bytes."""

    field: Field
    count: int
    pairs: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class EncodedSection:
    """A section ready to be written: what goes into the header's envelope, and the bytes after the last type."""

    envelope: bytes
    pieces: tuple[NDArray[np.uint8] | bytes, ...]
    plain_bytes: int
    """Its size without compression."""

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes in the blob."""
        return sum(len(piece) for piece in self.pieces)


def encode_append(
    definitions: Sequence[TypeDefinition],
    values: Sequence[tuple[str, Sequence[EncodedValues]]],
    extension: Extension | None = None,
    codec: Codec | str | None = None,
) -> EncodedSection:
    """Lay a section out: in the base layout as far as that can say it."""
    pieces = [*_base(definitions, values), *_extension(extension)]
    flags = EXTENDED if extension else 0
    plain_bytes = sum(len(piece) for piece in pieces)
    if codec is None:
        envelope = bytes((FLAG, EXTENSION_MARK | flags)) if flags else bytes((FLAG,))
        return EncodedSection(envelope, tuple(pieces), plain_bytes)
    packed = compress(b"".join(bytes(piece) for piece in pieces), codec)
    head = bytes((_CODEC_NUMBERS[Codec(codec)],)) + varint(plain_bytes)
    section = varint(len(head) + len(packed)) + head + packed
    return EncodedSection(bytes((0, EXTENSION_MARK | PACKED | flags)), (section,), plain_bytes)


def _base(
    definitions: Sequence[TypeDefinition], values: Sequence[tuple[str, Sequence[EncodedValues]]]
) -> Iterable[NDArray[np.uint8] | bytes]:
    if not definitions and not values:
        return [b"\0"]
    defined = varint(len(definitions)) + b"".join(_definition(one) for one in definitions)
    pieces: list[NDArray[np.uint8] | bytes] = [varint(len(defined)) + defined + varint(len(values))]
    for name, fields in values:
        pieces.append(_text(name) + varint(len(fields)))
        for one in fields:
            pieces += [_field(one.field) + varint(one.count), one.pairs]
    return [varint(sum(len(piece) for piece in pieces)), *pieces]


def _definition(one: TypeDefinition) -> bytes:
    return _text(one.name) + varint(len(one.fields)) + b"".join(_field(field) for field in one.fields)


def _extension(extension: Extension | None) -> list[bytes]:
    if not extension:
        return []
    entries = [
        *(_entry(TYPE_REMOVED, _text(name)) for name in extension.removed_types),
        *(_entry(FIELD_REMOVED, _text(name) + _text(field)) for name, field in extension.removed_fields),
        *(_entry(FIELD_RENAMED, b"".join(map(_text, names))) for names in extension.renamed_fields),
        *(_entry(TYPE_ADDED, varint(one.shards) + write_schema(one.schema)) for one in extension.added_types),
        *(
            _entry(KEY_CHANGED, _text(name) + varint(len(key or ())) + b"".join(map(_text, key or ())))
            for name, key in extension.keys
        ),
    ]
    block = varint(len(entries)) + b"".join(entries)
    return [varint(len(block)) + block]


def _entry(kind: int, payload: bytes) -> bytes:
    return bytes((kind,)) + varint(len(payload)) + payload


def _field(field: Field) -> bytes:
    head = _text(field.name) + bytes((FIELD_NUMBERS[field.type],))
    return head + _text(field.referenced or "") if field.type is FieldType.REFERENCE else head


def _text(name: str) -> bytes:
    try:
        data = name.encode()
    except UnicodeEncodeError as error:
        raise SchemaError(f"the name {name!r} has a lone surrogate and cannot stand in an appended section") from error
    if len(data) > MAX_NAME_BYTES:
        raise SchemaError(f"the name {name[:40]!r}… takes {len(data):,} bytes, at most {MAX_NAME_BYTES:,} can be")
    return varint(len(data)) + data
