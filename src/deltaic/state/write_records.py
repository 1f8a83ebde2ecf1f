"""One record at a time: values checked against the schema and serialized (hollow-blob.md, section 11).

What Java's write API does is done here: the smallest INT and LONG become null, every NaN is the same NaN. A value
that the field cannot hold is refused with type, field and value.
"""

import operator
import struct
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from deltaic.errors import InputError
from deltaic.kernels import hashing, text
from deltaic.limits import MAX_COLLECTION_ELEMENTS, MAX_ORDINAL
from deltaic.schema.types import Field, FieldType, ObjectSchema
from deltaic.wire.write_stream import varint

MAX_VALUE_BYTES: Final = 2**31 - 1
"""Bytes of one STRING or BYTES value: Java counts them in an int."""

_NULL = b"\x80"
_NULLS = {FieldType.FLOAT: b"\x7f\xc0\x00\x01", FieldType.DOUBLE: b"\x7f\xf8\x00\x00\x00\x00\x00\x01"}
_EXPLICIT_NULL = b"\x01\x80"
_FLOAT_NAN, _DOUBLE_NAN = b"\x7f\xc0\x00\x00", b"\x7f\xf8\x00\x00\x00\x00\x00\x00"


class ObjectRecord:
    """A record of an OBJECT type, filled field by field and reusable after `reset`. Fields not set are null."""

    __slots__ = ("_fields", "_positions", "_references", "schema")

    def __init__(self, schema: ObjectSchema) -> None:
        self.schema = schema
        self._positions = {field.name: position for position, field in enumerate(schema.fields)}
        self._fields: list[bytes | None] = [None] * len(schema.fields)
        self._references: dict[int, int] = {}

    def set(self, name: str, value: object) -> None:
        """Set a field; None leaves it null."""
        position = self._position(name)
        field = self.schema.fields[position]
        self._fields[position] = serialize_value(self.schema.name, field, value)
        if field.type is FieldType.REFERENCE:
            if isinstance(value, int | np.integer):
                self._references[position] = int(value)
            else:
                self._references.pop(position, None)

    def set_null(self, name: str) -> None:
        """Java's explicit call: like not setting the field, but STRING and BYTES then hold the one byte 0x80.

        Only for blobs that must equal Java's. Such a text reads back as empty.
        """
        position = self._position(name)
        variable = self.schema.fields[position].type.is_variable
        self._fields[position] = _EXPLICIT_NULL if variable else None
        self._references.pop(position, None)

    def reset(self) -> None:
        """Make all fields null."""
        self._fields = [None] * len(self._fields)
        self._references.clear()

    def references(self) -> list[tuple[Field, int]]:
        """The REFERENCE fields that are set, and the ordinals they name."""
        return [(self.schema.fields[position], ordinal) for position, ordinal in self._references.items()]

    def serialize(self) -> bytes:
        """The record's bytes."""
        return b"".join(
            _NULLS.get(field.type, _NULL) if data is None else data
            for field, data in zip(self.schema.fields, self._fields, strict=True)
        )

    def _position(self, name: str) -> int:
        try:
            return self._positions[name]
        except KeyError:
            names = ", ".join(self._positions) or "none"
            raise InputError(
                f"type {self.schema.name} has no field {name!r}; fields: {names}", "UnknownField"
            ) from None


def serialize_object(schema: ObjectSchema, values: Mapping[str, object]) -> bytes:
    """The bytes of a record with these values; missing fields and None are null."""
    record = ObjectRecord(schema)
    for name, value in values.items():
        record.set(name, value)
    return record.serialize()


def serialize_value(type_name: str, field: Field, value: object) -> bytes | None:
    """The bytes of one field, or None for null."""
    if value is None:
        return None
    match field.type:
        case FieldType.INT:
            return _integer(type_name, field, value, 32)
        case FieldType.LONG:
            return _integer(type_name, field, value, 64)
        case FieldType.REFERENCE:
            return varint(checked_ordinal(f"{type_name}.{field.name}", value))
        case FieldType.BOOLEAN:
            if not isinstance(value, bool | np.bool_):
                raise _refused(type_name, field, value)
            return b"\1" if value else b"\0"
        case FieldType.FLOAT:
            return _floating(type_name, field, value, ">f", _FLOAT_NAN)
        case FieldType.DOUBLE:
            return _floating(type_name, field, value, ">d", _DOUBLE_NAN)
        case FieldType.STRING:
            if not isinstance(value, str):
                raise _refused(type_name, field, value)
            return _measured(type_name, field, text.encode_text(value))
        case FieldType.BYTES:
            if not isinstance(value, bytes | bytearray | memoryview):
                raise _refused(type_name, field, value)
            return _measured(type_name, field, bytes(value))


