"""Predicates over columns: what a reader wants and what a transaction read.

    column("day") >= "2024-01-01"          parse_predicate("day >= '2024-01-01' and id in (1, 2)")

Nulls follow SQL: a comparison with null is neither true nor false, and only rows for which a predicate is true count.
"""

import re
from collections.abc import Iterable
from typing import Any, TypeAlias, Union

import msgspec

from deltaic.errors import InputError

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
"""The comparisons."""


class _Combining:
    """Lets predicates be joined by `&`, `|` and `~`."""

    __slots__ = ()

    def __and__(self, other: "Predicate") -> "And":
        return And((self, other))  # type: ignore[arg-type]

    def __or__(self, other: "Predicate") -> "Or":
        return Or((self, other))  # type: ignore[arg-type]

    def __invert__(self) -> "Not":
        return Not(self)  # type: ignore[arg-type]


class Compare(_Combining, msgspec.Struct, frozen=True):
    """A column beside a value."""

    column: str
    operator: str
    value: Any

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise InputError(f"there is no comparison {self.operator!r}")


class In(_Combining, msgspec.Struct, frozen=True):
    """A column that has one of some values."""

    column: str
    values: tuple[Any, ...]


class IsNull(_Combining, msgspec.Struct, frozen=True):
    """A column that is null."""

    column: str


class And(_Combining, msgspec.Struct, frozen=True):
    """All of several predicates."""

    parts: tuple["Predicate", ...]


class Or(_Combining, msgspec.Struct, frozen=True):
    """Any of several predicates."""

    parts: tuple["Predicate", ...]


class Not(_Combining, msgspec.Struct, frozen=True):
    """What a predicate is not."""

    part: "Predicate"


Predicate: TypeAlias = Union[Compare, In, IsNull, And, Or, Not]  # noqa: UP007 - the names stand in quotes above


class ColumnName(msgspec.Struct, frozen=True):
    """A column, to be compared with something."""

    name: str

    def __lt__(self, value: Any) -> Compare:
        return Compare(self.name, "<", value)

    def __le__(self, value: Any) -> Compare:
        return Compare(self.name, "<=", value)

    def __gt__(self, value: Any) -> Compare:
        return Compare(self.name, ">", value)

    def __ge__(self, value: Any) -> Compare:
        return Compare(self.name, ">=", value)

    def equals(self, value: Any) -> Compare:
        """The column has this value."""
        return Compare(self.name, "=", value)

    def differs(self, value: Any) -> Compare:
        """The column has another value."""
        return Compare(self.name, "!=", value)

    def one_of(self, values: Iterable[Any]) -> In:
        """The column has one of these values."""
        return In(self.name, tuple(values))

    def is_null(self) -> IsNull:
        """The column is null."""
        return IsNull(self.name)


def column(name: str) -> ColumnName:
    """Start a predicate."""
    return ColumnName(name)


def columns_in(predicate: Predicate) -> frozenset[str]:
    """The columns that a predicate looks at."""
    if isinstance(predicate, And | Or):
        return frozenset().union(*(columns_in(part) for part in predicate.parts))
    if isinstance(predicate, Not):
        return columns_in(predicate.part)
    return frozenset((predicate.column,))


def parse_predicate(text: str) -> Predicate:
    """Read a predicate as SQL writes it: comparisons, IN, BETWEEN, IS [NOT] NULL, AND, OR, NOT, parentheses."""
    parser = _Parser(text)
    found = parser.alternatives(0)
    parser.end()
    return found


_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<text>'(?:[^']|'')*')"
    r"|(?P<name>`[^`]+`|[^\W\d][\w.]*)|(?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,))"
)
_MAX_DEPTH = 100


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        self._place = 0
        position, text = 0, text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise InputError(f"cannot read the predicate at {text[position : position + 20]!r}", "BadPredicate")
            self._tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            position = found.end()

    def end(self) -> None:
        if self._place < len(self._tokens):
            raise InputError(f"{self._tokens[self._place][1]!r} is more than a predicate", "BadPredicate")

    def alternatives(self, depth: int) -> Predicate:
        if depth > _MAX_DEPTH:
            raise InputError("the predicate is nested too deep", "BadPredicate")
        parts = [self._all(depth)]
        while self._word("or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self, depth: int) -> Predicate:
        parts = [self._one(depth)]
        while self._word("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _one(self, depth: int) -> Predicate:
        if self._word("not"):
            if depth > _MAX_DEPTH:
                raise InputError("the predicate is nested too deep", "BadPredicate")
            return Not(self._one(depth + 1))
        if self._sign("("):
            inner = self.alternatives(depth + 1)
            self._need(")")
            return inner
        kind, name = self._next("a column")
        if kind != "name":
            raise InputError(f"{name!r} stands where a column must", "BadPredicate")
        return self._rest(name.strip("`"))

    def _rest(self, name: str) -> Predicate:
        if self._word("is"):
            negated = self._word("not")
            if not self._word("null"):
                raise InputError("IS is followed by [NOT] NULL", "BadPredicate")
            return Not(IsNull(name)) if negated else IsNull(name)
        negated = self._word("not")
        if self._word("in"):
            self._need("(")
            values = [self._value()]
            while self._sign(","):
                values.append(self._value())
            self._need(")")
            found: Predicate = In(name, tuple(values))
        elif self._word("between"):
            low = self._value()
            if not self._word("and"):
                raise InputError("BETWEEN has an AND", "BadPredicate")
            found = And((Compare(name, ">=", low), Compare(name, "<=", self._value())))
        else:
            _, sign = self._next("a comparison")
            sign = {"==": "=", "<>": "!="}.get(sign, sign)
            if negated or sign not in OPERATORS:
                raise InputError(f"{sign!r} is no comparison", "BadPredicate")
            return Compare(name, sign, self._value())
        return Not(found) if negated else found

    def _value(self) -> Any:
        kind, token = self._next("a value")
        if kind == "number":
            return int(token) if re.fullmatch(r"[+-]?\d+", token) else float(token)
        if kind == "text":
            return token[1:-1].replace("''", "'")
        words = {"true": True, "false": False, "null": None}
        if kind == "name" and token.lower() in words:
            return words[token.lower()]
        raise InputError(f"{token!r} stands where a value must", "BadPredicate")

    def _next(self, wanted: str) -> tuple[str, str]:
        if self._place == len(self._tokens):
            raise InputError(f"the predicate ends where {wanted} must stand", "BadPredicate")
        self._place += 1
        return self._tokens[self._place - 1]

    def _word(self, word: str) -> bool:
        return self._taken(lambda kind, token: kind == "name" and token.lower() == word)

    def _sign(self, sign: str) -> bool:
        return self._taken(lambda kind, token: kind == "sign" and token == sign)

    def _need(self, sign: str) -> None:
        if not self._sign(sign):
            raise InputError(f"the predicate lacks {sign!r}", "BadPredicate")

    def _taken(self, test: Any) -> bool:
        if self._place < len(self._tokens) and test(*self._tokens[self._place]):
            self._place += 1
            return True
        return False
