"""Views of one type: what they say of it, and how they keep to the populated records."""

import gc
import sys
import weakref

import pytest

from deltaic.errors import NotFoundError
from tests.unit.state.movies import MOVIE, catalogue


@pytest.fixture(params=[1, 4])
def state(request):
    return catalogue(request.param)


def test_a_view_tells_of_its_type(state):
    movies = state["Movie"]
    assert movies.name == "Movie" and movies.schema is MOVIE
    assert list(movies.populated) == [0, 2, 3] and list(movies.ghosts) == [4] and list(movies.previous) == []
    assert (movies.max_ordinal, movies.holes, len(movies)) == (4, 2, 3)
    assert repr(movies) == "TypeView(Movie, OBJECT, 3 records)"
    assert state["Movie"] is movies


def test_iteration_gives_the_populated_records_in_order(state):
    assert [movie.id for movie in state["Movie"]] == [7, -3, 1 << 60]


def test_ghosts_are_read_by_ordinal_only(state):
    movies = state["Movie"]
    assert movies[4].note == "gone" and 4 not in movies and 3 in movies and 1 not in movies
    with pytest.raises(NotFoundError):
        movies[1]


def test_a_record_is_in_the_view_if_its_ordinal_is(state):
    movies = state["Movie"]
    assert movies[0] in movies and movies[4] not in movies and movies[0].cast not in movies and "x" not in movies
    assert catalogue(2)["Movie"][3] in movies


def test_bytes_per_field_add_up_to_what_the_shards_hold(state):
    for name in state:
        sizes = state[name].bytes_per_field()
        assert 0 < sum(sizes.values()) <= state[name].nbytes + len(sizes) * len(state.types[name].shards)
    assert list(state["Movie"].bytes_per_field())[:3] == ["id", "year", "rating"]
    assert list(state["SetOfString"].bytes_per_field()) == ["pointers", "buckets"]


def test_a_view_does_not_keep_its_state_but_keeps_its_records(state):
    movies = catalogue()["Movie"]
    assert movies[0].title == "Solaris"
    fresh = catalogue()
    watched, view = weakref.ref(fresh), fresh["Movie"]
    view.column("year")
    gc.disable()
    try:
        del fresh
        assert watched() is None
    finally:
        gc.enable()
    assert view[0].cast[1].name == "Banionis"


def test_a_view_that_lets_go_holds_nothing_and_opens_again():
    state = catalogue()
    view = state["Movie"]
    record = view[0]
    reader = view._access[0]
    held = sys.getrefcount(reader)
    del view._access
    assert sys.getrefcount(reader) == held - 1
    assert record.title == "Solaris" and view[0] == record


def test_ghosts_of_a_recorded_chain_are_readable_until_the_next_delta(hollow_fixtures):
    import json

    from deltaic.state.read import ReadState

    folder = hollow_fixtures / "ordinal-reuse"
    state = ReadState.load(folder / "snapshot-1")
    seen = 0
    for version in range(2, 8):
        state = state.apply(folder / f"delta-{version - 1}-{version}")
        wanted = json.loads((folder / f"ghosts-{version}.json").read_text())
        for name, ghosts in wanted.items():
            view = state[name]
            assert sorted(map(int, ghosts)) == list(view.ghosts)
            for ordinal, expected in ghosts.items():
                record = view[int(ordinal)]
                found = [record[field] for field in record.field_names()] if name == "Thing" else record.ordinals()
                assert found == expected
                seen += 1
    assert seen > 20
