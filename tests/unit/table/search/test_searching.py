"""Ranked search: rows, scores, limits that are said, snippets, explanations."""

import threading

import numpy as np
import pyarrow as pa
import pytest

from deltaic.errors import InputError, LimitError
from deltaic.table.predicate import column
from deltaic.table.query import QueryLimits, QuerySyntaxError
from deltaic.table.query.tree import Phrase, Word, all_of, none_of
from deltaic.table.search import SearchedSplit, Searcher, SnippetOptions, count, sum_
from deltaic.table.split import ColumnIndex, DocMapping
from tests.unit.table.search.making import FILMS, MAPPING, OPTIONS, films, ids, searched_splits, texts

pytest.importorskip("tantivy")

CUTS = {"one split": (0, 6), "three splits": (0, 2, 3, 6)}


@pytest.fixture(scope="module", params=CUTS)
def made(request, tmp_path_factory):
    return films(tmp_path_factory.mktemp("films"), CUTS[request.param])


FOUND = {
    "matrix": {1, 2},
    "title:matrix": {1, 2},
    "plot:matrix": set(),
    "hacker AND NOT returns": {1},
    "+simulation -returns": {1},
    '"new york"': {4},
    'plot:"a simulation"': {1},
    'plot:"hacker that"~1': {1},
    'plot:"that hacker"~2': set(),
    "genre:sf": {1, 2, 3, 5},
    "genre:SF": set(),
    "NOT genre:*": {6},
    "genre:IN [sf music]": {1, 2, 3, 4, 5},
    "genre:{music TO *]": {1, 2, 3, 5},
    "genre:s*": {1, 2, 3, 5},
    "genre:?f": {1, 2, 3, 5},
    "*lar*": {3},
    "stalkr~1": {5},
    "year:1999": {1},
    "year:[1972 TO 1979}": {3, 4},
    "year:>=1999": {1, 2},
    "rating:8.1": {3, 5},
    "budget:14": {4},
    "budget:>63": {2},
    "shown:1999": {1},
    "shown:2003-05": {2},
    "shown:<1977-06-21": {3},
    "tags:robots": {1, 2},
    "tags:*": {1, 2, 3, 4, 6},
    "tags:(cult AND space)": {6},
    "address:10.0.0.0/16": {1, 2},
    "address:10.0.0.0/8": {1, 2, 6},
    "address:2001:db8::/32": {4},
    "crew.director:Tarkovsky": {3, 5},
    "crew.size:>=100": {1, 2},
    "extra.awards.oscars:4": {1},
    "extra.awards.oscars:<5": {1, 2},
    "extra.awards.oscars:none": {6},
    "extra.color:*": {3},
    "note:n2": {2},
    "note:n2 OR title:solaris": {2, 3},
    "note:n2 AND title:solaris": set(),
    "Zürich": {6},
    "*": {1, 2, 3, 4, 5, 6},
    "-matrix -solaris": {4, 5, 6},
}


@pytest.mark.parametrize("text", FOUND)
def test_a_query_finds_its_rows(made, text):
    result = made.search(text, k=None)
    assert set(ids(result)) == FOUND[text], result.explain
    assert made.count(text) == len(FOUND[text])
    assert (result.limited, result.hits) == (False, len(FOUND[text]))


def test_rows_come_back_as_they_were_put_in(made):
    result = made.search("*", k=None)
    assert result.table.drop_columns(["_score"]).equals(FILMS)
    assert made.search("solaris").table.select(FILMS.column_names).to_pylist() == [FILMS.to_pylist()[2]]
    assert pa.table(result).num_rows == 6 and len(result) == 6


def test_columns_can_be_chosen_and_the_score_comes_along(made):
    result = made.search("solaris", columns=["year", "id"])
    assert result.table.column_names == ["year", "id", "_score"] and result.scores[0] > 0
    assert made.search("solaris", columns=()).table.column_names == ["_score"]
    with pytest.raises(InputError, match="did you mean 'title'"):
        made.search("solaris", columns=["titel"])


def test_a_limit_that_is_reached_is_said(made):
    first = made.search("genre:sf", k=2)
    assert (ids(first), first.limited, first.hits) == ([1, 2], True, None)
    counted = made.search("genre:sf", k=2, total=True)
    assert (counted.limited, counted.hits) == (True, 4)
    rest = made.search("genre:sf", k=2, offset=2)
    assert (ids(rest), rest.limited, rest.hits) == ([3, 5], False, 4)
    assert ids(made.search("genre:sf", k=0)) == [] and made.search("genre:sf", k=0).limited
    assert ids(made.search("genre:sf", k=9, offset=9)) == []
    for wrong in (-1, 2.5, "3", True):
        with pytest.raises(InputError, match="not negative"):
            made.search("matrix", k=wrong)


