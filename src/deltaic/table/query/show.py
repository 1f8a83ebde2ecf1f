r"""A tree as text: `parse_query(show_query(tree))` is the tree again."""

import re

from deltaic.table.query.tree import (
    Boolean,
    Boost,
    Clause,
    Everything,
    Exists,
    Fuzzy,
    Gap,
    OneOf,
    Phrase,
    Prefix,
    Query,
    Wildcard,
    Word,
)

_SPECIAL = re.compile(r'([\s()\[\]{}"^~:\\*?+\-!,<>&|`])')
_WORDS = frozenset(("AND", "OR", "NOT", "IN", "TO"))
_QUOTE = re.compile(r'(["\\])')


def show_query(tree: Query) -> str:
    """Write a query as text."""
    return _shown(tree, None)


def _shown(tree: Query, scope: str | None) -> str:
    if isinstance(tree, Everything):
        return "*:*"
    if isinstance(tree, Boost):
        return f"{_wrapped(tree.part, scope)}^{_number(tree.factor)}"
    if isinstance(tree, Boolean):
        return " ".join(_clause(clause, scope) for clause in tree.clauses)
    if isinstance(tree, Exists):
        return f"{escaped(tree.field)}:*"
    field = "" if tree.field is None else f"{escaped(tree.field)}:"
    if isinstance(tree, Word):
        return field + (escaped(tree.text) if tree.text else '""')
    if isinstance(tree, Phrase):
        return field + quoted(tree.text) + (f"~{tree.slop}" if tree.slop else "")
    if isinstance(tree, Prefix):
        return f"{field}{escaped(tree.text)}*"
    if isinstance(tree, Wildcard):
        return field + "".join(piece.value if isinstance(piece, Gap) else escaped(piece) for piece in tree.pieces)
    if isinstance(tree, Fuzzy):
        return f"{field}{escaped(tree.text)}~{tree.distance}"
    if isinstance(tree, OneOf):
        return f"{field}IN [{' '.join(quoted(value) for value in tree.values)}]"
    low, high = ("*" if bound is None else quoted(bound) for bound in (tree.low, tree.high))
    return f"{field}{'[' if tree.include_low else '{'}{low} TO {high}{']' if tree.include_high else '}'}"


def _clause(clause: Clause, scope: str | None) -> str:
    return clause.occur.value + _wrapped(clause.part, scope)


def _wrapped(part: Query, scope: str | None) -> str:
    shown = _shown(part, scope)
    return f"({shown})" if isinstance(part, Boolean | Boost) else shown


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


def escaped(text: str) -> str:
    """A text as one word of the language."""
    if text in _WORDS:
        return "\\" + text
    return _SPECIAL.sub(r"\\\1", text)


def quoted(text: str) -> str:
    """A text in quotation marks."""
    return '"' + _QUOTE.sub(r"\\\1", text) + '"'
