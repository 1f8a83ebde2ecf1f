"""Values as what they stand for: dates, times, decimals, unsigned and wide numbers, as `to_arrow` gives them.

What a field stands for is in the header tag `deltaic.types`, if the producer noted it. In JSON and for people a date, a
time and a moment are texts of ISO 8601 and a decimal is the text of its digits; `ingest_dicts` reads them back. A
duration, and what Python's types cannot hold (nanoseconds, the year 12,000), stays the number that carries it.
"""

import datetime
import decimal
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import DecodeError
from deltaic.kernels.content import Numbers
from deltaic.schema.logical import LogicalType
from deltaic.schema.mapping import TYPES_TAG, read_types_tag, to_python
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state.columns import Column
from deltaic.state.ingest_plan import wrapped_type
from deltaic.state.logical_arrow import fitting, logical_column
from deltaic.state.read import ReadState
from deltaic.state.records import is_boxed

_DTYPES = {FieldType.INT: np.int32, FieldType.LONG: np.int64}
_DAY_SECONDS = 86_400
_TICKS = {"s": 1, "m": 1_000, "u": 1_000_000, "n": 1_000_000_000}


class LogicalValues:
    """What the fields of a state stand for.

    Args:
        state: whose header tags and schemas say so.
        logical: False takes every value as the number or the bytes that carry it.
    """

    def __init__(self, state: ReadState, *, logical: bool = True) -> None:
        self._notes = read_types_tag(state.header_tags.get(TYPES_TAG, "")) if logical else {}
        self._schemas: Mapping[str, Schema] = {name: data.schema for name, data in state.types.items()}
        self._changes = bool(self._notes) or any(wrapped_type(schema) for schema in self._schemas.values())

    def note(self, type_name: str, place: str) -> LogicalType | None:
        """What is noted of a field, or of the `element`, `key` or `value` of a collection."""
        return self._notes.get(type_name, {}).get(place)

    def scalar(self, type_name: str, field: Field) -> LogicalType | None:
        """What a field that is no reference stands for; None if its own type says it, or the note does not fit."""
        note = self.note(type_name, field.name)
        return note if note is not None and not note.is_nested and note.field_type is field.type else None

    def boxed(self, type_name: str, note: LogicalType | None) -> LogicalType | None:
        """What the value of a boxed type stands for; `note` is that of the reference to it."""
        schema = self._schemas[type_name]
        assert isinstance(schema, ObjectSchema)
        return fitting(note, schema, True) or self.scalar(type_name, schema.fields[0])

    def of(self, type_name: str, value: Any) -> Any:
        """A record as `to_python` gives it, with every value as what it stands for."""
        return self._record(type_name, value, None, root=True) if self._changes else value

    def _record(self, type_name: str, value: Any, note: LogicalType | None, *, root: bool = False) -> Any:
        schema = self._schemas.get(type_name)
        if schema is None or (value is None and not is_boxed(schema)):
            return value
        match schema:
            case ObjectSchema() if is_boxed(schema):
                return logical_value(value, self.boxed(type_name, note), type_name)
            case ObjectSchema() if isinstance(value, dict):
                found = {
                    field.name: self._field(type_name, field, value[field.name])
                    for field in schema.fields
                    if not isinstance(value[field.name], Numbers)
                }
                found = {name: found.get(name, each) for name, each in value.items()}
                # A type {value} in between only keeps what is null inside a collection.
                return found["value"] if wrapped_type(schema) is not None and not root else found
            case MapSchema():
                keys, values = self.note(type_name, "key"), self.note(type_name, "value")
                pairs = [
                    (self._record(schema.key, key, keys), self._record(schema.value, item, values))
                    for key, item in (value.items() if isinstance(value, dict) else value)
                ]
                return dict(pairs) if isinstance(value, dict) else pairs
            case ListSchema() | SetSchema() if isinstance(value, list):
                element = self.note(type_name, "element")
                return [self._record(schema.element, item, element) for item in value]
        return value

    def _field(self, type_name: str, field: Field, value: Any) -> Any:
        if field.referenced is None:
            return logical_value(value, self.scalar(type_name, field), f"{type_name}.{field.name}")
        return None if value is None else self._record(field.referenced, value, self.note(type_name, field.name))


_of_states: "WeakKeyDictionary[ReadState, LogicalValues]" = WeakKeyDictionary()


def logical_values(state: ReadState) -> LogicalValues:
    """What the fields of a state stand for, read once for all who ask."""
    found = _of_states.get(state)
    if found is None:
        found = _of_states[state] = LogicalValues(state)
    return found


def stands_for_another(note: LogicalType | None) -> bool:
    """True if values are not what carries them, or null may stand for a number."""
    if note is None or note.storage is None or note.format == "n":
        return False
    return note.format[0] in "td" or (note.storage.kind in "iu" and not note.width)


def logical_list(column: Column, note: LogicalType, where: str) -> list[Any]:
    """The values of a column as Python has what they stand for, None for null."""
    made = logical_column(column.arrow_column(), note, where)
    assert made.data is not None
    return _python(made.data, made.valid, note)


def logical_value(value: Any, note: LogicalType | None, where: str) -> Any:
    """One value as Python has what it stands for."""
    if note is None or not stands_for_another(note):
        return value
    present = np.array([value is not None])
    if note.field_type is FieldType.BYTES:
        width = 8 if note.wide else note.width
        data = bytes(width) if value is None else value
        if len(data) != width:
            raise DecodeError("TypeRange", f"{len(data)} bytes where {width} must be", where)
        physical: NDArray[Any] = np.frombuffer(data, np.uint8).reshape(1, width)
    else:
        physical = np.array([0 if value is None else value], _DTYPES[note.field_type])
    values, valid = note.decode(physical, present, where)
    return _python(values, valid, note)[0]


def json_text(value: Any) -> str:
    """A date, time, moment or decimal as JSON and people have it."""
    return format(value, "f") if isinstance(value, decimal.Decimal) else str(value.isoformat())


JSON_TEXTS = (datetime.date, datetime.time, decimal.Decimal)
"""Values that are texts in JSON."""


def _python(values: NDArray[Any], valid: NDArray[np.bool_] | None, note: LogicalType) -> list[Any]:
    found: list[Any]
    if note.format.startswith("d:"):
        scale = int(note.format[2:].split(",")[1])
        context = decimal.Context(prec=80)
        found = [
            decimal.Decimal(int.from_bytes(row.tobytes(), "little", signed=True)).scaleb(-scale, context)
            for row in values
        ]
    elif note.format[0] == "t":
        found = [_moment(value, note) for value in values.tolist()]
    else:
        found = values.tolist()
    if valid is not None:
        for row in np.flatnonzero(~valid).tolist():
            found[row] = None
    return found


def _moment(value: int, note: LogicalType) -> Any:
    """A date, a time or a moment; the number itself for a duration, and where Python has none."""
    kind = note.format[:2]
    if kind == "tD" or (note.format == "tdm" and value % (1_000 * _DAY_SECONDS)):
        return value
    if kind == "tt" and not 0 <= value < _TICKS[note.format[2]] * _DAY_SECONDS:
        return value
    try:
        return to_python(value, note)
    except (OverflowError, ValueError):
        return value
