"""Queries and predicates fitted to columns: names, types, values."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from deltaic.errors import InputError
from deltaic.table.predicate import column
from deltaic.table.query import QueryLimits, QuerySyntaxError, parse_query
from deltaic.table.query.bound import Between, Equal, Group, InText, Never, Pattern, Present, Spaced
from deltaic.table.query.columns import SearchColumns
from deltaic.table.query.filter import resolve_predicate
from deltaic.table.query.resolve import resolve_query
from deltaic.table.split import ColumnIndex, DocMapping

DEEP = pa.list_(pa.struct([("x", pa.int64())]))
SCHEMA = pa.schema(
    [
        ("title", pa.string()),
        ("notes", pa.string()),
        ("genre", pa.string()),
        ("year", pa.int16()),
        ("count", pa.uint64()),
        ("ratio", pa.float32()),
        ("amount", pa.decimal128(6, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("ms", "UTC")),
        ("clock", pa.time32("s")),
        ("flag", pa.bool_()),
        ("raw", pa.binary()),
        ("address", pa.string()),
        ("info", pa.struct([("name", pa.string()), ("a.b", pa.int32()), ("deep", DEEP)])),
        ("attributes", pa.map_(pa.string(), pa.int32())),
        ("payload", pa.string()),
        ("dotted.name", pa.int32()),
    ]
)
OPTIONS = {
    "title": ColumnIndex(kind="text"),
    "notes": ColumnIndex(kind="text", positions=False),
    "address": ColumnIndex(kind="ip"),
    "payload": ColumnIndex(kind="json"),
}
COLUMNS = SearchColumns.of(SCHEMA, DocMapping.from_schema(SCHEMA, OPTIONS), default=["title"])


def bound(text, **options):
    return resolve_query(parse_query(text), COLUMNS, source=text, **options)


def within(text):
    found = bound(text)
    assert isinstance(found, Between), found
    return found.low, found.high, found.include_low, found.include_high


def days(text):
    return (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days


ERRORS = {
    "titel:a": (0, "did you mean 'title'?"),
    "a AND TITLE:b": (6, "did you mean 'title'?"),
    "http://x": (0, "a colon within a word"),
    "title:[a TO b]": (6, "it has no ranges"),
    "flag:>true": (5, "it has no ranges"),
    "year:abc": (5, "column 'year' is a whole number"),
    "year:1.5": (5, "a whole number"),
    "year:>x": (5, "a whole number"),
    "ratio:much": (6, "a number"),
    "amount:1,5": (7, "a decimal number"),
    "day:2024-13": (4, "month"),
    "day:yesterday": (4, "2024-03-05"),
    "at:2024-01-01T25:00": (3, "no time of a day"),
    "clock:25:00": (6, "23:59:59"),
    "flag:yes": (5, "true or false"),
    "raw:xyz": (4, "hexadecimal"),
    "address:10.0.0.300": (8, "no IP address"),
    "address:10.0.0.0/99": (8, "no IP address or network"),
    "year:19*": (5, "takes no wildcards"),
    "year:19~1": (5, "only words can be fuzzy"),
    'genre:"a b"~2': (6, "slop is for words"),
    "info:a": (5, "write the path to one"),
    "info.nam:a": (0, "did you mean 'name'?"),
    "info.name.x:a": (0, "has nothing inside"),
    "payload:a": (8, "write the path"),
    'notes:"two words"': (6, "without positions"),
    'title:"a b c d e f g h"~50': (6, "take a smaller slop"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_a_query_that_does_not_fit_points_at_its_character(text):
    position, words = ERRORS[text]
    with pytest.raises(QuerySyntaxError) as raised:
        bound(text)
    assert (raised.value.position, words in raised.value.reason) == (position, True), raised.value


def test_words_become_tokens_of_their_column():
    assert bound("The").tokens == ((0, "the"),)
    assert bound("title:Wi-Fi").tokens == ((0, "wi"), (1, "fi"))
    assert isinstance(bound("title:..."), Never)
    assert bound("genre:The").values == ("The",)
    assert bound('genre:"a b"') == Equal(COLUMNS.target("genre"), ("a b",))
    assert bound("title:MATR*").pieces[0] == "matr" and isinstance(bound("title:MATR*"), Pattern)
    assert bound("genre:MATR*").pieces[0] == "MATR"


def test_slop_is_spread_over_the_gaps_in_order():
    found = bound('"a b c"~2')
    assert isinstance(found, Spaced)
    assert [tuple(at for at, _ in one.tokens) for one in found.spacings] == [
        (0, 1, 2), (0, 1, 3), (0, 2, 3), (0, 1, 4), (0, 2, 4), (0, 3, 4),
    ]  # fmt: skip


def test_a_part_of_a_date_is_a_period():
    assert within("day:2024") == (days("2024-01-01"), days("2024-12-31"), True, True)
    assert within("day:2024-02") == (days("2024-02-01"), days("2024-02-29"), True, True)
    assert bound("day:2024-02-03") == Equal(COLUMNS.target("day"), (days("2024-02-03"),))
    assert within("day:>2024")[0] == days("2025-01-01")
    assert within("day:<2024")[1] == days("2023-12-31")
    assert within("day:[2023 TO 2024-02]")[:2] == (days("2023-01-01"), days("2024-02-29"))
    assert within("day:{2023 TO 2024-02}")[:2] == (days("2024-01-01"), days("2024-01-31"))
    day = 86_400_000
    assert within("at:2024-02-03")[:2] == (days("2024-02-03") * day, days("2024-02-04") * day - 1)
    assert bound("day:9999").high == days("9999-12-31")


def test_times_have_zones_and_fractions():
    start = days("2024-02-03") * 86_400_000
    assert bound("at:2024-02-03T01:00:00+01:00").values == (start,)
    assert bound("at:2024-02-03T00:00:00.25Z").values == (start + 250,)
    assert bound("clock:01:00").values == (3600,)
    # A bound between two ticks moves inwards, a value between them is nowhere.
    assert within("at:>2024-02-03T00:00:00.0005")[0] == start + 1
    assert isinstance(bound("at:2024-02-03T00:00:00.0005"), Never)


def test_values_beyond_a_type_are_nowhere_and_bounds_are_cut():
    assert isinstance(bound("year:40000"), Never)
    assert isinstance(bound("year:>40000"), Never)
    assert bound("year:<40000") == Present(COLUMNS.target("year"))
    assert bound("count:>=-5") == Present(COLUMNS.target("count"))
    assert isinstance(bound("count:-1"), Never)
    assert bound("year:IN [1 40000 1]").values == (1,)
    assert isinstance(bound("amount:0.001"), Never)
    assert within("amount:>0.001")[0] == 1
    assert isinstance(bound("year:[5 TO 4]"), Never)


def test_floats_of_32_bits_are_compared_as_such():
    import numpy as np

    assert bound("ratio:0.1").values == (float(np.float32(0.1)),)
    assert isinstance(bound("ratio:nan"), Never) and isinstance(bound("ratio:>nan"), Never)


def test_networks_are_ranges_and_ipv4_is_within_ipv6():
    low, high, _, _ = within("address:10.0.0.0/8")
    assert (low, high) == ((0xFFFF << 32) + (10 << 24), (0xFFFF << 32) + (11 << 24) - 1)
    assert isinstance(bound("address:10.0.0.1/32"), Equal)
    assert within("address:0.0.0.0/0")[:2] == (0xFFFF << 32, (0xFFFF << 32) + 2**32 - 1)


def test_paths_lead_through_structs_lists_and_maps():
    assert COLUMNS.target("info.deep.x").many and COLUMNS.target("info.deep.x").kind == "integer"
    assert COLUMNS.target("info.a.b").path == ("a.b",)
    assert COLUMNS.target("attributes.any").kind == "integer"
    assert COLUMNS.target("dotted.name").path == ()
    assert bound("payload.a.b:5").values == ("5", 5) and bound('payload.a.b:"5"').values == ("5",)
    assert bound("payload.a:true").values == ("true", True)
    assert (bound("payload.a:>5").low, bound("payload.a:>x").low) == (5, "x")


def test_a_word_is_looked_for_in_every_default_column():
    columns = SearchColumns.of(SCHEMA, DocMapping.from_schema(SCHEMA, OPTIONS))
    assert columns.default == ("title", "notes")
    assert {leaf.target.name for _, leaf in resolve_query(parse_query("a"), columns).clauses} == {"title", "notes"}
    mixed = SearchColumns.of(SCHEMA, DocMapping.from_schema(SCHEMA, OPTIONS), default=["title", "year"])
    # A word that is no year is just not there.
    assert isinstance(resolve_query(parse_query("abc"), mixed), InText)
    assert len(resolve_query(parse_query("1999"), mixed).clauses) == 2
    none = pa.schema([("year", pa.int16())])
    with pytest.raises(QuerySyntaxError, match="no column holds text"):
        resolve_query(parse_query("a"), SearchColumns.of(none, DocMapping.from_schema(none)))


def test_clauses_are_counted_after_they_are_spread():
    with pytest.raises(QuerySyntaxError, match="more than 3 clauses"):
        bound('"a b c"~2', limits=QueryLimits(max_clauses=3))
    assert isinstance(bound("a b c", limits=QueryLimits(max_clauses=3)), Group)


@pytest.mark.parametrize(
    "predicate",
    [
        column("year") > "abc",
        column("year").equals("1.5x"),
        column("year").equals(True),
        column("flag") > True,
        column("flag").equals("perhaps"),
        column("genre").equals(5),
        column("day").equals(datetime.datetime(2024, 1, 1)),
        column("raw").equals(5),
        column("nowhere").equals(5),
        column("payload.a").equals(5),
        column("info.deep.x").equals(5),
    ],
    ids=str,
)
def test_a_predicate_that_does_not_fit_is_refused(predicate):
    with pytest.raises(InputError):
        resolve_predicate(predicate, COLUMNS)


def test_a_predicate_compares_exactly():
    target = COLUMNS.target("year")
    assert resolve_predicate(column("year") < 1.5, COLUMNS) == Between(target, None, 1)
    assert isinstance(resolve_predicate(column("year").equals(1.5), COLUMNS), Never)
    assert resolve_predicate(column("amount").equals(Decimal("1.5")), COLUMNS).values == (150,)
    assert resolve_predicate(column("title").equals("The Matrix"), COLUMNS).target.kind == "string"
    assert isinstance(resolve_predicate(column("year") < float("nan"), COLUMNS), Never)
    assert isinstance(resolve_predicate(column("year") < float("inf"), COLUMNS), Present)
    assert isinstance(resolve_predicate(column("year").equals(None), COLUMNS), Never)
    deep = column("year").equals(1)
    for _ in range(300):
        deep = ~deep
    with pytest.raises(InputError, match="too deep"):
        resolve_predicate(deep, COLUMNS)
