"""The compiled kernels of the write side do what their plain twins do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.kernels.plain import ordinals as plain_ordinals
from deltaic.kernels.plain import records as plain

compiled = pytest.importorskip("deltaic.kernels._records", reason="the kernels are not compiled here")
compiled_ordinals = pytest.importorskip("deltaic.kernels._ordinals", reason="the kernels are not compiled here")

REFERENCE, INT, LONG, BOOLEAN, FLOAT, DOUBLE, STRING, BYTES = range(8)
NONE = np.zeros(0, np.int32)
NO_WORDS, NO_BYTES, NO_ENDS = np.zeros(0, np.uint64), np.zeros(0, np.uint8), np.zeros(0, np.int64)

raw_values = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from([0, 1, 127, 128, 2**31, 2**31 - 1, 2**63, 2**63 - 1, 2**64 - 1, 2**64 - 2**31]),
    st.sampled_from([0x7FC00000, 0x7FC00001, 0xFFC00000, 0x7F800000, 0x7FF8000000000001, 0xFFF8000000000000]),
)
units = st.lists(st.integers(0, 0xFFFF), max_size=6).map(lambda given: plain.encode_varints(np.array(given, np.int64)))
small = st.integers(0, 300) | st.integers(0, 2**31 - 1)


def ends_of(pieces):
    return np.cumsum([len(piece) for piece in pieces], dtype=np.int64) if len(pieces) else NO_ENDS


def packed(pieces):
    return np.frombuffer(b"".join(bytes(piece) for piece in pieces), np.uint8), ends_of(pieces)


@st.composite
def objects(draw, fewest=0):
    """Field kinds, the columns of some records, and their number."""
    kinds = np.array(draw(st.lists(st.integers(0, 7), max_size=5)), np.uint8)
    count = draw(st.integers(fewest, 12))
    columns = []
    for kind in kinds.tolist():
        valid = draw(st.none() | st.lists(st.booleans(), min_size=count, max_size=count))
        mask = NO_BYTES if valid is None else np.array(valid, np.uint8)
        if kind in (STRING, BYTES):
            texts = draw(st.lists(units if kind == STRING else st.binary(max_size=9), min_size=count, max_size=count))
            data, ends = packed(texts)
            columns.append((NO_WORDS, mask, np.concatenate((np.zeros(1, np.int64), ends)), data))
            continue
        limit = {REFERENCE: 2**31, BOOLEAN: 2}.get(kind, 2**64)
        values = draw(st.lists(raw_values.map(lambda value, top=limit: value % top), min_size=count, max_size=count))
        columns.append((np.array(values, np.uint64), mask, NO_ENDS, NO_BYTES))
    return kinds, columns, count


@st.composite
def collections(draw):
    """Offsets of some collections, keys, values, hash codes (or none)."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 7, 11, 12, 23, 24, 60]), max_size=6))
    total = sum(sizes)
    keys, values = (np.array(draw(st.lists(small, min_size=total, max_size=total)), np.int32) for _ in range(2))
    hashes = draw(st.none() | st.lists(st.integers(-(2**31), 2**31 - 1), min_size=total, max_size=total))
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))
    return offsets, keys, values, NONE if hashes is None else np.array(hashes, np.int32)


def assert_same(function, *arguments):
    wanted, found = getattr(plain, function)(*arguments), getattr(compiled, function)(*arguments)
    if not isinstance(wanted, tuple):
        wanted, found = (wanted,), (found,)
    for left, right in zip(wanted, found, strict=True):
        assert np.array_equal(left, right), function
        assert getattr(left, "dtype", None) == getattr(right, "dtype", None)
    return wanted


def arena_of(data, ends, places):
    """The records in an arena, in the order of `places`, and where each ordinal's starts."""
    bounds = [0, *ends.tolist()]
    arena, starts = b"", np.empty(len(ends), np.int64)
    for ordinal in places:
        starts[ordinal] = len(arena)
        arena += data[bounds[ordinal] : bounds[ordinal + 1]].tobytes()
    return np.frombuffer(arena + bytes(16), np.uint8), starts


@given(objects())
def test_objects_are_serialized_alike(made):
    kinds, columns, count = made
    data, ends = assert_same("serialize_objects", kinds, columns, count)
    assert plain.first_bad_object(data, ends, kinds) == compiled.first_bad_object(data, ends, kinds) == -1


