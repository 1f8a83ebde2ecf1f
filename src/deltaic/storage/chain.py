"""The blobs of a chain: their names, and which lead where (hollow-blob.md, "files, announcement, tags").

    snapshot-<version>              delta-<from>-<to>               reversedelta-<from>-<to>
    snapshot_<part>-<version>       delta_<part>-<from>-<to>        reversedelta_<part>-<from>-<to>
    header-<version>

A name that is none of these belongs to somebody else and is passed over.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from deltaic.storage.store import Store

_NAME = re.compile(r"(snapshot|delta|reversedelta|header)(?:_([^/]+?))?-(\d{1,19})(?:-(\d{1,19}))?")
MAX_VERSION = 2**63 - 1
"""The largest version; as a wanted version it means the latest."""


class BlobKind(StrEnum):
    """What a blob leads to. The value is the start of its name."""

    SNAPSHOT = "snapshot"
    DELTA = "delta"
    REVERSE_DELTA = "reversedelta"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class BlobName:
    """The name of one blob. `from_version` is None for snapshots and headers."""

    kind: BlobKind
    from_version: int | None
    to_version: int
    part: str | None = None

    @classmethod
    def snapshot(cls, version: int, part: str | None = None) -> "BlobName":
        """The snapshot of a version."""
        return cls(BlobKind.SNAPSHOT, None, version, part)

    @classmethod
    def delta(cls, from_version: int, to_version: int, part: str | None = None) -> "BlobName":
        """The delta between two versions: a reverse one if it leads to a smaller version."""
        kind = BlobKind.DELTA if from_version < to_version else BlobKind.REVERSE_DELTA
        return cls(kind, from_version, to_version, part)

    @classmethod
    def header(cls, version: int) -> "BlobName":
        """The header file of a version."""
        return cls(BlobKind.HEADER, None, version)

    @classmethod
    def parse(cls, name: str) -> "BlobName | None":
        """The blob of this name; None if it is no blob's name."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        kind, part, first, second = BlobKind(match[1]), match[2], int(match[3]), match[4]
        stepping = kind in (BlobKind.DELTA, BlobKind.REVERSE_DELTA)
        if stepping != (second is not None) or max(first, int(second or 0)) > MAX_VERSION:
            return None
        if second is None:
            return cls(kind, None, first, part)
        if (first < int(second)) != (kind is BlobKind.DELTA) or first == int(second):
            return None
        return cls(kind, first, int(second), part)

    @property
    def owner(self) -> int:
        """The version whose cycle wrote it, and which lists it: a reverse delta leads away from that version."""
        return max(self.to_version, self.from_version or 0)

    def __str__(self) -> str:
        part = f"_{self.part}" if self.part is not None else ""
        start = f"-{self.from_version}" if self.from_version is not None else ""
        return f"{self.kind}{part}{start}-{self.to_version}"


@dataclass(frozen=True, slots=True)
class Chain:
    """Which blobs there are. Parts and headers are beside the blobs they belong to and not counted."""

    snapshots: tuple[int, ...]
    """Versions that have a snapshot, rising."""
    deltas: Mapping[int, int] = field(default_factory=dict)
    """From a version to the next one."""
    reverse_deltas: Mapping[int, int] = field(default_factory=dict)
    """From a version to the one before."""

    @classmethod
    def of_names(cls, names: Iterable[str]) -> "Chain":
        """The chain that these files make. Of several deltas from one version that to the largest version counts."""
        snapshots: set[int] = set()
        deltas: dict[int, int] = {}
        reverse_deltas: dict[int, int] = {}
        for name in names:
            blob = BlobName.parse(name)
            if blob is None or blob.part is not None:
                continue
            if blob.kind is BlobKind.SNAPSHOT:
                snapshots.add(blob.to_version)
            elif blob.from_version is not None:
                steps = deltas if blob.kind is BlobKind.DELTA else reverse_deltas
                steps[blob.from_version] = max(steps.get(blob.from_version, -1), blob.to_version)
        return cls(tuple(sorted(snapshots)), deltas, reverse_deltas)

    @classmethod
    def read(cls, store: Store) -> "Chain":
        """The chain in a store's folder."""
        return cls.of_names(info.key for info in store.list() if "/" not in info.key)

    def versions(self) -> tuple[int, ...]:
        """Every version that some blob leads to or from, rising."""
        steps = {**self.deltas, **self.reverse_deltas}
        return tuple(sorted({*self.snapshots, *steps.keys(), *steps.values()}))

    def snapshot_at_or_before(self, version: int) -> int | None:
        """The newest snapshot that is not newer than a version."""
        found = [snapshot for snapshot in self.snapshots if snapshot <= version]
        return found[-1] if found else None
