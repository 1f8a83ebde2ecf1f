"""Vectors of copies: what records that were copied into a write state bring with them.

    small = filtered_copy(state, keep={"Movie": recent})
    small.write_snapshot(stream)
    snapshot_part(small)                  # the vector part that goes beside that snapshot

A write state holds records; the vectors of those that a tool copied are kept beside it, by their new ordinals. A type
that lost its primary key on the way has none: vectors follow keys.
"""

import json
from collections.abc import Mapping
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.traverse import Matches
from deltaic.errors import InputError
from deltaic.schema.types import FieldType, ObjectSchema
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.vector_arrow import present_rows
from deltaic.state.vector_column import StoredVectors
from deltaic.state.write import WriteState
from deltaic.vector.part import encode_snapshot_part
from deltaic.vector.storage import VECTORS_TAG

Ordinals = NDArray[np.int64]
ColumnKey = tuple[str, str]

_copied: "WeakKeyDictionary[WriteState, dict[ColumnKey, StoredVectors]]" = WeakKeyDictionary()


def vectors_of(copy: WriteState) -> Mapping[ColumnKey, StoredVectors]:
    """The vector columns of the records that were copied into a write state, by type and field."""
    return dict(_copied.get(copy, {}))


def snapshot_part(copy: WriteState) -> bytes:
    """The vector part of the snapshot that a copy writes."""
    inside = {key for key in vectors_of(copy) if _is_bytes(copy, key)}
    return encode_snapshot_part({key: one for key, one in vectors_of(copy).items() if key not in inside}, copy.tag)


def copy_vectors(source: ReadState, target: WriteState, matches: Matches, numbers: Mapping[str, Ordinals]) -> None:
    """Take over the vectors of copied records.

    Args:
        source: where they were.
        target: where they are now.
        matches: which were copied.
        numbers: by type, by ordinal in the source, the ordinal in the copy.

    Raises:
        InputError: two records that became one have different vectors, or columns of one name other dimensions.
    """
    held = dict(_copied.get(target, {}))
    for key, column in source.vectors.items():
        type_name = key[0]
        schema = target.schemas.get(type_name)
        if not isinstance(schema, ObjectSchema) or not schema.primary_key:
            continue
        ordinals = matches.get(type_name, EMPTY).intersection(column.present).ordinals()
        held[key] = _joined(key, held.get(key), column, ordinals, numbers[type_name][ordinals])
    if held:
        _copied[target] = held
        notes = [
            [*key, column.dimensions, "bytes" if _is_bytes(target, key) else "part"]
            for key, column in sorted(held.items())
        ]
        target.header_tags[VECTORS_TAG] = json.dumps(notes, separators=(",", ":"), ensure_ascii=False)


def _joined(
    key: ColumnKey, held: StoredVectors | None, column: StoredVectors, ordinals: Ordinals, places: Ordinals
) -> StoredVectors:
    base = StoredVectors.empty(column.dimensions) if held is None else held
    name = ".".join(key)
    if base.dimensions != column.dimensions:
        raise InputError(
            f"{name} has {base.dimensions} dimensions in one state and {column.dimensions} in another",
            "DimensionMismatch",
        )
    rows = column.rows(ordinals)
    places, first = np.unique(places, return_index=True)
    if len(places) < len(ordinals):
        raise InputError(f"{name}: records that differ in their vectors alone became one: keep their key", "TwoVectors")
    rows = rows[first]
    known = present_rows(base, places)
    if (base.rows(places[known]).view(np.uint32) != rows[known].view(np.uint32)).any():
        raise InputError(
            f"{name}: one record has two vectors; combine with on_equal_keys 'first' or 'last'", "TwoVectors"
        )
    fresh = places[~known]
    return base.changed(fresh, rows[~known], base.present.union(OrdinalSet.from_ordinals(fresh)))


def _is_bytes(target: WriteState, key: ColumnKey) -> bool:
    """True if the vectors of a column lie in its records."""
    schema = target.schemas.get(key[0])
    if not isinstance(schema, ObjectSchema):
        return False
    position = schema.position(key[1])
    return position >= 0 and schema.fields[position].type is FieldType.BYTES
