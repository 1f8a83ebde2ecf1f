"""Many records at once: typed columns checked against a schema, then serialized by kernels without Python per record.

Values that a field cannot hold are refused with type, field, row and value.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.kernels import records, text
from deltaic.limits import MAX_COLLECTION_ELEMENTS, MAX_ORDINAL
from deltaic.schema.types import Field, FieldType, ObjectSchema
from deltaic.state.write_records import MAX_VALUE_BYTES
from deltaic.state.write_statistics import field_kinds

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Ordinals = NDArray[np.int32]
Serialized = tuple[Bytes, Offsets]
"""Serialized records: their bytes back to back, and where each one ends."""

_NO_WORDS: NDArray[np.uint64] = np.zeros(0, np.uint64)
_NO_OFFSETS: Offsets = np.zeros(0, np.int64)
_NO_BYTES: Bytes = np.zeros(0, np.uint8)
_NO_HASHES: Ordinals = np.zeros(0, np.int32)
_MIXED = 1
_INT_RANGE = (-(1 << 31), (1 << 31) - 1)
_LONG_RANGE = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """Values of a field that is not STRING or BYTES, and which of them are there (None: all).

    Integers for INT, LONG and REFERENCE (ordinals); truth values for BOOLEAN; floats, or raw bits as uint32 and
    uint64, for FLOAT and DOUBLE. Values of rows that are not there are not looked at.
    """

    values: NDArray[Any]
    valid: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class VariableColumn:
    """Values of a STRING or BYTES field: row i is `data[offsets[i]:offsets[i + 1]]`.

    Text is UTF-8 (lone surrogates as three bytes), or with `units` already Hollow's VInt per UTF-16 unit.
    """

    offsets: Offsets
    data: Bytes
    valid: NDArray[np.bool_] | None = None
    units: bool = False


AnyColumn = Column | VariableColumn


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Checked records that are serialized piece by piece, so that their bytes are still near when they are hashed."""

    rows: int
    piece: Callable[[int, int], Serialized]
    """Serializes the rows from one number to another."""

    def whole(self) -> Serialized:
        """All records at once."""
        return self.piece(0, self.rows)


def object_batch(
    schema: ObjectSchema,
    columns: Mapping[str, AnyColumn],
    count: int | None,
    max_ordinals: Mapping[str, int],
) -> Batch:
    """Records of an OBJECT type from one column per field; a field without a column is null.

    `max_ordinals` holds the highest ordinal of each type that may be referred to.
    """
    for name in columns:
        if schema.position(name) < 0:
            names = ", ".join(field.name for field in schema.fields) or "none"
            raise InputError(f"type {schema.name} has no field {name!r}; fields: {names}", "UnknownField")
    rows = _row_count(schema, columns, count)
    kinds = field_kinds(schema)
    prepared = [
        _prepared(schema, field, columns.get(field.name), rows, max_ordinals.get(field.referenced or ""))
        for field in schema.fields
    ]

    def piece(start: int, stop: int) -> Serialized:
        part = [
            (values[start:stop], valid[start:stop], offsets[start : stop + 1], data)
            for values, valid, offsets, data in prepared
        ]
        return records.serialize_objects(kinds, part, stop - start)

    return Batch(rows, piece)


def list_batch(type_name: str, offsets: NDArray[Any], elements: NDArray[Any], last: int | None) -> Batch:
    """Records of a LIST type: list i holds `elements[offsets[i]:offsets[i + 1]]`."""
    bounds = _checked_offsets(type_name, offsets, len(elements))
    ordinals = _checked_ordinals(type_name, "element", elements, bounds, last)
    return Batch(len(bounds) - 1, lambda start, stop: records.serialize_lists(bounds[start : stop + 1], ordinals))


def set_batch(
    type_name: str,
    offsets: NDArray[Any],
    elements: NDArray[Any],
    hash_codes: NDArray[np.int32] | None,
    last: int | None,
) -> Batch:
    """Records of a SET type: set i holds `elements[offsets[i]:offsets[i + 1]]`."""
    bounds = _checked_offsets(type_name, offsets, len(elements))
    _check_sizes(type_name, bounds)
    ordinals = _checked_ordinals(type_name, "element", elements, bounds, last)
    codes = _codes(type_name, hash_codes, len(elements))
    return Batch(
        len(bounds) - 1,
        lambda start, stop: records.serialize_sets(bounds[start : stop + 1], ordinals, codes, _MIXED),
    )


