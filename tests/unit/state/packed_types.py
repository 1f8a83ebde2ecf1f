"""A second packer, slow and obvious: types of a read state from Python values, bit by bit with big integers."""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deltaic.schema.types import FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.type_data import TypeData
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard, Shard

EMPTY_BUCKET = None


def bit_stream(values: Sequence[tuple[int, int]]) -> np.ndarray:
    """(value, width) pairs one behind the other, with 16 bytes of slack."""
    whole = place = 0
    for value, width in values:
        assert 0 <= value < 1 << width or width == value == 0
        whole |= value << place
        place += width
    return np.frombuffer(whole.to_bytes((place + 7) // 8 + 16, "little"), np.uint8)


def char_data(text: str) -> bytes:
    """UTF-16 units as varints, most significant group first."""
    raw = text.encode("utf-16-be", "surrogatepass")
    out = bytearray()
    for high, low in zip(raw[::2], raw[1::2], strict=True):
        unit = high << 8 | low
        if unit >= 0x4000:
            out.append(unit >> 14 | 0x80)
        if unit >= 0x80:
            out.append(unit >> 7 & 0x7F | 0x80)
        out.append(unit & 0x7F)
    return bytes(out)


def zigzag(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def _bits(kind: FieldType, value: Any) -> int | None:
    """The bits of a value that is not null; None for null."""
    if value is None:
        return {FieldType.FLOAT: 0x7FC00001, FieldType.DOUBLE: 0x7FF8000000000001}.get(kind)
    match kind:
        case FieldType.INT | FieldType.LONG:
            return zigzag(value)
        case FieldType.BOOLEAN:
            return int(value)
        case FieldType.FLOAT:
            return 0x7FC00000 if value != value else struct.unpack("<I", struct.pack("<f", value))[0]
        case FieldType.DOUBLE:
            return 0x7FF8000000000000 if value != value else struct.unpack("<Q", struct.pack("<d", value))[0]
        case _:
            return value


def _object_shard(schema: ObjectSchema, records: Sequence[Sequence[Any] | None], extra: int) -> ObjectShard:
    widths: list[int] = []
    variable: list[np.ndarray | None] = []
    columns: list[list[int]] = []
    for position, field in enumerate(schema.fields):
        values = [None if record is None else record[position] for record in records]
        if field.type.is_variable:
            data, ends = bytearray(), []
            for value, record in zip(values, records, strict=True):
                if value is not None:
                    data += char_data(value) if field.type is FieldType.STRING else value
                ends.append((len(data), value is None and record is not None))
            width = 1 + max(len(data), 1).bit_length() + extra
            columns.append([end | (null << (width - 1)) for end, null in ends])
            variable.append(np.frombuffer(bytes(data), np.uint8))
        else:
            raw = [_bits(field.type, value) for value in values]
            fixed = {FieldType.BOOLEAN: 2, FieldType.FLOAT: 32, FieldType.DOUBLE: 64}.get(field.type)
            widest = max([bits + 1 for bits in raw if bits is not None], default=1).bit_length()
            width = fixed or min(widest + extra, 64)
            ones = (1 << width) - 1
            holes = [record is None for record in records]
            columns.append(
                [0 if hole else ones if bits is None else bits for bits, hole in zip(raw, holes, strict=True)]
            )
            variable.append(None)
        widths.append(width)
    offsets = [sum(widths[:position]) for position in range(len(widths))]
    rows = [(column[row], width) for row in range(len(records)) for column, width in zip(columns, widths, strict=True)]
    return ObjectShard(len(records) - 1, bit_stream(rows), tuple(widths), tuple(offsets), sum(widths), tuple(variable))


def _list_shard(records: Sequence[Sequence[int] | None], extra: int) -> ListShard:
    elements = [element for record in records for element in record or ()]
    ends = np.cumsum([len(record or ()) for record in records]).tolist()
    pointer = max(len(elements).bit_length(), 1) + extra
    width = max(max(elements, default=0).bit_length(), 1) + extra
    return ListShard(
        len(records) - 1,
        bit_stream([(end, pointer) for end in ends]),
        pointer,
        bit_stream([(element, width) for element in elements]),
        width,
        len(elements),
    )


def _hash_shard(records: Sequence[Sequence[Any] | None], extra: int, *, map_: bool) -> SetShard | MapShard:
    """Records are their buckets: None, an element, or (key, value)."""
    buckets = [bucket for record in records for bucket in record or ()]
    ends = np.cumsum([len(record or ()) for record in records]).tolist()
    sizes = [sum(bucket is not EMPTY_BUCKET for bucket in record or ()) for record in records]
    pointer, size = len(buckets).bit_length() + extra, max(sizes, default=0).bit_length() + extra
    filled = [bucket for bucket in buckets if bucket is not EMPTY_BUCKET]
    keys = [bucket[0] if map_ else bucket for bucket in filled]
    key = (max(keys, default=0) + 1).bit_length() + extra
    pointers = bit_stream([part for end, n in zip(ends, sizes, strict=True) for part in ((end, pointer), (n, size))])
    ones = (1 << key) - 1
    if not map_:
        body = bit_stream([(ones if bucket is EMPTY_BUCKET else bucket, key) for bucket in buckets])
        return SetShard(len(records) - 1, pointers, pointer, size, body, key, len(buckets))
    value = max([bucket[1] for bucket in filled], default=0).bit_length() + extra
    pairs = [(ones, 0) if bucket is EMPTY_BUCKET else bucket for bucket in buckets]
    body = bit_stream([part for one, other in pairs for part in ((one, key), (other, value))])
    return MapShard(len(records) - 1, pointers, pointer, size, body, key, value, len(buckets))


def pack_type(
    schema: Schema,
    records: Sequence[Any],
    *,
    shards: int = 1,
    ghosts: Sequence[int] = (),
    extra: Sequence[int] = (0,),
) -> TypeData:
    """A type whose record o is `records[o]`; None is a hole. `extra` widens fields, shard by shard."""
    packed: list[Shard] = []
    for number in range(shards):
        part, more = records[number::shards], extra[number % len(extra)]
        match schema:
            case ObjectSchema():
                packed.append(_object_shard(schema, part, more))
            case ListSchema():
                packed.append(_list_shard(part, more))
            case SetSchema():
                packed.append(_hash_shard(part, more, map_=False))
            case MapSchema():
                packed.append(_hash_shard(part, more, map_=True))
    populated = [o for o, record in enumerate(records) if record is not None and o not in ghosts]
    return TypeData(
        schema,
        tuple(packed),
        len(records) - 1,
        OrdinalSet.from_ordinals(np.array(populated, np.int64)),
        EMPTY,
        OrdinalSet.from_ordinals(np.array(ghosts, np.int64)) if ghosts else EMPTY,
    )


def state_of(*types: TypeData, tags: Mapping[str, str] | None = None) -> ReadState:
    """A state of these types."""
    return ReadState({data.schema.name: data for data in types}, tag=1, origin_tag=0, header_tags=tags or {})
