"""Which files may hold rows that a reader wants: by partition, by the bounds of manifests, by statistics.

A file is left out only if no row of it can match. Values are compared by their column's type, never as texts unless
they are. Where something is not known (no statistics, a text that does not parse, orders of text that disagree, a time
without a zone) the file stays. A text's max may have been cut by its writer: a value that goes on from it is not behind
it. Comparisons with NaN are never true (as in Arrow); files of ours that hold NaN have no max.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.kernels import manifest as kernel
from deltaic.table.actions import NULL_PARTITION, AddFile
from deltaic.table.columns import FileColumns
from deltaic.table.manifest import ManifestInfo
from deltaic.table.predicate import And, Compare, In, IsNull, Not, Or, Predicate, columns_in
from deltaic.table.settings import Settings
from deltaic.table.snapshot import Rows, Snapshot
from deltaic.table.values import FLOATS, INTEGERS, comparable, parse, to_text

Mask: TypeAlias = NDArray[np.bool_]
_Leaf: TypeAlias = Compare | In | IsNull
_CUT_LENGTH = 32
_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class Explain(msgspec.Struct, frozen=True):
    """What each step of pruning left out."""

    manifests: int
    manifests_skipped: int
    """By their partition bounds, without being read."""
    files_in_skipped_manifests: int
    files: int
    """In the manifests that were read, and in version files after them."""
    skipped_by_partition: int
    skipped_by_statistics: int
    without_statistics: int
    """Of the files that are left: those that have no statistics of some column of the predicate."""
    left: int

    def __str__(self) -> str:
        return (
            f"{self.manifests} manifests, {self.manifests_skipped} skipped by bounds "
            f"({self.files_in_skipped_manifests} files); {self.files} files, {self.skipped_by_partition} skipped by "
            f"partition, {self.skipped_by_statistics} by statistics; {self.left} left, "
            f"{self.without_statistics} of them without statistics"
        )


class Plan(msgspec.Struct, frozen=True):
    """The files that may hold what is wanted."""

    parts: tuple[tuple[FileColumns, Rows], ...]
    explain: Explain

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self.parts)

    def paths(self) -> list[str]:
        """Their paths."""
        return [path for columns, rows in self.parts for path in columns.paths.texts(rows) if path is not None]

    def files(self) -> list[AddFile]:
        """Their add actions."""
        return [add for columns, rows in self.parts for add in columns.entries(rows)]

    @property
    def total_bytes(self) -> int:
        """Their size."""
        return sum(int(columns.longs("size")[0][rows].sum()) for columns, rows in self.parts)


def plan(snapshot: Snapshot, predicate: Predicate | None = None, settings: Settings | None = None) -> Plan:
    """The files of a snapshot that may hold rows for which a predicate is true."""
    if predicate is None:
        live = snapshot.live()
        count = sum(len(rows) for _, rows in live)
        return Plan(tuple(live), Explain(len(snapshot.base), 0, 0, count, 0, 0, 0, count))
    pruner = _Pruner(snapshot, settings or Settings())
    keep = [part.info is None or pruner.may_hold(part.info, predicate) for part in snapshot.base]
    unread = [part.info for part, kept in zip(snapshot.base, keep, strict=True) if not kept]
    files = by_partition = by_statistics = bare = 0
    parts = []
    for columns, rows in snapshot.live(keep if unread else None):
        files += len(rows)
        in_partition = rows[pruner.in_partition(columns, predicate)[rows]]
        left = in_partition[pruner.may_match(columns, predicate)[in_partition]]
        by_partition += len(rows) - len(in_partition)
        by_statistics += len(in_partition) - len(left)
        bare += int(pruner.bare(columns, predicate)[left].sum())
        if len(left):
            parts.append((columns, left))
    left_files = sum(len(rows) for _, rows in parts)
    skipped_files = sum(info.num_entries for info in unread if info is not None)
    explain = Explain(
        len(snapshot.base), len(unread), skipped_files, files, by_partition, by_statistics, bare, left_files
    )
    return Plan(tuple(parts), explain)


def may_contain(add: AddFile, predicate: Predicate, snapshot: Snapshot, settings: Settings | None = None) -> bool:
    """Whether one file may hold rows for which a predicate is true."""
    return bool(may_contain_any([add], predicate, snapshot, settings)[0])


def may_contain_any(
    adds: Sequence[AddFile], predicate: Predicate, snapshot: Snapshot, settings: Settings | None = None
) -> Mask:
    """For each of some files, whether it may hold rows for which a predicate is true."""
    columns = FileColumns.of_adds(adds, "add actions")
    return _Pruner(snapshot, settings or Settings()).may_match(columns, predicate)


def only_partitions(predicate: Predicate, partition_columns: Sequence[str]) -> bool:
    """Whether a predicate looks at partition columns only, so that it is true or false of whole files."""
    return columns_in(predicate) <= set(partition_columns)


class _Pruner:
    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self._types = snapshot.types
        self._partitions = frozenset(snapshot.metadata.partition_columns)
        self._settings = settings
        self._typed_bounds = snapshot.state is not None and snapshot.state.own

    def in_partition(self, columns: FileColumns, predicate: Predicate) -> Mask:
        """By partition values alone."""

        def leaf(found: _Leaf, negated: bool) -> Mask:
            if found.column in self._partitions:
                return self._partition_leaf(columns, found, negated)
            return np.ones(len(columns), bool)

        return _evaluate(predicate, leaf, False)

    def may_match(self, columns: FileColumns, predicate: Predicate) -> Mask:
        """By partition values and statistics."""

        def leaf(found: _Leaf, negated: bool) -> Mask:
            if found.column in self._partitions:
                return self._partition_leaf(columns, found, negated)
            return self._statistics_leaf(columns, found, negated)

        return _evaluate(predicate, leaf, False)

    def may_hold(self, info: ManifestInfo, predicate: Predicate) -> bool:
        """By the partition bounds of a whole manifest."""
        if info.partition_bounds is None:
            return True

        def leaf(found: _Leaf, negated: bool) -> Mask:
            return np.array([self._bounds_leaf(info, found, negated)])

        return bool(_evaluate(predicate, leaf, False)[0])

    def bare(self, columns: FileColumns, predicate: Predicate) -> Mask:
        """The files that lack statistics of some column."""
        found = np.zeros(len(columns), bool)
        for name in columns_in(predicate) - self._partitions:
            found |= columns.value_of("minValues", name).lengths < 0
        return found

    def _value(self, leaf_value: Any, name: str) -> Any:
        return comparable(leaf_value, self._types.get(name), time_zone=self._settings.time_zone)

    def _partition_leaf(self, columns: FileColumns, leaf: _Leaf, negated: bool) -> Mask:
        texts, codes = columns.derived(
            ("distinct", leaf.column), lambda: columns.value_of("partitionValues", leaf.column).distinct()
        )
        answers = [self._partition_answer(leaf, text, negated) for text in texts]
        return np.array(answers, bool)[codes] if len(answers) else np.zeros(0, bool)

    def _partition_answer(self, leaf: _Leaf, text: bytes | None, negated: bool) -> bool:
        null = text is None or text == NULL_PARTITION.encode()
        if isinstance(leaf, IsNull):
            return null != negated
        if text is None or null:
            return False
        kind = self._types.get(leaf.column)
        value = parse(text.decode("utf-8", "replace"), kind)
        if value is None:
            return True
        wanted = [self._value(one, leaf.column) for one in (leaf.values if isinstance(leaf, In) else (leaf.value,))]
        given = leaf.values if isinstance(leaf, In) else (leaf.value,)
        if any(one is None and other is not None for one, other in zip(wanted, given, strict=True)):
            return True
        known = [one for one in wanted if one is not None]
        if isinstance(leaf, In):
            if negated:
                return len(known) == len(wanted) and all(not _compared("=", value, one) for one in known)
            return any(_compared("=", value, one) for one in known)
        return bool(known) and _compared(leaf.operator, value, known[0]) != negated

    def _bounds_leaf(self, info: ManifestInfo, leaf: _Leaf, negated: bool) -> bool:
        bounds = (info.partition_bounds or {}).get(leaf.column)
        if bounds is None or bounds.min is None or bounds.max is None or isinstance(leaf, IsNull):
            return True
        if isinstance(leaf, In):
            if negated:
                return True
            return any(self._bounds_leaf(info, Compare(leaf.column, "=", one), False) for one in leaf.values)
        operator = _NEGATED[leaf.operator] if negated else leaf.operator
        kind = self._types.get(leaf.column)
        low, high, value = parse(bounds.min, kind), parse(bounds.max, kind), self._value(leaf.value, leaf.column)
        if low is None or high is None or value is None or not _outside(operator, low, high, value):
            return True
        if self._typed_bounds:
            return False
        # The first writers compared these bounds as texts: 9 was the largest of twelve months.
        try:
            text = to_text(leaf.value, kind, instants=True)
        except InputError:
            return True
        # Java compares UTF-16 units, which sorts what lies beyond U+DFFF otherwise.
        if any(character >= "\ue000" for character in (*bounds.min, *bounds.max, *text)):
            return True
        return not _outside(operator, bounds.min, bounds.max, text)

    def _statistics_leaf(self, columns: FileColumns, leaf: _Leaf, negated: bool) -> Mask:
        every = np.ones(len(columns), bool)
        if isinstance(leaf, IsNull):
            return every  # statistics do not count nulls
        if isinstance(leaf, In):
            if negated:
                return every
            found = ~every
            for one in leaf.values:
                found |= self._statistics_leaf(columns, Compare(leaf.column, "=", one), False)
            return found
        kind = self._types.get(leaf.column)
        if kind in FLOATS and (negated or leaf.operator == "!="):
            return every  # a NaN is not less and not equal either
        if leaf.value is None:
            return ~every
        value = self._value(leaf.value, leaf.column)
        if value is None:
            return every
        operator = _NEGATED[leaf.operator] if negated else leaf.operator
        low = self._side(columns, "minValues", leaf.column, kind, value)
        high = self._side(columns, "maxValues", leaf.column, kind, value)
        return ~_excluded(operator, low, high)

    def _side(self, columns: FileColumns, side: str, name: str, kind: str | None, value: Any) -> "_Side":
        texts = columns.value_of(side, name)
        if kind == "string":
            return self._text_side(texts.compared(value.encode("utf-8", "surrogatepass")), value)
        key = ("numbers", side, name, kind)
        numbers, known = columns.derived(key, lambda: _numbers(texts, kind))
        if kind is not None and kind.startswith("decimal"):
            pairs = list(zip(numbers, known.tolist(), strict=True))
            less = np.array([fine and number < value for number, fine in pairs], bool)
            equal = np.array([fine and number == value for number, fine in pairs], bool)
            return _Side(less, equal, known & ~less & ~equal, equal)
        if kind in FLOATS:
            number = _double(value)
            less, greater = numbers < number, numbers > number
            # A filter's exact number may lie beside the double it is rounded to.
            exact = number == value
            return _Side(known & less, known & ~less & ~greater & exact, known & greater, known & exact)
        ceiling, floor = _ceiling(value), _floor(value)
        less = numbers < ceiling if _LEAST <= ceiling <= _MOST else np.full(len(numbers), ceiling > 0)
        greater = numbers > floor if _LEAST <= floor <= _MOST else np.full(len(numbers), floor < 0)
        return _Side(known & less, known & ~less & ~greater, known & greater, known)

    def _text_side(self, compared: NDArray[np.int8], value: str) -> "_Side":
        units = len(value.encode("utf-16-le", "surrogatepass")) // 2
        # A text as long as writers cut at may have been cut there: it equals the value, and yet rows go beyond.
        whole = min(units, len(value)) < min(_CUT_LENGTH, self._settings.statistics_length)
        less, equal = compared == kernel.LESS, compared == kernel.EQUAL
        # A text that the value goes on from is less as a min; as a max it may stand for more than it shows.
        prefix = compared == kernel.PREFIX
        return _Side(less, equal, compared == kernel.GREATER, equal if whole else np.zeros(len(equal), bool), prefix)


class _Side(msgspec.Struct, frozen=True):
    """How the bounds of files lie beside a value; all false where that is not known."""

    less: Mask
    equal: Mask
    greater: Mask
    exact: Mask
    prefix: Mask | None = None


def _excluded(operator: str, low: _Side, high: _Side) -> Mask:
    if operator == "=":
        return low.greater | high.less
    if operator == "<":
        return low.greater | low.equal
    if operator == "<=":
        return low.greater
    if operator == ">":
        return high.less | (high.equal & high.exact)
    if operator == ">=":
        return high.less
    return low.equal & high.equal & low.exact & high.exact


def _outside(operator: str, low: Any, high: Any, value: Any) -> bool:
    if operator == "=":
        return bool(value < low or value > high)
    if operator == "<":
        return bool(low >= value)
    if operator == "<=":
        return bool(low > value)
    if operator == ">":
        return bool(high <= value)
    if operator == ">=":
        return bool(high < value)
    return bool(low == value == high)


def _compared(operator: str, value: Any, wanted: Any) -> bool:
    if operator == "=":
        return bool(value == wanted)
    if operator == "!=":
        return bool(value != wanted)
    if operator == "<":
        return bool(value < wanted)
    if operator == "<=":
        return bool(value <= wanted)
    return bool(value > wanted) if operator == ">" else bool(value >= wanted)


def _evaluate(predicate: Predicate, leaf: Callable[[_Leaf, bool], Mask], negated: bool) -> Mask:
    if isinstance(predicate, Not):
        return _evaluate(predicate.part, leaf, not negated)
    if isinstance(predicate, And | Or):
        masks = [_evaluate(part, leaf, negated) for part in predicate.parts]
        joined = np.logical_and if isinstance(predicate, And) != negated else np.logical_or
        return joined.reduce(masks)  # type: ignore[no-any-return]
    return leaf(predicate, negated)


_LEAST, _MOST = -(2**63), 2**63 - 1


def _double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _ceiling(value: Any) -> int:
    return 2**63 if value == math.inf else -(2**63) if value == -math.inf else math.ceil(value)


def _floor(value: Any) -> int:
    return 2**63 if value == math.inf else -(2**63) if value == -math.inf else math.floor(value)


def _numbers(texts: Any, kind: str | None) -> tuple[Any, Mask]:
    """The bounds as numbers, and which of them are."""
    if kind in INTEGERS:
        values, fine = texts.longs()
        return values, fine.view(bool)
    if kind in FLOATS:
        values, fine = texts.doubles()
        # A single's shortest text is not its value: 0.1 stands for 0.10000000149.
        return (values.astype(np.float32).astype(np.float64) if kind == "float" else values), fine.view(bool)
    parsed = [None if text is None else parse(text, kind) for text in texts.texts()]
    known = np.array([value is not None for value in parsed], bool)
    if kind is not None and kind.startswith("decimal"):
        return parsed, known
    return np.array([int(value or 0) for value in parsed], np.int64), known
