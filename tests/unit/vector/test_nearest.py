"""Exact search over a vector column."""

import gc
import itertools

import numpy as np
import pytest

from deltaic.errors import InputError
from deltaic.state.bitset import OrdinalSet
from deltaic.state.vector_column import CHUNK_ROWS, StoredVectors
from deltaic.vector.measures import MEASURES, MeasureCache, measure
from deltaic.vector.metric import Metric, as_queries
from deltaic.vector.nearest import nearest
from deltaic.vector.scan import Scan

METRICS = ["cosine", "dot", "l2"]


def column(rows, ordinals=None):
    rows = np.asarray(rows, np.float32)
    ordinals = np.arange(len(rows)) if ordinals is None else np.asarray(ordinals)
    return StoredVectors.of(rows.shape[1], ordinals.astype(np.int64), rows)


def slow(rows, query, k, metric, ordinals=None):
    """One vector after the other, in float64."""
    ordinals = range(len(rows)) if ordinals is None else ordinals
    found = []
    for ordinal in ordinals:
        row, asked = rows[ordinal].astype(np.float64), np.asarray(query, np.float32).astype(np.float64)
        if not np.isfinite(row).all():
            continue
        if metric == "dot":
            score = float(row @ asked)
        elif metric == "l2":
            score = -float(((row - asked) ** 2).sum())
        else:
            length = float(np.linalg.norm(row) * np.linalg.norm(asked))
            score = float(row @ asked) / length if length else 0.0
        found.append((score, int(ordinal)))
    return sorted(found, key=lambda one: (-one[0], one[1]))[:k]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("queries", [1, 3, 70])
