"""The versions of a table: open the newest, one by number, by time or by tag, and plan what to read of it.

The part of `Table` that never writes; `operations` commits on top of it.
"""

import random as random_module
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltaic.errors import InputError, NotFoundError
from deltaic.storage import Store, open_store
from deltaic.table.actions import AddFile, SkipFile
from deltaic.table.log import Log
from deltaic.table.manifest import CACHE, ManifestCache
from deltaic.table.predicate import Predicate
from deltaic.table.prune import Plan, plan
from deltaic.table.settings import Settings
from deltaic.table.snapshot import Snapshot, is_absolute

if TYPE_CHECKING:
    from deltaic.table.history import Entry, FileChanges


class TableVersions:
    """A table as far as reading goes: which files belong to it, at which version, with which statistics."""

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings | None = None,
        cache: ManifestCache = CACHE,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        random: random_module.Random | None = None,
    ) -> None:
        self.store = store
        self._given = settings or Settings()
        self._cache, self._clock, self._sleep = cache, clock, sleep
        self._random = random or random_module.Random()
        self.log = Log(store, self._given, cache=cache)
        self._last: Snapshot | None = None
        self._handed_out: set[str] = set()

    def __repr__(self) -> str:
        return f"Table({self.store.url!r})"

    @property
    def url(self) -> str:
        """Where the table is."""
        return self.store.url

    @property
    def settings(self) -> Settings:
        """The settings in effect: given ones, then those that the table carries."""
        return self._given.over((self._last or self.snapshot()).metadata.configuration)

    def snapshot(self) -> Snapshot:
        """The newest version."""
        last = self._last
        found = self.log.snapshot() if last is None else self.log.newer(last)
        self._last = found
        return found

    @property
    def version(self) -> int:
        """The number of the newest version."""
        return self.snapshot().version

    def at(
        self, *, version: int | None = None, timestamp: datetime | str | None = None, tag: str | None = None
    ) -> Snapshot:
        """The table at a version, at a time, or at a tag; the newest without any."""
        if sum(one is not None for one in (version, timestamp, tag)) > 1:
            raise InputError("a version, a timestamp or a tag: one of them")
        if tag is not None:
            tags = self.snapshot().tags
            if tag not in tags:
                raise NotFoundError(f"there is no tag {tag!r}; there are {', '.join(sorted(tags)) or 'none'}")
            version = tags[tag]
        if timestamp is not None:
            from deltaic.table.history import version_at

            version = version_at(self.log, _timestamp_ms(timestamp))
        return self.snapshot() if version is None else self.log.snapshot(version)

    def versions(self) -> tuple[int, ...]:
        """The versions that can be read."""
        from deltaic.table.retention import readable_versions

        return readable_versions(self.log)

    def plan(self, predicate: Predicate | None = None, *, snapshot: Snapshot | None = None) -> Plan:
        """The files that may hold rows for which a predicate is true, and how they were found."""
        return plan(snapshot or self.snapshot(), predicate, self.settings)

    def files(self, predicate: Predicate | None = None) -> list[AddFile]:
        """The files of the newest version, those that may match a predicate."""
        return self.plan(predicate).files()

    def locate(self, path: str) -> tuple[Store, str]:
        """The store and key of a file of the table."""
        if not is_absolute(path):
            return self.store, path
        if not self._given.allow_absolute_paths:
            raise InputError(
                f"{ascii(path)[:120]} lies outside of the table; allow_absolute_paths follows it", "UnsafeName"
            )
        folder, _, name = path.rpartition("/")
        return open_store(folder or "/"), name

    def history(self, *, limit: int | None = None) -> "Iterator[Entry]":
        """The versions, newest first."""
        from deltaic.table.history import history

        return history(self.log, limit=limit)

    def changes(self, from_version: int, to_version: int | None = None) -> "Iterator[FileChanges]":
        """The files that each version after one added and removed."""
        from deltaic.table.history import changes

        return changes(self.log, from_version, self.version if to_version is None else to_version)

    def skips(self) -> dict[str, list[SkipFile]]:
        """The skips of live files that version files still tell of."""
        live = set(self.snapshot().paths())
        found: dict[str, list[SkipFile]] = {}
        for version in sorted(self.log.listing().versions):
            version_file = self.log.read_version(version)
            for skip in version_file.skips if version_file is not None else ():
                if skip.path in live:
                    found.setdefault(skip.path, []).append(skip)
        return found

    def cooling(self, now_ms: int | None = None) -> frozenset[str]:
        """The files that a skip keeps out of merges now."""
        now = self._now_ms() if now_ms is None else now_ms
        return frozenset(
            path for path, skips in self.skips().items() if any((skip.retry_after_ms or 0) > now for skip in skips)
        )

    def new_path(self, partition: Mapping[str, Any] | None = None) -> tuple[str, dict[str, str | None]]:
        """A fresh path for a file of some partition values, and their texts for its add action."""
        from deltaic.table.partitions import partition_folder, partition_texts

        snapshot = self._last or self.snapshot()
        columns = snapshot.metadata.partition_columns
        values = partition_texts(partition or {}, columns, snapshot.types)
        identity = self._new_identity()
        name = f"splits/split-{identity}.split" if self.settings.literal else f"part-{identity}.split"
        folder = partition_folder(values, columns)
        path = f"{folder}/{name}" if folder else name
        self._handed_out.add(path)
        return path, values

    def _new_identity(self) -> str:
        import uuid

        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _timestamp_ms(timestamp: datetime | str) -> int:
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except ValueError:
            raise InputError(f"{timestamp!r} is no time; write 2024-01-31T12:00:00+00:00") from None
    if timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=UTC)
    return int(timestamp.timestamp() * 1000)
