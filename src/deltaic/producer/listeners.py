"""Who is told of a cycle, step by step, and who may stop it.

A hook that raises ValidationError stops the cycle, as a failed validator does. Any other error of a hook is logged and
the cycle goes on, unless the listener says `vetoes = True`: then every error stops it. Once the version is announced
nothing can stop it any more.
"""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from deltaic.errors import ValidationError

if TYPE_CHECKING:
    from deltaic.producer.report import Cycle
    from deltaic.producer.steps import Step

log = logging.getLogger("deltaic.producer")


class CycleListener:
    """Hooks around a cycle; override what you need."""

    vetoes: bool = False
    """True: any error that a hook raises stops the cycle."""

    def cycle_started(self, from_version: int | None) -> None:
        """A cycle begins; the version that it starts from, or None."""

    def step_started(self, step: "Step") -> None:
        """A step begins."""

    def step_finished(self, step: "Step", seconds: float) -> None:
        """A step is done."""

    def progress(self, type_name: str, rows: int) -> None:
        """Rows of a type that were added so far in this cycle; after every chunk."""

    def restored(self, version: int) -> None:
        """The producer goes on from a version that was announced before it started, or by another one."""

    def nothing_changed(self, cycle: "Cycle") -> None:
        """The cycle ended without a version."""

    def cycle_announced(self, cycle: "Cycle") -> None:
        """The version is announced."""

    def cycle_failed(self, step: "Step | None", error: BaseException) -> None:
        """The cycle failed in a step; nothing was announced, or the outcome is unknown (CommitUnknownError)."""

    def snapshot_published(self, version: int) -> None:
        """A snapshot made in the background is there. Called from another thread."""

    def snapshot_failed(self, version: int, error: BaseException) -> None:
        """A snapshot made in the background could not be published; deltas are. Called from another thread."""


class Listeners:
    """All listeners of a producer."""

    def __init__(self, listeners: Iterable[CycleListener]) -> None:
        self._listeners = tuple(listeners)

    def tell(self, call: Callable[[CycleListener], None]) -> None:
        """Tell every listener; the first veto is raised after all were told."""
        veto: BaseException | None = None
        for listener in self._listeners:
            try:
                call(listener)
            except Exception as error:
                if isinstance(error, ValidationError) or getattr(listener, "vetoes", False):
                    veto = veto or error
                else:
                    log.warning("listener %s failed: %s", type(listener).__name__, error, exc_info=True)
        if veto is not None:
            raise veto

    def tell_only(self, call: Callable[[CycleListener], None]) -> None:
        """Tell every listener what cannot be stopped any more."""
        for listener in self._listeners:
            try:
                call(listener)
            except Exception as error:
                log.warning("listener %s failed: %s", type(listener).__name__, error, exc_info=True)
