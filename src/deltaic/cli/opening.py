"""What commands that read records take as URL: a snapshot file, a chain, a dataset.

A version is loaded through a consumer, so that blobs are verified where they are announced with checksums.
"""

from collections.abc import Iterator
from pathlib import Path

from deltaic.cli.chain import chain_store
from deltaic.errors import ChainError, NotFoundError
from deltaic.state.read import ReadState
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import Chain
from deltaic.storage.store import Store


def open_state(url: str, version: int | None = None) -> ReadState:
    """The state of a snapshot file, or of a chain at a version; by default the one that is announced.

    Raises:
        NotFoundError: there is nothing of the kind, or no such version.
    """
    if is_file(url):
        return ReadState.load(Path(url))
    return _load(chain_store(url), version)


def is_file(url: str) -> bool:
    """True for a path of this machine that is a file."""
    return "://" not in url and Path(url).is_file()


def open_versions(url: str, count: int) -> Iterator[tuple[int, ReadState]]:
    """The last versions of a chain with their states, oldest first, each made from the one before by its delta."""
    from deltaic.consumer import Consumer

    store = chain_store(url)
    newest = _announced(store)
    chain = Chain.read(store)
    versions = [version for version in chain.versions() if newest is None or version <= newest]
    if not versions:
        raise NotFoundError(f"{store.url} holds no version")
    consumer = Consumer(store, share=False)
    for version in _readable(chain, versions, count):
        consumer.refresh(to=version)
        if consumer.version == version:
            yield version, consumer.state


def _readable(chain: Chain, versions: list[int], count: int) -> list[int]:
    """The last versions that a snapshot leads to, directly or by deltas."""
    reached: set[int] = set(chain.snapshots)
    for version in versions:
        if version in reached and (following := chain.deltas.get(version)) is not None:
            reached.add(following)
    for version in reversed(versions):
        if version in reached and (earlier := chain.reverse_deltas.get(version)) is not None:
            reached.add(earlier)
    return [version for version in versions if version in reached][-count:]


def _load(store: Store, version: int | None) -> ReadState:
    from deltaic.consumer import Consumer

    wanted = _announced(store) if version is None else version
    if wanted is None:
        chain = Chain.read(store)
        if not chain.versions():
            raise NotFoundError(f"{store.url} holds neither a chain nor a dataset with one")
        wanted = chain.versions()[-1]
    consumer = Consumer(store, share=False)
    consumer.refresh(to=wanted)
    if version is not None and consumer.version != version:
        raise ChainError(
            f"version {version} is not in the chain {store.url}; the nearest before it is {consumer.version}"
        )
    return consumer.state


def _announced(store: Store) -> int | None:
    try:
        return Announcements(store).read().version()
    except NotFoundError:
        return None
