"""A delta applied to one type: new packed shards out of the old ones (hollow-blob.md, "deltas and reverse deltas").

Ordinals do not move, so where widths stay the same, records are copied as they lie and only those that a delta added,
or whose removal by an earlier delta is due, are touched: the *events*. Runs of a side array between two events move
as one. A shard without events is shared with the old state.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deltaic.binary import buffers
from deltaic.errors import DecodeError, LimitError
from deltaic.kernels import apply as kernel
from deltaic.kernels import bits
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.schema.types import ObjectSchema, Schema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.packed import (
    Null,
    Packed,
    PackedField,
    Side,
    convert,
    packed,
    side_buffer,
    unpacked,
    widened,
)
from deltaic.state.regroup import regrouped
from deltaic.state.type_data import TypeData
from deltaic.wire.section import ShardSection, TypeSection
from deltaic.wire.shards import ListShard, ObjectShard, Shard

Ordinals = NDArray[np.int64]


_MAX_RESHARDING = 8
"""Producers double or halve the shards once per version; a larger step is nobody's."""

_BLOCK = 1 << 16
_BITS_PER_ORDINAL = 3
"""Each ordinal of a type has its bit in three sets: populated, previous, pending."""


def apply_section(old: TypeData, section: TypeSection, at: str, limits: Limits = DEFAULT_LIMITS) -> TypeData:
    """The type after a delta's section. `at` names the blob, for errors."""
    _check_same_model(old.schema, section.schema, at)
    count = len(section.shards)
    if not len(old.shards) <= count * _MAX_RESHARDING <= len(old.shards) * _MAX_RESHARDING**2:
        reason = f"type {old.schema.name} goes from {len(old.shards)} to {count} shards in one step"
        raise DecodeError("BadShards", reason, at)
    _check_holes(old, section, at, limits)
    shift = count.bit_length() - 1
    shards = old.shards if len(old.shards) == count else regrouped(old, count)
    due = old.pending.ordinals()
    rebuilt = []
    added_all, removed_all = [], []
    for number, (shard, delta) in enumerate(zip(shards, section.shards, strict=True)):
        due_here = due[due & (count - 1) == number] >> shift if shift else due
        rebuilt.append(_apply_shard(shard, delta, due_here, old.schema, section.schema))
        added_all.append((delta.added << shift) | number)
        gone = (delta.removed << shift) | number
        removed_all.append(gone[gone <= old.populated.max()])
    added = OrdinalSet.from_ordinals(np.concatenate(added_all))
    removed = OrdinalSet.from_ordinals(np.concatenate(removed_all)).difference(added)
    populated = old.populated.difference(removed).union(added)
    if populated.max() > section.max_ordinal:
        raise DecodeError(
            "BadOrdinal",
            f"type {old.schema.name} ends at ordinal {section.max_ordinal}, but {populated.max()} is populated",
            at,
        )
    return TypeData(
        schema=old.schema,
        shards=tuple(rebuilt),
        max_ordinal=section.max_ordinal,
        populated=populated,
        previous=old.populated,
        pending=removed.intersection(old.populated),
    )


def _check_holes(old: TypeData, section: TypeSection, at: str, limits: Limits) -> None:
    """Refuse an ordinal so far behind the others that the holes before it take memory which no bytes stand for."""
    shift = len(section.shards).bit_length() - 1
    last = max((int(shard.added[-1]) + 1 << shift for shard in section.shards if len(shard.added)), default=0)
    record_bits = max(_record_bits(shard.body) for shard in section.shards) + _BITS_PER_ORDINAL
    needed = last * record_bits // 8
    if needed > limits.max_hole_bytes + 8 * (old.nbytes + section.size_bytes):
        reason = f"type {old.schema.name}: ordinal {last - 1:,} is added so far behind the others that holes take"
        raise LimitError("Limit", f"{reason} {needed:,} bytes, limit is {limits.max_hole_bytes:,}", at)


def _record_bits(shard: Shard) -> int:
    match shard:
        case ObjectShard():
            return shard.bits_per_record
        case ListShard():
            return shard.bits_per_pointer
        case _:
            return shard.bits_per_pointer + shard.bits_per_size


def _check_same_model(ours: Schema, theirs: Schema, at: str) -> None:
    if ours.kind is not theirs.kind:
        raise DecodeError("SchemaMismatch", f"type {ours.name} is {ours.kind} here and {theirs.kind} in the delta", at)
    if not isinstance(ours, ObjectSchema) or not isinstance(theirs, ObjectSchema):
        return
    for field in ours.fields:
        position = theirs.position(field.name)
        if position >= 0 and theirs.fields[position].type is not field.type:
            raise DecodeError(
                "SchemaMismatch",
                f"field {ours.name}.{field.name} is {field.type} here and {theirs.fields[position].type} in the delta",
                at,
            )