def serialize_list(type_name: str, elements: Iterable[int]) -> bytes:
    """The bytes of a list of these element ordinals."""
    ordinals = [checked_ordinal(f"{type_name} element", element) for element in elements]
    return varint(len(ordinals)) + b"".join(map(varint, ordinals))


def serialize_set(type_name: str, elements: Iterable[int], hash_codes: Iterable[int] | None = None) -> bytes:
    """The bytes of a set of these element ordinals; an element's hash code is its ordinal if none are given."""
    ordinals = [checked_ordinal(f"{type_name} element", element) for element in elements]
    codes = ordinals if hash_codes is None else [_hash_code(type_name, code) for code in hash_codes]
    if len(codes) != len(ordinals):
        raise InputError(f"type {type_name}: {len(ordinals)} elements, {len(codes)} hash codes", "Lengths")
    mask = _table_mask(type_name, len(ordinals))
    out, previous = bytearray(varint(len(ordinals))), 0
    for ordinal, code in sorted(zip(ordinals, (code & 0xFFFF_FFFF for code in codes), strict=True)):
        out += varint(ordinal - previous) + _bucket(code, mask)
        previous = ordinal
    return bytes(out)


def serialize_map(type_name: str, entries: Iterable[tuple[int, int]], hash_codes: Iterable[int] | None = None) -> bytes:
    """The bytes of a map of these (key ordinal, value ordinal); an entry's hash code is its key if none are given."""
    pairs = [
        (checked_ordinal(f"{type_name} key", key), checked_ordinal(f"{type_name} value", value))
        for key, value in entries
    ]
    codes = [key for key, _ in pairs] if hash_codes is None else [_hash_code(type_name, code) for code in hash_codes]
    if len(codes) != len(pairs):
        raise InputError(f"type {type_name}: {len(pairs)} entries, {len(codes)} hash codes", "Lengths")
    mask = _table_mask(type_name, len(pairs))
    out, previous = bytearray(varint(len(pairs))), 0
    for (key, value), code in sorted(zip(pairs, codes, strict=True), key=operator.itemgetter(0)):
        out += varint(key - previous) + varint(value) + _bucket(code & 0xFFFF_FFFF, mask)
        previous = key
    return bytes(out)


def checked_ordinal(what: str, value: object) -> int:
    """An ordinal, refused if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{what}: {value!r} is no ordinal", "WrongType")
    if not 0 <= value <= MAX_ORDINAL:
        raise InputError(f"{what}: {value} is no ordinal", "OutOfRange")
    return int(value)


def _integer(type_name: str, field: Field, value: object, bits: int) -> bytes | None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise _refused(type_name, field, value)
    number, half = int(value), 1 << bits - 1
    if not -half <= number < half:
        raise InputError(f"{type_name}.{field.name}: {number} is out of the range of {field.type}", "OutOfRange")
    if number == -half:
        return None
    return varint((number << 1 ^ number >> bits - 1) & (1 << bits) - 1)


def _floating(type_name: str, field: Field, value: object, form: str, nan: bytes) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise _refused(type_name, field, value)
    if value != value:
        return nan
    try:
        return struct.pack(form, value)
    except OverflowError:
        raise InputError(
            f"{type_name}.{field.name}: {value!r} is out of the range of {field.type}", "OutOfRange"
        ) from None


def _measured(type_name: str, field: Field, data: bytes) -> bytes:
    if len(data) > MAX_VALUE_BYTES:
        raise InputError(
            f"{type_name}.{field.name}: a value of {len(data):,} bytes, at most {MAX_VALUE_BYTES:,} can be", "TooLong"
        )
    return varint(len(data)) + data


def _table_mask(type_name: str, count: int) -> int:
    if count > MAX_COLLECTION_ELEMENTS:
        raise InputError(
            f"type {type_name}: {count:,} elements, at most {MAX_COLLECTION_ELEMENTS:,} can be hashed", "TooLarge"
        )
    return hashing.hash_table_size(count) - 1


def _hash_code(type_name: str, code: int) -> int:
    if not -(1 << 31) <= code < 1 << 32:
        raise InputError(f"type {type_name}: {code} is no 32-bit hash code", "OutOfRange")
    return code


def _bucket(code: int, mask: int) -> bytes:
    return varint(hashing.hash_int_one(code - (1 << 32) if code >> 31 else code) & mask)


def _refused(type_name: str, field: Field, value: object) -> InputError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
    return InputError(f"{type_name}.{field.name} is {field.type}: {shown} is a {type(value).__name__}", "WrongType")
