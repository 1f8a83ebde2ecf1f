"""How a question is answered: which index serves, and what is left to look at in columns.

The first step takes the index that answers most of the question; every further condition is checked on the columns of
the records that are left, or on all of them where no index fits. The answer is the same either way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.index.conditions import AnyOf, Between, Condition, IsNull, StartsWith
from deltaic.index.hashed import HashIndex
from deltaic.index.keyed_values import query_columns
from deltaic.index.prefix import PrefixIndex
from deltaic.index.primary import PrimaryKeyIndex
from deltaic.index.ranges import RangeIndex
from deltaic.index.traversal import Column, Traversal
from deltaic.kernels import access
from deltaic.schema.paths import resolve_path
from deltaic.schema.types import Kind
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState

Ordinals = NDArray[np.int64]
Index = PrimaryKeyIndex | HashIndex | PrefixIndex | RangeIndex
_MOST_COMBINATIONS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class PlanStep:
    """One step: the conditions that it answers, by which index, and if by none, by reading columns."""

    conditions: tuple[Condition, ...]
    index: Index | None

    def __str__(self) -> str:
        asked = " and ".join(str(condition) for condition in self.conditions)
        return f"{asked}: {'columns' if self.index is None else self.index.definition}"


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The steps that answer a question, in order."""

    type_name: str
    steps: tuple[PlanStep, ...]

    @property
    def indexes(self) -> tuple[Index, ...]:
        """The indexes that are used."""
        return tuple(step.index for step in self.steps if step.index is not None)

    @property
    def scans(self) -> bool:
        """True if the columns of all records are read, because no index fits."""
        return bool(self.steps) and self.steps[0].index is None

    def __str__(self) -> str:
        if not self.steps:
            return f"all records of {self.type_name}"
        lines = []
        for number, step in enumerate(self.steps, 1):
            where = "" if step.index is not None else (" of all records" if number == 1 else " of the records left")
            lines.append(f"{number}. {step}{where}")
        return "\n".join(lines)


def make_plan(
    state: ReadState,
    type_name: str,
    asked: Sequence[Condition],
    indexes: Sequence[Index],
    key_paths: Sequence[str],
    key: Callable[[], PrimaryKeyIndex],
) -> Plan:
    """Choose the steps.

    Args:
        state: the state that is asked.
        type_name: the type of the records that are wanted.
        asked: the conditions, all of which have to hold.
        indexes: those there are.
        key_paths: the primary key of the type; empty if it has none.
        key: gives the index by primary key, which is made only if it serves.
    """
    left = {condition.name: condition for condition in asked}
    first = _by_key(_full_names(state, type_name, key_paths), left, key) or _by_index(state, type_name, left, indexes)
    steps = []
    if first is not None:
        steps.append(first)
        for condition in first.conditions:
            del left[condition.name]
    steps += [PlanStep((condition,), None) for condition in left.values()]
    return Plan(type_name, tuple(steps))


def run_plan(state: ReadState, plan: Plan) -> Ordinals:
    """The ordinals of the records that a plan leads to, rising."""
    populated = state.types[plan.type_name].populated
    found: Ordinals | None = None
    for step in plan.steps:
        if step.index is not None:
            found = _ask(step.index, step.conditions)
        else:
            found = _scan(state, plan.type_name, step.conditions[0], found)
        if not len(found):
            break
    return populated.ordinals() if found is None else found


def _by_key(names: tuple[str, ...], left: dict[str, Condition], key: Callable[[], PrimaryKeyIndex]) -> PlanStep | None:
    chosen = _equal_conditions(names, left) if names else None
    return None if chosen is None else PlanStep(chosen, key())


def _by_index(
    state: ReadState, type_name: str, left: dict[str, Condition], indexes: Sequence[Index]
) -> PlanStep | None:
    found: list[PlanStep] = []
    for index in indexes:
        if index.definition.type_name != type_name or index.definition.select:
            continue
        names = _names(index)
        match index:
            case PrimaryKeyIndex() | HashIndex():
                step = _equal_step(index, names, left)
            case PrefixIndex():
                step = _prefix_step(index, names[0], left)
            case RangeIndex():
                condition = left.get(names[0])
                fits = condition is not None and isinstance(condition.test, Between)
                step = PlanStep((condition,), index) if fits and condition is not None else None
        if step is not None:
            found.append(step)
    return max(found, key=_worth, default=None)


def _worth(step: PlanStep) -> tuple[bool, int]:
    """Equal values before ranges and prefixes, more conditions before fewer."""
    return isinstance(step.index, PrimaryKeyIndex | HashIndex), len(step.conditions)


def _names(index: Index) -> tuple[str, ...]:
    return _full_names(index.state, index.definition.type_name, index.definition.match)


