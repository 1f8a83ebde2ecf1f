"""Splits of the public implementation: every recorded file is taken apart, and its rows are what is on record."""

import json
import zlib
from pathlib import Path

import pytest

from deltaic.storage.local import LocalStore
from deltaic.table.split import open_split
from deltaic.table.split.container import FIELDS_NAME, pack, read_split
from deltaic.table.split.hotcache import read_hotcache
from deltaic.table.split.segment import check_segment_file, is_segment_file
from deltaic.table.table import Table


@pytest.fixture(scope="module")
def tables(fixtures_dir: Path) -> list[Path]:
    folder = fixtures_dir / "indextables"
    if not folder.is_dir():
        pytest.skip("no recorded index tables in the folder of recorded fixtures")
    return sorted(path.parent for path in folder.glob("*/EXPECTED.json"))


@pytest.fixture(scope="module")
def splits(tables: list[Path]) -> list[Path]:
    found = sorted(path for table in tables for path in table.rglob("*.split"))
    assert len(found) == 106
    return found


def test_members_of_every_split_lie_without_gaps_and_the_empty_one_is_there(splits):
    for path in splits:
        data = path.read_bytes()
        footer = read_split(data, path.name)
        places = sorted((place.start, place.end) for place in footer.members.values())
        assert [start for start, _ in places] == [0, *(end for _, end in places[:-1])]
        assert footer.members[FIELDS_NAME].length == 0
        assert places[-1][1] == footer.start
        assert footer.end == len(data)


def test_packing_the_members_again_gives_the_same_bytes_but_for_the_order_of_names(splits):
    for path in splits:
        data = path.read_bytes()
        footer = read_split(data, path.name)
        ordered = sorted(footer.members.items(), key=lambda item: (item[1].start, item[1].end, item[0] == FIELDS_NAME))
        members = [(name, data[place.start : place.end]) for name, place in ordered]
        again = pack(members, footer.hotcache)
        assert len(again) == len(data)
        assert again[: footer.start] == data[: footer.start]
        assert read_split(again, "again").members == footer.members


def test_every_slice_of_every_hot_cache_is_a_stretch_of_its_file(splits):
    slices = 0
    for path in splits:
        data = path.read_bytes()
        footer = read_split(data, path.name)
        cached = read_hotcache(footer.hotcache, path.name)
        assert set(cached) == set(footer.members) - {FIELDS_NAME}
        for name, file in cached.items():
            place = footer.members[name]
            assert file.length == place.length
            for one in file.slices:
                assert data[place.start + one.start : place.start + one.stop] == one.data
                slices += 1
        for name in ("meta.json", ".managed.json"):
            assert cached[name].whole() is not None
    assert slices > 3000


def test_every_segment_file_has_the_checksum_in_its_footer(splits):
    checked = 0
    for path in splits:
        data = path.read_bytes()
        for name, place in read_split(data, path.name).members.items():
            if is_segment_file(name):
                body = check_segment_file(data[place.start : place.end], name)
                assert zlib.crc32(body) == json.loads(data[place.start + len(body) : place.end - 8])["crc"]
                checked += 1
    assert checked == 6 * len(splits)


def test_the_rows_of_every_table_are_those_on_record(tables):
    for folder in tables:
        expected = json.loads((folder / "EXPECTED.json").read_text())["rows"]
        snapshot = Table.open(LocalStore(folder)).snapshot()
        rows: list[dict[str, object]] = []
        for add in snapshot.files():
            split = open_split(LocalStore(folder), add.path, add)
            assert split.kind == "foreign"
            assert split.num_rows == add.num_records
            rows += [{**row, **add.partition_values} for row in split.rows().to_pylist()]
        assert sorted(rows, key=lambda row: row["id"]) == expected, folder.name


def test_single_columns_and_rows_of_a_foreign_split(tables):
    folder = next(folder for folder in tables if folder.name == "10_large_batch")
    path = next(folder.glob("*.split")).name
    split = open_split(LocalStore(folder), path)
    everything = split.rows()
    assert split.rows(["id"], [7, 3]).equals(everything.select(["id"]).take([7, 3]))
