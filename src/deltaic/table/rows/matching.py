"""Predicates over rows: which rows of an Arrow table make a predicate true.

SQL's three values: a comparison with null is neither true nor false, and only rows for which the whole is true count.
Numbers are compared by their exact values, never by a rounded copy: `id = 1.5` is true of no integer, and 2⁵³ + 1 is
not 2⁵³ because a double cannot tell them apart. A number with a point beside a decimal column is the decimal that it
spells. NaN is not less, not greater and not equal; -0.0 equals 0.0. Texts compare by code point. A time without a zone
beside a column that has one is refused unless the table's settings name a zone.
"""

import datetime
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltaic.errors import InputError
from deltaic.table.predicate import And, Compare, In, IsNull, Not, Or, Predicate, columns_in, parse_predicate

Where: TypeAlias = Predicate | str
"""A predicate, or its text."""

_FUNCTIONS = {"=": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}


def as_predicate(where: Where | None) -> Predicate | None:
    """A predicate from its text, or as it is."""
    return parse_predicate(where) if isinstance(where, str) else where


def check_columns(predicate: Predicate | None, schema: Any, *, time_zone: str | None = None) -> None:
    """Refuse a predicate that names a column which is not there, or a value that its column can never have."""
    if predicate is None:
        return
    for name in sorted(columns_in(predicate)):
        if schema.get_field_index(name) < 0:
            raise InputError(f"there is no column {name!r}; there are {', '.join(schema.names[:20])}", "NoColumn")
    matches(predicate, schema.empty_table(), time_zone=time_zone)


def matches(predicate: Predicate, rows: Any, *, time_zone: str | None = None) -> Any:
    """A boolean Arrow array: true where the predicate is, false elsewhere."""
    return pc.fill_null(truth(predicate, rows, time_zone=time_zone), False)


def truth(predicate: Predicate, rows: Any, *, time_zone: str | None = None) -> Any:
    """A boolean Arrow array: true, false, or null where nobody knows."""
    if isinstance(predicate, And | Or):
        join = pc.and_kleene if isinstance(predicate, And) else pc.or_kleene
        found = truth(predicate.parts[0], rows, time_zone=time_zone)
        for part in predicate.parts[1:]:
            found = join(found, truth(part, rows, time_zone=time_zone))
        return found
    if isinstance(predicate, Not):
        return pc.invert(truth(predicate.part, rows, time_zone=time_zone))
    values = _plain(rows.column(predicate.column))
    if isinstance(predicate, IsNull):
        return pc.is_null(values)
    if isinstance(predicate, Compare):
        return _compared(values, predicate.operator, predicate.value, predicate.column, time_zone)
    return _among(values, predicate, time_zone)


def _plain(values: Any) -> Any:
    """The values without what only changes how they lie in memory; in their chunks, which together may be too long."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        values = values.cast(kind)
    if kind == pa.string_view():
        return values.cast(pa.large_string())
    if kind == pa.binary_view() or pa.types.is_fixed_size_binary(kind):
        return values.cast(pa.large_binary())
    return values


def _among(values: Any, predicate: In, time_zone: str | None) -> Any:
    wanted = [one for one in predicate.values if one is not None]
    if not predicate.values:
        return _constant(values, False)
    scalars = [_scalar(one, values.type, predicate.column, time_zone) for one in wanted]
    exact = [scalar for scalar in scalars if scalar.exact and scalar.below is not None]
    if not exact:
        found = _constant(values, False)
    elif pa.types.is_floating(values.type) or len(exact) == 1:
        # `is_in` tells -0.0 from 0.0 and takes NaN for itself.
        found = pc.equal(_wide(values), exact[0].below)
        for scalar in exact[1:]:
            found = pc.or_(found, pc.equal(_wide(values), scalar.below))
    else:
        found = pc.is_in(values, value_set=pa.array([scalar.below for scalar in exact], values.type))
        found = pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), found)
    if len(wanted) < len(predicate.values):
        # `x in (1, null)` is true of 1 and unknown of everything else.
        found = pc.if_else(found, found, pa.scalar(None, pa.bool_()))
    return found


class _Bound:
    """The largest value of a column's type that is not above what a filter asks for, and whether it is just that."""

    __slots__ = ("below", "exact")

    def __init__(self, below: Any, exact: bool) -> None:
        self.below, self.exact = below, exact


def _compared(values: Any, operator: str, wanted: Any, name: str, time_zone: str | None) -> Any:
    if wanted is None:
        return pa.nulls(len(values), pa.bool_())
    if isinstance(wanted, float) and math.isnan(wanted):
        if not _is_number(values.type):
            raise _unfit(wanted, values.type, name)
        return _constant(values, operator == "!=")
    bound = _scalar(wanted, values.type, name, time_zone)
    wide = _wide(values)
    if bound.exact:
        return pc.call_function(_FUNCTIONS[operator], [wide, bound.below])
    if operator in ("=", "!="):
        return _constant(values, operator == "!=")
    if bound.below is None:
        # Below all that the type can hold. A NaN is not above it either.
        above = operator in (">", ">=")
        if above and pa.types.is_floating(values.type):
            return pc.invert(pc.is_nan(wide))
        return _constant(values, above)
    return pc.less_equal(wide, bound.below) if operator in ("<", "<=") else pc.greater(wide, bound.below)


