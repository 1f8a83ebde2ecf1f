"""`deltaic vector`: look into vector deltas, batch frames, dictionaries and vector parts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from deltaic.errors import DeltaicError, InputError, StorageError
from deltaic.vector.part_read import ColumnReader, read_part
from deltaic.wire.vectors import (
    DEFAULT_VECTOR_LIMITS,
    Dictionary,
    Format,
    Frame,
    KnownDictionaries,
    Message,
    read_frames,
    read_stream,
)
from deltaic.wire.vectors.layout import Column, Type
from deltaic.wire.vectors.options import Flag, Mode

Json = dict[str, Any]

_MOST_ROWS = 20
_CODECS = {1: "zstd", 2: "zlib", 3: "lz4"}
_KINDS = {0x7A: "messages", 0x7B: "frames", 0x7C: "columns", 0x7D: "dictionary"}

app = typer.Typer(help="Look into vector deltas.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Look into vector deltas."""


@app.command("show")
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Messages, frames, a dictionary or a vector part.")],
    dictionaries: Annotated[
        list[Path] | None,
        typer.Option("--dictionary", metavar="FILE", help="A dictionary that the file refers to; as often as needed."),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", help="So many messages or rows are listed; 0 lists all.")] = _MOST_ROWS,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs, all messages and rows.")] = False,
) -> None:
    """Print what a file of vector deltas holds: formats, flags, changed dimensions, buffers, bytes."""
    known = KnownDictionaries(Dictionary.read(_read(path), name=path.name) for path in dictionaries or [])
    data = _read(file)
    kind = _KINDS.get(data[1] if len(data) > 1 and data[0] == 0xDE else -1)
    if kind is None:
        raise InputError(f"{file.name} is no vector delta: it starts with none of DE 7A, DE 7B, DE 7C, DE 7D")
    shown: Json = {"file": file.name, "kind": kind, "bytes": len(data)}
    if kind == "columns":
        header = read_part(data, name=file.name).header
        shown |= {"delta": header.delta, "from": f"{header.origin_tag:016x}", "to": f"{header.destination_tag:016x}"}
    items, error = _items(kind, data, file.name, known, every_row=as_json)
    shown[kind if kind != "dictionary" else "patterns"] = items
    if as_json:
        print(json.dumps(shown, indent=2))
    else:
        _print(shown, kind, items, rows)
    if error is not None:
        raise error


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > DEFAULT_VECTOR_LIMITS.max_frame_bytes:
            raise InputError(f"{path.name} is larger than {DEFAULT_VECTOR_LIMITS.max_frame_bytes:,} bytes")
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from error


def _items(
    kind: str, data: bytes, name: str, known: KnownDictionaries, *, every_row: bool
) -> tuple[list[Json], DeltaicError | None]:
    """What could be read, and the error that ended it: what is good before a fault is shown."""
    items: list[Json] = []
    try:
        for item in _each(kind, data, name, known, every_row):
            items.append(item)
    except DeltaicError as error:
        return items, error
    return items, None


def _each(kind: str, data: bytes, name: str, known: KnownDictionaries, every_row: bool) -> Iterator[Json]:
    if kind == "messages":
        for start, message in read_stream(data, dictionaries=known, name=name):
            yield _message(start, message)
    elif kind == "frames":
        for frame in read_frames(data, dictionaries=known, name=name):
            yield _frame(frame, every_row)
    elif kind == "columns":
        for reader in read_part(data, name=name).columns():
            yield _column(reader)
    else:
        dictionary = Dictionary.read(data, name=name)
        for number, pattern in dictionary.patterns.items():
            yield {
                "dictionary": dictionary.dict_id,
                "version": dictionary.version,
                "pattern": number,
                "dims": dictionary.dims,
                "indices": pattern.indices.tolist(),
                "hitCount": pattern.hit_count,
                "lastUsed": pattern.last_used,
            }


def _flags(flags: int) -> list[str]:
    names = [str(flag.name).lower() for flag in Flag if flags & flag]
    return [*names, Mode(flags >> 4).name.lower()] if flags >> 4 else names


