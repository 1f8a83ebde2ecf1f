"""Headers of blobs and of optional parts (hollow-blob.md, "headers").

A blob starts with the format version 1030, a part with 1031. Old writers left the schema list out: its length is
then 0 and the sections alone say what there is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltaic.binary.cursor import Cursor
from deltaic.errors import LimitError
from deltaic.limits import DEFAULT_LIMITS, MAX_FIELDS, Limits
from deltaic.schema.binary import read_schema
from deltaic.schema.types import Schema

BLOB_VERSION = 1030
PART_VERSION = 1031


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the type sections."""

    origin_tag: int
    destination_tag: int
    schemas: tuple[Schema, ...]
    sections: int
    tags: Mapping[str, str] = field(default_factory=dict)
    part: str | None = None
    extra: bytes = b""
    """The envelope's further bytes (the first one flags an appended section)."""


def read_header(cursor: Cursor, limits: Limits = DEFAULT_LIMITS) -> Header:
    """Read the header of a snapshot, delta or reverse delta."""
    version = cursor.int32()
    if version != BLOB_VERSION:
        cursor.position -= 4
        cursor.fail("BadMagic", f"format version {version} where {BLOB_VERSION} must stand: this is no Hollow blob")
    origin, destination = cursor.int64(), cursor.int64()
    schemas: tuple[Schema, ...] = ()
    extra = b""
    if cursor.varint() != 0:
        schemas = _schemas(cursor, limits)
        extra = bytes(cursor.take(cursor.varint()))
    tag_count = cursor.int16()
    if tag_count > MAX_FIELDS:
        cursor.fail("BadCount", f"{tag_count} header tags, at most {MAX_FIELDS} can be")
    tags: dict[str, str] = {}
    for _ in range(tag_count):
        key = cursor.utf()
        tags[key] = cursor.utf()
    return Header(origin, destination, schemas, _section_count(cursor, limits), tags, extra=extra)


def read_part_header(cursor: Cursor, limits: Limits = DEFAULT_LIMITS) -> Header:
    """Read the header of an optional part."""
    version = cursor.int32()
    if version != PART_VERSION:
        cursor.position -= 4
        cursor.fail("BadMagic", f"format version {version} where {PART_VERSION} must stand: this is no optional part")
    part = cursor.utf()
    origin, destination = cursor.int64(), cursor.int64()
    schemas = _schemas(cursor, limits)
    extra = bytes(cursor.take(cursor.varint()))
    return Header(origin, destination, schemas, _section_count(cursor, limits), part=part, extra=extra)


def _schemas(cursor: Cursor, limits: Limits) -> tuple[Schema, ...]:
    start = cursor.position
    schemas: list[Schema] = []
    names: set[str] = set()
    for _ in range(_section_count(cursor, limits)):
        schema = read_schema(cursor)
        if schema.name in names:
            cursor.fail("BadSchema", f"type {schema.name!r} is declared twice")
        names.add(schema.name)
        schemas.append(schema)
        if cursor.position - start > limits.max_schema_bytes:
            raise LimitError("Limit", f"schemas take more than {limits.max_schema_bytes:,} bytes", cursor.where())
    return tuple(schemas)


def _section_count(cursor: Cursor, limits: Limits) -> int:
    count = cursor.varint()
    if count > limits.max_types:
        raise LimitError("Limit", f"{count:,} types declared, limit is {limits.max_types:,}", cursor.where())
    return count
