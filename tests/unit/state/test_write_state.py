"""The write state takes records, refuses what cannot be written, and goes from cycle to cycle."""

import io
import random

import numpy as np
import pytest

from deltaic.errors import InputError, NotFoundError, SchemaError
from deltaic.schema.text import parse_schemas
from deltaic.state.dump import dump_records
from deltaic.state.read import ReadState
from deltaic.state.write import NO_TAG, RESHARDING_TAG, BlobPart, WriteState
from deltaic.state.write_columns import Column, VariableColumn
from deltaic.wire import write_shards
from deltaic.wire.write_header import Envelope

MODEL = parse_schemas("""
T { int i; long l; boolean b; float f; double d; string s; bytes y; T t; Gone g; }
L List<T>;
S Set<T>;
K Set<T> @HashKey(s);
M Map<T,T>;
""")


@pytest.fixture
def state():
    return WriteState(MODEL)


def blob(write, **options):
    stream = io.BytesIO()
    write(stream, **options)
    return stream.getvalue()


def written(state):
    return ReadState.load(blob(state.write_snapshot))


def only_record(state, **values):
    state.add_object("T", values)
    (record,) = dump_records(written(state).types["T"], written(state).types["T"].populated).values()
    return dict(zip((field.name for field in MODEL.object_schema("T").fields), record, strict=True))


class TestSingleRecords:
    def test_the_smallest_numbers_become_null(self, state):
        record = only_record(state, i=-(2**31), l=-(2**63))
        assert record["i"] is None and record["l"] is None

    def test_every_nan_is_the_same_record(self, state):
        ordinals = {
            state.add_object("T", {"f": value, "d": value})
            for value in (float("nan"), -float("nan"), np.float64("nan"))
        }
        assert ordinals == {0}

    def test_null_and_nan_are_different_records(self, state):
        assert state.add_object("T", {"f": float("nan")}) != state.add_object("T", {"f": None})

    def test_negative_zero_is_another_record_than_zero(self, state):
        assert state.add_object("T", {"d": 0.0}) != state.add_object("T", {"d": -0.0})

    def test_explicit_null_of_a_text_is_a_record_of_its_own(self, state):
        record = state.record("T")
        record.set_null("s")
        record.set_null("i")
        first = state.add_object("T", record)
        record.reset()
        assert state.add_object("T", record) == state.add_object("T", {}) != first

    @pytest.mark.parametrize(
        ("values", "code", "message"),
        [
            ({"x": 1}, "UnknownField", "no field 'x'"),
            ({"i": 2**31}, "OutOfRange", "T.i: 2147483648"),
            ({"l": -(2**63) - 1}, "OutOfRange", "T.l: -9223372036854775809"),
            ({"i": 1.0}, "WrongType", "T.i is INT: 1.0 is a float"),
            ({"i": True}, "WrongType", "T.i is INT: True"),
            ({"b": 1}, "WrongType", "T.b is BOOLEAN"),
            ({"f": 1e39}, "OutOfRange", "T.f: 1e+39"),
            ({"d": "1"}, "WrongType", "T.d is DOUBLE"),
            ({"s": b"x"}, "WrongType", "T.s is STRING"),
            ({"y": "x"}, "WrongType", "T.y is BYTES"),
            ({"t": 0}, "OutOfRange", "T.t: type T has no record 0"),
            ({"t": -1}, "OutOfRange", "T.t: -1 is no ordinal"),
            ({"t": "0"}, "WrongType", "T.t: '0' is no ordinal"),
        ],
    )
    def test_a_value_that_cannot_be_is_refused_by_name(self, state, values, code, message):
        with pytest.raises(InputError) as refused:
            state.add_object("T", values)
        assert refused.value.code == code
        assert message in str(refused.value)
        assert len(state.populated("T")) == 0

    def test_a_reusable_record_is_checked_like_a_mapping(self, state):
        record = state.record("T")
        record.set("t", 3)
        with pytest.raises(InputError, match="no record 3"):
            state.add_object("T", record)
        record.set("t", None)
        assert state.add_object("T", record) == 0

    def test_a_reference_out_of_the_model_is_any_ordinal(self, state):
        assert only_record(state, g=12345)["g"] == 12345

    def test_collections_refuse_elements_that_are_not_there(self, state):
        state.add_object("T", {})
        for add in (
            lambda: state.add_list("L", [0, 1]),
            lambda: state.add_set("S", [1]),
            lambda: state.add_map("M", {0: 1}),
            lambda: state.add_map("M", {1: 0}),
        ):
            with pytest.raises(InputError, match="no record 1"):
                add()

    def test_hash_codes_must_match_the_elements(self, state):
        state.add_object("T", {})
        with pytest.raises(InputError, match="1 elements, 2 hash codes"):
            state.add_set("S", [0], [1, 2])
        with pytest.raises(InputError, match="no 32-bit hash code"):
            state.add_set("S", [0], [2**32])

    def test_hash_codes_belong_to_the_identity_of_a_set(self, state):
        for number in range(3):
            state.add_object("T", {"i": number})
        assert state.add_set("S", [0, 1]) == state.add_set("S", [1, 0]) == state.add_set("S", [0, 1], [0, 1])
        assert state.add_set("S", [0, 1], [5, 6]) == 1

    def test_the_kind_of_a_type_is_checked(self, state):
        with pytest.raises(InputError, match="type T is of kind OBJECT"):
            state.add_list("T", [])
        with pytest.raises(NotFoundError, match="'Movie'"):
            state.add_object("Movie", {})


