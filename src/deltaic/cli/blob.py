"""`deltaic blob`: look into snapshots and deltas."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from deltaic.errors import InputError, NotFoundError
from deltaic.limits import DEFAULT_LIMITS
from deltaic.schema.printing import type_text
from deltaic.schema.types import Field
from deltaic.state.dump import dump_state
from deltaic.state.read import ReadState
from deltaic.state.source import opened
from deltaic.wire.append import AppendedSection, AppendMode
from deltaic.wire.outline import Outline, TypeOutline, read_outline

app = typer.Typer(help="Look into snapshots and deltas.", no_args_is_help=True)


@app.command("show")
def show(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Snapshots, deltas, reverse deltas, parts.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Print what each blob holds: types, records, holes, shards, bits per field, bytes."""
    outlines = []
    for file in files:
        with opened(file, DEFAULT_LIMITS) as cursor:
            outlines.append(read_outline(cursor))
    if as_json:
        print(json.dumps([_as_json(outline) for outline in outlines], indent=2))
        return
    console = Console(soft_wrap=True)
    for outline in outlines:
        _print(console, outline)


@app.command("dump")
def dump(
    snapshot: Annotated[Path, typer.Argument(help="The snapshot to start from.")],
    deltas: Annotated[list[Path] | None, typer.Argument(metavar="DELTA...", help="Deltas to apply, in order.")] = None,
    parts: Annotated[
        list[str] | None,
        typer.Option(
            "--part", metavar="NAME[=FILE]", help="Read an optional part too: FILE, or its usual file beside each blob."
        ),
    ] = None,
    schema_append: Annotated[
        AppendMode,
        typer.Option(help="What to take of fields that deltas append: nothing, values of known fields, or all."),
    ] = AppendMode.OFF,
    as_json: Annotated[bool, typer.Option("--json", help="Print State JSON in one line.")] = False,
) -> None:
    """Print every record of the state that a snapshot and deltas lead to, as raw values."""
    blobs = [snapshot, *(deltas or [])]
    files = _part_files(blobs, parts or [])
    state = ReadState.load(snapshot, parts=files[0])
    for delta, beside in zip(blobs[1:], files[1:], strict=True):
        state = state.apply(delta, parts=beside, schema_append=schema_append)
    content = dump_state(state)
    # Unpaired surrogates are legal in Hollow's texts; escapes carry them through any terminal.
    json.dump(content, sys.stdout, indent=None if as_json else 2, ensure_ascii=True)
    print()


def _part_files(blobs: list[Path], wanted: list[str]) -> list[dict[str, Path]]:
    """The part files of each blob: `NAME` is the usual file beside each; files of `NAME=FILE` go to blobs in order."""
    files: list[dict[str, Path]] = [{} for _ in blobs]
    given: dict[str, int] = {}
    for word in wanted:
        name, equals, file = word.partition("=")
        if not name or (equals and not file):
            raise InputError(f"--part {word}: write NAME or NAME=FILE")
        if equals:
            place = given[name] = given.get(name, -1) + 1
            if place >= len(blobs):
                raise InputError(f"--part {word}: there are more files of part {name!r} than blobs")
            files[place][name] = Path(file)
            continue
        for blob, found in zip(blobs, files, strict=True):
            found[name] = _beside(blob, name)
    return files


def _beside(blob: Path, part: str) -> Path:
    """Where Hollow lays a part: `snapshot_images-7` beside `snapshot-7`."""
    kind, dash, rest = blob.name.partition("-")
    path = blob.with_name(f"{kind}_{part}{dash}{rest}")
    if not path.is_file():
        raise NotFoundError(f"there is no {path.name} in {path.parent}; name the file: --part {part}=FILE")
    return path


def _as_json(outline: Outline) -> dict[str, Any]:
    header = outline.header
    return {
        "file": outline.name,
        "kind": outline.kind,
        "part": header.part,
        "originTag": f"{header.origin_tag:016x}",
        "destinationTag": f"{header.destination_tag:016x}",
        "headerTags": dict(header.tags),
        "bytes": outline.size_bytes,
        "trailingBytes": outline.trailing_bytes,
        "types": [_type_as_json(one) for one in outline.types],
        "appended": None if outline.appended is None else _append_as_json(outline.appended),
    }


