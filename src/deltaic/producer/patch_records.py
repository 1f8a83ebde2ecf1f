"""Patches on whole records, one by one: the way that takes every path and every operation.

Records are read when a patch first touches them and kept as dicts until all patches are done. Columns of scalar fields
take a shorter way (`patch_columns`); both give the same records.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError, PatchConflictError
from deltaic.producer.patch_encode import encoded
from deltaic.producer.patch_routes import Route, StepKind, route_of, spread
from deltaic.producer.patch_shapes import Shapes
from deltaic.producer.patch_values import NotThere, current, patched, same_value
from deltaic.schema.model import Model
from deltaic.wire.patches import ABSENT, MISSING, Operation, PatchGroup, join_place
from deltaic.wire.references import ParameterType, Selector

OnMismatch = Literal["reject", "skip"]
"""What becomes of a patch that meets another value than it expects: the batch is refused, or the patch passed over."""

OnMissing = Literal["reject", "skip", "insert"]
"""What becomes of a patch of a record that is not there: refused, passed over, or the record is made."""


@dataclass(frozen=True, slots=True)
class PatchRules:
    """What happens where a patch does not fit what it meets."""

    on_mismatch: OnMismatch = "reject"
    on_missing: OnMissing = "reject"

    def __post_init__(self) -> None:
        if self.on_mismatch not in ("reject", "skip"):
            raise InputError(f"on_mismatch {self.on_mismatch!r}: 'reject' or 'skip'")
        if self.on_missing not in ("reject", "skip", "insert"):
            raise InputError(f"on_missing {self.on_missing!r}: 'reject', 'skip' or 'insert'")


@dataclass(slots=True)
class PatchCounts:
    """What became of the patches of a batch so far."""

    applied: int = 0
    mismatched: int = 0
    missing: int = 0
    examples: list[str] = field(default_factory=list)
    """Of those passed over, the first few."""

    def passed(self, why: PatchConflictError) -> None:
        """Remember one that was passed over."""
        if len(self.examples) < _MOST_EXAMPLES:
            self.examples.append(str(why))


_MOST_EXAMPLES = 5


class RecordEdits:
    """The records of a batch while it is applied, by type and key.

    Args:
        model: whose types they are.
        rules: what happens where a patch does not fit.
        read: gives the record of a type by the key's number, or ABSENT.
        counts: what became of the patches.
        shapes: what makes two values the same.
    """

    def __init__(
        self,
        model: Model,
        rules: PatchRules,
        read: Callable[[str, Hashable], Any],
        counts: PatchCounts,
        shapes: Shapes,
    ) -> None:
        self._model, self._rules, self._read, self._counts = model, rules, read, counts
        self._shapes = shapes
        self._records: dict[tuple[str, Hashable], Any] = {}
        self._routes: dict[tuple[str, str], Route] = {}
        self._touched: dict[tuple[str, Hashable], None] = {}

    def apply(self, group: PatchGroup, numbers: list[Any], rows: NDArray[np.int64] | None = None) -> None:
        """Apply the patches of a group, or some rows of it, in order; `numbers` are those of their keys."""
        if rows is not None:
            group = group.picked(rows)
            numbers = [numbers[row] for row in rows.tolist()]
        if group.operation.of_record:
            self._apply_records(group, numbers)
        else:
            self._apply_fields(group, numbers)

    def changed(self) -> Iterator[tuple[str, Hashable, Any]]:
        """Type, key number and record (or ABSENT) of everything that was touched."""
        for type_name, number in self._touched:
            yield type_name, number, self._records[type_name, number]

    def _apply_fields(self, given: PatchGroup, numbers: list[Any]) -> None:
        group = spread(given)
        assert isinstance(group.path, str)
        route = self._route(group.type_name, group.path)
        if group.operation is Operation.VECTOR and route.vector is None:
            raise InputError(f"{route.type_name}.{route.path} is no vector: set it", "WrongType")
        if route.scalar is not None and group.values is not None and not _ends_on_range(group, route):
            encoded(group.values, route.scalar, group, None, route)  # names the record of a value that does not fit
        count = group.count
        values: list[Any] = [None] * count if group.values is None else group.values.to_list()
        previous: list[Any] = [MISSING] * count if group.previous is None else group.previous.to_list()
        selectors: list[tuple[Selector, ...]] = [()] * count
        if group.selectors:
            selectors = list(zip(*(column.to_list() for column in group.selectors), strict=True))
        keys = group.key_values()
        for row, number in enumerate(numbers):
            record = self._record(group.type_name, number)
            if record is ABSENT and not self._made(group.type_name, keys[row], route, selectors[row]):
                continue
            record = self._keyed(group.type_name, keys[row]) if record is ABSENT else record
            try:
                if previous[row] is not MISSING:
                    found = current(record, route, selectors[row])
                    if not same_value(route, self._shapes, selectors[row], found, previous[row]):
                        raise PatchConflictError(
                            group.type_name, keys[row], join_place(route.path, selectors[row]), found, previous[row]
                        )
                after = patched(record, route, selectors[row], group.operation, values[row])
            except NotThere:
                place = join_place(route.path, selectors[row])
                self._conflict(
                    PatchConflictError(group.type_name, keys[row], place, ABSENT, MISSING, "there is no such place")
                )
                continue
            except PatchConflictError as error:
                place = join_place(route.path, selectors[row])
                self._conflict(PatchConflictError(group.type_name, keys[row], place, error.found, error.expected))
                continue
            self._put(group.type_name, number, after)

    def _apply_records(self, group: PatchGroup, numbers: list[Any]) -> None:
        keys = group.key_values()
        values: list[Any] = [None] * group.count if group.values is None else group.values.to_list()
        previous: list[Any] = [MISSING] * group.count if group.previous is None else group.previous.to_list()
        for row, number in enumerate(numbers):
            record = self._record(group.type_name, number)
            expected = previous[row]
            if expected is not MISSING:
                absent = record is ABSENT or expected is ABSENT
                if record is not expected if absent else not self._same_record(group.type_name, record, expected):
                    self._conflict(PatchConflictError(group.type_name, keys[row], "", record, expected))
                    continue
            if group.operation is Operation.REMOVE:
                if record is ABSENT:
                    self._missing(group.type_name, keys[row])
                    continue
                self._put(group.type_name, number, ABSENT)
            else:
                given = values[row]
                if not isinstance(given, Mapping):
                    raise InputError(
                        f"{group.type_name} {keys[row]!r}: a record is a mapping, not a {type(given).__name__}",
                        "WrongType",
                    )
                self._put(group.type_name, number, dict(given))

    def _same_record(self, type_name: str, found: Any, expected: Any) -> bool:
        try:
            return self._shapes.same(type_name, found, expected)
        except RecursionError as error:
            raise InputError(f"{type_name}: an expected record is nested too deep", "TooDeep") from error

    def _record(self, type_name: str, number: Hashable) -> Any:
        found = self._records.get((type_name, number), MISSING)
        if found is MISSING:
            found = self._records[type_name, number] = self._read(type_name, number)
        return found

    def _put(self, type_name: str, number: Hashable, record: Any) -> None:
        self._records[type_name, number] = record
        self._touched[type_name, number] = None
        self._counts.applied += 1

    def _route(self, type_name: str, path: str) -> Route:
        found = self._routes.get((type_name, path))
        if found is None:
            found = self._routes[type_name, path] = route_of(self._model, type_name, path)
        return found

    def _made(self, type_name: str, key: Any, route: Route, selectors: tuple[Selector, ...]) -> bool:
        if self._rules.on_missing == "insert":
            return True
        self._missing(type_name, key, join_place(route.path, selectors))
        return False

    def _keyed(self, type_name: str, key: Any) -> dict[str, Any]:
        """A record that has nothing but its key."""
        schema = self._model.schemas.object_schema(type_name)
        record: dict[str, Any] = {}
        parts = key if isinstance(key, tuple | list) else (key,)
        for path, part in zip(schema.primary_key or (), parts, strict=True):
            names = path.removesuffix("!").removesuffix(".value").removesuffix("._name").split(".")
            place = record
            for name in names[:-1]:
                place = place.setdefault(name, {})
            place[names[-1]] = part
        return record

    def _missing(self, type_name: str, key: Any, path: str = "") -> None:
        error = PatchConflictError(type_name, key, path, ABSENT, MISSING, "there is no record with this key")
        if self._rules.on_missing == "reject":
            raise error
        self._counts.missing += 1
        self._counts.passed(error)

    def _conflict(self, error: PatchConflictError) -> None:
        if self._rules.on_mismatch == "reject":
            raise error
        self._counts.mismatched += 1
        self._counts.passed(error)


def _ends_on_range(group: PatchGroup, route: Route) -> bool:
    """True if a range of elements is set, whose value is a list of them."""
    if route.last.kind is not StepKind.ELEMENT or not group.selectors:
        return False
    return group.selectors[-1].code == ParameterType.RANGE
