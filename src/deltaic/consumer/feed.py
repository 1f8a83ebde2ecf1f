"""The change feed: what every step of a chain changed, as patches.

    for step in consumer.changes(41, 44):
        step.from_version, step.to_version
        for patch in step: ...

A step is read from what its delta touched: the records that came and went, paired by key and compared field by field.
Going to an older version works the same, by reverse deltas. Where only a snapshot leads on, that step compares both
states as a whole.
"""

import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltaic.binary.cursor import Cursor
from deltaic.compare.feed import step_changes
from deltaic.compare.feed_groups import ChangeGroup, StepChanges
from deltaic.compare.feed_patches import batch_of
from deltaic.consumer.apply import changed_ordinals
from deltaic.consumer.changes import Changes
from deltaic.consumer.fetch import Fetcher
from deltaic.consumer.listener import RefreshListener
from deltaic.consumer.plan import plan_refresh
from deltaic.consumer.report import Refresh
from deltaic.errors import ChainError, InputError, NotFoundError
from deltaic.index.catalog import Lookup
from deltaic.index.index_set import IndexSet
from deltaic.schema.types import Schema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobName, Chain
from deltaic.storage.store import Store
from deltaic.wire.header import read_header
from deltaic.wire.patches.batch import PatchBatch, Refer
from deltaic.wire.patches.patch import Patch

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaic.consumer.consumer import Consumer

_ANY_NUMBER_OF_DELTAS = 1 << 30
_LOOK_SECONDS = 0.5

Touched = dict[str, OrdinalSet]


