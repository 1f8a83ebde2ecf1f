"""Is a chain whole? Every announced file is there and is what was announced, and the chain is closed both ways.

Closed means: the deltas lead from the oldest snapshot through every announced version; at each version with a
snapshot of its own, following deltas gave the same state as that snapshot; each reverse delta leads back to the state
its delta came from; state tags and the versions in header tags fit. States are compared by Hollow's checksum where
the model stayed the same; where it changed, a follower keeps its old model (hollow-blob.md, section 15) and only the
tags are compared. Vector parts are read with their blobs, and vectors compared bit for bit.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from deltaic.compare.vectors import equal_vectors
from deltaic.consumer.apply import read_step
from deltaic.consumer.fetch import Fetcher
from deltaic.consumer.plan import Plan
from deltaic.consumer.route import Route
from deltaic.consumer.vector_parts import missing_vectors, with_part
from deltaic.errors import DeltaicError, NotFoundError, StorageError
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.state.read import ReadState
from deltaic.storage.announced import AnnouncedVersion, Artifact, decode_version
from deltaic.storage.announcement import Announcement, Announcements
from deltaic.storage.backoff import Backoff
from deltaic.storage.chain import BlobKind, BlobName, Chain
from deltaic.storage.store import Store
from deltaic.vector.names import VECTOR_KIND, part_name
from deltaic.wire.append import AppendMode

VERSION_TAG = "hollow.blob.to.version"
"""The header tag in which a producer writes the version that a blob leads to."""

_OLD_ENTRY = "artifacts-"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not in order."""

    subject: str
    """A file, or a version."""
    problem: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What was looked at, and what was found wrong."""

    url: str
    verified: bool
    """False if files could not be compared with announced checksums."""
    versions: int
    files: int
    size_bytes: int
    walked: int
    """States that were made and compared."""
    seconds: float
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values."""
        return {
            "url": self.url,
            "ok": self.ok,
            "verified": self.verified,
            "versions": self.versions,
            "files": self.files,
            "bytes": self.size_bytes,
            "walked": self.walked,
            "seconds": self.seconds,
            "findings": [{"subject": one.subject, "problem": one.problem} for one in self.findings],
        }


def verify_chain(
    store: Store,
    *,
    walk: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    progress: Callable[[str], None] | None = None,
) -> Verification:
    """Look at every announced file of a chain, and follow it forward and back.

    Args:
        store: the folder of the chain.
        walk: False compares sizes and checksums only, and reads no states.
        limits: bounds on what the bytes may ask for.
        progress: told the name of each blob before it is read.

    Raises:
        NotFoundError: nothing is announced there.
    """
    started = time.perf_counter()
    try:
        announcement = Announcements(store).read()
    except NotFoundError:
        raise NotFoundError(f"nothing is announced in {store.url}") from None
    check = _Check(store, announcement, limits, progress or (lambda _: None))
    check.files()
    if walk:
        check.chain()
    return Verification(
        url=store.url,
        verified=announcement.verified,
        versions=len(check.versions),
        files=check.file_count,
        size_bytes=check.size_bytes,
        walked=check.walked,
        seconds=time.perf_counter() - started,
        findings=tuple(check.findings),
    )


