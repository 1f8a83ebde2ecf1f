"""Appended values put into records: afterwards nothing tells them from values of a snapshot.

Records are made anew with the new fields behind the old ones, packed as a snapshot packs them; where a field was there
before, its values are overwritten. All of this happens to the type as it was before the delta, whose ordinals the
section names; the delta's type section is then applied to the result, so that records which it adds have the new
fields too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deltaic.binary import buffers
from deltaic.errors import DecodeError, LimitError
from deltaic.kernels import append as kernel
from deltaic.kernels import bits, records
from deltaic.limits import Limits
from deltaic.schema.types import Field, FieldType, Kind, ObjectSchema, Schema
from deltaic.state.append_model import AppendPlan, TypePlan
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.check import Reach
from deltaic.state.packed import DOUBLE_NULLS, FLOAT_NULLS, Packed, PackedField, packed
from deltaic.state.type_data import TypeData
from deltaic.wire.append import AddedType, AppendedSection, FieldValues
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard, Shard

Ordinals = NDArray[np.int64]

_EXACT = {FieldType.BOOLEAN: 2, FieldType.FLOAT: 32, FieldType.DOUBLE: 64}
_NARROW = {FieldType.INT: 32, FieldType.LONG: 64, FieldType.REFERENCE: 32}
_MOST_BITS = 64
_NO_ROWS: Ordinals = np.zeros(0, np.int64)
_NO_VALUES: NDArray[np.uint64] = np.zeros(0, np.uint64)
_GROWTH = 64
"""How many times the bytes of a type and its section new fields may take without a limit of their own."""


@dataclass(frozen=True, slots=True)
class AppendReport:
    """What an appended section did to a state."""

    size_bytes: int = 0
    """Bytes of the section in the blob."""
    fields: int = 0
    """Fields that got values."""
    values: int = 0
    """Values that were put into records."""
    new_fields: int = 0
    """Fields that the reader did not have before."""
    new_types: int = 0
    skipped_fields: int = 0
    """Fields with values that the reader does not have, or has with another type."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """The types that a delta is applied to, with their new fields."""

    types: Mapping[str, TypeData]
    touched: Mapping[str, OrdinalSet]
    """By type: records with a value that they did not have before."""
    reaches: tuple[Reach, ...]
    fields: int
    values: int


def prepare_types(
    types: Mapping[str, TypeData], plan: AppendPlan, section: AppendedSection, limits: Limits, at: str
) -> Prepared:
    """The types of a state under the model of a plan, with the values of a section.

    Raises:
        DecodeError: values are of records that are not there, or a text is not UTF-8.
    """
    made = {name: data for name, data in types.items() if name not in plan.removed}
    touched: dict[str, OrdinalSet] = {}
    reaches: list[Reach] = []
    fields = values = 0
    for name, one in plan.types.items():
        data = types[name]
        _check_growth(data, one, section, limits, at)
        made[name], touched[name] = _rebuilt(data, one, at)
        for given in one.values.values():
            fields, values = fields + 1, values + len(given)
            if given.field.type is FieldType.REFERENCE and len(given):
                assert given.raw is not None
                where = f"the appended field {name}.{given.field.name}"
                reaches.append(Reach(where, given.field.referenced or "", int(given.raw.max())))
    for name, added in plan.added.items():
        made[name] = empty_type(added.schema, added.shards)
    return Prepared(made, touched, tuple(reaches), fields, values)


def empty_type(schema: Schema, shards: int) -> TypeData:
    """A type without a record."""
    return TypeData(schema, tuple(_empty_shard(schema) for _ in range(shards)), -1, EMPTY)


def added_with_shards(plan: AppendPlan, counts: Mapping[str, int]) -> AppendPlan:
    """The plan with the shard counts that the type sections of new types have."""
    added = {name: AddedType(one.schema, counts.get(name, one.shards)) for name, one in plan.added.items()}
    return replace(plan, added=added)


def _empty_shard(schema: Schema) -> Shard:
    match schema.kind:
        case Kind.OBJECT:
            assert isinstance(schema, ObjectSchema)
            widths = tuple(2 if one.type.is_variable else 0 for one in schema.fields)
            offsets = tuple(sum(widths[:place]) for place in range(len(widths)))
            variable = tuple(buffers.zeros(0)[:0] if one.type.is_variable else None for one in schema.fields)
            return ObjectShard(-1, buffers.zeros(0), widths, offsets, sum(widths), variable)
        case Kind.LIST:
            return ListShard(-1, buffers.zeros(0), 1, buffers.zeros(0), 1, 0)
        case Kind.SET:
            return SetShard(-1, buffers.zeros(0), 0, 0, buffers.zeros(0), 1, 0)
        case Kind.MAP:
            return MapShard(-1, buffers.zeros(0), 0, 0, buffers.zeros(0), 1, 1, 0)


def _check_growth(data: TypeData, plan: TypePlan, section: AppendedSection, limits: Limits, at: str) -> None:
    """Refuse fields that would take memory which no bytes stand for."""
    new = [one for one, source in zip(plan.schema.fields, plan.sources, strict=True) if source < 0]
    needed = (data.max_ordinal + 1) * sum(_EXACT.get(one.type, _MOST_BITS) for one in new) // 8
    bound = limits.max_hole_bytes + _GROWTH * (data.nbytes + section.plain_bytes)
    if limits.max_state_bytes is not None:
        bound = min(bound, max(limits.max_state_bytes - data.nbytes, 0))
    if needed > bound:
        # Only now is it worth while to know how wide they really are.
        needed = (data.max_ordinal + 1) * sum(_width_of(plan.values.get(one.name), one) for one in new) // 8
    if needed > bound:
        reason = f"type {data.schema.name}: {len(new):,} new fields take {needed:,} bytes, limit is {bound:,}"
        raise LimitError("Limit", reason, at)


def _rebuilt(data: TypeData, plan: TypePlan, at: str) -> tuple[TypeData, OrdinalSet]:
    """A type under its new model, and the records that have a value which they did not have before."""
    assert isinstance(data.schema, ObjectSchema)
    columns = [
        _column(data, plan, one, source, at) for one, source in zip(plan.schema.fields, plan.sources, strict=True)
    ]
    touched = _together([column.changed for column in columns if column is not None and len(column.changed)])
    kept = plan.sources == tuple(range(len(data.schema.fields)))
    if kept and all(column is None for column in columns):
        # Names and keys may have changed; records have not.
        return replace(data, schema=plan.schema), touched
    shards = []
    for number, shard in enumerate(data.shards):
        assert isinstance(shard, ObjectShard)
        shards.append(_rebuilt_shard(data, shard, number, plan, columns))
    return replace(data, schema=plan.schema, shards=tuple(shards)), touched


def _together(rows: list[Ordinals]) -> OrdinalSet:
    if not rows:
        return EMPTY
    words = np.zeros((max(int(one[-1]) for one in rows) >> 6) + 1, np.uint64)
    for one in rows:
        bits.set_bits(words, one)
    return OrdinalSet.from_words(words)


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """The values of a field that is new or changes, by rising ordinals of the whole type."""

    field: Field
    ordinals: Ordinals
    changed: Ordinals
    """Those of them whose value is not the one that was there."""
    raw: NDArray[np.uint64] | None = None
    offsets: Ordinals | None = None
    data: NDArray[np.uint8] | None = None

    def of_shard(self, number: int, count: int) -> "_Column":
        """The rows of one shard, with its own ordinals."""
        if count == 1:
            return self
        rows = np.flatnonzero(self.ordinals & (count - 1) == number)
        places = self.ordinals[rows] >> (count.bit_length() - 1)
        if self.raw is not None:
            return replace(self, ordinals=places, raw=self.raw[rows])
        assert self.offsets is not None and self.data is not None
        offsets, data = records.gather_ranges(self.data, self.offsets[:-1][rows], self.offsets[1:][rows])
        return replace(self, ordinals=places, offsets=offsets, data=data)


def _column(data: TypeData, plan: TypePlan, one: Field, source: int, at: str) -> _Column | None:
    """What a field gets; None if it stays as it is."""
    given = plan.values.get(one.name)
    if given is None:
        if source >= 0:
            return None
        empty = np.zeros(0, np.uint8)
        if one.type.is_variable:
            return _Column(one, _NO_ROWS, _NO_ROWS, offsets=np.zeros(1, np.int64), data=empty)
        return _Column(one, _NO_ROWS, _NO_ROWS, _NO_VALUES)
    outside = kernel.first_outside(data.populated.words, given.ordinals)
    if outside >= 0:
        reason = f"the appended field {data.schema.name}.{one.name} has a value for record"
        raise DecodeError("BadOrdinal", f"{reason} {int(given.ordinals[outside]):,}, which is not there", at)
    offsets, pieces = given.pieces(at) if one.type.is_variable else (None, None)
    column = _Column(one, given.ordinals, given.ordinals, given.raw, offsets, pieces)
    if source < 0:
        return column
    changed = _differing(data, source, column)
    return replace(column, changed=changed) if len(changed) else None


def _differing(data: TypeData, position: int, column: _Column) -> Ordinals:
    """The ordinals at which a field does not have the value of a column."""
    count = len(data.shards)
    found = []
    for number, shard in enumerate(data.shards):
        assert isinstance(shard, ObjectShard)
        here = column.of_shard(number, count)
        width, places = shard.widths[position], here.ordinals
        if not len(places):
            continue
        old = bits.gather(shard.records, shard.bits_per_record, shard.offsets[position], width, places)
        if here.raw is not None:
            differs = old != here.raw
            if width < _NARROW.get(column.field.type, 1):
                # All ones are null in these bits, though they may be a number in more of them.
                differs |= old == np.uint64((1 << width) - 1)
        else:
            differs = _other_bytes(shard, position, here, old)
        found.append((places[differs] << (count.bit_length() - 1)) | number)
    return np.sort(np.concatenate(found)) if found else _NO_ROWS


def _other_bytes(shard: ObjectShard, position: int, column: _Column, old: NDArray[np.uint64]) -> NDArray[np.bool_]:
    assert column.offsets is not None and column.data is not None
    source = shard.variable[position]
    assert source is not None
    mask = np.uint64((1 << shard.widths[position] - 1) - 1)
    starts, ends = _starts(shard, position, column.ordinals), (old & mask).view(np.int64)
    return (old > mask) | kernel.differing(source, starts, ends, column.data, column.offsets)


def _starts(shard: ObjectShard, position: int, places: Ordinals) -> Ordinals:
    before = bits.gather(
        shard.records,
        shard.bits_per_record,
        shard.offsets[position],
        shard.widths[position] - 1,
        np.maximum(places - 1, 0),
    ).view(np.int64)
    before[places == 0] = 0
    return before


def _rebuilt_shard(
    data: TypeData, shard: ObjectShard, number: int, plan: TypePlan, columns: list[_Column | None]
) -> ObjectShard:
    assert isinstance(data.schema, ObjectSchema)
    old = packed(shard, data.schema)
    writers = [
        _kept(old, source) if column is None else _written(old, source, column.of_shard(number, len(data.shards)))
        for source, column in zip(plan.sources, columns, strict=True)
    ]
    widths = [writer.width for writer in writers]
    offsets = [sum(widths[:place]) for place in range(len(widths))]
    stride = sum(widths)
    made = buffers.empty((old.slots * stride + 7) >> 3)
    kept = len(old.fields)
    if [writer.source for writer in writers[:kept]] == list(range(kept)):
        # The old fields stay as they lie: one pass moves them and writes what is new behind them.
        new = writers[kept:]
        kernel.append_fields(
            old.records,
            old.stride,
            old.slots,
            made,
            [writer.ordinals for writer in new],
            [writer.values for writer in new],
            np.array(widths[kept:], np.int64),
            np.array([writer.null for writer in new], np.uint64),
            np.array([writer.side is not None for writer in new], np.uint8),
        )
    else:
        made[(old.slots * stride) >> 3 :] = 0
        for writer, offset in zip(writers, offsets, strict=True):
            bits.store(made, offset, stride, writer.width, writer.column(old))
    variable = tuple(writer.side for writer in writers)
    return ObjectShard(old.slots - 1, made, tuple(widths), tuple(offsets), stride, variable)


@dataclass(frozen=True, slots=True, eq=False)
class _Writer:
    """How one field comes into the new records: copied from an old one, or values at ordinals and null elsewhere."""

    width: int
    side: NDArray[np.uint8] | None
    source: int | None
    ordinals: Ordinals
    values: NDArray[np.uint64]
    null: int = 0

    def column(self, old: Packed) -> NDArray[np.uint64]:
        """The bits of the field in all records."""
        if self.source is not None:
            return old.column(old.fields[self.source])
        column = np.full(old.slots, self.null, np.uint64)
        if self.side is not None:
            lengths = np.zeros(old.slots, np.uint64)
            lengths[self.ordinals] = np.diff(self.values, prepend=np.uint64(0))
            column |= np.cumsum(lengths, dtype=np.uint64)
        column[self.ordinals] = self.values
        return column


def _kept(old: Packed, source: int) -> _Writer:
    field = old.fields[source]
    return _Writer(field.width, field.side.data if field.side is not None else None, source, _NO_ROWS, _NO_VALUES)


def _written(old: Packed, source: int, column: _Column) -> _Writer:
    if source >= 0:
        return _overwritten(old, old.fields[source], column) if len(column.ordinals) else _kept(old, source)
    if column.raw is not None:
        width = _width(column.raw, column.field.type)
        return _Writer(width, None, None, column.ordinals, column.raw, _null_of(column.field.type, width))
    assert column.offsets is not None and column.data is not None
    width = _end_width(len(column.data))
    ends = column.offsets[1:].view(np.uint64)
    return _Writer(width, _side(column.data), None, column.ordinals, ends, 1 << width - 1)


def _overwritten(old: Packed, place: PackedField, column: _Column) -> _Writer:
    """A field that was there before: other records keep their value."""
    slots = np.arange(old.slots, dtype=np.int64)
    if column.raw is not None:
        width = max(place.width, _width(column.raw, column.field.type))
        values = old.column(place)
        if width != place.width:
            null = np.uint64(_null_of(column.field.type, width))
            values = np.where(values == np.uint64((1 << place.width) - 1), null, values)
        values[column.ordinals] = column.raw
        return _Writer(width, None, None, slots, values)
    assert column.offsets is not None and column.data is not None and place.side is not None
    starts, ends = old.ends(place, slots - 1), old.ends(place, slots)
    nulls = old.column(place) >> np.uint64(place.width - 1)
    starts[column.ordinals] = column.offsets[:-1] + len(place.side.data)
    ends[column.ordinals] = column.offsets[1:] + len(place.side.data)
    nulls[column.ordinals] = 0
    joined = np.concatenate((place.side.data, column.data))
    offsets, data = records.gather_ranges(joined, starts, ends)
    width = max(place.width, _end_width(len(data)))
    values = offsets[1:].astype(np.uint64) | nulls << np.uint64(width - 1)
    return _Writer(width, _side(data), None, slots, values)


def _side(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    side = buffers.empty(len(data))
    side[: len(data)] = data
    return side[: len(data)]


def _end_width(total: int) -> int:
    return 1 + (total + 1).bit_length()


def _width_of(given: FieldValues | None, one: Field) -> int:
    if one.type.is_variable:
        total = 0 if given is None or given.ends is None or not len(given) else int(given.ends[-1])
        return _end_width(total)
    return _width(_NO_VALUES if given is None or given.raw is None else given.raw, one.type)


def _width(raw: NDArray[np.uint64], kind: FieldType) -> int:
    """Bits that hold these values, with one more for null."""
    if kind in _EXACT:
        return _EXACT[kind]
    largest = int(raw.max()) if len(raw) else 0
    return max(min((largest + 1).bit_length(), _NARROW[kind]), 1)


def _null_of(kind: FieldType, width: int) -> int:
    if kind is FieldType.FLOAT and width:
        return FLOAT_NULLS[0]
    if kind is FieldType.DOUBLE and width:
        return DOUBLE_NULLS[0]
    return (1 << width) - 1
