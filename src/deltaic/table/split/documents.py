"""Rows as documents: the columns of an Arrow table turned into values that the engine's document takes.

Each column becomes one Python list at once; the loop over rows only puts them together. `index_value` is the same rule
for one value, for whoever searches.
"""

import datetime
import decimal
import ipaddress
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaic.errors import InputError
from deltaic.table.split.engine import engine
from deltaic.table.split.mapping import (
    MAX_INTEGER_DIGITS,
    MAX_TERM_BYTES,
    PRESENT_FIELD,
    ROW_FIELD,
    SPLIT_FIELD,
    DocMapping,
    IndexedColumn,
    element_type,
    exact_term,
    is_binary,
    is_list,
    is_string,
    kind_of,
)

if TYPE_CHECKING:
    import tantivy

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_DAY = datetime.date(1970, 1, 1)
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MAX_JSON_DEPTH = 64
BATCH_ROWS = 4096
"""Rows whose values are Python objects at the same time."""


class _Part(NamedTuple):
    """One column of a batch: how to add its value to a document."""

    add: Callable[..., None]
    field: str
    values: list[Any]
    many: bool
    presence: str | None


PublicField = tuple[str, str, list[Any]]
"""A field beside those of the columns: its name, its type, and a value, a list or None for each row."""


def add_documents(writer: "tantivy.IndexWriter", rows: pa.Table, mapping: DocMapping, split_id: str) -> None:
    """Add one document for each row, in their order."""
    add = writer.add_document
    for document in documents_of_rows(rows, mapping, split_id):
        add(document)


def documents_of_rows(
    rows: pa.Table, mapping: DocMapping, split_id: str, *, public: Sequence[PublicField] = ()
) -> Iterator["tantivy.Document"]:
    """The documents of rows, in their order."""
    columns = mapping.indexed_columns
    for start in range(0, rows.num_rows, BATCH_ROWS):
        stop = min(rows.num_rows, start + BATCH_ROWS)
        batch = rows.slice(start, stop - start)
        parts = [_part(column, batch.column(column.name)) for column in columns]
        parts += [_public_part(field, start, stop) for field in public]
        yield from _documents(parts, range(start, stop), split_id)


def _documents(parts: Sequence[_Part], numbers: range, split_id: str) -> Iterator["tantivy.Document"]:
    document = engine().Document
    add_text, add_unsigned = document.add_text, document.add_unsigned
    plain = [part for part in parts if not part.many and part.presence is None]
    ones = [(part.add, part.field) for part in plain]
    rest = [part for part in parts if part.many or part.presence is not None]
    rows = zip(*(part.values for part in plain), strict=True)
    for place, number in enumerate(numbers):
        made = document()
        add_unsigned(made, ROW_FIELD, number)
        add_text(made, SPLIT_FIELD, split_id)
        if ones:
            for (add, name), value in zip(ones, next(rows), strict=True):
                if value is not None:
                    add(made, name, value)
        for add, name, values, many, presence in rest:
            value = values[place]
            if value is None:
                continue
            if presence is not None:
                add_text(made, PRESENT_FIELD, presence)
            if many:
                for one in value:
                    if one is not None:
                        add(made, name, one)
            else:
                add(made, name, value)
        yield made


def _adders() -> dict[str, Callable[..., None]]:
    document = engine().Document
    return {
        "text": document.add_text,
        "i64": document.add_integer,
        "u64": document.add_unsigned,
        "f64": document.add_float,
        "bool": document.add_boolean,
        "bytes": document.add_bytes,
        "ip": document.add_ip_addr,
        "ip_addr": document.add_ip_addr,
        "date": document.add_date,
        "object": document.add_json,
        "json_object": document.add_json,
    }


def _part(column: IndexedColumn, values: pa.ChunkedArray) -> _Part:
    presence = column.name if column.presence == "term" else None
    many = column.many or column.kind == "json"
    try:
        listed = column_values(column, values)
    except InputError as error:
        raise InputError(f"column {column.name!r}: {error.reason}") from error
    return _Part(_adders()[column.field_type], column.field, listed, many, presence)


