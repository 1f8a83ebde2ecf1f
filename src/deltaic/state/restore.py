"""A producer continues a chain: the records of a read state, serialized again (hollow-blob.md, section 16).

Restored records are remembered by their bytes under the model that the old and the new schema have in common; a new
record with the same common bytes claims the ordinal. Restored records that nobody claims are put back before writing,
so that the reverse delta can carry them.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import SchemaError
from deltaic.kernels import bits, records
from deltaic.kernels import ordinals as ordinal_kernels
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.type_data import TypeData
from deltaic.state.write_columns import Column, Serialized, VariableColumn, object_batch
from deltaic.state.write_statistics import field_kinds
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard, Shard

Ordinals = NDArray[np.int32]
_NO_CODES: Ordinals = np.zeros(0, np.int32)
_NO_BUCKETS, _MIXED, _UNMIXED = 0, 1, 2
_Part = tuple[Shard, NDArray[np.int64], NDArray[np.int64]]


class RestoredType:
    """The records that a type had before the restart.

    `exact` keeps values as they are. Java's restore does not: it takes NaN for null, so that a record with a NaN gets a
    new ordinal in the first cycle, and the explicit null of a text for the empty text.
    """

    def __init__(self, schema: Schema, data: TypeData, *, exact: bool) -> None:
        self._schema = schema
        self._data = data
        self._exact = exact
        self.populated: OrdinalSet = data.populated
        self.shards = len(data.shards)
        self._fields: NDArray[np.int64] | None = None
        self._common = schema
        if isinstance(schema, ObjectSchema):
            self._common = common = common_schema(schema, data.schema)
            if common.fields != schema.fields:
                self._fields = np.array([schema.position(field.name) for field in common.fields], np.int64)
        elif type(schema) is not type(data.schema):
            raise _incompatible(schema, data.schema)

    @cached_property
    def _known(self) -> "ordinal_kernels.OrdinalMap":
        ordinals = self.populated.ordinals()
        known = ordinal_kernels.OrdinalMap()
        known.put(*self._serialize(self._common, ordinals, _NO_BUCKETS), ordinals.astype(np.int32))
        return known

    @property
    def common_fields(self) -> NDArray[np.int64] | None:
        """The fields of an OBJECT type that were there before; None if all were."""
        return self._fields

    def preferred(self, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> Ordinals:
        """The restored ordinal that each new record equals in the common model, or -1."""
        if isinstance(self._schema, SetSchema | MapSchema):
            per_entry = 1 if isinstance(self._schema, SetSchema) else 2
            return self._known.find(*records.strip_buckets(data, ends, per_entry))
        if self._fields is not None:
            return self._known.find(*records.project_objects(data, ends, field_kinds(self._schema), self._fields))
        return self._known.find(data, ends)

    def as_added(self, ordinals: NDArray[np.int64]) -> Serialized:
        """These records in the common model, with the bytes that they would have if they were added."""
        if not isinstance(self._schema, SetSchema | MapSchema):
            return self._serialize(self._common, ordinals, _NO_BUCKETS)
        table = _entries(self._data, ordinals)
        if isinstance(self._schema, SetSchema):
            return records.serialize_sets(table.offsets, table.keys, _NO_CODES, _MIXED)
        return records.serialize_maps(table.offsets, table.keys, table.values, _NO_CODES, _MIXED)

    def serialized(self, ordinals: OrdinalSet) -> Serialized:
        """These records under the new model: missing fields null, sets and maps with their buckets as they were."""
        return self._serialize(self._schema, ordinals.ordinals(), _UNMIXED)

    def _serialize(self, schema: Schema, ordinals: NDArray[np.int64], buckets: int) -> Serialized:
        match schema:
            case ObjectSchema():
                columns = {
                    field.name: column
                    for field in schema.fields
                    if (column := _object_column(self._data, field, ordinals, exact=self._exact)) is not None
                }
                return object_batch(schema, columns, len(ordinals), {}).whole()
            case ListSchema():
                table = _entries(self._data, ordinals)
                return records.serialize_lists(table.offsets, table.keys)
            case SetSchema():
                table = _entries(self._data, ordinals)
                codes, form = self._codes(schema, table, buckets)
                return records.serialize_sets(table.offsets, table.keys, codes, form)
            case MapSchema():
                table = _entries(self._data, ordinals)
                codes, form = self._codes(schema, table, buckets)
                return records.serialize_maps(table.offsets, table.keys, table.values, codes, form)

    def _codes(self, schema: SetSchema | MapSchema, table: "_Entries", buckets: int) -> tuple[Ordinals, int]:
        """The hash codes that go into records of a collection, and their form."""
        if buckets == _UNMIXED and self._exact and schema.hash_key:
            # A hash key decides the layout. Buckets as they were read would only make a record that is kept differ from
            # an equal one that is added, as they do in Java.
            return _NO_CODES, _MIXED
        return table.buckets, buckets


def common_schema(schema: ObjectSchema, restored: Schema) -> ObjectSchema:
    """The fields of `schema` that the restored type has too. A field of another type under the same name is refused."""
    if not isinstance(restored, ObjectSchema):
        raise _incompatible(schema, restored)
    fields = []
    for field in schema.fields:
        position = restored.position(field.name)
        if position < 0:
            continue
        old = restored.fields[position]
        if (old.type, old.referenced) != (field.type, field.referenced):
            raise SchemaError(
                f"field {schema.name}.{field.name} is {_shown(field)} and was {_shown(old)} in the restored state: "
                "a chain cannot go on with another type under the same name"
            )
        fields.append(field)
    return ObjectSchema(schema.name, tuple(fields), schema.primary_key)


def _object_column(
    data: TypeData, field: Field, ordinals: NDArray[np.int64], *, exact: bool
) -> Column | VariableColumn | None:
    assert isinstance(data.schema, ObjectSchema)
    position = data.schema.position(field.name)
    if position < 0:
        return None
    if field.type.is_variable:
        return _variable_column(data, field, position, ordinals, exact=exact)
    raw = np.zeros(len(ordinals), np.uint64)
    nulls = np.zeros(len(ordinals), np.bool_)
    for shard, rows, places in _by_shard(data, ordinals):
        assert isinstance(shard, ObjectShard)
        width = shard.widths[position]
        values = bits.gather(shard.records, shard.bits_per_record, shard.offsets[position], width, places)
        raw[rows] = values
        if field.type not in (FieldType.FLOAT, FieldType.DOUBLE) or width == 0:
            nulls[rows] = values == np.uint64((1 << width) - 1)
    return _fixed_column(field, raw, nulls, exact=exact)


def _fixed_column(field: Field, raw: NDArray[np.uint64], nulls: NDArray[np.bool_], *, exact: bool) -> Column:
    match field.type:
        case FieldType.INT | FieldType.LONG:
            decoded = (raw >> np.uint64(1)) ^ (~(raw & np.uint64(1)) + np.uint64(1))
            return Column(decoded.view(np.int64), ~nulls)
        case FieldType.REFERENCE:
            return Column(raw.view(np.int64), ~nulls)
        case FieldType.BOOLEAN:
            return Column(raw == 1, ~nulls)
        case FieldType.FLOAT:
            magnitude, infinity, null = raw & np.uint64(0x7FFF_FFFF), 0x7F80_0000, 0x7FC0_0001
            values: NDArray[np.uint32] | NDArray[np.uint64] = raw.astype(np.uint32)
        case _:
            magnitude, infinity = raw & np.uint64(0x7FFF_FFFF_FFFF_FFFF), 0x7FF0_0000_0000_0000
            null, values = 0x7FF8_0000_0000_0001, raw
    absent = raw == np.uint64(null) if exact else magnitude > np.uint64(infinity)
    return Column(values, ~(absent | nulls))


def _variable_column(
    data: TypeData, field: Field, position: int, ordinals: NDArray[np.int64], *, exact: bool
) -> VariableColumn:
    nulls = np.zeros(len(ordinals), np.bool_)
    lengths = np.zeros(len(ordinals), np.int64)
    pieces = []
    for shard, rows, places in _by_shard(data, ordinals):
        assert isinstance(shard, ObjectShard)
        source = shard.variable[position]
        assert source is not None
        width = shard.widths[position]
        if width == 0:
            nulls[rows] = True
            pieces.append((rows, np.zeros(len(rows) + 1, np.int64), np.zeros(0, np.uint8)))
            continue
        stored = _ends(shard.records, shard.bits_per_record, shard.offsets[position], width, places)
        mask = (1 << width - 1) - 1
        starts, ends = stored[0] & mask, stored[1] & mask
        nulls[rows] = stored[1] > mask
        if field.type is FieldType.STRING and not exact:
            # The one byte 0x80 is Java's explicit null and reads as the empty text.
            single = np.flatnonzero(ends - starts == 1)
            quirk = single[source[starts[single]] == 0x80]
            ends[quirk] = starts[quirk]
        lengths[rows] = ends - starts
        pieces.append((rows, *records.gather_ranges(source, starts, ends)))
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    if len(pieces) == 1:
        return VariableColumn(offsets, pieces[0][2], ~nulls, units=True)
    joined = np.empty(int(offsets[-1]), np.uint8)
    for rows, bounds, piece in pieces:
        records.scatter_ranges(piece, bounds, joined, offsets[rows])
    return VariableColumn(offsets, joined, ~nulls, units=True)


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """Elements or entries of collections, and for sets and maps the bucket that each was found in."""

    offsets: NDArray[np.int64]
    keys: Ordinals
    values: Ordinals
    buckets: Ordinals


def _entries(data: TypeData, ordinals: NDArray[np.int64]) -> _Entries:
    owners, keys, values, buckets = [], [], [], []
    for shard, rows, places in _by_shard(data, ordinals):
        match shard:
            case ListShard():
                starts, ends = _ends(shard.pointers, shard.bits_per_pointer, 0, shard.bits_per_pointer, places)
                key_width, value_width, packed = shard.bits_per_element, 0, shard.elements
            case SetShard():
                stride = shard.bits_per_pointer + shard.bits_per_size
                starts, ends = _ends(shard.pointers, stride, 0, shard.bits_per_pointer, places)
                key_width, value_width, packed = shard.bits_per_element, 0, shard.buckets
            case MapShard():
                stride = shard.bits_per_pointer + shard.bits_per_size
                starts, ends = _ends(shard.pointers, stride, 0, shard.bits_per_pointer, places)
                key_width, value_width, packed = shard.bits_per_key, shard.bits_per_value, shard.buckets
            case _:
                raise _incompatible(data.schema, data.schema)
        lengths = ends - starts
        inside = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        index = np.repeat(starts, lengths) + inside
        found = bits.gather(packed, key_width + value_width, 0, key_width, index)
        there = slice(None) if isinstance(shard, ListShard) else found != np.uint64((1 << key_width) - 1)
        owners.append(np.repeat(rows, lengths)[there])
        keys.append(found[there].astype(np.int32))
        buckets.append(inside[there].astype(np.int32))
        values.append(
            bits.gather(packed, key_width + value_width, key_width, value_width, index)[there].astype(np.int32)
        )
    owner = np.concatenate(owners) if owners else np.zeros(0, np.int64)
    order = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=len(ordinals))
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    joined = [np.concatenate(part)[order] if part else _NO_CODES for part in (keys, values, buckets)]
    return _Entries(offsets, *joined)


def _by_shard(data: TypeData, ordinals: NDArray[np.int64]) -> list[_Part]:
    """Per shard: the rows of `ordinals` that it holds, and their ordinals inside it."""
    count = len(data.shards)
    if count == 1:
        return [(data.shards[0], np.arange(len(ordinals)), ordinals)] if len(ordinals) else []
    shift = count.bit_length() - 1
    parts: list[_Part] = []
    for number, shard in enumerate(data.shards):
        rows = np.flatnonzero(ordinals & (count - 1) == number)
        if len(rows):
            parts.append((shard, rows, ordinals[rows] >> shift))
    return parts


def _ends(
    packed: NDArray[np.uint8], stride: int, offset: int, width: int, places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The end stored before each place (0 before the first), and the end stored at it."""
    before = bits.gather(packed, stride, offset, width, np.maximum(places - 1, 0))
    before[places == 0] = 0
    return before.view(np.int64), bits.gather(packed, stride, offset, width, places).view(np.int64)


def _shown(field: Field) -> str:
    return f"a reference to {field.referenced}" if field.referenced is not None else str(field.type)


def _incompatible(schema: Schema, restored: Schema) -> SchemaError:
    return SchemaError(f"type {schema.name} is a {schema.kind} and was a {restored.kind} in the restored state")
