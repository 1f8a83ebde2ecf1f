"""How far a companion is behind its source."""

from dataclasses import asdict, dataclass
from typing import Any

from deltaic.table.search.result import SearchExplain


@dataclass(frozen=True, slots=True)
class Status:
    """What a companion has indexed, and what a refresh would do."""

    url: str
    source: str
    kind: str
    version: int
    """Of the companion."""
    indexed_version: int | None
    """The Delta version that the newest refresh saw."""
    source_version: int | None
    """The Delta version that there is now."""
    splits: int
    rows: int
    files: int
    """Source files that are indexed."""
    index_bytes: int
    source_bytes: int
    new: tuple[str, ...]
    """Source files that are not indexed yet."""
    changed: tuple[str, ...]
    """Those that were replaced since: rows found in them cannot be given back."""
    gone: tuple[str, ...]
    """Those that are not part of the source any more."""

    @property
    def stale(self) -> bool:
        """Whether a refresh would change anything."""
        return bool(self.new or self.changed or self.gone)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {**found, "stale": self.stale}

    def __str__(self) -> str:
        if not self.stale:
            return f"{self.url}: {self.files} files of {self.source} are indexed, as they are now"
        behind = f"{len(self.new)} new, {len(self.changed)} changed, {len(self.gone)} gone"
        return f"{self.url}: {self.files} files of {self.source} are indexed; since then {behind}: refresh"


@dataclass(frozen=True, slots=True)
class CompanionExplain:
    """How a search was answered, and how old the answer is."""

    search: SearchExplain
    status: Status

    def __str__(self) -> str:
        return f"{self.search}\n{self.status}"
