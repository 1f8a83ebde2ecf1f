"""The smallest and largest values of columns, by Arrow, for the statistics of an add action.

Times count in whole microseconds: the smallest is rounded down and the largest up, so that a row of nanoseconds is
never outside. A column that holds NaN has no max (statistics.py). Types whose values have no text in the log have no
entry.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaic.table.rows.schema import TableColumn, TableSchema
from deltaic.table.rows.types import to_spark
from deltaic.table.settings import Settings
from deltaic.table.statistics import bounds_of_values, chosen_columns
from deltaic.table.values import Column

_PER_MICROSECOND = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


def statistics_columns(schema: TableSchema, settings: Settings) -> tuple[tuple[TableColumn, Column], ...]:
    """The columns that get statistics, with what the log calls them and their Spark type."""
    plain = [Column(column.name, _spark_name(column)) for column in schema.stored if _has_bounds(column.type)]
    chosen = chosen_columns(plain, schema.partition_by, settings)
    return tuple((schema.by_name[one.name], Column(schema.by_name[one.name].physical, one.type)) for one in chosen)


def statistics(rows: Any, schema: TableSchema, settings: Settings) -> tuple[dict[str, str], dict[str, str]]:
    """The min and max texts of rows (by the names that people use), by physical name."""
    columns = statistics_columns(schema, settings)
    found = {plain.name: bounds(rows.column(column.name)) for column, plain in columns}
    return bounds_of_values(found, [plain for _, plain in columns], settings)


def bounds(values: Any) -> tuple[Any, Any]:
    """The smallest and largest of some values in the form of statistics; None where there is none."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        values = values.cast(kind)
    if kind == pa.string_view():
        values = values.cast(pa.large_string())
    if pa.types.is_timestamp(kind):
        return _time_bounds(values, kind.unit)
    if pa.types.is_date64(kind):
        values = values.cast(pa.date32())
    if pa.types.is_floating(kind):
        values = values.cast(pa.float64())
        has_nan = bool(pc.any(pc.is_nan(values)).as_py())
        if has_nan:
            values = values.filter(pc.invert(pc.is_nan(values)))
        found = pc.min_max(values)
        return found["min"].as_py(), None if has_nan else found["max"].as_py()
    found = pc.min_max(values)
    try:
        return found["min"].as_py(), found["max"].as_py()
    except (ValueError, OverflowError):
        return None, None  # a day that Python's calendar has not


def _time_bounds(values: Any, unit: str) -> tuple[int | None, int | None]:
    found = pc.min_max(values.cast(pa.int64()))
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is None:
        return None, None
    times, divisor = _PER_MICROSECOND[unit]
    low, high = low * times // divisor, -(-high * times // divisor)
    return (low, high) if -(2**63) <= low and high < 2**63 else (None, None)


def _has_bounds(kind: Any) -> bool:
    kinds = pa.types
    if kinds.is_dictionary(kind):
        return _has_bounds(kind.value_type)
    return bool(
        (kinds.is_integer(kind) and kind != pa.uint64())
        or kinds.is_floating(kind)
        or kinds.is_boolean(kind)
        or kind in (pa.string(), pa.large_string(), pa.string_view())
        or kinds.is_date(kind)
        or kinds.is_timestamp(kind)
    )


def _spark_name(column: TableColumn) -> str:
    return str(to_spark(column.type, column.name))
