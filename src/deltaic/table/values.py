"""Values in the log are texts; here they become what their column's type says, so that 9 comes before 10.

A type is the name that Spark's schema has for it: `integer`, `double`, `date`, `decimal(10,2)`, … A text that is none
of its type becomes None here, and who compares by it then knows nothing and skips nothing.
"""

import datetime
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from deltaic.errors import InputError, SchemaError

INTEGERS: Final = ("byte", "short", "integer", "long")
FLOATS: Final = ("float", "double")
EPOCH: Final = datetime.date(1970, 1, 1)

_INSTANT: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DIGITS = re.compile(r"[+-]?[0-9]{1,19}")
_DAY = re.compile(r"[+-]?[0-9]{4,6}-[0-9]{2}-[0-9]{2}")
_MICROSECONDS_PER_DAY: Final = 86_400_000_000
# Days beyond this are no days but microseconds, which old tables also wrote.
_MOST_DAYS: Final = 100_000_000


class Column(msgspec.Struct, frozen=True):
    """A column of a table's schema."""

    name: str
    type: str
    nullable: bool = True


def columns_of(schema_string: str) -> tuple[Column, ...]:
    """The columns of a Spark schema; nested ones have the type `struct`, `array` or `map`."""
    try:
        schema = json.loads(schema_string)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the table's schema is no JSON: {error}") from error
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list):
        raise SchemaError("the table's schema has no fields")
    found = []
    for field in fields:
        if not isinstance(field, dict) or not isinstance(field.get("name"), str):
            raise SchemaError("a field of the table's schema has no name")
        kind = field.get("type")
        if isinstance(kind, dict):
            kind = kind.get("type")
        found.append(Column(field["name"], str(kind), field.get("nullable") is not False))
    return tuple(found)


def schema_text(columns: Mapping[str, str]) -> str:
    """A Spark schema of plain columns, by name and type."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"), ensure_ascii=False)


def parse(text: str, kind: str | None) -> Any:
    """The value of a text, comparable with others of its type, or None if it is none of it.

    Dates become days since 1970, timestamps microseconds; times without a zone are in UTC, as writers meant them.
    """
    if kind in INTEGERS:
        return int(text) if _DIGITS.fullmatch(text) else None
    if kind in FLOATS:
        return _parse_float(text)
    if kind == "string":
        return text
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower())
    if kind == "date":
        return _parse_date(text)
    if kind in ("timestamp", "timestamp_ntz"):
        return _parse_timestamp(text)
    if kind is not None and kind.startswith("decimal"):
        try:
            value = Decimal(text)
        except InvalidOperation:
            return None
        return value if value.is_finite() else None
    return None


def to_text(value: Any, kind: str | None, *, instants: bool = False) -> str:
    """The text by which a value is written as statistic, or as partition value: `instants` are for people."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        if kind == "date":
            raise InputError("a time where a date must stand")
        if instants:
            plain = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
            return f"{plain.isoformat()}Z"
        return str(micros_of(value, zone=None, plain_is_utc=True))
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float):
        # Java's spelling, which every reader takes.
        return "Infinity" if value == math.inf else "-Infinity" if value == -math.inf else repr(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, int | str):
        return str(value)
    raise InputError(f"a {type(value).__name__} cannot be a partition value or statistic")


def comparable(value: Any, kind: str | None, *, time_zone: str | None = None) -> Any:
    """A filter's value in the form that `parse` gives, or None if it cannot be compared with a column of that type."""
    if value is None or kind is None:
        return None
    if kind in INTEGERS:
        if isinstance(value, bool):
            return None
        if isinstance(value, int | Decimal):
            return value
        if isinstance(value, float):
            return None if math.isnan(value) else value
        return parse(value, kind) if isinstance(value, str) else None
    if kind in FLOATS:
        if isinstance(value, bool):
            return None
        if isinstance(value, int | float | Decimal):
            return None if value != value else value
        return parse(value, kind) if isinstance(value, str) else None
    if kind == "string":
        return value if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else parse(value, kind) if isinstance(value, str) else None
    if kind == "date":
        if isinstance(value, datetime.datetime):
            return None
        if isinstance(value, datetime.date):
            return (value - EPOCH).days
        return _parse_date(value) if isinstance(value, str) and _DAY.fullmatch(value) else None
    if kind in ("timestamp", "timestamp_ntz"):
        if isinstance(value, str):
            try:
                value = datetime.datetime.fromisoformat(value)
            except ValueError:
                return None
        if isinstance(value, datetime.datetime):
            return micros_of(value, zone=time_zone, plain_is_utc=kind == "timestamp_ntz")
        return None
    if kind.startswith("decimal"):
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            return None
        return parse(str(value), kind)
    return None


def micros_of(value: datetime.datetime, *, zone: str | None, plain_is_utc: bool) -> int | None:
    """Microseconds since 1970, or None for a time whose zone nobody knows."""
    if value.tzinfo is None:
        if plain_is_utc:
            value = value.replace(tzinfo=datetime.UTC)
        elif zone is not None:
            from zoneinfo import ZoneInfo

            value = value.replace(tzinfo=ZoneInfo(zone))
        else:
            return None
    return (value - _INSTANT) // datetime.timedelta(microseconds=1)


def _parse_float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def _parse_date(text: str) -> int | None:
    if _DIGITS.fullmatch(text):
        days = int(text)
        return days if abs(days) < _MOST_DAYS else days // _MICROSECONDS_PER_DAY
    try:
        return (datetime.date.fromisoformat(text) - EPOCH).days
    except ValueError:
        return None


def _parse_timestamp(text: str) -> int | None:
    if _DIGITS.fullmatch(text):
        return int(text)
    try:
        return micros_of(datetime.datetime.fromisoformat(text), zone=None, plain_is_utc=True)
    except (ValueError, OverflowError):
        return None
