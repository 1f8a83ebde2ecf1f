"""Which blobs a consumer may use to reach a version, and what was announced of each.

In a chain with `announced.json` a blob counts if a version that was announced lists it, and the version it leads to
was not withdrawn; a file that merely lies there, left by a producer that failed, is not looked at. Versions that left
the list are asked for one by one, and only when the listed ones do not lead to the wanted version. A chain with the
bare number only, a Java producer's, is what its folder holds, and nothing can be checked.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from deltaic.consumer.plan import Plan
from deltaic.consumer.vector_parts import step_checksum
from deltaic.errors import NotFoundError
from deltaic.storage.announced import (
    MAX_RECORD_BYTES,
    AnnouncedVersion,
    Artifact,
    Record,
    decode_version,
    version_name,
)
from deltaic.storage.announcement import Announcement
from deltaic.storage.backoff import Backoff
from deltaic.storage.chain import BlobKind, BlobName, Chain
from deltaic.storage.store import Store
from deltaic.vector.names import part_name

Planner = Callable[[Chain], Plan]
"""Plans over a chain; everything but the chain is settled."""


@dataclass(frozen=True, slots=True)
class Route:
    """A plan, and what was announced of the files that it needs."""

    plan: Plan
    artifacts: Mapping[str, Artifact | None]
    """By the name of a file; None for files that cannot be checked. Parts that are not there have no entry."""
    withdrawn: frozenset[int] = frozenset()
    versions: tuple[int, ...] = ()
    """The versions that the usable blobs lead to or from."""

    def artifact(self, blob: BlobName) -> Artifact | None:
        """What was announced of a blob."""
        return self.artifacts.get(str(blob))

    def checksum(self, step: BlobName) -> str | None:
        """What was announced of the files of a step; None if nothing was."""
        return step_checksum(step, {name: one.checksum for name, one in self.artifacts.items() if one is not None})


@dataclass(slots=True)
class Router:
    """Finds routes in one chain; remembers what old versions listed for as long as the announcement stays the same."""

    store: Store
    backoff: Backoff
    parts: tuple[str, ...] = ()
    _old_entries: dict[int, AnnouncedVersion] = field(default_factory=dict)
    _etag: str = ""

    def find(self, announcement: Announcement, wanted: int, plan: Planner) -> Route:
        """The best way to a version by blobs that may be used."""
        if announcement.etag != self._etag:
            self._old_entries, self._etag = {}, announcement.etag
        if announcement.record is None:
            return self._unverified(plan)
        usable = _Usable(announcement.record, wanted)
        route = self._route(plan(usable.chain()), usable)
        if route.plan.version == wanted:
            return route
        return self._widened(usable, plan)

    def entry(self, announcement: Announcement, version: int) -> AnnouncedVersion | None:
        """What was announced of a version, listed or not; None if nothing was."""
        return announcement.entry(version) or self._old_entry(version)

    def _unverified(self, plan: Planner) -> Route:
        names = self._names()
        chain = Chain.of_names(names)
        best = plan(chain)
        present = set(names)
        needed = [name for step in best.steps for name in _files_of(step, self.parts)]
        return Route(best, {name: None for name in needed if name in present}, versions=chain.versions())

    def _widened(self, usable: "_Usable", plan: Planner) -> Route:
        """Look at what else lies in the folder, as far as a plan wants it and the version it belongs to lists it."""
        names = self._names()
        for name in names:
            usable.offer(name)
        while True:
            found = plan(usable.chain())
            unknown = [step for step in found.steps if str(step) not in usable.artifacts]
            for step in unknown:
                usable.settle(step, self._old_entry(step.owner), set(names))
            if not unknown:
                return self._route(found, usable)

    def _route(self, plan: Plan, usable: "_Usable") -> Route:
        artifacts: dict[str, Artifact | None] = {}
        for step in plan.steps:
            for name in _files_of(step, self.parts):
                if name in usable.artifacts:
                    artifacts[name] = usable.artifacts[name]
        return Route(plan, artifacts, frozenset(usable.withdrawn), usable.chain().versions())

    def _names(self) -> list[str]:
        return self.backoff.read(lambda: [info.key for info in self.store.list() if "/" not in info.key])

    def _old_entry(self, version: int) -> AnnouncedVersion | None:
        if version not in self._old_entries:
            name = version_name(version)
            try:
                blob = self.backoff.read(lambda: self.store.get(name, limit_bytes=MAX_RECORD_BYTES))
            except NotFoundError:
                return None
            self._old_entries[version] = decode_version(blob.data, f"{self.store.url}/{name}")
        return self._old_entries[version]


class _Usable:
    """The blobs that lead to the wanted version or before it, as far as they are known to be announced."""

    def __init__(self, record: Record, wanted: int) -> None:
        self.artifacts: dict[str, Artifact | None] = {}
        self.withdrawn = {entry.version for entry in record.versions if entry.withdrawn}
        self._blobs: dict[str, BlobName] = {}
        self._wanted = wanted
        # A chain that deltaic took over from a Java producer: its first entry lists no files, nor do those before it.
        self._unlisted_until = max((entry.version for entry in record.versions if not entry.artifacts), default=-1)
        for entry in record.versions:
            self._add(entry)

    def _add(self, entry: AnnouncedVersion) -> None:
        for artifact in entry.artifacts:
            # Versions come newest first: what the newest says of a file holds.
            self.artifacts.setdefault(artifact.name, artifact)
            self.offer(artifact.name)

    def offer(self, name: str) -> None:
        """Let a plan use a blob, unless it leads to a version that must not be loaded."""
        blob = BlobName.parse(name)
        # A name with leading zeros is another file than the one that a plan would ask for.
        if blob is None or str(blob) != name or blob.part is not None or blob.to_version in self.withdrawn:
            return
        overshoots = blob.kind is not BlobKind.REVERSE_DELTA and blob.to_version > self._wanted
        if not overshoots:
            self._blobs.setdefault(name, blob)

    def settle(self, step: BlobName, entry: AnnouncedVersion | None, present: set[str]) -> None:
        """Take an offered blob into use if its version lists it, else out of the plan."""
        if entry is not None and entry.withdrawn:
            self.withdrawn.add(entry.version)
        if entry is not None and entry.artifacts:
            self._add(entry)
        elif entry is not None or step.owner <= self._unlisted_until:
            for name in present:
                blob = BlobName.parse(name)
                beside = blob is not None and (blob.kind, blob.from_version, blob.to_version) == (
                    step.kind,
                    step.from_version,
                    step.to_version,
                )
                if beside or name == part_name(step):
                    self.artifacts.setdefault(name, None)
        if str(step) not in self.artifacts or step.to_version in self.withdrawn:
            self._blobs.pop(str(step), None)
            self.artifacts.setdefault(str(step), None)

    def chain(self) -> Chain:
        return Chain.of_names(self._blobs)


def _files_of(step: BlobName, parts: Iterable[str]) -> list[str]:
    """The names of a step's blob, of its optional parts, and of its vector part."""
    blobs = [BlobName(step.kind, step.from_version, step.to_version, part) for part in parts]
    return [str(step), *map(str, blobs), part_name(step)]
