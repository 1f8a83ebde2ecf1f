"""Append, overwrite, delete, update, merge: what becomes of rows, and what is refused."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaic.errors import InputError, NotFoundError
from deltaic.table.predicate import column
from deltaic.table.rows import Delete, Insert, Update, WriteOptions
from tests.unit.table.rows.making import changes, film, films, ids, make_table


@pytest.fixture
def table():
    made = make_table(key=("id",), partition_by=("year",))
    made.append(films(*range(6)), note="first")
    return made


def titles(table):
    return {row["id"]: row["title"] for row in table.to_arrow().to_pylist()}


def test_appended_rows_are_there_and_the_version_before_has_them_not(table):
    assert table.append(films(6)).rows == 1
    assert ids(table) == list(range(7))
    assert ids(table, version=1) == list(range(6)) and ids(table, version=0) == []


def test_nothing_appended_is_no_version(table):
    assert table.append([]).version == 1
    assert table.append(table.schema.empty_table()).rows == 0
    assert table.version == 1


def test_batches_are_cut_by_size_and_lose_nothing():
    table = make_table(write=WriteOptions(split_rows=7, threads=2))
    seen = []
    table.append((film(number) for number in range(50)), progress=seen.append)
    assert ids(table) == list(range(50))
    counts = sorted(add.num_records for add in table.files.snapshot().files())
    assert counts == [1, *[7] * 7]
    assert [one.files for one in seen] == list(range(1, 9)) and seen[-1].rows == 50 and seen[-1].operation == "append"


def test_a_reader_of_batches_is_written_as_it_comes():
    table = make_table(write=WriteOptions(split_rows=10))
    batch = pa.RecordBatch.from_pylist(films(*range(10)), schema=table.schema)
    table.append(pa.RecordBatchReader.from_batches(table.schema, iter([batch] * 5)))
    assert table.count() == 50 and len(table.files.snapshot().paths()) == 5


def test_overwrite_takes_the_place_of_all_rows(table):
    table.overwrite(films(9))
    assert ids(table) == [9] and ids(table, version=1) == list(range(6))
    assert sorted(one["_change"] for one in changes(table, 1)) == ["delete"] * 6 + ["insert"]


def test_overwrite_with_a_predicate_replaces_only_what_matches(table):
    table.overwrite(films(4, title="new"), where="id >= 4")
    assert ids(table) == [0, 1, 2, 3, 4] and titles(table)[4] == "new"
    with pytest.raises(InputError, match="row 1 does not match"):
        table.overwrite(films(8, 2), where="id >= 4")
    assert table.version == 2


def test_overwrite_of_partitions_touches_no_others(table):
    table.overwrite([film(100, year=2001), film(101, year=1950)], dynamic=True)
    assert ids(table) == [0, 2, 3, 5, 100, 101]
    with pytest.raises(InputError, match="no partitions"):
        make_table().overwrite(films(1), dynamic=True)
    with pytest.raises(InputError, match="one of them"):
        table.overwrite(films(1), dynamic=True, where="id = 1")


def test_delete_takes_rows_away_and_whole_partitions_without_reading_them(table, monkeypatch):
    assert table.delete("id = 0 or rating > 2").rows == 2
    assert ids(table) == [1, 2, 3, 4]
    assert table.delete("id = 77").version == 2
    from deltaic.table.rows import reading

    def never(*_more):
        raise AssertionError("a split was opened")

    monkeypatch.setattr(reading, "open_split", never)
    table.delete("year = 2001")
    table.delete(None)
    monkeypatch.undo()
    assert table.count() == 0 and table.version == 4


def test_delete_of_partitions_needs_the_predicate_to_be_true_and_not_only_possible():
    table = make_table(pa.schema([("id", pa.int64()), ("p", pa.int32())]), partition_by=("p",))
    table.append([{"id": 1, "p": 5}, {"id": 2, "p": None}])
    table.delete("p != 7.5 and p < 6")
    assert ids(table) == [2]
    table.delete("not (p = 5)")
    assert ids(table) == [2]
    table.delete("p is null")
    assert ids(table) == []


def test_update_sets_values_expressions_and_functions_of_the_rows_as_they_were(table):
    done = table.update(
        {
            "title": "old",
            "rating": pc.multiply(pc.field("rating"), 10.0),
            "year": lambda rows: pc.add(rows["year"], 100),
        },
        "id >= 4",
    )
    assert done.rows == 2
    found = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert found[4] == {"id": 4, "title": "old", "year": 2101, "rating": 20.0}
    assert found[3] == film(3)
    table.update({"title": None})
    assert set(titles(table).values()) == {None}


def test_an_update_that_changes_nothing_is_no_version(table):
    assert table.update({"title": "film 3"}, "id = 3").rows == 0
    assert table.version == 1


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"title": 5}, "title"),
        ({"nothing": 5}, "no column"),
        ({}, "needs a column"),
        ({"id": None}, "never null"),
        ({"year": lambda rows: [1]}, "1 values for 2"),
        ({"year": pc.field("missing")}, "year"),
        ({"year": 2**31}, "year"),
    ],
)
def test_an_update_that_cannot_be_is_refused_and_nothing_happens(table, setting, why):
    with pytest.raises(InputError, match=why):
        table.update(setting, "id = 1 or id = 4")
    assert table.version == 1


def test_merge_updates_what_matches_and_inserts_the_rest(table):
    done = table.merge(films(5, 6, title="merged"))
    assert done.rows == 2 and done.operation == "merge rows"
    assert titles(table)[5] == titles(table)[6] == "merged" and titles(table)[4] == "film 4"
    found = {one["id"]: one for one in changes(table, 1)}
    assert found[5]["_change"] == "update" and found[5]["before"] == film(5) and found[6]["_change"] == "insert"


def test_merge_leaves_columns_alone_that_the_source_has_not(table):
    table.merge(pa.table({"id": [1, 90], "title": ["one", "ninety"]}))
    found = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert found[1] == film(1, title="one")
    assert found[90] == {"id": 90, "title": "ninety", "year": None, "rating": None}


def test_merge_takes_the_first_clause_whose_condition_is_true(table):
    table.merge(
        films(0, 1, 2, 3, 50, 51, rating=9.0),
        matched=[
            Delete("target.id = 0"),
            Update({"title": pc.field("source.title"), "rating": lambda rows: rows["source.rating"]}, "source.id < 2"),
            Update({"title": "by function"}, lambda rows: pc.equal(rows["target.id"], 2)),
            Update({"title": "by expression"}, pc.field("target.id") == 99),
        ],
        not_matched=[Insert({"id": pc.field("source.id"), "title": "given"}, "source.id = 50")],
        not_matched_by_source=[Delete("target.id = 5"), Update({"title": "alone"})],
    )
    assert titles(table) == {
        1: "film 1",
        2: "by function",
        3: "film 3",
        4: "alone",
        50: "given",
    }
    assert table.to_arrow(where="id = 1").to_pylist()[0]["rating"] == 9.0


def test_merge_by_other_columns_updates_every_match(table):
    table.merge(pa.table({"year": pa.array([2001], pa.int32()), "title": ["all of 2001"]}), on="year", not_matched=[])
    assert [row["title"] for row in table.to_arrow(where="year = 2001").to_pylist()] == ["all of 2001"] * 2


def test_a_merge_that_cannot_be_meant_is_refused(table):
    with pytest.raises(InputError, match="row 2.*id=1") as caught:
        table.merge(films(1, 2, 1))
    assert caught.value.code == "DuplicateKey"
    with pytest.raises(InputError, match="id, row 0: None"):
        table.merge([{"id": None, "title": "x"}])
    with pytest.raises(InputError, match="no 'title', which other rows have"):
        table.merge([{"id": 1, "title": "x"}, {"id": 2}])
    with pytest.raises(InputError, match="have no id"):
        table.merge(pa.table({"title": ["x"]}))
    with pytest.raises(InputError, match="no key"):
        make_table().merge(films(1))
    with pytest.raises(InputError, match="no column"):
        table.merge(films(1), matched=[Update(where="target.nothing = 1")])
    with pytest.raises(InputError, match="needs the columns"):
        table.merge(films(1), not_matched_by_source=[Update()])
    assert table.version == 1


def test_a_merge_that_changes_nothing_is_no_version(table):
    assert table.merge(films(1, 2, 3)).rows == 0
    assert table.merge([]).rows == 0
    assert table.version == 1


def test_a_merge_of_many_keys_reads_only_splits_in_their_range():
    table = make_table(key=("id",))
    for first in (0, 10_000, 20_000):
        table.append(films(*range(first, first + 5)))
    paths = set(table.files.snapshot().paths())
    table.merge(films(*range(10_002, 12_002), title="many"))
    assert len(paths - set(table.files.snapshot().paths())) == 1
    assert table.count(where="title = 'many'") == 2000 and table.count() == 3 * 5 - 3 + 2000


def test_a_transaction_is_done_once(table):
    for _ in range(2):
        done = table.append(films(50), transaction=("loader", 7))
    assert done.repeated and done.rows == 0 and table.count(where="id = 50") == 1
    assert table.delete("id = 50", transaction=("loader", 7)).repeated
    assert table.delete("id = 77", transaction=("loader", 8)).version == 3
    assert table.update({"title": "x"}, transaction=("loader", 8)).repeated
    assert table.merge(films(1, title="x"), transaction=("loader", 9)).rows == 1
    assert table.overwrite(films(1), transaction=("loader", 9)).repeated


def test_notes_and_texts_are_in_the_history(table):
    table.delete("id = 1", note="by request", user={"ticket": "7"})
    newest = next(iter(table.history()))
    assert (newest.operation, newest.note, newest.user) == ("delete", "by request", {"ticket": "7"})


def test_a_scan_gives_columns_rows_and_batches_as_asked(table):
    reader = table.scan(["title", "id"], "id > 1", 2)
    found = reader.read_all()
    assert found.column_names == ["title", "id"] and found.num_rows == 2
    assert table.scan(limit=0).read_all().num_rows == 0
    assert table.at().scan(batch_rows=1).read_next_batch().num_rows == 1
    assert table.to_arrow(["year"]).num_rows == 6
    assert table.at().scan([]).read_all().num_columns == 0
    for wrong in (["nothing"], ["id", "id"], "id"):
        with pytest.raises(InputError):
            table.scan(wrong)
    with pytest.raises(InputError, match="limit"):
        table.scan(limit=-1)


def test_a_scan_that_is_left_early_lets_go():
    table = make_table(write=WriteOptions(split_rows=1))
    table.append(films(*range(20)))
    reader = table.scan()
    reader.read_next_batch()
    reader.close()
    del reader
    assert table.count() == 20


def test_every_read_goes_back_in_time(table):
    table.tag("good")
    table.delete("id < 3")
    assert table.count(version=1) == table.count(tag="good") == 6
    assert table.to_arrow(["id"], "id = 0", version=1).num_rows == 1
    assert table.scan(tag="good").read_all().num_rows == 6
    assert table.explain(version=1).rows == 6
    assert len(table.at(version=1)) == 6 and "version=1" in repr(table.at(version=1))
    with pytest.raises(NotFoundError):
        table.count(version=99)
    with pytest.raises(InputError):
        table.count(version=1, tag="good")


def test_a_predicate_may_be_an_object(table):
    assert ids(table, (column("id") >= 2) & ~column("id").one_of([3])) == [2, 4, 5]


def test_search_and_predicates_answer_from_the_same_rows(table, tmp_path):
    from deltaic.table.split import SplitCache

    table._split_cache = SplitCache(tmp_path)
    assert table.count('title:"film 3"') == 1 and table.count('title:"film 3"', "id < 3") == 0
    assert table.search('title:"film 3"', columns=["id"]).to_pylist()[0]["id"] == 3
    assert table.aggregate(group_by="year").num_rows == 3
    table.delete(None, query='title:"film 3"')
    assert ids(table) == [0, 1, 2, 4, 5]
    table.delete("id > 4", query="*:*")
    assert ids(table) == [0, 1, 2, 4]
    assert table.search('title:"film 3"', version=1).to_pylist()[0]["id"] == 3


def test_a_delete_file_hides_few_rows_of_a_large_split_and_a_compaction_takes_them_away(tmp_path):
    from deltaic.table.rows import Table
    from deltaic.table.split import SplitCache

    table = make_table(key=("id",), partition_by=("year",), split_cache=SplitCache(tmp_path))
    table.append([film(number, year=2000) for number in range(100)])
    (before,) = table.files.snapshot().files()
    assert table.delete("id = 5 or id = 50", delete_files=True).rows == 2
    (hidden,) = table.files.snapshot().files()
    assert hidden.delete_opstamp == 1 and hidden.num_records == 98 and hidden.min_values == before.min_values
    assert table.count() == 98 and table.count('title:"film 50"') == 0 and table.count('title:"film 51"') == 1
    assert [(one["_change"], one["id"]) for one in changes(table, 1)] == [("delete", 5), ("delete", 50)]
    table.delete("id = 6", delete_files=True)
    table.delete(None, query='title:"film 99"', delete_files=True)
    again = Table.open(table.files.store)
    (hidden,) = again.files.snapshot().files()
    assert hidden.delete_opstamp == 3 and again.count() == 96 == len(again.to_arrow())
    assert again.verify().findings == ()
    again.update({"title": "x"}, "id = 7")
    assert again.count(where="title = 'x'") == 1 and again.count() == 96
    again.restore(version=4)
    assert again.compact().files_after == 1
    assert changes(again, 6) == [] and next(iter(again.files.snapshot().files())).delete_opstamp is None
    assert again.compact().files_before == 0 and again.count() == 96
    again.delete("id < 50", delete_files=True)
    assert next(iter(again.files.snapshot().files())).delete_opstamp is None


def test_rows_of_another_writers_splits_are_read_deleted_and_compacted(fixtures_dir, tmp_path):
    import shutil

    from deltaic.table.rows import Table

    shutil.copytree(fixtures_dir / "indextables" / "02_five_appends", tmp_path / "table")
    table = Table.open(tmp_path / "table")
    rows = table.to_arrow().to_pylist()
    assert len(rows) == 50 and table.count(where="id > 500") == 10
    table.files.adopt()
    table.delete("id = 101")
    table.delete("id = 505", delete_files=True)
    table.compact()
    wanted = sorted((row for row in rows if row["id"] not in (101, 505)), key=str)
    assert sorted(table.to_arrow().to_pylist(), key=str) == wanted
    table.rename_column("text", "words")
    assert table.count(where="words = 'batch1_item2'") == 1
    assert table.verify().findings == ()
