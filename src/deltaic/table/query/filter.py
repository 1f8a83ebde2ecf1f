"""A predicate as part of a query. Nulls follow SQL: only rows for which it is true match; NOT of unknown is unknown."""

import math
from typing import Any

from deltaic.errors import InputError
from deltaic.table.predicate import And, Compare, In, IsNull, Not, Or, Predicate
from deltaic.table.query.bound import Bound, Equal, Never, Present, either, every, other_than
from deltaic.table.query.columns import SearchColumns, Target, UnknownColumn
from deltaic.table.query.literals import NoValue, value_of, whole_bounds
from deltaic.table.query.resolve import WHOLE_KINDS, between

_MAX_DEPTH = 200


def resolve_predicate(predicate: Predicate, columns: SearchColumns) -> Bound:
    """Fit a predicate to columns.

    Raises:
        InputError: a column is not there, or a value cannot be compared with it.
    """
    return _truth(predicate, columns, True, 0)


def _truth(predicate: Predicate, columns: SearchColumns, wanted: bool, depth: int) -> Bound:
    """The rows for which a predicate is true, or those for which it is false: what is unknown is in neither."""
    if depth > _MAX_DEPTH:
        raise InputError("the predicate is nested too deep", "BadPredicate")
    if isinstance(predicate, Not):
        return _truth(predicate.part, columns, not wanted, depth + 1)
    if isinstance(predicate, And | Or):
        parts = [_truth(part, columns, wanted, depth + 1) for part in predicate.parts]
        return every(*parts) if isinstance(predicate, And) is wanted else either(*parts)
    target = _target(predicate.column, columns)
    if isinstance(predicate, IsNull):
        return other_than(Present(target)) if wanted else Present(target)
    if target.many or target.kind == "json":
        raise InputError(f"{target.described}, with several values in a row: ask for it in the query", "BadPredicate")
    if isinstance(predicate, In):
        if not wanted and any(value is None for value in predicate.values):
            return Never("nothing is known to differ from null")
        given = [_value(target, value) for value in predicate.values if value is not None]
        found = _equal(target, given)
    else:
        if predicate.value is None:
            return Never("nothing compares with null")
        wanted, found = _compared(predicate, target, wanted)
    return found if wanted else every(Present(target), other_than(found))


def _compared(predicate: Compare, target: Target, wanted: bool) -> tuple[bool, Bound]:
    value = _value(target, predicate.value)
    if predicate.operator in ("=", "!="):
        return wanted is (predicate.operator == "="), _equal(target, [value])
    if target.kind == "boolean":
        raise InputError(f"{target.described}: it has no order", "BadPredicate")
    if predicate.operator.startswith(">"):
        return wanted, between(target, value, None, predicate.operator == ">=", True)
    return wanted, between(target, None, value, True, predicate.operator == "<=")


def _equal(target: Target, values: list[Any]) -> Bound:
    if target.kind in WHOLE_KINDS:
        kept = [_whole(target, value) for value in values]
    else:
        kept = [value for value in values if not (isinstance(value, float) and math.isnan(value))]
    found = tuple(dict.fromkeys(value for value in kept if value is not None))
    return Equal(target, found) if found else Never(f"column {target.name!r} cannot hold that")


def _whole(target: Target, value: Any) -> int | None:
    bounds = whole_bounds(target, value, value, True, True)
    return bounds[0] if bounds is not None and bounds[0] == bounds[1] else None


def _target(name: str, columns: SearchColumns) -> Target:
    try:
        found = columns.target(name)
    except UnknownColumn as error:
        raise InputError(str(error), "UnknownColumn") from None
    # A predicate is about whole values, whatever the index makes of them.
    if found.kind == "text":
        return Target(found.column, "string", found.type, found.path, found.many)
    return found


def _value(target: Target, value: Any) -> Any:
    try:
        return value_of(target, value)
    except NoValue as error:
        raise InputError(str(error), "BadPredicate") from error
