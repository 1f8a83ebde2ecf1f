"""Text and vectors in one order: the fusion, consumers, tables."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
import pytest

from deltaic import Dataset, Table
from deltaic.consumer.consumer import Consumer
from deltaic.errors import InputError, NotFoundError
from deltaic.producer.producer import Producer
from deltaic.schema.annotations import Vector, key
from deltaic.schema.model import Model
from deltaic.table.split import ColumnIndex
from deltaic.vector.fusion import reciprocal_rank

WORDS = ["space", "love", "war", "dog", "robot"]
INDEX = {"title": ColumnIndex(kind="text")}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAIC_SPLIT_CACHE", str(tmp_path / "splits"))


@key("id")
@dataclass
class Film:
    id: int
    title: str
    year: int
    embedding: Annotated[list[float] | None, Vector(4)]


def vector(number):
    return np.random.default_rng(number).standard_normal(4).astype(np.float32)


def title(number):
    return f"a {WORDS[number % 5]} film of {WORDS[number % 3]}"


def films(count=60):
    return [Film(number, title(number), 1990 + number % 10, vector(number)) for number in range(count)]


class TestFusion:
    def test_an_item_high_in_both_lists_comes_before_one_that_is_first_in_one(self):
        order = reciprocal_rank([["a", "b", "c"], ["d", "b", "e"]])
        assert [one.item for one in order] == ["b", "a", "d", "c", "e"]
        assert order[0].ranks == (2, 2) and order[0].score == pytest.approx(2 / 62)
        assert order[1].ranks == (1, None) and order[2].ranks == (None, 1)

    def test_weights_and_the_constant_decide(self):
        lists = [["a", "b"], ["b", "a"]]
        assert [one.item for one in reciprocal_rank(lists)] == ["a", "b"]
        assert [one.item for one in reciprocal_rank(lists, weights=[1, 2])] == ["b", "a"]
        assert [one.item for one in reciprocal_rank([["a"], ["b", "c"]], weights=[0, 1])] == ["b", "c", "a"]
        assert reciprocal_rank([["a"]], constant=0)[0].score == 1

    def test_an_item_twice_in_a_list_counts_once(self):
        assert reciprocal_rank([["a", "a", "b"]])[0].score == pytest.approx(1 / 61)

    def test_nothing_is_fused_to_nothing(self):
        assert reciprocal_rank([]) == [] and reciprocal_rank([[], []]) == []

    @pytest.mark.parametrize(
        "wrong",
        [{"weights": [1]}, {"weights": [-1, 1]}, {"weights": [0, 0]}, {"constant": -1}, {"constant": float("nan")}],
    )
    def test_numbers_that_cannot_be_are_refused(self, wrong):
        with pytest.raises(InputError):
            reciprocal_rank([["a"], ["b"]], **wrong)


class TestConsumer:
    @pytest.fixture
    def consumer(self, tmp_path):
        producer = Producer(tmp_path / "chain", Film, text_index={"Film": INDEX})
        producer.publish(films())
        producer.close()
        made = Consumer(producer.store, share=False)
        made.refresh()
        return made

    def test_the_order_is_the_fusion_of_both_searches(self, consumer):
        query = vector(1000)
        found = consumer.hybrid("Film", "title:space", "embedding", query, 8)
        texts = [hit.record.id for hit in consumer.search("Film", "title:space", k=100)]
        near = [one.record.id for one in consumer.nearest("Film", "embedding", query, 100)]
        expected = reciprocal_rank([texts, near])[:8]
        assert [hit.record.id for hit in found] == [one.item for one in expected]
        assert [(hit.text_rank, hit.vector_rank) for hit in found] == [one.ranks for one in expected]
        assert found[0].score == pytest.approx(expected[0].score)
        first = found[0]
        assert first.text_score > 0 and first.vector_score == pytest.approx(
            consumer.nearest("Film", "embedding", query, 100).scores[first.vector_rank - 1]
        )
        assert found.records[0].id == first.record.id and found.version == consumer.version

    def test_a_filter_holds_for_text_and_vector(self, consumer):
        found = consumer.hybrid("Film", "title:space", "embedding", vector(1), 50, where={"year": 1993}, candidates=2)
        assert found and all(hit.record.year == 1993 for hit in found)
        assert any(hit.text_rank for hit in found) and any(hit.vector_rank for hit in found)

    def test_weights_of_zero_leave_one_of_them(self, consumer):
        query = vector(2000)
        only_text = consumer.hybrid("Film", "title:robot", "embedding", query, 5, weights=(1, 0))
        assert [hit.record.id for hit in only_text] == [
            hit.record.id for hit in consumer.search("Film", "title:robot", k=5)
        ]
        only_vector = consumer.hybrid("Film", "title:robot", "embedding", query, 5, weights=(0, 1))
        assert [hit.record.id for hit in only_vector] == [
            one.record.id for one in consumer.nearest("Film", "embedding", query, 5)
        ]

    def test_more_like_a_record_with_a_word(self, consumer):
        found = consumer.hybrid("Film", "title:dog", "embedding", like=3, k=5, snippets=["title"])
        assert all(hit.vector_rank is None or hit.record.id != 3 for hit in found)
        assert any("<b>dog</b>" in hit.snippets.get("title", "") for hit in found)

    def test_it_needs_a_text_index(self, tmp_path):
        producer = Producer(tmp_path / "bare", Film)
        producer.publish(films(5))
        consumer = Consumer(producer.store, share=False)
        consumer.refresh()
        with pytest.raises(NotFoundError, match="text index"):
            consumer.hybrid("Film", "title:space", "embedding", vector(1))

    def test_through_a_table_it_is_the_same(self, tmp_path):
        dataset = Dataset.create(tmp_path / "films", Model.of(Film), table=True, index=INDEX)
        dataset.table.append([film.__dict__ for film in films()])
        dataset.publish()
        with dataset.consumer(share=False) as consumer:
            found = consumer.hybrid("Film", "title:space", "embedding", vector(7), 6)
            rows = dataset.table.hybrid("title:space", "embedding", vector(7), 6)
        assert sorted(hit.record.id for hit in found) == sorted(rows.table["id"].to_pylist())


class TestTable:
    @pytest.fixture
    def table(self, tmp_path):
        schema = pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                ("title", pa.string()),
                ("year", pa.int32()),
                ("embedding", pa.list_(pa.float32(), 4)),
            ]
        )
        made = Table.create(tmp_path / "table", schema, key=["id"], index=INDEX)
        rows = [film.__dict__ for film in films()]
        rows[33] = {**rows[33], "embedding": None}
        for start in (0, 20, 40):
            made.append(rows[start : start + 20])
        return made

    def expected(self, query, k, keep=lambda number: True):
        rows = {number: vector(number).astype(np.float64) for number in range(60) if number != 33 and keep(number)}
        scores = {number: row @ query / np.linalg.norm(row) / np.linalg.norm(query) for number, row in rows.items()}
        return sorted(scores, key=lambda number: -scores[number])[:k], scores

    def test_the_nearest_rows_come_with_score_and_distance(self, table):
        query = vector(5000).astype(np.float64)
        found = table.nearest("embedding", query, 7)
        ids, scores = self.expected(query, 7)
        assert found.table["id"].to_pylist() == ids
        assert np.allclose(found.scores, [scores[number] for number in ids], atol=1e-6)
        assert np.allclose(found.table["_distance"].to_pylist(), [1 - scores[number] for number in ids])
        assert (found.hits, found.limited) == (59, True) and "vectors were compared" in str(found.explain)
        assert table.nearest("embedding", query, 59).limited is False

    def test_a_predicate_and_deleted_rows_are_left_out(self, table):
        query = vector(6000).astype(np.float64)
        table.delete("id = 13 or id = 23")
        found = table.nearest("embedding", query, 60, where="year = 1993", columns=["id"])
        ids, _ = self.expected(query, 60, lambda number: number % 10 == 3 and number not in (13, 23))
        assert found.table.column_names == ["id", "_score", "_distance"]
        assert found.table["id"].to_pylist() == ids
        assert len(table.nearest("embedding", query, 5, where="year = 3000")) == 0

    def test_an_old_version_is_searched_as_it_was(self, table):
        query = vector(13)
        version = table.version
        table.delete("id = 13")
        assert table.nearest("embedding", query, 1).table["id"].to_pylist() != [13]
        assert table.nearest("embedding", query, 1, version=version).table["id"].to_pylist() == [13]

    @pytest.mark.parametrize("metric", ["dot", "l2"])
    def test_other_metrics(self, table, metric):
        query = vector(7000).astype(np.float64)
        rows = {number: vector(number).astype(np.float64) for number in range(60) if number != 33}
        scores = {
            number: row @ query if metric == "dot" else -np.linalg.norm(row - query) for number, row in rows.items()
        }
        found = table.nearest("embedding", query, 4, metric=metric)
        assert found.table["id"].to_pylist() == sorted(scores, key=lambda number: -scores[number])[:4]

    def test_text_and_vector_are_fused(self, table):
        query = vector(8000)
        found = table.hybrid("title:love", "embedding", query, 9)
        texts = table.search("title:love", k=100).table["id"].to_pylist()
        near = table.nearest("embedding", query, 100).table["id"].to_pylist()
        expected = reciprocal_rank([texts, near])[:9]
        assert found.table["id"].to_pylist() == [one.item for one in expected]
        ranks = zip(found.table["_text_rank"].to_pylist(), found.table["_vector_rank"].to_pylist(), strict=True)
        assert list(ranks) == [one.ranks for one in expected]
        filtered = table.hybrid("title:love", "embedding", query, 9, where="year >= 1995")
        assert filtered.table["year"].to_numpy().min() >= 1995

    def test_wrong_questions_are_refused(self, table):
        for name, query, code in (
            ("title", vector(1), "NoVectors"),
            ("nope", vector(1), "UnknownColumn"),
            ("embedding", np.ones(5), "DimensionMismatch"),
            ("embedding", np.ones((2, 4)), "DimensionMismatch"),
            ("embedding", [1, np.nan, 2, 3], "NotFinite"),
        ):
            with pytest.raises(InputError) as refused:
                table.nearest(name, query)
            assert refused.value.code == code
