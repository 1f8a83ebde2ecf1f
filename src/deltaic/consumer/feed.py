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
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltaic.compare.feed import step_changes
from deltaic.compare.feed_groups import ChangeGroup, StepChanges
from deltaic.compare.feed_patches import batch_of
from deltaic.consumer.changes import Changes
from deltaic.consumer.feed_walk import Touched, touched_of, walked_steps
from deltaic.consumer.listener import RefreshListener
from deltaic.consumer.report import Refresh
from deltaic.errors import InputError
from deltaic.state.read import ReadState
from deltaic.wire.patches.batch import PatchBatch, Refer
from deltaic.wire.patches.patch import Patch

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaic.consumer.consumer import Consumer

_LOOK_SECONDS = 0.5


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
        for place, count, one, other, states, touched in walked_steps(consumer, from_version, to_version):
            found = step_changes(*states, touched, types=types, with_before=before)
            yield FeedColumns(one, other, found.groups, found.notes)
            if progress is not None:
                progress(place, count)

    return ChangeFeed(walk, refer)


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
