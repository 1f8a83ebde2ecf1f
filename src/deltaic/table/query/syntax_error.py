"""An error that points at the character of a query that it is about.

there is no column 'titel'; did you mean 'title'?
  titel:matrix AND year:>1999
  ^
"""

from deltaic.errors import InputError

_BEFORE, _AFTER = 50, 30


class QuerySyntaxError(InputError):
    """A query that cannot be read, or that does not fit the table; `position` is the character that it is about."""

    def __init__(self, reason: str, query: str = "", position: int = 0, code: str = "BadQuery") -> None:
        super().__init__(reason, code)
        self.args = (reason, query, position, code)
        self.query, self.position = query, position

    def __str__(self) -> str:
        if not self.query:
            return self.reason
        line, caret = excerpt(self.query, self.position)
        return f"{self.reason}\n  {line}\n  {caret}"


def excerpt(query: str, position: int) -> tuple[str, str]:
    """The part of a query around a character, in one line, and a line with a caret below that character."""
    position = min(max(position, 0), len(query))
    start, end = max(0, position - _BEFORE), min(len(query), position + _AFTER)
    before = "…" if start else ""
    after = "…" if end < len(query) else ""
    # One column per character: what would break the line or move the caret becomes a space.
    line = "".join(letter if letter.isprintable() else " " for letter in query[start:end])
    return before + line + after, " " * (len(before) + position - start) + "^"