def test_the_nearest_are_those_of_a_slow_search(metric, queries):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((9_000, 24), dtype=np.float32)
    asked = rng.standard_normal((queries, 24), dtype=np.float32)
    found = nearest(column(rows), asked, 7, metric=metric)
    assert found.ordinals.shape == (queries, 7)
    for place in range(min(queries, 4)):
        expected = slow(rows, asked[place], 7, metric)
        assert found.ordinals[place].tolist() == [ordinal for _, ordinal in expected]
        scores = [-((-score) ** 0.5) if metric == "l2" else score for score, _ in expected]
        assert np.allclose(found.scores[place], scores, rtol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_a_search_in_a_batch_gives_bit_for_bit_what_it_gives_alone(metric):
    rng = np.random.default_rng(2)
    vectors = column(rng.standard_normal((10_000, 33), dtype=np.float32))
    asked = rng.standard_normal((65, 33), dtype=np.float32)
    together = nearest(vectors, asked, 12, metric=metric)
    for place in (0, 7, 64):
        alone = nearest(vectors, asked[place], 12, metric=metric)
        assert alone.ordinals[0].tolist() == together.ordinals[place].tolist()
        assert alone.scores[0].tobytes() == together.scores[place].tobytes()


@pytest.mark.parametrize("metric", METRICS)
def test_equal_vectors_come_in_the_order_of_their_ordinals_wherever_they_are_stored(metric):
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((3 * CHUNK_ROWS, 17), dtype=np.float32) * 0.1
    twin = np.abs(rng.standard_normal(17)).astype(np.float32) + 1
    places = [5, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 77, 2 * CHUNK_ROWS + 3]
    rows[places] = twin
    for batch in (1, 5, 40):
        found = nearest(column(rows), np.tile(twin, (batch, 1)), 3, metric=metric)
        assert found.ordinals.tolist() == [places[:3]] * batch


def test_vectors_that_are_all_the_same_give_the_first_ordinals():
    vectors = column(np.ones((2 * CHUNK_ROWS, 8)))
    assert nearest(vectors, np.ones(8), 4).ordinals.tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("share", [0.0005, 0.1, 0.9])
def test_a_filter_leaves_the_nearest_of_what_it_lets_through(metric, share):
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((3 * CHUNK_ROWS + 11, 20), dtype=np.float32)
    chosen = np.flatnonzero(rng.random(len(rows)) < share)
    query = rng.standard_normal(20, dtype=np.float32)
    found = nearest(column(rows), query, 5, metric=metric, where=OrdinalSet.from_ordinals(chosen))
    assert found.of(0)[0].tolist() == [ordinal for _, ordinal in slow(rows, query, 5, metric, chosen)]


def test_a_filter_of_few_ordinals_forms_few_products():
    rng = np.random.default_rng(5)
    vectors = column(rng.standard_normal((4 * CHUNK_ROWS, 8), dtype=np.float32))
    where = OrdinalSet.from_ordinals(np.array([3, 9_000, 16_000]))
    found = nearest(vectors, np.ones(8), 10, where=where)
    assert found.compared == 3
    assert sorted(found.of(0)[0].tolist()) == [3, 9_000, 16_000]


def test_chunks_without_a_wanted_row_are_not_multiplied():
    rng = np.random.default_rng(6)
    vectors = column(rng.standard_normal((4 * CHUNK_ROWS, 8), dtype=np.float32))
    where = OrdinalSet.from_ordinals(np.arange(CHUNK_ROWS, 2 * CHUNK_ROWS))
    assert nearest(vectors, np.ones(8), 10, where=where).compared == CHUNK_ROWS


@pytest.mark.parametrize("metric", METRICS)
def test_a_record_without_a_vector_and_one_that_was_removed_are_never_found(metric):
    rows = np.ones((6, 4), np.float32)
    vectors = column(rows, [0, 1, 2, 5_000, 5_001, 9_000])
    vectors = vectors.with_present(OrdinalSet.from_ordinals(np.array([1, 5_001])))
    assert nearest(vectors, np.ones(4), 10, metric=metric).of(0)[0].tolist() == [1, 5_001]


def test_nothing_is_near_in_an_empty_column_and_through_an_empty_filter():
    empty = nearest(StoredVectors.empty(4), np.ones((2, 4)), 3)
    assert len(empty) == 2 and len(empty.of(0)[0]) == 0
    assert len(nearest(column(np.ones((9, 4))), np.ones(4), 3, where=OrdinalSet.all_below(0)).of(0)[0]) == 0


def test_a_k_past_the_end_gives_what_there_is():
    found = nearest(column(np.eye(4)), np.ones((2, 4)), 99)
    assert [len(found.of(place)[0]) for place in (0, 1)] == [4, 4]


@pytest.mark.parametrize("metric", METRICS)
def test_vectors_with_a_nan_or_an_infinity_are_never_found(metric):
    rows = np.ones((8, 5), np.float32)
    rows[1, 2], rows[4, 0], rows[6, 4] = np.nan, np.inf, -np.inf
    for batch in (1, 4):
        found = nearest(column(rows), np.ones((batch, 5)), 8, metric=metric)
        assert sorted(found.of(batch - 1)[0].tolist()) == [0, 2, 3, 5, 7]


def test_a_stored_vector_of_zeros_has_the_cosine_zero():
    found = nearest(column([[0, 0], [-1, 0], [1, 1e-3]]), [1.0, 0.0], 3)
    assert found.ordinals.tolist() == [[2, 0, 1]]
    assert found.scores[0, 1] == 0 and found.scores[0, 2] == -1


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scale", [1e-38, 1e-20, 1e18, 3e37])
def test_lengths_at_the_ends_of_float32_are_still_compared_exactly(metric, scale):
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((500, 6))
    rows[::3] *= scale
    rows = np.clip(rows, -3e38, 3e38).astype(np.float32)
    for query in (rng.standard_normal(6), np.clip(rng.standard_normal(6) * scale, -3e38, 3e38)):
        found = nearest(column(rows), query, 9, metric=metric)
        assert found.ordinals[0].tolist() == [ordinal for _, ordinal in slow(rows, query, 9, metric)]


def test_a_query_that_overflows_beside_ordinary_vectors_still_finds_the_nearest():
    rng = np.random.default_rng(77)
    rows = (rng.standard_normal((6_000, 5)) * 1e14).astype(np.float32)
    query = np.array([3e38, -3e38, 0, 3e38, 1], np.float32)
    found = nearest(column(rows), np.stack([query, query / np.float32(1e30)]), 6, metric="l2")
    assert found.ordinals[0].tolist() == [ordinal for _, ordinal in slow(rows, query, 6, "l2")]


def test_points_close_together_and_far_from_the_origin_are_told_apart():
    rng = np.random.default_rng(8)
    rows = (1000 + rng.standard_normal((5_000, 12)) * 0.01).astype(np.float32)
    query = (1000 + rng.standard_normal(12) * 0.01).astype(np.float32)
    found = nearest(column(rows), query, 6, metric="l2")
    assert found.ordinals[0].tolist() == [ordinal for _, ordinal in slow(rows, query, 6, "l2")]


def test_distances_are_those_of_the_metric():
    vectors = column([[3, 4]])
    assert nearest(vectors, [6.0, 8.0], 1, metric="l2").distances[0, 0] == 5
    assert nearest(vectors, [6.0, 8.0], 1, metric="cosine").distances[0, 0] == pytest.approx(0, abs=1e-15)
    assert nearest(vectors, [6.0, 8.0], 1, metric="dot").distances[0, 0] == -50


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (np.ones(5), "DimensionMismatch"),
        (np.ones((2, 3)), "DimensionMismatch"),
        (np.ones((2, 2, 4)), "DimensionMismatch"),
        (1.0, "DimensionMismatch"),
        ([1, 2, np.nan, 4], "NotFinite"),
        ([1, 2, 1e300, 4], "NotFinite"),
        ([[1, 2, 3, 4], [1, np.inf, 3, 4]], "NotFinite"),
        ([0, 0, 0, 0], "ZeroQuery"),
        (["a", "b", "c", "d"], "BadQuery"),
        ([[1, 2, 3, 4], [1, 2]], "BadQuery"),
        (None, "BadQuery"),
    ],
)
def test_a_query_that_is_none_is_refused(query, code):
    with pytest.raises(InputError) as refused:
        nearest(column(np.eye(4)), query, 2)
    assert refused.value.code == code


