"""Arrow, Hollow and Python: one table of types, and the header tag that carries what Hollow cannot say.

    Python                 Arrow                    Hollow
    int                    int64                    LONG
    str                    string                   STRING, or a reference to String {string value}
    datetime.date          date32                   INT, logical `tdD`
    decimal.Decimal        decimal128(p, s)         LONG up to 18 digits, else BYTES, logical `d:p,s`
    …                                               docs/types.md has all of it

The header tag `deltaic.types` is JSON: type name → field name → logical type. Java ignores it. Fields that need nothing
said (`LogicalType.is_natural`) are left out. Of collections the "fields" are `element`, `key` and `value`.
"""

import datetime
import decimal
from collections.abc import Mapping
from typing import Any

import msgspec

from deltaic.errors import DecodeError, InputError
from deltaic.schema.logical import LogicalType, natural
from deltaic.schema.types import FieldType

TYPES_TAG = "deltaic.types"
"""The header tag that holds logical types."""

Logical = Mapping[str, Mapping[str, LogicalType]]
"""Type name → field name → logical type."""

_NULLABLE, _DICTIONARY_ORDERED = 2, 1

_BOXED_NAMES = {
    "b": "Boolean",
    "c": "Byte",
    "s": "Short",
    "i": "Integer",
    "l": "Long",
    "f": "Float",
    "g": "Double",
    "u": "String",
    "z": "Bytes",
    "tsm:UTC": "Date",
}

_PYTHON: dict[type, str] = {
    bool: "b",
    int: "l",
    float: "g",
    str: "u",
    bytes: "z",
    datetime.datetime: "tsm:UTC",
    datetime.date: "tdD",
    datetime.time: "ttu",
    datetime.timedelta: "tDu",
}

_EPOCH_DATE = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_PER_SECOND = {"s": 1, "m": 1_000, "u": 1_000_000, "n": 1_000_000_000}


def arrow_to_physical(arrow_type: Any) -> LogicalType:
    """The logical type of an Arrow type or field, and by its `field_type` the Hollow field that carries it.

    Args:
        arrow_type: anything with `__arrow_c_schema__`.

    Raises:
        InputError: a nested type (`Model.from_arrow` takes those), or one that Hollow cannot carry.
    """
    import nanoarrow

    return logical_of(nanoarrow.c_schema(arrow_type))


def logical_of(schema: Any, *, wide: bool = False) -> LogicalType:
    """The logical type of a flat Arrow field given as a nanoarrow `CSchema`."""
    nullable = bool(schema.flags & _NULLABLE)
    values, index = schema.format, None
    if schema.dictionary is not None:
        values, index = schema.dictionary.format, schema.format
    if values.startswith("+"):
        raise InputError(f"{values!r} is a nested Arrow type: make a model of it", "UnknownType")
    ordered = index is not None and bool(schema.flags & _DICTIONARY_ORDERED)
    return LogicalType.of(values, nullable=nullable, index=index, ordered=ordered, wide=wide)


def python_to_logical(python_type: type) -> LogicalType | None:
    """The logical type of a Python scalar type; None if it is none."""
    format = _PYTHON.get(python_type)
    return None if format is None else LogicalType(format)


def boxed_name(logical: LogicalType) -> str:
    """The name of the type {value} that stands for a scalar inside collections and behind references.

    Java's names where Java's object mapper has such a type; else one made of the Arrow name, so that types that differ
    never share a name.
    """
    known = _BOXED_NAMES.get(logical.format)
    if known is not None and not logical.wide:
        return known
    words = "".join(letter if letter.isalnum() else " " for letter in str(LogicalType(logical.format))).split()
    name = "_".join(words)
    return name[:1].upper() + name[1:] + ("Wide" if logical.wide else "")


def write_types_tag(logical: Logical) -> str:
    """The value of the header tag; empty if there is nothing to say."""
    noted = {
        type_name: {field: logical_type for field, logical_type in fields.items() if not logical_type.is_natural}
        for type_name, fields in logical.items()
    }
    noted = {type_name: fields for type_name, fields in noted.items() if fields}
    return msgspec.json.encode(noted, order="sorted").decode() if noted else ""


