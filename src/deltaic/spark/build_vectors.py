"""Vectors on their way through the tasks: collected with the rows, put in order once the records have their ordinals.

A task that flattens rows leaves their vectors beside the records, by its own ordinals. When all records are numbered,
one task has the embedded producer's own code put them where they belong, compare them with those of the version before,
and write the vector parts beside the staged blobs. A column is something that every consumer holds in memory, so a task
can too.
"""

from dataclasses import dataclass
from typing import ClassVar

import msgspec

from deltaic.limits import Limits
from deltaic.producer.integrity import Integrity
from deltaic.producer.stage import StagedBlob
from deltaic.producer.vector_given import GivenVectors
from deltaic.producer.vector_parts import check_parts, encode_parts
from deltaic.producer.vector_step import VectorKeeper
from deltaic.schema.model import Model
from deltaic.spark.build_check import key_closure
from deltaic.spark.build_restore import load_types
from deltaic.spark.build_scratch import Place, Scratch, open_place
from deltaic.spark.build_translate import Numbered
from deltaic.spark.build_vector_rows import LocalVectors
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.storage.announced import Artifact
from deltaic.storage.chain import BlobKind, BlobName
from deltaic.storage.store import Store
from deltaic.vector.storage import VectorStorage
from deltaic.wire.append import AppendMode

ColumnKey = tuple[str, str]


@dataclass(frozen=True)
class VectorInput:
    """Where the vectors of a version are, and how they are to be stored."""

    model: Model
    storages: tuple[tuple[ColumnKey, VectorStorage], ...]
    given: tuple[tuple[Numbered, tuple[LocalVectors, ...]], ...]
    """By task and type: what became of its records, and the vectors of those."""
    chain: Place
    steps: tuple[BlobName, ...]
    """What leads to the version before; none if there is none."""
    limits: Limits
    scratch: Scratch

    @property
    def weight(self) -> int:
        """Bytes to read."""
        return sum(each.matrix.nbytes for _, listed in self.given for each in listed)

    @property
    def types(self) -> tuple[str, ...]:
        """The types that have vectors, and those that their keys lead through."""
        schemas = self.model.schemas
        names = (name for column in self.model.vectors for name in key_closure(schemas, column.type_name))
        return tuple(dict.fromkeys(names))

    def previous(self, store: Store) -> ReadState | None:
        """These types of the version before, with their vectors."""
        if not self.steps:
            return None
        return load_types(store, self.steps, self.types, self.limits, vectors=True)[0]

    def vectors(self, previous: ReadState | None) -> GivenVectors:
        """All vectors that were given, held against those before."""
        before = {} if previous is None else previous.vectors
        found = GivenVectors(self.model.vectors, dict(self.storages), before)
        columns = {(column.type_name, column.field_name): column for column in self.model.vectors}
        for numbered, listed in self.given:
            leads = numbered.ordinals(self.scratch)
            for each in listed:
                column = columns[each.type_name, each.field_name]
                found.take(
                    column,
                    leads[self.scratch.read(each.ordinals)],
                    self.scratch.read(each.matrix).reshape(-1, column.dimensions),
                    None if each.valid is None else self.scratch.read(each.valid),
                )
        return found


class Compared(msgspec.Struct, frozen=True, array_like=True):
    """Whether the vectors alone deserve a version."""

    differ: bool


@dataclass(frozen=True)
class CompareVectors:
    """Compare the vectors of a version with those of the one before."""

    Result: ClassVar[type] = Compared

    input: VectorInput

    @property
    def weight(self) -> int:
        """Bytes to read."""
        return self.input.weight

    def run(self) -> Compared:
        """Do it."""
        return Compared(self.input.vectors(self.input.previous(open_place(self.input.chain))).differ)


class StagedParts(msgspec.Struct, frozen=True, array_like=True):
    """The vector parts in the staging folder."""

    files: list[tuple[str, Artifact]]
    """Where each one is, and what the announcement says of it."""
    changes: list[tuple[str, str, int, int, int, int, int]]
    """By type and field: vectors, added, removed, moved, changed."""


@dataclass(frozen=True)
class StageVectors:
    """Write the vector parts of staged blobs beside them, read them back and compare."""

    Result: ClassVar[type] = StagedParts

    input: VectorInput
    cycle_id: str
    staged: tuple[tuple[BlobKind, StagedBlob], ...]
    published: tuple[BlobKind, ...]
    """The kinds of blob that get a part."""
    level: Integrity

    @property
    def weight(self) -> int:
        """Bytes to read."""
        return self.input.weight

    def run(self) -> StagedParts:
        """Do it."""
        store, staged = open_place(self.input.chain), dict(self.staged)
        previous = self.input.previous(store)
        state = self._state(store, staged, previous)
        given = self.input.vectors(previous)
        step = VectorKeeper(self.input.model).step(given, previous, state)
        names = [staged[kind].name for kind in self.published if kind in staged]
        parts = encode_parts(names, step, previous, state, dict(self.input.storages))
        files = {kind: part.stage(store, self.cycle_id) for kind, part in parts.items()}
        check_parts(store, files, step, previous, state, level=self.level, limits=self.input.limits)
        for part in parts.values():
            part.close()
        return StagedParts(
            [(file.key, file.artifact) for file in files.values()],
            [
                (*key, change.vectors, change.added, change.removed, change.moved, change.changed)
                for key, change in step.changes.items()
            ],
        )

    def _state(self, store: Store, staged: dict[BlobKind, StagedBlob], previous: ReadState | None) -> ReadState:
        limits = self.input.limits
        if previous is not None:
            with staged[BlobKind.DELTA].read_back(store) as source:
                return previous.apply(source, limits=limits, schema_append=AppendMode.FULL)
        with staged[BlobKind.SNAPSHOT].read_back(store) as source:
            return ReadState.load(source, filter=Filter.only(*self.input.types), limits=limits)