def test_zeros_are_a_query_by_distance_and_by_dot_product():
    vectors = column([[2, 0], [1, 0]])
    assert nearest(vectors, [0.0, 0.0], 2, metric="l2").ordinals.tolist() == [[1, 0]]
    assert nearest(vectors, [0.0, 0.0], 2, metric="dot").ordinals.tolist() == [[0, 1]]


@pytest.mark.parametrize("k", [0, -1, 2.5, True, None])
def test_a_k_that_is_no_number_of_neighbours_is_refused(k):
    with pytest.raises(InputError, match="from 1 on"):
        nearest(column(np.eye(4)), np.ones(4), k)


def test_an_unknown_metric_is_refused():
    with pytest.raises(InputError, match="cosine, dot or l2"):
        nearest(column(np.eye(4)), np.ones(4), 1, metric="manhattan")


def test_integers_and_wide_floats_are_queries():
    assert as_queries([1, 2], 2, Metric.DOT)[0].dtype == np.float32
    assert as_queries(np.array([[1.5, 2]]), 2, Metric.DOT)[1] is False


def test_chunks_that_two_versions_share_are_measured_once():
    rng = np.random.default_rng(9)
    before = column(rng.standard_normal((3 * CHUNK_ROWS, 4), dtype=np.float32))
    nearest(before, np.ones(4), 1)
    measured = MEASURES.measured
    after = before.changed(np.array([CHUNK_ROWS + 1]), np.full((1, 4), 9, np.float32), before.present)
    assert nearest(after, np.ones(4), 1).ordinals.tolist() == [[CHUNK_ROWS + 1]]
    assert MEASURES.measured == measured + 1


def test_measures_go_with_their_chunk():
    cache = MeasureCache()
    chunk = np.ones((10, 3), np.float32)
    assert cache.of(chunk) is cache.of(chunk) and len(cache) == 1 and cache.nbytes > 0
    del chunk
    gc.collect()
    assert len(cache) == 0


def test_blocks_in_any_order_and_of_any_size_give_the_same():
    rng = np.random.default_rng(10)
    rows = rng.integers(-2, 3, (300, 6)).astype(np.float32)
    queries = rng.integers(-2, 3, (5, 6)).astype(np.float32)
    queries[~queries.any(axis=1)] = 1
    answers = set()
    for size, metric in itertools.product((1, 7, 300), (Metric.L2,)):
        with Scan(queries, 8, metric) as scan:
            for start in reversed(range(0, 300, size)):
                block = rows[start : start + size]
                scan.add(block, measure(block), first=start)
            answers.add(scan.finish().ordinals.tobytes())
    assert len(answers) == 1
