"""The container and the hot cache: what the format page says, and what it forbids."""

import contextlib
import json
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.errors import DecodeError, LimitError
from deltaic.storage.local import LocalStore
from deltaic.table.split import DocMapping, SplitOptions, open_split, write_split
from deltaic.table.split.container import Range, footer_start, pack, pack_footer, read_footer, read_split
from deltaic.table.split.hotcache import CachedFile, Slice, pack_hotcache, pack_slices, read_hotcache
from tests.unit.table.split.plain_reader import crc32c, hot_cache_of, members_of, segment_body, slices_of
from tests.unit.table.split.rows_of_all_types import all_types, all_types_mapping

CHECK = pack([("f1", b"hello"), ("f2", b"world")], b"abc")


def test_the_check_value_has_128_bytes():
    assert len(CHECK) == 128
    assert CHECK[:10] == b"helloworld"
    assert CHECK[10:18] == bytes.fromhex("aebe1218 01000000")
    assert CHECK[-11:] == struct.pack("<I", 128 - 10 - 11) + b"abc" + struct.pack("<I", 3)
    assert members_of(CHECK) == {"f1": b"hello", "f2": b"world", "split_fields": b""}


def test_a_trailer_is_read_where_it_is():
    with_trailer = CHECK + struct.pack("<QI4s", 10, 1, b"QWFT")
    assert read_split(with_trailer, "x").members == read_split(CHECK, "x").members
    assert read_split(with_trailer, "x").end == 144


def test_the_first_try_says_how_much_more_of_the_end_is_needed():
    assert footer_start(CHECK[-4:], 128, "x") == -11
    assert footer_start(CHECK[-11:], 128, "x") == 10
    assert footer_start(CHECK[-2:], 128, "x") == -4


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "Truncated"),
        (b"abc", "Truncated"),
        (CHECK[:-1] + b"\xff", "BadFooter"),
        (CHECK[:10] + b"\0" + CHECK[11:], "BadMagic"),
        (CHECK[:14] + b"\2" + CHECK[15:], "UnknownVersion"),
        (CHECK[:18] + b"[" + CHECK[19:], "BadFooter"),
        (CHECK + struct.pack("<QI4s", 10, 2, b"QWFT"), "BadFooter"),
        (CHECK + struct.pack("<QI4s", 2**60, 1, b"QWFT"), "BadFooter"),
    ],
)
def test_a_container_that_is_none_is_refused(data, code):
    with pytest.raises(DecodeError) as caught:
        read_split(data, "x")
    assert caught.value.code == code


@pytest.mark.parametrize("place", [(5, 4), (0, 11), (-1, 3), (0, 2**70), (True, 3), ("0", 3), (None, 1), (0.5, 1)])
def test_a_member_outside_the_body_is_refused(place):
    metadata = (
        struct.pack("<II", 403881646, 1) + json.dumps({"files": {"f": {"start": place[0], "end": place[1]}}}).encode()
    )
    data = b"helloworld" + metadata + struct.pack("<I", len(metadata)) + b"abc" + struct.pack("<I", 3)
    with pytest.raises(DecodeError):
        read_split(data, "x")


def test_more_members_than_anyone_has_are_refused():
    members = {str(number): Range(0, 0) for number in range(100_001)}
    footer = pack_footer(members, b"abc")
    with pytest.raises(LimitError):
        read_footer(footer, 0, "x")


@given(st.dictionaries(st.text(max_size=20), st.binary(max_size=50), max_size=6), st.binary(max_size=20))
def test_what_is_packed_is_what_is_read(files, hot):
    files.pop("split_fields", None)
    data = pack(files.items(), hot)
    footer = read_split(data, "x")
    assert footer.hotcache == hot
    assert members_of(data) == {**files, "split_fields": b""}
    assert {name: data[place.start : place.end] for name, place in footer.members.items()} == members_of(data)


