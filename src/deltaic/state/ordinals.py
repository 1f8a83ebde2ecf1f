"""Which records a type holds and under which ordinals, from cycle to cycle (hollow-blob.md, sections 12 and 16).

The map holds the records of this cycle and of the one before. Starting the next cycle drops what was not populated in
the one that ended and frees those ordinals; until then they stay taken, so that readers can still read the ghosts.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.kernels import ordinals as ordinal_kernels
from deltaic.kernels import records
from deltaic.state.bitset import EMPTY, OrdinalSet

Ordinals = NDArray[np.int32]

_PARTITIONS = 4


class TypeOrdinals:
    """The ordinal map of one type, what is populated now and what was populated before.

    `canonical` numbers new records in the order of their bytes, and starts every cycle as after a restore: free are
    the gaps below the highest populated ordinal, largest first.
    """

    def __init__(self, name: str, *, partitioned: bool = False, canonical: bool = False) -> None:
        self.name = name
        self.canonical = canonical
        self.partitions = _PARTITIONS if partitioned else 1
        self.map = ordinal_kernels.OrdinalMap(self.partitions)
        self._set_previous(EMPTY)

    @property
    def populated(self) -> OrdinalSet:
        """What is populated in this cycle."""
        return OrdinalSet(self.map.populated)

    @property
    def previous(self) -> OrdinalSet:
        """What was populated in the cycle before."""
        return self._previous

    @property
    def last_ordinal(self) -> int:
        """The highest ordinal that a reference may name: of this cycle or of the one before; -1 if there is none."""
        return max(self.map.max_ordinal, self._last_previous)

    @property
    def max_ordinal(self) -> int:
        """The highest ordinal that the map holds: records of this version, and leaving ones of the version before."""
        return self.map.max_ordinal

    def add(self, record: bytes, preferred: int = -1) -> int:
        """The ordinal of one record, which is added if it is new."""
        try:
            return self.map.add(record, preferred)
        except OverflowError as error:
            raise self._full(error) from error

    def assign(
        self,
        data: NDArray[np.uint8],
        ends: NDArray[np.int64],
        *,
        order: NDArray[np.int64] | None = None,
        preferred: Ordinals | None = None,
    ) -> Ordinals:
        """The ordinals of many records. In canonical order they must be all the records of the type in this cycle.

        `order` names the rows to add and in which order; all of them, first to last, if None.
        """
        try:
            if not self.canonical:
                return self.map.assign(data, ends, order, preferred)
            rows = np.arange(len(ends)) if order is None else order
            new = self.map.find(data, ends)[rows] < 0
            sorted_rows = np.concatenate((rows[~new], records.sort_records(data, ends, rows[new])))
            return self.map.assign(data, ends, sorted_rows, preferred)
        except OverflowError as error:
            raise self._full(error) from error

    def place(self, data: NDArray[np.uint8], ends: NDArray[np.int64], ordinals: NDArray[np.int64]) -> None:
        """Add serialized records at these very ordinals, which no record of this version or the one before has."""
        taken = OrdinalSet.from_ordinals(ordinals)
        if OrdinalSet(self.map.held).intersection(taken) or len(taken) != len(ordinals):
            raise InputError(f"type {self.name}: an ordinal that is chosen must be free", "TakenOrdinal")
        self.map.put(data, ends, ordinals.astype(np.int32))
        self.map.populated = self.populated.union(taken).words
        pools = [pool[~taken.flags(int(pool.max()) + 1)[pool]] if len(pool) else pool for pool in self.map.free]
        self.map.set_free(pools, [max(self.map.next_local[0], taken.max() + 1), *self.map.next_local[1:]])

    def keep_all(self) -> None:
        """Mark what was populated before as populated now."""
        self.map.populated = self.populated.union(self.previous).words

    def keep(self, ordinals: NDArray[np.int64]) -> None:
        """Mark these ordinals of the cycle before as populated now."""
        kept = OrdinalSet.from_ordinals(ordinals)
        strange = kept.difference(self.previous)
        if strange:
            raise InputError(
                f"type {self.name}: ordinal {int(strange.ordinals()[0])} was not populated in the cycle before",
                "NotPopulated",
            )
        self.map.populated = self.populated.union(kept).words

    def remove(self, ordinals: NDArray[np.int64]) -> None:
        """Unmark these ordinals in this cycle."""
        self.map.unmark(ordinals)

    def restore(self, populated: OrdinalSet) -> None:
        """Begin as the first cycle after a restart: these ordinals were populated and wait to be claimed."""
        self.map = ordinal_kernels.OrdinalMap(self.partitions)
        self._set_previous(populated)
        self.map.reserve(populated.words)
        self._free_gaps(populated)

    def next_cycle(self, shards: int, *, focus_holes: bool, dropped: Callable[[OrdinalSet], None]) -> None:
        """End the cycle: what is populated now was populated before, everything else leaves.

        `dropped` is told which ordinals leave while their records are still there.
        """
        populated = self.populated
        self._drop(populated, shards, focus_holes, dropped)
        self._set_previous(populated)

    def reset(self, shards: int, *, focus_holes: bool, dropped: Callable[[OrdinalSet], None]) -> None:
        """Go back to the start of this cycle."""
        self._drop(self.previous, shards, focus_holes, dropped)

    def _set_previous(self, ordinals: OrdinalSet) -> None:
        self._previous = ordinals
        self._last_previous = ordinals.max()

    def _drop(self, live: OrdinalSet, shards: int, focus_holes: bool, dropped: Callable[[OrdinalSet], None]) -> None:
        leaving = OrdinalSet(self.map.held).difference(live)
        dropped(leaving)
        self.map.retain(live.words)
        self.map.reserve(EMPTY.words)
        self.map.populated = EMPTY.words
        if self.canonical:
            self._free_gaps(live)
            return
        freed = leaving.ordinals().astype(np.int32)
        pools = []
        for partition, left in enumerate(self.map.free):
            mine = freed[freed % self.partitions == partition] if self.partitions > 1 else freed
            pool = np.sort(np.concatenate((left, mine)), kind="stable")
            pools.append(_shard_by_shard(pool, shards) if focus_holes and shards > 1 else pool)
        self.map.set_free(pools, self.map.next_local)

    def _free_gaps(self, populated: OrdinalSet) -> None:
        taken = populated.flags(populated.max() + 1)
        pools, next_local = [], []
        for partition in range(self.partitions):
            flags = taken[partition :: self.partitions]
            used = np.flatnonzero(flags)
            length = int(used[-1]) + 1 if len(used) else 0
            gaps = np.flatnonzero(~flags[:length])[::-1]
            pools.append((gaps * self.partitions + partition).astype(np.int32))
            next_local.append(length)
        self.map.set_free(pools, next_local)

    def _full(self, error: OverflowError) -> InputError:
        if str(error) == "ordinals":
            most = ordinal_kernels.LAST_LOCAL_ORDINAL + 1
            reason = f"type {self.name}: no ordinal is left, one map numbers {most:,} records"
        else:
            most = ordinal_kernels.MAX_ARENA_BYTES
            reason = f"type {self.name}: its serialized records take more than the {most:,} bytes that one map holds"
        return InputError(f"{reason}; partitioned=True spreads a type over {_PARTITIONS} maps", "TooLarge")


def _shard_by_shard(pool: Ordinals, shards: int) -> Ordinals:
    """Rising within a shard, shards with most free ordinals first, ties by shard number."""
    shard = pool & (shards - 1)
    counts = np.bincount(shard, minlength=shards)
    rank = np.empty(shards, np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(shards)
    return pool[np.argsort(rank[shard], kind="stable")]
