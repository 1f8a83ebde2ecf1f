"""Blocks of references: columns read and made by kernels, damage told as the single reader tells it."""

import numpy as np
import pytest

from deltaic.errors import InputError, RegistryError
from deltaic.wire.references import (
    LARGEST,
    Index,
    Indices,
    MapKey,
    ParameterColumn,
    Parent,
    Range,
    Ranges,
    Reference,
    ReferenceBlock,
    Unknown,
    decode_numbers,
    encode,
    encode_numbers,
)

MIXED = [
    Reference(2, 42),
    Reference(2, 300, (Parent(70_000), Range(3, 900))),
    Reference(2, 42),
    Reference(2, 512, (Index(5), MapKey("ключ"))),
    Reference(2, LARGEST, (Unknown(200, b"\x00\xff"), Indices(tuple(range(40, 0, -1))))),
    Reference(2, 9, (Ranges(((10, 20), (0, 10), (LARGEST - 1, LARGEST))),)),
    Reference(2, 512, (Index(5), MapKey("ключ"))),
]


def refused(work, *args):
    with pytest.raises(RegistryError) as caught:
        work(*args)
    return caught.value


def test_the_block_that_the_page_prints():
    block = ReferenceBlock.decode_exact(bytes.fromhex("0002 03 2A00 2B00 82000102 0105"))
    assert list(block) == [Reference(2, 42), Reference(2, 43), Reference(2, 512, (Index(5),))]
    assert block.indexes.tolist() == [42, 43, 512]
    assert block.counts.tolist() == [0, 0, 1]
    assert block.types.tolist() == [2]
    assert block.numbers()[0].tolist() == [5]


def test_a_block_is_its_references_without_their_version():
    block = ReferenceBlock.of(2, MIXED)
    data = block.to_bytes()
    assert data == b"\x00\x02\x07" + b"".join(encode(reference)[2:] for reference in MIXED)
    assert len(data) == block.size_bytes
    again = ReferenceBlock.decode_exact(data)
    assert list(again) == MIXED and again == block and hash(again) == hash(block)
    assert again[-1] == MIXED[-1]
    assert again != ReferenceBlock.of(3, [Reference(3, 1)]) and again != "another thing"
    for row in range(len(MIXED)):
        one = again.body[again.bounds[row] : again.bounds[row + 1]].tobytes()
        assert one == encode(MIXED[row])[2:]


def test_a_block_may_stand_before_other_bytes_and_behind_others():
    data = b"head" + ReferenceBlock.of(70_000, [Reference(70_000, 1)]).to_bytes() + b"tail"
    block, end = ReferenceBlock.decode_prefix(data, 4)
    assert data[end:] == b"tail" and list(block) == [Reference(70_000, 1)]
    assert refused(ReferenceBlock.decode_exact, data[4:]).code == "TrailingData"


def test_numbers_of_parameters_come_as_columns():
    first, second = ReferenceBlock.of(2, MIXED).numbers()
    assert first.tolist() == [70_000, 3, 5, -1, -1, -1, -1, 5, -1]
    assert second.tolist() == [-1, 900, -1, -1, -1, -1, -1, -1, -1]


def test_fields_and_parents_are_counted_as_used():
    fields, times = ReferenceBlock.of(2, MIXED).uses()
    assert dict(zip(fields.tolist(), times.tolist(), strict=True)) == {
        42: 2, 300: 1, 512: 2, LARGEST: 1, 9: 1, 70_000: 1,
    }  # fmt: skip


def test_equal_references_of_a_block_are_found():
    block = ReferenceBlock.of(2, MIXED)
    firsts, groups = block.distinct()
    assert [block[int(firsts[group])] for group in groups] == MIXED
    assert len(firsts) == 5


def test_the_empty_block_has_no_references():
    block = ReferenceBlock.decode_exact(b"\x00\x01\x00")
    assert (len(block), list(block), block.size_bytes) == (0, [], 3)
    assert block.distinct()[0].tolist() == [] and block.uses()[0].tolist() == []
    assert ReferenceBlock.of_columns(1, []).to_bytes() == b"\x00\x01\x00"


def test_a_count_of_millions_in_a_few_bytes_takes_no_memory():
    error = refused(ReferenceBlock.decode_exact, bytes.fromhex("0002 FFFFFF 2A00 2B00"))
    assert (error.code, error.version, error.offset) == ("Truncated", 2, 9)


def test_damage_is_told_with_its_code_and_place_even_behind_many_sound_references():
    sound = ReferenceBlock.of_columns(2, np.arange(1_000)).to_bytes()
    damaged = bytearray(sound + bytes.fromhex("2A 01 04 03 02 05 05"))
    damaged[2:4] = (0x8000 | 1_001).to_bytes(2, "big")
    error = refused(ReferenceBlock.decode_exact, bytes(damaged))
    assert (error.code, error.version, error.index, error.offset) == ("InvalidParam", 2, 42, len(sound) + 4)


def test_damage_before_the_end_of_the_bytes_is_told_before_the_end():
    assert refused(ReferenceBlock.decode_exact, bytes.fromhex("0002 05 2A00 8005")).code == "NonCanonical"