def _wide(values: Any) -> Any:
    if pa.types.is_floating(values.type):
        return values.cast(pa.float64())
    return values


def _constant(values: Any, answer: bool) -> Any:
    return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), pa.scalar(answer))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _scalar(wanted: Any, kind: Any, name: str, time_zone: str | None) -> _Bound:
    """A filter's value beside the values of a type."""
    if pa.types.is_integer(kind):
        return _integer_bound(_number(wanted, kind, name), kind)
    if pa.types.is_floating(kind):
        return _float_bound(_number(wanted, kind, name))
    if pa.types.is_decimal(kind):
        return _decimal_bound(_number(wanted, kind, name), kind)
    if pa.types.is_timestamp(kind):
        return _time_bound(wanted, kind, name, time_zone)
    return _plain_bound(wanted, kind, name)


def _number(wanted: Any, kind: Any, name: str) -> Fraction | float:
    if isinstance(wanted, str):
        try:
            wanted = Decimal(wanted)
        except ArithmeticError:
            raise _unfit(wanted, kind, name) from None
        if not wanted.is_finite():
            wanted = float(wanted)
    if hasattr(wanted, "item") and not isinstance(wanted, float):
        wanted = wanted.item()
    if isinstance(wanted, bool) or not isinstance(wanted, int | float | Decimal):
        raise _unfit(wanted, kind, name)
    if isinstance(wanted, float):
        if not math.isfinite(wanted):
            return wanted
        if pa.types.is_decimal(kind):
            return Fraction(repr(wanted))
    return Fraction(wanted)


def _integer_bound(wanted: Fraction | float, kind: Any) -> _Bound:
    width = kind.bit_width
    signed = pa.types.is_signed_integer(kind)
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
    if isinstance(wanted, float):
        return _Bound(pa.scalar(high, kind), False) if wanted > 0 else _Bound(None, False)
    floor = math.floor(wanted)
    if floor < low:
        return _Bound(None, False)
    if floor > high:
        return _Bound(pa.scalar(high, kind), False)
    return _Bound(pa.scalar(floor, kind), floor == wanted)


def _float_bound(wanted: Fraction | float) -> _Bound:
    if isinstance(wanted, float):
        return _Bound(pa.scalar(wanted, pa.float64()), True)
    try:
        near = float(wanted)
    except OverflowError:
        near = math.inf if wanted > 0 else -math.inf
    exact = math.isfinite(near) and Fraction(near) == wanted
    if not exact and (near == math.inf or (math.isfinite(near) and Fraction(near) > wanted)):
        near = math.nextafter(near, -math.inf)
    return _Bound(pa.scalar(near, pa.float64()), exact)


def _decimal_bound(wanted: Fraction | float, kind: Any) -> _Bound:
    most = 10**kind.precision - 1
    if isinstance(wanted, float):
        scaled, exact = (most, False) if wanted > 0 else (-most - 1, False)
    else:
        shifted = wanted * Fraction(10) ** kind.scale
        scaled = math.floor(shifted)
        exact = scaled == shifted
    if scaled < -most:
        return _Bound(None, False)
    if scaled > most:
        scaled, exact = most, False
    value = Decimal((int(scaled < 0), tuple(int(digit) for digit in str(abs(scaled))), -kind.scale))
    return _Bound(pa.scalar(value, kind), exact)


_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH = datetime.datetime(1970, 1, 1)


