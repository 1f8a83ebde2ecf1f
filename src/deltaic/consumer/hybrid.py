"""Text and vector search of a consumer in one order, by reciprocal rank."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from deltaic.consumer.nearest import Nearest
from deltaic.consumer.searching import Hit, Hits
from deltaic.state.bitset import OrdinalSet
from deltaic.vector.fusion import reciprocal_rank
from deltaic.vector.metric import check_count

CANDIDATES_PER_HIT = 10
LEAST_CANDIDATES = 100
"""How many records of each list are fused: ten for each hit that is wanted, and at least so many."""


@dataclass(frozen=True, slots=True)
class HybridHit:
    """A record that text, vector or both found."""

    score: float
    """The sum of weight / (constant + rank)."""
    record: Any
    ordinal: int
    text_rank: int | None
    """Its place among the hits by text, from 1; None if it is not among those that were fused."""
    vector_rank: int | None
    text_score: float | None
    vector_score: float | None
    snippets: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HybridHits(Sequence[HybridHit]):
    """What a hybrid search found, best first."""

    found: tuple[HybridHit, ...]
    way: str
    """How the neighbours were found."""
    version: int

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, place: int) -> HybridHit: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[HybridHit, ...]: ...
    def __getitem__(self, place: int | slice) -> HybridHit | tuple[HybridHit, ...]:
        return self.found[place]

    def __iter__(self) -> Iterator[HybridHit]:
        return iter(self.found)

    @property
    def records(self) -> tuple[Any, ...]:
        """The records alone."""
        return tuple(one.record for one in self.found)


def candidates_of(k: int, candidates: int | None) -> int:
    """How many records of each list are fused."""
    return max(LEAST_CANDIDATES, CANDIDATES_PER_HIT * check_count(k)) if candidates is None else check_count(candidates)


def text_hits(search: Callable[[int | None], Hits], wanted: OrdinalSet | None, count: int) -> list[Hit]:
    """The best hits by text that a filter lets through; more are asked for until they are enough."""
    asked: int | None = count
    while True:
        found = search(asked)
        kept = [hit for hit in found if wanted is None or hit.ordinal in wanted]
        if len(kept) >= count or not found.limited:
            return kept[:count]
        asked = None if asked is None or asked > 1 << 20 else asked * 4


def fused_hits(
    texts: Sequence[Hit], neighbours: Nearest, k: int, *, weights: tuple[float, float], constant: float
) -> HybridHits:
    """Hits by text and neighbours in one order."""
    by_text = {hit.ordinal: hit for hit in texts}
    by_vector = {one.ordinal: one for one in neighbours}
    order = reciprocal_rank(
        [[hit.ordinal for hit in texts], [one.ordinal for one in neighbours]], weights=weights, constant=constant
    )
    found = []
    for one in order[:k]:
        hit, near = by_text.get(one.item), by_vector.get(one.item)
        record = near.record if near is not None else None if hit is None else hit.record
        found.append(
            HybridHit(
                score=one.score,
                record=record,
                ordinal=one.item,
                text_rank=one.ranks[0],
                vector_rank=one.ranks[1],
                text_score=None if hit is None else hit.score,
                vector_score=None if near is None else near.score,
                snippets={} if hit is None else hit.snippets,
            )
        )
    return HybridHits(tuple(found), neighbours.way, neighbours.version)
