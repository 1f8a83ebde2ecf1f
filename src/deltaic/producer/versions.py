"""Minting versions: UTC time and a counter, strictly rising (hollow-blob.md, 17.2)."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from deltaic.errors import InputError
from deltaic.storage.announced import MAX_VERSION


class VersionMinter(Protocol):
    """Gives the number of the next version."""

    def __call__(self, previous: int | None, /) -> int:
        """A version larger than `previous`, which is the largest that the chain has; None: it has none."""
        ...


class TimeVersions:
    """`yyyyMMddHHmmss` in UTC and a three-digit counter, as one number; if the clock went back, the next number."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._counter = 0

    def __call__(self, previous: int | None, /) -> int:
        """A version larger than `previous`."""
        self._counter = (self._counter + 1) % 1000
        now = datetime.fromtimestamp(self._clock(), UTC)
        minted = int(now.strftime("%Y%m%d%H%M%S")) * 1000 + self._counter
        return minted if previous is None else max(minted, previous + 1)


def count_up(previous: int | None, /) -> int:
    """Mint versions 1, 2, 3 and so on."""
    return 1 if previous is None else previous + 1


def minted(versions: VersionMinter, previous: int | None) -> int:
    """The next version, checked."""
    version = versions(previous)
    if not (-1 if previous is None else previous) < version <= MAX_VERSION:
        raise InputError(f"the minter gave {version}, which does not follow {previous}", "Version")
    return version
