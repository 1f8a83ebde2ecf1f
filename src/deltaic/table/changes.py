"""What a commit wants to change, and what it read to know that."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from deltaic.table.actions import AddFile, Protocol, RemoveFile, SkipFile
from deltaic.table.predicate import Predicate


class Isolation(StrEnum):
    """How much a commit may be overtaken."""

    SERIALIZABLE = "serializable"
    """What was read must still be so."""
    SNAPSHOT = "snapshot"
    """Only what is written must not meet."""


class Everything:
    """The whole table was read."""

    def __repr__(self) -> str:
        return "EVERYTHING"


EVERYTHING: Final = Everything()


class Changes(msgspec.Struct, frozen=True):
    """What one commit wants to change, and what it read to know that."""

    operation: str
    adds: tuple[AddFile, ...] = ()
    removes: tuple[RemoveFile, ...] = ()
    skips: tuple[SkipFile, ...] = ()
    configuration: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    """Keys to set, or to remove where the value is None."""
    schema_string: str | None = None
    partition_columns: tuple[str, ...] | None = None
    name: str | None = None
    description: str | None = None
    protocol: Protocol | None = None
    reads: Predicate | Everything | None = None

    @property
    def touches_metadata(self) -> bool:
        """Whether a metaData action is needed for more than notes."""
        changed = (self.schema_string, self.partition_columns, self.name, self.description)
        return bool(self.configuration) or any(value is not None for value in changed)
