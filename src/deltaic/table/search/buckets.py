"""Histograms and ranges: each matching row's value sorted into buckets, counted and measured."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from deltaic.errors import InputError, LimitError
from deltaic.table.query.bound import Between, Present
from deltaic.table.query.columns import Target
from deltaic.table.query.literals import NoValue, value_of
from deltaic.table.query.resolve import between
from deltaic.table.search.arrays import arrow_array
from deltaic.table.search.rows import leaf_mask

Calendar = Literal["second", "minute", "hour", "day", "week", "month", "quarter", "year"]
CALENDAR = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")


def check_interval(target: Target, interval: object, offset: object) -> None:
    """Refuse an interval that does not suit the column."""
    if isinstance(interval, str):
        if interval not in CALENDAR:
            raise InputError(f"there is no interval {interval!r}; there are {', '.join(CALENDAR)}")
        if target.kind not in ("date", "timestamp"):
            raise InputError(f"{target.described}: it has no calendar; take a number as interval")
        if target.kind == "date" and interval in ("second", "minute", "hour"):
            raise InputError(f"{target.described}: its days have no {interval}s")
        if offset:
            raise InputError("an offset is for intervals of numbers")
        return
    if target.kind not in ("integer", "float", "decimal"):
        raise InputError(f"{target.described}: its interval is one of {', '.join(CALENDAR)}, or it has no histogram")
    for name, number in (("interval", interval), ("offset", offset)):
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise InputError(f"the {name} of a histogram is a number, not {number!r}")
    if not interval > 0:  # type: ignore[operator]
        raise InputError(f"the interval of a histogram is above 0, not {interval!r}")


def bucket_column(target: Target, values: pa.ChunkedArray, interval: Any, offset: Any) -> pa.ChunkedArray:
    """For each value the start of its bucket: the greatest `offset + n * interval` that is not above it."""
    if isinstance(interval, str):
        # Weeks start on Monday; times with a zone are cut in their zone.
        return pc.floor_temporal(values, 1, interval, week_starts_monday=True)
    whole = isinstance(interval, int) and isinstance(offset, int)
    if whole and target.kind == "integer" and _fits(values, interval, offset):
        return _whole_buckets(values.cast(pa.int64()), interval, offset)
    numbers = values.cast(pa.float64())
    # What is no number is in no bucket.
    numbers = pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))
    place = pc.floor(pc.divide(pc.subtract(numbers, float(offset)), float(interval)))
    return pc.add(pc.add(pc.multiply(place, float(interval)), float(offset)), 0.0)


def _fits(values: pa.ChunkedArray, interval: int, offset: int) -> bool:
    bounds = pc.min_max(values).as_py()
    most = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
    return bool(most + abs(offset) + interval < 2**62)


def _whole_buckets(values: pa.ChunkedArray, interval: int, offset: int) -> pa.ChunkedArray:
    moved = pc.subtract(values, offset)
    # Division goes towards zero; below it, a bucket starts lower.
    place = pc.divide(moved, interval)
    lower = pc.and_(pc.less(moved, 0), pc.not_equal(pc.multiply(place, interval), moved))
    place = pc.subtract(place, lower.cast(pa.int64()))
    return pc.add(pc.multiply(place, interval), offset)


def filled(table: pa.Table, name: str, interval: Any, max_groups: int) -> pa.Table:
    """A histogram of numbers with the empty buckets in between, counted 0."""
    if isinstance(interval, str) or not table.num_rows:
        return table
    starts = table.column(name).drop_null()
    if not len(starts):
        return table
    bounds = pc.min_max(starts).as_py()
    number = round((bounds["max"] - bounds["min"]) / interval) + 1
    if number > max_groups:
        raise LimitError("TooManyGroups", f"the histogram has {number:,} buckets, the limit is {max_groups:,}", name)
    known = set(starts.to_pylist())
    wanted = [bounds["min"] + step * interval for step in range(number)]
    missing = [start for start in wanted if start not in known]
    if not missing or isinstance(bounds["min"], float):
        return table
    zeros = {
        field.name: pa.array(missing, field.type)
        if field.name == name
        else pa.array([0 if field.name == "count" else None] * len(missing), field.type)
        for field in table.schema
    }
    return pa.concat_tables([table, pa.table(zeros, schema=table.schema)]).sort_by(name)


def range_masks(target: Target, values: pa.ChunkedArray, ranges: Sequence[tuple[Any, Any]]) -> list[pa.ChunkedArray]:
    """For each range `low <= value < high` which values are in it; None is an open end."""
    masks = []
    flat = Target(target.column, target.kind, target.type)
    for low, high in ranges:
        try:
            bounds = [None if bound is None else value_of(target, bound) for bound in (low, high)]
        except NoValue as error:
            raise InputError(str(error)) from error
        leaf = between(flat, bounds[0], bounds[1], True, False)
        if isinstance(leaf, Between | Present):
            masks.append(arrow_array(leaf_mask(leaf, flat, values)))
        else:
            masks.append(pa.array([False] * len(values)))
    return masks
