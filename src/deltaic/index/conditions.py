"""What records are asked for: values, ranges, prefixes, nulls, by path."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deltaic.errors import InputError
from deltaic.index.ranges import Inclusive
from deltaic.schema.paths import ResolvedPath, resolve_path
from deltaic.schema.types import Kind
from deltaic.state.read import ReadState


@dataclass(frozen=True, slots=True)
class Between:
    """From one value to another."""

    low: Any
    high: Any
    inclusive: Inclusive = "both"

    def __str__(self) -> str:
        return f"between {self.low!r} and {self.high!r} ({self.inclusive})"


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A text that starts with another, in lower case unless told otherwise."""

    prefix: str
    fold_case: bool = True

    def __str__(self) -> str:
        return f"starts with {self.prefix!r}"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of some values."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        shown = ", ".join(repr(value) for value in self.values[:5])
        return f"is one of {shown}{', …' if len(self.values) > 5 else ''}"


@dataclass(frozen=True, slots=True)
class IsNull:
    """No value at all: the field is null, or a reference on the way to it."""

    def __str__(self) -> str:
        return "is null"


Test = Between | StartsWith | AnyOf | IsNull


def between(low: Any = None, high: Any = None, *, inclusive: Inclusive = "both") -> Between:
    """For `where`: a value from `low` to `high`; None is without bound."""
    return Between(low, high, inclusive)


def starts_with(prefix: str, *, fold_case: bool = True) -> StartsWith:
    """For `where`: a text that starts with `prefix`."""
    return StartsWith(prefix, fold_case)


def any_of(values: Iterable[Any]) -> AnyOf:
    """For `where`: one of these values."""
    return AnyOf(tuple(values))


@dataclass(frozen=True, slots=True)
class Condition:
    """A test on what a path leads to. Through a collection, one member that passes is enough."""

    path: ResolvedPath
    written: str
    test: Test

    @property
    def name(self) -> str:
        """The path with every segment that it goes through."""
        return str(self.path)

    @property
    def through_collections(self) -> bool:
        """True if a record can have more than one value."""
        return any(step.kind is not Kind.OBJECT for step in self.path.steps)

    @property
    def values(self) -> tuple[Any, ...] | None:
        """The values that pass, if they are named."""
        return self.test.values if isinstance(self.test, AnyOf) else None

    def __str__(self) -> str:
        if isinstance(self.test, AnyOf) and len(self.test.values) == 1:
            return f"{self.written} is {self.test.values[0]!r}"
        return f"{self.written} {self.test}"


def conditions(
    state: ReadState, type_name: str, paths: Mapping[str, Any] | None, fields: Mapping[str, Any]
) -> tuple[Condition, ...]:
    """The conditions that a call of `where` names: by dotted path, and by keyword with `__` for a dot."""
    schemas = {name: data.schema for name, data in state.types.items()}
    given = dict(paths or {})
    for name, value in fields.items():
        dotted = name.replace("__", ".")
        if dotted in given:
            raise InputError(f"{dotted} is asked for twice")
        given[dotted] = value
    return tuple(
        Condition(resolve_path(schemas, type_name, path, through_collections=True), path, _test(value))
        for path, value in given.items()
    )


def _test(value: Any) -> Test:
    if isinstance(value, Between | StartsWith | AnyOf | IsNull):
        return value
    if value is None:
        return IsNull()
    if isinstance(value, list | set | frozenset | tuple | np.ndarray):
        return AnyOf(tuple(value.tolist() if isinstance(value, np.ndarray) else value))
    return AnyOf((value,))
