"""What can be published: objects, dicts, anything with Arrow, files, Spark DataFrames.

A thing is recognised by what it can do, not by its library: nothing here imports pandas, polars or pyspark.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError, MissingExtraError, NotFoundError
from deltaic.producer.arrow_types import flat_columns
from deltaic.schema.model import Model

Format = Literal["parquet", "json", "csv", "arrow"]
"""The formats of files that can be published. `json` is one object per line, or one array of objects."""

RUN_ROWS = 1 << 16
"""Objects or dicts of an iterator that are held at a time."""

_ENDINGS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
}


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows by column: anything with `__arrow_c_stream__`."""

    type_name: str
    data: Any

    def picked(self, rows: NDArray[np.int64]) -> "ArrowRows":
        """Some of the rows, which rise: runs of rows are slices of the given columns, nothing is copied."""
        import nanoarrow
        from nanoarrow.c_array_stream import CArrayStream

        whole = nanoarrow.Array(self.data)
        pieces, first = [], 0
        for number in range(whole.n_chunks):
            chunk = nanoarrow.c_array(whole.chunk(number))
            inside = rows[(rows >= first) & (rows < first + chunk.length)] - first
            breaks = np.flatnonzero(np.diff(inside) != 1) + 1
            pieces += [chunk[int(run[0]) : int(run[-1]) + 1] for run in np.split(inside, breaks) if len(run)]
            first += chunk.length
        stream = CArrayStream.from_c_arrays(pieces, nanoarrow.c_schema(whole.schema))
        return replace(self, data=nanoarrow.Array(stream))

    def twice_readable(self) -> "ArrowRows":
        """The same rows, held so that they can be read again: a stream can only be read once."""
        import nanoarrow

        return replace(self, data=nanoarrow.Array(self.data))


@dataclass(frozen=True, slots=True)
class DictRows:
    """Dicts, as JSON has them."""

    type_name: str
    rows: Iterable[Mapping[str, Any]]

    def picked(self, rows: NDArray[np.int64]) -> "DictRows":
        """Some of the rows."""
        held = _held(self.rows)
        return replace(self, rows=[held[row] for row in rows.tolist()])

    def twice_readable(self) -> "DictRows":
        """The same rows, held so that they can be read again."""
        return replace(self, rows=_held(self.rows))


@dataclass(frozen=True, slots=True)
class ObjectRows:
    """Objects of one of the model's classes."""

    type_name: str
    objects: Iterable[Any]

    def picked(self, rows: NDArray[np.int64]) -> "ObjectRows":
        """Some of the objects."""
        held = _held(self.objects)
        return replace(self, objects=[held[row] for row in rows.tolist()])

    def twice_readable(self) -> "ObjectRows":
        """The same objects, held so that they can be read again."""
        return replace(self, objects=_held(self.objects))


RowSource = ArrowRows | DictRows | ObjectRows
"""Rows of one type."""


def row_sources(data: Any, model: Model, type_name: str | None = None) -> Iterator[RowSource]:
    """What `data` holds, by type.

    Args:
        data: an object of the model or many; a dict or many; an Arrow table, a DataFrame of pandas, polars, DuckDB or
            Spark; the path of a file.
        model: whose types they are.
        type_name: the type of the rows; not needed for objects of the model's classes, nor if the model has one root.
    """
    if type_name is not None:
        _root(model, type_name)
    if isinstance(data, str | os.PathLike):
        yield file_rows(data, _root(model, type_name), model=model)
    elif _is_spark(data):
        yield ArrowRows(_root(model, type_name), data.toArrow())
    elif hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        yield ArrowRows(_root(model, type_name), data)
    elif hasattr(data, "arrow") and type(data).__module__.startswith(("duckdb", "_duckdb")):
        yield ArrowRows(_root(model, type_name), data.arrow())
    elif isinstance(data, Mapping):
        yield DictRows(_root(model, type_name), (data,))
    elif (name := _class_type(data, model)) is not None:
        yield ObjectRows(type_name or name, (data,))
    elif isinstance(data, Iterable) and not isinstance(data, bytes | bytearray | memoryview):
        yield from _many(iter(data), model, type_name)
    else:
        raise InputError(f"{type(data).__name__} cannot be published: no rows, and no object of the model", "WrongType")


