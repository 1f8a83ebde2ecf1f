"""The nearest records of a consumer."""

import pickle
import sys
import threading
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
import pytest

from deltaic.consumer.consumer import Consumer
from deltaic.consumer.longevity import Longevity
from deltaic.errors import InputError, MissingExtraError, MissingKeyError, NotFoundError
from deltaic.index.conditions import between
from deltaic.producer import Producer, count_up
from deltaic.schema.annotations import Vector, key
from deltaic.state.bitset import OrdinalSet
from deltaic.vector import approximate
from deltaic.vector.approximate import ApproximateIndex
from deltaic.vector.graph import GraphOptions

DIMENSIONS = 6


@key("id")
@dataclass
class Movie:
    id: int
    title: str
    year: int
    embedding: Annotated[list[float] | None, Vector(DIMENSIONS)]


@dataclass
class Note:
    text: str


def vector(seed):
    return np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)


def movies(count=200, **other):
    return [
        Movie(number, f"movie {number}", 1990 + number % 20, other.get(f"of_{number}", vector(number)))
        for number in range(count)
    ]


@pytest.fixture
def chain(tmp_path):
    return Producer(tmp_path / "chain", [Movie, Note], versions=count_up)


@pytest.fixture
def consumer(chain):
    chain.publish([*movies(), Note("x")])
    made = Consumer(chain.store, share=False)
    made.refresh()
    return made


def cosines(query, rows):
    query, rows = np.asarray(query, np.float64), np.asarray(rows, np.float64)
    return rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)


def test_the_nearest_records_come_with_score_and_distance(consumer):
    query = vector("7777".__hash__() % 1000 + 500)
    found = consumer.nearest("Movie", "embedding", query, 5)
    scores = cosines(query, [vector(number) for number in range(200)])
    expected = np.argsort(-scores)[:5]
    assert [one.record.id for one in found] == expected.tolist()
    assert np.allclose(found.scores, scores[expected]) and np.allclose(found.distances, 1 - scores[expected])
    assert found.version == consumer.version and found.way == "exact" and found.metric == "cosine"
    assert found.records[0].title == f"movie {expected[0]}" and len(found[1:3]) == 2
    assert pa.table(found)["id"].to_pylist() == expected.tolist()


@pytest.mark.parametrize("metric", ["dot", "l2"])
def test_other_metrics_are_those_of_their_names(consumer, metric):
    query = vector(1234)
    rows = np.array([vector(number) for number in range(200)], np.float64)
    scores = rows @ query.astype(np.float64) if metric == "dot" else -np.linalg.norm(rows - query, axis=1)
    found = consumer.nearest("Movie", "embedding", query, 3, metric=metric)
    assert [one.record.id for one in found] == np.argsort(-scores)[:3].tolist()
    assert np.allclose(found.scores, np.sort(scores)[::-1][:3])


def test_a_filter_is_conditions_a_selection_ordinals_or_keys(consumer):
    query, table = vector(999), consumer["Movie"]
    expected = [one.record.id for one in consumer.nearest("Movie", "embedding", query, 200) if one.record.year == 1995][
        :4
    ]
    ids = [movie.id for movie in table.where(year=1995)]
    for where in (
        {"year": 1995},
        {"year": between(1995, 1995)},
        table.where(year=1995),
        OrdinalSet.from_ordinals(table.where(year=1995).ordinals),
        ids,
        set(ids),
        (*ids, 10_000),
        np.array(ids),
    ):
        found = consumer.nearest("Movie", "embedding", query, 4, where=where)
        assert [one.record.id for one in found] == expected
    assert len(consumer.nearest("Movie", "embedding", query, 4, where=[])) == 0
    assert len(consumer.nearest("Movie", "embedding", query, 4, where={"year": 3000})) == 0


@pytest.mark.parametrize("where", ["year = 1995", 7, b"x"])
def test_a_filter_that_is_none_is_refused(consumer, where):
    with pytest.raises(InputError, match="where is a mapping"):
        consumer.nearest("Movie", "embedding", vector(1), where=where)


