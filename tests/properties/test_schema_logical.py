"""Columns of every logical type come back from Hollow's form as they were, or are refused with their row."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from deltaic.errors import DecodeError, InputError
from deltaic.schema.logical import LogicalType
from deltaic.schema.mapping import read_types_tag, write_types_tag

NUMBERS = [
    "b", "c", "C", "s", "S", "i", "I", "l", "L", "e", "f", "g",
    "tdD", "tdm", "tts", "ttm", "ttu", "ttn", "tss:", "tsm:UTC", "tsu:Asia/Tokyo", "tsn:", "tDs", "tDm", "tDu", "tDn",
]  # fmt: skip
MATRICES = ["w:1", "w:16", "d:19,2", "d:38,10", "d:76,0,256"]


@st.composite
def columns(draw, formats):
    logical = LogicalType.of(draw(st.sampled_from(formats)), nullable=draw(st.booleans()))
    length = draw(st.integers(0, 12))
    shape = (length, logical.width) if logical.width else length
    values = draw(arrays.arrays(logical.storage, shape))
    valid = draw(arrays.arrays(np.bool_, length)) if logical.nullable else np.ones(length, np.bool_)
    return logical, values, valid


def same(left, right):
    return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")


@given(columns(NUMBERS + MATRICES))
def test_a_column_comes_back_or_its_smallest_number_is_refused(column):
    logical, values, valid = column
    try:
        physical, present = logical.encode(values, valid, "column")
    except InputError as error:
        assert error.code == "Reserved" and logical.nullable
        row = int(str(error).split("row ")[1].split(":")[0])
        assert valid[row] and int(values[row]) in (-(2**31), -(2**63), 2**63)
        return
    # A reader sees anything at all where a value is null.
    physical = physical.copy()
    physical[~present] = 0
    back, present = logical.decode(physical, present, "column")
    assert np.array_equal(present, valid)
    assert same(back[valid], values[valid])


@given(columns(["i", "l", "L", "c", "C", "tdD", "tsu:UTC", "tDn"]))
def test_a_wide_column_comes_back_whatever_it_holds(column):
    logical, values, valid = column
    wide = LogicalType.of(logical.format, nullable=logical.nullable, wide=True)
    physical, present = wide.encode(values, valid, "column")
    back, present = wide.decode(physical, present, "column")
    assert np.array_equal(present, valid) and same(back[valid], values[valid])


@given(arrays.arrays(np.int64, st.integers(1, 8)), st.sampled_from(["d:18,2", "d:9,2,32", "d:12,0,64", "d:5,1,256"]))
def test_a_decimal_fits_its_digits_or_is_refused(unscaled, text):
    logical = LogicalType.of(text)
    digits = int(text[2:].split(",")[0])
    unscaled = unscaled if logical.width > 4 else unscaled.astype(np.int32).astype(np.int64)
    values = np.stack(
        [np.frombuffer(int(number).to_bytes(logical.width, "little", signed=True), np.uint8) for number in unscaled]
    )
    fits = np.array([abs(int(number)) < 10**digits for number in unscaled])
    if fits.all():
        physical, valid = logical.encode(values, None, "price")
        assert physical.tolist() == unscaled.tolist()
        assert same(logical.decode(physical, valid, "price")[0], values)
    else:
        with pytest.raises(InputError, match=f"row {int(np.argmin(fits))}: "):
            logical.encode(values, None, "price")


logical_types = st.builds(
    LogicalType,
    st.sampled_from(NUMBERS + MATRICES + ["u", "U", "z", "+s", "+l", "+L", "+w:3", "+m"]),
    st.booleans(),
)


@given(st.dictionaries(st.text(min_size=1), st.dictionaries(st.text(), logical_types)))
def test_the_tag_brings_back_all_that_is_not_natural(logical):
    wanted = {
        name: {field: kind for field, kind in fields.items() if not kind.is_natural} for name, fields in logical.items()
    }
    assert read_types_tag(write_types_tag(logical)) == {name: fields for name, fields in wanted.items() if fields}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["format", "wide", "A", "b"]), inner, max_size=3)
    ),
)


@given(st.one_of(st.text(max_size=30), json_values.map(json.dumps)))
def test_any_tag_is_read_or_refused(text):
    try:
        read_types_tag(text, "here")
    except DecodeError as error:
        assert (error.code, error.at) == ("BadTypesTag", "here")
