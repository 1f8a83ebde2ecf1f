"""Addresses followed through nested values: reading, writing by copy, removing."""

import copy

import pytest

from deltaic.errors import InputError, NotFoundError
from deltaic.wire.references import MISSING, Address, Index, Key, MapKey, delete, get, key_text, put
from deltaic.wire.references import set as set_at

MOVIE = {
    "title": "Solaris",
    "cast": [{"name": "Banionis", "roles": ["Kelvin"]}, {"name": "Bondarchuk", "roles": ["Hari", "Khari"]}],
    "ratings": {"imdb": 8.0, "kp": 8.1},
    "years": {1972: "first", 2002: "again"},
    "matrix": [[1, 2, 3], [4, 5, 6]],
    "genres": frozenset({"drama", "mystery"}),
    "pair": (1, 2),
    "nothing": None,
}


def at(text):
    return Address.parse(text)


READ = {
    "title": "Solaris",
    "cast[1].name": "Bondarchuk",
    "cast[].name": ["Banionis", "Bondarchuk"],
    "cast[].roles[0]": ["Kelvin", "Hari"],
    "cast[].roles[]": [["Kelvin"], ["Hari", "Khari"]],
    "cast[0:9].name": ["Banionis", "Bondarchuk"],
    "cast[1:2].name": ["Bondarchuk"],
    "cast[5:9].name": [],
    'ratings{"imdb"}': 8.0,
    "ratings{}": {"imdb": 8.0, "kp": 8.1},
    'years{"1972"}': "first",
    "matrix[1][0:2]": [4, 5],
    "matrix[][2]": [3, 6],
    "matrix[1,0][0]": [4, 1],
    "matrix[0][2:3,0:1]": [3, 1],
    'genres{"drama"}': "drama",
    "genres{}": ["drama", "mystery"],
    "pair[1]": 2,
    "nothing": None,
}


@pytest.mark.parametrize(("text", "value"), READ.items())
def test_what_is_at_an_address_is_read(text, value):
    assert get(MOVIE, at(text)) == value


MISSED = ["absent", "cast[2]", "cast[0].absent", 'ratings{"rt"}', "nothing.inner", "nothing[]", "cast[0,2]",
          "absent[1:2]", 'genres{"noir"}', 'years{"1999"}', "cast[].absent"]  # fmt: skip


@pytest.mark.parametrize("text", MISSED)
def test_what_is_not_there_is_told_or_stands_for_a_default(text):
    with pytest.raises(NotFoundError, match="nothing at"):
        get(MOVIE, at(text))
    with pytest.raises(NotFoundError):
        delete(MOVIE, at(text))
    assert delete(MOVIE, at(text), missing_ok=True) is MOVIE
    assert get(MOVIE, at(text), 0) in (0, [0, 0], [{"name": "Banionis", "roles": ["Kelvin"]}, 0])


@pytest.mark.parametrize("text", ["title[0]", "title.inner", 'title{"k"}', "cast.name", 'cast{"k"}', "ratings[0]"])
def test_a_value_of_another_kind_than_the_address_wants_is_refused(text):
    for work in (get, delete, lambda value, address: put(value, address, 1)):
        with pytest.raises(InputError) as caught:
            work(MOVIE, at(text))
        assert caught.value.code == "ValueMismatch"


def test_writing_copies_what_is_on_the_way_and_shares_the_rest():
    before = copy.deepcopy(MOVIE)
    after = put(MOVIE, at("cast[1].name"), "Natalya")
    assert MOVIE == before
    assert after["cast"][1] == {"name": "Natalya", "roles": ["Hari", "Khari"]}
    assert after["cast"][0] is MOVIE["cast"][0]
    assert after["cast"][1]["roles"] is MOVIE["cast"][1]["roles"]
    assert after["ratings"] is MOVIE["ratings"]


WRITTEN = {
    "title": 1,
    "cast[].name": 1,
    'ratings{"imdb"}': 1,
    'ratings{"new"}': 1,
    'years{"1972"}': 1,
    "matrix[1][0:2]": 1,
    "matrix[][2]": 1,
    "matrix[1,0][0]": 1,
    "pair[1]": 1,
    "nothing.made.inner": 1,
    "absent.made": 1,
    'absent{"k"}.made': 1,
    "absent[0].made": 1,
    "cast[2]": 1,
    "ratings{}": 1,
}