def test_a_selection_of_another_version_is_refused(chain, consumer):
    old = consumer["Movie"].where(year=1995)
    chain.publish([*movies(100), Note("y")])
    consumer.refresh()
    with pytest.raises(InputError, match="choose again"):
        consumer.nearest("Movie", "embedding", vector(1), where=old)


def test_more_like_a_record_are_others_than_itself(consumer):
    found = consumer.nearest("Movie", "embedding", k=5, like=17)
    by_vector = consumer.nearest("Movie", "embedding", vector(17), 6)
    assert by_vector[0].record.id == 17
    assert [one.record.id for one in found] == [one.record.id for one in by_vector[1:]]


def test_more_like_a_record_gives_its_equals(chain):
    chain.publish(movies(5, of_1=vector(0), of_2=vector(0)))
    consumer = Consumer(chain.store, share=False)
    consumer.refresh()
    assert [one.record.id for one in consumer.nearest("Movie", "embedding", like=2, k=2)] == [0, 1]


def test_more_like_several_is_one_answer_for_each(consumer):
    found = consumer.nearest_many("Movie", "embedding", k=3, like=[3, 17])
    assert [[one.record.id for one in each] for each in found] == [
        [one.record.id for one in consumer.nearest("Movie", "embedding", k=3, like=number)] for number in (3, 17)
    ]
    assert consumer.nearest_many("Movie", "embedding", like=[]) == []


def test_a_record_that_is_not_there_or_has_no_vector_is_like_nothing(chain):
    chain.publish(movies(5, of_3=None))
    consumer = Consumer(chain.store, share=False)
    consumer.refresh()
    with pytest.raises(MissingKeyError, match="77"):
        consumer.nearest("Movie", "embedding", like=77)
    with pytest.raises(NotFoundError, match="has no embedding"):
        consumer.nearest("Movie", "embedding", like=3)
    assert 3 not in [one.record.id for one in consumer.nearest("Movie", "embedding", vector(3), 10)]


def test_a_batch_gives_what_single_queries_give(consumer):
    queries = np.stack([vector(number) for number in range(600, 640)])
    found = consumer.nearest_many("Movie", "embedding", queries, 4, where={"year": [1991, 1992]})
    for query, each in zip(queries, found, strict=True):
        alone = consumer.nearest("Movie", "embedding", query, 4, where={"year": [1991, 1992]})
        assert (each.ordinals == alone.ordinals).all() and each.scores == alone.scores


def test_wrong_questions_are_refused(consumer):
    for query in (np.ones(5), [np.nan] * DIMENSIONS, np.zeros(DIMENSIONS), "text"):
        with pytest.raises(InputError):
            consumer.nearest("Movie", "embedding", query)
    with pytest.raises(InputError, match="nearest_many"):
        consumer.nearest("Movie", "embedding", np.ones((2, DIMENSIONS)))
    with pytest.raises(InputError, match="rows of a matrix"):
        consumer.nearest_many("Movie", "embedding", np.ones(DIMENSIONS))
    with pytest.raises(InputError, match="either a query"):
        consumer.nearest("Movie", "embedding")
    with pytest.raises(InputError, match="either a query"):
        consumer.nearest("Movie", "embedding", vector(1), like=3)
    with pytest.raises(InputError, match="'exact' or 'hnsw'"):
        consumer.nearest("Movie", "embedding", vector(1), index="ivf")
    with pytest.raises(NotFoundError, match="no vector column 'title'"):
        consumer.nearest("Movie", "title", vector(1))
    with pytest.raises(NotFoundError):
        consumer.nearest("Film", "embedding", vector(1))
    with pytest.raises(NotFoundError, match="vector column"):
        consumer.nearest("Note", "text", vector(1))
    with pytest.raises(NotFoundError, match="nothing"):
        Consumer(consumer.store, share=False).nearest("Movie", "embedding", vector(1))


def test_after_a_refresh_the_nearest_are_those_of_the_new_version(chain, consumer):
    query = vector(4321)
    chain.publish([*movies(200, of_150=query), Note("x")])
    assert consumer.nearest("Movie", "embedding", query, 1)[0].record.id != 150
    consumer.refresh()
    found = consumer.nearest("Movie", "embedding", query, 1)
    assert found[0].record.id == 150 and found[0].distance == pytest.approx(0, abs=1e-12)
    consumer.refresh(to=1)
    assert consumer.nearest("Movie", "embedding", query, 1)[0].record.id != 150