def test_a_predicate_is_part_of_the_query_and_not_a_filter_behind_it(made):
    best = made.search("matrix", k=1)
    other = made.search("matrix", k=1, where=column("year").differs(FILMS["year"][ids(best)[0] - 1].as_py()))
    assert len(other) == 1 and ids(other) != ids(best)
    # The same by a column that no index has.
    other = made.search("matrix", k=1, where=f"note != 'n{ids(best)[0]}'")
    assert len(other) == 1 and ids(other) != ids(best)
    assert other.explain.way == "index, then rows" and "note" in other.explain.from_rows[0]
    assert other.scores[0] == made.search("matrix", k=2).scores[1]


def test_scores_come_from_text_and_boosts(made):
    plain = made.search("title:matrix", k=None)
    filtered = made.search("title:matrix AND year:>1900 AND note:*", k=None)
    assert filtered.scores == plain.scores
    assert made.search("genre:sf").scores == [0.0] * 4
    assert made.search("genre:sf^2.5").scores == [2.5] * 4
    assert made.search("note:n3^2.5").scores == [2.5]
    assert made.search("title:matrix^3").scores == pytest.approx([3 * one for one in plain.scores])
    assert made.search("(title:matrix genre:music^2)^2").scores[0] == pytest.approx(4.0)
    assert made.search("title:matr*").scores == [1.0, 1.0]


def test_trees_are_queries_too(made):
    assert ids(made.search(all_of(Word("genre", "sf"), none_of(Word("title", "matrix"))))) == [3, 5]
    assert ids(made.search(Phrase("title", "new york"))) == [4]
    assert len(made.search(None, k=None)) == 6


def test_rows_are_ordered_by_columns(made):
    assert ids(made.search("*", order_by="year", k=None)) == [3, 4, 5, 1, 2, 6]
    assert ids(made.search("*", order_by=["-rating", "-id"], k=3)) == [1, 5, 3]
    assert made.search("*", order_by="-year", k=3).limited
    with pytest.raises(InputError, match="no column"):
        made.search("*", order_by="yeer")
    with pytest.raises(InputError, match="cannot order"):
        made.search("*", order_by="tags")


def test_snippets_are_marked_and_escaped(made):
    found = made.search("plot:(ocean OR dead)", snippets=["plot"]).table["_snippet_plot"].to_pylist()
    assert found == [
        "A psychologist meets his <b>dead</b> wife on a space station &lt;above&gt; a thinking <b>ocean</b>"
    ]
    found = made.search("saxophonist new~0", snippets=["plot", "title"], columns=["id"]).table
    assert found["_snippet_plot"].to_pylist()[0] == (
        "A <b>saxophonist</b> &amp; a singer in <b>New</b> York fall in love"
    )
    assert found["_snippet_title"].to_pylist()[0] == "<b>New</b> York, <b>New</b> York"
    marks = SnippetOptions(max_chars=24, before="[", after="]")
    found = made.search("plot:zürich", snippets=["plot", "title"], snippet_options=marks).table
    assert found["_snippet_plot"].to_pylist() == ["…Raumschiff über [Zürich]"]
    assert found["_snippet_title"].to_pylist() == [None]
    found = made.search('plot:"returns to the" OR plot:retur*', snippets=["plot"]).table["_snippet_plot"][0].as_py()
    assert found.count("<b>") == 6
    with pytest.raises(InputError, match="snippets are of text"):
        made.search("*", snippets=["year"])


@pytest.mark.parametrize("length", [1, 10, 149, 150, 151, 400])
def test_a_fragment_is_short_and_has_its_word(tmp_path, length):
    body = "x" * length + " & needle " + "y" * length
    made = texts(tmp_path, [body])
    found = made.search("needle", snippets=["body"]).table["_snippet_body"][0].as_py()
    assert "<b>needle</b>" in found and "&amp;" in found
    assert len(found) <= 150 + len("<b></b>……&amp;")


def test_an_explanation_says_how_it_was_answered(made):
    explain = made.explain("matrix OR note:n3")
    assert explain.way == "index and rows, combined" and explain.from_rows == ("note='n3'",)
    assert explain.splits_given == explain.splits_searched
    assert "title:matrix" in explain.lowered and "note='n3'" in str(explain)
    assert made.explain("matrix").way == "index"
    assert made.explain("*").way == "rows"
    assert made.explain("title:... OR year:99999").notes == (
        "'...' has no words for column 'title'", "column 'year' cannot hold that",
    )  # fmt: skip


