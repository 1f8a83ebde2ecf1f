"""Restore: the state of an announced version, through its nearest snapshot and the deltas after it."""

from deltaic.consumer.plan import plan_refresh
from deltaic.errors import ChainError
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.producer.reading import read_stored
from deltaic.producer.vector_parts import read_vectors
from deltaic.state.read import ReadState
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobName, Chain
from deltaic.storage.store import Store
from deltaic.wire.append import AppendMode


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
    """Load a snapshot (`state` is None), or apply a delta to a state; with the vector part beside it."""
    name, entry = str(blob), announcements.entry_of(blob.owner)
    artifact = None if entry is None else entry.artifact(name)
    with read_stored(store, name, artifact, limit_bytes=limits.max_blob_bytes) as source:
        if state is None:
            made = ReadState.load(source, limits=limits)
        else:
            # The model of the version is that of its own producer, not that of the nearest snapshot.
            made = state.apply(source, limits=limits, schema_append=AppendMode.FULL)
    return read_vectors(store, entry, blob, state, made, limits=limits)
