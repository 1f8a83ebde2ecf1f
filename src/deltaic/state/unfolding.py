"""How much nested records may unfold to.

Records that share lists, or lead in circles, unfold to far more than the state holds: a list of a thousand times itself
has a thousand million elements at depth 3. So elements are counted before they are gathered.
"""

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import bits
from deltaic.state.records import StateRecords
from deltaic.state.type_data import TypeData
from deltaic.wire.shards import ListShard, ObjectShard

BATCH_ELEMENTS = 1 << 24
"""Elements and buckets, of all levels together, that a batch of rows may unfold to; a batch of more is cut in two."""

ROW_REPEATS = 8
"""How often a single row may unfold to all elements of the state, beyond `BATCH_ELEMENTS`."""


class TooManyElementsError(Exception):
    """The rows of a batch unfold to more than it may hold. Never leaves `to_arrow`."""


class Budget:
    """The elements that a batch may still take."""

    def __init__(self, limit: int) -> None:
        self._limit = self._left = limit

    def take(self, count: int) -> None:
        """Count elements before memory is taken for them."""
        self._left -= count
        if self._left < 0:
            raise TooManyElementsError(f"unfolds to more than {self._limit:,} elements")


def row_elements(records: StateRecords) -> int:
    """What a single row may unfold to: a list of any size, as long as few share it."""
    stored = 0
    for data in records.types.values():
        for shard in data.shards:
            if not isinstance(shard, ObjectShard):
                stored += shard.total_elements if isinstance(shard, ListShard) else shard.total_buckets
    return BATCH_ELEMENTS + ROW_REPEATS * stored


def count_elements(data: TypeData, ordinals: NDArray[np.int64]) -> int:
    """Elements or buckets of these records of a collection type; an ordinal below 0 has none."""
    count = 0
    for number, shard in enumerate(data.shards):
        assert not isinstance(shard, ObjectShard)
        here = ordinals[(ordinals & (len(data.shards) - 1) == number) & (ordinals >= 0)] >> data.shard_shift
        here = here[here <= shard.max_ordinal]
        width = shard.bits_per_pointer
        stride = width if isinstance(shard, ListShard) else width + shard.bits_per_size
        ends = bits.gather(shard.pointers, stride, 0, width, here)
        starts = bits.gather(shard.pointers, stride, 0, width, here[here > 0] - 1)
        count += int(ends.sum(dtype=np.uint64)) - int(starts.sum(dtype=np.uint64))
    return count
