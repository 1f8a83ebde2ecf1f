"""Several states into one, and filtered copies of one.

    combined = combine([europe, asia])                         # the first state wins where keys meet
    small = filtered_copy(state, filter=Filter.without("Movie.synopsis"), keep={"Movie": recent})

Both give a `WriteState`, ready to be written as a snapshot.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.copying import Copier
from deltaic.compare.digest import Digest
from deltaic.compare.keys import declared_key, key_columns, key_digests
from deltaic.compare.pairs import numbered
from deltaic.compare.traverse import populated, with_what_only_they_need
from deltaic.errors import InputError, NotFoundError, SchemaError
from deltaic.schema.paths import resolve_path
from deltaic.schema.schemas import ORDINAL_HASH_KEY, SchemaSet
from deltaic.schema.types import Field, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.filter import Filter
from deltaic.state.project import projected
from deltaic.state.read import ReadState
from deltaic.state.type_data import TypeData
from deltaic.state.view import TypeView
from deltaic.state.write import WriteState

Ordinals = NDArray[np.int64]
Keep = Callable[[TypeView], "OrdinalSet | NDArray[Any]"]
"""Chooses records of a type: their ordinals, or a truth value for each populated record."""


def combine(
    states: Sequence[ReadState],
    *,
    into: WriteState | None = None,
    on_equal_keys: Literal["first", "last", "both"] = "first",
    keys: Mapping[str, Sequence[str]] | None = None,
) -> WriteState:
    """Put the records of several states into one write state.

    Args:
        states: the states, whose models may differ: fields and types of all of them are kept.
        into: where the records go; None makes a write state of the united models.
        on_equal_keys: which record stays where two states have one with the same key. What referred to the other one
            refers to the one that stays, and what only the other one needed is left out.
        keys: paths of the key for types that have no primary key, or another one than the declared.
    """
    if on_equal_keys not in ("first", "last", "both"):
        raise InputError(f"on_equal_keys is 'first', 'last' or 'both', not {on_equal_keys!r}")
    target = WriteState(united(state.schemas for state in states)) if into is None else into
    for name in keys or {}:
        if not any(name in state for state in states):
            raise NotFoundError(f"no state has a type {name!r} to give a key")
    winners = _Winners(dict(keys or {}))
    for state in states if on_equal_keys != "last" else tuple(reversed(states)):
        matches = populated(state)
        beaten, stands_for = ({}, {}) if on_equal_keys == "both" else winners.beaten(state)
        if beaten:
            gone = with_what_only_they_need(state, beaten)
            matches = {name: records.difference(gone.get(name, EMPTY)) for name, records in matches.items()}
        numbers = Copier(state, target).copy(matches, stands_for)
        if on_equal_keys != "both":
            winners.remember(state, matches, numbers)
    return target


class _Winners:
    """The keys that were copied so far, and the record of the copy that has each."""

    def __init__(self, keys: dict[str, Sequence[str]]) -> None:
        self._keys = keys
        self._digests: dict[str, Digest] = {}
        self._records: dict[str, Ordinals] = {}

    def paths(self, state: ReadState, name: str) -> Sequence[str] | None:
        """The key of a type."""
        return self._keys.get(name) or declared_key(state, name)

    def beaten(self, state: ReadState) -> tuple[dict[str, OrdinalSet], dict[str, Ordinals]]:
        """Records whose key was copied before, and by ordinal the record of the copy that stands for each."""
        beaten: dict[str, OrdinalSet] = {}
        stands_for: dict[str, Ordinals] = {}
        for name, data in state.types.items():
            known, paths = self._digests.get(name), self.paths(state, name)
            if known is None or paths is None or not data.populated:
                continue
            ordinals = data.populated.ordinals()
            mine = key_digests(key_columns(state, name, ordinals, paths))
            numbers = numbered(np.concatenate((known, mine), axis=1))
            split = known.shape[1]
            place = np.full(int(numbers.max()) + 1, -1, np.int64)
            place[numbers[:split]] = self._records[name]
            found = place[numbers[split:]]
            if (found >= 0).any():
                beaten[name] = OrdinalSet.from_ordinals(ordinals[found >= 0])
                stands_for[name] = np.full(data.max_ordinal + 1, -1, np.int64)
                stands_for[name][ordinals] = found
        return beaten, stands_for

    def remember(self, state: ReadState, copied: Mapping[str, OrdinalSet], numbers: Mapping[str, Ordinals]) -> None:
        """Take in the keys of records that were copied."""
        for name, records in copied.items():
            paths = self.paths(state, name)
            if paths is None or not records or name not in numbers:
                continue
            ordinals = records.ordinals()
            digests = key_digests(key_columns(state, name, ordinals, paths))
            if name in self._digests:
                self._digests[name] = np.concatenate((self._digests[name], digests), axis=1)
                self._records[name] = np.concatenate((self._records[name], numbers[name][ordinals]))
            else:
                self._digests[name], self._records[name] = digests, numbers[name][ordinals]


def united(models: Iterable[Iterable[Schema]]) -> SchemaSet:
    """The types of all models, each with the fields of all; keys are those of the first that has the type."""
    made: dict[str, Schema] = {}
    for schemas in models:
        for schema in schemas:
            held = made.get(schema.name)
            if isinstance(held, ObjectSchema) and isinstance(schema, ObjectSchema):
                fresh: tuple[Field, ...] = tuple(field for field in schema.fields if held.position(field.name) < 0)
                made[schema.name] = ObjectSchema(held.name, held.fields + fresh, held.primary_key)
            elif held is None:
                made[schema.name] = schema
    return SchemaSet(made.values())


def filtered_copy(
    state: ReadState,
    *,
    filter: Filter | None = None,
    keep: Mapping[str, Keep] | None = None,
    into: WriteState | None = None,
) -> WriteState:
    """A copy of a state without some types, fields or records.

    Args:
        state: the source.
        filter: types and fields to keep or to leave out; fields that refer to a type that is left out go too.
        keep: by type, which records stay. References to others become null, elements and entries are dropped; what only
            dropped records need is dropped as well.
        into: where the records go; None makes a write state of the model that remains.
    """
    source = state if filter is None else _filtered(state, filter)
    dropped: dict[str, OrdinalSet] = {}
    for name, choose in (keep or {}).items():
        view = source[name]
        dropped[name] = view.populated.difference(_chosen(view, choose(view)))
    dropped = {name: records for name, records in dropped.items() if records}
    matches = populated(source)
    if dropped:
        gone = with_what_only_they_need(source, dropped)
        matches = {name: records.difference(gone.get(name, EMPTY)) for name, records in matches.items()}
    target = WriteState(source.schemas) if into is None else into
    Copier(source, target).copy(matches)
    return target


def _chosen(view: TypeView, given: "OrdinalSet | NDArray[Any]") -> OrdinalSet:
    if isinstance(given, OrdinalSet):
        return given
    array = np.asarray(given)
    if array.dtype == np.bool_:
        if len(array) != len(view):
            raise InputError(f"type {view.name}: {len(array)} truth values for {len(view)} records")
        return OrdinalSet.from_ordinals(view.populated.ordinals()[array])
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"type {view.name}: records are chosen by ordinals or truth values, not by {array.dtype}")
    return OrdinalSet.from_ordinals(array.astype(np.int64))


def _filtered(state: ReadState, filter: Filter) -> ReadState:
    schemas = {schema.name: schema for schema in filter.apply(state.schemas)}
    kept: dict[str, Schema] = {}
    removed = True
    # A collection of what is left out goes too, and so what refers to it.
    while removed:
        removed = False
        for name, schema in list(schemas.items()):
            if isinstance(schema, ObjectSchema):
                fields = tuple(one for one in schema.fields if one.referenced is None or one.referenced in schemas)
                kept[name] = ObjectSchema(name, fields, schema.primary_key)
            elif all(target in schemas for target in schema.references()):
                kept[name] = schema
            else:
                del schemas[name]
                kept.pop(name, None)
                removed = True
    known = dict(kept)
    kept = {name: _with_followable_keys(schema, known) for name, schema in kept.items()}
    types = {name: _reshaped(data, kept[name]) for name, data in state.types.items() if name in kept}
    left = [data.schema for data in types.values()]
    vectors = {key: column for key, column in state.vectors.items() if filter.keeps_vectors(*key, left)}
    tags = state.header_tags
    return ReadState(types, tag=state.tag, origin_tag=state.origin_tag, header_tags=tags, vectors=vectors)


def _with_followable_keys(schema: Schema, schemas: Mapping[str, Schema]) -> Schema:
    """The schema without a key that leads over what was left out."""
    if isinstance(schema, ListSchema):
        return schema
    start = (
        schema.key
        if isinstance(schema, MapSchema)
        else schema.element
        if isinstance(schema, SetSchema)
        else schema.name
    )
    paths = schema.primary_key if isinstance(schema, ObjectSchema) else schema.hash_key
    if paths == ORDINAL_HASH_KEY:
        return schema
    try:
        for path in paths or ():
            resolve_path(schemas, start, path)
    except SchemaError:
        return replace(schema, primary_key=None) if isinstance(schema, ObjectSchema) else replace(schema, hash_key=None)
    return schema


def _reshaped(data: TypeData, schema: Schema) -> TypeData:
    return projected(data, schema) if isinstance(schema, ObjectSchema) else replace(data, schema=schema)
