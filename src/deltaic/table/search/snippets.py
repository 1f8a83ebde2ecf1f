"""Fragments of text around the words that a query looks for, marked, and safe to put into HTML."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deltaic.table.query.bound import Bound, Group, InText, Near, Pattern, Spaced, Weighted
from deltaic.table.query.columns import Target
from deltaic.table.query.tree import Occur
from deltaic.table.search.edits import within_distance
from deltaic.table.search.patterns import glob
from deltaic.table.split.tokenizers import analyzer

_MAX_TEXT_CHARS = 1_000_000
"""A text is looked through up to here."""


@dataclass(frozen=True, slots=True)
class SnippetOptions:
    """How fragments look."""

    max_chars: int = 150
    before: str = "<b>"
    after: str = "</b>"
    ellipsis: str = "…"


DEFAULT_SNIPPETS = SnippetOptions()


class Highlighter:
    """Makes the fragments of one column for one query."""

    def __init__(self, bound: Bound, target: Target, options: SnippetOptions = DEFAULT_SNIPPETS) -> None:
        self._options, self._tokenizer = options, target.tokenizer or "default"
        self._words, self._tests = set[str](), list[Callable[[str], bool]]()
        self._gather(bound, target)
        self._known: dict[str, bool] = {}

    def fragment(self, text: str | None) -> str | None:
        """The fragment of a text with the most different words of the query, escaped, words marked; None of null."""
        if text is None:
            return None
        text = text[:_MAX_TEXT_CHARS]
        found = self._found(text)
        start, end = _window(found, text, self._options.max_chars)
        pieces, at = [self._options.ellipsis if start else ""], start
        for first, last, _ in found:
            if first < start or last > end:
                continue
            pieces.append(html.escape(text[at:first]))
            pieces.append(f"{self._options.before}{html.escape(text[first:last])}{self._options.after}")
            at = last
        pieces.append(html.escape(text[at:end]))
        pieces.append(self._options.ellipsis if end < len(text) else "")
        return "".join(pieces)

    def _found(self, text: str) -> list[tuple[int, int, str]]:
        try:
            tokens = analyzer(self._tokenizer).pre_tokenize(text).tokens
        except (ValueError, TypeError, UnicodeError):
            return []
        return [
            (token.char_offset_from, token.char_offset_to, token.text) for token in tokens if self._wanted(token.text)
        ]

    def _wanted(self, word: str) -> bool:
        known = self._known.get(word)
        if known is None:
            known = self._known[word] = word in self._words or any(test(word) for test in self._tests)
        return known

    def _gather(self, part: Bound, target: Target) -> None:
        if isinstance(part, Weighted):
            self._gather(part.part, target)
        elif isinstance(part, Group):
            for occur, inner in part.clauses:
                if occur is not Occur.MUST_NOT:
                    self._gather(inner, target)
        elif isinstance(part, InText | Spaced):
            if part.target == target:
                phrases = part.spacings[:1] if isinstance(part, Spaced) else (part,)
                self._words.update(word for phrase in phrases for _, word in phrase.tokens)
        elif isinstance(part, Pattern):
            if part.target == target:
                self._tests.append(glob(part.pieces))
        elif isinstance(part, Near) and part.target == target:
            text, distance = part.text, part.distance
            self._tests.append(lambda word: within_distance(word, text, distance))


def _window(found: Sequence[tuple[int, int, str]], text: str, most: int) -> tuple[int, int]:
    """The stretch of at most so many characters with the most different words, then the most words; the first such."""
    if len(text) <= most:
        return 0, len(text)
    if not found:
        return 0, _word_end(text, most)
    best, best_worth, first = 0, (0, 0), 0
    counted: dict[str, int] = {}
    for place, (_, last, word) in enumerate(found):
        counted[word] = counted.get(word, 0) + 1
        while first < place and last - found[first][0] > most:
            left = found[first][2]
            counted[left] -= 1
            if not counted[left]:
                del counted[left]
            first += 1
        worth = (len(counted), place - first + 1)
        if worth > best_worth:
            best, best_worth = first, worth
    begin, last_end = found[best][0], found[best + best_worth[1] - 1][1]
    # Words stand in the middle of their fragment, and no word is cut at its ends if there is a space to cut at.
    start = max(0, min(begin - max(0, most - (last_end - begin)) // 2, len(text) - most))
    if start and not text[start - 1].isspace():
        cut = text.find(" ", start, begin)
        start = cut + 1 if cut >= 0 else start
    end = min(len(text), start + most)
    if end < len(text) and not text[end].isspace():
        cut = text.rfind(" ", last_end, end)
        end = cut if cut >= 0 else max(end, last_end)
    return start, max(end, last_end)


def _word_end(text: str, most: int) -> int:
    """Where to stop so that no word is cut, if there is a space at all."""
    cut = text.rfind(" ", 0, most + 1)
    return cut if cut > most // 2 else min(most, len(text))
