"""Type sections of blobs, decoded into packed shards (hollow-blob.md, "type sections" to "populated ordinals").

A section is the schema again, the shard envelope, one body per shard and, in snapshots, the populated ordinals. Bodies
come out as the values of `wire.shards`; their bytes are copied once, from big-endian words to a native bit stream.
What is inside them (offsets, ordinals, buckets) is checked by `state.check`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.binary import buffers
from deltaic.binary.cursor import Cursor
from deltaic.errors import LimitError
from deltaic.kernels import bits
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.schema.binary import read_schema
from deltaic.schema.types import FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard, Shard

_MAX_WIDTHS = {
    FieldType.INT: 32,
    FieldType.LONG: 64,
    FieldType.BOOLEAN: 2,
    FieldType.FLOAT: 32,
    FieldType.DOUBLE: 64,
    FieldType.STRING: 57,
    FieldType.BYTES: 57,
    FieldType.REFERENCE: 32,
}
_EXACT_WIDTHS = {FieldType.BOOLEAN: 2, FieldType.FLOAT: 32, FieldType.DOUBLE: 64}
_MAX_POINTER_BITS = 57
_MAX_ORDINAL_BITS = 32

Ordinals = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ShardSection:
    """One shard of a section. In a delta `body` holds one record per added ordinal; ordinals are the shard's own."""

    max_ordinal: int
    removed: Ordinals
    added: Ordinals
    body: Shard


@dataclass(frozen=True, slots=True, eq=False)
class TypeSection:
    """One type of a blob."""

    schema: Schema
    max_ordinal: int
    shards: tuple[ShardSection, ...]
    populated: NDArray[np.uint64] | None
    """The bits of the populated ordinals; None in deltas."""
    size_bytes: int
    """Bytes of the section in the blob."""


_NONE: Ordinals = np.zeros(0, np.int64)


def read_section(cursor: Cursor, *, delta: bool, limits: Limits = DEFAULT_LIMITS) -> TypeSection:
    """Read one type section of a snapshot or of a delta."""
    start = cursor.position
    schema = read_schema(cursor)
    return _read_after_schema(cursor, schema, start, delta=delta, limits=limits)


def skip_section(cursor: Cursor, schema: Schema, *, delta: bool, limits: Limits = DEFAULT_LIMITS) -> None:
    """Pass over a section whose schema was read, without decoding its bodies."""
    shard_count, _ = _shard_envelope(cursor, limits)
    for _ in range(shard_count):
        cursor.max_ordinal()
        if delta:
            cursor.skip(cursor.varlong())
            cursor.skip(cursor.varlong())
        _skip_body(cursor, schema)
    if not delta:
        cursor.skip(8 * cursor.int32())


def read_section_if(
    cursor: Cursor, wanted: "frozenset[str] | None", *, delta: bool, limits: Limits = DEFAULT_LIMITS
) -> TypeSection | Schema:
    """Read the next section, or pass over it if its type is not among the wanted: then only its schema comes back."""
    start = cursor.position
    schema = read_schema(cursor)
    if wanted is not None and schema.name not in wanted:
        skip_section(cursor, schema, delta=delta, limits=limits)
        return schema
    return _read_after_schema(cursor, schema, start, delta=delta, limits=limits)


def _read_after_schema(cursor: Cursor, schema: Schema, start: int, *, delta: bool, limits: Limits) -> TypeSection:
    shard_count, overall = _shard_envelope(cursor, limits)
    shards = tuple(_read_shard(cursor, schema, delta=delta) for _ in range(shard_count))
    max_ordinal = shards[0].max_ordinal if overall is None else overall
    _check_shard_sizes(cursor, schema.name, shards, max_ordinal)
    populated = None
    if not delta:
        count = cursor.int32()
        cursor.need(8 * count)
        populated = np.zeros(count, np.uint64)
        bits.swap_words(cursor.array(8 * count), populated.view(np.uint8))
    return TypeSection(schema, max_ordinal, shards, populated, cursor.position - start)