@dataclass(frozen=True, slots=True, eq=False)
class _Events:
    """The records of a shard that do not stay as they are, rising, and what becomes of them."""

    ordinals: Ordinals
    added: Ordinals
    """Ordinals that the delta adds, in the order of its records."""
    is_added: NDArray[np.bool_]
    kept: int
    """Old records that are still there, events among them."""
    slots: int

    @property
    def holes(self) -> Ordinals:
        """Events that become holes."""
        return self.ordinals[~self.is_added]


def _apply_shard(old: Shard, delta: ShardSection, due: Ordinals, schema: Schema, theirs: Schema) -> Shard:
    if not len(delta.added) and not len(due):
        return old
    old_slots = old.max_ordinal + 1
    last_added = int(delta.added[-1]) + 1 if len(delta.added) else 0
    slots = min(delta.max_ordinal + 1, max(old_slots, last_added))
    events = _merge_events(delta.added, due[due < slots], min(old_slots, slots), slots)
    before = packed(old, schema)
    change = _matched(packed(delta.body, theirs), before)
    return unpacked(_rebuild(before, change, events), old)


def _merge_events(added: Ordinals, due: Ordinals, kept: int, slots: int) -> _Events:
    """Both lists rise. An ordinal whose removal is due and which is added again counts as added."""
    holes = due[~_among(due, added)]
    ordinals = np.concatenate([added, holes])
    order = np.argsort(ordinals, kind="stable")
    return _Events(ordinals[order], added, order < len(added), kept, slots)


def _among(ordinals: Ordinals, others: Ordinals) -> NDArray[np.bool_]:
    """Which ordinals are in a rising list of others."""
    if not len(others):
        return np.zeros(len(ordinals), np.bool_)
    places = np.minimum(np.searchsorted(others, ordinals), len(others) - 1)
    found: NDArray[np.bool_] = others[places] == ordinals
    return found


def _matched(change: Packed, like: Packed) -> Packed:
    """The delta's records with our fields in our order; a field it lacks gets width -1 and is null."""
    by_name = {field.name: field for field in change.fields}
    absent = {
        field.name: PackedField(field.name, 0, -1, field.null, None if field.side is None else _no_side(field.side))
        for field in like.fields
    }
    return replace(change, fields=tuple(by_name.get(field.name, absent[field.name]) for field in like.fields))


def _no_side(side: Side) -> Side:
    return replace(side, data=np.zeros(0, np.uint8))


def _rebuild(before: Packed, change: Packed, events: _Events) -> Packed:
    plans = [
        _plan_side(before, field, change, theirs, events) if field.side is not None else None
        for field, theirs in zip(before.fields, change.fields, strict=True)
    ]
    fields: list[PackedField] = []
    offset = 0
    for field, theirs, plan in zip(before.fields, change.fields, plans, strict=True):
        width = max(field.width, theirs.width)
        if plan is not None:
            needed = plan.total.bit_length() + (field.null is Null.TOP_BIT)
            width = max(width, needed)
        side = plan.build() if plan is not None else None
        fields.append(PackedField(field.name, offset, width, field.null, side))
        offset += width
    records = buffers.empty((events.slots * offset + 7) >> 3)
    records[(events.kept * offset) >> 3 :] = 0
    after = Packed(events.slots, records, offset, tuple(fields))
    _copy_kept(before, after, events, plans)
    _write_added(change, after, events, plans)
    kernel.clear_records(after.records, after.stride, events.holes)
    for field, plan in zip(after.fields, plans, strict=True):
        if plan is not None:
            plan.write_ends(after, field)
    return after


def _copy_kept(before: Packed, after: Packed, events: _Events, plans: "list[_SidePlan | None]") -> None:
    same = before.stride == after.stride and all(
        old.width == new.width for old, new in zip(before.fields, after.fields, strict=True)
    )
    if same:
        ends = [(field, plan) for field, plan in zip(before.fields, plans, strict=True) if plan is not None]
        if not ends:
            size = (events.kept * after.stride + 7) >> 3
            after.records[:size] = before.records[:size]
            _clear_tail(after.records, events.kept * after.stride)
            return
        kernel.shift_fields(
            before.records,
            after.records,
            after.stride,
            events.kept,
            np.array([field.offset for field, _ in ends], np.int64),
            np.array([field.value_bits for field, _ in ends], np.int64),
            events.ordinals,
            np.array([plan.shifts for _, plan in ends], np.int64),
        )
        return
    run = None
    for old, new, plan in zip(before.fields, after.fields, plans, strict=True):
        values = before.column(old, events.kept)
        if plan is None:
            values = convert(values, old, new.width)
        else:
            if run is None:
                run = np.searchsorted(events.ordinals, np.arange(events.kept), side="right")
            values = _moved_ends(values, old, new, plan.shifts[run])
        bits.store(after.records, new.offset, after.stride, new.width, values)


def _moved_ends(values: NDArray[np.uint64], old: PackedField, new: PackedField, shift: Ordinals) -> NDArray[np.uint64]:
    ends = (values & np.uint64((1 << old.value_bits) - 1)) + shift.astype(np.uint64)
    ends &= np.uint64((1 << new.value_bits) - 1)
    if old.null is Null.TOP_BIT:
        ends |= (values >> np.uint64(old.width - 1)) << np.uint64(new.width - 1)
    return ends


