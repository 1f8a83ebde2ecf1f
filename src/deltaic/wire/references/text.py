"""Addresses as people write them.

    Movie.title   Movie.cast[3].name   Movie.cast[].name   items[2:5].x   items[1,4].x   items[0:2,5:9]   data{"k"}

A path whose placeholders are filled: an element, a half-open range (a side that is left out is the end of what can be
named), elements, ranges, or a key as a JSON string. `[]` and `{}` stay open and mean all; `[3,]` and `[2:5,]` are lists
of one. Names are escaped as in paths.
"""

import json
import re

from deltaic.errors import RegistryError
from deltaic.schema.registry_paths import check_path, escape_name
from deltaic.wire.references.numbers import LARGEST
from deltaic.wire.references.parameters import encode_value
from deltaic.wire.references.reference import Index, Indices, MapKey, Range, Ranges, Selector
from deltaic.wire.references.steps import ALL_ELEMENTS, ALL_ENTRIES, All, Key, Step

_NAME = r"(?:[^.\[\]{}\\\x00-\x1f]++|\\[.\[\]{}\\])++"
_KEY = r'"(?:[^"\\\x00-\x1f]++|\\.)*+"'
_TOKEN = re.compile(rf"(?P<name>{_NAME})|(?P<dot>\.)|\[(?P<elements>[0-9:,]*+)\]|\{{(?P<key>{_KEY})?\}}")
_ESCAPED = re.compile(r"\\(.)")
_NUMBER = r"(?:0|[1-9][0-9]{0,6})"
_RANGE = rf"{_NUMBER}?:{_NUMBER}?"
_INDEX_TEXT = re.compile(_NUMBER)
_RANGE_TEXT = re.compile(_RANGE)
_INDICES_TEXT = re.compile(rf"{_NUMBER},|{_NUMBER}(?:,{_NUMBER})++")
_RANGES_TEXT = re.compile(rf"{_RANGE},|{_RANGE}(?:,{_RANGE})++")


def parse_steps(text: str) -> tuple[str, tuple[Step, ...]]:
    """The path that a text fills, and its steps.

    Raises:
        RegistryError: code `InvalidPath`, `InvalidParam` or `VarintOverflow`.
    """
    steps: list[Step] = []
    path: list[str] = []
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise RegistryError("InvalidPath", f"{text!r} is no address", position)
        found = token.lastgroup
        if found == "name":
            path.append(token.group())
            steps.append(Key(_ESCAPED.sub(r"\1", token.group()) if "\\" in token.group() else token.group()))
        elif found == "dot":
            path.append(".")
        elif text[position] == "[":
            path.append("[]")
            steps.append(_parse_elements(token["elements"], text, position))
        else:
            path.append("{}")
            steps.append(_parse_key(token["key"], text, position))
        position = token.end()
    # The grammar of names, dots and placeholders is that of paths, limits included.
    return check_path("".join(path)), tuple(steps)


def print_steps(steps: tuple[Step, ...]) -> str:
    """The text of steps; the inverse of `parse_steps`."""
    text = ""
    for step in steps:
        if isinstance(step, Key):
            text += f".{escape_name(step.name)}" if text else escape_name(step.name)
        else:
            text += _print_step(step)
    return text


def _print_step(step: All | Selector) -> str:
    match step:
        case All(placeholder):
            return placeholder
        case Index(element):
            return f"[{element}]"
        case Range():
            return f"[{_print_range(step.start, step.end)}]"
        case Indices(elements):
            return f"[{','.join(map(str, elements))}{',' if len(elements) == 1 else ''}]"
        case Ranges(ranges):
            shown = ",".join(_print_range(start, end) for start, end in ranges)
            return f"[{shown}{',' if len(ranges) == 1 else ''}]"
        case MapKey(key):
            return f"{{{json.dumps(key, ensure_ascii=False)}}}"


def _print_range(start: int, end: int) -> str:
    if end != LARGEST:
        return f"{start}:{end}"
    return f"{start}:" if start else ":"


def _parse_elements(content: str, text: str, position: int) -> All | Selector:
    if not content:
        return ALL_ELEMENTS
    selector: Selector
    if _INDEX_TEXT.fullmatch(content):
        selector = Index(int(content))
    elif _RANGE_TEXT.fullmatch(content):
        selector = Range(*_parse_range(content))
    elif _INDICES_TEXT.fullmatch(content):
        selector = Indices(tuple(map(int, content.rstrip(",").split(","))))
    elif _RANGES_TEXT.fullmatch(content):
        selector = Ranges(tuple(map(_parse_range, content.rstrip(",").split(","))))
    else:
        raise RegistryError("InvalidPath", f"[{content}] selects no elements in {text!r}", position)
    return _checked(selector, position)


def _parse_range(content: str) -> tuple[int, int]:
    start, _, end = content.partition(":")
    return int(start or 0), int(end or LARGEST)


def _parse_key(content: str | None, text: str, position: int) -> All | Selector:
    if content is None:
        return ALL_ENTRIES
    try:
        key = json.loads(content)
    except ValueError as error:
        raise RegistryError("InvalidPath", f"{content} is no JSON string in {text!r}", position) from error
    return _checked(MapKey(key), position)


def _checked(selector: Selector, position: int) -> Selector:
    try:
        encode_value(selector)
    except RegistryError as error:
        raise RegistryError(error.code, error.reason, position) from error
    return selector
