"""A moment by which a query must be answered, looked at between its steps."""

import time

from deltaic.errors import LimitError


class Deadline:
    """Raises once the time is over."""

    __slots__ = ("_end", "_seconds")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    def check(self, step: str) -> None:
        """Go on, if there is time.

        Raises:
            LimitError: the time is over.
        """
        if self._end is not None and time.monotonic() > self._end:
            raise LimitError("Deadline", f"the query took longer than its {self._seconds:g} seconds", step)
