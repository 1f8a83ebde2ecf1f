"""The part of a consumer that refreshes: one at a time, all or nothing, every outcome told.

It looks at the announcement, finds a route, walks it, swaps one reference, tells the listeners. A blob that fails is
remembered and another route looked for; what the store does not answer is raised and nothing remembered.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

from deltaic.consumer.apply import StateMaker
from deltaic.consumer.cache import BlobCache
from deltaic.consumer.cached import CachedType
from deltaic.consumer.changes import NO_STEPS, Changes
from deltaic.consumer.failed import FailedTransition, FailedTransitions
from deltaic.consumer.fetch import Fetcher
from deltaic.consumer.hold import HoldGate
from deltaic.consumer.listener import Listeners
from deltaic.consumer.longevity import StateKeeper
from deltaic.consumer.pin import Wanted, wanted
from deltaic.consumer.plan import Plan, plan_refresh
from deltaic.consumer.refresh import Cancelled, Loaded, StepFailed, Walk, Walked, attached, expected_bytes
from deltaic.consumer.report import Refresh, RefreshFailure
from deltaic.consumer.route import Planner, Route, Router
from deltaic.consumer.sharing import Share, open_states
from deltaic.consumer.times import Times
from deltaic.consumer.vector_parts import missing_vectors, step_checksum
from deltaic.errors import ChainError, DeltaicError, InputError, NotFoundError
from deltaic.index.catalog import Lookup
from deltaic.index.index_set import IndexSet
from deltaic.limits import Limits
from deltaic.state.filter import Filter
from deltaic.storage.announcement import Announcement, Announcements
from deltaic.storage.backoff import Backoff
from deltaic.storage.chain import BlobName, Chain
from deltaic.storage.store import Store
from deltaic.wire.append import AppendMode

log = logging.getLogger("deltaic.consumer")

_DESTINATION_TAG = (12, 8)
"""Where the state tag lies in every blob: start and length (hollow-blob.md, "blob header")."""

DoubleSnapshot = bool | Callable[[int, int], bool]
"""Whether a loaded state may be replaced by a snapshot: always, never, or as a function of the versions from and to."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a consumer was told."""

    store: Store
    channel: str
    filter: Filter | None
    parts: tuple[str, ...]
    cache: BlobCache | None
    share: Share
    limits: Limits
    max_deltas: int
    double_snapshot: DoubleSnapshot
    clock: Callable[[], float]
    schema_append: AppendMode = AppendMode.FULL


