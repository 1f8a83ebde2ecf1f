"""Fits a query to the columns of a table: names, types, words. Errors point at the character."""

import math
import re
from itertools import combinations
from typing import NoReturn

from deltaic.table.query.bound import (
    Always,
    Between,
    Bound,
    Equal,
    Group,
    InText,
    Near,
    Never,
    Pattern,
    Present,
    Spaced,
    Weighted,
    either,
    with_sets,
)
from deltaic.table.query.columns import SearchColumns, Target, UnknownColumn
from deltaic.table.query.limits import DEFAULT_QUERY_LIMITS, QueryLimits
from deltaic.table.query.literals import NoValue, is_text, limits_of, span_of, whole_bounds
from deltaic.table.query.syntax_error import QuerySyntaxError
from deltaic.table.query.tree import (
    Boolean,
    Boost,
    Everything,
    Exists,
    Fuzzy,
    Gap,
    Leaf,
    OneOf,
    Phrase,
    Prefix,
    Query,
    Range,
    Wildcard,
    Word,
)
from deltaic.table.split.tokenizers import analyzer

WHOLE_KINDS = frozenset(("integer", "date", "timestamp", "time", "duration", "decimal", "ip"))
"""The kinds whose values are whole numbers to a query."""
_JSON_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?")
_WORDY = frozenset(("text", "string", "json"))


def resolve_query(
    tree: Query, columns: SearchColumns, *, source: str = "", limits: QueryLimits = DEFAULT_QUERY_LIMITS
) -> Bound:
    """Fit a query to columns.

    Args:
        tree: the query.
        columns: the columns of the table.
        source: the text it was read from, for errors.
        limits: how many clauses it may become.

    Raises:
        QuerySyntaxError: a column is not there, a value is none of its column, a clause does not suit its column.
    """
    return _Resolver(columns, source, limits).bound(tree, 0)


