"""Patches on records as dicts and lists: what a patch means, said once, for every path that a model has.

A record is never changed: what is on the way is copied, the rest is shared. Setting makes the records and collections
that are missing on the way; taking away what is not there, an element past the end of a list, a delta for a vector that
is null are conflicts.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from deltaic.errors import InputError, PatchConflictError
from deltaic.producer.patch_routes import Route, RouteStep, StepKind
from deltaic.producer.patch_shapes import Shapes
from deltaic.schema.logical import LogicalType
from deltaic.schema.types import Field, FieldType
from deltaic.state.ingest_plan import Place
from deltaic.state.ingest_python import encode_python
from deltaic.state.ingest_rows import Fixed, Rows
from deltaic.wire.patches import ABSENT, Operation
from deltaic.wire.references import Index, Indices, MapKey, Range, Ranges, Selector
from deltaic.wire.vectors import VectorDelta

Selectors = tuple[Selector, ...]
_Leaf = Callable[[Any], Any]


class NotThere(Exception):
    """A patch needs something at a place where there is nothing."""


def patched(record: Any, route: Route, selectors: Selectors, operation: Operation, value: Any) -> Any:
    """The record after one patch.

    Raises:
        NotThere: the place is missing.
        InputError: the value or a selector does not fit.
    """
    if operation is Operation.VECTOR:
        return _changed(record, route, selectors, lambda found: _moved(found, route, value))
    if operation is Operation.DELETE:
        return _without(record, route.steps, _per_step(route, selectors))
    return _changed(record, route, selectors, lambda _: value)


def current(record: Any, route: Route, selectors: Selectors) -> Any:
    """What is at a place; ABSENT if there is no such element or entry, or nothing above it."""
    found = record
    for step, selector in zip(route.steps, _per_step(route, selectors), strict=True):
        if found is None:
            return ABSENT
        if step.kind is StepKind.FIELD:
            found = found.get(step.name)
        elif isinstance(selector, Index) and step.kind is StepKind.ELEMENT:
            if selector.element >= len(found):
                return ABSENT
            found = found[selector.element]
        elif isinstance(selector, Range) and step.kind is StepKind.ELEMENT and step is route.last:
            return list(found[selector.start : selector.end])
        elif isinstance(selector, MapKey):
            place = _place(found, step, selector.key)
            if place is None:
                return ABSENT
            found = _items(found, step)[place][1]
        else:
            raise InputError(f"{route.path}: only one place can be held against a previous value", "BadPatch")
    return found


def same_value(route: Route, shapes: Shapes, selectors: Selectors, found: Any, expected: Any) -> bool:
    """True if what is there is what was expected, both as the field keeps it."""
    if found is ABSENT or expected is ABSENT or found is None or expected is None:
        return (found is ABSENT) == (expected is ABSENT) and (found is None) == (expected is None)
    if not isinstance(_per_step(route, selectors)[-1], Range):
        return _same(route, shapes, found, expected)
    # A range of elements is held against a list of them.
    if not isinstance(expected, list | tuple) or len(found) != len(expected):
        return False
    return all(
        (one is None and other is None) if one is None or other is None else _same(route, shapes, one, other)
        for one, other in zip(found, expected, strict=True)
    )


def key_text(value: Any) -> str:
    """The text by which a selector names an entry."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def typed_key(text: str, key: Field, path: str) -> Any:
    """The key that a selector's text stands for."""
    try:
        match key.type:
            case FieldType.STRING:
                return text
            case FieldType.INT | FieldType.LONG:
                if str(int(text)) == text:
                    return int(text)
            case FieldType.BOOLEAN if text in ("true", "false"):
                return text == "true"
            case FieldType.FLOAT | FieldType.DOUBLE:
                return float(text)
            case _:
                pass
    except ValueError:
        pass
    raise InputError(f"{path}: {text!r} is no {key.type} that an entry could have as its key", "BadKey")


