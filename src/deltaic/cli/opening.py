"""What commands that read records take as URL: a snapshot file, a chain, a dataset.

A version is loaded through a consumer, so that blobs are verified where they are announced with checksums. A folder of
blobs in which nothing is announced is read as it stands.
"""

from collections.abc import Iterator
from pathlib import Path

from deltaic.cli.chain import chain_store
from deltaic.errors import ChainError, NotFoundError
from deltaic.state.read import ReadState
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobKind, BlobName, Chain
from deltaic.storage.store import Store
from deltaic.vector.attach import with_vectors
from deltaic.vector.names import part_name


def open_state(url: str, version: int | None = None) -> ReadState:
    """The state of a snapshot file, or of a chain at a version: by default the announced one, else the newest.

    Raises:
        NotFoundError: there is nothing of the kind.
        ChainError: no blobs lead to the version.
    """
    if is_file(url):
        return _of_file(Path(url))
    reader = _ChainReader(url)
    return reader.go(reader.newest if version is None else version)


def _of_file(path: Path) -> ReadState:
    """The state of a snapshot file, with the vectors of the part that lies beside it."""
    state = ReadState.load(path)
    blob = BlobName.parse(path.name)
    part = None if blob is None or blob.kind is not BlobKind.SNAPSHOT else path.with_name(part_name(blob))
    if part is None or not part.is_file():
        return with_vectors(state, None, None)
    return with_vectors(state, None, part.read_bytes(), name=part.name)


def is_file(url: str) -> bool:
    """True for a path of this machine that is a file."""
    return "://" not in url and Path(url).is_file()


def open_versions(url: str, count: int) -> Iterator[tuple[int, ReadState]]:
    """The last versions of a chain with their states, oldest first, each made from the one before by its delta."""
    if is_file(url):
        # One file is a chain of one version, whose number its name tells at best.
        number = Path(url).name.rpartition("-")[2]
        yield int(number) if number.isdecimal() else 0, open_state(url)
        return
    reader = _ChainReader(url)
    for version in reader.readable()[-count:]:
        yield version, reader.go(version)


class _ChainReader:
    """Goes from version to version of a chain."""

    def __init__(self, url: str) -> None:
        self._store: Store = chain_store(url)
        self._chain = Chain.read(self._store)
        versions = self._chain.versions()
        if not versions:
            raise NotFoundError(f"{self._store.url} holds neither a chain nor a dataset with one, nor is it a file")
        announced = _announced(self._store)
        self.newest = versions[-1] if announced is None else announced
        if announced is None:
            self._walk: _Walk | _FollowingWalk = _Walk(self._store, self._chain)
        else:
            self._walk = _FollowingWalk(self._store)

    def go(self, version: int) -> ReadState:
        """The state of a version."""
        reached, state = self._walk.go(version)
        if reached != version:
            raise ChainError(
                f"version {version} is not in the chain {self._store.url}; the nearest before it is {reached}"
            )
        return state

    def readable(self) -> list[int]:
        """The versions up to the newest that a snapshot leads to, directly or by deltas."""
        versions = [version for version in self._chain.versions() if version <= self.newest]
        reached = set(self._chain.snapshots)
        for version in versions:
            if version in reached and version in self._chain.deltas:
                reached.add(self._chain.deltas[version])
        return [version for version in versions if version in reached]


class _FollowingWalk:
    """Through a consumer."""

    def __init__(self, store: Store) -> None:
        from deltaic.consumer import Consumer

        self._consumer = Consumer(store, share=False)

    def go(self, version: int) -> tuple[int, ReadState]:
        """The version that was reached, and its state."""
        self._consumer.refresh(to=version)
        loaded = self._consumer.loaded
        return loaded.version, loaded.state


class _Walk:
    """Through the blobs of a folder in which nothing is announced."""

    def __init__(self, store: Store, chain: Chain) -> None:
        self._store, self._chain = store, chain
        self._version: int | None = None
        self._state: ReadState | None = None

    def go(self, version: int) -> tuple[int, ReadState]:
        """The version that was reached, and its state."""
        from deltaic.consumer.plan import plan_refresh

        plan = plan_refresh(self._version, version, self._chain)
        for step in plan.steps:
            data = self._store.get(str(step)).data
            before = None if step.from_version is None else self._state
            state = ReadState.load(data) if before is None else before.apply(data, schema_append="full")
            self._state = with_vectors(state, before, self._part(step), name=part_name(step))
        self._version = plan.version
        if self._state is None or self._version is None:
            raise ChainError(f"no snapshot leads to version {version} in {self._store.url}")
        return self._version, self._state

    def _part(self, step: BlobName) -> bytes | None:
        try:
            return self._store.get(part_name(step)).data
        except NotFoundError:
            return None


def _announced(store: Store) -> int | None:
    try:
        return Announcements(store).read().version()
    except NotFoundError:
        return None
