"""Approximate search: a graph that follows the deltas of a column."""

import os
import sys
import threading

import numpy as np
import pytest

from deltaic.errors import InputError, MissingExtraError
from deltaic.state.bitset import OrdinalSet
from deltaic.state.vector_column import StoredVectors
from deltaic.vector import approximate
from deltaic.vector.approximate import ApproximateIndex
from deltaic.vector.differences import differences
from deltaic.vector.graph import GraphOptions
from deltaic.vector.nearest import nearest

pytest.importorskip("usearch", reason="the extra 'vector' is not installed")

ROWS, DIMENSIONS, CLUSTERS = 8_000, 32, 80


@pytest.fixture(autouse=True)
def _graphs_for_small_columns(monkeypatch):
    monkeypatch.setattr(approximate, "EXACT_BELOW", 100)


def clustered(rng, count=ROWS, dimensions=DIMENSIONS):
    centres = rng.standard_normal((CLUSTERS, dimensions))
    rows = centres[rng.integers(0, CLUSTERS, count)] + 0.25 * rng.standard_normal((count, dimensions))
    return rows.astype(np.float32)


def column(rows, ordinals=None):
    ordinals = np.arange(len(rows)) if ordinals is None else ordinals
    return StoredVectors.of(rows.shape[1], np.asarray(ordinals, np.int64), np.asarray(rows, np.float32))


def made(vectors, metric="cosine", **options):
    index = ApproximateIndex(metric, GraphOptions(**options), background=False)
    index.follow(vectors)
    assert index.ready and index.error is None
    return index


def next_version(rng, vectors):
    """A delta: most vectors stay, some drift, a few become others, some go, some come, some get another ordinal."""
    there = rng.permutation(vectors.present.ordinals())
    drifting, jumping, going, moving = there[:400], there[400:440], there[440:480], there[480:520]
    rows = vectors.rows(drifting)
    rows += (0.01 * np.linalg.norm(rows, axis=1)[:, None] * rng.standard_normal(rows.shape) / 4).astype(np.float32)
    end = vectors.present.max() + 1
    coming, moved = np.arange(end, end + 40), np.arange(end + 40, end + 80)
    ordinals = np.concatenate([drifting, jumping, coming, moved])
    matrix = np.concatenate([rows, clustered(rng, 80), vectors.rows(moving)])
    gone = OrdinalSet.from_ordinals(np.concatenate([going, moving]))
    present = vectors.present.difference(gone).union(OrdinalSet.from_ordinals(np.concatenate([coming, moved])))
    return vectors.changed(ordinals, matrix, present)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_after_twenty_deltas_the_recall_is_high_and_few_nodes_were_placed_anew(metric, capsys):
    rng = np.random.default_rng(11)
    vectors = column(clustered(rng))
    index = made(vectors, metric)
    for _ in range(20):
        vectors = next_version(rng, vectors)
        index.follow(vectors)
    counts = index.counts
    queries = vectors.rows(rng.choice(vectors.present.ordinals(), 300, replace=False))
    queries += 0.05 * rng.standard_normal(queries.shape).astype(np.float32)
    recall = index.measured_recall(vectors, queries=queries)
    changed = counts.reinserted + counts.left
    share = counts.reinserted / changed
    with capsys.disabled():
        print(
            f"\n{metric}: recall {recall:.4f} after {counts.updates} deltas, {counts.builds} build; of {changed:,} "
            f"changed vectors {share:.1%} placed anew ({counts.reinserted / (20 * ROWS):.2%} of all nodes a delta); "
            f"{counts.renamed} kept under another ordinal, {counts.added} added, {counts.removed} removed"
        )
    assert recall >= 0.95
    assert (counts.builds, counts.updates) == (1, 20)
    assert 20 * 40 * 0.9 <= counts.reinserted <= 0.25 * changed
    assert counts.renamed >= 0.95 * 20 * 40
    assert counts.vectors == len(vectors)


