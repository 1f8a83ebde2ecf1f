"""Indexes by key: one key, many keys, compound and nested keys, nulls and duplicates, deltas."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from deltaic.errors import InputError, NotFoundError, SchemaError, ValidationError
from deltaic.index import PrimaryKeyIndex, UniqueKeyIndex
from tests.unit.index.films import FILMS, Film, FilmWriter, catalogue


@pytest.fixture(scope="module")
def state():
    return catalogue(FILMS, [(7, "dvd", 167), (7, "tape", 160), (8, "dvd", 161), (9, None, 1)])


def test_a_key_gives_the_record(state):
    index = PrimaryKeyIndex.build(state, "Film")
    assert [index[film.id].title for film in FILMS] == [film.title for film in FILMS]
    assert [index.ordinal(film.id) for film in FILMS] == [0, 1, 2, 3, 4]
    assert 7 in index and 70 not in index
    assert len(index) == 5


def test_a_missing_key_is_said_to_be_missing(state):
    index = PrimaryKeyIndex.build(state, "Film")
    with pytest.raises(NotFoundError, match="no Film with the key 70"):
        index[70]
    assert index.ordinal(70) == -1
    assert index.get(70) is None
    assert index.get(70, "none") == "none"


@pytest.mark.parametrize("key", [None, 2**70, -(2**70), -(2**63), 2**63])
def test_a_key_that_no_record_can_hold_is_missing_and_no_error(state, key):
    index = PrimaryKeyIndex.build(state, "Film")
    assert index.ordinal(key) == -1
    assert index.find([key, 7]).tolist() == [-1, 0]


@pytest.mark.parametrize("key", ["7", 7.0, True, b"7", (7, 8)])
def test_a_key_of_another_type_is_an_error(state, key):
    index = PrimaryKeyIndex.build(state, "Film")
    with pytest.raises(InputError):
        index.ordinal(key)
    with pytest.raises(InputError):
        index.find([key])


@pytest.mark.parametrize(
    "keys",
    [
        [7, -3, 70, 1 << 40],
        np.array([7, -3, 70, 1 << 40]),
        np.array([7, -3, 70, 1 << 40], object),
        pa.array([7, -3, 70, 1 << 40]),
        pa.chunked_array([[7, -3], [70], [], [1 << 40]]),
        (7, -3, 70, 1 << 40),
        range(0),
    ],
    ids=["list", "numpy", "objects", "arrow", "chunks", "tuple", "empty"],
)
def test_a_batch_of_keys_comes_in_many_forms(state, keys):
    found = PrimaryKeyIndex.build(state, "Film").find(keys)
    assert found.dtype == np.int64
    assert found.tolist() == [0, 4, -1, 3][: len(keys)]


def test_a_long_that_has_the_hash_of_another_is_not_taken_for_it():
    # Hollow folds a long by xor of its words: these two have one hash.
    one, other = 5, (1 << 32) + 4
    exact = PrimaryKeyIndex.build(catalogue([Film(one)]), "Film")
    assert exact.find([one, other]).tolist() == [0, -1]
    assert (exact.ordinal(one), exact.ordinal(other)) == (0, -1)
    both = PrimaryKeyIndex.build(catalogue([Film(one), Film(other), Film(-1)]), "Film")
    assert both.find([other, one, -1, (1 << 32) - 1]).tolist() == [1, 0, 2, -1]
    assert both.ordinal(other) == 1


def test_an_exact_index_that_takes_in_a_long_stays_right():
    writer = FilmWriter()
    films = [Film(number) for number in range(40)]
    index = PrimaryKeyIndex.build(writer.version(films), "Film")
    later = index.update(writer.version([*films, Film((1 << 32) + 4)]))
    assert later.find([4, 5, (1 << 32) + 4, (1 << 32) + 5]).tolist() == [4, 5, 40, -1]
    assert index.find([(1 << 32) + 4]).tolist() == [-1]


def test_batches_with_nulls_find_the_rest(state):
    index = PrimaryKeyIndex.build(state, "Film")
    assert index.find([7, None, 8]).tolist() == [0, -1, 1]
    assert index.find(pa.array([7, None, 8])).tolist() == [0, -1, 1]
    assert index.find(np.ma.array([7, 9, 8], mask=[False, True, False])).tolist() == [0, -1, 1]
    titles = PrimaryKeyIndex.build(state, "Film", "title")
    assert titles.find(["Solaris", None, "Зеркало"]).tolist() == [0, -1, 2]
    assert titles.find(pa.array(["Solaris", None, "Зеркало", "solaris"])).tolist() == [0, -1, 2, 4]
    assert titles.find(pa.array(["Solaris", "Solaris"]).dictionary_encode()).tolist() == [0, 0]


def test_a_key_may_lie_behind_a_reference(state):
    index = PrimaryKeyIndex.build(state, "Film", ["title"])
    assert [index.ordinal(film.title) for film in FILMS] == [0, 1, 2, 3, 4]
    assert index["Зеркало"].year == 1975
    assert PrimaryKeyIndex.build(state, "Film", ["title.value"]).ordinal("Stalker") == 1


def test_a_key_may_be_the_reference_itself(state):
    index = PrimaryKeyIndex.build(state, "Film", ["title!"])
    ordinal = state["Film"][1].reference("title")
    assert index.ordinal(ordinal) == 1


def test_a_compound_key_is_a_tuple(state):
    index = PrimaryKeyIndex.build(state, "Edition")
    assert index[7, "tape"].minutes == 160
    assert index.ordinal((8, "dvd")) == 2
    assert index.ordinal((8, "tape")) == -1
    assert index.find(([7, 7, 8, 9], ["dvd", "tape", "dvd", None])).tolist() == [0, 1, 2, -1]
    assert index.find([(7, "tape"), (8, "dvd"), (1, "x")]).tolist() == [1, 2, -1]
    assert index.find([]).tolist() == []
    assert [record and record.minutes for record in index.records([(7, "dvd"), (1, "x")])] == [167, None]


def test_a_compound_key_of_the_wrong_shape_is_an_error(state):
    index = PrimaryKeyIndex.build(state, "Edition")
    for key in (7, (7,), (7, "a", "b")):
        with pytest.raises(InputError):
            index.ordinal(key)
    with pytest.raises(InputError):
        index.find(([7], ["a", "b"]))


def test_records_with_a_null_in_their_key_are_named(state):
    index = PrimaryKeyIndex.build(state, "Edition")
    assert index.nulls().tolist() == [3]
    assert len(index) == 3
    years = PrimaryKeyIndex.build(state, "Film", "year")
    assert years.nulls().tolist() == [3]
    assert years.ordinal(1972) == 0


def test_of_records_with_one_key_the_first_is_found_and_the_others_are_named():
    films = [Film(1, "a", 1990), Film(2, "b", 1991), Film(3, "c", 1990), Film(4, "d", 1990)]
    index = UniqueKeyIndex.build(catalogue(films), "Film", "year")
    assert index.ordinal(1990) == 0
    assert index.duplicates().ordinals.tolist() == [2, 3]
    assert index.duplicates().firsts.tolist() == [0, 0]
    with pytest.raises(ValidationError, match=r"2 records of Film .*1990"):
        index.check_unique()
    PrimaryKeyIndex.build(catalogue(films), "Film").check_unique()


def test_the_first_of_equal_keys_is_found_after_deltas_as_after_a_rebuild():
    writer = FilmWriter()
    filler = [Film(number, year=number) for number in range(100, 200)]
    index = PrimaryKeyIndex.build(writer.version([Film(1, "x", 7), Film(2, "y", 7), *filler]), "Film", "year")
    assert index.ordinal(7) == 0
    index = index.update(writer.version([Film(2, "y", 7), *filler]))
    assert index.ordinal(7) == 1
    assert index.ordinals(7) == [1]
    # Ordinal 0 is free again, and the film that takes it has the key of a later one.
    index = index.update(writer.version([Film(2, "y", 7), *filler]))
    index = index.update(writer.version([Film(3, "z", 7), Film(2, "y", 7), *filler]))
    assert index.state["Film"][0].id == 3
    assert index.ordinal(7) == 0
    assert index.ordinals(7) == [0, 1]
    assert index.builds == 1 and len(index.layers) > 1


def test_an_update_leaves_the_old_index_as_it_was():
    writer = FilmWriter()
    old = PrimaryKeyIndex.build(writer.version(FILMS), "Film")
    new = old.update(writer.version([replace(FILMS[0], title="Solyaris"), *FILMS[2:]]))
    assert old[7].title == "Solaris" and new[7].title == "Solyaris"
    assert old.ordinal(8) == 1 and new.ordinal(8) == -1
    assert (old.builds, old.updates, new.builds, new.updates) == (1, 0, 1, 1)


def test_an_update_to_its_own_state_is_the_index_itself(state):
    index = PrimaryKeyIndex.build(state, "Film")
    assert index.update(state) is index


def test_an_update_past_a_snapshot_is_a_build(state):
    index = PrimaryKeyIndex.build(state, "Film")
    later = index.update(catalogue(FILMS[:2]))
    assert (later.builds, later.updates) == (2, 0)
    assert later.find([7, 8, 9]).tolist() == [0, 1, -1]


def test_an_update_over_several_deltas_needs_to_be_told_what_they_touched():
    writer = FilmWriter()
    filler = [Film(number) for number in range(1000, 1100)]
    states = [writer.version([*films, *filler]) for films in (FILMS, FILMS[1:], FILMS[2:], FILMS)]
    index = PrimaryKeyIndex.build(states[0], "Film")
    assert index.update(states[-1]).builds == 2
    steps = [
        {name: (old.populated, state.types[name].populated) for name, old in before.types.items()}
        for before, state in pairwise(states)
    ]
    later = index.update(states[-1], steps)
    assert later.builds == 1
    assert [later[film.id].title for film in FILMS] == [film.title for film in FILMS]
    assert later.find([film.id for film in filler]).min() >= 0


def test_an_empty_type_has_an_index():
    index = PrimaryKeyIndex.build(catalogue([]), "Film")
    assert index.find([1]).tolist() == [-1]
    assert index.duplicates().ordinals.tolist() == []


def test_what_cannot_be_a_key_is_refused(state):
    with pytest.raises(InputError, match="no primary key"):
        PrimaryKeyIndex.build(state, "Release")
    with pytest.raises(InputError, match="no OBJECT"):
        PrimaryKeyIndex.build(state, "ListOfActor", "element")
    with pytest.raises(SchemaError, match="OBJECTs only"):
        PrimaryKeyIndex.build(state, "Film", "cast.element.id")
    with pytest.raises(SchemaError, match="no field 'nonsense'"):
        PrimaryKeyIndex.build(state, "Film", "nonsense")
    with pytest.raises(NotFoundError):
        PrimaryKeyIndex.build(state, "Nonsense", "id")
    with pytest.raises(InputError):
        UniqueKeyIndex.build(state, "Film")


@pytest.mark.parametrize("path", ["year", "rating", "weight", "seen", "poster", "note", "title", "id"])
def test_every_type_of_field_can_be_a_key(state, path):
    index = PrimaryKeyIndex.build(state, "Film", path)
    seen = {}
    for ordinal in state["Film"].populated:
        value = index.key_of(ordinal)
        if value is not None:
            assert index.ordinal(value) == index.find([value])[0] == seen.setdefault(repr(value), ordinal)
    assert len(seen) == len(set(seen.values()))