def read_types_tag(text: str, at: str = TYPES_TAG) -> dict[str, dict[str, LogicalType]]:
    """The logical types of a header tag; `at` says where it stands, for the error."""
    if not text:
        return {}
    try:
        logical = msgspec.json.decode(text, type=dict[str, dict[str, LogicalType]])
        for fields in logical.values():
            for logical_type in fields.values():
                logical_type.check()
    except (msgspec.DecodeError, InputError, UnicodeError) as error:
        raise DecodeError("BadTypesTag", f"header tag {TYPES_TAG}: {error}", at) from error
    return logical


def logical_for(logical: Logical, type_name: str, field_name: str, field_type: FieldType) -> LogicalType:
    """What a field stands for: what was noted, else what its Hollow type says."""
    noted = logical.get(type_name, {}).get(field_name)
    return natural(field_type) if noted is None else noted


def from_python(value: Any, logical: LogicalType, column: str) -> Any:
    """A Python value in Hollow's form: `datetime.date` → days, `Decimal` → its unscaled number, others as they are.

    Raises:
        InputError: the value cannot be kept, for instance microseconds in a column of milliseconds.
    """
    format = logical.format
    match value:
        case datetime.datetime() if format.startswith("ts"):
            if (value.tzinfo is None) != (format[4:] == ""):
                state = "no time zone" if value.tzinfo is None else "a time zone"
                raise InputError(f"column {column!r}: {value!r} has {state}, {logical} differs", "TypeConflict")
            delta = value - (_EPOCH if value.tzinfo else _EPOCH.replace(tzinfo=None))
            return _ticks(delta // _MICROSECOND, format[2], value, logical, column)
        case datetime.date() if format == "tdD" and not isinstance(value, datetime.datetime):
            return (value - _EPOCH_DATE).days
        case datetime.date() if format == "tdm" and not isinstance(value, datetime.datetime):
            return (value - _EPOCH_DATE).days * 86_400_000
        case datetime.time() if format.startswith("tt"):
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return _ticks(seconds * 1_000_000 + value.microsecond, format[2], value, logical, column)
        case datetime.timedelta() if format.startswith("tD"):
            return _ticks(value // _MICROSECOND, format[2], value, logical, column)
        case decimal.Decimal() if format.startswith("d:"):
            return _unscaled(value, logical, column)
    return value


def to_python(value: Any, logical: LogicalType) -> Any:
    """A value of Hollow's form as Python has it: the inverse of `from_python`.

    Nanoseconds stay numbers: Python's types end at microseconds.
    """
    format = logical.format
    if value is None or format[2:3] == "n":
        return value
    match format[:2]:
        case "td":
            return _EPOCH_DATE + datetime.timedelta(days=value if format == "tdD" else value // 86_400_000)
        case "tt":
            return (datetime.datetime.min + _interval(value, format[2])).time()
        case "tD":
            return _interval(value, format[2])
        case "ts":
            moment = _EPOCH + _interval(value, format[2])
            return moment if format[4:] else moment.replace(tzinfo=None)
        case "d:":
            unscaled = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value
            scale = int(format[2:].split(",")[1])
            return decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=80))
    return value


def _interval(value: int, unit: str) -> datetime.timedelta:
    return datetime.timedelta(microseconds=value * (1_000_000 // _PER_SECOND[unit]))


def _ticks(microseconds: int, unit: str, value: Any, logical: LogicalType, column: str) -> int:
    per_second = _PER_SECOND[unit]
    ticks, rest = divmod(microseconds * per_second, 1_000_000)
    if rest:
        raise InputError(f"column {column!r}: {value!r} is finer than {logical} can keep", "TypeRange")
    return ticks


def _unscaled(value: decimal.Decimal, logical: LogicalType, column: str) -> int | bytes:
    precision, scale = (int(part) for part in logical.format[2:].split(",")[:2])
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InputError(f"column {column!r}: {value} is no number that {logical} can keep", "TypeRange")
    number = int("".join(map(str, digits)) or "0")
    shift = exponent + scale
    scaled: tuple[int, int] = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    number, rest = scaled
    if rest or number >= 10**precision:
        raise InputError(f"column {column!r}: {value} does not fit {logical}", "TypeRange")
    unscaled = -number if sign else number
    if logical.field_type is FieldType.LONG:
        return unscaled
    return unscaled.to_bytes(logical.width, "big", signed=True)
