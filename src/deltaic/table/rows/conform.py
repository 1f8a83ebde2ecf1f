"""Rows as they are given become rows of the table's exact types, or are refused with column, row and value.

A value is never changed on the way: a number goes into a narrower column only if it fits, a double into a column of
floats only if it is one, a time into a coarser unit only if nothing is cut off, a time without a zone into no column
with one. The one exception are rows given as Python values, which know no narrow floats: there a column of 32 bits
takes the nearest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaic.errors import InputError
from deltaic.table.rows.columns import table_of_columns
from deltaic.table.rows.schema import TableColumn, TableSchema
from deltaic.table.split.vectors import is_vector, null_element

_BATCH_ROWS = 65_536
"""Rows given one by one become batches of so many."""


class GivenRows:
    """Rows as a caller gave them: batches of Arrow, once or again."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self.replayable = not isinstance(given, pa.RecordBatchReader) and not isinstance(given, Iterator)
        self._python = isinstance(given, Sequence | Iterator) and not isinstance(given, str | bytes)
        if isinstance(given, str | bytes):
            raise InputError(f"rows cannot be a {type(given).__name__}: give an Arrow table or a list of dicts")

    def tables(self, schema: TableSchema, *, partial: bool = False) -> Iterator[Any]:
        """The rows in pieces, in the schema's exact types; with `partial` only the columns that were given."""
        first = 0
        for piece in self._pieces(schema, alike=partial):
            yield conformed(piece, schema, first_row=first, partial=partial)
            first += piece.num_rows

    def whole(self, schema: TableSchema) -> Any:
        """All rows as one Arrow table of exact types, with the columns that were given."""
        found = list(self.tables(schema, partial=True))
        if any(table.column_names != found[0].column_names for table in found):
            raise InputError("the rows have not all the same columns")
        return pa.concat_tables(found) if found else schema.arrow.empty_table()

    def _pieces(self, schema: TableSchema, *, alike: bool) -> Iterator[Any]:
        given = self._given
        if isinstance(given, pa.Table):
            yield given
        elif isinstance(given, pa.RecordBatch):
            yield pa.Table.from_batches([given])
        elif isinstance(given, pa.RecordBatchReader):
            for batch in given:
                yield pa.Table.from_batches([batch])
        elif hasattr(given, "__arrow_c_stream__"):
            yield pa.table(given)
        elif hasattr(given, "__arrow_c_array__"):
            yield pa.Table.from_batches([pa.record_batch(given)])
        elif type(given).__module__.split(".")[0] == "pandas":
            yield pa.Table.from_pandas(given, preserve_index=False)
        elif isinstance(given, Mapping):
            yield table_of_columns(given, schema)
        elif self._python:
            yield from _python_pieces(given, schema, alike)
        else:
            raise InputError(f"a {type(given).__name__} holds no rows: give an Arrow table or a list of dicts")


def _python_pieces(given: Iterable[Any], schema: TableSchema, alike: bool) -> Iterator[Any]:
    rows: list[Mapping[str, Any]] = []
    first = 0
    for one in given:
        if isinstance(one, pa.RecordBatch | pa.Table):
            if rows:
                yield _from_python(rows, schema, first, alike)
                first, rows = first + len(rows), []
            table = one if isinstance(one, pa.Table) else pa.Table.from_batches([one])
            yield table
            first += table.num_rows
        elif isinstance(one, Mapping):
            rows.append(one)
            if len(rows) == _BATCH_ROWS:
                yield _from_python(rows, schema, first, alike)
                first, rows = first + len(rows), []
        else:
            raise InputError(f"row {first + len(rows)} is a {type(one).__name__}, not a dict")
    if rows:
        yield _from_python(rows, schema, first, alike)


