"""Texts of a query, and values of a predicate, as what a column's values are compared with.

Whatever is whole in the index and in rows is a whole number here: integers, dates (days), times (ticks of the column's
unit), decimals (without their point). A bound between two such numbers moves inwards, so that nothing is rounded away.

    integer, date, timestamp, time, duration, decimal    int      float  float      string, text  str
    boolean  bool     binary  bytes     ip  int, IPv4 as in IPv6
"""

import datetime
import ipaddress
import math
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from deltaic.table.query.columns import Target

_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime.date(1970, 1, 1)
_PERIOD = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?")
_INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?(Z|z|UTC|[+-]\d\d(?::?\d\d)?)?"
)
_CLOCK = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]{1,80}\.?[0-9]{0,80}|\.[0-9]{1,80})(?:[eE][+-]?[0-9]{1,2})?")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_ISO = "2024-03-05 or 2024-03-05T10:30:00Z"

Span = tuple[Any, Any]
"""The first and the last value of what a text says: 2024-03 on a column of dates is a month. Both may be fractions."""


class NoValue(ValueError):
    """The text or value is none of the column's; holds a sentence."""


def span_of(target: Target, text: str) -> Span:
    """What a text of a query means for a column: the least and the greatest value of it."""
    kind = target.kind
    if kind == "date":
        return _day_span(text)
    if kind == "timestamp":
        return _time_span(text, target.type.unit)
    if kind == "ip":
        return _address_span(text)
    value = _from_text(target, text)
    return value, value


def value_of(target: Target, value: Any) -> Any:
    """What a value of a predicate means for a column; a Fraction where the column has no such value."""
    kind = target.kind
    if isinstance(value, str) and kind not in ("string", "text"):
        low, high = span_of(target, value)
        if low != high and kind == "timestamp":
            return low
        if low != high:
            raise NoValue(f"{value[:80]!r} is several values; {target.described}")
        return low
    wrong = NoValue(f"{_cut(repr(value))} is a {type(value).__name__}; {target.described}")
    if kind in ("string", "text"):
        if not isinstance(value, str) or not is_text(value):
            raise wrong
        return value
    if kind == "boolean":
        if not isinstance(value, bool | np.bool_):
            raise wrong
        return bool(value)
    if kind == "binary":
        if not isinstance(value, bytes | bytearray | memoryview):
            raise wrong
        return bytes(value)
    if kind == "ip":
        if isinstance(value, ipaddress.IPv4Address | ipaddress.IPv6Address):
            return _address_number(value)
        raise wrong
    if isinstance(value, bool | np.bool_):
        raise wrong
    if isinstance(value, np.generic):
        value = value.item()
    if kind == "timestamp":
        return _ticks(value, target.type.unit, wrong)
    if kind == "date":
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            return (value - _EPOCH).days
        raise wrong
    if kind == "time" and isinstance(value, datetime.time):
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
        return Fraction(micros * _UNITS[target.type.unit], 10**6)
    if kind == "duration" and isinstance(value, datetime.timedelta):
        return Fraction(value // datetime.timedelta(microseconds=1) * _UNITS[target.type.unit], 10**6)
    if not isinstance(value, int | float | Decimal | Fraction) or kind in ("time", "duration"):
        raise wrong
    if kind == "float":
        return _as_float(target, value)
    if isinstance(value, float) and (math.isnan(value) or math.isinf(value)):
        return value
    exact = Fraction(value)
    return exact * 10**target.type.scale if kind == "decimal" else exact


def is_text(text: str) -> bool:
    """Whether UTF-8 can hold a text; a lone surrogate it cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole_bounds(
    target: Target, low: Any, high: Any, include_low: bool, include_high: bool
) -> tuple[int | None, int | None] | None:
    """Bounds as whole numbers that both belong to the range, None for an open end; None if nothing is in between."""
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        return None
    first, last = limits_of(target)
    least = most = None
    if low is not None and low != -math.inf:
        if low == math.inf:
            return None
        least = math.ceil(low)
        if least == low and not include_low:
            least += 1
        if least > last:
            return None
        least = max(least, first)
    if high is not None and high != math.inf:
        if high == -math.inf:
            return None
        most = math.floor(high)
        if most == high and not include_high:
            most -= 1
        if most < first:
            return None
        most = min(most, last)
    if least is not None and most is not None and least > most:
        return None
    return least, most


def limits_of(target: Target) -> tuple[int, int]:
    """The least and the greatest whole number that a column's type can hold."""
    if target.kind == "decimal":
        most = 10**target.type.precision - 1
        return -most, most
    if pa.types.is_unsigned_integer(target.type):
        return 0, 2**target.type.bit_width - 1
    if target.kind == "ip":
        return 0, 2**128 - 1
    # Dates of 64 bits are kept in milliseconds, and compared as days.
    bits = 32 if pa.types.is_date64(target.type) else target.type.bit_width
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _from_text(target: Target, text: str) -> Any:
    kind = target.kind
    if kind in ("string", "text", "json"):
        return text
    wrong = NoValue(f"{text[:80]!r} is no such value; {target.described}")
    if kind == "integer":
        if not _WHOLE.fullmatch(text):
            raise wrong
        return int(text)
    if kind == "decimal":
        if not _DECIMAL.fullmatch(text):
            raise wrong
        try:
            return Fraction(Decimal(text)) * 10**target.type.scale
        except InvalidOperation as error:
            raise wrong from error
    if kind == "float":
        if len(text) > 400 or not _FLOAT.fullmatch(text):
            raise wrong
        return _as_float(target, float(text))
    if kind == "boolean":
        found = {"true": True, "false": False}.get(text.lower())
        if found is None:
            raise wrong
        return found
    if kind == "binary":
        try:
            return bytes.fromhex(text.removeprefix("0x"))
        except ValueError as error:
            raise NoValue(f"{text[:80]!r} is not hexadecimal; {target.described}") from error
    if kind == "time":
        clock = _CLOCK.fullmatch(text)
        if clock is None or int(clock[1]) > 23 or int(clock[2]) > 59 or int(clock[3] or 0) > 59:
            raise NoValue(f"{text[:80]!r} is not written as 23:59:59; {target.described}")
        seconds = int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3] or 0)
        return (Fraction(seconds) + _fraction(clock[4])) * _UNITS[target.type.unit]
    if kind == "duration":
        if not _WHOLE.fullmatch(text):
            raise NoValue(f"{text[:80]!r} is no number of {target.type.unit}; {target.described}")
        return int(text)
    raise wrong


