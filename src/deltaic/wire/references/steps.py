"""Steps of an address: by the name of a field, to all elements or entries, or to those of a selector."""

from dataclasses import dataclass
from typing import Final, Literal

from deltaic.wire.references.reference import Selector

Placeholder = Literal["[]", "{}"]


@dataclass(frozen=True, slots=True)
class Key:
    """A step to the field of a name."""

    name: str


@dataclass(frozen=True, slots=True)
class All:
    """A step to all elements of a list (`[]`) or all entries of a map (`{}`)."""

    placeholder: Placeholder


Step = Key | All | Selector
"""One step of an address."""

ALL_ELEMENTS: Final = All("[]")
ALL_ENTRIES: Final = All("{}")
