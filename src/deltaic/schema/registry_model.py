"""The fields of a model as paths of the registry (docs/registry.md).

Paths start at a type: `Movie.title`, `Movie.cast[].name`, `Movie.ratings{}.score`, `Movie.embedding`. Every root and
every type with a primary key has paths of its own; they go through references until a type repeats. A boxed type is the
value in it. The type itself (`Movie`) is a path too: the whole record.

    LIST                      list, `[]` its elements
    SET                       map, `{}` its elements by their key, if they have one that a text names; else list,
                              and the set is replaced as a whole
    MAP                       map, `{}` its values by key, if a text names the key
    OBJECT                    any, and its fields below it

Types come in the order of the model, fields nearer to the record before those below them: they get the shorter numbers.
"""

import logging
from collections import deque
from dataclasses import dataclass

from deltaic.errors import RegistryError
from deltaic.schema.model import Model
from deltaic.schema.registry_paths import check_path, escape_name
from deltaic.schema.registry_table import ValueType
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, SetSchema

MAX_MODEL_FIELDS = 65_536
"""So many paths are derived of one model at most: types that refer to each other often would give more than any use."""

_TYPES = {
    FieldType.BOOLEAN: ValueType.BOOL,
    FieldType.INT: ValueType.INT32,
    FieldType.LONG: ValueType.INT64,
    FieldType.FLOAT: ValueType.FLOAT32,
    FieldType.DOUBLE: ValueType.FLOAT64,
    FieldType.STRING: ValueType.STRING,
    FieldType.BYTES: ValueType.BYTES,
}

log = logging.getLogger("deltaic.schema")


@dataclass(frozen=True, slots=True)
class _Place:
    """A type at the end of a path, and the types on the way to it."""

    path: str
    type_name: str
    way: frozenset[str]


def model_fields(model: Model) -> list[tuple[str, ValueType]]:
    """Every path of a model with the type of its values, in the order in which they are registered."""
    found: dict[str, ValueType] = {}
    places: deque[_Place] = deque()
    for name in _owners(model):
        try:
            path = check_path(escape_name(name))
        except RegistryError as error:
            log.warning("type %r has no place in the registry: %s", name, error)
            continue
        found[path] = ValueType.ANY
        places.append(_Place(path, name, frozenset((name,))))
    while places and len(found) < MAX_MODEL_FIELDS:
        _add_below(model, places.popleft(), found, places)
    if places:
        log.warning("the model has more than %s paths: the deeper ones are left out", f"{MAX_MODEL_FIELDS:,}")
    return list(found.items())[:MAX_MODEL_FIELDS]


def entry_key(model: Model, type_name: str) -> Field | None:
    """The field whose text names an entry of a SET or MAP type: of its elements, or of its keys; None if none does."""
    schema = model.schemas.get(type_name)
    if isinstance(schema, MapSchema):
        key = model.schemas.get(schema.key)
        if isinstance(key, ObjectSchema) and len(key.fields) == 1 and key.fields[0].referenced is None:
            return key.fields[0]
    if isinstance(schema, SetSchema):
        element = model.schemas.get(schema.element)
        boxed = model.boxed_field(schema.element)
        if boxed is not None or not isinstance(element, ObjectSchema):
            return boxed
        if schema.hash_key is not None and len(schema.hash_key) == 1:
            position = element.position(schema.hash_key[0].removesuffix("!"))
            field = element.fields[position] if position >= 0 else None
            if field is not None and (field.referenced is None or model.boxed_field(field.referenced) is not None):
                return field
    return None


def _owners(model: Model) -> list[str]:
    roots = set(model.roots)
    return [
        schema.name
        for schema in model.schemas
        if isinstance(schema, ObjectSchema) and (schema.name in roots or schema.primary_key is not None)
    ]


def _add_below(model: Model, place: _Place, found: dict[str, ValueType], places: deque[_Place]) -> None:
    """The paths one step below a place."""
    match model.schemas.get(place.type_name):
        case ObjectSchema(fields=fields):
            for field in fields:
                _add_field(model, place, field, found, places)
            for vector in model.vectors:
                if vector.type_name == place.type_name:
                    _add(found, place.path, vector.field_name, ValueType.VECTOR_F32)
        case ListSchema(element=element):
            _add_inner(model, place, "[]", element, "element", found, places)
        case SetSchema(element=element) if entry_key(model, place.type_name) is not None:
            _add_inner(model, place, "{}", element, "element", found, places)
        case MapSchema(value=value) if entry_key(model, place.type_name) is not None:
            _add_inner(model, place, "{}", value, "value", found, places)


def _add_field(model: Model, place: _Place, field: Field, found: dict[str, ValueType], places: deque[_Place]) -> None:
    target = field.referenced
    value_type = _value_type(model, place.type_name, field.name, field.type, target)
    path = _add(found, place.path, field.name, value_type)
    if path is not None and target is not None:
        _go_on(model, place, path, target, places)


def _add_inner(
    model: Model,
    place: _Place,
    placeholder: str,
    target: str,
    noted: str,
    found: dict[str, ValueType],
    places: deque[_Place],
) -> None:
    if target in place.way:
        return  # what repeats is reached by selectors below the list or map
    value_type = _value_type(model, place.type_name, noted, FieldType.REFERENCE, target)
    path = _add(found, place.path, None, value_type, placeholder)
    if path is not None:
        _go_on(model, place, path, target, places)


def _go_on(model: Model, place: _Place, path: str, target: str, places: deque[_Place]) -> None:
    if target not in place.way and model.boxed_field(target) is None:
        places.append(_Place(path, target, place.way | {target}))


def _add(
    found: dict[str, ValueType], parent: str, name: str | None, value_type: ValueType, placeholder: str = ""
) -> str | None:
    """Note a path; None if it is longer than paths may be or its name cannot be written."""
    try:
        path = check_path(f"{parent}.{escape_name(name)}" if name is not None else parent + placeholder)
    except RegistryError as error:
        log.warning("field %r of %s has no place in the registry: %s", name, parent, error)
        return None
    found[path] = value_type
    return path


def _value_type(model: Model, type_name: str, noted: str, field_type: FieldType, target: str | None) -> ValueType:
    boxed = None if target is None else model.boxed_field(target)
    if target is not None and boxed is None:
        return _container_type(model, target)
    logical = model.logical.get(type_name, {}).get(noted)
    if logical is None and boxed is not None:
        logical = model.logical.get(target or "", {}).get(boxed.name)
    if logical is not None and logical.format.startswith("tsm:"):
        return ValueType.TIMESTAMP_MS
    return _TYPES[field_type if boxed is None else boxed.type]


def _container_type(model: Model, type_name: str) -> ValueType:
    match model.schemas.get(type_name):
        case ListSchema():
            return ValueType.LIST
        case MapSchema():
            return ValueType.MAP
        case SetSchema():
            return ValueType.LIST if entry_key(model, type_name) is None else ValueType.MAP
    return ValueType.ANY
