"""References: what is written is read, by three readers; kernels and their plain twins agree; reads follow writes."""

import copy
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.errors import InputError, NotFoundError, RegistryError
from deltaic.kernels import references as chosen
from deltaic.kernels.plain import references as plain
from deltaic.wire.references import (
    LARGEST,
    Address,
    All,
    Index,
    Indices,
    Key,
    MapKey,
    ParameterColumn,
    Parent,
    Range,
    Ranges,
    Reference,
    ReferenceBlock,
    Unknown,
    decode_exact,
    decode_prefix,
    delete,
    encode,
    get,
    put,
)
from tests.unit.wire.references.independent_reader import read_block, read_reference

# The sizes of numbers change at their edges.
numbers = st.one_of(st.integers(0, 200), st.sampled_from([127, 128, 16_383, 16_384, LARGEST]), st.integers(0, LARGEST))
versions = st.one_of(st.integers(0, 3), st.sampled_from([65_534, 65_535, 65_536, 2**32 - 1]), st.integers(0, 2**32 - 1))
ranges = st.tuples(numbers, numbers).filter(lambda pair: pair[0] != pair[1]).map(lambda pair: tuple(sorted(pair)))


@st.composite
def apart(draw):
    """Ranges of which none overlaps another, some of them touching, in any order."""
    bounds = sorted(draw(st.lists(numbers, min_size=2, max_size=60, unique=True)))
    pairs = list(itertools.pairwise(bounds))
    kept = [pair for pair in pairs if draw(st.booleans())] or pairs[:1]
    return tuple(draw(st.permutations(kept)))


keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
selectors = st.one_of(
    st.builds(Index, numbers),
    ranges.map(lambda pair: Range(*pair)),
    st.lists(numbers, min_size=1, max_size=40, unique=True).map(lambda found: Indices(tuple(found))),
    apart().map(Ranges),
    st.builds(MapKey, keys),
)
unknown = st.builds(Unknown, st.integers(7, 255), st.binary(max_size=20))
parameters = st.builds(
    lambda parents, chosen: (*parents, *chosen),
    st.lists(st.one_of(st.builds(Parent, numbers), unknown), max_size=4),
    st.lists(st.one_of(selectors, unknown), max_size=5),
)
references = st.builds(Reference, versions, numbers, parameters)


def as_read(reference):
    def value(one):
        match one:
            case Parent(number) | Index(number):
                return number
            case Range(start, end):
                return (start, end)
            case Indices(found) | Ranges(found):
                return list(found)
            case MapKey(key):
                return key
            case Unknown(_, data):
                return data

    return reference.version, reference.index, [(one.code, value(one)) for one in reference.parameters]


@given(references, st.binary(max_size=5))
def test_what_is_encoded_is_decoded_and_ends_where_it_says(reference, behind):
    data = encode(reference)
    assert decode_exact(data) == reference
    assert decode_prefix(data + behind) == (reference, len(data))


@given(references)
def test_a_second_reader_reads_what_we_write(reference):
    assert read_reference(encode(reference)) == as_read(reference)


damage = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 255), st.sampled_from("set insert delete".split())), max_size=3
)


def damaged(data, changes):
    made = bytearray(data)
    for at, byte, what in changes:
        at %= len(made) + 1
        if what == "insert":
            made.insert(at, byte)
        elif at < len(made):
            made[at : at + 1] = b"" if what == "delete" else bytes([byte])
    return bytes(made)


@given(references, damage)
def test_both_readers_refuse_the_same_bytes_and_bytes_that_are_read_are_written_again(reference, changes):
    data = damaged(encode(reference), changes)
    try:
        theirs = read_reference(data)
    except ValueError:
        with pytest.raises(RegistryError):
            decode_exact(data)
        return
    ours = decode_exact(data)
    assert as_read(ours) == theirs
    # One reference, one spelling.
    assert encode(ours) == data


@given(versions, st.lists(st.tuples(numbers, parameters), max_size=12), damage)
def test_blocks_are_read_by_all_three_readers_or_refused_by_all(version, bodies, changes):
    made = [Reference(version, index, chosen) for index, chosen in bodies]
    block = ReferenceBlock.of(version, made)
    assert list(block) == made
    data = damaged(block.to_bytes(), changes)
    try:
        theirs = read_block(data)
    except ValueError:
        with pytest.raises(RegistryError):
            ReferenceBlock.decode_exact(data)
        return
    read = ReferenceBlock.decode_exact(data)
    assert [as_read(reference) for reference in read] == theirs
    assert read.to_bytes() == data


def columns(kernel, data, start, count):
    done, end, total = kernel.scan_references(data, start, count)
    found = [
        np.zeros(done, np.uint32), np.zeros(done + 1, np.int64), np.zeros(total, np.uint8),
        np.zeros(total, np.int64), np.zeros(total, np.int64), np.zeros(done + 1, np.int64),
    ]  # fmt: skip
    if done == count:
        kernel.fill_references(data, start, *found)
    return (done, end, total), found


