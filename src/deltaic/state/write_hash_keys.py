"""Hash keys of SETs and MAPs: the hash of every element or key, read through the key's paths (hollow-blob.md, 2.3).

Hashes are computed column by column for the elements that are about to be written, and handed to the kernels by
ordinal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError, SchemaError
from deltaic.kernels import hashing, records
from deltaic.schema.paths import ResolvedPath, resolve_path
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import MapSchema, SetSchema

if TYPE_CHECKING:
    from deltaic.state.write_type import TypeWriter

Ordinals = NDArray[np.int32]

NO_HASHES: Ordinals = np.zeros(0, np.int32)
"""What stands for "no hash key": buckets are those of the records themselves."""


@dataclass(frozen=True, slots=True)
class HashKey:
    """The resolved hash key of a SET or MAP type."""

    type_name: str
    element: str
    per_entry: int
    paths: tuple[ResolvedPath, ...]


def hash_key_of(schema: SetSchema | MapSchema, schemas: SchemaSet) -> HashKey | None:
    """The hash key of a type; None if it has none, or if it cannot be followed in this model, as Java has it."""
    element = schema.element if isinstance(schema, SetSchema) else schema.key
    if not schema.hash_key:
        return None
    try:
        paths = tuple(resolve_path(schemas, element, path) for path in schema.hash_key)
    except SchemaError:
        return None
    return HashKey(schema.name, element, 1 if isinstance(schema, SetSchema) else 2, paths)


def key_hashes(key: HashKey, owners: Ordinals, types: Mapping[str, "TypeWriter"]) -> Ordinals:
    """The key hash by element ordinal, for all elements of these sets or maps."""
    collections = types[key.type_name].ordinals.map
    wanted = np.unique(records.members(collections.arena, collections.starts, owners, key.per_entry))
    if not len(wanted):
        # Nothing is looked up, but an empty array would mean "no hash key".
        return np.zeros(1, np.int32)
    hashes = np.zeros(int(wanted[-1]) + 1, np.int32)
    hashes[wanted] = hashing.combine_hash_key([_field_hashes(key, path, wanted, types) for path in key.paths])
    return hashes


def _field_hashes(key: HashKey, path: ResolvedPath, elements: Ordinals, types: Mapping[str, "TypeWriter"]) -> Ordinals:
    current = elements
    for step in path.steps[:-1]:
        owner = types[step.type_name]
        _check_held(key, path, step.type_name, current, owner)
        current = records.follow(
            owner.ordinals.map.arena, owner.ordinals.map.starts, current, owner.kinds, step.position
        )
        if len(current) and int(current.min()) < 0:
            raise _null(key, path, int(elements[int(current.argmin())]))
    last = path.steps[-1]
    owner = types[last.type_name]
    _check_held(key, path, last.type_name, current, owner)
    source = owner.ordinals.map
    hashes, bad = records.key_field_hashes(source.arena, source.starts, current, owner.kinds, last.position)
    if bad >= 0:
        raise _null(key, path, int(elements[bad]))
    return hashes


def _check_held(key: HashKey, path: ResolvedPath, type_name: str, ordinals: Ordinals, owner: "TypeWriter") -> None:
    starts = owner.ordinals.map.starts
    last = int(ordinals.max())
    if last >= len(starts) or int(starts[ordinals].min()) == 0:
        missing = last if last >= len(starts) else int(ordinals[starts[ordinals] == 0][0])
        raise InputError(
            f"type {key.type_name}: hash key path {path} meets ordinal {missing} of type {type_name}, "
            "which has no record",
            "NoRecord",
        )


def _null(key: HashKey, path: ResolvedPath, element: int) -> InputError:
    return InputError(
        f"type {key.type_name}: hash key path {path} is null for element {element} of type {key.element}; "
        "a hash key needs a value",
        "NullKey",
    )
