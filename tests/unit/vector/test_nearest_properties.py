"""Exact search is what one comparison after the other gives, ties and filters included."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.state.bitset import OrdinalSet
from deltaic.state.vector_column import CHUNK_ROWS, StoredVectors
from deltaic.vector.nearest import nearest

_NUMBERS = st.integers(-3, 3)


@st.composite
def searches(draw):
    dimensions = draw(st.integers(1, 5))
    # Ordinals of two chunks, so that some are gathered and some lie side by side.
    places = st.one_of(st.integers(0, 40), st.integers(CHUNK_ROWS - 5, CHUNK_ROWS + 30))
    ordinals = draw(st.lists(places, unique=True, max_size=40))
    vectors = st.lists(_NUMBERS, min_size=dimensions, max_size=dimensions)
    rows = {ordinal: draw(vectors) for ordinal in ordinals}
    queries = draw(st.lists(vectors, min_size=1, max_size=3))
    where = draw(st.none() | st.sets(places, max_size=40))
    return dimensions, rows, queries, where, draw(st.integers(1, 12))


def column(dimensions, rows):
    matrix = np.array(list(rows.values()), np.float32).reshape(len(rows), dimensions)
    return StoredVectors.of(dimensions, np.array(list(rows), np.int64), matrix)


def ordinal_set(ordinals):
    return None if ordinals is None else OrdinalSet.from_ordinals(np.array(sorted(ordinals), np.int64))


def expected(rows, query, where, score):
    found = [(-score(row, query), ordinal) for ordinal, row in rows.items() if where is None or ordinal in where]
    return [ordinal for _, ordinal in sorted(found)]


def dot(row, query):
    return sum(one * two for one, two in zip(row, query, strict=True))


def closeness(row, query):
    return -sum((one - two) ** 2 for one, two in zip(row, query, strict=True))


@given(searches())
@settings(deadline=None)
def test_neighbours_are_those_of_whole_numbers_computed_one_by_one(search):
    dimensions, rows, queries, where, k = search
    for metric, score in (("dot", dot), ("l2", closeness)):
        found = nearest(column(dimensions, rows), queries, k, metric=metric, where=ordinal_set(where))
        for place, query in enumerate(queries):
            assert found.of(place)[0].tolist() == expected(rows, query, where, score)[:k]


@given(searches())
@settings(deadline=None)
def test_cosines_fall_and_nothing_nearer_is_left_out(search):
    dimensions, rows, queries, where, k = search
    queries = [query if any(query) else [1] * dimensions for query in queries]
    found = nearest(column(dimensions, rows), queries, k, where=ordinal_set(where))
    for place, query in enumerate(queries):
        wanted = {
            ordinal: dot(row, query) / max(1e-300, (dot(row, row) * dot(query, query)) ** 0.5) if any(row) else 0.0
            for ordinal, row in rows.items()
            if where is None or ordinal in where
        }
        ordinals, scores = found.of(place)
        assert len(ordinals) == min(k, len(wanted)) and len(set(ordinals.tolist())) == len(ordinals)
        assert (np.diff(scores) <= 0).all()
        assert np.allclose(scores, [wanted[ordinal] for ordinal in ordinals.tolist()], atol=1e-12)
        assert np.allclose(scores, sorted(wanted.values(), reverse=True)[:k], atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 17]), st.sampled_from(["cosine", "dot", "l2"]))
@settings(deadline=None, max_examples=30)
def test_any_patterns_of_bits_give_an_answer_of_finite_scores(seed, queries, metric):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 2**32, (300, 7), dtype=np.uint32).view(np.float32)
    asked = rng.standard_normal((queries, 7)).astype(np.float32)
    found = nearest(StoredVectors.of(7, np.arange(300), matrix), asked, 300, metric=metric)
    good = np.isfinite(matrix).all(axis=1)
    for place in range(queries):
        ordinals, scores = found.of(place)
        assert sorted(ordinals.tolist()) == np.flatnonzero(good).tolist()
        assert np.isfinite(scores).all() and (np.diff(scores) <= 0).all()
