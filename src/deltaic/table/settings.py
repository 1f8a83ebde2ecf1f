"""Every setting of a table's log, with the names of the protocol text and our own.

`Settings.of({"spark.indextables.state.compression": "snappy", "retry_max_attempts": "20"})` takes both spellings, with
or without the prefix `spark.indextables.`, values as text or as what they are. A table may carry settings of its own in
`metaData.configuration`; what a caller gives wins over those.
"""

import dataclasses
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltaic.errors import InputError

log = logging.getLogger("deltaic.table")

PREFIX = "spark.indextables."
"""What the keys of the protocol text start with; it may be left out."""

MAX_INT = 2**31 - 1

PROTOCOL_NAMES: Mapping[str, str] = {
    "checkpoint.enabled": "checkpoint_enabled",
    "checkpoint.interval": "checkpoint_interval",
    "checkpoint.actionsPerPart": "actions_per_part",
    "transaction.compression.enabled": "compress_versions",
    "transaction.retry.maxAttempts": "retry_max_attempts",
    "transaction.retry.baseDelayMs": "retry_base_delay_ms",
    "transaction.retry.maxDelayMs": "retry_max_delay_ms",
    "state.retry.maxAttempts": "retry_max_attempts",
    "state.retry.baseDelayMs": "retry_base_delay_ms",
    "state.retry.maxDelayMs": "retry_max_delay_ms",
    "state.format": "state_format",
    "state.compression": "state_compression",
    "state.compressionLevel": "state_compression_level",
    "state.entriesPerManifest": "entries_per_manifest",
    "state.read.parallelism": "read_parallelism",
    "state.schema.renormalizeThreshold": "renormalize_threshold",
    "state.compaction.tombstoneThreshold": "tombstone_threshold",
    "state.compaction.maxManifests": "max_manifests",
    "state.compaction.largeRemoveThreshold": "large_remove_threshold",
    "state.compaction.afterMerge": "compact_after_merge",
    "state.retention.versions": "retained_states",
    "state.retention.hours": "state_retention_hours",
    "state.gc.minManifestAgeHours": "min_manifest_age_hours",
    "purge.txLogRetentionHours": "log_retention_hours",
    "purge.defaultRetentionHours": "file_retention_hours",
    "stats.truncation.maxLength": "statistics_length",
    "dataSkippingStatsColumns": "statistics_columns",
    "dataSkippingNumIndexedCols": "statistics_column_count",
}
"""The keys of the protocol text, without their prefix, and the settings they are here."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a table's log is written, retried and cleaned."""

    form: str = "interoperable"
    """`interoperable`, or `literal`: the bytes of the protocol text, `_manifest.json` and all."""
    checkpoint_enabled: bool = True
    checkpoint_interval: int = 10
    """Versions between two JSON checkpoints. An Avro state follows every commit: readers of the first generations see
    a commit only through it."""
    actions_per_part: int = 100_000
    """A JSON checkpoint with more actions is written in parts."""
    compress_versions: bool = True
    retry_max_attempts: int = 10
    retry_base_delay_ms: int = 100
    retry_max_delay_ms: int = 5_000
    state_format: str = "avro"
    """`avro` or `json`."""
    state_compression: str = "zstd"
    """`zstd`, `snappy`, `deflate` or `none`."""
    state_compression_level: int = 3
    entries_per_manifest: int = 50_000
    read_parallelism: int = 8
    renormalize_threshold: int = 5
    """Schemas are hashed afresh by a checkpoint when more than this many different ones are referred to."""
    tombstone_threshold: float = 0.10
    max_manifests: int = 20
    large_remove_threshold: int = MAX_INT
    compact_after_merge: bool = True
    retained_states: int = 2
    state_retention_hours: float = 168.0
    log_retention_hours: float = 720.0
    file_retention_hours: float = 168.0
    min_file_retention_hours: float = 24.0
    """A shorter retention of files is refused unless this is lowered: a slow writer's files have no version yet."""
    min_manifest_age_hours: float = 1.0
    clock_skew_hours: float = 1.0
    """By how much the clocks of writers, store and cleaner may differ: added to every age before a thing is deleted."""
    statistics_length: int = 32
    """Characters of a text that statistics keep."""
    statistics_columns: tuple[str, ...] = ()
    """The columns to keep statistics of; empty takes the first `statistics_column_count` that can have them."""
    statistics_column_count: int = 32
    """-1 is all, 0 none."""
    time_zone: str | None = None
    """The zone of filters' times without one; without it they skip no file by a timestamp's statistics."""
    allow_absolute_paths: bool = False
    """Follow absolute paths of add actions, which lead out of the table's folder."""
    given: frozenset[str] = dataclasses.field(default=frozenset(), repr=False, compare=False)
    """The names that a caller gave, so that they win over a table's own even where they are the defaults."""

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} is {getattr(self, name)!r}: one of {', '.join(allowed)}", "BadSetting")
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}: at least {least}", "BadSetting")

    @classmethod
    def of(cls, options: Mapping[str, object], *, base: "Settings | None" = None) -> "Settings":
        """Settings from options by either name; unknown names are refused."""
        values = {name: _convert(name, value) for name, value in _named(options, strict=True).items()}
        given = base or cls()
        return dataclasses.replace(given, **values, given=given.given | values.keys())

    def over(self, configuration: Mapping[str, str], *, strict: bool = False) -> "Settings":
        """These settings, and for those that nobody gave what a table's configuration says.

        Args:
            configuration: of the table.
            strict: refuse values that are none. Without it they are passed over with a warning: a table of another
                writer must stay readable whatever it carries.
        """
        found = self
        for name, value in _named(configuration, strict=False).items():
            if name in self.given or getattr(self, name) != _FIELDS[name].default:
                continue
            try:
                found = dataclasses.replace(found, **{name: _convert(name, value)})
            except InputError as error:
                if strict:
                    raise
                log.warning("a setting that the table carries is passed over: %s", error)
        return found

    @property
    def literal(self) -> bool:
        """True for the form of the protocol text."""
        return self.form == "literal"


