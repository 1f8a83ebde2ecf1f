"""The part of a consumer that refreshes: one at a time, all or nothing, every outcome told.

It looks at the announcement, finds a route, walks it, swaps one reference, tells the listeners. A blob that fails is
remembered and another route looked for; what the store does not answer is raised and nothing remembered.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

from deltaic.consumer.apply import PrivateStates, StateMaker
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
from deltaic.consumer.refresh import Cancelled, Loaded, StepFailed, Walked, walk
from deltaic.consumer.report import Refresh, RefreshFailure
from deltaic.consumer.route import Planner, Route, Router
from deltaic.consumer.sharing import Share, open_states
from deltaic.consumer.times import Times
from deltaic.errors import ChainError, DeltaicError, InputError, NotFoundError
from deltaic.limits import Limits
from deltaic.state.filter import Filter
from deltaic.storage.announcement import Announcement, Announcements
from deltaic.storage.backoff import Backoff
from deltaic.storage.chain import Chain
from deltaic.storage.store import Store

log = logging.getLogger("deltaic.consumer")

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
        private = PrivateStates(settings.filter, settings.limits)
        self._maker: StateMaker = open_states(settings.share, settings.store, private, settings.parts)

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
            failure = RefreshFailure(self.version, to, error)
            self.listeners.tell(lambda listener: listener.failed(failure))
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
        while True:
            with times("plan"):
                route = self._route(target, allow)
            if not route.plan.steps:
                break
            if not told:
                told = True
                self._tell_before(route.plan.version or 0)
            try:
                walked = self._walk(loaded, route, times)
            except StepFailed as failed:
                first_error = first_error or failed.error
                failures.append(self._remember(failed, route))
                continue
            return self._swap(loaded, walked, route, target, times, failures)
        if loaded is None:
            raise first_error or ChainError(f"no snapshot leads to version {target} in {self.settings.store.url}")
        if first_error is not None:
            self._tell_stuck(loaded.version, target, self._reason(loaded.version, target, route))
            raise first_error
        stuck = None if loaded.version == target else self._reason(loaded.version, target, route)
        self._tell_stuck(loaded.version, target, stuck)
        changes = Changes(loaded.base, loaded.base, NO_STEPS)
        return Refresh(loaded.version, loaded.version, target, (), times.seconds, changes, stuck)

    def _tell_before(self, end: int) -> None:
        self.listeners.tell(lambda listener: listener.before(self.version, end))

    def _walk(self, loaded: Loaded | None, route: Route, times: Times) -> Walked:
        fetcher = Fetcher(
            self.settings.store, self.settings.cache, self._backoff, self.settings.limits, self.settings.parts, times
        )
        verifiable = self.announcement is not None and self.announcement.verified
        return walk(loaded, route, fetcher, self._maker, cancelled=self._cancelled, verifiable=verifiable)

    def _swap(
        self,
        before: Loaded | None,
        walked: Walked,
        route: Route,
        target: int,
        times: Times,
        failures: list[FailedTransition],
    ) -> Refresh:
        version = route.plan.version
        assert version is not None
        changes = Changes(None if before is None else before.base, walked.state, walked.touched)
        with times("apply"):
            old = {} if before is None else before.cached
            cached = {name: CachedType.of(walked.state, name, old.get(name), changes) for name in self.cached_names}
        shown = self.keeper.shown(version, walked.state)
        loaded = Loaded(version, shown, walked.state, walked.verified, walked.shared, cached)
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
        artifact = route.artifact(failed.step)
        log.warning("%s cannot be applied: %s", failed.step, failed.error)
        checksum = None if artifact is None else artifact.checksum
        return self.failed.record(failed.step, checksum, failed.error, self.settings.clock())

    def _route(self, target: int, allow: Callable[[int, int], bool]) -> Route:
        announcement = self.announcement
        if announcement is None:
            raise NotFoundError(f"nothing is announced in {self.settings.store.url} yet")
        return self._router.find(announcement, target, self._planner(target, announcement, allow))

    def _planner(self, target: int, announcement: Announcement, allow: Callable[[int, int], bool]) -> Planner:
        current = None if self.loaded is None else self.loaded.version
        entries = () if announcement.record is None else announcement.record.versions
        checksums = {artifact.name: artifact.checksum for entry in entries for artifact in entry.artifacts}
        blocked = self.failed.blocked(self.settings.clock(), checksums)

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
