"""Groups and measures by the engine's own columns, where they are exact: a broad query then costs milliseconds.

The engine adds in floats of 64 bits. For whole numbers and decimals that is exact as long as no sum can leave 53 bits,
which the answer itself shows: count times the greatest amount. What is beyond is computed from rows instead, and so is
what the engine would cut (more than 65,000 groups) or does not have (several keys, lists, NaN).
"""

import datetime
import decimal
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from deltaic.errors import DecodeError
from deltaic.table.query.bound import Group, Present
from deltaic.table.query.columns import Target
from deltaic.table.query.tree import Occur
from deltaic.table.search.execute import Execution
from deltaic.table.search.measures import Measure
from deltaic.table.split.engine import engine, guarded
from deltaic.table.split.mapping import MAX_TERM_BYTES

_EXACT = 2**53
_MOST_GROUPS = 65_000
_WHOLE = frozenset(("integer", "date", "timestamp", "decimal"))
_KEYS = frozenset(("string", "integer", "boolean", "date"))
_EPOCH = datetime.date(1970, 1, 1)


def engine_aggregate(
    execution: Execution, keys: Mapping[str, Target], measured: Mapping[str, Target], measures: Mapping[str, Measure]
) -> pa.Table | None:
    """The answer, or None if the engine cannot give it exactly."""
    if not execution.splits or len(keys) > 1 or not all(_is_key(execution, target) for target in keys.values()):
        return None
    if not all(_is_measured(execution, measured, measure) for measure in measures.values()):
        return None
    query = execution.asked_of_index()
    if query is None:
        return None
    asked = {f"m{place}": {"stats": {"field": _field(target)}} for place, target in enumerate(measured.values())}
    if not keys:
        answer = _answer(execution, query, asked)
        groups = None if answer is None else [(None, execution.count(), answer)]
    else:
        groups = _grouped(execution, query, next(iter(keys.values())), asked)
    if groups is None:
        return None
    places = {name: f"m{place}" for place, name in enumerate(measured)}
    execution.way = "index"
    return _table(groups, keys, measured, measures, places)


def _grouped(
    execution: Execution, query: Any, key: Target, asked: dict[str, Any]
) -> list[tuple[Any, int, dict[str, Any]]] | None:
    """Each key with its rows and their statistics, null among them."""
    terms = {"g": {"terms": {"field": _field(key), "size": _MOST_GROUPS}, **({"aggs": asked} if asked else {})}}
    answer = _answer(execution, query, terms)
    if answer is None or answer["g"].get("sum_other_doc_count"):
        return None
    buckets = answer["g"]["buckets"]
    if len(buckets) >= _MOST_GROUPS:
        return None
    groups = [(bucket["key"], int(bucket["doc_count"]), bucket) for bucket in buckets]
    lacking = execution.count() - sum(count for _, count, _ in groups)
    if lacking:
        without = execution.lowered_once(Group(((Occur.MUST_NOT, Present(key)),)))
        if without is None:
            return None
        rest = _answer(execution, _both(query, without), asked) if asked else {}
        if rest is None:
            return None
        groups.append((None, lacking, rest))
    return groups


def _answer(execution: Execution, query: Any, asked: dict[str, Any]) -> dict[str, Any] | None:
    if not asked:
        return {}
    execution.deadline.check("before the index was aggregated")
    try:
        with guarded("aggregate", "the joined index"):
            found: dict[str, Any] = execution.joined.searcher.aggregate(query, asked)
            return found
    except DecodeError as error:
        if "limit" in error.reason:
            return None
        raise


def _both(first: Any, second: Any) -> Any:
    must = engine().Occur.Must
    return engine().Query.boolean_query([(must, first), (must, second)])


def _field(target: Target) -> str:
    assert target.column.index is not None
    return target.column.index.field


def _is_fast(target: Target) -> bool:
    index = target.column.index
    return index is not None and index.fast and not target.many and not target.path and not target.column.partition


