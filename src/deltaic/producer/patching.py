"""Patches on the version before: a cycle that changes fields of records, found by key.

    report = patch(producer, PatchBatch.of([Patch("Movie", 7, "title", "Solaris")]))

Only records that patches touch are read and written again; what they share with others is copied on write, and what
nobody refers to any more goes. All patches of a batch become one version, or none does.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.arrow import ArrowColumn, ArrowField, ArrowTable, struct_column, text_format
from deltaic.compare.diff import record_value
from deltaic.errors import InputError, NotFoundError, PatchConflictError
from deltaic.producer.incremental import ChangeIndex
from deltaic.producer.keys import KeyMap
from deltaic.producer.patch_columns import ColumnEdits, takes
from deltaic.producer.patch_keyless import equal_records
from deltaic.producer.patch_records import PatchCounts, PatchRules, RecordEdits
from deltaic.producer.patch_routes import Route, route_of, spread
from deltaic.producer.populate import Population
from deltaic.producer.sources import ArrowRows, DictRows
from deltaic.schema.model import Model
from deltaic.schema.paths import ResolvedPath
from deltaic.schema.types import ObjectSchema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.wire.patches import ABSENT, ColumnKind, Operation, Patch, PatchBatch, PatchColumn, PatchGroup

if TYPE_CHECKING:
    from deltaic.producer.producer import Producer
    from deltaic.producer.report import Cycle

Ordinals = NDArray[np.int64]
Numbers = NDArray[np.int32]

_NOTHING = OrdinalSet(np.zeros(0, np.uint64))


@dataclass(frozen=True, slots=True)
class PatchReport:
    """What a batch of patches did."""

    patches: int
    applied: int
    mismatched: int
    """Passed over because they expected another value, or their place was not there."""
    missing: int
    """Passed over because their record was not there."""
    stale: int
    """Passed over because a later write of the same field was there already."""
    records: int
    """Records that were touched."""
    examples: tuple[str, ...]
    """Of those that were passed over, the first few."""
    version: int | None
    """The dataset's new version; None if nothing changed, or it was not published."""
    cycle: "Cycle | None" = None
    table_version: int | None = None
    """The table's version that holds the rows, if the dataset has a table."""

    @property
    def skipped(self) -> int:
        """All that were passed over."""
        return self.mismatched + self.missing + self.stale

    def __str__(self) -> str:
        where = "nothing changed" if self.table_version is None else f"table version {self.table_version}"
        if self.version is not None:
            where = f"version {self.version}"
        return f"{where}: {self.applied:,} of {self.patches:,} patches applied to {self.records:,} records"


_patchers: "WeakKeyDictionary[Producer, Patcher]" = WeakKeyDictionary()


def patch(
    producer: "Producer",
    patches: PatchBatch | Iterable[Patch],
    *,
    rules: PatchRules = PatchRules(),  # noqa: B008
    note: str | None = None,
) -> PatchReport:
    """Publish a version that is the one before with these patches.

    Raises:
        PatchConflictError: a patch does not fit what it meets, and the rules say that it must. Nothing was published.
        InputError: a field, a value or a selector does not fit the model.
    """
    batch = PatchBatch.of(patches)
    patcher = _patchers.get(producer)
    if patcher is None or patcher.model is not producer.model:
        patcher = _patchers[producer] = Patcher(producer.model)
    counts, touched = PatchCounts(), [0]
    maker = patcher

    def populate(cycle: Population) -> None:
        touched[0] = maker.populate(cycle, batch, rules, counts)

    cycle = producer.cycle(populate, note=note)
    return PatchReport(
        len(batch),
        counts.applied,
        counts.mismatched,
        counts.missing,
        0,
        touched[0],
        tuple(counts.examples),
        cycle.version,
        cycle,
    )


