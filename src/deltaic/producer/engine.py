"""Engines: who builds the blobs of a version, where the producer's own process does not.

A producer that is given an engine does everything else as ever: the lease, the version number, header tags, the
announcement, the report, and taking all of it back when something fails. It never holds a record.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from deltaic.limits import Limits
from deltaic.producer.attachments import StagedFile
from deltaic.producer.integrity import Integrity
from deltaic.producer.report import TypeChange
from deltaic.producer.stage import StagedBlob
from deltaic.producer.validators import ValidationResult, Validator
from deltaic.producer.vector_step import VectorChange
from deltaic.schema.model import Model
from deltaic.schema.types import Schema
from deltaic.state.append_write import CollectedAppend, SchemaAppend
from deltaic.state.read import ReadState
from deltaic.storage.chain import BlobKind, BlobName
from deltaic.storage.packing import Packing
from deltaic.vector.storage import VectorStorage
from deltaic.wire.write_header import Envelope, write_header
from deltaic.wire.write_stream import Output

__all__ = ["Base", "BlobPlan", "Engine", "Populated", "Rules", "StagedVectors", "header_bytes"]


@dataclass(frozen=True, slots=True)
class Base:
    """The version that a build starts from, and the blobs that lead to it."""

    version: int
    steps: tuple[BlobName, ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """How a producer wants its blobs."""

    model: Model
    target_shard_bytes: int | None
    allow_resharding: bool
    integrity: Integrity
    compression: Packing | None
    limits: Limits
    vectors: Mapping[tuple[str, str], VectorStorage] = field(default_factory=dict)
    """By type and field: how vector columns are stored."""


@dataclass(frozen=True, slots=True)
class Populated:
    """The records of the version are known, and so is the header of the version before."""

    changed: tuple[str, ...]
    """The types that a delta has, in the order of the model: other records, or another number of shards."""
    other_records: bool
    """True if a type has other records or vectors than in the version before. Shards alone deserve no version."""
    records: Mapping[str, int]
    """How many records each type has."""
    resharded: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The number of shards before and after, where it changes."""
    previous: ReadState | None = None
    """The version before: its tags and its schemas, without any record."""


@dataclass(frozen=True, slots=True)
class BlobPlan:
    """A blob to be staged: its name, and the header that it starts with."""

    name: BlobName
    header: bytes


@dataclass(frozen=True, slots=True)
class StagedVectors:
    """The vector parts in the staging folder of a cycle, and what became of the vectors."""

    files: tuple[StagedFile, ...] = ()
    changes: Mapping[tuple[str, str], VectorChange] = field(default_factory=dict)


class Engine(Protocol):
    """Builds versions. The methods are called in this order, `close` at the end of every cycle."""

    def populate(self, base: Base | None, rules: Rules) -> Populated:
        """Number the records of the version."""
        ...

    def append(self, options: SchemaAppend) -> CollectedAppend:
        """Collect the new fields of records that stayed, for the delta; the section itself stays with the engine."""
        ...

    def stage(self, cycle_id: str, blobs: Mapping[BlobKind, BlobPlan]) -> Mapping[BlobKind, StagedBlob]:
        """Write the blobs into the staging folder of the cycle."""
        ...

    def stage_vectors(
        self, cycle_id: str, staged: Mapping[BlobKind, StagedBlob], published: Sequence[BlobKind]
    ) -> StagedVectors:
        """Write the vector parts of staged blobs beside them, for the kinds that are published, and compare them.

        Raises:
            ChecksumError: the parts do not lead to one state.
            InputError: two records have one key and different vectors.
        """
        ...

    def check(self, staged: Mapping[BlobKind, StagedBlob], tag: int) -> Mapping[str, TypeChange]:
        """Read the staged blobs back and compare them; says what changed.

        Raises:
            ChecksumError: the blobs do not lead to one state.
        """
        ...

    def validate(
        self, version: int, staged: Mapping[BlobKind, StagedBlob], validators: Sequence[Validator]
    ) -> tuple[ValidationResult, ...]:
        """Have the validators judge the staged version.

        Raises:
            ValidationError: one of them refuses it.
        """
        ...

    def close(self) -> None:
        """Let go of everything that is not staged."""
        ...


def header_bytes(
    schemas: Iterable[Schema], tags: Mapping[str, str], origin: int, destination: int, extra: bytes = b""
) -> bytes:
    """The header of a blob; `extra` goes into its envelope."""
    made = io.BytesIO()
    output = Output(made)
    envelope = Envelope(header_extra=extra)
    write_header(output, tuple(schemas), tags, origin_tag=origin, destination_tag=destination, envelope=envelope)
    output.flush()
    return made.getvalue()
