"""References in bytes: what is written, what is refused, where, and in which order."""

import pickle

import pytest

from deltaic.errors import DeltaicError, RegistryError
from deltaic.wire.references import (
    LARGEST,
    Index,
    Indices,
    MapKey,
    Parent,
    Range,
    Ranges,
    Reference,
    Unknown,
    decode_exact,
    decode_number,
    decode_prefix,
    encode,
    encode_number,
    number_size,
)
from tests.unit.wire.references.independent_reader import read_reference


def refused(work, *args):
    with pytest.raises(RegistryError) as caught:
        work(*args)
    return caught.value


PRINTED = {
    "00022A00": Reference(2, 42),
    "000282000104 0403050C17": Reference(2, 512, (Indices((5, 12, 23)),)),
    "0002490105070300050A0F1419": Reference(2, 73, (Ranges(((0, 5), (10, 15), (20, 25))),)),
    "000282000104070305812CC11170": Reference(2, 512, (Indices((5, 300, 70000)),)),
    "000207030101590201000607 7072696D617279": Reference(2, 7, (Parent(89), Index(0), MapKey("primary"))),
    "FFFF0000FFFF2A00": Reference(65535, 42),
}


@pytest.mark.parametrize(("text", "reference"), PRINTED.items())
def test_the_bytes_that_the_page_prints_are_those_we_write_and_read(text, reference):
    data = bytes.fromhex(text)
    assert encode(reference) == data
    assert decode_exact(data) == reference
    assert read_reference(data)[:2] == (reference.version, reference.index)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16_383, 16_384, LARGEST])
def test_a_number_has_one_spelling_and_says_its_size(value):
    data = encode_number(value)
    assert decode_number(b"\xff" + data + b"\xff", 1) == (value, 1 + len(data))
    assert len(data) == number_size(value)


@pytest.mark.parametrize("value", [-1, LARGEST + 1, 2**64])
def test_a_number_that_no_three_bytes_hold_is_refused(value):
    assert refused(encode_number, value).code == "VarintOverflow"


def test_every_cut_of_a_reference_is_refused_as_truncated():
    data = encode(
        Reference(70_000, 20_000, (Parent(300), Index(5), Range(3, 900), MapKey("ключ"), Unknown(200, b"xy")))
    )
    for size in range(len(data)):
        error = refused(decode_exact, data[:size])
        assert error.code == "Truncated"
        assert error.offset is not None and error.offset <= size


def test_a_reference_says_where_it_ends_so_that_a_value_can_follow():
    data = encode(Reference(2, 512, (Index(5),))) + b"value"
    reference, end = decode_prefix(data)
    assert data[end:] == b"value"
    assert refused(decode_exact, data).code == "TrailingData"
    assert reference.selectors == (Index(5),)


def test_references_are_read_from_a_memoryview_too():
    data = encode(Reference(2, 7, (MapKey("é"), Unknown(9, b"\x01"))))
    assert decode_exact(memoryview(data)) == decode_exact(data)


ORDER = [
    ("structure of a later parameter before parents", "00020003 020105 010107 0000", "ReservedParamType"),
    ("parents before bytes behind", "00020002 020105 010107 00", "InvalidParam"),
    ("type before length", "00020001 00", "ReservedParamType"),
    ("length before bounds", "00020001 028001", "NonCanonical"),
    ("bounds before value", "00020001 020580", "Truncated"),
    ("value before rules", "00020001 0403000505", "ParamLengthMismatch"),
    ("numbers of a value before its length", "00020001 02038005FF", "NonCanonical"),
    ("long version before index", "FFFF00000001 8000", "NonCanonical"),
    ("UTF-8", "00020001 0602C080", "InvalidUtf8"),
    ("a version that just fits two bytes", "FFFF0000FFFE 2A00", "NonCanonical"),
    ("the mark of the long form is no version", "FFFF 2A00", "Truncated"),
    ("three bytes for what fits two", "0002 C03FFF 00", "NonCanonical"),
    ("two bytes for what fits one", "0002 807F 00", "NonCanonical"),
    ("a number and a byte", "00022A01 02020505", "ParamLengthMismatch"),
    ("half a number", "00022A01 020181", "ParamLengthMismatch"),
    ("three numbers for two", "00022A01 0303010203", "ParamLengthMismatch"),
    ("no indices", "00022A01 040100", "InvalidParam"),
    ("no ranges", "00022A01 050100", "InvalidParam"),
    ("surrogates", "00022A01 0603EDA080", "InvalidUtf8"),
    ("ranges that touch are no overlap", "00020001 0505 0205090005 01", "TrailingData"),
]


