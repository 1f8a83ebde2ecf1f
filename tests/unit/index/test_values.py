"""Hash, prefix and range indexes: paths of every kind, what is selected, letters and bounds."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from deltaic.errors import InputError, SchemaError
from deltaic.index import HashIndex, PrefixIndex, RangeIndex
from tests.unit.index.films import FILMS, Film, FilmWriter, catalogue


@pytest.fixture(scope="module")
def state():
    return catalogue(FILMS, [(7, "dvd", 167), (7, "tape", 160), (8, "dvd", 161)])


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("year", 1972, [0]),
        ("year", 1800, []),
        ("seen", True, [3]),
        ("rating", 8.5, [0]),
        ("rating", float("nan"), [3]),
        ("weight", -0.0, [3]),
        ("weight", 0.0, [4]),
        ("poster", b"\xff", [3]),
        ("poster", b"", [4]),
        ("note", "mirror", [2]),
        ("title", "Зеркало", [2]),
        ("title.value", "solaris", [4]),
        ("cast.element.id", 1, [0, 4]),
        ("cast.element.id", 2, [0, 2]),
        ("cast.element.name", "Banionis", [0, 4]),
        ("cast.element.name.value", "Clooney", [4]),
        ("tags.element", "sea", [0, 3]),
        ("tags.element.value", "space", [0, 4]),
        ("releases.key", "DE", [1, 4]),
        ("releases.value.year", 1986, [3]),
        ("releases.value.cinema", False, [1]),
    ],
)
def test_every_kind_of_path_leads_to_the_records(state, path, value, found):
    index = HashIndex.build(state, "Film", path)
    assert index.find(value).tolist() == found
    assert index.find_many([value, value])[1].tolist() == found * 2
    assert index.count(value) == len(found)
    assert [record.ordinal for record in index.records(value)] == found


@pytest.mark.parametrize(
    ("select", "value", "found"),
    [("cast", 2, {0, 2}), ("cast.element", 2, {1}), ("cast.element.name", 2, {1}), ("title", 2, {0, 2})],
)
def test_a_select_path_chooses_the_records_that_are_found(state, select, value, found):
    index = HashIndex.build(state, "Film", "cast.element.id", select)
    expected = {"cast": "ListOfActor", "cast.element": "Actor", "cast.element.name": "String", "title": "String"}
    assert index.selects == expected[select]
    texts = [record.id if index.selects == "Actor" else record for record in index.records(value)]
    assert len(texts) == len(index.find(value)) == len(found)


def test_two_paths_through_one_list_ask_one_element(state):
    index = HashIndex.build(state, "Film", ["cast.element.id", "cast.element.name"])
    assert index.find(1, "Banionis").tolist() == [0, 4]
    assert index.find(1, "Bondarchuk").tolist() == []


def test_key_and_value_of_one_map_entry_go_together(state):
    index = HashIndex.build(state, "Film", ["releases.key", "releases.value.year"])
    assert index.find("SU", 1979).tolist() == [1]
    assert index.find("DE", 1979).tolist() == []


def test_paths_through_two_collections_combine_freely(state):
    index = HashIndex.build(state, "Film", ["cast.element.id", "tags.element", "year"])
    assert index.find(1, "sea", 1972).tolist() == [0]
    assert index.find(2, "space", 1972).tolist() == [0]
    assert index.find(1, "space", 2002).tolist() == [4]


def test_a_film_that_names_an_actor_twice_is_found_once(state):
    assert HashIndex.build(state, "Film", "cast.element.id").find(2).tolist() == [0, 2]


def test_a_selected_record_stays_while_another_root_selects_it():
    writer = FilmWriter()
    filler = [Film(number, year=number) for number in range(100, 200)]
    index = HashIndex.build(writer.version([*FILMS, *filler]), "Film", "tags.element", "cast.element")
    assert [actor.id for actor in index.records("space")] == [1, 2, 4]
    # Solaris of 1972 goes; Banionis is still in that of 2002, Bondarchuk only in a film without the tag.
    index = index.update(writer.version([*FILMS[1:], *filler]))
    assert [actor.id for actor in index.records("space")] == [1, 4]
    assert index.builds == 1


def test_null_never_matches(state):
    index = HashIndex.build(state, "Film", "year")
    assert index.find(None).tolist() == []
    offsets, ordinals = index.find_many(pa.array([1972, None, 1979]))
    assert (offsets.tolist(), ordinals.tolist()) == ([0, 1, 1, 2], [0, 1])


def test_a_root_may_be_a_collection(state):
    index = HashIndex.build(state, "ListOfActor", "element.id")
    film = state["Film"][1].reference("cast")
    assert index.find(3).tolist() == [film]


def test_wrong_questions_are_errors(state):
    index = HashIndex.build(state, "Film", ["year", "title"])
    with pytest.raises(InputError, match="2 values, 1 given"):
        index.find(1972)
    with pytest.raises(InputError, match="str given for a key field of type INT"):
        index.find("1972", "Solaris")
    with pytest.raises(SchemaError, match="'element'"):
        HashIndex.build(state, "Film", "cast.id")
    with pytest.raises(SchemaError, match="LIST type ListOfActor"):
        HashIndex.build(state, "Film", "cast")
    with pytest.raises(InputError, match="selects a value"):
        HashIndex.build(state, "Film", "year", "title.value")
    with pytest.raises(InputError, match="at least one path"):
        HashIndex.build(state, "Film", [])


def test_a_prefix_ignores_case_unless_told_otherwise(state):
    folded = PrefixIndex.build(state, "Film", "title")
    assert folded.find("SOL").tolist() == [0, 4]
    assert folded.find("зерк").tolist() == folded.find("ЗЕРК").tolist() == [2]
    assert folded.find("").tolist() == [0, 1, 2, 3, 4]
    assert folded.find("solarisx").tolist() == []
    exact = PrefixIndex.build(state, "Film", "title", fold_case=False)
    assert exact.find("Sol").tolist() == [0]
    assert exact.count("sol") == 1


def test_an_index_of_words_finds_a_word_anywhere(state):
    index = PrefixIndex.build(state, "Film", "title", tokens=True)
    assert index.find("sacr").tolist() == [3]
    assert index.find("sacr THE").tolist() == [3]
    assert index.find("the mirror").tolist() == []
    assert index.find("  ").tolist() == [0, 1, 2, 3, 4]


def test_a_prefix_index_goes_through_collections(state):
    assert PrefixIndex.build(state, "Film", "cast.element.name").find("bon").tolist() == [0, 2]
    assert [film.id for film in PrefixIndex.build(state, "Film", "tags.element").records("sp")] == [7, -3]


@pytest.mark.parametrize(
    "title",
    [
        "İstanbul",
        "ΣΊΣΥΦΟΣ",
        "Straße",
        "Ǆ",
        "\ud800X",
        "\x00A",
        "a\x00B",
        "MIXED ünI",
        "日本",
        "",
        "ß" * 40,
        "\U0001f600A",
    ],
)
def test_lower_case_is_that_of_python_whatever_stands_beside_it(title):
    films = [Film(1, "plain ASCII"), Film(2, title), Film(3, "ΑΣ"), Film(4, "Ωmega \x00\x01 X")]
    state = catalogue(films)
    index = PrefixIndex.build(state, "Film", "title")
    for text in (title, "plain", "ας", "ωMEGA \x00\x01 x"):
        for end in range(len(text) + 1):
            prefix = text[:end]
            expected = [place for place, film in enumerate(films) if film.title.lower().startswith(prefix.lower())]
            assert index.find(prefix).tolist() == expected, prefix


def test_a_prefix_index_is_of_texts(state):
    with pytest.raises(InputError, match="does not lead to a text"):
        PrefixIndex.build(state, "Film", "year")


def test_a_range_has_the_bounds_that_are_asked_for(state):
    index = RangeIndex.build(state, "Film", "year")
    assert index.between(1972, 1979).tolist() == [0, 1, 2]
    assert index.between(1972, 1979, inclusive="low").tolist() == [0, 2]
    assert index.between(1972, 1979, inclusive="high").tolist() == [1, 2]
    assert index.between(1972, 1979, inclusive="neither").tolist() == [2]
    assert index.between(low=1976).tolist() == [1, 4]
    assert index.between(high=1974.5).tolist() == [0]
    assert index.between(1974.5, 1975.5).tolist() == [2]
    assert index.between(10**30).tolist() == index.between(high=-(10**30)).tolist() == []
    assert index.between(float("-inf"), float("inf")).tolist() == [0, 1, 2, 4]
    assert index.between(1979, 1972).tolist() == []
    assert (index.min(), index.max(), index.count(1970, 1980)) == (1972, 2002, 3)


def test_nan_lies_in_no_range(state):
    index = RangeIndex.build(state, "Film", "rating")
    assert index.between().tolist() == [0, 1, 4]
    assert index.between(float("nan")).tolist() == []
    assert index.max() == 8.5


def test_a_float_is_compared_as_the_number_it_is(state):
    index = RangeIndex.build(state, "Film", "rating")
    nearest = float(np.float32(8.1))
    assert nearest != 8.1
    assert index.between(8.1, 8.2).tolist() == ([1] if nearest >= 8.1 else [])
    assert index.between(nearest, nearest).tolist() == [1]
    assert index.between(high=1e300).tolist() == [0, 1, 4]


def test_texts_are_ranged_by_their_characters(state):
    index = RangeIndex.build(state, "Film", "title")
    assert index.between("S", "T").tolist() == [0, 1]
    assert index.between("solaris").tolist() == [2, 4]
    assert (index.min(), index.max()) == ("Solaris", "Зеркало")
    with pytest.raises(InputError, match="is no text"):
        index.between(1)


def test_a_range_is_of_numbers_and_texts(state):
    for path in ("seen", "poster", "title!"):
        with pytest.raises(InputError, match="no number and no text"):
            RangeIndex.build(state, "Film", path)
    with pytest.raises(InputError, match="inclusive"):
        RangeIndex.build(state, "Film", "year").between(1, 2, inclusive="left")
    with pytest.raises(InputError, match="is no number"):
        RangeIndex.build(state, "Film", "year").between("1972")


def test_all_kinds_follow_a_delta_and_leave_the_old_state_alone():
    writer = FilmWriter()
    filler = [Film(number, f"filler {number}", 3000 + number) for number in range(100, 200)]
    old = writer.version([*FILMS, *filler])
    before = [
        HashIndex.build(old, "Film", "year"),
        PrefixIndex.build(old, "Film", "title"),
        RangeIndex.build(old, "Film", "year"),
    ]
    new = writer.version([replace(FILMS[0], year=1973, title="Solyaris"), *FILMS[2:], *filler])
    hashed, prefix, ranged = (index.update(new) for index in before)
    changed = int(hashed.find(1973)[0])
    assert hashed.find(1972).tolist() == hashed.find(1979).tolist() == []
    assert sorted(prefix.find("sol").tolist()) == [4, changed]
    assert ranged.min() == 1973
    assert set(ranged.between(1970, 1980).tolist()) == {2, changed}
    assert all(index.builds == 1 and len(index.layers) == 2 for index in (hashed, prefix, ranged))
    assert before[0].find(1972).tolist() == [0]
    assert before[1].find("st").tolist() == [1]
    assert before[2].min() == 1972
