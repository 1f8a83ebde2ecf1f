"""Manifests are believed only where they can be true."""

import json
import random

import msgspec
import pytest

from deltaic.errors import DecodeError
from deltaic.storage.decompress import compress
from deltaic.table.companion.manifest import Manifest, ManifestFile
from deltaic.table.companion.opened import open_companion_split
from tests.unit.table.companion.making import make, opened, put, rows

FILES = (
    ManifestFile("a/b.parquet", 1000, "h-1", 17, (10, 5), 0, 15),
    ManifestFile("large.parquet", 9000, "h-2", 18, (10, 10, 10), 10, 20),
)


def document(**changes):
    found = json.loads(msgspec.json.encode(Manifest.of(FILES)))
    found.update(changes)
    return found


def read(found):
    return Manifest.read(json.dumps(found).encode(), 35, "test")


def test_a_manifest_comes_back_as_it_was():
    made = Manifest.of(FILES)
    assert Manifest.read(made.pack(), 35, "test") == made
    assert Manifest.read(msgspec.json.encode(made), 35, "test") == made
    assert made.ends().tolist() == [15, 35]


def test_many_files_are_packed():
    files = tuple(ManifestFile(f"part-{n}.parquet", 10, "e", 0, (1,), 0, 1) for n in range(1000))
    made = Manifest.of(files)
    assert len(made.pack()) * 4 < len(msgspec.json.encode(made))
    assert Manifest.read(made.pack(), 1000, "test") == made


@pytest.mark.parametrize(
    "path",
    ["../secret.parquet", "/etc/passwd", "a/../../b.parquet", "a//b", "", ".", "s3://other/x", "a\x00b", "%2e%2e/x"],
)
def test_no_path_leaves_the_source(path):
    files = document()["files"]
    files[0]["path"] = path
    with pytest.raises(DecodeError):
        read(document(files=files))


@pytest.mark.parametrize(
    "change",
    [
        {"num_rows": 16}, {"first_row": 1}, {"num_rows": -1}, {"first_row": -5}, {"row_groups": [14]},
        {"row_groups": [-1, 16]}, {"row_groups": None}, {"size": -1}, {"size": 2**70}, {"etag": None},
        {"etag": "x" * 5000}, {"path": 7}, {"num_rows": "15"}, {"modified": 1.5}, {"row_groups": [2**64]},
    ],
)  # fmt: skip
def test_numbers_that_cannot_be_are_refused(change):
    files = document()["files"]
    files[0].update(change)
    with pytest.raises(DecodeError):
        read(document(files=files))


@pytest.mark.parametrize(
    "changed",
    [document(rows=34), document(format=2), document(format="1"), document(files=[]), document(files={}), [], 7, None],
)
def test_a_manifest_that_does_not_add_up_is_refused(changed):
    with pytest.raises(DecodeError):
        read(changed)


def test_a_file_named_twice_is_refused():
    with pytest.raises(DecodeError, match="twice"):
        read(document(files=[document()["files"][0]] * 2, rows=30))


def test_a_manifest_that_unpacks_without_end_is_refused():
    with pytest.raises(DecodeError):
        Manifest.read(compress(b"[" * (300 << 20), "zstd"), 35, "test")


def test_mutated_manifests_end_in_a_decode_error_or_are_true():
    dice = random.Random(3)
    for data in (Manifest.of(FILES).pack(), msgspec.json.encode(Manifest.of(FILES))):
        for _ in range(1500):
            made = bytearray(data)
            for _ in range(dice.randint(1, 3)):
                how, place = dice.randrange(3), dice.randrange(len(made))
                if how == 0:
                    made[place] = dice.randrange(256)
                elif how == 1:
                    del made[place : place + dice.randint(1, 8)]
                else:
                    made[place:place] = bytes([dice.randrange(256)])
                if not made:
                    break
            try:
                found = Manifest.read(bytes(made), 35, "test")
            except DecodeError:
                continue
            assert sum(file.num_rows for file in found.files) == 35
            assert all(file.first_row + file.num_rows <= sum(file.row_groups) for file in found.files)


def test_a_mutated_split_is_refused(tmp_path):
    put(tmp_path / "source", "a.parquet", rows(0, 30))
    companion = make(tmp_path, index={})
    (add,) = companion.files.snapshot().files()
    path, dice = tmp_path / "index" / add.path, random.Random(5)
    whole = path.read_bytes()
    for _ in range(150):
        data = bytearray(whole)
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        path.write_bytes(data)
        try:
            open_companion_split(companion.files.store, add.path, add).manifest()
        except DecodeError:
            continue
    start = whole.index(b"_parquet_manifest.json")
    path.write_bytes(whole[:start] + b"_parquet_manifest_json" + whole[start + 22 :])
    with pytest.raises(DecodeError):
        opened(tmp_path).search("id:1")
    path.write_bytes(whole)
    assert len(opened(tmp_path).search("id:1")) == 1


def test_a_manifest_that_lies_about_row_groups_is_refused(tmp_path):
    put(tmp_path / "source", "a.parquet", rows(0, 30))
    companion = make(tmp_path, index={})
    (add,) = companion.files.snapshot().files()
    manifest = companion._manifest(add)
    file = msgspec.structs.replace(manifest.files[0], row_groups=(30,))
    with pytest.raises(DecodeError, match="row groups"):
        companion._reader.rows(file, companion.schema)
