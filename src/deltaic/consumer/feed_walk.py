"""The walk of a change feed: from version to version, each with its state, the one before, and what was touched.

A walker is a consumer of its own, which begins where another one is and leaves that one as it is. Going back over a
change of the model it loads the older version anew: a reverse delta leaves the model as it is.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from deltaic.binary.cursor import Cursor
from deltaic.consumer.apply import changed_ordinals
from deltaic.consumer.changes import Changes
from deltaic.consumer.fetch import Fetcher
from deltaic.consumer.plan import plan_refresh
from deltaic.consumer.report import Refresh
from deltaic.errors import ChainError, NotFoundError
from deltaic.index.catalog import Lookup
from deltaic.index.index_set import IndexSet
from deltaic.schema.types import Schema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobName, Chain
from deltaic.storage.store import Store
from deltaic.wire.header import read_header

if TYPE_CHECKING:
    from deltaic.consumer.consumer import Consumer

_ANY_NUMBER_OF_DELTAS = 1 << 30

Touched = dict[str, OrdinalSet]
"""By type, the ordinals that a delta removed, added, or gave other values."""

WalkedStep = tuple[int, int, int, int, tuple[ReadState, ReadState], Touched | None]
"""Number of the step, of how many, the versions before and after, their states, what was touched."""


def walked_steps(consumer: "Consumer", from_version: int, to_version: int | None) -> Iterator[WalkedStep]:
    """Go from one version to another, forth or back, as far as blobs lead.

    Raises:
        ChainError: they do not lead there.
    """
    try:
        Announcements(consumer.store).read()
    except NotFoundError:
        yield from _bare_steps(consumer.store, from_version, to_version)
        return
    walker = _walker(consumer)
    _go(walker, from_version)
    refresher = walker._refresher
    end = refresher.wanted().version if to_version is None else to_version
    if end is None:
        raise NotFoundError(f"nothing is announced in {consumer.store.url}")
    # Every delta counts, however many they are.
    refresher.settings = replace(refresher.settings, max_deltas=_ANY_NUMBER_OF_DELTAS)
    route = refresher._route(end, refresher.loaded, lambda *_: True)
    versions = [step.to_version for step in route.plan.steps]
    if route.plan.starts_with_snapshot:
        # There is no way by deltas: one step, from the one state to the other.
        versions = [end]
    if (versions[-1] if versions else from_version) != end:
        raise ChainError(f"no blobs lead from version {from_version} to {end} in {consumer.store.url}")
    at = from_version
    for place, version in enumerate(versions, 1):
        refresh = _go(walker, version)
        old, new = refresh.changes.before, refresh.changes.after
        touched = touched_of(refresh.changes)
        assert old is not None
        if version < at and _another_model(walker, at, version):
            # A reverse delta leaves the model as it is; the older one has fields that no blob on the way back brings.
            walker = _walker(consumer, fresh=True)
            _go(walker, version)
            new = walker.loaded.base
        yield place, len(versions), at, version, (old, new), touched
        at = version
        del refresh, old, new


def _another_model(walker: "Consumer", version: int, older: int) -> bool:
    """True if two versions are known to have different models."""
    models = [_model_of(walker, each) for each in (version, older)]
    return None not in models and models[0] != models[1]


def _model_of(walker: "Consumer", version: int) -> frozenset[Schema] | None:
    """The schemas of a version, by the file that holds its header alone; None if there is none."""
    refresher = walker._refresher
    name, found = str(BlobName.header(version)), refresher.announcement
    entry = None if found is None else refresher._router.entry(found, version)
    artifact = None if entry is None else entry.artifact(name)
    settings = refresher.settings
    try:
        data, _ = Fetcher(settings.store, settings.cache, refresher._backoff, settings.limits).read(name, artifact)
    except NotFoundError:
        return None
    return frozenset(read_header(Cursor(data, name), settings.limits).schemas)


def _walker(consumer: "Consumer", *, fresh: bool = False) -> "Consumer":
    """A consumer of the same chain that goes its own way, from where the first one is unless it should be fresh."""
    from deltaic.consumer.consumer import Consumer

    told = consumer._settings
    made = Consumer(
        consumer.store,
        channel=told.channel,
        filter=told.filter,
        parts=told.parts,
        cache_dir=False,
        share=False,
        limits=told.limits,
        max_deltas=told.max_deltas,
        schema_append=told.schema_append,
    )
    refresher = made._refresher
    refresher.settings = replace(refresher.settings, cache=told.cache)
    loaded = consumer._refresher.loaded
    if loaded is not None and not fresh:
        indexes = IndexSet(loaded.base)
        lookup = Lookup(loaded.base, indexes)
        refresher.loaded = replace(loaded, state=loaded.base, cached={}, indexes=indexes, lookup=lookup)
    return made


def _go(walker: "Consumer", version: int) -> Refresh:
    refresh = walker.refresh(to=version)
    if refresh.to_version != version:
        reason = f": {refresh.stuck}" if refresh.stuck else ""
        raise ChainError(
            f"version {version} is not in the chain {walker.store.url}; the nearest is {refresh.to_version}{reason}"
        )
    return refresh


def _bare_steps(store: Store, from_version: int, to_version: int | None) -> Iterator[WalkedStep]:
    """The same for a folder of blobs in which nothing is announced."""
    chain = Chain.read(store)
    versions = chain.versions()
    if not versions:
        raise NotFoundError(f"{store.url} holds no chain")
    end = versions[-1] if to_version is None else to_version
    start = plan_refresh(None, from_version, chain)
    onward = plan_refresh(from_version, end, chain, max_deltas=_ANY_NUMBER_OF_DELTAS)
    for wanted, reached in ((from_version, start.version), (end, onward.version)):
        if wanted != reached:
            raise ChainError(f"no blobs lead to version {wanted} in {store.url}; the nearest is {reached}")
    state: ReadState | None = None
    for step in start.steps:
        data = store.get(str(step)).data
        state = ReadState.load(data) if state is None else state.apply(data, schema_append="full")
    at, whole, count = from_version, False, len(onward.steps)
    assert state is not None
    old = state
    for place, step in enumerate(onward.steps, 1):
        data = store.get(str(step)).data
        if step.from_version is None:
            state, whole = ReadState.load(data), True
        else:
            state = state.apply(data, schema_append="full")
        if onward.starts_with_snapshot and place < count:
            continue
        touched = None if whole else _touched_by_last(state)
        yield place, count, at, step.to_version, (old, state), touched
        at, old = step.to_version, state


def _touched_by_last(state: ReadState) -> Touched:
    return {
        name: old.difference(new).union(new.difference(old)) for name, (old, new) in changed_ordinals(state).items()
    }


def touched_of(changes: Changes) -> Touched | None:
    """The ordinals that the deltas of a refresh touched; None if it was by a snapshot."""
    if changes.whole:
        return None
    return {name: one.removed_ordinals.union(one.added_ordinals) for name, one in changes.items()}
