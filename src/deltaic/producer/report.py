"""What a cycle did: the version, what changed per type, bytes and seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltaic.producer.append import Appended
from deltaic.producer.steps import Step
from deltaic.producer.validators import ValidationResult
from deltaic.producer.vector_step import VectorChange
from deltaic.storage.announced import Artifact


@dataclass(frozen=True, slots=True)
class TypeChange:
    """How many records of a type there are, and how many came and went."""

    records: int
    added: int = 0
    removed: int = 0
    modified: int = 0
    """Of types with a primary key: keys that were removed and added again with other content. Such a record counts
    here and neither under `added` nor under `removed`."""

    @property
    def changed(self) -> bool:
        """True if anything came or went."""
        return bool(self.added or self.removed or self.modified)


@dataclass(frozen=True, slots=True)
class Cycle:
    """The report of a cycle. `version` is None if nothing had changed and no version was made."""

    version: int | None
    from_version: int | None
    types: Mapping[str, TypeChange] = field(default_factory=dict)
    artifacts: tuple[Artifact, ...] = ()
    seconds: Mapping[Step, float] = field(default_factory=dict)
    validations: tuple[ValidationResult, ...] = ()
    snapshot_pending: bool = False
    """True if the snapshot follows in the background."""
    java_sees_it: bool = True
    """False if the bare number for Hollow could not be written: Java consumers follow with the next operation."""
    note: str | None = None
    appended: Appended | None = None
    """New fields that the delta carries for records that did not change."""
    vectors: Mapping[tuple[str, str], VectorChange] = field(default_factory=dict)
    """What became of the vectors, by type and field."""

    @property
    def published(self) -> bool:
        """True if the cycle made a version."""
        return self.version is not None

    @property
    def size_bytes(self) -> int:
        """Bytes of all blobs of the version."""
        return sum(artifact.size for artifact in self.artifacts)

    @property
    def total_seconds(self) -> float:
        """Seconds of all steps."""
        return sum(self.seconds.values())

    def __str__(self) -> str:
        if self.version is None:
            return f"nothing changed since version {self.from_version}"
        changed = ", ".join(
            f"{name} +{change.added} -{change.removed} ~{change.modified}"
            for name, change in self.types.items()
            if change.changed
        )
        vectors = "".join(
            f", {'.'.join(key)} +{change.added} -{change.removed} ~{change.changed}"
            for key, change in self.vectors.items()
            if change.added or change.removed or change.changed
        )
        return f"version {self.version}: {changed or 'no records'}{vectors}, {self.size_bytes:,} bytes"