@given(objects(), st.data())
def test_objects_are_measured_and_packed_alike(made, data):
    kinds, columns, count = made
    serialized = plain.serialize_objects(kinds, columns, count)
    shuffled = data.draw(st.permutations(range(count)))
    arena, starts = arena_of(*serialized, shuffled)
    ordinals = np.arange(count, dtype=np.int32)
    figures = []
    for kernel in (plain, compiled):
        widths, totals = np.zeros((len(kinds), 66), np.int64), np.zeros(len(kinds), np.int64)
        kernel.object_statistics(arena, starts, ordinals, kinds, 1, widths, totals)
        figures.append((widths.copy(), totals.copy()))
        kernel.object_statistics(arena, starts, ordinals, kinds, -1, widths, totals)
        assert not widths.any() and not totals.any()
    for left, right in zip(*figures, strict=True):
        assert np.array_equal(left, right)
    widths, totals = figures[0]
    bits = np.array(
        [
            1 + int(total + 1).bit_length() if kind >= STRING else max(np.flatnonzero(row), default=0)
            for kind, total, row in zip(kinds.tolist(), totals.tolist(), widths, strict=True)
        ],
        np.int32,
    )
    holes = data.draw(st.lists(st.integers(0, count), max_size=20))
    slots = np.insert(np.array(data.draw(st.permutations(range(count))), np.int32), holes, -1)
    results = []
    for kernel in (plain, compiled):
        words = np.zeros(8 * ((int(bits.sum()) * len(slots) + 63) // 64), np.uint8)
        variable = [np.zeros(total, np.uint8) for total in totals.tolist()]
        used = np.zeros(len(kinds), np.int64)
        kernel.pack_objects(arena, starts, slots, kinds, bits, words, variable, used)
        results.append((words, used, *variable))
        again, counted = np.zeros_like(words), np.zeros_like(used)
        kernel.pack_objects(arena, starts, slots, kinds, bits, again, [arena[:0]] * len(kinds), counted)
        assert np.array_equal(words, again) and np.array_equal(used, counted)
    for left, right in zip(*results, strict=True):
        assert np.array_equal(left, right)
    for field in np.flatnonzero(kinds >= STRING).tolist():
        begins, ends = assert_same("field_ranges", arena, starts, slots, kinds, field)
        assert np.array_equal(compiled.gather_ranges(arena, begins, ends)[1], results[0][2 + field][: used[field]])


@given(objects(fewest=1), st.data())
def test_objects_are_projected_and_looked_into_alike(made, data):
    kinds, columns, count = made
    serialized = plain.serialize_objects(kinds, columns, count)
    fields = np.array(data.draw(st.permutations(range(len(kinds)))), np.int64)
    assert_same("project_objects", *serialized, kinds, fields[: data.draw(st.integers(0, len(fields)))])
    arena, starts = arena_of(*serialized, range(count))
    ordinals = np.arange(count, dtype=np.int32)
    for field, kind in enumerate(kinds.tolist()):
        assert_same("key_field_hashes", arena, starts, ordinals, kinds, field)
        if kind == REFERENCE:
            assert_same("follow", arena, starts, ordinals, kinds, field)


@given(collections(), st.integers(0, 2), st.data())
def test_collections_are_serialized_measured_and_packed_alike(made, buckets, data):
    offsets, keys, values, hashes = made
    count = len(offsets) - 1
    lists = assert_same("serialize_lists", offsets, keys)
    sets = assert_same("serialize_sets", offsets, keys, hashes, buckets)
    maps = assert_same("serialize_maps", offsets, keys, values, hashes, buckets)
    assert_same("first_bad_collection", *lists, 1, 0)
    if buckets == 0:
        return
    assert_same("first_bad_collection", *sets, 1, 1)
    assert_same("first_bad_collection", *maps, 2, 1)
    assert_same("strip_buckets", *sets, 1)
    assert_same("strip_buckets", *maps, 2)
    ordinals = np.arange(count, dtype=np.int32)
    slots = np.array(data.draw(st.lists(st.sampled_from([-1, *range(count)]), max_size=8)), np.int32)
    shards = data.draw(st.sampled_from([1, 2, 4]))
    placed = data.draw(st.booleans())
    largest = int(keys.max(initial=0))
    key_hashes = NONE
    if placed and largest < 10_000:
        key_hashes = np.arange(largest + 1, dtype=np.int32)[::-1] * np.int32(77)
    for kind, serialized in (("list", lists), ("set", sets), ("map", maps)):
        arena, starts = arena_of(*serialized, data.draw(st.permutations(range(count))))
        results = []
        for kernel in (plain, compiled):
            histograms = [np.zeros(66, np.int64) for _ in range({"list": 1, "set": 2, "map": 3}[kind])]
            totals = np.zeros(shards, np.int64)
            getattr(kernel, f"{kind}_statistics")(arena, starts, ordinals, 1, *histograms, totals)
            carry = np.array([5, 3], np.uint64)
            pointers = np.zeros(8 * 16, np.uint8)
            words = np.zeros(8 * 2048, np.uint8)
            if kind == "list":
                end = kernel.pack_list_pointers(arena, starts, slots, 11, 7, pointers)
                used = kernel.pack_list_elements(arena, starts, slots, 31, carry, words)
            else:
                end = kernel.pack_table_pointers(arena, starts, slots, 13, 7, 9, pointers)
                if kind == "set":
                    used = kernel.pack_set_buckets(arena, starts, slots, 32, key_hashes, carry, words)
                else:
                    used = kernel.pack_map_buckets(arena, starts, slots, 32, 31, key_hashes, carry, words)
                assert np.array_equal(
                    kernel.members(arena, starts, ordinals, 1 if kind == "set" else 2),
                    plain.members(arena, starts, ordinals, 1 if kind == "set" else 2),
                )
            results.append((*histograms, totals, pointers, words[:used], carry, np.array([end, used])))
        for left, right in zip(*results, strict=True):
            assert np.array_equal(left, right), kind


@given(st.lists(st.binary(max_size=12), max_size=12), st.lists(st.integers(0, 7), max_size=4))
def test_hostile_bytes_are_refused_alike(pieces, kinds):
    data, ends = packed(pieces)
    assert_same("first_bad_object", data, ends, np.array(kinds, np.uint8))
    for form in ((1, 0), (1, 1), (2, 1)):
        assert_same("first_bad_collection", data, ends, *form)


@given(objects(fewest=1), st.data())
def test_bytes_that_were_changed_are_refused_alike(made, data):
    kinds, columns, count = made
    serialized, ends = plain.serialize_objects(kinds, columns, count)
    if not len(serialized):
        return
    mutated = serialized.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(
            st.sampled_from([0, 1, 0x7F, 0x80, 0x81, 0xFF])
        )
    assert_same("first_bad_object", mutated, ends, kinds)


@given(st.lists(st.binary(max_size=20) | st.binary(max_size=2), max_size=40), st.data())
def test_records_are_sorted_alike(pieces, data):
    rows = np.array(data.draw(st.lists(st.sampled_from(range(len(pieces))), unique=True)) if pieces else [], np.int64)
    (order,) = assert_same("sort_records", *packed(pieces), rows)
    assert [pieces[row] for row in order.tolist()] == sorted(pieces[row] for row in rows.tolist())


@given(st.lists(st.binary(max_size=6), max_size=9), st.data())
def test_ranges_are_gathered_and_scattered_alike(pieces, data):
    blob, ends = packed(pieces)
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(ends) else NO_ENDS
    order = np.array(data.draw(st.permutations(range(len(pieces)))), np.int64)
    offsets, gathered = assert_same("gather_ranges", blob, starts[order], ends[order])
    back = [np.zeros(len(blob), np.uint8) for _ in range(2)]
    plain.scatter_ranges(gathered, offsets, back[0], starts[order])
    compiled.scatter_ranges(gathered, offsets, back[1], starts[order])
    assert np.array_equal(back[0], blob) and np.array_equal(back[1], blob)


@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=4), st.integers(0, 70), st.sampled_from([1, 2, 8]), st.integers(0, 99)
)
def test_slots_are_told_alike(words, first, stride, count):
    assert_same("populated_slots", np.array(words, np.uint64), first, stride, count)