def _same(route: Route, shapes: Shapes, found: Any, expected: Any) -> bool:
    if route.scalar is not None:
        return _kept(route.scalar, found, route.path) == _kept(route.scalar, expected, route.path)
    try:
        return shapes.same(route.last.target or "", found, expected)
    except RecursionError as error:
        raise InputError(f"{route.path}: an expected value is nested too deep", "TooDeep") from error


def _changed(record: Any, route: Route, selectors: Selectors, leaf: _Leaf) -> Any:
    return _set(record, route, 0, _per_step(route, selectors), leaf)


def _per_step(route: Route, selectors: Selectors) -> list[Selector | None]:
    """The selector of each step; None for fields, and where all elements or entries are meant."""
    left = list(selectors)
    found: list[Selector | None] = []
    for step in route.steps:
        found.append(left.pop(0) if step.kind is not StepKind.FIELD and left else None)
    if left:
        raise InputError(f"{route.path}: more selectors than placeholders", "UnboundParam")
    return found


def _set(value: Any, route: Route, number: int, selectors: list[Selector | None], leaf: _Leaf) -> Any:
    if number == len(route.steps):
        return leaf(value)
    step, selector = route.steps[number], selectors[number]

    def below(inner: Any) -> Any:
        return _set(inner, route, number + 1, selectors, leaf)

    if step.kind is StepKind.FIELD:
        record = {} if value is None else value
        return {**record, step.name: below(record.get(step.name))}
    if step.kind is StepKind.ELEMENT:
        return _set_elements(value, step, route, selector, below)
    if selector is None:
        if value is None:
            return value
        return _rebuilt(value, step, [(key, below(each)) for key, each in _items(value, step)])
    assert isinstance(selector, MapKey)
    return _set_entry(value, step, route, selector.key, below)


def _set_elements(value: Any, step: RouteStep, route: Route, selector: Selector | None, below: _Leaf) -> Any:
    elements = [] if value is None else list(value)
    if isinstance(selector, Range) and step is route.last and selector.end <= _LAST:
        if selector.start > len(elements):
            raise NotThere
        given = below(elements[selector.start : selector.end])
        if not isinstance(given, list | tuple):
            raise InputError(f"{route.path}: a range takes a list, not a {type(given).__name__}", "WrongType")
        elements[selector.start : selector.end] = given
        return elements
    if isinstance(selector, Index) and selector.element == len(elements):
        return [*elements, below(None)]
    places = _places(selector, len(elements))
    if value is None and selector is None:
        return value
    for place in places:
        if place >= len(elements):
            raise NotThere
        elements[place] = below(elements[place])
    return elements


def _set_entry(value: Any, step: RouteStep, route: Route, text: str, below: _Leaf) -> Any:
    if step.key is None:
        raise InputError(f"{route.path}: entries of {step.type_name} have no key that is one value", "BadKey")
    items = [] if value is None else _items(value, step)
    place = None if value is None else _place(value, step, text)
    if place is not None:
        items[place] = (items[place][0], below(items[place][1]))
    elif step.kind is StepKind.ENTRY:
        items.append((typed_key(text, step.key, route.path), below(None)))
    else:
        new = below(None)
        items.append((new, new))
    return _rebuilt({} if value is None and step.kind is StepKind.ENTRY else value, step, items)