def test_many_indices_and_ranges_are_held_against_their_rules():
    """More than the kernel compares pair by pair."""
    many = tuple(range(1_000, 0, -1))
    assert ReferenceBlock.of(0, [Reference(0, 0, (Indices(many),))])[0].selectors == (Indices(many),)
    head = bytes.fromhex("0000 01 00 01")
    numbers = encode_numbers([len(many) + 1, *many, 500])[1].tobytes()
    damaged = head + b"\x04" + encode_numbers([len(numbers)])[1].tobytes() + numbers
    assert refused(ReferenceBlock.decode_exact, damaged).code == "InvalidParam"
    pairs = [bound for start in range(0, 400, 2) for bound in (start, start + 2)]
    for extra, code in (([400, 401], None), ([399, 401], "InvalidParam")):
        numbers = encode_numbers([201, *extra, *pairs])[1].tobytes()
        data = head + b"\x05" + encode_numbers([len(numbers)])[1].tobytes() + numbers
        if code is None:
            assert len(ReferenceBlock.decode_exact(data)[0].selectors) == 1
        else:
            assert refused(ReferenceBlock.decode_exact, data).code == code


def test_a_block_is_made_from_columns_without_an_object_for_each():
    rows = 5_000
    fields, elements = np.arange(rows) * 7 % 20_000, np.arange(rows) * 131 % 90_000
    texts = [f"key {row % 50}".encode() for row in range(rows)]
    offsets = np.cumsum([0, *map(len, texts)])
    block = ReferenceBlock.of_columns(
        7,
        fields,
        ParameterColumn.parents(fields[::-1]),
        ParameterColumn.elements(elements),
        ParameterColumn.ranges(elements, elements + 1 + np.arange(rows) % 3),
        ParameterColumn.keys(offsets, np.frombuffer(b"".join(texts), np.uint8)),
    )
    made = [
        Reference(
            7, field, (Parent(parent), Index(element), Range(element, element + 1 + row % 3), MapKey(text.decode()))
        )
        for row, (field, parent, element, text) in enumerate(
            zip(fields.tolist(), fields[::-1].tolist(), elements.tolist(), texts, strict=True)
        )
    ]
    assert block == ReferenceBlock.of(7, made)


def test_columns_are_held_against_the_rules_of_references():
    elements = ParameterColumn.elements
    assert refused(ReferenceBlock.of_columns, 0, [LARGEST + 1]).code == "VarintOverflow"
    assert refused(ReferenceBlock.of_columns, 0, [-1]).code == "VarintOverflow"
    assert refused(ReferenceBlock.of_columns, 2**32, [1]).code == "VersionExhausted"
    assert refused(elements, [LARGEST + 1]).code == "VarintOverflow"
    assert refused(ReferenceBlock.of_columns, 0, [1], ParameterColumn.ranges([5], [5])).code == "InvalidParam"
    assert (
        refused(ReferenceBlock.of_columns, 0, [1], elements([1]), ParameterColumn.parents([1])).code == "InvalidParam"
    )
    assert refused(ReferenceBlock.of_columns, 0, [1], *[elements([1])] * 256).code == "TooManyParams"
    surrogate = ParameterColumn.keys(np.array([0, 3]), np.frombuffer(b"\xed\xa0\x80", np.uint8))
    assert refused(ReferenceBlock.of_columns, 0, [1], surrogate).code == "InvalidUtf8"
    long = ParameterColumn.keys(np.array([0, 65_536]), np.full(65_536, 0x6B, np.uint8))
    assert refused(ReferenceBlock.of_columns, 0, [1], long).code == "InvalidParam"
    with pytest.raises(InputError):
        ReferenceBlock.of_columns(0, [1, 2], elements([1]))


@pytest.mark.parametrize("offsets", [[], [0, 9], [-1, 2], [2, 1]])
def test_offsets_that_do_not_lie_in_their_data_never_reach_a_kernel(offsets):
    with pytest.raises(InputError):
        ParameterColumn.keys(np.array(offsets, np.int64), np.zeros(3, np.uint8))


def test_a_column_of_a_type_that_is_no_type_is_refused():
    assert refused(ParameterColumn, 0, np.zeros(1, np.int64), np.zeros(0, np.uint8)).code == "InvalidParam"
    with pytest.raises(InputError):
        ParameterColumn(2, np.zeros(1, np.int32), np.zeros(0, np.uint8))


def test_references_of_another_version_do_not_join_a_block():
    assert refused(ReferenceBlock.of, 2, [Reference(2, 1), Reference(3, 1)]).version == 3


def test_columns_of_a_block_cannot_be_written():
    block = ReferenceBlock.of(2, MIXED)
    with pytest.raises(ValueError):
        block.indexes[0] = 1
    with pytest.raises(ValueError):
        block.body[0] = 1


def test_numbers_as_columns_and_back():
    values = [0, 127, 128, 16_383, 16_384, LARGEST]
    offsets, data = encode_numbers(values)
    assert offsets.tolist() == [0, 1, 2, 4, 6, 9, 12]
    read, end = decode_numbers(b"\x01" + data.tobytes() + b"\x01", 6, 1)
    assert (read.tolist(), end) == (values, 13)
    assert refused(decode_numbers, data.tobytes(), 7).code == "Truncated"
    assert refused(decode_numbers, data.tobytes(), 100).code == "Truncated"
    assert refused(decode_numbers, b"\x80\x01\x00", 1).code == "NonCanonical"