def _public_part(field: PublicField, start: int, stop: int) -> _Part:
    name, kind, values = field
    some = [value if value is None or isinstance(value, list) else [value] for value in values[start:stop]]
    return _Part(_adders()[kind], name, some, True, None)


def column_values(column: IndexedColumn, values: pa.ChunkedArray | pa.Array) -> list[Any]:
    """What the index holds of a column: for each row a value, None, or a list of values (lists and JSON)."""
    array = _plain_array(values)
    if column.kind == "json" and not (column.many and is_string(element_type(array.type.value_type))):
        return [None if value is None else json_objects(value) for value in _json_values(column, array)]
    if not column.many:
        return _scalars(column, array)
    flat = _scalars(column, _plain_array(array.flatten()))
    if column.kind == "json":
        flat = [None if text is None else json_objects(_parsed(text)) for text in flat]
    lengths = pc.list_value_length(array).to_pylist()
    rows: list[Any] = []
    at = 0
    for length in lengths:
        if length is None:
            rows.append(None)
            continue
        taken = flat[at : at + length]
        rows.append([one for some in taken if some for one in some] if column.kind == "json" else taken)
        at += length
    return rows


def index_value(column: IndexedColumn, value: Any) -> Any:
    """The value that the index holds for a value of a column: what a term or a bound of a range must be.

    Takes what Arrow gives as Python (`datetime`, `date`, `Decimal`, …) and numbers in the column's own unit.
    """
    kind = column.kind
    try:
        if kind == "string":
            return exact_term(value)
        if kind == "decimal":
            return _decimal(value, column.digits, column.scale)
        if kind == "date":
            return _days(value)
        if kind == "timestamp":
            return _ticks(value, column.unit or "us")
        if kind == "float":
            return float(value) + 0.0
        if kind == "ip":
            return str(ipaddress.ip_address(value))
        if kind == "integer" and isinstance(value, (datetime.time, datetime.timedelta)):
            raise InputError("give times of day and durations as numbers in the column's unit")
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InputError(f"{value!r} is no value of column {column.name!r}, which is indexed as {kind}") from error
    return value


def _scalars(column: IndexedColumn, array: pa.Array) -> list[Any]:
    match column.kind:
        case "string":
            texts: list[Any] = array.to_pylist()
            if len(array) and (pc.max(pc.binary_length(array)).as_py() or 0) > MAX_TERM_BYTES:
                texts = [None if text is None else exact_term(text) for text in texts]
            return texts
        case "ip":
            return [None if text is None else _address(text) for text in array.to_pylist()]
        case "integer":
            return _numbers(array, pa.int64())
        case "unsigned":
            return _numbers(array, pa.uint64())
        case "float":
            return list(pc.add(array.cast(pa.float64()), 0.0).to_pylist())
        case "date":
            return _numbers(array.cast(pa.date32()), pa.int32())
        case "timestamp":
            return _numbers(array, pa.int64())
        case "decimal":
            return _decimals(array, column.digits, column.scale)
    return list(array.to_pylist())


def _plain_array(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    while True:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        elif is_list(array.type) and not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
            array = array.cast(pa.list_(array.type.value_type))
        elif pa.types.is_string_view(array.type):
            array = array.cast(pa.large_string())
        elif pa.types.is_binary_view(array.type):
            array = array.cast(pa.large_binary())
        else:
            return array


def _numbers(array: pa.Array, target: pa.DataType) -> list[Any]:
    if pa.types.is_time(array.type) or pa.types.is_duration(array.type) or pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return list(array.cast(target).to_pylist())


def _decimals(array: pa.Array, digits: int, scale: int) -> list[Any]:
    if digits > MAX_INTEGER_DIGITS:
        return [None if value is None else _decimal(value, digits, scale) for value in array.to_pylist()]
    wide = array.cast(pa.decimal128(38, scale))
    words = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset : 2 * (wide.offset + len(wide)) : 2]
    return list(pa.array(words, mask=np.asarray(wide.is_null())).to_pylist())


