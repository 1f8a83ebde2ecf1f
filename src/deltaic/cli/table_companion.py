"""`deltaic table companion create, refresh, status`: an index over Parquet files that stay where they are."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from deltaic.errors import InputError

# pyarrow is imported by the command that needs it.
if TYPE_CHECKING:
    from deltaic.table.companion import Refresh

app = typer.Typer(help="An index over Parquet files or a Delta table that stay where they are.", no_args_is_help=True)

_Url = Annotated[str, typer.Argument(metavar="URL", help="The folder of a companion.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
_Note = Annotated[str | None, typer.Option("--note", help="Free text for the history.")]
_Delta = Annotated[int | None, typer.Option("--delta-version", help="Of a Delta table, instead of the newest.")]
_Moved = Annotated[str | None, typer.Option("--source", metavar="SOURCE", help="Where the source is now, if moved.")]
_SHOWN = 20


@app.command("create")
def create(
    url: _Url,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A folder of Parquet files, or a Delta table.")],
    text: Annotated[list[str] | None, typer.Option("--text", metavar="NAME", help="Searched by its words.")] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", metavar="NAME", help="Only this column; may be repeated.")
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", metavar="NAME[:TYPE]", help="A column of the paths, as in year=2020/."),
    ] = None,
    hive: Annotated[bool, typer.Option("--hive", help="Find the columns of the paths.")] = False,
    kind: Annotated[str | None, typer.Option("--kind", help="parquet or delta; else what is there.")] = None,
    delta_version: _Delta = None,
    split_mb: Annotated[int, typer.Option("--split-mb", help="Source files share a split up to this size.")] = 256,
    as_json: _Json = False,
) -> None:
    """Make the companion of a source and index it."""
    from deltaic.table.companion import Companion, CompanionOptions
    from deltaic.table.split import ColumnIndex

    if kind not in (None, "parquet", "delta"):
        raise InputError(f"--kind is parquet or delta, not {kind!r}")
    made = Companion.create(
        url,
        source,
        kind=kind,  # type: ignore[arg-type]
        index={name: ColumnIndex(kind="text") for name in text or ()},
        columns=column or None,
        partitions=dict(_partition(one) for one in partition or ()),
        hive=hive,
        version=delta_version,
        write=CompanionOptions(split_bytes=split_mb << 20),
    )
    status = made.status(version=delta_version)
    if as_json:
        print(json.dumps(status.to_dict()))
    else:
        print(f"created {made.url}: {status.rows:,} rows of {status.files:,} files in {status.splits:,} splits")


@app.command("refresh")
def refresh(
    url: _Url,
    source: _Moved = None,
    delta_version: _Delta = None,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="The folder may have no files any more.")] = False,
    note: _Note = None,
    as_json: _Json = False,
) -> None:
    """Index what is new or changed in the source and drop what is gone, in one version."""
    from deltaic.table.companion import Companion

    done = Companion.open(url, source=source).refresh(version=delta_version, note=note, allow_empty=allow_empty)
    print(json.dumps(done.to_dict()) if as_json else _told(done))


@app.command("status")
def status(url: _Url, source: _Moved = None, delta_version: _Delta = None, as_json: _Json = False) -> None:
    """Say what is indexed and how far that is behind the source."""
    from deltaic.table.companion import Companion

    found = Companion.open(url, source=source).status(version=delta_version)
    if as_json:
        print(json.dumps(found.to_dict()))
        return
    lines: dict[str, Any] = {
        "source": f"{found.source} ({found.kind})",
        "version": found.version,
        "indexed": f"{found.rows:,} rows of {found.files:,} files, {found.source_bytes:,} bytes",
        "index": f"{found.splits:,} splits, {found.index_bytes:,} bytes",
        "stale": "yes: refresh" if found.stale else "no",
    }
    if found.source_version is not None:
        lines["delta version"] = f"{found.indexed_version} indexed, {found.source_version} there"
    grid = Grid(box=None, show_header=False, pad_edge=False)
    for name, value in lines.items():
        grid.add_row(name, escape(str(value)))
    for name, paths in (("new", found.new), ("changed", found.changed), ("gone", found.gone)):
        for path in paths[:_SHOWN]:
            grid.add_row(name, escape(path))
        if len(paths) > _SHOWN:
            grid.add_row(name, f"and {len(paths) - _SHOWN:,} more")
    Console(soft_wrap=True).print(grid)


def _told(done: "Refresh") -> str:
    if not done.committed:
        return f"nothing changed: version {done.version}"
    files = f"{done.added} new, {done.changed} changed, {done.removed} gone, {done.reindexed} indexed again"
    splits = f"{done.splits_added} splits in, {done.splits_removed} out"
    return f"version {done.version}: source files {files}; {splits}; {done.rows:,} rows indexed"


def _partition(text: str) -> tuple[str, Any]:
    import pyarrow as pa

    name, _, kind = text.partition(":")
    if not kind:
        return name, None
    try:
        return name, pa.type_for_alias(kind)
    except ValueError:
        raise InputError(f"--partition {text}: Arrow knows no type {kind!r}; int32, date32, string, …") from None
