"""Deletes by the engine's own delete file: hidden from search and from rows, ours and foreign, again and again."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tantivy

from deltaic.errors import DecodeError, InputError
from deltaic.storage.local import LocalStore
from deltaic.table.split import (
    ColumnIndex,
    DocMapping,
    SplitCache,
    SplitOptions,
    open_index,
    open_split,
    with_deletes,
    write_split,
)
from deltaic.table.split.container import pack
from tests.unit.table.split.plain_reader import hot_cache_of, members_of, segment_body, slices_of


@pytest.fixture(params=["deltaic", "native", "foreign"])
def split_file(request, tmp_path) -> Path:
    """A split of a hundred rows, of each kind."""
    rows = pa.table({"id": list(range(100)), "text": [f"word{number % 10} all" for number in range(100)]})
    mapping = DocMapping.from_schema(rows.schema, {"text": ColumnIndex("text")})
    path = tmp_path / "a"
    write_split(rows, mapping, path, options=SplitOptions(native=request.param != "deltaic"))
    if request.param == "foreign":
        data = path.read_bytes()
        kept = [(name, member) for name, member in members_of(data).items() if not name.startswith("_")]
        path.unlink()
        from deltaic.table.split.hotcache import pack_hotcache

        whole = {name: member for name, member in kept if name in ("meta.json", ".managed.json")}
        lengths = {name: len(member) for name, member in kept if name != "split_fields"}
        path.write_bytes(pack(kept, pack_hotcache(lengths, whole)))
    return path


def _found(cached, word: str) -> list[int]:
    index = open_index(cached.index_folder)
    searcher = index.searcher()
    hits = searcher.search(tantivy.Query.term_query(index.schema, "text", word), limit=1000).hits
    return sorted(searcher.fast_field_values("_row", [address for _, address in hits]))


def test_dead_rows_are_gone_from_rows_counts_and_search(split_file):
    folder = split_file.parent
    split = open_split(LocalStore(folder), "a")
    written = with_deletes(split, [3, 13, 99], folder / "b")
    assert written.num_records == 97
    after = open_split(LocalStore(folder), "b")
    alive = [number for number in range(100) if number not in (3, 13, 99)]
    assert after.rows(["id"]).column(0).to_pylist() == alive
    assert (after.num_rows, after.num_numbers, after.kind) == (97, 100, split.kind)
    assert after.row_numbers().tolist() == alive
    assert after.rows(["id"], [98]).column(0).to_pylist() == [98]
    with pytest.raises(InputError, match="deleted"):
        after.rows(["id"], [99])
    cached = SplitCache(folder / "cache").get(LocalStore(folder), "b")
    assert cached.dead is not None and cached.dead.tolist() == [3, 13, 99]
    assert cached.num_rows == 97
    assert _found(cached, "word3") == list(range(23, 100, 10))
    assert len(_found(cached, "all")) == 97
    assert cached.rows.column("id").to_pylist() == list(range(100))


def test_a_second_delete_comes_on_top_of_the_first(split_file):
    folder = split_file.parent
    with_deletes(open_split(LocalStore(folder), "a"), [1], folder / "b")
    with_deletes(open_split(LocalStore(folder), "b"), np.array([1, 2]), folder / "c")
    after = open_split(LocalStore(folder), "c")
    assert after.row_numbers().tolist() == [0, *range(3, 100)]
    deletes = [name for name in after.footer.members if name.endswith(".del")]
    assert len(deletes) == 1


def test_the_other_files_of_the_container_stay_as_they_were(split_file):
    folder = split_file.parent
    with_deletes(open_split(LocalStore(folder), "a"), [5, 64], folder / "b")
    before, data = members_of(split_file.read_bytes()), (folder / "b").read_bytes()
    after = members_of(data)
    changed = {"meta.json", ".managed.json", "_deltaic.json"}
    (delete_file,) = set(after) - set(before)
    assert {name for name in before if before[name] != after[name]} <= changed
    meta = json.loads(after["meta.json"])
    old = json.loads(before["meta.json"])
    assert meta["opstamp"] > old["opstamp"]
    assert meta["segments"][0]["max_doc"] == 100
    assert meta["segments"][0]["deletes"] == {"num_deleted_docs": 2, "opstamp": meta["opstamp"]}
    assert delete_file == f"{meta['segments'][0]['segment_id'].replace('-', '')}.{meta['opstamp']}.del"
    assert {key: meta[key] for key in ("schema", "index_settings")} == {
        key: old[key] for key in ("schema", "index_settings")
    }
    assert set(json.loads(after[".managed.json"])) == {*json.loads(before[".managed.json"]), delete_file}
    body = segment_body(after[delete_file])
    assert int.from_bytes(body[:4], "little") == 100 and len(body) == 4 + 16
    bits = int.from_bytes(body[4:], "little")
    assert [row for row in range(128) if not bits >> row & 1] == [5, 64, *range(100, 128)]
    slices = slices_of(hot_cache_of(data))
    assert slices[delete_file] == [(0, after[delete_file])]
    assert slices["meta.json"] == [(0, after["meta.json"])]
    assert list(after)[-1] == "split_fields"


def test_recorded_splits_lose_rows_to_the_engine_too(fixtures_dir, tmp_path):
    """The package opens the copied container and hides the rows: not only our own reader does."""
    found = sorted((fixtures_dir / "indextables").rglob("*.split"))
    for number, path in enumerate(found):
        split = open_split(LocalStore(path.parent), path.name)
        dead = [split.num_rows - 1]
        target = tmp_path / f"{number}.split"
        written = with_deletes(split, dead, target)
        after = open_split(LocalStore(tmp_path), target.name)
        assert after.rows().equals(split.rows().slice(0, split.num_rows - 1))
        assert written.num_records == split.num_rows - 1
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, data in members_of(target.read_bytes()).items():
            if name != "split_fields":
                (folder / name).write_bytes(data)
        assert tantivy.Index.open(str(folder)).searcher().num_docs == split.num_rows - 1


def test_row_numbers_that_are_not_there_are_refused(split_file):
    split = open_split(LocalStore(split_file.parent), "a")
    for dead in ([100], [-1], [0, 1 << 40]):
        with pytest.raises(InputError, match="there are 100 rows"):
            with_deletes(split, dead, split_file.parent / "b")
    assert not (split_file.parent / "b").exists()


def test_a_split_that_points_to_rows_elsewhere_has_no_delete_file(tmp_path, split_file):
    data = split_file.read_bytes()
    members = [*members_of(data).items(), ("_parquet_manifest.json", b"{}")]
    (tmp_path / "companion").write_bytes(pack(members, hot_cache_of(data)))
    split = open_split(LocalStore(tmp_path), "companion")
    with pytest.raises(InputError, match="rows elsewhere"):
        with_deletes(split, [1], tmp_path / "b")
    if split.kind == "foreign":
        with pytest.raises(DecodeError, match="elsewhere"):
            split.rows()


@pytest.mark.parametrize("split_file", ["foreign"], indirect=True)
def test_a_delete_file_that_does_not_fit_is_refused(split_file):
    folder = split_file.parent
    with_deletes(open_split(LocalStore(folder), "a"), [5], folder / "b")
    data = (folder / "b").read_bytes()
    members = members_of(data)
    members["meta.json"] = members["meta.json"].replace(b'"num_deleted_docs": 1', b'"num_deleted_docs": 2')
    (folder / "c").write_bytes(pack(list(members.items()), hot_cache_of(data)))
    with pytest.raises(DecodeError, match="should be dead"):
        open_split(LocalStore(folder), "c").rows()