class TestColumns:
    def test_a_field_without_a_column_is_null(self, state):
        assert state.add_objects("T", {"i": np.array([1, 2, 1])}).tolist() == [0, 1, 0]
        assert state.add_object("T", {"i": 2}) == 1

    def test_records_without_any_column_need_a_count(self, state):
        assert state.add_objects("T", {}, 2).tolist() == [0, 0]
        with pytest.raises(InputError, match="neither columns nor a count"):
            state.add_objects("T", {})

    def test_values_of_missing_rows_are_not_looked_at(self, state):
        valid = np.array([True, False])
        column = Column(np.array([1, 2**40]), valid)
        broken = VariableColumn(np.array([0, 1, 2]), np.array([0x61, 0xFF], np.uint8), valid)
        ordinals = state.add_objects("T", {"i": column, "s": broken})
        assert state.add_object("T", {"i": 1, "s": "a"}) == ordinals[0]
        assert state.add_object("T", {}) == ordinals[1]

    @pytest.mark.parametrize(
        ("columns", "code", "message"),
        [
            ({"z": np.zeros(1)}, "UnknownField", "no field 'z'"),
            ({"i": np.array([0, 2**31])}, "OutOfRange", "T.i, row 1: 2147483648"),
            ({"l": np.array([0, 2**63], np.uint64)}, "OutOfRange", "T.l, row 1: 9223372036854775808"),
            ({"i": np.array([0.5])}, "WrongType", "T.i is INT: its column holds float64"),
            ({"b": np.array([1])}, "WrongType", "T.b is BOOLEAN"),
            ({"f": np.array([0.1])}, "WrongType", "T.f is FLOAT: its column holds float64"),
            ({"t": np.array([0])}, "OutOfRange", "T.t, row 0: 0 is out of the range of ordinal"),
            ({"g": np.array([-1])}, "OutOfRange", "T.g, row 0: -1"),
            ({"i": np.zeros(2, np.int32), "l": np.zeros(3, np.int64)}, "Lengths", "T.l: 3 rows where 2"),
            ({"i": Column(np.zeros(2, np.int32), np.ones(1, np.bool_))}, "Lengths", "1 validities for 2"),
            ({"i": VariableColumn(np.zeros(2, np.int64), np.zeros(0, np.uint8))}, "WrongType", "T.i is INT"),
            ({"s": VariableColumn(np.array([0, 2]), np.zeros(1, np.uint8))}, "Offsets", "T.s: offsets"),
            ({"s": VariableColumn(np.array([0, 1, 0]), np.zeros(1, np.uint8))}, "Offsets", "T.s: offsets"),
            ({"s": VariableColumn(np.array([-1, 0]), np.zeros(1, np.uint8))}, "Offsets", "T.s: offsets"),
            ({"s": VariableColumn(np.array([0, 1, 2]), np.array([97, 0xC3], np.uint8))}, "BadText", "T.s, row 1"),
        ],
    )
    def test_a_column_that_cannot_be_is_refused_by_name(self, state, columns, code, message):
        with pytest.raises(InputError) as refused:
            state.add_objects("T", columns)
        assert refused.value.code == code
        assert message in str(refused.value)
        assert len(state.populated("T")) == 0

    def test_raw_bits_are_taken_for_floats(self, state):
        bits = state.add_objects("T", {"f": np.array([0x3F800000, 0xFFC12345], np.uint32)})
        values = state.add_objects("T", {"f": np.array([1.0, np.nan], np.float32)})
        assert bits.tolist() == values.tolist()

    def test_text_may_arrive_in_hollows_own_form(self, state):
        word = "héł😀"
        utf8 = np.frombuffer(word.encode(), np.uint8)
        assert state.add_object("T", {"s": word}) == 0
        assert state.add_objects("T", {"s": VariableColumn(np.array([0, len(utf8)]), utf8)}).tolist() == [0]

    def test_offsets_need_not_start_at_zero(self, state):
        data = np.frombuffer("xxéa".encode(), np.uint8)
        ordinals = state.add_objects("T", {"s": VariableColumn(np.array([2, 4, 5]), data)})
        assert ordinals.tolist() == [state.add_object("T", {"s": "é"}), state.add_object("T", {"s": "a"})]

    def test_collections_of_no_rows_are_fine(self, state):
        nothing, none = np.zeros(1, np.int64), np.zeros(0, np.int32)
        assert state.add_lists("L", nothing, none).tolist() == []
        assert state.add_sets("S", nothing, none).tolist() == []
        assert state.add_maps("M", nothing, none, none).tolist() == []
        assert state.add_objects("T", {"i": none}).tolist() == []

    def test_an_element_that_is_not_there_is_named_with_its_row(self, state):
        state.add_object("T", {})
        with pytest.raises(InputError, match="type L, row 1: element 3"):
            state.add_lists("L", np.array([0, 1, 3]), np.array([0, 0, 3]))
        with pytest.raises(InputError, match="2 keys, 1 values"):
            state.add_maps("M", np.array([0, 1]), np.array([0, 0]), np.array([0]))

    def test_serialized_records_are_checked(self, state):
        kinds = MODEL.object_schema("T")
        good = bytes.fromhex("80" * 3 + "7fc00001" + "7ff8000000000001" + "80" * 4)
        assert len(kinds.fields) == 9
        data = np.frombuffer(good, np.uint8)
        assert state.add_serialized("T", data, np.array([len(data)])).tolist() == [0]
        assert state.add_object("T", {}) == 0
        with pytest.raises(InputError, match="row 1: the bytes are no serialized OBJECT"):
            state.add_serialized("T", np.concatenate((data, data[:-1])), np.array([len(data), 2 * len(data) - 1]))
        with pytest.raises(InputError, match="must rise to the end"):
            state.add_serialized("T", data, np.array([3]))
        with pytest.raises(InputError, match="no serialized LIST"):
            state.add_serialized("L", np.array([2, 0], np.uint8), np.array([2]))