FORM_KEY = "deltaic.form"
"""Where a table's configuration says which form it is written in."""

_CHOICES = {
    "form": ("interoperable", "literal"),
    "state_format": ("avro", "json"),
    "state_compression": ("zstd", "snappy", "deflate", "none"),
}
_LEAST = {
    "retry_max_attempts": 1,
    "retry_base_delay_ms": 0,
    "retry_max_delay_ms": 0,
    "entries_per_manifest": 1,
    "actions_per_part": 1,
    "read_parallelism": 1,
    "max_manifests": 1,
    "retained_states": 1,
    "statistics_length": 1,
    "statistics_column_count": -1,
    "checkpoint_interval": 1,
    "log_retention_hours": 0,
    "file_retention_hours": 0,
    "state_retention_hours": 0,
    "min_manifest_age_hours": 0,
    "clock_skew_hours": 0,
}
_FIELDS = {field.name: field for field in dataclasses.fields(Settings)}


def _named(options: Mapping[str, Any], *, strict: bool) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in options.items():
        name = PROTOCOL_NAMES.get(key.removeprefix(PREFIX))
        if key == FORM_KEY:
            name = "form"
        elif name is None and strict and key in _FIELDS and key != "given":
            name = key
        if name is not None:
            found[name] = value
        elif strict:
            raise InputError(f"there is no setting {key!r}", "BadSetting")
    return found


def _convert(name: str, value: object) -> Any:
    default = _FIELDS[name].default
    try:
        if isinstance(default, bool):
            return value if isinstance(value, bool) else _BOOLEANS[str(value).strip().lower()]
        if isinstance(default, int):
            return int(str(value))
        if isinstance(default, float):
            return float(str(value))
        if isinstance(default, tuple):
            parts = str(value).split(",") if isinstance(value, str) else list(value)  # type: ignore[call-overload]
            return tuple(part.strip() for part in parts if part.strip())
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{name} cannot be {value!r}", "BadSetting") from None
    return value if value is None else str(value)


_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
