"""`deltaic table create, append, scan, search, delete, update, merge, compact`: the rows of a table."""

import base64
import datetime
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Bars
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from deltaic.errors import InputError

# pyarrow is imported by the command that needs it: `deltaic table history` does without.
if TYPE_CHECKING:
    from deltaic.table.rows import RowCommit, Table
    from deltaic.table.rows.writing import Listener

MAPPED_KEYS = ("deltaic.columns", "deltaic.constraints", "deltaic.key", "deltaic.index")
"""A table whose configuration has one of these is one of rows, with columns that go back by their own way."""

app = typer.Typer(help="The rows of a table.", no_args_is_help=True)

_Url = Annotated[str, typer.Argument(metavar="URL", help="The folder of a table.")]
_Data = Annotated[list[Path], typer.Argument(metavar="DATA...", help="Files: Parquet, JSON lines, CSV, Arrow.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
_Where = Annotated[str | None, typer.Option("--where", metavar="CONDITION", help="Only rows for which this is true.")]
_Note = Annotated[str | None, typer.Option("--note", help="Free text for the history.")]
_Run = Annotated[bool, typer.Option("--run", help="Do it. Without this, only tell how many rows it is about.")]
_Version = Annotated[int | None, typer.Option("--version", help="At this version instead of the newest.")]
_Timestamp = Annotated[str | None, typer.Option("--timestamp", help="At this time: 2024-01-31T12:00:00+00:00.")]
_Tag = Annotated[str | None, typer.Option("--tag", help="At this tag.")]
_Columns = Annotated[list[str] | None, typer.Option("--column", metavar="NAME", help="A column; may be repeated.")]


@app.command("create")
def create(
    url: _Url,
    schema: Annotated[Path | None, typer.Option("--schema", metavar="FILE", help="Spark's JSON of a schema.")] = None,
    like: Annotated[Path | None, typer.Option("--like", metavar="FILE", help="A file with the same columns.")] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", metavar="NAME:TYPE", help="A column, by Spark's name of its type.")
    ] = None,
    partition_by: Annotated[list[str] | None, typer.Option("--partition-by", metavar="NAME")] = None,
    key: Annotated[list[str] | None, typer.Option("--key", metavar="NAME", help="Tells rows apart.")] = None,
    text: Annotated[list[str] | None, typer.Option("--text", metavar="NAME", help="Searched by its words.")] = None,
    check: Annotated[list[str] | None, typer.Option("--check", metavar="NAME=CONDITION", help="A constraint.")] = None,
    as_json: _Json = False,
) -> None:
    """Make a table without rows, by a schema, by a file, or by its columns."""
    from deltaic.table.rows import Table
    from deltaic.table.split import ColumnIndex

    if sum(one is not None for one in (schema, like, column)) != 1:
        raise InputError("a table is made by --schema, --like or --column: one of them")
    found: Any
    if schema is not None:
        found = schema.read_text()
    elif like is not None:
        found = _reader(like, None).schema
    else:
        found = _schema_of(column or [])
    table = Table.create(
        url,
        found,
        partition_by=tuple(partition_by or ()),
        key=tuple(key or ()),
        index={name: ColumnIndex(kind="text") for name in text or ()},
        constraints=_pairs(check or [], "--check"),
    )
    if as_json:
        print(json.dumps({"url": table.url, "version": table.version, "columns": table.schema.names}))
    else:
        print(f"created {table.url}: {', '.join(f'{field.name} {field.type}' for field in table.schema)}")


@app.command("append")
def append(url: _Url, data: _Data, note: _Note = None, as_json: _Json = False) -> None:
    """Add the rows of files, all in one version."""
    table = open_rows(url)
    with _watched(as_json) as progress:
        done = table.append(_batches(data, table.schema), note=note, progress=progress)
    _told(done, as_json)


@app.command("scan")
def scan(
    url: _Url,
    column: _Columns = None,
    where: _Where = None,
    limit: Annotated[int | None, typer.Option("--limit", help="So many rows at most; by default all.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say how rows are found, and read none.")] = False,
    count: Annotated[bool, typer.Option("--count", help="Only how many there are.")] = False,
    version: _Version = None,
    timestamp: _Timestamp = None,
    tag: _Tag = None,
    as_json: _Json = False,
) -> None:
    """Print rows, all of them or those for which a condition is true."""
    view = open_rows(url).at(version=version, timestamp=timestamp, tag=tag)
    if explain:
        found = view.explain(column, where)
        print(json.dumps(found.to_dict()) if as_json else found)
    elif count:
        print(json.dumps({"rows": view.count(where=where)}) if as_json else view.count(where=where))
    else:
        _print_rows(view.scan(column, where, limit), as_json)


@app.command("search")
def search(
    url: _Url,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for, as in title:matrix.")],
    column: _Columns = None,
    where: _Where = None,
    limit: Annotated[int, typer.Option("--limit", "-k", help="The best so many; 0 is all.")] = 10,
    snippet: Annotated[
        list[str] | None, typer.Option("--snippet", metavar="NAME", help="Show where it matched.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say how it was answered.")] = False,
    version: _Version = None,
    timestamp: _Timestamp = None,
    tag: _Tag = None,
    as_json: _Json = False,
) -> None:
    """Print the rows that match a query, best first; of a table or of a companion."""
    view = _searched(url, version=version, timestamp=timestamp, tag=tag)
    found = view.search(query, where=where, k=limit or None, columns=column, snippets=snippet or (), total=True)
    if explain:
        print(json.dumps(asdict(found.explain)) if as_json else found.explain)
        return
    _print_rows(found.table.to_reader(), as_json)
    if not as_json:
        print(f"{len(found):,} of {found.hits:,} rows")


@app.command("delete")
def delete(
    url: _Url,
    where: _Where = None,
    query: Annotated[str | None, typer.Option("--query", help="Only rows that a search finds.")] = None,
    run: _Run = False,
    note: _Note = None,
    as_json: _Json = False,
) -> None:
    """Delete the rows for which a condition is true, or that a search finds."""
    if where is None and query is None:
        raise InputError("say which rows: by --where or --query")
    table = open_rows(url)
    if not run:
        _would("delete", table.count(query, where), as_json)
        return
    with _watched(as_json) as progress:
        done = table.delete(where, query=query, note=note, progress=progress)
    _told(done, as_json)


@app.command("update")
def update(
    url: _Url,
    settings: Annotated[list[str], typer.Option("--set", metavar="NAME=VALUE", help="A column and its new value.")],
    where: _Where = None,
    run: _Run = False,
    note: _Note = None,
    as_json: _Json = False,
) -> None:
    """Set columns of the rows for which a condition is true; a value is JSON, or a text of the column's type."""
    table = open_rows(url)
    wanted = {name: _value(text, table.schema, name) for name, text in _pairs(settings, "--set").items()}
    if not run:
        _would("update", table.count(where=where), as_json)
        return
    with _watched(as_json) as progress:
        done = table.update(wanted, where, note=note, progress=progress)
    _told(done, as_json)


@app.command("merge")
def merge(
    url: _Url,
    data: _Data,
    on: Annotated[
        list[str] | None, typer.Option("--on", metavar="NAME", help="Match by this; by default the key.")
    ] = None,
    update_matched: Annotated[bool, typer.Option("--update/--no-update", help="Update rows that match.")] = True,
    insert: Annotated[bool, typer.Option("--insert/--no-insert", help="Insert rows without a match.")] = True,
    delete_missing: Annotated[
        bool, typer.Option("--delete-missing", help="Delete rows of the table that the files have not.")
    ] = False,
    note: _Note = None,
    as_json: _Json = False,
) -> None:
    """Update the rows that match those of files by key, and insert the others."""
    from deltaic.table.rows import Delete, Insert, Update

    table = open_rows(url)
    with _watched(as_json) as progress:
        done = table.merge(
            _batches(data, table.schema),
            on=on,
            matched=[Update()] if update_matched else [],
            not_matched=[Insert()] if insert else [],
            not_matched_by_source=[Delete()] if delete_missing else [],
            note=note,
            progress=progress,
        )
    _told(done, as_json)


@app.command("compact")
def compact(
    url: _Url,
    target_mb: Annotated[float, typer.Option("--target-mb", help="The size of a split that is large enough.")] = 128.0,
    where: _Where = None,
    note: _Note = None,
    as_json: _Json = False,
) -> None:
    """Merge small splits of one partition into larger ones. No row changes."""
    table = open_rows(url)
    with _watched(as_json) as progress:
        done = table.compact(target_bytes=int(target_mb * 2**20), where=where, note=note, progress=progress)
    if as_json:
        print(json.dumps(done.to_dict()))
        return
    print(
        f"version {done.version}: {done.files_before} files ({done.bytes_before:,} bytes) became {done.files_after} "
        f"({done.bytes_after:,} bytes)"
    )
    for path in done.skipped:
        print(f"skipped for a day: {path}")


def print_row_changes(url: str, from_version: int, to_version: int | None, *, net: bool, as_json: bool) -> None:
    """Print the rows that changed from one version to another."""
    _print_rows(open_rows(url).changes(from_version, to_version, net=net), as_json)


def open_rows(url: str) -> "Table":
    """The table of rows at a URL."""
    from deltaic.table.rows import Table

    return Table.open(url)


def _searched(url: str, **at: Any) -> Any:
    """A version of a table, or a companion, which has only the newest."""
    try:
        return open_rows(url).at(**at)
    except InputError as error:
        if error.code != "Companion":
            raise
    if any(value is not None for value in at.values()):
        raise InputError("a companion is searched as it is: it has no version, timestamp or tag to go back to")
    from deltaic.table.companion import Companion

    return Companion.open(url)


def _schema_of(columns: list[str]) -> str:
    fields = []
    for column in columns:
        name, colon, kind = column.rpartition(":")
        if not colon or not name:
            raise InputError(f"{column!r} is not NAME:TYPE")
        fields.append({"name": name, "type": kind, "nullable": True, "metadata": {}})
    return json.dumps({"type": "struct", "fields": fields})


def _pairs(texts: list[str], option: str) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"{option}: {text!r} has no =")
        found[name.strip()] = value.strip()
    return found


