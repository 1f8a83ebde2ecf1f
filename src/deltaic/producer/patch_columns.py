"""Patches by column: groups that set scalar fields, of records and of what they refer to, without Python per patch.

A group goes down its path one step at a time, for all its rows at once: a copy of what is there belongs to the record
that is patched (`patch_overlay`), and its last field gets the values. What this way does not take, and every record
that such a patch is about, is left to `patch_records`, which takes everything.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import PatchConflictError
from deltaic.producer.patch_encode import encoded, shown, values_list
from deltaic.producer.patch_overlay import NULL, CollectionOverlay, ObjectOverlay, Overlay, Rows
from deltaic.producer.patch_records import PatchCounts, PatchRules
from deltaic.producer.patch_routes import Route, RouteStep, StepKind, referred_first
from deltaic.producer.patch_vectors import VectorEdits
from deltaic.producer.populate import Population
from deltaic.schema.model import Model
from deltaic.schema.types import FieldType, ObjectSchema
from deltaic.state.ingest_plan import boxed_scalar
from deltaic.state.read import ReadState
from deltaic.wire.patches import ColumnKind, Operation, PatchGroup
from deltaic.wire.references import ParameterType

Mask = NDArray[np.bool_]


def takes(
    model: Model, previous: ReadState, group: PatchGroup, route: Route, tangled: Collection[str] = frozenset()
) -> bool:
    """True if a group can be applied by column; `tangled` types are left to the other way."""
    schema = model.schemas.object_schema(group.type_name)
    root = previous.types.get(group.type_name)
    if root is None or root.schema != schema:
        return False  # copies are read field by field, by their places
    if group.operation is Operation.VECTOR:
        known = (group.type_name, route.steps[0].name) in previous.vectors
        beside = schema.position(route.steps[0].name) < 0  # else its bytes are a field of the record
        return route.vector is not None and len(route.steps) == 1 and known and beside
    if group.operation not in (Operation.SET, Operation.DELETE) or route.vector is not None:
        return False
    if any(path.split(".")[0].removesuffix("!") == route.steps[0].name for path in schema.primary_key or ()):
        return False
    if group.previous is not None and group.previous.kind is ColumnKind.ANY:
        return False  # ABSENT may be among them
    last = route.last
    if group.operation is Operation.DELETE and (last.kind is not StepKind.FIELD or group.previous is not None):
        return False
    if route.scalar is None:
        nothing = group.operation is Operation.DELETE or (
            group.values is not None and group.values.kind is ColumnKind.NULL
        )
        if not nothing or last.kind is not StepKind.FIELD or group.previous is not None:
            return False
    left = list(group.selectors)
    seen: set[str] = set()
    for step in route.steps:
        if step.wrapped or step.kind is StepKind.MEMBER or step.type_name in seen or step.type_name in tangled:
            return False
        seen.add(step.type_name)
        held = previous.types.get(step.type_name)
        if held is None or held.schema != model.schemas[step.type_name]:
            return False
        if step.kind is StepKind.FIELD:
            continue
        if not left:
            return False
        code = left.pop(0).code
        wanted = ParameterType.INDEX if step.kind is StepKind.ELEMENT else ParameterType.MAP_KEY
        if code != wanted or (
            step.kind is StepKind.ENTRY and (step.key is None or step.key.type is not FieldType.STRING)
        ):
            return False
    if route.boxed is not None:
        box = previous.types.get(route.boxed)
        return box is not None and box.schema == model.schemas[route.boxed] and route.boxed not in seen
    return True


class ColumnEdits:
    """The records of one root type while groups are applied to them by column."""

    def __init__(self, model: Model, previous: ReadState, type_name: str, ordinals: Rows, rules: PatchRules) -> None:
        self._model, self._previous, self._rules = model, previous, rules
        self.type_name = type_name
        self._ordinals = ordinals
        """Of the record with each key, by the key's number; -1 for none."""
        self._overlays: dict[str, Overlay] = {}
        self._root_rows = np.full(len(ordinals), -1, np.int64)
        self.left = np.zeros(len(ordinals), np.bool_)
        """By key number: records that must take the other way after all."""
        self._vectors: dict[str, VectorEdits] = {}
        self._applied: list[Rows] = []
        self._mismatched: list[tuple[int, PatchConflictError]] = []

    def apply(self, group: PatchGroup, route: Route, numbers: NDArray[np.int32], rows: Rows) -> None:
        """Apply some rows of a group."""
        rows = rows[~self.left[numbers[rows]]]
        root = self._object(self.type_name)
        keys = numbers[rows].astype(np.int64)
        fresh = keys[self._root_rows[keys] < 0]
        if len(fresh):
            fresh = np.unique(fresh)
            made = root.add(self._ordinals[fresh], np.arange(root.base.count, root.base.count + len(fresh)))
            self._root_rows[fresh] = made
        at = self._root_rows[keys]
        if group.operation is Operation.VECTOR:
            self._move_vectors(group, route, rows, at, numbers)
            return
        selectors = list(group.selectors)
        for step in route.steps[:-1]:
            rows, at = self._down(step, rows, at, numbers, selectors, group)
        self._set(group, route, rows, at, numbers, selectors)

    def finish(self, cycle: Population, counts: PatchCounts) -> Rows:
        """Write what was changed; gives the numbers of the keys of records that were."""
        state = cycle.write_state
        root = self._object(self.type_name)
        alive = np.ones(root.base.count, np.bool_)
        alive[self._root_rows[(self._root_rows >= 0) & self.left]] = False
        order = referred_first(self._model, self._overlays)
        reached = {name: np.zeros(self._overlays[name].count, np.bool_) for name in order}
        reached[self.type_name] = alive
        for name in reversed(order):
            self._overlays[name].spread(reached)
        for name in order:
            for target, kept in self._overlays[name].write(state, reached, self._overlays).items():
                flags = np.zeros(self._previous.types[target].max_ordinal + 1, np.bool_)
                for ordinals in kept:
                    flags[ordinals] = True
                flags &= self._previous.types[target].populated.flags(len(flags))
                state.keep(target, np.flatnonzero(flags))
        counts.applied += sum(int(np.count_nonzero(~self.left[numbers])) for numbers in self._applied)
        for number, error in self._mismatched:
            if not self.left[number]:
                counts.mismatched += 1
                counts.passed(error)
        for vectors in self._vectors.values():
            vectors.hand_over(cycle, alive, root.ordinals)
        return np.flatnonzero((self._root_rows >= 0) & ~self.left)

    def _down(
        self,
        step: RouteStep,
        rows: Rows,
        at: Rows,
        numbers: NDArray[np.int32],
        selectors: list[Any],
        group: PatchGroup,
    ) -> tuple[Rows, Rows]:
        """One step: the rows that get there, and where they are."""
        assert step.target is not None
        if step.kind is StepKind.FIELD:
            return self._through_field(step, rows, at, numbers, group)
        places, there = self._member(step, rows, at, selectors.pop(0))
        rows, at, places = self._drop(rows, at, places, numbers, there)
        return rows, self._through_members(step, at, places)

    def _through_field(
        self, step: RouteStep, rows: Rows, at: Rows, numbers: NDArray[np.int32], group: PatchGroup
    ) -> tuple[Rows, Rows]:
        assert step.target is not None
        above, below = self._object(step.type_name), self._overlay(step.target)
        held = above.references(step.name)
        need = at[(held[at] == -1) | (held[at] == NULL)]
        need = need[above.firsts(need)]
        if len(need):
            base = np.where(held[need] == NULL, -1, above.base_references(step.name, need))
            if isinstance(below, CollectionOverlay):
                # A collection that is null is made by the other way.
                need, base = need[base >= 0], base[base >= 0]
            held[need] = -2 - below.add(base, above.owner.values[need])
        there = held[at] <= -2
        there &= held[at] != NULL
        strict = group.previous is not None or group.operation is Operation.DELETE
        if strict and isinstance(below, ObjectOverlay) and boxed_scalar(below.schema) is None:
            # Only setting makes a record that is null; what is expected below one is told apart from null there.
            there[there] &= below.base.values[-2 - held[at[there]]] >= 0
        rows, at, _ = self._drop(rows, at, at, numbers, there)
        return rows, -2 - held[at]

    def _member(self, step: RouteStep, rows: Rows, at: Rows, selector: Any) -> tuple[Rows, Mask]:
        """Where among the members of their collections the selected ones stand, and which are there."""
        overlay = self._overlays[step.type_name]
        assert isinstance(overlay, CollectionOverlay)
        starts, lengths = overlay.starts.values[at], overlay.lengths.values[at]
        if step.kind is StepKind.ELEMENT:
            elements = selector.numbers[0][rows]
            return starts + elements, elements < lengths
        return self._entries(step, overlay, starts, lengths, selector.keys.picked(rows).to_list())

    def _entries(
        self, step: RouteStep, overlay: CollectionOverlay, starts: Rows, lengths: Rows, wanted: list[str]
    ) -> tuple[Rows, Mask]:
        schema = overlay.schema
        key_type = schema.references()[0]
        offsets = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.arange(int(offsets[-1]), dtype=np.int64) + np.repeat(starts - offsets[:-1], lengths)
        keys, numbers = np.unique(overlay.keys.values[places], return_inverse=True)
        assert step.key is not None
        texts = self._previous[key_type].column(step.key.name, keys).to_pylist() if len(keys) else []
        codes: dict[Any, int] = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        of_key = np.array([codes[text] for text in texts], np.int64)
        of_row = np.array([codes.get(text, -1) for text in wanted], np.int64)
        hits = np.flatnonzero(of_key[numbers] == np.repeat(of_row, lengths)) if len(keys) else np.zeros(0, np.int64)
        found = np.full(len(starts), -1, np.int64)
        found[np.searchsorted(offsets, hits, "right") - 1] = places[hits]
        return found, found >= 0

    def _through_members(self, step: RouteStep, at: Rows, places: Rows) -> Rows:
        assert step.target is not None
        overlay, below = self._overlays[step.type_name], self._overlay(step.target)
        assert isinstance(overlay, CollectionOverlay)
        held = overlay.targets.values
        chosen = held[places] >= 0
        need, owners = places[chosen], overlay.owner.values[at[chosen]]
        first = overlay.firsts(need)
        need, owners = need[first], owners[first]
        if len(need):
            held[need] = -2 - below.add(held[need], owners)
        return -2 - held[places]

    def _set(
        self,
        group: PatchGroup,
        route: Route,
        rows: Rows,
        at: Rows,
        numbers: NDArray[np.int32],
        selectors: list[Any],
    ) -> None:
        last = route.last
        nothing = group.operation is Operation.DELETE or (
            group.values is not None and group.values.kind is ColumnKind.NULL
        )
        if last.kind is StepKind.FIELD and last.target is not None and nothing and group.previous is None:
            self._object(last.type_name).references(last.name)[at] = NULL
            self._applied.append(numbers[rows].astype(np.int64))
            return
        owner, name = last.type_name, last.name
        parents: Rows | None = None
        if route.boxed is not None:
            only = boxed_scalar(self._model.schemas[route.boxed])
            assert only is not None
            if last.kind is StepKind.FIELD:
                parents = at
            rows, at = self._down(last, rows, at, numbers, selectors, group)
            owner, name = route.boxed, only.name
        overlay = self._object(owner)
        assert route.scalar is not None
        if group.previous is not None:
            kept = self._expected(group, route, overlay, name, rows, at, numbers)
            rows, at = rows[kept], at[kept]
            parents = None if parents is None else parents[kept]
        made = encoded(None if nothing else group.values, route.scalar, group, rows, route)
        overlay.set(name, at, made)
        if parents is not None and made.valid is not None:
            # A boxed value that is null is a field that is null.
            gone = overlay.firsts(at) & ~made.valid
            self._object(last.type_name).references(last.name)[parents[gone]] = NULL
        self._applied.append(numbers[rows].astype(np.int64))

    def _move_vectors(self, group: PatchGroup, route: Route, rows: Rows, at: Rows, numbers: NDArray[np.int32]) -> None:
        assert route.vector is not None and group.values is not None
        name = route.vector.field_name
        if name not in self._vectors:
            self._vectors[name] = VectorEdits(route.vector, self._previous.vectors[group.type_name, name])
        vectors, root = self._vectors[name], self._object(self.type_name)
        there = vectors.copied(at, root.base.values[at])
        rows, at, _ = self._drop(rows, at, at, numbers, there & ~vectors.repeated(group, at))

        def refused(row: int, dimension: int, found: float, expected: float) -> None:
            place = f"{group.places()[row]}[{dimension}]"
            error = PatchConflictError(group.type_name, group.key_values()[row], place, found, expected)
            if self._rules.on_mismatch == "reject":
                raise error
            self._mismatched.append((int(numbers[row]), error))

        rows = vectors.move(group, rows, at, refused)
        self._applied.append(numbers[rows].astype(np.int64))

    def _expected(
        self,
        group: PatchGroup,
        route: Route,
        overlay: ObjectOverlay,
        name: str,
        rows: Rows,
        at: Rows,
        numbers: NDArray[np.int32],
    ) -> Mask:
        """Hold what is there against what was expected; tells the rows for which it is."""
        assert group.previous is not None and route.scalar is not None
        order = np.sort(at)
        twice = order[1:][order[1:] == order[:-1]]
        if len(twice):
            # The second patch of a place expects what the first one leaves.
            self.left[numbers[rows[np.isin(at, twice)]]] = True
        found = values_list(overlay.current(name, at))
        expected = values_list(encoded(group.previous, route.scalar, group, rows, route))
        same = np.fromiter((one == other for one, other in zip(found, expected, strict=True)), np.bool_, len(rows))
        here = ~self.left[numbers[rows]]
        if bool((same | ~here).all()):
            return here
        places, keys = group.places(), group.key_values()
        given = group.previous.to_list()
        for number in np.flatnonzero(here & ~same).tolist():
            row = int(rows[number])
            there = shown(overlay.current(name, at[number : number + 1]), overlay.schema, name)
            error = PatchConflictError(group.type_name, keys[row], str(places[row]), there, given[row])
            if self._rules.on_mismatch == "reject":
                raise error
            self._mismatched.append((int(numbers[row]), error))
        return here & same

    def _drop(
        self, rows: Rows, at: Rows, places: Rows, numbers: NDArray[np.int32], there: Mask
    ) -> tuple[Rows, Rows, Rows]:
        """Leave rows that get no further to the other way, with all patches of their records."""
        if there.all():
            return rows, at, places
        self.left[numbers[rows[~there]]] = True
        kept = there & ~self.left[numbers[rows]]
        return rows[kept], at[kept], places[kept]

    def _object(self, name: str) -> ObjectOverlay:
        found = self._overlay(name)
        assert isinstance(found, ObjectOverlay)
        return found

    def _overlay(self, name: str) -> Overlay:
        found = self._overlays.get(name)
        if found is None:
            schema = self._model.schemas[name]
            made: Overlay = (
                ObjectOverlay(self._previous, schema)
                if isinstance(schema, ObjectSchema)
                else CollectionOverlay(self._previous, schema)
            )
            found = self._overlays[name] = made
        return found
