"""Joined indexes: made once, whole or not at all, cleaned, rebuilt when damaged."""

import dataclasses
import os
import shutil
import threading
import time

import pyarrow as pa
import pytest

from deltaic.errors import DeltaicError, StorageError
from deltaic.table.search import SearchedSplit, Searcher
from deltaic.table.search import joined as module
from deltaic.table.search.joined import JoinedIndexes
from deltaic.table.search.renumber import copy_renumbered, new_numbers
from tests.unit.table.search.making import FILMS, MAPPING, ids, searched_splits

pytest.importorskip("tantivy")

THIRDS = [FILMS.slice(start, 2) for start in (0, 2, 4)]


@pytest.fixture(autouse=True)
def apart(monkeypatch):
    """Nothing stays open from one test to the next."""
    monkeypatch.setattr(module, "_shared", {})


def searcher(folder, splits):
    return Searcher(splits, FILMS.schema, folder=folder / "joined")


def folders(folder):
    return sorted(path.name for path in (folder / "joined").iterdir())


def test_a_joined_folder_is_made_once_and_used_again(tmp_path, monkeypatch):
    splits = searched_splits(tmp_path, THIRDS)
    assert set(ids(searcher(tmp_path, splits).search("matrix OR stalker"))) == {1, 2, 5}
    made = folders(tmp_path)
    assert len(made) == 1
    monkeypatch.setattr(module, "_join", None)
    monkeypatch.setattr(module, "_shared", {})
    assert set(ids(searcher(tmp_path, splits).search("matrix OR stalker"))) == {1, 2, 5}
    assert folders(tmp_path) == made


def test_files_are_linked_and_not_copied(tmp_path):
    splits = searched_splits(tmp_path, THIRDS)
    searcher(tmp_path, splits).search("matrix")
    [name] = folders(tmp_path)
    linked = [path for path in (tmp_path / "joined" / name).iterdir() if path.suffix in (".term", ".idx", ".fast")]
    assert linked and all(path.stat().st_nlink == 2 for path in linked)


def test_one_split_is_searched_where_it_is(tmp_path):
    searcher(tmp_path, searched_splits(tmp_path, [FILMS])).search("matrix")
    assert not (tmp_path / "joined").exists()


def test_other_splits_or_another_order_are_another_folder(tmp_path):
    splits = searched_splits(tmp_path, THIRDS)
    forward = searcher(tmp_path, splits).search("genre:sf", k=None)
    backward = searcher(tmp_path, splits[::-1]).search("genre:sf", k=None)
    assert ids(forward) == [1, 2, 3, 5] and ids(backward) == [5, 3, 1, 2]
    searcher(tmp_path, splits[:2]).search("matrix")
    assert len(folders(tmp_path)) == 3


def test_the_folders_used_last_are_kept(tmp_path):
    splits = searched_splits(tmp_path, [FILMS.slice(at, 1) for at in range(6)])
    home = JoinedIndexes(tmp_path / "joined", kept_folders=2)
    for place in range(4):
        home.open([one.cached for one in splits[place : place + 2]], MAPPING, None)
        for age, path in enumerate(sorted((tmp_path / "joined").iterdir())):
            os.utime(path, (time.time() - 100 + age,) * 2) if place < 3 else None
    assert len(folders(tmp_path)) == 2


def test_what_a_crash_left_is_removed_later_and_not_sooner(tmp_path):
    splits = searched_splits(tmp_path, THIRDS)
    for name, age in ((".tmp-old", 10_000), (".tmp-young", 10)):
        (tmp_path / "joined" / name).mkdir(parents=True)
        (tmp_path / "joined" / name / "half").write_text("")
        os.utime(tmp_path / "joined" / name, (time.time() - age,) * 2)
    searcher(tmp_path, splits).search("matrix")
    assert ".tmp-old" not in folders(tmp_path) and ".tmp-young" in folders(tmp_path)


def test_a_damaged_folder_is_made_anew(tmp_path, monkeypatch):
    splits = searched_splits(tmp_path, THIRDS)
    wanted = searcher(tmp_path, splits).search("matrix", k=None)
    [name] = folders(tmp_path)
    for path in (tmp_path / "joined" / name).glob("*.fast"):
        path.unlink()
    monkeypatch.setattr(module, "_shared", {})
    found = searcher(tmp_path, splits).search("matrix", k=None)
    assert (ids(found), found.scores) == (ids(wanted), wanted.scores)


