"""The next vector columns: what was given, what stays, and what moved with its key to another ordinal.

Records are matched by primary key: one that was replaced, moved or compacted goes on from the vector it had.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.producer.keys import KeyMap, modified_records, shown_key
from deltaic.producer.vector_given import GivenColumn, GivenVectors
from deltaic.schema.model import Model
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.vector_column import StoredVectors, VectorEdit
from deltaic.vector.frames import frame_rows
from deltaic.vector.layout import ColumnHead
from deltaic.vector.lossy import lossy_changes, lossy_new
from deltaic.vector.numbers import Runs
from deltaic.vector.part import ColumnKey, Moves
from deltaic.vector.part_write import ColumnStep, StepPlan, column_step
from deltaic.vector.storage import VectorStorage

Counts = NDArray[np.int32]

_BLOCK_ROWS = 4096


@dataclass(frozen=True, slots=True)
class VectorChange:
    """What became of the vectors of a column in one version."""

    vectors: int
    """How many there are now."""
    added: int = 0
    removed: int = 0
    moved: int = 0
    """Went with their key to another ordinal."""
    changed: int = 0
    """Went on from the vector they had, and are another one now."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorStep:
    """The vector columns of the next version, and how to get there."""

    columns: Mapping[ColumnKey, StoredVectors]
    """What readers will have."""
    moves: Mapping[str, Moves]
    changes: Mapping[ColumnKey, VectorChange]
    lossy: Mapping[ColumnKey, ColumnStep] = field(default_factory=dict)
    """Columns whose way forward is not what leads exactly from one to the other, but what was sent."""
    counts: Mapping[ColumnKey, Counts] = field(default_factory=dict)
    """Of lossy columns, by ordinal: how many lossy changes since the vector was last sent whole."""


