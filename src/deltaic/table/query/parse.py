r"""Reads the query language.

    query   = clause { clause }                        side by side: any of them, or all with default_operator="and"
    clause  = [ "+" | "-" | "NOT" | "!" ] either
    either  = both { ("OR" | "||") both }
    both    = one { ("AND" | "&&") one }
    one     = [ "NOT" | "!" | "-" | "+" ] unit [ "^" number ]
    unit    = "(" query ")" | "*" | [ field ":" ] value | field ":" "(" query ")"
    value   = word [ "~" [ digit ] ] | phrase [ "~" digits ] | range | "IN" "[" { value } "]" | "*"
    range   = ("[" | "{") bound "TO" bound ("]" | "}") | (">" | ">=" | "<" | "<=") bound
    bound   = word | phrase | "*"
    word    = characters, "\" before a special one; "*" any characters, "?" one
    field   = word | "`" characters "`"

Special are white space and `( ) [ ] { } " ^ ~ : \ * ?`, and `+ - !` at the start of a clause. Behind `field:` a word
may hold colons, so that times and IPv6 addresses need no escapes. Nothing is looked up here: columns and types are for
`resolve`.
"""

import re
from typing import NoReturn

from deltaic.table.query.limits import DEFAULT_QUERY_LIMITS, QueryLimits
from deltaic.table.query.syntax_error import QuerySyntaxError
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
    Query,
    Range,
    Wildcard,
    Word,
)

_SPACE = re.compile(r"\s*")
_PLAIN = re.compile(r'[^\s()\[\]{}"^~:\\*?]+')
_PLAIN_VALUE = re.compile(r'[^\s()\[\]{}"^~\\*?]+')
_PLAIN_ELEMENT = re.compile(r'[^\s()\[\]{}"^~\\*?,]+')
_KEYWORD = re.compile(r"(AND|OR|NOT|&&|\|\|)(?=[\s(\"]|$)")
_IN = re.compile(r"IN\s*(?=[\[(])")
_TO = re.compile(r"\s+TO(?=\s)")
_FIELD = re.compile(r"`([^`]+)`\s*:")
_COMPARISON = re.compile(r"(>=|<=|>|<)\s*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?")
_DIGITS = re.compile(r"[0-9]*")
_QUOTED = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ENDS_UNIT = frozenset(")]}")


def parse_query(text: str, *, default_operator: str = "or", limits: QueryLimits = DEFAULT_QUERY_LIMITS) -> Query:
    """Read a query.

    Args:
        text: the query.
        default_operator: what stands between clauses that stand side by side, "or" or "and".
        limits: how long, wide and deep it may be.

    Raises:
        QuerySyntaxError: it cannot be read; the error points at the character.
    """
    if default_operator not in ("or", "and"):
        raise QuerySyntaxError(f"there is no default operator {default_operator!r}; it is 'or' or 'and'")
    if len(text) > limits.max_query_chars:
        reason = f"the query has {len(text):,} characters, the limit is {limits.max_query_chars:,}"
        raise QuerySyntaxError(reason, code="QueryTooLong")
    return _Parser(text, Occur.MUST if default_operator == "and" else Occur.SHOULD, limits).whole()


