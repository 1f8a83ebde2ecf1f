"""Searching a table whose rows are deleted, merged and whose columns change: the index says what the rows say."""

import pyarrow as pa
import pytest

from deltaic.table.split import ColumnIndex, SplitCache
from tests.unit.table.rows.making import film, films, ids, make_table


@pytest.fixture
def table(tmp_path):
    made = make_table(
        key=("id",),
        partition_by=("year",),
        index={"title": ColumnIndex(kind="text")},
        split_cache=SplitCache(tmp_path),
    )
    made.append(films(1, 2, 3))
    made.append(films(4, 5))
    return made


def found(table, query, **more):
    return sorted(table.search(query, k=None, columns=["id"], **more).table.column("id").to_pylist())


def test_a_search_sees_edits_and_old_versions_what_they_had(table):
    table.update({"title": "another film"}, "id = 2")
    table.delete("id = 3")
    table.merge([film(6, title="a film merged")])
    table.compact()
    assert found(table, "title:film") == [1, 2, 4, 5, 6] and found(table, "title:another") == [2]
    assert found(table, "title:3") == [] and found(table, "title:3", version=2) == [3]
    assert table.count("title:merged") == 1 and table.count("title:merged", version=2) == 0


def test_predicates_are_part_of_a_search(table):
    assert found(table, "title:film", where="year = 2001") == [1, 4]
    assert found(table, "title:film", where="id >= 2 and id < 5") == [2, 3, 4]
    best = table.search("title:film", where="id = 5", k=1)
    assert best.to_pylist()[0]["id"] == 5 and not best.limited


def test_scores_do_not_depend_on_statistics_that_skip_splits(table):
    alone = {row["id"]: row["_score"] for row in table.search("title:film", k=None).to_pylist()}
    some = {row["id"]: row["_score"] for row in table.search("title:film", where="id > 3", k=None).to_pylist()}
    assert some and all(score == pytest.approx(alone[number]) for number, score in some.items())


def test_a_renamed_column_is_searched_by_its_new_name_only(table):
    table.rename_column("title", "name")
    assert found(table, "name:film") == [1, 2, 3, 4, 5]
    table.append([{"id": 9, "name": "new film"}])
    assert found(table, "name:new") == [9]


def test_rows_from_before_a_column_are_found_by_its_default(table):
    table.add_column("genre", pa.string(), default="drama")
    table.append([film(9, genre="comedy")])
    assert found(table, "genre:drama") == [1, 2, 3, 4, 5] and found(table, "genre:comedy") == [9]
    counts = table.aggregate(group_by="genre").to_pylist()
    assert {row["genre"]: row["count"] for row in counts} == {"drama": 5, "comedy": 1}


def test_a_delete_by_query_deletes_just_what_the_search_finds(table):
    done = table.delete("year = 2001", query="title:film")
    assert done.rows == 2 and ids(table) == [2, 3, 5]
    table.delete(None, query="title:2")
    assert ids(table) == [3, 5]
    assert table.delete(None, query="title:nothing").rows == 0


def test_groups_facets_and_histograms_are_of_the_wanted_version(table):
    table.delete("year = 2001")
    assert sum(row["count"] for row in table.aggregate(group_by="year").to_pylist()) == 3
    assert sum(row["count"] for row in table.aggregate(group_by="year", version=2).to_pylist()) == 5
    assert table.facets(columns=["year"])["year"].num_rows == 2
    assert table.histogram(column="id", interval=2).num_rows == 2
    assert table.at().ranges(column="id", ranges=[(0, 3), (3, None)]) == [1, 2]


def test_an_empty_table_is_searched_too(tmp_path):
    table = make_table(split_cache=SplitCache(tmp_path))
    assert table.search("title:x").to_pylist() == [] and table.count("title:x") == 0
