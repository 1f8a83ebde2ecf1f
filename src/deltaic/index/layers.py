"""How an index follows its state: a large layer for most records, small ones on top for what changed since.

An update reads only the records that came. It leaves every layer as it is (readers of the old state go on with it),
notes which of its records went, and puts a layer of the new ones on top. Layers that have come near the size of the
one below are made into one, so that there are few of them and each update costs as much as the change, on average.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from deltaic.state.bitset import EMPTY, OrdinalSet

Entries = TypeVar("Entries")

RATIO = 8
"""A layer has at least so many times the records of the layer above it."""


@dataclass(frozen=True, eq=False)
class Layer(Generic[Entries]):
    """Entries of some root records, and which of those records are there no more."""

    entries: Entries
    roots: OrdinalSet
    """The records that the entries were made of."""
    stale: OrdinalSet = EMPTY
    """Those of them that were removed or replaced since."""

    @cached_property
    def live(self) -> int:
        """How many of the records still count."""
        return len(self.roots) - len(self.stale)

    @property
    def stale_words(self) -> NDArray[np.uint64] | None:
        """The bits of `stale`; None if every record counts."""
        return self.stale.words if self.stale else None


Make = Callable[[OrdinalSet], Entries]


def advanced(
    layers: Sequence[Layer[Entries]], touched: OrdinalSet, populated: OrdinalSet, make: Make[Entries]
) -> tuple[tuple[Layer[Entries], ...], bool]:
    """The layers after a change, and whether the lowest one was made anew.

    Args:
        layers: those before, the largest first.
        touched: the roots that were removed, added or replaced.
        populated: the roots that there are now.
        make: makes the entries of some roots.
    """
    if not touched:
        return tuple(layers), False
    kept = [replace(layer, stale=layer.stale.union(layer.roots.intersection(touched))) for layer in layers]
    kept = [layer for number, layer in enumerate(kept) if number == 0 or layer.live]
    fresh = touched.intersection(populated)
    while fresh and kept and len(fresh) * RATIO > kept[-1].live:
        below = kept.pop()
        fresh = fresh.union(below.roots.difference(below.stale))
    if not kept and not fresh:
        return (Layer(make(EMPTY), EMPTY),), True
    anew = not kept
    if fresh:
        kept.append(Layer(make(fresh), fresh))
    return tuple(kept), anew