def _value(text: str, schema: Any, name: str) -> Any:
    import pyarrow as pa

    if schema.get_field_index(name) < 0:
        raise InputError(f"there is no column {name!r}; there are {', '.join(schema.names)}", "NoColumn")
    kind = schema.field(name).type
    if text == "null":
        return None
    if pa.types.is_nested(kind) or text.startswith('"'):
        try:
            return json.loads(text)
        except ValueError as error:
            raise InputError(f"{name}: {text!r} is no JSON: {error}") from error
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_binary(plain) or pa.types.is_large_binary(plain):
        return text.encode()
    try:
        return pa.scalar(text).cast(plain)
    except pa.ArrowException as error:
        raise InputError(f"{name}: {text!r} is no {kind}") from error


def _batches(paths: list[Path], schema: Any) -> Iterator[Any]:
    for path in paths:
        yield from _reader(path, schema)


def _reader(path: Path, schema: Any) -> Any:
    """The rows of a file as batches; the columns of text formats get the types of the table."""
    import pyarrow as pa

    if not path.is_file():
        raise InputError(f"there is no file {path}")
    ending = path.suffix.lower()
    try:
        if ending in (".parquet", ".pq"):
            from pyarrow import parquet

            file = parquet.ParquetFile(path)
            return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        if ending == ".csv":
            from pyarrow import csv

            types = {} if schema is None else {field.name: _plain_type(field.type) for field in schema}
            options = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
            return csv.open_csv(path, convert_options=options)
        if ending in (".json", ".jsonl", ".ndjson"):
            return _json_rows(path, schema).to_reader()
        if ending in (".arrow", ".ipc", ".feather"):
            file = pa.ipc.open_file(path)
            return pa.RecordBatchReader.from_batches(
                file.schema, (file.get_batch(number) for number in range(file.num_record_batches))
            )
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
    raise InputError(f"{path}: the ending says no format: .parquet, .json, .csv or .arrow")


