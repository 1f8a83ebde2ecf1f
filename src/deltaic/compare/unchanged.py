"""Records that are the same at the same ordinal of two states, found without looking at what they refer to.

Neighbours on a chain share the ordinals of all records that stayed, and whole shards where nothing moved; two snapshots
of one chain share them too, record for record. What is found here need not be compared by content. States that have
nothing to do with each other simply share little.
"""

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.digest import number_bits
from deltaic.compare.links import edges_of, type_groups
from deltaic.compare.vectors import changed_vectors
from deltaic.schema.types import ObjectSchema, Schema
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.columns import BytesColumn, Column, FixedColumn
from deltaic.state.read import ReadState
from deltaic.state.type_data import TypeData

Mask = NDArray[np.bool_]


def neighbours(before: ReadState, after: ReadState) -> bool:
    """True if one state was made from the other by a single delta: what both populate is the same record then, though
    its vectors may be others.
    """
    return _made_from(before, after) or _made_from(after, before)


def unchanged(before: ReadState, after: ReadState) -> dict[str, OrdinalSet]:
    """For each type that both have, ordinals whose record reads the same in both states. Never too many, at times too
    few: other ordinals may hold equal records.
    """
    shared = [name for name in before.types if name in after.types]
    close = sound = before is after or neighbours(before, after)
    same: dict[str, OrdinalSet] = {}
    for name in shared:
        one, other = before.types[name], after.types[name]
        both = one.populated.intersection(other.populated)
        if not close:
            both = _equal_at_home(before, after, name, both) if _alike(before, after, name) else EMPTY
        changed = changed_vectors(before, after, name) if both else EMPTY
        if changed:
            # A record keeps its ordinal when only its vector changes, and those that refer to it read differently too.
            both, sound = both.difference(changed), False
        same[name] = both
    return same if sound else _sound(after, same)


def _made_from(before: ReadState, after: ReadState) -> bool:
    return (
        after.origin_tag == before.tag
        and before.types.keys() == after.types.keys()
        and all(
            data.schema == before.types[name].schema
            and data.previous == before.types[name].populated
            # A record that stayed may have got a value with the delta.
            and not data.appended
            for name, data in after.types.items()
        )
    )


def _alike(before: ReadState, after: ReadState, name: str) -> bool:
    """True if equal bits of a type mean the same in both states."""
    one: Schema = before.types[name].schema
    other: Schema = after.types[name].schema
    if any((target in before) != (target in after) for target in one.references()):
        return False
    if isinstance(one, ObjectSchema) and isinstance(other, ObjectSchema):
        return one.fields == other.fields
    return one.kind == other.kind and one.references() == other.references()


def _equal_at_home(before: ReadState, after: ReadState, name: str, both: OrdinalSet) -> OrdinalSet:
    """Of ordinals that both states populate, those with equal fields or members, references being equal numbers."""
    if not both:
        return EMPTY
    one, other = before.types[name], after.types[name]
    ordinals = both.ordinals()
    untouched = _in_shared_shards(one, other, ordinals)
    asked = ordinals[~untouched]
    equal = np.ones(len(asked), np.bool_)
    if len(asked):
        if isinstance(one.schema, ObjectSchema):
            for field in one.schema.fields:
                equal &= equal_rows(before[name].column(field.name, asked), after[name].column(field.name, asked))
        else:
            equal = _equal_members(before, after, name, asked)
    return OrdinalSet.from_ordinals(np.concatenate((ordinals[untouched], asked[equal])))


def _in_shared_shards(one: TypeData, other: TypeData, ordinals: NDArray[np.int64]) -> Mask:
    if len(one.shards) != len(other.shards):
        return np.zeros(len(ordinals), np.bool_)
    shared: Mask = np.array([left is right for left, right in zip(one.shards, other.shards, strict=True)])
    found: Mask = shared[ordinals & (len(shared) - 1)]
    return found


def equal_rows(one: Column, other: Column) -> Mask:
    """Which values of two columns of one length are equal, null being equal to null."""
    valid = [np.ones(len(one), np.bool_) if column.valid is None else column.valid for column in (one, other)]
    if isinstance(one, BytesColumn):
        assert isinstance(other, BytesColumn)
        equal = _equal_runs(one.offsets, one.data, other.offsets, other.data)
    else:
        assert isinstance(one, FixedColumn) and isinstance(other, FixedColumn)
        equal = number_bits(one.values) == number_bits(other.values)
    found: Mask = (valid[0] == valid[1]) & (equal | ~valid[0])
    return found


def _equal_members(before: ReadState, after: ReadState, name: str, ordinals: NDArray[np.int64]) -> Mask:
    one, other = before[name].members(ordinals), after[name].members(ordinals)
    equal = _equal_runs(one.offsets, one.elements, other.offsets, other.elements)
    if one.values is not None and other.values is not None:
        equal &= _equal_runs(one.offsets, one.values, other.offsets, other.values)
    return equal


def _equal_runs(
    offsets: NDArray[np.int64], data: NDArray[np.generic], others: NDArray[np.int64], other: NDArray[np.generic]
) -> Mask:
    """Which runs of two ragged arrays are equal."""
    lengths = np.diff(offsets)
    equal: Mask = lengths == np.diff(others)
    alike = np.flatnonzero(equal & (lengths > 0))
    if len(alike) == len(lengths):
        differs = data[offsets[0] : offsets[-1]] != other[others[0] : others[-1]]
        bounds = offsets - offsets[0]
    else:
        sizes = lengths[alike]
        bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        inside = np.arange(int(bounds[-1])) - np.repeat(bounds[:-1], sizes)
        left, right = np.repeat(offsets[alike], sizes) + inside, np.repeat(others[alike], sizes) + inside
        differs = data[left] != other[right]
    if differs.any():
        runs = np.searchsorted(bounds, np.flatnonzero(differs), side="right") - 1
        equal[alike[runs]] = False
    return equal


def _sound(state: ReadState, same: dict[str, OrdinalSet]) -> dict[str, OrdinalSet]:
    """Take out records that refer to one that is not the same, until none is left."""
    for group in type_groups(data.schema for data in state.types.values()):
        shrunk = True
        while shrunk:
            shrunk = False
            for name in group:
                if not same.get(name):
                    continue
                ordinals = same[name].ordinals()
                sound = np.ones(len(ordinals), np.bool_)
                for edges in edges_of(state, name, ordinals):
                    flags = same.get(edges.target_type, EMPTY).flags(state.types[edges.target_type].max_ordinal + 1)
                    sound[edges.owners[~flags[edges.targets]]] = False
                if not sound.all():
                    same[name] = OrdinalSet.from_ordinals(ordinals[sound])
                    shrunk = len(group) > 1 or name in state.types[name].schema.references()
    return same
