"""`deltaic schema`: check models, and compare them before a producer goes on with another one."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from deltaic.errors import DecodeError, InputError, SchemaError
from deltaic.limits import DEFAULT_LIMITS
from deltaic.schema.evolve import Change, Effect, compare
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.text import parse_schemas

app = typer.Typer(help="Check and compare models: schema texts, snapshots.", no_args_is_help=True)

_BLOB_MAGICS = (b"\x00\x00\x04\x06", b"\x00\x00\x04\x07")


@app.command("check")
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Schema texts or blobs.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Parse and validate schemas: names, references, keys. Exit 1 if any file is not in order."""
    results = [_checked(file) for file in files]
    if as_json:
        print(json.dumps(results, indent=2))
    else:
        for result in results:
            print(_check_line(result))
    raise typer.Exit(0 if all(result["error"] is None for result in results) else 1)


@app.command("diff")
def diff(
    old: Annotated[Path, typer.Argument(help="The model that readers have: a schema text or a snapshot.")],
    new: Annotated[Path, typer.Argument(help="The model that is to follow.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail also where readers go stale: removals, new keys.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Print what changes from one model to another. Exit 1 if readers that follow deltas would break."""
    changes = compare(load_whole_model(old), load_whole_model(new))
    failing = [
        change for change in changes if change.effect is Effect.BREAKS or (strict and change.effect is Effect.STALE)
    ]
    if as_json:
        content = {"breaks": bool(changes.breaks_readers), "changes": [_as_json(change) for change in changes]}
        print(json.dumps(content, indent=2))
    else:
        _print(list(changes))
    raise typer.Exit(1 if failing else 0)


def load_schemas(path: Path) -> tuple[SchemaSet, str]:
    """The schemas of a file, and what it is: `text`, `snapshot`, `delta`, `header` or `part`."""
    with path.open("rb") as file:
        magic = file.read(4)
    if magic in _BLOB_MAGICS:
        from deltaic.state.source import opened
        from deltaic.wire.outline import read_outline

        with opened(path, DEFAULT_LIMITS) as cursor:
            outline = read_outline(cursor)
        schemas = SchemaSet(outline.header.schemas or [one.schema for one in outline.types])
        return schemas, outline.kind if outline.header.part is None else "part"
    size_bytes = path.stat().st_size
    if size_bytes > DEFAULT_LIMITS.max_schema_bytes:
        raise InputError(f"{path}: {size_bytes:,} bytes, limit for schemas is {DEFAULT_LIMITS.max_schema_bytes:,}")
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError("BadText", "neither a Hollow blob nor UTF-8 text", f"{path}: byte {error.start}") from error
    return parse_schemas(text, str(path)), "text"


def load_whole_model(path: Path) -> SchemaSet:
    """The schemas of a file that lists them all; a delta lists only the types that it changes."""
    schemas, kind = load_schemas(path)
    if kind == "delta":
        raise InputError(
            f"{path} is a delta, which lists only the types that it changes; give a snapshot or a schema text"
        )
    return schemas.validated(partial=kind != "text")


def _checked(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = {
        "file": str(path),
        "kind": None,
        "types": None,
        "hash": None,
        "unresolved": [],
        "error": None,
    }
    try:
        schemas, kind = load_schemas(path)
        schemas.validated(partial=kind != "text")
    except (SchemaError, DecodeError, InputError, OSError) as error:
        return result | {"error": str(error)}
    found = {"kind": kind, "types": len(schemas), "hash": schemas.hash(), "unresolved": list(schemas.unresolved())}
    return result | found


def _check_line(result: dict[str, Any]) -> str:
    error, file = result["error"], result["file"]
    if error is not None:
        return error if error.startswith(file) else f"{file}: {error}"
    line = f"{file}: {result['kind']}, {result['types']} types, schema hash {result['hash']}"
    return f"{line}; refers to types elsewhere: {', '.join(result['unresolved'])}" if result["unresolved"] else line


def _as_json(change: Change) -> dict[str, Any]:
    return {
        "change": change.kind.value,
        "type": change.type_name,
        "field": change.field_name,
        "old": change.old,
        "new": change.new,
        "effect": change.effect.value,
        "reason": change.reason,
    }


def _print(changes: list[Change]) -> None:
    if not changes:
        print("no changes")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("effect", "where", "change", "what readers see"):
        table.add_column(column, overflow="fold")
    for change in changes:
        what = str(change).removeprefix(f"{change.where}: ")
        table.add_row(change.effect.value, change.where, what, change.reason)
    Console(soft_wrap=True, markup=False, highlight=False).print(table)