def _json_rows(path: Path, schema: Any) -> Any:
    """The rows of a file of JSON lines. Arrow reads no days and times of day there: they are read as texts first."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    with path.open(encoding="utf-8") as lines:
        first = next((line for line in lines if line.strip()), "{}")
    names = json.loads(first)
    if schema is None or not isinstance(names, dict):
        return arrow_json.read_json(path)
    wanted = {field.name: _plain_type(field.type) for field in schema if field.name in names}
    texts = {name for name, kind in wanted.items() if pa.types.is_date(kind) or pa.types.is_time(kind)}
    read = pa.schema([(name, pa.string() if name in texts else kind) for name, kind in wanted.items()])
    found = arrow_json.read_json(path, parse_options=arrow_json.ParseOptions(explicit_schema=read))
    for name in texts:
        found = found.set_column(found.column_names.index(name), name, found.column(name).cast(wanted[name]))
    return found


def _plain_type(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        # No reader of text formats makes these; the table does, and says which row has another size.
        return pa.list_(kind.value_field)
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@contextmanager
def _watched(as_json: bool) -> "Iterator[Listener | None]":
    """A line that counts rows and splits, where somebody sees it."""
    console = Console(stderr=True)
    if as_json or not console.is_terminal:
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task("reading")

        def told(progress: Any) -> None:
            of = "" if progress.total_rows is None else f" of {progress.total_rows:,}"
            bars.update(
                task,
                description=f"{progress.operation}: {progress.rows:,}{of} rows, {progress.files} splits, "
                f"{progress.bytes:,} bytes",
            )

        yield told


def _told(done: "RowCommit", as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(done)))
        return
    rows = "" if done.rows is None else f", {done.rows:,} rows"
    print(f"{done.operation}: version {done.version}{rows}{', was done already' if done.repeated else ''}")


def _would(verb: str, rows: int, as_json: bool) -> None:
    print(json.dumps({"rows": rows, "done": False}) if as_json else f"would {verb} {rows:,} rows; --run does it")


def _print_rows(reader: Any, as_json: bool) -> None:
    """Rows as lines of JSON, or as a table of a hundred at a time, so that any number can be printed."""
    if as_json:
        for batch in reader:
            for row in batch.to_pylist():
                print(json.dumps(_plain(row), ensure_ascii=False))
        return
    console = Console()
    any_rows = False
    for batch in reader:
        for first in range(0, batch.num_rows, 100):
            any_rows = True
            grid = Grid(box=None, pad_edge=False)
            for name in reader.schema.names:
                grid.add_column(escape(name), overflow="fold")
            for row in batch.slice(first, 100).to_pylist():
                grid.add_row(*(escape(_shown(value)) for value in row.values()))
            console.print(grid)
    if not any_rows:
        print("no rows")


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping | list):
        return json.dumps(_plain(value), ensure_ascii=False)
    return str(_plain(value))


def _plain(value: Any) -> Any:
    """A value as JSON has it; bytes in base 64, what JSON has no number for as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Decimal | datetime.timedelta):
        return str(value)
    return value
