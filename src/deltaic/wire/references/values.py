"""Addresses followed through nested values: dicts and lists, as records are given and shown.

Writing copies what is on the way and shares the rest: the value that was given stays as it was. What is missing, or
lies below a null, is NotFoundError when it is read or removed; writing makes the dicts that are missing and appends
the element that is next. Ranges select what is there of them, as slices do; a step that selects nothing changes
nothing. Where a step names several places the answer is a list (of a map: a dict), and so on inside.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from deltaic.errors import InputError, NotFoundError
from deltaic.wire.references.address import Address
from deltaic.wire.references.reference import Index, Indices, MapKey, Range, Ranges
from deltaic.wire.references.steps import ALL_ENTRIES, All, Key, Step
from deltaic.wire.references.text import print_steps


class _Missing:
    """Nothing there."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""Stands for a value that is not there."""

MOST_STEPS: Final = 512
"""How deep values are followed."""

Value = Any
Steps = tuple[Step, ...]


def get(value: Value, address: Address, default: Value = MISSING) -> Value:
    """What is at an address: one value, or nested lists and dicts of them where steps name several places.

    Without a default, what is not there raises NotFoundError.
    """
    found = _get(value, _checked(address), 0, default)
    if found is MISSING:
        raise NotFoundError(f"there is nothing at {address}")
    return found


def put(value: Value, address: Address, new: Value, *, each: bool = False) -> Value:
    """The value with something new at every place that an address names.

    Args:
        value: Where to put it; it is not changed.
        address: The places.
        new: What to put.
        each: True if `new` has the form that `get` gives, with a value for each place.
    """
    changed = _put(value, _checked(address), 0, new, each)
    return value if changed is MISSING else changed


def delete(value: Value, address: Address, *, missing_ok: bool = False) -> Value:
    """The value without the fields, elements or entries at an address."""
    if not address.steps:
        raise InputError("an address without steps names the value itself; nothing would be left")
    changed = _drop(value, _checked(address), 0)
    if changed is not MISSING:
        return changed
    if missing_ok:
        return value
    raise NotFoundError(f"there is nothing at {address}")