class TestCycles:
    def test_nothing_can_be_added_between_preparing_and_the_next_cycle(self, state):
        state.add_object("T", {})
        state.prepare()
        for change in (
            lambda: state.add_object("T", {}),
            lambda: state.add_lists("L", np.zeros(1), np.zeros(0)),
            lambda: state.remove("T", 0),
            state.keep_all_from_previous,
            lambda: state.writer("T"),
        ):
            with pytest.raises(InputError, match="next_cycle"):
                change()
        state.next_cycle()
        assert state.add_object("T", {}) == 0

    def test_a_cycle_that_was_not_prepared_goes_on(self, state):
        state.add_object("T", {})
        tag = state.tag
        state.next_cycle()
        assert state.tag == tag and len(state.populated("T")) == 1

    def test_a_freed_ordinal_comes_back_a_version_later_smallest_first(self, state):
        for version in ([1, 2, 3, 4], [2, 4], [2, 4, 5, 6, 7]):
            ordinals = [state.add_object("T", {"i": value}) for value in version]
            state.prepare()
            state.next_cycle()
        # 5, 6 and 7 got the ordinals of 1 and 3, then a new one.
        assert ordinals == [1, 3, 0, 2, 4]

    def test_a_record_removed_in_its_own_cycle_still_counts_for_the_highest_ordinal(self, state):
        state.add_object("T", {"i": 1})
        state.remove("T", state.add_object("T", {"i": 2}))
        assert written(state).types["T"].max_ordinal == 1

    def test_only_records_of_the_version_before_can_be_kept(self, state):
        state.add_object("T", {"i": 1})
        state.prepare()
        state.next_cycle()
        state.keep("T", 0)
        assert state.populated("T").ordinals().tolist() == [0]
        with pytest.raises(InputError, match="ordinal 1 was not populated"):
            state.keep("T", np.array([0, 1]))

    def test_ordinals_to_remove_are_numbers(self, state):
        with pytest.raises(InputError, match="numbers from 0"):
            state.remove("T", -1)
        with pytest.raises(InputError, match="numbers from 0"):
            state.remove("T", np.array([0.5]))

    def test_a_delta_without_changes_is_only_a_header(self, state):
        state.add_object("T", {})
        state.prepare()
        state.next_cycle()
        state.add_object("T", {})
        assert not state.has_changed()
        delta = blob(state.write_delta)
        assert len(delta) == 4 + 8 + 8 + len(b"\x02\x00\x00") + 2 + 1

    def test_a_header_file_is_how_a_snapshot_starts(self, state):
        state.header_tags["a"] = "b"
        header = blob(state.write_header)
        assert blob(state.write_snapshot).startswith(header)
        assert len(header) < 200

    def test_the_ordinals_of_a_type_can_run_out(self, state):
        writer = state.writer("T")
        writer.ordinals.map.set_free([np.zeros(0, np.int32)], [2**29])
        with pytest.raises(InputError, match=r"no ordinal is left.*partitioned=True"):
            state.add_object("T", {})


