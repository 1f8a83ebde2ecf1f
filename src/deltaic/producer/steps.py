"""The steps of a cycle, in their order, and the clock that times them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum


class Step(StrEnum):
    """What a cycle does, one after the other. Only the last makes anything visible to consumers."""

    POPULATE = "populate"
    DIFF = "diff"
    ENCODE = "encode"
    STAGE = "stage"
    CHECK = "check"
    VALIDATE = "validate"
    PUBLISH = "publish"
    ANNOUNCE = "announce"


class StepTimes:
    """How long each step took, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[Step, float] = {}
        self.current: Step | None = None

    @contextmanager
    def timed(self, step: Step) -> Iterator[None]:
        """Time one step; its seconds count also when it fails."""
        start = time.perf_counter()
        self.current = step
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - start
