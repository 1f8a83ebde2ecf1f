"""Counts, sums, groups, facets, histograms and ranges are what plain Python computes over the matching documents."""

import datetime
import math
from collections import Counter, defaultdict
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.table.search import avg, count, count_distinct, max_, min_, sum_
from tests.properties import search_model as model
from tests.properties.search_corpora import FORMS, corpus
from tests.properties.test_search_model import COMMON, predicate, predicates, queries

pytest.importorskip("tantivy")

KEYS = ("genre", "plain", "num", "small", "day", "flag", "part", "tags", "amount", "at", "info.n")
NUMBERS = ("num", "small", "amount", "price", "info.n")
MEASURES = {
    "sum": sum_, "avg": avg, "min": min_, "max": max_, "n": count, "distinct": count_distinct,
}  # fmt: skip


@pytest.fixture(scope="module", params=FORMS)
def made(request, tmp_path_factory):
    return corpus(tmp_path_factory.mktemp(request.param), request.param)


def chosen(made, query, where):
    return [made.model.documents[number] for number, _ in made.model.search(query, where)]


def key_values(name, document):
    if name in document and not isinstance(document[name], list):
        return [document[name]]
    return list(dict.fromkeys(model.values(name, document))) or [None]


def plain_measure(kind, name, documents):
    values = [value for one in documents for value in model.values(name, one)]
    if kind == "n":
        return len(values)
    if kind == "distinct":
        return len({value for value in values if value == value}) + any(value != value for value in values)
    if not values:
        return None
    if kind in ("min", "max"):
        known = [value for value in values if value == value]
        return (min if kind == "min" else max)(known) if known else math.nan
    if any(isinstance(value, float) for value in values):
        total = sum(values)
        return total if kind == "sum" else total / len(values)
    total = sum(map(Fraction, values))
    return total if kind == "sum" else float(total / len(values))


def agree(found, wanted):
    if wanted is None or found is None:
        return found is wanted
    if isinstance(wanted, float):
        return found == pytest.approx(wanted, rel=1e-12, nan_ok=True)
    return found == wanted


@settings(max_examples=120, **COMMON)
@given(
    query=queries,
    where=st.none() | predicates,
    keys=st.lists(st.sampled_from(KEYS), unique=True, max_size=2).filter(
        lambda keys: len(keys) < 2 or "tags" != keys[1]
    ),
    asked=st.lists(st.tuples(st.sampled_from(sorted(MEASURES)), st.sampled_from(NUMBERS)), unique=True, max_size=4),
)
def test_groups_and_measures_are_those_of_plain_python(made, query, where, keys, asked):
    groups = defaultdict(list)
    for document in chosen(made, query, where):
        for first in key_values(keys[0], document) if keys else [None]:
            groups[(first, *(document_value(key, document) for key in keys[1:]))[: len(keys)]].append(document)
    if not keys:
        groups.setdefault((), [])
    measures = {"rows": count()} | {f"{kind} of {name}": MEASURES[kind](name) for kind, name in asked}
    table = made.searcher.aggregate(
        model.written(query), where=None if where is None else predicate(where), group_by=keys, measures=measures
    )
    found = {tuple(row[key] for key in keys): row for row in table.to_pylist()}
    assert len(found) == table.num_rows and found.keys() == groups.keys()
    for key, documents in groups.items():
        assert found[key]["rows"] == len(documents)
        for kind, name in asked:
            wanted = plain_measure(kind, name, documents)
            assert agree(found[key][f"{kind} of {name}"], wanted), (key, kind, name, wanted, found[key])
    for key in keys[:1]:
        listed = [row[key] for row in table.to_pylist()]
        known = [one for one in listed if one is not None]
        assert listed == [*sorted(known, key=order), *[None] * (len(listed) - len(known))]


def document_value(name, document):
    if "." in name:
        return next(iter(model.values(name, document)), None)
    return document[name]


def order(value):
    return value.encode() if isinstance(value, str) else value