def _from_python(rows: Sequence[Mapping[str, Any]], schema: TableSchema, first: int, alike: bool) -> Any:
    """Rows of Python values as an Arrow table; those that must be alike have all the same columns."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    unknown = [name for name in names if name not in schema.by_name]
    if unknown:
        place = next(place for place, row in enumerate(rows) if unknown[0] in row)
        raise InputError(f"row {first + place} has {unknown[0]!r}, which is no column of the table", "NoColumn")
    if alike:
        for place, row in enumerate(rows):
            missing = [name for name in names if name not in row]
            if missing:
                raise InputError(f"row {first + place} has no {missing[0]!r}, which other rows have: give all the same")
    arrays = []
    for name in names:
        column = schema.by_name[name]
        values = [row.get(name, column.default) for row in rows]
        arrays.append(python_array(values, column, first))
    if not names:
        raise InputError("rows without any column")
    return pa.table(arrays, names=list(names))


def python_array(values: list[Any], column: TableColumn, first: int) -> Any:
    """An Arrow array of Python values of a column; `first` is the number of the first row, for errors."""
    kind = column.type
    target = kind.value_type if pa.types.is_dictionary(kind) else kind
    try:
        made = pa.array(values, target)
        if pa.types.is_timestamp(target):
            _check_zones(values, target, column.name, first)
        return made
    except (pa.ArrowException, ValueError, TypeError, OverflowError, UnicodeError) as error:
        for place, value in enumerate(values):
            try:
                pa.array([value], target)
            except (pa.ArrowException, ValueError, TypeError, OverflowError, UnicodeError):
                raise _misfit(column.name, first + place, value, kind) from error
        raise InputError(f"column {column.name}: {error}") from error


def _check_zones(values: list[Any], kind: Any, name: str, first: int) -> None:
    """Arrow would take a time of one zone for one of none without a word."""
    for place, value in enumerate(values):
        if hasattr(value, "tzinfo") and (value.tzinfo is None) != (kind.tz is None):
            why = "it has no time zone and the column has one" if kind.tz else "it has a time zone, the column none"
            raise refused(name, first + place, value, why)


def conformed(rows: Any, schema: TableSchema, *, first_row: int = 0, partial: bool = False) -> Any:
    """An Arrow table as one of the schema's exact types and order; columns that it lacks get their default."""
    unknown = [name for name in rows.column_names if name not in schema.by_name]
    if unknown:
        raise InputError(f"{unknown[0]!r} is no column of the table; add it first", "NoColumn")
    if len(set(rows.column_names)) != len(rows.column_names):
        raise InputError("two columns of the rows have one name")
    arrays, fields = [], []
    for column in schema.columns:
        if column.name in rows.column_names:
            values = exactly(rows.column(column.name), column.type, column.name, first_row)
            if is_vector(column.field):
                _check_vectors(values, column.name, first_row)
            arrays.append(values)
        elif partial:
            continue
        else:
            arrays.append(filled(column, rows.num_rows))
        fields.append(column.field)
    # Schemas compare by nullability too; whether a column holds nulls is for the constraints to say.
    return pa.table(arrays, schema=pa.schema(fields))


def _check_vectors(values: Any, name: str, first_row: int) -> None:
    for chunk in values.chunks:
        place = null_element(chunk)
        if place is not None:
            raise refused(name, first_row + place, chunk[place].as_py(), "an element of the vector is null")
        first_row += len(chunk)


def filled(column: TableColumn, count: int) -> Any:
    """A column that rows lack: its default, or nulls."""
    if column.default is None:
        return pa.chunked_array([pa.nulls(count, column.type)])
    kind = column.type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    made = pa.repeat(pa.scalar(column.default, plain), count)
    return pa.chunked_array([made.cast(kind) if plain != kind else made])


def exactly(values: Any, kind: Any, name: str, first_row: int = 0) -> Any:
    """Values as another type if none of them changes by it."""
    if values.type == kind:
        return values
    source = values.type
    if pa.types.is_dictionary(source):
        values = pa.chunked_array([chunk.dictionary_decode() for chunk in values.chunks], source.value_type)
        source = source.value_type
        if source == kind:
            return values
    if isinstance(source, pa.BaseExtensionType):
        raise InputError(f"column {name} is of the extension type {source}: give its storage")
    if pa.types.is_null(source):
        return pa.chunked_array([pa.nulls(len(values), kind)])
    if not _same_family(source, kind):
        raise InputError(f"column {name} is a {source}, the table's is a {kind}", "TypeConflict")
    try:
        found = retyped(values, kind)
    except (pa.ArrowException, ValueError) as error:
        place = _first_bad(values, kind)
        if place is None:
            raise InputError(f"column {name}: a {source} cannot become a {kind}: {error}", "TypeConflict") from error
        raise _misfit(name, first_row + place, values[place].as_py(), kind) from error
    place = _first_changed(values, found)
    if place is not None:
        why = f"as a {kind} it would be another value"
        raise refused(name, first_row + place, values[place].as_py(), why)
    return found


