"""Patterns with `*` and `?`: as regular expressions for the engines that have them, and as a plain test."""

import re
from collections.abc import Callable

from deltaic.table.query.tree import Gap

_SIGNS = re.compile(r"([\\.+*?()|\[\]{}^$])")


def pattern_regex(pieces: tuple[str | Gap, ...]) -> str:
    """A pattern as a regular expression, of the engine and of RE2 alike."""
    gaps = {Gap.ANY: "(?s:.)*", Gap.ONE: "(?s:.)"}
    return "".join(gaps[piece] if isinstance(piece, Gap) else _SIGNS.sub(r"\\\1", piece) for piece in pieces)


def glob(pieces: tuple[str | Gap, ...]) -> Callable[[str], bool]:
    """A test whether a text has the form of a pattern, in time of at most the product of their lengths."""
    signs: list[str | Gap] = []
    for piece in pieces:
        signs += [piece] if isinstance(piece, Gap) else list(piece)
    least = sum(sign is not Gap.ANY for sign in signs)
    first = pieces[0] if pieces and isinstance(pieces[0], str) else ""
    last = pieces[-1] if pieces and isinstance(pieces[-1], str) else ""

    def test(text: str) -> bool:
        if len(text) < least or not text.startswith(first) or not text.endswith(last):
            return False
        here = there = 0
        star = mark = -1
        while there < len(text):
            if here < len(signs) and signs[here] is Gap.ANY:
                star, mark, here = here, there, here + 1
            elif here < len(signs) and (signs[here] is Gap.ONE or signs[here] == text[there]):
                here, there = here + 1, there + 1
            elif star >= 0:
                # The last star takes one more letter.
                mark += 1
                here, there = star + 1, mark
            else:
                return False
        return all(sign is Gap.ANY for sign in signs[here:])

    return test
