"""From a reference to an address and back, through a registry (field-registry.md, 4 and 6).

Errors come in the order of section 11: the version, the field, unknown critical parameters, parents, selectors.
"""

from functools import lru_cache

from deltaic.errors import RegistryError
from deltaic.schema.registry_paths import parse_path
from deltaic.schema.registry_table import ValueType, View, type_text
from deltaic.wire.references.address import Address
from deltaic.wire.references.reference import MapKey, Parent, Reference, Selector, Unknown
from deltaic.wire.references.steps import ALL_ELEMENTS, ALL_ENTRIES, Key, Step
from deltaic.wire.references.text import parse_steps


def resolve(reference: Reference, view: View) -> Address:
    """The address that a reference names.

    Raises:
        RegistryError: `UnknownVersion` and `UnknownField` (the registry may know it after a refresh), `VersionEvicted`,
            `UnknownCriticalParam`, `ParamKindMismatch`, `UnboundParam`.
    """
    version, index = reference.version, reference.index
    field = view.descriptor(index, version)
    if not reference.parameters:
        return Address(open_steps(field.path), field.type)
    for parameter in reference.parameters:
        if isinstance(parameter, Unknown) and parameter.critical:
            reason = f"parameter type {parameter.code} is critical and not known here"
            raise RegistryError("UnknownCriticalParam", reason, None, version, index)
    steps: list[Step] = []
    for parent in reference.parents:
        steps += open_steps(view.descriptor(parent, version).path)
    steps += open_steps(field.path)
    try:
        left = _bind(steps, list(reference.selectors))
        kind = _below(steps, left, field.type) if left else field.type
    except RegistryError as error:
        raise RegistryError(error.code, f"{field.path}: {error.reason}", None, version, index) from error
    return Address(tuple(steps), kind)


def name_field(text: str, view: View, version: int | None = None) -> Reference:
    """The reference that a text like `Movie.cast[3].name` names, in a version (None: the current one).

    Selectors at the end go below the field where the registry has the shorter path only: `tags[2]` of a list `tags`.
    """
    path, steps = parse_steps(text)
    selectors = Address(steps).selectors
    wanted = view.current if version is None else version
    index = view.lookup(path, wanted)
    if index is not None:
        # Selectors were made by the placeholders of the path, so they fit them.
        return Reference(wanted, index, selectors)
    # What is cut off goes below the field, so it must be something that selects.
    all_bound = len(selectors) == sum(not isinstance(step, Key) for step in steps)
    shorter = path
    while all_bound and shorter.endswith(("[]", "{}")):
        shorter = shorter[:-2]
        index = view.lookup(shorter, wanted)
        if index is not None:
            reference = Reference(wanted, index, selectors)
            resolve(reference, view)
            return reference
    raise RegistryError("UnknownField", f"the registry has no field {path!r}", None, wanted)


def translate(reference: Reference, view: View, to_version: int) -> Reference:
    """The same reference in another version: its field and its parents by the numbers that they have there.

    Raises:
        RegistryError: `UnknownField` if one is not there with its type; `UnknownVersion`, `VersionEvicted`.
    """
    version = reference.version
    index = view.translate(reference.index, version, to_version)
    parameters = tuple(
        Parent(view.translate(one.field, version, to_version)) if isinstance(one, Parent) else one
        for one in reference.parameters
    )
    return Reference(to_version, index, parameters)


@lru_cache(maxsize=65_536)
def open_steps(path: str) -> tuple[Step, ...]:
    """The steps of a path, every placeholder open."""
    return tuple(
        Key(step.name) if step.kind == "key" else ALL_ELEMENTS if step.kind == "[]" else ALL_ENTRIES
        for step in parse_path(path)
    )


def _bind(steps: list[Step], selectors: list[Selector]) -> list[Selector]:
    """Put selectors into placeholders from left to right; give those that are left."""
    waiting = iter(selectors)
    for place, step in enumerate(steps):
        if step is not ALL_ELEMENTS and step is not ALL_ENTRIES:
            continue
        selector = next(waiting, None)
        if selector is None:
            return []
        if isinstance(selector, MapKey) != (step is ALL_ENTRIES):
            wanted = "a map key" if step is ALL_ENTRIES else "elements"
            raise RegistryError("ParamKindMismatch", f"step {place} takes {wanted}, not {selector}")
        steps[place] = selector
    return list(waiting)


def _below(steps: list[Step], selectors: list[Selector], kind: int) -> int:
    """Go below the field with the selectors that no placeholder took; what is there is of any type."""
    if kind not in (ValueType.ANY, ValueType.LIST, ValueType.MAP):
        reason = f"nothing takes {selectors[0]}: {type_text(kind)} has no elements or entries"
        raise RegistryError("UnboundParam", reason)
    if kind != ValueType.ANY and isinstance(selectors[0], MapKey) != (kind == ValueType.MAP):
        wanted = "a map key" if kind == ValueType.MAP else "elements"
        raise RegistryError("ParamKindMismatch", f"the field takes {wanted}, not {selectors[0]}")
    steps += selectors
    return ValueType.ANY
