"""The movie catalogue of a million movies, written by columns, has the SHA-256 sums of the blobs that Java wrote."""

import hashlib

import numpy as np
import pytest

from benchmarks.movies import ACTORS, FULL_SIZE, SCHEMAS, SHA256, Catalogue, actor_columns, state_tag
from deltaic.kernels import COMPILED, records
from deltaic.schema.text import parse_schemas
from deltaic.state.write import WriteState
from deltaic.state.write_columns import VariableColumn


class Sum:
    """A stream that keeps nothing but the sum."""

    def __init__(self):
        self._sum = hashlib.sha256()

    def write(self, data):
        self._sum.update(data)
        return len(data)

    def __str__(self):
        return self._sum.hexdigest()


def sum_of(write):
    stream = Sum()
    write(stream)
    return str(stream)


def add(state, catalogue):
    """Add all movies in the order of Java's object mapper: title, per actor name and actor, list, movie."""
    movies, actors = catalogue.columns(), actor_columns()
    count, offsets = len(movies.id), np.asarray(movies.cast_offsets, np.int64)
    titles_at = offsets[:-1] + np.arange(count)
    is_title = np.zeros(count + len(movies.cast), np.bool_)
    is_title[titles_at] = True
    starts, ends = np.empty(len(is_title), np.int64), np.empty(len(is_title), np.int64)
    data = np.concatenate((movies.title.data, actors.name.data))
    behind = len(movies.title.data)
    starts[is_title], ends[is_title] = movies.title.offsets[:-1], movies.title.offsets[1:]
    starts[~is_title] = behind + actors.name.offsets[:-1][movies.cast]
    ends[~is_title] = behind + actors.name.offsets[1:][movies.cast]
    strings = state.add_objects("String", {"value": VariableColumn(*records.gather_ranges(data, starts, ends))})
    cast = state.add_objects(
        "Actor",
        {"id": actors.id[movies.cast], "name": strings[~is_title], "birthYear": actors.birth_year[movies.cast]},
    )
    lists = state.add_lists("ListOfActor", offsets, cast)
    state.add_objects(
        "Movie",
        {
            "id": movies.id,
            "year": movies.year,
            "rating": movies.rating,
            "title": strings[is_title],
            "cast": lists,
        },
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not COMPILED, reason="takes an hour with plain kernels")
def test_a_million_movies_have_the_recorded_sums():
    catalogue = Catalogue.first(FULL_SIZE)
    assert ACTORS == 100_000
    state = WriteState(parse_schemas(SCHEMAS), tag=state_tag(0))
    add(state, catalogue)
    assert sum_of(state.write_snapshot) == SHA256["snapshot-0"]
    for version in range(1, 11):
        state.next_cycle(state_tag(version))
        catalogue, _ = catalogue.advance()
        add(state, catalogue)
        if version == 1:
            assert sum_of(state.write_delta) == SHA256["delta-0-1"]
            assert sum_of(state.write_reverse_delta) == SHA256["reversedelta-1-0"]
        state.prepare()
    assert sum_of(state.write_delta) == SHA256["delta-9-10"]
    assert sum_of(state.write_snapshot) == SHA256["snapshot-10"]
