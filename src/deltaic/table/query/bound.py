"""A query fitted to the columns of a table: words are tokens, texts are values, every clause says what it looks at.

A query and a predicate become the same tree, so that both are one question. Scores: `InText` and `Spaced` have BM25,
patterns and fuzzy words on text count 1, everything else filters and counts 0, unless a `Weighted` around a part in
which nothing scores makes its factor the score of every row that matches.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias, Union

from deltaic.table.query.columns import Target
from deltaic.table.query.tree import Gap, Occur


@dataclass(frozen=True, slots=True)
class InText:
    """Tokens at these distances from the first; one token is a term, several are a phrase."""

    target: Target
    tokens: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Spaced:
    """The best of some spacings of one phrase."""

    target: Target
    spacings: tuple[InText, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Tokens of text, or whole values, of this form."""

    target: Target
    pieces: tuple[str | Gap, ...]


@dataclass(frozen=True, slots=True)
class Near:
    """Tokens of text, or whole values, at most so many edits away."""

    target: Target
    text: str
    distance: int


@dataclass(frozen=True, slots=True)
class Equal:
    """One of some values."""

    target: Target
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """A value between two bounds, None for an open end; whole numbers always belong to their range."""

    target: Target
    low: Any
    high: Any
    include_low: bool = True
    include_high: bool = True


@dataclass(frozen=True, slots=True)
class Present:
    """A value that is not null."""

    target: Target


@dataclass(frozen=True, slots=True)
class Always:
    """Every row."""


@dataclass(frozen=True, slots=True)
class Never:
    """No row."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Weighted:
    """A part with a boost."""

    part: "Bound"
    factor: float


@dataclass(frozen=True, slots=True)
class Group:
    """Clauses side by side, as in `tree.Boolean`."""

    clauses: tuple[tuple[Occur, "Bound"], ...]


BoundLeaf: TypeAlias = InText | Spaced | Pattern | Near | Equal | Between | Present | Always | Never
Bound: TypeAlias = Union[BoundLeaf, Weighted, Group]  # noqa: UP007 - the name stands in quotes above


def every(*parts: Bound) -> Bound:
    """Rows that match all parts."""
    if any(isinstance(part, Never) for part in parts):
        return next(part for part in parts if isinstance(part, Never))
    kept = tuple(part for part in parts if not isinstance(part, Always))
    if len(kept) == 1:
        return kept[0]
    return Group(tuple((Occur.MUST, part) for part in kept)) if kept else Always()


def either(*parts: Bound) -> Bound:
    """Rows that match some part."""
    kept = tuple(part for part in parts if not isinstance(part, Never))
    if len(kept) == 1:
        return kept[0]
    return Group(tuple((Occur.SHOULD, part) for part in kept)) if kept else (parts[0] if parts else Never())


def with_sets(clauses: list[tuple[Occur, Bound]]) -> tuple[tuple[Occur, Bound], ...]:
    """The same clauses, with values of one column that stand side by side as alternatives in one set.

    Neither scores, so nothing else changes; ten thousand values are then looked for in one pass.
    """
    sets: dict[tuple[Occur, Target], dict[Any, None]] = {}
    for occur, part in clauses:
        # Within JSON 1 and true are different, and to a dictionary they are not.
        if isinstance(part, Equal) and occur is not Occur.MUST and part.target.kind != "json":
            sets.setdefault((occur, part.target), {}).update(dict.fromkeys(part.values))
    kept: list[tuple[Occur, Bound]] = []
    for occur, part in clauses:
        if not isinstance(part, Equal) or occur is Occur.MUST or part.target.kind == "json":
            kept.append((occur, part))
        elif (found := sets.pop((occur, part.target), None)) is not None:
            kept.append((occur, Equal(part.target, tuple(found))))
    return tuple(kept)


def other_than(part: Bound) -> Bound:
    """Rows that do not match."""
    if isinstance(part, Always):
        return Never()
    return Always() if isinstance(part, Never) else Group(((Occur.MUST_NOT, part),))


def scores(part: Bound) -> bool:
    """Whether a part gives any row a score."""
    if isinstance(part, InText | Spaced):
        return part.target.kind == "text" and not part.target.path
    if isinstance(part, Pattern | Near):
        return part.target.kind == "text" and not part.target.path
    if isinstance(part, Weighted):
        return part.factor > 0
    if isinstance(part, Group):
        return any(scores(inner) for occur, inner in part.clauses if occur is not Occur.MUST_NOT)
    return False


def leaves(part: Bound) -> list[BoundLeaf]:
    """Every leaf, from left to right."""
    if isinstance(part, Weighted):
        return leaves(part.part)
    if isinstance(part, Group):
        return [leaf for _, inner in part.clauses for leaf in leaves(inner)]
    return [part]
