"""Records as objects of the user's own classes.

    movies = typed(Movie)
    movie: Movie = movies(state["Movie"][3])

Dataclasses, attrs, pydantic and msgspec classes and named tuples are made by keyword, plain annotated classes are
filled by attribute. A field is found by its name; `list`, `tuple`, `set`, `frozenset` and `dict` become what the
annotation says; enums, dates, times and decimals are what the model keeps them as (docs, "types"). A vector is a list
or tuple of numbers where the annotation says so, else the read-only array of the state; None where there is none.
"""

import collections.abc
import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from deltaic.errors import InputError, SchemaError
from deltaic.schema.mapping import to_python
from deltaic.schema.model import Model
from deltaic.schema.types import FieldType, ListSchema, MapSchema, SetSchema
from deltaic.state.records import ObjectRecord

T = TypeVar("T")
Convert = Callable[[Any], Any]
_CONTAINERS: dict[Any, Callable[[Iterable[Any]], Any]] = {
    list: list,
    tuple: tuple,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    set: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
    collections.abc.MutableSet: set,
}


class Typed(Generic[T]):
    """Makes objects of one class out of records of its type."""

    def __init__(self, cls: type[T]) -> None:
        self.cls = cls
        self._model = Model.of(cls)
        self.type_name = self._model.roots[0]
        """The name of the type whose records become objects."""
        self._makers: dict[str, Convert] = {}
        self._make = self._maker(self.type_name)

    def __call__(self, record: ObjectRecord) -> T:
        """The object of one record."""
        if record.type_name != self.type_name:
            raise InputError(f"a record of type {record.type_name} is no {self.type_name}", "WrongType")
        made: T = self._make(record)
        return made

    def all(self, records: Iterable[ObjectRecord]) -> list[T]:
        """The objects of many records."""
        return [self(record) for record in records]

    def __repr__(self) -> str:
        return f"typed({self.cls.__qualname__})"

    def _maker(self, type_name: str) -> Convert:
        found = self._makers.get(type_name)
        if found is None:
            # A type may lead back to itself: what stands here then asks again, when all is known.
            self._makers[type_name] = lambda record: self._makers[type_name](record)
            found = self._makers[type_name] = self._new_maker(type_name)
        return found

    def _new_maker(self, type_name: str) -> Convert:
        cls = self._model.classes[type_name]
        schema = self._model.schemas.object_schema(type_name)
        if issubclass(cls, enum.Enum):
            return lambda record: cls[record["_name"]]
        hints = get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
        converters = {field.name: self._field(type_name, field.name, hints[field.name]) for field in schema.fields}
        vectors = {
            column.field_name: _vector(_bare(hints[column.field_name]))
            for column in self._model.vectors
            if column.type_name == type_name
        }
        build = _builder(cls)
        optional = _with_defaults(cls)

        def make(record: Any) -> Any:
            values: dict[str, Any] = {}
            known = record.field_names()
            for name, convert in converters.items():
                if name in known:
                    value = record[name]
                    values[name] = value if value is None else convert(value)
                elif name not in optional:
                    raise SchemaError(f"class {cls.__qualname__} has a field {name!r}, type {type_name} has none")
            for name, convert in vectors.items():
                # A chain may come without its vectors: they are null then, as those of records that have none.
                value = record[name] if name in record.vector_names() else None
                values[name] = value if value is None else convert(value)
            return build(values)

        return make

    def _field(self, type_name: str, name: str, hint: Any) -> Convert:
        schema = self._model.schemas.object_schema(type_name)
        field = schema.fields[schema.position(name)]
        if field.type is not FieldType.REFERENCE or self._model.boxed_field(str(field.referenced)) is not None:
            logical = self._model.logical_of(type_name, name)
            return (
                _same if logical is None or logical.format[:1] not in "td" else lambda value: to_python(value, logical)
            )
        return self._referenced(str(field.referenced), _bare(hint))

    def _referenced(self, type_name: str, hint: Any) -> Convert:
        """What turns what a record view gives for a reference to a type into what an annotation asks for."""
        boxed = self._model.boxed_field(type_name)
        if boxed is not None:
            logical = self._model.logical_of(type_name, boxed.name)
            return (
                _same if logical is None or logical.format[:1] not in "td" else lambda value: to_python(value, logical)
            )
        schema = self._model.schemas[type_name]
        arguments = [_bare(argument) for argument in get_args(hint)]
        if isinstance(schema, ListSchema | SetSchema):
            container = _CONTAINERS[get_origin(hint) or hint]
            return _collected(container, self._referenced(schema.element, arguments[0]), type_name)
        if isinstance(schema, MapSchema):
            convert_key = self._referenced(schema.key, arguments[0])
            convert_value = self._referenced(schema.value, arguments[1])
            return lambda record: _mapped(record, convert_key, convert_value, type_name)
        return self._maker(type_name)


def typed(cls: type[T]) -> Typed[T]:
    """What makes objects of a class out of records: `typed(Movie)(record)`. Made once for each class."""
    wanted: Any = cls
    made: Typed[T] = _made_once(wanted)
    return made


@functools.lru_cache(maxsize=256)
def _made_once(cls: Any) -> Any:
    return Typed(cls)


def _same(value: Any) -> Any:
    return value


def _vector(hint: Any) -> Convert:
    """What turns the row of a vector column into what an annotation asks for."""
    container = _CONTAINERS.get(get_origin(hint) or hint)
    return _same if container is None else lambda row: container(row.tolist())


def _collected(container: Callable[[Iterable[Any]], Any], convert: Convert, type_name: str) -> Convert:
    def collect(record: Any) -> Any:
        try:
            return container(map(convert, record))
        except TypeError as error:
            raise _unhashable(type_name, error) from error

    return collect


def _mapped(record: Any, convert_key: Convert, convert_value: Convert, type_name: str) -> dict[Any, Any]:
    try:
        return {convert_key(key): convert_value(value) for key, value in record.items()}
    except TypeError as error:
        raise _unhashable(type_name, error) from error


def _unhashable(type_name: str, error: TypeError) -> InputError:
    return InputError(f"type {type_name}: {error}; make the class frozen, with tuples in place of lists", "WrongType")


def _bare(hint: Any) -> Any:
    """An annotation without its markers and without None."""
    while True:
        origin = get_origin(hint)
        if origin is Annotated:
            hint = hint.__origin__
        elif origin is Union or origin is types.UnionType:
            hint = next(argument for argument in get_args(hint) if argument is not types.NoneType)
        elif origin is typing.Final:
            hint = get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        else:
            return hint


def _takes_keywords(cls: type) -> bool:
    known = ("__attrs_attrs__", "__pydantic_fields__", "__struct_fields__", "_fields")
    return dataclasses.is_dataclass(cls) or any(hasattr(cls, name) for name in known)


def _builder(cls: type) -> Callable[[dict[str, Any]], Any]:
    if _takes_keywords(cls):
        return lambda values: cls(**values)

    def fill(values: dict[str, Any]) -> Any:
        made: Any = object.__new__(cls)
        for name, value in values.items():
            setattr(made, name, value)
        return made

    return fill


def _with_defaults(cls: type) -> frozenset[str]:
    """Fields that a class can do without: those of its library that have a default."""
    if dataclasses.is_dataclass(cls):
        return frozenset(
            field.name
            for field in dataclasses.fields(cls)
            if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        )
    return frozenset(name for name in getattr(cls, "__annotations__", {}) if name in vars(cls))