class Refresher:
    """Moves a consumer from version to version.

    Args:
        settings: what the consumer was told.
        listeners: told of each refresh.
        keeper: watches over states that were replaced.
        cancelled: True if a refresh should end early.
        pause: sleeps between two tries at a failing store.
    """

    def __init__(
        self,
        settings: Settings,
        listeners: Listeners,
        keeper: StateKeeper,
        *,
        cached_names: tuple[str, ...],
        cancelled: Callable[[], bool],
        pause: Callable[[float], None],
    ) -> None:
        self.settings, self.listeners, self.keeper = settings, listeners, keeper
        self.cached_names = cached_names
        self.failed = FailedTransitions()
        self.loaded: Loaded | None = None
        """What readers see; swapped by one assignment."""
        self.announcement: Announcement | None = None
        self.local_pin: int | None = None
        self.fresh_at: float | None = None
        self.stuck: str | None = None
        self.last_error: str | None = None
        self.failures = 0
        self._cancelled, self._pause = cancelled, pause
        self.begin_in_process()

    def begin_in_process(self) -> None:
        """Make what belongs to one process and must be new in a forked child: locks, and what may hold some."""
        settings = self.settings
        self.gate = HoldGate()
        self.moved = threading.Condition()
        self._mutex = threading.Lock()
        self._refreshing: int | None = None
        self._backoff = Backoff(attempts=3, sleep=self._pause)
        self.announcements = Announcements(settings.store, clock=settings.clock, backoff=self._backoff)
        self._router = Router(settings.store, self._backoff, settings.parts)
        self._maker: StateMaker = open_states(
            settings.share, settings.store, settings.filter, settings.parts, settings.schema_append
        )

    @property
    def version(self) -> int | None:
        """The version that is loaded."""
        loaded = self.loaded
        return None if loaded is None else loaded.version

    def wanted(self) -> Wanted:
        """Where the consumer should be, by what it last saw."""
        return wanted(self.announcement, self.settings.channel, self.local_pin)

    def refresh(self, to: int | None = None, *, look: bool = True) -> Refresh:
        """Go where the announcement says, or to a version; the caller has the right to refresh."""
        try:
            times = Times()
            with times("plan"):
                if look:
                    self._look()
                target = to if to is not None else self.wanted().version
            if target is None:
                raise NotFoundError(f"nothing is announced in {self.settings.store.url} yet")
            refresh = self._move(target, times)
        except Cancelled:
            raise
        except Exception as error:
            self.last_error, self.failures = str(error) or type(error).__name__, self.failures + 1
            self._tell_failed(RefreshFailure(self.version, to, error))
            raise
        self.last_error, self.failures = None, 0
        if to is None and refresh.stuck is None:
            self.arrived()
        return refresh

    def arrived(self) -> None:
        """The consumer is known to be where it should be now."""
        self.fresh_at = self.settings.clock()
        self.stuck = self.last_error = None
        self.failures = 0

    def _look(self) -> None:
        known = self.announcement
        try:
            found = self.announcements.read_if_changed(None if known is None else known.etag)
        except NotFoundError:
            raise NotFoundError(f"nothing is announced in {self.settings.store.url}") from None
        if found is not None:
            self.accept(found)

    def accept(self, found: Announcement) -> None:
        """Take over an announcement, unless a newer one was seen on another thread meanwhile."""
        known = self.announcement
        before = None if known is None else known.record
        if before is None or found.record is None or found.record.sequence >= before.sequence:
            self.announcement = found

    def _move(self, target: int, times: Times) -> Refresh:
        loaded, failures = self.loaded, list[FailedTransition]()
        first_error: DeltaicError | None = None
        told, allow = False, cache(self._allows_snapshot)
        self._maker.tidy()
        with times("plan"):
            route = self._route(target, loaded, allow)
        start, route = self._begin(target, loaded, route, allow, times)
        while route.plan.steps or start is not loaded:
            if not told:
                told = True
                self._tell_before(route.plan.version or 0)
            try:
                walked = self._walk(start, route, times)
            except StepFailed as failed:
                first_error = first_error or failed.error
                failures.append(self._remember(failed, route))
                start = loaded
                with times("plan"):
                    route = self._route(target, start, allow)
                continue
            return self._swap(loaded, walked, route, target, times, failures)
        try:
            return self._stay(loaded, target, route, first_error, times)
        finally:
            # An error knows the frames it went through; one that knows the error would keep this one's states alive.
            del first_error

    def _begin(
        self, target: int, loaded: Loaded | None, route: Route, allow: Callable[[int, int], bool], times: Times
    ) -> tuple[Loaded | None, Route]:
        """Where a walk begins: what is loaded; at first a state that another process of the host made, if one helps."""
        if loaded is not None or not route.plan.steps:
            return loaded, route
        with times("apply"):
            near = self._maker.nearest(target, expected_bytes(route), self._fingerprint)
        if near is None or near.version in route.withdrawn:
            return None, route
        indexes = IndexSet(near.state)
        lookup = Lookup(near.state, indexes)
        start = Loaded(near.version, near.state, near.state, self._verifiable(), True, {}, indexes, lookup)
        with times("plan"):
            onward = self._route(target, start, allow)
        helps = onward.plan.version == target and not onward.plan.starts_with_snapshot
        return (start, onward) if helps else (None, route)

    def _stay(
        self, loaded: Loaded | None, target: int, route: Route, error: DeltaicError | None, times: Times
    ) -> Refresh:
        """What becomes of a refresh without a way: nothing to do, stuck, or an error."""
        try:
            if loaded is None:
                raise error or ChainError(f"no snapshot leads to version {target} in {self.settings.store.url}")
            stuck = None if loaded.version == target else self._reason(loaded.version, target, route)
            self._tell_stuck(loaded.version, target, stuck)
            if error is not None:
                raise error
        finally:
            del error
        changes = Changes(loaded.base, loaded.base, NO_STEPS)
        return Refresh(loaded.version, loaded.version, target, (), times.seconds, changes, stuck)

    def _tell_failed(self, failure: RefreshFailure) -> None:
        self.listeners.tell(lambda listener: listener.failed(failure))

    def _tell_before(self, end: int) -> None:
        self.listeners.tell(lambda listener: listener.before(self.version, end))

    def _walk(self, start: Loaded | None, route: Route, times: Times) -> Walked:
        settings = self.settings
        fetcher = Fetcher(settings.store, settings.cache, self._backoff, settings.limits, settings.parts, times)
        state = None if start is None or route.plan.starts_with_snapshot else start.base
        if start is not None and not route.plan.steps:
            return attached(start.base, start.version, None, verifiable=start.verified)
        append = settings.schema_append
        base = None if self.loaded is None else self.loaded.base
        known = () if base is None else {*base.vectors, *missing_vectors(base)}
        walk = Walk(route, state, fetcher, settings.filter, settings.limits, self._cancelled, append, known)
        verified = start is None or start.verified
        return walk.go(self._maker, self._fingerprint, verifiable=self._verifiable(), verified=verified)

    def _verifiable(self) -> bool:
        return self.announcement is not None and self.announcement.verified

    def _fingerprint(self, version: int) -> str:
        """What tells a version from another one of the same number, in a chain that was made anew."""
        entry = None if self.announcement is None else self._router.entry(self.announcement, version)
        return self._tag_of(version) if entry is None else f"{entry.announced_ms}-{entry.epoch}"

    def _tag_of(self, version: int) -> str:
        """The state tag of a version that nothing was announced of but its number, as its blobs have it."""
        for name in (BlobName.header(version), BlobName.snapshot(version)):
            try:
                tag = self.settings.store.get_range(str(name), *_DESTINATION_TAG)
            except NotFoundError:
                continue
            if len(tag) == _DESTINATION_TAG[1]:
                return tag.hex()
        # Not to be told from another version of the same number: shared with nobody.
        return uuid.uuid4().hex

    def _swap(
        self,
        before: Loaded | None,
        walked: Walked,
        route: Route,
        target: int,
        times: Times,
        failures: list[FailedTransition],
    ) -> Refresh:
        version = walked.version
        # Against nothing everything is new, also where the walk began at a state that another process had made.
        old_base, touched = (None, None) if before is None else (before.base, walked.touched)
        changes = Changes(old_base, walked.state, touched)
        with times("apply"):
            old = {} if before is None else before.cached
            cached = {name: CachedType.of(walked.state, name, old.get(name), changes) for name in self.cached_names}
        with times("index"):
            home = self._maker.index_home(walked.state)
            indexes = (
                IndexSet(walked.state, home=home)
                if before is None
                else before.indexes.refreshed(walked.state, touched, home)
            )
        lookup = self.keeper.shown(version, indexes)
        loaded = Loaded(version, lookup.state, walked.state, walked.verified, walked.shared, cached, indexes, lookup)
        with times("swap"):
            with self.gate.swapping(self._cancelled) as free:
                if not free:
                    raise Cancelled
                self.loaded = loaded
            if before is not None:
                self.keeper.replaced(before.version, before.state)
            with self.moved:
                self.moved.notify_all()
        for step in route.plan.steps:
            self.failed.succeeded(step)
        stuck = None if version == target else self._reason(version, target, route)
        from_version = None if before is None else before.version
        refresh = Refresh(from_version, version, target, walked.steps, times.seconds, changes, stuck, tuple(failures))
        with times("notify"):
            self.listeners.tell(lambda listener: listener.after(refresh, changes))
            self._tell_stuck(version, target, stuck)
        self.keeper.check()
        log.info("refreshed from %s to %d in %.3f s", from_version, version, refresh.total_seconds)
        return refresh

    def _remember(self, failed: StepFailed, route: Route) -> FailedTransition:
        # As text: a handler that keeps what it was given would keep the error, its frames, and their states.
        log.warning("%s cannot be applied: %s", failed.step, str(failed.error))
        return self.failed.record(failed.step, route.checksum(failed.step), failed.error, self.settings.clock())

    def _route(self, target: int, start: Loaded | None, allow: Callable[[int, int], bool]) -> Route:
        announcement = self.announcement
        if announcement is None:
            raise NotFoundError(f"nothing is announced in {self.settings.store.url} yet")
        return self._router.find(announcement, target, self._planner(target, start, announcement, allow))

    def _planner(
        self, target: int, start: Loaded | None, announcement: Announcement, allow: Callable[[int, int], bool]
    ) -> Planner:
        current = None if start is None else start.version
        entries = () if announcement.record is None else announcement.record.versions
        checksums = {artifact.name: artifact.checksum for entry in entries for artifact in entry.artifacts}
        announced = {
            str(one.blob): step_checksum(one.blob, checksums) or ""
            for one in self.failed.all()
            if str(one.blob) in checksums
        }
        blocked = self.failed.blocked(self.settings.clock(), announced)

        def plan(chain: Chain) -> Plan:
            def planned(double_snapshot: bool) -> Plan:
                return plan_refresh(
                    current,
                    target,
                    chain,
                    max_deltas=self.settings.max_deltas,
                    double_snapshot=double_snapshot,
                    failed=blocked,
                )

            best = planned(True)
            if current is None or not best.starts_with_snapshot or allow(current, target):
                return best
            return planned(False)

        return plan

    def _allows_snapshot(self, current: int, target: int) -> bool:
        allowed = self.settings.double_snapshot
        return allowed(current, target) if callable(allowed) else allowed

    def _reason(self, version: int, target: int, route: Route) -> str:
        """Why there is no way to a version."""
        if target in route.withdrawn:
            return f"version {target} was withdrawn"
        known = {str(failed.blob): failed for failed in self.failed.all() if failed.retry_at > self.settings.clock()}
        if known:
            name, failed = next(iter(known.items()))
            return f"{name} failed {failed.attempts} times, the last time with: {failed.error}"
        if self.announcement is not None and self.announcement.verified:
            if self._router.entry(self.announcement, target) is None:
                return f"version {target} was never announced"
        elif route.versions and target not in route.versions:
            return f"version {target} is not in the chain; versions {route.versions[0]} to {route.versions[-1]} are"
        without = "" if self.settings.double_snapshot is True else ", and a second snapshot is not allowed"
        return f"no deltas lead from version {version} to {target}{without}"

    def _tell_stuck(self, version: int, target: int, reason: str | None) -> None:
        before, self.stuck = self.stuck, reason
        if reason is not None and reason != before:
            log.warning("stuck at version %d, wanted is %d: %s", version, target, reason)
            self.listeners.tell(lambda listener: listener.stuck(version, target, reason))

    def cache_type(self, name: str) -> CachedType:
        """Hold a type as Python values from now on; the caller has the right to refresh."""
        loaded = self.loaded
        assert loaded is not None
        if name not in loaded.base:
            raise NotFoundError(f"there is no type {name!r} to hold as Python values")
        self.cached_names = tuple(dict.fromkeys((*self.cached_names, name)))
        made = CachedType.of(loaded.base, name)
        self.loaded = replace(loaded, cached={**loaded.cached, name: made})
        return made

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """The right to refresh, which one thread has at a time."""
        me = threading.get_ident()
        if self._refreshing == me:
            raise InputError("a listener cannot refresh the consumer that called it")
        if self.gate.held_here():
            raise InputError("this thread holds the consumer at its version: a refresh would wait for itself")
        with self._mutex:
            self._refreshing = me
            try:
                yield
            finally:
                self._refreshing = None

    def refreshes_here(self) -> bool:
        """True on the thread that refreshes: inside of a listener."""
        return self._refreshing == threading.get_ident()
