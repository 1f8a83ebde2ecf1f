"""Reordering by use: which field gets which index of the next version (docs/formats/field-registry.md, 7).

Indices up to 127 cost one byte, up to 16,383 two, then three. The fields that are used most get the cheap ones; within
a tier nobody moves, because it would gain nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TIER_ENDS = (128, 16_384)
"""Where indices start to cost a byte more."""

MIN_SAMPLES = 10_000
"""So many uses must have been counted before fields are moved."""

MIN_GAIN = 0.05
"""The share of the bytes of indices that a new version must save."""

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of the next version, and what indices cost before and after."""

    old_index_of: Indices
    """For each new index the old one."""
    samples: int
    bytes_before: int
    bytes_after: int

    @property
    def moved(self) -> int:
        """How many fields get another index."""
        return int(np.count_nonzero(self.old_index_of != np.arange(len(self.old_index_of))))

    def gains(self, min_gain: float = MIN_GAIN, min_samples: int = MIN_SAMPLES) -> bool:
        """True if the next version is worth its number."""
        return self.samples >= min_samples and self.bytes_before - self.bytes_after >= min_gain * self.bytes_before


def plan_order(live: Indices, counts: Indices) -> Plan:
    """Plan the next version.

    Args:
        live: the indices of the current version that go on, rising.
        counts: how often each of them was used.
    """
    ranked = live[np.lexsort((live, -counts))]
    order = np.empty(len(live), np.int64)
    start = 0
    for end in (*TIER_ENDS, len(live)):
        end = min(end, len(live))
        members = ranked[start:end]
        stays = (members >= start) & (members < end)
        order[members[stays]] = members[stays]
        free = np.ones(end - start, np.bool_)
        free[members[stays] - start] = False
        order[start + np.flatnonzero(free)] = members[~stays]
        start = end
    new_index_of = np.empty(int(live.max(initial=-1)) + 1, np.int64)
    new_index_of[order] = np.arange(len(order))
    before = int((counts * index_bytes(live)).sum())
    after = int((counts * index_bytes(new_index_of[live])).sum())
    return Plan(order, int(counts.sum()), before, after)


def index_bytes(indices: Indices) -> Indices:
    """How many bytes each index takes."""
    first, second = TIER_ENDS
    return 1 + (indices >= first).astype(np.int64) + (indices >= second)