def test_a_word_without_a_field_is_looked_for_in_the_default_columns(tmp_path):
    titles = films(tmp_path, default_columns=["title"], default_operator="and")
    assert ids(titles.search("simulation")) == []
    assert ids(titles.search("matrix reloaded")) == [2]
    with pytest.raises(InputError, match="not in the schema"):
        films(tmp_path / "2", default_columns=["titel"])


def test_clauses_on_partition_columns_choose_splits(tmp_path):
    pieces = [FILMS.slice(start, 2) for start in (0, 2, 4)]
    partitions = [{"lang": "en"}, {"lang": "ru"}, {"lang": None}]
    schema = FILMS.schema.append(pa.field("lang", pa.string()))
    made = Searcher(
        searched_splits(tmp_path, pieces, partitions=partitions), schema, mapping=MAPPING, folder=tmp_path / "joined"
    )
    assert ids(made.search("lang:ru", k=None)) == [3, 4]
    assert made.explain("lang:ru").splits_searched == 1
    assert ids(made.search("NOT lang:*", k=None)) == [5, 6]
    assert ids(made.search("lang:e* OR solaris", k=None)) == [3, 1, 2]
    assert ids(made.search(where="lang is null or lang = 'en'", k=None)) == [1, 2, 5, 6]
    assert made.search("solaris AND lang:ru").table["lang"].to_pylist() == ["ru"]
    # Filters do not change scores.
    assert made.search("matrix AND lang:en").scores == made.search("matrix").scores
    found = made.aggregate("genre:sf", group_by="lang", measures={"n": count(), "sum": sum_("year")}).to_pylist()
    assert found == [
        {"lang": "en", "n": 2, "sum": 4002}, {"lang": "ru", "n": 1, "sum": 1972}, {"lang": None, "n": 1, "sum": 1979},
    ]  # fmt: skip
    assert made.search("xyz AND lang:nowhere").explain.way in ("nothing", "index")


def test_columns_that_came_and_changed_are_searched_in_old_splits(tmp_path):
    old = FILMS.slice(0, 3).drop_columns(["genre", "address"])
    splits = searched_splits(tmp_path, [old], names="old") + searched_splits(tmp_path, [FILMS.slice(3, 3)], names="new")
    made = Searcher(splits, FILMS.schema, mapping=MAPPING, folder=tmp_path / "joined")
    assert ids(made.search("genre:sf", k=None)) == [5]
    assert ids(made.search("NOT genre:*", k=None)) == [1, 2, 3, 6]
    result = made.search("matrix OR stalker", k=None)
    assert set(ids(result)) == {1, 2, 5} and result.explain.reindexed == ()
    assert ids(made.search("address:10.0.0.0/8 OR address:*", k=None)) == [4, 6]
    whole = films(tmp_path / "whole")
    assert result.scores == whole.search("matrix OR stalker", k=None).scores
    # A title that was indexed whole has no words: such a split is indexed anew, and it is said.
    exact = DocMapping.from_schema(FILMS.schema, {k: v for k, v in OPTIONS.items() if k != "title"})
    splits = searched_splits(tmp_path, [FILMS.slice(0, 3)], mapping=exact, names="exact") + splits[1:]
    made = Searcher(splits, FILMS.schema, mapping=MAPPING, folder=tmp_path / "joined")
    result = made.search("matrix OR stalker", k=None)
    assert set(ids(result)) == {1, 2, 5} and result.explain.reindexed == (splits[0].cached.split_id,)
    assert result.scores == whole.search("matrix OR stalker", k=None).scores


def test_columns_are_called_otherwise_in_splits(tmp_path):
    rows = FILMS.rename_columns([f"c{number}" for number in range(FILMS.num_columns)])
    physical = dict(zip(FILMS.column_names, rows.column_names, strict=True))
    options = {physical[name]: option for name, option in OPTIONS.items()}
    splits = searched_splits(tmp_path, [rows], mapping=DocMapping.from_schema(rows.schema, options))
    made = Searcher(splits, FILMS.schema, physical=physical, folder=tmp_path / "joined")
    assert ids(made.search("title:matrix AND year:1999 AND note:n1")) == [1]
    assert made.search("*", k=None).table.column_names == [*FILMS.column_names, "_score"]


def test_older_types_are_widened(tmp_path):
    schema = FILMS.schema.set(FILMS.schema.get_field_index("year"), pa.field("year", pa.float64()))
    splits = searched_splits(tmp_path, [FILMS])
    made = Searcher(splits, schema, mapping=DocMapping.from_schema(schema, OPTIONS), folder=tmp_path / "joined")
    assert ids(made.search("year:>1999.5 AND matrix")) == [2]
    assert made.search("solaris").table["year"].to_pylist() == [1972.0]


