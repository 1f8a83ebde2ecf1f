"""Rows by partition: which rows belong together, and their values back from the texts of the log."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from deltaic.errors import DecodeError
from deltaic.table.actions import NULL_PARTITION, AddFile
from deltaic.table.rows.choosing import taken
from deltaic.table.rows.conform import refused
from deltaic.table.rows.equality import row_codes
from deltaic.table.rows.schema import TableSchema


def by_partition(rows: Any, schema: TableSchema) -> Iterator[tuple[dict[str, Any], Any]]:
    """The values of each partition and its rows, which keep their order; the rows keep all columns."""
    if not schema.partition_by:
        if rows.num_rows:
            yield {}, rows
        return
    codes = row_codes(rows, schema.partition_by)
    if len(codes) == 0:
        return
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    ends = np.append(starts[1:], len(ordered))
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        chosen = order[start:end]
        values = {name: _value(rows, name, int(chosen[0])) for name in schema.partition_by}
        yield values, rows if len(chosen) == rows.num_rows else taken(rows, chosen)


def _value(rows: Any, name: str, row: int) -> Any:
    scalar = rows.column(name)[row]
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError) as error:
        raise refused(name, row, str(scalar), "it cannot be a partition value") from error
    if value == NULL_PARTITION:
        raise refused(name, row, value, "it stands for null")
    if value != value:
        raise refused(name, row, value, "it cannot be a partition value: it equals nothing")
    return value


def partition_values(add: AddFile, schema: TableSchema, names: Sequence[str]) -> dict[str, Any]:
    """The typed partition values of a file, as Arrow scalars."""
    found = {}
    for name in names:
        kind = schema.by_name[name].type
        found[name] = pa.scalar(parse_value(add.partition_values.get(name), kind, name, add.path), kind)
    return found


def parse_value(text: str | None, kind: Any, name: str, path: str) -> Any:
    """A partition value from its text."""
    if text is None or text == NULL_PARTITION:
        return None
    kinds = pa.types
    try:
        if kinds.is_string(kind) or kinds.is_large_string(kind):
            return text
        if kinds.is_integer(kind):
            return int(text)
        if kinds.is_boolean(kind):
            return {"true": True, "false": False}[text.lower()]
        if kinds.is_floating(kind):
            return float(text)
        if kinds.is_date(kind):
            return datetime.date.fromisoformat(text)
        if kinds.is_timestamp(kind):
            when = datetime.datetime.fromisoformat(text)
            when = when.replace(tzinfo=datetime.UTC) if when.tzinfo is None else when.astimezone(datetime.UTC)
            return when if kind.tz is not None else when.replace(tzinfo=None)
        if kinds.is_decimal(kind):
            return Decimal(text)
    except (ValueError, KeyError, InvalidOperation) as error:
        raise DecodeError("BadPartition", f"{text[:60]!r} is no {kind} of {name}", path) from error
    raise DecodeError("BadPartition", f"{name} is a {kind}: no partition column", path)


def same_partition(one: Mapping[str, str | None], other: Mapping[str, str | None], names: Sequence[str]) -> bool:
    """Whether two files are of one partition, by the texts of the log."""
    return all(one.get(name) == other.get(name) for name in names)
