"""Search with predicates, deletes and k is what a plain look at every document gives, scores and ties included."""

import datetime
import math
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaic.table.predicate import And, Compare, In, IsNull, Not, Or
from tests.properties import search_model as model
from tests.properties.search_corpora import FORMS, corpus

pytest.importorskip("tantivy")

words = st.sampled_from([*model.WORDS, "RED", "nowhere", "aab", "Blue!", "green-blue", "..."])
genres = st.sampled_from([*model.GENRES, "dram", "none"])
days = st.integers(-50, 50).map(lambda days: (model.DAY + datetime.timedelta(days=days)).isoformat())
times = st.sampled_from([0, 1, 10**6, -1, -2, 86_400_000_000]).map(
    lambda micros: (model.NOW + datetime.timedelta(microseconds=micros)).isoformat()
)
numbers = st.sampled_from([-(2**63), 2**63 - 1, 2**63, *range(-6, 7)]).map(str)
VALUES = {
    "genre": genres, "plain": genres, "tags": genres, "info.word": genres, "num": numbers,
    "small": st.integers(-1, 300).map(str), "info.n": st.integers(0, 4).map(str), "part": st.integers(0, 3).map(str),
    "price": st.sampled_from(["0", "-0.0", "1.5", "-2.25", "inf", "-inf", "0.1", "1e300", "7"]),
    "amount": st.integers(-5100, 5100).map(lambda number: str(Decimal(number) / 1000)), "day": days, "at": times,
    "ip": st.sampled_from(model.ADDRESSES), "js.k": st.sampled_from(["1", "2", "2.5", "two", "true", "x"]),
    "js.list.n": st.integers(0, 4).map(str), "js.k.deep": words,
}  # fmt: skip
RANGED = list(VALUES)
WORDY = ["genre", "plain", "tags", "info.word", "js.k", "title", "body", None]
text_fields = st.sampled_from(["title", "body", None])
patterns = st.text("abcdrexμ*?", min_size=2, max_size=6).filter(
    lambda text: set(text) & set("*?") and set(text) != {"*"}
)


def valued(field):
    values = VALUES[field]
    bound = st.none() | values
    return st.one_of(
        st.tuples(st.just("word"), st.just(field), values),
        st.tuples(st.just("in"), st.just(field), st.lists(values, min_size=1, max_size=4).map(tuple)),
        st.tuples(st.just("range"), st.just(field), bound, bound, st.booleans(), st.booleans()).filter(
            lambda one: one[2] is not None or one[3] is not None
        ),
        st.just(("exists", field)),
    )


leaves = st.one_of(
    st.tuples(st.just("word"), text_fields, words),
    st.tuples(st.just("word"), text_fields, words),
    st.tuples(st.just("phrase"), text_fields, st.lists(words, min_size=1, max_size=3).map(tuple), st.integers(0, 3)),
    st.tuples(st.just("prefix"), st.sampled_from(WORDY), st.sampled_from(["a", "ab", "D", "dra", "sci f", "Re", "ü"])),
    st.tuples(st.just("wild"), st.sampled_from(WORDY), patterns),
    st.tuples(st.just("fuzzy"), st.sampled_from(WORDY), st.sampled_from([*model.WORDS, "drmaa"]), st.integers(0, 2)),
    st.tuples(st.just("in"), st.sampled_from(model.TEXT), st.lists(words, min_size=1, max_size=3).map(tuple)),
    st.sampled_from(RANGED).flatmap(valued),
    st.sampled_from(RANGED).flatmap(valued),
    st.sampled_from([("word", "flag", "true"), ("word", "flag", "false"), ("all",), ("exists", "title")]),
    st.sampled_from([("word", "ip", "10.0.0.0/16"), ("word", "ip", "2001:db8::/32"), ("word", "ip", "0.0.0.0/0")]),
    st.sampled_from([("exists", name) for name in ("tags", "info", "js", "info.word", "js.k", "flag", "body")]),
)
signs = st.sampled_from(["", "", "+", "-"])
queries = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("list"), st.lists(st.tuples(signs, inner), min_size=1, max_size=4).map(tuple)),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("boost"), inner, st.sampled_from([0.5, 2, 3.25])),
    ),
    max_leaves=8,
)
SIGNS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
compared = st.one_of(
    st.tuples(st.just("compare"), st.just("num"), SIGNS, st.integers(-6, 6) | st.just(2.5) | st.none()),
    st.tuples(st.just("compare"), st.just("price"), SIGNS, st.sampled_from([0.0, 1.5, -2.25, math.inf])),
    st.tuples(st.just("compare"), st.just("genre"), SIGNS, genres),
    st.tuples(st.just("compare"), st.just("plain"), SIGNS, genres),
    st.tuples(st.just("compare"), st.just("body"), SIGNS, st.sampled_from(["red", "m"])),
    st.tuples(st.just("compare"), st.just("amount"), SIGNS, st.integers(-500, 500).map(lambda one: Decimal(one) / 100)),
    st.tuples(st.just("compare"), st.just("day"), SIGNS, st.just(model.DAY)),
    st.tuples(st.just("compare"), st.just("part"), SIGNS, st.integers(0, 3)),
    st.tuples(st.just("compare"), st.just("flag"), st.sampled_from(["=", "!="]), st.booleans()),
    st.tuples(st.just("in"), st.just("num"), st.lists(st.integers(-6, 6) | st.none(), max_size=3)),
    st.tuples(st.just("in"), st.just("plain"), st.lists(genres | st.none(), max_size=3)),
    st.tuples(st.just("null"), st.sampled_from(["genre", "plain", "num", "part", "tags", "flag"])),
)
predicates = st.recursive(
    compared,
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner) | st.tuples(st.just("not"), inner),
    max_leaves=4,
)