def _clear_tail(records: NDArray[np.uint8], used_bits: int) -> None:
    if used_bits & 7:
        records[used_bits >> 3] &= (1 << (used_bits & 7)) - 1


def _write_added(change: Packed, after: Packed, events: _Events, plans: "list[_SidePlan | None]") -> None:
    same = change.stride == after.stride and all(
        theirs.width == ours.width and theirs.offset == ours.offset
        for theirs, ours in zip(change.fields, after.fields, strict=True)
    )
    if same:
        kernel.patch_records(after.records, after.stride, events.added, change.records)
        return
    for theirs, ours, plan in zip(change.fields, after.fields, plans, strict=True):
        if plan is not None:
            continue
        if theirs.width < 0:
            values = np.full(len(events.added), (1 << ours.width) - 1, np.uint64)
        else:
            values = convert(change.column(theirs), theirs, ours.width)
        bits.scatter(after.records, after.stride, ours.offset, ours.width, events.added, values)


@dataclass(frozen=True, slots=True, eq=False)
class _SidePlan:
    """How the runs of one side array move.

    Run k lies between event k-1 and event k; all ends in it grow by `shifts[k]`.
    """

    events: _Events
    old: Side
    new: Side
    """The delta's elements, in the widths of the result."""
    shifts: Ordinals
    run_starts: Ordinals
    run_lengths: Ordinals
    event_starts: Ordinals
    """Where the elements of each event start in the result."""
    event_lengths: Ordinals
    delta_starts: Ordinals
    delta_lengths: Ordinals
    nulls: NDArray[np.bool_] | None
    old_total: int
    total: int

    def build(self) -> Side:
        """Copy the runs into a new array."""
        data = side_buffer(self.old, self.total)
        unit = self.old.unit_bits
        kernel.copy_runs(data, self.old.data, unit, self.run_starts + self.shifts, self.run_starts, self.run_lengths)
        starts = self.event_starts[self.events.is_added]
        kernel.copy_runs(data, self.new.data, unit, starts, self.delta_starts, self.delta_lengths)
        return replace(self.old, data=data)

    def write_ends(self, after: Packed, field: PackedField) -> None:
        """Write the ends of events and of the holes behind the old records."""
        values = (self.event_starts + self.event_lengths).astype(np.uint64)
        if self.nulls is not None:
            values |= self.nulls.astype(np.uint64) << np.uint64(field.width - 1)
        bits.scatter(after.records, after.stride, field.offset, field.width, self.events.ordinals, values)
        for begin in range(self.events.kept, after.slots, _BLOCK):
            tail = np.arange(begin, min(begin + _BLOCK, after.slots), dtype=np.int64)
            tail = tail[~_among(tail, self.events.ordinals)]
            ends = self.old_total + self.shifts[np.searchsorted(self.events.ordinals, tail, side="right")]
            bits.scatter(after.records, after.stride, field.offset, field.width, tail, ends.astype(np.uint64))


def _plan_side(before: Packed, field: PackedField, change: Packed, theirs: PackedField, events: _Events) -> _SidePlan:
    assert field.side is not None and theirs.side is not None
    clipped = replace(before, slots=events.kept)
    old_total = clipped.total(field)
    starts = clipped.ends(field, events.ordinals - 1)
    ends = clipped.ends(field, events.ordinals)
    lengths = np.zeros(len(events.ordinals), np.int64)
    nulls = np.zeros(len(events.ordinals), np.bool_) if field.null is Null.TOP_BIT else None
    delta_total = 0
    delta_starts = delta_lengths = np.zeros(len(events.added), np.int64)
    if theirs.width >= 0:
        rows = np.arange(len(events.added), dtype=np.int64)
        delta_starts, delta_ends = change.ends(theirs, rows - 1), change.ends(theirs, rows)
        delta_lengths = delta_ends - delta_starts
        delta_total = change.total(theirs)
        lengths[events.is_added] = delta_lengths
        if nulls is not None:
            nulls[events.is_added] = change.column(theirs) >> np.uint64(theirs.width - 1) != 0
    elif nulls is not None:
        nulls[events.is_added] = True
    shifts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths - (ends - starts))])
    run_starts = np.concatenate([np.zeros(1, np.int64), ends])
    run_ends = np.concatenate([starts, np.array([old_total])])
    parts = tuple(max(pair) for pair in zip(field.side.parts, theirs.side.parts, strict=True))
    return _SidePlan(
        events=events,
        old=widened(field.side, parts, old_total),
        new=widened(theirs.side, parts, delta_total),
        shifts=shifts,
        run_starts=run_starts,
        run_lengths=np.maximum(run_ends - run_starts, 0),
        event_starts=starts + shifts[:-1],
        event_lengths=lengths,
        delta_starts=delta_starts,
        delta_lengths=delta_lengths,
        nulls=nulls,
        old_total=old_total,
        total=old_total + int(shifts[-1]),
    )