class TestTags:
    def test_drawn_tags_keep_off_what_java_keeps_off(self):
        class Scripted(random.Random):
            def __init__(self, values):
                super().__init__()
                self._values = iter(values)

            def getrandbits(self, _):
                return next(self._values)

        drawn = Scripted([0x0000_0000_FFFF_FFFF, 0xFFFF_FFFF_0000_0001, 7 << 32 | 1, 7 << 32 | 2, 8 << 32])
        state = WriteState(MODEL, randomness=drawn)
        assert state.previous_tag == NO_TAG
        assert state.tag == 7 << 32 | 1
        state.prepare()
        state.next_cycle()
        assert (state.previous_tag, state.tag) == (7 << 32 | 1, 8 << 32)

    def test_a_given_tag_may_be_signed(self, state):
        state.set_tag(-2)
        assert state.tag == 2**64 - 2
        with pytest.raises(InputError, match="no 64-bit"):
            state.set_tag(2**64)

    def test_a_failed_version_never_shares_its_tag_with_the_next_try(self, state):
        tag = state.tag
        state.reset_to_last()
        assert state.tag != tag

    def test_a_reverse_delta_carries_the_tags_of_where_it_leads(self, state):
        state.header_tags["only"] = "first"
        first = written(state)
        state.next_cycle()
        del state.header_tags["only"]
        state.add_object("T", {})
        second = written(state)
        assert dict(second.header_tags) == {}
        assert dict(second.apply(blob(state.write_reverse_delta)).header_tags) == {"only": "first"}
        assert dict(first.apply(blob(state.write_delta)).header_tags) == {}