@dataclass(frozen=True)
class FeedStep:
    """What one step changed: iterate over it for its patches, which replayed on the one version give the other."""

    from_version: int
    to_version: int
    batch: PatchBatch
    notes: tuple[str, ...] = ()
    """What patches cannot say: fields and types that the model lost."""
    refer: Refer | None = field(default=None, repr=False, compare=False)
    """Names fields by their numbers on the wire; without it they are named by their paths."""

    def __iter__(self) -> Iterator[Patch]:
        return iter(self.batch)

    def __len__(self) -> int:
        return len(self.batch)

    def counts(self) -> dict[str, dict[str, int]]:
        """By type how many patches of each operation, which are called as in JSON."""
        found: dict[str, dict[str, int]] = {}
        for group in self.batch.groups:
            of_type = found.setdefault(group.type_name, {})
            name = group.operation.name.lower()
            of_type[name] = of_type.get(name, 0) + len(group)
        return found

    def to_bytes(self, *, compress: bool = True) -> bytes:
        """One frame of the wire form (docs/formats/patches.md)."""
        return self.batch.to_bytes(self.refer, compress=compress)

    def to_json_lines(self) -> Iterator[str]:
        """One JSON object for each patch, without the line end."""
        return self.batch.to_json_lines()

    @cached_property
    def _arrow(self) -> "pa.Table":
        import pyarrow as pa

        table = self.batch.to_arrow()
        for place, (name, version) in enumerate((("from", self.from_version), ("to", self.to_version))):
            column = pa.repeat(pa.scalar(version, pa.int64()), table.num_rows)
            table = table.add_column(place, pa.field(name, pa.int64(), nullable=False), column)
        return table

    def to_arrow(self) -> "pa.Table":
        """A row for each patch: the versions `from` and `to`, then the columns of `PatchBatch.to_arrow`."""
        return self._arrow

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object:
        return self._arrow.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class FeedColumns:
    """What one step changed, as groups of columns that are read from both states when they are asked for.

    Whoever keeps it keeps the memory of both states.
    """

    from_version: int
    to_version: int
    groups: tuple[ChangeGroup, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return sum(len(group) for group in self.groups)


def feed_step(
    from_version: int,
    to_version: int,
    before: ReadState,
    after: ReadState,
    touched: Touched | None,
    *,
    with_before: bool = False,
    types: Sequence[str] | None = None,
    refer: Refer | None = None,
) -> FeedStep:
    """The patches of one step."""
    found = step_changes(before, after, touched, types=types, with_before=with_before)
    return FeedStep(from_version, to_version, batch_of(found), found.notes, refer)


def touched_of(changes: Changes) -> Touched | None:
    """The ordinals that the deltas of a refresh touched; None if it was by a snapshot."""
    if changes.whole:
        return None
    return {name: one.removed_ordinals.union(one.added_ordinals) for name, one in changes.items()}


class ChangeFeed:
    """The steps between two versions, made one by one as they are asked for. Iterating again begins anew.

    Args:
        walk: gives the columns of each step.
        refer: names fields by their numbers on the wire.
    """

    def __init__(self, walk: Callable[[], Iterator[FeedColumns]], refer: Refer | None = None) -> None:
        self._walk, self._refer = walk, refer

    def __iter__(self) -> Iterator[FeedStep]:
        for step in self._walk():
            batch = batch_of(StepChanges(step.groups, step.notes))
            yield FeedStep(step.from_version, step.to_version, batch, step.notes, self._refer)

    def columns(self) -> Iterator[FeedColumns]:
        """The steps as groups of columns, before any value is read: for counting, for Arrow, for few of the groups."""
        return self._walk()

    def patches(self) -> Iterator[Patch]:
        """All patches, in the order in which they apply."""
        for step in self:
            yield from step

    def to_bytes(self, *, compress: bool = True) -> bytes:
        """The frames of all steps, one after another."""
        return b"".join(step.to_bytes(compress=compress) for step in self)

    def to_json_lines(self) -> Iterator[str]:
        """One JSON object for each patch, without the line end."""
        for step in self:
            yield from step.to_json_lines()

    def to_arrow(self) -> "pa.Table":
        """A row for each patch, with the versions `from` and `to`."""
        import pyarrow as pa

        from deltaic.wire.patches.arrow_rows import arrow_schema

        tables = [step.to_arrow() for step in self]
        if tables:
            return pa.concat_tables(tables)
        versions = [pa.field(name, pa.int64(), nullable=False) for name in ("from", "to")]
        return pa.schema([*versions, *arrow_schema()]).empty_table()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def changes_between(
    consumer: "Consumer",
    from_version: int,
    to_version: int | None = None,
    *,
    before: bool = False,
    types: Sequence[str] | None = None,
    refer: Refer | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ChangeFeed:
    """What changed between two versions of a consumer's chain, step by step.

    Args:
        consumer: whose chain, filter, parts and cache count. What it has loaded stays as it is, and is begun with
            if that is a short way.
        from_version: the version before the first step.
        to_version: the version after the last one; the announced one by default. Older than `from_version`: the
            steps back.
        before: give the values before, too, as expected previous values.
        types: tell of these only; by default of those with a primary key, and of those that nobody refers to.
        refer: names fields by their numbers on the wire.
        progress: told how many steps are done, and of how many.
    """
    if isinstance(types, str):
        raise InputError("types is a list of names")

    def walk() -> Iterator[FeedColumns]:
        for place, count, one, other, states, touched in _steps(consumer, from_version, to_version):
            found = step_changes(*states, touched, types=types, with_before=before)
            yield FeedColumns(one, other, found.groups, found.notes)
            if progress is not None:
                progress(place, count)

    return ChangeFeed(walk, refer)


_Step = tuple[int, int, int, int, tuple[ReadState, ReadState], Touched | None]
"""Number of the step, of how many, the versions before and after, their states, what was touched."""


def _steps(consumer: "Consumer", from_version: int, to_version: int | None) -> Iterator[_Step]:
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


def _bare_steps(store: Store, from_version: int, to_version: int | None) -> Iterator[_Step]:
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


class FeedListener(RefreshListener):
    """Tells what each refresh changed, on the thread that refreshes. The first load is no change.

    Args:
        tell: told of every refresh that went to another version.
        before: give the values before, too.
        types: tell of these only.
    """

    def __init__(
        self, tell: Callable[[FeedStep], None], *, before: bool = False, types: Sequence[str] | None = None
    ) -> None:
        self._tell, self._before, self._types = tell, before, types

    def after(self, refresh: Refresh, changes: Changes) -> None:
        """Tell what changed."""
        found = step_of_refresh(refresh, before=self._before, types=self._types)
        if found is not None:
            self._tell(found)


def step_of_refresh(refresh: Refresh, *, before: bool = False, types: Sequence[str] | None = None) -> FeedStep | None:
    """What a refresh changed, over however many deltas, as one step; None for a first load, or if it went nowhere."""
    changes = refresh.changes
    if refresh.from_version is None or changes.before is None or not refresh.changed:
        return None
    return feed_step(
        refresh.from_version,
        refresh.to_version,
        changes.before,
        changes.after,
        touched_of(changes),
        with_before=before,
        types=types,
    )


class _Relay(RefreshListener):
    """Carries refreshes from the thread that refreshes to the one that iterates."""

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[Refresh] = queue.SimpleQueue()

    def after(self, refresh: Refresh, changes: Changes) -> None:
        """Pass a refresh on."""
        self.waiting.put(refresh)


def follow_changes(
    consumer: "Consumer", *, before: bool = False, types: Sequence[str] | None = None
) -> Iterator[FeedStep]:
    """One step for every refresh from now on, until the consumer is stopped; follows in the background meanwhile.

    A refresh that waits to be told keeps both of its states in memory.
    """
    relay = _Relay()
    consumer.add_listener(relay)
    started_here = not consumer.running
    try:
        if started_here:
            consumer.start()
        while True:
            try:
                refresh = relay.waiting.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if not consumer.running and relay.waiting.empty():
                    return
                continue
            step = step_of_refresh(refresh, before=before, types=types)
            del refresh
            if step is not None:
                yield step
    finally:
        consumer.remove_listener(relay)
        if started_here:
            consumer.stop()