class _Parser:
    def __init__(self, text: str, default: Occur, limits: QueryLimits) -> None:
        self._text, self._place, self._default, self._limits = text, 0, default, limits
        self._clauses = self._values = 0

    def whole(self) -> Query:
        self._skip()
        if self._place == len(self._text):
            return Everything()
        found = self._list(None, 0)
        if self._place < len(self._text):
            self._fail(f"{self._text[self._place]!r} closes nothing")
        return found

    def _list(self, field: str | None, depth: int) -> Query:
        """Clauses side by side, up to a closing bracket or the end."""
        if depth > self._limits.max_depth:
            self._fail(f"parentheses are nested more than {self._limits.max_depth} deep", code="QueryTooDeep")
        start, clauses = self._place, list[Clause]()
        while True:
            self._skip()
            if self._place == len(self._text) or self._text[self._place] in _ENDS_UNIT:
                break
            clauses.append(self._clause(field, depth))
        if not clauses:
            self._fail("there is nothing in these parentheses")
        if len(clauses) == 1 and clauses[0].occur is not Occur.MUST_NOT:
            return clauses[0].part
        return Boolean(tuple(clauses), start)

    def _clause(self, field: str | None, depth: int) -> Clause:
        start = self._place
        mark, first = self._marked(field, depth)
        found = self._either(mark, first, start, field, depth)
        if found is not None:
            return Clause(self._default, found)
        return Clause({"+": Occur.MUST, "-": Occur.MUST_NOT}.get(mark, self._default), first)

    def _either(self, mark: str, first: Query, start: int, field: str | None, depth: int) -> Query | None:
        """What operators make of a unit and those behind it; None if there is no operator."""
        alternatives, parts, marks, seen = list[Query](), [_negated(mark, first)], [mark], False
        while (operator := self._keyword(("AND", "OR", "&&", "||"))) is not None:
            seen = True
            self._skip()
            if self._place == len(self._text) or self._text[self._place] in _ENDS_UNIT:
                self._fail(f"{operator} has nothing behind it")
            mark, part = self._marked(field, depth)
            part = _negated(mark, part)
            marks.append(mark)
            if operator in ("AND", "&&"):
                parts.append(part)
            else:
                alternatives.append(_joined(parts, Occur.MUST, start))
                parts = [part]
        if not seen:
            return None
        alternatives.append(_joined(parts, Occur.MUST, start))
        if len(alternatives) > 1 and "+" in marks:
            self._fail("'+' cannot stand beside OR: write the required part outside of it", at=start)
        return _joined(alternatives, Occur.SHOULD, start)

    def _marked(self, field: str | None, depth: int) -> tuple[str, Query]:
        """A unit with its boost, and the sign before it."""
        start, mark = self._place, ""
        while True:
            if (letter := self._text[self._place : self._place + 1]) in ("+", "-", "!") and letter:
                self._place += 1
                follower = self._text[self._place : self._place + 1]
                if not follower or follower.isspace() or follower in _ENDS_UNIT:
                    self._fail(f"{letter!r} stands before nothing", at=self._place - 1)
                sign = "+" if letter == "+" else "-"
            elif self._keyword(("NOT",)) is not None:
                self._skip()
                if self._place == len(self._text) or self._text[self._place] in _ENDS_UNIT:
                    self._fail("NOT has nothing behind it", at=start)
                sign = "-"
            else:
                break
            # Two negations are none, and a + beside a - changes nothing.
            mark = ("+" if mark == "-" else "-") if sign == "-" else (mark or "+")
        operator = _KEYWORD.match(self._text, self._place)
        if operator is not None:
            self._fail(f"{operator[1]} has nothing before it; write it in quotes to search for it")
        return mark, self._unit(field, depth)

    def _unit(self, field: str | None, depth: int) -> Query:
        start, letter = self._place, self._text[self._place]
        if letter == "(":
            found = self._group(field, depth)
        elif (quoted := _FIELD.match(self._text, start)) is not None:
            self._place = quoted.end()
            found = self._of_field(quoted[1], field, start, depth)
        elif letter == '"':
            found = self._phrase(field, start)
        elif letter in "[{" and field is not None:
            found = self._range(field, start)
        elif letter in "]})[{:^~`":
            self._fail(f"{letter!r} stands where a clause must; write \\{letter} to search for it")
        else:
            found = self._word_or_field(field, start, depth)
        self._clauses += 1
        if self._clauses > self._limits.max_clauses:
            self._fail(f"the query has more than {self._limits.max_clauses:,} clauses", code="TooManyClauses", at=start)
        return self._boosted(found, start)

    def _boosted(self, found: Query, start: int) -> Query:
        if self._text[self._place : self._place + 1] == "^":
            number = _NUMBER.match(self._text, self._place + 1)
            if number is None:
                self._fail("a boost is a number that is not negative, as in ^2 or ^0.5", at=self._place + 1)
            self._place = number.end()
            factor = float(number[0])
            if factor > 1e9:
                self._fail("a boost is at most 1e9", at=number.start())
            found = Boost(found, factor, start)
        follower = self._text[self._place : self._place + 1]
        if follower and not follower.isspace() and follower not in "()]},":
            self._fail(f"{follower!r} stands where a space must")
        return found

    def _group(self, field: str | None, depth: int) -> Query:
        opened = self._place
        self._place += 1
        found = self._list(field, depth + 1)
        if self._text[self._place : self._place + 1] != ")":
            if self._place < len(self._text):
                self._fail(f"{self._text[self._place]!r} where ')' must stand")
            self._fail("'(' is never closed", at=opened)
        self._place += 1
        return found

    def _word_or_field(self, field: str | None, start: int, depth: int) -> Query:
        if field is not None and (comparison := _COMPARISON.match(self._text, self._place)) is not None:
            return self._comparison(field, comparison, start)
        if field is not None and (members := _IN.match(self._text, self._place)) is not None:
            self._place = members.end()
            return self._one_of(field, start)
        pieces = self._pieces(_PLAIN)
        if self._text[self._place : self._place + 1] == ":":
            self._place += 1
            if pieces == [Gap.ANY] and self._text[self._place : self._place + 1] == "*":
                self._place += 1
                return Everything(start)
            if any(isinstance(piece, Gap) for piece in pieces):
                self._fail("a column's name has no wildcards", at=start)
            return self._of_field("".join(str(piece) for piece in pieces), field, start, depth)
        if pieces == [Gap.ANY] and field is None:
            return Everything(start)
        return self._finished(field, pieces, start)

    def _of_field(self, name: str, outer: str | None, start: int, depth: int) -> Query:
        if outer is not None:
            self._fail(f"column {name!r} within the parentheses of column {outer!r}; escape the colon as \\:", at=start)
        self._skip()
        if self._place == len(self._text):
            self._fail(f"there is no value behind '{name}:'")
        here, letter = self._place, self._text[self._place]
        if letter == "(":
            return self._group(name, depth)
        if letter == '"':
            return self._phrase(name, here)
        if letter in "[{":
            return self._range(name, here)
        if (members := _IN.match(self._text, here)) is not None:
            self._place = members.end()
            return self._one_of(name, here)
        if (comparison := _COMPARISON.match(self._text, here)) is not None:
            return self._comparison(name, comparison, here)
        if letter in ")]}^~" or _KEYWORD.match(self._text, here) is not None:
            self._fail(f"there is no value behind '{name}:'")
        return self._finished(name, self._pieces(_PLAIN_VALUE), here)

    def _finished(self, field: str | None, pieces: list[str | Gap], start: int) -> Query:
        """What a word is: with wildcards, a prefix, fuzzy, or plain."""
        fuzzy = self._text[self._place : self._place + 1] == "~"
        if not any(isinstance(piece, Gap) for piece in pieces):
            text = "".join(str(piece) for piece in pieces)
            if not fuzzy:
                return Word(field, text, start)
            if len(text) > self._limits.max_fuzzy_chars:
                reason = f"a fuzzy word has at most {self._limits.max_fuzzy_chars} letters, this one {len(text):,}"
                self._fail(reason, code="QueryTooLong", at=start)
            self._place += 1
            digits = _DIGITS.match(self._text, self._place)
            distance = (digits[0] if digits is not None else "") or "2"
            if distance not in ("0", "1", "2"):
                self._fail("a fuzzy word is 0, 1 or 2 edits away")
            self._place += len(digits[0]) if digits is not None else 0
            return Fuzzy(field, text, int(distance), start)
        if fuzzy:
            self._fail("a word has wildcards or is fuzzy, not both")
        if sum(len(piece) if isinstance(piece, str) else 1 for piece in pieces) > self._limits.max_pattern_chars:
            limit = f"{self._limits.max_pattern_chars:,}"
            self._fail(f"a pattern has at most {limit} characters", code="QueryTooLong", at=start)
        if pieces == [Gap.ANY]:
            if field is None:
                return Everything(start)
            return Exists(field, start)
        if len(pieces) == 2 and isinstance(pieces[0], str) and pieces[1] is Gap.ANY:
            return Prefix(field, pieces[0], start)
        return Wildcard(field, tuple(pieces), start)

    def _phrase(self, field: str | None, start: int) -> Query:
        text = self._quoted()
        slop = 0
        if self._text[self._place : self._place + 1] == "~":
            digits = _DIGITS.match(self._text, self._place + 1)
            if digits is None or not digits[0] or len(digits[0]) > 4:
                self._fail('the slop of a phrase is a number, as in "new york"~2', at=self._place + 1)
            slop, self._place = int(digits[0]), digits.end()
        elif self._text[self._place : self._place + 1] in ("*", "?"):
            self._fail("a phrase takes no wildcards")
        return Phrase(field, text, slop, start)

    def _range(self, field: str, start: int) -> Query:
        include_low = self._text[self._place] == "["
        self._place += 1
        self._skip()
        low = self._bound(_PLAIN_VALUE)
        to = _TO.match(self._text, self._place)
        if to is None:
            self._fail("a range is written [low TO high], with { } for bounds that do not belong to it")
        self._place = to.end()
        self._skip()
        high = self._bound(_PLAIN_VALUE)
        self._skip()
        closing = self._text[self._place : self._place + 1]
        if closing not in ("]", "}"):
            self._fail("the range is never closed by ']' or '}'", at=start if not closing else self._place)
        self._place += 1
        return Range(field, low, high, include_low, closing == "]", start)

    def _comparison(self, field: str, comparison: re.Match[str], start: int) -> Query:
        self._place = comparison.end()
        sign, bound = comparison[1], self._bound(_PLAIN_VALUE)
        if bound is None:
            self._fail(f"{sign!r} needs a value", at=comparison.end())
        if sign.startswith(">"):
            return Range(field, bound, None, sign == ">=", True, start)
        return Range(field, None, bound, True, sign == "<=", start)

    def _bound(self, plain: re.Pattern[str]) -> str | None:
        """A bound of a range; None for an open end."""
        here = self._place
        if self._text[here : here + 1] == '"':
            return self._quoted()
        pieces = self._pieces(plain)
        if pieces == [Gap.ANY]:
            return None
        if not pieces or any(isinstance(piece, Gap) for piece in pieces):
            self._fail("a bound is a value, or * for an open end", at=here)
        return "".join(str(piece) for piece in pieces)

    def _one_of(self, field: str, start: int) -> Query:
        closing = {"[": "]", "(": ")"}[self._text[self._place]]
        opened = self._place
        self._place += 1
        values = list[str]()
        while True:
            self._skip()
            letter = self._text[self._place : self._place + 1]
            if letter == closing:
                self._place += 1
                return OneOf(field, tuple(values), start)
            if letter == "":
                self._fail(f"{self._text[opened]!r} is never closed", at=opened)
            if letter == ",":
                if not values:
                    self._fail("a value must stand before a comma")
                self._place += 1
                continue
            value = self._bound(_PLAIN_ELEMENT)
            if value is None:
                self._fail("a list of values takes no wildcards", at=self._place - 1)
            self._values += 1
            if self._values > self._limits.max_set_values:
                limit = f"{self._limits.max_set_values:,}"
                self._fail(f"the lists of the query have more than {limit} values", code="TooManyClauses")
            values.append(value)

    def _quoted(self) -> str:
        opened = self._place
        found = _QUOTED.match(self._text, opened + 1)
        end = found.end() if found is not None else len(self._text)
        if self._text[end : end + 1] != '"':
            self._fail("the quotation mark is never closed", at=opened)
        self._place = end + 1
        return _ESCAPED.sub(r"\1", self._text[opened + 1 : end])

    def _pieces(self, plain: re.Pattern[str]) -> list[str | Gap]:
        """The literal pieces and gaps of a word; neighbouring literals are one piece, neighbouring * one gap."""
        pieces, literal = list[str | Gap](), list[str]()
        while self._place < len(self._text):
            letter = self._text[self._place]
            if letter == "\\":
                if self._place + 1 == len(self._text):
                    self._fail("'\\' has nothing behind it; write \\\\ for the sign itself")
                literal.append(self._text[self._place + 1])
                self._place += 2
                continue
            if letter in "*?":
                if literal:
                    pieces.append("".join(literal))
                    literal.clear()
                gap = Gap(letter)
                if gap is Gap.ONE or not pieces or pieces[-1] is not Gap.ANY:
                    pieces.append(gap)
                self._place += 1
                continue
            run = plain.match(self._text, self._place)
            if run is None:
                break
            literal.append(run[0])
            self._place = run.end()
        if literal:
            pieces.append("".join(literal))
        if not pieces:
            self._fail("a value must stand here")
        return pieces

    def _keyword(self, words: tuple[str, ...]) -> str | None:
        """An operator, if one of these comes next; white space before it is taken only then."""
        space = _SPACE.match(self._text, self._place)
        found = _KEYWORD.match(self._text, space.end() if space is not None else self._place)
        if found is None or found[1] not in words:
            return None
        self._place = found.end()
        return found[1]

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._place)
        self._place = found.end() if found is not None else self._place

    def _fail(self, reason: str, *, at: int | None = None, code: str = "BadQuery") -> NoReturn:
        raise QuerySyntaxError(reason, self._text, self._place if at is None else at, code)


def _negated(mark: str, part: Query) -> Query:
    return Boolean((Clause(Occur.MUST_NOT, part),)) if mark == "-" else part


def _joined(parts: list[Query], occur: Occur, start: int) -> Query:
    return parts[0] if len(parts) == 1 else Boolean(tuple(Clause(occur, part) for part in parts), start)
