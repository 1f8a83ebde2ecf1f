"""Scalars of the input in Hollow's form: numbers of the right width, texts as VInt per UTF-16 unit, checked.

A column's own type may differ from what the model says as long as every value can be kept: integers of any width,
floats, texts and bytes in any of Arrow's layouts. Anything else is refused, with column, row and value.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.kernels import ingest, text
from deltaic.schema.logical import LogicalType
from deltaic.schema.types import FieldType
from deltaic.state.ingest_columns import Ranges
from deltaic.state.ingest_rows import Fixed, Mask, Rows, Variable

_TEXTS = ("u", "U", "vu")
_BYTES = ("z", "Z", "vz")
_INTEGERS = ("c", "C", "s", "S", "i", "I", "l", "L")
_FLOATS = ("e", "f", "g")
_SMALLEST = {FieldType.INT: -(2**31), FieldType.LONG: -(2**63)}
_MAX_VALUE_BYTES = 2**31 - 1


def convertible(source: LogicalType, target: LogicalType) -> bool:
    """True if values of one type can be stored as another, as far as the types alone say."""
    if source.format == target.format or source.format == "n":
        return True
    for family in (_TEXTS, _BYTES, _INTEGERS, _FLOATS):
        if source.format in family and target.format in family:
            return True
    if source.format.startswith("w:"):
        return target.format in _BYTES
    if source.format.startswith("d:"):
        return _decimal(source.format) == _decimal(target.format) and source.width == target.width
    if source.format.startswith("ts"):
        # The zone says how to show an instant, not which one it is.
        return target.format[:3] == source.format[:3] and bool(source.format[4:]) == bool(target.format[4:])
    return False


def encode_numbers(
    values: NDArray[Any], valid: Mask | None, source: LogicalType, target: LogicalType, rows: Rows, path: str
) -> Fixed | Variable:
    """Numbers, truth values, or rows of bytes, in Arrow's storage."""
    if source.format == "n":
        if not target.nullable and len(values):
            raise rows.refused(0, path, "null in a column without nulls", "Null")
        return _nulls(len(values), target)
    if source.format.startswith("w:") and target.format in _BYTES:
        return _matrix(values, valid)
    if source.format in _INTEGERS and source.format != target.format:
        values = _integers(values, valid, target, rows, path)
    elif source.format in _FLOATS and source.format != target.format:
        values = _floats(values, valid, target, rows, path)
    if valid is None and target.storage == _plain_storage(target) and not target.width:
        smallest = _SMALLEST.get(target.field_type)
        if smallest is None or not len(values) or int(values.min()) != smallest:
            return Fixed(values)
    physical, present = _encoded(values, valid, target, rows, path)
    mask = None if present.all() else present
    return _matrix(physical, mask) if physical.ndim == 2 else Fixed(physical, mask)


def encode_ranges(ranges: Ranges, valid: Mask | None, target: LogicalType, rows: Rows, path: str) -> Variable:
    """Texts (UTF-8) or bytes."""
    starts, ends, data = ranges.starts, ranges.ends, ranges.data
    if valid is not None:
        if not target.nullable:
            raise rows.refused(int(np.argmin(valid)), path, "null in a column without nulls", "Null")
        starts, ends = np.where(valid, starts, 0), np.where(valid, ends, 0)
    if not len(starts):
        return Variable(starts, ends, data[:0], valid)
    low, high = int(starts.min()), int(ends.max())
    lengths = ends - starts
    if low < 0 or high > len(data) or int(lengths.min()) < 0:
        raise InputError(f"column {path!r}: its offsets fall, or point outside its data", "BadArrow")
    if int(lengths.max()) > _MAX_VALUE_BYTES // 2:
        # Character data takes at most one and a half times the bytes of UTF-8, and Java counts them in an int.
        longest = int(lengths.argmax())
        why = f"a value of {int(lengths[longest]):,} bytes, at most {_MAX_VALUE_BYTES // 2:,} can be"
        raise rows.refused(longest, path, why, "TooLong")
    if target.field_type is FieldType.BYTES:
        return Variable(starts, ends, data, valid)
    spread = high - low > 4 * int(lengths.sum(dtype=np.int64)) + 4096
    if not spread and text.is_ascii(data[low:high]):
        return Variable(starts, ends, data, valid)
    offsets, packed = ingest.gather_ranges(data, starts, ends)
    if not text.is_ascii(packed):
        bounds, units, malformed = text.utf8_to_units(offsets, packed)
        if malformed:
            raise _malformed(offsets, packed, rows, path)
        offsets, packed = bounds, units
    return Variable(offsets[:-1], offsets[1:], packed, valid)


