"""Modified UTF-8, as Java's DataOutput writes it."""

import pytest

from deltaic.binary.modified_utf8 import decode, encode, encode_utf
from deltaic.errors import DecodeError, InputError


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", ""),
        ("Movie", "4d6f766965"),
        ("\0", "c080"),
        ("é\u07ff", "c3a9dfbf"),
        ("\u0800\uffff", "e0a080efbfbf"),
        ("\U0001f600", "eda0bdedb880"),
        ("\ud800x", "eda08078"),
        ("\udc00\ud800", "edb080eda080"),
    ],
)
def test_texts_are_written_as_java_writes_them_and_read_back(text, data):
    assert encode(text).hex() == data
    assert decode(bytes.fromhex(data), "here") == text


def test_overlong_forms_and_plain_zero_are_read_as_java_reads_them():
    assert decode(b"\xc1\x81\x00\xe0\x81\x81", "here") == "A\0A"


def test_two_surrogates_that_meet_are_one_character():
    assert decode(encode("\ud83d" + "\ude00"), "here") == "\U0001f600"


@pytest.mark.parametrize(
    "data", [b"\x80", b"a\xbf", b"\xc3", b"\xc3a", b"\xe2\x82", b"\xe2\x82a", b"\xf0\x9f\x98\x80", b"\xff"]
)
def test_bytes_that_are_no_text_are_refused_with_their_place(data):
    with pytest.raises(DecodeError) as caught:
        decode(data, "blob: byte 7")
    assert (caught.value.code, caught.value.at) == ("BadText", "blob: byte 7")


def test_the_length_counts_bytes_and_ends_at_65535():
    assert encode_utf("é") == b"\x00\x02\xc3\xa9"
    assert encode_utf("x" * 65535)[:2] == b"\xff\xff"
    with pytest.raises(InputError, match="65536 bytes"):
        encode_utf("x" * 65536)
