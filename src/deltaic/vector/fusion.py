"""Reciprocal rank fusion: one order out of several, whatever their scores mean.

An item gets weight / (constant + rank) from each list that it is in, ranks counted from 1, and items are ordered by the
sum; equal sums by the best rank, then in the order of the lists. Only ranks count: a BM25 score and a cosine need no
common scale.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from deltaic.errors import InputError

Item = TypeVar("Item", bound=Hashable)

DEFAULT_CONSTANT = 60.0
"""How much the first ranks stand out: the smaller, the more."""


@dataclass(frozen=True, slots=True)
class Fused(Generic[Item]):
    """An item of the common order."""

    item: Item
    score: float
    ranks: tuple[int | None, ...]
    """Its rank in each list, from 1; None where it is not in."""


def reciprocal_rank(
    lists: Sequence[Sequence[Item]], *, weights: Sequence[float] | None = None, constant: float = DEFAULT_CONSTANT
) -> list[Fused[Item]]:
    """The items of all lists in one order.

    Args:
        lists: each with its best item first.
        weights: how much each list counts; all the same without it.
        constant: how much the first ranks stand out.

    Raises:
        InputError: a weight below 0 or none above it, another number of weights than of lists, a constant below 0.
    """
    shares = [1.0] * len(lists) if weights is None else [float(weight) for weight in weights]
    if len(shares) != len(lists):
        raise InputError(f"{len(shares)} weights for {len(lists)} lists")
    if not all(0 <= weight < float("inf") for weight in shares) or (shares and not any(shares)):
        raise InputError(f"weights are numbers from 0 on, and one of them above: {shares}")
    if not 0 <= constant < float("inf"):
        raise InputError(f"the constant is a number from 0 on, not {constant!r}")
    ranks = dict[Item, list[int | None]]()
    for place, items in enumerate(lists):
        for rank, item in enumerate(items, 1):
            mine = ranks.setdefault(item, [None] * len(lists))
            if mine[place] is None:
                mine[place] = rank
    fused = [
        Fused(
            item,
            sum(weight / (constant + rank) for weight, rank in zip(shares, mine, strict=True) if rank is not None),
            tuple(mine),
        )
        for item, mine in ranks.items()
    ]
    # Python's sort keeps the order of equal ones: that of the lists.
    return sorted(fused, key=lambda one: (-one.score, min(rank for rank in one.ranks if rank is not None)))