def test_scores_come_from_the_column_and_not_from_where_a_node_was_placed():
    rng = np.random.default_rng(12)
    vectors = column(clustered(rng, 3_000))
    index = made(vectors)
    rows = vectors.rows(np.arange(3_000)) * 1.0
    rows += 0.01 * rng.standard_normal(rows.shape).astype(np.float32)
    after = vectors.changed(np.arange(3_000), rows, vectors.present)
    index.follow(after)
    assert index.counts.reinserted == 0 and index.counts.left == 3_000
    query = clustered(rng, 1)[0]
    answer, exact = index.search(after, query, 5), nearest(after, query, 5)
    assert answer.way == "hnsw"
    assert answer.neighbours.ordinals.tolist() == exact.ordinals.tolist()
    assert answer.neighbours.scores.tobytes() == exact.scores.tobytes()


def test_many_small_steps_count_together():
    rng = np.random.default_rng(13)
    vectors = column(clustered(rng, 500))
    index = made(vectors, change_bound=0.1)
    away = np.zeros((1, DIMENSIONS), np.float32)
    away[0, 0] = np.linalg.norm(vectors[7]) * 0.04
    reinserted = []
    for _ in range(6):
        vectors = vectors.changed(np.array([7]), vectors.rows(np.array([7])) + away, vectors.present)
        index.follow(vectors)
        reinserted.append(index.counts.reinserted)
    assert reinserted[0] == 0 and reinserted[-1] >= 1


