"""A state as plain values: every record of every type, nothing interpreted.

This is the *State JSON* that recorded cases are compared with: FLOAT and DOUBLE are raw bits in hex, BYTES are hex,
references are ordinals, sets and maps are their hash tables bucket by bucket. It reads the packed bits itself and
shares nothing with record views, so that one can check the other.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import bits, text
from deltaic.schema.printing import print_schema
from deltaic.schema.types import Field, FieldType, ObjectSchema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.packed import DOUBLE_NULLS, FLOAT_NULLS
from deltaic.state.read import ReadState
from deltaic.state.type_data import TypeData
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard, Shard

Value = Any
"""A value that JSON can hold."""


def dump_state(state: ReadState, version: int | None = None) -> dict[str, Value]:
    """The State JSON of a state."""
    return {
        "version": version,
        "randomizedTag": f"{state.tag:016x}",
        "headerTags": dict(state.header_tags),
        "checksum": state.checksum(),
        "types": {name: dump_type(state.types[name]) for name in sorted(state.types)},
    }


def dump_type(data: TypeData) -> dict[str, Value]:
    """One type of the State JSON."""
    dumped: dict[str, Value] = {
        "kind": data.schema.kind.value,
        "schema": print_schema(data.schema),
        "numShards": len(data.shards),
        "maxOrdinal": data.max_ordinal,
        "populated": data.populated.ordinals().tolist(),
    }
    if isinstance(data.schema, ObjectSchema):
        dumped["fields"] = [
            [field.name, field.type.value, *([field.referenced] if field.referenced is not None else [])]
            for field in data.schema.fields
        ]
    dumped["records"] = list(dump_records(data, data.populated).values())
    return dumped


def dump_records(data: TypeData, ordinals: OrdinalSet) -> Mapping[int, Value]:
    """These records of a type, by ordinal; ghosts can be asked for too."""
    wanted = ordinals.ordinals()
    found: dict[int, Value] = {}
    for number, shard in enumerate(data.shards):
        here = wanted[wanted & (len(data.shards) - 1) == number]
        rows = here >> data.shard_shift
        found.update(zip(here.tolist(), _dump_shard(data, shard, rows), strict=True))
    return {ordinal: found[ordinal] for ordinal in wanted.tolist()}


def _dump_shard(data: TypeData, shard: Shard, rows: NDArray[np.int64]) -> list[Value]:
    match shard:
        case ObjectShard():
            assert isinstance(data.schema, ObjectSchema)
            columns = [_dump_column(shard, position, field, rows) for position, field in enumerate(data.schema.fields)]
            return [list(values) for values in zip(*columns, strict=True)] if columns else [[] for _ in rows]
        case ListShard():
            width = shard.bits_per_element
            runs = _runs(shard.pointers, shard.bits_per_pointer, shard.bits_per_pointer, rows)
            return [
                bits.decode(shard.elements, start * width, width, width, end - start).tolist() for start, end in runs
            ]
        case SetShard():
            return [_dump_set(shard, *run) for run in _sized_runs(shard, rows)]
        case MapShard():
            return [_dump_map(shard, *run) for run in _sized_runs(shard, rows)]


def _runs(pointers: NDArray[np.uint8], stride: int, width: int, rows: NDArray[np.int64]) -> list[tuple[int, int]]:
    ends = bits.gather(pointers, stride, 0, width, rows).astype(np.int64)
    starts = bits.gather(pointers, stride, 0, width, np.maximum(rows - 1, 0)).astype(np.int64)
    starts[rows == 0] = 0
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _sized_runs(shard: SetShard | MapShard, rows: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    stride = shard.bits_per_pointer + shard.bits_per_size
    sizes = bits.gather(shard.pointers, stride, shard.bits_per_pointer, shard.bits_per_size, rows).tolist()
    runs = _runs(shard.pointers, stride, shard.bits_per_pointer, rows)
    return [(size, start, end) for size, (start, end) in zip(sizes, runs, strict=True)]


def _dump_set(shard: SetShard, size: int, start: int, end: int) -> Value:
    width = shard.bits_per_element
    empty = (1 << width) - 1
    buckets = bits.decode(shard.buckets, start * width, width, width, end - start).tolist()
    return {"size": size, "buckets": [-1 if bucket == empty else bucket for bucket in buckets]}


def _dump_map(shard: MapShard, size: int, start: int, end: int) -> Value:
    stride = shard.bits_per_key + shard.bits_per_value
    empty = (1 << shard.bits_per_key) - 1
    keys = bits.decode(shard.buckets, start * stride, stride, shard.bits_per_key, end - start).tolist()
    first = start * stride + shard.bits_per_key
    values = bits.decode(shard.buckets, first, stride, shard.bits_per_value, end - start).tolist()
    buckets = [None if key == empty else [key, value] for key, value in zip(keys, values, strict=True)]
    return {"size": size, "buckets": buckets}


def _dump_column(shard: ObjectShard, position: int, field: Field, rows: NDArray[np.int64]) -> list[Value]:
    width, offset = shard.widths[position], shard.offsets[position]
    raw = bits.gather(shard.records, shard.bits_per_record, offset, width, rows)
    data = shard.variable[position]
    if data is not None:
        return _dump_variable(shard, position, field, rows, raw, data)
    if width == 0:
        return [None] * len(rows)
    ones = (1 << width) - 1
    match field.type:
        case FieldType.FLOAT:
            return [None if value in FLOAT_NULLS else f"{value:08x}" for value in raw.tolist()]
        case FieldType.DOUBLE:
            return [None if value in DOUBLE_NULLS else f"{value:016x}" for value in raw.tolist()]
        case FieldType.BOOLEAN:
            return [None if value == ones else value == 1 for value in raw.tolist()]
        case FieldType.REFERENCE:
            return [None if value == ones else value for value in raw.tolist()]
        case _:
            return [None if value == ones else value >> 1 ^ -(value & 1) for value in raw.tolist()]


def _dump_variable(
    shard: ObjectShard,
    position: int,
    field: Field,
    rows: NDArray[np.int64],
    raw: NDArray[np.uint64],
    data: NDArray[np.uint8],
) -> list[Value]:
    width, offset = shard.widths[position], shard.offsets[position]
    ends = (raw & np.uint64((1 << (width - 1)) - 1)).astype(np.int64)
    starts = bits.gather(shard.records, shard.bits_per_record, offset, width - 1, np.maximum(rows - 1, 0)).astype(
        np.int64
    )
    starts[rows == 0] = 0
    nulls = (raw >> np.uint64(width - 1) != 0).tolist()
    if field.type is FieldType.STRING:
        texts = text.texts_to_list(data, starts, ends)
        return [None if null else value for null, value in zip(nulls, texts, strict=True)]
    runs = zip(nulls, starts.tolist(), ends.tolist(), strict=True)
    return [None if null else data[start:end].tobytes().hex() for null, start, end in runs]
