"""Records as JSON text, made by column: what many records share is put into words once.

References are followed and boxed values unwrapped, as `to_dict` does. BYTES are base64; a map is an object if its keys
are texts and a list of pairs if not; NaN and the infinities are written as Python's `json` does. Dates, times and
decimals are texts (`logical_values`). `ingest_dicts` reads all of it back.
"""

import base64
import json
from itertools import pairwise
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.links import refers_to_itself, type_groups
from deltaic.compare.logical_values import JSON_TEXTS, LogicalValues, json_text, logical_list, stands_for_another
from deltaic.compare.vectors import columns_of
from deltaic.errors import InputError
from deltaic.kernels.content import Numbers
from deltaic.schema.logical import LogicalType
from deltaic.schema.types import Field, FieldType, MapSchema, ObjectSchema
from deltaic.state.columns import Column, FixedColumn
from deltaic.state.ingest_plan import wrapped_type
from deltaic.state.read import ReadState
from deltaic.state.records import is_boxed
from deltaic.state.vector_arrow import present_rows
from deltaic.state.vector_column import StoredVectors

Ordinals = NDArray[np.int64]
_VECTOR_ROWS = 1024
MAX_DEPTH = 64
"""How deep records are followed that refer to records of their own type."""


class JsonTexts:
    """Makes JSON of the records of one state."""

    def __init__(self, state: ReadState, *, skip_nulls: bool = False, logical: bool = True) -> None:
        self._state, self._skip_nulls = state, skip_nulls
        self._values = LogicalValues(state, logical=logical)
        schemas = {name: data.schema for name, data in state.types.items()}
        groups = type_groups(schemas.values())
        self._circles = {name for group in groups if refers_to_itself(group, schemas) for name in group}
        self._memo: dict[tuple[str, LogicalType | None], list[str | None]] = {}

    def of(self, type_name: str, ordinals: Ordinals) -> list[str]:
        """The text of each record."""
        if not len(ordinals):
            return []
        if any(name in self._circles for name in self._state.schemas.closure([type_name]).names):
            return [self._one(type_name, ordinal) for ordinal in ordinals.tolist()]
        return self._records(type_name, ordinals)

    def _one(self, type_name: str, ordinal: int) -> str:
        """A record that may lead to itself: followed one by one, up to a depth."""
        found = self._state[type_name][ordinal]
        value = found.to_python(max_depth=MAX_DEPTH) if hasattr(found, "to_python") else found
        return json.dumps(as_json(self._values.of(type_name, value)))

    def _records(
        self, type_name: str, ordinals: Ordinals, note: LogicalType | None = None, *, inside: bool = False
    ) -> list[str]:
        schema = self._state.types[type_name].schema
        if isinstance(schema, ObjectSchema):
            if is_boxed(schema):
                column = self._state[type_name].column(schema.fields[0].name, ordinals)
                return logical_texts(column, self._values.boxed(type_name, note), type_name)
            vectors = columns_of(self._state, type_name)
            fields = [field for field in schema.fields if field.name not in vectors]
            columns = [self._field(type_name, field, ordinals) for field in fields]
            if inside and wrapped_type(schema) is not None:
                return columns[0]
            columns += [vector_texts(column, ordinals) for column in vectors.values()]
            names = [
                encode_basestring_ascii(name).replace("%", "%%")
                for name in (*(field.name for field in fields), *vectors)
            ]
            if self._skip_nulls:
                return (
                    [_object(names, row) for row in zip(*columns, strict=True)] if columns else ["{}"] * len(ordinals)
                )
            template = "{" + ", ".join(f"{name}: %s" for name in names) + "}"
            return list(map(template.__mod__, zip(*columns, strict=True))) if columns else ["{}"] * len(ordinals)
        members = self._state[type_name].members(ordinals)
        bounds = list(pairwise(members.offsets.tolist()))
        if not isinstance(schema, MapSchema):
            texts = self._links(schema.element, members.elements, self._values.note(type_name, "element"))
            return [f"[{', '.join(texts[start:end])}]" for start, end in bounds]
        assert members.values is not None
        keys = self._links(schema.key, members.elements, self._values.note(type_name, "key"))
        values = self._links(schema.value, members.values, self._values.note(type_name, "value"))
        # An object keeps the last of equal names, so keys that are not texts, or are null, stay pairs.
        if self._is_text(schema.key) and "null" not in keys:
            entries = [f"{key}: {value}" for key, value in zip(keys, values, strict=True)]
            return [f"{{{', '.join(entries[start:end])}}}" for start, end in bounds]
        entries = [f"[{key}, {value}]" for key, value in zip(keys, values, strict=True)]
        return [f"[{', '.join(entries[start:end])}]" for start, end in bounds]

    def _is_text(self, type_name: str) -> bool:
        data = self._state.types.get(type_name)
        if data is None or not is_boxed(data.schema):
            return False
        assert isinstance(data.schema, ObjectSchema)
        return data.schema.fields[0].type is FieldType.STRING

    def _field(self, type_name: str, field: Field, ordinals: Ordinals) -> list[str]:
        column = self._state[type_name].column(field.name, ordinals)
        if field.referenced is None:
            return logical_texts(column, self._values.scalar(type_name, field), f"{type_name}.{field.name}")
        assert isinstance(column, FixedColumn)
        note = self._values.note(type_name, field.name)
        if column.valid is None:
            return self._links(field.referenced, column.values, note)
        texts = ["null"] * len(column)
        rows = np.flatnonzero(column.valid)
        for row, text in zip(rows.tolist(), self._links(field.referenced, column.values[rows], note), strict=True):
            texts[row] = text
        return texts

    def _links(self, type_name: str, targets: NDArray[np.int32], note: LogicalType | None) -> list[str]:
        """The texts of what references lead to, each record put into words once."""
        if not len(targets):
            return []
        if type_name not in self._state:
            return [f'{{"type": {encode_basestring_ascii(type_name)}, "ordinal": {each}}}' for each in targets.tolist()]
        memo = self._memo.get((type_name, note))
        if memo is None:
            memo = self._memo[type_name, note] = [None] * (self._state.types[type_name].max_ordinal + 1)
        wanted = np.unique(targets)
        missing = [ordinal for ordinal in wanted.tolist() if memo[ordinal] is None]
        found = self._records(type_name, np.array(missing, np.int64), note, inside=True)
        for ordinal, text in zip(missing, found, strict=True):
            memo[ordinal] = text
        return [memo[target] or "null" for target in targets.tolist()]


