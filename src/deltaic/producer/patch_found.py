"""The records that a batch of patches is about: by key, by column; those without a key by what they hold."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.arrow import ArrowColumn, ArrowField, ArrowTable, struct_column, text_format
from deltaic.errors import InputError, NotFoundError, PatchConflictError
from deltaic.producer.incremental import ChangeIndex
from deltaic.producer.keys import KeyMap
from deltaic.producer.patch_keyless import equal_records
from deltaic.producer.patch_records import PatchCounts, PatchRules
from deltaic.producer.patch_routes import spread
from deltaic.producer.populate import Population
from deltaic.producer.sources import ArrowRows, DictRows
from deltaic.schema.model import Model
from deltaic.schema.paths import ResolvedPath
from deltaic.schema.types import ObjectSchema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.wire.patches import ABSENT, ColumnKind, Operation, PatchBatch, PatchColumn, PatchGroup

Ordinals = NDArray[np.int64]
Numbers = NDArray[np.int32]

_NOTHING = OrdinalSet(np.zeros(0, np.uint64))


class FoundRecords:
    """The records that a batch is about."""

    def __init__(self, model: Model, index: ChangeIndex, previous: ReadState | None, batch: PatchBatch) -> None:
        self._model, self._index, self._previous = model, index, previous
        self.touched = 0
        self.keyless_removed: dict[str, OrdinalSet] = {}
        self.numbers: list[Numbers | None] = []
        self._maps: dict[str, KeyMap] = {}
        self.groups = [group if group.operation.of_record else spread(group) for group in batch.groups]
        for group in batch.groups:
            self.numbers.append(self._numbers(group))
        self._ordinals: dict[str, Ordinals] = {}
        self._all: dict[str, tuple[Ordinals, Numbers]] = {}
        for name, keys in self._maps.items():
            wanted = np.zeros(len(keys.numbers), np.bool_)
            for group, numbers in zip(batch.groups, self.numbers, strict=True):
                if group.type_name == name and numbers is not None:
                    wanted[numbers] = True
            ordinals, of = (
                keys.records(wanted) if previous is not None else (np.zeros(0, np.int64), np.zeros(0, np.int32))
            )
            by_number = np.full(len(keys.numbers), -1, np.int64)
            by_number[of] = ordinals
            self._ordinals[name], self._all[name] = by_number, (ordinals, of)

    def key_count(self, type_name: str) -> int:
        """How many keys of a type were seen."""
        return len(self._ordinals[type_name])

    def by_number(self, type_name: str) -> Ordinals:
        """For each key the record that has it, -1 where there is none."""
        return self._ordinals[type_name]

    def all_ordinals(self, type_name: str, numbers: Ordinals) -> Ordinals:
        """All records with one of these keys: several may have one."""
        ordinals, of = self._all[type_name]
        wanted = np.zeros(len(self._ordinals[type_name]), np.bool_)
        wanted[numbers] = True
        return ordinals[wanted[of]]

    def check_keys(self, type_name: str, records: list[tuple[Any, Any]]) -> None:
        """Refuse a record whose key is not that of its patch."""
        given = self._maps[type_name].numbers.of_rows(DictRows(type_name, [record for _, record in records]))
        wrong = np.flatnonzero(given != np.array([number for number, _ in records], np.int32))
        if len(wrong):
            raise InputError(
                f"a patch gives {type_name} another key than its own: {records[int(wrong[0])][1]!r:.200}", "BadKey"
            )

    def keyless(self, cycle: Population, group: PatchGroup, rules: PatchRules, counts: PatchCounts) -> None:
        """Put or remove whole records of a type without a key."""
        assert group.values is not None
        values = group.values.to_list()
        name = group.type_name
        if group.operation is Operation.PUT:
            ordinals = cycle.add_rows(DictRows(name, values))
            if ordinals is not None and name in self.keyless_removed:
                # What was removed a moment ago is there again.
                again = OrdinalSet.from_ordinals(np.unique(ordinals).astype(np.int64))
                self.keyless_removed[name] = self.keyless_removed[name].difference(again)
            counts.applied += len(values)
            self.touched += len(values)
            return
        found = equal_records(self._model, name, values, self._previous)
        for value in [value for value, ordinal in zip(values, found.tolist(), strict=True) if ordinal < 0]:
            error = PatchConflictError(name, None, "", ABSENT, value, "there is no such record")
            if rules.on_missing == "reject":
                raise error
            counts.missing += 1
            counts.passed(error)
        there = found[found >= 0]
        counts.applied += len(there)
        self.touched += len(there)
        self.keyless_removed[name] = self.keyless_removed.get(name, _NOTHING).union(
            OrdinalSet.from_ordinals(np.unique(there))
        )

    def _numbers(self, group: PatchGroup) -> Numbers | None:
        model = self._model
        schema = model.schemas.get(group.type_name)
        if schema is None:
            raise NotFoundError(f"there is no type {group.type_name!r}; types: {', '.join(model.schemas.names)}")
        if not isinstance(schema, ObjectSchema):
            raise InputError(f"type {group.type_name} is a {schema.kind}: patches are of records", "WrongType")
        if not group.keys:
            if schema.primary_key:
                raise InputError(f"a patch of {group.type_name} needs the key of its record", "NoKey")
            return None
        keys = self._maps.get(group.type_name)
        if keys is None:
            keys = self._maps[group.type_name] = self._index.keys(group.type_name, self._previous)
        return key_numbers(keys, group)


def key_numbers(keys: KeyMap, group: PatchGroup) -> Numbers:
    """The numbers of the keys of a group."""
    paths = keys.numbers.paths
    if len(group.keys) != len(paths):
        shown = ", ".join(str(path) for path in paths)
        raise InputError(
            f"{group.key_values()[0]!r} is no key of type {group.type_name}, which has the key ({shown})", "BadKey"
        )
    for column in group.keys:
        if column.valid is not None or column.kind is ColumnKind.NULL:
            raise InputError(f"a patch of {group.type_name} has a key with null in it", "BadKey")
    if any(column.kind is ColumnKind.ANY for column in group.keys):
        return keys.numbers.of_values(group.key_values())
    try:
        return keys.numbers.of_rows(ArrowRows(group.type_name, _key_table(keys, group)))
    except InputError:
        # Keys that stand for something else, a date as its text, are read one by one.
        return keys.numbers.of_values(group.key_values())


def _key_table(keys: KeyMap, group: PatchGroup) -> ArrowTable:
    """The keys as rows with nothing else in them: by column, none is looked at in Python."""
    tree: dict[str, Any] = {}
    for path, column in zip(keys.numbers.paths, group.keys, strict=True):
        names = _row_names(path)
        place = tree
        for name in names[:-1]:
            place = place.setdefault(name, {})
        place[names[-1]] = column
    whole = struct_column("", tuple(_arrow(name, each, group.count) for name, each in tree.items()), group.count)
    return ArrowTable(whole.field, group.count, lambda: iter((whole,)))


def _row_names(path: ResolvedPath) -> tuple[str, ...]:
    """How rows name the fields of a key path: a boxed type has no level of its own there."""
    names = tuple(step.name for step in path.steps)
    return names[:-1] if len(names) > 1 and names[-1] in ("value", "_name") else names


def _arrow(name: str, given: Any, count: int) -> ArrowColumn:
    if isinstance(given, dict):
        return struct_column(name, tuple(_arrow(each, inner, count) for each, inner in given.items()), count)
    assert isinstance(given, PatchColumn)
    if given.offsets is not None and given.data is not None:
        kind = ArrowField(name, text_format(given.offsets, binary=given.kind is ColumnKind.BYTES))
        return ArrowColumn(kind, count, None, given.data, given.offsets)
    formats = {ColumnKind.BOOL: "b", ColumnKind.INT: "l", ColumnKind.FLOAT64: "g", ColumnKind.FLOAT32: "f"}
    return ArrowColumn(ArrowField(name, formats[given.kind]), count, None, given.values)
