"""One refresh: walk the blobs of a route and come out with the next state, or with nothing changed.

States on the way are seen by nobody. If a blob fails, `StepFailed` says which, and the loaded state is as it was.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from deltaic.consumer.apply import StateMaker, changed_ordinals, read_step
from deltaic.consumer.cached import CachedType
from deltaic.consumer.changes import Step
from deltaic.consumer.fetch import Fetcher
from deltaic.consumer.report import RefreshStep
from deltaic.consumer.route import Route
from deltaic.consumer.vector_parts import ColumnKey, missing_vectors, wants_part, with_part
from deltaic.errors import DeltaicError, StorageError
from deltaic.index.catalog import Lookup
from deltaic.index.index_set import IndexSet
from deltaic.limits import Limits
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.storage.chain import BlobKind, BlobName
from deltaic.vector.names import part_name
from deltaic.wire.append import AppendMode


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a consumer has: one version, as one value that is swapped by one reference."""

    version: int
    state: ReadState
    """What readers are given."""
    base: ReadState = field(repr=False)
    """The state that the next delta is applied to."""
    verified: bool
    """True if every blob that led here was compared with its announced checksum."""
    shared: bool
    cached: Mapping[str, CachedType]
    """Types that are held as Python values."""
    indexes: IndexSet = field(repr=False)
    """The indexes of `base`, which the next refresh carries on."""
    lookup: Lookup = field(repr=False)
    """What readers look records up with: of `state`, with these indexes."""


@dataclass(frozen=True, slots=True)
class Walked:
    """Where a walk ended, and what it met."""

    version: int
    state: ReadState
    steps: tuple[RefreshStep, ...]
    touched: tuple[Step, ...] | None
    """What each delta touched; None if that is not known, as after a snapshot."""
    verified: bool
    shared: bool


class StepFailed(Exception):
    """A blob that could not be read or applied."""

    def __init__(self, step: BlobName, error: DeltaicError) -> None:
        super().__init__(step, error)
        self.step, self.error = step, error


class Cancelled(Exception):
    """The consumer was stopped in the middle of a refresh."""


class _StoreFailed(Exception):
    """The store of the blobs failed, and not the place where states are shared, which fails with the same errors."""

    def __init__(self, error: StorageError) -> None:
        super().__init__(error)
        self.error = error


@dataclass(slots=True)
class Walk:
    """A walk along a route.

    Args:
        route: which blobs, in order.
        start: the state that the first delta meets; None before a snapshot.
        fetcher: gets the blobs.
        filter: what a snapshot is read with.
        limits: bounds on what the bytes may ask for.
        cancelled: True if the walk should end early.
        append: what is taken of appended sections.
        known: vector columns that the consumer had, or missed, before it starts with a snapshot.
    """

    route: Route
    start: ReadState | None
    fetcher: Fetcher
    filter: Filter | None
    limits: Limits
    cancelled: Callable[[], bool]
    append: AppendMode = AppendMode.OFF
    known: Collection[ColumnKey] = ()
    _reports: list[RefreshStep] = field(default_factory=list)
    _touched: list[Step] = field(default_factory=list)

    def go(self, maker: StateMaker, fingerprint: Callable[[int], str], *, verifiable: bool, verified: bool) -> Walked:
        """Take every step, or find that another process of the host has.

        Args:
            maker: where states are made.
            fingerprint: of a version, what tells it from another one of the same number.
            verifiable: whether blobs of this chain have announced checksums.
            verified: whether those that led to the start were compared with theirs.

        Raises:
            StepFailed: a blob is not there, not what was announced, or does not fit.
            StorageError: the store failed; the same step may work later.
            Cancelled: the consumer was stopped.
        """
        end = self.route.plan.version
        assert end is not None
        try:
            made = maker.make(end, self.start, expected_bytes(self.route), fingerprint, self._build)
        except _StoreFailed as failed:
            raise failed.error from failed
        if not made.built:
            return attached(made.state, end, self.start, verifiable=verifiable)
        whole = self.start is None or self.route.plan.starts_with_snapshot
        reports = tuple(self._reports)
        all_verified = all(report.verified for report in reports) and (whole or verified)
        return Walked(end, made.state, reports, None if whole else tuple(self._touched), all_verified, made.shared)

    def _build(self) -> ReadState:
        self._reports.clear()
        self._touched.clear()
        state = self.start
        for step in self.route.plan.steps:
            if self.cancelled():
                raise Cancelled
            state = self._take(state, step)
            if step.from_version is not None:
                self._touched.append(changed_ordinals(state))
        assert state is not None
        return state

    def _take(self, state: ReadState | None, step: BlobName) -> ReadState:
        seconds = self.fetcher.times.seconds
        elsewhere = seconds["fetch"] + seconds["verify"]
        started = time.perf_counter()
        try:
            try:
                fetched = self.fetcher.fetch(step, self.route)
            except StorageError as error:
                raise _StoreFailed(error) from error
            self._reports.append(RefreshStep(str(step), fetched.size_bytes, fetched.from_cache, fetched.verified))
            made = read_step(state, step, fetched, self.filter, self.limits, self.append)
            self._reports[-1] = replace(self._reports[-1], appended=made.appended)
            return self._with_vectors(state, made, step)
        except StorageError:
            raise
        except DeltaicError as error:
            raise StepFailed(step, error) from error
        finally:
            # Fetching is counted where it happens.
            seconds["apply"] += time.perf_counter() - started - (seconds["fetch"] + seconds["verify"] - elsewhere)

    def _with_vectors(self, before: ReadState | None, made: ReadState, step: BlobName) -> ReadState:
        """The state after a step with the vectors of the part beside it."""
        try:
            part = self.fetcher.fetch_vectors(step, self.route) if wants_part(made) else None
        except StorageError as error:
            raise _StoreFailed(error) from error
        known = self.known if before is None else {*before.vectors, *missing_vectors(before)}
        if step.kind is BlobKind.REVERSE_DELTA and self.route.artifact(step) is not None:
            # The announced way back to a version whose header names no vectors: there never were any.
            known = ()
        if part is None:
            return with_part(before, made, step, None, known, self.limits)
        report = self._reports[-1]
        self._reports[-1] = replace(
            report,
            size_bytes=report.size_bytes + part.size_bytes,
            from_cache=report.from_cache and part.from_cache,
            verified=report.verified and part.verified,
            vector_bytes=part.size_bytes,
        )
        # A file that is what was announced needs no second proof.
        return with_part(before, made, step, part.data, known, self.limits, check=not part.verified)


def attached(state: ReadState, version: int, start: ReadState | None, *, verifiable: bool) -> Walked:
    """The end of a walk that another process of the host took."""
    # What its last delta touched is what changed for us only if that delta began where we are.
    one_step = start is not None and state.origin_tag == start.tag
    touched = (changed_ordinals(state),) if one_step else None
    report = RefreshStep(f"shared-{version}", 0, from_cache=True, verified=verifiable, shared=True)
    return Walked(version, state, (report,), touched, verifiable, True)


def expected_bytes(route: Route) -> int:
    """How large the state will be at least, as far as the announcement tells; 0 if it goes on from another one."""
    if not route.plan.starts_with_snapshot:
        return 0
    first = route.plan.steps[0]
    files = route.artifact(first), route.artifacts.get(part_name(first))
    return sum(artifact.plain_size for artifact in files if artifact is not None)