def _full_names(state: ReadState, type_name: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Paths with every segment that they go through."""
    schemas = {name: data.schema for name, data in state.types.items()}
    return tuple(str(resolve_path(schemas, type_name, path, through_collections=True)) for path in paths)


def _equal_step(
    index: PrimaryKeyIndex | HashIndex, names: tuple[str, ...], left: dict[str, Condition]
) -> PlanStep | None:
    chosen = _equal_conditions(names, left)
    return None if chosen is None else PlanStep(chosen, index)


def _equal_conditions(names: tuple[str, ...], left: dict[str, Condition]) -> tuple[Condition, ...] | None:
    """The conditions that an index by these values answers; None if it does not."""
    if len(set(names)) != len(names) or any(name not in left for name in names):
        return None
    chosen = tuple(left[name] for name in names)
    combinations = 1
    for condition in chosen:
        values = condition.values
        if values is None or any(value is None for value in values):
            return None
        combinations *= len(values)
    return None if combinations > _MOST_COMBINATIONS or _share_a_collection(chosen) else chosen


def _share_a_collection(chosen: Sequence[Condition]) -> bool:
    """True if an index would ask one member for two values, where each condition may be met by a member of its own."""
    seen: set[tuple[str, ...]] = set()
    for condition in chosen:
        names = [step.name for step in condition.path.steps]
        own = {tuple(names[:depth]) for depth, step in enumerate(condition.path.steps) if step.kind is not Kind.OBJECT}
        if own & seen:
            return True
        seen |= own
    return False


def _prefix_step(index: PrefixIndex, name: str, left: dict[str, Condition]) -> PlanStep | None:
    condition = left.get(name)
    if condition is None or not isinstance(condition.test, StartsWith) or index.definition.option("tokens"):
        return None
    if index.definition.option("fold_case") != condition.test.fold_case:
        return None
    return PlanStep((condition,), index)


def _ask(index: Index, asked: tuple[Condition, ...]) -> Ordinals:
    match index:
        case PrimaryKeyIndex() | HashIndex():
            rows = list(product(*(condition.values or () for condition in asked)))
            if isinstance(index, PrimaryKeyIndex):
                # Not `find`: where two records have one key, both are asked for.
                found = {ordinal for row in rows for ordinal in index.ordinals(row)}
                return np.array(sorted(found), np.int64)
            columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in asked]
            return np.unique(index.find_many(*columns)[1])
        case PrefixIndex():
            test = asked[0].test
            assert isinstance(test, StartsWith)
            return index.find(test.prefix)
        case RangeIndex():
            test = asked[0].test
            assert isinstance(test, Between)
            return index.between(test.low, test.high, inclusive=test.inclusive)


def _scan(state: ReadState, type_name: str, condition: Condition, among: Ordinals | None) -> Ordinals:
    """The records that meet one condition, by their columns."""
    roots = None if among is None else OrdinalSet.from_ordinals(among)
    path = condition.written
    match condition.test:
        case AnyOf(values=values):
            found = _equal(Traversal(state, type_name, (path,)), state, roots, [v for v in values if v is not None])
            if None in values:
                found = np.union1d(found, _nulls(state, type_name, path, roots))
            return found
        case IsNull():
            return _nulls(state, type_name, path, roots)
        case Between(low=low, high=high, inclusive=inclusive):
            return RangeIndex.over(state, type_name, path, roots).between(low, high, inclusive=inclusive)
        case StartsWith(prefix=prefix, fold_case=fold_case):
            return PrefixIndex.over(state, type_name, path, roots, fold_case=fold_case).find(prefix)


def _nulls(state: ReadState, type_name: str, path: str, roots: OrdinalSet | None) -> Ordinals:
    rows = Traversal(state, type_name, (path,)).rows(state, roots)
    every = state.types[type_name].populated if roots is None else roots
    return every.difference(OrdinalSet.from_ordinals(rows.roots.astype(np.int64))).ordinals()


def _equal(traversal: Traversal, state: ReadState, roots: OrdinalSet | None, values: list[Any]) -> Ordinals:
    rows = traversal.rows(state, roots)
    wanted, valid, count = query_columns(traversal.codes, (values,))
    found = np.zeros(len(rows), np.bool_)
    for number in range(count):
        if valid is None or valid[number]:
            found |= _same(rows.columns[0], wanted[0], number)
    return np.unique(rows.roots[found]).astype(np.int64)


def _same(column: Column, wanted: Column, number: int) -> NDArray[np.bool_]:
    """Which rows of a column have a value."""
    numbers, data = column
    if data is None:
        same: NDArray[np.bool_] = numbers == wanted[0][number]
        return same
    assert wanted[1] is not None
    value = wanted[1][wanted[0][number] : wanted[0][number + 1]]
    found: NDArray[np.bool_] = np.diff(numbers) == len(value)
    if len(value):
        places = np.flatnonzero(found)
        _, pieces = access.gather_slices(np.ascontiguousarray(data), numbers[:-1][places], numbers[1:][places])
        found[places] = (pieces.reshape(-1, len(value)) == value).all(axis=1)
    return found
