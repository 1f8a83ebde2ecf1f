"""Hash keys in a build: the fields of elements that decide their buckets, read from the records of other types."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import MapSchema, Schema, SetSchema
from deltaic.spark.build_numbers import CodeReader, FreeOrdinals, Ordinals
from deltaic.spark.build_runs import joined
from deltaic.spark.build_scratch import Scratch
from deltaic.state.write_hash_keys import NO_HASHES, hash_key_of, key_hashes
from deltaic.state.write_statistics import field_kinds

if TYPE_CHECKING:
    from deltaic.spark.build_pack import RangeRecords

_FIRST_START = 4


@dataclass(frozen=True)
class KeySource:
    """A type whose records a hash key looks into."""

    schema: Schema
    free: FreeOrdinals
    ranges: "tuple[RangeRecords, ...]"


def key_types(schema: Schema, schemas: SchemaSet) -> tuple[str, ...]:
    """The types that the hash key of a type looks into; none if it has no key that can be followed."""
    key = hash_key_of(schema, schemas) if isinstance(schema, SetSchema | MapSchema) else None
    if key is None:
        return ()
    return tuple(dict.fromkeys((key.element, *(step.type_name for path in key.paths for step in path.steps))))


def group_hashes(
    schema: Schema,
    sources: tuple[KeySource, ...],
    arena: NDArray[np.uint8],
    starts: NDArray[np.int64],
    owners: Ordinals,
    scratch: Scratch,
) -> Ordinals:
    """The hash of every element of these collections by its ordinal; empty if there is no hash key."""
    if not sources or not isinstance(schema, SetSchema | MapSchema):
        return NO_HASHES
    key = hash_key_of(schema, SchemaSet((schema, *(source.schema for source in sources))))
    if key is None:
        return NO_HASHES
    types: dict[str, Any] = {schema.name: _as_type(schema, arena, starts)}
    for source in sources:
        reader = CodeReader(scratch, source.free)
        parts = [each.read(scratch, reader) for each in source.ranges]
        whole = joined([part.found for part in parts])
        ordinals = np.concatenate([np.zeros(0, np.int32), *(part.ordinals for part in parts)])
        places = np.zeros(int(ordinals.max(initial=-1)) + 1, np.int64)
        places[ordinals] = whole.starts + _FIRST_START
        padded = np.concatenate((np.zeros(_FIRST_START, np.uint8), whole.data))
        types[source.schema.name] = _as_type(source.schema, padded, places)
    return key_hashes(key, owners, types)


def _as_type(schema: Schema, arena: NDArray[np.uint8], starts: NDArray[np.int64]) -> Any:
    """Records in the shape in which hash keys look at a type of a write state."""
    return SimpleNamespace(
        kinds=field_kinds(schema), ordinals=SimpleNamespace(map=SimpleNamespace(arena=arena, starts=starts))
    )
