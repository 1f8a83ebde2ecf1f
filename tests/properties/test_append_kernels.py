"""The compiled kernels of appended sections and their plain twins agree, on good bytes and on bad ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic import kernels
from deltaic.kernels.plain import append as plain
from deltaic.schema.text import parse_schemas
from deltaic.state.write import WriteState

if not kernels.COMPILED:
    pytest.skip("the compiled kernels are not there", allow_module_level=True)

from deltaic.kernels import _append as compiled

SCHEMA = "T { boolean b; int i; long l; float f; double d; string s; bytes y; T r; string s2; }"
NUMBERS = st.integers(-(2**31) + 1, 2**31 - 1)
ROW = st.fixed_dictionaries(
    {},
    optional={
        "b": st.booleans(),
        "i": NUMBERS,
        "l": st.integers(-(2**63) + 1, 2**63 - 1),
        "f": st.floats(width=32),
        "d": st.floats(),
        "s": st.text(st.characters(), max_size=12),
        "y": st.binary(max_size=9),
        "r": st.just(0),
        "s2": st.text(st.characters(exclude_categories=()), max_size=5),
    },
)


def same(one, other):
    for left, right in zip(one, other, strict=True):
        if isinstance(left, np.ndarray):
            assert np.array_equal(left, right)
        else:
            assert left == right


@settings(max_examples=80, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=20), st.sets(st.integers(0, 8)))
def test_collected_pairs_are_the_same_and_parse_alike(rows, wanted):
    state = WriteState(parse_schemas(SCHEMA))
    state.add_object("T", {"i": 1})
    for row in rows:
        state.add_object("T", row)
    writer = state.writer("T")
    source = writer.ordinals.map
    ordinals = writer.ordinals.populated.ordinals().astype(np.int32)
    fields = np.array(sorted(wanted), np.int64)
    arguments = (source.arena, source.starts, ordinals, writer.kinds, fields)
    one, other = compiled.collect_fields(*arguments), plain.collect_fields(*arguments)
    for (count, pairs), (expected, theirs), place in zip(one, other, sorted(wanted), strict=True):
        assert count == expected and pairs.tobytes() == theirs.tobytes()
        kind = int(writer.kinds[place])
        if kind < 6:
            ours = compiled.read_fixed(pairs, 0, count, kind)
            same(ours, plain.read_fixed(pairs, 0, count, kind))
        else:
            ours = compiled.read_variable(pairs, 0, count)
            same(ours, plain.read_variable(pairs, 0, count))
        assert ours[-1] == len(pairs)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 12), st.integers(0, 5), st.integers(0, 3))
def test_bad_bytes_give_the_same_error(data, count, kind, start):
    array = np.frombuffer(data, np.uint8)
    start = min(start, len(array))
    ours, theirs = compiled.read_fixed(array, start, count, kind), plain.read_fixed(array, start, count, kind)
    assert ours[-1] == theirs[-1]
    if ours[-1] >= 0:
        same(ours, theirs)
    ours, theirs = compiled.read_variable(array, start, count), plain.read_variable(array, start, count)
    assert ours[-1] == theirs[-1]
    if ours[-1] >= 0:
        same(ours, theirs)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_records_get_new_fields_alike(data):
    old, count = data.draw(st.integers(0, 130)), data.draw(st.integers(0, 40))
    source = np.frombuffer(data.draw(st.binary(min_size=680, max_size=680)), np.uint8)
    ordinals, values, widths, nulls, ends = [], [], [], [], []
    for _ in range(data.draw(st.integers(0, 4))):
        width, is_end = data.draw(st.integers(1, 64)), data.draw(st.booleans())
        rows = sorted(data.draw(st.sets(st.integers(0, count - 1)))) if count else []
        given = [data.draw(st.integers(0, 2**width - 1)) for _ in rows]
        if is_end:
            given = np.cumsum([value & 7 for value in given]).tolist()
            width = max(width, 2 + (given[-1] if given else 0).bit_length())
        ordinals.append(np.array(rows, np.int64))
        values.append(np.array(given, np.uint64))
        widths.append(width)
        ends.append(is_end)
        nulls.append(1 << width - 1 if is_end else (1 << width) - 1)
    results = []
    for kernel in (compiled, plain):
        target = np.zeros(((old + sum(widths)) * count + 7) // 8 + 16, np.uint8)
        arrays = np.array(widths, np.int64), np.array(nulls, np.uint64), np.array(ends, np.uint8)
        kernel.append_fields(source, old, count, target, ordinals, values, *arrays)
        results.append(target.tobytes())
    assert results[0] == results[1]


@given(st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=4), st.booleans()), max_size=12))
def test_ranges_that_differ_are_found_alike(pairs):
    ours = [one for one, _, _ in pairs]
    theirs = [one if same else other for one, other, same in pairs]
    ends, offsets = np.cumsum([len(one) for one in ours]), np.cumsum([0, *(len(one) for one in theirs)])
    starts = np.concatenate((np.zeros(1, np.int64), ends))[:-1]
    data, other = (np.frombuffer(b"".join(side), np.uint8) for side in (ours, theirs))
    arguments = data, starts.astype(np.int64), ends.astype(np.int64), other, offsets.astype(np.int64)
    expected = [one != two for one, two in zip(ours, theirs, strict=True)]
    assert compiled.differing(*arguments).tolist() == plain.differing(*arguments).tolist() == expected


@given(st.lists(st.integers(0, 2**64 - 1), max_size=3), st.lists(st.integers(0, 260), max_size=20))
def test_the_first_ordinal_outside_of_a_set_is_the_same(words, ordinals):
    arguments = np.array(words, np.uint64), np.array(ordinals, np.int64)
    assert compiled.first_outside(*arguments) == plain.first_outside(*arguments)
