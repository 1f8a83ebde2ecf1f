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

from deltaic.compare.diff import record_value
from deltaic.errors import InputError
from deltaic.producer.incremental import ChangeIndex
from deltaic.producer.patch_columns import ColumnEdits, takes
from deltaic.producer.patch_found import FoundRecords, Numbers, Ordinals
from deltaic.producer.patch_records import PatchCounts, PatchRules, RecordEdits
from deltaic.producer.patch_routes import Route, route_of, tangled_types
from deltaic.producer.patch_shapes import Shapes
from deltaic.producer.patch_sweep import lost_references, released_by_model
from deltaic.producer.populate import Population
from deltaic.producer.sources import DictRows
from deltaic.schema.model import Model
from deltaic.schema.schemas import SchemaSet
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.wire.patches import ABSENT, Patch, PatchBatch, PatchGroup

if TYPE_CHECKING:
    from deltaic.producer.producer import Producer
    from deltaic.producer.report import Cycle


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
        self._tangled = tangled_types(model)
        self._schemas: SchemaSet | None = None

    def populate(self, cycle: Population, batch: PatchBatch, rules: PatchRules, counts: PatchCounts) -> int:
        """Build the version from the one before and a batch; gives the number of records that were touched."""
        previous = cycle.previous
        if batch.has_references:
            raise InputError(
                "fields are named by their numbers: the batch must be resolved by a registry", "Unresolved"
            )
        if previous is not None and previous.schemas != self._schemas:
            # Where a field joined, a record may refer to more than before under its old number: all is counted again.
            self.index, self._schemas = ChangeIndex(self.model), previous.schemas
        found = FoundRecords(self.model, self.index, previous, batch)
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
        if lost := lost_references(self.model, previous):
            removed = released_by_model(self.model, previous, lost, removed, needed)
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
        self, cycle: Population, work: list["_Work"], found: FoundRecords, rules: PatchRules, counts: PatchCounts
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
            if not by_column or previous is None or not each.by_column(self.model, previous, self._tangled):
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
        found: FoundRecords,
        left: dict[str, NDArray[np.bool_]],
        rules: PatchRules,
        counts: PatchCounts,
    ) -> dict[str, Ordinals]:
        """Apply the rest record by record; gives the records of the version before that are replaced."""
        previous = cycle.previous
        shapes = Shapes(self.model, previous)

        def read(type_name: str, number: Hashable) -> Any:
            ordinal = int(found.by_number(type_name)[number])  # type: ignore[call-overload]
            if ordinal < 0 or previous is None:
                return ABSENT
            return shapes.of_model(type_name, self._with_vectors(previous, type_name, ordinal))

        edits = RecordEdits(self.model, rules, read, counts, shapes)
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

    def by_column(self, model: Model, previous: ReadState, tangled: frozenset[str]) -> bool:
        """True if the group can be applied by column."""
        return self.route is not None and takes(model, previous, self.group, self.route, tangled)
