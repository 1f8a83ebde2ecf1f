"""Field paths of the registry: `user.id`, `items[].name`, `data{}` (docs/formats/field-registry.md, 4).

    path     = segment *( "." segment )
    segment  = name *placeholder  /  1*placeholder (only first: a path made to hang below a parent)
    name     = characters but . [ ] { } backslash and those below U+0020, or one of the six behind a backslash

A path is a list of steps: a key, `[]` for any element of a list, `{}` for any entry of a map. Two paths are the same if
their text is. At most 1,024 bytes, 32 placeholders and 128 steps. The dotted paths of keys and indexes are others:
`deltaic.schema.paths`.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from deltaic.errors import RegistryError

MAX_PATH_BYTES = 1_024
MAX_PLACEHOLDERS = 32
MAX_STEPS = 128

StepKind: TypeAlias = Literal["key", "[]", "{}"]

# No alternative starts with what another one starts with, and nothing is given back: time grows with the length only.
_NAME = r"(?:[^.\[\]{}\\\x00-\x1f]++|\\[.\[\]{}\\])++"
_PLACEHOLDER = r"(?:\[\]|\{\})"
_PATH = re.compile(rf"(?:{_NAME}{_PLACEHOLDER}*+|{_PLACEHOLDER}++)(?:\.{_NAME}{_PLACEHOLDER}*+)*+")
_TOKEN = re.compile(rf"({_NAME})|({_PLACEHOLDER})|\.")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL = re.compile(r"[.\[\]{}\\]")
_CONTROL = re.compile(r"[\x00-\x1f]")


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path: a key with its name, any element of a list, or any entry of a map."""

    kind: StepKind
    name: str = ""

    def __str__(self) -> str:
        return escape_name(self.name) if self.kind == "key" else self.kind


ELEMENTS = Step("[]")
"""Any element of a list."""

ENTRIES = Step("{}")
"""Any entry of a map."""


def check_path(text: str) -> str:
    """The text, if it is a path; else RegistryError `InvalidPath`."""
    matched = _PATH.match(text)
    if matched is None or matched.end() != len(text):
        raise _invalid(text, "is no path", 0 if matched is None else matched.end())
    if not text.isascii() or len(text) > MAX_PATH_BYTES:
        _check_bytes(text)
    # A cheap upper bound; only paths near a limit are taken apart.
    if len(text) > MAX_PLACEHOLDERS and text.count(".") + text.count("[") + text.count("{") >= MAX_PLACEHOLDERS:
        _check_steps(text, _split(text))
    return text


@lru_cache(maxsize=65_536)
def parse_path(text: str) -> tuple[Step, ...]:
    """The steps of a path.

    Raises:
        RegistryError: code `InvalidPath`.
    """
    return _split(check_path(text))


def join_path(steps: tuple[Step, ...]) -> str:
    """The text of a path from its steps; the inverse of `parse_path`."""
    text = ""
    for step in steps:
        text += f".{step}" if step.kind == "key" and text else str(step)
    return check_path(text)


def escape_name(name: str) -> str:
    """A name as it is written in a path: the six special characters behind a backslash."""
    if not name or _CONTROL.search(name):
        raise RegistryError("InvalidPath", f"{name!r} cannot be a name of a path: empty, or control characters in it")
    return _SPECIAL.sub(r"\\\g<0>", name)


def _split(text: str) -> tuple[Step, ...]:
    steps = []
    for token in _TOKEN.finditer(text):
        name, placeholder = token.groups()
        if name is not None:
            steps.append(Step("key", _ESCAPED.sub(r"\1", name) if "\\" in name else name))
        elif placeholder is not None:
            steps.append(ELEMENTS if placeholder == "[]" else ENTRIES)
    return tuple(steps)


def _check_bytes(text: str) -> None:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise _invalid(text, "holds half a surrogate pair", error.start) from error
    if size_bytes > MAX_PATH_BYTES:
        raise _invalid(text, f"has {size_bytes:,} bytes, at most {MAX_PATH_BYTES:,} are allowed")


def _check_steps(text: str, steps: tuple[Step, ...]) -> None:
    placeholders = sum(step.kind != "key" for step in steps)
    if placeholders > MAX_PLACEHOLDERS:
        raise _invalid(text, f"has {placeholders} placeholders, at most {MAX_PLACEHOLDERS} are allowed")
    if len(steps) > MAX_STEPS:
        raise _invalid(text, f"has {len(steps)} steps, at most {MAX_STEPS} are allowed")


def _invalid(text: str, what: str, offset: int | None = None) -> RegistryError:
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    return RegistryError("InvalidPath", f"{shown!r} {what}", offset)
