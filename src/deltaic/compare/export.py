"""Records written out: JSON lines, CSV, Parquet, and one record as text for people.

What JSON lines and Parquet hold can be published again and gives the same records: `ingest_dicts` and `ingest_arrow`
read them. Values are what they stand for, dates and decimals for instance, where the producer noted it.
"""

from collections.abc import Iterator
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.changes import shown
from deltaic.compare.diff import record_value
from deltaic.compare.json_text import JsonTexts, as_json, logical_texts, vector_texts
from deltaic.compare.logical_values import LogicalValues
from deltaic.compare.vectors import columns_of
from deltaic.errors import InputError, MissingExtraError
from deltaic.kernels.content import Numbers
from deltaic.schema.logical import LogicalType
from deltaic.schema.types import FieldType, ObjectSchema
from deltaic.state.columns import BytesColumn, Column, FixedColumn, InvalidText
from deltaic.state.read import ReadState
from deltaic.state.records import is_boxed

Ordinals = NDArray[np.int64]
Format = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[Format, ...] = ("jsonl", "csv", "parquet")
"""What a type can be written as."""

PAGE_ROWS = 1 << 14
"""Rows that are put into words at a time."""


def json_lines(
    state: ReadState, type_name: str, *, ordinals: Any = None, skip_nulls: bool = False, logical: bool = True
) -> Iterator[str]:
    """The records of a type as JSON, one line each without its end.

    Args:
        state: the state.
        type_name: an OBJECT, LIST, SET or MAP type.
        ordinals: which records, in which order; all populated ones by default.
        skip_nulls: leave out fields that are null.
        logical: dates, times and decimals as texts; False gives the numbers and bytes that carry them.
    """
    for page in _pages(state, type_name, ordinals):
        # Texts of shared records are kept within a page, so that memory stays bounded.
        yield from JsonTexts(state, skip_nulls=skip_nulls, logical=logical).of(type_name, page)


def csv_lines(state: ReadState, type_name: str, *, ordinals: Any = None, logical: bool = True) -> Iterator[str]:
    """The records of an OBJECT type as CSV, with a line of names first.

    Null is nothing, an empty text is `""`; lists, sets, maps, records and vectors are JSON in a cell.
    `logical` as for `json_lines`.
    """
    schema = state[type_name].schema
    if not isinstance(schema, ObjectSchema):
        raise InputError(f"type {type_name} is a {schema.kind}: only an OBJECT has columns for CSV")
    vectors = columns_of(state, type_name)
    fields = [field for field in schema.fields if field.name not in vectors]
    yield ",".join(map(_cell, (*(field.name for field in fields), *vectors)))
    values = LogicalValues(state, logical=logical)
    for page in _pages(state, type_name, ordinals):
        texts = JsonTexts(state, logical=logical)
        columns = []
        for field in fields:
            column = state[type_name].column(field.name, page)
            if field.referenced is None or field.referenced not in state:
                columns.append(_cells(column, values.scalar(type_name, field)))
                continue
            assert isinstance(column, FixedColumn)
            cells = [""] * len(page)
            rows = np.arange(len(page)) if column.valid is None else np.flatnonzero(column.valid)
            targets = column.values[rows].astype(np.int64)
            target = state.types[field.referenced].schema
            if is_boxed(target):
                assert isinstance(target, ObjectSchema)
                note = values.boxed(field.referenced, values.note(type_name, field.name))
                found = _cells(state[field.referenced].column(target.fields[0].name, targets), note)
            else:
                found = [_cell(text) for text in texts.of(field.referenced, targets)]
            for row, cell in zip(rows.tolist(), found, strict=True):
                cells[row] = cell
            columns.append(cells)
        for vector in vectors.values():
            columns.append(["" if text == "null" else _cell(text) for text in vector_texts(vector, page)])
        yield from map(",".join, zip(*columns, strict=True))


def write_lines(stream: IO[str], lines: Iterator[str]) -> int:
    """Write lines, each with its end; gives how many."""
    count = 0
    for line in lines:
        stream.write(f"{line}\n")
        count += 1
    return count


def write_parquet(
    state: ReadState, type_name: str, path: Any, *, ordinals: Any = None, on_invalid_text: InvalidText = "error"
) -> int:
    """Write the records of a type as a Parquet file, references followed; gives how many.

    Raises:
        MissingExtraError: pyarrow is not installed.
        InputError: a type that Parquet does not have, such as a decimal whose last digits are before the point.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("writing Parquet", "arrow") from error
    rows = state[type_name].to_arrow(ordinals=ordinals, on_invalid_text=on_invalid_text)
    reader = pyarrow.RecordBatchReader.from_stream(rows)
    count = 0
    try:
        writer = pyarrow.parquet.ParquetWriter(path, reader.schema)
    except (pyarrow.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise
        raise InputError(f"type {type_name} cannot be Parquet: {error}", "UnknownType") from error
    with writer:
        for batch in reader:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def record_json(state: ReadState, type_name: str, ordinal: int, *, max_depth: int = 64) -> Any:
    """One record as values that `json.dumps` takes."""
    return as_json(record_value(state, type_name, ordinal, max_depth))


def record_text(state: ReadState, type_name: str, ordinal: int, *, max_depth: int = 64) -> str:
    """One record as indented lines for people; null and empty are told apart."""
    return "\n".join(_lines(record_value(state, type_name, ordinal, max_depth), ""))


def value_text(value: Any) -> str:
    """A plain value as indented lines for people."""
    return "\n".join(_lines(value, ""))


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _member(key if isinstance(key, str) else shown(key), item, indent)
    elif isinstance(value, list) and value and not isinstance(value, Numbers):
        for place, item in enumerate(value):
            yield from _member(f"[{place}]", item, indent)
    else:
        yield indent + shown(value)


def _member(name: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict | list) and value and not isinstance(value, Numbers):
        yield f"{indent}{name}:"
        yield from _lines(value, indent + "  ")
    else:
        yield f"{indent}{name}: {shown(value)}"


def _pages(state: ReadState, type_name: str, ordinals: Any) -> Iterator[Ordinals]:
    view = state[type_name]
    chosen = view.populated.ordinals() if ordinals is None else np.asarray(ordinals, np.int64)
    for start in range(0, len(chosen), PAGE_ROWS):
        yield chosen[start : start + PAGE_ROWS]


def _cells(column: Column, note: LogicalType | None) -> list[str]:
    if column.type is FieldType.STRING:
        assert isinstance(column, BytesColumn)
        return ["" if value is None else _cell(value) for value in column.to_pylist()]
    return ["" if text == "null" else text.strip('"') for text in logical_texts(column, note, column.name)]


def _cell(text: str) -> str:
    if text and not any(mark in text for mark in ',"\r\n'):
        return text
    quoted = text.replace('"', '""')
    return f'"{quoted}"'