def _shard_envelope(cursor: Cursor, limits: Limits) -> tuple[int, int | None]:
    if cursor.varint() == 0:
        return 1, None
    cursor.skip(cursor.varint())
    shard_count = cursor.varint()
    if shard_count == 0 or shard_count & (shard_count - 1):
        cursor.fail("BadShards", f"{shard_count} shards: the number must be a power of two")
    if shard_count > limits.max_shards:
        raise LimitError("Limit", f"{shard_count:,} shards, limit is {limits.max_shards:,}", cursor.where())
    return shard_count, cursor.max_ordinal() if shard_count > 1 else None


def _check_shard_sizes(cursor: Cursor, name: str, shards: tuple[ShardSection, ...], max_ordinal: int) -> None:
    whole, extra = divmod(max_ordinal + 1, len(shards))
    for number, shard in enumerate(shards):
        expected = whole if number < extra else whole - 1
        if shard.max_ordinal != expected:
            cursor.fail(
                "BadShards",
                f"type {name}: shard {number} ends at ordinal {shard.max_ordinal}, at {expected} by the whole type's",
            )


def _read_shard(cursor: Cursor, schema: Schema, *, delta: bool) -> ShardSection:
    max_ordinal = cursor.max_ordinal()
    removed = added = _NONE
    slots = max_ordinal + 1
    if delta:
        removed = _read_ordinals(cursor, schema.name, max_ordinal)
        added = _read_ordinals(cursor, schema.name, max_ordinal)
        slots = len(added)
    return ShardSection(max_ordinal, removed, added, _read_body(cursor, schema, slots))


def _read_ordinals(cursor: Cursor, name: str, max_ordinal: int) -> Ordinals:
    length = cursor.varlong()
    at = cursor.where()
    differences = bits.varints(cursor.array(length))
    if differences is None:
        cursor.fail("InvalidVarint", f"type {name}: a list of ordinals starting at {at} is malformed")
    if not len(differences):
        return _NONE
    # Differences are below 2^32 and there are fewer than 2^31 of them: the sum cannot overflow.
    ordinals = np.cumsum(differences)
    if len(ordinals) > 1 and int(differences[1:].min()) == 0:
        cursor.fail("OrdinalOrder", f"type {name}: a list of ordinals names one twice")
    if int(ordinals[-1]) > max_ordinal:
        cursor.fail("BadOrdinal", f"type {name}: ordinal {int(ordinals[-1]):,} is past the last one, {max_ordinal:,}")
    return ordinals


def _read_body(cursor: Cursor, schema: Schema, slots: int) -> Shard:
    match schema:
        case ObjectSchema():
            return _read_object(cursor, schema, slots)
        case ListSchema():
            return _read_list(cursor, schema, slots)
        case SetSchema():
            return _read_set(cursor, schema, slots)
        case MapSchema():
            return _read_map(cursor, schema, slots)


def _read_object(cursor: Cursor, schema: ObjectSchema, slots: int) -> ObjectShard:
    widths = tuple(cursor.varint() for _ in schema.fields)
    offsets: list[int] = []
    total = 0
    for field, width in zip(schema.fields, widths, strict=True):
        exact = _EXACT_WIDTHS.get(field.type)
        if width > _MAX_WIDTHS[field.type] or (exact is not None and width not in (0, exact)):
            cursor.fail("BadWidth", f"field {schema.name}.{field.name} of type {field.type} has {width} bits")
        if field.type.is_variable and width == 0 and slots:
            cursor.fail("BadWidth", f"field {schema.name}.{field.name} of type {field.type} has no bits")
        offsets.append(total)
        total += width
    records = _read_words(cursor, cursor.varlong(), slots * total, schema.name)
    variable: list[NDArray[np.uint8] | None] = []
    for field in schema.fields:
        length = cursor.varlong()
        if not field.type.is_variable:
            cursor.skip(length)
            variable.append(None)
            continue
        source = cursor.array(length)
        data = buffers.empty(length)
        data[:length] = source
        variable.append(data[:length])
    return ObjectShard(slots - 1, records, widths, tuple(offsets), total, tuple(variable))


def _read_list(cursor: Cursor, schema: ListSchema, slots: int) -> ListShard:
    bits_per_pointer = _width(cursor, schema.name, "pointer", _MAX_POINTER_BITS)
    bits_per_element = _width(cursor, schema.name, "element", _MAX_ORDINAL_BITS)
    cursor.varlong()  # elements of this and the previous version: how Java sizes its arrays
    pointers = _read_words(cursor, cursor.varint(), slots * bits_per_pointer, schema.name)
    total = _last(pointers, bits_per_pointer, bits_per_pointer, slots)
    elements = _read_words(cursor, cursor.varint(), total * bits_per_element, schema.name)
    _check_side(cursor, schema.name, total, bits_per_element)
    return ListShard(slots - 1, pointers, bits_per_pointer, elements, bits_per_element, total)