def predicate(where):
    kind = where[0]
    if kind in ("and", "or"):
        return (And if kind == "and" else Or)(tuple(predicate(one) for one in where[1:]))
    if kind == "not":
        return Not(predicate(where[1]))
    if kind == "null":
        return IsNull(where[1])
    return In(where[1], tuple(where[2])) if kind == "in" else Compare(*where[1:])


@pytest.fixture(scope="module", params=FORMS)
def made(request, tmp_path_factory):
    return corpus(tmp_path_factory.mktemp(request.param), request.param)


COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=250, **COMMON)
@given(query=queries, where=st.none() | predicates, k=st.none() | st.integers(0, 12), offset=st.integers(0, 3))
def test_search_is_what_a_look_at_every_document_gives(made, query, where, k, offset):
    expected = made.model.search(query, where)
    text = model.written(query)
    result = made.searcher.search(
        text, where=None if where is None else predicate(where), k=k, offset=offset, columns=["id"], total=True
    )
    ids = [made.model.documents[number]["id"] for number, _ in expected]
    wanted = expected[offset : None if k is None else offset + k]
    assert result.hits == len(expected), result.explain
    assert result.limited == (len(expected) > offset + len(wanted))
    found = result.table.column("id").to_pylist()
    scores = result.scores
    assert scores == pytest.approx([score for _, score in wanted], rel=2e-5, abs=1e-6), result.explain
    assert scores == sorted(scores, reverse=True)
    place = {one: at for at, one in enumerate(ids)}
    assert len(set(found)) == len(found) and set(found) <= set(ids), result.explain
    # Rows whose scores differ only by rounding may change places with each other, and only with each other.
    exact = dict(zip(ids, (score for _, score in expected), strict=True))
    for one, score in zip(found, scores, strict=True):
        assert exact[one] == pytest.approx(score, rel=2e-5, abs=1e-6)
    for first, second in pairwise(found):
        if exact[first] == exact[second]:
            assert place[first] < place[second], result.explain


@settings(max_examples=100, **COMMON)
@given(query=queries, where=st.none() | predicates)
def test_counts_and_row_numbers_are_those_of_the_matching_documents(made, query, where):
    expected = {made.model.documents[number]["id"] for number, _ in made.model.search(query, where)}
    text, wanted = model.written(query), None if where is None else predicate(where)
    assert made.searcher.count(text, where=wanted) == len(expected)
    rows = made.searcher.row_numbers(text, where=wanted)
    by_id = {split.cached.split_id: split for split in made.searcher._splits}
    found = [one for split, some in rows.items() for one in by_id[split].cached.rows["id"].take(some).to_pylist()]
    assert sorted(found) == sorted(expected)
    assert all((np.diff(some) > 0).all() for some in rows.values())


def test_one_split_and_eight_give_equal_scores(tmp_path):
    one, eight = corpus(tmp_path / "1", "one"), corpus(tmp_path / "8", "eight")
    for text in ("red", "red green blue", '"red green"~2 OR solaris', "title:(ivan mirror)^2 body:x9", "ab* red~1"):
        scores = [
            dict(zip(found.table["id"].to_pylist(), found.scores, strict=True))
            for found in (made.searcher.search(text, k=None, columns=["id"]) for made in (one, eight))
        ]
        assert scores[0] and scores[0] == scores[1], text
