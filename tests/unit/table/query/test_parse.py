"""The language: what texts mean, and that errors point at the character."""

import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.errors import InputError
from deltaic.table.query import QueryLimits, QuerySyntaxError, parse_query, show_query
from deltaic.table.query.tree import (
    Boolean,
    Boost,
    Clause,
    Everything,
    Exists,
    Fuzzy,
    Gap,
    Occur,
    OneOf,
    Phrase,
    Prefix,
    Range,
    Wildcard,
    Word,
)

MUST, SHOULD, NOT = Occur.MUST, Occur.SHOULD, Occur.MUST_NOT


def group(*clauses):
    return Boolean(tuple(Clause(occur, part) for occur, part in clauses))


A, B, C = Word(None, "a"), Word(None, "b"), Word(None, "c")

MEANINGS = {
    "a": A,
    "": Everything(),
    "  ": Everything(),
    "*": Everything(),
    "*:*": Everything(),
    "a b": group((SHOULD, A), (SHOULD, B)),
    "+a -b c": group((MUST, A), (NOT, B), (SHOULD, C)),
    "a AND b": group((MUST, A), (MUST, B)),
    "a && b": group((MUST, A), (MUST, B)),
    "a OR b AND c": group((SHOULD, A), (SHOULD, group((MUST, B), (MUST, C)))),
    "a || b": group((SHOULD, A), (SHOULD, B)),
    "a b AND c": group((SHOULD, A), (SHOULD, group((MUST, B), (MUST, C)))),
    "NOT a": group((NOT, A)),
    "!a": group((NOT, A)),
    "b NOT a": group((SHOULD, B), (NOT, A)),
    "b OR NOT a": group((SHOULD, B), (SHOULD, group((NOT, A)))),
    "NOT NOT a": A,
    "-a AND b": group((MUST, group((NOT, A))), (MUST, B)),
    "(a OR b) AND c": group((MUST, group((SHOULD, A), (SHOULD, B))), (MUST, C)),
    "title:a": Word("title", "a"),
    "title: a": Word("title", "a"),
    "title:(a OR b)": group((SHOULD, Word("title", "a")), (SHOULD, Word("title", "b"))),
    'title:(+a -"b c")': group((MUST, Word("title", "a")), (NOT, Phrase("title", "b c"))),
    'title:"new york"~2': Phrase("title", "new york", 2),
    '"say \\"hi\\" \\\\"': Phrase(None, 'say "hi" \\'),
    "a^2": Boost(A, 2.0),
    "(a b)^0.5": Boost(group((SHOULD, A), (SHOULD, B)), 0.5),
    'title:"a b"~1^3': Boost(Phrase("title", "a b", 1), 3.0),
    "a~": Fuzzy(None, "a", 2),
    "a~1": Fuzzy(None, "a", 1),
    "te*": Prefix(None, "te"),
    "te?t*": Wildcard(None, ("te", Gap.ONE, "t", Gap.ANY)),
    "*st": Wildcard(None, (Gap.ANY, "st")),
    "a**b": Wildcard(None, ("a", Gap.ANY, "b")),
    "te\\*": Word(None, "te*"),
    "x:*": Exists("x"),
    "x:[1 TO 5}": Range("x", "1", "5", True, False),
    "x:{* TO 5]": Range("x", None, "5", False, True),
    'x:["a b" TO *]': Range("x", "a b", None),
    "x:>5": Range("x", "5", None, False, True),
    "x:<=-5": Range("x", None, "-5", True, True),
    "x:-5": Word("x", "-5"),
    "x:([1 TO 2] OR >5)": group((SHOULD, Range("x", "1", "2")), (SHOULD, Range("x", "5", None, False))),
    "x:IN [a b]": OneOf("x", ("a", "b")),
    'x: IN (a, "b c")': OneOf("x", ("a", "b c")),
    "x:IN []": OneOf("x", ()),
    "x:IN": Word("x", "IN"),
    "a.b.c:5": Word("a.b.c", "5"),
    "ip:2001:db8::/32": Word("ip", "2001:db8::/32"),
    "at:2024-01-01T10:00:00Z": Word("at", "2024-01-01T10:00:00Z"),
    "http\\://x": Word(None, "http://x"),
    "`my column`:a": Word("my column", "a"),
    "my\\ column:a": Word("my column", "a"),
    "and or not": group((SHOULD, Word(None, "and")), (SHOULD, Word(None, "or")), (SHOULD, Word(None, "not"))),
    "ANDES": Word(None, "ANDES"),
    "c++": Word(None, "c++"),
    "x-ray": Word(None, "x-ray"),
    "naïve 東京": group((SHOULD, Word(None, "naïve")), (SHOULD, Word(None, "東京"))),
}