def _message(start: int, message: Message) -> Json:
    delta = message.delta
    shown: Json = {
        "offset": start,
        "bytes": message.size_bytes,
        "version": message.version,
        "format": message.format.name.lower(),
        "flags": _flags(message.flags),
        "dims": delta.dims,
        "changed": len(delta.indices),
        "indices": delta.indices.tolist(),
    }
    if message.reference is not None:
        shown["dictionary"] = {
            "id": message.reference.dict_id,
            "version": message.reference.dict_version,
            "pattern": message.reference.pattern_id,
        }
    return shown


def _frame(frame: Frame, every_row: bool) -> Json:
    shown: Json = {
        "bytes": frame.size_bytes,
        "dims": frame.dims,
        "flags": _flags(frame.flags),
        "rows": len(frame),
        "sections": [
            {"format": section.format.name.lower(), "rows": len(section), "values": len(section.words)}
            for section in frame.sections
        ],
        "buffers": [
            {
                "section": Format(entry.section).name.lower(),
                "column": Column(entry.column).name.lower(),
                "type": Type(entry.type).name.lower(),
                "codec": _codec(entry.codec),
                "stored": entry.stored_length,
                "raw": entry.raw_length,
            }
            for entry in frame.directory
        ],
    }
    if every_row:
        shown["changes"] = [
            {"row": row_id, "format": form.name.lower(), "indices": delta.indices.tolist()}
            for row_id, form, delta in frame.rows()
        ]
    return shown


def _column(reader: ColumnReader) -> Json:
    head = reader.head
    shown: Json = {
        "column": f"{head.type_name}.{head.field_name}",
        "dims": head.dimensions,
        "vectors": head.rows,
        "checksum": f"{head.checksum:016x}",
        "fromNothing": head.from_nothing,
        "removed": len(head.removed),
        "moved": len(head.targets),
        "new": 0,
        "changed": 0,
        "frames": 0,
        "bytes": 0,
    }
    for fresh, frame in reader.frames():
        shown["new" if fresh else "changed"] += len(frame)
        shown["frames"] += 1
        shown["bytes"] += frame.size_bytes
    return shown


def _codec(number: int) -> str:
    return "" if not number else _CODECS[number & 15] + (" planes" if number & 0xF0 else "")


def _print(shown: Json, kind: str, items: list[Json], most: int) -> None:
    console = Console(soft_wrap=True)
    console.print(f"[bold]{shown['file']}[/]: {len(items)} {_noun(kind)}, {shown['bytes']:,} bytes", highlight=False)
    if kind == "frames":
        for item in items:
            _print_frame(console, item)
        return
    listed = items if not most else items[:most]
    columns: tuple[str, ...] = ("pattern", "dims", "hitCount", "lastUsed")
    if kind == "columns":
        way = f"from state {shown['from']} to {shown['to']}" if shown["delta"] else f"of state {shown['to']}"
        console.print(f"  {way}", highlight=False)
        columns = ("column", "dims", "vectors", "new", "changed", "moved", "removed", "frames", "bytes")
    if kind == "messages":
        columns = ("offset", "bytes", "version", "format", "flags", "dims", "changed")
    console.print(_table(listed, columns))
    if len(listed) < len(items):
        console.print(f"  and {len(items) - len(listed):,} more: --rows 0 lists all", highlight=False)


def _noun(kind: str) -> str:
    return "patterns of a dictionary" if kind == "dictionary" else f"{kind[:-1]}(s)"


def _print_frame(console: Console, item: Json) -> None:
    flags = ", ".join(item["flags"]) or "absolute values"
    console.print(f"  {item['rows']:,} rows of {item['dims']:,} dimensions, {flags}", highlight=False)
    for section in item["sections"]:
        console.print(f"  {section['format']}: {section['rows']:,} rows, {section['values']:,} values", highlight=False)
    if item["buffers"]:
        console.print(_table(item["buffers"], ("section", "column", "type", "codec", "stored", "raw")))


def _table(items: list[Json], columns: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="left" if any(isinstance(item[column], str) for item in items) else "right")
    for item in items:
        table.add_row(*(_cell(item[column]) for column in columns))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
