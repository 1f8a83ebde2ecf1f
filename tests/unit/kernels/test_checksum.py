"""The checksum of recorded states, with records packed here anew: both twins, several widths."""

import gzip
import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from deltaic.kernels.plain.text import encode_text
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state import checksum as state_checksum_module
from deltaic.state.bitset import OrdinalSet
from deltaic.state.checksum import state_checksum
from deltaic.state.type_data import TypeData
from deltaic.wire.shards import SLACK, ListShard, MapShard, ObjectShard, SetShard, Shard

# scalar-edges is left out: its explicit nulls have a stored byte that the recorded JSON does not show.
CASES = ("scalars", "collections", "hash-keys", "nested", "shards", "empty-types", "resharding", "ordinal-reuse")
NULL_BITS = {"FLOAT": 0x7FC00001, "DOUBLE": 0x7FF8000000000001, "BOOLEAN": 3}
FIXED_WIDTHS = {"FLOAT": 32, "DOUBLE": 64, "BOOLEAN": 2}


@pytest.fixture(params=["_checksum", "plain.checksum"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = importlib.import_module(f"deltaic.kernels.{request.param}")
    monkeypatch.setattr(state_checksum_module, "kernel", module)
    return module


def pack(columns: list[tuple[list[int], int]]) -> np.ndarray:
    """Columns of (values, width), side by side in each record, as one little-endian bit stream with its slack."""
    parts = [np.zeros((len(columns[0][0]), 0), np.uint64)]
    for values, width in columns:
        words = np.array(values, np.uint64).reshape(-1, 1)
        parts.append(words >> np.arange(width, dtype=np.uint64) & np.uint64(1))
    bits = np.concatenate(parts, axis=1).astype(np.uint8).reshape(-1)
    return np.concatenate([np.packbits(bits, bitorder="little"), np.zeros(SLACK, np.uint8)])


def width_for(values: list[int], spare: int) -> int:
    return min(64, max([value.bit_length() for value in values], default=0) + spare)


def pack_object(fields: list[list[str]], slots: list[list[Any] | None], spare: int) -> ObjectShard:
    columns, variable = [], []
    for position, field in enumerate(fields):
        values = [None if slot is None else slot[position] for slot in slots]
        kind = field[1]
        if kind in ("STRING", "BYTES"):
            raw = [b"" if v is None else encode_text(v) if kind == "STRING" else bytes.fromhex(v) for v in values]
            ends = np.cumsum([len(value) for value in raw], dtype=np.int64).tolist()
            width = width_for(ends, spare) + 1
            # A hole has the running end without the null bit, a null has it set.
            nulls = [slot is not None and value is None for slot, value in zip(slots, values, strict=True)]
            columns.append(([end | null << (width - 1) for end, null in zip(ends, nulls, strict=True)], width))
            variable.append(np.frombuffer(b"".join(raw), np.uint8))
            continue
        variable.append(None)
        if kind in ("INT", "LONG"):
            stored = [None if v is None else v << 1 if v >= 0 else ~(v << 1) for v in values]
        elif kind in ("FLOAT", "DOUBLE"):
            stored = [None if v is None else int(v, 16) for v in values]
        else:
            stored = [None if v is None else int(v) for v in values]
        if kind in FIXED_WIDTHS:
            width = FIXED_WIDTHS[kind]
            null = NULL_BITS[kind]
        else:
            width = width_for([v + 1 for v in stored if v is not None], spare)
            null = (1 << width) - 1
        columns.append(([null if v is None else v for v in stored], width))
    widths = tuple(width for _, width in columns)
    offsets = tuple(np.concatenate([[0], np.cumsum(widths)])[: len(widths)].astype(int).tolist())
    records = pack(columns) if columns else np.zeros(SLACK, np.uint8)
    return ObjectShard(len(slots) - 1, records, widths, offsets, sum(widths), tuple(variable))


def pack_list(slots: list[list[int] | None], spare: int) -> ListShard:
    elements = [element for slot in slots for element in slot or []]
    ends = np.cumsum([len(slot or []) for slot in slots], dtype=np.int64).tolist()
    pointer_bits, element_bits = width_for(ends, spare), width_for([*elements, 1], spare)
    return ListShard(
        len(slots) - 1,
        pack([(ends, pointer_bits)]),
        pointer_bits,
        pack([(elements, element_bits)]),
        element_bits,
        len(elements),
    )


def pack_buckets(slots: list[dict[str, Any] | None], spare: int, is_map: bool) -> SetShard | MapShard:
    buckets = [bucket for slot in slots if slot for bucket in slot["buckets"]]
    if is_map:
        keys = [-1 if bucket is None else bucket[0] for bucket in buckets]
        values = [0 if bucket is None else bucket[1] for bucket in buckets]
    else:
        keys, values = buckets, []
    ends = np.cumsum([len(slot["buckets"]) if slot else 0 for slot in slots], dtype=np.int64).tolist()
    sizes = [slot["size"] if slot else 0 for slot in slots]
    pointer_bits, size_bits = width_for(ends, spare), width_for(sizes, spare)
    key_bits = width_for([key + 1 for key in keys], spare)
    stored = ([(1 << key_bits) - 1 if key < 0 else key for key in keys], key_bits)
    pointers = pack([(ends, pointer_bits), (sizes, size_bits)])
    if not is_map:
        return SetShard(len(slots) - 1, pointers, pointer_bits, size_bits, pack([stored]), key_bits, len(buckets))
    value_bits = width_for(values, spare)
    packed = pack([stored, (values, value_bits)])
    return MapShard(len(slots) - 1, pointers, pointer_bits, size_bits, packed, key_bits, value_bits, len(buckets))


def pack_type(name: str, content: dict[str, Any], spare: int) -> TypeData:
    count = content["numShards"]
    slots: list[Any] = [None] * (content["maxOrdinal"] + 1)
    for ordinal, record in zip(content["populated"], content["records"], strict=True):
        slots[ordinal] = record
    shards: list[Shard] = []
    schema: Schema
    for number in range(count):
        mine = slots[number::count]
        match content["kind"]:
            case "OBJECT":
                shards.append(pack_object(content["fields"], mine, spare))
            case "LIST":
                shards.append(pack_list(mine, spare))
            case kind:
                shards.append(pack_buckets(mine, spare, kind == "MAP"))
    match content["kind"]:
        case "OBJECT":
            fields = [
                Field(field_name, FieldType(kind), referenced[0] if referenced else None)
                for field_name, kind, *referenced in content["fields"]
            ]
            schema = ObjectSchema(name, tuple(fields))
        case "LIST":
            schema = ListSchema(name, "?")
        case "SET":
            schema = SetSchema(name, "?")
        case _:
            schema = MapSchema(name, "?", "?")
    populated = OrdinalSet.from_ordinals(np.array(content["populated"], np.int64))
    return TypeData(schema, tuple(shards), content["maxOrdinal"], populated)


def states_of(folder: Path) -> list[dict[str, Any]]:
    states = []
    for path in sorted(folder.glob("state-*.json*")):
        raw = path.read_bytes()
        states.append(json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw))
    assert states, f"no recorded states in {folder}"
    return states


@pytest.mark.parametrize("spare", [0, 1, 7])
@pytest.mark.parametrize("case", CASES)
def test_a_state_packed_anew_has_the_checksum_that_java_gave(kernel, hollow_fixtures, case, spare):
    for state in states_of(hollow_fixtures / case):
        types = {name: pack_type(name, content, spare) for name, content in state["types"].items()}
        assert state_checksum(types) == state["checksum"], state["version"]


def test_the_order_in_which_types_come_does_not_matter(kernel, hollow_fixtures):
    state = states_of(hollow_fixtures / "nested")[0]
    types = {name: pack_type(name, state["types"][name], 0) for name in reversed(state["types"])}
    assert state_checksum(types) == state["checksum"]


def object_arguments(widths: list[int], kinds: list[int], values: list[list[int]], data: list[Any]) -> list[Any]:
    columns = [([record[field] for record in values], width) for field, width in enumerate(widths)]
    offsets = np.concatenate([[0], np.cumsum(widths)])[: len(widths)].astype(np.int64)
    populated = np.array([(1 << len(values)) - 1], np.uint64)
    return [
        pack(columns) if columns else np.zeros(0, np.uint8),
        sum(widths),
        offsets,
        np.array(widths, np.int64),
        np.array(kinds, np.uint8),
        data,
        populated,
        len(values) - 1,
    ]


def test_a_field_of_no_bits_is_null(kernel):
    narrow = kernel.object_shard(0, 0, 1, *object_arguments([0], [0], [[0]], [None]))
    wide = kernel.object_shard(0, 0, 1, *object_arguments([9], [0], [[511]], [None]))
    zero = kernel.object_shard(0, 0, 1, *object_arguments([9], [0], [[0]], [None]))
    assert narrow == wide != zero


def test_a_text_field_of_no_bits_is_null(kernel):
    data = np.frombuffer(b"abc", np.uint8)
    none = kernel.object_shard(0, 0, 1, *object_arguments([0], [1], [[0]], [data]))
    null = kernel.object_shard(0, 0, 1, *object_arguments([3], [1], [[0b100]], [data]))
    empty = kernel.object_shard(0, 0, 1, *object_arguments([3], [1], [[0]], [data]))
    assert none == null != empty


@pytest.mark.parametrize("shift", range(1, 9))
@pytest.mark.parametrize("width", [56, 57, 58, 63, 64])
def test_wide_fields_are_read_whole_at_every_bit(kernel, width, shift):
    """The top bit of a wide field may lie in a ninth byte."""
    value = 1 << (width - 1) | 5
    records = [[0, value]] * 9
    fields = object_arguments([shift, width], [0, 0], records, [None, None])
    fields[2], fields[3], fields[4], fields[5] = fields[2][1:], fields[3][1:], fields[4][1:], fields[5][1:]
    aligned = object_arguments([64], [0], [[value]] * 9, [None])
    assert kernel.object_shard(3, 0, 1, *fields) == kernel.object_shard(3, 0, 1, *aligned)


def test_an_empty_shard_changes_nothing(kernel):
    none = np.zeros(0, np.uint8)
    words = np.zeros(0, np.uint64)
    numbers = np.zeros(0, np.int64)
    for checksum in (0, -1, 2**31 - 1, -(2**31)):
        assert kernel.object_shard(checksum, 0, 1, none, 0, numbers, numbers, none, [], words, -1) == checksum
        assert kernel.list_shard(checksum, 0, 1, none, 1, none, 1, 0, words, -1) == checksum
        assert kernel.set_shard(checksum, 0, 1, none, 0, 0, none, 1, 0, words, -1) == checksum
        assert kernel.map_shard(checksum, 0, 1, none, 0, 0, none, 1, 1, 0, words, -1) == checksum


def test_records_without_bits_still_count_by_their_ordinal(kernel):
    none = np.zeros(0, np.uint8)
    numbers = np.zeros(0, np.int64)
    words = np.array([0b101], np.uint64)
    some = kernel.object_shard(0, 0, 1, none, 0, numbers, numbers, none, [], words, 2)
    fewer = kernel.object_shard(0, 0, 1, none, 0, numbers, numbers, none, [], words, 1)
    assert some != fewer != 0
    assert kernel.set_shard(0, 0, 1, none, 0, 0, none, 1, 0, words, 2) == some


def test_a_type_of_no_bits_cannot_make_the_checksum_slow(kernel):
    """Records without bits cost a file nothing: two thousand million of them must cost the reader nothing."""
    none = np.zeros(0, np.uint8)
    numbers = np.zeros(0, np.int64)
    words = np.array([0b11], np.uint64)
    for last in (1, 2**31 - 1):
        assert kernel.set_shard(5, 0, 1, none, 0, 0, none, 1, 0, words, last) == kernel.object_shard(
            5, 0, 1, none, 0, numbers, numbers, none, [], words, 1
        )
        assert kernel.list_shard(5, 3, 4, none, 0, none, 1, 0, np.zeros(0, np.uint64), last) == 5


def test_populated_bits_past_the_last_record_and_records_past_the_last_word_are_nothing(kernel):
    arguments = object_arguments([8], [0], [[7], [8], [9]], [None])
    expected = kernel.object_shard(0, 0, 1, *arguments)
    arguments[6] = np.full(3, 2**64 - 1, np.uint64)
    assert kernel.object_shard(0, 0, 1, *arguments) == expected
    arguments[6] = np.zeros(0, np.uint64)
    assert kernel.object_shard(11, 0, 1, *arguments) == 11


def test_a_shard_holds_every_nth_ordinal(kernel):
    """Ordinals 1 and 5 of shard 1 of 4, and nothing of the others."""
    arguments = object_arguments([8], [0], [[7], [8]], [None])
    arguments[6] = np.array([0b10_0010], np.uint64)
    both = kernel.object_shard(0, 1, 4, *arguments)
    assert both != 0
    assert kernel.object_shard(0, 0, 4, *arguments) == 0
    arguments[6] = np.array([0b01_0010], np.uint64)
    assert kernel.object_shard(0, 1, 4, *arguments) not in (0, both)


def test_damaged_end_offsets_are_clamped(kernel):
    data = np.frombuffer(b"abcdef", np.uint8)
    for ends in ([9, 3, 200], [6, 0, 6], [100, 100, 100]):
        values = [[end] for end in ends]
        kernel.object_shard(0, 0, 1, *object_arguments([9], [1], values, [data]))
    populated = np.array([7], np.uint64)
    pointers = pack([([200, 3, 255], 8)])
    elements = pack([([1, 2, 3, 4], 5)])
    kernel.list_shard(0, 0, 1, pointers, 8, elements, 5, 4, populated, 2)
    kernel.set_shard(0, 0, 1, pointers, 8, 0, elements, 5, 4, populated, 2)
    kernel.map_shard(0, 0, 1, pointers, 8, 0, elements, 3, 2, 4, populated, 2)