@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 300), max_size=30))
def test_varints_are_encoded_alike(values):
    assert_same("encode_varints", np.array(values, np.int64))


def ordinal_calls():
    records = st.lists(st.binary(max_size=3) | st.binary(min_size=7, max_size=40), max_size=12)
    return st.lists(
        st.tuples(st.just("assign"), records)
        | st.tuples(st.just("add"), st.binary(max_size=3))
        | st.tuples(st.just("find"), records)
        | st.tuples(st.just("retain"), st.integers(0, 2**64 - 1))
        | st.tuples(st.just("unmark"), st.lists(st.integers(0, 500), max_size=5))
        | st.tuples(st.just("restore"), st.integers(1, 2**40)),
        max_size=12,
    )


@settings(max_examples=200)
@given(ordinal_calls(), st.sampled_from([1, 4]), st.data())
def test_ordinal_maps_number_alike(calls, partitions, data):
    maps = [plain_ordinals.OrdinalMap(partitions), compiled_ordinals.OrdinalMap(partitions)]
    for name, argument in calls:
        if name == "assign":
            order = preferred = None
            if data.draw(st.booleans()) and argument:
                order = np.array(data.draw(st.permutations(range(len(argument)))), np.int64)
            if data.draw(st.booleans()):
                preferred = np.array(
                    data.draw(st.lists(st.integers(-1, 50), min_size=len(argument), max_size=len(argument))), np.int32
                )
            results = [each.assign(*packed(argument), order, preferred) for each in maps]
        elif name == "add":
            results = [np.array(each.add(argument)) for each in maps]
        elif name == "find":
            results = [each.find(*packed(argument)) for each in maps]
        elif name == "unmark":
            results = [each.unmark(np.array(argument, np.int64)) or np.zeros(0) for each in maps]
        elif name == "retain":
            freed = OrdinalBits(maps[0].held).minus(argument)
            for each in maps:
                each.retain(np.array([argument], np.uint64))
                pools = [
                    np.sort(np.concatenate((left, freed[freed % partitions == part]))).astype(np.int32)
                    for part, left in enumerate(each.free)
                ]
                each.set_free(pools, each.next_local)
                each.populated = np.zeros(0, np.uint64)
            results = [np.zeros(0), np.zeros(0)]
        else:
            results = []
            for position in range(2):
                fresh = [plain_ordinals, compiled_ordinals][position].OrdinalMap(partitions)
                fresh.reserve(np.array([argument], np.uint64))
                fresh.set_free([np.zeros(0, np.int32)] * partitions, [64 // partitions] * partitions)
                maps[position] = fresh
                names = np.array([argument.bit_length() - 1], np.int32)
                results.append(fresh.assign(*packed([b"claims"]), None, names))
        assert np.array_equal(*results)
        assert_same_content(*maps)


class OrdinalBits:
    """The ordinals of some words."""

    def __init__(self, words):
        self._flags = np.unpackbits(words.view(np.uint8), bitorder="little")

    def minus(self, live):
        kept = np.unpackbits(np.array([live], np.uint64).view(np.uint8), bitorder="little")
        flags = self._flags.copy()
        flags[:64] &= ~kept[: len(flags)]
        return np.flatnonzero(flags)


def assert_same_content(left, right):
    assert len(left) == len(right)
    assert left.max_ordinal == right.max_ordinal
    assert left.nbytes == right.nbytes
    for what in ("held", "populated", "unclaimed"):
        assert np.array_equal(getattr(left, what), getattr(right, what)), what
    assert left.next_local == right.next_local
    for mine, theirs in zip(left.free, right.free, strict=True):
        assert np.array_equal(mine, theirs)
    held = np.flatnonzero(np.unpackbits(left.held.view(np.uint8), bitorder="little"))
    for ordinal in held.tolist():
        record = left.record(ordinal)
        assert record == right.record(ordinal)
        for each in (left, right):
            start = int(each.starts[ordinal])
            assert each.arena[start : start + len(record)].tobytes() == record


def test_a_large_map_keeps_every_record_through_growth_removal_and_compaction():
    random = np.random.default_rng(5)
    pieces = [b"%d:%s" % (number, b"x" * int(random.integers(0, 40))) for number in range(60_000)]
    held = compiled_ordinals.OrdinalMap()
    data, ends = packed(pieces)
    assert np.array_equal(held.assign(data, ends), np.arange(len(pieces)))
    for step in (3, 2):
        live = OrdinalBits(held.held)._flags.copy()
        live[::step] = 0
        held.retain(np.packbits(live, bitorder="little").view(np.uint64))
        kept = np.flatnonzero(live)
        assert len(held) == len(kept)
        found = held.find(data, ends)
        assert np.array_equal(np.flatnonzero(found >= 0), kept)
        assert np.array_equal(found[kept], kept)
    assert all(held.record(ordinal) == pieces[ordinal] for ordinal in kept.tolist())
    assert len(held.arena) < len(data)


def test_equal_records_that_were_put_are_found_in_the_order_they_came():
    for kernel in (plain_ordinals, compiled_ordinals):
        held = kernel.OrdinalMap()
        held.put(*packed([b"same", b"same", b"other"]), np.array([9, 4, 2], np.int32))
        assert held.find(*packed([b"same"])).tolist() == [9]
        held.retain(np.array([1 << 4 | 1 << 2], np.uint64))
        assert held.find(*packed([b"same", b"other"])).tolist() == [4, 2]