def _append_as_json(section: AppendedSection) -> dict[str, Any]:
    extension = section.extension
    return {
        "bytes": section.size_bytes,
        "plainBytes": section.plain_bytes,
        "codec": None if section.codec is None else section.codec.value,
        "definitions": {one.name: [_field_text(field) for field in one.fields] for one in section.definitions},
        "values": {one.name: {given.field.name: len(given) for given in one.fields} for one in section.values},
        "addedTypes": [str(one.schema) for one in extension.added_types],
        "removedTypes": list(extension.removed_types),
        "removedFields": [".".join(pair) for pair in extension.removed_fields],
        "renamedFields": {f"{name}.{new}": old for name, old, new in extension.renamed_fields},
        "keys": {name: list(key or ()) for name, key in extension.keys},
    }


def _field_text(field: Field) -> str:
    return f"{type_text(field)} {field.name}"


def _type_as_json(one: TypeOutline) -> dict[str, Any]:
    return {
        "name": one.schema.name,
        "kind": one.schema.kind.value,
        "records": one.populated,
        "holes": one.holes,
        "added": one.added,
        "removed": one.removed,
        "maxOrdinal": one.max_ordinal,
        "shards": one.shards,
        "bits": dict(one.bits),
        "bytes": one.size_bytes,
    }


def _print(console: Console, outline: Outline) -> None:
    header = outline.header
    part = f", part {header.part}" if header.part is not None else ""
    console.print(f"[bold]{outline.name}[/]: {outline.kind}{part}, {outline.size_bytes:,} bytes", highlight=False)
    console.print(f"  from {header.origin_tag:016x} to {header.destination_tag:016x}", highlight=False)
    for key, value in header.tags.items():
        console.print(f"  {key} = {value}", highlight=False, markup=False)
    delta = outline.kind == "delta"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("type", "kind"):
        table.add_column(column)
    for column in (("added", "removed") if delta else ("records", "holes")) + ("shards", "bytes"):
        table.add_column(column, justify="right")
    table.add_column("bits per field")
    for one in outline.types:
        counts = (one.added, one.removed) if delta else (one.populated or 0, one.holes or 0)
        table.add_row(
            one.schema.name,
            one.schema.kind.value,
            *(f"{count:,}" for count in counts),
            f"{one.shards:,}",
            f"{one.size_bytes:,}",
            " ".join(f"{name}:{width}" for name, width in one.bits),
        )
    console.print(table)
    if outline.appended is not None:
        _print_append(console, outline.appended)
    if outline.trailing_bytes:
        console.print(f"  {outline.trailing_bytes:,} bytes after the last type", highlight=False)


def _print_append(console: Console, section: AppendedSection) -> None:
    packed = f", {section.plain_bytes:,} unpacked ({section.codec})" if section.codec is not None else ""
    console.print(f"  appended section, {section.size_bytes:,} bytes{packed}", highlight=False)
    extension = section.extension
    counts = {(one.name, given.field.name): len(given) for one in section.values for given in one.fields}
    lines = [f"new type {one.schema.name} ({one.schema.kind})" for one in extension.added_types]
    lines += [f"removed type {name}" for name in extension.removed_types]
    lines += [f"removed field {name}.{field}" for name, field in extension.removed_fields]
    lines += [f"renamed field {name}.{old} to {new}" for name, old, new in extension.renamed_fields]
    lines += [f"primary key of {name}: {', '.join(key or ()) or 'none'}" for name, key in extension.keys]
    for one in section.definitions:
        for field in one.fields:
            count = counts.pop((one.name, field.name), 0)
            lines.append(f"new field {one.name}.{field.name} ({type_text(field)}), {count:,} values")
    lines += [f"{count:,} values of {name}.{field}" for (name, field), count in counts.items()]
    for line in lines:
        console.print(f"    {line}", highlight=False, markup=False)
