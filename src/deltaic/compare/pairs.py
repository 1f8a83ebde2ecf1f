"""Equal digests on two sides, each taken once: the join behind diffs."""

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.digest import Digest

Places = NDArray[np.int64]


def numbered(digests: Digest) -> Places:
    """Small numbers for digests, equal for equal ones."""
    first, second = digests
    order = np.lexsort((second, first))
    fresh = np.ones(len(order), np.int64)
    if len(order):
        ahead, behind = order[1:], order[:-1]
        fresh[1:] = (first[ahead] != first[behind]) | (second[ahead] != second[behind])
        fresh[0] = 0
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(fresh)
    return numbers


def ranked(numbers: Places) -> Places:
    """For each number how often it occurred before."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if len(ordered) else ordered
    lengths = np.diff(np.concatenate((starts, [len(ordered)])))
    ranks = np.empty(len(numbers), np.int64)
    ranks[order] = np.arange(len(ordered)) - np.repeat(starts, lengths)
    return ranks


def pair_equal(left: Digest, right: Digest) -> tuple[Places, Places]:
    """Places of equal digests on both sides; the i-th occurrence on one side is paired with the i-th on the other."""
    numbers = numbered(np.concatenate((left, right), axis=1))
    split = left.shape[1]
    ranks = np.concatenate((ranked(numbers[:split]), ranked(numbers[split:])))
    codes = numbers * (int(ranks.max(initial=0)) + 1) + ranks
    _, first, second = np.intersect1d(codes[:split], codes[split:], assume_unique=True, return_indices=True)
    return first, second