@given(st.lists(st.tuples(numbers, parameters), max_size=10), damage, st.binary(max_size=3))
def test_the_compiled_kernel_and_its_plain_twin_agree(bodies, changes, before):
    block = ReferenceBlock.of(0, [Reference(0, index, chosen) for index, chosen in bodies])
    data = np.frombuffer(before + damaged(block.body.tobytes(), changes), np.uint8)
    ours, theirs = (columns(kernel, data, len(before), len(bodies)) for kernel in (chosen, plain))
    assert ours[0] == theirs[0]
    for one, other in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_array_equal(one, other)
    if ours[0][0] == len(bodies):
        indexes, offsets, types, starts, ends, bounds = ours[1]
        outs = []
        for kernel in (chosen, plain):
            out = np.zeros(bounds[-1] - bounds[0], np.uint8)
            kernel.write_references(indexes, offsets, types, starts, ends, data, out)
            outs.append(out.tobytes())
            for one, other in zip(
                kernel.parameter_numbers(data, types, starts),
                chosen.parameter_numbers(data, types, starts),
                strict=True,
            ):
                np.testing.assert_array_equal(one, other)
        assert outs[0] == outs[1] == data[bounds[0] : bounds[-1]].tobytes()


@given(st.lists(numbers, max_size=50), st.binary(max_size=40), st.integers(0, 30))
def test_columns_of_numbers_are_the_same_from_both_kernels(values, noise, count):
    array = np.array(values, np.uint32)
    for one, other in zip(chosen.encode_numbers(array), plain.encode_numbers(array), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    for data, wanted in ((chosen.encode_numbers(array)[1], len(values)), (np.frombuffer(noise, np.uint8), count)):
        ours, theirs = np.zeros(wanted, np.uint32), np.zeros(wanted, np.uint32)
        answer = chosen.decode_numbers(data, 0, ours)
        assert answer == plain.decode_numbers(data, 0, theirs)
        np.testing.assert_array_equal(ours[: answer[0]], theirs[: answer[0]])


@given(versions, st.lists(st.tuples(numbers, numbers, ranges, keys), max_size=20))
def test_blocks_from_columns_are_blocks_of_references(version, rows):
    texts = [key.encode() for *_, key in rows]
    block = ReferenceBlock.of_columns(
        version,
        np.array([row[0] for row in rows], np.int64),
        ParameterColumn.elements([row[1] for row in rows]),
        ParameterColumn.ranges([row[2][0] for row in rows], [row[2][1] for row in rows]),
        ParameterColumn.keys(np.cumsum([0, *map(len, texts)]), np.frombuffer(b"".join(texts), np.uint8)),
    )
    made = [Reference(version, field, (Index(one), Range(*pair), MapKey(key))) for field, one, pair, key in rows]
    assert block == ReferenceBlock.of(version, made)


names = st.sampled_from("abc")
values = st.recursive(
    st.integers(0, 9) | st.none(),
    lambda inner: st.dictionaries(names, inner, max_size=3) | st.lists(inner, max_size=4),
    max_leaves=12,
)
small = st.integers(0, 4)
steps = st.one_of(
    names.map(Key),
    names.map(MapKey),
    small.map(Index),
    st.sampled_from([All("[]"), All("{}")]),
    st.tuples(small, st.integers(1, 3)).map(lambda pair: Range(pair[0], sum(pair))),
    st.lists(small, min_size=1, max_size=3, unique=True).map(lambda found: Indices(tuple(found))),
    st.sampled_from([Ranges(((2, 4), (0, 1))), Ranges(((1, 2),)), Ranges(((0, 2), (2, 9)))]),
)
addresses = st.lists(steps, min_size=1, max_size=4).map(lambda found: Address(tuple(found)))


def leaves(value):
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return [leaf for one in inner for leaf in leaves(one)]
    return [value]


@given(values, addresses)
def test_reading_after_writing_gives_what_was_written_and_the_value_stays(value, address):
    before = copy.deepcopy(value)
    try:
        after = put(value, address, "new")
    except (NotFoundError, InputError):
        assert value == before
        return
    assert value == before
    # Where an open step finds nothing, nothing was written and nothing is read.
    found = get(after, address, None)
    assert all(leaf == "new" or leaf is None for leaf in leaves(found))
    if address.single:
        assert found == "new"


@given(values, addresses)
def test_writing_what_was_read_changes_nothing(value, address):
    try:
        found = get(value, address)
    except (NotFoundError, InputError):
        return
    assert put(value, address, found, each=True) == value


@given(values, addresses)
def test_what_is_removed_is_gone_and_all_else_stays(value, address):
    before = copy.deepcopy(value)
    try:
        after = delete(value, address)
    except (NotFoundError, InputError):
        assert value == before
        return
    assert value == before
    if isinstance(address.steps[-1], Key | MapKey) and address.single:
        assert get(after, address, "gone") == "gone"
        # Putting it back gives an equal value: nothing else was touched.
        assert put(after, address, get(value, address)) == value


text_steps = st.one_of(
    st.text(st.characters(min_codepoint=0x20, exclude_categories=["Cs"]), min_size=1, max_size=5).map(Key),
    st.sampled_from([All("[]"), All("{}")]),
    selectors,
)


@given(st.lists(text_steps, min_size=1, max_size=6))
def test_the_text_of_an_address_is_read_again(found):
    address = Address(tuple(found))
    try:
        path = address.path
    except RegistryError:
        return
    assert len(path.encode()) <= 1_024
    assert Address.parse(str(address)) == address
