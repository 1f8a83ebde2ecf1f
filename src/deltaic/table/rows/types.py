"""Arrow types of columns as Spark's JSON says them, and as JSON of their own where it cannot.

Spark knows no unsigned numbers, half floats, times of day, durations, sizes of lists, dictionaries or units of a
timestamp. A column of such a type gets the nearest Spark type that holds its values in `schemaString`, for others to
read, and its exact type in the table's configuration, in the words of Arrow's C data interface: `C` is uint8, `tsn:UTC`
a timestamp of nanoseconds, `+w:3` a list of three (with `children`). What neither Parquet nor a split can hold is
refused by name.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from deltaic.errors import SchemaError
from deltaic.schema.arrow import VECTOR_METADATA
from deltaic.state.vector_arrow import VECTOR_VALUE

_MAX_DEPTH: Final = 64

_PLAIN: Final[Mapping[str, Any]] = {
    "b": pa.bool_(),
    "c": pa.int8(),
    "s": pa.int16(),
    "i": pa.int32(),
    "l": pa.int64(),
    "C": pa.uint8(),
    "S": pa.uint16(),
    "I": pa.uint32(),
    "L": pa.uint64(),
    "e": pa.float16(),
    "f": pa.float32(),
    "g": pa.float64(),
    "u": pa.string(),
    "U": pa.large_string(),
    "vu": pa.string_view(),
    "z": pa.binary(),
    "Z": pa.large_binary(),
    "vz": pa.binary_view(),
    "tdD": pa.date32(),
    "tdm": pa.date64(),
    "tts": pa.time32("s"),
    "ttm": pa.time32("ms"),
    "ttu": pa.time64("us"),
    "ttn": pa.time64("ns"),
    "tDs": pa.duration("s"),
    "tDm": pa.duration("ms"),
    "tDu": pa.duration("us"),
    "tDn": pa.duration("ns"),
}
_FORMATS: Final = {type_: name for name, type_ in _PLAIN.items()}
_UNITS: Final = {"s": "s", "m": "ms", "u": "us", "n": "ns"}
_UNIT_LETTERS: Final = {unit: letter for letter, unit in _UNITS.items()}
_DECIMALS: Final[Mapping[str, Any]] = {
    "32": pa.decimal32,
    "64": pa.decimal64,
    "128": pa.decimal128,
    "256": pa.decimal256,
}

_SPARK: Final[Mapping[str, Any]] = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
# The nearest Spark type that holds every value of an Arrow type that Spark has not.
_NEAREST: Final = {
    "c": "byte",
    "s": "short",
    "i": "integer",
    "l": "long",
    "C": "short",
    "S": "integer",
    "I": "long",
    "L": "decimal(20,0)",
    "e": "float",
    "f": "float",
    "g": "double",
    "b": "boolean",
    "u": "string",
    "U": "string",
    "vu": "string",
    "z": "binary",
    "Z": "binary",
    "vz": "binary",
    "tdD": "date",
    "tdm": "date",
    "tts": "integer",
    "ttm": "integer",
    "ttu": "long",
    "ttn": "long",
    "tDs": "long",
    "tDm": "long",
    "tDu": "long",
    "tDn": "long",
}
_SPARK_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_SPARK_TEXT = re.compile(r"(?:char|varchar)\(\s*\d+\s*\)")
_SPARK_MOST_DIGITS: Final = 38


def vector_field(name: str, dimensions: int, *, nullable: bool = True) -> Any:
    """The Arrow field of a vector column."""
    if dimensions < 1:
        raise SchemaError(f"{name}: a vector has at least one dimension, not {dimensions}")
    kind = pa.list_(pa.field("item", pa.float32()), dimensions)
    return pa.field(name, kind, nullable=nullable, metadata={VECTOR_METADATA: VECTOR_VALUE})


def describe_type(arrow_type: Any, where: str = "a column", depth: int = 0) -> dict[str, Any]:
    """An Arrow type as JSON; SchemaError for one that a table cannot keep."""
    if depth > _MAX_DEPTH:
        raise SchemaError(f"{where} is nested more than {_MAX_DEPTH} deep")
    plain = _FORMATS.get(arrow_type)
    if plain is not None:
        return {"format": plain}
    kinds = pa.types
    if kinds.is_timestamp(arrow_type):
        return {"format": f"ts{_UNIT_LETTERS[arrow_type.unit]}:{arrow_type.tz or ''}"}
    if kinds.is_decimal(arrow_type):
        return {"format": f"d:{arrow_type.precision},{arrow_type.scale},{arrow_type.bit_width}"}
    if kinds.is_fixed_size_binary(arrow_type):
        return {"format": f"w:{arrow_type.byte_width}"}
    if kinds.is_dictionary(arrow_type):
        found = describe_type(arrow_type.value_type, where, depth + 1)
        if "children" in found:
            raise SchemaError(f"{where}: a dictionary of {arrow_type.value_type} cannot be kept")
        index = describe_type(arrow_type.index_type, where, depth + 1)
        return {**index, "dictionary": found, "ordered": bool(arrow_type.ordered)}
    if kinds.is_struct(arrow_type):
        if arrow_type.num_fields == 0:
            raise SchemaError(f"{where} is a struct without fields: Parquet cannot hold it")
        children = [arrow_type.field(place) for place in range(arrow_type.num_fields)]
        if len({child.name for child in children}) != len(children):
            raise SchemaError(f"{where}: two fields of the struct have one name")
        return {"format": "+s", "children": [_describe_field(child, where, depth) for child in children]}
    if kinds.is_map(arrow_type):
        children = [arrow_type.key_field, arrow_type.item_field]
        return {
            "format": "+m",
            "sorted": bool(arrow_type.keys_sorted),
            "children": [_describe_field(child, where, depth) for child in children],
        }
    for test, name in ((kinds.is_list, "+l"), (kinds.is_large_list, "+L")):
        if test(arrow_type):
            return {"format": name, "children": [_describe_field(arrow_type.value_field, where, depth)]}
    if kinds.is_fixed_size_list(arrow_type):
        if arrow_type.list_size == 0:
            raise SchemaError(f"{where} is a list of size 0: Parquet cannot hold it")
        inner = _describe_field(arrow_type.value_field, where, depth)
        return {"format": f"+w:{arrow_type.list_size}", "children": [inner]}
    raise SchemaError(f"{where}: a column of type {arrow_type} cannot be kept in a table")


def _describe_field(field: Any, where: str, depth: int) -> dict[str, Any]:
    found = {"name": field.name, **describe_type(field.type, f"{where}.{field.name}", depth + 1)}
    if not field.nullable:
        found["nullable"] = False
    return found


def read_type(described: Any, where: str, depth: int = 0) -> Any:
    """The Arrow type of its JSON; SchemaError for anything else."""
    if not isinstance(described, dict) or not isinstance(described.get("format"), str) or depth > _MAX_DEPTH:
        raise SchemaError(f"{where}: the exact type is not what it must be")
    name = described["format"]
    try:
        if "dictionary" in described:
            values = read_type(described["dictionary"], where, depth + 1)
            return pa.dictionary(_PLAIN[name], values, ordered=described.get("ordered") is True)
        if name in _PLAIN:
            return _PLAIN[name]
        head, _, rest = name.partition(":")
        children = [_read_field(child, where, depth) for child in described.get("children", ())]
        if head in ("tss", "tsm", "tsu", "tsn"):
            return pa.timestamp(_UNITS[head[2]], rest or None)
        if head == "d":
            precision, scale, width = rest.split(",")
            return _DECIMALS[width](int(precision), int(scale))
        if head == "w":
            return pa.binary(int(rest))
        if head == "+s" and children:
            return pa.struct(children)
        if head == "+m":
            key, item = children
            return pa.map_(key, item, keys_sorted=described.get("sorted") is True)
        if head in ("+l", "+L", "+w"):
            (element,) = children
            if head == "+w":
                return pa.list_(element, int(rest))
            return pa.list_(element) if head == "+l" else pa.large_list(element)
    except (KeyError, ValueError, TypeError, pa.ArrowException) as error:
        raise SchemaError(f"{where}: the exact type is not what it must be: {error}") from error
    raise SchemaError(f"{where}: there is no type {name[:40]!r}")


def _read_field(described: Any, where: str, depth: int) -> Any:
    kind = read_type(described, where, depth + 1)
    if not isinstance(described.get("name"), str):
        raise SchemaError(f"{where}: a nested field of the exact type has no name")
    return pa.field(described["name"], kind, nullable=described.get("nullable") is not False)


def stored_type(arrow_type: Any) -> Any:
    """The type that a column has in splits: without dictionaries, which Parquet makes by itself."""
    kinds = pa.types
    if kinds.is_dictionary(arrow_type):
        return stored_type(arrow_type.value_type)
    if kinds.is_struct(arrow_type):
        fields = [arrow_type.field(place) for place in range(arrow_type.num_fields)]
        return pa.struct([field.with_type(stored_type(field.type)) for field in fields])
    if kinds.is_map(arrow_type):
        key, item = arrow_type.key_field, arrow_type.item_field
        inner = (key.with_type(stored_type(key.type)), item.with_type(stored_type(item.type)))
        return pa.map_(*inner, keys_sorted=arrow_type.keys_sorted)
    if not kinds.is_nested(arrow_type):
        return arrow_type
    element = arrow_type.value_field.with_type(stored_type(arrow_type.value_type))
    if kinds.is_fixed_size_list(arrow_type):
        return pa.list_(element, arrow_type.list_size)
    return pa.large_list(element) if kinds.is_large_list(arrow_type) else pa.list_(element)


def to_spark(arrow_type: Any, where: str = "a column") -> Any:
    """The nearest Spark type of an Arrow type, as its JSON."""
    described = describe_type(arrow_type, where)
    return _spark_of(arrow_type, described)


def _spark_of(arrow_type: Any, described: Mapping[str, Any]) -> Any:
    kinds = pa.types
    if kinds.is_dictionary(arrow_type):
        return _spark_of(arrow_type.value_type, described["dictionary"])
    if kinds.is_timestamp(arrow_type):
        return "timestamp_ntz" if arrow_type.tz is None else "timestamp"
    if kinds.is_decimal(arrow_type):
        fits = arrow_type.precision <= _SPARK_MOST_DIGITS and 0 <= arrow_type.scale <= arrow_type.precision
        return f"decimal({arrow_type.precision},{arrow_type.scale})" if fits else "string"
    if kinds.is_fixed_size_binary(arrow_type):
        return "binary"
    if kinds.is_struct(arrow_type):
        return {"type": "struct", "fields": [spark_field(arrow_type.field(n)) for n in range(arrow_type.num_fields)]}
    if kinds.is_map(arrow_type):
        return {
            "type": "map",
            "keyType": to_spark(arrow_type.key_type),
            "valueType": to_spark(arrow_type.item_type),
            "valueContainsNull": arrow_type.item_field.nullable,
        }
    if kinds.is_list(arrow_type) or kinds.is_large_list(arrow_type) or kinds.is_fixed_size_list(arrow_type):
        element = arrow_type.value_field
        return {"type": "array", "elementType": to_spark(element.type), "containsNull": element.nullable}
    return _NEAREST[described["format"]]


def spark_field(field: Any) -> dict[str, Any]:
    """One field of a Spark schema."""
    return {
        "name": field.name,
        "type": to_spark(field.type, field.name),
        "nullable": field.nullable,
        "metadata": {},
    }


def spark_schema(fields: Any) -> str:
    """Spark's JSON of some Arrow fields."""
    described = {"type": "struct", "fields": [spark_field(field) for field in fields]}
    return json.dumps(described, separators=(",", ":"), ensure_ascii=False)


