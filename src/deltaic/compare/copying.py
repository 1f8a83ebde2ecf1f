"""Records copied from read states into a write state, by column, with their references renumbered.

Equal records meet: a write state gives one ordinal to what is the same. Fields are matched by name, those that the
source lacks are null. Hash tables are laid out anew, by hash key where the type has one. Vectors come along
(`copied_vectors`).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.copied_vectors import copy_vectors
from deltaic.compare.links import edges_of, refers_to_itself, type_groups
from deltaic.compare.traverse import Matches, add_children
from deltaic.errors import InputError, SchemaError
from deltaic.schema.types import Field, FieldType, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.columns import BytesColumn, FixedColumn
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.state.write_columns import AnyColumn, Column, VariableColumn

Ordinals = NDArray[np.int64]
Numbers = dict[str, Ordinals]
"""For each type, by ordinal in the source, the ordinal in the copy; -1 for what was not copied."""


def copy_records(source: ReadState, matches: Matches) -> WriteState:
    """A write state with these records and all that they refer to, and nothing else."""
    target = WriteState(source.schemas)
    Copier(source, target).copy(add_children(source, matches))
    return target


class Copier:
    """Copies records of one read state into a write state.

    A reference to a record that is not copied becomes null, an element or entry with one is left out; `stands_for` can
    say which record of the copy to refer to instead.
    """

    def __init__(self, source: ReadState, target: WriteState) -> None:
        self._source, self._target = source, target
        self.numbers: Numbers = {}

    def copy(self, matches: Matches, stands_for: Mapping[str, Ordinals] | None = None) -> Numbers:
        """Copy these records.

        Args:
            matches: what to copy, children included; types that the target lacks are left out.
            stands_for: by type and ordinal, the record of the target to refer to in place of one that is not copied;
                -1 for none.
        """
        schemas = {schema.name: schema for schema in self._target.schemas if schema.name in self._source}
        for name, schema in schemas.items():
            _check_fits(schema, self._source.types[name].schema)
            slots = self._source.types[name].max_ordinal + 1
            given = (stands_for or {}).get(name)
            self.numbers[name] = np.full(slots, -1, np.int64) if given is None else given.copy()
        for group in type_groups(schemas.values()):
            if not refers_to_itself(group, schemas):
                if group[0] in matches:
                    self._add(schemas[group[0]], matches[group[0]].ordinals())
            else:
                self._copy_circle(group, schemas, matches)
        copy_vectors(self._source, self._target, matches, self.numbers)
        return self.numbers

    def _copy_circle(self, group: tuple[str, ...], schemas: Mapping[str, Schema], matches: Matches) -> None:
        """Types that refer to themselves: records first whose references are copied already."""
        left = {name: matches[name].ordinals() for name in group if name in matches}
        while any(len(ordinals) for ordinals in left.values()):
            waiting = {
                name: OrdinalSet.from_ordinals(ordinals).flags(self._source.types[name].max_ordinal + 1)
                for name, ordinals in left.items()
            }
            progress = False
            for name, ordinals in left.items():
                ready = np.ones(len(ordinals), np.bool_)
                for edges in edges_of(self._source, name, ordinals):
                    if edges.target_type in waiting:
                        ready[edges.owners[waiting[edges.target_type][edges.targets]]] = False
                if ready.any():
                    self._add(schemas[name], ordinals[ready])
                    left[name], progress = ordinals[~ready], True
            if not progress:
                raise InputError(f"records of {', '.join(left)} refer to themselves in a circle: they cannot be copied")

    def _add(self, schema: Schema, ordinals: Ordinals) -> None:
        # Types in canonical order take one batch each, so an empty one is not worth one.
        if not len(ordinals):
            return
        if isinstance(schema, ObjectSchema):
            columns = {field.name: made for field in schema.fields if (made := self._column(schema, field, ordinals))}
            added = self._target.add_objects(schema.name, columns, len(ordinals))
        else:
            added = self._add_collections(schema, ordinals)
        self.numbers[schema.name][ordinals] = added

    def _column(self, schema: ObjectSchema, field: Field, ordinals: Ordinals) -> AnyColumn | None:
        source = self._source.types[schema.name].schema
        assert isinstance(source, ObjectSchema)
        if source.position(field.name) < 0:
            return None
        column = self._source[schema.name].column(field.name, ordinals)
        if isinstance(column, BytesColumn):
            return VariableColumn(column.offsets, column.data, column.valid)
        assert isinstance(column, FixedColumn)
        values = column.values
        if field.type is not FieldType.REFERENCE:
            bits = {"f": {4: np.uint32, 8: np.uint64}.get(values.dtype.itemsize)}.get(values.dtype.kind)
            return Column(values if bits is None else values.view(bits), column.valid)
        there = np.ones(len(values), np.bool_) if column.valid is None else column.valid
        found = self._renumbered(field.referenced or "", np.where(there, values, 0))
        return Column(np.maximum(found, 0), there & (found >= 0))

    def _renumbered(self, type_name: str, ordinals: NDArray[np.generic]) -> Ordinals:
        numbers = self.numbers.get(type_name)
        if numbers is None or not len(numbers):
            return np.full(len(ordinals), -1, np.int64)
        return numbers[ordinals.astype(np.int64)]

    def _add_collections(self, schema: Schema, ordinals: Ordinals) -> NDArray[np.int32]:
        members = self._source[schema.name].members(ordinals)
        targets = schema.references()
        found = [self._renumbered(targets[0], members.elements)]
        if members.values is not None:
            found.append(self._renumbered(targets[1], members.values))
        kept = np.logical_and.reduce([numbers >= 0 for numbers in found])
        owners = np.repeat(np.arange(len(ordinals)), np.diff(members.offsets))[kept]
        found = [numbers[kept] for numbers in found]
        if isinstance(schema, SetSchema | MapSchema):
            owners, found = _once(owners, found)
        offsets = np.searchsorted(owners, np.arange(len(ordinals) + 1))
        if isinstance(schema, MapSchema):
            return self._target.add_maps(schema.name, offsets, found[0], found[1])
        if isinstance(schema, SetSchema):
            return self._target.add_sets(schema.name, offsets, found[0])
        return self._target.add_lists(schema.name, offsets, found[0])


def _once(owners: Ordinals, found: list[Ordinals]) -> tuple[Ordinals, list[Ordinals]]:
    """Elements, or keys, that became one record stand in a set or map once: the first counts."""
    order = np.lexsort((np.arange(len(owners)), found[0], owners))
    repeated = np.zeros(len(owners), np.bool_)
    repeated[order[1:]] = (np.diff(owners[order]) == 0) & (np.diff(found[0][order]) == 0)
    return owners[~repeated], [numbers[~repeated] for numbers in found]


def _check_fits(schema: Schema, source: Schema) -> None:
    if schema.kind != source.kind:
        raise SchemaError(f"type {schema.name} is a {schema.kind} in the copy and a {source.kind} in the source")
    if isinstance(schema, ObjectSchema) and isinstance(source, ObjectSchema):
        for field in schema.fields:
            position = source.position(field.name)
            other = field if position < 0 else source.fields[position]
            if (field.type, field.referenced) != (other.type, other.referenced):
                raise SchemaError(f"field {schema.name}.{field.name} has another type in the source than in the copy")
    elif schema.references() != source.references():
        raise SchemaError(f"type {schema.name} refers to other types in the source than in the copy")
