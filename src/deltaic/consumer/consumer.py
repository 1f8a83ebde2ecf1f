"""The consumer: holds one version of a dataset in memory and follows what is announced.

    consumer = Consumer("s3://bucket/movies/chain")
    consumer.refresh()
    consumer["Movie"][7].title             # by primary key
    consumer.lookup.hash("Movie", "year")  # an index, kept over refreshes

    with Consumer(url) as consumer:        # follows in the background
        with consumer.hold() as state:     # stays at one version for a long read
            ...

A refresh never changes a state: it makes the next one, with its indexes, and swaps one reference. A reader that took
`consumer.state` reads one version for as long as it likes. There is no thread before `start`, and none in a forked
child until it uses the consumer.
"""

import logging
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from deltaic.consumer.append import append_mode
from deltaic.consumer.background import BackgroundLoop
from deltaic.consumer.cache import DEFAULT_LIMIT_BYTES, BlobCache, default_folder
from deltaic.consumer.cached import CachedType
from deltaic.consumer.listener import Listeners, RefreshListener
from deltaic.consumer.longevity import HeldState, Longevity, StateKeeper
from deltaic.consumer.metrics import ConsumerMetrics
from deltaic.consumer.plan import DEFAULT_MAX_DELTAS
from deltaic.consumer.refresh import Cancelled, Loaded
from deltaic.consumer.refresher import DoubleSnapshot, Refresher, Settings
from deltaic.consumer.report import Refresh, Status
from deltaic.consumer.sharing import Share
from deltaic.consumer.vector_parts import missing_vectors
from deltaic.consumer.vector_search import VectorSearch
from deltaic.errors import DeltaicError, InputError, NotFoundError
from deltaic.index.catalog import Lookup
from deltaic.index.tables import KeylessTable, TypeTable
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.storage.announced import MAIN
from deltaic.storage.local import LocalStore
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.storage.watch import MAX_DELAY_SECONDS, Watcher
from deltaic.wire.append import AppendMode

if TYPE_CHECKING:
    from deltaic.consumer.feed import ChangeFeed, FeedStep
    from deltaic.consumer.searching import Hits
    from deltaic.index.typed_table import TypedTable
    from deltaic.table.rows.table import Table

log = logging.getLogger("deltaic.consumer")

T = TypeVar("T")

STOP_SECONDS = 10.0
"""How long `stop` waits for a refresh that is under way."""


