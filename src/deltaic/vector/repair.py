"""Bringing a graph from one version of a column to the next by what changed, not by building it anew.

A vector that changed by less than a share of its length stays where it is: its neighbours are still the right ones to
look at, and scores come from the column. The change is taken against the vector as it was placed, so that many small
steps count together. A record that got another ordinal keeps its node under the new one.
"""

from dataclasses import dataclass

import numpy as np

from deltaic.state.vector_column import StoredVectors
from deltaic.vector.differences import Differences
from deltaic.vector.graph import Graph, Ordinals
from deltaic.vector.metric import Matrix, Scores

_NEIGHBOURS = 4


@dataclass(frozen=True, slots=True)
class Repair:
    """What an update did to the nodes of a graph."""

    added: int = 0
    removed: int = 0
    renamed: int = 0
    """Nodes that stand for another ordinal now."""
    reinserted: int = 0
    """Nodes whose vectors changed by more than the bound."""
    left: int = 0
    """Nodes whose vectors changed by less, and which stayed."""


def repair(graph: Graph, before: StoredVectors, after: StoredVectors, found: Differences, bound: float) -> Repair:
    """Bring a graph to the next version of its column.

    Args:
        graph: as it is for `before`, or somewhere between both if an earlier try was stopped.
        before: the column that the graph is for.
        after: the column that it should be for.
        found: the differences of both.
        bound: how large a change may be, as a share of the length, for a node to stay.
    """
    origins, targets = _moves(graph, before, after, found, bound)
    if len(targets):
        graph.rename(origins, targets)
    removed = graph.remove(np.setdiff1d(found.removed, origins))
    # One that was moved and changed a little is as one that changed and stayed.
    left = np.zeros(0, np.int64)
    far = found.changed
    there = graph.has(found.changed)
    if there.any():
        inside = found.changed[there]
        rows, placed = graph.prepared(after.rows(inside))
        near = placed & (_relative_change(graph.stored(inside), rows) <= bound)
        left = inside[near]
        far = np.setdiff1d(found.changed, left)
    graph.remove(far)
    reinserted = graph.add(far, after.rows(far)) if len(far) else 0
    new = np.setdiff1d(found.added, targets)
    new = new[~graph.has(new)]
    added = graph.add(new, after.rows(new)) if len(new) else 0
    return Repair(added, removed, len(targets), reinserted, len(left))


def _relative_change(placed: Matrix, now: Matrix) -> Scores:
    lengths = np.linalg.norm(placed.astype(np.float64), axis=1)
    change = np.linalg.norm(now.astype(np.float64) - placed, axis=1)
    shares: Scores = np.divide(change, lengths, out=np.full(len(change), np.inf), where=lengths > 0)
    return shares


def _moves(
    graph: Graph, before: StoredVectors, after: StoredVectors, found: Differences, bound: float
) -> tuple[Ordinals, Ordinals]:
    """Nodes of removed ordinals that new ordinals can take over, because their vectors are almost the same."""
    removed = found.removed[graph.has(found.removed)]
    added = found.added[~graph.has(found.added)]
    if not len(removed) or not len(added):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    rows = after.rows(added)
    by_bits = dict[bytes, list[int]]()
    for ordinal, row in zip(removed.tolist(), before.rows(removed), strict=True):
        by_bits.setdefault(row.tobytes(), []).append(ordinal)
    moves, rest = list[tuple[int, int]](), list[int]()
    for place, (ordinal, row) in enumerate(zip(added.tolist(), rows, strict=True)):
        same = by_bits.get(row.tobytes())
        if same:
            moves.append((same.pop(), ordinal))
        else:
            rest.append(place)
    free = {ordinal for ordinals in by_bits.values() for ordinal in ordinals}
    if rest and free:
        moves += _near_moves(graph, added[rest], rows[rest], free, bound)
    made = np.array(moves, np.int64).reshape(-1, 2)
    return made[:, 0], made[:, 1]


def _near_moves(graph: Graph, added: Ordinals, rows: Matrix, free: set[int], bound: float) -> list[tuple[int, int]]:
    prepared, placed = graph.prepared(rows)
    moves = list[tuple[int, int]]()
    for place, near in enumerate(graph.search(rows, _NEIGHBOURS, 16)):
        fitting = np.array([ordinal for ordinal in near.tolist() if ordinal in free], np.int64)
        if not len(fitting) or not placed[place]:
            continue
        change = _relative_change(graph.stored(fitting), prepared[place : place + 1])
        best = int(change.argmin())
        if change[best] <= bound:
            free.remove(int(fitting[best]))
            moves.append((int(fitting[best]), int(added[place])))
    return moves
