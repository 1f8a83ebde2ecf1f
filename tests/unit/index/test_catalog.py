"""The records of a type as a mapping and as the answer to a question; the indexes of a state and of the next one."""

import gc
import threading
import weakref

import pytest

from deltaic.errors import InputError, NotFoundError, SchemaError
from deltaic.index import Lookup, any_of, between, starts_with
from tests.unit.index.films import FILMS, Film, FilmWriter, catalogue


@pytest.fixture
def lookup():
    return Lookup(catalogue(FILMS, [(7, "dvd", 167), (7, "tape", 160), (8, "dvd", 161)]))


def test_a_table_is_a_mapping_by_primary_key(lookup):
    films = lookup["Film"]
    assert films[7].title == "Solaris"
    assert films.get(8).title == "Stalker"
    assert films.get(80) is None
    assert 9 in films and 90 not in films
    assert len(films) == 5
    assert list(films) == list(films.keys()) == [film.id for film in FILMS]
    assert [film.title for film in films.values()] == [film.title for film in FILMS]
    assert {key: film.year for key, film in films.items()} == {film.id: film.year for film in FILMS}
    with pytest.raises(NotFoundError, match="no Film with the key 80"):
        films[80]
    assert films.find([7, 80]).tolist() == [0, -1]


def test_a_compound_key_is_a_tuple(lookup):
    editions = lookup["Edition"]
    assert editions[7, "tape"].minutes == 160
    assert list(editions) == [(7, "dvd"), (7, "tape"), (8, "dvd")]


def test_a_table_without_a_key_says_so(lookup):
    releases = lookup["Release"]
    assert len(releases) == len(list(releases))
    with pytest.raises(InputError, match="no primary key"):
        releases[1]
    assert {release.year for release in releases.where(cinema=True)} == {1972, 1979, 1986, 2003}


def test_an_unknown_type_is_not_found(lookup):
    with pytest.raises(NotFoundError):
        lookup["Nonsense"]
    assert "Film" in lookup and "Nonsense" not in lookup


CASES = [
    ({"year": 1972}, [0]),
    ({"year": [1972, 1979]}, [0, 1]),
    ({"year": any_of({1972, None})}, [0, 3]),
    ({"year": None}, [3]),
    ({"year": 1800}, []),
    ({"year": 10**20}, []),
    ({"year": between(1972, 1979)}, [0, 1, 2]),
    ({"year": between(1972, 1979, inclusive="neither")}, [2]),
    ({"title": "Solaris"}, [0]),
    ({"title": starts_with("SOL")}, [0, 4]),
    ({"title": starts_with("Sol", fold_case=False)}, [0]),
    ({"title": "", "year": 1972}, []),
    ({"id": 7}, [0]),
    ({"id": 7, "year": 1979}, []),
    ({"id": 7, "year": 1972}, [0]),
    ({"id": [7, 8, 80], "seen": None}, [0, 1]),
    ({"cast.element.id": 1}, [0, 4]),
    ({"cast.element.id": 1, "year": 2002}, [4]),
    ({"cast.element.id": 1, "cast.element.name": "Bondarchuk"}, [0]),
    ({"cast.element.id": between(3, 4)}, [1, 4]),
    ({"cast.element.id": None}, [3]),
    ({"tags.element": "sea", "releases.key": "SU"}, [0]),
    ({"releases.value.year": 1986}, [3]),
    ({"poster": b"\xff"}, [3]),
    ({"rating": 8.5, "tags.element": ["sea", "zone"]}, [0]),
    ({}, [0, 1, 2, 3, 4]),
]


@pytest.mark.parametrize(("asked", "found"), CASES, ids=[str(sorted(asked)) + str(found) for asked, found in CASES])
@pytest.mark.parametrize("indexed", [False, True])
def test_a_question_has_the_same_answer_with_and_without_indexes(lookup, asked, found, indexed):
    if indexed:
        for path in ("year", "title", "id", "cast.element.id", "tags.element"):
            lookup.hash("Film", path)
        lookup.hash("Film", ["cast.element.id", "cast.element.name"])
        lookup.hash("Film", ["cast.element.id", "year"])
        lookup.range("Film", "year")
        lookup.range("Film", "cast.element.id")
        lookup.prefix("Film", "title")
        lookup.prefix("Film", "title", tokens=True)
    answer = lookup["Film"].where(asked)
    assert answer.ordinals.tolist() == found, answer.plan
    assert len(answer) == len(found)
    assert [film.ordinal for film in answer] == found
    if found:
        assert answer[0].ordinal == found[0]


def test_keywords_name_paths_with_two_underscores(lookup):
    films = lookup["Film"]
    assert films.where(cast__element__id=1, year=2002).ordinals.tolist() == [4]
    with pytest.raises(InputError, match="asked for twice"):
        films.where({"year": 1}, year=2)
    with pytest.raises(SchemaError, match="no field 'nonsense'"):
        films.where(nonsense=1)
    with pytest.raises(InputError, match="str given"):
        films.where(year="1972")