class VectorKeeper:
    """What a producer keeps of its vector columns between cycles."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._keys: dict[str, KeyMap] = {}
        self._counts: Mapping[ColumnKey, Counts] = {}

    def step(self, given: GivenVectors, previous: ReadState | None, state: ReadState) -> VectorStep:
        """The columns of a version whose records are known.

        Raises:
            InputError: two records have one key and different vectors.
        """
        types = dict.fromkeys(key[0] for key in given.columns)
        moves = {name: moved_vectors(self._model, name, previous, state) for name in types}
        columns: dict[ColumnKey, StoredVectors] = {}
        changes: dict[ColumnKey, VectorChange] = {}
        lossy: dict[ColumnKey, ColumnStep] = {}
        counts: dict[ColumnKey, Counts] = {}
        for key, column in given.columns.items():
            self._refuse_conflicts(key, column, state)
            populated = state.types[key[0]].populated
            wanted = _wanted(column, moves[key[0]], populated)
            self._refuse_shared_keys(key, wanted, state)
            plan = StepPlan.of(column.before, wanted, moves[key[0]], populated)
            if column.storage.lossy:
                known = self._counts.get(key, np.zeros(0, np.int32))
                sent = _Sending(key, column, wanted, plan, known)
                columns[key], lossy[key], counts[key] = sent.column, sent.step, sent.counts
            else:
                columns[key] = wanted
            changes[key] = VectorChange(
                len(wanted),
                len(plan.fresh),
                len(column.before.present.difference(populated)) + len(plan.removed) - len(plan.targets),
                len(plan.targets),
                len(plan.changed(column.before, columns[key])),
            )
        return VectorStep(columns, moves, changes, lossy, counts)

    def accept(self, step: VectorStep | None) -> None:
        """The version of a step is announced."""
        if step is not None:
            self._counts = step.counts

    def _refuse_conflicts(self, key: ColumnKey, column: GivenColumn, state: ReadState) -> None:
        if column.conflicts:
            shown = shown_key(state, key[0], column.conflicts[0])
            raise InputError(f"{key[0]} {shown} was given twice, with different vectors in {key[1]}", "KeyConflict")

    def _refuse_shared_keys(self, key: ColumnKey, column: StoredVectors, state: ReadState) -> None:
        keys = self._keys.setdefault(key[0], KeyMap(self._model, key[0]))
        keys.advance(state)
        ordinals, numbers = keys.shared()
        present = column.present.flags(int(ordinals.max(initial=-1)) + 1)[ordinals]
        for start in range(0, len(ordinals) - 1, _BLOCK_ROWS):
            here = slice(start, start + _BLOCK_ROWS + 1)
            rows = column.rows(ordinals[here]).view(np.uint32)
            rows[~present[here]] = 0
            other = (rows[1:] != rows[:-1]).any(axis=1) | (present[here][1:] != present[here][:-1])
            wrong = np.flatnonzero(other & (numbers[here][1:] == numbers[here][:-1]))
            if len(wrong):
                shown = shown_key(state, key[0], int(ordinals[here][wrong[0]]))
                reason = f"several records of {key[0]} have the key {shown}, with different vectors in {key[1]}"
                raise InputError(reason, "KeyConflict")


def moved_vectors(model: Model, name: str, previous: ReadState | None, state: ReadState) -> Moves:
    """The records of a type that went and came again at another ordinal, by key."""
    if previous is None or name not in previous or name not in state:
        return Moves()
    if previous.schemas.object_schema(name).primary_key != state.schemas.object_schema(name).primary_key:
        return Moves()
    old, new = previous.types[name].populated, state.types[name].populated
    gone, came = old.difference(new).ordinals(), new.difference(old).ordinals()
    origins, targets = modified_records(model, name, previous, gone, state, came)
    # Of several old records with one key any will do: they had one vector.
    targets, first = np.unique(targets, return_index=True)
    return Moves(origins[first], targets)


def _wanted(given: GivenColumn, moves: Moves, populated: OrdinalSet) -> StoredVectors:
    """The column as it was given; what was not given stays, or moves with its key."""
    size = populated.max() + 1
    seen, there = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    shared = min(size, len(given.given))
    seen[:shared], there[:shared] = given.given[:shared], given.present[:shared]
    before = given.before.present.flags(size)
    stays = before & ~seen
    silent = ~seen[moves.targets]
    origins, targets = moves.origins[silent], moves.targets[silent]
    held = given.before.present.flags(int(origins.max(initial=-1)) + 1)[origins]
    given.edit.move(origins[held], targets[held])
    there |= stays
    there[targets[held]] = True
    present = OrdinalSet.from_ordinals(np.flatnonzero(there & populated.flags(size)))
    return given.edit.finish(present)


class _Sending:
    """A lossy column on its way to readers: what is sent of it, and what they have then."""

    def __init__(
        self, key: ColumnKey, given: GivenColumn, wanted: StoredVectors, plan: StepPlan, known: Counts
    ) -> None:
        self._storage, self._before, self._wanted, self._plan = given.storage, given.before, wanted, plan
        size = wanted.present.max() + 1
        self.counts = np.zeros(size, np.int32)
        staying = plan.kept.difference(plan.removed).ordinals()
        based = np.concatenate([staying, plan.targets])
        sources = plan.sources(based)
        inside = sources < len(known)
        self.counts[based[inside]] = known[sources[inside]]
        edit = VectorEdit(given.before)
        edit.move(plan.origins, plan.targets)
        fresh = [self._new(edit, here) for here in self._groups(plan.fresh.ordinals())]
        changed = [self._changed(edit, here) for here in self._groups(plan.changed(given.before, wanted))]
        self.column = edit.finish(wanted.present)
        head = ColumnHead(
            *key,
            wanted.dimensions,
            len(wanted),
            self.column.checksum(),
            from_nothing=not given.started,
            removed=Runs.of(plan.removed),
            origins=plan.origins,
            targets=plan.targets,
        )
        self.step = ColumnStep(head, fresh, changed)

    def _groups(self, ordinals: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        step = frame_rows(self._wanted.dimensions)
        return [ordinals[start : start + step] for start in range(0, len(ordinals), step)]

    def _new(self, edit: VectorEdit, ordinals: NDArray[np.int64]) -> bytes:
        sent = lossy_new(self._wanted.rows(ordinals), ordinals, self._storage)
        edit.put(ordinals, sent.result)
        self.counts[ordinals] = sent.quantized
        return sent.frames

    def _changed(self, edit: VectorEdit, ordinals: NDArray[np.int64]) -> bytes:
        every = self._storage.refresh_every
        whole = np.zeros(len(ordinals), np.bool_) if every is None else self.counts[ordinals] >= every
        have = self._before.rows(self._plan.sources(ordinals))
        sent = lossy_changes(have, self._wanted.rows(ordinals), ordinals, self._storage, whole)
        edit.put(ordinals, sent.result)
        self.counts[ordinals] += sent.quantized
        self.counts[ordinals[whole]] = 0
        return sent.frames


def steps_forward(
    step: VectorStep,
    before: Mapping[ColumnKey, StoredVectors],
    populated: Mapping[str, OrdinalSet],
    storages: Mapping[ColumnKey, VectorStorage],
) -> list[ColumnStep]:
    """The columns of the part that leads to the next version."""
    return [
        step.lossy[key]
        if key in step.lossy
        else column_step(
            key,
            before.get(key),
            column,
            step.moves.get(key[0], Moves()),
            populated.get(key[0], EMPTY),
            options=storages[key].options,
        )
        for key, column in sorted(step.columns.items())
    ]
