"""Statistics of a file's columns: the smallest and largest value, as texts.

Long texts are cut. A cut min is still not above any value; a cut max would be below those that it was cut from, so its
last character that has a successor is raised, or the column has no max. Orders by code point (Python, Rust) and by
UTF-16 unit (Java) both hold. Nulls do not count; a column of nulls only has no entry. A column that holds NaN has
no max: some engines sort NaN above everything.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from deltaic.errors import MissingExtraError
from deltaic.table.settings import Settings
from deltaic.table.values import FLOATS, INTEGERS, Column, parse, to_text

ELIGIBLE: Final = frozenset((*INTEGERS, *FLOATS, "boolean", "string", "date", "timestamp", "timestamp_ntz"))
"""The types that have statistics."""


def lower_bound(text: str, length: int) -> str:
    """A text of at most that many characters (UTF-16 units) that sorts not after this one."""
    return _cut(text, length)


def upper_bound(text: str, length: int) -> str | None:
    """A text of at most that many characters (UTF-16 units) that sorts not before this one nor any that starts so."""
    cut = _cut(text, length)
    if cut == text:
        return text
    for place in range(len(cut) - 1, -1, -1):
        raised = _successor(cut[place])
        if raised is not None:
            return cut[:place] + raised
    return None


def _cut(text: str, length: int) -> str:
    if len(text) * 2 <= length:
        return text
    units = 0
    for place, character in enumerate(text):
        units += 2 if character > "\uffff" else 1
        if units > length:
            return text[:place]
    return text


def _successor(character: str) -> str | None:
    """The next character in both orders; those at the end of a range have none, because the orders part there."""
    number = ord(character)
    if number in (0xFFFF, 0x10FFFF):
        return None
    return chr(0xE000) if number == 0xD7FF else chr(number + 1)


def chosen_columns(
    columns: Sequence[Column], partition_columns: Sequence[str], settings: Settings
) -> tuple[Column, ...]:
    """The columns that get statistics: those of the settings, or the first that can have them."""
    fit = [column for column in columns if column.type in ELIGIBLE and column.name not in partition_columns]
    if settings.statistics_columns:
        return tuple(column for column in fit if column.name in settings.statistics_columns)
    count = settings.statistics_column_count
    return tuple(fit if count < 0 else fit[:count])


def bounds_of_values(
    bounds: Mapping[str, tuple[Any, Any]], columns: Sequence[Column], settings: Settings
) -> tuple[dict[str, str], dict[str, str]]:
    """The min and max texts of columns from their smallest and largest values; None leaves an entry out."""
    low: dict[str, str] = {}
    high: dict[str, str] = {}
    for column in columns:
        smallest, largest = bounds.get(column.name, (None, None))
        if smallest is not None:
            text = to_text(smallest, column.type)
            low[column.name] = lower_bound(text, settings.statistics_length) if column.type == "string" else text
        if largest is not None:
            text = to_text(largest, column.type)
            bound = upper_bound(text, settings.statistics_length) if column.type == "string" else text
            if bound is not None:
                high[column.name] = bound
    return low, high


def statistics_of(
    rows: Any, columns: Sequence[Column], settings: Settings, *, partition_columns: Sequence[str] = ()
) -> tuple[dict[str, str], dict[str, str]]:
    """The min and max texts of an Arrow table's columns, for an add action."""
    try:
        import pyarrow as arrow
        import pyarrow.compute as compute
    except ImportError:
        raise MissingExtraError("collecting statistics", "table") from None
    table = arrow.table(rows)
    bounds: dict[str, tuple[Any, Any]] = {}
    chosen = chosen_columns(columns, partition_columns, settings)
    for column in chosen:
        if column.name not in table.column_names:
            continue
        values = table.column(column.name)
        has_nan = column.type in FLOATS and bool(compute.any(compute.is_nan(values)).as_py())
        if has_nan:
            values = values.filter(compute.invert(compute.is_nan(values)))
        found = compute.min_max(values).as_py()
        bounds[column.name] = (found["min"], None if has_nan else found["max"])
    return bounds_of_values(bounds, chosen, settings)


def bounds_hold(low: str | None, high: str | None, smallest: Any, largest: Any, kind: str | None) -> bool:
    """Whether min and max texts of a file are true of its smallest and largest value."""
    if kind == "string":
        below = low is None or smallest is None or low <= smallest
        # Public writers cut the max as they cut the min; a value that goes on from it is what they meant.
        return below and (high is None or largest is None or high >= largest or largest.startswith(high))
    bottom = parse(low, kind) if low is not None else None
    top = parse(high, kind) if high is not None else None
    value_low = None if smallest is None else parse(to_text(smallest, kind), kind)
    value_high = None if largest is None else parse(to_text(largest, kind), kind)
    return (bottom is None or value_low is None or bottom <= value_low) and (
        top is None or value_high is None or top >= value_high
    )
