"""How long each step of a refresh took."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STEPS = ("plan", "fetch", "verify", "apply", "index", "swap", "notify")
"""The steps of a refresh, in order."""


class Times:
    """Adds up seconds by step."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.seconds = dict.fromkeys(STEPS, 0.0)

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        """Count the time of the block for a step."""
        started = self._clock()
        try:
            yield
        finally:
            self.seconds[step] += self._clock() - started