def _read_set(cursor: Cursor, schema: SetSchema, slots: int) -> SetShard:
    bits_per_pointer = _width(cursor, schema.name, "pointer", _MAX_POINTER_BITS)
    bits_per_size = _width(cursor, schema.name, "size", _MAX_ORDINAL_BITS)
    bits_per_element = _width(cursor, schema.name, "element", _MAX_ORDINAL_BITS)
    cursor.varlong()
    stride = bits_per_pointer + bits_per_size
    pointers = _read_words(cursor, cursor.varint(), slots * stride, schema.name)
    total = _last(pointers, stride, bits_per_pointer, slots)
    buckets = _read_words(cursor, cursor.varint(), total * bits_per_element, schema.name)
    _check_side(cursor, schema.name, total, bits_per_element)
    return SetShard(slots - 1, pointers, bits_per_pointer, bits_per_size, buckets, bits_per_element, total)


def _read_map(cursor: Cursor, schema: MapSchema, slots: int) -> MapShard:
    bits_per_pointer = _width(cursor, schema.name, "pointer", _MAX_POINTER_BITS)
    bits_per_size = _width(cursor, schema.name, "size", _MAX_ORDINAL_BITS)
    bits_per_key = _width(cursor, schema.name, "key", _MAX_ORDINAL_BITS)
    bits_per_value = _width(cursor, schema.name, "value", _MAX_ORDINAL_BITS)
    cursor.varlong()
    stride = bits_per_pointer + bits_per_size
    pointers = _read_words(cursor, cursor.varint(), slots * stride, schema.name)
    total = _last(pointers, stride, bits_per_pointer, slots)
    buckets = _read_words(cursor, cursor.varint(), total * (bits_per_key + bits_per_value), schema.name)
    _check_side(cursor, schema.name, total, bits_per_key)
    return MapShard(slots - 1, pointers, bits_per_pointer, bits_per_size, buckets, bits_per_key, bits_per_value, total)


def _width(cursor: Cursor, name: str, what: str, limit: int) -> int:
    width = cursor.varint()
    if width > limit:
        cursor.fail("BadWidth", f"type {name} has {width} bits per {what}, at most {limit} can be")
    return width


def _check_side(cursor: Cursor, name: str, total: int, width: int) -> None:
    # Elements without bits would take no bytes, so their number would be bounded by nothing.
    if total and not width:
        cursor.fail("BadWidth", f"type {name} has {total:,} elements of no bits")


def _last(pointers: NDArray[np.uint8], stride: int, width: int, slots: int) -> int:
    if slots == 0:
        return 0
    return int(bits.decode(pointers, (slots - 1) * stride, stride, width, 1)[0])


def _read_words(cursor: Cursor, count: int, used_bits: int, name: str) -> NDArray[np.uint8]:
    """Take `count` words and copy those that hold the first `used_bits` bits."""
    cursor.need(8 * count)
    used_words = (used_bits + 63) >> 6
    if used_words > count:
        cursor.fail("Truncated", f"type {name}: records take {used_bits:,} bits, {64 * count:,} are there")
    source = cursor.array(8 * count)
    target = buffers.empty(8 * used_words)
    bits.swap_words(source[: 8 * used_words], target)
    return target


def _skip_body(cursor: Cursor, schema: Schema) -> None:
    match schema:
        case ObjectSchema():
            for _ in schema.fields:
                cursor.varint()
            cursor.skip(8 * cursor.varlong())
            for _ in schema.fields:
                cursor.skip(cursor.varlong())
        case ListSchema():
            _skip_collection(cursor, 2)
        case SetSchema():
            _skip_collection(cursor, 3)
        case MapSchema():
            _skip_collection(cursor, 4)


def _skip_collection(cursor: Cursor, widths: int) -> None:
    for _ in range(widths):
        cursor.varint()
    cursor.varlong()
    cursor.skip(8 * cursor.varint())
    cursor.skip(8 * cursor.varint())