def _is_key(execution: Execution, target: Target) -> bool:
    if not _is_fast(target) or target.kind not in _KEYS:
        return False
    return target.kind != "string" or execution.longest(target) <= MAX_TERM_BYTES


def _is_measured(execution: Execution, measured: Mapping[str, Target], measure: Measure) -> bool:
    if measure.column is None:
        return True
    target = measured[f"={measure.column}"]
    if measure.function == "count_distinct" or not _is_fast(target):
        return False
    if target.kind == "float":
        return not any(split.has_nan(target) for split in execution.splits)
    index = target.column.index
    if target.kind not in _WHOLE or index is None or index.field_type not in ("i64", "u64"):
        return False
    return measure.function not in ("sum", "avg") or target.kind in ("integer", "decimal")


def _table(
    groups: list[tuple[Any, int, dict[str, Any]]],
    keys: Mapping[str, Target],
    measured: Mapping[str, Target],
    measures: Mapping[str, Measure],
    places: Mapping[str, str],
) -> pa.Table | None:
    columns, names = list[pa.Array](), list[str]()
    for name, target in keys.items():
        columns.append(pa.array([_key(target, key) for key, _, _ in groups], target.type))
        names.append(name)
    for name, measure in measures.items():
        names.append(name)
        if measure.column is None:
            columns.append(pa.array([count for _, count, _ in groups], pa.int64()))
            continue
        target = measured[f"={measure.column}"]
        place = places[f"={measure.column}"]
        found = [group[place] for _, _, group in groups]
        if target.kind in _WHOLE and not all(_is_exact(measure, one) for one in found):
            return None
        columns.append(_measured(target, measure, found))
    table = pa.Table.from_arrays(columns, names)
    return table.sort_by([(name, "ascending") for name in keys]) if keys and table.num_rows else table


def _is_exact(measure: Measure, found: Mapping[str, Any]) -> bool:
    most = max(abs(found["min"] or 0), abs(found["max"] or 0))
    return bool(most * (max(1, found["count"]) if measure.function in ("sum", "avg") else 1) <= _EXACT)


def _key(target: Target, key: Any) -> Any:
    if key is None:
        return None
    if target.kind == "boolean":
        return bool(key)
    if target.kind == "date":
        return _EPOCH + datetime.timedelta(days=int(key))
    return int(key) if target.kind == "integer" else key


def _measured(target: Target, measure: Measure, found: list[Mapping[str, Any]]) -> pa.Array:
    if measure.function == "count":
        return pa.array([int(one["count"]) for one in found], pa.int64())
    values = [one[measure.function] if one["count"] else None for one in found]
    if target.kind == "float":
        return pa.array(values, target.type if measure.function in ("min", "max") else pa.float64())
    whole = [None if value is None else int(value) for value in values] if measure.function != "avg" else []
    if target.kind == "decimal":
        scale = target.type.scale
        if measure.function == "avg":
            return pa.array([_ratio(one, scale) for one in found], pa.float64())
        exact = [None if value is None else decimal.Decimal(value).scaleb(-scale) for value in whole]
        return pa.array(exact, pa.decimal128(38, scale) if measure.function == "sum" else target.type)
    if measure.function == "avg":
        return pa.array([None if not one["count"] else one["sum"] / one["count"] for one in found], pa.float64())
    if measure.function == "sum":
        return pa.array(whole, pa.int64())
    if target.kind in ("date", "timestamp"):
        return _ticks(target.type, whole)
    return pa.array(whole, target.type)


def _ratio(found: Mapping[str, Any], scale: int) -> float | None:
    if not found["count"]:
        return None
    return float(int(found["sum"]) / (found["count"] * 10**scale))


def _ticks(kind: pa.DataType, values: list[int | None]) -> pa.Array:
    if pa.types.is_date64(kind):
        return pa.array(values, pa.int32()).view(pa.date32()).cast(kind)
    return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