@dataclass(slots=True)
class _Check:
    store: Store
    announcement: Announcement
    limits: Limits
    progress: Callable[[str], None]
    findings: list[Finding] = field(default_factory=list)
    file_count: int = 0
    size_bytes: int = 0
    walked: int = 0
    versions: tuple[int, ...] = ()
    _artifacts: dict[str, Artifact | None] = field(default_factory=dict)
    _usable: set[str] = field(default_factory=set)
    _withdrawn: set[int] = field(default_factory=set)

    def files(self) -> None:
        """Every announced file is there and is what was announced."""
        names = {info.key: info.size_bytes for info in self.store.list() if "/" not in info.key}
        entries = list(self._entries(names))
        for entry in entries:
            if entry.withdrawn:
                self._withdrawn.add(entry.version)
            for listed in entry.artifacts:
                # What leads to a withdrawn version goes with the next one; its reverse delta stays, for the way back.
                if listed.name in names or not (entry.withdrawn and _leads_there(listed)):
                    self._artifacts.setdefault(listed.name, listed)
        unlisted = not entries or any(not entry.artifacts for entry in entries)
        beside = {part_name(blob) for blob in map(BlobName.parse, names) if blob is not None and not _is_header(blob)}
        for name in sorted(names):
            # In a chain that a Java producer began, blobs without an announced checksum are in order.
            if unlisted and (BlobName.parse(name) is not None or name in beside):
                self._artifacts.setdefault(name, None)
        fetcher = self._fetcher()
        for name, artifact in self._artifacts.items():
            self.file_count += 1
            if name not in names:
                self._found(name, "announced, but not there")
                continue
            self.size_bytes += names[name]
            if artifact is None:
                self._usable.add(name)
                continue
            self.progress(name)
            if self._intact(fetcher, artifact):
                self._usable.add(name)
        announced = [entry.version for entry in entries if not entry.withdrawn]
        known = Chain.of_names(self._artifacts).versions() if unlisted else ()
        last = self.announcement.version()
        self.versions = tuple(sorted({*announced, *(version for version in known if last is None or version <= last)}))

    def chain(self) -> None:
        """Walk from the oldest snapshot to the newest version; at each step, back and forth."""
        chain = self._chain()
        if not chain.snapshots:
            self._found("chain", "no snapshot to begin with")
            return
        reached = [version for version in self.versions if version >= chain.snapshots[0]]
        origins = {version: self._origin(version, reached) for version in reached}
        states: dict[int, ReadState] = {}
        for version in reached:
            state = self._next(origins[version], version, states, chain)
            if state is not None:
                states[version] = state
            # A version that was not gone on from, such as a canary, is let go; others until their last delta.
            later = {origins[other] for other in reached if other > version}
            states = {kept: state for kept, state in states.items() if kept in later}

    def _origin(self, version: int, reached: list[int]) -> int | None:
        """The version whose delta leads to this one: the nearest that has one, else the one before."""
        before = [other for other in reached if other < version]
        listed = [other for other in before if str(BlobName.delta(other, version)) in self._artifacts]
        return max(listed or before, default=None)

    def _next(self, at: int | None, version: int, states: dict[int, ReadState], chain: Chain) -> ReadState | None:
        """The state of a version: by delta from the one before, compared with its own snapshot."""
        by_delta: ReadState | None = None
        if at is not None:
            delta = BlobName.delta(at, version)
            if str(delta) not in self._artifacts:
                self._found(f"version {version}", f"no delta leads to it from version {at} or before")
            elif str(delta) in self._usable and at in states:
                by_delta = self._read(states[at], delta)
                if by_delta is not None:
                    self._leads_back(states[at], by_delta, at, version)
        if version not in chain.snapshots:
            return by_delta
        snapshot = self._read(None, BlobName.snapshot(version))
        if snapshot is not None and by_delta is not None:
            self._same(snapshot, by_delta, f"version {version}", "following deltas", "its snapshot")
        # What followers have is the state by deltas, in their own model.
        return by_delta or snapshot

    def _leads_back(self, before: ReadState, after: ReadState, at: int, version: int) -> None:
        reverse = BlobName.delta(version, at)
        if str(reverse) not in self._usable:
            if str(reverse) not in self._artifacts:
                self._found(f"version {version}", f"no reverse delta leads back to version {at}")
            return
        back = self._read(after, reverse)
        if back is not None:
            self._same(before, back, str(reverse), "it", f"version {at}")

    def _read(self, before: ReadState | None, blob: BlobName) -> ReadState | None:
        if part_name(blob) in self._artifacts.keys() - self._usable:
            # Found out already: a blob without its vectors leads nowhere.
            return None
        self.progress(str(blob))
        route = Route(Plan((blob,), blob.to_version), {str(blob): self._artifacts.get(str(blob))})
        try:
            fetched = self._fetcher().fetch(blob, route)
            state = read_step(before, blob, fetched, None, self.limits, AppendMode.FULL)
            state = self._with_vectors(before, state, blob)
        except StorageError:
            raise
        except DeltaicError as error:
            self._found(str(blob), str(error))
            return None
        self.walked += 1
        tag = state.header_tags.get(VERSION_TAG)
        if tag is not None and tag != str(blob.to_version):
            self._found(str(blob), f"its header says that it leads to version {tag}")
        return state

    def _with_vectors(self, before: ReadState | None, state: ReadState, blob: BlobName) -> ReadState:
        name = part_name(blob)
        data = self._fetcher().read(name, self._artifacts[name])[0] if name in self._usable else None
        announced = self._artifacts.get(str(blob)) is not None
        # The header of an announced blob names every column; a Java producer's says nothing of them.
        known = () if before is None or announced else before.vectors.keys()
        made = with_part(before, state, blob, data, known, self.limits)
        lacking = ", ".join(sorted(map(".".join, missing_vectors(made))))
        if lacking:
            self._found(str(blob), f"it leads to a state without the vectors {lacking}")
        return made

    def _same(self, one: ReadState, other: ReadState, subject: str, way: str, goal: str) -> None:
        if one.tag != other.tag:
            self._found(subject, f"{way} leads to state {other.tag:016x}, {goal} is state {one.tag:016x}")
        elif _comparable(one, other) and one.checksum() != other.checksum():
            self._found(subject, f"{way} leads to other records than {goal}")
        elif not equal_vectors(one, other):
            self._found(subject, f"{way} leads to other vectors than {goal}")

    def _entries(self, names: dict[str, int]) -> Iterator[AnnouncedVersion]:
        if self.announcement.record is None:
            return
        yield from self.announcement.record.versions
        listed = {entry.version for entry in self.announcement.record.versions}
        for name in sorted(names):
            number = name.removeprefix(_OLD_ENTRY).removesuffix(".json")
            if name == f"{_OLD_ENTRY}{number}.json" and number.isdigit() and int(number) not in listed:
                try:
                    yield decode_version(self.store.get(name, limit_bytes=4 << 20).data, name)
                except StorageError:
                    raise
                except DeltaicError as error:
                    self._found(name, str(error))

    def _intact(self, fetcher: Fetcher, artifact: Artifact) -> bool:
        try:
            fetcher.read(artifact.name, artifact)
        except StorageError:
            raise
        except (DeltaicError, NotFoundError) as error:
            self._found(artifact.name, str(error))
            return False
        return True

    def _chain(self) -> Chain:
        names = []
        for name in self._usable:
            blob = BlobName.parse(name)
            if blob is not None and blob.kind is not BlobKind.HEADER and blob.to_version not in self._withdrawn:
                names.append(name)
        return Chain.of_names(names)

    def _fetcher(self) -> Fetcher:
        return Fetcher(self.store, None, Backoff(), self.limits)

    def _found(self, subject: str, problem: str) -> None:
        finding = Finding(subject, problem)
        if finding not in self.findings:
            self.findings.append(finding)


def _leads_there(listed: Artifact) -> bool:
    """True for the snapshot and the delta of a version, and for the vector parts beside them."""
    return listed.kind in ("snapshot", "delta") or (listed.kind == VECTOR_KIND and "-reverse." not in listed.name)


def _is_header(blob: BlobName) -> bool:
    return blob.kind is BlobKind.HEADER


def _comparable(one: ReadState, other: ReadState) -> bool:
    return {name: data.schema for name, data in one.types.items()} == {
        name: data.schema for name, data in other.types.items()
    } and all(len(data.shards) == len(other.types[name].shards) for name, data in one.types.items())
