"""Plans: which blobs lead from the version that is loaded to the one that is wanted.

By deltas if they reach the wanted version (or come nearer than anything else), else by a snapshot and deltas from there.
A plan never passes the wanted version: a forward delta that would overshoot is not taken, and of snapshots only those at
or before the wanted version count. Blobs that failed before are not tried again.
"""

from collections.abc import Set
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
        max_deltas: how many deltas are applied in a row to a state that is loaded.
        double_snapshot: whether a loaded state may be replaced by a snapshot.
        failed: blobs that could not be applied before.
    """
    if current is None:
        return _by_snapshot(wanted, chain, failed)
    by_deltas = _by_deltas(current, wanted, chain, failed, max_deltas)
    if by_deltas.version == wanted or not double_snapshot:
        return by_deltas
    by_snapshot = _by_snapshot(wanted, chain, failed)
    if by_snapshot.version is None:
        return by_deltas
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
        rest = _by_deltas(version, wanted, chain, failed, None)
        if best.version is None or (rest.version or 0) > best.version:
            best = Plan((snapshot, *rest.steps), rest.version)
        if best.version == wanted:
            break
    return best


def _by_deltas(current: int, wanted: int, chain: Chain, failed: Set[BlobName], limit: int | None) -> Plan:
    steps: list[BlobName] = []
    version = current
    while version != wanted and (limit is None or len(steps) < limit):
        forward = version < wanted
        target = (chain.deltas if forward else chain.reverse_deltas).get(version)
        if target is None or (forward and target > wanted):
            break
        step = BlobName.delta(version, target)
        if step in failed:
            break
        steps.append(step)
        version = target
        if not forward and version < wanted:
            # The wanted version is not in the chain; the nearest before it is reached.
            break
    return Plan(tuple(steps), version)