def _decimal(value: Any, digits: int, scale: int) -> int | str:
    with decimal.localcontext(prec=100):
        scaled = decimal.Decimal(value if not isinstance(value, float) else repr(value)).scaleb(scale)
        if scaled != scaled.to_integral_value():
            raise InputError(f"{value} has more than {scale} digits behind the point")
        number = int(scaled)
    if abs(number) >= 10**digits:
        raise InputError(f"{value} has more than {digits} digits")
    if digits <= MAX_INTEGER_DIGITS:
        return number
    # Text that sorts as the numbers do: the sign first, negative numbers counted up from the lowest.
    return f"1{number:0{digits}d}" if number >= 0 else f"0{10**digits + number:0{digits}d}"


def _days(value: Any) -> int:
    if isinstance(value, datetime.datetime):
        value = value.date()
    if isinstance(value, datetime.date):
        return (value - _EPOCH_DAY).days
    return int(value)


def _ticks(value: Any, unit: str) -> int:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        passed = value - _EPOCH
        micros = (passed.days * 86_400 + passed.seconds) * 10**6 + passed.microseconds
        return int(micros * 1000 if unit == "ns" else micros // (10**6 // _UNITS[unit]))
    if isinstance(value, datetime.date):
        return _days(value) * 86_400 * _UNITS[unit]
    return int(value)


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise InputError(f"{text[:80]!r} is no IP address") from error


def _json_values(column: IndexedColumn, array: pa.Array) -> list[Any]:
    if is_string(array.type):
        return [None if text is None else _parsed(text) for text in array.to_pylist()]
    return [None if value is None else json_value(value, array.type) for value in array.to_pylist()]


def _parsed(text: str) -> Any:
    try:
        return _bounded(json.loads(text), 0)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}: {text[:60]!r}") from error


def json_objects(value: Any) -> list[dict[str, Any]]:
    """The objects that a JSON field takes: an object, those of a list, anything else under an empty name."""
    if isinstance(value, dict):
        return [value]
    if isinstance(value, list):
        return [one if isinstance(one, dict) else {"": one} for one in value if one is not None]
    return [{"": value}]


def json_value(value: Any, arrow: pa.DataType) -> Any:
    """A nested value as JSON; its leaves are what a column of their type has in the index."""
    if value is None:
        return None
    arrow = element_type(arrow)
    if pa.types.is_struct(arrow):
        return {inner.name: json_value(value[inner.name], inner.type) for inner in arrow}
    if pa.types.is_map(arrow):
        return {str(key): json_value(one, arrow.item_type) for key, one in value}
    if is_list(arrow):
        return [json_value(one, arrow.value_type) for one in value]
    return leaf_value(value, arrow)


def leaf_value(value: Any, arrow: pa.DataType) -> Any:
    """A leaf of a nested value as JSON: numbers as in a column of that type, binary as hexadecimal text."""
    kind = kind_of(arrow)
    if kind == "decimal":
        return _decimal(value, arrow.precision, arrow.scale)
    if kind == "date":
        return _days(value)
    if kind == "timestamp":
        if hasattr(value, "value"):
            return int(value.value) // (10**9 // _UNITS[arrow.unit])
        return _ticks(value, arrow.unit)
    if kind == "string":
        return exact_term(value)
    if is_binary(arrow):
        return value.hex()
    if pa.types.is_time(arrow) or pa.types.is_duration(arrow):
        return pa.scalar(value, arrow).cast(pa.int64() if arrow.bit_width == 64 else pa.int32()).as_py()
    if kind == "float":
        # JSON has neither infinities nor NaN: they are found by scanning alone.
        return value + 0.0 if value - value == 0 else None
    return value


def _bounded(value: Any, depth: int) -> Any:
    """JSON that the engine takes: no deeper than 64, numbers in 64 bits, finite."""
    if depth > _MAX_JSON_DEPTH:
        raise InputError(f"JSON deeper than {_MAX_JSON_DEPTH} levels")
    if isinstance(value, dict):
        return {key: _bounded(one, depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_bounded(one, depth + 1) for one in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else float(value)
    if isinstance(value, float):
        return value if value - value == 0 else None
    return exact_term(value) if isinstance(value, str) else value
