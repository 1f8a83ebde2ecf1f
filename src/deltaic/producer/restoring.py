"""Restore: the state of an announced version, through its nearest snapshot and the deltas after it."""

import tempfile
from pathlib import Path

from deltaic.consumer.plan import plan_refresh
from deltaic.errors import ChainError
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.state.read import ReadState
from deltaic.storage.announced import Artifact
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobName, Chain
from deltaic.storage.checksum import verify, verify_file
from deltaic.storage.store import Store

_IN_MEMORY_BYTES = 256 << 20


def load_version(
    store: Store, announcements: Announcements, version: int, *, limits: Limits = DEFAULT_LIMITS
) -> ReadState:
    """The state of a version of a chain, every file compared with what was announced of it, where that is known.

    Raises:
        ChainError: no snapshot and deltas lead to the version.
    """
    plan = plan_refresh(None, version, Chain.read(store))
    if plan.version != version:
        raise ChainError(f"nothing leads to version {version} of {store.url}; the nearest is {plan.version}")
    state: ReadState | None = None
    for step in plan.steps:
        state = read_blob(store, announcements, step, state, limits=limits)
    assert state is not None
    return state


def read_blob(
    store: Store,
    announcements: Announcements,
    blob: BlobName,
    state: ReadState | None,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> ReadState:
    """Load a snapshot (`state` is None), or apply a delta to a state."""
    name = str(blob)
    artifact = _announced(announcements, blob)
    size = store.head(name).size_bytes
    if size <= _IN_MEMORY_BYTES:
        data = store.get(name, limit_bytes=limits.max_blob_bytes).data
        if artifact is not None:
            verify(data, artifact.checksum, f"{store.url}/{name}")
        return ReadState.load(data, limits=limits) if state is None else state.apply(data, limits=limits)
    with tempfile.TemporaryDirectory(prefix="deltaic-") as folder:
        path = Path(folder) / name
        store.get_to_file(name, path, limit_bytes=limits.max_blob_bytes)
        if artifact is not None:
            verify_file(path, artifact.checksum, artifact.size, f"{store.url}/{name}")
        return ReadState.load(path, limits=limits) if state is None else state.apply(path, limits=limits)


def _announced(announcements: Announcements, blob: BlobName) -> Artifact | None:
    entry = announcements.entry_of(blob.owner)
    return next((each for each in entry.artifacts if each.name == str(blob)), None) if entry is not None else None
