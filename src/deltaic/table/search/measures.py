"""What is computed over the rows of a group: counts, sums, averages, least and greatest values."""

from dataclasses import dataclass
from typing import Literal

Function = Literal["count", "count_distinct", "sum", "avg", "min", "max"]


@dataclass(frozen=True, slots=True)
class Measure:
    """A function over a column; a count without one is the number of rows."""

    function: Function
    column: str | None = None


def count(column: str | None = None) -> Measure:
    """The number of rows, or of those where a column is not null."""
    return Measure("count", column)


def count_distinct(column: str) -> Measure:
    """The number of different values, null not counted."""
    return Measure("count_distinct", column)


def sum_(column: str) -> Measure:
    """The exact sum of a column of numbers; null if there are none."""
    return Measure("sum", column)


def avg(column: str) -> Measure:
    """The average of a column of numbers, as a float; null if there are none."""
    return Measure("avg", column)


def min_(column: str) -> Measure:
    """The least value of a column."""
    return Measure("min", column)


def max_(column: str) -> Measure:
    """The greatest value of a column."""
    return Measure("max", column)