class TestHashKeys:
    def test_a_null_key_is_refused_by_name(self, state):
        state.add_set("K", [state.add_object("T", {"i": 5})])
        with pytest.raises(InputError, match="type K: hash key path s is null for element 0 of type T"):
            state.write_snapshot(io.BytesIO())

    def test_a_null_text_before_the_key_is_no_obstacle(self):
        state = WriteState(parse_schemas("T { string before; int key; } K Set<T> @HashKey(key);"))
        state.add_set("K", [state.add_object("T", {"key": 5})])
        assert written(state).types["K"].populated.ordinals().tolist() == [0]

    def test_a_key_that_cannot_be_followed_places_by_ordinal(self):
        keyed = WriteState(parse_schemas("T { int i; } K Set<T> @HashKey(missing);"), tag=9 << 40)
        plain = WriteState(parse_schemas("T { int i; } K Set<T>;"), tag=9 << 40)
        for state in (keyed, plain):
            ordinals = [state.add_object("T", {"i": number}) for number in range(9)]
            state.add_set("K", ordinals)
        left, right = (written(state).types["K"] for state in (keyed, plain))
        assert list(dump_records(left, left.populated).values()) == list(dump_records(right, right.populated).values())


class TestShards:
    def test_a_number_of_shards_is_a_power_of_two(self):
        with pytest.raises(InputError, match="power of two"):
            WriteState(MODEL, pinned_shards={"T": 3})
        with pytest.raises(NotFoundError, match="'Movie'"):
            WriteState(MODEL, pinned_shards={"Movie": 2})
        with pytest.raises(InputError, match="must be positive"):
            WriteState(MODEL, target_shard_bytes=0)

    def test_the_first_write_decides_and_later_ones_keep_to_it(self):
        state = WriteState(MODEL, target_shard_bytes=100)
        assert set(state.shard_counts().values()) == {None}
        state.add_objects("T", {"i": np.arange(100)})
        state.prepare()
        first = state.shard_counts()["T"]
        assert first > 1
        state.next_cycle()
        state.add_objects("T", {"i": np.arange(2000)})
        state.prepare()
        assert state.shard_counts()["T"] == first

    def test_resharding_goes_one_step_per_cycle_and_says_so(self):
        state = WriteState(MODEL, target_shard_bytes=10_000, allow_resharding=True)
        state.add_objects("T", {"i": np.arange(100)})
        state.prepare()
        assert state.shard_counts()["T"] == 1
        for expected in (2, 4):
            state.next_cycle()
            state.target_shard_bytes = 10
            state.header_tags.pop(RESHARDING_TAG, None)
            state.add_objects("T", {"i": np.arange(100)})
            assert state.has_changed() is False
            state.prepare()
            assert state.has_changed() is True
            assert state.shard_counts()["T"] == expected
            assert state.header_tags[RESHARDING_TAG] == f"T:({expected // 2},{expected})"

    def test_a_failed_resharding_is_taken_back(self):
        state = WriteState(MODEL, target_shard_bytes=10_000, allow_resharding=True)
        state.add_objects("T", {"i": np.arange(100)})
        state.prepare()
        state.next_cycle()
        state.target_shard_bytes = 10
        state.add_objects("T", {"i": np.arange(100)})
        state.prepare()
        state.reset_to_last()
        assert state.shard_counts()["T"] == 1

    def test_an_envelope_without_shard_counts_needs_one_shard(self):
        state = WriteState(MODEL, pinned_shards={"L": 2})
        with pytest.raises(InputError, match="type L has 2 shards"):
            state.write_snapshot(io.BytesIO(), envelope=Envelope(shard_counts=False))

    @pytest.mark.parametrize("shards", [1, 2])
    def test_the_size_of_pieces_does_not_show(self, shards, monkeypatch):
        model = parse_schemas("T { int i; string s; boolean b; } L List<T>; S Set<T>; M Map<T,T>;")
        blobs = []
        for chunk, held, piece in ((write_shards.CHUNK, 1 << 20, 1 << 20), (64, 0, 7), (128, 0, 1 << 20)):
            monkeypatch.setattr(write_shards, "CHUNK", chunk)
            monkeypatch.setattr(write_shards, "HELD_BYTES", held)
            monkeypatch.setattr(write_shards, "PIECE_BYTES", piece)
            state = WriteState(model, tag=5 << 40, pinned_shards=dict.fromkeys(model.names, shards))
            ends = np.cumsum(np.arange(331) % 5)
            words = VariableColumn(ends, (97 + np.arange(int(ends[-1])) % 20).astype(np.uint8), np.arange(330) % 3 > 0)
            ordinals = state.add_objects("T", {"i": np.arange(330) * 977, "s": words})
            offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.arange(330) % 9)))
            members = np.resize(ordinals, int(offsets[-1]))
            state.add_lists("L", offsets, members[::-1])
            state.add_sets("S", offsets, members)
            state.add_maps("M", offsets, members, members[::-1])
            blobs.append((blob(state.write_snapshot), blob(state.write_delta)))
        assert blobs[0] == blobs[1] == blobs[2]
        assert len(ReadState.load(blobs[1][0]).types["L"].populated) > 200


