"""Records as the model has them: what a model dropped or renamed since the version before, and when two are the same.

A record that is read from the version before has the fields of that version. Two values are the same by what they hold:
a set has no order, a map none either, a field that is missing is null, NaN is itself, and a number is one as its field
keeps it.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from deltaic.schema.model import Model
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, SetSchema
from deltaic.state.ingest_plan import boxed_scalar, wrapped_type
from deltaic.state.read import ReadState

_Moved = dict[str, dict[str, str | None]]
"""Type → field of the version before → what the model calls it, None if it has it no more."""


class Shapes:
    """How values of a model look.

    Args:
        model: the model of the version that is made.
        previous: the version before, whose model may have been another.
    """

    def __init__(self, model: Model, previous: ReadState | None = None) -> None:
        self._model = model
        self._moved: _Moved = {}
        self._unknown: _Moved = {}
        if previous is not None:
            self._compare(previous)
        self._concerned = _leading_to(model, self._moved.keys())

    def _compare(self, previous: ReadState) -> None:
        model = self._model
        for schema in previous.schemas:
            own = model.schemas.get(schema.name)
            if not isinstance(schema, ObjectSchema) or not isinstance(own, ObjectSchema):
                continue
            renamed = {old: new for new, old in model.renamed.get(schema.name, {}).items()}
            vectors = {column.field_name for column in model.vectors if column.type_name == schema.name}
            before = [field_name for name, field_name in previous.vectors if name == schema.name]
            names = [name for name in (*(field.name for field in schema.fields), *before) if name not in vectors]
            unknown = {name: renamed.get(name) for name in names if own.position(name) < 0}
            moved = {**unknown, **{name: renamed[name] for name in names if name in renamed}}
            if moved:
                self._moved[schema.name] = moved
            if unknown:
                self._unknown[schema.name] = unknown

    def of_model(self, type_name: str, record: Any) -> Any:
        """A record of the version before as the model has it: without what was dropped, renamed what was renamed."""
        return self._walked(type_name, record, self._moved)

    def same(self, type_name: str, found: Any, expected: Any) -> bool:
        """True if two values of a type hold the same; what the model dropped is not looked at."""
        known = self._walked(type_name, expected, self._unknown)
        return bool(self._plain(type_name, found) == self._plain(type_name, known))

    def _walked(self, type_name: str, value: Any, moved: _Moved) -> Any:
        if value is None or type_name not in self._concerned:
            return value

        def below(name: str) -> Callable[[Any], Any]:
            return lambda each: self._walked(name, each, moved)

        match self._model.schemas[type_name]:
            case ObjectSchema() as schema if isinstance(value, Mapping):
                names = moved.get(type_name, {})
                found = {}
                for given, each in value.items():
                    name = names.get(given, given)
                    if name is not None:
                        target = _target(schema, name)
                        found[name] = each if target is None else self._walked(target, each, moved)
                return found
            case ObjectSchema() as schema:
                inner = wrapped_type(schema)
                return value if inner is None else self._walked(inner, value, moved)
            case MapSchema(key=key, value=target):
                if isinstance(value, Mapping):
                    return {each: self._walked(target, held, moved) for each, held in value.items()}
                return _pairs(value, below(key), below(target))
            case ListSchema(element=element) | SetSchema(element=element):
                return [self._walked(element, each, moved) for each in value] if _is_list(value) else value

    def _plain(self, type_name: str, value: Any) -> Any:
        """A value in a form that the same ones share."""
        schema = self._model.schemas.get(type_name)
        if value is None:
            return None
        match schema:
            case ObjectSchema() if isinstance(value, Mapping):
                fields = sorted((str(name), each) for name, each in value.items() if each is not None)
                return [(name, self._field(schema, name, each)) for name, each in fields]
            case ObjectSchema():
                only, inner = boxed_scalar(schema), wrapped_type(schema)
                return self._plain(inner, value) if inner is not None else _scalar(value, only)
            case SetSchema(element=element) if _is_list(value):
                return _without_order({repr(each): each for each in (self._plain(element, one) for one in value)})
            case ListSchema(element=element) if _is_list(value):
                return [self._plain(element, each) for each in value]
            case MapSchema(key=key, value=target):
                pairs = _pairs(value, lambda each: self._plain(key, each), lambda each: self._plain(target, each))
                return _without_order({repr(each): each for each in pairs}) if _is_list(pairs) else _scalar(value)
            case _:
                return _scalar(value)

    def _field(self, schema: ObjectSchema, name: str, value: Any) -> Any:
        target = _target(schema, name)
        if target is not None:
            return self._plain(target, value)
        position = schema.position(name)
        return _scalar(value, None if position < 0 else schema.fields[position])


def _scalar(value: Any, field: Field | None = None) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if field is not None and field.type is FieldType.FLOAT and isinstance(value, float | int):
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    if isinstance(value, float):
        if math.isnan(value):
            return ("NaN",)
        # 1 and 1.0 are the same, and must stand at the same place of a set.
        return int(value) if value.is_integer() else value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Mapping):
        return _without_order({repr(each): each for each in ((str(k), _scalar(v)) for k, v in value.items())})
    if isinstance(value, set | frozenset):
        return _without_order({repr(each): each for each in map(_scalar, value)})
    return [_scalar(each) for each in value] if isinstance(value, list | tuple) else value


def _without_order(found: dict[str, Any]) -> list[Any]:
    return [found[text] for text in sorted(found)]


def _pairs(value: Any, key: Callable[[Any], Any], held: Callable[[Any], Any]) -> Any:
    """The entries of a map, which may be given as pairs; what is none is given back."""
    items: Iterable[Any] = value.items() if isinstance(value, Mapping) else value
    if not isinstance(value, Mapping) and not (_is_list(value) and all(_is_pair(each) for each in value)):
        return value
    return [(key(one), held(other)) for one, other in items]


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset)


def _target(schema: ObjectSchema, name: str) -> str | None:
    position = schema.position(name)
    return None if position < 0 else schema.fields[position].referenced


def _leading_to(model: Model, names: Collection[str]) -> frozenset[str]:
    """The types from which one of some types can be reached, these included."""
    found = set(names)
    before = -1
    while len(found) != before:
        before = len(found)
        found |= {schema.name for schema in model.schemas if found.intersection(schema.references())}
    return frozenset(found)
