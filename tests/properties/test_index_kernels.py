"""The compiled kernel of indexes and its plain twin agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.errors import InputError
from deltaic.kernels.content import BYTES, INT, LONG, STRING, KeyPath
from deltaic.kernels.plain import access as plain_access
from deltaic.kernels.plain import hashing
from deltaic.kernels.plain import keys as plain
from deltaic.state.records import CODES, StateRecords
from tests.unit.index.films import FILMS, Film, catalogue

compiled = pytest.importorskip("deltaic.kernels._keys", reason="no compiled kernels: no C compiler")

texts = st.text(st.characters(), max_size=12) | st.text("ab\x00 \u00a0\u2003é\ud800", max_size=30)
pieces = st.lists(st.binary(max_size=20) | st.text("ab\x00", max_size=30).map(str.encode), max_size=60)
hashes = st.lists(st.sampled_from([0, 1, -1, 5, 2**31 - 1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1), max_size=80)


def joined(parts):
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(parts), np.uint8)


def same(left, right):
    if isinstance(left, tuple):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            same(one, other)
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.tolist() == right.tolist()
    else:
        assert left == right


def both(function, *arguments):
    expected = getattr(plain, function)(*arguments)
    found = getattr(compiled, function)(*arguments)
    same(found, expected)
    return found


@given(hashes, st.integers(0, 3), st.booleans())
def test_tables(values, room, masked):
    size = 1 << (len(values).bit_length() + room)
    entries = np.arange(len(values), dtype=np.int64) * 3
    valid = np.arange(len(values)) % 3 != 0 if masked else None
    both("fill_table", np.array(values, np.int32), entries, valid, size)
    both("fill_table", np.array(values, np.int32), None, None, size)


@pytest.mark.parametrize("kernel", [plain, compiled])
@pytest.mark.parametrize("size", [3, 2, 0])
def test_a_table_that_is_too_small_is_refused(kernel, size):
    with pytest.raises(InputError):
        kernel.fill_table(np.zeros(2, np.int32), None, None, size)


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([b"", b"a", b"ab", b"b\x00"])), max_size=3000))
def test_groups(rows):
    numbers = np.array([row[0] for row in rows], np.int64)
    columns = ((numbers, None), joined([row[1] for row in rows]))
    codes = (LONG, BYTES)
    hashed = hashing.combine_hash_index(
        [
            hashing.index_hash_long(numbers),
            hashing.bytes_hash(columns[1][1], columns[1][0][:-1], columns[1][0][1:]),
        ]
    )
    table, groups, firsts = both("group_rows", hashed, columns, codes)
    distinct = dict.fromkeys(rows)
    assert len(firsts) == len(distinct)
    roots = np.sort(np.array([len(row[1]) for row in rows], np.int32))
    offsets, members, _ = both("group_members", groups, len(firsts), roots, None)
    chosen = (roots * 7) % 5
    both("group_members", groups, len(firsts), roots, chosen.astype(np.int32))
    stale = np.array([0b101], np.uint64)
    asked = np.array([*range(len(firsts)), -1, *range(len(firsts))], np.int64)
    both("collect", asked, offsets, members, None, stale)
    both("collect", asked, offsets, members, None, None)
    keys = ((numbers[firsts], None), joined([rows[first][1] for first in firsts]))
    finders = [kernel.GroupFinder(table, keys, codes, offsets, members) for kernel in (plain, compiled)]
    for number in range(8):
        for text in (b"", b"a", b"c"):
            assert finders[0].find((number, text)) == finders[1].find((number, text))
            same(finders[1].members((number, text)), finders[0].members((number, text)))
    wanted = ((np.arange(12, dtype=np.int64), None), joined([b"a", b""] * 6))
    valid = np.arange(12) % 5 != 0
    assert finders[0].find_columns(wanted, valid, 12).tolist() == finders[1].find_columns(wanted, valid, 12).tolist()


@given(st.lists(st.none() | texts, max_size=30))
def test_encoding(values):
    both("encode_texts", values)


@given(st.binary(max_size=200))
def test_lower_case(data):
    found = both("lower_ascii", np.frombuffer(data, np.uint8))
    assert found.tobytes() == data.lower()


@given(pieces, st.binary(max_size=6))
def test_order(parts, wanted):
    offsets, data = joined(parts)
    order = both("sort_texts", offsets, data)
    ordered = joined([parts[place] for place in order])
    for behind in range(3):
        both("text_place", *ordered, wanted, behind)


@given(st.lists(st.binary(min_size=0, max_size=3), min_size=200, max_size=400), st.integers(0, 40))
def test_order_of_many_texts_that_share_a_long_start(parts, shared):
    both("sort_texts", *joined([b"x" * shared + part for part in parts]))


@given(st.lists(texts, max_size=20))
def test_words(values):
    encoded = [value.encode("utf-8", "surrogatepass") for value in values]
    rows, starts, ends = both("split_texts", *joined(encoded))
    whole = b"".join(encoded)
    words = [
        (row, whole[start:end].decode("utf-8", "surrogatepass"))
        for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True)
    ]
    assert words == [(row, word) for row, value in enumerate(values) for word in value.split()]


@pytest.fixture(scope="module")
def states():
    films = [
        *FILMS,
        Film(None, "no key", 1),
        Film(7, "again", 2),
        *(Film(n * 3, f"t{n % 9}", n % 4) for n in range(90)),
    ]
    state = catalogue(films, [(7, "dvd", 1), (8, None, 2)])
    from deltaic.kernels import _access

    return state, StateRecords(state.types, plain_access), StateRecords(state.types, _access)


@pytest.mark.parametrize("field", ["id", "year", "seen", "title", "cast"])
def test_tables_of_numbers(states, field):
    state, slow, fast = states
    number, position = slow.number("Film"), state["Film"].schema.position(field)
    words = state["Film"].populated.words
    same(
        compiled.number_table(fast.reader, number, position, words, 512),
        plain.number_table(slow.reader, number, position, words, 512),
    )


@pytest.mark.parametrize("step", [3, -7, 2**33])
def test_tables_of_numbers_without_nulls(step):
    from deltaic.kernels import _access

    state = catalogue([Film(number * step + 1, "t", number % 100) for number in range(200)])
    slow, fast = StateRecords(state.types, plain_access), StateRecords(state.types, _access)
    number, words = slow.number("Film"), state["Film"].populated.words
    for position in (0, 1):
        found = compiled.number_table(fast.reader, number, position, words, 512)
        same(found, plain.number_table(slow.reader, number, position, words, 512))
    assert found[2]


@pytest.mark.parametrize(
    "paths", [("id",), ("year",), ("note",), ("rating",), ("weight",), ("poster",), ("title", "year"), ("seen", "id")]
)
def test_finders(states, paths):
    state, slow, fast = states
    schema = state["Film"].schema
    number = slow.number("Film")
    key_paths = []
    for path in paths:
        position = schema.position(path)
        if path == "title":
            key_paths.append(KeyPath((position, 0), STRING))
        else:
            key_paths.append(KeyPath((position,), CODES[schema.fields[position].type]))
    from deltaic.index import PrimaryKeyIndex

    index = PrimaryKeyIndex.build(state, "Film", paths)
    stale = np.array([0b10010], np.uint64)
    tables = ((index.layers[0].entries.table, stale, False), (index.layers[0].entries.table[:0].copy(), None, False))
    with pytest.raises(InputError, match="power of two"):
        plain.KeyFinder(slow.reader, number, tuple(key_paths), tables)
    tables = tables[:1]
    one = plain.KeyFinder(slow.reader, number, tuple(key_paths), tables)
    other = compiled.KeyFinder(fast.reader, number, tuple(key_paths), tables)
    ordinals = np.arange(-1, state["Film"].max_ordinal + 3, dtype=np.int64)
    same(other.first_of(ordinals), one.first_of(ordinals))
    for ordinal in state["Film"].populated:
        key = index.key_of(ordinal)
        assert one.ordinal(key) == other.ordinal(key)
        assert one.ordinals(key) == other.ordinals(key)
        assert (one.get(key) is None) == (other.get(key) is None)
        assert (key in one) == (key in other)


@pytest.mark.parametrize("kernel_number", [0, 1])
def test_paths_that_lead_nowhere_are_refused(states, kernel_number):
    _, slow, fast = states
    kernel, reader = [(plain, slow.reader), (compiled, fast.reader)][kernel_number]
    film, actors = slow.number("Film"), slow.number("ListOfActor")
    table = (np.zeros(2, np.uint64), None, False)
    for number, paths in [
        (film, ()),
        (film, (KeyPath((), INT),)),
        (film, (KeyPath((99,), INT),)),
        (film, (KeyPath((0,), INT),)),
        (film, (KeyPath((0, 0), LONG),)),
        (actors, (KeyPath((0,), INT),)),
        (99, (KeyPath((0,), LONG),)),
        (film, (KeyPath((0,), LONG),) * 17),
    ]:
        with pytest.raises(InputError):
            kernel.KeyFinder(reader, number, paths, (table,))
    with pytest.raises(InputError, match="exact"):
        kernel.KeyFinder(reader, film, (KeyPath((7, 0), STRING),), ((np.zeros(2, np.uint64), None, True),))


def test_a_table_of_wrong_entries_finds_nothing_and_reads_nothing_outside(states):
    _, slow, fast = states
    film = slow.number("Film")
    wrong = np.full(
        8, np.uint64(hashing.hash_int_one(7) & 0xFFFFFFFF) << np.uint64(32) | np.uint64(0xFFFFFFF0), np.uint64
    )
    for kernel, reader in ((plain, slow.reader), (compiled, fast.reader)):
        for exact in (False, True):
            finder = kernel.KeyFinder(reader, film, (KeyPath((0,), LONG),), ((wrong, None, exact),))
            assert finder.ordinal(7) == -1
            assert finder.find_columns(((np.array([7, 8], np.int64), None),), None, 2).tolist() == [-1, -1]


@pytest.mark.parametrize("position", range(11))
def test_references_into_a_set(states, position):
    state, slow, fast = states
    for name in ("Film", "ListOfActor", "SetOfString", "MapOfStringToRelease"):
        schema = state[name].schema
        if name == "Film" and schema.fields[position].referenced is None:
            continue
        if name != "Film" and position > (1 if name.startswith("Map") else 0):
            continue
        number, parents = slow.number(name), state[name].populated.words
        for target in range(8):
            touched = np.array([1 << target], np.uint64)
            expected = plain.points_into(slow.reader, number, position, parents, touched)
            assert compiled.points_into(fast.reader, number, position, parents, touched) == expected