class TestParts:
    def test_types_go_to_their_parts_and_nowhere_else(self, state):
        state.add_list("L", [state.add_object("T", {"s": "a"})])
        streams = io.BytesIO(), io.BytesIO()
        state.write_snapshot(streams[0], parts={"lists": BlobPart(streams[1], frozenset({"L", "S"}))})
        main, part = (stream.getvalue() for stream in streams)
        assert list(ReadState.load(main, check=False).types) == ["T", "K", "M"]
        assert set(ReadState.load(main, parts={"lists": part}).types) == {"T", "L", "S", "K", "M"}

    def test_a_type_is_in_one_part_at_most(self, state):
        parts = {name: BlobPart(io.BytesIO(), frozenset({"L"})) for name in ("a", "b")}
        with pytest.raises(InputError, match="in part 'a' and in part 'b'"):
            state.write_snapshot(io.BytesIO(), parts=parts)
        with pytest.raises(NotFoundError, match="'Movie'"):
            state.write_delta(io.BytesIO(), parts={"a": BlobPart(io.BytesIO(), frozenset({"Movie"}))})


class TestCanonicalOrder:
    def test_new_records_are_numbered_by_their_bytes(self):
        state = WriteState(MODEL, order="canonical")
        assert state.add_objects("T", {"i": np.array([5, 3, 4, 3])}).tolist() == [2, 0, 1, 0]

    def test_gaps_are_filled_from_the_largest_down(self):
        state = WriteState(MODEL, order="canonical")
        state.add_objects("T", {"i": np.arange(6)})
        state.prepare()
        state.next_cycle()
        state.add_objects("T", {"i": np.array([0, 2, 5])})
        state.prepare()
        state.next_cycle()
        ordinals = state.add_objects("T", {"i": np.array([10, 11, 12, 13, 0, 2, 5])})
        assert ordinals.tolist() == [4, 3, 1, 6, 0, 2, 5]

    def test_a_type_is_added_once_per_cycle(self):
        state = WriteState(MODEL, order="canonical")
        state.add_objects("T", {"i": np.arange(3)})
        for add in (lambda: state.add_object("T", {}), lambda: state.add_objects("T", {}, 1)):
            with pytest.raises(InputError, match="by one call"):
                add()
        state.reset_to_last()
        state.add_objects("T", {"i": np.arange(3)})

    def test_another_order_is_refused(self):
        with pytest.raises(InputError, match="'given' or 'canonical'"):
            WriteState(MODEL, order="random")