class Consumer(VectorSearch):
    """One version of a chain in memory.

    Args:
        store: the folder of the chain: a store, a URL or a path.
        channel: what to follow; where nothing is announced on it, `main`.
        filter: types and fields to keep or to leave out.
        parts: optional parts to load, by name.
        cache_dir: where copies of blobs are kept; None is the user's cache folder, and none for a local store;
            False is none at all.
        cache_limit_bytes: how much the copies may take.
        share: one copy for all processes of the host: `auto` (for large states), True or False.
        limits: bounds on what the bytes may ask for.
        max_deltas: with more deltas than this a snapshot is taken instead.
        double_snapshot: whether a loaded state may be replaced by a snapshot; a function gets both versions.
        cached_types: small types to hold as Python values.
        longevity: what becomes of replaced states that someone holds; None lets them live.
        schema_append: what to take of fields that deltas append: `full` (the producer's new fields and types are
            here with the next delta), `values` (of fields that are here already) or `off`.
        table: the table that the chain is published from, to search in; `Dataset.consumer` gives it by itself.
        listeners: told of each refresh.
        poll_seconds: how often the background looks at the announcement.
        clock: seconds since 1970.
        executor: where the `async` variants refresh; asyncio's own by default.
    """

    def __init__(
        self,
        store: Store | str | os.PathLike[str],
        *,
        channel: str = MAIN,
        filter: Filter | None = None,
        parts: Iterable[str] = (),
        cache_dir: str | os.PathLike[str] | Literal[False] | None = None,
        cache_limit_bytes: int = DEFAULT_LIMIT_BYTES,
        share: Share = "auto",
        limits: Limits = DEFAULT_LIMITS,
        max_deltas: int = DEFAULT_MAX_DELTAS,
        double_snapshot: DoubleSnapshot = True,
        cached_types: Iterable[str] = (),
        longevity: Longevity | None = None,
        schema_append: AppendMode | Literal["off", "values", "full"] = AppendMode.FULL,
        table: "str | os.PathLike[str] | Store | Table | None" = None,
        listeners: Iterable[RefreshListener] = (),
        poll_seconds: float = 1.0,
        clock: Callable[[], float] = time.time,
        executor: Executor | None = None,
    ) -> None:
        if poll_seconds <= 0 or max_deltas < 1:
            raise InputError("poll_seconds and max_deltas must be positive")
        if share not in (True, False, "auto"):
            raise InputError(f"share is True, False or 'auto', not {share!r}")
        self.store: Store = open_store(store) if isinstance(store, str | os.PathLike) else store
        self.poll_seconds = poll_seconds
        self.metrics = ConsumerMetrics()
        """Counters of this consumer."""
        self._reopening = {"cache_dir": cache_dir, "cache_limit_bytes": cache_limit_bytes, "table": table}
        self._clock, self._executor = clock, executor
        self._keeper = StateKeeper(longevity, clock)
        self._listeners = Listeners((self.metrics, *listeners))
        self._settings = Settings(
            store=self.store,
            channel=channel,
            filter=filter,
            parts=tuple(parts),
            cache=_open_cache(self.store, cache_dir, cache_limit_bytes, clock),
            share=share,
            limits=limits,
            max_deltas=max_deltas,
            double_snapshot=double_snapshot,
            clock=clock,
            schema_append=append_mode(schema_append),
        )
        self._refresher = Refresher(
            self._settings,
            self._listeners,
            self._keeper,
            cached_names=tuple(dict.fromkeys(cached_types)),
            cancelled=self._cancelled,
            pause=self._pause,
        )
        self._loop: BackgroundLoop | None = None
        self._watcher: Watcher | None = None
        self._starting = threading.Lock()
        self._restart = False
        self._retry_at: float | None = None
        self._tried: int | None = None
        _consumers.add(self)

    # Reading.

    @property
    def loaded(self) -> Loaded:
        """Version and state together, as they were swapped.

        Raises:
            NotFoundError: nothing is loaded yet.
        """
        if self._restart:
            self._start_again()
        loaded = self._refresher.loaded
        if loaded is None:
            raise NotFoundError(f"nothing of {self.store.url} is loaded yet: call refresh() or start()")
        return loaded

    @property
    def state(self) -> ReadState:
        """The state that is loaded: immutable, and the same for as long as it is kept."""
        # Written out, because every read of a service comes through here.
        loaded = self._refresher.loaded
        if loaded is None or self._restart:
            return self.loaded.state
        return loaded.state

    @property
    def version(self) -> int | None:
        """The version that is loaded, None before the first."""
        if self._restart:
            self._start_again()
        return self._refresher.version

    @property
    def lookup(self) -> Lookup:
        """The indexes and tables of the loaded state.

        `consumer.lookup.hash("Movie", "year")` makes an index, which is there from then on: each refresh carries it on
        before the new state is seen. What is taken from here stays at its version; ask again to see the next.
        """
        loaded = self._refresher.loaded
        if loaded is None or self._restart:
            return self.loaded.lookup
        return loaded.lookup

    def __getitem__(self, name: str) -> TypeTable | KeylessTable:
        """The records of a type in the loaded state: a mapping by primary key; by ordinal as `.view`."""
        # Written out, because every look-up of a service comes through here.
        loaded = self._refresher.loaded
        if loaded is None or self._restart:
            loaded = self.loaded
        table = loaded.lookup.tables.get(name)
        return loaded.lookup[name] if table is None else table

    def __contains__(self, name: object) -> bool:
        """True if the loaded state has a type of that name."""
        return name in self.state

    def __iter__(self) -> Iterator[str]:
        """The names of the types of the loaded state."""
        return iter(self.state)

    def typed(self, cls: type[T]) -> "TypedTable[T]":
        """The records of the type that a class stands for, as objects of that class, in the loaded state."""
        return self.lookup.typed(cls)

    def search(
        self,
        type_name: str,
        query: Any,
        *,
        k: int | None = 10,
        where: Any = None,
        snippets: Iterable[str] = (),
        **options: Any,
    ) -> "Hits":
        """Search the records of a type by text, at exactly the version that is loaded.

        Args:
            type_name: the type.
            query: in the query language of tables: `title:matrix year:[1990 TO 2000]`.
            k: so many of the best; None: all.
            where: a predicate that records must fulfil too.
            snippets: columns whose best part of the text is wanted.
            options: as for `Table.search`.

        Raises:
            NotFoundError: the chain has neither a table nor an index of its own, or its table forgot the version.
        """
        return self._search_in(
            self.loaded, type_name, query, {**options, "k": k, "where": where, "snippets": tuple(snippets)}
        )

    def _search_in(self, loaded: Loaded, type_name: str, query: Any, options: dict[str, Any]) -> "Hits":
        from deltaic.consumer.searching import search_chain, search_table

        table = self._searched_table()
        if table is None:
            return search_chain(self._settings, loaded.version, loaded.lookup, type_name, query, **options)
        return search_table(table, loaded.lookup, type_name, query, **options)

    def _searched_table(self) -> "Table | None":
        given = self._reopening["table"]
        if given is None or hasattr(given, "scan"):
            return given  # type: ignore[return-value]
        from deltaic.table.rows.table import Table

        try:
            opened = Table.open(given)  # type: ignore[arg-type]
        except NotFoundError:
            return None
        self._reopening["table"] = opened
        return opened

    @contextmanager
    def hold(self) -> Iterator[ReadState]:
        """Stay at the present version inside the block; refreshes by others wait with their swap until it ends."""
        with self._refresher.gate.hold():
            yield self.loaded.state

    def cached(self, name: str) -> CachedType:
        """The records of a small type as ready Python values, kept so from now on."""
        found = self.loaded.cached.get(name)
        if found is not None:
            return found
        if self._refresher.refreshes_here():
            return self._refresher.cache_type(name)
        with self._refresher.exclusively():
            return self._refresher.cache_type(name)

    # Refreshing.

    def refresh(self, to: int | None = None) -> Refresh:
        """Go where the announcement, or a pin, says; or to a given version, or the nearest before it.

        Raises:
            NotFoundError: nothing is announced, or there is no snapshot to begin with.
            DecodeError: a blob is corrupt or not what was announced, and there is no other way.
            StorageError: the store failed. In all cases the consumer is where it was.
        """
        with self._refresher.exclusively():
            return self._refresher.refresh(to)

    def changes(
        self,
        from_version: int,
        to_version: int | None = None,
        *,
        before: bool = False,
        types: Sequence[str] | None = None,
    ) -> "ChangeFeed":
        """What changed between two versions of the chain, step by step, as patches. What is loaded stays loaded.

        Args:
            from_version: the version before the first step.
            to_version: the version after the last one; the announced one by default. Older than `from_version`: the
                steps back.
            before: give the values before, too, as expected previous values.
            types: tell of these only; by default of those with a primary key, and of those that nobody refers to.

        Raises:
            ChainError: as the feed is read, if no blobs lead from the one version to the other.
        """
        from deltaic.consumer.feed import changes_between

        return changes_between(self, from_version, to_version, before=before, types=types)

    def follow_changes(self, *, before: bool = False, types: Sequence[str] | None = None) -> "Iterator[FeedStep]":
        """What each refresh changes from now on, as patches; follows in the background meanwhile.

        Args:
            before: give the values before, too.
            types: tell of these only.
        """
        from deltaic.consumer.feed import follow_changes

        return follow_changes(self, before=before, types=types)

    def forget_failures(self) -> None:
        """Let blobs that failed be tried again at once."""
        self._refresher.failed.clear()
        self._retry_at = 0.0
        self._wake()

    def pin_locally(self, version: int) -> None:
        """Hold this consumer at a version, whatever is announced, from the next refresh on."""
        self._refresher.local_pin = version
        self._wake()

    def unpin_locally(self) -> None:
        """Follow the announcement again."""
        self._refresher.local_pin = None
        self._wake()

    # Following in the background.

    def start(self, *, load: bool = True) -> Self:
        """Follow in the background; nothing happens if it runs already.

        Args:
            load: load the first version before returning, and raise if that fails; else the background does it.
        """
        self._restart = False
        if self.running:
            return self
        if load and self._refresher.loaded is None:
            self.refresh()
        with self._starting:
            if not self.running:
                self._watcher = Watcher(self._refresher.announcements, interval_seconds=self.poll_seconds)
                self._tried = self._retry_at = None
                self._loop = BackgroundLoop(self._round, self.store)
                self._loop.start()
        return self

    def stop(self, *, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Stop following; what is loaded stays. False if a refresh under way did not end in time."""
        self._restart = False
        loop = self._loop
        if loop is None:
            return True
        loop.request_stop()
        self._refresher.gate.wake()
        ended = loop.stop(timeout_seconds)
        with self._refresher.moved:
            self._refresher.moved.notify_all()
        return ended

    @property
    def running(self) -> bool:
        """True while it follows in the background."""
        loop = self._loop
        return loop is not None and loop.alive and not loop.stopping

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait_for(self, version: int, timeout_seconds: float, *, exact: bool = False) -> bool:
        """Wait until the consumer is at a version or past it, with `exact` at this very one; False if time ran out.

        Without a background it refreshes by itself meanwhile.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            with self._refresher.moved:
                if self._is_at(version, exact):
                    return True
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                if self.running:
                    self._refresher.moved.wait(min(left, 1.0))
                    continue
            try:
                self.refresh()
            except DeltaicError as error:
                log.debug("still waiting for version %d: %s", version, str(error))
            if not self._is_at(version, exact):
                time.sleep(max(0.0, min(self.poll_seconds, deadline - time.monotonic())))

    def _is_at(self, version: int, exact: bool) -> bool:
        at = self.version
        return at is not None and (at == version or (at > version and not exact))

    def _round(self) -> float:
        """One look of the background; gives the seconds until the next."""
        watcher = self._watcher
        assert watcher is not None
        refresher = self._refresher
        found = watcher.poll()
        if watcher.failures:
            refresher.last_error, refresher.failures = "the announcement cannot be read", watcher.failures
            return watcher.delay_seconds()
        if found is not None:
            refresher.accept(found)
        self._keeper.check()
        if self._due(found is not None):
            self._refresh_in_background()
        return watcher.delay_seconds()

    def _due(self, changed: bool) -> bool:
        refresher, now = self._refresher, self._clock()
        target = refresher.wanted().version
        if target is None:
            return False
        if refresher.version == target:
            self._tried = target
            refresher.arrived()
            return False
        retry = self._retry_at is not None and now >= self._retry_at
        return changed or retry or target != self._tried

    def _refresh_in_background(self) -> None:
        refresher = self._refresher
        self._retry_at, self._tried = None, refresher.wanted().version
        try:
            with refresher.exclusively():
                refresh = refresher.refresh(look=False)
        except Cancelled:
            self._tried = None
        except Exception as error:
            level = logging.WARNING if isinstance(error, DeltaicError | OSError) else logging.ERROR
            log.log(level, "a refresh failed: %s", str(error), exc_info=level == logging.ERROR)
            wait = min(self.poll_seconds * 2 ** min(refresher.failures, 10), MAX_DELAY_SECONDS)
            self._retry_at = self._clock() + wait
        else:
            if refresh.stuck is not None:
                later = [failed.retry_at for failed in refresher.failed.all() if failed.retry_at > self._clock()]
                self._retry_at = min(later, default=self._clock() + MAX_DELAY_SECONDS)

    # How it is.

    def status(self) -> Status:
        """How the consumer is: where, where it should be, how fresh, and what keeps it back."""
        if self._restart:
            self._start_again()
        refresher = self._refresher
        target, loaded, fresh_at = refresher.wanted(), refresher.loaded, refresher.fresh_at
        return Status(
            version=None if loaded is None else loaded.version,
            wanted=target.version,
            announced=target.announced,
            pinned=target.pinned,
            pinned_by=target.pinned_by,
            verified=None if loaded is None else loaded.verified,
            freshness_seconds=None if fresh_at is None else max(0.0, self._clock() - fresh_at),
            stuck=refresher.stuck,
            failed_transitions=refresher.failed.all(),
            last_error=refresher.last_error,
            failures_in_a_row=refresher.failures,
            size_bytes=0 if loaded is None else loaded.base.nbytes,
            states_held=len(self._keeper.held()),
            running=self.running,
            shared=loaded is not None and loaded.shared,
            missing_vectors=() if loaded is None else tuple(sorted(map(".".join, missing_vectors(loaded.base)))),
        )

    def held_states(self) -> tuple[HeldState, ...]:
        """Older states that someone still holds."""
        self._keeper.check()
        return self._keeper.held()

    @property
    def longevity(self) -> Longevity | None:
        """What becomes of replaced states that someone holds. May be changed while the consumer runs."""
        return self._keeper.settings

    @longevity.setter
    def longevity(self, settings: Longevity | None) -> None:
        with self._refresher.exclusively():
            self._keeper.settings = settings
            loaded = self._refresher.loaded
            if loaded is not None:
                self._keeper.replaced(loaded.version, loaded.state)
                lookup = self._keeper.shown(loaded.version, loaded.indexes)
                self._refresher.loaded = replace(loaded, state=lookup.state, lookup=lookup)
        self._keeper.check()

    @property
    def listener_errors(self) -> int:
        """How often a listener raised."""
        return self._listeners.errors

    def add_listener(self, listener: RefreshListener) -> None:
        """Tell one more listener, from the next refresh on."""
        self._listeners.add(listener)

    def remove_listener(self, listener: RefreshListener) -> None:
        """Tell a listener no longer."""
        self._listeners.remove(listener)

    # With asyncio.

    async def arefresh(self, to: int | None = None) -> Refresh:
        """`refresh` for asyncio: runs on a thread, the event loop goes on."""
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(self._executor, self.refresh, to)

    async def follow(self) -> AsyncIterator[int]:
        """Each version that the consumer moves to, the present one first; follows in the background meanwhile."""
        from deltaic.consumer.following import follow

        async for version in follow(self):
            yield version

    # Processes and threads.

    def _cancelled(self) -> bool:
        loop = self._loop
        return loop is not None and loop.stopping and loop.runs_here()

    def _pause(self, seconds: float) -> None:
        loop = self._loop
        if loop is not None and loop.runs_here():
            loop.pause(seconds)
        else:
            time.sleep(seconds)

    def _wake(self) -> None:
        self._tried = None
        loop = self._loop
        if loop is not None:
            loop.wake()

    def _start_again(self) -> None:
        """Follow in a forked child as its parent does."""
        self._restart = False
        self.start(load=False)

    def _forked(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            self._restart = self._restart or not loop.stopping
            loop.forget()
        self._starting = threading.Lock()
        self._refresher.begin_in_process()
        self.metrics.after_fork()

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process loads for itself, or attaches; it does not get this one's memory.
        told = self._settings
        settings: dict[str, Any] = {
            "channel": told.channel,
            "filter": told.filter,
            "parts": told.parts,
            **self._reopening,
            "share": told.share,
            "limits": told.limits,
            "max_deltas": told.max_deltas,
            "double_snapshot": told.double_snapshot,
            "cached_types": self._refresher.cached_names,
            "longevity": self.longevity,
            "schema_append": told.schema_append,
            "listeners": tuple(
                one for one in self._listeners.all() if one is not self.metrics and one is not self._nearest_indexes
            ),
            "poll_seconds": self.poll_seconds,
        }
        return _reopened, (self.store, settings)

    def __repr__(self) -> str:
        return f"Consumer({self.store.url!r}, version={self._refresher.version})"


_consumers: "weakref.WeakSet[Consumer]" = weakref.WeakSet()


def _after_fork() -> None:
    for consumer in list(_consumers):
        consumer._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _reopened(store: Store, settings: dict[str, Any]) -> Consumer:
    return Consumer(store, **settings)


def _open_cache(
    store: Store,
    folder: str | os.PathLike[str] | Literal[False] | None,
    limit_bytes: int,
    clock: Callable[[], float],
) -> BlobCache | None:
    if folder is False or (folder is None and (isinstance(store, LocalStore) or store.url.startswith("memory:"))):
        return None
    return BlobCache(default_folder() if folder is None else folder, limit_bytes=limit_bytes, clock=clock)
