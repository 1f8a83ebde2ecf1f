"""What differs between two values of one record: where, and what stood there.

A field that one of the models lacks is MISSING, which is neither null nor empty.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.json_text import as_json
from deltaic.compare.logical_values import JSON_TEXTS, json_text
from deltaic.kernels.content import Numbers
from deltaic.schema.types import FieldType, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state.read import ReadState


class Missing(Enum):
    """The type of MISSING."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


_SHOWN_NUMBERS = 4

MISSING = Missing.MISSING
"""Stands where a model has no such field, a list no such place, a map no such key."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two values differ."""

    path: str
    """`cast[2].name`, `ratings{"imdb"}`, `genres{}` for an element of a set; empty for the record itself."""
    before: Any
    after: Any

    def __str__(self) -> str:
        if isinstance(self.before, Numbers) and isinstance(self.after, Numbers):
            return f"{self.path}: {moved_text(self.before, self.after)}"
        return f"{self.path or '(record)'}: {shown(self.before)} -> {shown(self.after)}"

    def to_dict(self) -> dict[str, Any]:
        """The difference as JSON has it; a side that is missing is left out."""
        found: dict[str, Any] = {"path": self.path}
        for side, value in (("before", self.before), ("after", self.after)):
            if value is not MISSING:
                found[side] = as_json(value)
        return found


def shown(value: Any, limit: int = 200) -> str:
    """A value for people: `missing`, `null`, `""` and `[]` are told apart."""
    if value is MISSING:
        return "missing"
    if isinstance(value, Numbers):
        return vector_text(value)
    plain = _readable(value)
    text = json.dumps(plain, ensure_ascii=False)
    if not _printable(text):
        text = json.dumps(plain)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def vector_text(value: Numbers) -> str:
    """A vector for people: its first numbers, how many there are, and how long it is."""
    numbers = np.asarray(value, np.float32)
    first = ", ".join(numbers[:_SHOWN_NUMBERS].astype(str).tolist())
    if len(numbers) <= _SHOWN_NUMBERS:
        return f"[{first}]"
    return f"[{first}, … {len(numbers)} numbers, norm {_norm(numbers):.4g}]"


def moved_text(before: Numbers, after: Numbers) -> str:
    """How a vector changed, for people: at how many places, where first, and how far it went."""
    old, new = np.asarray(before, np.float32), np.asarray(after, np.float32)
    if len(old) != len(new):
        return f"{vector_text(before)} -> {vector_text(after)}"
    places = np.flatnonzero(old.view(np.uint32) != new.view(np.uint32))
    first = ", ".join(f"[{place}] {old[place]!s} -> {new[place]!s}" for place in places[:_SHOWN_NUMBERS].tolist())
    more = ", …" if len(places) > _SHOWN_NUMBERS else ""
    with np.errstate(all="ignore"):
        far = _norm(new.astype(np.float64) - old)
    return f"{len(places)} of {len(old)} numbers, distance {far:.4g}: {first}{more}"


def _norm(numbers: NDArray[np.floating[Any]]) -> float:
    with np.errstate(all="ignore"):
        return float(np.sqrt(np.square(numbers, dtype=np.float64).sum()))


def _printable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _readable(value: Any, *, whole: bool = False) -> Any:
    """A value for JSON with bytes as hex digits, maps whose keys are no texts as pairs, and vectors shortened unless
    `whole`.
    """
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Numbers):
        return _bits(value).hex() if whole else vector_text(value)
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _readable(each, whole=whole) for key, each in value.items()}
        return [[_readable(key, whole=whole), _readable(each, whole=whole)] for key, each in value.items()]
    if isinstance(value, JSON_TEXTS):
        return json_text(value)
    if hasattr(value, "type_name"):
        return f"{value.type_name} {value.ordinal}"
    return [_readable(each, whole=whole) for each in value] if isinstance(value, list | tuple) else value


