"""Columns from lists of Python values: checked, and in Hollow's form.

A value must be of the kind that its field holds: no truth values as numbers, no numbers as texts. With `as_json` what
JSON can only say as text is read from text: dates, times, decimals (also from numbers) and bytes (base64).
"""

import base64
import binascii
import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np

from deltaic.errors import InputError
from deltaic.kernels import text
from deltaic.schema.logical import LogicalType
from deltaic.schema.mapping import from_python
from deltaic.schema.types import FieldType
from deltaic.state.ingest_rows import Fixed, Mask, Rows, Variable
from deltaic.state.ingest_values import encode_numbers

_SHOWN = 60


def encode_python(
    values: list[Any], target: LogicalType, rows: Rows, path: str, *, as_json: bool = False
) -> Fixed | Variable:
    """One scalar per record; None is null."""
    valid: Mask | None = np.fromiter((value is not None for value in values), np.bool_, len(values))
    if valid is None or valid.all():
        valid = None
    elif not target.nullable:
        raise rows.refused(int(np.argmin(valid)), path, "null in a column without nulls", "Null")
    converted = _converted(values, target, rows, path, as_json=as_json)
    if target.format.startswith("d:"):
        if target.field_type is FieldType.BYTES:
            return _variable(converted, valid, rows, path, bytes, bytes)
        return Fixed(_integers(converted, np.dtype(np.int64), target, rows, path), valid)
    match target.storage:
        case None if target.field_type is FieldType.STRING:
            return _texts(converted, valid, rows, path)
        case None:
            return _variable(converted, valid, rows, path, (bytes, bytearray, memoryview), bytes)
        case _ if target.width:
            _check_widths(converted, target, rows, path)
            return _variable(converted, valid, rows, path, (bytes, bytearray, memoryview), bytes)
        case storage if storage.kind in "iu":
            numbers = _integers(converted, storage, target, rows, path)
        case storage if storage.kind == "f":
            numbers = _floats(converted, storage, target, rows, path)
        case storage:
            _check_kind(converted, (bool, np.bool_), target, rows, path)
            numbers = np.array([bool(value) for value in converted], storage)
    return encode_numbers(numbers, valid, target, target, rows, path)


def _converted(values: list[Any], target: LogicalType, rows: Rows, path: str, *, as_json: bool) -> list[Any]:
    """Values as the field keeps them: `date` as days, `Decimal` as its digits; others as they are."""
    parse = _json_reader(target) if as_json else None
    if parse is None and target.format[:1] not in "td":
        return values
    converted = []
    for index, value in enumerate(values):
        try:
            given = value if parse is None or value is None else parse(value)
            converted.append(None if given is None else from_python(given, target, path))
        except InputError as error:
            raise rows.refused(index, path, str(error).partition(": ")[2] or str(error), error.code) from error
        except (ValueError, ArithmeticError, TypeError) as error:
            raise rows.refused(index, path, f"{_shown(value)} is no {target.name}", "WrongType") from error
    return converted


def _json_reader(target: LogicalType) -> Callable[[Any], Any] | None:
    from_text: Callable[[str], Any]
    match target.format[:2]:
        case "ts":
            from_text = datetime.datetime.fromisoformat
        case "td":
            from_text = datetime.date.fromisoformat
        case "tt":
            from_text = datetime.time.fromisoformat
        case "d:":
            return lambda value: decimal.Decimal(str(value)) if isinstance(value, int | float | str) else value
        case _ if target.format in ("z", "Z", "vz") or target.format.startswith("w:"):
            from_text = _base64
        case _:
            return None
    return lambda value: from_text(value) if isinstance(value, str) else value


def _base64(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(value) from error


def _texts(values: list[Any], valid: Mask | None, rows: Rows, path: str) -> Variable:
    present = values if valid is None else ["" if value is None else value for value in values]
    try:
        joined = "".join(present)
    except TypeError:
        index = next(index for index, value in enumerate(present) if not isinstance(value, str))
        raise rows.refused(index, path, f"{_shown(values[index])} is no text", "WrongType") from None
    if not joined.isascii():
        return _variable(values, valid, rows, path, str, text.encode_text)
    lengths = np.fromiter(map(len, present), np.int64, len(present))
    ends = np.cumsum(lengths)
    return Variable(ends - lengths, ends, np.frombuffer(joined.encode("ascii"), np.uint8), valid)


def _variable(
    values: list[Any],
    valid: Mask | None,
    rows: Rows,
    path: str,
    kinds: type | tuple[type, ...],
    encode: Callable[[Any], bytes],
) -> Variable:
    pieces = []
    for index, value in enumerate(values):
        if value is not None and not isinstance(value, kinds):
            what = "text" if kinds is str else "bytes"
            raise rows.refused(index, path, f"{_shown(value)} is no {what}", "WrongType")
        pieces.append(b"" if value is None else encode(value))
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    ends = np.cumsum(lengths)
    return Variable(ends - lengths, ends, np.frombuffer(b"".join(pieces), np.uint8), valid)


def _integers(values: list[Any], storage: np.dtype[Any], target: LogicalType, rows: Rows, path: str) -> Any:
    if set(map(type, values)) != {int}:
        _check_kind(values, (int, np.integer), target, rows, path)
        values = [0 if value is None else int(value) for value in values]
    try:
        return np.array(values, storage)
    except OverflowError:
        limits = np.iinfo(storage)
        index = next(index for index, value in enumerate(values) if not limits.min <= value <= limits.max)
        why = f"{values[index]} is out of the range of {target.name}"
        raise rows.refused(index, path, why, "TypeRange") from None


def _floats(values: list[Any], storage: np.dtype[Any], target: LogicalType, rows: Rows, path: str) -> Any:
    if set(map(type, values)) != {float}:
        _check_kind(values, (float, int, np.floating, np.integer), target, rows, path)
        values = [0.0 if value is None else value for value in values]
    try:
        wide = np.array(values, np.float64)
    except OverflowError:
        index = next(index for index, value in enumerate(values) if abs(value) > 2**1023)
        raise rows.refused(index, path, f"a number too large for {target.name}", "TypeRange") from None
    with np.errstate(over="ignore"):
        kept = wide.astype(storage)
    lost = np.isinf(kept) & ~np.isinf(wide)
    if lost.any():
        index = int(lost.argmax())
        raise rows.refused(index, path, f"{values[index]!r} is out of the range of {target.name}", "TypeRange")
    return kept


def _check_kind(values: list[Any], kinds: tuple[type, ...], target: LogicalType, rows: Rows, path: str) -> None:
    truth = bool in kinds
    for index, value in enumerate(values):
        if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and not truth)):
            raise rows.refused(index, path, f"{_shown(value)} is no {target.name}", "WrongType")


def _check_widths(values: list[Any], target: LogicalType, rows: Rows, path: str) -> None:
    for index, value in enumerate(values):
        if isinstance(value, bytes | bytearray | memoryview) and len(value) != target.width:
            raise rows.refused(index, path, f"{len(value)} bytes are no {target.name}", "TypeRange")


def _shown(value: Any) -> str:
    shown = repr(value)
    return f"{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'} ({type(value).__name__})"
