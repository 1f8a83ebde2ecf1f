"""The query language: its trees, its parser, its limits, and how a tree is fitted to a table's columns."""

from deltaic.table.query.limits import DEFAULT_QUERY_LIMITS, QueryLimits
from deltaic.table.query.parse import parse_query
from deltaic.table.query.show import show_query
from deltaic.table.query.syntax_error import QuerySyntaxError
from deltaic.table.query.tree import Query

__all__ = ["DEFAULT_QUERY_LIMITS", "Query", "QueryLimits", "QuerySyntaxError", "parse_query", "show_query"]
