"""Headers of blobs and of optional parts, written (hollow-blob.md, "headers")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltaic.errors import InputError
from deltaic.limits import MAX_FIELDS
from deltaic.schema.binary import write_schema
from deltaic.schema.types import Schema
from deltaic.wire.header import BLOB_VERSION, PART_VERSION
from deltaic.wire.write_stream import Output, varint


@dataclass(frozen=True, slots=True)
class Envelope:
    """The compatibility envelopes: what a blob carries for readers of another age.

    `schemas` off leaves the schema list out of the header, `shard_counts` off leaves the counts out of type sections
    (all types must then have one shard): both as very old writers did. The `..._extra` bytes are for readers to skip.
    """

    schemas: bool = True
    shard_counts: bool = True
    header_extra: bytes = b""
    section_extra: bytes = b""
    part_extra: bytes = b""


def write_header(
    output: Output,
    schemas: Sequence[Schema],
    tags: Mapping[str, str],
    *,
    origin_tag: int,
    destination_tag: int,
    envelope: Envelope | None = None,
) -> None:
    """Write the header of a snapshot, delta, reverse delta or header file."""
    envelope = envelope or Envelope()
    if len(tags) > MAX_FIELDS:
        raise InputError(f"{len(tags):,} header tags, at most {MAX_FIELDS:,} can be written", "TooMany")
    output.int32(BLOB_VERSION)
    output.int64(origin_tag)
    output.int64(destination_tag)
    if envelope.schemas:
        listed = _schema_list(schemas)
        # Readers only test this length for zero.
        output.varint(len(listed) + len(varint(len(envelope.header_extra))) + len(envelope.header_extra))
        output.raw(listed)
        output.varint(len(envelope.header_extra))
        output.raw(envelope.header_extra)
    else:
        output.varint(0)
    output.int16(len(tags))
    for key, value in tags.items():
        output.utf(key)
        output.utf(value)
    output.varint(len(schemas))


def write_part_header(
    output: Output,
    part: str,
    schemas: Sequence[Schema],
    *,
    origin_tag: int,
    destination_tag: int,
    envelope: Envelope | None = None,
) -> None:
    """Write the header of an optional part."""
    envelope = envelope or Envelope()
    output.int32(PART_VERSION)
    output.utf(part)
    output.int64(origin_tag)
    output.int64(destination_tag)
    output.raw(_schema_list(schemas))
    output.varint(len(envelope.part_extra))
    output.raw(envelope.part_extra)
    output.varint(len(schemas))


def _schema_list(schemas: Sequence[Schema]) -> bytes:
    return varint(len(schemas)) + b"".join(write_schema(schema) for schema in schemas)
