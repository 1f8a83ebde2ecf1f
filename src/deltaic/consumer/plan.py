"""Plans: which blobs lead from the version that is loaded to the one that is wanted.

By deltas if they reach the wanted version (or come nearer than anything else), else by a snapshot and deltas from
there. A plan never passes the wanted version: a forward delta that would overshoot is not taken, and of snapshots
only those at or before the wanted version count. Blobs that failed before are not tried again.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from deltaic.storage.chain import BlobName, Chain

DEFAULT_MAX_DELTAS = 32
"""Deltas in a row before a second snapshot is cheaper, as in Hollow."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The blobs to apply, in order, and the version they end at."""

    steps: tuple[BlobName, ...]
    version: int | None
    """None if nothing is loaded and nothing can be."""

    @property
    def starts_with_snapshot(self) -> bool:
        """True if the loaded state is replaced as a whole."""
        return bool(self.steps) and self.steps[0].from_version is None


def plan_refresh(
    current: int | None,
    wanted: int,
    chain: Chain,
    *,
    max_deltas: int = DEFAULT_MAX_DELTAS,
    double_snapshot: bool = True,
    failed: Set[BlobName] = frozenset(),
) -> Plan:
    """Plan the way to a version.

    Args:
        current: the version that is loaded, None for none.
        wanted: the version to reach; the nearest one before it is taken if there is no way to it.
        chain: which blobs there are.
        max_deltas: with more deltas than this a snapshot is taken instead, if one leads as far.
        double_snapshot: whether a loaded state may be replaced by a snapshot.
        failed: blobs that could not be applied before.
    """
    if current is None:
        return _by_snapshot(wanted, chain, failed)
    by_deltas = _by_deltas(current, wanted, chain, failed)
    if by_deltas.version != wanted:
        by_deltas = _by_going_back(current, wanted, chain, failed) or by_deltas
    few = len(by_deltas.steps) <= max_deltas
    if not double_snapshot or (by_deltas.version == wanted and few):
        return by_deltas
    by_snapshot = _by_snapshot(wanted, chain, failed)
    if by_snapshot.version is None:
        return by_deltas
    if by_snapshot.version == by_deltas.version:
        return by_deltas if few else by_snapshot
    return by_snapshot if _nearer(by_snapshot.version, by_deltas.version, wanted) else by_deltas


def _nearer(candidate: int, other: int | None, wanted: int) -> bool:
    """True if a candidate, which is never past the wanted version, is a better end than the other one."""
    return other is None or other > wanted or candidate > other


def _by_snapshot(wanted: int, chain: Chain, failed: Set[BlobName]) -> Plan:
    best = Plan((), None)
    for version in reversed(chain.snapshots):
        snapshot = BlobName.snapshot(version)
        if version > wanted or snapshot in failed:
            continue
        rest = _by_deltas(version, wanted, chain, failed)
        if best.version is None or (rest.version or 0) > best.version:
            best = Plan((snapshot, *rest.steps), rest.version)
        if best.version == wanted:
            break
    return best


def _by_deltas(current: int, wanted: int, chain: Chain, failed: Set[BlobName]) -> Plan:
    steps: list[BlobName] = []
    version = current
    while version != wanted:
        forward = version < wanted
        step = _step(chain.deltas if forward else chain.reverse_deltas, version, failed)
        if step is None or (forward and step.to_version > wanted):
            break
        steps.append(step)
        version = step.to_version
        if not forward and version < wanted:
            # The wanted version is not in the chain; the nearest before it is reached.
            break
    return Plan(tuple(steps), version)


def _by_going_back(current: int, wanted: int, chain: Chain, failed: Set[BlobName]) -> Plan | None:
    """The way from a version that a later one did not go on from: back first, then forward; None if there is none."""
    back: list[BlobName] = []
    version = current
    while (step := _step(chain.reverse_deltas, version, failed)) is not None:
        back.append(step)
        came_from, version = version, step.to_version
        if version > wanted or chain.deltas.get(version) == came_from:
            continue
        onward = _by_deltas(version, wanted, chain, failed)
        if onward.version == wanted:
            return Plan((*back, *onward.steps), wanted)
    return None


def _step(steps: Mapping[int, int], version: int, failed: Set[BlobName]) -> BlobName | None:
    target = steps.get(version)
    if target is None or BlobName.delta(version, target) in failed:
        return None
    return BlobName.delta(version, target)