class _Resolver:
    def __init__(self, columns: SearchColumns, source: str, limits: QueryLimits) -> None:
        self._columns, self._source, self._limits = columns, source, limits
        self._clauses = 0

    def bound(self, tree: Query, depth: int) -> Bound:
        # A tree that a caller built may be deeper than any text.
        if depth > 3 * self._limits.max_depth:
            self._fail("the query is nested too deep", tree, "QueryTooDeep")
        if isinstance(tree, Boost):
            if not 0 <= tree.factor <= 1e9:
                self._fail("a boost is between 0 and 1e9", tree)
            return Weighted(self.bound(tree.part, depth + 1), tree.factor)
        if isinstance(tree, Boolean):
            if not tree.clauses:
                return Never("there are no clauses")
            return Group(with_sets([(clause.occur, self.bound(clause.part, depth + 1)) for clause in tree.clauses]))
        if isinstance(tree, Everything):
            return Always()
        if not all(is_text(text) for text in _texts_of(tree)):
            self._fail("a lone surrogate is no text: neither rows nor indexes can hold it", tree)
        if isinstance(tree, Exists):
            return self._counted(Present(self._target(tree.field, tree)), tree)
        if tree.field is not None:
            return self._leaf(tree, self._target(tree.field, tree), strict=True)
        if not self._columns.default:
            self._fail("no column holds text: write the column before the word, as in name:word", tree)
        return either(*(self._leaf(tree, self._target(name, tree), strict=False) for name in self._columns.default))

    def _target(self, name: str, tree: Query) -> Target:
        try:
            found = self._columns.target(name)
        except UnknownColumn as error:
            at = self._source.rfind(name, 0, tree.at) if self._source else -1
            hint = ""
            if self._source[tree.at :].startswith("//"):
                hint = "; a colon within a word is written \\:"
            raise QuerySyntaxError(
                f"{error}{hint}", self._source, at if at >= 0 else tree.at, "UnknownColumn"
            ) from None
        if isinstance(tree, Exists):
            return found
        if found.column.vector:
            self._fail(f"column {found.name!r} is a vector: rows near another one are found by nearest()", tree)
        if found.kind == "json" and not found.path:
            self._fail(f"column {found.name!r} is JSON; write the path to a value, as in {found.name}.name:word", tree)
        if found.kind == "none":
            inside = " and has fields; write the path to one" if found.type.num_fields else ", which cannot be searched"
            self._fail(f"column {found.name!r} is {str(found.type)[:80]}{inside}", tree)
        return found

    def _leaf(self, tree: Leaf, target: Target, *, strict: bool) -> Bound:
        """A clause on one column. Among default columns a word that is no value of a column just is not there."""
        try:
            return self._counted(self._made(tree, target), tree)
        except NoValue as error:
            if strict:
                raise QuerySyntaxError(str(error), self._source, tree.at, "BadValue") from error
            return Never(str(error))

    def _made(self, tree: Leaf, target: Target) -> Bound:
        if isinstance(tree, Word | Phrase):
            slop = tree.slop if isinstance(tree, Phrase) else 0
            if target.tokenizer is not None:
                found = self._words(tree, target, tree.text, slop)
                if target.kind == "json" and isinstance(tree, Word) and (typed := json_typed(tree.text)):
                    return either(found, Equal(target, typed))
                return found
            if slop:
                self._fail(f"{target.described}: slop is for words of text", tree)
            if target.kind == "json":
                return Equal(target, (tree.text, *(json_typed(tree.text) if isinstance(tree, Word) else ())))
            return self._equal(target, (tree.text,))
        if isinstance(tree, OneOf):
            if target.tokenizer is not None:
                for _ in tree.values:
                    self._counted(Always(), tree)
                return either(*(self._words(tree, target, value, 0) for value in tree.values))
            return self._equal(target, tree.values)
        if isinstance(tree, Prefix | Wildcard):
            if target.kind not in _WORDY:
                self._fail(f"{target.described}: it takes no wildcards, but ranges", tree)
            pieces = tree.pieces if isinstance(tree, Wildcard) else (tree.text, Gap.ANY)
            return Pattern(target, tuple(_cased(target, one) if isinstance(one, str) else one for one in pieces))
        if isinstance(tree, Fuzzy):
            if target.kind not in _WORDY:
                self._fail(f"{target.described}: only words can be fuzzy", tree)
            if tree.distance not in (0, 1, 2) or len(tree.text) > self._limits.max_fuzzy_chars:
                self._fail("a fuzzy word is 0, 1 or 2 edits away and not long", tree)
            return Near(target, _cased(target, tree.text), tree.distance)
        if isinstance(tree, Range):
            return self._range(tree, target)
        raise AssertionError(tree)

    def _words(self, tree: Query, target: Target, text: str, slop: int) -> Bound:
        tokens = tokens_of(target, text)
        if not tokens:
            return Never(f"{text[:40]!r} has no words for column {target.name!r}")
        if len(tokens) == 1:
            return InText(target, tokens)
        if len(tokens) > self._limits.max_phrase_words:
            limit = f"{self._limits.max_phrase_words:,}"
            self._fail(f"a phrase has at most {limit} words, this one {len(tokens):,}", tree, "QueryTooLong")
        if target.column.index is None or not target.column.index.positions:
            reason = f"column {target.name!r} is indexed without positions: {text[:40]!r} is a phrase and needs them"
            self._fail(reason, tree, "NoPositions")
        if not slop:
            return InText(target, tokens)
        ways = math.comb(slop + len(tokens) - 1, len(tokens) - 1)
        if ways > self._limits.max_spacings:
            reason = f"a slop of {slop} spaces {len(tokens)} words in {ways:,} ways, the limit is"
            self._fail(f"{reason} {self._limits.max_spacings:,}; take a smaller slop", tree, "TooManyClauses")
        self._clauses += ways - 1
        return Spaced(target, tuple(InText(target, one) for one in _spacings(tokens, slop)))

    def _equal(self, target: Target, texts: tuple[str, ...]) -> Bound:
        if target.kind in WHOLE_KINDS:
            values, spans = list[int](), list[Bound]()
            for text in texts:
                low, high = span_of(target, text)
                bounds = whole_bounds(target, low, high, True, True)
                if bounds is None or bounds[0] is None or bounds[1] is None:
                    continue
                # A value that the column's type cannot hold is in no row; its neighbour must not stand in for it.
                if bounds[0] == bounds[1]:
                    values.append(bounds[0])
                else:
                    spans.append(Between(target, *bounds))
            parts = [Equal(target, tuple(dict.fromkeys(values)))] if values else []
            return either(*parts, *spans) if parts or spans else Never(f"column {target.name!r} cannot hold that")
        if target.kind == "json":
            return Equal(target, tuple(one for text in texts for one in (text, *json_typed(text))))
        found = (span_of(target, text)[0] for text in texts)
        kept = tuple(dict.fromkeys(value for value in found if value == value))
        return Equal(target, kept) if kept else Never("nothing equals that")

    def _range(self, tree: Range, target: Target) -> Bound:
        if target.kind in ("text", "boolean"):
            hint = " or index it as a string" if target.kind == "text" else ""
            self._fail(f"{target.described}: it has no ranges; take the words themselves{hint}", tree)
        low = None if tree.low is None else span_of(target, tree.low)
        high = None if tree.high is None else span_of(target, tree.high)
        if low is None and high is None:
            return Present(target)
        if target.kind == "json":
            return _json_range(tree, target)
        # A text that stands for a period belongs to a range wholly or not at all.
        least = None if low is None else low[0] if tree.include_low else low[1]
        most = None if high is None else high[1] if tree.include_high else high[0]
        return between(target, least, most, tree.include_low, tree.include_high)

    def _counted(self, made: Bound, tree: Query) -> Bound:
        self._clauses += 1
        if self._clauses > self._limits.max_clauses:
            limit = f"{self._limits.max_clauses:,}"
            self._fail(f"the query becomes more than {limit} clauses", tree, "TooManyClauses")
        return made

    def _fail(self, reason: str, tree: Query, code: str = "BadQuery") -> NoReturn:
        raise QuerySyntaxError(reason, self._source, tree.at, code)


