"""Waiting longer after each failure, by a random share, so that many clients do not come back at once."""

import random as random_module
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from deltaic.errors import NotFoundError, StorageError

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double up to a maximum; each is drawn between half and the whole of its step."""

    first_seconds: float = 0.05
    maximum_seconds: float = 5.0
    attempts: int = 5
    random: random_module.Random = field(default_factory=random_module.Random)
    sleep: Callable[[float], None] = time.sleep

    def delays(self) -> Iterator[float]:
        """The delay after the first, second, … failure, without end."""
        step = self.first_seconds
        while True:
            yield step * (0.5 + self.random.random() / 2)
            step = min(step * 2, self.maximum_seconds)

    def read(self, call: Callable[[], _Result]) -> _Result:
        """Run a read up to `attempts` times; what is missing stays missing and is not asked for again."""
        delays = self.delays()
        for attempt in range(1, self.attempts + 1):
            try:
                return call()
            except NotFoundError:
                raise
            except StorageError:
                if attempt == self.attempts:
                    raise
            self.sleep(next(delays))
        raise AssertionError("a backoff needs at least one attempt")
