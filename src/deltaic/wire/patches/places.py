"""Paths with their elements and entries bound: `cast[2].name`, `ratings{"imdb"}`, `tags[1:3]`.

    path     = segment *( "." segment )
    segment  = name *selector              the name escaped as in field-registry.md, 4
    selector = "[" index "]"               one element
             / "[" start ":" end "]"       a half-open range
             / "[" index *("," index) "]"  several elements; ranges too: [0:2,5:7]
             / "{" JSON text "}"           one entry: {"imdb"}
             / "[]" / "{}"                 all elements or entries

`split_place` gives the path as the registry has it, with `[]` and `{}` for every selector, and the selectors. A `[]` or
`{}` that is left open in front of a bound one becomes the range of all elements; a `{}` cannot.
"""

import json
import re
from functools import lru_cache
from itertools import pairwise

from deltaic.errors import RegistryError
from deltaic.wire.references import LARGEST, Index, Indices, MapKey, Range, Ranges, Selector

ALL = Range(0, LARGEST)
"""All elements, where a later placeholder is bound (field-registry.md, 4)."""

_NAME = re.compile(r"(?:[^.\[\]{}\\\x00-\x1f]|\\[.\[\]{}\\])+")
_NUMBERS = re.compile(r"\[((?:\d{1,8}(?::\d{1,8})?)(?:,\d{1,8}(?::\d{1,8})?)*)?\]")
_JSON_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLACEHOLDERS = re.compile(r"\[\]|\{\}")
_ESCAPED = re.compile(r"\\.")


@lru_cache(maxsize=4096)
def split_place(text: str) -> tuple[str, tuple[Selector, ...]]:
    """A bound path as the registry's path and its selectors.

    Raises:
        RegistryError: `InvalidPath`.
    """
    path: list[str] = []
    selectors: list[Selector | str] = []
    position = 0
    while True:
        name = _NAME.match(text, position)
        if name is None:
            raise _invalid(text, position, "a name must stand here")
        path.append(name.group())
        position = name.end()
        while position < len(text) and text[position] in "[{":
            found, position = _selector(text, position)
            placeholder = "[]" if text[position - 1] == "]" else "{}"
            path.append(placeholder)
            selectors.append(placeholder if found is None else found)
        if position == len(text):
            return "".join(path), _bound(text, selectors)
        if text[position] != ".":
            raise _invalid(text, position, "a dot or a selector must stand here")
        path.append(".")
        position += 1


def join_place(path: str, selectors: tuple[Selector, ...]) -> str:
    """The bound path of a registry's path and selectors; those left over go below the field.

    Raises:
        RegistryError: `ParamKindMismatch` if a selector does not fit its placeholder.
    """
    if not selectors:
        return path
    pieces: list[str] = []
    left = list(selectors)
    position = 0
    for place in placeholders(path):
        pieces.append(path[position:place])
        position = place + 2
        if not left:
            pieces.append(path[place:position])
            continue
        selector = left.pop(0)
        if isinstance(selector, MapKey) != (path[place] == "{"):
            raise RegistryError("ParamKindMismatch", f"{selector} does not fit {path[place:position]} of {path}")
        pieces.append(selector_text(selector))
    pieces.append(path[position:])
    return "".join([*pieces, *map(selector_text, left)])


def selector_text(selector: Selector) -> str:
    """A selector as a bound path has it."""
    match selector:
        case Index(element):
            return f"[{element}]"
        case Range(start, end) if selector == ALL:
            return "[]"
        case Range(start, end):
            return f"[{start}:{end}]"
        case Indices(elements):
            return f"[{','.join(map(str, elements))}]" if len(elements) > 1 else f"[{elements[0]},]"
        case Ranges(ranges):
            shown = ",".join(f"{start}:{end}" for start, end in ranges)
            return f"[{shown}]" if len(ranges) > 1 else f"[{shown},]"
        case MapKey(key):
            return f"{{{json.dumps(key, ensure_ascii=False)}}}"


def field_text(name: str) -> str:
    """A name as a path has it: what would end it is escaped."""
    return re.sub(r"([.\[\]{}\\])", r"\\\1", name)


def placeholders(path: str) -> list[int]:
    """Where the placeholders of a registry's path stand."""
    plain = _ESCAPED.sub("\0\0", path)
    return [found.start() for found in _PLACEHOLDERS.finditer(plain)]


def _selector(text: str, position: int) -> tuple[Selector | None, int]:
    if text[position] == "{":
        if text.startswith("{}", position):
            return None, position + 2
        key = _JSON_TEXT.match(text, position + 1)
        if key is None or not text.startswith("}", key.end()):
            raise _invalid(text, position, 'the key of an entry is a JSON text: {"key"}')
        try:
            return MapKey(json.loads(key.group(), strict=False)), key.end() + 1
        except ValueError as error:
            raise _invalid(text, position, f"the key is no JSON text: {error}") from error
    end = text.find("]", position)
    inner = text[position + 1 : end] if end >= 0 else ""
    single = inner.endswith(",")
    found = _NUMBERS.match(f"[{inner.removesuffix(',')}]") if end >= 0 else None
    if found is None:
        raise _invalid(text, position, "elements are [2], [1:3], [1,4], [0:2,5:7] or []")
    if found.group(1) is None:
        if single:
            raise _invalid(text, position, "no element stands before the comma")
        return None, end + 1
    parts = [tuple(int(number) for number in part.split(":")) for part in found.group(1).split(",")]
    if max(max(part) for part in parts) > LARGEST:
        raise RegistryError("VarintOverflow", f"elements are numbered up to {LARGEST:,}: {text}", position)
    return _numbered(text, position, parts, single), end + 1


def _numbered(text: str, position: int, parts: list[tuple[int, ...]], single: bool) -> Selector:
    if len({len(part) for part in parts}) > 1:
        raise _invalid(text, position, "elements and ranges do not mix")
    if len(parts[0]) == 1:
        elements = tuple(part[0] for part in parts)
        if len(set(elements)) != len(elements):
            raise RegistryError("InvalidParam", f"an element is named twice: {text}", position)
        return Index(elements[0]) if len(elements) == 1 and not single else Indices(elements)
    ranges = tuple((part[0], part[1]) for part in parts)
    ordered = sorted(ranges)
    if any(start >= end for start, end in ranges) or any(later[0] < earlier[1] for earlier, later in pairwise(ordered)):
        raise RegistryError("InvalidParam", f"a range selects nothing, or two overlap: {text}", position)
    return Range(*ranges[0]) if len(ranges) == 1 and not single else Ranges(ranges)


def _bound(text: str, selectors: list[Selector | str]) -> tuple[Selector, ...]:
    while selectors and isinstance(selectors[-1], str):
        selectors.pop()
    if "{}" in selectors:
        raise _invalid(text, 0, "all entries of a map cannot be left open in front of a bound selector")
    return tuple(ALL if isinstance(selector, str) else selector for selector in selectors)


def _invalid(text: str, position: int, reason: str) -> RegistryError:
    return RegistryError("InvalidPath", f"{text!r}: {reason}", position)
