"""One refresh: walk the blobs of a route and come out with the next state, or with nothing changed.

States on the way are seen by nobody. If a blob fails, `StepFailed` says which, and the loaded state is as it was.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from deltaic.consumer.apply import Made, StateMaker, changed_ordinals
from deltaic.consumer.cached import CachedType
from deltaic.consumer.changes import Step
from deltaic.consumer.fetch import Fetched, Fetcher
from deltaic.consumer.report import RefreshStep
from deltaic.consumer.route import Route
from deltaic.errors import DeltaicError, StorageError
from deltaic.state.read import ReadState
from deltaic.storage.chain import BlobName


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


@dataclass(frozen=True, slots=True)
class Walked:
    """Where a walk ended, and what it met."""

    state: ReadState
    steps: tuple[RefreshStep, ...]
    touched: tuple[Step, ...] | None
    """What each delta touched; None if the walk began with a snapshot."""
    verified: bool
    shared: bool


class StepFailed(Exception):
    """A blob that could not be read or applied."""

    def __init__(self, step: BlobName, error: DeltaicError) -> None:
        super().__init__(step, error)
        self.step, self.error = step, error


class Cancelled(Exception):
    """The consumer was stopped in the middle of a refresh."""


def walk(
    loaded: Loaded | None,
    route: Route,
    fetcher: Fetcher,
    maker: StateMaker,
    *,
    cancelled: Callable[[], bool],
    verifiable: bool,
) -> Walked:
    """Take every step of a route.

    Raises:
        StepFailed: a blob is not there, not what was announced, or does not fit.
        StorageError: the store failed; the same step may work later.
        Cancelled: the consumer was stopped.
    """
    steps = route.plan.steps
    whole = route.plan.starts_with_snapshot
    if whole:
        attached = _attached(route, maker, fetcher)
        if attached is not None:
            report = RefreshStep(f"shared-{route.plan.version}", 0, True, verifiable, True)
            return Walked(attached.state, (report,), None, verifiable, True)
    state = None if whole or loaded is None else loaded.base
    verified = True if whole or loaded is None else loaded.verified
    shared = False
    reports: list[RefreshStep] = []
    touched: list[Step] = []
    for step in steps:
        if cancelled():
            raise Cancelled
        made = _made(state, step, route, fetcher, maker)
        if step.from_version is not None and state is not None:
            # A state that another process made by another way does not say what differs from ours.
            whole = whole or made.state.origin_tag != state.tag
            touched.append(changed_ordinals(made.state))
        step_verified = made.verified and route.artifact(step) is not None
        reports.append(RefreshStep(str(step), made.size_bytes, made.from_cache, step_verified, made.shared))
        state, verified, shared = made.state, verified and step_verified, made.shared
    assert state is not None
    return Walked(state, tuple(reports), None if whole else tuple(touched), verified, shared)


def _attached(route: Route, maker: StateMaker, fetcher: Fetcher) -> Made | None:
    assert route.plan.version is not None
    with fetcher.times("apply"):
        return maker.attach(route.plan.version, _expected_bytes(route, route.plan.steps[0]))


def _made(state: ReadState | None, step: BlobName, route: Route, fetcher: Fetcher, maker: StateMaker) -> Made:
    seconds = fetcher.times.seconds
    elsewhere = seconds["fetch"] + seconds["verify"]
    started = time.perf_counter()
    fetch: Callable[[], AbstractContextManager[Fetched]] = partial(fetcher.fetch, step, route)
    try:
        return maker.make(state, step, fetch, _expected_bytes(route, step))
    except StorageError:
        raise
    except DeltaicError as error:
        raise StepFailed(step, error) from error
    finally:
        # Fetching happens inside of making; it is counted there.
        seconds["apply"] += time.perf_counter() - started - (seconds["fetch"] + seconds["verify"] - elsewhere)


def _expected_bytes(route: Route, step: BlobName) -> int:
    """How large the state will be at least, as far as the announcement tells."""
    artifact = route.artifact(step)
    return artifact.size if artifact is not None and step.from_version is None else 0
