"""What a reference means: an address, a list of steps into nested values (field-registry.md, 4).

`resolve` makes an address from a reference and a registry's view; `Address.parse` and `str` are its form for people
(`deltaic.wire.references.text`); `get`, `set` and `delete` follow it through nested values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from deltaic.errors import InputError, RegistryError
from deltaic.schema.registry_paths import ELEMENTS, ENTRIES, join_path
from deltaic.schema.registry_paths import Step as PathStep
from deltaic.wire.references.numbers import LARGEST
from deltaic.wire.references.reference import Index, MapKey, Range, Selector
from deltaic.wire.references.steps import ALL_ENTRIES, All, Key, Step
from deltaic.wire.references.text import parse_steps, print_steps


@dataclass(frozen=True, slots=True)
class Address:
    """Steps from a value to the places inside it that a reference names."""

    steps: tuple[Step, ...]
    type: int = 0
    """The type of the values there, by the registry's numbers; 0 (any) where it is not known."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The address that a text names, as in `Movie.cast[3].name`."""
        return cls(parse_steps(text)[1])

    def __str__(self) -> str:
        return print_steps(self.steps)

    @property
    def single(self) -> bool:
        """True if the address names one place, False if a step may name several."""
        return all(isinstance(step, Key | Index | MapKey) for step in self.steps)

    @property
    def path(self) -> str:
        """The path whose placeholders the selectors are bound to."""
        return join_path(tuple(_path_steps(self.steps)))

    @property
    def selectors(self) -> tuple[Selector, ...]:
        """What binds to the placeholders of `path`, from left to right; those behind the last one stay open.

        Raises:
            RegistryError: code `UnboundParam`, if a map is left open before another placeholder is bound: there is no
                selector that means all entries.
        """
        slots = [step for step in self.steps if not isinstance(step, Key)]
        while slots and isinstance(slots[-1], All):
            slots.pop()
        if ALL_ENTRIES in slots:
            raise RegistryError("UnboundParam", f"{self}: all entries of a map, and then a selector, cannot be said")
        return tuple(Range(0, LARGEST) if isinstance(slot, All) else slot for slot in slots)

    def below(self, name: str) -> Self:
        """The address from the value of the first step on: from a record, where a path starts with its type."""
        if not self.steps or self.steps[0] != Key(name):
            raise InputError(f"{self} does not start with {name!r}")
        return type(self)(self.steps[1:], self.type)


def _path_steps(steps: tuple[Step, ...]) -> Iterator[PathStep]:
    for step in steps:
        if isinstance(step, Key):
            yield PathStep("key", step.name)
        else:
            yield ENTRIES if isinstance(step, MapKey) or step == ALL_ENTRIES else ELEMENTS
