"""Schemas from Python classes, as Hollow's object mapper derives them from Java classes.

A class is an OBJECT named like the class; its own fields come first, then those of its base class, and so on, in
order of declaration. Numbers, booleans and bytes lie in the record; `str` refers to `String {string value}`;
`list[X]`, `set[X]`, `dict[K, V]` refer to `ListOfX`, `SetOfX`, `MapOfKToV`, with boxed types for scalars inside. An
enum is a type with one field `_name`. A set or map without a hash key of its own takes the primary key of its element
or key type, or that type's only field if it is no reference. Types are ordered depth first, a referenced type before
the type that refers to it.

Dataclasses, attrs, pydantic and msgspec classes, named tuples and plain annotated classes are read by their
annotations alone; none of these libraries is imported.
"""

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NewType, Union, get_args, get_origin, get_type_hints

from deltaic.errors import SchemaError
from deltaic.schema.annotations import (
    Boxed,
    HashKey,
    Inline,
    Logical,
    RenamedFrom,
    Shards,
    Transient,
    TypeName,
    Vector,
    Wide,
)
from deltaic.schema.building import ModelBuilder
from deltaic.schema.logical import LogicalType
from deltaic.schema.mapping import python_to_logical
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema

_LISTS = (list, tuple, collections.abc.Sequence, collections.abc.MutableSequence)
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


@dataclass(frozen=True, slots=True)
class VectorColumn:
    """A vector field of a type: beside its records, not in them."""

    type_name: str
    field_name: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class _Hint:
    """An annotation taken apart: the bare type and its markers."""

    type: Any
    markers: tuple[Any, ...]
    where: str

    def has(self, marker: object) -> bool:
        return any(found is marker for found in self.markers)

    def find(self, marker_type: type) -> Any:
        return next((found for found in self.markers if isinstance(found, marker_type)), None)


class ClassReader:
    """Reads classes into a builder."""

    def __init__(self, builder: ModelBuilder) -> None:
        self._builder = builder
        self._open: list[str] = []
        self.classes: dict[str, type] = {}
        self.vectors: list[VectorColumn] = []
        self.renamed: dict[str, dict[str, str]] = {}
        """Type → field → what it was called before."""

    def add_class(self, cls: type, *, name: str | None = None) -> str:
        """Add a class and all it refers to; returns the name of its type."""
        own = vars(cls)
        name = name or own.get("__deltaic_name__") or cls.__name__
        known = self.classes.get(name)
        if known is cls:
            return name
        if known is not None:
            raise SchemaError(
                f"two classes make the type {name}: {known.__module__}.{known.__qualname__} and "
                f"{cls.__module__}.{cls.__qualname__}; give one another name with @type_name"
            )
        self.classes[name] = cls
        key = own.get("__deltaic_key__")
        primary_key = (key,) if isinstance(key, str) else tuple(key) if key else None
        logical: dict[str, LogicalType] = {}
        if issubclass(cls, enum.Enum):
            fields = [Field("_name", FieldType.STRING)]
        else:
            self._open.append(name)
            fields = self._fields(cls, name, primary_key, logical)
            self._open.pop()
        self._builder.add(ObjectSchema(name, tuple(fields), primary_key), logical, f"class {cls.__qualname__}")
        if "__deltaic_shards__" in own:
            self._builder.set_shards(name, own["__deltaic_shards__"])
        return name

    def _fields(
        self, cls: type, name: str, primary_key: tuple[str, ...] | None, logical: dict[str, LogicalType]
    ) -> list[Field]:
        fields: list[Field] = []
        for field_name, annotation in _annotations(cls).items():
            hint = _taken_apart(annotation, f"{cls.__qualname__}.{field_name}")
            if hint.has(Transient):
                continue
            vector = hint.find(Vector)
            if vector is not None:
                if primary_key is None:
                    raise SchemaError(f"{hint.where}: a class with a vector needs a primary key: @key(…)")
                self.vectors.append(VectorColumn(name, field_name, vector.dimensions))
                continue
            fields.append(self._field(field_name, hint, logical))
            before = hint.find(RenamedFrom)
            if before is not None:
                self.renamed.setdefault(name, {})[field_name] = before.name
        return fields

    def _field(self, name: str, hint: _Hint, logical: dict[str, LogicalType]) -> Field:
        scalar = _scalar(hint)
        if scalar is None or _is_referenced(scalar, hint):
            return Field(name, FieldType.REFERENCE, self._referenced(hint))
        logical[name] = scalar
        return Field(name, scalar.field_type)

    def _referenced(self, hint: _Hint) -> str:
        """The name of the type that stands for an annotation behind a reference or inside a collection."""
        type_name = hint.find(TypeName)
        name = self._referenced_type(hint, type_name.name if type_name else None)
        shards = hint.find(Shards)
        if shards is not None:
            self._builder.set_shards(name, shards.count)
        return name

    def _referenced_type(self, hint: _Hint, name: str | None) -> str:
        scalar = _scalar(hint)
        if scalar is not None:
            if hint.has(Inline):
                raise SchemaError(f"{hint.where}: a value inside a collection cannot be inline")
            return self._builder.add_boxed(scalar, hint.where, name)
        if hint.has(Inline):
            raise SchemaError(f"{hint.where}: only scalars can be inline, not {_shown(hint.type)}")
        origin, arguments = get_origin(hint.type) or hint.type, get_args(hint.type)
        if origin in _LISTS or origin in _SETS or origin in _MAPS:
            return self._collection(hint, origin, arguments, name)
        if isinstance(origin, type) and _is_model_class(origin):
            return self.add_class(origin, name=name)
        raise SchemaError(f"{hint.where}: {_shown(hint.type)} has no place in a model")

    def _collection(self, hint: _Hint, origin: Any, arguments: tuple[Any, ...], name: str | None) -> str:
        if origin is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
            raise SchemaError(
                f"{hint.where}: a tuple of several types has no place in a model; use tuple[X, …] or a class"
            )
        wanted = 2 if origin in _MAPS else 1
        if len(arguments) < wanted:
            raise SchemaError(f"{hint.where}: {_shown(hint.type)} does not say what it holds")
        inner = [
            self._referenced(_taken_apart(argument, f"{hint.where}[{position}]"))
            for position, argument in enumerate(arguments[:wanted])
        ]
        schema: Schema
        if origin in _MAPS:
            key, value = inner
            schema = MapSchema(name or f"MapOf{key}To{value}", key, value, self._hash_key(hint, key))
        elif origin in _SETS:
            schema = SetSchema(name or f"SetOf{inner[0]}", inner[0], self._hash_key(hint, inner[0]))
        else:
            if hint.find(HashKey) is not None:
                raise SchemaError(f"{hint.where}: a list has no hash key")
            schema = ListSchema(name or f"ListOf{inner[0]}", inner[0])
        return self._builder.add(schema, {}, hint.where)

    def _hash_key(self, hint: _Hint, element: str) -> tuple[str, ...] | None:
        marked = hint.find(HashKey)
        if marked is not None:
            return marked.paths or None
        if element in self._open:
            cls = self.classes[element]
            key = vars(cls).get("__deltaic_key__")
            return (key,) if isinstance(key, str) else tuple(key) if key else None
        schema = self._builder.schemas[element]
        if not isinstance(schema, ObjectSchema):
            return None
        if schema.primary_key is not None:
            return schema.primary_key
        if len(schema.fields) == 1 and schema.fields[0].type is not FieldType.REFERENCE:
            return (schema.fields[0].name,)
        return None


