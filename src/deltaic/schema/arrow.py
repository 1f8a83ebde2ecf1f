"""Schemas from an Arrow schema: columns become fields, nested columns become types.

A struct column `studio` of `Movie` becomes the type `MovieStudio`, a list of structs `cast` the types `MovieCast` and
`ListOfMovieCast`; field metadata `deltaic.type` gives the struct another name. Scalars in lists and maps become boxed
types. Texts refer to `String` unless they are to lie inline. What Arrow says and Hollow does not is noted as a
logical type on the field, `element`, `key` or `value` it belongs to.

Hollow's collections hold no nulls. A null scalar in a list is its boxed type with a null value. A null struct or list
in a list needs a type in between, `NullableX {X value}`, made only when asked for, because Arrow calls nearly all
nullable.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from deltaic.errors import InputError, SchemaError
from deltaic.schema.building import ModelBuilder
from deltaic.schema.classes import VectorColumn
from deltaic.schema.logical import LogicalType
from deltaic.schema.mapping import logical_of
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, Schema

TYPE_METADATA = b"deltaic.type"
"""Arrow field metadata: the name of the type made from a struct."""

VECTOR_METADATA = b"deltaic.vector"
"""Arrow field metadata: the fixed-size list of float32 is a vector."""

_LIST_FORMATS = ("+l", "+L", "+vl", "+vL")
_NULLABLE = 2
_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class ArrowOptions:
    """How an Arrow schema is read."""

    inline_strings: bool | Collection[str] = False
    keep_null_elements: bool = False
    wide: Collection[str] = ()
    vectors: Collection[str] = ()


class ArrowReader:
    """Reads an Arrow schema into a builder."""

    def __init__(self, builder: ModelBuilder, options: ArrowOptions) -> None:
        self._builder, self._options = builder, options
        self.vectors: list[VectorColumn] = []

    def add_record(self, schema: Any, name: str, primary_key: tuple[str, ...] | None = None, depth: int = 0) -> str:
        """Add the type of a struct (a nanoarrow `CSchema`), and all it refers to; returns its name."""
        if depth > _MAX_DEPTH:
            raise SchemaError(f"type {name}: columns are nested more than {_MAX_DEPTH} deep")
        fields: list[Field] = []
        logical: dict[str, LogicalType] = {}
        for child in schema.children:
            if self._is_vector(child, name, depth):
                if primary_key is None:
                    raise SchemaError(f"type {name}: a type with a vector column ({child.name}) needs a primary key")
                self.vectors.append(VectorColumn(name, child.name, int(child.format[3:])))
                continue
            if any(field.name == child.name for field in fields):
                raise SchemaError(f"type {name}: two columns are called {child.name!r}")
            field, noted = self._field(child, name, depth)
            fields.append(field)
            logical[field.name] = noted
        return self._builder.add(ObjectSchema(name, tuple(fields), primary_key), logical, f"type {name}")

    def _field(self, child: Any, parent: str, depth: int) -> tuple[Field, LogicalType]:
        where = f"{parent}.{child.name}"
        if child.format.startswith("+"):
            return Field(child.name, FieldType.REFERENCE, self._nested(child, parent, where, depth)), _nested_logical(
                child
            )
        logical = self._scalar(child, where, depth)
        if logical.field_type is FieldType.STRING and not self._is_inline(child.name, depth):
            return Field(child.name, FieldType.REFERENCE, self._builder.add_boxed(logical, where)), logical
        return Field(child.name, logical.field_type), logical

    def _nested(self, schema: Any, parent: str, where: str, depth: int) -> str:
        own_name = _metadata(schema, TYPE_METADATA) or f"{parent}{schema.name[:1].upper()}{schema.name[1:]}"
        if schema.format == "+s":
            return self.add_record(schema, own_name, None, depth + 1)
        if schema.format == "+m":
            key, value = schema.child(0).children
            key_type, key_logical = self._inner(key, f"{own_name}Key", where, depth)
            value_type, value_logical = self._inner(value, own_name, where, depth)
            made: Schema = MapSchema(
                f"MapOf{key_type}To{value_type}", key_type, value_type, self._default_hash_key(key_type)
            )
            return self._add_collection(made, {"key": key_logical, "value": value_logical}, own_name, where)
        if schema.format in _LIST_FORMATS or schema.format.startswith("+w:"):
            element, element_logical = self._inner(schema.child(0), own_name, where, depth)
            return self._add_collection(
                ListSchema(f"ListOf{element}", element), {"element": element_logical}, own_name, where
            )
        raise InputError(f"{where}: Hollow has no place for Arrow type {schema.format!r}", "UnknownType")

    def _inner(self, child: Any, name: str, where: str, depth: int) -> tuple[str, LogicalType]:
        """The type of the elements of a collection, and what is to be noted about them."""
        if not child.format.startswith("+"):
            logical = self._scalar(child, where, depth)
            return self._builder.add_boxed(logical, where), logical
        if depth > _MAX_DEPTH:
            raise SchemaError(f"{where}: columns are nested more than {_MAX_DEPTH} deep")
        if child.format == "+s":
            inner = self.add_record(child, _metadata(child, TYPE_METADATA) or name, None, depth + 1)
        else:
            inner = self._nested(child, name, f"{where}[]", depth + 1)
        logical = _nested_logical(child)
        if self._options.keep_null_elements and logical.nullable:
            wrapper = ObjectSchema(f"Nullable{inner}", (Field("value", FieldType.REFERENCE, inner),))
            inner = self._builder.add(wrapper, {}, where)
            logical = LogicalType.of(logical.format, wide=True)
        return inner, logical

    def _add_collection(self, schema: Schema, logical: dict[str, LogicalType], own_name: str, where: str) -> str:
        if not self._builder.fits(schema, logical):
            # Another column has the same elements with other notes (`large_string`, no nulls): a type of its own.
            own = f"{own_name}{schema.kind.title()}"
            schema = replace(schema, name=own)
        return self._builder.add(schema, logical, where)

    def _default_hash_key(self, key_type: str) -> tuple[str, ...] | None:
        schema = self._builder.schemas[key_type]
        if isinstance(schema, ObjectSchema) and len(schema.fields) == 1 and schema.fields[0].referenced is None:
            return (schema.fields[0].name,)
        return None

    def _scalar(self, schema: Any, where: str, depth: int) -> LogicalType:
        try:
            return logical_of(schema, wide=depth == 0 and schema.name in self._options.wide)
        except InputError as error:
            raise InputError(f"{where}: {error}", error.code) from error

    def _is_inline(self, column: str, depth: int) -> bool:
        inline = self._options.inline_strings
        return inline if isinstance(inline, bool) else depth == 0 and column in inline

    def _is_vector(self, schema: Any, name: str, depth: int) -> bool:
        marked = depth == 0 and schema.name in self._options.vectors
        if not marked and _metadata(schema, VECTOR_METADATA) is None:
            return False
        if not schema.format.startswith("+w:") or schema.child(0).format != "f":
            raise SchemaError(f"{name}.{schema.name}: a vector is a fixed-size list of float32")
        return True


def _nested_logical(schema: Any) -> LogicalType:
    return LogicalType(schema.format, bool(schema.flags & _NULLABLE))


def _metadata(schema: Any, key: bytes) -> str | None:
    if schema.metadata is None:
        return None
    value = dict(schema.metadata.items()).get(key)
    return None if value is None else value.decode("utf-8", "replace")
