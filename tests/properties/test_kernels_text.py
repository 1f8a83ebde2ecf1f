"""The compiled text kernel and its plain twin agree on any bytes, and texts come back from any form."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.kernels.plain import text as plain

compiled = pytest.importorskip("deltaic.kernels._text", reason="compiled kernels are not built")

# Bytes as a damaged file has them, with more continuation bits and surrogates than chance would give.
units = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.text(st.characters(), max_size=12).map(plain.encode_text),
        st.lists(st.sampled_from(["\ud800", "\udbff", "\udc00", "\udfff", "é", "a"]), max_size=6).map(
            lambda letters: b"".join(plain.encode_text(letter) for letter in letters)
        ),
        st.sampled_from([b"\x80", b"\x81", b"\xff\xff"]),
    ),
    max_size=8,
).map(b"".join)
texts = st.text(st.characters(exclude_categories=[]), max_size=40)


def column(values: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(values)]
    return np.frombuffer(b"".join(values), np.uint8), starts, ends


def same(left: tuple, right: tuple) -> None:
    for one, other in zip(left, right, strict=True):
        np.testing.assert_array_equal(one, other)


@given(st.lists(units, max_size=12), st.randoms(use_true_random=False))
def test_the_twins_decode_any_bytes_alike(values, random):
    data, starts, ends = column(values)
    same(compiled.units_to_utf8(data, starts, ends), plain.units_to_utf8(data, starts, ends))
    assert compiled.texts_to_list(data, starts, ends) == plain.texts_to_list(data, starts, ends)
    chosen = np.array([random.randrange(len(values)) for _ in values], np.int64)
    same(
        compiled.units_to_utf8(data, starts[chosen], ends[chosen]),
        plain.units_to_utf8(data, starts[chosen], ends[chosen]),
    )


@given(st.lists(units, max_size=12))
def test_utf8_and_str_of_a_text_are_the_same_text(values):
    data, starts, ends = column(values)
    offsets, utf8, lone, _ = compiled.units_to_utf8(data, starts, ends)
    decoded = [utf8[start:end].tobytes().decode("utf-8", "surrogatepass") for start, end in pairwise(offsets)]
    assert decoded == compiled.texts_to_list(data, starts, ends)
    assert lone == sum(any("\ud800" <= letter <= "\udfff" for letter in text) for text in decoded)


@given(st.lists(st.one_of(st.binary(max_size=24), texts.map(lambda text: text.encode("utf-8", "surrogatepass")))))
def test_the_twins_encode_any_bytes_alike(values):
    data, _, ends = column(values)
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    same(compiled.utf8_to_units(offsets, data), plain.utf8_to_units(offsets, data))


@given(st.lists(texts, max_size=20))
def test_texts_survive_utf8_and_character_data(values):
    data, starts, ends = column([compiled.encode_text(text) for text in values])
    offsets, utf8, _, malformed = compiled.units_to_utf8(data, starts, ends)
    back_offsets, back, also_malformed = compiled.utf8_to_units(offsets, utf8)
    np.testing.assert_array_equal(back, data)
    np.testing.assert_array_equal(back_offsets[1:], ends)
    assert malformed == also_malformed == 0


@given(texts)
def test_the_twins_take_one_text_alike(text):
    encoded = compiled.encode_text(text)
    assert encoded == plain.encode_text(text)
    data = np.frombuffer(b"\xff" + encoded + b"\xff", np.uint8)
    decoded = compiled.decode_text(data, 1, 1 + len(encoded))
    assert decoded == plain.decode_text(data, 1, 1 + len(encoded))
    # Two lone surrogates side by side are read as the pair they are.
    assert decoded.encode("utf-16-le", "surrogatepass") == text.encode("utf-16-le", "surrogatepass")


@given(st.binary(max_size=3000))
def test_the_twins_know_ascii_alike(raw):
    data = np.frombuffer(raw, np.uint8)
    assert compiled.is_ascii(data) == plain.is_ascii(data) == raw.isascii()
