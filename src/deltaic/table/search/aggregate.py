"""Groups and measures over the rows that match, by Arrow, exact for every type.

Whole numbers and decimals are added without rounding: where 64 bits might not do, sums are computed in decimals, and
come as 64 bits again if they fit. Groups come in the order of their keys, null last.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaic.errors import InputError, LimitError
from deltaic.table.query.columns import SearchColumns, Target, UnknownColumn
from deltaic.table.search.arrays import arrow_array
from deltaic.table.search.execute import Execution, in_parallel
from deltaic.table.search.measures import Measure
from deltaic.table.search.rows import values_of
from deltaic.table.search.splits import SplitColumns

_LARGEST = 2**63 - 1
_EXACT_FLOAT = 2**53


def aggregate_target(columns: SearchColumns, name: str) -> Target:
    """A column, or a path, to group by or to measure."""
    try:
        return columns.target(name)
    except UnknownColumn as error:
        raise InputError(str(error), "UnknownColumn") from None


def gather(execution: Execution, targets: Mapping[str, Target]) -> pa.Table:
    """The values of the rows that match, under the given names; a target with several values repeats its row."""
    matches = execution.matches()
    several = [name for name, target in targets.items() if is_several(target)]
    if len(several) > 1:
        raise InputError(f"columns {', '.join(several)} have several values in a row: group by one of them at a time")

    def one(place: int) -> pa.Table:
        execution.deadline.check(f"while values of split {place} were gathered")
        return _gathered(execution.splits[place], matches[place], targets, several[0] if several else None)

    tables = in_parallel(one, range(len(matches)))
    if not tables:
        return pa.table({name: pa.array([], target.type) for name, target in targets.items()})
    return pa.concat_tables(tables)


def is_several(target: Target) -> bool:
    """Whether a row may have several values, so that it counts in several groups."""
    return target.many or any(pa.types.is_map(target.column.type) for _ in target.path)


def _gathered(
    split: SplitColumns, rows: NDArray[np.int64], targets: Mapping[str, Target], several: str | None
) -> pa.Table:
    every = len(rows) == split.num_rows
    repeated: NDArray[np.int64] | None = None
    values: dict[str, Any] = {}
    if several is not None:
        values[several], repeated = _several(split, rows, targets[several])
    for name, target in targets.items():
        if name == several:
            continue
        if target.path:
            array, parents = values_of(split.column(target.column), target)
            if parents is not None and len(parents) != split.num_rows:
                raise InputError(f"{target.name!r} does not have one value in each row")
            column = array.take(arrow_array(rows)) if not every else array
        elif every and repeated is None:
            column = split.column(target.column)
        else:
            column = split.taken([target.column], rows).column(0)
        values[name] = column if repeated is None else column.take(arrow_array(repeated))
    if not values:
        # Only rows are counted.
        return pa.table({"": pa.nulls(len(rows) if repeated is None else len(repeated))})
    arrays = [_unwrapped(values[name], target.type) for name, target in targets.items()]
    return pa.Table.from_arrays(arrays, list(targets))


def _several(split: SplitColumns, rows: NDArray[np.int64], target: Target) -> tuple[pa.Array, NDArray[np.int64]]:
    """The different values of each row, and for each the place of its row among the rows; of a row without, null."""
    column = split.column(target.column).take(arrow_array(rows))
    array, parents = values_of(column, target)
    if parents is None:
        parents = np.arange(len(rows))
    pairs = pa.table({"row": arrow_array(parents), "value": _unwrapped(array, target.type)})
    pairs = pairs.group_by(["row", "value"], use_threads=False).aggregate([])
    pairs = pairs.filter(pc.is_valid(pairs["value"]))
    have = np.zeros(len(rows), np.bool_)
    have[pairs["row"].to_numpy()] = True
    lacking = np.flatnonzero(~have)
    places = np.concatenate([pairs["row"].to_numpy(), lacking])
    found = pa.chunked_array([*pairs["value"].chunks, pa.nulls(len(lacking), pairs["value"].type)])
    return found.combine_chunks(), places


def _unwrapped(values: Any, wanted: pa.DataType) -> Any:
    """Values without dictionaries, and one zero."""
    if values.type != wanted and (pa.types.is_dictionary(values.type) or pa.types.is_run_end_encoded(values.type)):
        values = values.cast(wanted)
    if pa.types.is_float64(values.type) or pa.types.is_float32(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))
    return values


def aggregate_rows(
    table: pa.Table, group_by: Sequence[str], measures: Mapping[str, Measure], *, max_groups: int
) -> pa.Table:
    """Group gathered rows. Columns are named by the keys and, `=<column>`, by what is measured."""
    asked = list[tuple[Any, str]]()
    for measure in measures.values():
        for step in _steps(measure):
            if step not in asked:
                asked.append(step)
    wide = _widened(table, measures)
    if group_by:
        grouped = wide.group_by(list(group_by)).aggregate(asked or [([], "count_all")])
        if grouped.num_rows > max_groups:
            reason = f"the answer has {grouped.num_rows:,} groups, the limit is {max_groups:,}"
            raise LimitError("TooManyGroups", reason, "aggregate")
        order = [(name, "ascending") for name in group_by]
        grouped = grouped.sort_by(order) if grouped.num_rows else grouped
    else:
        grouped = _whole(wide, asked)
    arrays = [grouped.column(name) for name in group_by]
    arrays += [_measured(grouped, measure, table) for measure in measures.values()]
    return pa.Table.from_arrays(arrays, [*group_by, *measures])


def measured_name(column: str) -> str:
    """The name that a measured column has among gathered ones, apart from keys of the same name."""
    return f"={column}"


def _steps(measure: Measure) -> list[tuple[Any, str]]:
    if measure.column is None:
        return [([], "count_all")]
    name = measured_name(measure.column)
    if measure.function == "avg":
        return [(name, "sum"), (name, "count")]
    return [(name, measure.function)]


def _whole(table: pa.Table, asked: Sequence[tuple[Any, str]]) -> pa.Table:
    """One group of all rows, even of none."""
    arrays, names = list[pa.Array](), list[str]()
    for name, function in asked:
        if function == "count_all":
            arrays.append(pa.array([table.num_rows], pa.int64()))
            names.append("count_all")
            continue
        column = table.column(name)
        found = getattr(pc, function)(column)
        if function == "sum" and pa.types.is_null(found.type):
            found = pa.scalar(None, column.type)
        arrays.append(pa.array([found.as_py()], found.type))
        names.append(f"{name}_{function}")
    return pa.Table.from_arrays(arrays, names)


def _widened(table: pa.Table, measures: Mapping[str, Measure]) -> pa.Table:
    """The columns that are added up, in a type that holds their sums."""
    for measure in measures.values():
        if measure.function not in ("sum", "avg") or measure.column is None:
            continue
        name = measured_name(measure.column)
        place = table.schema.get_field_index(name)
        column = table.column(place)
        kind = column.type
        if pa.types.is_integer(kind):
            bounds = pc.min_max(column).as_py()
            most = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
            column = column.cast(pa.int64() if most * max(1, table.num_rows) <= _LARGEST else pa.decimal128(38, 0))
        elif pa.types.is_decimal(kind):
            digits = kind.precision + math.ceil(math.log10(max(1, table.num_rows))) + 1
            column = column.cast(pa.decimal128(38, kind.scale) if digits <= 38 else pa.decimal256(76, kind.scale))
        elif pa.types.is_floating(kind):
            column = column.cast(pa.float64())
        elif not pa.types.is_duration(kind):
            raise InputError(f"column {measure.column!r} is {kind}: only numbers can be added up", "BadMeasure")
        table = table.set_column(place, name, column)
    return table


def _measured(grouped: pa.Table, measure: Measure, source: pa.Table) -> pa.ChunkedArray | pa.Array:
    if measure.column is None:
        return grouped.column("count_all")
    name = measured_name(measure.column)
    if measure.function == "avg":
        return _averages(grouped.column(f"{name}_sum"), grouped.column(f"{name}_count"))
    found = grouped.column(f"{name}_{measure.function}")
    if measure.function == "sum" and pa.types.is_decimal(found.type) and pa.types.is_integer(source.column(name).type):
        values = found.to_pylist()
        if all(value is None or abs(value) <= _LARGEST for value in values):
            return pa.array([None if value is None else int(value) for value in values], pa.int64())
    return found


def _averages(sums: pa.ChunkedArray, counts: pa.ChunkedArray) -> pa.Array:
    """Sums by counts, each rounded once."""
    if pa.types.is_duration(sums.type):
        sums = sums.cast(pa.int64())
    if pa.types.is_floating(sums.type):
        found = pc.divide(sums, counts.cast(pa.float64()))
        return pc.if_else(pc.equal(counts, 0), pa.scalar(None, pa.float64()), found)
    if pa.types.is_integer(sums.type):
        bounds = pc.min_max(sums).as_py()
        if max(abs(bounds["min"] or 0), abs(bounds["max"] or 0)) < _EXACT_FLOAT:
            found = pc.divide(sums.cast(pa.float64()), counts.cast(pa.float64()))
            return pc.if_else(pc.equal(counts, 0), pa.scalar(None, pa.float64()), found)
    pairs = zip(sums.to_pylist(), counts.to_pylist(), strict=True)
    return pa.array(
        [None if not count or total is None else _ratio(total, count) for total, count in pairs], pa.float64()
    )


def _ratio(total: int | Decimal, count: int) -> float:
    return float(Fraction(total) / count)