def _as_float(target: Target, value: Any) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if target.type.bit_width == 32:
        # As the column would hold it: 0.1 means the 0.1 that is there.
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    elif target.type.bit_width == 16:
        with np.errstate(over="ignore"):
            number = float(np.float16(number))
    return number + 0.0


def _day_span(text: str) -> Span:
    found = _PERIOD.fullmatch(text)
    if found is None:
        raise NoValue(f"{text[:80]!r} is no date; write 2024, 2024-03 or 2024-03-05")
    year, month, day = int(found[1]), int(found[2] or 1), int(found[3] or 1)
    try:
        first = datetime.date(year, month, day)
    except ValueError as error:
        raise NoValue(f"{text!r} is no date: {error}") from error
    start = (first - _EPOCH).days
    if found[3] is not None:
        return start, start
    following = (year + month // 12, month % 12 + 1) if found[2] is not None else (year + 1, 1)
    if following[0] > datetime.MAXYEAR:
        return start, (datetime.date(datetime.MAXYEAR, 12, 31) - _EPOCH).days
    return start, (datetime.date(*following, 1) - _EPOCH).days - 1


def _time_span(text: str, unit: str) -> Span:
    ticks = _UNITS[unit]
    if _PERIOD.fullmatch(text) is not None:
        first, last = _day_span(text)
        return first * 86_400 * ticks, (last + 1) * 86_400 * ticks - 1
    found = _INSTANT.fullmatch(text)
    if found is None:
        raise NoValue(f"{text[:80]!r} is no time; write {_ISO}")
    day, _ = _day_span(found[1])
    hour, minute, second = int(found[2]), int(found[3]), int(found[4] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise NoValue(f"{text!r} is no time of a day")
    seconds = day * 86_400 + hour * 3600 + minute * 60 + second - _zone_seconds(found[6])
    value = (Fraction(seconds) + _fraction(found[5])) * ticks
    return value, value


def _zone_seconds(zone: str | None) -> int:
    if zone is None or zone in ("Z", "z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return -seconds if zone[0] == "-" else seconds


def _fraction(digits: str | None) -> Fraction:
    return Fraction(int(digits), 10 ** len(digits)) if digits else Fraction(0)


def _ticks(value: Any, unit: str, wrong: NoValue) -> Fraction:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        micros = (value - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
        return Fraction(micros * _UNITS[unit], 10**6)
    if isinstance(value, datetime.date):
        return Fraction((value - _EPOCH).days * 86_400 * _UNITS[unit])
    raise wrong


def _address_span(text: str) -> Span:
    try:
        if "/" in text:
            network = ipaddress.ip_network(text, strict=False)
            return _address_number(network[0]), _address_number(network[-1])
        address = _address_number(ipaddress.ip_address(text))
    except ValueError as error:
        raise NoValue(f"{text[:80]!r} is no IP address or network (10.0.0.0/8)") from error
    return address, address


def _address_number(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    return int(address) + (0xFFFF << 32 if address.version == 4 else 0)


def _cut(text: str) -> str:
    return text if len(text) <= 80 else text[:80] + "…"