def retyped(values: Any, kind: Any) -> Any:
    """Values as another type of the same family."""
    if values.type == kind:
        return values
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    return pa.chunked_array([_retyped(chunk, kind) for chunk in chunks], kind)


def _retyped(values: Any, kind: Any) -> Any:
    source, kinds = values.type, pa.types
    if source == kind:
        return values
    if kinds.is_dictionary(source):
        return _retyped(values.dictionary_decode(), kind)
    if kinds.is_dictionary(kind):
        return _retyped(values, kind.value_type).dictionary_encode().cast(kind)
    if kinds.is_struct(kind):
        names = {source.field(place).name: place for place in range(source.num_fields)}
        children = []
        for place in range(kind.num_fields):
            field = kind.field(place)
            if field.name in names:
                children.append(_retyped(values.field(names[field.name]), field.type))
            else:
                children.append(pa.nulls(len(values), field.type))
        mask = pc.is_null(values) if values.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if kinds.is_map(kind) and kinds.is_map(source):
        keys = _retyped(_inner(values, values.keys), kind.key_type)
        items = _retyped(_inner(values, values.items), kind.item_type)
        return pa.MapArray.from_arrays(_offsets(values, pa.int32()), keys, items, type=kind)
    if kinds.is_fixed_size_list(kind) and kinds.is_fixed_size_list(source):
        if source.list_size != kind.list_size:
            raise ValueError(f"lists of {source.list_size} are no lists of {kind.list_size}")
        inner = _retyped(
            values.values.slice(values.offset * kind.list_size, len(values) * kind.list_size), kind.value_type
        )
        mask = pc.is_null(values) if values.null_count else None
        return pa.FixedSizeListArray.from_arrays(inner, type=kind, mask=mask)
    if _is_list(kind) and _is_list(source):
        large = kinds.is_large_list(kind)
        made = pa.LargeListArray if large else pa.ListArray
        inner = _retyped(_inner(values, values.values), kind.value_type)
        return made.from_arrays(_offsets(values, pa.int64() if large else pa.int32()), inner, type=kind)
    if kinds.is_fixed_size_list(kind) and _is_list(source):
        return _fixed_lists(values, kind)
    if kinds.is_float16(kind) or kinds.is_float16(source):
        return _half(values, kind)
    return values.cast(kind, safe=True)


def _fixed_lists(values: Any, kind: Any) -> Any:
    """Lists as lists of one size. Arrow's own cast crashes on some columns with nulls, so it is not asked."""
    size, count = kind.list_size, len(values)
    offsets = np.asarray(values.offsets.to_numpy(), np.int64)
    valid = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), bool)
    if (np.diff(offsets)[valid] != size).any():
        raise ValueError(f"a list has not {size} elements")
    if valid.all():
        inner = values.values.slice(int(offsets[0]) if count else 0, count * size)
    elif valid.any():
        # What stands in the place of a null list is some list; nobody looks there.
        starts = np.where(valid, offsets[:-1], offsets[:-1][valid][0])
        inner = values.values.take(pa.array((starts[:, None] + np.arange(size)).reshape(-1)))
    else:
        inner = pa.nulls(count * size, values.type.value_type)
    mask = None if valid.all() else pa.array(~valid)
    return pa.FixedSizeListArray.from_arrays(_retyped(inner, kind.value_type), type=kind, mask=mask)


def _half(values: Any, kind: Any) -> Any:
    if pa.types.is_floating(values.type) or pa.types.is_floating(kind):
        return values.cast(pa.float64() if not pa.types.is_float16(values.type) else pa.float32()).cast(kind)
    return values.cast(kind)


def _inner(values: Any, inner: Any) -> Any:
    """The elements that lists refer to, without those of the arrays that they were cut from."""
    offsets = values.offsets
    if len(offsets) == 0:
        return inner.slice(0, 0)
    first = offsets[0].as_py()
    return inner.slice(first, offsets[-1].as_py() - first)


