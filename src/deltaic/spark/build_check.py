"""Check: the staged blobs are read back inside tasks, type by type, by the same code as in the embedded producer.

Validators see a whole version, so one task loads it for them: whoever consumes the version has that much memory too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from deltaic.errors import ChecksumError, ValidationError
from deltaic.limits import Limits
from deltaic.producer.attachments import StagedFile
from deltaic.producer.diff import type_changes
from deltaic.producer.engine import Base
from deltaic.producer.integrity import Integrity, ReadableBlob, check_integrity
from deltaic.producer.stage import StagedBlob
from deltaic.producer.validate import validate
from deltaic.producer.validators import Candidate, Validator
from deltaic.producer.vector_parts import read_back
from deltaic.schema.model import Model
from deltaic.schema.paths import resolve_path
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import ObjectSchema
from deltaic.spark.build_restore import load_types
from deltaic.spark.build_scratch import Part, Place, Scratch, open_place
from deltaic.state.bitset import OrdinalSet
from deltaic.state.columns import FixedColumn
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.storage.chain import BlobKind
from deltaic.vector.attach import with_vectors
from deltaic.vector.names import part_name
from deltaic.wire.append import AppendMode
from deltaic.wire.tag_order import TagMap


class Checked(msgspec.Struct, frozen=True, array_like=True):
    """What changed in a type: records, added, removed, modified."""

    records: int
    added: int
    removed: int
    modified: int


@dataclass(frozen=True)
class CheckType:
    """Compare what the staged blobs say of one type."""

    Result: ClassVar[type] = Checked

    chain: Place
    staged: tuple[tuple[BlobKind, StagedBlob], ...]
    base: Base | None
    model: Model
    type_name: str
    level: Integrity
    tag: int
    populated: tuple[tuple[str, Part], ...]
    max_ordinals: tuple[tuple[str, int], ...]
    limits: Limits
    scratch: Scratch
    weight: int

    def run(self) -> Checked:
        """Do it."""
        store = open_place(self.chain)
        names = key_closure(self.model.schemas, self.type_name)
        blobs: dict[BlobKind, ReadableBlob] = dict(self.staged)
        previous = None
        if self.base is not None:
            previous, _ = load_types(store, self.base.steps, names, self.limits)
        written = _Written(self.model.schemas, self.tag, dict(self.populated), self.scratch)
        state = check_integrity(
            store, blobs, previous, written, level=self.level, limits=self.limits, filter=Filter.only(*names)
        )
        if self.level != "off":
            self._check_references(state)
        change = type_changes(self.model, previous, state)[self.type_name]
        return Checked(change.records, change.added, change.removed, change.modified)

    def _check_references(self, state: ReadState) -> None:
        """What a loader that has all types checks: that no reference leads past the last record of its type."""
        view = state[self.type_name]
        ordinals = view.populated.ordinals()
        highest: list[tuple[str, int]] = []
        if isinstance(view.schema, ObjectSchema):
            for field in view.schema.fields:
                if field.referenced is not None:
                    column = view.column(field.name, ordinals)
                    assert isinstance(column, FixedColumn)
                    values = column.values if column.valid is None else column.values[column.valid]
                    highest.append((field.referenced, int(values.max(initial=-1))))
        else:
            members, targets = view.members(ordinals), view.schema.references()
            highest.append((targets[0], int(members.elements.max(initial=-1))))
            if members.values is not None:
                highest.append((targets[-1], int(members.values.max(initial=-1))))
        limits = dict(self.max_ordinals)
        for target, ordinal in highest:
            if ordinal > limits.get(target, ordinal):
                reason = f"{self.type_name} refers to ordinal {ordinal:,} of {target}, whose last is {limits[target]:,}"
                raise ChecksumError("Integrity", reason, "the staged blobs")


class _Written:
    """What was counted as populated while the version was built."""

    def __init__(self, schemas: SchemaSet, tag: int, populated: Mapping[str, Part], scratch: Scratch) -> None:
        self.schemas, self.header_tags = schemas, TagMap()
        self._tag, self._populated, self._scratch = tag, populated, scratch

    @property
    def tag(self) -> int:
        return self._tag

    def populated(self, type_name: str, /) -> OrdinalSet:
        return OrdinalSet.from_words(self._scratch.read(self._populated[type_name]))


class Validated(msgspec.Struct, frozen=True, array_like=True):
    """What validators found: name, verdict, message, details."""

    results: list[tuple[str, bool, str, dict[str, str]]]
    refused: str | None


@dataclass(frozen=True)
class Validate:
    """Load the version, and the one before, and have validators judge it."""

    Result: ClassVar[type] = Validated

    chain: Place
    staged: tuple[tuple[BlobKind, StagedBlob], ...]
    base: Base | None
    model: Model
    version: int
    validators: tuple[Validator, ...]
    limits: Limits
    parts: tuple[StagedFile, ...] = ()
    """The vector parts."""
    weight: int = 0

    def run(self) -> Validated:
        """Do it."""
        store, staged = open_place(self.chain), dict(self.staged)
        previous: ReadState | None = None
        if self.base is not None:
            previous, _ = load_types(store, self.base.steps, None, self.limits, vectors=True)
        # Where a snapshot is only compared, it has no vector part.
        whole = BlobKind.SNAPSHOT in staged and (previous is None or not self.parts)
        if whole:
            with staged[BlobKind.SNAPSHOT].read_back(store) as source:
                state = ReadState.load(source, limits=self.limits)
        else:
            assert previous is not None
            with staged[BlobKind.DELTA].read_back(store) as source:
                state = previous.apply(source, limits=self.limits, schema_append=AppendMode.FULL)
        name = part_name(staged[BlobKind.SNAPSHOT if whole else BlobKind.DELTA].name)
        for file in self.parts:
            if file.name == name:
                with read_back(store, file) as data:
                    state = with_vectors(state, None if whole else previous, data, limits=self.limits, name=name)
        try:
            results = validate(Candidate(self.version, state, previous, self.model), self.validators)
        except ValidationError as error:
            return Validated([], str(error))
        return Validated([(each.validator, each.passed, each.message, dict(each.details)) for each in results], None)


def key_closure(schemas: SchemaSet, type_name: str) -> tuple[str, ...]:
    """A type, and the types that its primary key leads through."""
    schema: Any = schemas[type_name]
    names = {type_name: None}
    if isinstance(schema, ObjectSchema):
        for path in schema.primary_key or ():
            names.update((step.type_name, None) for step in resolve_path(schemas, type_name, path).steps)
    return tuple(names)
