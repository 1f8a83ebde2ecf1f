"""How far a reader may be off, and when it gets the whole vector again (vector-delta.md, "drift and refresh").

A lossy writer compares with what the reader has, not with what it had itself: `VectorWriter` keeps that as a shadow, so
that errors never add up. A writer without a shadow keeps an upper bound: `Chain.after`.
"""

from dataclasses import dataclass

import numpy as np

from deltaic.errors import InputError
from deltaic.wire.vectors.delta import Vector, patterns_of
from deltaic.wire.vectors.dictionary import Dictionary
from deltaic.wire.vectors.encode import encode_message, refresh_message
from deltaic.wire.vectors.message import OVERHEAD_BYTES, read_message
from deltaic.wire.vectors.options import DEFAULT_OPTIONS, EncodeOptions
from deltaic.wire.vectors.payload import uleb


@dataclass(frozen=True, slots=True)
class RefreshOptions:
    """When a full refresh is due; 0 or None switches a bound off."""

    refresh_interval: int | None = 100
    refresh_bytes_ratio: float | None = 2.0
    max_drift: float | None = None


DEFAULT_REFRESH = RefreshOptions()


@dataclass(frozen=True, slots=True)
class Chain:
    """What was sent since the last full refresh."""

    length: int = 0
    size_bytes: int = 0
    drift: float = 0.0

    def after(self, message_bytes: int, worst_error: float = 0.0, epsilon: float = 0.0) -> "Chain":
        """The chain with one more message, for a writer without a shadow: errors add up."""
        return Chain(self.length + 1, self.size_bytes + message_bytes, self.drift + max(epsilon, worst_error))

    def refresh_due(self, dims: int, options: RefreshOptions = DEFAULT_REFRESH) -> bool:
        """True if the next message must be a full one."""
        return bool(
            (options.refresh_interval and self.length >= options.refresh_interval)
            or (options.refresh_bytes_ratio and self.size_bytes > options.refresh_bytes_ratio * refresh_bytes(dims))
            or (options.max_drift and self.drift > options.max_drift)
        )


def refresh_bytes(dims: int) -> int:
    """The size of a full refresh."""
    return OVERHEAD_BYTES + len(uleb(dims)) + 4 * dims


class VectorWriter:
    """Writes the messages of one vector, so that a reader is never off by more than the last message's error."""

    def __init__(
        self,
        start: Vector,
        options: EncodeOptions = DEFAULT_OPTIONS,
        *,
        refresh: RefreshOptions = DEFAULT_REFRESH,
        dictionary: Dictionary | None = None,
    ) -> None:
        patterns_of(start, "the first vector")
        if not len(start):
            raise InputError("a vector without dimensions", "InvalidDims")
        self._shadow = start.copy()
        self.options, self.refresh, self.dictionary = options, refresh, dictionary
        self.chain = Chain()

    @property
    def shadow(self) -> Vector:
        """What the reader has now."""
        return self._shadow.copy()

    def write(self, new: Vector) -> bytes:
        """The message for the next version; a full refresh where one is due."""
        refreshing = self.chain.refresh_due(len(self._shadow), self.refresh)
        if refreshing:
            message = refresh_message(new, self.options)
        else:
            message = encode_message(self._shadow, new, self.options, dictionary=self.dictionary)
        delta = read_message(message, dictionaries=self.dictionary).delta
        after = delta.apply(self._shadow)
        size_bytes = len(message)
        before = self.chain
        self._shadow = after
        self.chain = (
            Chain() if refreshing else Chain(before.length + 1, before.size_bytes + size_bytes, off(after, new))
        )
        return message


def off(have: Vector, want: Vector) -> float:
    """The largest distance between two vectors; values that are not finite count only if they differ."""
    with np.errstate(invalid="ignore"):
        distance = np.abs(have.astype(np.float64) - want.astype(np.float64))
    same = have.view(np.uint32) == want.view(np.uint32)
    distance[same | (np.isnan(have) & np.isnan(want))] = 0
    distance[np.isnan(distance)] = np.inf
    return float(distance.max(initial=0.0))
