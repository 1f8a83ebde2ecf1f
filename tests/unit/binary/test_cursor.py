"""The cursor reads numbers and refuses what is not there."""

import pytest

from deltaic.binary.cursor import Cursor
from deltaic.errors import DecodeError


@pytest.mark.parametrize(
    ("data", "value"),
    [("00", 0), ("7f", 127), ("8100", 128), ("822c", 300), ("87ffffff7f", 2**31 - 1), ("8fffffff7f", 2**32 - 1)],
)
def test_varints_are_read_most_significant_group_first(data, value):
    cursor = Cursor(bytes.fromhex(data))
    assert cursor.varint() == value
    assert cursor.remaining == 0


def test_a_long_varint_is_truncated_to_its_width():
    assert Cursor(bytes.fromhex("81ffffffffffffffff7f")).varlong() == 2**64 - 1
    assert Cursor(bytes.fromhex("ffffffff7f")).varint() == 2**32 - 1


@pytest.mark.parametrize(
    ("data", "code"),
    [("", "Truncated"), ("81", "Truncated"), ("80", "Null"), ("8001", "Null"), ("ffffffffff01", "InvalidVarint")],
)
def test_a_number_that_is_none_is_refused_with_its_place(data, code):
    cursor = Cursor(bytes.fromhex("0000" + data), "delta-1-2")
    cursor.skip(2)
    with pytest.raises(DecodeError) as error:
        cursor.varint()
    assert error.value.code == code
    assert error.value.at == "delta-1-2: byte 2"


def test_minus_one_is_an_ordinal_and_larger_ones_are_not():
    assert Cursor(bytes.fromhex("8fffffff7f")).max_ordinal() == -1
    with pytest.raises(DecodeError, match="no ordinal"):
        Cursor(bytes.fromhex("8880808000")).max_ordinal()


@pytest.mark.parametrize("read", [Cursor.int16, Cursor.int32, Cursor.int64, Cursor.byte, Cursor.utf])
def test_nothing_is_read_past_the_end(read):
    with pytest.raises(DecodeError) as error:
        read(Cursor(b"\x01" if read is not Cursor.byte else b""))
    assert error.value.code == "Truncated"


def test_lengths_are_checked_before_memory_is_taken():
    cursor = Cursor(b"abc")
    for take in (cursor.take, cursor.array, cursor.skip):
        with pytest.raises(DecodeError, match="9,?000,?000,?000,?000"):
            take(9_000_000_000_000)
    assert bytes(cursor.take(3)) == b"abc"


def test_fixed_numbers_are_big_endian():
    cursor = Cursor(bytes.fromhex("0406" + "00000406" + "be37e84d59aaaa4e"))
    assert (cursor.int16(), cursor.int32(), cursor.int64()) == (0x0406, 1030, 0xBE37E84D59AAAA4E)
