"""Digests of records by content: what a record refers to counts, where it stands does not.

Two records of any two states have the same digest if they read the same: same fields by name, references followed, sets
and maps in whatever order. Ordinals, numbers of shards, buckets and the order of fields play no part. A field that a
model lacks counts as null, and so does a reference to a boxed null; an empty text, list, set or map does not. Vectors
count like fields, by their bits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.digest import (
    DRAWN,
    Digest,
    Seeds,
    column_digest,
    mixed,
    number_bits,
    places,
    sums,
    tagged,
)
from deltaic.compare.links import edges_of, refers_to_itself, type_groups
from deltaic.compare.traverse import add_children
from deltaic.compare.vectors import columns_of, vector_digest
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, Schema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.columns import FixedColumn
from deltaic.state.read import ReadState
from deltaic.state.records import is_boxed

Ordinals = NDArray[np.int64]

CIRCLE_ROUNDS = 64
"""How many references deep records are compared that refer to themselves in a circle."""

_CHUNK = 1 << 16
_FEW = 16


class ContentDigests:
    """Digests of the records of one state. Each is computed when it is first asked for, with what it refers to."""

    def __init__(self, state: ReadState, seeds: Seeds = DRAWN) -> None:
        self.state, self.seeds = state, seeds
        self._held: dict[str, _Held] = {}
        schemas = {name: data.schema for name, data in state.types.items()}
        self._circles = {
            name: frozenset(group)
            for group in type_groups(schemas.values())
            if refers_to_itself(group, schemas)
            for name in group
        }

    def of(self, type_name: str, ordinals: Ordinals) -> Digest:
        """The digests of these records."""
        held = self._compute(type_name, ordinals)
        return held.get(ordinals)

    def of_field(self, type_name: str, name: str, ordinals: Ordinals) -> Digest:
        """The digests of one field of these records: of a value, or of what a reference leads to; 0 for null."""
        vectors = self.state.vectors.get((type_name, name))
        if vectors is not None:
            return vector_digest(vectors, ordinals, self.seeds)
        schema = self.state.types[type_name].schema
        assert isinstance(schema, ObjectSchema)
        return self._field(type_name, schema.fields[schema.position(name)], ordinals)

    def _compute(self, type_name: str, ordinals: Ordinals) -> "_Held":
        held = self._holding(type_name)
        missing = held.missing(ordinals)
        if len(missing):
            if type_name in self._circles:
                self._compute_circle(type_name, missing)
            else:
                self._store(type_name, missing)
        return held

    def _holding(self, type_name: str) -> "_Held":
        if type_name not in self._held:
            self._held[type_name] = _Held(self.state.types[type_name].max_ordinal + 1)
        return self._held[type_name]

    def _store(self, type_name: str, ordinals: Ordinals) -> None:
        held = self._held[type_name]
        for start in range(0, len(ordinals), _CHUNK):
            part = ordinals[start : start + _CHUNK]
            held.put(part, self._records(type_name, part))

    def _compute_circle(self, type_name: str, missing: Ordinals) -> None:
        """Records of types that refer to each other: those first whose own references are done, round after round."""
        circle = self._circles[type_name]
        below = add_children(self.state, {type_name: OrdinalSet.from_ordinals(missing)})
        left: dict[str, Ordinals] = {}
        for name in circle & below.keys():
            left[name] = self._holding(name).missing(below[name].ordinals())
        while any(len(ordinals) for ordinals in left.values()):
            ready = {name: self._ready(name, ordinals, circle) for name, ordinals in left.items() if len(ordinals)}
            if not any(flags.any() for flags in ready.values()):
                break
            for name, flags in ready.items():
                self._store(name, left[name][flags])
                left[name] = left[name][~flags]
        self._refine({name: ordinals for name, ordinals in left.items() if len(ordinals)})

    def _ready(self, type_name: str, ordinals: Ordinals, circle: frozenset[str]) -> NDArray[np.bool_]:
        ready = np.ones(len(ordinals), np.bool_)
        for edges in edges_of(self.state, type_name, ordinals):
            if edges.target_type in circle:
                ready[edges.owners[~self._held[edges.target_type].knows(edges.targets)]] = False
        return ready

    def _refine(self, left: dict[str, Ordinals]) -> None:
        """Records that lead to themselves: all begin alike and are told apart by what is so many references away."""
        for name, ordinals in left.items():
            self._held[name].put(ordinals, np.repeat(self.seeds.of("circle"), len(ordinals), axis=1))
        for _ in range(CIRCLE_ROUNDS if left else 0):
            fresh = {name: self._records(name, ordinals) for name, ordinals in left.items()}
            for name, ordinals in left.items():
                self._held[name].put(ordinals, fresh[name])

    def _records(self, type_name: str, ordinals: Ordinals) -> Digest:
        schema = self.state.types[type_name].schema
        if isinstance(schema, ObjectSchema):
            if is_boxed(schema):
                return self._field(type_name, schema.fields[0], ordinals)
            total = np.zeros((2, len(ordinals)), np.uint64)
            vectors = columns_of(self.state, type_name)
            for field in schema.fields:
                if field.name not in vectors:
                    total += tagged(self._field(type_name, field, ordinals), self.seeds.of(f"field {field.name}"))
            for name, column in vectors.items():
                total += tagged(vector_digest(column, ordinals, self.seeds), self.seeds.of(f"field {name}"))
            total += self.seeds.of("object")
            return mixed(total)
        return self._collections(type_name, schema, ordinals)

    def _field(self, type_name: str, field: Field, ordinals: Ordinals) -> Digest:
        column = self.state[type_name].column(field.name, ordinals)
        if field.type is not FieldType.REFERENCE:
            return column_digest(column, self.seeds)
        assert isinstance(column, FixedColumn) and field.referenced is not None
        if column.valid is None:
            return self._targets(field.referenced, column.values)
        found = np.zeros((2, len(ordinals)), np.uint64)
        rows = np.flatnonzero(column.valid)
        found[:, rows] = self._targets(field.referenced, column.values[rows])
        return found

    def _targets(self, type_name: str, targets: NDArray[np.int32]) -> Digest:
        if type_name not in self.state:
            # What was left out at load has nothing but its number.
            return mixed(number_bits(targets) + self.seeds.of(f"left out {type_name}"))
        return self.of(type_name, targets.astype(np.int64))

    def _collections(self, type_name: str, schema: Schema, ordinals: Ordinals) -> Digest:
        members = self.state[type_name].members(ordinals)
        sizes = np.diff(members.offsets).astype(np.uint64)
        if isinstance(schema, MapSchema):
            assert members.values is not None
            entries = mixed(self._targets(schema.key, members.elements) ^ self.seeds.of("key"))
            entries += mixed(self._targets(schema.value, members.values) ^ self.seeds.of("value"))
            seed = self.seeds.of("map")
        else:
            assert not isinstance(schema, ObjectSchema)
            entries = self._targets(schema.element, members.elements)
            if isinstance(schema, ListSchema):
                entries = entries ^ mixed(places(members.offsets) + self.seeds.of("place"))
                seed = self.seeds.of("list")
            else:
                entries = entries ^ self.seeds.of("element")
                seed = self.seeds.of("set")
        found = sums(mixed(entries), members.offsets)
        found += sizes + seed
        return mixed(found)


class _Held:
    """Digests of some records of a type. What few records need takes little memory, however many there are."""

    def __init__(self, slots: int) -> None:
        self._places = np.zeros(slots, np.int32)
        self._digests: Digest = np.zeros((2, 0), np.uint64)
        self._count = 0

    def knows(self, ordinals: NDArray[np.signedinteger[Any]]) -> NDArray[np.bool_]:
        """Which of these records have a digest."""
        known: NDArray[np.bool_] = self._places[ordinals] > 0
        return known

    def missing(self, ordinals: Ordinals) -> Ordinals:
        """Those of these records that have none yet, rising, each once."""
        slots = len(self._places)
        if len(ordinals) * _FEW < slots:
            return np.unique(ordinals[self._places[ordinals] == 0])
        wanted = np.zeros(slots, np.bool_)
        wanted[ordinals] = True
        return np.flatnonzero(wanted & (self._places == 0))

    def get(self, ordinals: Ordinals) -> Digest:
        """The digests of records that have one."""
        return np.take(self._digests, self._places[ordinals] - 1, axis=1)

    def put(self, ordinals: Ordinals, digests: Digest) -> None:
        """Keep digests, in place of others if the records have some already: all of them or none."""
        if len(ordinals) and self._places[ordinals[0]]:
            self._digests[:, self._places[ordinals] - 1] = digests
            return
        end = self._count + len(ordinals)
        if end > self._digests.shape[1]:
            grown = np.empty((2, min(max(end, 2 * self._count), len(self._places))), np.uint64)
            grown[:, : self._count] = self._digests[:, : self._count]
            self._digests = grown
        self._digests[:, self._count : end] = digests
        self._places[ordinals] = np.arange(self._count + 1, end + 1, dtype=np.int32)
        self._count = end
