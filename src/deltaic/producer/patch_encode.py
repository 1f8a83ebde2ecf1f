"""Values of patches as fields keep them: columns of numbers and texts at once, others one by one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.kernels import text
from deltaic.producer.patch_routes import Route
from deltaic.schema.logical import LogicalType, natural
from deltaic.schema.types import FieldType, ObjectSchema
from deltaic.state.ingest_plan import Place
from deltaic.state.ingest_python import encode_python
from deltaic.state.ingest_rows import Fixed, Rows, Variable
from deltaic.wire.patches import ColumnKind, PatchColumn, PatchGroup, join_place

Encoded = Fixed | Variable

_DIRECT = {
    (ColumnKind.BOOL, FieldType.BOOLEAN): np.bool_,
    (ColumnKind.FLOAT64, FieldType.DOUBLE): np.float64,
    (ColumnKind.FLOAT32, FieldType.FLOAT): np.float32,
    (ColumnKind.FLOAT32, FieldType.DOUBLE): np.float64,
}
_RANGES = {FieldType.INT: (np.int32, 31), FieldType.LONG: (np.int64, 63)}


def encoded(
    column: PatchColumn | None, scalar: LogicalType, group: PatchGroup, rows: NDArray[np.int64] | None, route: Route
) -> Encoded:
    """Some rows of a column as a field keeps them; None for a column of nulls.

    Raises:
        InputError: a value that the field cannot hold, with the key of its record.
    """
    if rows is not None and column is not None and len(rows) != group.count:
        column = column.picked(rows)
    count = group.count if rows is None else len(rows)
    if column is None:
        column = PatchColumn(ColumnKind.NULL, count)
    made = _at_once(column, scalar)
    if made is not None:
        return made
    return _one_by_one(column.to_list(), scalar, group, rows, route)


def values_list(values: Encoded) -> list[bytes | None]:
    """Each value as the bytes that keep it, None for null."""
    if isinstance(values, Fixed):
        width = values.values.dtype.itemsize
        data = np.ascontiguousarray(values.values).tobytes()
        found: list[bytes | None] = [data[start : start + width] for start in range(0, len(data), width)]
    else:
        data = values.data.tobytes()
        found = [data[start:end] for start, end in zip(values.starts.tolist(), values.ends.tolist(), strict=True)]
    if values.valid is not None:
        for row in np.flatnonzero(~values.valid).tolist():
            found[row] = None
    return found


def shown(values: Encoded, schema: ObjectSchema, name: str) -> Any:
    """One value, for people."""
    if values.valid is not None and not values.valid[0]:
        return None
    if isinstance(values, Fixed):
        return values.values[0].item()
    data = values.data[int(values.starts[0]) : int(values.ends[0])]
    if schema.fields[schema.position(name)].type is FieldType.BYTES:
        return data.tobytes()
    bounds = np.array([0, len(data)], np.int64)
    _, utf8, _, _ = text.units_to_utf8(np.ascontiguousarray(data), bounds[:1], bounds[1:])
    return utf8.tobytes().decode("utf-8", "surrogatepass")


def _at_once(column: PatchColumn, scalar: LogicalType) -> Encoded | None:
    """The values without looking at them one by one; None if one of them may not fit."""
    field_type = scalar.field_type
    if scalar != natural(field_type) or not scalar.nullable:
        return None
    if column.kind is ColumnKind.NULL:
        nothing = np.zeros(column.count, np.bool_)
        if field_type.is_variable:
            ends = np.zeros(column.count, np.int64)
            return Variable(ends, ends, np.zeros(0, np.uint8), nothing)
        dtype = {FieldType.INT: np.int32, FieldType.LONG: np.int64, FieldType.BOOLEAN: np.bool_}
        floats = np.float32 if field_type is FieldType.FLOAT else np.float64
        return Fixed(np.zeros(column.count, dtype.get(field_type, floats)), nothing)
    if column.kind is ColumnKind.INT and field_type in _RANGES:
        assert column.values is not None
        wanted, bits = _RANGES[field_type]
        # The smallest number means null where it is kept.
        if len(column.values) and (int(column.values.min()) <= -(1 << bits) or int(column.values.max()) >= 1 << bits):
            return None
        return Fixed(column.values.astype(wanted, copy=False), column.valid)
    direct = _DIRECT.get((column.kind, field_type))
    if direct is not None:
        assert column.values is not None
        return Fixed(column.values.astype(direct, copy=False), column.valid)
    if column.kind is ColumnKind.BYTES and field_type is FieldType.BYTES:
        assert column.offsets is not None and column.data is not None
        return Variable(column.offsets[:-1], column.offsets[1:], column.data, column.valid)
    if column.kind is ColumnKind.TEXT and field_type is FieldType.STRING:
        assert column.offsets is not None and column.data is not None
        if text.is_ascii(column.data):
            return Variable(column.offsets[:-1], column.offsets[1:], column.data, column.valid)
        offsets, data, malformed = text.utf8_to_units(column.offsets, np.ascontiguousarray(column.data))
        return None if malformed else Variable(offsets[:-1], offsets[1:], data, column.valid)
    return None


def _one_by_one(
    values: list[Any], scalar: LogicalType, group: PatchGroup, rows: NDArray[np.int64] | None, route: Route
) -> Encoded:
    path = f"{route.type_name}.{route.path}"
    place = Rows(Place(None, path, 0), len(values))  # type: ignore[arg-type]
    try:
        return encode_python(values, scalar, place, path, as_json=True)
    except InputError as error:
        for number, value in enumerate(values):
            try:
                encode_python([value], scalar, Rows(Place(None, path, 0), 1), path, as_json=True)  # type: ignore[arg-type]
            except InputError as own:
                row = number if rows is None else int(rows[number])
                key = group.key_values()[row]
                selectors = tuple(selector.to_list()[row] for selector in group.selectors)
                why = str(own).partition(": ")[2] or str(own)
                raise InputError(
                    f"{group.type_name} {key!r}, {join_place(route.path, selectors)}: {why}", own.code
                ) from error
        raise
