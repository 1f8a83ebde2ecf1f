"""Search over splits: ranked rows, counts, groups, facets, histograms, and how they were found."""

from deltaic.table.search.measures import Measure, avg, count, count_distinct, max_, min_, sum_
from deltaic.table.search.result import SearchExplain, SearchResult
from deltaic.table.search.searcher import Searcher
from deltaic.table.search.snippets import SnippetOptions
from deltaic.table.search.splits import SearchedSplit

__all__ = [
    "Measure",
    "SearchExplain",
    "SearchResult",
    "SearchedSplit",
    "Searcher",
    "SnippetOptions",
    "avg",
    "count",
    "count_distinct",
    "max_",
    "min_",
    "sum_",
]