def leaves(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [value] if inner is None else [leaf for one in inner for leaf in leaves(one)]


@pytest.mark.parametrize("text", WRITTEN)
def test_what_was_written_is_read_at_every_place(text):
    before = copy.deepcopy(MOVIE)
    after = put(MOVIE, at(text), "new")
    assert set(leaves(get(after, at(text)))) == {"new"}
    assert MOVIE == before
    assert set_at is put


def test_each_place_can_get_a_value_of_its_own():
    assert put(MOVIE, at("matrix[][0:2]"), [[7, 8], [9, 10]], each=True)["matrix"] == [[7, 8, 3], [9, 10, 6]]
    assert put(MOVIE, at("matrix[1,0][2]"), ["x", "y"], each=True)["matrix"] == [[1, 2, "y"], [4, 5, "x"]]
    assert put(MOVIE, at("ratings{}"), {"imdb": 1, "kp": 2}, each=True)["ratings"] == {"imdb": 1, "kp": 2}
    for text, values in (("matrix[][0]", [1]), ("matrix[][0]", 5), ("ratings{}", {"imdb": 1}), ("ratings{}", [1, 2])):
        with pytest.raises(InputError):
            put(MOVIE, at(text), values, each=True)
    with pytest.raises(NotFoundError):
        put(MOVIE, at("absent[]"), [1], each=True)


def test_a_step_that_selects_nothing_changes_nothing():
    for text in ("cast[5:9].name", "absent[].name", "nothing[].name", "absent{}.name", "a.b[]"):
        assert put(MOVIE, at(text), "new") == MOVIE


def test_an_element_is_appended_only_where_it_is_next():
    assert put([1, 2], at("[2]"), 3) == [1, 2, 3]
    with pytest.raises(NotFoundError, match="2 elements"):
        put([1, 2], at("[3]"), 4)
    with pytest.raises(NotFoundError):
        put([1, 2], at("[0,3]"), 4)


def test_keys_of_a_map_keep_their_kind():
    assert put(MOVIE, at('years{"2024"}'), "x")["years"][2024] == "x"
    with pytest.raises(InputError, match="no key"):
        put(MOVIE, at('years{"soon"}'), "x")
    assert put({}, Address((MapKey("1"),)), "x") == {"1": "x"}
    assert put({1.5: "a"}, Address((MapKey("2.5"),)), "x") == {1.5: "a", 2.5: "x"}
    assert [key_text(key) for key in ("a", True, False, 7, 1.5)] == ["a", "true", "false", "7", "1.5"]
    assert get({True: "yes", False: "no"}, Address((MapKey("false"),))) == "no"


REMOVED = {
    "title": lambda movie: "title" not in movie,
    "cast[0]": lambda movie: [one["name"] for one in movie["cast"]] == ["Bondarchuk"],
    "cast[].roles": lambda movie: [list(one) for one in movie["cast"]] == [["name"], ["name"]],
    "cast[1].roles[0]": lambda movie: movie["cast"][1]["roles"] == ["Khari"],
    'ratings{"kp"}': lambda movie: movie["ratings"] == {"imdb": 8.0},
    "ratings{}": lambda movie: movie["ratings"] == {},
    'years{"1972"}': lambda movie: movie["years"] == {2002: "again"},
    "matrix[][0:2]": lambda movie: movie["matrix"] == [[3], [6]],
    "matrix[1,0]": lambda movie: movie["matrix"] == [],
    "matrix[0][2:3,0:1]": lambda movie: movie["matrix"] == [[2], [4, 5, 6]],
    'genres{"drama"}': lambda movie: movie["genres"] == {"mystery"},
    "genres{}": lambda movie: movie["genres"] == frozenset(),
    "pair[0]": lambda movie: movie["pair"] == (2,),
}


@pytest.mark.parametrize("text", REMOVED)
def test_what_was_removed_is_gone_and_the_given_value_stays(text):
    before = copy.deepcopy(MOVIE)
    assert REMOVED[text](delete(MOVIE, at(text)))
    assert MOVIE == before


def test_elements_of_a_set_are_replaced_and_added_by_their_text():
    assert put(MOVIE, at('genres{"drama"}'), "noir")["genres"] == {"noir", "mystery"}
    assert put(MOVIE, at('genres{"x"}'), "x")["genres"] == {"drama", "mystery", "x"}
    for text in ('genres{"drama"}.inner', "genres[0]"):
        with pytest.raises(InputError):
            put(MOVIE, at(text), 1)
        with pytest.raises(InputError):
            delete(MOVIE, at(text))


def test_the_value_itself_is_read_and_replaced_but_not_removed():
    whole = Address(())
    assert get(MOVIE, whole) is MOVIE and put(MOVIE, whole, 5) == 5
    with pytest.raises(InputError):
        delete(MOVIE, whole)


def test_an_address_deeper_than_values_can_be_is_refused():
    deep = Address((Key("a"),) * 513)
    for work in (lambda: get({}, deep), lambda: put({}, deep, 1), lambda: delete({}, deep)):
        with pytest.raises(InputError, match="512 deep"):
            work()
    assert get(put({}, Address((Key("a"),) * 512), 1), Address((Key("a"),) * 512)) == 1
    assert put([], Address((Index(0),) * 3), 1) == [[[1]]]


def test_missing_says_its_name():
    assert repr(MISSING) == "MISSING"
