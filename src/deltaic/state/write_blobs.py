"""Blobs of a prepared version: headers and type sections in order, to the main stream and to optional parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError, NotFoundError
from deltaic.schema.types import Schema
from deltaic.state.write_type import PreparedType, TypeWriter
from deltaic.wire.append_write import EncodedSection
from deltaic.wire.write_header import Envelope, write_header, write_part_header
from deltaic.wire.write_sections import write_delta_section, write_snapshot_section
from deltaic.wire.write_stream import Output, Stream


@dataclass(frozen=True, slots=True)
class BlobPart:
    """An optional part of a blob: the stream it goes to and the types it holds."""

    stream: Stream
    types: frozenset[str]


@dataclass(frozen=True, slots=True)
class BlobTags:
    """What a blob's header says besides the model: where it leads from and to, and the tags of where it leads."""

    origin: int
    destination: int
    header: Mapping[str, str]


Types = Mapping[str, TypeWriter]
Parts = Mapping[str, BlobPart]

NO_PARTS: Parts = MappingProxyType({})
"""Everything in the main blob."""


def write_header_file(types: Types, tags: BlobTags, stream: Stream) -> None:
    """Write the header that a snapshot has, and nothing after it."""
    outputs = _Outputs(stream, NO_PARTS, types)
    outputs.write_headers([writer.schema for writer in types.values()], tags, Envelope())
    outputs.flush()


def write_snapshot(types: Types, tags: BlobTags, stream: Stream, parts: Parts, envelope: Envelope) -> None:
    """Write all records of all types."""
    outputs = _Outputs(stream, parts, types)
    outputs.write_headers([writer.schema for writer in types.values()], tags, envelope)
    for name, writer in types.items():
        prepared = prepared_type(writer)
        write_snapshot_section(
            outputs.of_type(name),
            writer.section(types, prepared.populated, reverse=False),
            prepared.populated.words,
            prepared.populated_words,
            envelope,
        )
    outputs.flush()


def write_delta(
    types: Types,
    tags: BlobTags,
    stream: Stream,
    parts: Parts,
    envelope: Envelope,
    *,
    reverse: bool,
    append: EncodedSection | None = None,
) -> None:
    """Write what changed in the types that changed, forwards or back; and an appended section, if there is one."""
    if append is not None:
        if envelope.header_extra or not envelope.schemas:
            raise InputError("an appended section needs the header's envelope for itself", "Envelope")
        envelope = replace(envelope, header_extra=append.envelope)
    outputs = _Outputs(stream, parts, types)
    changed = {name: writer for name, writer in types.items() if prepared_type(writer).changed}
    outputs.write_headers([writer.schema for writer in changed.values()], tags, envelope)
    for name, writer in changed.items():
        prepared = prepared_type(writer)
        before, after = prepared.previous, prepared.populated
        if reverse:
            before, after = after, before
        added = after.difference(before)
        write_delta_section(
            outputs.of_type(name),
            writer.section(types, added, reverse=reverse),
            before.difference(after).ordinals(),
            added.ordinals(),
            envelope,
        )
    if append is not None:
        outputs.write_after(append.pieces)
    outputs.flush()


def prepared_type(writer: TypeWriter) -> PreparedType:
    """A type as it will be written."""
    if writer.prepared is None:
        raise InputError(f"type {writer.schema.name} is not prepared for writing", "NotPrepared")
    return writer.prepared


class _Outputs:
    """The main stream and those of the parts."""

    def __init__(self, stream: Stream, parts: Parts, types: Types) -> None:
        self._main = Output(stream)
        self._parts = {part_name: Output(part.stream) for part_name, part in parts.items()}
        self._part_of: dict[str, str] = {}
        for part_name, part in parts.items():
            for name in part.types:
                if name not in types:
                    raise NotFoundError(f"part {part_name!r} holds type {name!r}, which is not in the model")
                if name in self._part_of:
                    raise InputError(f"type {name} is in part {self._part_of[name]!r} and in part {part_name!r}")
                self._part_of[name] = part_name

    def of_type(self, name: str) -> Output:
        part_name = self._part_of.get(name)
        return self._main if part_name is None else self._parts[part_name]

    def write_headers(self, schemas: Sequence[Schema], tags: BlobTags, envelope: Envelope) -> None:
        main = [schema for schema in schemas if schema.name not in self._part_of]
        write_header(
            self._main,
            main,
            tags.header,
            origin_tag=tags.origin,
            destination_tag=tags.destination,
            envelope=envelope,
        )
        for part_name, output in self._parts.items():
            mine = [schema for schema in schemas if self._part_of.get(schema.name) == part_name]
            write_part_header(
                output, part_name, mine, origin_tag=tags.origin, destination_tag=tags.destination, envelope=envelope
            )

    def write_after(self, pieces: Sequence[NDArray[np.uint8] | bytes]) -> None:
        """Write behind the last type of the main blob."""
        for piece in pieces:
            if isinstance(piece, bytes):
                self._main.raw(piece)
            else:
                self._main.array(piece)

    def flush(self) -> None:
        for output in (self._main, *self._parts.values()):
            output.flush()