def _time_bound(wanted: Any, kind: Any, name: str, time_zone: str | None) -> _Bound:
    if isinstance(wanted, str):
        try:
            wanted = datetime.datetime.fromisoformat(wanted)
        except ValueError:
            raise _unfit(wanted, kind, name) from None
    nanoseconds = getattr(wanted, "nanosecond", 0)
    if not isinstance(wanted, datetime.datetime):
        raise _unfit(wanted, kind, name)
    if kind.tz is not None:
        if wanted.tzinfo is None:
            if time_zone is None:
                raise InputError(
                    f"{name} has a time zone and {wanted.isoformat()} has none: write one, as in "
                    f"{wanted.isoformat()}+00:00, or set time_zone",
                    "NoTimeZone",
                )
            from zoneinfo import ZoneInfo

            wanted = wanted.replace(tzinfo=ZoneInfo(time_zone))
        wanted = wanted.astimezone(datetime.UTC).replace(tzinfo=None)
    elif wanted.tzinfo is not None:
        # As pruning sees it: a time of no zone is the same clock in UTC.
        wanted = wanted.astimezone(datetime.UTC).replace(tzinfo=None)
    micros = (wanted - _EPOCH) // datetime.timedelta(microseconds=1)
    ticks, rest = divmod(micros * 1_000 + nanoseconds, 1_000_000_000 // _PER_SECOND[kind.unit])
    if ticks > 2**63 - 1:
        return _Bound(pa.scalar(2**63 - 1, pa.int64()).cast(kind), False)
    if ticks < -(2**63):
        return _Bound(None, False)
    return _Bound(pa.scalar(ticks, pa.int64()).cast(kind), rest == 0)


_ISO: tuple[tuple[Callable[[Any], bool], Any, type], ...] = (
    (pa.types.is_date, datetime.date.fromisoformat, datetime.date),
    (pa.types.is_time, datetime.time.fromisoformat, datetime.time),
)


def _plain_bound(wanted: Any, kind: Any, name: str) -> _Bound:
    for test, parse, python in _ISO:
        if test(kind):
            if isinstance(wanted, str):
                try:
                    wanted = parse(wanted)
                except ValueError:
                    raise _unfit(wanted, kind, name) from None
            if not isinstance(wanted, python) or isinstance(wanted, datetime.datetime):
                raise _unfit(wanted, kind, name)
            return _Bound(_made(wanted, kind, name), True)
    if pa.types.is_boolean(kind):
        if isinstance(wanted, str) and wanted.lower() in ("true", "false"):
            wanted = wanted.lower() == "true"
        fits = isinstance(wanted, bool)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        fits = isinstance(wanted, str)
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        fits = isinstance(wanted, bytes)
    elif pa.types.is_duration(kind):
        fits = isinstance(wanted, datetime.timedelta)
    else:
        fits = False
    if not fits:
        raise _unfit(wanted, kind, name)
    return _Bound(_made(wanted, kind, name), True)


def _made(wanted: Any, kind: Any, name: str) -> Any:
    try:
        return pa.scalar(wanted, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, UnicodeError) as error:
        raise _unfit(wanted, kind, name) from error


def _unfit(wanted: Any, kind: Any, name: str) -> InputError:
    shown = repr(wanted)
    return InputError(
        f"{name} is a {kind}: it cannot be compared with {shown if len(shown) <= 60 else shown[:60] + '…'}",
        "BadPredicate",
    )


def renamed(predicate: Predicate, names: Callable[[str], str]) -> Predicate:
    """The same predicate over columns of other names."""
    if isinstance(predicate, And):
        return And(tuple(renamed(part, names) for part in predicate.parts))
    if isinstance(predicate, Or):
        return Or(tuple(renamed(part, names) for part in predicate.parts))
    if isinstance(predicate, Not):
        return Not(renamed(predicate.part, names))
    if isinstance(predicate, Compare):
        return Compare(names(predicate.column), predicate.operator, predicate.value)
    if isinstance(predicate, In):
        return In(names(predicate.column), predicate.values)
    return IsNull(names(predicate.column))


def weakened(predicate: Predicate, known: Callable[[str], bool]) -> Predicate | None:
    """What is left to say if only some columns may be spoken of: true wherever the predicate is; None is everywhere."""
    if isinstance(predicate, And):
        parts = [found for part in predicate.parts if (found := weakened(part, known)) is not None]
        return And(tuple(parts)) if parts else None
    if isinstance(predicate, Or):
        kept = [found for part in predicate.parts if (found := weakened(part, known)) is not None]
        return Or(tuple(kept)) if len(kept) == len(predicate.parts) else None
    return predicate if all(known(name) for name in columns_in(predicate)) else None


def predicate_text(predicate: Predicate) -> str:
    """A predicate as `parse_predicate` reads it."""
    if isinstance(predicate, And | Or):
        word = " and " if isinstance(predicate, And) else " or "
        return word.join(f"({predicate_text(part)})" for part in predicate.parts)
    if isinstance(predicate, Not):
        return f"not ({predicate_text(predicate.part)})"
    name = f"`{predicate.column}`"
    if isinstance(predicate, IsNull):
        return f"{name} is null"
    if isinstance(predicate, In):
        return f"{name} in ({', '.join(map(_value_text, predicate.values))})"
    return f"{name} {predicate.operator} {_value_text(predicate.value)}"


def _value_text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, Decimal):
        value = str(value)
    if isinstance(value, datetime.date | datetime.time):
        value = value.isoformat()
    if isinstance(value, str):
        quoted = value.replace("'", "''")
        return f"'{quoted}'"
    raise InputError(f"{value!r} cannot be written in a predicate", "BadPredicate")


def joined(parts: Iterable[Predicate | None]) -> Predicate | None:
    """All of several predicates, of which some may say nothing."""
    found = [part for part in parts if part is not None]
    return None if not found else found[0] if len(found) == 1 else And(tuple(found))