@pytest.mark.parametrize(("name", "text", "code"), ORDER, ids=[name for name, *_ in ORDER])
def test_of_several_faults_the_first_in_the_order_of_the_page_is_told(name, text, code):
    assert refused(decode_exact, bytes.fromhex(text)).code == code


def test_an_error_says_where_and_of_which_version_and_field():
    error = refused(decode_exact, bytes.fromhex("0002 8200 01 04 03 02 05 05"))
    assert (error.code, error.offset, error.version, error.index) == ("InvalidParam", 7, 2, 512)
    assert str(error) == "indices name an element twice (at byte 7, version 2, field 512)"
    assert isinstance(error, DeltaicError) and isinstance(error, ValueError)
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.offset, again.version, again.index) == (error.code, 7, 2, 512)


def test_a_huge_inner_count_takes_no_memory():
    assert refused(decode_exact, bytes.fromhex("0002 2A 01 04 04 FFFFFF 01")).code == "ParamLengthMismatch"


REFUSED_BY_THE_ENCODER = [
    (Reference(2**32, 0), "VersionExhausted"),
    (Reference(-1, 0), "VersionExhausted"),
    (Reference(0, LARGEST + 1), "VarintOverflow"),
    (Reference(0, 0, (Parent(0),) * 256), "TooManyParams"),
    (Reference(0, 0, (MapKey("\ud800"),)), "InvalidUtf8"),
    (Reference(0, 0, (MapKey("é" * 32_768),)), "InvalidParam"),
    (Reference(0, 0, (Unknown(256, b""),)), "InvalidParam"),
    (Reference(0, 0, (Unknown(7, bytes(LARGEST + 1)),)), "VarintOverflow"),
    (Reference(0, 0, (Indices((1, LARGEST + 1)),)), "VarintOverflow"),
    (Reference(0, 0, (Ranges(((5, 9), (0, 6))),)), "InvalidParam"),
    (Reference(0, 0, (MapKey("a"), Unknown(200, b""), Parent(1))), "InvalidParam"),
]


@pytest.mark.parametrize(("reference", "code"), REFUSED_BY_THE_ENCODER)
def test_what_no_reader_would_read_is_not_written(reference, code):
    error = refused(encode, reference)
    assert (error.code, error.version, error.index) == (code, reference.version, reference.index)


def test_unknown_parameters_may_stand_before_parents_and_are_kept_as_they_are():
    reference = Reference(3, 9, (Unknown(200, b"\xff\x00"), Parent(4), Unknown(7, b""), Index(1)))
    assert decode_exact(encode(reference)) == reference
    assert reference.parents == (4,) and reference.selectors == (Index(1),)
    assert Unknown(0x7F, b"").critical and not Unknown(0x80, b"").critical


def test_the_longest_key_and_255_parameters_fit():
    reference = Reference(0, 0, (MapKey("k" * 65_535),) * 255)
    assert decode_exact(encode(reference)) == reference


def test_versions_that_fit_two_bytes_take_two_and_the_others_six():
    sizes = [len(encode(Reference(version, 0))) for version in (0, 65_534, 65_535, 2**32 - 1)]
    assert sizes == [4, 4, 8, 8]
    assert decode_exact(encode(Reference(65_535, 42))).version == 65_535