def map_batch(
    type_name: str,
    offsets: NDArray[Any],
    keys: NDArray[Any],
    values: NDArray[Any],
    hash_codes: NDArray[np.int32] | None,
    last_key: int | None,
    last_value: int | None,
) -> Batch:
    """Records of a MAP type: map i holds the entries from `offsets[i]` to `offsets[i + 1]`."""
    if len(keys) != len(values):
        raise InputError(f"type {type_name}: {len(keys)} keys, {len(values)} values", "Lengths")
    bounds = _checked_offsets(type_name, offsets, len(keys))
    _check_sizes(type_name, bounds)
    key_ordinals = _checked_ordinals(type_name, "key", keys, bounds, last_key)
    value_ordinals = _checked_ordinals(type_name, "value", values, bounds, last_value)
    codes = _codes(type_name, hash_codes, len(keys))
    return Batch(
        len(bounds) - 1,
        lambda start, stop: records.serialize_maps(
            bounds[start : stop + 1], key_ordinals, value_ordinals, codes, _MIXED
        ),
    )


def _row_count(schema: ObjectSchema, columns: Mapping[str, AnyColumn], count: int | None) -> int:
    for name, column in columns.items():
        rows = len(column.values) if isinstance(column, Column) else len(column.offsets) - 1
        if count is None:
            count = rows
        if rows != count:
            raise InputError(f"{schema.name}.{name}: {rows:,} rows where {count:,} are expected", "Lengths")
        if column.valid is not None and len(column.valid) != rows:
            raise InputError(f"{schema.name}.{name}: {len(column.valid):,} validities for {rows:,} rows", "Lengths")
    if count is None:
        raise InputError(f"type {schema.name}: neither columns nor a count of records", "Lengths")
    return count


def _prepared(
    schema: ObjectSchema, field: Field, column: AnyColumn | None, rows: int, last: int | None
) -> tuple[NDArray[np.uint64], Bytes, Offsets, Bytes]:
    if column is None:
        nothing = np.zeros(rows, np.uint8)
        if field.type.is_variable:
            return _NO_WORDS, nothing, np.zeros(rows + 1, np.int64), _NO_BYTES
        return np.zeros(rows, np.uint64), nothing, _NO_OFFSETS, _NO_BYTES
    valid = _NO_BYTES if column.valid is None else np.ascontiguousarray(column.valid, np.bool_).view(np.uint8)
    where = f"{schema.name}.{field.name}"
    if isinstance(column, VariableColumn):
        if not field.type.is_variable:
            raise InputError(f"{where} is {field.type}: its column holds texts or bytes", "WrongType")
        offsets, data = _variable(where, field, column)
        return _NO_WORDS, valid, offsets, data
    return _fixed(where, field, column, last), valid, _NO_OFFSETS, _NO_BYTES


def _fixed(where: str, field: Field, column: Column, last: int | None) -> NDArray[np.uint64]:
    values = np.asarray(column.values)
    kind = values.dtype.kind
    match field.type:
        case FieldType.INT if kind in "iu":
            _check_range(where, field.type, column, values, *_INT_RANGE)
        case FieldType.LONG if kind in "iu":
            _check_range(where, field.type, column, values, *_LONG_RANGE)
        case FieldType.REFERENCE if kind in "iu":
            _check_range(where, "ordinal", column, values, 0, MAX_ORDINAL if last is None else last)
        case FieldType.BOOLEAN if kind == "b":
            return values.astype(np.uint64)
        case FieldType.FLOAT if values.dtype in (np.float16, np.float32):
            return values.astype(np.float32).view(np.uint32).astype(np.uint64)
        case FieldType.FLOAT if values.dtype == np.uint32:
            return values.astype(np.uint64)
        case FieldType.DOUBLE if kind == "f" and values.dtype.itemsize <= 8:
            return np.ascontiguousarray(values, np.float64).view(np.uint64)
        case FieldType.DOUBLE if values.dtype == np.uint64:
            return np.ascontiguousarray(values)
        case _:
            raise InputError(f"{where} is {field.type}: its column holds {values.dtype}", "WrongType")
    # Rows that are not there may hold anything; what they wrap to is never looked at.
    return np.ascontiguousarray(values.astype(np.int64, copy=False)).view(np.uint64)