def _without(value: Any, steps: tuple[RouteStep, ...], selectors: list[Selector | None]) -> Any:
    step, selector = steps[0], selectors[0]
    if value is None:
        raise NotThere
    last = len(steps) == 1
    if step.kind is StepKind.FIELD:
        return {**value, step.name: None if last else _without(value.get(step.name), steps[1:], selectors[1:])}
    if step.kind is StepKind.ELEMENT:
        elements = list(value)
        places = set(_places(selector, len(elements)))
        if places and max(places) >= len(elements):
            raise NotThere
        if last:
            return [each for place, each in enumerate(elements) if place not in places]
        for place in places:
            elements[place] = _without(elements[place], steps[1:], selectors[1:])
        return elements
    items = _items(value, step)
    found: set[int] = set(range(len(items)))
    if isinstance(selector, MapKey):
        only = _place(value, step, selector.key)
        if only is None:
            raise NotThere
        found = {only}
    if last:
        return _rebuilt(value, step, [item for place, item in enumerate(items) if place not in found])
    return _rebuilt(
        value,
        step,
        [
            (key, _without(each, steps[1:], selectors[1:]) if place in found else each)
            for place, (key, each) in enumerate(items)
        ],
    )


_LAST = 4_194_302
"""A range that ends behind it means all elements."""


def _places(selector: Selector | None, length: int) -> list[int]:
    match selector:
        case Index(element):
            return [element]
        case Range(start, end):
            return list(range(start, min(end, length)))
        case Indices(elements):
            return list(elements)
        case Ranges(ranges):
            return [place for start, end in ranges for place in range(start, min(end, length))]
        case _:
            return list(range(length))


def _items(value: Any, step: RouteStep) -> list[tuple[Any, Any]]:
    """Entries of a map, or elements of a set with their keys."""
    if step.kind is StepKind.ENTRY:
        return list(value.items()) if isinstance(value, Mapping) else [(key, each) for key, each in value]
    found = []
    for element in value:
        key = element
        for name in step.key_path:
            key = key.get(name) if isinstance(key, Mapping) else None
        found.append((key, element))
    return found


def _place(value: Any, step: RouteStep, text: str) -> int | None:
    if step.key is None:
        raise InputError(f"entries of {step.type_name} have no key that is one value", "BadKey")
    if step.kind is StepKind.ENTRY and isinstance(value, dict) and step.key.type is FieldType.STRING:
        return list(value).index(text) if text in value else None
    for place, (key, _) in enumerate(_items(value, step)):
        if key is not None and key_text(key) == text:
            return place
    return None


def _rebuilt(value: Any, step: RouteStep, items: list[tuple[Any, Any]]) -> Any:
    if step.kind is StepKind.MEMBER:
        return [element for _, element in items]
    return dict(items) if isinstance(value, Mapping) else items


def _moved(found: Any, route: Route, delta: Any) -> Any:
    if not isinstance(delta, VectorDelta):
        raise InputError(f"{route.path}: a vector is changed by a VectorDelta, not by a {type(delta).__name__}")
    if route.vector is None:
        raise InputError(f"{route.path} is no vector", "WrongType")
    if delta.dims != route.vector.dimensions:
        raise InputError(
            f"{route.path}: a delta of {delta.dims} dimensions for a vector of {route.vector.dimensions}",
            "DimensionMismatch",
        )
    if found is None:
        if len(delta.indices) != delta.dims or delta.relative:
            raise NotThere
        found = np.zeros(delta.dims, np.float32)
    before = np.array(found, np.float32)
    if delta.prev is not None:
        wrong = np.flatnonzero(before.view(np.uint32)[delta.indices] != delta.prev)
        if len(wrong):
            place = int(delta.indices[wrong[0]])
            expected = float(delta.prev.view(np.float32)[wrong[0]])
            raise PatchConflictError("", None, f"{route.path}[{place}]", float(before[place]), expected)
    return delta.apply(before)


def _kept(scalar: LogicalType, value: Any, path: str) -> bytes:
    """The bytes in which a field keeps a value."""
    rows = Rows(Place(None, path, 0), 1)  # type: ignore[arg-type]
    made = encode_python([value], scalar, rows, path, as_json=True)
    if isinstance(made, Fixed):
        if made.valid is not None and not made.valid[0]:
            return b"null"
        return np.asarray(made.values).tobytes()
    return bytes(made.data[int(made.starts[0]) : int(made.ends[0])])