def file_rows(
    path: str | os.PathLike[str], type_name: str, file_format: Format | None = None, *, model: Model | None = None
) -> RowSource:
    """The rows of a file; the format by its ending if it is not given.

    With a model the columns of a CSV file are read as its types; else as what they look like.
    """
    place = Path(path)
    if not place.exists():
        raise NotFoundError(f"there is no file {place}")
    found = file_format or _ENDINGS.get(place.suffix.lower())
    if found is None:
        raise InputError(
            f"{place}: no format is known by the ending {place.suffix!r}; give one of parquet, json, csv", "Format"
        )
    match found:
        case "json":
            return DictRows(type_name, _json_rows(place))
        case "parquet":
            _pyarrow("reading Parquet")
            import pyarrow.parquet

            return ArrowRows(type_name, _read(pyarrow.parquet.read_table, place))
        case "csv":
            _pyarrow("reading CSV")
            import pyarrow.csv

            parsing = pyarrow.csv.ParseOptions(delimiter="\t" if place.suffix.lower() == ".tsv" else ",")
            types = None if model is None or type_name not in model.schemas else flat_columns(model, type_name)
            converting = pyarrow.csv.ConvertOptions(column_types=types)
            table = _read(pyarrow.csv.read_csv, place, parse_options=parsing, convert_options=converting)
            return ArrowRows(type_name, table)
        case "arrow":
            _pyarrow("reading Arrow files")
            import pyarrow.feather

            return ArrowRows(type_name, _read(pyarrow.feather.read_table, place))
    raise InputError(f"{found!r} is no format of files: parquet, json, csv or arrow", "Format")


def _many(items: Iterator[Any], model: Model, type_name: str | None) -> Iterator[RowSource]:
    """Rows of an iterable. Runs of one class or of dicts become one source, so that they are read by column."""
    run: list[Any] = []
    run_type = ""
    for item in items:
        name = type_name if isinstance(item, Mapping) else _class_type(item, model) or type_name
        if name is None and isinstance(item, Mapping):
            name = _root(model, None)
        if name is None:
            raise InputError(f"{type(item).__name__} is no class of the model, and no type is named", "WrongType")
        key = f"{'dict' if isinstance(item, Mapping) else 'object'} {name}"
        if run and (key != run_type or len(run) == RUN_ROWS):
            yield _run(run_type, run)
            run = []
        run_type = key
        run.append(item)
    if run:
        yield _run(run_type, run)


def _run(run_type: str, items: list[Any]) -> RowSource:
    kind, _, name = run_type.partition(" ")
    return DictRows(name, items) if kind == "dict" else ObjectRows(name, items)


def _class_type(item: Any, model: Model) -> str | None:
    for name, known in model.classes.items():
        if type(item) is known:
            return name
    return None


def _root(model: Model, type_name: str | None) -> str:
    if type_name is not None:
        if type_name not in model.schemas:
            raise NotFoundError(f"there is no type {type_name!r}; types: {', '.join(model.schemas.names)}")
        return type_name
    if len(model.roots) == 1:
        return model.roots[0]
    raise InputError(f"the rows may be of any of {', '.join(model.roots)}: say which type", "NoType")


def _is_spark(data: Any) -> bool:
    return type(data).__module__.startswith("pyspark.") and hasattr(data, "toArrow")


def _held(items: Iterable[Any]) -> Sequence[Any]:
    return items if isinstance(items, Sequence) else list(items)


def _json_rows(place: Path) -> Iterator[dict[str, Any]]:
    with place.open(encoding="utf-8") as file:
        first = file.read(1)
        while first.isspace():
            first = file.read(1)
        file.seek(0)
        if first == "[":
            yield from _checked_rows(place, enumerate(_parsed(place, 1, file.read()), 1))
            return
        lines = ((number, _parsed(place, number, line)) for number, line in enumerate(file, 1) if line.strip())
        yield from _checked_rows(place, lines)


def _parsed(place: Path, number: int, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}, line {number}: no JSON: {error}", "BadJson") from error


def _checked_rows(place: Path, rows: Iterable[tuple[int, Any]]) -> Iterator[dict[str, Any]]:
    for number, row in rows:
        if not isinstance(row, dict):
            raise InputError(f"{place}, row {number}: {type(row).__name__} where an object should be", "BadJson")
        yield row


def _read(reader: Any, place: Path, **options: Any) -> Any:
    import pyarrow

    try:
        return reader(str(place), **options)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{place} cannot be read: {error}", "BadFile") from error


def _pyarrow(need: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(need, "arrow") from None
    return pyarrow