def _check_range(where: str, what: str, column: Column, values: NDArray[Any], low: int, high: int) -> None:
    limits = np.iinfo(values.dtype)
    if not len(values) or (limits.min >= low and limits.max <= high):
        return
    if int(values.min()) >= low and int(values.max()) <= high:
        return
    outside = (values > high) if limits.min >= low else (values < low) | (values > high)
    if column.valid is not None:
        outside &= column.valid
    rows = np.flatnonzero(outside)
    if len(rows):
        row = int(rows[0])
        raise InputError(f"{where}, row {row}: {int(values[row])} is out of the range of {what}", "OutOfRange")


def _variable(where: str, field: Field, column: VariableColumn) -> tuple[Offsets, Bytes]:
    offsets = _checked_offsets(where, column.offsets, len(column.data))
    data = np.ascontiguousarray(column.data, np.uint8)
    if field.type is FieldType.STRING and not column.units and not text.is_ascii(data):
        begin, end = int(offsets[0]), int(offsets[-1])
        utf8 = data[begin:end]
        offsets, data, malformed = text.utf8_to_units(offsets - begin, utf8)
        if malformed:
            _refuse_malformed(where, column, utf8, begin)
    longest = int(np.diff(offsets).max()) if len(offsets) > 1 else 0
    if longest > MAX_VALUE_BYTES:
        row = int(np.diff(offsets).argmax())
        raise InputError(
            f"{where}, row {row}: a value of {longest:,} bytes, at most {MAX_VALUE_BYTES:,} can be", "TooLong"
        )
    return offsets, data


def _refuse_malformed(where: str, column: VariableColumn, utf8: Bytes, begin: int) -> None:
    whole = utf8.tobytes()
    bounds = (np.asarray(column.offsets, np.int64) - begin).tolist()
    for row, (start, end) in enumerate(pairwise(bounds)):
        # What a row that is not there holds is not looked at.
        if column.valid is None or column.valid[row]:
            try:
                whole[start:end].decode("utf-8", "surrogatepass")
            except UnicodeDecodeError as error:
                shown = whole[start:end][:60]
                raise InputError(f"{where}, row {row}: the text {shown!r} is no UTF-8", "BadText") from error


def _checked_offsets(where: str, offsets: NDArray[Any], available: int) -> Offsets:
    bounds = np.ascontiguousarray(offsets, np.int64)
    if not len(bounds):
        raise InputError(f"{where}: offsets need one entry more than there are rows", "Lengths")
    if (
        int(bounds[0]) < 0
        or int(bounds[-1]) > available
        or (len(bounds) > 1 and bool((bounds[1:] < bounds[:-1]).any()))
    ):
        raise InputError(f"{where}: offsets must rise and stay within {available:,}", "Offsets")
    return bounds


def _checked_ordinals(where: str, what: str, values: NDArray[Any], bounds: Offsets, last: int | None) -> Ordinals:
    if not len(values):
        return _NO_HASHES
    if values.dtype.kind not in "iu":
        raise InputError(f"type {where}: {what} ordinals are {values.dtype}", "WrongType")
    highest = MAX_ORDINAL if last is None else last
    if int(values.min()) < 0 or int(values.max()) > highest:
        place = int(np.flatnonzero((values < 0) | (values > highest))[0])
        row = int(np.searchsorted(bounds, place, side="right")) - 1
        raise InputError(f"type {where}, row {row}: {what} {int(values[place])} is no ordinal in use", "OutOfRange")
    return np.ascontiguousarray(values, np.int32)


def _check_sizes(type_name: str, bounds: Offsets) -> None:
    sizes = np.diff(bounds)
    if len(sizes) and int(sizes.max()) > MAX_COLLECTION_ELEMENTS:
        row = int(sizes.argmax())
        raise InputError(
            f"type {type_name}, row {row}: {int(sizes[row]):,} elements, "
            f"at most {MAX_COLLECTION_ELEMENTS:,} can be hashed",
            "TooLarge",
        )


def _codes(type_name: str, hash_codes: NDArray[np.int32] | None, count: int) -> Ordinals:
    if hash_codes is None:
        return _NO_HASHES
    if len(hash_codes) != count:
        raise InputError(f"type {type_name}: {count:,} elements, {len(hash_codes):,} hash codes", "Lengths")
    return np.ascontiguousarray(hash_codes, np.int32)