def logical_texts(column: Column, note: LogicalType | None, where: str) -> list[str]:
    """The values of a column as JSON texts of what they stand for."""
    if note is None or not stands_for_another(note):
        return scalar_texts(column)
    return [json.dumps(as_json(value)) for value in logical_list(column, note, where)]


def vector_texts(column: StoredVectors, ordinals: Ordinals) -> list[str]:
    """The vectors of ordinals as JSON texts: the shortest numbers that give the same 32 bits again."""
    texts = ["null"] * len(ordinals)
    places = np.flatnonzero(present_rows(column, ordinals))
    for start in range(0, len(places), _VECTOR_ROWS):
        part = places[start : start + _VECTOR_ROWS]
        rows = column.rows(ordinals[part])
        numbers = rows.astype(str)
        odd = ~np.isfinite(rows)
        if odd.any():
            numbers = numbers.astype(object)
            numbers[odd] = [json.dumps(float(value)) for value in rows[odd]]
        for place, row in zip(part.tolist(), numbers.tolist(), strict=True):
            texts[place] = f"[{', '.join(row)}]"
    return texts


def scalar_texts(column: Column) -> list[str]:
    """The values of a column as JSON texts."""
    values = column.to_pylist()
    match column.type:
        case FieldType.STRING:
            return ["null" if value is None else encode_basestring_ascii(value) for value in values]
        case FieldType.BYTES:
            return ["null" if value is None else f'"{base64.b64encode(value).decode()}"' for value in values]
        case FieldType.INT | FieldType.LONG | FieldType.REFERENCE:
            return ["null" if value is None else str(value) for value in values]
        case FieldType.FLOAT:
            # The shortest text that gives the same 32 bits again, not that of the same value in 64.
            shortest = column.values.astype(str).tolist() if isinstance(column, FixedColumn) else []
            return [
                "null" if value is None else _special(value) or text
                for value, text in zip(values, shortest, strict=True)
            ]
        case _:
            return list(map(json.dumps, values))


def _special(value: float) -> str | None:
    if value != value or value in (float("inf"), float("-inf")):
        return json.dumps(value)
    return None


def _object(names: list[str], row: tuple[str, ...]) -> str:
    parts = [f"{name.replace('%%', '%')}: {text}" for name, text in zip(names, row, strict=True) if text != "null"]
    return "{" + ", ".join(parts) + "}"


def as_json(value: Any) -> Any:
    """A value of `to_python` as JSON can hold it: bytes as base64, dates and decimals as texts, maps with keys that are
    no texts as pairs.
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: as_json(item) for key, item in value.items()}
        return [[as_json(key), as_json(item)] for key, item in value.items()]
    if hasattr(value, "_asdict"):
        return {"type": value.type_name, "ordinal": value.ordinal}
    if isinstance(value, Numbers):
        # The shortest numbers that give the same 32 bits again.
        return [float(text) for text in np.asarray(value, np.float32).astype(str).tolist()]
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, JSON_TEXTS):
        return json_text(value)
    if value is not None and not isinstance(value, str | int | float | bool):
        raise InputError(f"{type(value).__name__} is no value of a record")
    return value