class TestRestore:
    def restored(self, model, state, **options):
        again = WriteState(parse_schemas(model), **options)
        again.restore(written(state))
        return again

    def test_a_record_that_gained_a_field_keeps_its_ordinal_and_is_not_sent(self):
        state = WriteState(parse_schemas("T { int i; }"))
        state.add_objects("T", {"i": np.array([7, 8])})
        again = self.restored("T { string new; int i; }", state)
        assert again.add_object("T", {"i": 8, "new": "x"}) == 1
        # Another one that is equal in what was known before gets an ordinal of its own.
        assert again.add_object("T", {"i": 8, "new": "y"}) == 2
        assert again.add_object("T", {"i": 7}) == 0
        assert len(again.populated("T").difference(again.previous("T"))) == 1

    def test_the_first_cycle_takes_gaps_from_the_largest_down(self):
        state = WriteState(parse_schemas("T { int i; }"))
        ordinals = state.add_objects("T", {"i": np.arange(6)})
        state.remove("T", ordinals[[1, 3]])
        again = self.restored("T { int i; }", state)
        assert [again.add_object("T", {"i": value}) for value in (10, 11, 12, 5)] == [3, 1, 6, 5]

    def test_restored_records_that_nobody_claims_are_in_the_reverse_delta(self):
        state = WriteState(parse_schemas("T { int i; string s; } L List<T>; S Set<T>; M Map<T,T>;"))
        ordinals = [state.add_object("T", {"i": number, "s": f"é{number}"}) for number in range(5)]
        state.add_list("L", ordinals)
        state.add_set("S", ordinals)
        state.add_map("M", {number: 4 - number for number in ordinals})
        before = written(state)
        again = self.restored("T { int i; string s; } L List<T>; S Set<T>; M Map<T,T>;", state)
        again.add_object("T", {"i": 3, "s": "é3"})
        after = written(again)
        back = after.apply(blob(again.write_reverse_delta))
        for name, data in before.types.items():
            assert dump_records(back.types[name], data.populated) == dump_records(data, data.populated)

    @pytest.mark.parametrize("model", ["T { long i; }", "T { U i; } U { int x; }", "T List<U>; U { int x; }"])
    def test_another_type_under_the_same_name_is_refused(self, model):
        state = WriteState(parse_schemas("T { int i; }"))
        state.add_object("T", {"i": 1})
        with pytest.raises(SchemaError, match=r"T"):
            self.restored(model, state)

    def test_shard_counts_are_taken_over_and_cannot_be_pinned_to_others(self):
        state = WriteState(parse_schemas("T { int i; }"), pinned_shards={"T": 4})
        state.add_objects("T", {"i": np.arange(9)})
        assert self.restored("T { int i; }", state).shard_counts() == {"T": 4}
        with pytest.raises(InputError, match="fixed to 2 shards, the restored state has 4"):
            self.restored("T { int i; }", state, pinned_shards={"T": 2})

    def test_a_restore_that_fails_leaves_nothing_behind(self):
        state = WriteState(parse_schemas("A { int i; } B { int i; }"))
        state.add_object("A", {"i": 1})
        again = WriteState(parse_schemas("A { int i; } B { long i; }"))
        with pytest.raises(SchemaError, match="B.i"):
            again.restore(written(state))
        assert again.previous_tag == NO_TAG
        assert len(again.previous("A")) == 0
        assert again.shard_counts() == {"A": None, "B": None}

    def test_only_an_empty_state_can_be_restored(self, state):
        read = written(WriteState(MODEL))
        state.add_object("T", {})
        with pytest.raises(InputError, match="without records"):
            state.restore(read)

    @pytest.mark.parametrize(("exact", "ordinals"), [(None, [2, 1]), (False, [2, 1]), (True, [0, 1])])
    def test_java_takes_a_restored_nan_for_null_and_an_exact_restore_does_not(self, exact, ordinals):
        state = WriteState(parse_schemas("T { float f; int i; }"))
        values = [{"f": float("nan"), "i": 1}, {"f": 1.0, "i": 1}]
        for each in values:
            state.add_object("T", each)
        again = WriteState(state.schemas)
        again.restore(written(state), exact=exact)
        assert [again.add_object("T", each) for each in values] == ordinals

    def test_a_reset_after_a_restore_restores_again(self):
        state = WriteState(parse_schemas("T { int i; }"))
        state.add_objects("T", {"i": np.arange(3)})
        again = self.restored("T { int i; }", state)
        again.add_object("T", {"i": 9})
        again.prepare()
        again.reset_to_last()
        assert again.add_object("T", {"i": 2}) == 2
        assert again.add_object("T", {"i": 10}) == 3
        assert again.previous("T").ordinals().tolist() == [0, 1, 2]