def test_what_the_graph_does_not_know_yet_is_asked_exactly():
    rng = np.random.default_rng(14)
    before = column(clustered(rng, 3_000))
    index = made(before)
    query = np.zeros(DIMENSIONS, np.float32)
    query[3] = 50
    after = before.changed(np.array([5, 9_000]), np.stack([query, query]), before.present.union(_set([9_000])))
    after = after.with_present(after.present.difference(_set([17])))
    found = index.search(after, query, 2)
    assert found.way == "hnsw" and found.neighbours.ordinals.tolist() == [[5, 9_000]]
    # And a reader that stayed at the older version sees that one.
    assert index.search(before, query, 3_000 // 2 - 1).neighbours.scores.max() < 0.99
    index.follow(after)
    assert index.search(after, query, 2).neighbours.ordinals.tolist() == [[5, 9_000]]
    assert 9_000 not in index.search(before, query, 2).neighbours.ordinals


def test_a_removed_vector_is_not_found_even_before_the_graph_lets_it_go():
    rng = np.random.default_rng(15)
    before = column(clustered(rng, 3_000))
    index = made(before)
    after = before.with_present(before.present.difference(_set([42])))
    for _ in range(2):
        found = index.search(after, before[42], 5)
        assert found.way == "hnsw" and 42 not in found.neighbours.ordinals
        index.follow(after)


def test_a_record_that_got_another_ordinal_keeps_its_node():
    rng = np.random.default_rng(16)
    before = column(clustered(rng, 2_000))
    index = made(before)
    moved = before.rows(np.arange(100))
    moved[50:] *= np.float32(1.001)
    present = before.present.difference(_set(range(100))).union(_set(range(5_000, 5_100)))
    after = before.changed(np.arange(5_000, 5_100), moved, present)
    index.follow(after)
    assert index.counts.renamed == 100
    assert index.counts.added == index.counts.removed == index.counts.reinserted == 0
    assert index.search(after, before[60], 1).neighbours.ordinals.tolist() == [[5_060]]


def test_going_back_is_an_update_like_any_other():
    rng = np.random.default_rng(17)
    first = column(clustered(rng, 3_000))
    index = made(first)
    second = next_version(rng, first)
    index.follow(second)
    index.follow(first)
    assert index.counts.builds == 1 and index.counts.vectors == 3_000
    assert index.measured_recall(first, 100) >= 0.95


def test_a_filter_leaves_the_nearest_of_what_it_lets_through():
    rng = np.random.default_rng(18)
    vectors = column(clustered(rng))
    index = made(vectors)
    query = clustered(rng, 3)
    half = OrdinalSet.from_ordinals(np.arange(0, ROWS, 2))
    answer = index.search(vectors, query, 8, where=half)
    assert answer.way.startswith("hnsw")
    exact = nearest(vectors, query, 8, where=half)
    assert (answer.neighbours.ordinals % 2 == 0).all()
    assert (answer.neighbours.ordinals == exact.ordinals).mean() >= 0.9
    few = OrdinalSet.from_ordinals(np.arange(0, ROWS, 100))
    answer = index.search(vectors, query, 8, where=few)
    assert answer.way.startswith("exact") and "few" in answer.way
    assert answer.neighbours.ordinals.tolist() == nearest(vectors, query, 8, where=few).ordinals.tolist()


def test_a_filter_far_from_the_query_is_answered_exactly():
    rng = np.random.default_rng(19)
    rows = clustered(rng)
    query = rows[0]
    order = np.argsort(-(rows @ query) / np.linalg.norm(rows, axis=1))
    far = OrdinalSet.from_ordinals(np.sort(order[ROWS // 2 :]))
    vectors = column(rows)
    answer = made(vectors).search(vectors, query, 10, where=far)
    assert "too few" in answer.way
    assert answer.neighbours.ordinals.tolist() == nearest(vectors, query, 10, where=far).ordinals.tolist()


def test_it_is_built_in_the_background_and_exact_until_then(monkeypatch):
    rng = np.random.default_rng(20)
    vectors = column(clustered(rng, 2_000))
    go = threading.Event()
    build = ApproximateIndex._build
    monkeypatch.setattr(ApproximateIndex, "_build", lambda self, wanted: (go.wait(30), build(self, wanted)))
    index = ApproximateIndex()
    index.follow(vectors)
    assert not index.ready and not index.wait(0.01)
    early = index.search(vectors, vectors[3], 4)
    assert early.way == "exact: the index is not ready"
    go.set()
    assert index.wait(60) and index.ready
    late = index.search(vectors, vectors[3], 4)
    assert late.way == "hnsw"
    assert early.neighbours.ordinals.tolist() == late.neighbours.ordinals.tolist()


def test_searches_go_on_while_the_graph_is_brought_on():
    rng = np.random.default_rng(21)
    vectors = column(clustered(rng, 4_000))
    index = ApproximateIndex()
    index.follow(vectors)
    assert index.wait(120)
    wrong = []
    for _ in range(4):
        vectors = next_version(rng, vectors)
        index.follow(vectors)
        for _ in range(10):
            ordinal = int(rng.choice(vectors.present.ordinals()))
            found = index.search(vectors, vectors[ordinal], 3).neighbours.ordinals
            if ordinal not in found or not all(one in vectors.present for one in found[0].tolist()):
                wrong.append(ordinal)
    assert index.wait(120) and index.counts.builds == 1
    assert len(wrong) <= 1


def test_a_failure_in_the_background_leaves_the_search_exact(monkeypatch, caplog):
    rng = np.random.default_rng(22)
    vectors = column(clustered(rng, 500))
    monkeypatch.setattr(approximate.Graph, "add", lambda *_: (_ for _ in ()).throw(RuntimeError("no memory")))
    index = ApproximateIndex()
    index.follow(vectors)
    assert index.wait(30) is False
    assert index.error == "no memory"
    assert index.search(vectors, vectors[3], 1).way == "exact: no memory"
    monkeypatch.undo()
    index.follow(vectors)
    assert index.wait(60) and index.error is None


def test_a_low_recall_makes_the_search_wider_and_at_last_the_graph_new():
    rng = np.random.default_rng(23)
    vectors = column(rng.standard_normal((3_000, 48)).astype(np.float32))
    index = made(vectors, connectivity=4, expansion_add=8, expansion_search=8, recall_floor=0.9)
    assert index.counts.expansion_search > 8
    index = made(vectors, connectivity=2, expansion_add=2, expansion_search=2, recall_floor=1.0, recall_sample=200)
    index.follow(vectors.changed(np.array([1]), np.ones((1, 48), np.float32), vectors.present))
    assert index.counts.builds == 2


def test_vectors_of_zeros_and_without_numbers_have_no_node():
    rows = clustered(np.random.default_rng(24), 500)
    rows[3], rows[5, 1] = 0, np.nan
    vectors = column(rows)
    index = made(vectors)
    assert index.counts.vectors == 498
    rows[3], rows[7] = 1, 0
    after = vectors.changed(np.array([3, 7]), rows[[3, 7]], vectors.present)
    index.follow(after)
    assert index.counts.vectors == 498
    assert 7 not in index.search(after, rows[7] + 1, 3).neighbours.ordinals


def test_an_empty_column_and_one_that_grows_from_it():
    vectors = StoredVectors.empty(DIMENSIONS)
    index = made(vectors)
    assert index.counts.recall is None
    after = column(clustered(np.random.default_rng(25), 300))
    index.follow(after)
    assert index.counts.vectors == 300
    assert index.search(after, after[9], 1).neighbours.ordinals.tolist() == [[9]]


def test_a_column_of_another_size_is_searched_exactly_and_built_anew():
    rng = np.random.default_rng(29)
    index = made(column(clustered(rng, 500)))
    wider = column(clustered(rng, 500, DIMENSIONS + 2))
    assert "dimensions" in index.search(wider, wider[3], 1).way
    index.follow(wider)
    assert index.counts.builds == 2
    assert index.search(wider, wider[3], 1).neighbours.ordinals.tolist() == [[3]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_searches_and_follows():
    rng = np.random.default_rng(26)
    vectors = column(clustered(rng, 500))
    index = ApproximateIndex()
    index.follow(vectors)
    assert index.wait(60)
    child = os.fork()
    if child == 0:
        try:
            after = vectors.changed(np.array([1]), np.ones((1, DIMENSIONS), np.float32), vectors.present)
            index.follow(after)
            good = index.wait(60) and index.search(after, np.ones(DIMENSIONS), 1).neighbours.ordinals[0, 0] == 1
            os._exit(0 if good else 3)
        finally:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_closed_index_lets_go_and_is_exact():
    vectors = column(clustered(np.random.default_rng(27), 500))
    index = made(vectors)
    index.close()
    assert not index.ready
    assert index.search(vectors, vectors[3], 1).way.startswith("exact")


def test_without_usearch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(MissingExtraError, match="deltaic\\[vector\\]"):
        ApproximateIndex().follow(column(np.eye(4)))


@pytest.mark.parametrize("wrong", [{"connectivity": 0}, {"change_bound": -1}, {"recall_floor": 2}, {"threads": 0}])
def test_options_that_cannot_be_are_refused(wrong):
    with pytest.raises(InputError):
        GraphOptions(**wrong)


def test_differences_are_found_by_bits_and_not_in_shared_chunks():
    rows = clustered(np.random.default_rng(28), 9_000)
    rows[3, 0] = 0.0
    before = column(rows)
    changed = rows[[3, 4]]
    changed[0, 0] = -0.0
    present = before.present.difference(_set([6])).union(_set([9_500]))
    after = before.changed(np.array([3, 4, 9_500]), np.concatenate([changed, rows[:1]]), present)
    found = differences(before, after)
    assert (found.removed.tolist(), found.added.tolist(), found.changed.tolist()) == ([6], [9_500], [3])
    assert not differences(after, after)


def _set(ordinals):
    return OrdinalSet.from_ordinals(np.asarray(list(ordinals), np.int64))