def between(target: Target, low: object, high: object, include_low: bool, include_high: bool) -> Bound:
    """The rows whose value is within bounds."""
    if target.kind in WHOLE_KINDS:
        bounds = whole_bounds(target, low, high, include_low, include_high)
        if bounds is None:
            return Never(f"nothing of column {target.name!r} is within these bounds")
        least, most = bounds
        first, last = limits_of(target)
        if (least is None or least == first) and (most is None or most == last):
            return Present(target)
        return Between(target, least, most)
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        return Never("nothing is above or below NaN")
    return Between(target, low, high, include_low, include_high)


def json_typed(text: str) -> tuple[int | float | bool, ...]:
    """The number or truth that a word may also mean within JSON, where nothing says what a value is."""
    if text in ("true", "false"):
        return (text == "true",)
    if _JSON_NUMBER.fullmatch(text) is None:
        return ()
    number = float(text) if any(sign in text for sign in ".eE") else int(text)
    # JSON has no infinity, so nothing is above it.
    return () if isinstance(number, float) and math.isinf(number) else (number,)


def _json_range(tree: Range, target: Target) -> Bound:
    """Bounds that are numbers are for numbers, others for texts."""
    numbers = [None if bound is None else json_typed(bound) for bound in (tree.low, tree.high)]
    if all(one is None or (one and not isinstance(one[0], bool)) for one in numbers):
        low, high = (None if one is None else one[0] for one in numbers)
        return Between(target, low, high, tree.include_low, tree.include_high)
    return Between(target, tree.low, tree.high, tree.include_low, tree.include_high)


def tokens_of(target: Target, text: str) -> tuple[tuple[int, str], ...]:
    """The words of a text as the index of a column has them, each with its distance from the first."""
    tokens = analyzer(target.tokenizer or "raw").pre_tokenize(text).tokens
    if not tokens:
        return ()
    first = tokens[0].position
    return tuple((token.position - first, token.text) for token in tokens)


def _texts_of(tree: Leaf) -> list[str]:
    """Everything that a leaf says in letters."""
    found = [] if isinstance(tree, Everything) or tree.field is None else [tree.field]
    if isinstance(tree, Word | Phrase | Prefix | Fuzzy):
        found.append(tree.text)
    elif isinstance(tree, Wildcard):
        found += [piece for piece in tree.pieces if isinstance(piece, str)]
    elif isinstance(tree, OneOf):
        found += tree.values
    elif isinstance(tree, Range):
        found += [bound for bound in (tree.low, tree.high) if bound is not None]
    return found


def _cased(target: Target, text: str) -> str:
    """A piece of a word as the tokens of a column are written."""
    name = target.tokenizer
    if name is None or name in ("whitespace", "simple"):
        return text
    # Letter by letter, as the engine does it: Python would write a final sigma differently.
    return "".join(letter.lower() for letter in text)


def _spacings(tokens: tuple[tuple[int, str], ...], slop: int) -> list[tuple[tuple[int, str], ...]]:
    """Every way to spread at most `slop` extra places over the gaps of a phrase, the tightest first."""
    gaps = len(tokens) - 1
    ways = []
    # Stars and bars: each choice of `gaps` bars among slop + gaps places is one way to spread.
    for bars in combinations(range(slop + gaps), gaps):
        offset, before, made = 0, -1, [tokens[0]]
        for token, bar in zip(tokens[1:], bars, strict=True):
            offset += bar - before - 1
            before = bar
            made.append((token[0] + offset, token[1]))
        ways.append(tuple(made))
    return sorted(ways, key=lambda way: way[-1][0])