ERRORS = {
    "(a": (0, "never closed"),
    "a)": (1, "closes nothing"),
    "price:": (6, "no value behind 'price:'"),
    "price: AND a": (7, "no value"),
    "a AND": (5, "nothing behind"),
    "AND a": (0, "nothing before"),
    "a OR OR b": (5, "nothing before"),
    "a - b": (2, "stands before nothing"),
    "+": (0, "stands before nothing"),
    "x:[1 2]": (4, "[low TO high]"),
    "x:[1 TO 2": (2, "never closed"),
    'say "abc': (4, "never closed"),
    "a~3": (2, "0, 1 or 2"),
    "a^x": (2, "a boost is a number"),
    "a^-1": (2, "a boost is a number"),
    "a*~": (2, "not both"),
    "x:(y:z)": (3, "within the parentheses"),
    "+a OR b": (0, "beside OR"),
    "a ()": (3, "nothing in these parentheses"),
    "x:IN [a": (5, "never closed"),
    'a"b"': (1, "where a space must"),
    "te*:x": (0, "no wildcards"),
    "a \\": (2, "nothing behind"),
    '"a b"~x': (6, "slop"),
    '"a b"*': (5, "no wildcards"),
    "x:>": (3, "a value must stand here"),
    "a~b": (2, "where a space must"),
    "NOT": (0, "nothing behind"),
    "x:IN [a*]": (6, "a bound is a value"),
}


@pytest.mark.parametrize("text", MEANINGS)
def test_a_text_means_its_tree(text):
    assert parse_query(text) == MEANINGS[text]


@pytest.mark.parametrize("text", MEANINGS)
def test_a_tree_written_as_text_is_read_as_the_same_tree(text):
    tree = parse_query(text)
    assert parse_query(show_query(tree)) == tree


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_points_at_its_character(text):
    position, words = ERRORS[text]
    with pytest.raises(QuerySyntaxError) as raised:
        parse_query(text)
    assert (raised.value.position, words in raised.value.reason) == (position, True), raised.value
    _, line, caret = str(raised.value).split("\n")
    assert line[caret.index("^") : caret.index("^") + 1] == text[position : position + 1]
    assert isinstance(raised.value, InputError)


def test_side_by_side_can_mean_all():
    assert parse_query("a b -c", default_operator="and") == group((MUST, A), (MUST, B), (NOT, C))
    with pytest.raises(QuerySyntaxError, match="'or' or 'and'"):
        parse_query("a", default_operator="xor")


def test_a_long_query_is_shown_around_the_error_in_one_line():
    text = "x " * 500 + "\n)" + " y" * 500
    with pytest.raises(QuerySyntaxError) as raised:
        parse_query(text)
    _, line, caret = str(raised.value).split("\n")
    assert line.startswith("  …") and line.endswith("…") and len(line) < 100 and line[caret.index("^")] == ")"


def test_an_error_survives_pickling():
    with pytest.raises(QuerySyntaxError) as raised:
        parse_query("a)")
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value) and again.position == 1 and again.code == "BadQuery"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a " * 10_001, "TooManyClauses"),
        ("(" * 65 + "a" + ")" * 65, "QueryTooDeep"),
        ("(" * 500_000, "QueryTooDeep"),
        ("x:(" * 100, "BadQuery"),
        ("a" * 101 + "~", "QueryTooLong"),
        ("?" * 1_000_000, "QueryTooLong"),
        ("a" * 4_000_001, "QueryTooLong"),
        ("x:IN [" + "a " * 100_001 + "]", "TooManyClauses"),
        ("NOT " * 250_000, "BadQuery"),
        ("-" * 1_000_000, "BadQuery"),
        ("\\" * 999_999, "BadQuery"),
        ('"' + 'a\\"' * 300_000, "BadQuery"),
        ("a AND " * 200_000, "TooManyClauses"),
    ],
    ids=lambda value: value if len(value) < 20 else f"{value[:8]}…{len(value)}",
)
def test_a_query_beyond_its_limits_is_refused_soon(text, code):
    started = time.process_time()
    with pytest.raises(QuerySyntaxError) as raised:
        parse_query(text)
    assert raised.value.code == code
    assert len(str(raised.value)) < 500
    assert time.process_time() - started < 2


def test_limits_can_be_chosen():
    parse_query("a b c", limits=QueryLimits(max_clauses=3))
    with pytest.raises(QuerySyntaxError, match="more than 2 clauses"):
        parse_query("a b c", limits=QueryLimits(max_clauses=2))


def test_ten_thousand_clauses_and_a_megabyte_are_read():
    assert len(parse_query("a " * 10_000).clauses) == 10_000
    assert parse_query("a" * 1_000_000) == Word(None, "a" * 1_000_000)
    assert len(parse_query("x:IN [" + "a " * 100_000 + "]").values) == 100_000


@given(st.text(alphabet='ab1 ()[]{}"^~:\\*?+-!<>,&|`ANDORTIN.\t\nü', max_size=40) | st.text(max_size=40))
def test_any_text_is_a_query_or_an_error_that_points_into_it(text):
    try:
        tree = parse_query(text)
    except QuerySyntaxError as error:
        assert 0 <= error.position <= len(text)
        assert str(error)
    else:
        assert parse_query(show_query(tree)) == tree