@st.composite
def cached_files(draw):
    files = {}
    for name in draw(st.lists(st.text(max_size=12), unique=True, max_size=5)):
        cuts = sorted(draw(st.sets(st.integers(0, 300), max_size=6)))
        slices = tuple(
            Slice(start, draw(st.binary(min_size=stop - start, max_size=stop - start)))
            for start, stop in zip(cuts[::2], cuts[1::2], strict=False)
        )
        files[name] = CachedFile(300, slices)
    return files


@given(cached_files())
def test_slices_come_back_from_the_hot_cache(files):
    packed = pack_slices(files)
    assert read_hotcache(packed, "x") == files
    assert slices_of(packed) == {name: [(one.start, one.data) for one in file.slices] for name, file in files.items()}


@given(cached_files(), st.data())
def test_a_damaged_hot_cache_is_refused_or_read(files, data):
    packed = bytearray(pack_slices(files))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DecodeError):
        read_hotcache(bytes(packed), "x")


def test_an_empty_hot_cache_is_none():
    with pytest.raises(DecodeError):
        read_hotcache(b"", "x")
    assert read_hotcache(pack_hotcache({}, {}), "x") == {}


@pytest.mark.parametrize("native", [False, True])
def test_a_split_of_ours_is_read_by_a_reader_that_knows_only_the_page(tmp_path, native):
    rows = pa.table({"id": [1, 2], "text": ["test", None]})
    written = write_split(
        rows, DocMapping.from_schema(rows.schema), tmp_path / "a", options=SplitOptions(native=native)
    )
    data = (tmp_path / "a").read_bytes()
    members = members_of(data)
    assert list(members)[-1] == "split_fields" and members["split_fields"] == b""
    line, text, rest = members["_deltaic.json"].split(b"\n")
    assert (text.decode(), rest) == (crc32c(line), b"")
    described = json.loads(line)
    assert set(described["members"]) == set(members) - {"split_fields", "_deltaic.json"}
    for name, expected in described["members"].items():
        assert crc32c(members[name]) == expected
        if name.endswith((".term", ".idx", ".pos", ".fast", ".fieldnorm", ".store")):
            segment_body(members[name])
    assert written.tags["deltaic.description"] == crc32c(members["_deltaic.json"])
    assert written.tags["deltaic.rows"] == crc32c(members["_rows.parquet"])
    managed = json.loads(members[".managed.json"])
    assert sorted(managed) == sorted(name for name in members if name[0] not in "._s")
    slices = slices_of(hot_cache_of(data))
    assert slices["meta.json"] == [(0, members["meta.json"])]
    assert slices[".managed.json"] == [(0, members[".managed.json"])]
    assert set(slices) == set(members) - {"split_fields"}


def test_a_few_columns_of_a_large_split_are_read_by_their_ranges(tmp_path, monkeypatch):
    from deltaic.table.split import open as opening

    monkeypatch.setattr(opening, "WHOLE_BYTES", 0)
    rows = pa.concat_tables([all_types()] * 700)
    write_split(rows, all_types_mapping(), tmp_path / "a", options=SplitOptions(row_group_rows=500))
    store = LocalStore(tmp_path)
    read = 0

    class Counting(LocalStore):
        def get_range(self, key, start, length):
            nonlocal read
            read += length
            return super().get_range(key, start, length)

    split = open_split(Counting(tmp_path), "a")
    assert split.description is not None
    read = 0
    assert split.rows(["person", "i8"]).equals(rows.select(["person", "i8"]))
    # The Parquet footer is most of it here: 44 columns and more leaves, in five row groups.
    assert read < split.footer.members["_rows.parquet"].length
    some = split.rows(["weird name.x", "exact"], [2099, 0, 501, 0])
    assert some.to_pylist() == rows.select(["weird name.x", "exact"]).take([2099, 0, 501, 0]).to_pylist()
    whole = open_split(store, "a").rows()
    assert repr(whole.to_pylist()) == repr(rows.to_pylist())