def from_spark(described: Any, where: str, depth: int = 0) -> Any:
    """The Arrow type of a Spark type's JSON."""
    if depth > _MAX_DEPTH:
        raise SchemaError(f"{where} is nested more than {_MAX_DEPTH} deep")
    if isinstance(described, str):
        if described in _SPARK:
            return _SPARK[described]
        found = _SPARK_DECIMAL.fullmatch(described)
        if found:
            try:
                return pa.decimal128(int(found[1]), int(found[2]))
            except (ValueError, pa.ArrowException) as error:
                raise SchemaError(f"{where}: {described} is no type: {error}") from error
        if _SPARK_TEXT.fullmatch(described):
            return pa.string()
        if described == "decimal":
            return pa.decimal128(10, 0)
        raise SchemaError(f"{where}: a column of Spark type {described[:60]!r} cannot be read")
    if not isinstance(described, dict):
        raise SchemaError(f"{where}: the type is no Spark type")
    kind = described.get("type")
    if kind == "struct" and isinstance(described.get("fields"), list):
        return pa.struct([field_of_spark(field, where, depth + 1) for field in described["fields"]])
    if kind == "array":
        element = from_spark(described.get("elementType"), f"{where}[]", depth + 1)
        return pa.list_(pa.field("element", element, nullable=described.get("containsNull") is not False))
    if kind == "map":
        key = from_spark(described.get("keyType"), f"{where} key", depth + 1)
        value = from_spark(described.get("valueType"), f"{where} value", depth + 1)
        nullable = described.get("valueContainsNull") is not False
        return pa.map_(key, pa.field("value", value, nullable=nullable))
    if kind == "udt":
        return from_spark(described.get("sqlType"), where, depth + 1)
    raise SchemaError(f"{where}: the type is no Spark type")


def field_of_spark(described: Any, where: str = "the schema", depth: int = 0) -> Any:
    """The Arrow field of one field of a Spark schema."""
    if not isinstance(described, dict) or not isinstance(described.get("name"), str):
        raise SchemaError(f"a field of {where} has no name")
    name = described["name"]
    kind = from_spark(described.get("type"), name if depth == 0 else f"{where}.{name}", depth)
    return pa.field(name, kind, nullable=described.get("nullable") is not False)


def fields_of_spark(schema_string: str) -> tuple[Any, ...]:
    """The Arrow fields of a Spark schema's JSON."""
    try:
        schema = json.loads(schema_string)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the table's schema is no JSON: {error}") from error
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list):
        raise SchemaError("the table's schema has no fields")
    return tuple(field_of_spark(field) for field in fields)
