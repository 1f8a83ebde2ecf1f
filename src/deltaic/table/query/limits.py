"""What a query may ask for. A query beyond it is refused with an error that says which limit it met.

Within them every query ends: a wildcard or a fuzzy word walks a dictionary at most once, a phrase with slop becomes at
most `max_spacings` exact phrases, and a deadline is looked at between the steps and between splits.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """The limits of one query. Pass one to a searcher to be stricter or laxer than the defaults."""

    max_query_chars: int = 4_000_000
    max_clauses: int = 10_000
    """Clauses of a query, after a word without a field was looked for in each default column."""
    max_depth: int = 64
    """Parentheses within parentheses. The engine calls itself for each."""
    max_set_values: int = 100_000
    max_pattern_chars: int = 1_000
    max_phrase_words: int = 1_000
    max_spacings: int = 512
    """The ways in which a phrase with slop may be spaced: exact phrases that it stands for."""
    max_fuzzy_chars: int = 100
    max_expanded_terms: int = 200_000
    """Terms of the dictionary that a wildcard too complex for the engine may be held against."""
    max_groups: int = 10_000_000
    """Groups, facets or buckets of one answer."""
    deadline_seconds: float | None = None
    """Looked at between splits and between steps; a query that takes longer is given up with a `LimitError`."""


DEFAULT_QUERY_LIMITS = QueryLimits()