def _offsets(values: Any, kind: Any) -> Any:
    """The offsets of lists from 0 on, null where the list is, so that a rebuilt array keeps its nulls."""
    offsets = np.asarray(values.offsets.to_numpy(), np.int64)
    offsets = offsets - offsets[:1].sum()
    if offsets.size and kind == pa.int32() and int(offsets[-1]) > 2**31 - 1:
        raise ValueError("a column of lists has more than 2,147,483,647 elements")
    if not values.null_count:
        return pa.array(offsets, kind)
    mask = np.zeros(len(values) + 1, bool)
    mask[:-1] = np.asarray(values.is_null().to_numpy(zero_copy_only=False), bool)
    return pa.array(offsets, kind, mask=mask)


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _same_family(source: Any, kind: Any) -> bool:
    kinds = pa.types
    if kinds.is_dictionary(kind):
        return _same_family(source, kind.value_type) or source == kind.value_type
    if kinds.is_dictionary(source):
        return _same_family(source.value_type, kind)
    if source == kind or kinds.is_null(source):
        return True
    if kinds.is_struct(kind):
        if not kinds.is_struct(source):
            return False
        wanted = {kind.field(place).name: kind.field(place).type for place in range(kind.num_fields)}
        fields = [source.field(place) for place in range(source.num_fields)]
        return all(field.name in wanted and _same_family(field.type, wanted[field.name]) for field in fields)
    if kinds.is_map(kind):
        return (
            kinds.is_map(source)
            and _same_family(source.key_type, kind.key_type)
            and _same_family(source.item_type, kind.item_type)
        )
    if _is_list(kind) or kinds.is_fixed_size_list(kind):
        listed = _is_list(source) or (kinds.is_fixed_size_list(source) and kinds.is_fixed_size_list(kind))
        return listed and _same_family(source.value_type, kind.value_type)
    if kinds.is_nested(source):
        return False
    if kinds.is_timestamp(kind):
        return bool(kinds.is_timestamp(source)) and (source.tz is None) == (kind.tz is None)
    return any(test(source) and test(kind) for test in _FAMILIES)


def _numeric(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _exact_numeric(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _text(kind: Any) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _bytes(kind: Any) -> bool:
    return kind in (pa.binary(), pa.large_binary(), pa.binary_view()) or bool(pa.types.is_fixed_size_binary(kind))


_FAMILIES = (
    _numeric,
    _exact_numeric,
    _text,
    _bytes,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
    pa.types.is_boolean,
)


def _first_bad(values: Any, kind: Any) -> int | None:
    """The first value that is none of a type, by halves."""
    low, high = 0, len(values)
    if not _fails(values, kind):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _fails(values.slice(low, middle - low), kind):
            high = middle
        else:
            low = middle
    return low


def _fails(values: Any, kind: Any) -> bool:
    try:
        retyped(values, kind)
    except (pa.ArrowException, ValueError):
        return True
    return False


def _first_changed(values: Any, found: Any) -> int | None:
    """The first value that is another one after a cast: where casting back does not give it again."""
    from deltaic.table.rows.equality import value_codes

    if not _may_change(values.type, found.type):
        return None
    try:
        back = retyped(found, values.type)
    except (pa.ArrowException, ValueError):
        return _first_bad(found, values.type)
    codes = value_codes(pa.chunked_array([*values.chunks, *back.chunks], values.type))
    differs = np.flatnonzero(codes[: len(values)] != codes[len(values) :])
    return int(differs[0]) if len(differs) else None


def _may_change(source: Any, kind: Any) -> bool:
    """Whether Arrow's safe cast lets values change: it does for narrower floats, and for what nests them."""
    if (_is_list(source) or pa.types.is_fixed_size_list(source)) and not pa.types.is_nested(source.value_type):
        return _may_change(source.value_type, kind.value_type)
    if pa.types.is_nested(source):
        return True
    return bool(pa.types.is_floating(source) or pa.types.is_floating(kind)) and source != kind


def _misfit(name: str, row: int, value: Any, kind: Any) -> InputError:
    given = len(value) if hasattr(value, "__len__") and not isinstance(value, str | bytes) else None
    if pa.types.is_fixed_size_list(kind) and given not in (None, kind.list_size):
        return refused(name, row, value, f"it has {given} elements, the column's lists have {kind.list_size}")
    return refused(name, row, value, f"it is no {kind}")


def refused(name: str, row: int, value: Any, why: str) -> InputError:
    """What a caller is told of a value that cannot be taken."""
    shown = repr(value)
    return InputError(f"column {name}, row {row}: {shown if len(shown) <= 80 else shown[:80] + '…'}: {why}", "BadValue")