def test_no_splits_are_no_rows(tmp_path):
    made = Searcher([], FILMS.schema, mapping=MAPPING, folder=tmp_path / "joined")
    result = made.search("matrix", k=None, snippets=["title"])
    assert (len(result), result.hits, result.limited) == (0, 0, False)
    assert result.table.column_names == [*FILMS.column_names, "_score", "_snippet_title"]
    assert made.count("matrix") == 0 and made.row_numbers("matrix") == {}
    assert made.aggregate("matrix", measures={"n": count(), "s": sum_("year")}).to_pylist() == [{"n": 0, "s": None}]
    assert made.aggregate("matrix", group_by="genre").num_rows == 0
    assert made.facets("matrix", columns=["genre"])["genre"].num_rows == 0
    assert made.histogram("matrix", column="year", interval=10).num_rows == 0


def test_an_empty_split_is_searched_like_any(tmp_path):
    splits = searched_splits(tmp_path, [FILMS.slice(0, 0), FILMS], mapping=MAPPING)
    made = Searcher(splits, FILMS.schema, folder=tmp_path / "joined")
    assert set(ids(made.search("matrix", k=None))) == {1, 2}
    assert made.count("*") == 6
    alone = Searcher(splits[:1], FILMS.schema, folder=tmp_path / "joined")
    assert ids(alone.search("matrix")) == [] and alone.count("genre:sf") == 0


def test_row_numbers_are_by_split(tmp_path):
    made = films(tmp_path, (0, 2, 3, 6))
    found = made.row_numbers("genre:sf")
    splits = [split.cached.split_id for split in made._splits]
    assert {split: rows.tolist() for split, rows in found.items()} == {
        splits[0]: [0, 1],
        splits[1]: [0],
        splits[2]: [1],
    }
    assert made.row_numbers("xyz") == {} and all(isinstance(rows, np.ndarray) for rows in found.values())


def test_very_long_values_are_found_whole_and_by_their_ends(tmp_path):
    long = "x" * 70_000 + "end"
    rows = pa.table({"id": [1, 2, 3], "name": [long, "x" * 70_000, "short"], "body": ["a b", "a", "b"]})
    mapping = DocMapping.from_schema(rows.schema, {"body": ColumnIndex(kind="text")})
    made = Searcher(searched_splits(tmp_path, [rows], mapping=mapping), rows.schema, folder=tmp_path / "joined")
    assert ids(made.search(Word("name", long))) == [1]
    assert ids(made.search("name:*end")) == [1]
    assert ids(made.search("name:xxx*", k=None)) == [1, 2]
    assert ids(made.search("body:a AND name:*end")) == [1]
    assert made.aggregate(None, group_by="name").num_rows == 3
    assert made.aggregate("body:a", group_by="name").num_rows == 2


def test_several_threads_search_at_once(tmp_path):
    made = films(tmp_path, (0, 2, 3, 6))
    wrong = []

    def work():
        for _ in range(20):
            for text in ("matrix", "genre:sf", "note:n2 OR title:solaris"):
                if set(ids(made.search(text, k=None))) != FOUND[text]:
                    wrong.append(text)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_deadline_ends_a_query(made):
    with pytest.raises(LimitError, match="longer than its 0 seconds") as raised:
        made.search("matrix", deadline_seconds=0)
    assert raised.value.code == "Deadline"
    with pytest.raises(LimitError):
        made.aggregate("genre:sf", group_by="note", deadline_seconds=0)
    assert made.search("matrix", deadline_seconds=60)


def test_errors_of_a_query_come_before_anything_is_opened(made):
    with pytest.raises(QuerySyntaxError, match=r"\^"):
        made.search("titel:x")
    with pytest.raises(InputError, match="no column 'yeer'"):
        made.search("x", where="yeer = 1")


def test_too_many_groups_are_refused(tmp_path):
    made = films(tmp_path, limits=QueryLimits(max_groups=3))
    with pytest.raises(LimitError, match="6 groups, the limit is 3"):
        made.aggregate(None, group_by="note")


def test_a_split_is_told_by_its_partition_value_of_any_type(tmp_path):
    splits = searched_splits(tmp_path, [FILMS], partitions=[{"part": 3}])
    schema = FILMS.schema.append(pa.field("part", pa.int64()))
    made = Searcher(splits, schema, folder=tmp_path / "joined")
    assert isinstance(splits[0], SearchedSplit)
    assert made.count("part:[2 TO 4]") == 6 and made.count("part:>3") == 0
    assert made.histogram(None, column="part", interval=2).to_pylist() == [{"part": 2, "count": 6}]
