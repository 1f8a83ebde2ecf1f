"""Which libraries an installation has: those that deltaic needs, and those of its extras.

The list is read from the metadata of the installed package, so it is always the one of `pyproject.toml`.
"""

import importlib.metadata
import re
import sys
from dataclasses import dataclass

from deltaic.errors import MissingExtraError

_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(\[[^\]]*\])?\s*([^;]*)")
_EXTRA = re.compile(r"extra == ['\"]([^'\"]+)['\"]")
_BELOW = re.compile(r"python_version < ['\"](\d+)\.(\d+)['\"]")


@dataclass(frozen=True, slots=True)
class Library:
    """One library that deltaic uses: its version here, or None where it is missing."""

    name: str
    wanted: str
    extras: tuple[str, ...]
    """The extras that install it; empty for a library that deltaic cannot do without."""
    version: str | None

    @property
    def advice(self) -> str | None:
        """What to install, if the library is missing."""
        if self.version is not None:
            return None
        if not self.extras:
            return f"pip install '{self.name}{self.wanted}'"
        return f"pip install 'deltaic[{self.extras[0]}]'"


def libraries() -> tuple[Library, ...]:
    """Every library that deltaic or one of its extras asks for, the needed ones first."""
    wanted: dict[str, str] = {}
    extras: dict[str, list[str]] = {}
    for requirement in importlib.metadata.requires("deltaic") or []:
        match = _REQUIREMENT.match(requirement)
        if match is None or match[1] == "deltaic":
            continue
        below = _BELOW.search(requirement)
        if below and sys.version_info >= (int(below[1]), int(below[2])):
            continue
        wanted.setdefault(match[1], match[3].strip())
        extra = _EXTRA.search(requirement)
        extras.setdefault(match[1], []).extend([extra[1]] if extra else [])
    found = [Library(name, wanted[name], tuple(extras[name]), installed_version(name)) for name in wanted]
    return tuple(sorted(found, key=lambda library: bool(library.extras)))


def installed_version(name: str) -> str | None:
    """The version of an installed library, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def missing_extra(error: ModuleNotFoundError) -> MissingExtraError | None:
    """The error that says which extra to install, if it was one of their libraries that could not be imported."""
    module = (error.name or "").partition(".")[0]
    for library in libraries():
        if library.name == module and library.extras:
            return MissingExtraError(f"this command uses {module} and", library.extras[0])
    return None
