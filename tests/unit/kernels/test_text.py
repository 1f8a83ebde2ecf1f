"""Character data, UTF-8 and str: both twins, on the shapes that break decoders."""

import importlib
from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest

TEXTS = [
    "",
    "a",
    "plain ascii",
    "exactly8",
    "sixteen letters!",
    "\x00",
    "\x7f",
    "\x80",
    "\xff latin only",
    "\u07ff\u0800",
    "\u3fff\u4000",
    "café",
    "twelve ascii then é",
    "こんにちは",
    "😀",
    "x👨\u200d👩\u200d👧y",
    "\uffff\ufffe",
    "\U0010ffff",
    "Жизнь",
    "\ud800",
    "\udc00",
    "\ud800\ud800\udc00",
    "\udc00\ud800",
    "tail \ud83d",
]


@pytest.fixture(params=["_text", "plain.text"])
def text(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"deltaic.kernels.{request.param}")


def as_java_joins_them(value: str) -> str:
    """Two surrogates that happen to stand side by side are a pair."""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def column(values: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(values)]
    return np.frombuffer(b"".join(values), np.uint8), starts, ends


def split(offsets: np.ndarray, data: np.ndarray) -> list[bytes]:
    return [data[start:end].tobytes() for start, end in pairwise(offsets)]


@pytest.mark.parametrize(
    ("value", "units"),
    [
        ("", ""),
        ("a", "61"),
        ("\x7f", "7f"),
        ("\x80", "8100"),
        ("\u3fff", "ff7f"),
        ("\u4000", "818000"),
        ("\uffff", "83ff7f"),
        ("\ud800", "83b000"),
        ("😀", "83b03d83bc00"),
    ],
)
def test_each_utf16_unit_is_a_varint(text, value, units):
    assert text.encode_text(value).hex() == units


@pytest.mark.parametrize("value", TEXTS, ids=ascii)
def test_a_text_comes_back(text, value):
    data = np.frombuffer(b"before" + text.encode_text(value) + b"after", np.uint8)
    assert text.decode_text(data, 6, len(data) - 5) == as_java_joins_them(value)


@pytest.mark.parametrize("value", TEXTS, ids=ascii)
def test_a_decoded_text_is_the_same_object_kind_that_python_makes(text, value):
    """A str wider than it needs would compare and hash wrongly."""
    decoded = text.decode_text(np.frombuffer(text.encode_text(value), np.uint8), 0, len(text.encode_text(value)))
    assert decoded.__sizeof__() <= "".join(as_java_joins_them(value)).__sizeof__()
    assert hash(decoded) == hash(as_java_joins_them(value))
    assert {as_java_joins_them(value): 1}[decoded] == 1


def test_a_column_becomes_utf8_with_lone_surrogates_kept_and_counted(text):
    data, starts, ends = column([text.encode_text(value) for value in TEXTS])
    offsets, utf8, lone, malformed = text.units_to_utf8(data, starts, ends)
    assert split(offsets, utf8) == [as_java_joins_them(value).encode("utf-8", "surrogatepass") for value in TEXTS]
    assert (lone, malformed) == (5, 0)


def test_texts_out_of_order_with_gaps_and_twice(text):
    data, starts, ends = column([text.encode_text(value) for value in TEXTS])
    chosen = np.array([11, 3, 3, 0, 14, 2])
    offsets, utf8, lone, _ = text.units_to_utf8(data, starts[chosen], ends[chosen])
    assert split(offsets, utf8) == [TEXTS[place].encode() for place in chosen]
    assert lone == 0


def test_adjacent_ascii_texts_are_not_copied(text):
    data, starts, ends = column([b"skipped", b"one", b"", b"three"])
    offsets, utf8, _, _ = text.units_to_utf8(data, starts[1:], ends[1:])
    assert split(offsets, utf8) == [b"one", b"", b"three"]
    assert np.shares_memory(utf8, data)
    assert not utf8.flags.writeable


def test_utf8_becomes_character_data(text):
    data, _, ends = column([value.encode("utf-8", "surrogatepass") for value in TEXTS])
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    units_offsets, units, malformed = text.utf8_to_units(offsets, data)
    assert split(units_offsets, units) == [text.encode_text(value) for value in TEXTS]
    assert malformed == 0


def test_utf8_offsets_need_not_start_at_zero(text):
    data = np.frombuffer(b"xxabc\xc3\xa9", np.uint8)
    offsets, units, _ = text.utf8_to_units(np.array([2, 3, 5]), data)
    assert split(offsets, units) == [b"a", b"bc"]
    offsets, units, _ = text.utf8_to_units(np.array([4, 5, 7]), data)
    assert split(offsets, units) == [b"c", text.encode_text("é")]


