"""Primary keys as numbers: equal keys have equal numbers, whatever form they come in.

Keys come from records of a state, from rows that are about to be added (objects, dicts, Arrow) and from bare key
values. All are put into a small write state of their own that holds nothing but the key's fields, and whose
deduplication gives the numbers. So key equality is record equality, and nothing here runs per record in Python but what
is given as Python objects.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError, NotFoundError
from deltaic.producer.sources import ArrowRows, DictRows, ObjectRows, RowSource
from deltaic.schema.model import Model
from deltaic.schema.paths import ResolvedPath, resolve_path
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import FieldType, ObjectSchema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.columns import BytesColumn, FixedColumn
from deltaic.state.ingest import ingest_arrow, ingest_dicts, ingest_objects
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.state.write_columns import AnyColumn, Column, VariableColumn

Numbers = NDArray[np.int32]
Ordinals = NDArray[np.int64]

_BOXED_NAMES = ("value", "_name")


@dataclass(slots=True)
class _Node:
    """A type on the way of a key: the fields that the key needs, and the types behind its references."""

    type_name: str
    below: "dict[str, _Node | None]" = field(default_factory=dict)
    name: str = ""
    """What the pruned type is called: another name where one type is needed with different fields."""


class KeyNumbers:
    """Numbers the keys of one type."""

    def __init__(self, model: Model, type_name: str) -> None:
        schema = model.schemas.object_schema(type_name)
        if not schema.primary_key:
            raise InputError(f"type {type_name} has no primary key to find its records by", "NoKey")
        self.type_name = type_name
        self.paths = tuple(resolve_path(model.schemas, type_name, path) for path in schema.primary_key)
        self._root = _tree(type_name, self.paths)
        schemas = _pruned(self._root, model.schemas)
        self._model = Model(
            SchemaSet(schemas),
            (self._root.name,),
            {
                node.name: {name: note for name, note in model.logical[node.type_name].items() if name in node.below}
                for node in _nodes(self._root)
                if node.type_name in model.logical
            },
        )
        self._write_state = WriteState(self._model.schemas)

    def __len__(self) -> int:
        """How many different keys were seen."""
        return len(self._write_state.populated(self._root.name))

    def of_state(self, state: ReadState, ordinals: Ordinals) -> Numbers:
        """The numbers of the keys of records of a state."""
        return self._of_records(self._root, state, ordinals)

    def of_rows(self, rows: RowSource) -> Numbers:
        """The numbers of the keys of rows."""
        self._check_by_value()
        name = self._root.name
        match rows:
            case ArrowRows():
                return ingest_arrow(self._write_state, name, rows.data, model=self._model, ignore_unknown=True)
            case DictRows():
                return ingest_dicts(self._write_state, name, rows.rows, model=self._model, ignore_unknown=True)
            case ObjectRows():
                return ingest_objects(self._write_state, name, rows.objects, model=self._model)

    def of_values(self, keys: Iterable[Any]) -> Numbers:
        """The numbers of bare keys: a value, or a tuple where the key has several paths."""
        self._check_by_value()
        rows = [self._row(key) for key in keys]
        return ingest_dicts(self._write_state, self._root.name, rows, model=self._model)

    def _check_by_value(self) -> None:
        for path in self.paths:
            if path.field_type is FieldType.REFERENCE:
                raise InputError(
                    f"the key path {path} of type {self.type_name} ends on a record, not on a value: "
                    "rows and keys cannot be compared by it",
                    "NoKey",
                )

    def _row(self, key: Any) -> dict[str, Any]:
        values = key if isinstance(key, tuple | list) else (key,)
        if len(values) != len(self.paths):
            shown = ", ".join(str(path) for path in self.paths)
            raise InputError(f"{key!r} is no key of type {self.type_name}, which has the key ({shown})", "BadKey")
        row: dict[str, Any] = {}
        for path, value in zip(self.paths, values, strict=True):
            names = _names_in_rows(path)
            place = row
            for name in names[:-1]:
                place = place.setdefault(name, {})
            place[names[-1]] = value
        return row

    def _of_records(self, node: _Node, state: ReadState, ordinals: Ordinals) -> Numbers:
        if node.type_name not in state:
            raise NotFoundError(f"type {node.type_name}, part of the key of {self.type_name}, is not in the state")
        view = state[node.type_name]
        columns: dict[str, AnyColumn] = {}
        for name, child in node.below.items():
            column = view.column(name, ordinals)
            if isinstance(column, BytesColumn):
                columns[name] = VariableColumn(column.offsets, column.data, column.valid)
                continue
            assert isinstance(column, FixedColumn)
            values, valid = column.values, column.valid
            if child is not None:
                numbers = np.zeros(len(values), np.int64)
                there = slice(None) if valid is None else valid
                numbers[there] = self._of_records(child, state, values[there].astype(np.int64))
                values = numbers
            elif values.dtype.kind == "f":
                values = values.view(np.uint32 if values.dtype.itemsize == 4 else np.uint64)
            columns[name] = Column(values, valid)
        return self._write_state.add_objects(node.name, columns, len(ordinals))


class KeyMap:
    """The records of a state by key, kept up to date from version to version."""

    def __init__(self, model: Model, type_name: str) -> None:
        self._model = model
        self.numbers = KeyNumbers(model, type_name)
        self.type_name = type_name
        self._state: ReadState | None = None
        self._by_ordinal: Numbers = np.zeros(0, np.int32)

    def advance(self, state: ReadState) -> None:
        """Go on to another state; what both have in common is not read again."""
        if state is self._state:
            return
        data = state.types.get(self.type_name)
        populated = data.populated if data is not None else OrdinalSet(np.zeros(0, np.uint64))
        # Past a version in between an ordinal may have gone and come back with another record.
        follows = self._state is not None and state.origin_tag == self._state.tag
        before = self._state.types.get(self.type_name) if follows and self._state is not None else None
        if before is None or len(self.numbers) > 4096 + 2 * len(populated):
            self.numbers = KeyNumbers(self._model, self.type_name)
            self._by_ordinal = np.zeros(0, np.int32)
            added = populated
        else:
            added = populated.difference(before.populated)
            self._by_ordinal[before.populated.difference(populated).ordinals()] = -1
        if populated.max() >= len(self._by_ordinal):
            grown = np.full(populated.max() + 1 + (populated.max() >> 3), -1, np.int32)
            grown[: len(self._by_ordinal)] = self._by_ordinal
            self._by_ordinal = grown
        if added:
            ordinals = added.ordinals()
            self._by_ordinal[ordinals] = self.numbers.of_state(state, ordinals)
        self._state = state

    def records(self, wanted: NDArray[np.bool_]) -> tuple[Ordinals, Numbers]:
        """The records whose key number is wanted, rising, and their numbers; several records may have one key."""
        flags = np.append(wanted, np.False_)  # the last stands for number -1: no record
        found = np.flatnonzero(flags[self._by_ordinal])
        return found, self._by_ordinal[found]

    def shared(self) -> tuple[Ordinals, Numbers]:
        """The records of keys that several records have, by key, and the numbers of their keys."""
        held = np.flatnonzero(self._by_ordinal >= 0)
        numbers = self._by_ordinal[held]
        several = held[np.bincount(numbers, minlength=1)[numbers] > 1]
        order = several[np.argsort(self._by_ordinal[several], kind="stable")]
        return order, self._by_ordinal[order]


def modified_records(
    model: Model, type_name: str, before: ReadState, removed: Ordinals, after: ReadState, added: Ordinals
) -> tuple[Ordinals, Ordinals]:
    """Pairs of records with one key, of those that went and those that came: old ordinals and new ones."""
    if not len(removed) or not len(added):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    numbers = KeyNumbers(model, type_name)
    old, new = numbers.of_state(before, removed), numbers.of_state(after, added)
    place = np.full(len(numbers), -1, np.int64)
    place[new] = np.arange(len(new))
    matched = place[old] >= 0
    return removed[matched], added[place[old[matched]]]


def keyed_types(schemas: SchemaSet) -> tuple[str, ...]:
    """The types that have a primary key."""
    return tuple(schema.name for schema in schemas if isinstance(schema, ObjectSchema) and schema.primary_key)


def _tree(type_name: str, paths: Iterable[ResolvedPath]) -> _Node:
    root = _Node(type_name)
    for path in paths:
        node = root
        for step in path.steps[:-1]:
            below = node.below.get(step.name)
            if below is None:
                assert step.leads_to is not None
                below = node.below[step.name] = _Node(step.leads_to)
            node = below
        node.below.setdefault(path.steps[-1].name, None)
    return root


def _nodes(node: _Node) -> list[_Node]:
    found = [node]
    for child in node.below.values():
        if child is not None:
            found += _nodes(child)
    return found


def _pruned(root: _Node, schemas: SchemaSet) -> list[ObjectSchema]:
    """The key's own types, a type after those that it refers to."""
    made: dict[str, ObjectSchema] = {}

    def prune(node: _Node) -> None:
        for child in node.below.values():
            if child is not None:
                prune(child)
        whole = schemas.object_schema(node.type_name)
        fields = []
        for found in whole.fields:
            if found.name in node.below:
                child = node.below[found.name]
                if child is not None:
                    fields.append(type(found)(found.name, found.type, child.name))
                elif found.type is FieldType.REFERENCE:
                    # A path that ends on a reference itself: its ordinal is the key.
                    fields.append(type(found)(found.name, FieldType.LONG))
                else:
                    fields.append(found)
        name, count = node.type_name, 1
        while name in made and made[name].fields != tuple(fields):
            count += 1
            name = f"{node.type_name}{count}"
        node.name = name
        made.setdefault(name, ObjectSchema(name, tuple(fields)))

    prune(root)
    return list(made.values())


def _names_in_rows(path: ResolvedPath) -> tuple[str, ...]:
    """How rows name the fields of a path: a boxed type has no level of its own there."""
    names = tuple(step.name for step in path.steps)
    if len(names) > 1 and names[-1] in _BOXED_NAMES and path.field is not None:
        return names[:-1]
    return names


def shown_key(state: ReadState, type_name: str, ordinal: int) -> str:
    """The key of one record as people read it, for reports."""
    record = state[type_name][ordinal]
    schema = state.schemas.object_schema(type_name)
    parts = []
    for path in schema.primary_key or ():
        value: Any = record
        for name in path.removesuffix("!").split("."):
            value = getattr(value, name, None) if value is not None else None
        parts.append(repr(value))
    return ", ".join(parts)
