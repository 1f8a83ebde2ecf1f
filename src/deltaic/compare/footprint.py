"""What a state costs in memory, down to the field.

A field of an OBJECT costs its bits in every slot, populated or not, and the bytes of its texts. A collection costs its
pointers (and sizes) in every slot, and its elements or buckets. A vector column costs four bytes for each dimension of
every row of the chunks that hold a vector. What is left over, slack behind arrays and the sets of populated ordinals,
is overhead of the type.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltaic.compare.vectors import columns_of
from deltaic.schema.types import ObjectSchema
from deltaic.state.packed import packed
from deltaic.state.read import ReadState
from deltaic.state.type_data import TypeData
from deltaic.state.vector_column import StoredVectors
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard


@dataclass(frozen=True, slots=True)
class FieldFootprint:
    """What one field costs; of a collection its `pointers` and its `elements` or `buckets`."""

    name: str
    bits: float
    """Bits in a slot, on the average over the shards; of elements and buckets the bits of one."""
    fixed_bytes: int
    """For those bits in all slots, or in all elements and buckets."""
    variable_bytes: int
    """For the bytes of texts and byte strings."""
    hole_bytes: int
    """Of the fixed ones, in slots that hold no record; of buckets, in those that are empty."""

    @property
    def total_bytes(self) -> int:
        """Fixed and variable ones."""
        return self.fixed_bytes + self.variable_bytes


@dataclass(frozen=True, slots=True)
class TypeFootprint:
    """What one type costs."""

    name: str
    kind: str
    shards: int
    records: int
    slots: int
    fields: tuple[FieldFootprint, ...]
    total_bytes: int

    @property
    def holes(self) -> int:
        """Slots without a record."""
        return self.slots - self.records

    @property
    def hole_bytes(self) -> int:
        """What holes and empty buckets cost."""
        return sum(field.hole_bytes for field in self.fields)

    @property
    def overhead_bytes(self) -> int:
        """What belongs to no field."""
        return self.total_bytes - sum(field.total_bytes for field in self.fields)

    @property
    def bytes_per_record(self) -> float:
        """The cost of one record on the average."""
        return self.total_bytes / self.records if self.records else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The footprint as plain values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "shards": self.shards,
            "records": self.records,
            "holes": self.holes,
            "bytes": self.total_bytes,
            "hole_bytes": self.hole_bytes,
            "overhead_bytes": self.overhead_bytes,
            "fields": [
                {
                    "name": field.name,
                    "bits": field.bits,
                    "bytes": field.total_bytes,
                    "fixed_bytes": field.fixed_bytes,
                    "variable_bytes": field.variable_bytes,
                    "hole_bytes": field.hole_bytes,
                }
                for field in self.fields
            ],
        }


@dataclass(slots=True)
class _Sum:
    fixed_bits: int = 0
    variable_bytes: int = 0
    hole_bits: int = 0
    units: int = 0

    def field(self, name: str) -> FieldFootprint:
        bits = self.fixed_bits / self.units if self.units else 0.0
        return FieldFootprint(name, round(bits, 2), self.fixed_bits // 8, self.variable_bytes, self.hole_bits // 8)


def footprint(state: ReadState) -> tuple[TypeFootprint, ...]:
    """What each type of a state costs, the most expensive first."""
    found = [type_footprint(data, columns_of(state, name)) for name, data in state.types.items()]
    return tuple(sorted(found, key=lambda one: -one.total_bytes))


def type_footprint(data: TypeData, vectors: Mapping[str, StoredVectors] | None = None) -> TypeFootprint:
    """What one type costs, with its vector columns."""
    sums: dict[str, _Sum] = {}
    slots = 0
    for number, shard in enumerate(data.shards):
        here = shard.max_ordinal + 1
        slots += here
        holes = here - _populated_here(data, number)
        if isinstance(shard, ObjectShard):
            _add_object(sums, data, shard, holes)
        else:
            _add_collection(sums, data, shard, holes)
    columns = vectors or {}
    fields = (*(one.field(name) for name, one in sums.items()), *map(_vector_field, columns, columns.values()))
    kind = data.schema.kind.value
    total_bytes = data.nbytes + sum(column.nbytes for column in columns.values())
    return TypeFootprint(data.schema.name, kind, len(data.shards), len(data.populated), slots, fields, total_bytes)


def _vector_field(name: str, column: StoredVectors) -> FieldFootprint:
    row_bytes = 4 * column.dimensions
    rows = sum(len(block) for _, block in column.blocks())
    return FieldFootprint(name, 8.0 * row_bytes, rows * row_bytes, 0, (rows - len(column)) * row_bytes)


def _add_object(sums: dict[str, _Sum], data: TypeData, shard: ObjectShard, holes: int) -> None:
    assert isinstance(data.schema, ObjectSchema)
    slots = shard.max_ordinal + 1
    for field, width, variable in zip(data.schema.fields, shard.widths, shard.variable, strict=True):
        one = sums.setdefault(field.name, _Sum())
        one.units += slots
        one.fixed_bits += width * slots
        one.hole_bits += width * holes
        one.variable_bytes += 0 if variable is None else variable.nbytes


def _add_collection(sums: dict[str, _Sum], data: TypeData, shard: ListShard | SetShard | MapShard, holes: int) -> None:
    view = packed(shard, data.schema)
    slots = shard.max_ordinal + 1
    pointers = sums.setdefault("pointers", _Sum())
    pointers.units += slots
    pointers.fixed_bits += view.stride * slots
    pointers.hole_bits += view.stride * holes
    side = view.fields[0].side
    assert side is not None
    if isinstance(shard, ListShard):
        members, units, empty = "elements", shard.total_elements, 0
    else:
        members, units = "buckets", shard.total_buckets
        empty = units - int(view.column(view.fields[1]).sum())
    one = sums.setdefault(members, _Sum())
    one.units += units
    one.fixed_bits += side.unit_bits * units
    one.hole_bits += side.unit_bits * empty


def _populated_here(data: TypeData, number: int) -> int:
    if len(data.shards) == 1:
        return len(data.populated)
    ordinals = data.populated.ordinals()
    return int((ordinals & (len(data.shards) - 1) == number).sum())