def test_an_index_that_is_open_outlives_its_folder(tmp_path):
    made = searcher(tmp_path, searched_splits(tmp_path, THIRDS))
    made.search("matrix")
    shutil.rmtree(tmp_path / "joined")
    assert set(ids(made.search("matrix OR hacker OR guide", k=None))) == {1, 2, 5}


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    splits = searched_splits(tmp_path, THIRDS)
    (tmp_path / "joined").write_text("a file in the way")
    with pytest.raises(StorageError, match="joined"):
        searcher(tmp_path, splits).search("matrix")


def test_links_that_cannot_be_made_become_copies(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr(module.os, "link", refuse)
    monkeypatch.setattr(module.Path, "symlink_to", refuse)
    assert set(ids(searcher(tmp_path, searched_splits(tmp_path, THIRDS)).search("matrix"))) == {1, 2}


def test_several_who_join_at_once_all_get_it(tmp_path):
    splits = searched_splits(tmp_path, THIRDS)
    found, wrong = [], []

    def work():
        try:
            home = JoinedIndexes(tmp_path / "joined")
            found.append(home.open([one.cached for one in splits], MAPPING, None).num_documents)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (wrong, found) == ([], [6] * 8)
    assert len(folders(tmp_path)) == 1


def test_a_damaged_index_of_a_split_is_an_error_of_ours(tmp_path):
    splits = searched_splits(tmp_path, THIRDS)
    for path in splits[1].cached.index_folder.glob("*.term"):
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DeltaicError):
        searcher(tmp_path, splits).search("solaris")
    (splits[0].cached.index_folder / "meta.json").write_text("{")
    with pytest.raises(DeltaicError, match="meta.json"):
        searcher(tmp_path, splits).search("matrix OR solaris")


def test_fields_are_renumbered_only_where_they_are_the_same():
    a, b, c = ({"name": name, "type": "text", "options": {}} for name in "abc")
    assert new_numbers([a, c], [a, b, c], frozenset()) == {0: 0, 1: 2}
    assert new_numbers([a, b, c], [c, a], frozenset()) == {0: 1, 1: 3, 2: 0}
    assert new_numbers([a, {**c, "type": "i64"}], [a, b, c], frozenset()) is None
    # Rows have values of b that this index does not: it cannot answer for b.
    assert new_numbers([a, c], [a, b, c], frozenset("b")) is None


def test_a_file_whose_list_of_fields_is_damaged_is_refused(tmp_path):
    from deltaic.table.split.segment import check_segment_file, footer_version, segment_footer

    split = searched_splits(tmp_path, [FILMS])[0]
    source = next(split.cached.index_folder.glob("*.term"))
    data = source.read_bytes()
    body, version = bytes(check_segment_file(data, "x")), footer_version(data, "x")
    numbers = {number: number for number in range(40)}
    copy_renumbered(source, tmp_path / "same", numbers)
    assert (tmp_path / "same").read_bytes() == data
    for damaged in (body[:-4] + b"\xff\xff\xff\x7f", body[:-5] + body[-4:], b"", body[:-4] + b"\x00\x00\x00\x00"):
        broken = tmp_path / "broken"
        broken.write_bytes(damaged + segment_footer(damaged, version))
        with pytest.raises(DeltaicError):
            copy_renumbered(broken, tmp_path / "copy", numbers)
    with pytest.raises(DeltaicError, match="no field"):
        copy_renumbered(source, tmp_path / "copy", {})


def test_a_column_that_the_table_fills_with_another_value_is_indexed_with_that_one(tmp_path):
    old = FILMS.drop_columns(["genre"])
    split = searched_splits(tmp_path, [old])[0]
    for value in ("first", "second"):
        rows = split.cached.rows.append_column("genre", pa.array([value] * 6))
        given = SearchedSplit(dataclasses.replace(split.cached, rows=rows), {})
        made = Searcher([given], FILMS.schema, mapping=MAPPING, folder=tmp_path / "joined")
        assert made.count(f"genre:{value} AND hacker") == 2
        assert made.count("genre:first AND genre:second") == 0
        assert made.explain("hacker").reindexed == (split.cached.split_id,)
