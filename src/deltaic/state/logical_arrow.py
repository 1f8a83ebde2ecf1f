"""Columns as what they stand for: dates, decimals, unsigned numbers, fixed-size lists (the header tag `deltaic.types`).

A Hollow field carries a logical type in a physical one. Here the physical Arrow column that a state gives becomes the
logical one again, so that rows that were published come back with equal values and types. Texts and lists that were
views, and columns that were dictionary-encoded, come back plain: equal values, and the type of the values.
"""

from dataclasses import replace

import numpy as np

from deltaic.binary.arrow import ArrowColumn, ArrowField, null_column
from deltaic.errors import DecodeError
from deltaic.schema.logical import LogicalType
from deltaic.schema.types import MapSchema, ObjectSchema, Schema

_PLAIN = {"vu": "u", "vz": "z", "+vl": "+l", "+vL": "+l"}


def fitting(note: LogicalType | None, schema: Schema, boxed: bool) -> LogicalType | None:
    """The note of a reference if it fits what is referred to: a tag may be damaged, or of another model."""
    if note is None:
        return None
    if boxed:
        assert isinstance(schema, ObjectSchema)
        return note if not note.is_nested and note.field_type is schema.fields[0].type else None
    if not note.is_nested:
        return None
    if isinstance(schema, ObjectSchema):
        wrapper = len(schema.fields) == 1 and schema.fields[0].referenced is not None
        return note if (wrapper if note.wide else note.format == "+s") else None
    expected = "+m" if isinstance(schema, MapSchema) else "+s"
    return None if note.wide or (note.format == "+m") != (expected == "+m") or note.format == "+s" else note


def logical_field(field: ArrowField, note: LogicalType | None) -> ArrowField:
    """The type of a column of which `note` says what it stands for."""
    if note is None:
        return field
    if note.is_nested and note.wide:
        inner = field.children[0]
        return replace(inner, name=field.name, format=_format(inner.format, note), nullable=True)
    return replace(field, format=_format(field.format, note), nullable=note.nullable)


def logical_column(column: ArrowColumn, note: LogicalType | None, where: str) -> ArrowColumn:
    """The column that `column`, in Hollow's form, stands for.

    Raises:
        DecodeError: code `TypeRange`, a value that the logical type does not have.
    """
    if note is None:
        return column
    field = logical_field(column.field, note)
    if note.is_nested:
        return _nested(column, field, note)
    if note.format == "n":
        return ArrowColumn(field, column.length)
    if note.storage is None:
        return replace(column, field=field, valid=column.valid if note.nullable else None)
    physical = column.data
    assert physical is not None
    if column.offsets is not None:
        physical = _rows_of_bytes(column, 8 if note.wide else note.width, where)
    values, present = note.decode(physical, column.valid, where)
    valid = None if present.all() else present
    return ArrowColumn(field, column.length, valid, values)


def _format(found: str, note: LogicalType) -> str:
    if note.is_nested and found == "+L" and note.format == "+l":
        return found  # more elements than a plain list can have
    if not note.is_nested and note.storage is None and found in ("U", "Z") and note.format in ("u", "z"):
        return found
    return _PLAIN.get(note.format, note.format)


def _rows_of_bytes(column: ArrowColumn, width: int, where: str) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Byte strings of one width as rows; a null is a row of zeros."""
    assert column.offsets is not None and column.data is not None
    lengths = np.diff(column.offsets)
    present = np.ones(column.length, np.bool_) if column.valid is None else column.valid
    wrong = present & (lengths != width)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DecodeError("TypeRange", f"{int(lengths[row])} bytes where {width} must be", f"{where}, row {row}")
    rows = np.zeros((column.length, width), np.uint8)
    places = column.offsets[:-1][present][:, None] + np.arange(width)
    rows[present] = column.data[places]
    return rows


def _nested(column: ArrowColumn, field: ArrowField, note: LogicalType) -> ArrowColumn:
    if note.wide:
        # A type {value} in between keeps what is null: the value is what was meant.
        inner = column.children[0]
        column = replace(inner, field=replace(inner.field, name=column.field.name))
        note = LogicalType(note.format)
    if note.format.startswith("+w:") and column.offsets is not None:
        return _fixed_size(column, field, int(note.format[3:]))
    children = tuple(child.field for child in column.children)
    return replace(column, field=replace(field, children=children))


def _fixed_size(column: ArrowColumn, field: ArrowField, size: int) -> ArrowColumn:
    """Lists of one size without offsets; a null list has elements too, of any value."""
    assert column.offsets is not None
    child = column.children[0]
    present = np.ones(column.length, np.bool_) if column.valid is None else column.valid
    wrong = present & (np.diff(column.offsets) != size)
    if wrong.any():
        row = int(np.argmax(wrong))
        found = int(np.diff(column.offsets)[row])
        raise DecodeError("TypeRange", f"a list of {found} where {size} must be", f"{field.name}, row {row}")
    if child.length == 0:
        items = null_column(child, column.length * size)
    else:
        starts = np.where(present, column.offsets[:-1], 0)
        places = starts[:, None] + np.where(present[:, None], np.arange(size), 0)
        items = child.take(places.ravel().astype(np.int64))
    return ArrowColumn(replace(field, children=(items.field,)), column.length, column.valid, children=(items,))