@settings(max_examples=60, **COMMON)
@given(query=queries, k=st.none() | st.integers(0, 3))
def test_facets_are_counted_and_ordered(made, query, k):
    found = made.searcher.facets(model.written(query), columns=["genre", "tags", "part"], k=k)
    documents = chosen(made, query, None)
    for name, table in found.items():
        counted = Counter(value for one in documents for value in key_values(name, one) if value is not None)
        wanted = sorted(counted.items(), key=lambda one: (-one[1], order(one[0])))
        assert [(row[name], row["count"]) for row in table.to_pylist()] == wanted[:k]


@settings(max_examples=60, **COMMON)
@given(query=queries, interval=st.sampled_from([1, 2, 7, 0.5, 2.5]), offset=st.sampled_from([0, 1, -3, 0.25]))
def test_histograms_of_numbers(made, query, interval, offset):
    documents = chosen(made, query, None)
    for name in ("small", "amount", "price"):
        counted = Counter()
        for one in documents:
            value = one[name]
            if value is not None and math.isfinite(value):
                place = math.floor((float(value) - offset) / interval)
                counted[float(place) * interval + offset] += 1
        table = made.searcher.histogram(model.written(query), column=name, interval=interval, offset=offset)
        assert {row[name]: row["count"] for row in table.to_pylist()} == dict(counted)


@settings(max_examples=60, **COMMON)
@given(query=queries, unit=st.sampled_from(["day", "week", "month", "quarter", "year"]))
def test_histograms_of_the_calendar(made, query, unit):
    counted, timed = Counter(), Counter()
    for one in chosen(made, query, None):
        if one["day"] is not None:
            counted[start_of(one["day"], unit)] += 1
        if one["at"] is not None:
            timed[start_of(one["at"].date(), unit)] += 1
    text = model.written(query)
    table = made.searcher.histogram(text, column="day", interval=unit)
    assert {row["day"]: row["count"] for row in table.to_pylist()} == dict(counted)
    table = made.searcher.histogram(text, column="at", interval=unit)
    assert {row["at"].date(): row["count"] for row in table.to_pylist()} == dict(timed)


def start_of(day, unit):
    if unit == "week":
        return day - datetime.timedelta(days=day.weekday())
    month = {"day": day.month, "month": day.month, "quarter": (day.month - 1) // 3 * 3 + 1, "year": 1}[unit]
    return datetime.date(day.year, month, day.day if unit == "day" else 1)


@settings(max_examples=40, **COMMON)
@given(query=queries, low=st.none() | st.integers(-6, 6), high=st.none() | st.integers(-6, 6))
def test_ranges_hold_their_low_bound_and_not_their_high_one(made, query, low, high):
    wanted = sum(
        one["num"] is not None and (low is None or one["num"] >= low) and (high is None or one["num"] < high)
        for one in chosen(made, query, None)
    )
    assert made.searcher.ranges(model.written(query), column="num", ranges=[(low, high), (None, None)])[0] == wanted


@settings(max_examples=60, **COMMON)
@given(
    query=queries, k=st.none() | st.integers(0, 9), names=st.sampled_from([("num",), ("-num", "id"), ("-genre", "day")])
)
def test_an_order_by_columns_has_nulls_last_and_ties_in_the_order_of_rows(made, query, k, names):
    place = {one["id"]: at for at, one in enumerate(made.model.documents)}
    documents = sorted(chosen(made, query, None), key=lambda one: place[one["id"]])
    for name in reversed(names):
        bare, down = name.removeprefix("-"), name.startswith("-")
        known = [one for one in documents if one[bare] is not None]
        known.sort(key=lambda one: order(one[bare]), reverse=down)
        documents = known + [one for one in documents if one[bare] is None]
    result = made.searcher.search(model.written(query), k=k, order_by=names, columns=["id"])
    assert result.table["id"].to_pylist() == [one["id"] for one in documents][:k]
    assert result.limited == (k is not None and len(documents) > k)