def _nulls(count: int, target: LogicalType) -> Fixed | Variable:
    nowhere, storage = np.zeros(count, np.bool_), _plain_storage(target)
    if storage is not None:
        return Fixed(np.zeros(count, storage), nowhere)
    return Variable(np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(0, np.uint8), nowhere)


def _malformed(offsets: NDArray[np.int64], data: NDArray[np.uint8], rows: Rows, path: str) -> InputError:
    for index, (start, end) in enumerate(pairwise(offsets.tolist())):
        value = data[start:end].tobytes()
        try:
            value.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return rows.refused(index, path, f"the text {value[:60]!r} is no UTF-8", "BadText")
    return InputError(f"column {path!r}: a text is no UTF-8", "BadText")


def _encoded(
    values: NDArray[Any], valid: Mask | None, target: LogicalType, rows: Rows, path: str
) -> tuple[NDArray[Any], Mask]:
    try:
        return target.encode(values, valid, path)
    except InputError as error:
        # The message counts rows of this chunk and place; find the value to name the row of the input.
        for index in range(len(values)):
            one = slice(index, index + 1)
            try:
                target.encode(values[one], None if valid is None else valid[one], path)
            except InputError as found:
                raise rows.refused(index, path, str(found).partition(": ")[2] or str(found), found.code) from error
        raise


def _integers(values: NDArray[Any], valid: Mask | None, target: LogicalType, rows: Rows, path: str) -> NDArray[Any]:
    assert target.storage is not None
    limits = np.iinfo(target.storage)
    own = np.iinfo(values.dtype)
    if len(values) and (own.min < limits.min or own.max > limits.max):
        low, high = int(values.min()), int(values.max())
        if low < limits.min or high > limits.max:
            outside = np.zeros(len(values), np.bool_)
            if low < limits.min:
                outside |= values < limits.min
            if high > limits.max:
                outside |= values > limits.max
            if valid is not None:
                outside &= valid
            if outside.any():
                index = int(outside.argmax())
                raise rows.refused(
                    index, path, f"{int(values[index])} is out of the range of {target.name}", "TypeRange"
                )
    return values.astype(target.storage)


def _floats(values: NDArray[Any], valid: Mask | None, target: LogicalType, rows: Rows, path: str) -> NDArray[Any]:
    assert target.storage is not None
    with np.errstate(over="ignore", invalid="ignore"):
        kept = values.astype(target.storage)
        if kept.dtype.itemsize < values.dtype.itemsize:
            lost = (kept.astype(values.dtype) != values) & (values == values)
            if valid is not None:
                lost &= valid
            if lost.any():
                index = int(lost.argmax())
                raise rows.refused(index, path, f"{float(values[index])!r} is no {target.name}", "TypeRange")
    return kept


def _matrix(values: NDArray[Any], valid: Mask | None) -> Variable:
    count, width = values.shape
    starts = np.arange(count, dtype=np.int64) * width
    return Variable(starts, starts + width, np.ascontiguousarray(values).reshape(-1), valid)


def _plain_storage(target: LogicalType) -> np.dtype[Any] | None:
    match target.field_type:
        case FieldType.INT:
            return np.dtype(np.int32)
        case FieldType.LONG:
            return np.dtype(np.int64)
        case FieldType.FLOAT:
            return np.dtype(np.float32)
        case FieldType.DOUBLE:
            return np.dtype(np.float64)
        case FieldType.BOOLEAN:
            return np.dtype(np.bool_)
        case _:
            return None


def _decimal(format: str) -> tuple[str, ...]:
    return tuple(format[2:].split(",")[:2]) if format.startswith("d:") else ()
