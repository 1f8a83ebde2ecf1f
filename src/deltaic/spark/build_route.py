"""Route: records of a range, whose ordinals are known now, sorted into groups of shards that are packed together."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.schema.types import ObjectSchema, Schema
from deltaic.spark.build_numbers import CodeReader, FreeOrdinals
from deltaic.spark.build_pack import RangeRecords
from deltaic.spark.build_runs import Records
from deltaic.spark.build_scratch import Scratch
from deltaic.state.bitset import OrdinalSet
from deltaic.state.write_statistics import statistics_for


class Routed(msgspec.Struct, frozen=True, array_like=True):
    """The groups of a range, and the elements or buckets of every shard."""

    groups: list[RangeRecords]
    totals: list[int]


@dataclass(frozen=True)
class Route:
    """Route one range of a type."""

    Result: ClassVar[type] = Routed

    schema: Schema
    found: RangeRecords
    free: FreeOrdinals
    groups: int
    """1: the records stay where they are, only totals are counted."""
    shards: int
    """For how many shards totals are counted."""
    scratch: Scratch

    @property
    def weight(self) -> int:
        """Bytes to read."""
        return self.found.data.count

    def run(self) -> Routed:
        """Do it."""
        part = self.found.read(self.scratch, CodeReader(self.scratch, self.free))
        totals = self._totals(part.found, part.ordinals & (self.shards - 1))
        if self.groups == 1:
            return Routed([self.found], totals)
        rows = np.arange(len(part.ordinals))
        # Old, new and leaving records of each group, in this order.
        order_in_group = np.where(rows >= part.live, 2, part.new.astype(np.int64))
        group = part.ordinals & (self.groups - 1)
        order = np.lexsort((order_in_group, group))
        bounds = np.searchsorted(group[order], np.arange(self.groups + 1)).tolist()
        arrays: list[NDArray[np.generic]] = []
        shapes = []
        for first, last in pairwise(bounds):
            mine = order[first:last]
            taken = part.found.take(mine)
            arrays += [taken.data, taken.ends, part.ordinals[mine]]
            kinds = order_in_group[mine]
            shapes.append((int((kinds < 2).sum()), int((kinds < 1).sum())))
        parts = self.scratch.write(*arrays)
        groups = [
            RangeRecords(live, parts[3 * number], parts[3 * number + 1], parts[3 * number + 2], 0, new_from)
            for number, (live, new_from) in enumerate(shapes)
        ]
        return Routed(groups, totals)

    def _totals(self, found: Records, shard: NDArray[np.int32]) -> list[int]:
        if isinstance(self.schema, ObjectSchema):
            return []
        totals = []
        arena = found.data if len(found.data) else np.zeros(1, np.uint8)
        for number in range(self.shards):
            statistics = statistics_for(self.schema)
            rows = OrdinalSet.from_ordinals(np.flatnonzero(shard == number))
            statistics.update(_Source(arena, found.starts), rows)  # type: ignore[arg-type]
            totals.append(statistics.total)
        return totals


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    arena: NDArray[np.uint8]
    starts: NDArray[np.int64]
