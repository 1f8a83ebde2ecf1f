"""Values to look up, as they are given and as the kernels compare them.

Batches come as NumPy arrays, as anything that offers Arrow, or as lists. A value that no record can hold (null, a
number too large for the field) is not valid, which is no error: it is not found.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.arrow import ArrowColumn, read_stream
from deltaic.errors import InputError
from deltaic.index.traversal import Column, comparable
from deltaic.kernels import keys, text
from deltaic.kernels.content import BOOLEAN, BYTES, DOUBLE, FLOAT, INT, LONG, REFERENCE, STRING

Mask = NDArray[np.bool_]
_NAMES = ("REFERENCE", "INT", "LONG", "BOOLEAN", "FLOAT", "DOUBLE", "STRING", "BYTES")


def query_columns(codes: Sequence[int], given: Sequence[Any]) -> tuple[tuple[Column, ...], Mask | None, int]:
    """Columns of values for the fields of a key, which rows are valid (None if all are), and how many there are."""
    if len(given) != len(codes):
        raise InputError(f"a key of {len(codes)} fields, {len(given)} columns given", "KeyType")
    columns: list[Column] = []
    valid: Mask | None = None
    count = -1
    for code, values in zip(codes, given, strict=True):
        column, mask, rows = _column(code, values)
        if count not in (-1, rows):
            raise InputError(f"columns of a key have {count} and {rows} values", "KeyType")
        count = rows
        columns.append(column)
        if mask is not None:
            valid = mask if valid is None else valid & mask
    return tuple(columns), valid, count


def _column(code: int, values: Any) -> tuple[Column, Mask | None, int]:
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        return _from_arrow(code, values)
    if isinstance(values, np.ma.MaskedArray):
        column, valid, count = _from_numpy(code, np.asarray(values.data))
        there = ~np.ma.getmaskarray(values)
        return column, there if valid is None else valid & there, count
    if isinstance(values, np.ndarray):
        return _from_numpy(code, values)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"a batch of keys is an array, Arrow or a list, not {type(values).__name__}", "KeyType")
    return _from_list(code, list(values))


def _from_list(code: int, values: list[Any]) -> tuple[Column, Mask | None, int]:
    if code == STRING:
        offsets, data, valid = keys.encode_texts(values)
        return (offsets, data), valid, len(values)
    if code == BYTES:
        for value in values:
            if value is not None and not isinstance(value, bytes | bytearray | memoryview):
                raise _wrong(type(value).__name__, code)
        pieces = [b"" if value is None else bytes(value) for value in values]
        offsets = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
        there = np.array([value is not None for value in values], np.bool_)
        return (offsets, np.frombuffer(b"".join(pieces), np.uint8)), None if there.all() else there, len(values)
    if not values:
        return (np.zeros(0, np.int64), None), None, 0
    if None not in values:
        try:
            array = np.asarray(values)
        except (OverflowError, ValueError):
            array = np.asarray(values, object)
        # NumPy makes floats of whole numbers that fit no one integer type.
        fitting = {BOOLEAN: "b", FLOAT: "iuf", DOUBLE: "iuf"}.get(code, "iu")
        if array.ndim == 1 and array.dtype.kind in fitting:
            return _from_numpy(code, array)
    return _from_objects(code, values)


def _from_objects(code: int, values: list[Any]) -> tuple[Column, Mask | None, int]:
    """A list with nulls among its values, or with numbers that no array holds."""
    valid = np.ones(len(values), np.bool_)
    plain: list[Any] = []
    for row, value in enumerate(values):
        if value is not None and (
            isinstance(value, bool) != (code == BOOLEAN)
            or not isinstance(value, int | float | np.number)
            or (code in (INT, LONG, REFERENCE) and not isinstance(value, int | np.integer))
        ):
            raise _wrong(type(value).__name__, code)
        valid[row] = value is not None and (code in (FLOAT, DOUBLE) or -(2**63) <= value < 2**63)
        plain.append(value if valid[row] else 0)
    kind: Any = {BOOLEAN: np.bool_, FLOAT: np.float64, DOUBLE: np.float64}.get(code, np.int64)
    column, mask, count = _from_numpy(code, np.array(plain, kind))
    return column, valid if mask is None else valid & mask, count


def _from_numpy(code: int, values: NDArray[Any]) -> tuple[Column, Mask | None, int]:
    if values.ndim != 1:
        raise InputError(f"a batch of keys has one dimension, not {values.ndim}", "KeyType")
    kind = values.dtype.kind
    if kind == "O" or (code == STRING and kind in "UT") or (code == BYTES and kind in "SV"):
        return _from_list(code, values.tolist())
    if code in (INT, LONG, REFERENCE) and kind in "iu":
        return _whole_numbers(code, values)
    if code == BOOLEAN and kind == "b":
        return (values.astype(np.int64), None), None, len(values)
    if code in (FLOAT, DOUBLE) and kind in "iuf":
        if code == DOUBLE:
            return (comparable(values, code), None), None, len(values)
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        too_large = np.isinf(single) & np.isfinite(values.astype(np.float64))
        return (comparable(single, code), None), ~too_large if too_large.any() else None, len(values)
    if len(values) == 0:
        return _from_list(code, [])
    raise _wrong(str(values.dtype), code)


def _whole_numbers(code: int, values: NDArray[Any]) -> tuple[Column, Mask | None, int]:
    smallest = -(1 << (63 if code == LONG else 31))
    numbers = np.ascontiguousarray(values).astype(np.int64, copy=False)
    info = np.iinfo(values.dtype)
    valid: Mask | None = None
    if info.max > -smallest - 1 or info.min <= smallest or (code == REFERENCE and info.min < 0):
        # The smallest number of a field means null.
        least = 0 if code == REFERENCE else smallest + 1
        valid = (numbers >= least) & (numbers <= -smallest - 1)
        if values.dtype == np.uint64:
            valid &= values <= np.uint64(2**63 - 1)
        if valid.all():
            valid = None
    return (numbers, None), valid, len(values)


def _from_arrow(code: int, values: Any) -> tuple[Column, Mask | None, int]:
    _, batches = read_stream(values)
    parts = [_arrow_part(code, batch) for batch in batches]
    if not parts:
        return _from_list(code, [])
    if len(parts) == 1:
        return parts[0]
    count = sum(part[2] for part in parts)
    valid = None
    if any(part[1] is not None for part in parts):
        valid = np.concatenate([np.ones(part[2], np.bool_) if part[1] is None else part[1] for part in parts])
    if parts[0][0][1] is None:
        return (np.concatenate([part[0][0] for part in parts]), None), valid, count
    datas = [part[0][1] for part in parts if part[0][1] is not None]
    starts = np.cumsum([0, *(len(data) for data in datas[:-1])])
    ends = [part[0][0][1:] + start for part, start in zip(parts, starts.tolist(), strict=True)]
    return (np.concatenate([np.zeros(1, np.int64), *ends]), np.concatenate(datas)), valid, count


def _arrow_part(code: int, batch: ArrowColumn) -> tuple[Column, Mask | None, int]:
    form = batch.field.format
    if form == "n":
        return _from_list(code, [None] * batch.length)
    if batch.offsets is not None and form in ("u", "U", "z", "Z"):
        if (form in ("u", "U")) != (code == STRING) or code not in (STRING, BYTES):
            raise _wrong(f"Arrow {form!r}", code)
        offsets = batch.offsets.astype(np.int64)
        data = np.zeros(0, np.uint8) if batch.data is None else np.ascontiguousarray(batch.data)
        if code == STRING:
            offsets, data, _ = text.utf8_to_units(offsets, data)
        return (offsets, data), batch.valid, batch.length
    if batch.data is None or batch.data.ndim != 1 or batch.children:
        raise _wrong(f"Arrow {form!r}", code)
    values = batch.data
    if batch.valid is not None and values.dtype.kind != "b":
        values = np.where(batch.valid, values, values.dtype.type(0))
    column, valid, count = _from_numpy(code, values)
    if batch.valid is not None:
        valid = batch.valid if valid is None else valid & batch.valid
    return column, valid, count


def _wrong(given: str, code: int) -> InputError:
    return InputError(f"{given} given for a key field of type {_NAMES[code]}", "KeyType")