@pytest.mark.parametrize(
    ("utf8", "expected"),
    [
        (b"\x80", "\ufffd"),
        (b"\xc3", "\ufffd"),
        (b"a\xc0\xafb", "a\ufffd\ufffdb"),
        (b"\xe0\x80\x80", "\ufffd\ufffd\ufffd"),
        (b"\xf0\x80\x80\x80", "\ufffd" * 4),
        (b"\xf4\x90\x80\x80", "\ufffd" * 4),
        (b"\xe2\x82", "\ufffd\ufffd"),
        (b"\xff\xc3\xa9", "\ufffdé"),
        (b"\xf0\x9f\x98", "\ufffd" * 3),
    ],
)
def test_bytes_that_are_not_utf8_become_replacements_and_count_once_per_text(text, utf8, expected):
    data = np.frombuffer(b"ok" + utf8 + b"\xc3\xa9", np.uint8)
    offsets = np.array([0, 2, 2 + len(utf8), len(data)])
    units_offsets, units, malformed = text.utf8_to_units(offsets, data)
    assert malformed == 1
    assert split(units_offsets, units) == [b"ok", text.encode_text(expected), text.encode_text("é")]


@pytest.mark.parametrize("cut", ["81", "8381", "61ff", "e9", "8080", "80ff80"])
def test_a_varint_that_the_end_cuts_off_is_one_replacement_and_never_reads_the_next_text(text, cut):
    damaged = bytes.fromhex(cut)
    data, starts, ends = column([b"before", damaged, b"\x41next"])
    expected = ("a" if damaged[0] == 0x61 else "") + "\ufffd"
    offsets, utf8, lone, malformed = text.units_to_utf8(data, starts, ends)
    assert split(offsets, utf8) == [b"before", expected.encode(), b"Anext"]
    assert (lone, malformed) == (0, 1)
    assert text.decode_text(data, starts[1], ends[1]) == expected
    assert text.texts_to_list(data, starts, ends) == ["before", expected, "Anext"]


def test_the_explicit_null_of_java_reads_as_empty(text):
    data, starts, ends = column([b"\x80", b"a", b"\x80"])
    assert text.texts_to_list(data, starts, ends) == ["", "a", ""]
    offsets, utf8, _, malformed = text.units_to_utf8(data, starts, ends)
    assert split(offsets, utf8) == [b"", b"a", b""]
    assert malformed == 0


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ("8041", "A"),  # a leading group of zeros
        ("80808041", "A"),
        ("84 80 41".replace(" ", ""), "A"),  # 2^16 + 0x41: a Java char keeps 16 bits
        ("8f ff ff ff 7f".replace(" ", ""), "\uffff"),
        ("ff" * 40 + "7f", "\uffff"),
    ],
)
def test_a_unit_is_cut_to_sixteen_bits_as_javas_cast_does(text, units, expected):
    data = np.frombuffer(bytes.fromhex(units), np.uint8)
    assert text.decode_text(data, 0, len(data)) == expected
    _, utf8, _, malformed = text.units_to_utf8(data, np.array([0]), np.array([len(data)]))
    assert utf8.tobytes() == expected.encode()
    assert malformed == 0


def test_a_list_of_texts_has_none_for_nulls(text):
    data, starts, ends = column([b"a", b"", text.encode_text("é")])
    nulls = np.array([0, 1, 0], np.uint8)
    assert text.texts_to_list(data, starts, ends, nulls) == ["a", None, "é"]


def test_nothing_gives_nothing(text):
    none = np.zeros(0, np.uint8)
    no_texts = np.zeros(0, np.int64)
    assert text.is_ascii(none)
    offsets, utf8, lone, malformed = text.units_to_utf8(none, no_texts, no_texts)
    assert (offsets.tolist(), utf8.tolist(), lone, malformed) == ([0], [], 0, 0)
    offsets, utf8, malformed = text.utf8_to_units(np.zeros(1, np.int64), none)
    assert (offsets.tolist(), utf8.tolist(), malformed) == ([0], [], 0)
    assert text.texts_to_list(none, no_texts, no_texts) == []
    assert text.texts_to_list(none, np.zeros(3, np.int64), np.zeros(3, np.int64)) == ["", "", ""]
    assert text.decode_text(none, 0, 0) == ""
    assert text.encode_text("") == b""


@pytest.mark.parametrize("length", [1, 7, 8, 9, 1023, 1024, 1025, 5000])
def test_one_high_byte_anywhere_is_not_ascii(text, length):
    data = np.full(length, 0x7F, np.uint8)
    assert text.is_ascii(data)
    for place in {0, length // 2, length - 1}:
        data[place] = 0x80
        assert not text.is_ascii(data)
        data[place] = 0


def test_texts_that_grow_most_fit_their_buffer(text):
    """Two bytes of character data can become three of UTF-8, one cut byte three."""
    for unit in ("\u0800", "\u3fff"):
        values = [text.encode_text(unit * length) for length in range(40)] + [b"\x81"] * 20
        data, starts, ends = column(values)
        _, utf8, _, malformed = text.units_to_utf8(data, starts, ends)
        assert utf8.tobytes().decode() == unit * sum(range(40)) + "\ufffd" * 20
        assert malformed == 20


def test_read_only_arrays_are_taken(text):
    data, starts, ends = column([text.encode_text("é")])
    for array in (data, starts, ends):
        array.flags.writeable = False
    assert text.texts_to_list(data, starts, ends) == ["é"]