def _scalar(hint: _Hint) -> LogicalType | None:
    marked = hint.find(Logical)
    usual = python_to_logical(hint.type) if isinstance(hint.type, type) else None
    if marked is not None:
        if usual is None and hint.type is not decimal.Decimal:
            raise SchemaError(f"{hint.where}: {_shown(hint.type)} cannot be {LogicalType(marked.format)}")
        return LogicalType.of(marked.format, wide=hint.has(Wide))
    if hint.type is decimal.Decimal:
        raise SchemaError(f"{hint.where}: say how many digits: Annotated[Decimal, digits(precision, scale)]")
    if usual is not None and hint.has(Wide):
        return LogicalType.of(usual.format, wide=True)
    return usual


def _is_referenced(scalar: LogicalType, hint: _Hint) -> bool:
    if hint.has(Inline):
        return False
    usually = hint.type is str or (hint.type is datetime.datetime and hint.find(Logical) is None)
    return usually or hint.has(Boxed) or hint.find(TypeName) is not None


def _annotations(cls: type) -> dict[str, Any]:
    """Field name → annotation: the class's own first, then those of its bases, as Java's mapper walks up."""
    try:
        hints = get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
    except NameError as error:
        raise SchemaError(f"class {cls.__qualname__}: an annotation names what cannot be found: {error}") from error
    declared = _declared_fields(cls)
    ordered: dict[str, Any] = {}
    for base in cls.__mro__:
        for name in _own_annotations(base):
            wanted = name in declared if declared is not None else not name.startswith("__")
            if wanted and name in hints and name not in ordered and not _is_class_variable(hints[name]):
                ordered[name] = hints[name]
    missing = [name for name in declared or () if name not in ordered]
    if missing:
        raise SchemaError(f"class {cls.__qualname__}: field {missing[0]} has no annotation")
    return ordered


def _own_annotations(cls: type) -> dict[str, Any]:
    # From 3.14 on annotations are made when asked for, and are not in the class's dictionary.
    found = vars(cls).get("__annotations__")
    if found is None and "__annotate_func__" in vars(cls):
        found = cls.__annotations__
    return dict(found or {})


def _declared_fields(cls: type) -> list[str] | None:
    """The fields by the register that the class's library keeps; None for a plain class."""
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    if hasattr(cls, "__attrs_attrs__"):
        return [attribute.name for attribute in cls.__attrs_attrs__]
    if hasattr(cls, "__pydantic_fields__"):
        return list(cls.__pydantic_fields__)
    if hasattr(cls, "__struct_fields__"):
        return list(cls.__struct_fields__)
    return None


def _is_class_variable(annotation: Any) -> bool:
    return annotation is ClassVar or get_origin(annotation) is ClassVar


def _taken_apart(annotation: Any, where: str) -> _Hint:
    markers: list[Any] = []
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            markers.extend(annotation.__metadata__)
            annotation = annotation.__origin__
        elif origin is Union or origin is types.UnionType:
            left = [argument for argument in get_args(annotation) if argument is not types.NoneType]
            if len(left) != 1:
                raise SchemaError(f"{where}: a choice of types ({_shown(annotation)}) has no place in a model")
            annotation = left[0]
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif origin is Literal:
            kinds = {type(value) for value in get_args(annotation)} - {types.NoneType}
            if len(kinds) != 1:
                raise SchemaError(f"{where}: a choice of values of several types has no place in a model")
            annotation = kinds.pop()
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        elif origin is typing.Final:
            annotation = get_args(annotation)[0]
        else:
            return _Hint(annotation, tuple(markers), where)


def _is_model_class(cls: type) -> bool:
    if cls.__module__ in ("builtins", "typing", "collections", "collections.abc", "decimal", "uuid", "fractions"):
        return False
    if issubclass(cls, enum.Enum) or _declared_fields(cls) is not None:
        return True
    return any(_own_annotations(base) for base in cls.__mro__[:-1])


def _shown(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