def test_a_state_that_may_be_dropped_can_be_searched_while_it_is_loaded(chain, consumer):
    guarded = Consumer(chain.store, share=False, longevity=Longevity())
    guarded.refresh()
    query = vector(55)
    assert (
        guarded.nearest("Movie", "embedding", query, 3).scores
        == consumer.nearest("Movie", "embedding", query, 3).scores
    )


def test_without_usearch_an_index_is_refused_and_nothing_is_left_behind(chain, consumer, monkeypatch):
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(MissingExtraError, match="deltaic\\[vector\\]"):
        consumer.nearest("Movie", "embedding", vector(1), index="hnsw")
    assert consumer.approximate_indexes() == {}
    chain.publish(movies(10))
    consumer.refresh()
    assert consumer.listener_errors == 0


class TestWithAnIndex:
    @pytest.fixture(autouse=True)
    def _usearch(self, monkeypatch):
        pytest.importorskip("usearch", reason="the extra 'vector' is not installed")
        monkeypatch.setattr(approximate, "EXACT_BELOW", 20)

    def test_it_is_built_in_the_background_and_followed_over_refreshes(self, chain, consumer):
        index = consumer.approximate("Movie", "embedding")
        assert index.wait(60)
        query = vector(808)
        exact = consumer.nearest("Movie", "embedding", query, 5)
        found = consumer.nearest("Movie", "embedding", query, 5, index="hnsw")
        assert found.way == "hnsw" and found.scores == exact.scores and (found.ordinals == exact.ordinals).all()
        chain.publish([*movies(200, of_11=query), Note("x")])
        consumer.refresh()
        assert consumer.nearest("Movie", "embedding", query, 1, index="hnsw")[0].record.id == 11
        assert index.wait(60)
        assert consumer.approximate_indexes() == {("Movie", "embedding", "cosine"): index}
        assert (index.counts.builds, index.counts.updates) == (1, 1)
        found = consumer.nearest("Movie", "embedding", query, 1, index="hnsw")
        assert found.way == "hnsw" and found[0].record.id == 11

    def test_until_it_is_ready_the_search_is_exact(self, consumer, monkeypatch):
        go = threading.Event()
        build = ApproximateIndex._build
        monkeypatch.setattr(ApproximateIndex, "_build", lambda self, wanted: (go.wait(30), build(self, wanted)))
        found = consumer.nearest("Movie", "embedding", like=3, k=2, index="hnsw")
        go.set()
        assert found.way == "exact: the index is not ready"
        assert [one.record.id for one in found] == [
            one.record.id for one in consumer.nearest("Movie", "embedding", like=3, k=2)
        ]
        assert consumer.approximate("Movie", "embedding").wait(60)

    def test_two_metrics_are_two_indexes_and_options_hold(self, consumer):
        options = GraphOptions(connectivity=8)
        one = consumer.approximate("Movie", "embedding", options=options)
        two = consumer.approximate("Movie", "embedding", metric="l2")
        assert one is not two and one is consumer.approximate("Movie", "embedding")
        with pytest.raises(InputError, match="other options"):
            consumer.approximate("Movie", "embedding", options=GraphOptions(connectivity=9))
        assert one.wait(60) and two.wait(60)

    def test_a_filter_holds_with_an_index_too(self, consumer):
        assert consumer.approximate("Movie", "embedding").wait(60)
        found = consumer.nearest("Movie", "embedding", vector(5), 4, where={"year": between(1995, 2005)}, index="hnsw")
        exact = consumer.nearest("Movie", "embedding", vector(5), 4, where={"year": between(1995, 2005)})
        assert (found.ordinals == exact.ordinals).all()

    def test_a_consumer_with_an_index_can_be_sent_to_another_process(self, consumer):
        consumer.approximate("Movie", "embedding").wait(60)
        again = pickle.loads(pickle.dumps(consumer))
        again.refresh()
        assert again.approximate_indexes() == {}
        assert len(again.nearest("Movie", "embedding", vector(5), 4)) == 4
