"""What the driver knows of a type while it is built: counts, and where the tasks left its records."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.kernels import ordinals as ordinal_kernels
from deltaic.producer.engine import Rules
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import ObjectSchema, Schema
from deltaic.spark.build_flatten import LocalType
from deltaic.spark.build_merge import Merged, dense
from deltaic.spark.build_numbers import NOTHING_TAKEN, FreeOrdinals
from deltaic.spark.build_pack import RangeRecords, TypeLayout
from deltaic.spark.build_restore import Restored
from deltaic.spark.build_route import Routed
from deltaic.spark.build_runs import Run
from deltaic.spark.build_scratch import Part
from deltaic.spark.build_translate import Numbered
from deltaic.state.write_statistics import TypeStatistics, statistics_for
from deltaic.state.write_type import WriteOptions, next_shard_count


def levels_of(schemas: SchemaSet) -> list[list[str]]:
    """Types by level: a type is above all that it refers to.

    Raises:
        InputError: a type refers to itself, directly or not.
    """
    placed: dict[str, int] = {}
    waiting = {schema.name: set(schema.references()) & set(schemas.names) for schema in schemas}
    while waiting:
        ready = [name for name, needs in waiting.items() if needs <= placed.keys()]
        if not ready:
            raise InputError(
                f"types {', '.join(sorted(waiting))} refer to themselves: Spark cannot build them level by level; "
                "publish with engine='embedded' and order='given'",
                "Recursive",
            )
        for name in ready:
            placed[name] = 1 + max((placed[need] for need in waiting.pop(name)), default=-1)
    levels: list[list[str]] = [[] for _ in range(1 + max(placed.values(), default=-1))]
    for name in schemas.names:
        levels[placed[name]].append(name)
    return levels


@dataclass(slots=True)
class TypeBuild:
    """One type on its way through the jobs."""

    schema: Schema
    locals: dict[int, LocalType] = field(default_factory=dict)
    """By task."""
    runs: dict[int, Run] = field(default_factory=dict)
    restored: list[Restored] = field(default_factory=list)
    kept: Part | None = None
    merged: list[Merged] = field(default_factory=list)
    """By range."""
    routed: list[Routed] = field(default_factory=list)
    groups: int = 1
    layout: TypeLayout | None = None
    populated: Part | None = None

    @property
    def name(self) -> str:
        """The type's name."""
        return self.schema.name

    @property
    def previous_runs(self) -> tuple[Run, ...]:
        """Records of the version before."""
        return tuple(each.run for each in self.restored if each.run is not None)

    @property
    def common_fields(self) -> tuple[int, ...] | None:
        """Fields that the version before has too, if not all of them."""
        fields = self.restored[0].fields if self.restored else None
        return None if fields is None else tuple(fields)

    @property
    def given_bytes(self) -> int:
        """Bytes of all runs, those of the version before included."""
        return sum(run.data_bytes for run in (*self.runs.values(), *self.previous_runs))

    @property
    def free(self) -> FreeOrdinals:
        """The ordinals that new records take."""
        if not self.restored or not self.restored[0].present:
            return NOTHING_TAKEN
        first = self.restored[0]
        return FreeOrdinals(first.last + 1 - first.count, first.last + 1, first.populated)

    @property
    def new(self) -> int:
        """New records."""
        return sum(each.new for each in self.merged)

    @property
    def live(self) -> int:
        """Records of this version."""
        return sum(each.live for each in self.merged)

    @property
    def leaving(self) -> int:
        """Records that only the version before has."""
        return sum(each.leaving for each in self.merged)

    @property
    def offsets(self) -> list[int]:
        """New records before each range."""
        counts = [each.new for each in self.merged]
        return [sum(counts[:number]) for number in range(len(counts))]

    def numbered(self, task: int) -> Numbered | None:
        """What became of a task's records of this type."""
        local = self.locals.get(task)
        if local is None:
            return None
        segments = tuple(
            (offset, each.segments[task])
            for offset, each in zip(self.offsets, self.merged, strict=True)
            if task in each.segments
        )
        return Numbered(local.rows, self.free, segments)

    @property
    def ranges(self) -> tuple[RangeRecords, ...]:
        """Its records, range by range."""
        return tuple(
            RangeRecords(each.live, each.data, each.ends, each.codes, offset)
            for offset, each in zip(self.offsets, self.merged, strict=True)
        )

    def ranges_of_group(self, group: int) -> tuple[RangeRecords, ...]:
        """Its records of one group of shards."""
        if self.groups == 1:
            return self.ranges
        return tuple(each.groups[group] for each in self.routed)

    @property
    def max_ordinal(self) -> int:
        """The highest ordinal of this version and the one before."""
        return self.free.last(self.new)

    def shard_counts(self, rules: Rules) -> tuple[int, int]:
        """The number of shards before and in this version."""
        pinned = rules.model.shards.get(self.name)
        current = pinned
        if self.restored and self.restored[0].present:
            current = self.restored[0].shards
            if pinned is not None and pinned != current:
                raise InputError(
                    f"type {self.name} is fixed to {pinned} shards, the restored state has {current}", "Shards"
                )
        if self.max_ordinal > ordinal_kernels.LAST_LOCAL_ORDINAL:
            raise InputError(
                f"type {self.name}: no ordinal is left, one map numbers "
                f"{ordinal_kernels.LAST_LOCAL_ORDINAL + 1:,} records",
                "TooLarge",
            )
        options = WriteOptions(False, rules.target_shard_bytes, rules.allow_resharding)
        statistics = self._statistics()
        total = np.array([sum(each.total for each in self.merged)], np.int64)
        after = next_shard_count(
            current, lambda: statistics.layout_of(total).projected_bytes(self.max_ordinal), options
        )
        return current or after, after

    def needs_routing(self, before: int, after: int) -> bool:
        """True if its records must be seen by ordinal before they can be packed."""
        return self.groups > 1 or (not isinstance(self.schema, ObjectSchema) and max(before, after) > 1)

    def lay_out(self, before: int, after: int) -> None:
        """Fix how the type is written; after routing, where that is needed."""
        statistics = self._statistics()
        most = max(before, after)
        if isinstance(self.schema, ObjectSchema):
            totals = np.zeros(most, np.int64)
        elif self.needs_routing(before, after):
            totals = np.zeros(most, np.int64)
            for each in self.routed:
                totals += np.array(each.totals, np.int64)
        else:
            totals = np.array([sum(each.total for each in self.merged)], np.int64)
        self.layout = TypeLayout(
            self.schema,
            self.free,
            self.max_ordinal,
            after,
            statistics.layout_of(_folded(totals, after)),
            before,
            statistics.layout_of(_folded(totals, before)),
            self.groups,
        )

    def _statistics(self) -> TypeStatistics:
        statistics = statistics_for(self.schema)
        for each in self.merged:
            statistics.absorb(dense(each.counts, statistics.counts))
        return statistics


def _folded(totals: NDArray[np.int64], shards: int) -> NDArray[np.int64]:
    """Totals of fewer shards: shards that agree in the bits that remain are one."""
    joined: NDArray[np.int64] = totals.reshape(-1, shards).sum(axis=0)
    return joined


def groups_of(before: int, after: int, most: int) -> int:
    """Into how many tasks the shards of a type go: a power of two, at most `most`."""
    groups = 1
    while groups * 2 <= min(before, after, most):
        groups *= 2
    return groups