def differences(
    before: ReadState, after: ReadState, type_name: str, old: Any, new: Any, path: str = ""
) -> Iterator[Difference]:
    """The places where two values of a type differ, as `to_python` gives them; MISSING stands for no record."""
    if old is MISSING or new is MISSING or old is None or new is None:
        if old is not new:
            yield Difference(path, old, new)
        return
    schemas = before.types[type_name].schema, after.types[type_name].schema
    if isinstance(schemas[0], ObjectSchema) and isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            yield from _field(before, after, schemas, name, old, new, f"{path}.{name}" if path else name)
    elif isinstance(schemas[0], SetSchema) and isinstance(old, list) and isinstance(new, list):
        yield from _bags(old, new, path)
    elif isinstance(schemas[0], MapSchema):
        yield from _maps(before, after, schemas[0], old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        element = schemas[0].references()[0]
        for place in range(max(len(old), len(new))):
            pair = [side[place] if place < len(side) else MISSING for side in (old, new)]
            yield from _linked(before, after, element, pair[0], pair[1], f"{path}[{place}]")
    elif not _same(old, new):
        yield Difference(path, old, new)


def _field(
    before: ReadState,
    after: ReadState,
    schemas: tuple[Schema, Schema],
    name: str,
    old: dict[str, Any],
    new: dict[str, Any],
    path: str,
) -> Iterator[Difference]:
    one, other = old.get(name, MISSING), new.get(name, MISSING)
    if one in (None, MISSING) and other in (None, MISSING):
        # A field that came or went holds nothing to tell of where it is null.
        return
    links = [_link(schema, name) for schema in schemas]
    if links[0] is not None and links[0] == links[1]:
        yield from _linked(before, after, links[0], one, other, path)
    elif not _same(one, other):
        yield Difference(path, one, other)


def _link(schema: Schema, name: str) -> str | None:
    assert isinstance(schema, ObjectSchema)
    position = schema.position(name)
    if position < 0 or schema.fields[position].type is not FieldType.REFERENCE:
        return None
    return schema.fields[position].referenced


def _linked(before: ReadState, after: ReadState, name: str, old: Any, new: Any, path: str) -> Iterator[Difference]:
    if name in before and name in after:
        yield from differences(before, after, name, old, new, path)
    elif not _same(old, new):
        yield Difference(path, old, new)


def _bags(old: list[Any], new: list[Any], path: str) -> Iterator[Difference]:
    left = [_text(value) for value in old]
    for value in new:
        text = _text(value)
        if text in left:
            left[left.index(text)] = ""
        else:
            yield Difference(f"{path}{{}}", MISSING, value)
    for value, text in zip(old, left, strict=True):
        if text:
            yield Difference(f"{path}{{}}", value, MISSING)


def _maps(
    before: ReadState, after: ReadState, schema: MapSchema, old: Any, new: Any, path: str
) -> Iterator[Difference]:
    sides = [
        dict(side) if isinstance(side, dict) else {_text(key): value for key, value in side} for side in (old, new)
    ]
    if isinstance(old, dict) != isinstance(new, dict):
        sides = [
            {_text(key): value for key, value in (side.items() if isinstance(side, dict) else side)}
            for side in (old, new)
        ]
    for key in dict.fromkeys((*sides[0], *sides[1])):
        label = f"{path}{{{shown(key, 40)}}}"
        yield from _linked(before, after, schema.value, sides[0].get(key, MISSING), sides[1].get(key, MISSING), label)


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, Numbers) or isinstance(new, Numbers):
        return isinstance(old, Numbers) and isinstance(new, Numbers) and _bits(old) == _bits(new)
    return old is new or _text(old) == _text(new)


def _bits(value: Numbers) -> bytes:
    return np.asarray(value, np.float32).tobytes()


def _text(value: Any) -> str:
    """A text that equal values share; sets inside sets keep their order, which is good enough for showing them."""
    return "missing" if value is MISSING else json.dumps(_readable(value, whole=True), sort_keys=True)