class Patcher:
    """What is kept between batches: records by key, and how often each is referred to."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.index = ChangeIndex(model)
        self._routes: dict[tuple[str, str], Route] = {}

    def populate(self, cycle: Population, batch: PatchBatch, rules: PatchRules, counts: PatchCounts) -> int:
        """Build the version from the one before and a batch; gives the number of records that were touched."""
        previous = cycle.previous
        if batch.has_references:
            raise InputError(
                "fields are named by their numbers: the batch must be resolved by a registry", "Unresolved"
            )
        found = _Found(self, previous, batch)
        work = [
            _Work(group, numbers, self._route(group))
            for group, numbers in zip(found.groups, found.numbers, strict=True)
        ]
        left, replaced = self._by_column(cycle, work, found, rules, counts)
        for name, ordinals in self._by_record(cycle, work, found, left, rules, counts).items():
            replaced[name] = np.union1d(replaced[name], ordinals) if name in replaced else ordinals
        cycle.finish()
        if previous is None:
            return found.touched
        state = cycle.write_state
        needed = {name: state.populated(name) for name in state.schemas.names}
        for name, gone in found.keyless_removed.items():
            needed[name] = needed[name].difference(gone)
        gone_roots = {name: OrdinalSet.from_ordinals(each) for name, each in replaced.items()}
        removed = self.index.released(previous, gone_roots, needed) if gone_roots else {}
        state.keep_all_from_previous()
        for name, gone in removed.items():
            if name in state.schemas:
                state.remove(name, gone.ordinals())
        return found.touched

    def _with_vectors(self, previous: ReadState, type_name: str, ordinal: int) -> Any:
        """A record as dicts and lists, its own vectors as arrays."""
        record = record_value(previous, type_name, ordinal)
        for column in self.model.vectors:
            if column.type_name != type_name:
                continue
            held = previous.vectors.get((type_name, column.field_name))
            if held is not None:
                record[column.field_name] = held[ordinal]
            elif isinstance(record.get(column.field_name), bytes):
                record[column.field_name] = np.frombuffer(record[column.field_name], "<f4").astype(np.float32)
        return record

    def _route(self, group: PatchGroup) -> Route | None:
        if group.operation.of_record:
            return None
        assert isinstance(group.path, str)
        route = self._routes.get((group.type_name, group.path))
        if route is None:
            route = self._routes[group.type_name, group.path] = route_of(self.model, group.type_name, group.path)
        return route

    def _by_column(
        self, cycle: Population, work: list["_Work"], found: "_Found", rules: PatchRules, counts: PatchCounts
    ) -> tuple[dict[str, NDArray[np.bool_]], dict[str, Ordinals]]:
        """Apply by column what can be; gives by type which keys are left, and the records that are replaced."""
        previous = cycle.previous
        left: dict[str, NDArray[np.bool_]] = {}
        replaced: dict[str, Ordinals] = {}
        # Canonical order wants all records of a type at once, and each of them read.
        by_column = previous is not None and cycle.write_state.order == "given"
        for each in work:
            if each.numbers is None:
                continue
            here = left.setdefault(each.group.type_name, np.zeros(found.key_count(each.group.type_name), np.bool_))
            if not by_column or previous is None or not each.by_column(self.model, previous):
                here[each.numbers] = True
        if previous is None:
            return left, replaced
        for name, here in left.items():
            ordinals = found.by_number(name)
            here |= ordinals < 0
            if here.all():
                continue
            edits = ColumnEdits(self.model, previous, name, ordinals, rules)
            edits.left = here
            for each in work:
                if each.group.type_name == name and each.numbers is not None and each.route is not None:
                    rows = np.flatnonzero(~here[each.numbers]).astype(np.int64)
                    if len(rows):
                        edits.apply(each.group, each.route, each.numbers, rows)
            done = edits.finish(cycle, counts)
            found.touched += len(done)
            replaced[name] = found.all_ordinals(name, done)
        return left, replaced

    def _by_record(
        self,
        cycle: Population,
        work: list["_Work"],
        found: "_Found",
        left: dict[str, NDArray[np.bool_]],
        rules: PatchRules,
        counts: PatchCounts,
    ) -> dict[str, Ordinals]:
        """Apply the rest record by record; gives the records of the version before that are replaced."""
        previous = cycle.previous

        def read(type_name: str, number: Hashable) -> Any:
            ordinal = int(found.by_number(type_name)[number])  # type: ignore[call-overload]
            if ordinal < 0 or previous is None:
                return ABSENT
            return self._with_vectors(previous, type_name, ordinal)

        edits = RecordEdits(self.model, rules, read, counts)
        for each in work:
            if each.numbers is None:
                found.keyless(cycle, each.group, rules, counts)
                continue
            rows = np.flatnonzero(left[each.group.type_name][each.numbers])
            if len(rows):
                edits.apply(each.group, each.numbers.tolist(), None if len(rows) == each.group.count else rows)
        rows_by_type: dict[str, list[Any]] = {}
        gone: dict[str, list[int]] = {}
        for type_name, number, record in edits.changed():
            gone.setdefault(type_name, []).append(int(number))  # type: ignore[call-overload]
            if record is not ABSENT:
                rows_by_type.setdefault(type_name, []).append((number, record))
        replaced = {name: found.all_ordinals(name, np.array(numbers, np.int64)) for name, numbers in gone.items()}
        for type_name, records in rows_by_type.items():
            found.check_keys(type_name, records)
            cycle.add_rows(DictRows(type_name, [record for _, record in records]))
        found.touched += sum(len(numbers) for numbers in gone.values())
        for name, ordinals in found.keyless_removed.items():
            replaced[name] = np.union1d(replaced.get(name, np.zeros(0, np.int64)), ordinals.ordinals())
        return {name: ordinals for name, ordinals in replaced.items() if len(ordinals)}


@dataclass(frozen=True, slots=True)
class _Work:
    """A group, the numbers of its keys, and where its path leads."""

    group: PatchGroup
    numbers: Numbers | None
    route: Route | None

    def by_column(self, model: Model, previous: ReadState) -> bool:
        """True if the group can be applied by column."""
        return self.route is not None and takes(model, previous, self.group, self.route)


class _Found:
    """The records that a batch is about."""

    def __init__(self, patcher: Patcher, previous: ReadState | None, batch: PatchBatch) -> None:
        self._patcher, self._previous = patcher, previous
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
        found = equal_records(self._patcher.model, name, values, self._previous)
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
        model = self._patcher.model
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
            keys = self._maps[group.type_name] = self._patcher.index.keys(group.type_name, self._previous)
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
