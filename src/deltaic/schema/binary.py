"""The binary form of schemas, as blob headers and type sections carry it (hollow-blob.md, section 3).

One byte for the kind and whether a key follows, then names as modified UTF-8 behind a 2-byte length, key paths behind a
VInt count, fields behind a 2-byte count. A key with no path is read as no key, as Java reads it.
"""

from typing import TYPE_CHECKING

from deltaic.binary.modified_utf8 import encode_utf
from deltaic.errors import DecodeError, SchemaError
from deltaic.limits import MAX_FIELDS
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema

if TYPE_CHECKING:
    from deltaic.binary.cursor import Cursor

_OBJECT, _SET, _LIST, _MAP = 0, 1, 2, 3
_KEYED_SET, _KEYED_MAP, _KEYED_OBJECT = 4, 5, 6
_FIELD_TYPES = {member.value: member for member in FieldType}


def write_schema(schema: Schema) -> bytes:
    """The bytes of one schema."""
    match schema:
        case ObjectSchema():
            if len(schema.fields) > MAX_FIELDS:
                raise SchemaError(f"type {schema.name} has {len(schema.fields)} fields, limit is {MAX_FIELDS}")
            head = _named(_KEYED_OBJECT if schema.primary_key else _OBJECT, schema.name) + _key(schema.primary_key)
            fields = b"".join(_field(field) for field in schema.fields)
            return head + len(schema.fields).to_bytes(2, "big") + fields
        case ListSchema():
            return _named(_LIST, schema.name, schema.element)
        case SetSchema():
            return _named(_KEYED_SET if schema.hash_key else _SET, schema.name, schema.element) + _key(schema.hash_key)
        case MapSchema():
            kind = _KEYED_MAP if schema.hash_key else _MAP
            return _named(kind, schema.name, schema.key, schema.value) + _key(schema.hash_key)


def read_schema(cursor: "Cursor") -> Schema:
    """Read one schema.

    Raises:
        DecodeError: code `BadSchema` if the kind or a field type is unknown or a field is declared twice.
    """
    kind = cursor.byte()
    if kind > _KEYED_OBJECT:
        raise DecodeError("BadSchema", f"{kind} is no kind of schema", cursor.where())
    name = cursor.utf()
    match kind:
        case 0 | 6:
            primary_key = _read_key(cursor, name) if kind == _KEYED_OBJECT else None
            return ObjectSchema(name, _read_fields(cursor, name), primary_key)
        case 2:
            return ListSchema(name, cursor.utf())
        case 1 | 4:
            element = cursor.utf()
            return SetSchema(name, element, _read_key(cursor, name) if kind == _KEYED_SET else None)
        case _:
            key_type, value_type = cursor.utf(), cursor.utf()
            return MapSchema(name, key_type, value_type, _read_key(cursor, name) if kind == _KEYED_MAP else None)


def _read_fields(cursor: "Cursor", type_name: str) -> tuple[Field, ...]:
    count = cursor.int16()
    if not 0 <= count <= MAX_FIELDS:
        raise DecodeError(
            "BadSchema", f"type {type_name} declares {count} fields, limit is {MAX_FIELDS}", cursor.where()
        )
    fields: dict[str, Field] = {}
    for _ in range(count):
        name, type_text = cursor.utf(), cursor.utf()
        field_type = _FIELD_TYPES.get(type_text)
        if field_type is None:
            reason = f"field {name!r} of type {type_name} has the unknown type {type_text[:40]!r}"
            raise DecodeError("BadSchema", reason, cursor.where())
        if name in fields:
            raise DecodeError("BadSchema", f"type {type_name} declares field {name!r} twice", cursor.where())
        fields[name] = Field(name, field_type, cursor.utf() if field_type is FieldType.REFERENCE else None)
    return tuple(fields.values())


def _read_key(cursor: "Cursor", type_name: str) -> tuple[str, ...] | None:
    count = cursor.varint()
    if count > MAX_FIELDS:
        raise DecodeError(
            "BadSchema", f"key of type {type_name} has {count} paths, limit is {MAX_FIELDS}", cursor.where()
        )
    return tuple(cursor.utf() for _ in range(count)) or None


def _named(kind: int, *names: str) -> bytes:
    return bytes((kind,)) + b"".join(encode_utf(name) for name in names)


def _field(field: Field) -> bytes:
    head = encode_utf(field.name) + encode_utf(field.type.value)
    return head + encode_utf(field.referenced) if field.referenced is not None else head


def _key(paths: tuple[str, ...] | None) -> bytes:
    if not paths:
        return b""
    count = len(paths)
    if count > MAX_FIELDS:
        raise SchemaError(f"a key of {count} paths is longer than {MAX_FIELDS}")
    groups = [count & 0x7F]
    while count := count >> 7:
        groups.append(0x80 | count & 0x7F)
    return bytes(reversed(groups)) + b"".join(encode_utf(path) for path in paths)