def test_explain_says_which_index_serves(lookup):
    films = lookup["Film"]
    assert films.explain(year=1972).scans
    assert "columns of all records" in str(films.explain(year=1972))
    assert "key index of Film by id" in str(films.explain(id=7, year=1972))
    assert "columns of the records left" in str(films.explain(id=7, year=1972))
    years = lookup.hash("Film", "year")
    assert films.explain(year=1972).indexes == (years,)
    both = lookup.hash("Film", ["cast.element.id", "year"])
    assert films.explain(year=1972, cast__element__id=1).indexes == (both,)
    assert films.explain(year=between(1, 2)).scans
    ranged = lookup.range("Film", "year")
    assert films.explain(year=between(1, 2)).indexes == (ranged,)
    prefix = lookup.prefix("Film", "title.value")
    assert films.explain(title=starts_with("a")).indexes == (prefix,)
    assert films.explain(title=starts_with("a", fold_case=False)).scans
    assert str(films.explain()) == "all records of Film"


def test_an_index_over_one_member_does_not_answer_for_two(lookup):
    index = lookup.hash("Film", ["cast.element.id", "cast.element.name"])
    plan = lookup["Film"].explain(cast__element__id=1, cast__element__name="Bondarchuk")
    assert index not in plan.indexes


def test_records_that_share_a_key_are_all_found():
    lookup = Lookup(catalogue([Film(1, "a"), Film(1, "b"), Film(2, "c")]))
    assert [film.title for film in lookup["Film"].where(id=1)] == ["a", "b"]
    assert lookup["Film"].explain(id=1).indexes


def test_head_and_sample_give_records(lookup):
    films = lookup["Film"]
    assert [film.id for film in films.head(2)] == [7, 8]
    assert films.head(0) == []
    assert len(films.head(100)) == 5
    assert [film.id for film in films.sample(3, seed=1)] == [film.id for film in films.sample(3, seed=1)]
    assert len({film.id for film in films.sample(100)}) == 5


def test_tables_and_answers_become_frames(lookup):
    films = lookup["Film"]
    assert films.to_arrow(fields=["id"]).to_pyarrow().column("id").to_pylist() == [film.id for film in FILMS]
    assert films.where(year=[1972, 2002]).to_pandas(fields=["id", "title"]).to_dict("list") == {
        "id": [7, -3],
        "title": ["Solaris", "solaris"],
    }
    assert films.to_polars(fields=["id", "year"])["year"].to_list() == [film.year for film in FILMS]
    assert films.where(year=1972).to_polars(fields=["title"])["title"].to_list() == ["Solaris"]


def test_tables_and_answers_are_rows_for_whatever_takes_arrow(lookup):
    import polars
    import pyarrow

    for rows, ids in ((lookup["Film"], [film.id for film in FILMS]), (lookup["Film"].where(year=1972), [7])):
        assert pyarrow.table(rows)["id"].to_pylist() == ids
        assert polars.DataFrame(rows)["id"].to_list() == ids
    assert len(polars.DataFrame(lookup["Release"])) == len(lookup["Release"])


def test_a_lookup_makes_an_index_once(lookup):
    assert lookup.key("Film") is lookup.key("Film") is lookup["Film"].index
    assert lookup.hash("Film", "year") is lookup.hash("Film", ["year"])
    assert lookup.prefix("Film", "title") is not lookup.prefix("Film", "title", tokens=True)
    assert lookup.unique("Film", "title") is lookup.unique("Film", ["title"])
    assert len(lookup.indexes()) == 5
    assert lookup.nbytes > 0


def test_a_refreshed_lookup_carries_its_indexes_on_and_leaves_the_old_one_alone():
    writer = FilmWriter()
    filler = [Film(number, f"filler {number}", 3000 + number) for number in range(100, 200)]
    old = Lookup(writer.version([*FILMS, *filler]))
    old["Film"][7]
    old.hash("Film", "year")
    new = old.refreshed(writer.version([*FILMS[1:], *filler]))
    assert 7 in old["Film"] and 7 not in new["Film"]
    assert old["Film"].where(year=1972).ordinals.tolist() == [0]
    assert new["Film"].where(year=1972).ordinals.tolist() == []
    assert [(index.builds, index.updates) for index in new.indexes()] == [(1, 1), (1, 1)]
    assert new.refreshed(new.state) is new


def test_a_refresh_to_another_model_drops_what_it_has_no_fields_for(lookup):
    lookup.hash("Film", "year")
    lookup.hash("Release", "year")
    other = FilmWriter("Film @PrimaryKey(id) { long id; int year; }\n")
    other._write.add_object("Film", {"id": 7, "year": 1})
    import io

    from deltaic.state.read import ReadState

    blob = io.BytesIO()
    other._write.write_snapshot(blob)
    later = lookup.refreshed(ReadState.load(blob.getvalue()))
    assert [index.definition.type_name for index in later.indexes()] == ["Film"]
    assert later["Film"].where(year=1).ordinals.tolist() == [0]


def test_many_threads_share_one_lookup(lookup):
    found, wrong = [], []

    def work():
        try:
            for _ in range(200):
                assert lookup["Film"][7].title == "Solaris"
                assert lookup.hash("Film", "year").find(1979).tolist() == [1]
            found.append(lookup.key("Film"))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len({id(index) for index in found}) == 1
    assert len(lookup.indexes()) == 2


def test_what_nobody_holds_goes_at_once():
    lookup = Lookup(catalogue(FILMS))
    lookup["Film"][7]
    lookup["Film"].where(year=1972, cast__element__id=1)
    lookup.prefix("Film", "title").find("s")
    lookup["Release"].where(year=1972)
    state = weakref.ref(lookup.state)
    gc.disable()
    try:
        del lookup
        assert state() is None
    finally:
        gc.enable()
