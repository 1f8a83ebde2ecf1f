"""Routes: where a patch's path leads through the types of a model.

A path names fields of records (`cast[].name`); types in between that only box a value or keep a null are no steps of
it. A route knows for each step what type holds it and what type is behind it, and what the last step gives.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

from deltaic.errors import InputError, NotFoundError
from deltaic.schema.classes import VectorColumn
from deltaic.schema.logical import LogicalType, natural
from deltaic.schema.model import Model
from deltaic.schema.registry_paths import Step as PathStep
from deltaic.schema.registry_paths import parse_path
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, SetSchema
from deltaic.state.ingest_plan import boxed_scalar, wrapped_type
from deltaic.wire.patches import PatchGroup, SelectorColumn
from deltaic.wire.references import ParameterType, Reference


class StepKind(Enum):
    """What a step of a route goes through."""

    FIELD = "field"
    ELEMENT = "element of a list"
    ENTRY = "entry of a map"
    MEMBER = "element of a set"


@dataclass(frozen=True, slots=True)
class RouteStep:
    """One step: from a record of a type to what is behind it."""

    kind: StepKind
    type_name: str
    """The type that is left."""
    name: str = ""
    """The field."""
    target: str | None = None
    """The type that is reached; None for a scalar field or a vector."""
    key: Field | None = None
    """Of a map the scalar of its keys, of a set that of its elements or of their hash key."""
    key_path: tuple[str, ...] = ()
    """Of a set: the fields that lead from an element to its key; none if the element is the key."""
    wrapped: bool = False
    """True if a type {value} stands between that only keeps what is null."""


@dataclass(frozen=True, slots=True)
class Route:
    """A path through the types of a model."""

    type_name: str
    path: str
    steps: tuple[RouteStep, ...]
    scalar: LogicalType | None = None
    """What the last step gives, if it is one value; None if it is a record or a collection."""
    boxed: str | None = None
    """The type that boxes the value, where it does not lie in the record."""
    vector: VectorColumn | None = None
    """The vector column, if the path leads to one."""

    @property
    def last(self) -> RouteStep:
        """The last step."""
        return self.steps[-1]


def route_of(model: Model, type_name: str, path: str) -> Route:
    """The route of a path.

    Raises:
        NotFoundError: there is no such type.
        InputError: `UnknownField`, or a path that goes through a value.
    """
    if type_name not in model.schemas:
        raise NotFoundError(f"there is no type {type_name!r}; types: {', '.join(model.schemas.names)}")
    return _Walk(model, type_name, path).walk(parse_path(path))


class _Walk:
    def __init__(self, model: Model, type_name: str, path: str) -> None:
        self._model, self._root, self._path = model, type_name, path
        self._steps: list[RouteStep] = []

    def walk(self, parts: tuple[PathStep, ...]) -> Route:
        at: str | None = self._root
        note: LogicalType | None = None
        for number, part in enumerate(parts):
            if at is None or (number and boxed_scalar(self._model.schemas[at]) is not None):
                raise self._refused("goes on behind a value")
            if part.kind == "key":
                vector = self._vector(at, part.name)
                if vector is not None:
                    if number != len(parts) - 1:
                        raise self._refused("goes on behind a vector")
                    self._steps.append(RouteStep(StepKind.FIELD, at, part.name))
                    return Route(self._root, self._path, tuple(self._steps), vector=vector)
                at, note = self._field(at, part.name)
            else:
                at, note = self._inside(at, part.kind)
        return self._ended(at, note)

    def _ended(self, at: str | None, note: LogicalType | None) -> Route:
        scalar, boxed = note, None
        if at is not None:
            only = boxed_scalar(self._model.schemas[at])
            scalar = None
            if only is not None:
                own = self._model.logical.get(at, {}).get(only.name) or natural(only.type)
                fits = note is not None and not note.is_nested and note.field_type is own.field_type
                scalar, boxed = (note if fits else own), at
        return Route(self._root, self._path, tuple(self._steps), scalar, boxed)

    def _field(self, at: str, name: str) -> tuple[str | None, LogicalType | None]:
        schema = self._model.schemas[at]
        position = schema.position(name) if isinstance(schema, ObjectSchema) else -1
        if not isinstance(schema, ObjectSchema) or position < 0:
            known = ", ".join(field.name for field in schema.fields) if isinstance(schema, ObjectSchema) else "none"
            raise self._refused(f"type {at} has no field {name!r}; fields: {known}", "UnknownField")
        field = schema.fields[position]
        note = self._model.logical.get(at, {}).get(name)
        if field.type is not FieldType.REFERENCE:
            self._steps.append(RouteStep(StepKind.FIELD, at, name))
            return None, note or natural(field.type)
        target, wrapped = self._unwrapped(field.referenced or "")
        self._steps.append(RouteStep(StepKind.FIELD, at, name, target, wrapped=wrapped))
        return target, note

    def _inside(self, at: str, placeholder: str) -> tuple[str, LogicalType | None]:
        schema = self._model.schemas[at]
        notes = self._model.logical.get(at, {})
        if placeholder == "[]" and isinstance(schema, ListSchema):
            target, wrapped = self._unwrapped(schema.element)
            self._steps.append(RouteStep(StepKind.ELEMENT, at, target=target, wrapped=wrapped))
            return target, notes.get("element")
        if placeholder == "{}" and isinstance(schema, MapSchema):
            target, wrapped = self._unwrapped(schema.value)
            key = boxed_scalar(self._model.schemas[schema.key])
            self._steps.append(RouteStep(StepKind.ENTRY, at, target=target, key=key, wrapped=wrapped))
            return target, notes.get("value")
        if placeholder == "{}" and isinstance(schema, SetSchema):
            key, path = self._set_key(schema)
            self._steps.append(RouteStep(StepKind.MEMBER, at, target=schema.element, key=key, key_path=path))
            return schema.element, notes.get("element")
        raise self._refused(f"{placeholder} behind a {schema.kind} {at}", "ParamKindMismatch")

    def _set_key(self, schema: SetSchema) -> tuple[Field | None, tuple[str, ...]]:
        only = boxed_scalar(self._model.schemas[schema.element])
        if only is not None:
            return only, ()
        if schema.hash_key is None or len(schema.hash_key) != 1:
            return None, ()
        at = schema.element
        names: list[str] = []
        for name in schema.hash_key[0].removesuffix("!").split("."):
            owner = self._model.schemas[at]
            position = owner.position(name) if isinstance(owner, ObjectSchema) else -1
            if not isinstance(owner, ObjectSchema) or position < 0:
                return None, ()
            if boxed_scalar(owner) is None or not names:
                names.append(name)
            field = owner.fields[position]
            if field.type is not FieldType.REFERENCE:
                return field, tuple(names)
            at = field.referenced or ""
        only = boxed_scalar(self._model.schemas[at])
        return only, tuple(names) if only is not None else ()

    def _unwrapped(self, name: str) -> tuple[str, bool]:
        inner = wrapped_type(self._model.schemas[name]) if name in self._model.schemas else None
        return (inner, True) if inner is not None else (name, False)

    def _vector(self, at: str, name: str) -> VectorColumn | None:
        return next(
            (each for each in self._model.vectors if each.type_name == at and each.field_name == name),
            None,
        )

    def _refused(self, why: str, code: str = "UnknownField") -> InputError:
        return InputError(f"{self._root}.{self._path}: {why}", code)


def tangled_types(model: Model) -> frozenset[str]:
    """The types that lead back to themselves through others: no order has each before those that refer to it."""
    links = {schema.name: set(schema.references()) - {schema.name} for schema in model.schemas}
    while alone := [name for name, targets in links.items() if not targets & links.keys()]:
        for name in alone:
            del links[name]
    return frozenset(links)


def referred_first(model: Model, names: Collection[str]) -> list[str]:
    """Some types that are not tangled, each behind those that it refers to, itself aside."""
    order: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in order:
            for target in model.schemas[name].references():
                if target in names and target != name:
                    visit(target)
            order[name] = None

    for name in names:
        visit(name)
    return list(order)


def spread(group: PatchGroup) -> PatchGroup:
    """The group with a placeholder in its path for every selector: those left over go below the field."""
    assert not isinstance(group.path, Reference)
    missing = len(group.selectors) - sum(step.kind != "key" for step in parse_path(group.path))
    if missing <= 0:
        return group
    added = "".join(_placeholder(selector) for selector in group.selectors[-missing:])
    return replace(group, path=group.path + added)


def _placeholder(selector: SelectorColumn) -> str:
    return "{}" if selector.code == ParameterType.MAP_KEY else "[]"