def key_text(key: object) -> str:
    """The text by which a reference names an entry of a map or an element of a set."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _checked(address: Address) -> Steps:
    if len(address.steps) > MOST_STEPS:
        raise InputError(f"an address of {len(address.steps)} steps; values are followed {MOST_STEPS} deep")
    return address.steps


def _get(value: Value, steps: Steps, depth: int, default: Value) -> Value:
    if value is MISSING or (value is None and depth < len(steps)):
        return default
    if depth == len(steps):
        return value
    step = steps[depth]
    if isinstance(step, Key):
        return _get(_mapping(value, steps, depth).get(step.name, MISSING), steps, depth + 1, default)
    if isinstance(step, MapKey):
        return _get(_entry(value, step.key, steps, depth), steps, depth + 1, default)
    if step == ALL_ENTRIES:
        if isinstance(value, frozenset | set):
            return sorted((_get(one, steps, depth + 1, default) for one in value), key=key_text)
        found = {key: _get(inner, steps, depth + 1, default) for key, inner in _mapping(value, steps, depth).items()}
        return MISSING if any(one is MISSING for one in found.values()) else found
    elements = _elements(value, steps, depth)
    if isinstance(step, Index):
        return _get(_element(elements, step.element), steps, depth + 1, default)
    several = [_get(_element(elements, place), steps, depth + 1, default) for place in _places(step, len(elements))]
    return MISSING if any(one is MISSING for one in several) else several


def _put(value: Value, steps: Steps, depth: int, new: Value, each: bool) -> Value:
    """The value with the change; MISSING if there was no value and nothing is to be put."""
    if depth == len(steps):
        return new
    step = steps[depth]
    if isinstance(step, MapKey) and isinstance(value, frozenset | set):
        if depth + 1 != len(steps):
            raise _mismatch(value, steps, depth, "a map")
        return type(value)([*(element for element in value if key_text(element) != step.key), new])
    if isinstance(step, Key | MapKey):
        entries = {} if _nothing(value) else dict(_mapping(value, steps, depth))
        name = step.name if isinstance(step, Key) else _key(entries, step.key)
        inner = _put(entries.get(name, MISSING), steps, depth + 1, new, each)
        if inner is MISSING:
            return value
        entries[name] = inner
        return entries
    if isinstance(step, Index):
        elements = [] if _nothing(value) else list(_elements(value, steps, depth))
        return _like(value, _put_element(elements, step.element, steps, depth, new, each))
    if _nothing(value):
        if each and new:
            raise NotFoundError(f"there is nothing at {_shown(steps, depth)}")
        return value
    return _put_several(value, step, steps, depth, new, each)


def _put_element(elements: list[Value], place: int, steps: Steps, depth: int, new: Value, each: bool) -> list[Value]:
    if place > len(elements):
        raise NotFoundError(f"there is nothing at {_shown(steps, depth)}: the list has {len(elements)} elements")
    inner = _put(_element(elements, place), steps, depth + 1, new, each)
    if inner is not MISSING:
        elements[place : place + 1] = [inner]
    return elements


def _put_several(
    value: Value, step: All | Range | Indices | Ranges, steps: Steps, depth: int, new: Value, each: bool
) -> Value:
    if step == ALL_ENTRIES:
        entries = _mapping(value, steps, depth)
        if each and (not isinstance(new, Mapping) or new.keys() != entries.keys()):
            raise InputError(f"{_shown(steps, depth)}: the new values are no mapping with the keys that are there")
        return {key: _put(inner, steps, depth + 1, new[key] if each else new, each) for key, inner in entries.items()}
    elements = list(_elements(value, steps, depth))
    places = _places(step, len(elements))
    if each and (not isinstance(new, list | tuple) or len(new) != len(places)):
        raise InputError(f"{_shown(steps, depth)}: {len(places)} places, and not as many new values in a list")
    for number, place in enumerate(places):
        if place >= len(elements):
            raise NotFoundError(f"there is nothing at {_shown(steps, depth)}: the list has {len(elements)} elements")
        elements[place] = _put(elements[place], steps, depth + 1, new[number] if each else new, each)
    return _like(value, elements)


def _drop(value: Value, steps: Steps, depth: int) -> Value:
    """The value without what is at the steps; MISSING if there is nothing."""
    if _nothing(value):
        return MISSING
    step = steps[depth]
    if isinstance(value, frozenset | set):
        return _drop_elements_of_set(value, step, steps, depth)
    if isinstance(step, Key | MapKey) or step == ALL_ENTRIES:
        entries = dict(_mapping(value, steps, depth))
        names = list(entries) if isinstance(step, All) else [_name(step, entries)]
        return _drop_inside(entries, names, steps, depth)
    elements = list(_elements(value, steps, depth))
    places = [step.element] if isinstance(step, Index) else _places(step, len(elements))
    if any(place >= len(elements) for place in places):
        return MISSING
    kept = _drop_inside(dict(enumerate(elements)), places, steps, depth)
    return MISSING if kept is MISSING else _like(value, list(kept.values()))


def _drop_inside(entries: dict[Any, Value], names: Sequence[Any], steps: Steps, depth: int) -> Value:
    for name in names:
        if name not in entries:
            return MISSING
        if depth + 1 == len(steps):
            del entries[name]
            continue
        entries[name] = _drop(entries[name], steps, depth + 1)
        if entries[name] is MISSING:
            return MISSING
    return entries


def _drop_elements_of_set(value: frozenset[Value] | set[Value], step: Step, steps: Steps, depth: int) -> Value:
    if depth + 1 != len(steps) or not (isinstance(step, MapKey) or step == ALL_ENTRIES):
        raise _mismatch(value, steps, depth, "a map")
    if not isinstance(step, MapKey):
        return type(value)()
    kept = [element for element in value if key_text(element) != step.key]
    return MISSING if len(kept) == len(value) else type(value)(kept)


def _nothing(value: Value) -> bool:
    return value is None or value is MISSING


def _like(value: Value, elements: list[Value]) -> Value:
    return tuple(elements) if isinstance(value, tuple) else elements


def _element(elements: Sequence[Value], place: int) -> Value:
    return elements[place] if place < len(elements) else MISSING


def _places(step: All | Range | Indices | Ranges, length: int) -> Sequence[int]:
    match step:
        case All():
            return range(length)
        case Range(start, end):
            return range(start, min(end, length))
        case Indices(elements):
            return elements
        case Ranges(ranges):
            return [place for start, end in ranges for place in range(start, min(end, length))]


def _name(step: Key | MapKey | Step, entries: Mapping[Any, Value]) -> Any:
    return _key(entries, step.key) if isinstance(step, MapKey) else step.name if isinstance(step, Key) else None


def _key(entries: Mapping[Any, Value], text: str) -> Any:
    """The key that a text stands for: the one that is there, or a new one of the kind of the others."""
    if text in entries:
        return text
    key = next(iter(entries), text)
    if isinstance(key, str):
        return text
    for key in entries:
        if key_text(key) == text:
            return key
    if isinstance(key, int | float) and not isinstance(key, bool):
        try:
            made = type(key)(text)
        except ValueError as error:
            raise InputError(f"{text!r} is no key of a map whose keys are {type(key).__name__}") from error
        if key_text(made) == text:
            return made
    return text


def _entry(value: Value, text: str, steps: Steps, depth: int) -> Value:
    if isinstance(value, frozenset | set):
        return next((element for element in value if key_text(element) == text), MISSING)
    entries = _mapping(value, steps, depth)
    return entries.get(_key(entries, text), MISSING)


def _mapping(value: Value, steps: Steps, depth: int) -> Mapping[Any, Value]:
    if not isinstance(value, Mapping):
        raise _mismatch(value, steps, depth, "a dict")
    return value


def _elements(value: Value, steps: Steps, depth: int) -> Sequence[Value]:
    if not isinstance(value, list | tuple):
        raise _mismatch(value, steps, depth, "a list")
    return value


def _shown(steps: Steps, depth: int) -> str:
    return print_steps(steps[: depth + 1])


def _mismatch(value: Value, steps: Steps, depth: int, wanted: str) -> InputError:
    where = print_steps(steps[:depth]) or "the value"
    return InputError(f"{where} is {type(value).__name__}, and {_shown(steps, depth)} wants {wanted}", "ValueMismatch")
