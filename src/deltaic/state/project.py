"""A type with some of its fields, as a filter leaves it, or with other names for them."""

from collections.abc import Mapping
from dataclasses import replace

from deltaic.binary import buffers
from deltaic.kernels import bits
from deltaic.schema.evolve import applied_renames
from deltaic.schema.types import ObjectSchema, Schema
from deltaic.state.packed import Packed, packed, unpacked
from deltaic.state.type_data import TypeData
from deltaic.wire.shards import Shard


def projected(data: TypeData, schema: Schema) -> TypeData:
    """The same records with the fields of `schema` alone, which are some of the type's own."""
    if schema == data.schema or not isinstance(schema, ObjectSchema):
        return data
    assert isinstance(data.schema, ObjectSchema)
    positions = [data.schema.position(field.name) for field in schema.fields]
    shards = tuple(_projected_shard(shard, data.schema, positions) for shard in data.shards)
    return TypeData(schema, shards, data.max_ordinal, data.populated, data.previous, data.pending)


def renamed_type(data: TypeData, schema: Schema, renamed: Mapping[str, str]) -> TypeData:
    """The same records with the names that a new schema gives to fields of the old one (`schema.evolve`)."""
    before = data.schema
    if not renamed or not isinstance(before, ObjectSchema) or not isinstance(schema, ObjectSchema):
        return data
    names = {was: name for name, was in applied_renames(before, schema, renamed).items()}
    fields = tuple(replace(field, name=names.get(field.name, field.name)) for field in before.fields)
    return replace(data, schema=replace(before, fields=fields))


def _projected_shard(shard: Shard, schema: ObjectSchema, positions: list[int]) -> Shard:
    source = packed(shard, schema)
    fields = []
    offset = 0
    for position in positions:
        field = source.fields[position]
        fields.append(replace(field, offset=offset))
        offset += field.width
    records = buffers.zeros((source.slots * offset + 7) >> 3)
    for field, position in zip(fields, positions, strict=True):
        bits.store(records, field.offset, offset, field.width, source.column(source.fields[position]))
    return unpacked(Packed(source.slots, records, offset, tuple(fields)), shard)
